"""Algorithm 1: properties, the paper's list of intervals by brute force, and the exact law of Lemma 2.1."""

from dataclasses import FrozenInstanceError
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rrl import Rounded, fingerprint, hypergrid_round, shared_uniform, theory
from rrl._checks import as_float64, check_finite

numbers = st.floats(-1e6, 1e6)
widths = st.floats(1e-3, 1e4)
seeds = st.integers(0, 2**32)


def seed_with_offset(low, high, shape=(), key=(), start=0):
    """A shared seed whose (first) offset, as a share of the bin, lies in [low, high)."""
    for seed in range(start, start + 100_000):
        if low <= np.ravel(shared_uniform(seed, ("hypergrid", key), shape))[0] < high:
            return seed
    raise AssertionError


def half_bin(a, width):
    """Half a bin and three roundings of a float64."""
    return width / 2 + 3 * np.spacing(np.maximum(np.abs(a), width))


@given(st.lists(numbers, min_size=1, max_size=20), widths, seeds)
def test_values_lie_within_half_a_bin_and_rounding_again_changes_nothing(a, width, seed):
    a = np.array(a)
    once = hypergrid_round(a, width, shared_seed=seed)
    assert (np.abs(once.values - a) <= half_bin(a, width)).all()
    twice = hypergrid_round(once.values, width, shared_seed=seed)
    np.testing.assert_array_equal(twice.codes, once.codes)
    np.testing.assert_array_equal(twice.values, once.values)
    assert (once.offsets >= 0).all() and (once.offsets < width).all()
    assert once.codes.dtype == np.int64 and once.values.dtype == np.float64


@given(st.floats(-1e15, 1e15), st.floats(8, 64), seeds)
@example(1.0, 8.0, 0)
def test_the_promises_hold_down_to_the_finest_grid_that_is_allowed(a, bins, seed):
    width = float(bins * np.spacing(max(abs(a), 1e-3)) * 2)
    once = hypergrid_round([a], width, shared_seed=seed)
    assert abs(once.values[0] - a) <= half_bin(a, width)
    assert hypergrid_round(once.values, width, shared_seed=seed).codes == once.codes


@given(st.lists(numbers, min_size=2, max_size=20), widths, seeds)
def test_codes_are_monotone_and_equal_codes_are_equal_values(a, width, seed):
    a = np.sort(a)
    # One offset for all: each entry is rounded alone under one key.
    rounded = [hypergrid_round(x, width, shared_seed=seed) for x in a]
    codes, values = (np.array([getattr(r, name) for r in rounded]) for name in ("codes", "values"))
    assert (np.diff(codes) >= 0).all()
    np.testing.assert_array_equal(np.diff(codes) == 0, np.diff(values) == 0)


@given(st.lists(numbers, min_size=1, max_size=8), widths, seeds)
def test_the_codes_are_those_of_exact_arithmetic_on_the_offsets(a, width, seed):
    rounded = hypergrid_round(a, width, shared_seed=seed)
    np.testing.assert_array_equal(rounded.offsets, shared_uniform(seed, ("hypergrid", ()), len(a)) * width)
    for entry, offset, code, value in zip(a, rounded.offsets, rounded.codes, rounded.values, strict=True):
        share = (Fraction(entry) - Fraction(offset)) / Fraction(width)
        # An entry within rounding error of an edge may fall either side of it.
        slack = Fraction(np.spacing(abs(entry) + width)) * 2 / Fraction(width)
        assert code - slack <= share < code + 1 + slack
        exact = Fraction(offset) + (int(code) + Fraction(1, 2)) * Fraction(width)
        assert abs(Fraction(value) - exact) <= 2 * Fraction(np.spacing(abs(value) + width))


def test_every_entry_has_its_own_offset_and_every_key_and_seed_its_own_grid():
    one = hypergrid_round(np.zeros((3, 4)), 1, shared_seed=0)
    assert one.offsets.shape == (3, 4) and len(np.unique(one.offsets)) == 12
    for other in (
        hypergrid_round(np.zeros((3, 4)), 1, shared_seed=1),
        hypergrid_round(np.zeros((3, 4)), 1, shared_seed=0, key=("b",)),
    ):
        assert np.intersect1d(one.offsets, other.offsets).size == 0
    # Doubling the bin doubles the offsets: the same share of the bin is drawn.
    np.testing.assert_array_equal(hypergrid_round(np.zeros((3, 4)), 2, shared_seed=0).offsets, 2 * one.offsets)


