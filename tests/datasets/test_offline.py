"""Minari's and d3rlpy's data sets, made by their own writers and read by their own loaders, and their policies."""

import types

import numpy as np
import pytest

from rrl import RandomFourierFeatures, ReplicableFittedQ, action_agreement, policy_actions
from rrl.datasets import Transitions, cartpole, cartpole_random, transitions

DATA = cartpole_random(1500, np.random.default_rng(0))
DATA = DATA.take(np.isin(DATA.episodes, DATA.episodes[DATA.terminals]))
GAMES = DATA.n_episodes
SCALE = np.array([2.4, 3.0, 0.21, 3.0])


def episodes(cut_after=None):
    """Each game of random CartPole: n + 1 observations, actions, rewards, and whether it ended."""
    found = []
    for number in np.unique(DATA.episodes):
        rows = DATA.take(DATA.episodes == number)
        seen = np.concatenate([rows.observations, np.full((1, 4), 7, np.float32)])
        n = len(rows) if cut_after is None else min(cut_after, len(rows))
        found.append((seen[: n + 1], rows.actions[:n], rows.rewards[:n], n == len(rows)))
    return found


def policy(*rows):
    q = ReplicableFittedQ(RandomFourierFeatures(16, scale=SCALE, shared_seed=1), 2, penalty=1e-3, bin_width=0.05)
    return q.fit(*rows)


def minari_set(parts, folder, monkeypatch, actions=np.int64, **spaces):
    minari, gymnasium = pytest.importorskip("minari"), pytest.importorskip("gymnasium")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    buffers = []
    for number, (seen, acts, rewards, ended) in enumerate(parts):
        last = np.arange(len(acts)) == len(acts) - 1
        columns = {"observations": list(seen), "actions": list(np.asarray(acts, actions)), "rewards": rewards.tolist()}
        columns |= {"terminations": (last & ended).tolist(), "truncations": (last & (not ended)).tolist()}
        buffers.append(minari.data_collector.EpisodeBuffer(id=number, seed=number, **columns))
    spaces = {
        "observation_space": gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32),
        "action_space": gymnasium.spaces.Discrete(2),
        **spaces,
    }
    minari.create_dataset_from_buffers("rrl/cartpole/test-v0", buffers, data_format="hdf5", **spaces)
    return minari.load_dataset("rrl/cartpole/test-v0", download=False)


def d3rlpy_set(parts, path):
    dataset = pytest.importorskip("d3rlpy").dataset
    ends = [np.arange(len(acts)) == len(acts) - 1 for _, acts, *_ in parts]
    written = dataset.MDPDataset(
        np.concatenate([seen[:-1] for seen, *_ in parts]),
        np.concatenate([acts for _, acts, *_ in parts]),
        np.concatenate([rewards for _, _, rewards, _ in parts]),
        np.concatenate([end & ended for end, (*_, ended) in zip(ends, parts)]).astype(np.float32),
        np.concatenate([end & (not ended) for end, (*_, ended) in zip(ends, parts)]).astype(np.float32),
    )
    with open(path, "w+b") as file:
        written.dump(file)
    with open(path, "rb") as file:
        return dataset.ReplayBuffer.load(file, dataset.InfiniteBuffer())


pytestmark = pytest.mark.filterwarnings("ignore")


def test_games_that_ended_are_the_same_rows_in_every_format(tmp_path, monkeypatch):
    ours = transitions(DATA)
    for found in (
        transitions(minari_set(episodes(), tmp_path, monkeypatch)),
        transitions(d3rlpy_set(episodes(), tmp_path / "d.h5")),
    ):
        assert isinstance(found, Transitions) and found.actions.dtype == np.int64 and found.terminals.sum() == GAMES
        for name in ("observations", "actions", "rewards", "terminals"):
            np.testing.assert_array_equal(getattr(found, name), getattr(ours, name))
        going_on = ~found.terminals
        np.testing.assert_array_equal(found.next_observations[going_on], ours.next_observations[going_on])
        assert policy(*found).fingerprint() == policy(*ours).fingerprint()


