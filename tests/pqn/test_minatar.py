"""MinAtar against the `minatar` package, state by state on the same random numbers."""

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from rrl.pqn.minatar import PLANES, MinAtarPool, action_names

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
    """Play both with partly skilled, partly random actions; give rewards, games ended, best score, and theirs."""
    rng = np.random.default_rng(seed)
    pool, theirs = MinAtarPool(game, n, **options), [package_game(game, seed + i, **options) for i in range(n)]
    observation = pool.reset(seed + np.arange(n))
    allowed = theirs[0].minimal_action_set()
    assert pool.n_actions == len(allowed) and pool.observation_shape == (theirs[0].n_channels, 10, 10)
    over, rewards, ends, best = np.zeros(n, dtype=bool), 0, 0, 0.0
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
        best = np.fmax.reduce(out.score, initial=best)
        if immortal:
            pool._games["over"], over[:] = False, False
    return rewards, ends, best, theirs


@pytest.mark.parametrize("game", GAMES)
def test_random_play_agrees_with_the_package(game):
    _, ends, _, _ = side_by_side(game, skill=0.0, steps=1500)
    assert ends > 0


def test_breakout_agrees_with_the_package_past_a_cleared_wall():
    _, ends, best, _ = side_by_side("breakout", skill=1.0, steps=700, seed=41)
    assert best > 30 and ends > 2  # a wall has 30 bricks


@pytest.mark.parametrize("ramping", [True, False])
def test_space_invaders_agrees_with_the_package_over_many_waves(ramping):
    rewards, _, _, theirs = side_by_side(
        "space_invaders", skill=0.8, steps=4000, immortal=True, difficulty_ramping=ramping
    )
    assert rewards > 500
    assert [env.env.ramp_index for env in theirs] == [6 * ramping] * 3


@pytest.mark.parametrize("ramping", [True, False])
def test_asterix_agrees_with_the_package_up_to_full_speed(ramping):
    rewards, _, _, theirs = side_by_side("asterix", skill=0.5, steps=3000, immortal=True, difficulty_ramping=ramping)
    assert rewards > 100
    paces = {(env.env.spawn_speed, env.env.move_speed) for env in theirs}
    assert paces == ({(1, 1)} if ramping else {(10, 5)})


def test_asterix_agrees_with_the_package_in_mortal_games():
    _, ends, _, _ = side_by_side("asterix", skill=0.7, steps=2500, seed=3)
    assert ends > 5


def random_play(pool, observation, steps, seed):
    """Everything that a pool answers to random actions."""
    rng, seen = np.random.default_rng(seed), [observation]
    for _ in range(steps):
        out = pool.step(rng.integers(pool.n_actions, size=len(observation)))
        seen.extend(out)
    return seen


def assert_same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("game", GAMES)
def test_a_saved_pool_goes_on_exactly(game):
    pool = MinAtarPool(game, 6, max_steps=60)
    random_play(pool, pool.reset(np.arange(6)), 150, seed=1)
    saved = pool.state()
    kept = {name: array.copy() for name, array in saved.items()}
    there = random_play(pool, np.empty(6), 150, seed=2)
    assert any(np.any(there[k]) for k in range(2, len(there), 6))  # some game ended or was cut on the way
    assert_same(list(kept.values()), list(saved.values()))  # playing on leaves what was saved alone
    other = MinAtarPool(game, 6, max_steps=60)
    random_play(other, other.reset(np.arange(50, 56)), 30, seed=3)
    other.load_state(saved)
    again = random_play(other, np.empty(6), 150, seed=2)
    assert_same(there[1:], again[1:])
    assert saved["random"].dtype == np.int64


