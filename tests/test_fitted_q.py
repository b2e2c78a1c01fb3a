"""Replicable fitted Q-iteration: brute force, known answers, the codes' invariances, bad input."""

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from rrl import RandomFourierFeatures, ReplicableFittedQ, hypergrid_round, modal_share
from rrl.features import rowwise_product


class OneHot:
    """Feature map of states 0, ..., n - 1, under which fitted Q-iteration is tabular."""

    def __init__(self, n):
        self.n = n

    def transform(self, states):
        return np.eye(self.n)[np.asarray(states)[:, 0].astype(int)]


def transitions(rng, n=400):
    """A walk on a line: action 1 adds 0.3, action 0 takes it off; the edges are real ends."""
    states, actions = rng.uniform(-1, 1, (n, 2)), rng.integers(2, size=n)
    moved = states + (2 * actions - 1)[:, None] * 0.3
    return states, actions, moved[:, 0], moved, np.abs(moved[:, 0]) > 1


@pytest.fixture
def features():
    return RandomFourierFeatures(8, shared_seed=1).fit(np.zeros((1, 2)))


@pytest.mark.parametrize("width", [None, 0.05])
@pytest.mark.parametrize("penalty", [1e-3, 0.3])
def test_every_round_is_scikit_learns_ridge_and_the_rounding(rng, features, width, penalty):
    s, a, r, moved, end = transitions(rng)
    phi, phi_next = features.transform(s), features.transform(moved)
    w = np.zeros((2, 8))
    codes = []
    for t in range(4):
        y = r + 0.9 * np.where(end, 0, np.maximum(phi_next @ w[0], phi_next @ w[1]))
        parts = [(phi[a == k], y[a == k]) for k in (0, 1)]
        fits = [Ridge(alpha=len(y) * penalty, fit_intercept=False, solver="svd").fit(x, y) for x, y in parts]
        w = np.array([fit.coef_ for fit in fits])
        if width:
            rounded = hypergrid_round(w, width, shared_seed=6, key=("fitted_q", t))
            w = rounded.values
            codes.append(rounded.codes)
    q = ReplicableFittedQ(features, 2, n_rounds=4, penalty=penalty, gamma=0.9, bin_width=width, shared_seed=6)
    q.fit(s, a, r, moved, end)
    np.testing.assert_allclose(q.weights_, w, atol=1e-9)
    if width:
        assert (q.history_codes_ == codes).all() and (q.codes_ == codes[-1]).all()
        assert len(q.fingerprint()) == 64
    else:
        assert q.codes_ is None and q.history_codes_ is None


def test_one_action_and_one_round_are_ridge_regression_on_the_rewards():
    s = np.array([[0], [0], [1]])
    q = ReplicableFittedQ(OneHot(2), 1, n_rounds=1, penalty=0.25, bin_width=None)
    q.fit(s, np.zeros(3, dtype=int), np.array([1.0, 0.0, 3.0]), s, np.zeros(3, dtype=bool))
    # (G + 0.25 I)^-1 b with G = diag(2, 1) / 3 and b = (1, 3) / 3.
    np.testing.assert_allclose(q.weights_, [[(1 / 3) / (2 / 3 + 0.25), 1 / (1 / 3 + 0.25)]])


def test_tabular_without_penalty_is_value_iteration():
    # Case 30: states 0 -> 1 -> end; action 0 stays, action 1 moves; a time limit is not an end.
    s = np.array([[0], [0], [1], [1]])
    a, moved = np.array([0, 1, 0, 1]), np.array([[0], [1], [1], [0]])
    r, end = np.array([0.0, 0.0, 0.5, 1.0]), np.array([False, False, False, True])
    q = ReplicableFittedQ(OneHot(2), 2, n_rounds=3, penalty=0.0, gamma=0.9, bin_width=None)
    table = q.fit(s, a, r, moved, end).q_values([[0], [1]])
    v = np.zeros(2)
    for _ in range(3):
        expected = np.array([[0.9 * v[0], 0.9 * v[1]], [0.5 + 0.9 * v[1], 1.0]])
        v = expected.max(axis=1)
    np.testing.assert_allclose(table, expected, atol=1e-12)


@pytest.mark.parametrize(("terminal", "target"), [(False, 1 + 0.9 * 10), (True, 1.0)])
def test_targets_bootstrap_unless_the_episode_really_ended(terminal, target):
    # State 1 is worth 10 after the first round; the row under test leads there.
    s, a, moved = [[0], [0], [1], [1]], [0, 1, 0, 1], [[1], [1], [1], [1]]
    q = ReplicableFittedQ(OneHot(2), 2, n_rounds=2, penalty=0.0, gamma=0.9, bin_width=None)
    q.fit(s, np.array(a), [1, 1, 10, 10], moved, [terminal, terminal, True, True])
    assert q.q_values([[0]])[0] == pytest.approx([target, target])


