"""Definition 2.2 measured: known rates, exact coverage, worker independence, shares by brute force."""

import hashlib
import itertools
import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from rrl import (
    ReplicabilityEstimate,
    clopper_pearson,
    estimate_replicability,
    fingerprint,
    hypergrid_round,
    modal_share,
    pairwise_share,
    shared_uniform,
)

# Fingerprints.


def test_a_fingerprint_is_the_hash_of_shape_and_little_endian_codes():
    plain = hashlib.sha256(b"(2, 3)" + struct.pack("<6q", 1, -2, 3, 4, 5, 2**51)).hexdigest()
    codes = np.array([[1, -2, 3], [4, 5, 2**51]])
    assert fingerprint(codes) == plain
    for form in (codes.astype(">i8"), np.asfortranarray(codes), codes.tolist(), codes[::1]):
        assert fingerprint(form) == plain
    small = np.array([1, 2, 3])
    assert len({fingerprint(small.astype(kind)) for kind in ("i1", "u1", "i4", "u4", "i8", "u8")}) == 1


@given(
    st.lists(st.lists(st.integers(-3, 3), max_size=3), min_size=1, max_size=3),
    st.lists(st.lists(st.integers(-3, 3), max_size=3), min_size=1, max_size=3),
)
def test_fingerprints_of_sequences_are_equal_only_for_equal_sequences(one, two):
    prints = [fingerprint([np.array(part, dtype=np.int64) for part in parts]) for parts in (one, two)]
    assert (prints[0] == prints[1]) == (one == two)


def test_shapes_count_and_a_scalar_has_one_too():
    forms = [np.zeros(6, int), np.zeros((2, 3), int), np.zeros((3, 2), int), [np.zeros(3, int)] * 2, np.int64(0)]
    assert len({fingerprint(form) for form in forms}) == len(forms)
    assert fingerprint((np.zeros(3, int), 5)) == fingerprint([np.zeros(3, int), np.array(5)])


@pytest.mark.parametrize("codes", [[1.0], [np.array([1]), np.array([0.5])], [True], ["a"], None, [10**30], []])
def test_what_is_no_integer_code_is_refused(codes):
    with pytest.raises(TypeError, match="codes must be integers"):
        fingerprint(codes)


def test_an_unsigned_code_beyond_int64_is_refused_not_wrapped():
    with pytest.raises(ValueError, match="codes must fit int64, got 18446744073709551615"):
        fingerprint(np.array([2**64 - 1], np.uint64))


# Exact limits.


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("trials", [1, 7, 40])
def test_clopper_pearson_covers_at_least_its_confidence_by_exact_summation(trials, confidence):
    limits = [clopper_pearson(k, trials, confidence) for k in range(trials + 1)]
    edges = sorted({x for pair in limits for x in pair})
    grid = np.concatenate([np.linspace(0, 1, 201), edges, np.nextafter(edges, 0), np.nextafter(edges, 1)])
    coverage = []
    for p in grid[(grid >= 0) & (grid <= 1)]:
        coverage.append(sum(binom.pmf(k, trials, p) for k, (low, high) in enumerate(limits) if low <= p <= high))
    assert min(coverage) >= confidence - 1e-9
    # Each tail is spent exactly: at a limit, the observed count or a more extreme one has half the rest.
    for k, (low, high) in enumerate(limits):
        tail = (1 - confidence) / 2
        assert low == 0 if k == 0 else binom.sf(k - 1, trials, low) == pytest.approx(tail, rel=1e-9)
        assert high == 1 if k == trials else binom.cdf(k, trials, high) == pytest.approx(tail, rel=1e-9)
        assert type(low) is float and low < k / trials + 1e-12 and high > k / trials - 1e-12


def test_clopper_pearson_takes_numpy_integers_and_defaults_to_95_percent():
    assert clopper_pearson(np.int64(3), np.int32(10)) == clopper_pearson(3, 10, 0.95)
    low, high = clopper_pearson(3, 10)
    assert (round(low, 4), round(high, 4)) == (0.0667, 0.6525)


