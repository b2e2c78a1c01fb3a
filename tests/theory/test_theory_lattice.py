"""Closed forms of the lattice, uniform rounding error, rotation: known cells, other derivations, limits."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull
from scipy.stats import binom

from rrl import hypergrid_round, theory
from rrl.theory.lattice import _permutohedron_moment, shadow

DIMS = [1, 2, 3, 4, 8, 16, 64]


# Cells.


@pytest.mark.parametrize("d", [2, 3, 4])
def test_the_cell_is_the_hull_of_its_deep_holes(d):
    """Surface over volume of the convex hull of all orders of 0, ..., d, scaled to covering radius sqrt(d) / 2."""
    n = d + 1
    corners = np.array(list(permutations(range(n)))) - d / 2
    plane = np.linalg.svd(np.ones((1, n)))[2][1:]
    hull = ConvexHull(corners @ plane.T / np.linalg.norm(corners[0]) * np.sqrt(d) / 2)
    assert theory.cell_surface(d, 1.0, "lattice") == pytest.approx(hull.area / hull.volume)
    assert theory.lattice_scale(d, 1.0) / n * np.linalg.norm(corners[0]) == pytest.approx(np.sqrt(d) / 2)
    # One lattice point for each cell: the lattice's determinant is that of the scaled projection.
    assert hull.volume == pytest.approx(theory.lattice_scale(d, 1.0) ** d / np.sqrt(n))


def test_known_cells():
    """Hexagon and truncated octahedron; normalised second moments of Conway and Sloane's table 2.3."""
    assert theory.lattice_rows(1) == pytest.approx(1) and theory.lattice_rows(1, error="rms") == pytest.approx(1)
    assert theory.lattice_rows(2) == pytest.approx(2 / 3)
    edge = 1.0  # truncated octahedron: surface (6 + 12 sqrt 3) e^2, volume 8 sqrt 2 e^3, circumradius sqrt(10) e / 2
    width = 2 * (np.sqrt(10) / 2 * edge) / np.sqrt(3)
    surface = (6 + 12 * np.sqrt(3)) / (8 * np.sqrt(2))
    assert theory.cell_surface(3, width, "lattice") == pytest.approx(surface)
    for d, moment in ((2, 0.0801875), (3, 0.0785433), (4, 0.0775588), (5, 0.0769220), (6, 0.0764898), (8, 0.0759719)):
        scale = theory.lattice_scale(d, 1.0)
        volume = scale**d / np.sqrt(d + 1)
        assert theory.rounding_rms_error(d, 1.0, "lattice") ** 2 / d / volume ** (2 / d) == pytest.approx(
            moment, abs=1e-6
        )


@pytest.mark.parametrize("d", [1, 3, 9])
def test_the_second_moment_by_points_on_a_circle(d):
    """N uniform points on a circle, cut open where their sum of squares is least; six standard errors."""
    n = d + 1
    points = np.sort(np.random.default_rng(d).random((40_000, n)), axis=1)
    least = np.full(len(points), np.inf)
    for _ in range(n):
        least = np.minimum(least, points.var(axis=1) * n)
        points = np.concatenate([points[:, 1:], points[:, :1] + 1], axis=1)
    expected = _permutohedron_moment(n) / n**2
    assert abs(least.mean() - expected) < 6 * least.std() / np.sqrt(len(points))


def test_limits_in_high_dimension_and_the_order_of_errors():
    """By worst error towards C^2 / 3, C the sum of i^(i - 3/2) e^-i / i!; not 1/8."""
    i = np.arange(1, 10**5)
    terms = np.exp((i - 1.5) * np.log(i) - i - np.array([math.lgamma(k + 1) for k in i]))
    limit = (terms.sum() + 1 / np.sqrt(2 * np.pi) / i[-1]) ** 2 / 3
    assert theory.lattice_rows(4096) == pytest.approx(limit, rel=0.01) and limit == pytest.approx(0.1276, abs=1e-4)
    rows = [theory.lattice_rows(d) for d in range(1, 200)]
    assert (np.diff(rows) < 0).all() and rows[-1] > limit
    for d in DIMS:
        grid, lattice = (theory.rounding_rms_error(d, 1.0, s) for s in ("grid", "lattice"))
        assert grid <= lattice * (1 + 1e-12) <= np.sqrt(d) / 2 * (1 + 1e-12)
        assert 0.37 < theory.lattice_rows(d, error="rms") <= 1 + 1e-12


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("scheme", ["grid", "lattice"])
def test_rates_scale_and_no_cell_is_rounder_than_a_ball(d, scheme):
    for direction in ("uniform", "worst"):
        rate = theory.cut_rate(d, 1.0, scheme, direction)
        assert theory.cut_rate(d, 0.25, scheme, direction) == pytest.approx(4 * rate)
    # Of the surface of a ball of the covering radius, by the isoperimetric inequality.
    assert theory.cell_surface(d, 1.0, scheme) >= d / (np.sqrt(d) / 2) * (1 - 1e-12)
    mean, worst = (theory.cut_rate(d, 1.0, scheme, direction) for direction in ("uniform", "worst"))
    assert mean <= worst * (1 + 1e-12) <= mean * np.sqrt(np.pi / 2) * (1 + 1e-12)
    assert theory.cut_rate(d, 1.0, "grid", "worst") == pytest.approx(np.sqrt(d))


