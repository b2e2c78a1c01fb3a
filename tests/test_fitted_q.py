"""Replicable fitted Q-iteration: brute force, known answers, the codes' invariances, bad input."""

import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from rrl import LooseCodesWarning, RandomFourierFeatures, ReplicableFittedQ, hypergrid_round, modal_share
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
        ({"n_actions": 0}, "n_actions must be an integer >= 1, got 0"),
        ({"n_rounds": 2.5}, "n_rounds must be an integer >= 1, got 2.5"),
        ({"penalty": -1}, "penalty must be a finite number"),
        ({"penalty": np.inf}, "penalty"),
        ({"gamma": 1.01}, r"gamma must lie in \[0, 1\], got 1.01"),
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
        (1, np.zeros(399, int), r"actions must have shape \(400,\), one entry a row of observations, got \(399,\)"),
        (2, np.zeros(401), r"rewards must have shape \(400,\)"),
        (1, np.full(400, 2), r"actions must be integers in 0, ..., 1"),
        (1, np.zeros(400), "actions must be integers"),
        (1, np.zeros(400, int), r"actions never holds \[1\]"),
        (2, np.full(400, np.nan), "rewards holds nan at index"),
        (2, np.full(400, 1e308), "overflow"),
        (0, np.full((400, 2), np.nan), r"observations holds nan at index \(0, 0\)"),
        (0, np.zeros(400), r"observations must have shape \(n, n_inputs\) with at least one row, got \(400,\)"),
        (0, np.zeros((0, 2)), "observations must have shape"),
        (0, 3.0, "observations must have shape"),
        (0, [["a", "b"]] * 400, "observations must hold real numbers"),
        (3, np.full((400, 2), np.inf), "next_observations, whose row is no real end, holds inf"),
        (3, np.zeros((400, 3)), r"next_observations must have the shape \(400, 2\) of observations, got \(400, 3\)"),
        # (n, 1) against (n,) would broadcast to n x n.
        (1, np.zeros((400, 1), int), r"actions must have shape \(400,\).*got \(400, 1\)"),
        (2, np.zeros((400, 1)), r"rewards must have shape \(400,\), one entry a row of observations, got \(400, 1\)"),
        (4, np.zeros((400, 1)), r"terminals must have shape \(400,\).*got \(400, 1\)"),
        (2, 1.0, r"rewards must have shape \(400,\).*got \(\)"),
        (4, False, r"terminals must have shape \(400,\).*got \(\)"),
        (4, ["False", "True"] * 200, "terminals must be booleans or 0 and 1, got dtype <U5"),
        (4, np.array(["False", "True"] * 200, object), "terminals must be booleans or 0 and 1, got dtype object"),
        (4, [1.0, np.nan] * 200, "terminals must be booleans or 0 and 1, got nan at index"),
        (4, [0.5, 0.0] * 200, "terminals must be booleans or 0 and 1, got 0.5 at index"),
        (4, [True, None] * 200, "terminals must be booleans or 0 and 1, got dtype object"),
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


@pytest.mark.parametrize("kind", [bool, int, float, np.uint8, object])
@pytest.mark.parametrize("garbage", [np.nan, np.inf, 1e308])
def test_nobody_reads_what_follows_a_real_end(rng, features, kind, garbage):
    s, a, r, moved, end = transitions(rng)
    plain = ReplicableFittedQ(features, 2, penalty=0.05).fit(s, a, r, moved, end)
    behind = np.where(end[:, None], garbage, moved)
    assert end.any() and not end.all()
    same = ReplicableFittedQ(features, 2, penalty=0.05).fit(s, a, r, behind, end.astype(kind))
    assert (same.history_codes_ == plain.history_codes_).all() and (same.weights_ == plain.weights_).all()
    with pytest.raises(ValueError, match="next_observations, whose row is no real end, holds nan"):
        ReplicableFittedQ(features, 2).fit(s, a, r, np.full_like(moved, np.nan), end)


