"""Rounding to A_d*: the nearest point by brute force, properties, ties, edges, golden values, and the callers."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rrl import (
    LinearMDP,
    RandomFourierFeatures,
    ReplicableFittedQ,
    ReplicableRidge,
    ReplicableSecondMoment,
    fingerprint,
    g_optimal_design,
    hypergrid_round,
    lattice_round,
    r_lsvi,
    shared_uniform,
    theory,
)
from rrl.lattice import boundary_distance

vectors = hnp.arrays(np.float64, st.integers(2, 12), elements=st.floats(-1e6, 1e6))
widths = st.floats(1e-3, 1e4)
seeds = st.integers(0, 2**32)


def basis(d):
    """Orthonormal rows that span the hyperplane of sum zero, such that e_i of R^d stays next to e_i of R^(d + 1)."""
    n = d + 1
    mirror = np.eye(n)[-1] + np.full(n, n**-0.5)
    return (np.eye(n) - 2 * np.outer(mirror, mirror) / (mirror @ mirror))[:d]


def integers_above(codes):
    return np.append(codes, np.zeros((*codes.shape[:-1], 1)), axis=-1)


# The definition: projected integer vectors, shifted.


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_values_are_projected_integers_and_no_other_is_nearer(d, rng):
    """Every integer vector with entries at most two away, which holds all that could be nearer."""
    width = 0.7
    a = rng.uniform(-3, 3, size=(400, d))
    rounded = lattice_round(a, width, shared_seed=5)
    scale, plane = theory.lattice_scale(d, width), basis(d)
    np.testing.assert_allclose(plane @ plane.T, np.eye(d), atol=1e-12)
    shift = integers_above(shared_uniform(5, ("lattice", ()), a.shape)) @ plane.T * scale
    np.testing.assert_allclose(rounded.offsets, shift, atol=1e-12)
    np.testing.assert_allclose(
        rounded.values, shift + integers_above(rounded.codes) @ plane.T * scale, atol=1e-12, rtol=1e-12
    )
    moved = np.linalg.norm(a - rounded.values, axis=1)
    for step in product(range(-2, 3), repeat=d):
        other = shift + integers_above(rounded.codes + np.array(step)) @ plane.T * scale
        assert (moved <= np.linalg.norm(a - other, axis=1) + 1e-9).all()


@pytest.mark.parametrize("d", [2, 3, 8])
def test_deep_holes_are_as_far_as_the_grid_s_corners_and_no_vector_is_farther(d, rng):
    width, plane = 0.4, basis(d)
    origin = lattice_round(np.zeros(d), width, shared_seed=1).offsets
    corner = theory.lattice_scale(d, width) * (np.arange(d + 1) - d / 2) / (d + 1)
    hole = origin + rng.permuted(np.tile(corner, (50, 1)), axis=1) @ plane.T
    # Each vector has its own shift, so the holes are rounded one by one.
    for point in hole:
        rounded = lattice_round(point, width, shared_seed=1)
        assert np.linalg.norm(point - rounded.values) == pytest.approx(np.sqrt(d) * width / 2, rel=1e-9)
        assert boundary_distance(point, rounded) == pytest.approx(0, abs=1e-12)


@given(vectors, widths, seeds)
@example(np.zeros(5), 1.0, 0)
def test_the_worst_error_is_the_grid_s_and_rounding_again_changes_nothing(a, width, seed):
    once = lattice_round(a, width, shared_seed=seed)
    room = 1e-9 * (width + np.abs(a).sum())
    assert np.linalg.norm(once.values - a) <= theory.rounding_error_bound(len(a), 1, width) + room
    twice = lattice_round(once.values, width, shared_seed=seed)
    np.testing.assert_array_equal(twice.codes, once.codes)
    np.testing.assert_array_equal(twice.values, once.values)
    assert once.codes.dtype == np.int64 and once.bin_width == width


@given(hnp.arrays(np.float64, st.integers(2, 40), elements=st.floats(-1e15, 1e15)), st.floats(1, 4), seeds)
def test_the_promises_hold_down_to_the_finest_lattice_that_is_allowed(a, more, seed):
    reach = np.sqrt(len(a) + 1) * np.abs(a).sum()
    width = float(8 * np.spacing(max(reach, 1e-3)) * more)
    once = lattice_round(a, width, shared_seed=seed)
    assert np.linalg.norm(once.values - a) <= np.sqrt(len(a)) * width / 2 * (1 + 1 / 8)
    np.testing.assert_array_equal(lattice_round(once.values, width, shared_seed=seed).codes, once.codes)
    assert np.abs(once.codes).max() < 2**52


@given(vectors, widths, seeds)
def test_a_step_along_the_lattice_moves_the_codes_and_nothing_else(a, width, seed):
    """The cells are translates of each other: checked where no rounding error can reach an edge."""
    once = lattice_round(a, width, shared_seed=seed)
    room = 1e-9 * (width + np.abs(a).sum())
    step = np.arange(len(a)) - 1
    moved = a + integers_above(step) @ basis(len(a)).T * theory.lattice_scale(len(a), width)
    if boundary_distance(a, once) > 100 * room:
        np.testing.assert_array_equal(lattice_round(moved, width, shared_seed=seed).codes, once.codes + step)


@given(vectors, widths, seeds, st.integers(0, 100))
def test_within_the_boundary_distance_codes_do_not_change_and_beyond_it_they_do(a, width, seed, direction):
    once = lattice_round(a, width, shared_seed=seed)
    distance = boundary_distance(a, once)
    room = 1e-9 * (width + np.abs(a).sum())
    towards = np.random.default_rng(direction).normal(size=len(a))
    towards /= np.linalg.norm(towards)
    if distance > 10 * room:
        inside = lattice_round(a + (distance - room) * towards, width, shared_seed=seed)
        np.testing.assert_array_equal(inside.codes, once.codes)
    # Across the nearest face: there, the distance to the mirror image of the centre is less.
    d = len(a)
    error = integers_above(a - once.values)[:d] @ basis(d)
    order = np.argsort(-error)
    gaps = []
    for i in range(1, d + 1):
        normal = (np.isin(np.arange(d + 1), order[:i]) - i / (d + 1)) / np.sqrt(i * (d + 1 - i) / (d + 1))
        height = theory.lattice_scale(d, width) * np.sqrt(i * (d + 1 - i) / (d + 1)) / 2
        gaps.append((height - error @ normal, basis(d) @ normal))
    gap, normal = min(gaps, key=lambda pair: pair[0])
    assert gap == pytest.approx(distance, abs=room)
    across = lattice_round(a + (gap + room) * normal, width, shared_seed=seed)
    assert (across.codes != once.codes).any()


def test_ties_are_broken_alike_by_everyone(monkeypatch):
    """With the shift at 0 the middle between two lattice points, and deep holes, are exact."""
    monkeypatch.setattr("rrl.lattice.shared_uniform", lambda seed, key, shape: np.zeros(shape))
    width = 1 / np.sqrt(3 * 4 / 5)  # d = 3: the scale is 1 and sqrt(d + 1) = 2
    assert theory.lattice_scale(3, width) == pytest.approx(1)
    # Coordinates (1/2, 0, 0) lie between two points, (3/4, 1/2, 1/4) in a deep hole among four.
    for coordinates, ways in (([0.5, 0, 0], 2), ([0.75, 0.5, 0.25], 4)):
        point = np.array(coordinates) - np.sum(coordinates) / 6
        found = {tuple(lattice_round(p, width, shared_seed=0).codes) for p in point + 1e-7 * np.eye(3)[:, ::-1]}
        found |= {tuple(lattice_round(p, width, shared_seed=0).codes) for p in point - 1e-7 * np.eye(3)}
        one = lattice_round(point, width, shared_seed=0)
        assert 2 <= len(found) <= ways
        assert tuple(one.codes) == tuple(lattice_round(point.copy(), width, shared_seed=9).codes)
        assert boundary_distance(point, one) == pytest.approx(0, abs=1e-12)


# One dimension, shapes, kinds.


@given(hnp.arrays(np.float64, (5, 1), elements=st.floats(-1e6, 1e6)), widths, seeds)
def test_in_one_dimension_the_lattice_is_the_grid(a, width, seed):
    one, two = (f(a, width, shared_seed=seed, key=("k",)) for f in (lattice_round, hypergrid_round))
    for name in ("values", "codes", "offsets"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert theory.lattice_scale(1, width) / np.sqrt(2) == pytest.approx(width)
    np.testing.assert_allclose(boundary_distance(a, one), width / 2 - np.abs(a - two.values)[:, 0])


def test_numbers_and_empty_arrays_are_rounded_as_by_the_grid():
    for a in (0.3, np.empty((3, 0)), np.empty(0)):
        one, two = (f(a, 1, shared_seed=0) for f in (lattice_round, hypergrid_round))
        np.testing.assert_array_equal(one.codes, two.codes)
    assert lattice_round(np.empty((0, 3)), 1, shared_seed=0).codes.shape == (0, 3)
    assert boundary_distance(0.3, lattice_round(0.3, 1, shared_seed=0)).shape == ()


def test_a_batch_is_its_vectors_each_with_its_own_shift(rng):
    a = rng.normal(size=(2, 4000, 5))  # more than one part of the cache
    rounded = lattice_round(a, 0.3, shared_seed=2)
    shift = shared_uniform(2, ("lattice", ()), a.shape)
    assert len(np.unique(rounded.offsets)) == a.size
    from rrl.lattice import _coordinates, _nearest

    scale = theory.lattice_scale(5, 0.3)
    for i in ((0, 0), (0, 3999), (1, 17)):
        alone = _nearest(_coordinates(a[i][None], scale) - shift[i])
        np.testing.assert_array_equal(alone[0], rounded.codes[i])
    # Equal vectors under one key are equal codes, in any layout and however often they are rounded.
    again = lattice_round(np.asfortranarray(a), 0.3, shared_seed=2)
    np.testing.assert_array_equal(again.codes, rounded.codes)


def test_every_key_and_seed_has_its_own_lattice_and_the_grid_another():
    one = lattice_round(np.zeros(4), 1, shared_seed=0)
    for other in (
        lattice_round(np.zeros(4), 1, shared_seed=1),
        lattice_round(np.zeros(4), 1, shared_seed=0, key=("b",)),
        hypergrid_round(np.zeros(4), 1, shared_seed=0),
    ):
        assert np.intersect1d(one.offsets, other.offsets).size == 0


def test_golden_values():
    """Never to change: codes published by one version are those of every later one."""
    a = np.array([[0.3, -1.2, 0.7, 2.5], [1e6, -3e5, 0.0, 7.25]])
    rounded = lattice_round(a, 0.25, shared_seed=7, key=("golden", 1))
    np.testing.assert_array_equal(rounded.codes, GOLDEN_CODES)
    np.testing.assert_allclose(rounded.values, GOLDEN_VALUES, rtol=1e-15)
    large = lattice_round(np.linspace(-5, 5, 3000).reshape(30, 100), 0.01, shared_seed=11)
    assert fingerprint(large.codes) == GOLDEN_PRINT


GOLDEN_CODES = [[2, -2, 3, 8], [3077058, -211711, 547236, 547255]]
GOLDEN_VALUES = [
    [0.14477188597879714, -1.24727329955467, 0.7945861542365249, 2.51716770793463],
    [1000000.0193972824, -299999.98429916555, 0.13329171942994913, 7.4071459174100145],
]
GOLDEN_PRINT = "90432ed295830d2c2adb684f04f3445dceecff827b5aa89da55aaace620c46b3"


@pytest.mark.parametrize(
    ("a", "width", "message"),
    [
        ([1.0, np.nan], 1, r"a holds nan at index \(1,\)"),
        ([1.0, np.inf], 1, "every entry must be finite"),
        ([1j, 1], 1, "Complex data not supported"),
        ([1.0, 2.0], 0, "bin_width must be positive and finite, got 0"),
        ([1.0, 2.0], [1.0, 2.0], "bin_width has shape"),
        ([1.0, 2.0], 1.75e308, r"bin_width=1\.75e\+308 is too large"),
        ([[1.0, 2.0], [1e16, 0.0]], 1.0, r"bin_width=1.0 is too fine for the vector at index \(1,\)"),
        ([1.7e308, 1.7e308], 1.0, "too fine"),
        # Beyond 2^50 eight floats span more than 1; coordinates are up to sqrt(d + 1) as large as entries.
        ([0.65 * 2**50, 0.0], 1.0, "too fine"),
    ],
)
def test_what_cannot_be_rounded_is_refused_by_name(a, width, message):
    with pytest.raises(ValueError, match=message):
        lattice_round(a, width, shared_seed=0)


def test_the_finest_width_that_floats_resolve_is_taken():
    a = np.array([0.55 * 2**50, 0.0])
    assert np.linalg.norm(lattice_round(a, 1.0, shared_seed=0).values - a) <= np.sqrt(2) / 2 + 1 / 8


def test_seeds_and_keys_of_the_wrong_kind_are_refused():
    with pytest.raises(TypeError, match=r"shared_seed must be an integer, got 0\.5"):
        lattice_round([1.0, 2.0], 1, shared_seed=0.5)
    with pytest.raises(TypeError, match="key must be a tuple"):
        lattice_round([1.0, 2.0], 1, shared_seed=0, key="x")


# The law.


@pytest.mark.parametrize("d", [2, 3, 8, 20])
def test_cuts_follow_the_closed_form(d, acceptance, rng):
    """Convex cells: between x - 0.8 x^2 and x for x = rate times distance; alarm 1e-6."""
    trials, width = 40_000, 1.0
    directions = rng.normal(size=(trials, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    x = 0.05
    a = rng.normal(size=(trials, d))
    other = a + directions * x / theory.cut_rate(d, width, "lattice")
    cut = int(
        (lattice_round(a, width, shared_seed=d).codes != lattice_round(other, width, shared_seed=d).codes).any(1).sum()
    )
    assert acceptance(trials, x - 0.8 * x**2)[0] <= cut <= acceptance(trials, x)[1]


@pytest.mark.parametrize("d", [2, 3, 6])
def test_no_direction_is_cut_more_often_than_the_worst(d, acceptance, rng):
    """The directions of the cell's faces, of its corners and of single entries, at three lengths; alarm 1e-6 each."""
    trials, plane = 20_000, basis(d)
    rate = theory.cut_rate(d, 1.0, "lattice", "worst")
    assert 1 < rate / theory.cut_rate(d, 1.0, "lattice") < np.sqrt(np.pi / 2)
    subsets = [plane @ (np.arange(d + 1) < i) for i in range(1, d + 1)]
    for direction in [
        *subsets,
        plane @ np.arange(d + 1.0),
        np.eye(d)[0],
        plane @ np.array([1.0] + [0] * (d - 1) + [-1]),
    ]:
        for x in (0.02, 0.3, 0.9):
            delta = direction / np.linalg.norm(direction) * x / rate
            a = rng.normal(size=(trials, d))
            codes = [lattice_round(b, 1.0, shared_seed=d).codes for b in (a, a + delta)]
            assert (codes[0] != codes[1]).any(1).sum() <= acceptance(trials, x)[1]


