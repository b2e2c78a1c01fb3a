"""Ridge at extremes of scale, and the warning of problems too ill-conditioned for codes."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rrl import (
    LinearMDP,
    LooseCodesWarning,
    ReplicableFittedQ,
    ReplicableRidge,
    ReplicableSecondMoment,
    g_optimal_design,
    r_lsvi,
    ridge_weights,
)
from rrl._solve import CONDITION_NOISE, solve_ridge, warn_of_loose_codes


def test_sums_that_underflow_are_refused_not_computed_with_the_digits_that_are_left():
    X, y = np.array([[1.0, 0.5], [0.3, 0.8]]), np.array([1.0, 2.0])
    model = ReplicableRidge(0.1, bin_width=0.5)
    expected = model.fit(X, y, sample_weight=[3.0, 1.0]).unrounded_coef_
    for exponent in (-950, -500, 500, 900):
        weighted = model.fit(X, y, sample_weight=np.ldexp([3.0, 1.0], exponent)).unrounded_coef_
        np.testing.assert_allclose(weighted, expected, rtol=1e-14)
    for tiny in (5e-324, 1e-300):
        with pytest.raises(ValueError, match=r"sample_weight is at most .*, where products lose their digits"):
            model.fit(X, y, sample_weight=[tiny, tiny])
        with pytest.raises(ValueError, match="sample_weight is at most"):
            ReplicableSecondMoment(bin_width=0.5).fit(X, sample_weight=[tiny, tiny])
    # Without penalty the scale of X is that of the weights; with one, rows as small as this count for nothing.
    plain = ReplicableRidge(0.0, bin_width=None)
    np.testing.assert_allclose(plain.fit(np.ldexp(X, -470), y).coef_, plain.fit(X, y).coef_ * 2.0**470, rtol=1e-13)
    # From 2^-960 on a square keeps its digits beside the smallest normal float.
    np.testing.assert_allclose(plain.fit([[2.0**-480]], [1.0]).coef_, 2.0**480)
    for exponent in (-481, -490, -600, -1000):
        with pytest.raises(ValueError, match="X'X underflows float64: rescale X, or raise penalty"):
            plain.fit(np.ldexp(X, exponent), y)
        assert np.abs(ReplicableRidge(0.1, bin_width=None).fit(np.ldexp(X, exponent), y).coef_).max() < 1e-100
    with pytest.raises(ValueError, match="X'X underflows"):
        plain.fit(np.vstack([X * 1e-200, X]), [1, 2, 3, 4], sample_weight=[1, 1, 0, 0])
    # A column of zeros has no scale.
    assert plain.fit(np.hstack([X, np.zeros((2, 1))]), y).coef_[2] == 0


def test_gram_and_penalty_that_overflow_together_are_refused():
    with pytest.raises(ValueError, match=r"gram \+ penalty I overflows float64"):
        ridge_weights([[1e308]], [1.0], 1e308)
    assert ridge_weights([[1e308]], [1e308], 0.0) == pytest.approx([1.0])


def twins(gap, rng=None, n=2000):
    rng = rng or np.random.default_rng(1)
    X = rng.normal(size=(n, 3)) / 2
    X[:, 1] = X[:, 0] + gap * rng.normal(size=n)
    return X, X @ [1.0, 0.5, -1.0] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize(("gap", "penalty"), [(1e-3, 0.0), (1e-6, 1e-6), (0.0, 0.0), (0.0, 1e-6), (1e-9, 0.0)])
def test_well_conditioned_fits_and_exact_twins_warn_of_nothing(gap, penalty):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ReplicableRidge(penalty, bin_width=0.2).fit(*twins(gap))


@pytest.mark.parametrize(("gap", "penalty", "width"), [(1e-6, 0.0, 0.2), (1e-5, 0.0, 0.2), (1e-6, 1e-10, 1e-4)])
def test_a_fit_whose_codes_depend_on_the_order_of_sums_says_so(gap, penalty, width):
    X, y = twins(gap)
    with pytest.warns(LooseCodesWarning, match="on another processor a code may differ"):
        first = ReplicableRidge(penalty, bin_width=width).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ReplicableRidge(penalty, bin_width=None).fit(X, y)
        orders = [np.random.default_rng(seed).permutation(len(y)) for seed in range(40)]
        fits = [ReplicableRidge(penalty, bin_width=width).fit(X[order], y[order]) for order in orders]
    # The estimate is of the right size: real differences lie within a factor 30 of a thousandth of the bin or above.
    apart = max(np.abs(fit.unrounded_coef_ - first.unrounded_coef_).max() for fit in fits)
    assert apart > width / 30_000


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.floats(-7, -2), st.sampled_from([0.0, 1e-10, 1e-6]), st.integers(2, 8))
def test_the_estimated_rounding_error_is_the_real_one_up_to_a_factor(seed, log_gap, penalty, d):
    """Real: against the solution in rational numbers of the very Gram matrix, moved by one rounding of each entry."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, d)) / np.sqrt(d)
    X[:, 1] = X[:, 0] + 10.0**log_gap * rng.normal(size=50)
    gram, moment = X.T @ X / 50, X.T @ rng.normal(size=50) / 50
    weights, noise = solve_ridge(gram, moment, penalty)
    moved = []
    for _ in range(10):
        shake = 1 + np.finfo(float).eps * rng.uniform(-1, 1, size=gram.shape)
        moved.append(solve_ridge(np.triu(gram * shake) + np.triu(gram * shake, 1).T, moment, penalty)[0])
    apart = np.abs(np.array(moved) - weights).max()
    assert apart <= 30 * noise.max() + 1e-15


