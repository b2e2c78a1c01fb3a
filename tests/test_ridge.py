"""Algorithm 2: exact answers, scikit-learn's contract, streams, bad input, Theorem 3.1 at its own N."""

import os
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from rrl import ReplicableRidge, hypergrid_round, ridge_weights, theory
from rrl._estimators import row_blocks

# None of scikit-learn's checks is expected to fail; a new version that adds one shows here.
EXPECTED_FAILURES = {}


@parametrize_with_checks(
    [
        ReplicableRidge(),
        ReplicableRidge(bin_width=0.05),
        ReplicableRidge(bin_width=None),
        ReplicableRidge(bin_width=0.05, fit_intercept=True),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def data(rng):
    X = rng.uniform(-0.5, 0.5, size=(300, 4))
    return X, X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(scale=0.1, size=300)


def state(estimator):
    """Every attribute as bytes, to see whether anything changed."""
    return {name: pickle.dumps(value) for name, value in vars(estimator).items()}


# The answer.


@pytest.mark.parametrize("penalty", [1e-6, 0.1, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_an_intercept_is_scikit_learn_s_which_is_not_penalised(data, rng, penalty, weighted):
    X, y = data
    X, y = X + np.array([0.0, 3.0, -5.0, 0.0]), y + 40
    weight = rng.uniform(0, 2, size=300) if weighted else None
    total = 300 if weight is None else weight.sum()
    ours = ReplicableRidge(penalty, bin_width=None, fit_intercept=True).fit(X, y, sample_weight=weight)
    peer = Ridge(alpha=total * penalty, solver="svd").fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=1e-7, atol=1e-9)
    assert ours.intercept_ == pytest.approx(peer.intercept_, rel=1e-8)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), rtol=1e-8)
    # Labels that move together move the intercept alone.
    moved = ReplicableRidge(penalty, bin_width=None, fit_intercept=True).fit(X, y + 1000, sample_weight=weight)
    np.testing.assert_allclose(moved.coef_, ours.coef_, rtol=1e-6, atol=1e-7)


def test_an_intercept_is_rounded_with_the_weights_and_streams_like_them(data):
    X, y = data
    given = {"penalty": 0.1, "bin_width": 0.3, "shared_seed": 3, "fit_intercept": True}
    whole = ReplicableRidge(**given).fit(X, y + 7)
    plain = ReplicableRidge(**{**given, "bin_width": None}).fit(X, y + 7)
    rounded = hypergrid_round([*plain.coef_, plain.intercept_], 0.3, shared_seed=3, key=("ridge", ()))
    assert whole.codes_.tolist() == rounded.codes.tolist() and whole.codes_.shape == (5,)
    np.testing.assert_array_equal([*whole.coef_, whole.intercept_], rounded.values)
    parts = ReplicableRidge(**given).partial_fit(X[:100], y[:100] + 7).partial_fit(X[100:], y[100:] + 7)
    assert parts.codes_.tolist() == whole.codes_.tolist()
    with pytest.raises(ValueError, match="fit_intercept=False was another in the first batch"):
        parts.set_params(fit_intercept=False).partial_fit(X, y)
    assert ReplicableRidge(bin_width=0.3).fit(X, y).intercept_ == 0


@pytest.mark.parametrize("bin_width", ["theorem", "printed"])
def test_no_theorem_knows_the_intercept(data, bin_width):
    with pytest.raises(ValueError, match="bin_width must be a number or None with fit_intercept=True"):
        ReplicableRidge(bin_width=bin_width, fit_intercept=True).fit(*data)
    with pytest.raises(ValueError, match="fit_intercept must be True or False, got 'yes'"):
        ReplicableRidge(bin_width=0.1, fit_intercept="yes").fit(*data)


@pytest.mark.parametrize("penalty", [1e-6, 0.1, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_are_those_of_scikit_learn_with_alpha_n_times_penalty(data, rng, penalty, weighted):
    X, y = data
    weight = rng.uniform(0, 2, size=300) if weighted else None
    total = 300 if weight is None else weight.sum()
    ours = ReplicableRidge(penalty, bin_width=None).fit(X, y, sample_weight=weight)
    peer = Ridge(alpha=total * penalty, fit_intercept=False, solver="svd").fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(ours.coef_, ours.unrounded_coef_)
    assert ours.codes_ is None and ours.bin_width_ is None
    assert ours.score(X, y) == pytest.approx(peer.score(X, y), abs=1e-10)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 30), st.floats(1e-4, 10))
@settings(max_examples=50)
def test_the_gradient_of_the_objective_vanishes_and_every_other_point_costs_more(seed, d, n, penalty):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    w = ReplicableRidge(penalty, bin_width=None).fit(X, y).coef_
    gradient = 2 * X.T @ (X @ w - y) / n + 2 * penalty * w
    np.testing.assert_allclose(gradient, 0, atol=1e-10)

    def objective(v):
        return ((X @ v - y) ** 2).mean() + penalty * v @ v

    for step in rng.normal(scale=0.01, size=(5, d)):
        # Strong convexity: at least penalty * |step|^2 more.
        assert objective(w + step) >= objective(w) + penalty * step @ step - 1e-10


def test_rounded_weights_are_algorithm_1_under_the_estimators_key(data):
    X, y = data
    model = ReplicableRidge(0.1, bin_width=0.25, shared_seed=9, key=("t", 3)).fit(X, y)
    rounded = hypergrid_round(model.unrounded_coef_, 0.25, shared_seed=9, key=("ridge", ("t", 3)))
    np.testing.assert_array_equal(model.codes_, rounded.codes)
    np.testing.assert_array_equal(model.coef_, rounded.values)
    assert model.bin_width_ == 0.25 and model.n_samples_seen_ == 300
    np.testing.assert_array_equal(model.predict(X), X @ model.coef_)
    other = [
        ReplicableRidge(0.1, bin_width=0.25, **name).fit(X, y).coef_ for name in ({"shared_seed": 9}, {"key": ("t", 3)})
    ]
    assert not any(np.array_equal(coef, model.coef_) for coef in other)


@pytest.mark.parametrize(("name", "version"), [("theorem", "corrected"), ("printed", "printed")])
def test_named_bin_widths_are_the_theorems(data, name, version):
    model = ReplicableRidge(bin_width=name, epsilon=0.3, delta=0.02, rho=0.2).fit(*data)
    assert model.bin_width_ == theory.ridge_bin_width(4, 0.3, 0.02, 0.2, version=version)


def test_a_default_fit_is_at_accuracy_point_one():
    model = ReplicableRidge().fit(np.eye(3), np.ones(3))
    assert model.bin_width_ == theory.ridge_bin_width(3, 0.1, 0.01, 0.1)
    # X'X/N = I/3, penalty 1: w = (1/3) / (4/3).
    np.testing.assert_allclose(model.unrounded_coef_, 0.25, rtol=1e-14)


# Blocks, streams and types.


@given(st.lists(st.integers(1, 299), max_size=8, unique=True).map(sorted), st.integers(0, 100), st.booleans())
@settings(max_examples=50)
def test_any_split_into_batches_gives_the_codes_of_one_fit(cuts, seed, weighted):
    rng = np.random.default_rng(3)
    X, y = rng.uniform(-0.5, 0.5, size=(300, 3)), rng.uniform(-1, 1, size=300)
    weight = rng.uniform(0.1, 2, size=300) if weighted else None
    whole = ReplicableRidge(0.05, bin_width=0.01, shared_seed=seed).fit(X, y, sample_weight=weight)
    stream = ReplicableRidge(0.05, bin_width=0.01, shared_seed=seed)
    for part in np.split(np.arange(300), cuts):
        stream.partial_fit(X[part], y[part], sample_weight=None if weight is None else weight[part])
    np.testing.assert_array_equal(stream.codes_, whole.codes_)
    np.testing.assert_array_equal(stream.coef_, whole.coef_)
    np.testing.assert_allclose(stream.unrounded_coef_, whole.unrounded_coef_, rtol=1e-12)
    assert stream.n_samples_seen_ == whole.n_samples_seen_ == 300


def test_fit_forgets_and_partial_fit_adds(data):
    X, y = data
    fresh = ReplicableRidge(0.1, bin_width=None).fit(X, y)
    used = ReplicableRidge(0.1, bin_width=None).fit(X[:, :2] * 5, -y).partial_fit(X[:, :2], y)
    assert used.n_samples_seen_ == 600
    np.testing.assert_array_equal(used.fit(X, y).coef_, fresh.coef_)
    assert used.n_samples_seen_ == 300 and used.n_features_in_ == 4
    twice = fresh.partial_fit(X[:50], y[:50], sample_weight=3).coef_
    copies = Ridge(alpha=0.1 * 450, fit_intercept=False).fit(
        np.vstack([X, *[X[:50]] * 3]), np.concatenate([y, *[y[:50]] * 3])
    )
    np.testing.assert_allclose(twice, copies.coef_, rtol=1e-10)


def test_many_blocks_give_what_one_block_gives(data, monkeypatch):
    X, y = data
    whole = ReplicableRidge(0.1, bin_width=0.01).fit(X, y, sample_weight=np.arange(300))
    predicted = whole.predict(X)
    monkeypatch.setattr("rrl._estimators.BLOCK_ENTRIES", 28)
    assert [part.stop - part.start for part, _ in row_blocks(X)] == [7] * 43
    cut = ReplicableRidge(0.1, bin_width=0.01).fit(X, y, sample_weight=np.arange(300))
    np.testing.assert_allclose(cut.unrounded_coef_, whole.unrounded_coef_, rtol=1e-13)
    np.testing.assert_array_equal(cut.codes_, whole.codes_)
    np.testing.assert_allclose(cut.predict(X), predicted, rtol=1e-13)
    # A row longer than a block is a block.
    monkeypatch.setattr("rrl._estimators.BLOCK_ENTRIES", 1)
    assert len(list(row_blocks(X))) == 300


@pytest.mark.parametrize(
    "kind", [np.float16, np.float32, np.longdouble, np.int8, np.int64, np.uint8, np.uint64, np.bool_, object]
)
def test_any_real_type_gives_the_codes_of_its_float64_copy(kind):
    rng = np.random.default_rng(0)
    X, y = (rng.integers(0, 2, size=size).astype(kind) for size in ((200, 3), 200))
    if np.dtype(kind).kind not in "bO":
        X, y = X * kind(100), y * kind(100)
    ours = ReplicableRidge(0.1, bin_width=0.01).fit(X, y)
    copy = ReplicableRidge(0.1, bin_width=0.01).fit(X.astype(np.float64), y.astype(np.float64))
    np.testing.assert_array_equal(ours.codes_, copy.codes_)
    np.testing.assert_array_equal(ours.coef_, copy.coef_)
    assert ours.coef_.dtype == np.float64 and ours.codes_.dtype == np.int64
    np.testing.assert_array_equal(ours.predict(X), copy.predict(X.astype(np.float64)))


def test_layouts_read_only_memory_maps_lists_and_data_frames(data, tmp_path):
    X, y = data
    codes = ReplicableRidge(0.1, bin_width=0.01).fit(X, y).codes_
    X.flags.writeable = y.flags.writeable = False
    np.save(tmp_path / "X.npy", X)
    wide = np.zeros((600, 8))
    wide[::2, ::2] = X
    for form in (
        X,
        np.asfortranarray(X),
        wide[::2, ::2],
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        X.tolist(),
        pd.DataFrame(X, columns=list("abcd")),
    ):
        model = ReplicableRidge(0.1, bin_width=0.01).fit(form, pd.Series(y))
        np.testing.assert_array_equal(model.codes_, codes)
        assert model.predict(form).shape == (300,)
    assert list(model.feature_names_in_) == list("abcd")


# The estimator as an object.


def test_parameters_clone_repr_pickle_and_search(data):
    X, y = data
    model = ReplicableRidge(0.2, bin_width=0.1, shared_seed=4, key=("a", 1)).fit(X, y)
    assert repr(model) == "ReplicableRidge(bin_width=0.1, key=('a', 1), penalty=0.2, shared_seed=4)"
    copy = clone(model)
    assert not hasattr(copy, "coef_") and copy.get_params() == model.get_params()
    assert set(model.get_params()) == {
        "penalty",
        "bin_width",
        "epsilon",
        "delta",
        "rho",
        "shared_seed",
        "fit_intercept",
        "key",
        "scheme",
    }
    np.testing.assert_array_equal(copy.fit(X, y).codes_, model.codes_)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.partial_fit(X, y).unrounded_coef_, model.partial_fit(X, y).unrounded_coef_)
    assert copy.set_params(penalty=5.0).fit(X, y).penalty == 5.0
    assert np.linalg.norm(copy.unrounded_coef_) < np.linalg.norm(model.unrounded_coef_) / 5
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ReplicableRidge(bin_width=0.01)), {"replicableridge__penalty": [1e-3, 10]}
    )
    assert search.fit(X, y).best_params_ == {"replicableridge__penalty": 1e-3}


