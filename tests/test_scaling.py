"""Rounded means and scales: scikit-learn's contract, half a bin of accuracy, the law of disagreement."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from rrl import (
    RandomFourierFeatures,
    ReplicableRidge,
    ReplicableScaler,
    ReplicableSecondMoment,
    estimate_replicability,
    hypergrid_round,
)


@parametrize_with_checks([ReplicableScaler(), ReplicableScaler(bin_width=0.1, scheme="lattice")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@given(st.integers(0, 2**32), st.integers(2, 50), st.integers(1, 4), st.floats(0.01, 3))
def test_means_and_deviations_are_within_half_a_bin(seed, n, d, width):
    rng = np.random.default_rng(seed)
    X = rng.normal(rng.normal(size=d) * 10, 10.0 ** rng.integers(-6, 7, size=d), size=(n, d))
    scaler, peer = ReplicableScaler(bin_width=width, shared_seed=seed).fit(X), StandardScaler().fit(X)
    half = width / 2 * (1 + 1e-9)
    assert (np.abs(np.log(scaler.scale_ / peer.scale_)) <= half).all()
    assert (np.abs(scaler.mean_ - peer.mean_) <= half * scaler.scale_).all()
    Z = scaler.transform(X)
    np.testing.assert_allclose(Z, (X - scaler.mean_) / scaler.scale_)
    np.testing.assert_allclose(scaler.inverse_transform(Z), X, rtol=1e-9, atol=1e-9 * np.abs(X).max())
    assert scaler.n_samples_seen_ == n


def test_the_numbers_are_those_of_algorithm_1_under_the_scaler_s_keys(rng):
    X = rng.normal([3.0, -1.0], [2.0, 0.1], size=(200, 2))
    scaler = ReplicableScaler(bin_width=0.3, shared_seed=5, key=("a",)).fit(X)
    logs = hypergrid_round(np.log(X.std(axis=0)), 0.3, shared_seed=5, key=("scaler", "scale", "a"))
    means = hypergrid_round(X.mean(axis=0) / np.exp(logs.values), 0.3, shared_seed=5, key=("scaler", "mean", "a"))
    np.testing.assert_array_equal(scaler.codes_, [logs.codes, means.codes])
    np.testing.assert_array_equal(scaler.scale_, np.exp(logs.values))
    np.testing.assert_array_equal(scaler.mean_, means.values * scaler.scale_)


def test_units_do_not_change_the_law_and_powers_of_two_change_no_digit(rng):
    """In other units means and deviations keep their ratio, so only the scale's code moves."""
    X = rng.normal(2, 1, size=(500, 1))
    one, two = (ReplicableScaler(bin_width=np.log(2), shared_seed=1).fit(Y) for Y in (X, 4 * X))
    assert (two.codes_ - one.codes_).tolist() == [[2], [0]]


def test_two_samples_disagree_as_often_as_said(acceptance):
    """Normal columns, 1.93 d / (width sqrt n) = 0.0965; the union bound is met to 5%; false alarm 1e-6."""

    def run(shared_seed, rng):
        return ReplicableScaler(bin_width=0.5, shared_seed=shared_seed).fit(rng.normal(7, 3, size=(1600, 1))).codes_

    found = estimate_replicability(run, n_pairs=2000, seed=0)
    low, high = acceptance(2000, 0.0965)
    assert 0.95 * low <= found.n_disagree <= high


def test_equal_codes_give_equal_predictions_where_another_scaler_s_never_are():
    def predictions(scaler, seed, shared_seed):
        rng = np.random.default_rng(seed)
        X = rng.normal([5.0, -2.0], [2.0, 40.0], size=(4000, 2))
        y = 0.3 * X[:, 0] - 0.01 * X[:, 1] + rng.normal(size=4000)
        model = make_pipeline(scaler, ReplicableRidge(0.01, bin_width=0.3, shared_seed=shared_seed, fit_intercept=True))
        model.fit(X, y)
        codes = [getattr(step, "codes_", np.zeros(1)).tobytes() for step in model]
        return codes, model.predict(np.array([[0.0, 0.0], [10.0, 30.0]])).tobytes()

    agree = 0
    for pair in range(20):
        (one, p), (two, q) = (predictions(ReplicableScaler(shared_seed=pair), 2 * pair + i, pair) for i in range(2))
        agree += one == two
        assert (p == q) == (one == two)
        (one, p), (two, q) = (predictions(StandardScaler(), 2 * pair + i, pair) for i in range(2))
        assert p != q
    assert 10 < agree < 20


def test_a_column_that_does_not_vary_keeps_its_scale():
    X = np.column_stack([np.full(10, 3.7), np.arange(10.0), np.full(10, 0.1 + 0.2)])
    scaler = ReplicableScaler(shared_seed=2).fit(X)
    assert scaler.scale_[[0, 2]].tolist() == [1, 1] and scaler.scale_[1] != 1
    assert (scaler.codes_[0] == np.iinfo(np.int64).min).tolist() == [True, False, True]
    assert (np.abs(scaler.mean_ - X.mean(axis=0))[[0, 2]] <= 0.25).all()
    vary = X + np.arange(10)[:, None]
    assert (ReplicableScaler(shared_seed=2).fit(vary).codes_[0] > -100).all()


