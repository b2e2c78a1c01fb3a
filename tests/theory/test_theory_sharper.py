"""The sharper bounds of chapter 12: their optima found again, their limits reached, and their refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from rrl import project_psd, theory

# Plans: the smallest N for which some width keeps both promises.


@pytest.mark.parametrize("d", [1, 4, 30])
@pytest.mark.parametrize(("epsilon", "delta", "rho"), [(0.3, 0.05, 0.2), (0.01, 0.4, 0.1)])
def test_plans_are_the_optimum_of_width_against_rows(d, epsilon, delta, rho):
    """A rho below 2 delta is allowed here, as the second row of arguments has it."""

    def ridge_rows(log_width):  # a given width: rows for each of the two promises
        width = np.exp(log_width)
        left = epsilon - np.sqrt(d) * width / 2
        apart = (theory.ridge_disagreement_bound(d, 1, width, 0.3, 2.0) / rho) ** 2
        return max(apart, (theory.ridge_error_bound(1, delta, 0.3, 2.0, 0.7) / left) ** 2)

    def moment_rows(log_width):
        width = np.exp(log_width)
        left = epsilon - d * width / 2
        apart = (theory.second_moment_disagreement_bound(d, 1, width, 3) / rho) ** 2
        return max(apart, (theory.second_moment_error_bound(1, delta, 3) / left) ** 2)

    for rows, plan, widest in (
        (ridge_rows, theory.ridge_plan(d, epsilon, delta, rho, 0.3, 2.0, 0.7), 2 * epsilon / np.sqrt(d)),
        (moment_rows, theory.second_moment_plan(d, epsilon, delta, rho, 3), 2 * epsilon / d),
    ):
        bounds = (np.log(widest * 1e-4), np.log(widest * (1 - 1e-6)))
        best = minimize_scalar(rows, bounds=bounds, method="bounded", options={"xatol": 1e-10})
        assert plan.n_samples == pytest.approx(best.fun, rel=1e-4)
        assert plan.bin_width == pytest.approx(np.exp(best.x), rel=1e-4)


def test_the_plans_closed_forms():
    d, epsilon, delta, rho, penalty, Y, norm = 5, 0.2, 0.03, 0.15, 0.4, 1.5, 0.8
    root = d * Y / (np.sqrt(2) * rho) + Y + (norm + Y) * np.sqrt(2 * np.log(1 / delta))
    plan = theory.ridge_plan(d, epsilon, delta, rho, penalty, Y, norm)
    assert plan.n_samples == pytest.approx((root / (penalty * epsilon)) ** 2)
    assert plan.bin_width == pytest.approx(np.sqrt(2 * d) * Y / (penalty * rho * np.sqrt(plan.n_samples)))
    root = d * np.sqrt(d * (d + 3) / 8) / rho + 1 + np.sqrt(np.log(1 / delta))
    assert theory.second_moment_plan(d, epsilon, delta, rho, 2).n_samples == pytest.approx((2 * root / epsilon) ** 2)
    safe = theory.ridge_error_bound(100, delta, penalty, Y)
    assert safe == theory.ridge_error_bound(100, delta, penalty, Y, Y / (2 * np.sqrt(penalty)))


@pytest.mark.parametrize(("rho", "delta", "by"), [(0.01, 0.4, "rho"), (0.9, 1e-6, "delta")])
@pytest.mark.parametrize("total", [None, 1.0, 1.3])
def test_the_design_s_plan_keeps_both_promises_and_one_of_them_exactly(rho, delta, by, total):
    d, k, epsilon, Y = 3, 4.0, 0.2, 1.5
    n, width = theory.design_plan(d, k, epsilon, delta, rho, Y, total)
    apart = np.sqrt(d) * np.sqrt(2 * k * d / n) * Y / width
    error = Y * np.sqrt(k * d / n) * (1 + np.sqrt(2 * np.log(1 / delta))) + (total or np.sqrt(d)) * width / 2
    assert apart <= rho * (1 + 1e-12) and error <= epsilon * (1 + 1e-12)
    assert (apart if by == "rho" else error) == pytest.approx(rho if by == "rho" else epsilon)


# The statistics behind them.


def test_the_ridge_bounds_hold_and_their_mean_part_is_nearly_reached():
    """Coin labels with many directions and a large penalty; 4,000 laboratories, relative error about 1%."""
    d, n, penalty = 32, 10_000, 2.0
    share = np.random.default_rng(0).multinomial(n, np.full(2 * d, 1 / (2 * d)), size=(2, 4000)) / n
    w = (share[..., ::2] - share[..., 1::2]) / (share[..., ::2] + share[..., 1::2] + penalty)
    error = np.linalg.norm(w[0], axis=1)
    mean_part = 1 / (penalty * np.sqrt(n))
    assert 0.95 * mean_part < np.sqrt((error**2).mean()) < mean_part
    for delta in (0.5, 0.1, 0.01):
        assert (error > theory.ridge_error_bound(n, delta, penalty, target_norm=1e-12)).mean() <= delta
    bound = theory.ridge_disagreement_bound(d, n, 1.0, penalty)
    mean = np.abs(w[0] - w[1]).sum(axis=1).mean()
    assert 0.75 * bound < mean < bound  # normal entries: sqrt(2 / pi) of the root mean square


def test_the_second_moment_bounds_hold_and_their_mean_part_is_nearly_reached():
    d, n = 32, 10_000
    share = np.random.default_rng(1).multinomial(n, np.full(d, 1 / d), size=4000) / n  # inputs e_i
    error = np.linalg.norm(share - 1 / d, axis=1)
    assert 0.95 / np.sqrt(n) < np.sqrt((error**2).mean()) < 1 / np.sqrt(n)
    for delta in (0.5, 0.1, 0.01):
        assert (error > theory.second_moment_error_bound(n, delta)).mean() <= delta


def test_the_triangle_that_is_rounded_differs_by_nearly_as_much_as_its_bound_says():
    """Inputs of random signs: all variance is off the diagonal. 400 pairs, relative error below 1%."""
    d, n = 32, 2000
    rng = np.random.default_rng(4)
    X = rng.choice([-1.0, 1.0], size=(4 * d, d)) / np.sqrt(d)
    share = rng.multinomial(n, np.full(len(X), 1 / len(X)), size=(2, 400)) / n
    one, two = (s @ np.einsum("ki,kj->kij", X, X)[:, *np.triu_indices(d)] for s in share)
    mean = np.abs(one - two).sum(axis=1).mean()
    bound = theory.second_moment_disagreement_bound(d, n, 1.0)
    assert 0.7 * bound < mean < bound  # normal entries: sqrt(2 / pi) of the root mean square
    assert theory.second_moment_disagreement_bound(1, n, 1.0) == pytest.approx(np.sqrt(2 / n))  # one entry


# The ratio of bonuses, unequal bins, weights.


def bonuses(one, two, phi):
    return (np.sqrt(phi @ np.linalg.solve(m, phi)) for m in (one, two))


@pytest.mark.parametrize("kappa", [0.0, 0.3, 0.95])
def test_bonus_ratios_stay_inside_their_limits_and_reach_them(kappa):
    low, high = theory.bonus_ratio_limits(kappa, projected=False)
    rng = np.random.default_rng(2)
    for sign, limit in ((1, low), (-1, high)):
        assert (0.2 + sign * kappa * 0.2) ** -0.5 / 0.2**-0.5 == pytest.approx(limit)
    for _ in range(300):
        a, e, phi = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), rng.normal(size=3)
        e = (e + e.T) * kappa * 0.2 / np.linalg.norm(e + e.T, 2)
        gram = 0.2 * np.eye(3) + a @ a.T * 10 ** rng.uniform(-4, 0)
        one, two = bonuses(gram + e, gram, phi)
        assert low * (1 - 1e-9) <= one / two <= high * (1 + 1e-9)


def test_after_the_projection_no_error_is_too_large_for_the_ratio_and_the_difference_is_linear():
    """Errors of up to 30 lambda, two matrices in three of rank below d; both limits are reached."""
    rng, closest, beyond = np.random.default_rng(5), np.zeros(3), 0
    for _ in range(4000):
        d, penalty = int(rng.integers(1, 5)), 10 ** rng.uniform(-4, 0.3)
        a = rng.normal(size=(d, int(rng.integers(0, d + 1)))) * np.sqrt(penalty * 10 ** rng.uniform(-4, 1))
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
        error = (turn * rng.uniform(-1, 1, d)) @ turn.T * penalty * 10 ** rng.uniform(-2, 1.5)
        plain, other = a @ a.T, project_psd(a @ a.T + error)
        gap = np.linalg.norm(plain - other, 2)
        if gap < 1e-6 * penalty:
            continue
        kappa = gap / penalty
        low, high = theory.bonus_ratio_limits(kappa)
        phi = rng.normal(size=d)
        phi /= np.linalg.norm(phi)
        one, two = bonuses(other + penalty * np.eye(d), plain + penalty * np.eye(d), phi)
        found = low / (one / two), one / two / high, abs(one - two) / theory.bonus_difference_bound(gap, penalty)
        assert max(found) <= 1 + 1e-6
        closest, beyond = np.maximum(closest, found), beyond + (kappa > 1)
    assert closest.min() > 0.98 and beyond > 500


def test_what_the_projection_is_worth():
    """Optimism and the sum of bonuses cost (1 + kappa) together; a factor 2 takes kappa = 3, not 3/4."""
    for projected, kappa in ((True, 3.0), (False, 0.75)):
        assert theory.bonus_ratio_limits(kappa, projected=projected)[1] == pytest.approx(2)
    low, high = theory.bonus_ratio_limits(0.5)
    assert high / low == pytest.approx(1.5)
    low, high = theory.bonus_ratio_limits(0.5, projected=False)
    assert high / low == pytest.approx(np.sqrt(3))


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8), st.floats(1e-3, 1e3), st.integers(0, 1000))
def test_no_widths_of_the_same_rounding_error_disagree_less(spread, width, seed):
    spread = np.array(spread)
    widths = theory.unequal_bin_widths(spread, width)
    assert (widths**2).sum() == pytest.approx(spread.size * width**2)
    least = (spread / widths).sum()
    assert least == pytest.approx((spread ** (2 / 3)).sum() ** 1.5 / (np.sqrt(spread.size) * width))
    other = widths * np.exp(np.random.default_rng(seed).normal(size=spread.size))
    other *= np.linalg.norm(widths) / np.linalg.norm(other)
    equal = spread.sum() / width
    assert least <= min((spread / other).sum(), equal) * (1 + 1e-9) and equal <= least * np.sqrt(spread.size) * (
        1 + 1e-9
    )


def test_the_weights_of_one_hot_features_reach_the_sharp_bound_at_every_stage():
    for h in range(4):
        assert theory.value_weight_bound(9, 4, h, version="sharp") == np.linalg.norm(np.full(9, 4.0 - h))
        assert theory.value_weight_bound(9, 4, h) == 24.0


# Refusals.

GOOD = {
    "ridge_disagreement_bound": {"d": 3, "n_samples": 9, "bin_width": 0.1, "penalty": 0.1, "label_bound": 1.0},
    "ridge_error_bound": {"n_samples": 9, "delta": 0.1, "penalty": 0.1, "label_bound": 1.0, "target_norm": 1.0},
    "ridge_plan": {"d": 3, "epsilon": 0.1, "delta": 0.1, "rho": 0.1, "penalty": 0.1, "label_bound": 1.0},
    "second_moment_disagreement_bound": {"d": 3, "n_samples": 9, "bin_width": 0.1, "t": 2},
    "second_moment_error_bound": {"n_samples": 9, "delta": 0.1, "t": 2},
    "second_moment_plan": {"d": 3, "epsilon": 0.1, "delta": 0.1, "rho": 0.1, "t": 2},
    "design_plan": {
        "d": 3,
        "k": 3.0,
        "epsilon": 0.1,
        "delta": 0.1,
        "rho": 0.1,
        "label_bound": 1.0,
        "coordinate_sum": 1.5,
    },
    "unequal_bin_widths": {"spread": [1.0], "bin_width": 0.1},
    "value_weight_bound": {"d": 3, "H": 4, "h": 1, "version": "sharp"},
    "bonus_ratio_limits": {"kappa": 0.5},
    "bonus_difference_bound": {"gap": 0.1, "penalty": 0.1},
}


@pytest.mark.parametrize(("name", "argument"), [(name, a) for name, good in GOOD.items() for a in good])
def test_every_bad_argument_is_refused_by_name(name, argument):
    formula = getattr(theory, name)
    formula(**GOOD[name])
    for bad in (-1, np.inf, np.nan):
        with pytest.raises(ValueError, match=argument):
            formula(**{**GOOD[name], argument: bad})


def test_without_the_projection_the_error_must_be_below_lambda():
    with pytest.raises(ValueError, match=r"kappa must lie in \[0, 1\), got 1.0"):
        theory.bonus_ratio_limits(1.0, projected=False)


def test_spreads_of_another_shape_are_refused():
    for spread in ([], [[1.0]], [1.0, 0.0]):
        with pytest.raises(ValueError, match="spread must be a vector of positive"):
            theory.unequal_bin_widths(spread, 0.1)