def test_threads_fit_what_one_thread_fits(data):
    X, y = data
    with ThreadPoolExecutor(4) as pool:
        fits = list(pool.map(lambda s: ReplicableRidge(0.1, bin_width=0.1, shared_seed=s).fit(X, y).codes_, range(32)))
    for seed, codes in enumerate(fits):
        np.testing.assert_array_equal(codes, ReplicableRidge(0.1, bin_width=0.1, shared_seed=seed).fit(X, y).codes_)


def test_predict_needs_a_fit():
    with pytest.raises(NotFittedError):
        ReplicableRidge().predict(np.ones((2, 2)))


# Refusals: by name, and before anything changes.

X0, Y0 = np.arange(12.0).reshape(4, 3) / 12, np.arange(4.0)


def changed(index, value, base=X0):
    base = base.copy()
    base[index] = value
    return base


BAD_CALLS = [
    ("NaN in X", {"X": changed((1, 2), np.nan)}, "Input X contains NaN"),
    ("inf in X", {"X": changed((1, 2), np.inf)}, "Input X contains infinity"),
    ("NaN in y", {"y": changed(2, np.nan, Y0)}, "Input y contains NaN"),
    ("inf in y", {"y": changed(2, -np.inf, Y0)}, "Input y contains infinity"),
    ("no rows", {"X": np.empty((0, 3)), "y": np.empty(0)}, r"0 sample\(s\)"),
    ("no columns", {"X": np.empty((4, 0))}, r"0 feature\(s\)"),
    ("1-D X", {"X": np.arange(4.0)}, "Expected 2D array, got 1D array"),
    ("3-D X", {"X": np.zeros((4, 3, 1))}, "dim 3"),
    ("2-D y", {"y": np.zeros((4, 2))}, r"y should be a 1d array, got an array of shape \(4, 2\)"),
    ("short y", {"y": np.zeros(3)}, "inconsistent numbers of samples"),
    ("no y", {"y": None}, "requires y to be passed"),
    ("text y", {"y": list("abcd")}, "y must hold real numbers"),
    ("complex X", {"X": X0 + 1j}, "Complex data not supported"),
    ("overflow in X", {"X": X0 * 1e200}, "X'X overflows float64"),
    ("overflow in y", {"X": X0 * 1e100, "y": Y0 * 1e250}, "X'y overflows float64"),
    ("negative weight", {"sample_weight": [1, -1, 1, 1]}, "sample_weight must be finite, non-negative"),
    ("NaN weight", {"sample_weight": [1, np.nan, 1, 1]}, "sample_weight must be finite"),
    ("infinite weight", {"sample_weight": [1, np.inf, 1, 1]}, "sample_weight must be finite"),
    ("zero weights", {"sample_weight": np.zeros(4)}, "sample_weight must be finite, non-negative and not all zero"),
    ("zero weight for all", {"sample_weight": 0.0}, "sample_weight .* not all zero"),
    ("short weights", {"sample_weight": [1, 1]}, r"sample_weight.shape == \(2,\), expected \(4,\)"),
    ("2-D weights", {"sample_weight": np.ones((4, 1))}, r"sample_weight.shape == \(4, 1\)"),
    ("text weights", {"sample_weight": "abcd"}, "sample_weight must hold real numbers"),
    ("complex weights", {"sample_weight": np.ones(4) * 1j}, "sample_weight has dtype complex"),
    ("overflowing weights", {"X": X0 * 1e-9, "sample_weight": np.full(4, 1e308)}, "the sum of sample_weight overflows"),
]
BAD_PARAMETERS = [
    ("penalty", -1e-9),
    ("penalty", np.nan),
    ("penalty", np.inf),
    ("penalty", "big"),
    ("penalty", None),
    ("penalty", [0.1]),
    ("bin_width", 0.0),
    ("bin_width", -0.1),
    ("bin_width", np.nan),
    ("bin_width", "paper"),
    ("bin_width", [0.1, 0.1, 0.1]),
    ("bin_width", 1e-30),
    ("epsilon", 0.0),
    ("epsilon", None),
    ("epsilon", np.nan),
    ("delta", 0.0),
    ("delta", 0.05),
    ("delta", "small"),
    ("rho", 0.02),
    ("rho", 0.015),
    ("rho", 1.0),
    ("rho", None),
]


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(("arguments", "message"), [bad[1:] for bad in BAD_CALLS], ids=[bad[0] for bad in BAD_CALLS])
def test_bad_data_are_refused_and_nothing_changes(method, used, arguments, message):
    model = ReplicableRidge(bin_width=0.1)
    if used:
        model.fit(pd.DataFrame(X0, columns=list("abc")), Y0)
    before = state(model)
    with warnings.catch_warnings():
        # Feature names are missing from the bad batches: only the error counts here.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        with pytest.raises(ValueError, match=message):
            getattr(model, method)(**{"X": X0, "y": Y0, **arguments})
    assert state(model) == before


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS, ids=str)
def test_bad_parameters_are_refused_by_name_and_nothing_changes(used, name, value):
    model = ReplicableRidge()
    if used:
        model.fit(X0[:, :2], Y0)
    model.set_params(**{name: value})
    before = state(model)
    with pytest.raises(ValueError, match=name):
        model.fit(X0, Y0)
    assert state(model) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [("shared_seed", 1.5), ("shared_seed", None), ("shared_seed", True), ("key", "a"), ("key", ["a"]), ("key", (0.5,))],
)
@pytest.mark.parametrize("bin_width", [None, "theorem"])
def test_a_bad_seed_or_key_is_refused_by_name_even_without_rounding(name, value, bin_width):
    model = ReplicableRidge(bin_width=bin_width, **{name: value})
    before = state(model)
    with pytest.raises(TypeError, match=name):
        model.fit(X0, Y0)
    assert state(model) == before