@pytest.mark.parametrize("d", [2, 3, 5])
def test_the_shadow_in_every_direction_stays_below_the_worst(d):
    """The exact rate of a direction: half the sum over faces of area times the cosine, over the volume."""
    n = d + 1
    scale = theory.lattice_scale(d, 1.0)
    bits = (np.arange(1, 2**n - 1)[:, None] >> np.arange(n)) & 1
    i = bits.sum(axis=1)
    area = i ** (i - 1.5) * (n - i) ** (n - i - 1.5) / n ** (n - 1.5) * n / scale  # over the volume
    normals = (bits - i[:, None] / n) / np.sqrt(i * (n - i) / n)[:, None]
    directions = np.random.default_rng(d).normal(size=(20_000, n))
    directions = np.concatenate([directions, bits, np.eye(n) - np.roll(np.eye(n), 1, axis=1)])
    directions = directions - directions.mean(axis=1, keepdims=True)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    rates = np.abs(directions @ normals.T) @ area / 2
    assert rates.max() <= theory.cut_rate(d, 1.0, "lattice", "worst") * (1 + 1e-12)
    mean = theory.cut_rate(d, 1.0, "lattice")
    assert abs(rates[:20_000].mean() - mean) < 6 * rates.std() / np.sqrt(20_000)


# The uniform rounding error.


@pytest.mark.parametrize("a", [np.zeros(64), np.linspace(-3, 3, 64) ** 3])
def test_the_bounds_on_the_rounding_error_hold_whatever_the_data(a):
    """4,000 shared seeds: each limit is exceeded at most as often as stated, alarm 1e-6, and at most 1/4 too large."""
    error = np.array([hypergrid_round(a, 0.5, shared_seed=s).values - a for s in range(4000)])
    norm = np.linalg.norm(error, axis=1)
    points = np.random.default_rng(0).normal(size=(1000, 64))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    largest = np.abs(error @ points.T).max(axis=1)
    for delta in (0.5, 0.1, 0.01):
        for seen, limit in (
            (norm, theory.typical_rounding_error(64, delta, 0.5)),
            (largest, theory.prediction_rounding_error(1000, delta, 0.5)),
        ):
            assert (seen > limit).sum() <= binom.isf(1e-6, 4000, delta)
            assert limit < 1.25 * np.quantile(seen, 1 - delta)


@given(st.integers(1, 500), st.floats(1e-9, 0.5))
def test_the_typical_error_lies_between_the_mean_and_the_worst(d, delta):
    typical = theory.typical_rounding_error(d, delta, 1.0)
    assert np.sqrt(d / 12) < typical <= np.sqrt(d) / 2
    # Never above what Hoeffding's inequality for the squares gives.
    assert typical <= np.sqrt(d / 12 + np.sqrt(d * np.log(1 / delta) / 2) / 4) * (1 + 1e-12)


@given(st.floats(1e-9, 0.99))
def test_one_entry_s_error_is_beyond_t_with_probability_1_less_2_t(delta):
    assert theory.typical_rounding_error(1, delta, 1.0) >= (1 - delta) / 2
    assert theory.prediction_rounding_error(1, delta, 1.0) >= (1 - delta) / 2


@pytest.mark.parametrize(
    ("uniform", "plan", "arguments"),
    [
        (theory.ridge_plan_uniform, theory.ridge_plan, (0.1,)),
        (theory.second_moment_plan_uniform, theory.second_moment_plan, ()),
    ],
)
def test_plans_with_uniform_error_are_never_larger_and_three_times_smaller_in_the_limit(uniform, plan, arguments):
    for d in DIMS:
        for rho in (0.5, 0.1, 1e-6):
            one, two = (f(d, 0.1, 0.01, rho, *arguments) for f in (uniform, plan))
            assert one.n_samples <= two.n_samples
            # Both keep rho by the same bound.
            assert one.bin_width**2 * one.n_samples == pytest.approx(two.bin_width**2 * two.n_samples)
    one, two = (f(4096, 0.1, 0.01, 1e-9, *arguments) for f in (uniform, plan))
    assert two.n_samples / one.n_samples == pytest.approx(3, rel=0.05)


def test_predictions_at_points_cost_d_and_not_d_squared():
    rows = [theory.ridge_plan_uniform(d, 0.1, 0.01, 1e-6, 0.1, n_points=1000).n_samples for d in (1000, 4000)]
    assert rows[1] / rows[0] == pytest.approx(4, rel=0.01)
    assert theory.ridge_plan_uniform(2, 0.1, 0.01, 0.1, 0.1, n_points=10**9) == theory.ridge_plan(
        2, 0.1, 0.01, 0.1, 0.1
    )


