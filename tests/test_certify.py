"""Anytime certificates: the bets against quadrature, exact error rates, and the measurement itself."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betainc

from rrl import (
    anytime_limits,
    certification_law,
    certify_replicability,
    estimate_replicability,
    least_pairs,
    pair_seeds,
)
from rrl.evidence import log_evidence
from rrl.experiments.store import RunStore
from rrl.law import boundaries

LEVEL = np.log(20)


def coin(shared_seed, rng):
    """Two runs differ with probability 2 * 0.9 * 0.1 = 0.18."""
    return int(rng.random() < 0.1)


# The bets.


@pytest.mark.parametrize(("k", "n", "rho"), [(0, 0, 0.3), (0, 7, 0.1), (3, 20, 0.1), (3, 20, 0.4), (9, 9, 0.8)])
def test_the_wealth_is_the_mean_likelihood_ratio_over_the_cut_prior(k, n, rho):
    """Quadrature after q = sin(t)^2, which makes the prior uniform in t."""
    cut = np.arcsin(np.sqrt(rho))

    def ratio(t):
        q = np.sin(t) ** 2
        return (q / rho) ** k * ((1 - q) / (1 - rho)) ** (n - k)

    below = quad(ratio, 0, cut, epsabs=0)[0] / cut
    above = quad(ratio, cut, np.pi / 2, epsabs=0)[0] / (np.pi / 2 - cut)
    np.testing.assert_allclose(np.exp(log_evidence(k, n, rho)), [below, above], rtol=1e-7)


@pytest.mark.parametrize("rho", [0.05, 0.5, 0.9])
def test_each_bet_is_fair_at_rho_and_loses_in_the_mean_where_its_opponent_is_right(rho):
    n = 25
    k = np.arange(n + 1)
    now, no, yes = (np.exp(log_evidence(*state, rho)) for state in ((k, n), (k, n + 1), (k + 1, n + 1)))
    np.testing.assert_allclose((1 - rho) * no + rho * yes, now, rtol=1e-9)
    for p in (rho + 0.01, 0.99):
        assert ((1 - p) * no[0] + p * yes[0] <= now[0] * (1 + 1e-12)).all()
    for p in (rho - 0.01, 0.01):
        assert ((1 - p) * no[1] + p * yes[1] <= now[1] * (1 + 1e-12)).all()


def test_evidence_beyond_the_range_of_floats_is_minus_infinity_not_an_error():
    below, above = log_evidence(900, 1000, 0.01)
    assert below == -np.inf and above > 3000


# The limits.


@pytest.mark.parametrize(("k", "n"), [(0, 1), (0, 60), (1, 60), (30, 60), (60, 60), (400, 50_000)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_limits_hold_exactly_the_values_against_which_no_bet_has_won(k, n, confidence):
    low, high = anytime_limits(k, n, confidence)
    level = -np.log1p(-confidence)
    assert low <= k / n <= high
    for p in np.concatenate([np.linspace(0.001, 0.999, 333), [0.5 * low, low - 1e-9, low + 1e-9, high - 1e-9]]):
        if 0 < p < 1:
            below, above = log_evidence(k, n, p)
            assert (below < level) == (p < high) and (above < level) == (p > low)
    mirrored = anytime_limits(n - k, n, confidence)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-12)


def test_the_evidence_against_a_value_grows_with_its_distance_from_the_share():
    """So the values that no bet has refuted are an interval: every count of 60 pairs, and some of many pairs."""
    grid = np.concatenate([np.logspace(-9, -1, 200), np.linspace(0.1, 0.9, 400), 1 - np.logspace(-1, -9, 200)])
    for n in (*range(1, 61), 200, 1000, 10**5):
        for k in {*range(min(n, 60)), n // 2, n - 1}:
            p = grid[grid >= k / n]
            with np.errstate(all="ignore"):
                grows = log_evidence(k, n, p)[0]
            if p.size > 1:
                assert (np.diff(grows) > -1e-9 * np.maximum(1, np.abs(grows[1:]))).all(), (k, n)
            nearer = grid[grid < k / n]
            assert nearer.size == 0 or np.nanmax(log_evidence(k, n, nearer)[0]) <= 1e-9


def test_one_pair_excludes_nothing_at_a_confidence_next_to_one():
    assert anytime_limits(0, 1, 1 - 2.0**-53) == (0.0, 1.0)


def test_limits_for_all_times_are_wider_than_the_exact_ones_for_one_time():
    for k, n in [(0, 30), (3, 30), (50, 1000)]:
        upper = anytime_limits(k, n)[1]
        # One-sided Clopper-Pearson: k or fewer have probability 5% at its limit.
        assert betainc(k + 1, n - k, upper) > 0.95


# What is claimed, and how often wrongly.


@pytest.mark.parametrize(("true_rho", "rho", "confidence"), [(0.3, 0.3, 0.6), (0.05, 0.3, 0.6), (0.7, 0.4, 0.7)])
def test_the_law_by_enumeration_of_all_paths(true_rho, rho, confidence):
    n_max, level = 12, -np.log1p(-confidence)
    chances, pairs = np.zeros(3), 0.0
    running = np.zeros(n_max + 1)
    evidence = {(k, n): log_evidence(k, n, rho) for n in range(1, n_max + 1) for k in range(n + 1)}
    for path in itertools.product((0, 1), repeat=n_max):
        chance, k, verdict = np.prod([true_rho if x else 1 - true_rho for x in path]), 0, 2
        for n, x in enumerate(path, start=1):
            running[n - 1] += chance
            k += x
            if max(evidence[k, n]) >= level:
                verdict = int(evidence[k, n][1] >= level)
                break
        else:
            running[n_max] += chance
        chances[verdict] += chance
        pairs += chance * n
    law = certification_law(true_rho, rho, confidence=confidence, max_pairs=n_max)
    found = (law.replicable, law.not_replicable, law.undecided)
    np.testing.assert_allclose(found, chances, atol=1e-12)
    np.testing.assert_allclose(law.running, running, atol=1e-12)
    assert law.mean_pairs == pytest.approx(pairs) and min(chances) > 0


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("rho", [0.02, 0.1, 0.5])
def test_false_claims_are_rarer_than_promised_wherever_the_truth_is(rho, confidence):
    """Exact, over 3,000 looks; at the boundary the whole budget is nearly spent on neither side."""
    for true_rho in (rho * 0.9, rho, np.nextafter(rho, 1), rho * 1.05, rho * 1.5):
        law = certification_law(true_rho, rho, confidence=confidence, max_pairs=3000)
        false = law.replicable if true_rho > rho else law.not_replicable
        assert false <= 1 - confidence
    # The test would see a level that is not corrected for the looks: Clopper-Pearson at every look.
    assert certification_law(rho, rho, confidence=confidence, max_pairs=3000).replicable > (1 - confidence) / 3


def test_no_disagreement_is_settled_after_a_number_known_beforehand():
    law = certification_law(0.0, 0.1)
    low, high = boundaries(0.1, 0.95, 40)
    n = int(np.argmax(low >= 0)) + 1
    assert law.mean_pairs == n and law.replicable == 1.0 and law.running[n] == 0.0
    assert log_evidence(0, n, 0.1)[0] >= LEVEL > log_evidence(0, n - 1, 0.1)[0]
    assert (np.diff(low) >= 0).all() and (np.diff(low) <= 1).all() and (np.diff(high) <= 1).all()


def test_boundaries_are_what_the_evidence_says_at_every_count():
    low, high = boundaries(0.2, 0.9, 60)
    for n in range(1, 61):
        below, above = log_evidence(np.arange(n + 1), n, 0.2)
        wins = [np.flatnonzero(e >= np.log(10)) for e in (below, above)]
        assert low[n - 1] == (wins[0].max() if wins[0].size else -1)
        assert high[n - 1] == (wins[1].min() if wins[1].size else n + 1)


# The fewest pairs that any test needs.


def test_the_least_number_of_pairs_has_known_values():
    """kl(0.95, 0.05) = 0.9 log 19; a truth of 0 differs from rho by -log(1 - rho)."""
    assert least_pairs(0, 0.1) == pytest.approx(0.9 * np.log(19) / -np.log(0.9)) == pytest.approx(25.1517, abs=1e-4)
    assert least_pairs(0.3, 0.2) == pytest.approx(least_pairs(0.7, 0.8))
    assert least_pairs(0.3, 0.2) > least_pairs(0.3, 0.2, confidence=0.9)
    assert least_pairs(0.1, 0.1) == np.inf and least_pairs(0.05, 0.1, confidence=0.5) == 0


def test_a_test_that_may_err_on_both_sides_beats_the_limit_of_those_that_may_not():
    """A 5% coin claims "not replicable" at once; else 28 pairs, all equal, claim "replicable".

    Exact: at p <= rho only the coin claims falsely, at p > rho only 28 equal pairs do. At p = 0 the truth
    is told with probability 0.95 after 26.6 pairs in the mean, below log(20) / kl(0, rho) = 28.4.
    """
    coin, rho, level = 0.05, 0.1, 0.05
    n = int(np.ceil(np.log(level / (1 - coin)) / np.log1p(-rho)))
    for p in (0, 0.05, 0.1, 0.1001, 0.3):
        false = coin if p <= rho else (1 - coin) * (1 - p) ** n
        assert false <= level + 1e-15
    mean = (1 - coin) * n
    power_one = np.log(1 / level) / -np.log1p(-rho)
    assert (n, round(power_one, 1)) == (28, 28.4)
    assert least_pairs(0, rho) < mean < power_one


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("true_rho", [0.0, 0.03, 0.2, 0.4])
def test_the_certificate_needs_more_than_the_least_number_and_not_much_more(true_rho, confidence):
    law = certification_law(true_rho, 0.1, confidence=confidence, max_pairs=3000)
    limit = least_pairs(true_rho, 0.1, confidence=confidence)
    assert law.undecided < 1e-3 and limit < law.mean_pairs < 5 * limit


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.1, 0.1), "true_rho must lie in"),
        ((np.nan, 0.1), "true_rho"),
        ((0.1, 0.0), "rho must"),
        ((0.1, 1.0), "rho must"),
    ],
)
def test_the_least_number_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        least_pairs(*arguments)
    with pytest.raises(ValueError, match="confidence must lie"):
        least_pairs(0.1, 0.2, confidence=1.0)


# The measurement.


def test_verdicts_come_as_often_as_the_law_says(acceptance):
    """400 measurements; alarm 1e-6 a verdict."""
    settings = {"rho": 0.3, "confidence": 0.8, "max_pairs": 25}
    law = certification_law(0.18, 0.3, confidence=0.8, max_pairs=25)
    found = [certify_replicability(coin, **settings, seed=seed) for seed in range(400)]
    for verdict, chance in (
        ("replicable", law.replicable),
        ("not replicable", law.not_replicable),
        ("undecided", law.undecided),
    ):
        low, high = acceptance(400, chance)
        assert low <= sum(c.verdict == verdict for c in found) <= high
    assert abs(np.mean([c.n_pairs for c in found]) - law.mean_pairs) < 5 * 10 / 20  # sd below 10
    for c in found:
        assert (c.verdict == "replicable") == (c.upper <= c.rho)
        assert (c.verdict == "not replicable") == (c.lower >= c.rho)
        assert (c.verdict == "undecided") <= (c.n_pairs == 25)


@pytest.mark.parametrize("rho", [0.05, 0.6])
def test_its_pairs_are_those_of_the_estimate_and_workers_change_nothing(rho):
    alone = certify_replicability(coin, rho=rho, seed=3, max_pairs=500)
    estimate = estimate_replicability(coin, n_pairs=alone.n_pairs, seed=3)
    assert alone.n_disagree == estimate.n_disagree
    assert alone.verdict == ("not replicable" if rho < 0.18 else "replicable")
    assert certify_replicability(coin, rho=rho, seed=3, max_pairs=500, n_jobs=2) == alone


def crashing_late(shared_seed, rng):
    """All agree; pair 40 of seed 0 crashes."""
    rng.random()
    if shared_seed == pair_seeds(0, 40)[0]:
        raise ArithmeticError("late")
    return 1


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_crash_that_comes_after_the_claim_is_none(n_jobs, tmp_path):
    """36 pairs that agree settle rho = 0.1, whatever workers have begun beyond; a crash keeps those before it."""
    found = certify_replicability(crashing_late, rho=0.1, seed=0, n_jobs=n_jobs)
    assert (found.verdict, found.n_pairs) == ("replicable", 36)
    with pytest.raises(ArithmeticError, match="late"):
        certify_replicability(crashing_late, rho=0.01, seed=0, n_jobs=n_jobs, store=tmp_path)
    units = [record["unit"] for record in RunStore(tmp_path).records()]
    assert set(range(40)) <= {unit["pair"] for unit in units if "crash" not in unit}
    assert [unit["pair"] for unit in units if "crash" in unit] == [40]


def test_an_error_in_a_worker_says_where_it_was_raised():
    for n_jobs in (1, 2):
        with pytest.raises(ArithmeticError) as failed:
            certify_replicability(crashing_late, rho=0.01, seed=0, n_jobs=n_jobs)
        told = [note for note in failed.value.__notes__ if note.startswith("in a worker:\n")]
        assert len(told) == n_jobs - 1 and all("in crashing_late\n" in note for note in told)


def test_it_stops_at_max_pairs_and_says_that_it_knows_nothing():
    certificate = certify_replicability(coin, rho=0.18, seed=0, max_pairs=7)
    assert certificate.verdict == "undecided" and certificate.n_pairs == 7
    assert certificate.lower < 0.18 < certificate.upper
    printed = "verdict n_pairs n_disagree rho confidence lower upper".split()
    values = ", ".join(f"{name}={getattr(certificate, name)!r}" for name in printed)
    assert repr(certificate) == f"Certificate({values})"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: certify_replicability(coin, rho=0, seed=0), "rho must lie strictly between 0 and 1, got 0"),
        (lambda: certify_replicability(coin, rho=0.1, seed=-1), "seed must be a non-negative integer, got -1"),
        (lambda: certify_replicability(coin, rho=0.1, seed=0, confidence=1), "confidence must lie strictly"),
        (lambda: certify_replicability(coin, rho=0.1, seed=0, max_pairs=0), "max_pairs must be a positive integer"),
        (lambda: certification_law(1.1, 0.1), "true_rho must lie in"),
        (lambda: certification_law(0.1, 1.0), "rho must lie strictly"),
        (lambda: certification_law(0.1, 0.1, max_pairs=2.5), "max_pairs must be a positive integer, got 2.5"),
        (lambda: anytime_limits(3, 2), "need 0 <= n_disagree <= n_pairs, got 3 and 2"),
        (lambda: anytime_limits(0, 0), "n_pairs must be a positive integer, got 0"),
        (lambda: anytime_limits(0, 1, 0), "confidence must lie strictly"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_function_of_another_signature_is_an_error_at_once_and_no_crash():
    for run in (lambda rng: 0, lambda shared_seed, rng, more: 0, lambda *, shared_seed, rng: 0):
        with pytest.raises(TypeError, match=r"run must be a function of \(shared_seed, rng\), got one of \("):
            certify_replicability(run, rho=0.1, seed=0, crash="differ")
    assert certify_replicability(lambda *given: int(given[1].random() < 2), rho=0.5, seed=0).verdict == "replicable"
