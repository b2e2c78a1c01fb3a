"""Certifying an algorithm: a test of Definition 2.2 that may stop at any time, by the bets of :mod:`rrl.evidence`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import rel_entr

from ._checks import check_fraction, check_measurement, check_probability
from ._progress import teller
from .evidence import anytime_limits, log_evidence
from .pairs import Pair, ReplicabilityWarning, RunFailed, is_constant, measured, notes_of
from .replicability import measurement_records, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Any

__all__ = [
    "Certificate",
    "CertificationLaw",
    "certification_law",
    "certify_replicability",
    "least_pairs",
]


@dataclass(frozen=True)
class Certificate:
    """Result of :func:`certify_replicability`.

    Attributes
    ----------
    verdict : {"replicable", "not replicable", "undecided"}
        The claim that holds at `confidence`: the probability of a disagreement is at most, or more
        than, `rho`; or neither after the largest number of pairs.
    n_pairs, n_disagree : int
        Pairs that were run, and those whose codes differ.
    rho, confidence : float
        As asked for.
    lower, upper : float
        :func:`rrl.anytime_limits` of the probability, valid in spite of the stopping.
    seed : int
        Of the measurement; :func:`rrl.pair_seeds` makes those of a pair of it.
    pairs : tuple of Pair
        The evidence: each pair's shared seed, and the first entries that differ.
    notes : tuple of str
        What makes the measurement doubtful: runs that never draw from their generator, outputs that
        are all the same whatever the shared seed.
    interrupted : bool
        Whether Ctrl-C ended the measurement.
    """

    verdict: str
    n_pairs: int
    n_disagree: int
    rho: float
    confidence: float
    lower: float
    upper: float
    seed: int = field(repr=False)
    pairs: tuple[Pair, ...] = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)
    interrupted: bool = field(repr=False)

    def statement(self, subject: str, *, compared: str = "integer codes", **details) -> Any:
        """What one prints and publishes of this measurement.

        Parameters
        ----------
        subject : str
            What was run: a name, or a command.
        compared : str, default="integer codes"
            What the runs published and was compared.
        **details : str, dict or list
            More to state, such as ``data="FrozenLake-v1"``.

        Returns
        -------
        ReplicabilityStatement
        """
        from .statement import ReplicabilityStatement

        return ReplicabilityStatement.of(self, subject, compared, details)


def settle(
    pairs: Any,
    *,
    rho: float,
    confidence: float,
    seed: int,
    tell: Callable[..., Any] | None = None,
    known: Container[int] = (),
    needs_change: bool = False,
) -> Certificate:
    """Take pairs in order until the claim is settled or they end; see :func:`certify_replicability`.

    Parameters
    ----------
    pairs : generator of Pair
    rho, confidence : float
    seed : int
    tell : callable, optional
        As of `teller`: what is said after a pair.
    known : container of int
        Pairs from a record, after which nothing is said: how many these are was said, or they come at once.
    needs_change : bool
        Claim "replicable" only if some outputs differ: it is all that is known of a program's use of its seeds.

    Returns
    -------
    Certificate
    """
    level = -np.log1p(-confidence)
    seen, n_disagree, verdict, interrupted = [], 0, "undecided", False
    try:
        for pair in pairs:
            seen.append(pair)
            n_disagree += pair.differs
            if tell is not None and pair.index not in known:
                tell(_standing, n_disagree, len(seen), rho, confidence)
            below, above = log_evidence(n_disagree, len(seen), rho)
            if max(below, above) >= level:
                verdict = "replicable" if below >= level else "not replicable"
                break
    except KeyboardInterrupt:
        if not seen:
            raise
        interrupted = True
    except RunFailed as error:
        error.certificate = _certificate("undecided", seen, rho, confidence, seed, False) if seen else None  # pyright: ignore[reportAttributeAccessIssue]
        raise
    finally:
        pairs.close()
    drew = [pair.drew for pair in seen]
    if verdict == "replicable" and (is_constant(seen) if needs_change else not any(d is None or d for d in drew)):
        verdict = "undecided"
    return _certificate(verdict, seen, rho, confidence, seed, interrupted)


def _certificate(verdict, seen, rho, confidence, seed, interrupted):
    n_disagree = sum(pair.differs for pair in seen)
    limits = anytime_limits(n_disagree, len(seen), confidence)
    found = (verdict, len(seen), n_disagree, float(rho), float(confidence), *limits)
    return Certificate(*found, seed, tuple(seen), notes_of(seen), interrupted)


def _standing(n_disagree, n_pairs, rho, confidence):
    """One line on a measurement that goes on."""
    low, high = anytime_limits(n_disagree, n_pairs, confidence)
    more, level = 0, -np.log1p(-confidence)
    while more < 1000 and max(log_evidence(n_disagree, n_pairs + more, rho)) < level:
        more += 1
    left = "settled" if more == 0 else f"{more} more that agree would settle it" if more < 1000 else "far from settled"
    return f"{n_pairs} pair{'s' * (n_pairs > 1)}, {n_disagree} differ: rho in [{low:.3f}, {high:.3f}]; {left}"


def certify_replicability(
    run: Callable[..., Any],
    *,
    rho: float,
    confidence: float = 0.95,
    max_pairs: int = 10_000,
    seed: int,
    n_jobs: int = 1,
    progress: bool = False,
    store: Any = None,
) -> Certificate:
    """Run pairs until it is settled whether an algorithm is rho-replicable on this distribution.

    Whatever the true probability of a disagreement, and whatever `max_pairs`, the verdict is a false
    claim with probability at most 1 - confidence. How many pairs that takes, for a true probability
    that one has in mind, :func:`certification_law` tells exactly.

    Parameters
    ----------
    run : callable
        ``run(shared_seed, rng)`` as in :func:`rrl.estimate_replicability`. With one seed the pairs
        are the same, and come in the same order, as those of that function.
    rho : float
        The value to settle, in (0, 1).
    confidence : float, default=0.95
        One minus the probability of a false claim.
    max_pairs : int, default=10_000
        Give up after so many. A true probability of exactly `rho` is never settled but by an error.
    seed : int
        Seed of the whole measurement.
    n_jobs : int, default=1
        Worker processes (joblib). They may run a few pairs too many; the certificate does not depend
        on it.
    progress : bool, default=False
        Say on standard error how it stands, and how many more pairs that agree would settle it.
    store : path or RunStore, optional
        Where every pair is put on record, as in :func:`rrl.estimate_replicability`: the same call
        goes on from there, and so does one with another rho, confidence or number of pairs.

    Returns
    -------
    Certificate
        Ctrl-C gives that of the pairs done so far, with a warning: it is as valid as any other.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    TypeError
        If a run returns anything but integer codes; the error says what it returned.

    Warns
    -----
    ReplicabilityWarning
        If no run draws from its generator: then the verdict is never "replicable", since runs on one
        and the same data prove nothing.

    Notes
    -----
    What agrees is what `run` returns. Return all that you would publish: codes may agree where
    predictions made with a scaler of one's own data do not.

    Examples
    --------
    >>> from rrl import certify_replicability, hypergrid_round
    >>> def mean_of_coins(shared_seed, rng):
    ...     return hypergrid_round(rng.binomial(10**6, 0.3) / 10**6, 0.1, shared_seed=shared_seed).codes
    >>> certificate = certify_replicability(mean_of_coins, rho=0.1, seed=0)
    >>> certificate.verdict, certificate.n_pairs
    ('replicable', 64)
    """
    check_probability(rho=rho)
    check_measurement(confidence, seed, max_pairs=max_pairs)
    seed = int(seed)
    known = set()
    records = measurement_records(store, run, seed)
    every = watched(measured(run, seed, int(max_pairs), n_jobs=n_jobs, records=records, known=known), stacklevel=4)
    with teller(progress) as tell:
        found = settle(every, rho=rho, confidence=confidence, seed=seed, tell=tell, known=known)
    if found.interrupted:
        text = f"stopped after {found.n_pairs} pairs: the certificate is of these"
        warnings.warn(text, ReplicabilityWarning, stacklevel=2)
    return found


def boundaries(rho: Any, confidence: Any, max_pairs: Any) -> tuple:
    """Counts at which :func:`certify_replicability` stops, for 1, 2, ..., max_pairs pairs.

    Returns
    -------
    low, high : ndarray of int64, shape (max_pairs,)
        It claims "replicable" from `low` disagreements down and "not replicable" from `high` up; -1,
        and one more than there are pairs, where no count would do.
    """
    level = -np.log1p(-confidence)
    low, high = np.empty((2, max_pairs), dtype=np.int64)
    certain, refuted = -1, 1
    for n in range(1, max_pairs + 1):
        # An agreement adds to one bet, a disagreement to the other: each boundary moves by 0 or 1.
        certain += log_evidence(certain + 1, n, rho)[0] >= level
        refuted += refuted <= n and log_evidence(refuted, n, rho)[1] < level
        low[n - 1], high[n - 1] = certain, refuted
    return low, high


@dataclass(frozen=True, eq=False)
class CertificationLaw:
    """Result of :func:`certification_law`.

    Attributes
    ----------
    replicable, not_replicable, undecided : float
        Probabilities of the three verdicts.
    mean_pairs : float
        Expected number of pairs that are run.
    running : ndarray of float64, shape (max_pairs + 1,)
        Probability that the measurement is still undecided after 0, 1, ..., max_pairs pairs.
    """

    replicable: float
    not_replicable: float
    undecided: float
    mean_pairs: float
    running: np.ndarray


def certification_law(
    true_rho: float, rho: float, *, confidence: float = 0.95, max_pairs: int = 10_000
) -> CertificationLaw:
    """Exact distribution of what :func:`certify_replicability` says and how many pairs it needs.

    Parameters
    ----------
    true_rho : float
        Probability of a disagreement, in [0, 1].
    rho : float
        The value to settle, in (0, 1).
    confidence : float, default=0.95
        One minus the probability of a false claim.
    max_pairs : int, default=10_000
        Where the measurement gives up.

    Returns
    -------
    CertificationLaw

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from rrl import certification_law
    >>> law = certification_law(0.02, 0.1)
    >>> round(law.mean_pairs), law.replicable > 0.99, law.not_replicable < 0.05
    (66, True, True)
    """
    check_probability(rho=rho)
    check_fraction(true_rho=true_rho)
    check_measurement(confidence, 0, max_pairs=max_pairs)
    chance = np.ones(1)  # of every number of disagreements from `first` on, while undecided
    first, claims, running = 0, np.zeros(2), np.ones(max_pairs + 1)
    for n, (low, high) in enumerate(zip(*boundaries(rho, confidence, max_pairs)), start=1):
        step = np.zeros(chance.size + 1)
        step[:-1] = chance * (1 - true_rho)
        step[1:] += chance * true_rho
        cut = max(low + 1 - first, 0), min(high - first, step.size)
        claims += step[: cut[0]].sum(), step[cut[1] :].sum()
        first, chance = first + cut[0], step[cut[0] : cut[1]]
        running[n] = chance.sum()
    replicable, not_replicable = claims.tolist()
    return CertificationLaw(replicable, not_replicable, float(running[-1]), float(running[:-1].sum()), running)


def least_pairs(true_rho: float, rho: float, *, confidence: float = 0.95) -> float:
    """Mean number of pairs below which no test can settle whether an algorithm is rho-replicable.

    For every test, sequential or not, that claims falsely with probability at most delta = 1 -
    confidence whatever the truth, and claims the truth at `true_rho` with probability at least
    `confidence`: its mean number of pairs there is at least kl(1 - delta, delta) / kl(true_rho, rho),
    where kl(p, q) = p log(p/q) + (1 - p) log((1 - p) / (1 - q)) (chapter 14).

    Parameters
    ----------
    true_rho : float
        Probability of a disagreement, in [0, 1].
    rho : float
        The value to settle, in (0, 1).
    confidence : float, default=0.95
        One minus the probability of a false claim.

    Returns
    -------
    float
        Infinite if `true_rho` is `rho`; 0 for a confidence of at most 1/2, which a toss of a coin has.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from rrl import certification_law, least_pairs
    >>> round(least_pairs(0.02, 0.1)), round(certification_law(0.02, 0.1).mean_pairs)
    (52, 66)
    """
    check_probability(rho=rho, confidence=confidence)
    check_fraction(true_rho=true_rho)
    if confidence <= 0.5:
        return 0.0
    if true_rho == rho:
        return float("inf")
    apart = rel_entr(true_rho, rho) + rel_entr(1 - true_rho, 1 - rho)
    return float((2 * confidence - 1) * np.log(confidence / (1 - confidence)) / apart)
