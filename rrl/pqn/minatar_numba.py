"""MinAtar's games compiled by numba: what `rrl.pqn.minatar.MinAtarPool` runs.

One record holds the state of one environment, one row of `planes` its picture: a channel has 100 cells,
cell 10 y + x lies in column x and row y from the top. Random numbers are drawn in the order in which
the `minatar` package draws them, so that both can be fed the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import config

from rrl._compiled import njit

if TYPE_CHECKING:
    from typing import Any

__all__ = ["ACTIONS", "COMMON", "KERNELS"]

ACTIONS = ("nothing", "left", "up", "right", "down", "fire")
NOTHING, LEFT, UP, RIGHT, DOWN, FIRE = range(6)
COMMON = [("random", "u8"), ("last", "i1"), ("over", "?"), ("total", "f8"), ("age", "i8")]

WEYL, MIX_1, MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S11, S27, S30, S31, S32 = (np.uint64(bits) for bits in (11, 27, 30, 31, 32))


@njit()
def bits(g: Any) -> Any:  # pragma: no cover (compiled)
    """64 random bits of one environment: SplitMix64."""
    g.random += WEYL
    z = g.random
    z = (z ^ (z >> S30)) * MIX_1
    z = (z ^ (z >> S27)) * MIX_2
    return z ^ (z >> S31)


@njit()
def uniform(g: Any) -> Any:  # pragma: no cover (compiled)
    """A number in [0, 1), a multiple of 2^-53."""
    return np.float64(bits(g) >> S11) * 2.0**-53


@njit()
def below(g: Any, k: Any) -> Any:  # pragma: no cover (compiled)
    """An integer in 0..k-1; its chance is off by less than 2^-32."""
    return np.int64(((bits(g) >> S32) * np.uint64(k)) >> S32)


@njit()
def sticky_action(g: Any, action: Any, sticky: Any) -> Any:  # pragma: no cover (compiled)
    """The action, or with chance `sticky` the one taken last, which outlives the game."""
    if uniform(g) < sticky:
        action = g.last
    g.last = action
    return action


def stepper(start: Any, play: Any) -> Any:
    """Compile one step of every environment of a game from its two functions."""

    @njit(nogil=True)
    def step(games, planes, actions, sticky, ramping, reward, ended):  # pragma: no cover (compiled)
        for i in range(len(games)):
            if games[i].over:
                start(games[i], planes[i])
            else:
                action = sticky_action(games[i], actions[i], sticky)
                reward[i], ended[i] = play(games[i], planes[i], action, ramping)

    def interpreted(games, *others):
        # SplitMix64 wraps around.
        with np.errstate(over="ignore"):
            step(games.view(np.recarray), *others)

    return interpreted if config.DISABLE_JIT else step  # pyright: ignore[reportAttributeAccessIssue]


# Breakout: channels paddle, ball, trail, bricks

BREAKOUT = [(name, "i1") for name in ("x", "y", "dx", "dy", "paddle")] + [("struck", "?")]


@njit()
def start_breakout(g: Any, planes: Any) -> None:  # pragma: no cover (compiled)
    right = below(g, 2)
    g.x, g.y, g.paddle, g.struck = 9 * right, 3, 4, False
    g.dx, g.dy = 1 - 2 * right, 1
    planes[:] = 0
    planes[3, 10:40] = 1
    planes[0, 94] = planes[1, 30 + g.x] = planes[2, 30 + g.x] = 1


@njit()
def play_breakout(g: Any, planes: Any, action: Any, ramping: Any) -> Any:  # pragma: no cover (compiled)
    bricks = planes[3]
    reward, ended, struck = 0, False, False
    if action == LEFT:
        g.paddle = max(g.paddle - 1, 0)
    elif action == RIGHT:
        g.paddle = min(g.paddle + 1, 9)
    old_x, old_y = g.x, g.y
    x, y = old_x + g.dx, old_y + g.dy
    if x < 0 or x > 9:
        x, g.dx = old_x, -g.dx
    if y < 0:
        y, g.dy = 0, -g.dy
    elif bricks[10 * y + x]:
        # A ball that struck in the step before flies through.
        struck = True
        if not g.struck:
            reward = 1
            bricks[10 * y + x] = 0
            y, g.dy = old_y, -g.dy
    elif y == 9:
        if not bricks.any():
            bricks[10:40] = 1
        if g.paddle == old_x:
            y, g.dy = old_y, -g.dy
        elif g.paddle == x:
            y, g.dx, g.dy = old_y, -g.dx, -g.dy
        else:
            ended = True
    g.x, g.y, g.struck = x, y, struck
    planes[:3] = 0
    planes[0, 90 + g.paddle] = planes[1, 10 * y + x] = planes[2, 10 * old_y + old_x] = 1
    return reward, ended


step_breakout = stepper(start_breakout, play_breakout)


# Space Invaders: channels cannon, aliens, aliens going left, aliens going right, own bullets, their bullets

SPACE_INVADERS = [
    (name, "i1") for name in ("cannon", "heading", "pace", "pace_timer", "alien_shot_timer", "shot_timer")
]


@njit()
def start_space_invaders(g: Any, planes: Any) -> None:  # pragma: no cover (compiled)
    g.cannon, g.heading, g.pace, g.pace_timer = 5, -1, 12, 12
    g.alien_shot_timer, g.shot_timer = 10, 0
    planes[:] = 0
    new_wave(planes[1])
    planes[2] = planes[1]
    planes[0, 95] = 1


@njit()
def new_wave(aliens: Any) -> None:  # pragma: no cover (compiled)
    for row in range(4):
        aliens[10 * row + 2 : 10 * row + 8] = 1


@njit()
def march(g: Any, aliens: Any) -> Any:  # pragma: no cover (compiled)
    """Move the aliens one cell; whether they turn while one is in the lowest row, which ends the game."""
    edge = 0 if g.heading < 0 else 9
    if aliens[edge::10].any():
        g.heading = -g.heading
        landed = aliens[90:].any()
        for x in range(10):
            lowest = aliens[90 + x]
            for cell in range(90 + x, x, -10):
                aliens[cell] = aliens[cell - 10]
            aliens[x] = lowest
        return landed
    if g.heading < 0:
        for cell in range(99):
            aliens[cell] = aliens[cell + 1]
        aliens[99] = 0
    else:
        for cell in range(99, 0, -1):
            aliens[cell] = aliens[cell - 1]
        aliens[0] = 0
    return False


@njit()
def alien_fires(g: Any, aliens: Any, bullets: Any) -> None:  # pragma: no cover (compiled)
    """A bullet at the lowest alien of the column nearest to the cannon; the left one of two."""
    for distance in range(10):
        for x in (g.cannon - distance, g.cannon + distance):
            if 0 <= x <= 9:
                for cell in range(90 + x, -1, -10):
                    if aliens[cell]:
                        bullets[cell] = 1
                        return


@njit()
def play_space_invaders(g: Any, planes: Any, action: Any, ramping: Any) -> Any:  # pragma: no cover (compiled)
    aliens, own, theirs = planes[1], planes[4], planes[5]
    if action == FIRE and g.shot_timer == 0:
        own[90 + g.cannon] = 1
        g.shot_timer = 5
    elif action == LEFT:
        g.cannon = max(g.cannon - 1, 0)
    elif action == RIGHT:
        g.cannon = min(g.cannon + 1, 9)
    me = 90 + g.cannon
    for cell in range(90):
        own[cell] = own[cell + 10]
    own[90:] = 0
    for cell in range(99, 9, -1):
        theirs[cell] = theirs[cell - 10]
    theirs[:10] = 0
    ended = theirs[me] > 0 or aliens[me] > 0
    if g.pace_timer == 0:
        g.pace_timer = min(aliens.sum(), g.pace)
        ended |= march(g, aliens)
        ended |= aliens[me] > 0
    if g.alien_shot_timer == 0:
        g.alien_shot_timer = 10
        alien_fires(g, aliens, theirs)
    reward, left = 0, 0
    for cell in range(100):
        hit = aliens[cell] & own[cell]
        aliens[cell] -= hit
        own[cell] -= hit
        reward += hit
        left += aliens[cell]
    g.shot_timer -= g.shot_timer > 0
    g.pace_timer -= 1
    g.alien_shot_timer -= 1
    if left == 0:
        if ramping and g.pace > 6:
            g.pace -= 1
        new_wave(aliens)
    planes[0, 90:] = 0
    planes[0, me] = 1
    toward = 2 if g.heading < 0 else 3
    planes[toward] = aliens
    planes[5 - toward] = 0
    return reward, ended


step_space_invaders = stepper(start_space_invaders, play_space_invaders)


# Asterix: channels player, enemies, trails, gold

ASTERIX = [(name, "i1") for name in ("player_x", "player_y")]
ASTERIX += [(name, "i2") for name in ("spawn_pace", "spawn_timer", "move_pace", "move_timer", "ramp_timer", "level")]
# One thing in each of the rows 1 to 8; its heading is 1 to the right, -1 to the left, 0 for none.
ASTERIX += [(name, "i1", (8,)) for name in ("x", "heading", "gold")]


@njit()
def start_asterix(g: Any, planes: Any) -> None:  # pragma: no cover (compiled)
    g.player_x, g.player_y = 5, 5
    g.spawn_pace, g.spawn_timer, g.move_pace, g.move_timer = 10, 10, 5, 5
    g.ramp_timer, g.level = 100, 0
    g.heading[:] = 0
    planes[:] = 0
    planes[0, 55] = 1


@njit()
def spawn_asterix(g: Any) -> Any:  # pragma: no cover (compiled)
    """Something enters a free row, from the side and of the kind that chance says."""
    rightward, gold = uniform(g) < 1 / 2, uniform(g) < 1 / 3
    free = 0
    for k in range(8):
        free += g.heading[k] == 0
    if free == 0:
        return
    skip = below(g, free)
    for k in range(8):
        if g.heading[k] == 0:
            if skip == 0:
                g.x[k], g.heading[k], g.gold[k] = 0 if rightward else 9, 1 if rightward else -1, gold
                return
            skip -= 1


@njit()
def meet(g: Any) -> Any:  # pragma: no cover (compiled)
    """Reward and end from what lies in the player's cell."""
    k = g.player_y - 1
    if g.heading[k] == 0 or g.x[k] != g.player_x:
        return 0, False
    if g.gold[k]:
        g.heading[k] = 0
        return 1, False
    return 0, True


