"""95% intervals over runs, for few runs and for shares that end at 0 and 1.

A mean return has Student's t, which is exact for normal scores. An agreement is a mean over *pairs* of runs: its error
comes from leaving out one run after the other (the jackknife), on the scale of the arcsine of the root, where a share
near 0 or 1 has the same error as one in the middle, and with Student's t for the number of runs. Turned back it cannot
leave [0, 1]. Two runs are one pair, which says nothing of its error: its interval is everything. Where runs are of one
kind (they agree on more than nine tenths of the states, or leaving out one changes nothing), the interval leaves room
for runs of another kind that so few draws would miss. Differences and ratios combine two intervals by their distances
from the estimates (Newcombe's method, also called MOVER).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rrl.pqn.decomposition import Reasons

__all__ = [
    "change_interval",
    "difference_interval",
    "jackknife_interval",
    "mean_interval",
    "ratio_interval",
    "t_factor",
]


#: Runs that agree on more than this share of the states are of one kind.
ONE_KIND = 0.9


def t_factor(n: int) -> float:
    """Standard errors on either side of a mean of `n` runs that hold 95% of Student's t with n - 1 degrees.

    Examples
    --------
    >>> from rrl.experiments.games.intervals import t_factor
    >>> [round(t_factor(n), 1) for n in (2, 3, 15)]
    [12.7, 4.3, 2.1]
    """
    return float(stats.t.ppf(0.975, n - 1))


def mean_interval(values: Sequence[float] | np.ndarray, least: float = 0.0) -> tuple[float, float]:
    """Of a mean of numbers that are at least `least`, such as scores; one number says nothing.

    Examples
    --------
    >>> from rrl.experiments.games.intervals import mean_interval
    >>> [round(end, 2) for end in mean_interval([4.0, 5.0, 6.0])]
    [2.52, 7.48]
    >>> mean_interval([4.0])
    (0.0, inf)
    """
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return least, float("inf")
    error = t_factor(len(values)) * values.std(ddof=1) / np.sqrt(len(values))
    return float(max(least, values.mean() - error)), float(values.mean() + error)


def jackknife_interval(
    whole: float, without: Sequence[float], share: bool = True, agreement: float | None = None
) -> tuple[float, float]:
    """Of a statistic of pairs of runs.

    Parameters
    ----------
    whole : float
        The statistic of all runs.
    without : sequence of float
        The statistic of all runs but one, one after the other; two runs have none.
    share : bool
        Whether it lies in [0, 1], where the arcsine is taken; otherwise it lies in [-1, 1].
    agreement : float, optional
        Of the runs, which says whether they are of one kind; by default a share is taken for it.

    Returns
    -------
    (float, float)

    Examples
    --------
    >>> from rrl.experiments.games.intervals import jackknife_interval
    >>> [round(end, 2) for end in jackknife_interval(0.8, [0.77, 0.8, 0.83])]
    [0.63, 0.93]
    >>> jackknife_interval(0.9, [])
    (0.0, 1.0)
    >>> [round(end, 2) for end in jackknife_interval(0.99, [0.99, 0.99, 0.99, 0.99, 0.99])]
    [0.23, 1.0]
    """
    least, n = 0.0 if share else -1.0, len(without)
    if n < 3:
        return least, 1.0
    parts = np.asarray(without, dtype=float)
    if share:
        parts = np.arcsin(np.sqrt(np.clip(parts, 0, 1)))
    error = t_factor(n) * np.sqrt((n - 1) / n * ((parts - parts.mean()) ** 2).sum())
    if share:
        middle = np.arcsin(np.sqrt(np.clip(whole, 0, 1)))
        ends = np.sin(np.clip([middle - error, middle + error], 0, np.pi / 2)) ** 2
    else:
        ends = np.clip([whole - error, whole + error], -1, 1)
    low, high = ends.tolist()
    if agreement is None and share:
        agreement = 1.0 if np.ptp(parts) < 1e-12 else whole
    if agreement is not None and agreement > ONE_KIND:
        alike = 0.025 ** (2 / n)  # both of a pair are of the kind that n draws showed alone
        low, high = min(low, alike * whole + (1 - alike) * least), max(high, alike * whole + 1 - alike)
    return float(low), float(high)


def difference_interval(
    one: float, ends: tuple[float, float], other: float, other_ends: tuple[float, float]
) -> tuple[float, float]:
    """Of the difference of two independent estimates, from an interval of each.

    Examples
    --------
    >>> from rrl.experiments.games.intervals import difference_interval
    >>> [round(end, 3) for end in difference_interval(0.9, (0.6, 1.0), 0.2, (0.1, 0.4))]
    [0.339, 0.841]
    """
    found = one - other
    low = found - np.hypot(one - ends[0], other_ends[1] - other)
    high = found + np.hypot(ends[1] - one, other - other_ends[0])
    return float(low), float(high)


def ratio_interval(
    one: float, ends: tuple[float, float], other: float, other_ends: tuple[float, float]
) -> tuple[float, float]:
    """Of the ratio of two independent estimates that are at least 0, from an interval of each.

    It holds each r for which the interval of ``one - r * other`` by `difference_interval` holds 0.

    Examples
    --------
    >>> from rrl.experiments.games.intervals import ratio_interval
    >>> [round(end, 3) for end in ratio_interval(30.0, (27.0, 33.0), 20.0, (19.0, 21.0))]
    [1.336, 1.672]
    >>> ratio_interval(1.0, (0.0, 2.0), 1.0, (0.0, 2.5))
    (0.0, inf)
    """
    product, least = one * other, other_ends[0] * (2 * other - other_ends[0])
    low, high = ends[0] * (2 * one - ends[0]), ends[1] * (2 * one - ends[1])
    below = (
        low / (product + np.sqrt(product**2 - low * other_ends[1] * (2 * other - other_ends[1]))) if low > 0 else 0.0
    )
    above = (product + np.sqrt(product**2 - high * least)) / least if least > 0 else np.inf
    return float(below), float(above)


def change_interval(measure: Callable[[Reasons], float], why: Reasons) -> tuple[float, float]:
    """Jackknife of a signed part of an agreement, such as ``state``.

    Parameters
    ----------
    measure : callable
        ``measure(reasons)`` gives the part.
    why : rrl.pqn.decomposition.Reasons

    Returns
    -------
    (float, float)
    """
    runs = range(len(why.chosen)) if len(why.chosen) > 2 else ()
    parts = [measure(why.without(run)) for run in runs]
    return jackknife_interval(measure(why), parts, share=False, agreement=why.agreement())