def test_a_decision_on_the_rank_that_rounding_error_may_turn_is_noise_without_bound():
    cut = CONDITION_NOISE * 2
    near = np.diag([1.0, 1.0]) + (1 - 1.6 * cut) * np.array([[0, 1], [1, 0]])
    assert np.isinf(solve_ridge(near, [1.0, 1.0], 0.0)[1]).all()
    clear = np.ones((2, 2))
    assert solve_ridge(clear, [1.0, 1.0], 0.0)[1].max() < 1e-14
    with pytest.warns(LooseCodesWarning, match="with probability up to about 1:"):
        warn_of_loose_codes(np.inf)


@pytest.mark.parametrize("exponent", [-300, -40, -10, 10, 40, 300])
def test_no_scale_changes_the_rounding_error_of_a_singular_problem(exponent):
    gram, moment = np.diag([1.0, 0.25, 0.0]), np.array([1.0, 0.5, 0.0])
    weights, noise = solve_ridge(gram, moment, 0.0)
    assert weights == pytest.approx([1, 2, 0]) and noise / np.finfo(float).eps == pytest.approx([1, 2, 0])
    scaled = solve_ridge(np.ldexp(gram, exponent), np.ldexp(moment, exponent), 0.0)
    np.testing.assert_allclose(scaled, (weights, noise), rtol=1e-12)


def test_coefficients_are_arrays_of_their_own():
    X, y = np.eye(2), [1.0, 2.0]
    for width in (None, 0.5):
        ridge = ReplicableRidge(0.1, bin_width=width).fit(X, y)
        assert not np.shares_memory(ridge.coef_, ridge.unrounded_coef_)
        moment = ReplicableSecondMoment(bin_width=width).fit(X)
        assert not np.shares_memory(moment.second_moment_, moment.unrounded_second_moment_)


