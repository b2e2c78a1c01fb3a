"""MinAtar against the `minatar` package, state by state on the same random numbers."""

import numpy as np
import pytest

from rrl.pqn.minatar import MinAtarPool

pytest.importorskip("numba")
MASK = 2**64 - 1
GAMES = ["breakout", "space_invaders", "asterix"]


class SplitMix64:
    """The generator by its published definition, with the methods that MinAtar calls."""

    def __init__(self, seed):
        self.state = seed
        self.state = self.bits()

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def rand(self, size=None):
        if size is not None:
            return np.array([self.rand() for _ in range(size)])
        return (self.bits() >> 11) * 2.0**-53

    def randint(self, low, high=None, size=None):
        if size is not None:
            return np.array([self.randint(low, high) for _ in range(size)])
        low, high = (0, low) if high is None else (low, high)
        return low + ((self.bits() >> 32) * (high - low) >> 32)


def package_game(game, seed, **options):
    """A game of the package that draws what the pool draws."""
    minatar = pytest.importorskip("minatar")
    env = minatar.Environment(game, **options)
    env.random = env.env.random = SplitMix64(seed)
    env.reset()
    return env


def cells(observation, channel):
    """Rows and columns of the cells that are set in a channel of one observation."""
    return np.argwhere(observation[channel])


def follow_the_ball(observation, rng):
    """Breakout: go below the ball, so that walls get cleared."""
    aim = cells(observation, 1)[0, 1] - cells(observation, 0)[0, 1]
    return 0 if aim == 0 else 1 if aim < 0 else 2


def dodge_and_shoot(observation, rng):
    """Space Invaders: leave a column with a falling bullet, else shoot."""
    me = cells(observation, 0)[0, 1]
    return int(rng.integers(1, 3)) if observation[5, :, me].any() else 3


def seek_gold(observation, rng):
    """Asterix: go to a row with gold or without an enemy."""
    y = cells(observation, 0)[0, 0]
    row = observation[:, y]
    if row[3].any():
        return 3 if cells(observation, 3)[0, 1] > cells(observation, 0)[0, 1] else 1
    return int(rng.choice([2, 4])) if row[1].any() else 0


SKILLED = {"breakout": follow_the_ball, "space_invaders": dodge_and_shoot, "asterix": seek_gold}


def side_by_side(game, skill, steps, immortal=False, n=3, seed=0, **options):
    """Play both with partly skilled, partly random actions; return rewards, games ended, and the pool."""
    rng = np.random.default_rng(seed)
    pool, theirs = MinAtarPool(game, n, **options), [package_game(game, seed + i, **options) for i in range(n)]
    observation = pool.reset(seed + np.arange(n))
    allowed = theirs[0].minimal_action_set()
    assert pool.n_actions == len(allowed) and pool.observation_shape == (theirs[0].n_channels, 10, 10)
    over, rewards, ends = np.zeros(n, dtype=bool), 0, 0
    for _ in range(steps):
        actions = rng.integers(pool.n_actions, size=n)
        for i in np.flatnonzero(rng.random(n) < skill):
            actions[i] = SKILLED[game](observation[i], rng)
        out = pool.step(actions)
        observation = out.observation
        assert observation.dtype == np.uint8
        for i, env in enumerate(theirs):
            if over[i]:
                reward, ended = env.reset() or 0, False
            else:
                reward, ended = env.act(allowed[actions[i]])
            assert (out.reward[i], out.ended[i], out.valid[i]) == (reward, ended, not over[i])
            np.testing.assert_array_equal(observation[i], env.state().transpose(2, 0, 1))
            if immortal:
                env.env.terminal = False
        rewards, ends, over = rewards + out.reward.sum(), ends + out.ended.sum(), out.ended.copy()
        if immortal:
            pool._games["over"], over[:] = False, False
    return rewards, ends, theirs


@pytest.mark.parametrize("game", GAMES)
def test_random_play_agrees_with_the_package(game):
    _, ends, _ = side_by_side(game, skill=0.0, steps=1500)
    assert ends > 0


def test_breakout_agrees_with_the_package_past_a_cleared_wall():
    rewards, ends, _ = side_by_side("breakout", skill=0.98, steps=4000, seed=7)
    assert rewards > 100 and ends > 10


@pytest.mark.parametrize("ramping", [True, False])
def test_space_invaders_agrees_with_the_package_over_many_waves(ramping):
    rewards, _, theirs = side_by_side(
        "space_invaders", skill=0.8, steps=4000, immortal=True, difficulty_ramping=ramping
    )
    assert rewards > 500
    assert [env.env.ramp_index for env in theirs] == [6 * ramping] * 3


@pytest.mark.parametrize("ramping", [True, False])
def test_asterix_agrees_with_the_package_up_to_full_speed(ramping):
    rewards, _, theirs = side_by_side("asterix", skill=0.5, steps=3000, immortal=True, difficulty_ramping=ramping)
    assert rewards > 100
    paces = {(env.env.spawn_speed, env.env.move_speed) for env in theirs}
    assert paces == ({(1, 1)} if ramping else {(10, 5)})


def test_asterix_agrees_with_the_package_in_mortal_games():
    _, ends, _ = side_by_side("asterix", skill=0.7, steps=2500, seed=3)
    assert ends > 5