def test_a_cut_keeps_its_last_step_only_where_what_follows_is_known(tmp_path, monkeypatch):
    parts = episodes(cut_after=20)
    cut = sum(not ended for *_, ended in parts)
    assert 10 < cut < GAMES - 3
    minari, d3rlpy = minari_set(parts, tmp_path, monkeypatch), d3rlpy_set(parts, tmp_path / "d.h5")
    whole, without = transitions(minari), transitions(d3rlpy)
    assert len(whole.actions) == sum(len(acts) for _, acts, *_ in parts) == len(without.actions) + cut
    assert whole.terminals.sum() == without.terminals.sum() == GAMES - cut
    known = np.concatenate([np.arange(len(acts)) < len(acts) - (not ended) for _, acts, _, ended in parts])
    for name in ("observations", "actions", "rewards", "terminals"):
        np.testing.assert_array_equal(getattr(whole, name)[known], getattr(without, name))
    first = next(number for number, (*_, ended) in enumerate(parts) if not ended)
    seen, acts, *_ = parts[first]
    row = sum(len(acts) for _, acts, *_ in parts[:first]) + len(acts) - 1
    np.testing.assert_array_equal(whole.next_observations[row], seen[-1])
    # d3rlpy itself counts its transitions so.
    assert len(without.actions) == d3rlpy.transition_count


def test_a_part_of_a_data_set_and_states_that_are_numbers(tmp_path, monkeypatch):
    gymnasium = pytest.importorskip("gymnasium")
    parts = [
        (np.arange(4), np.array([0, 1, 1]), np.ones(3), True),
        (np.array([3, 1]), np.array([0]), np.ones(1), False),
    ]
    data = minari_set(parts, tmp_path, monkeypatch, observation_space=gymnasium.spaces.Discrete(4))
    rows = transitions(data)
    assert rows.observations.tolist() == [[0], [1], [2], [3]] and rows.next_observations.tolist() == [
        [1],
        [2],
        [3],
        [1],
    ]
    assert rows.terminals.tolist() == [False, False, True, False]
    first = transitions(list(data.iterate_episodes([0])))
    assert first.actions.tolist() == [0, 1, 1]
    d3rlpy = d3rlpy_set(episodes()[:3], tmp_path / "d.h5")
    assert len(transitions(d3rlpy.episodes[:1]).actions) == len(d3rlpy.episodes[0])


def test_cart_pole_s_own_data_lose_the_rows_that_nobody_can_use():
    data = cartpole(source="standin")
    rows = transitions(data)
    assert len(rows.actions) == data.usable.sum() < len(data)
    with pytest.raises(ValueError, match=r"what follows a cut is not known, as rrl.datasets.transitions\(data\)"):
        policy(*(getattr(data, name) for name in Transitions._fields))
    assert policy(*rows).codes_.shape == (2, 16)


def episode(**change):
    columns = {
        "observations": np.zeros((3, 2)),
        "actions": np.array([0, 1]),
        "rewards": np.ones(2),
        "terminations": np.array([False, True]),
    }
    return types.SimpleNamespace(**columns | change)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (3, TypeError, "data must be a data set of Minari or d3rlpy"),
        ("cartpole", TypeError, "data must be a data set"),
        (np.zeros((3, 2)), TypeError, "data must be a data set"),
        ([], ValueError, "data hold no step"),
        ([3], TypeError, "data must hold episodes of Minari or d3rlpy, episode 0 is 3"),
        ([episode(), episode(actions=np.array([0.5, 1.0]))], ValueError, "actions of episode 1 must be discrete"),
        ([episode(actions=np.zeros((2, 2), int))], ValueError, "actions of episode 0 must be one number a step"),
        (
            [episode(observations={"a": 1})],
            ValueError,
            "observations of episode 0 must be one array of vec",
        ),
        (
            [episode(observations=np.zeros((3, 2, 2)))],
            ValueError,
            r"observations of episode 0 must have shape \(n, n_",
        ),
        (
            [episode(observations=np.zeros((2, 2)))],
            ValueError,
            r"episode 0 has 1 steps of observations, \(2, 2, 2\)",
        ),
        ([episode(rewards=np.ones(3))], ValueError, r"episode 0 has 2 steps of observations, \(2, 3, 2\) of"),
        ([episode(rewards=["a", "b"])], ValueError, "rewards of episode 0 must hold real numbers"),
        ([episode(terminations=["no", "yes"])], ValueError, "terminations of episode 0 must be booleans"),
        ([episode(), episode(observations=np.zeros((3, 4)))], ValueError, r"observations of one length, got \[2, 4\]"),
    ],
)
def test_what_is_no_data_set_is_named(data, error, message):
    with pytest.raises(error, match=message):
        transitions(data)