def test_another_number_of_features_is_refused_and_nothing_changes():
    model = ReplicableRidge(bin_width=0.1).fit(X0, Y0)
    before = state(model)
    with pytest.raises(ValueError, match="X has 2 features, but ReplicableRidge is expecting 3"):
        model.partial_fit(X0[:, :2], Y0)
    with pytest.raises(ValueError, match="X has 2 features"):
        model.predict(X0[:, :2])
    assert state(model) == before


def test_an_interrupt_in_mid_fit_leaves_the_estimator_as_it_was(monkeypatch):
    model = ReplicableRidge(bin_width=0.1).fit(X0, Y0)
    before = state(model)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("rrl.ridge.solve_ridge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X0[:, :2], Y0)
    assert state(model) == before


def test_sums_that_overflow_only_together_are_refused_and_the_stream_goes_on():
    model = ReplicableRidge(bin_width=None).partial_fit(X0 * 1e154, Y0)
    before = state(model)
    with pytest.raises(ValueError, match="X'X overflows"):
        model.partial_fit(X0, Y0, sample_weight=[1e308, 1e308, 1e308, 1e308])
    assert state(model) == before
    assert model.partial_fit(X0, Y0).n_samples_seen_ == 8


# The solver.


def test_ridge_weights_known_answers():
    np.testing.assert_allclose(ridge_weights([[2, 1], [1, 3]], [1, 2], 1), np.linalg.solve([[3, 1], [1, 4]], [1, 2]))
    many = ridge_weights(np.eye(2), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 1)
    np.testing.assert_allclose(many, [[0.5, 1, 1.5], [2, 2.5, 3]])
    gram = np.eye(2)
    ridge_weights(gram, [1, 1], 5)
    np.testing.assert_array_equal(gram, np.eye(2))
    np.testing.assert_array_equal(ridge_weights(np.zeros((2, 2)), [0, 0], 0), 0)


@pytest.mark.parametrize("seed", range(60))
def test_a_singular_gram_without_penalty_gives_the_solution_of_least_norm(seed):
    rng = np.random.default_rng(seed)
    d, rank, n = 6, rng.integers(1, 6), int(rng.choice([4, 40, 4000]))
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))
    y = rng.normal(size=n)
    w = ReplicableRidge(0.0, bin_width=None).fit(X, y).coef_
    np.testing.assert_allclose(w, np.linalg.lstsq(X, y, rcond=1e-10)[0], rtol=1e-6, atol=1e-6 * np.abs(w).max())