def test_a_difference_in_a_single_entry_is_cut_more_often_than_on_the_grid(acceptance):
    """The grid cuts it with probability x exactly; the lattice has more, at most 1.16 x; alarm 1e-6 each."""
    trials, x = 200_000, 0.03
    a = np.zeros((trials, 16))
    codes = [lattice_round(b, 1.0, shared_seed=5).codes for b in (a, a + x * np.eye(16)[3])]
    assert acceptance(trials, x)[1] < (codes[0] != codes[1]).any(1).sum() <= acceptance(trials, 1.16 * x)[1]


@pytest.mark.parametrize("d", [2, 5, 16])
def test_the_error_is_uniform_in_the_cell_whatever_the_estimate(d, rng):
    """Mean square within six standard errors, no correlation with the estimate; the covariance is that of a ball."""
    for a in (np.zeros((20_000, d)), rng.normal(size=(20_000, d))):
        error = a - lattice_round(a, 1.0, shared_seed=3).values
        square = (error**2).sum(axis=1)
        expected = theory.rounding_rms_error(d, 1.0, "lattice") ** 2
        assert abs(square.mean() - expected) < 6 * square.std() / np.sqrt(len(a))
        np.testing.assert_allclose(error.T @ error / len(a), np.eye(d) * expected / d, atol=6 * expected / d / 100)
        assert np.abs((a * error).mean(axis=0)).max() < 6 * np.sqrt(expected / d / len(a))


