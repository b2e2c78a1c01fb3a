"""The law of a certificate: how likely is each verdict, after how many pairs, and how few any test could need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import rel_entr

from ._checks import check_fraction, check_measurement, check_probability
from .evidence import log_evidence

if TYPE_CHECKING:
    from typing import Any

__all__ = ["CertificationLaw", "certification_law", "least_pairs"]


def boundaries(rho: Any, confidence: Any, max_pairs: Any) -> tuple:
    """Counts at which :func:`rrl.certify_replicability` stops, for 1, 2, ..., max_pairs pairs.

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
    """Exact distribution of what :func:`rrl.certify_replicability` says and how many pairs it needs.

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