def test_columns_of_very_different_scale_are_not_taken_for_singular(rng):
    X = rng.normal(size=(50, 3)) * [1.0, 1e-9, 1e6]
    w = ReplicableRidge(0.0, bin_width=None).fit(X, X @ [1.0, 1e9, 1e-6]).coef_
    np.testing.assert_allclose(w, [1.0, 1e9, 1e-6], rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, 2.0]], [1], 1), "gram must be a square matrix"),
        (([1.0], [1], 1), "gram must be a square matrix"),
        ((np.empty((0, 0)), [], 1), "gram must be a square matrix"),
        (([[np.nan]], [1], 1), "gram holds nan"),
        (([[1.0]], [np.inf], 1), "moment holds inf"),
        (([[1.0]], [1, 2], 1), "moment must have 1 rows"),
        (([[1.0]], 1.0, 1), "moment must have 1 rows"),
        (([[1.0]], [[[1.0]]], 1), "moment must have 1 rows"),
        (([[1.0]], [1], -1), "penalty"),
        (([[1.0]], [1], np.nan), "penalty"),
        (([["a"]], [1], 1), "gram must hold real numbers"),
        (([[1e-300]], [1e300], 0), "the solution w overflows"),
    ],
)
def test_ridge_weights_refuses_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        ridge_weights(*arguments)


