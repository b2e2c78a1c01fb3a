"""MinAtar's games compiled by numba: what `rrl.pqn.minatar.MinAtarPool` runs.

One record holds the state of one environment, one row of `planes` its picture: a channel has 100 cells,
cell 10 y + x lies in column x and row y from the top. Random numbers are drawn in the order in which
the `minatar` package draws them, so that both can be fed the same numbers.
"""

import numpy as np
from numba import njit

__all__ = ["KERNELS", "COMMON"]

NOTHING, LEFT, UP, RIGHT, DOWN, FIRE = range(6)
COMMON = [("random", "u8"), ("last", "i1"), ("over", "?"), ("total", "f8"), ("age", "i8")]

WEYL, MIX_1, MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S11, S27, S30, S31, S32 = (np.uint64(bits) for bits in (11, 27, 30, 31, 32))


@njit(cache=True)
def bits(g):  # pragma: no cover (compiled)
    """64 random bits of one environment: SplitMix64."""
    g.random += WEYL
    z = g.random
    z = (z ^ (z >> S30)) * MIX_1
    z = (z ^ (z >> S27)) * MIX_2
    return z ^ (z >> S31)


@njit(cache=True)
def uniform(g):  # pragma: no cover (compiled)
    """A number in [0, 1), a multiple of 2^-53."""
    return np.float64(bits(g) >> S11) * 2.0**-53


@njit(cache=True)
def below(g, k):  # pragma: no cover (compiled)
    """An integer in 0..k-1; its chance is off by less than 2^-32."""
    return np.int64(((bits(g) >> S32) * np.uint64(k)) >> S32)


@njit(cache=True)
def sticky_action(g, action, sticky):  # pragma: no cover (compiled)
    """The action, or with chance `sticky` the one taken last, which outlives the game."""
    if uniform(g) < sticky:
        action = g.last
    g.last = action
    return action


# Breakout: channels paddle, ball, trail, bricks

BREAKOUT = [(name, "i1") for name in ("x", "y", "dx", "dy", "paddle")] + [("struck", "?")]


@njit(cache=True)
def start_breakout(g, planes):  # pragma: no cover (compiled)
    right = below(g, 2)
    g.x, g.y, g.paddle, g.struck = 9 * right, 3, 4, False
    g.dx, g.dy = 1 - 2 * right, 1
    planes[:] = 0
    planes[3, 10:40] = 1
    planes[0, 94] = planes[1, 30 + g.x] = planes[2, 30 + g.x] = 1


@njit(cache=True)
def play_breakout(g, planes, action):  # pragma: no cover (compiled)
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


@njit(cache=True, nogil=True)
def step_breakout(games, planes, actions, sticky, ramping, reward, ended):  # pragma: no cover (compiled)
    for i in range(len(games)):
        if games[i].over:
            start_breakout(games[i], planes[i])
        else:
            action = sticky_action(games[i], actions[i], sticky)
            reward[i], ended[i] = play_breakout(games[i], planes[i], action)


# For each game the fields of its own, the number of channels, the actions that do something, the step.
KERNELS = {
    "breakout": (BREAKOUT, 4, (NOTHING, LEFT, RIGHT), step_breakout),
}