def test_data_frames_keep_their_names_and_seeds_and_keys_name_the_grid(rng):
    frame = pd.DataFrame(rng.normal(size=(50, 2)), columns=["a", "b"])
    scaler = ReplicableScaler().fit(frame)
    assert scaler.get_feature_names_out().tolist() == ["a", "b"]
    assert isinstance(ReplicableScaler().set_output(transform="pandas").fit_transform(frame), pd.DataFrame)
    others = [ReplicableScaler(shared_seed=1), ReplicableScaler(key=(1,)), ReplicableScaler(scheme="lattice")]
    assert all((other.fit(frame).mean_ != scaler.mean_).all() for other in others)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"bin_width": 0.0}, ValueError, "bin_width must be positive"),
        ({"bin_width": "theorem"}, ValueError, "bin_width"),
        ({"bin_width": [0.1, 0.2]}, ValueError, "bin_width has shape"),
        ({"bin_width": 1e5}, ValueError, "bin_width=100000.0 is too large: a rounded deviation is no float"),
        ({"shared_seed": 0.5}, TypeError, "shared_seed"),
        ({"key": "a"}, TypeError, "key"),
        ({"scheme": "other"}, ValueError, "scheme"),
    ],
)
def test_bad_parameters_are_named(rng, change, error, message):
    with pytest.raises(error, match=message):
        ReplicableScaler(**change).fit(rng.normal(size=(20, 3)))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0], [np.nan]], "NaN"),
        ([[1e200], [-1e200]], "the variance of X overflows"),
        ([[1e-200], [0.0]], "the variance of X underflows"),
        (1e16 + 8 * np.arange(100.0)[:, None] % 16, "too fine"),
    ],
)
def test_bad_data_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        ReplicableScaler(bin_width=0.01).fit(X)


def test_on_a_lattice_equal_codes_are_equal_columns():
    """A column that does not vary stays out of the cell of the others."""

    def lab(seed, k):
        rng = np.random.default_rng([seed, k])
        X = np.column_stack([2 * rng.normal(size=400), np.full(400, 3.0)])
        return ReplicableScaler(scheme="lattice", shared_seed=seed).fit(X)

    equal = 0
    for seed in range(150):
        one, two = lab(seed, 0), lab(seed, 1)
        if (one.codes_ == two.codes_).all():
            equal += 1
            assert (one.scale_ == two.scale_).all() and (one.mean_ == two.mean_).all()
        assert one.scale_[1] == 1 and one.codes_[0, 1] == np.iinfo(np.int64).min
    assert equal > 50
    none = ReplicableScaler(scheme="lattice").fit(np.full((9, 2), 0.1))
    assert (none.scale_ == 1).all()


@pytest.mark.parametrize("mean", [1e9, 1.7e9, 0.1, -1e12])
def test_a_column_varies_if_its_numbers_do(mean):
    x = mean + 1000 * np.spacing(abs(mean)) * np.random.default_rng(0).normal(size=(1000, 1))
    scale = ReplicableScaler(bin_width=0.5).fit(x).scale_[0]
    assert abs(np.log(scale / x.std())) < 0.26
    for steps in (0, 1):  # of rounding error
        x = np.where(np.arange(100) % 2, mean, mean + steps * np.spacing(mean))[:, None]
        assert ReplicableScaler().fit(x).scale_[0] == 1


@pytest.mark.parametrize("make", [ReplicableScaler, lambda: ReplicableRidge(bin_width=None), ReplicableSecondMoment])
@pytest.mark.parametrize("kind", ["M8[D]", "m8[s]"])
def test_dates_are_no_numbers(make, kind):
    X = np.array([[1, 2], [3, np.iinfo(np.int64).min]]).astype(kind)
    with pytest.raises(ValueError, match=r"X must hold real numbers, got dtype"):
        make().fit(X, [0.0, 1.0])
    with pytest.raises(ValueError, match=r"X must hold real numbers, got dtype"):
        make().fit(pd.DataFrame(X), [0.0, 1.0])


def test_a_fit_that_fails_leaves_what_was_fitted():
    X = np.random.default_rng(0).normal(size=(100, 3))
    for model, bad in (
        (ReplicableScaler(), 1e200 * np.c_[X, X[:, 0]]),
        (RandomFourierFeatures(8, scale=[1, 1, 1.0]), X[:, :2]),
    ):
        out = model.fit(X).transform(X)
        with pytest.raises(ValueError):
            model.fit(bad)
        assert model.n_features_in_ == 3 and (model.transform(X) == out).all()
        new = clone(model)
        with pytest.raises(ValueError):
            new.fit(bad)
        with pytest.raises(NotFittedError):
            new.transform(X)