# Faults that neighbours' users met.


def test_case_01_twin_columns_share_the_weight():
    Z, y = [[1, 1], [2, 2], [3, 3]], [1, 2, 3]
    # The case's alpha = 1 penalises the sum; ours the mean.
    model = ReplicableRidge(1 / 3, bin_width=0.1).fit(Z, y)
    np.testing.assert_allclose(model.unrounded_coef_, 14 / 29, rtol=1e-14)
    assert (np.abs(model.coef_ - 14 / 29) <= 0.05).all()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    X = np.column_stack([X, X[:, 2] + 2, np.ones(50)])
    for penalty in (1e-6 / 50, 0.0):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            w = ReplicableRidge(penalty, bin_width=None).fit(X, rng.normal(size=50)).coef_
        assert np.abs(w).max() < 10


def test_case_02_small_unsigned_integers_do_not_wrap():
    X, y = np.array([[200], [100]], np.uint8), np.array([200, 100], np.uint8)
    for labels in (y, y.astype(np.int64), y.astype(float)):
        w = ReplicableRidge(1 / 2, bin_width=None).fit(X, labels).coef_
        np.testing.assert_allclose(w, 50000 / 50001, rtol=1e-14)
    assert ReplicableRidge(1 / 2, bin_width=None).fit(X, y, sample_weight=np.array([200, 200], np.uint8)).coef_ > 0.9999


