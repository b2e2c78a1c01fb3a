"""Definition 3.1: designs and spanners with their certificates, and erratum E5."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrl import CoreSet, LinearMDP, barycentric_spanner, core_set_constant, g_optimal_design, r_lsvi
from rrl.core_set import _reduce_support


def points(seed, n, d, rank=None):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, rank or d)) @ rng.normal(size=(rank or d, d))
    return rows / np.linalg.norm(rows, axis=1).max()


def smallest_norm(core, features, x, power):
    """Smallest norm(eta)^2 with x = sum of nu_i^power eta_i x_i, solved as a least-norm problem."""
    design = features.reshape(-1, features.shape[-1])[core.indices]
    eta = np.linalg.lstsq((design * core.weights[:, None] ** power).T, x)[0]
    return eta @ eta


@pytest.mark.parametrize(("n", "d", "rank"), [(20, 3, 3), (60, 6, 4), (300, 5, 5), (7, 7, 7)])
def test_the_design_meets_kiefer_and_wolfowitz_with_few_points(n, d, rank):
    features = points(n, n, d, rank)
    core = g_optimal_design(features, tolerance=1e-4)
    assert rank <= core.certificate <= rank * (1 + 1e-4)
    assert len(core.indices) <= rank * (rank + 1) // 2
    assert core.weights.sum() == pytest.approx(1) and (core.weights > 0).all()
    assert (np.diff(core.indices) > 0).all()
    worst = max(smallest_norm(core, features, x, 0.5) for x in features)
    assert worst == pytest.approx(core.certificate, rel=1e-9)
    assert core_set_constant(core, features) == pytest.approx(core.certificate, rel=1e-9)
    # No leverage on the support is below the rank at the optimum.
    assert min(smallest_norm(core, features, x, 0.5) for x in features[core.indices]) > rank - 0.1


def test_the_design_maximises_the_volume():
    """Against the best of many random designs on the same points."""
    features = points(1, 12, 3)
    core = g_optimal_design(features, tolerance=1e-6)
    best = np.linalg.slogdet((features[core.indices] * core.weights[:, None]).T @ features[core.indices])[1]
    for weights in np.random.default_rng(0).dirichlet(np.full(12, 0.3), size=2000):
        assert np.linalg.slogdet((features * weights[:, None]).T @ features)[1] <= best + 1e-6


def test_known_designs():
    assert np.allclose(g_optimal_design(np.vstack([np.eye(4)] * 10)).weights, 0.25)
    # On the points of [-1, 1] a line's design sits at both ends.
    line = np.stack([np.ones(21), np.linspace(-1, 1, 21)], axis=1)
    core = g_optimal_design(line)
    assert core.indices.tolist() == [0, 20] and np.allclose(core.weights, 0.5)
    # A parabola's at both ends and in the middle.
    core = g_optimal_design(np.stack([np.ones(21), line[:, 1], line[:, 1] ** 2], axis=1), tolerance=1e-6)
    assert core.indices.tolist() == [0, 10, 20] and np.allclose(core.weights, 1 / 3, atol=1e-3)


def test_caratheodory_keeps_the_design_when_it_drops_points():
    """On a circle every regular polygon is optimal, so Frank-Wolfe may use many points; three suffice."""
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    core = g_optimal_design(np.stack([np.cos(angle), np.sin(angle)], axis=1), tolerance=1e-6)
    assert len(core.indices) <= 3 and core.certificate == pytest.approx(2, rel=1e-5)


@pytest.mark.parametrize(("n", "d"), [(60, 2), (200, 4), (400, 6)])
def test_dropping_points_never_shrinks_the_information_matrix(n, d):
    # Rows of all lengths: only then can the sum of the weights tell a right step from one back.
    rng = np.random.default_rng(n)
    rows, weights = points(n, n, d) * rng.uniform(0.2, 1, (n, 1)), rng.dirichlet(np.ones(n))
    few = _reduce_support(rows, weights.copy())
    assert np.count_nonzero(few) <= d * (d + 1) // 2 and (few >= 0).all() and few.sum() == pytest.approx(1)
    before, after = ((rows * w[:, None]).T @ rows for w in (weights, few))
    growth = np.linalg.eigvals(np.linalg.solve(before, after)).real
    assert growth.min() >= 1 - 1e-9 and growth.max() == pytest.approx(growth.min())


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(0, 30))
def test_every_row_has_small_coefficients_in_the_spanner(seed, d, extra):
    features = points(seed, d + extra, d)
    core = barycentric_spanner(features, bound=1.2)
    assert len(core.indices) == d and np.allclose(core.weights, 1 / d)
    coefficients = np.linalg.solve(features[core.indices].T, features.T)
    assert np.abs(coefficients).max() == pytest.approx(core.certificate, rel=1e-6)
    assert core.certificate <= 1.2
    assert core_set_constant(core, features) <= 1.2**2 * d**2 * (1 + 1e-9)


def test_the_spanner_swaps_where_the_greedy_start_is_not_enough():
    samples = [points(seed, 40, 5) for seed in range(30)]
    assert max(barycentric_spanner(p, bound=100.0).certificate for p in samples) > 1.2
    assert max(barycentric_spanner(p, bound=1.001).certificate for p in samples) <= 1.001


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 6))
def test_erratum_e5_the_printed_definition_forces_the_square_of_the_rank(seed, d, extra):
    features = points(seed, d + extra, d)
    weights = np.random.default_rng(seed).dirichlet(np.ones(d + extra))
    core = CoreSet(np.arange(d + extra), weights, np.nan)
    printed = core_set_constant(core, features, version="printed")
    corrected = core_set_constant(core, features)
    assert printed >= d**2 * (1 - 1e-9) and corrected >= d * (1 - 1e-9)
    assert printed >= corrected * (1 - 1e-9)
    assert printed == pytest.approx(max(smallest_norm(core, features, x, 1) for x in features), rel=1e-6)


def test_one_hot_features_reach_both_bounds():
    core = g_optimal_design(np.eye(3))
    assert core_set_constant(core, np.eye(3)) == pytest.approx(3)
    assert core_set_constant(core, np.eye(3), version="printed") == pytest.approx(9)


def test_a_core_set_that_does_not_span_has_no_constant():
    assert core_set_constant(CoreSet(np.array([0]), np.ones(1), 1.0), np.eye(2)) == np.inf


def test_a_feature_that_is_always_zero_changes_nothing():
    features = points(4, 20, 3)
    wider = np.hstack([features, np.zeros((20, 1))])
    for method in (g_optimal_design, barycentric_spanner):
        core, same = method(features), method(wider)
        assert core.indices.tolist() == same.indices.tolist()
        np.testing.assert_allclose(same.weights, core.weights, atol=1e-9)


def test_indices_refer_to_pairs_of_a_linear_mdp():
    mdp = LinearMDP.simplex(n_states=5, n_actions=3, dim=4, horizon=2, rng=np.random.default_rng(0))
    for core in (g_optimal_design(mdp.features), barycentric_spanner(mdp.features)):
        assert core.indices.tolist() == [0, 1, 2, 3]
    assert core.certificate == pytest.approx(1)


def test_refusals():
    for call, message in [
        (lambda: g_optimal_design(np.zeros((3, 2))), "all zero"),
        (lambda: g_optimal_design(np.ones(3)), r"shape \(..., d\)"),
        (lambda: g_optimal_design([[np.nan]]), "features holds nan"),
        (lambda: g_optimal_design(np.eye(2), tolerance=0), "tolerance must be positive and finite, got 0"),
        (lambda: g_optimal_design(np.eye(2), tolerance="0.1"), "tolerance must be positive and finite"),
        (lambda: g_optimal_design(np.eye(2), max_iterations=2.5), "max_iterations must be an integer >= 1"),
        (lambda: barycentric_spanner(np.eye(2), bound=1.0), "bound must be a number above 1"),
        (lambda: barycentric_spanner(np.eye(2), bound=None), "bound must be a number above 1, got None"),
        (lambda: core_set_constant(g_optimal_design(np.eye(2)), np.eye(2), version="x"), "version must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(RuntimeError, match="max_iterations=1"):
        g_optimal_design(points(0, 30, 3), max_iterations=1)


@pytest.mark.parametrize("exponent", [-1070, -1020, -700, -530, 530, 700, 1020])
def test_no_scale_changes_a_core_set_or_its_constant(exponent):
    """Powers of two, which leave the digits as they are, far beyond those whose squares are floats."""
    features = points(2, 30, 4) * 0.9
    scaled = np.ldexp(features, exponent)
    exact = exponent > -1000
    for method in (g_optimal_design, barycentric_spanner):
        core, other = method(features), method(scaled)
        if exact:
            assert core.indices.tolist() == other.indices.tolist() and (core.weights == other.weights).all()
        for version in ("corrected", "printed"):
            constants = [core_set_constant(core, f, version=version) for f in (features, scaled)]
            # Denormal numbers have fewer digits: at 2^-1070 no more than four or five.
            assert constants[0] == pytest.approx(constants[1], rel=1e-12 if exponent > -1000 else 0.5)


def test_the_constant_of_two_large_points():
    for size in (1e258, 1e160, 1e-160, 1e-200, 5e-324):
        for core in (CoreSet([0, 1], [0.5, 0.5], 2.0), g_optimal_design([[size, 0], [0, size]])):
            assert core_set_constant(core, [[size, 0], [0, size]]) == pytest.approx(2, rel=1e-12)


@pytest.mark.parametrize("bound", [np.nextafter(1, 2), 1 + 1e-15, 1 + 1e-10])
def test_a_bound_that_rounding_error_exceeds_ends_too(bound):
    for seed in range(20):
        assert barycentric_spanner(points(seed, 40, 5), bound=bound).certificate <= max(bound, 1 + 1e-9)


@pytest.mark.parametrize(
    ("core", "error", "message"),
    [
        (None, TypeError, "core_set must be a CoreSet, got None"),
        (CoreSet([0, 2], [0.5, 0.5], 2.0), ValueError, r"core_set.indices must lie in 0..1, got 0 to 2"),
        (CoreSet([-1, 0], [0.5, 0.5], 2.0), ValueError, r"core_set.indices must lie in 0..1, got -1 to 0"),
        (CoreSet([0.0, 1.0], [0.5, 0.5], 2.0), ValueError, "core_set.indices must be a vector of integers"),
        (CoreSet([], [], 2.0), ValueError, "core_set.indices must be a vector of integers"),
        (CoreSet([0, 1], [0.5], 2.0), ValueError, r"core_set.weights must be 2 numbers >= 0 that sum to 1"),
        (CoreSet([0, 1], [0.5, np.nan], 2.0), ValueError, "core_set.weights"),
        (CoreSet([0, 1], [1.5, -0.5], 2.0), ValueError, "core_set.weights"),
        (CoreSet([0, 1], [50, 50], 2.0), ValueError, "core_set.weights"),
        (CoreSet([0, 1], ["a", "b"], 2.0), ValueError, "core_set.weights"),
    ],
)
def test_what_is_no_core_set_is_refused_by_name(core, error, message):
    with pytest.raises(error, match=message):
        core_set_constant(core, np.eye(2))
    settings = {"n_samples": 10, "penalty": 1.0, "bin_width": 0.1, "shared_seed": 0, "rng": np.random.default_rng(0)}
    for model, more in (
        (LinearMDP.tabular([[[[1.0]] * 2]], [[[0.0] * 2]], [1.0]), {}),
        (lambda h, i, n, rng: (0.0, np.zeros((n, 1, 2))), {"features": np.eye(2), "horizon": 1}),
    ):
        with pytest.raises(error, match=message):
            r_lsvi(model, core, **settings, **more)