def test_an_intercept_of_ones_is_penalised_as_the_docstring_says():
    """Centred on a shared constant first, the slope is that of the labels without the constant."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(size=500), np.ones(500)])
    y = 1.2 * X[:, 0] + rng.normal(scale=0.01, size=500)
    fit = ReplicableRidge(0.1, bin_width=None).fit
    slope = fit(X, y).coef_[0].copy()
    assert abs(fit(X, y + 1000).coef_[0] - slope) > 1
    assert fit(X, (y + 1000) - 1000).coef_[0] == pytest.approx(slope, abs=1e-9)
    assert "penalised like every other" in ReplicableRidge.__doc__


def test_the_warning_names_the_line_of_the_user():
    X, y = twins(1e-6)
    chain = LinearMDP.chain(n_states=3, horizon=3)
    finest = {"n_samples": 10**6, "penalty": 0, "bin_width": 1e-13, "shared_seed": 1}
    fitted_q = ReplicableFittedQ(np.array, 2, n_rounds=1, penalty=0.0)
    for run in (
        lambda: ReplicableRidge(0.0, bin_width=0.2).fit(X, y),
        lambda: ReplicableRidge(0.0, bin_width=0.2).partial_fit(X, y),
        lambda: r_lsvi(chain, g_optimal_design(chain.features), rng=np.random.default_rng(0), **finest),
        lambda: fitted_q.fit(X, np.arange(len(y)) % 2, y, X, np.ones(len(y), bool)),
    ):
        with pytest.warns(LooseCodesWarning) as told:
            run()
        assert (told[0].filename, told[0].lineno) == (__file__, run.__code__.co_firstlineno)


def exact_ridge(gram, moment, penalty):
    """The solution in rational arithmetic, of a regular system."""
    d = len(gram)
    rows = [
        [Fraction(float(gram[i][j])) + (Fraction(penalty) if i == j else 0) for j in range(d)]
        + [Fraction(float(moment[i]))]
        for i in range(d)
    ]
    for k in range(d):
        pivot = next(i for i in range(k, d) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(d):
            if i != k:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return np.array([float(row[-1]) for row in rows])


@pytest.mark.parametrize("unit", [1.0, 1e5, 1e8, 1e12])
@pytest.mark.parametrize("penalty", [1.0, 1e-3])
def test_a_column_twice_hides_no_other_column(unit, penalty):
    """The penalty is lost beside a large unit: the other column keeps its weight, the copies share theirs."""
    c = np.random.default_rng(0).integers(-9, 10, size=(50, 2)).astype(float)
    X = np.column_stack([c[:, 0], unit * c[:, 1], unit * c[:, 1]])
    gram, moment = X.T @ X, X.T @ (3 * c[:, 0] + c[:, 1])
    want = exact_ridge(gram, moment, penalty)
    got = ridge_weights(gram, moment, penalty)
    assert got[0] == pytest.approx(want[0], rel=1e-6)
    assert got[1:] * unit == pytest.approx(want[1:] * unit, abs=5e-3)


def test_of_a_column_in_two_units_the_penalty_decides():
    """Weights of least norm: the larger unit takes nearly all."""
    x = np.arange(1.0, 6.0)
    X = np.column_stack([x, 1000 * x, 0 * x])
    for penalty in (0.0, 1e-12):
        assert ridge_weights(X.T @ X, X.T @ x, penalty) == pytest.approx([1 / 1_000_001, 1000 / 1_000_001, 0], abs=1e-9)


def test_lost_digits_are_told_and_copies_are_not():
    """Beside a mean of 1e8 deviations, one number of the Gram matrix holds no digit of the deviation."""
    rng = np.random.default_rng(0)
    x = 1e8 + rng.normal(size=2000)
    for width in (0.1, None):
        with pytest.warns(LooseCodesWarning, match="subtract large means"):
            ReplicableRidge(0.01, bin_width=width, fit_intercept=True).fit(x[:, None], x - 1e8)
    c = rng.normal(size=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ReplicableRidge(0, bin_width=0.1).fit(np.column_stack([c, c]), c)
    assert model.unrounded_coef_ == pytest.approx([0.5, 0.5])


def test_what_is_no_gram_matrix_is_refused():
    with pytest.raises(ValueError, match="gram must be symmetric"):
        ridge_weights([[1, 5], [0, 1]], [1, 1], 0.1)
    with pytest.raises(ValueError, match="must be positive semidefinite"):
        ridge_weights([[-1.0]], [1.0], 0.5)


def test_a_gram_matrix_that_float32_sums_made_indefinite_is_refused_and_told_why():
    """Of a column that is the sum of others; what float32 leaves of its eigenvalue would decide the weights."""
    X = np.random.default_rng(1).normal(size=(500, 4)).astype(np.float32)
    X = np.column_stack([X, X.sum(1)])
    gram = X.T @ X
    assert -1e-6 < np.linalg.eigvalsh(gram.astype(float))[0] / 500 < -1e-9
    with pytest.raises(ValueError, match=r"positive semidefinite.*sum in float64"):
        ridge_weights(gram, X.T @ X[:, 0], 0.0)
    X = X.astype(float)
    assert ridge_weights(X.T @ X, X.T @ X[:, 0], 0.0) == pytest.approx([0.8, -0.2, -0.2, -0.2, 0.2], abs=1e-5)


def test_a_fit_that_ends_in_a_warning_that_is_an_error_changes_nothing():
    x = 1e9 + np.random.default_rng(0).normal(size=500)
    model = ReplicableRidge(0.0, bin_width=0.01, fit_intercept=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(LooseCodesWarning):
                model.partial_fit(x[:, None], x)
    assert not hasattr(model, "n_samples_seen_") and not hasattr(model, "n_features_in_")
