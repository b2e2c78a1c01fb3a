"""Random Fourier features: norms, kernel, prefix property, batch-independent bits, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.utils.estimator_checks import parametrize_with_checks

from rrl import RandomFourierFeatures
from rrl.features import rowwise_product


@parametrize_with_checks([RandomFourierFeatures(8)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@given(n=st.integers(1, 20), half=st.integers(1, 40), seed=st.integers(-(10**9), 10**9))
@settings(max_examples=50, deadline=None)
def test_every_row_has_norm_one(n, half, seed):
    X = np.random.default_rng(n).normal(size=(n, 3), scale=100)
    phi = RandomFourierFeatures(2 * half, shared_seed=seed).fit_transform(X)
    assert phi.shape == (n, 2 * half)
    np.testing.assert_allclose((phi**2).sum(axis=1), 1, rtol=1e-12)


def test_inner_products_are_the_gaussian_kernel(rng):
    X = rng.normal(size=(6, 2))
    scale = np.array([2.0, 0.5])
    phi = RandomFourierFeatures(200_000, length_scale=1.5, scale=scale, shared_seed=3).fit_transform(X)
    gaps = (X[:, None] - X[None]) / scale
    kernel = np.exp(-(gaps**2).sum(axis=2) / (2 * 1.5**2))
    # Each entry is a mean of 100,000 cosines of standard deviation below 1: six of them are 0.019.
    np.testing.assert_allclose(phi @ phi.T, kernel, atol=0.019)


def test_features_are_the_formula(rng):
    X = rng.normal(size=(5, 3))
    features = RandomFourierFeatures(6, shared_seed=9).fit(X)
    angles = X @ features.frequencies_
    expected = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(3)
    np.testing.assert_allclose(features.transform(X), expected, atol=1e-14)
    assert features.get_feature_names_out().tolist() == ["cos0", "cos1", "cos2", "sin0", "sin1", "sin2"]


def test_frequencies_depend_on_seed_and_key_only(rng):
    one, two = (RandomFourierFeatures(8, shared_seed=4).fit(rng.normal(size=(5, 3))) for _ in range(2))
    assert (one.frequencies_ == two.frequencies_).all()
    more = RandomFourierFeatures(12, shared_seed=4).fit(np.zeros((1, 3)))
    assert (more.frequencies_[:, :4] == one.frequencies_).all()
    for other in (RandomFourierFeatures(8, shared_seed=5), RandomFourierFeatures(8, shared_seed=4, key=("b",))):
        assert not (other.fit(np.zeros((1, 3))).frequencies_ == one.frequencies_).any()


def test_the_smallest_and_the_largest_draw_give_finite_frequencies(monkeypatch):
    draws = np.array([[0.0, 0.5, 1 - 2.0**-53]])
    monkeypatch.setattr("rrl.features.shared_uniform", lambda seed, key, shape: draws)
    features = RandomFourierFeatures(2).fit(np.zeros((1, 3)))
    np.testing.assert_allclose(features.frequencies_[:, 0], norm.ppf([2.0**-54, 0.5, 1 - 2.0**-53]), atol=1e-15)


@given(st.integers(1, 60), st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_a_row_has_the_same_bits_in_every_batch(n, d):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(n, d)), rng.normal(size=(d, 3))
    whole = rowwise_product(a, b)
    assert all((rowwise_product(a[i : i + 1], b)[0] == whole[i]).all() for i in range(n))
    np.testing.assert_allclose(whole, a @ b, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features": 7}, "n_features must be an even integer >= 2, got 7"),
        ({"n_features": 0}, "n_features"),
        ({"n_features": 4.0}, "n_features"),
        ({"length_scale": 0.0}, "length_scale must be positive and finite, got 0.0"),
        ({"length_scale": np.nan}, "length_scale"),
        ({"length_scale": "wide"}, "length_scale"),
        ({"scale": [1.0, 2.0]}, "scale must hold 3 positive numbers"),
        ({"scale": [1.0, 0.0, 1.0]}, "scale must hold 3 positive numbers"),
    ],
)
def test_bad_parameters_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        RandomFourierFeatures(**arguments).fit(np.zeros((2, 3)))


def test_a_bad_seed_or_key_is_refused_by_name():
    for arguments in ({"shared_seed": 0.5}, {"key": "a"}):
        with pytest.raises(TypeError, match=next(iter(arguments))):
            RandomFourierFeatures(8, **arguments).fit(np.zeros((1, 3)))


def test_inputs_of_any_scale_give_rows_of_norm_one_or_are_refused():
    """Angles are x / (length_scale scale): where that overflows there is no cosine."""
    plain = RandomFourierFeatures(32).fit([[1.0]])
    for x in (0.0, 5e-324, 1e-300, 1e17, 1e300):
        np.testing.assert_allclose((plain.transform([[x]]) ** 2).sum(), 1)
    # A frequency is about 1 or more for some of the 16, and 1.7e308 is close to the largest float.
    with pytest.raises(ValueError, match=r"X, up to 1.7e\+308, is too large for length_scale and scale"):
        plain.transform([[1.7e308]])
    for units in (
        {"length_scale": 1e-200, "scale": [1e-200]},
        {"length_scale": 1e200, "scale": [1e200]},
        {"length_scale": 5e-324},
        {"scale": [1e-310]},
    ):
        with pytest.raises(ValueError, match="length_scale times scale must lie between"):
            RandomFourierFeatures(4, **units).fit([[1.0]])
    # What two scales take away from each other leaves the features as they are.
    same = RandomFourierFeatures(32, length_scale=2.0**-600, scale=[2.0**600]).fit([[1.0]])
    assert (same.frequencies_ == plain.frequencies_).all()
    scaled = RandomFourierFeatures(32, length_scale=2.0**900).fit([[1.0]])
    assert (scaled.transform([[2.0**900]]) == plain.transform([[1.0]])).all()


def test_parameters_that_change_after_the_fit_wait_for_the_next():
    features = RandomFourierFeatures(8).fit(np.zeros((1, 3)))
    before = features.transform(np.ones((2, 3)))
    features.set_params(n_features=32)
    assert (features.transform(np.ones((2, 3))) == before).all() and len(features.get_feature_names_out()) == 8
    assert features.fit(np.zeros((1, 3))).transform(np.ones((2, 3))).shape == (2, 32)
    assert len(features.get_feature_names_out()) == 32
