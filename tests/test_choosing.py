"""The chooser of bin widths: what it claims holds, whatever it looked at, and it runs little."""

import functools
import warnings

import numpy as np
import pytest

from rrl import ReplicabilityWarning, certify_replicability, choose_bin_width, hypergrid_round
from rrl.evidence import log_evidence, settling_pairs

WIDTHS = 0.01 * 2.0 ** np.arange(8)


def coins(shared_seed, rng, bin_width):
    return hypergrid_round(rng.binomial(10**4, 0.3) / 10**4, bin_width, shared_seed=shared_seed).codes


def flips(shared_seed, rng, bin_width, rate):
    """Disagrees with probability `rate(bin_width)`, whatever else."""
    p = rate(bin_width)
    return int(rng.random() < (1 - np.sqrt(1 - 2 * p)) / 2)


def flat(bin_width):
    return 0.12


def steep(bin_width):
    return 0.5 if bin_width < 0.1 else 0.0


def bumpy(bin_width):
    """Not falling as the width grows."""
    return 0.45 if 0.05 < bin_width < 0.5 else 0.0


def chosen(run, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        return choose_bin_width(run, *arguments, **options)


def test_a_width_that_is_not_replicable_is_claimed_no_more_often_than_said(acceptance):
    """Every width has rho 0.12 and 0.1 is asked for: at most 20% false claims; false alarm 1e-6."""
    run = functools.partial(flips, rate=flat)
    settings = {"rho": 0.1, "confidence": 0.8, "max_pairs": 60, "n_explore": 5}
    false = sum(
        chosen(run, [1, 2, 3], seed=seed, **settings).certificate.verdict == "replicable" for seed in range(200)
    )
    assert 0 < false <= acceptance(200, 0.2)[1]


def test_a_coin_s_width_is_near_the_smallest_that_the_normal_law_allows():
    """The law, 2 sqrt(0.21 / (pi 10^4)) / width, is 0.065 at 0.08 and 0.008 at 0.64; beyond lies a chance of 1e-4."""
    for seed in range(5):
        found = choose_bin_width(coins, WIDTHS, rho=0.1, seed=seed)
        assert 0.08 <= found.bin_width <= 0.64
        assert found.certificate.verdict == "replicable" and found.certificate.confidence == 0.95
        assert found.certificate.upper <= 0.1


def test_where_the_answer_is_plain_hardly_anything_is_run():
    found = choose_bin_width(functools.partial(flips, rate=steep), WIDTHS, rho=0.1, seed=0)
    assert found.bin_width == 0.16 and len(found.tested) == 1
    assert [width for width, *_ in found.explored] == [0.08, 0.32, 0.16]
    assert found.n_runs == 2 * (sum(n for _, n, _ in found.explored) + found.certificate.n_pairs) < 200


def test_a_law_that_rises_is_no_trap():
    """A bisection alone would end at 0.64 here, or at the wrong side; each answer must be a width that agrees."""
    for seed in range(5):
        found = chosen(functools.partial(flips, rate=bumpy), WIDTHS, rho=0.1, seed=seed)
        assert bumpy(found.bin_width) == 0


def test_a_test_is_the_certificate_of_that_width_at_its_share_of_the_error():
    found = choose_bin_width(coins, WIDTHS[3:], rho=0.1, seed=3)
    for number, (width, certificate) in enumerate(found.tested, start=1):
        alone = certify_replicability(
            functools.partial(coins, bin_width=width), rho=0.1, confidence=1 - 0.05 / 2**number, max_pairs=200, seed=3
        )
        assert alone == certificate
    assert [w for w, _ in found.tested] == WIDTHS[WIDTHS.searchsorted(found.tested[0][0]) :][
        : len(found.tested)
    ].tolist()
    assert found.bin_width == found.tested[-1][0]


def test_no_width_is_not_a_number_and_not_none():
    """None would mean no rounding to every estimator, and NaN is refused by all."""
    with pytest.warns(ReplicabilityWarning, match=r"no bin width up to 0.02 was certified for rho=0.1: the last pairs"):
        found = choose_bin_width(coins, WIDTHS[:2], rho=0.1, seed=0)
    assert np.isnan(found.bin_width) and found.certificate.verdict == "not replicable"
    with pytest.raises(ValueError, match="bin_width must be positive"):
        coins(0, np.random.default_rng(0), found.bin_width)


def test_one_width_is_tested_without_a_look():
    found = choose_bin_width(functools.partial(flips, rate=steep), 1.0 * WIDTHS[-1:], rho=0.1, seed=0)
    assert found.explored == () and found.bin_width == WIDTHS[-1]


def test_runs_without_data_of_their_own_are_never_certified():
    def run(shared_seed, rng, bin_width):
        return 1

    with pytest.warns(ReplicabilityWarning, match="none of the runs drew"):
        found = choose_bin_width(run, [1.0], rho=0.1, seed=0)
    assert np.isnan(found.bin_width)


def test_the_same_in_two_processes_and_from_a_store(tmp_path):
    run = functools.partial(flips, rate=steep)
    once = choose_bin_width(run, WIDTHS[3:], rho=0.3, seed=0, store=tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    again = choose_bin_width(run, WIDTHS[3:], rho=0.3, seed=0, store=tmp_path)
    assert again == once and files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert len(files) == once.n_runs / 2
    parallel = choose_bin_width(run, WIDTHS[3:], rho=0.3, seed=0, n_jobs=2)
    assert parallel.bin_width == once.bin_width and parallel.tested == once.tested


def test_ctrl_c_ends_it_with_what_was_tested():
    calls = []

    def run(shared_seed, rng, bin_width):
        calls.append(rng.random())
        if len(calls) == 50:
            raise KeyboardInterrupt
        return 0

    with pytest.warns(ReplicabilityWarning):
        found = choose_bin_width(run, [1.0, 2.0, 4.0], rho=0.1, seed=0, n_explore=5)
    assert np.isnan(found.bin_width) and found.certificate.interrupted and len(found.tested) == 1


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"run": 3}, TypeError, r"run must be a function of \(shared_seed, rng, bin_width\), got 3"),
        ({"bin_widths": []}, ValueError, "bin_widths must be positive and finite, each larger than the one before"),
        ({"bin_widths": 0.1}, ValueError, "bin_widths must be"),
        ({"bin_widths": [0.0, 1.0]}, ValueError, "bin_widths must be"),
        ({"bin_widths": [1.0, 1.0]}, ValueError, "bin_widths must be"),
        ({"bin_widths": [2.0, 1.0]}, ValueError, "bin_widths must be"),
        ({"bin_widths": [1.0, np.nan]}, ValueError, "bin_widths must be"),
        ({"bin_widths": [1.0, np.inf]}, ValueError, "bin_widths must be"),
        ({"rho": 1.0}, ValueError, "rho must lie"),
        ({"n_explore": 0}, ValueError, "n_explore must be"),
        ({"max_pairs": 0}, ValueError, "max_pairs must be"),
        ({"rho": 0.05, "max_pairs": 60}, ValueError, "max_pairs must be at least .*, which settle rho=0.05 if none"),
        ({"seed": 0.5}, ValueError, "seed must be"),
    ],
)
def test_bad_arguments_are_named_before_anything_runs(change, error, message):
    def run(shared_seed, rng, bin_width):
        raise AssertionError("ran")

    with pytest.raises(error, match=message):
        choose_bin_width(**{"run": run, "bin_widths": [1.0, 2.0], "rho": 0.1, "seed": 0, **change})


@pytest.mark.parametrize("rho", [0.3, 0.02])
def test_by_default_a_width_that_never_differs_is_certified(rho):
    """However small rho is, the last of the widths too."""
    found = choose_bin_width(lambda shared_seed, rng, bin_width: 0 * int(rng.integers(2)), [0.1, 1.0], rho=rho, seed=0)
    assert found.bin_width == 0.1 and found.certificate.verdict == "replicable"
    level = 1 - 0.05 / 2
    needed = settling_pairs(rho, level)
    assert found.certificate.n_pairs == needed
    below = [log_evidence(0, n, rho)[0] < -np.log1p(-level) for n in (needed - 1, needed)]
    assert below == [True, False]