@pytest.mark.parametrize(("d", "fewer"), [(8, 3), (16, 4)])
def test_ridge_needs_that_many_times_fewer_rows_on_the_lattice(d, fewer, acceptance):
    """Coin labels at N where the grid differs in 10% of pairs (exact law); the lattice at N / fewer; alarm 1e-6."""
    rng, penalty, width, pairs = np.random.default_rng(d), 0.1, 0.05, 20_000

    def weights(n):
        share = rng.multinomial(int(n), np.full(2 * d, 1 / (2 * d)), size=(2, pairs)) / int(n)
        return (share[..., ::2] - share[..., 1::2]) / (share[..., ::2] + share[..., 1::2] + penalty)

    n = 10**6
    for _ in range(4):
        n *= (theory.disagreement_probability(np.subtract(*weights(n)), width).mean() / 0.1) ** 2
    differ = {}
    for name, rows in (("grid", n), ("lattice", n / fewer)):
        one, two = weights(rows)
        rounding = {"grid": hypergrid_round, "lattice": lattice_round}[name]
        codes = [rounding(w, width, shared_seed=1).codes for w in (one, two)]
        differ[name] = int((codes[0] != codes[1]).any(axis=1).sum())
    low, high = acceptance(pairs, 0.1)
    assert low <= differ["grid"] <= high * 1.02 and differ["lattice"] <= high