def test_when_every_row_is_an_end_all_rounds_are_ridge_on_the_rewards(rng, features):
    s, a, r, moved, _ = transitions(rng)
    q = ReplicableFittedQ(features, 2, bin_width=None).fit(s, a, r, np.full_like(moved, np.nan), np.ones(400, bool))
    once = ReplicableFittedQ(features, 2, bin_width=None, n_rounds=1).fit(s, a, r, moved, np.zeros(400, bool))
    assert (q.weights_ == once.weights_).all()


# scikit-learn's conventions: clones, parameters, what was not fitted.


def test_a_clone_fits_what_the_original_fitted(rng, features):
    rows = transitions(rng)
    for q in (
        ReplicableFittedQ(features, 2, key=("a",)),
        ReplicableFittedQ(RandomFourierFeatures(8, shared_seed=1), 2, key=("a",)),
    ):
        q.fit(*rows)
        assert (clone(q).fit(*rows).history_codes_ == q.history_codes_).all()
    # The caller's features are not touched, and were drawn anew as they were.
    assert not hasattr(q.features, "frequencies_") and (q.features_.frequencies_ == features.frequencies_).all()
    changed = clone(q).set_params(features__shared_seed=9).fit(*rows)
    assert (changed.features_.frequencies_ != features.frequencies_).all()
    # The seed of the grid is another one.
    other = clone(q).set_params(shared_seed=9).fit(*rows)
    assert (other.features_.frequencies_ == features.frequencies_).all() and (other.codes_ != q.codes_).any()
    assert pickle.loads(pickle.dumps(q)).fingerprint() == q.fingerprint()


def test_other_transformers_come_fitted_and_stay_as_they_are(rng):
    rows = transitions(rng)
    scaler = StandardScaler()
    with pytest.raises(NotFittedError, match="features, a StandardScaler, must come fitted, on data that all runs"):
        ReplicableFittedQ(scaler, 2).fit(*rows)
    scaler.fit(rng.normal(size=(9, 2)))
    q = ReplicableFittedQ(scaler, 2).fit(*rows)
    assert q.features_ is scaler
    with pytest.raises(NotFittedError, match="clone forgets a fit, unless it is wrapped in"):
        clone(q).fit(*rows)
    frozen = ReplicableFittedQ(FrozenEstimator(scaler), 2).fit(*rows)
    assert frozen.fingerprint() == q.fingerprint() == clone(frozen).fit(*rows).fingerprint()


def test_a_function_is_a_feature_map(rng, features):
    rows = transitions(rng)
    q, same = (ReplicableFittedQ(f, 2).fit(*rows) for f in (features, features.transform))
    assert q.fingerprint() == same.fingerprint()
    for wrong, error, message in (
        (0.2, TypeError, "features must be a transformer or a function, got 0.2"),
        (lambda s: s[:1], ValueError, r"features must map 400 observations to shape \(n, D\), got \(1, 2\)"),
        (lambda s: s[:, 0], ValueError, r"shape \(n, D\), got \(400,\)"),
        (lambda s: s * np.nan, ValueError, r"features\(observations\) holds nan"),
        (lambda s: s * 1e200, ValueError, "features overflows float64"),
    ):
        with pytest.raises(error, match=message):
            ReplicableFittedQ(wrong, 2).fit(*rows)


