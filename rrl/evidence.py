"""The evidence of a certificate, and limits that hold at all times.

The evidence is a bet. Against "rho is at least rho_0" one bets on all smaller values at once, in the
proportions of a Beta(1/2, 1/2) prior cut off at rho_0. If the claim betted against is true, the wealth
is a nonnegative supermartingale that starts at 1, so it ever reaches 1 / (1 - confidence) with
probability at most 1 - confidence (Ville), however often one looks.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, betaln, xlog1py, xlogy

from ._checks import check_integer, check_measurement

__all__ = ["anytime_limits"]

#: Both parameters of the prior of the bets.
PRIOR = 0.5


def log_evidence(n_disagree: float | np.ndarray, n_pairs: float | np.ndarray, rho: float) -> tuple:
    """Log wealth of two bets after so many pairs: on a probability below `rho`, and on one above.

    Parameters
    ----------
    n_disagree, n_pairs : int or ndarray
        Pairs that differ, and all pairs.
    rho : float
        The value betted against, in (0, 1).

    Returns
    -------
    below, above : float or ndarray
        Natural logarithms; 0 before the first pair.
    """
    a, b = PRIOR + n_disagree, PRIOR + n_pairs - n_disagree
    mass = betaln(a, b) - betaln(PRIOR, PRIOR) - xlogy(n_disagree, rho) - xlog1py(n_pairs - n_disagree, -rho)
    # A part of the posterior too small for a float is no evidence: its logarithm is minus infinity.
    with np.errstate(divide="ignore"):
        below = mass + np.log(betainc(a, b, rho)) - np.log(betainc(PRIOR, PRIOR, rho))
        above = mass + np.log(betaincc(a, b, rho)) - np.log(betaincc(PRIOR, PRIOR, rho))
    return below, above


def settling_pairs(rho: float, confidence: float) -> int:
    """How many pairs settle that an algorithm is rho-replicable, if none of them differs; at most 2^53."""
    level, most = -np.log1p(-confidence), 1
    while log_evidence(0, most, rho)[0] < level and most < 2**53:
        most *= 2
    return bisect_left(range(most), level, key=lambda n: log_evidence(0, n, rho)[0])


def _upper(n_disagree, n_pairs, level):
    """The value from which on the bet on less than it has won."""
    if n_disagree == n_pairs:
        return 1.0
    # No bet has won at the share itself: no value explains the counts better.
    low, high = n_disagree / n_pairs or 1e-300, 1 - 1e-15
    if log_evidence(n_disagree, n_pairs, high)[0] < level:
        return 1.0
    limit: Any = brentq(lambda p: log_evidence(n_disagree, n_pairs, p)[0] - level, low, high, xtol=1e-13)
    return float(limit)


def anytime_limits(n_disagree: int, n_pairs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Confidence limits for a probability that hold at all times together.

    Unlike :func:`rrl.clopper_pearson`, which is valid for a number of pairs fixed beforehand, the
    running limits cover the true value at every n at once, so one may stop whenever one likes.
    The values against which no bet has won are an interval, since the evidence of chapter 14 grows
    with the distance of a value from the share (its lemma on the wealth).

    Parameters
    ----------
    n_disagree, n_pairs : int
        0 <= n_disagree <= n_pairs, n_pairs >= 1.
    confidence : float, default=0.95
        Of each limit alone (one-sided, as ``ReplicabilityEstimate.upper``); both together hold with
        probability at least 2 * confidence - 1.

    Returns
    -------
    (float, float)
        Lower and upper limit.

    Examples
    --------
    >>> from rrl import anytime_limits
    >>> low, high = anytime_limits(0, 60)
    >>> low, round(high, 3)
    (0.0, 0.061)
    """
    check_measurement(confidence, 0, n_pairs=n_pairs)
    check_integer(0, n_disagree=n_disagree)
    if n_disagree > n_pairs:
        raise ValueError(f"need 0 <= n_disagree <= n_pairs, got {n_disagree!r} and {n_pairs!r}")
    level = -np.log1p(-confidence)
    # The prior is symmetric, so a lower limit is an upper one for the pairs that agree.
    return 1 - _upper(n_pairs - n_disagree, n_pairs, level), _upper(n_disagree, n_pairs, level)