@njit()
def play_asterix(g: Any, planes: Any, action: Any, ramping: Any) -> Any:  # pragma: no cover (compiled)
    if g.spawn_timer == 0:
        spawn_asterix(g)
        g.spawn_timer = g.spawn_pace
    if action == LEFT:
        g.player_x = max(g.player_x - 1, 0)
    elif action == RIGHT:
        g.player_x = min(g.player_x + 1, 9)
    elif action == UP:
        g.player_y = max(g.player_y - 1, 1)
    elif action == DOWN:
        g.player_y = min(g.player_y + 1, 8)
    reward, ended = meet(g)
    if g.move_timer == 0:
        g.move_timer = g.move_pace
        for k in range(8):
            g.x[k] += g.heading[k]
            if g.x[k] < 0 or g.x[k] > 9:
                g.heading[k] = 0
        more, end = meet(g)
        reward, ended = reward + more, ended | end
    g.spawn_timer -= 1
    g.move_timer -= 1
    if ramping and (g.spawn_pace > 1 or g.move_pace > 1):
        if g.ramp_timer >= 0:
            g.ramp_timer -= 1
        else:
            if g.move_pace > 1 and g.level % 2 == 1:
                g.move_pace -= 1
            if g.spawn_pace > 1:
                g.spawn_pace -= 1
            g.level += 1
            g.ramp_timer = 100
    planes[:] = 0
    planes[0, 10 * g.player_y + g.player_x] = 1
    for k in range(8):
        if g.heading[k] != 0:
            x, behind = g.x[k], g.x[k] - g.heading[k]
            planes[3 if g.gold[k] else 1, 10 * (k + 1) + x] = 1
            if 0 <= behind <= 9:
                planes[2, 10 * (k + 1) + behind] = 1
    return reward, ended


step_asterix = stepper(start_asterix, play_asterix)


# For each game the fields of its own, the number of channels, the actions that do something, the step.
KERNELS = {
    "breakout": (BREAKOUT, 4, (NOTHING, LEFT, RIGHT), step_breakout),
    "space_invaders": (SPACE_INVADERS, 6, (NOTHING, LEFT, RIGHT, FIRE), step_space_invaders),
    "asterix": (ASTERIX, 4, (NOTHING, LEFT, UP, RIGHT, DOWN), step_asterix),
}