def test_any_shape_and_a_width_for_each_entry():
    a = np.linspace(-3, 3, 6).reshape(2, 3)
    width = np.array([0.5, 1.0, 2.0])
    rounded = hypergrid_round(a, width, shared_seed=3)
    offsets = shared_uniform(3, ("hypergrid", ()), (2, 3)) * width
    np.testing.assert_array_equal(rounded.codes, np.floor((a - offsets) / width))
    np.testing.assert_array_equal(rounded.values, offsets + (rounded.codes + 0.5) * width)
    np.testing.assert_array_equal(rounded.bin_width, np.broadcast_to(width, (2, 3)))
    column = hypergrid_round(a, [[0.5], [1.0]], shared_seed=3)
    assert column.codes.shape == (2, 3)
    assert hypergrid_round(0.3, 1, shared_seed=0).values.shape == ()
    assert hypergrid_round(np.empty((0, 2)), 1, shared_seed=0).codes.shape == (0, 2)
    assert isinstance(rounded, Rounded) and hypergrid_round(a, np.float32(0.5), shared_seed=3).bin_width == 0.5


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, np.int8, np.uint8, np.bool_, object, np.longdouble])
def test_any_real_type_gives_what_its_float64_copy_gives(kind):
    a = np.array([0, 1, 1, 0]).astype(kind)
    np.testing.assert_array_equal(
        hypergrid_round(a, 0.3, shared_seed=4).values, hypergrid_round(a.astype(float), 0.3, shared_seed=4).values
    )


def test_the_callers_array_is_left_alone_and_may_be_read_only_or_of_any_layout():
    a = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    a.flags.writeable = False
    copy = a.copy()
    rounded = hypergrid_round(a, 0.7, shared_seed=1)
    np.testing.assert_array_equal(a, copy)
    np.testing.assert_array_equal(rounded.codes, hypergrid_round(np.ascontiguousarray(a), 0.7, shared_seed=1).codes)
    assert not np.shares_memory(rounded.values, a)


# The cut-off cells of the paper.


def paper_intervals(start, end, offset, width):
    """The list of Algorithm 1, line 2: [b_s, b_s + off), [b_s + off, b_s + off + alpha), ..., b_e."""
    start, end, offset, width = map(Fraction, (start, end, offset, width))
    edges = [start]
    edge = start + offset
    while edge < end:
        edges.append(edge)
        edge += width
    return [pair for pair in pairwise([*edges, end]) if pair[0] < pair[1]]


@given(
    st.integers(-40, 40),
    st.integers(1, 60),
    st.sampled_from([1, 2, 3, 5, 8, 13, 64]),
    seeds,
    st.lists(st.integers(0, 1000), min_size=1, max_size=6),
)
def test_cut_off_cells_by_brute_force_over_the_papers_list_of_intervals(start, length, eighths, seed, shares):
    start, width = start / 4, eighths / 8
    end = start + length / 4
    # Both bounds, the offset edges themselves and points between.
    offset = shared_uniform(seed, ("hypergrid", ()), ()) * width
    entries = [
        start,
        end,
        *(start + (end - start) * s / 1000 for s in shares),
        *(x for k in range(3) if (x := start + offset + k * width) <= end),
    ]
    for entry in entries:
        rounded = hypergrid_round(entry, width, shared_seed=seed, bounds=(start, end))
        cells = paper_intervals(start, end, float(rounded.offsets), width)
        numbers = [i for i, (low, high) in enumerate(cells) if low <= Fraction(entry) < high]
        # The paper leaves b_e in no cell: it joins the last one.
        number = numbers[0] if numbers else len(cells) - 1
        low, high = cells[number]
        near_edge = any(abs(Fraction(entry) - edge) < Fraction(1, 10**13) for cell in cells for edge in cell)
        if not near_edge or entry in (start, end):
            assert int(rounded.codes) == number - 1
            assert abs(Fraction(float(rounded.values)) - (low + high) / 2) < Fraction(1, 10**13)
        assert start <= rounded.values <= end
        assert abs(rounded.values - entry) <= width / 2 + 1e-13


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 2.5), (-1e-3, 1e-3), (5.0, 1e300)])
def test_both_bounds_and_all_between_have_a_cell_and_rounding_again_keeps_it(bounds, seed):
    start, end = bounds
    a = np.linspace(start, min(end, 1e3), 41)
    once = hypergrid_round(a, 0.25, shared_seed=seed, bounds=bounds)
    assert (once.codes >= -1).all()
    assert (once.values >= start).all() and (once.values <= end).all()
    twice = hypergrid_round(once.values, 0.25, shared_seed=seed, bounds=bounds)
    np.testing.assert_array_equal(once.codes, twice.codes)