def test_case_03_float32_gives_the_codes_of_float64():
    rng = np.random.default_rng(3)
    A, b = rng.standard_normal((6, 5)).astype("f4"), rng.standard_normal(6).astype("f4")
    one = ReplicableRidge(shared_seed=3).fit(A, b)
    two = ReplicableRidge(shared_seed=3).fit(A.astype("f8"), b.astype("f8"))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.unrounded_coef_, two.unrounded_coef_)


def test_case_04_several_targets_are_refused_and_a_column_is_a_vector(data):
    X, y = data
    with pytest.raises(ValueError, match=r"y should be a 1d array, got an array of shape \(300, 2\)"):
        ReplicableRidge().fit(X, np.column_stack([y, 2 * y]))
    flat = ReplicableRidge(bin_width=0.01).fit(X, y)
    with pytest.warns(DataConversionWarning):
        column = ReplicableRidge(bin_width=0.01).fit(X, y[:, None])
    np.testing.assert_array_equal(column.coef_, flat.coef_)
    assert (column.predict(X) - y).shape == (300,)


def test_case_05_integer_weights_are_copies_of_rows():
    X, y, w = np.array([[1.0, 1], [2, 1], [4, 1]]), np.array([1.0, 3, 2]), [2, 1, 1]
    weighted = ReplicableRidge(0.25, bin_width=0.01).fit(X, y, sample_weight=w)
    copies = ReplicableRidge(0.25, bin_width=0.01).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted.unrounded_coef_, copies.unrounded_coef_, rtol=1e-14)
    np.testing.assert_array_equal(weighted.codes_, copies.codes_)
    # The case's own numbers have an unpenalised intercept.
    line = ReplicableRidge(1 / 4, bin_width=None, fit_intercept=True).fit(X[:, :1], y, sample_weight=w)
    np.testing.assert_allclose([*line.coef_, line.intercept_], [0.2857142857, 1.1785714286], atol=1e-10)