# Policies.

STATES = DATA.observations[:200]


class Baseline:
    """As Stable-Baselines3 has it: actions and a state, random ones unless it is told otherwise."""

    def __init__(self, sign):
        self.sign = sign

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert deterministic
        return (self.sign * observation[:, 2] > 0).astype(np.int64), None


class Predictor:
    """As d3rlpy has it."""

    def predict(self, x):
        return (x[:, 2] > 0).astype(np.int32)


def test_each_kind_of_policy_answers():
    fitted = policy(*transitions(DATA))
    actions = policy_actions([Baseline(1), Baseline(-1), Predictor(), Predictor().predict, fitted], STATES)
    assert actions.shape == (5, 200) and actions.dtype == np.int64
    right = STATES[:, 2] > 0
    np.testing.assert_array_equal(actions[:4], [right, ~right, right, right])
    np.testing.assert_array_equal(actions[4], fitted.act(STATES))
    assert action_agreement(actions[:2]).mean == 0 and action_agreement(actions[2:4]).mean == 1


@pytest.mark.parametrize(
    ("policies", "error", "message"),
    [
        ([], TypeError, "policies must be a sequence of at least one"),
        (3, TypeError, "policies must be a sequence"),
        ([Predictor(), 3], TypeError, r"policies\[1\] must have act or predict, or be a function"),
        ([lambda x: x[:, 0]], ValueError, r"policies\[0\] must give 200 integers, one action a state, got float32"),
        ([lambda x: np.zeros((200, 2), int)], ValueError, r"of shape \(200, 2\)"),
        (
            [lambda x: np.ma.masked_equal(np.arange(len(x)) % 2, 1)],
            ValueError,
            r"the answer of policies\[0\] has masked entries \(100 of 200\)",
        ),
    ],
)
def test_what_is_no_policy_is_named(policies, error, message):
    with pytest.raises(error, match=message):
        policy_actions(policies, STATES)


@pytest.mark.parametrize("states", [3, [], np.zeros((0, 4))])
def test_states_are_a_batch(states):
    with pytest.raises(ValueError, match="observations must be a batch of at least one state"):
        policy_actions([Predictor()], states)


def test_d3rlpy_s_own_algorithms(tmp_path):
    """Greedy actions of two untrained networks, as d3rlpy's own comparison of policies counts them."""
    d3rlpy = pytest.importorskip("d3rlpy")
    data = d3rlpy_set(episodes()[:5], tmp_path / "d.h5")
    algorithms = []
    for seed in range(2):
        d3rlpy.seed(seed)
        algorithms.append(d3rlpy.algos.DQNConfig().create(device="cpu:0"))
        algorithms[-1].build_with_dataset(data)
    seen = np.concatenate([part.observations for part in data.episodes])
    agreement = action_agreement(policy_actions(algorithms, seen)).mean
    compare = d3rlpy.metrics.CompareDiscreteActionMatchEvaluator(algorithms[0])
    expected = [compare(algorithms[1], d3rlpy.dataset.create_infinite_replay_buffer([part])) for part in data.episodes]
    weights = [len(part) for part in data.episodes]
    assert agreement == pytest.approx(np.average(expected, weights=weights))


def test_stable_baselines_own_algorithms():
    sb3, gymnasium = pytest.importorskip("stable_baselines3"), pytest.importorskip("gymnasium")
    env = gymnasium.make("CartPole-v1")
    algorithms = [sb3.DQN("MlpPolicy", env, seed=0, device="cpu"), sb3.PPO("MlpPolicy", env, seed=1, device="cpu")]
    actions = policy_actions(algorithms, STATES)
    alone = [algorithms[1].predict(state, deterministic=True)[0] for state in STATES[:20]]
    assert actions.shape == (2, 200) and actions[1, :20].tolist() == alone
    np.testing.assert_array_equal(actions, policy_actions(algorithms, STATES))


def test_a_policy_that_cannot_take_the_states_is_named():
    with pytest.raises(ValueError, match="matmul") as raised:
        policy_actions([lambda s: s[:, 0].astype(int), lambda s: s @ np.ones(4)], np.zeros((2, 3)))
    assert raised.value.__notes__ == ["policies[1], asked for its actions in observations of shape (2, 3)"]