@pytest.mark.parametrize("n_points", [None, 300])
def test_plans_with_uniform_error_keep_both_promises(n_points, acceptance):
    """Coin labels, 3,000 runs with a seed each: misses at most delta, pairs that differ at most rho; alarm 1e-6."""
    d, epsilon, delta, rho, penalty, runs = 32, 0.3, 0.1, 0.2, 0.5, 3000
    n, width = theory.ridge_plan_uniform(d, epsilon, delta, rho, penalty, n_points=n_points)
    assert n < 0.75 * theory.ridge_plan(d, epsilon, delta, rho, penalty).n_samples
    rng = np.random.default_rng(1)
    share = rng.multinomial(math.ceil(n), np.full(2 * d, 1 / (2 * d)), size=(2, runs)) / math.ceil(n)
    w = (share[..., ::2] - share[..., 1::2]) / (share[..., ::2] + share[..., 1::2] + penalty)  # the target is 0
    rounded = [[hypergrid_round(v, width, shared_seed=s) for s, v in enumerate(side)] for side in w]
    values = np.array([r.values for r in rounded[0]])
    points = rng.normal(size=(n_points or 1, d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    error = np.linalg.norm(values, axis=1) if n_points is None else np.abs(values @ points.T).max(axis=1)
    assert (error > epsilon).sum() <= acceptance(runs, delta)[1]
    differ = sum((a.codes != b.codes).any() for a, b in zip(*rounded))
    assert differ <= acceptance(runs, rho)[1]


@pytest.mark.parametrize("d", [1, 2, 8, 32])
def test_a_random_rotation_s_verdict(d):
    """Mean of the exact law over 20,000 rotations of a small difference; six standard errors."""
    best, worst = theory.rotation_limits(d)
    assert worst == pytest.approx(best * np.sqrt(d)) and worst == pytest.approx(2 * shadow(d))
    rng, size = np.random.default_rng(d), 1e-4
    turned = rng.normal(size=(20_000, d))
    turned *= size / np.linalg.norm(turned, axis=1, keepdims=True)
    law = theory.disagreement_probability(turned, 1.0)
    for factor, difference in ((best, np.full(d, size / np.sqrt(d))), (worst, size * np.eye(d)[0])):
        plain = theory.disagreement_probability(difference, 1.0)
        assert abs(law.mean() / plain - factor) < 6 * law.std() / plain / np.sqrt(len(law)) + 1e-3 * factor
    assert d < 8 or best == pytest.approx(np.sqrt(2 / np.pi), rel=0.05)


# Refusals.

GOOD = {
    "lattice_scale": {"d": 3, "bin_width": 0.1},
    "cell_surface": {"d": 3, "bin_width": 0.1},
    "cut_rate": {"d": 3, "bin_width": 0.1},
    "rounding_rms_error": {"d": 3, "bin_width": 0.1},
    "lattice_rows": {"d": 3},
    "typical_rounding_error": {"d": 3, "delta": 0.1, "bin_width": 0.1},
    "prediction_rounding_error": {"n_points": 3, "delta": 0.1, "bin_width": 0.1},
    "ridge_plan_uniform": {"d": 3, "epsilon": 0.1, "delta": 0.1, "rho": 0.1, "penalty": 0.1, "n_points": 3},
    "second_moment_plan_uniform": {"d": 3, "epsilon": 0.1, "delta": 0.1, "rho": 0.1, "t": 2},
    "rotation_limits": {"d": 3},
}


@pytest.mark.parametrize(("name", "argument"), [(name, a) for name, good in GOOD.items() for a in good])
def test_every_bad_argument_is_refused_by_name(name, argument):
    formula = getattr(theory, name)
    formula(**GOOD[name])
    for bad in (-1, np.inf, np.nan, 0):
        with pytest.raises(ValueError, match=argument):
            formula(**{**GOOD[name], argument: bad})


def test_unknown_choices_are_refused():
    with pytest.raises(ValueError, match="scheme must be 'grid' or 'lattice', got 'cubes'"):
        theory.cell_surface(3, 1.0, "cubes")
    with pytest.raises(ValueError, match="scheme must be"):
        theory.ridge_plan(3, 0.1, 0.1, 0.1, 0.1, scheme="cubes")
    with pytest.raises(ValueError, match="direction must be 'uniform' or 'worst'"):
        theory.cut_rate(3, 1.0, direction="best")
    with pytest.raises(ValueError, match="error must be 'worst' or 'rms'"):
        theory.lattice_rows(3, error="mean")


def test_plans_on_the_lattice():
    one, two = (theory.ridge_plan(16, 0.1, 0.01, 1e-4, 0.1, scheme=s) for s in ("lattice", "grid"))
    assert one.n_samples / two.n_samples == pytest.approx(theory.lattice_rows(16), rel=0.01)
    for d in (1, 2, 16):
        m = d * (d + 1) // 2
        one, two = (theory.second_moment_plan(d, 0.1, 0.01, 1e-4, scheme=s) for s in ("lattice", "grid"))
        # From the mean Frobenius distance sqrt(2 / N) and the worst rate in the matrix's own coordinates.
        rate = theory.cut_rate(m, one.bin_width * np.sqrt(2 * d / (d + 1)), "lattice", "worst")
        assert rate * np.sqrt(2 / one.n_samples) == pytest.approx(1e-4)
        assert one.n_samples <= two.n_samples * (1 + 1e-12)