def test_case_09_columns_in_another_order_or_of_another_name_are_refused(rng):
    frame = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"])
    y = rng.normal(size=20)
    model = ReplicableRidge(bin_width=0.01).fit(frame, y)
    for wrong in (frame[["b", "a"]], frame.rename(columns={"b": "c"})):
        with pytest.raises(ValueError, match="feature names"):
            model.predict(wrong)
        with pytest.raises(ValueError, match="feature names"):
            model.partial_fit(wrong, y)
    with pytest.warns(UserWarning, match="valid feature names"):
        np.testing.assert_array_equal(model.predict(frame.to_numpy()), model.predict(frame))


def test_case_12_one_row_works_and_no_rows_are_refused(rng):
    one = ReplicableRidge(0.5, bin_width=None).fit([[1.0, 2.0, 3.0]], [1.0])
    np.testing.assert_allclose(one.coef_, np.array([1, 2, 3]) / 14.5, rtol=1e-12)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        ReplicableRidge().fit(np.empty((0, 3)), np.empty(0))
    with pytest.raises(ValueError, match="1D array"):
        ReplicableRidge().fit([1.0, 2.0, 3.0], [1, 2, 3])
    X, y = rng.normal(size=(3, 20)), rng.normal(size=3)
    np.testing.assert_allclose(ReplicableRidge(0.0, bin_width=None).fit(X, y).coef_, np.linalg.pinv(X) @ y, rtol=1e-9)


def test_case_26_codes_do_not_depend_on_the_number_of_blas_threads():
    code = (
        "import numpy as np; from rrl import ReplicableRidge; r = np.random.default_rng(5);"
        "X = r.normal(size=(2000, 200)) / 14; y = X @ r.normal(size=200) + r.normal(size=2000);"
        "m = ReplicableRidge(1e-3, bin_width=.1, shared_seed=8).fit(X, y);"
        "e = (m.unrounded_coef_ - m.coef_) / .1; print(m.codes_.tobytes().hex()); print(.5 - abs(e).max())"
    )
    outputs = []
    for threads in ("1", "2"):
        env = {**os.environ, **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), threads)}
        run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env)
        outputs.append(run.stdout.split())
    assert outputs[0][0] == outputs[1][0]
    # The seed is one with every weight more than 1e-9 from an edge.
    assert float(outputs[0][1]) > 1e-8


# Theorem 3.1 at its own sample size, and the errata.