def test_a_state_of_another_pool_is_refused():
    pool = MinAtarPool("breakout", 2)
    pool.reset(np.array([0, 1]))
    state = pool.state()
    with pytest.raises(ValueError, match="state has nothing for 'paddle'"):
        pool.load_state({name: array for name, array in state.items() if name != "paddle"})
    with pytest.raises(ValueError, match=r"state has \(3,\) for 'random', expected an array of shape \(2,\)"):
        pool.load_state(MinAtarPool("breakout", 3).state())
    with pytest.raises(ValueError, match=r"max_steps\) = \(.*0\.9.*, here \(.*0\.1"):
        pool.load_state(MinAtarPool("breakout", 2, sticky_action_prob=0.9).state())


@pytest.mark.parametrize("game", GAMES)
def test_a_game_does_not_depend_on_its_neighbours(game):
    seeds, steps, rng = np.array([3, 1, 4, 15]), 200, np.random.default_rng(0)
    actions = rng.integers(MinAtarPool(game, 1).n_actions, size=(steps, len(seeds)))
    together = MinAtarPool(game, len(seeds))
    first = together.reset(seeds)
    played = [together.step(a) for a in actions]
    for i, seed in enumerate(seeds):
        alone = MinAtarPool(game, 1)
        np.testing.assert_array_equal(alone.reset(seeds[i : i + 1]), first[i : i + 1], err_msg=str(seed))
        for out, a in zip(played, actions, strict=True):
            assert_same([field[i : i + 1] for field in out], list(alone.step(a[i : i + 1])))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"game": "pong"}, "game must be one of .*'pong'"),
        ({"n": 0}, "n must be an integer >= 1, got 0"),
        ({"n": 2.0}, "n must be an integer >= 1, got 2.0"),
        ({"n": True}, "n must be an integer >= 1, got True"),
        ({"n": "2"}, "n must be an integer >= 1, got '2'"),
        ({"difficulty_ramping": "False"}, "difficulty_ramping must be True or False, got 'False'"),
        ({"sticky_action_prob": "0.1"}, r"sticky_action_prob must lie in \[0, 1\], got '0.1'"),
        ({"sticky_action_prob": 1.5}, r"sticky_action_prob must lie in \[0, 1\], got 1.5"),
        ({"sticky_action_prob": float("nan")}, "sticky_action_prob must lie"),
        ({"max_steps": -1}, "max_steps must be an integer >= 0, got -1"),
        ({"max_steps": 1.5}, "max_steps must be an integer >= 0, got 1.5"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MinAtarPool(**{"game": "breakout", "n": 2, **options})


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("reset", [0], "seeds must be 2 integers"),
        ("reset", [0.0, 1.0], "seeds must be 2 integers"),
        ("reset", [-1, 0], "seeds must lie in .* got -1 to 0"),
        ("reset", [0, 2**31], "seeds must lie in"),
        ("step", [0], "actions must be 2 integers"),
        ("step", [0.0, 1.0], "actions must be 2 integers"),
        ("step", [0, -1], r"actions must lie in 0\.\.2, got -1 to 0"),
        ("step", [0, 3], r"actions must lie in 0\.\.2, got 0 to 3"),
    ],
)
def test_bad_seeds_and_actions_are_refused(method, given, message):
    pool = MinAtarPool("breakout", 2)
    before = pool.state()
    with pytest.raises(ValueError, match=message):
        getattr(pool, method)(np.array(given))
    assert_same(list(before.values()), list(pool.state().values()))


def test_a_pool_that_was_not_started_says_so():
    """Without seeds every game would be the same one."""
    pool = MinAtarPool("breakout", 2)
    with pytest.raises(RuntimeError, match=r"call reset\(\) or load_state\(\) before step\(\)"):
        pool.step(np.zeros(2, int))
    started = MinAtarPool("breakout", 2)
    started.reset([0, 1])
    pool.load_state(started.state())
    assert_same(list(pool.step(np.zeros(2, int))), list(started.step(np.zeros(2, int))))