def test_a_far_upper_bound_changes_no_code():
    a = np.linspace(0, 5, 11)
    near, far = (hypergrid_round(a, 0.1, shared_seed=0, bounds=(0, end)) for end in (1e3, 1e300))
    np.testing.assert_array_equal(near.codes, far.codes)
    np.testing.assert_array_equal(near.values, far.values)


@pytest.mark.parametrize(("bins", "middle"), [(0, 0.5), (1, 0.5), (3, 2.5)])
def test_the_top_edge_joins_the_last_cell_also_when_whole_bins_end_there(bins, middle):
    seed = seed_with_offset(0.3, 0.7)
    offset = float(shared_uniform(seed, ("hypergrid", ()), ()))
    end = offset + bins
    top, below = (hypergrid_round(x, 1, shared_seed=seed, bounds=(0, end)) for x in (end, end - 0.25))
    assert top.codes == below.codes == bins - 1
    # Without a whole bin there is one cell, cut off at both ends.
    assert top.values == below.values == pytest.approx(offset + middle if bins else offset * middle)


@pytest.mark.parametrize(
    ("a", "bounds", "message"),
    [
        ([0.5, np.nan, np.inf], None, r"a holds nan at index \(1,\)"),
        ([0.5, 2.0, 3.0], (0, 1), r"a holds 2.0 at index \(1,\), outside bounds"),
        ([0.5, 1e16, 1e17], None, r"too fine for the entry 1e\+16 at index \(1,\)"),
    ],
)
def test_of_several_bad_entries_the_first_is_named(a, bounds, message):
    with pytest.raises(ValueError, match=message):
        hypergrid_round(a, 0.1, shared_seed=0, bounds=bounds)


def test_one_bin_wider_than_the_bounds_is_one_cell_or_two():
    for seed in range(50):
        a = np.linspace(0, 1, 5)
        rounded = hypergrid_round(a, 1e6, shared_seed=seed, bounds=(0, 1))
        np.testing.assert_array_equal(rounded.codes, -1)
        np.testing.assert_array_equal(rounded.values, 0.5)


# The law of Lemma 2.1. Each row of pairs is one exact binomial test, false alarm 1e-6.

TRIALS = 40_000
LAW = [(0.0, 0.05), (0.0, 0.3), (0.2, 1.1), (-0.7, 0.29), (0.4, 0.4), (0.0, 1.0), (0.0, 2.3), (0.9, -0.4)]


@pytest.mark.parametrize("bounds", [None, (-0.9, 2.4), (-0.7, 1.1)])
def test_two_entries_differ_with_probability_exactly_the_smaller_of_1_and_distance_over_bin(bounds, acceptance):
    """Also where cells are cut off at the bounds.

    Power: with 40,000 offsets a law that is off by .018 anywhere is found with probability > .98; a law
    of 0 or 1 is checked without exception.
    """
    pairs = [pair for pair in LAW if bounds is None or all(bounds[0] <= x <= bounds[1] for x in pair)]
    pairs += (
        []
        if bounds is None
        else [(bounds[0], bounds[0] + 0.2), (bounds[1], bounds[1] - 0.6), (bounds[0], bounds[0] + 0.99)]
    )
    for number, (one, two) in enumerate(pairs):
        codes = [
            hypergrid_round(np.full(TRIALS, x), 1.0, shared_seed=number, key=("law",), bounds=bounds).codes
            for x in (one, two)
        ]
        low, high = acceptance(TRIALS, min(1, abs(one - two)))
        assert low <= np.count_nonzero(codes[0] != codes[1]) <= high, (one, two)