def finite_distribution(d, points, rng):
    """Support points (x, y) with norm(x) <= 1, abs(y) <= 1, and their probabilities; y is not linear in x."""
    X = rng.normal(size=(points, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, rng.uniform(-1, 1, size=points), rng.dirichlet(np.ones(points))


@pytest.mark.parametrize("version", ["corrected", "printed"])
@pytest.mark.parametrize("d", [1, 3])
def test_theorem_3_1_holds_at_its_own_sample_size(d, version):
    """N independent draws from a finite distribution are one multinomial draw of sample weights.

    The exact upper limits at confidence 1 - 1e-6 must lie below rho = .2 and delta = .05: with 400 pairs
    and 800 runs that leaves room for 43 disagreements and 13 failures (in truth there are next to none).
    So a rate of .2 or .05 would pass with probability 1e-6 at most.
    """
    epsilon, delta, rho, penalty = 0.3, 0.05, 0.2, 0.25
    rng = np.random.default_rng(d)
    X, y, p = finite_distribution(d, 8, rng)
    target = ridge_weights((X.T * p) @ X, (X.T * p) @ y, penalty)
    n = int(np.ceil(theory.ridge_sample_size(d, epsilon, delta, rho, penalty, version=version)))
    assert 10**5 < n < 10**9
    differ = failures = 0
    for seed in range(400):
        model = ReplicableRidge(
            penalty,
            bin_width="theorem" if version == "corrected" else "printed",
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            shared_seed=seed,
        )
        runs = [clone(model).fit(X, y, sample_weight=rng.multinomial(n, p)) for _ in range(2)]
        differ += not np.array_equal(runs[0].codes_, runs[1].codes_)
        failures += sum(np.linalg.norm(run.coef_ - target) > epsilon for run in runs)
    # Exact upper limits at confidence 1 - 1e-6.
    assert beta.isf(1e-6, differ + 1, 400 - differ) < rho
    assert beta.isf(1e-6, failures + 1, 800 - failures) < delta


def test_disagreement_of_ridge_follows_the_exact_law_at_a_small_sample_size(acceptance):
    """The test above would pass with offsets that are too kind: here disagreement is common, and exact."""
    rng = np.random.default_rng(7)
    X, y, p = finite_distribution(2, 6, rng)
    trials, law, differ = 1000, [], 0
    for seed in range(trials):
        runs = [
            ReplicableRidge(0.1, bin_width=0.2, shared_seed=seed).fit(X, y, sample_weight=rng.multinomial(300, p))
            for _ in range(2)
        ]
        law.append(theory.disagreement_probability(runs[0].unrounded_coef_ - runs[1].unrounded_coef_, 0.2))
        differ += not np.array_equal(runs[0].codes_, runs[1].codes_)
    # A sum of independent events has at most the spread of a binomial with the mean probability.
    low, high = acceptance(trials, np.mean(law))
    assert 0.1 < np.mean(law) < 0.9
    assert low <= differ <= high


def sum_form(X, y, penalty, weight):
    """Algorithm 2 as printed: (sum x x' + lambda I)^-1 sum x y."""
    return np.linalg.solve((X.T * weight) @ X + penalty * np.eye(X.shape[1]), (X.T * weight) @ y)


def test_erratum_e1_i_the_printed_algorithm_does_not_converge_to_the_printed_target():
    X, y, penalty = np.ones((1, 1)), np.ones(1), 0.1
    target = 1 / 1.1
    for n in (10**3, 10**6, 10**12):
        assert sum_form(X, y, penalty, [n])[0] - target == pytest.approx(1 / 11, abs=1e-3)
        assert ReplicableRidge(penalty, bin_width=None).fit(X, y, sample_weight=[n]).coef_ == pytest.approx(
            target, abs=1e-14
        )


def test_erratum_e1_ii_the_sum_form_fails_at_the_theorems_own_sample_size():
    """Draw e2 with probability 1/N, e1 otherwise, y = 1: the sum form is neither accurate nor replicable.

    Failure is Pr[e2 never drawn] = (1 - 1/N)^N -> 1/e = .368 > delta; 2,000 pairs of runs.
    """
    epsilon, delta, rho, penalty, pairs = 0.1, 0.05, 0.3, 0.1, 2000
    n = int(np.ceil(theory.ridge_sample_size(2, epsilon, delta, rho, penalty)))
    rng = np.random.default_rng(2)
    rare = rng.binomial(n, 1 / n, size=(pairs, 2))
    X, y = np.eye(2), np.ones(2)
    # With lambda in both sums the target for e2 is N p / (N p + lambda) = 1 / 1.1.
    target = np.array([n / (n + penalty), 1 / (1 + penalty)])
    fits = {k: sum_form(X, y, penalty, [n - k, k]) for k in np.unique(rare)}
    failure = np.mean([np.linalg.norm(fits[k] - target) > epsilon for k in rare.ravel()])
    assert failure - 6 * np.sqrt(0.25 / pairs / 2) > delta
    width = theory.ridge_bin_width(2, epsilon, delta, rho)
    differ = np.mean(
        [
            not np.array_equal(*(hypergrid_round(fits[k], width, shared_seed=s).codes for k in pair))
            for s, pair in enumerate(rare)
        ]
    )
    assert differ - 6 * np.sqrt(0.25 / pairs) > rho
    # The average form on the same draws: e2 has vanishing weight, both promises hold.
    target = ridge_weights(np.diag([1 - 1 / n, 1 / n]), [1 - 1 / n, 1 / n], penalty)
    for seed, pair in enumerate(rare[:100]):
        runs = [
            ReplicableRidge(penalty, epsilon=epsilon, delta=delta, rho=rho, shared_seed=seed).fit(
                X, y, sample_weight=[n - k, k]
            )
            for k in pair
        ]
        assert all(np.linalg.norm(run.coef_ - target) <= epsilon for run in runs)
        np.testing.assert_array_equal(runs[0].codes_, runs[1].codes_)


def test_erratum_e9_without_rho_above_two_delta_the_theorem_fails_and_is_refused():
    with pytest.raises(ValueError, match="rho must exceed 2 \\* delta"):
        ReplicableRidge(epsilon=0.02, delta=0.49, rho=0.01).fit([[1.0]], [1.0])
    # As printed the bin would be .667 wide: a uniform error of half of it exceeds .02 with chance .94.
    width = 0.02 / (1 + 0.01 - 0.98)
    assert width == pytest.approx(2 / 3)
    errors = hypergrid_round(np.full(20_000, 0.5), width, shared_seed=0).values - 0.5
    assert np.mean(np.abs(errors) > 0.02) == pytest.approx(0.94, abs=0.01)