def test_a_time_limit_cuts_and_the_next_step_only_starts_a_game():
    """Nobody plays Asterix, where nothing happens for a while."""
    pool = MinAtarPool("asterix", 2, max_steps=4)
    start = pool.reset(np.array([0, 1]))
    for round_ in range(2):
        for t in range(1, 5):
            out = pool.step(np.zeros(2, dtype=int))
            assert out.valid.all() and not out.ended.any()
            assert (out.cut == (t == 4)).all() and (np.isnan(out.score) == (t < 4)).all(), (round_, t)
        assert (out.score == 0).all()
        out = pool.step(np.zeros(2, dtype=int))
        assert not (out.valid.any() or out.ended.any() or out.cut.any() or out.reward.any())
        assert np.isnan(out.score).all()
        np.testing.assert_array_equal(out.observation, start)


def test_an_end_on_the_last_allowed_step_is_no_cut():
    """The ball of Breakout falls past a paddle that nobody moves; the limit is the step at which it does."""
    plain = MinAtarPool("breakout", 1)
    plain.reset(np.array([0]))
    length = next(t for t in range(1, 100) if plain.step(np.array([0])).ended[0])
    pool = MinAtarPool("breakout", 1, max_steps=length)
    pool.reset(np.array([0]))
    outs = [pool.step(np.array([0])) for _ in range(length)]
    assert [bool(out.ended[0]) for out in outs] == [False] * (length - 1) + [True]
    assert not any(out.cut[0] for out in outs)


MANY = 20_000
ALARM = 1e-6  # chance of a false alarm of each statistical check; the seeds are fixed


@pytest.mark.parametrize("chance", [0.0, 0.1, 0.7, 1.0])
def test_actions_stick_as_often_as_they_should(chance):
    """The action before the first is to do nothing, so a paddle that stays shows a repeated action."""
    pool = MinAtarPool("breakout", MANY, sticky_action_prob=chance)
    pool.reset(np.arange(MANY))
    paddle = pool.step(np.full(MANY, 2)).observation[:, 0, 9].argmax(1)
    assert set(paddle) <= {4, 5}
    stuck = int((paddle == 4).sum())
    if chance in (0, 1):
        assert stuck == chance * MANY
    else:
        assert binomtest(stuck, MANY, chance).pvalue > ALARM


def test_random_draws_have_their_frequencies():
    """Breakout's first side; side, kind and row of what first enters Asterix; neighbouring seeds unrelated."""
    side = MinAtarPool("breakout", MANY).reset(np.arange(MANY))[:, 1, 3, 0].astype(int)
    assert binomtest(int(side.sum()), MANY, 1 / 2).pvalue > ALARM
    assert binomtest(int((side[::2] == side[1::2]).sum()), MANY // 2, 1 / 2).pvalue > ALARM
    pool = MinAtarPool("asterix", MANY)
    pool.reset(np.arange(MANY))
    for _ in range(11):
        observation = pool.step(np.zeros(MANY, dtype=int)).observation
    things = observation[:, 1] + observation[:, 3]
    assert (things.sum((1, 2)) == 1).all()
    rows, columns = things.any(2).argmax(1), things.any(1).argmax(1)
    assert chisquare(np.bincount(rows, minlength=10)[1:9]).pvalue > ALARM
    assert binomtest(int((columns < 5).sum()), MANY, 1 / 2).pvalue > ALARM
    assert binomtest(int(observation[:, 3].any((1, 2)).sum()), MANY, 1 / 3).pvalue > ALARM


@pytest.mark.parametrize("game", GAMES)
def test_names_of_planes_and_actions(game):
    pool = MinAtarPool(game, 1)
    assert len(PLANES[game]) == pool.observation_shape[0] and len(action_names(game)) == pool.n_actions
    minatar = pytest.importorskip("minatar")
    theirs = minatar.Environment(game)
    assert [name[0] for name in action_names(game)] == [
        theirs.env.action_map[action] for action in theirs.minimal_action_set()
    ]
    with pytest.raises(ValueError, match="game must be one of"):
        action_names("pong")