def test_entries_of_a_matrix_differ_independently_so_that_the_product_law_holds(acceptance, rng):
    """Power: the union bound of the lemma (.894 here against .60) would be found with certainty."""
    differences = rng.uniform(0, 0.1, size=(3, 6))
    a = rng.normal(size=(3, 6))
    trials = 4000
    codes = [
        np.array([hypergrid_round(m, 1.0, shared_seed=seed).codes for seed in range(trials)])
        for m in (a, a + differences)
    ]
    count = (codes[0] != codes[1]).any(axis=(1, 2)).sum()
    law = theory.disagreement_probability(differences.ravel(), 1.0)
    low, high = acceptance(trials, law)
    assert low <= count <= high
    assert (
        law
        < theory.rounding_disagreement_bound(3, 6, np.linalg.norm(differences), 1.0)
        < 18 * np.linalg.norm(differences)
    )


def test_the_error_bound_of_the_lemma_is_reached_on_edges_only():
    a = np.random.default_rng(0).normal(size=(30, 40))
    error = np.linalg.norm(hypergrid_round(a, 0.5, shared_seed=1).values - a)
    bound = theory.rounding_error_bound(30, 40, 0.5)
    # Errors are uniform in a cell: the root of the mean square is 1/sqrt(3) of the largest.
    assert error < bound and error == pytest.approx(bound / np.sqrt(3), rel=0.05)


# Faults that neighbours' users met.


def test_case_16_ties_go_the_same_way():
    seed = seed_with_offset(0.2, 0.8)
    offset = float(shared_uniform(seed, ("hypergrid", ()), ()))
    values = [float(hypergrid_round(offset + k, 1, shared_seed=seed).values) for k in range(-4, 5)]
    np.testing.assert_allclose(np.diff(values), 1, atol=1e-12)
    # A cell is closed below and open above.
    assert hypergrid_round(offset, 1, shared_seed=seed).codes == 0
    assert hypergrid_round(np.nextafter(offset, -1), 1, shared_seed=seed).codes == -1


def test_case_17_minus_zero_never_leaves():
    seed = seed_with_offset(0.49, 0.5)
    both = [hypergrid_round([x], 0.4, shared_seed=seed) for x in (-0.0, 0.0)]
    assert both[0].values.tobytes() == both[1].values.tobytes()
    assert fingerprint(both[0].codes) == fingerprint(both[1].codes)
    # A midpoint of exactly zero: bounds that are symmetric around it, and a bin wider than them.
    rounded = hypergrid_round([-0.2, 0.2], 1e9, shared_seed=seed, bounds=(-0.5, 0.5))
    assert rounded.values[0].tobytes() == rounded.values[1].tobytes() == np.float64(0.0).tobytes()
    assert not np.signbit(rounded.values).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_case_18_a_value_that_is_not_finite_is_refused_with_its_place(value):
    with pytest.raises(ValueError, match=rf"a holds {value} at index \(1, 0\); every entry must be finite"):
        hypergrid_round([[0.0], [value]], 1e-3, shared_seed=0)


@pytest.mark.parametrize(("value", "width"), [(1e300, 1e-3), (1e9, 1e-9), (1.0, 2.0**-50), (-1e17, 100.0)])
def test_case_18_a_bin_below_the_spacing_of_floats_is_refused(value, width):
    with pytest.raises(ValueError, match=r"bin_width=.* is too fine for the entry .* at index \(1,\)"):
        hypergrid_round([0.0, value], width, shared_seed=0)


def test_case_18_the_finest_bin_that_is_allowed_spans_eight_floats():
    for spans, fine in ((7.9, True), (8.0, False)):
        width = spans * np.spacing(1.5)
        if fine:
            with pytest.raises(ValueError, match="too fine"):
                hypergrid_round([1.5], width, shared_seed=0)
        else:
            assert abs(hypergrid_round([1.5], width, shared_seed=0).codes[0]) <= 2**51