@pytest.mark.parametrize(("k", "n"), [(-1, 5), (6, 5), (0, 0), (1.0, 5), (1, 5.0), (None, 5)])
def test_impossible_counts_are_refused(k, n):
    with pytest.raises(ValueError, match=r"successes|trials"):
        clopper_pearson(k, n)


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, np.nan])
def test_a_confidence_outside_the_unit_interval_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence must lie strictly between 0 and 1"):
        clopper_pearson(1, 2, confidence)
    with pytest.raises(ValueError, match="confidence must lie strictly between 0 and 1"):
        estimate_replicability(uniform_mean, n_pairs=1, seed=0, confidence=confidence)


# Paired runs.


def uniform_mean(shared_seed, rng):
    """One uniform number, rounded with bin 1: two runs are |U1 - U2| apart, on average a third."""
    return hypergrid_round(rng.uniform(), 1.0, shared_seed=shared_seed).codes


def data_and_seed(shared_seed, rng):
    """Return the shared seed and the data as codes: every pair differs, and nothing else is seen."""
    return np.array([shared_seed, rng.integers(2**62)])


def coin(shared_seed, rng):
    return [int(rng.uniform() < 0.1)]


def constant(shared_seed, rng):
    return [shared_seed]


def test_a_known_rate_is_found(acceptance):
    """Pr[differ] = E|U1 - U2| = 1/3. Power: .37 would be found with probability > .99 at 10,000 pairs."""
    estimate = estimate_replicability(uniform_mean, n_pairs=10_000, seed=0)
    low, high = acceptance(10_000, 1 / 3)
    assert low <= estimate.n_disagree <= high
    assert estimate.rho == estimate.n_disagree / 10_000 < estimate.upper
    assert isinstance(estimate, ReplicabilityEstimate) and estimate.n_pairs == 10_000


def test_runs_that_share_no_randomness_still_have_independent_data(acceptance):
    """Two coins of chance .1 differ with chance .18; one generator for both runs would give 0."""
    estimate = estimate_replicability(coin, n_pairs=5000, seed=1)
    low, high = acceptance(5000, 0.18)
    assert low <= estimate.n_disagree <= high


def test_the_shared_seed_is_the_same_in_a_pair_and_another_in_every_pair():
    seen = []

    def run(shared_seed, rng):
        seen.append((shared_seed, rng.integers(2**62)))
        return [0]

    estimate_replicability(run, n_pairs=50, seed=0)
    shared, data = zip(*seen, strict=True)
    assert shared[::2] == shared[1::2] and len(set(shared)) == 50
    assert len(set(data)) == 100
    assert all(type(s) is int and 0 <= s < 2**63 for s in shared) and max(shared) > 2**60
    # Another seed of the measurement shares nothing; the same repeats all.
    for seed, equal in ((0, True), (1, False)):
        again, seen[:] = list(seen), []
        estimate_replicability(run, n_pairs=50, seed=seed)
        assert (again == seen) == equal
        assert equal or set(again).isdisjoint(seen)


@pytest.mark.filterwarnings("ignore::rrl.ReplicabilityWarning")
def test_no_disagreement_in_n_pairs_means_rho_at_most_three_over_n():
    estimate = estimate_replicability(constant, n_pairs=200, seed=0)
    assert (estimate.n_disagree, estimate.rho) == (0, 0.0)
    assert estimate.upper == pytest.approx(1 - 0.05 ** (1 / 200), rel=1e-9) and estimate.upper <= 3 / 200
    assert estimate.confidence == 0.95
    wide = estimate_replicability(constant, n_pairs=200, seed=0, confidence=0.999999)
    assert wide.upper == pytest.approx(1 - 1e-6 ** (1 / 200), rel=1e-6)
    all_differ = estimate_replicability(data_and_seed, n_pairs=20, seed=0)
    assert (all_differ.rho, all_differ.upper) == (1.0, 1.0)


def test_the_upper_limit_covers_at_its_confidence_by_exact_summation():
    n, confidence = 12, 0.9
    uppers = []
    for k in range(n + 1):
        codes = iter([0, 1] * k + [0, 0] * (n - k))
        run = lambda shared_seed, rng, codes=codes: next(codes) + 0 * int(rng.integers(9))  # noqa: E731
        estimate = estimate_replicability(run, n_pairs=n, seed=0, confidence=confidence)
        assert estimate.n_disagree == k
        uppers.append(estimate.upper)
    for p in [*np.linspace(0, 1, 301), *np.nextafter(uppers, 0)]:
        assert sum(binom.pmf(k, n, p) for k in range(n + 1) if p <= uppers[k]) >= confidence - 1e-9
    assert uppers == sorted(uppers)