def test_data_frames_keep_their_column_names(rng, features):
    s, a, r, moved, end = transitions(rng)
    frames = [pd.DataFrame(x, columns=["place", "speed"]) for x in (s, moved)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = ReplicableFittedQ(features, 2).fit(frames[0], pd.Series(a), pd.Series(r), frames[1], pd.Series(end))
        assert (q.act(frames[0]) == ReplicableFittedQ(features, 2).fit(s, a, r, moved, end).act(s)).all()
    with pytest.raises(ValueError, match="feature names should match"):
        q.act(frames[0][["speed", "place"]])


@pytest.mark.parametrize(
    "call", [lambda q: q.act([[0.0, 0.0]]), lambda q: q.q_values([[0.0, 0.0]]), lambda q: q.fingerprint()]
)
def test_nothing_is_asked_of_an_estimator_before_its_fit(features, call):
    with pytest.raises(NotFittedError, match="This ReplicableFittedQ instance is not fitted yet"):
        call(ReplicableFittedQ(features, 2))


def test_a_key_names_an_estimator_and_none_is_the_estimator_as_it_was(rng, features):
    rows = transitions(rng)
    plain, named = (ReplicableFittedQ(features, 2, key=key).fit(*rows) for key in ((), ("b",)))
    loose = ReplicableFittedQ(features, 2, n_rounds=1, bin_width=None).fit(*rows)
    for q, key in ((plain, ("fitted_q", 0)), (named, ("fitted_q", 0, "b"))):
        assert (q.history_codes_[0] == hypergrid_round(loose.weights_, 0.2, shared_seed=0, key=key).codes).all()
    for changes in ({"key": "b"}, {"shared_seed": 0.5}):
        with pytest.raises(TypeError, match=next(iter(changes))):
            ReplicableFittedQ(features, 2, **changes).fit(*rows)


def test_a_smooth_kernel_with_hardly_a_penalty_is_told(rng):
    """The review's case: codes of 20 to 27 % of such fits differ between processors, of none at 1e-6."""
    rows = transitions(rng)
    smooth = RandomFourierFeatures(32, length_scale=3.0)
    with pytest.warns(LooseCodesWarning):
        ReplicableFittedQ(smooth, 2, penalty=1e-13).fit(*rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ReplicableFittedQ(smooth, 2, penalty=1e-6).fit(*rows)


@pytest.mark.parametrize("observation", [3.0, [0.5, 0.5]])
def test_one_observation_without_a_row_is_refused(features, rng, observation):
    q = ReplicableFittedQ(features, 2).fit(*transitions(rng))
    with pytest.raises(ValueError, match=r"observations must have shape \(n, n_inputs\), got"):
        q.act(observation)


def test_values_that_overflow_are_refused(features, rng):
    q = ReplicableFittedQ(lambda s: s, 2, penalty=0.0, bin_width=None).fit(*transitions(rng))
    with pytest.raises(ValueError, match=r"features\(observations\) @ weights overflows"):
        q.q_values([[1e308, -1e308]])


def test_integer_weights_are_copies_of_rows_and_zero_is_none(rng, features):
    rows = transitions(rng, 200)
    counts = rng.integers(4, size=200)
    given = {"penalty": 0.01, "gamma": 0.9, "bin_width": 0.1}
    weighted = ReplicableFittedQ(features, 2, **given).fit(*rows, sample_weight=counts)
    copies = ReplicableFittedQ(features, 2, **given).fit(*(np.repeat(column, counts, axis=0) for column in rows))
    np.testing.assert_array_equal(weighted.history_codes_, copies.history_codes_)
    plain = [
        ReplicableFittedQ(features, 2, **{**given, "bin_width": None}).fit(*rows, sample_weight=weight).weights_
        for weight in (None, np.ones(200), np.full(200, 1e-3), 7)
    ]
    for other in plain[1:]:
        np.testing.assert_allclose(other, plain[0], rtol=1e-9, atol=1e-12)


def test_bad_weights_are_named(rng, features):
    rows = transitions(rng, 50)
    for weight, message in (
        (np.ones(49), r"sample_weight.shape == \(49,\), expected \(50,\)"),
        (-np.ones(50), "sample_weight must be finite, non-negative"),
        (np.where(rows[1] == 0, 1.0, 0.0), "sample_weight must not be 0 for all rows of an action"),
    ):
        with pytest.raises(ValueError, match=message):
            ReplicableFittedQ(features, 2).fit(*rows, sample_weight=weight)