def test_case_18_a_bin_below_the_spacing_at_the_lower_bound_is_refused():
    with pytest.raises(ValueError, match=r"too fine for the entry 0\.0"):
        hypergrid_round([0.0], 1e-3, shared_seed=0, bounds=(-1e300, 1.0))


def test_case_18_a_midpoint_that_overflows_is_refused():
    with pytest.raises(ValueError, match=r"bin_width=1e\+308 is too large"):
        hypergrid_round([1.7e308], 1e308, shared_seed=seed_with_offset(0.5, 0.6, (1,)))


def test_case_48_values_equal_in_theory_are_equal_after_rounding():
    for a in ([0.3, 0.1 + 0.2], [0.1 + 0.2, 0.3], [0.0, 0.0, 0.0]):
        # Each entry has an offset of its own, so equal values compare under one key, one by one.
        values = [hypergrid_round(x, 0.01, shared_seed=5, key=("q",)).values for x in a]
        assert np.argmax(values) == 0 and len(set(map(float, values))) == 1


# Bad arguments.


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (3, "bounds must be two finite numbers"),
        ((1,), "bounds must be two finite numbers"),
        ((1, 2, 3), "bounds must be two finite numbers"),
        ((1, 1), "bounds must be two finite numbers"),
        ((2, 1), "bounds must be two finite numbers"),
        ((0, np.inf), "bounds must be two finite numbers"),
        ((np.nan, 1), "bounds must be two finite numbers"),
        (("a", 1), "bounds must hold real numbers"),
        ((0, 0.5), r"a holds 1.0 at index \(0,\), outside bounds \(0.0, 0.5\)"),
        ((1.5, 2), r"a holds 1.0 at index \(0,\), outside bounds"),
    ],
)
def test_bad_bounds_are_refused_by_name(bounds, message):
    with pytest.raises(ValueError, match=message):
        hypergrid_round([1.0], 0.1, shared_seed=0, bounds=bounds)


@pytest.mark.parametrize("width", [0, -1, np.nan, np.inf, None, "wide", [1, 2, 3], [[1], [2]], [1.0, 0.0], 1j])
def test_a_bad_bin_width_is_refused_by_name(width):
    words = "must be positive and finite|must hold real numbers|has shape|has dtype complex"
    with pytest.raises(ValueError, match=f"bin_width ({words})"):
        hypergrid_round([1.0, 2.0], width, shared_seed=0)


@pytest.mark.parametrize(
    "a", ["text", ["1.5"], [1j], [[1, 2], [3]], [object()], np.array(["2020-01-01"], "M8[D]"), [None], [10**400]]
)
def test_entries_that_are_no_real_numbers_are_refused_by_name(a):
    with pytest.raises(ValueError, match=r"\ba\b"):
        hypergrid_round(a, 1.0, shared_seed=0)


def test_a_long_double_beyond_float64_is_refused():
    with pytest.raises(ValueError, match="a holds inf"):
        hypergrid_round(np.array([np.finfo(np.float64).max], np.longdouble) * 4, 1.0, shared_seed=0)


@pytest.mark.parametrize(("seed", "key"), [(1.5, ()), ("a", ()), (0, "a"), (0, ["a"]), (0, (1.5,)), (0, (True,))])
def test_a_bad_seed_or_key_is_refused(seed, key):
    with pytest.raises(TypeError, match="shared_seed" if key == () else "key"):
        hypergrid_round([1.0], 1.0, shared_seed=seed, key=key)


def test_a_result_cannot_be_changed_by_accident():
    rounded = hypergrid_round([1.0], 1.0, shared_seed=0)
    with pytest.raises(FrozenInstanceError):
        rounded.codes = rounded.codes + 1


def test_helpers():
    assert as_float64("a", [1, 2]).dtype == np.float64
    assert check_finite("a", np.zeros(3)) is None


def test_widths_of_a_result_are_its_own():
    widths = np.array([0.5, 1.0])
    result = hypergrid_round([0.3, 0.4], widths, shared_seed=0)
    widths[:] = 5
    assert result.bin_width.tolist() == [0.5, 1.0]