# The callers.


def test_every_estimator_takes_the_lattice_and_the_grid_stays_the_default(rng):
    X = rng.uniform(-0.4, 0.4, size=(2000, 3))
    y = X @ [1.0, -2.0, 0.5]
    ridge = [ReplicableRidge(0.01, bin_width=0.3, shared_seed=4, scheme=s).fit(X, y) for s in ("grid", "lattice")]
    expected = lattice_round(ridge[1].unrounded_coef_, 0.3, shared_seed=4, key=("ridge", ()))
    np.testing.assert_array_equal(ridge[1].codes_, expected.codes)
    np.testing.assert_array_equal(ridge[1].coef_, expected.values)
    default = ReplicableRidge(0.01, bin_width=0.3, shared_seed=4).fit(X, y)
    np.testing.assert_array_equal(ridge[0].codes_, default.codes_)

    moment = ReplicableSecondMoment(bin_width=0.02, shared_seed=4, scheme="lattice").fit(X)
    assert moment.codes_.shape == (6,) and (moment.second_moment_ == moment.second_moment_.T).all()
    again = ReplicableSecondMoment(bin_width=0.02, shared_seed=4, scheme="lattice").fit(X)
    np.testing.assert_array_equal(moment.codes_, again.codes_)

    mdp = LinearMDP.random(n_states=8, n_actions=3, dim=3, horizon=3, rng=rng)
    core = g_optimal_design(mdp.features)
    settings = {"n_samples": 10**12, "penalty": 1e-6, "bin_width": 0.05, "shared_seed": 1}
    runs = [r_lsvi(mdp, core, rng=np.random.default_rng(i), scheme="lattice", **settings) for i in range(2)]
    assert runs[0].fingerprint() == runs[1].fingerprint()
    moved = np.linalg.norm(runs[0].weights - runs[0].unrounded_weights, axis=1)
    assert (moved <= np.sqrt(3) * 0.05 / 2 + 1e-12).all() and moved.max() > 0

    features = RandomFourierFeatures(8, shared_seed=1).fit(X)
    q = ReplicableFittedQ(features, 2, gamma=0.5, n_rounds=2, scheme="lattice")
    q.fit(X, rng.integers(2, size=2000), y, X, np.zeros(2000, bool))
    assert q.codes_.shape == (2, 8)
    np.testing.assert_array_equal(lattice_round(q.weights_, 0.2, shared_seed=0, key=("fitted_q", 1)).codes, q.codes_)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_a_second_moment_moves_by_no_more_than_on_the_grid(d, rng):
    from rrl.second_moment import round_symmetric

    a = rng.normal(size=(d, d))
    a = a @ a.T + 10 * np.eye(d)  # so far from the cone's edge that the projection changes nothing
    moved = [np.linalg.norm(round_symmetric(a, 0.5, shared_seed=seed, scheme="lattice")[0] - a) for seed in range(500)]
    assert 0.5 * d * 0.5 / 2 < max(moved) <= d * 0.5 / 2
    assert d > 1 or moved == [np.linalg.norm(round_symmetric(a, 0.5, shared_seed=s)[0] - a) for s in range(500)]


def test_an_unknown_scheme_is_refused_before_any_work(rng):
    X, y = np.eye(2), np.ones(2)
    mdp = LinearMDP.random(n_states=4, n_actions=2, dim=2, horizon=2, rng=rng)
    core, settings = g_optimal_design(mdp.features), {"n_samples": 9, "penalty": 1, "bin_width": 1, "shared_seed": 0}
    calls = [
        lambda: ReplicableRidge(bin_width=0.1, scheme="hexagon").fit(X, y),
        lambda: ReplicableSecondMoment(bin_width=0.1, scheme="hexagon").fit(X),
        lambda: ReplicableFittedQ(None, 2, scheme="hexagon").fit(X, [0, 1], y, X, [False, False]),
        lambda: r_lsvi(mdp, core, rng=rng, scheme="hexagon", **settings),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="scheme must be 'grid' or 'lattice', got 'hexagon'"):
            call()