def test_codes_do_not_depend_on_types_row_order_or_layout(rng, features):
    s, a, r, moved, end = transitions(rng)
    s, moved = s.astype(np.float32), moved.astype(np.float32)
    first = ReplicableFittedQ(features, 2, penalty=0.05).fit(s, a, r, moved, end)
    order = rng.permutation(len(a))
    other = ReplicableFittedQ(features, 2, penalty=0.05).fit(
        np.asfortranarray(s[order].astype(float)), a[order].astype(np.uint8), r[order], moved[order], end[order] * 1
    )
    assert (first.codes_ == other.codes_).all()
    assert first.fingerprint() == other.fingerprint()
    third = ReplicableFittedQ(features, 2, penalty=0.05, shared_seed=1).fit(s, a, r, moved, end)
    assert (third.codes_ != first.codes_).any()


def test_codes_do_not_depend_on_the_number_of_blas_threads():
    program = (
        "import numpy as np; from rrl import *; rng = np.random.default_rng(0); n = 4000;"
        "s = rng.normal(size=(n, 4)); a = rng.integers(2, size=n); m = s + rng.normal(size=s.shape) / 9;"
        "f = RandomFourierFeatures(64, shared_seed=2).fit(s);"
        "print(ReplicableFittedQ(f, 2, penalty=1e-3).fit(s, a, s[:, 0], m, s[:, 1] > 1).fingerprint())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **{f"{x}_NUM_THREADS": str(n) for x in ("OMP", "OPENBLAS", "MKL")}},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for n in (1, 2)
    }
    assert len(found) == 1


def test_two_samples_give_one_policy(features):
    # 20 runs on independent data; by the rounding law nearly all agree, without rounding none do.
    def runs(width):
        data = [transitions(np.random.default_rng(seed), 40_000) for seed in range(20)]
        return [ReplicableFittedQ(features, 2, n_rounds=3, penalty=0.3, bin_width=width).fit(*d) for d in data]

    rounded = runs(0.3)
    assert modal_share([q.codes_ for q in rounded]) >= 0.8
    assert len({q.weights_.tobytes() for q in runs(None)}) == 20


def test_greedy_actions_are_the_same_alone_and_in_a_batch(rng, features):
    # Case 26 and 48: one summation order for every batch; the lowest index wins ties.
    q = ReplicableFittedQ(features, 2).fit(*transitions(rng))
    states = rng.normal(size=(300, 2))
    values = q.q_values(states)
    assert all((q.q_values(states[i : i + 1])[0] == values[i]).all() for i in range(300))
    assert (q.act(states) == values.argmax(axis=1)).all()
    assert (values == rowwise_product(features.transform(states), q.weights_.T)).all()
    q.weights_ = np.ones_like(q.weights_)
    assert (q.act(states) == 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_actions": 0}, "n_actions must be a positive integer, got 0"),
        ({"n_rounds": 2.5}, "n_rounds must be a positive integer, got 2.5"),
        ({"penalty": -1}, "penalty must be a finite number"),
        ({"penalty": np.inf}, "penalty"),
        ({"gamma": 1.01}, r"gamma must be a finite number in \[0, 1\], got 1.01"),
        ({"gamma": "0.9"}, "gamma"),
        ({"bin_width": 0.0}, "bin_width"),
    ],
)
def test_bad_parameters_are_named(rng, features, arguments, message):
    q = ReplicableFittedQ(**{"features": features, "n_actions": 2, **arguments})
    with pytest.raises(ValueError, match=message):
        q.fit(*transitions(rng))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (1, np.zeros(399, int), "actions has 399 rows, observations has 400"),
        (2, np.zeros(401), "rewards has 401 rows"),
        (1, np.full(400, 2), r"actions must be integers in 0, ..., 1"),
        (1, np.zeros(400), "actions must be integers"),
        (1, np.zeros(400, int), r"actions never holds \[1\]"),
        (2, np.full(400, np.nan), "rewards holds nan at index"),
        (2, np.full(400, 1e308), "overflow"),
        (3, np.full((400, 2), np.inf), "infinity"),
    ],
)
def test_bad_data_are_named(rng, features, place, value, message):
    rows = list(transitions(rng))
    rows[place] = value
    with pytest.raises(ValueError, match=message), np.errstate(over="ignore", invalid="ignore"):
        ReplicableFittedQ(features, 2).fit(*rows)


def test_an_unrounded_policy_has_no_fingerprint(rng, features):
    with pytest.raises(ValueError, match="bin_width=None gives no codes"):
        ReplicableFittedQ(features, 2, bin_width=None).fit(*transitions(rng)).fingerprint()