def test_case_23_the_result_does_not_depend_on_the_number_of_workers():
    one, two = (estimate_replicability(uniform_mean, n_pairs=40, seed=3, n_jobs=jobs) for jobs in (1, 2))
    assert one == two and 0 < one.n_disagree < 40


def test_a_numpy_seed_is_its_integer_and_zero_is_a_seed():
    estimates = [estimate_replicability(uniform_mean, n_pairs=100, seed=s) for s in (0, np.int64(0), 1)]
    assert estimates[0] == estimates[1]
    assert estimates[0].n_disagree != estimates[2].n_disagree


@pytest.mark.parametrize("n_pairs", [0, -1, 1.5, None])
def test_a_bad_number_of_pairs_is_refused(n_pairs):
    with pytest.raises(ValueError, match="n_pairs must be a positive integer"):
        estimate_replicability(constant, n_pairs=n_pairs, seed=0)


@pytest.mark.parametrize("seed", [-1, 1.5, None, "a"])
def test_a_bad_seed_is_refused(seed):
    with pytest.raises(ValueError, match="seed must be a non-negative integer"):
        estimate_replicability(constant, n_pairs=1, seed=seed)


def test_a_run_that_returns_floats_is_refused():
    with pytest.raises(TypeError, match="codes must be integers"):
        estimate_replicability(lambda shared_seed, rng: rng.normal(size=2), n_pairs=1, seed=0)


# Shares.

outputs = st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=2), min_size=2, max_size=9)


@given(outputs)
@settings(max_examples=200)
def test_shares_by_brute_force_and_the_inequalities_between_them(codes):
    n = len(codes)
    modal = Fraction(max(codes.count(c) for c in codes), n)
    equal = sum(a == b for a, b in itertools.combinations(codes, 2))
    assert modal_share(codes) == pytest.approx(float(modal), rel=1e-14)
    assert pairwise_share(codes) == pytest.approx(equal / math.comb(n, 2), rel=1e-14, abs=1e-15)
    assert modal_share(np.array(codes)[:, None, :]) == modal_share(codes)
    # With rho-hat the chance that two outputs drawn (with replacement) from the runs differ.
    rho = 1 - Fraction(sum(a == b for a in codes for b in codes), n**2)
    assert 1 - modal <= rho <= 1 - modal**2


def test_both_ends_of_the_inequality_are_reached():
    # All others different: 1 - m^2 up to the others' own pairs; all in equal groups: 1 - m.
    assert pairwise_share([0] * 5 + [1] * 5) == pytest.approx(20 / 45)
    assert modal_share([0] * 5 + [1] * 5) == 0.5
    assert modal_share(np.arange(4)) == 0.25 and pairwise_share(np.arange(4)) == 0.0
    assert modal_share([[7, 7]] * 3) == 1.0 == pairwise_share([[7, 7]] * 3)
    assert modal_share(np.zeros((3, 0), int)) == 1.0 == pairwise_share(np.zeros((3, 0), int))
    assert modal_share([5]) == 1.0 and type(modal_share([5])) is float


def test_the_pairwise_share_is_unbiased_for_the_exact_law():
    """30 runs under one grid; 2,000 grids. Tolerance: six standard errors."""
    shares = []
    for seed in range(2000):
        offset = shared_uniform(seed, ("pair",), ())
        data = np.random.default_rng(seed).uniform(0, 1, size=30)
        shares.append(pairwise_share(np.floor(data - offset).astype(int)))
    assert abs(np.mean(shares) - 2 / 3) < 6 * np.std(shares) / np.sqrt(2000)


@pytest.mark.parametrize("share", [modal_share, pairwise_share])
def test_shares_refuse_floats_and_nothing(share):
    with pytest.raises(TypeError, match="codes must be integers"):
        share([[0.5], [0.5]])
    for empty in (np.empty((0, 3), int), np.array(3)):
        with pytest.raises(ValueError, match="codes must hold at least one run"):
            share(empty)


def test_a_pair_needs_two_runs():
    with pytest.raises(ValueError, match="at least two runs"):
        pairwise_share([[1, 2]])
