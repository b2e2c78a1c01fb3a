"""Choosing the bin width from a pilot sample, such that laboratories with pilots of their own agree on it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from ._checks import as_float64, check_finite, check_integer, check_key, check_probability, check_rng, check_seed, real
from .mdp.counts import as_counts
from .randomness import shared_uniform
from .theory.rounding import disagreement_probability

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = ["PilotBinWidth", "PilotWarning", "pilot_bin_width"]

#: Every resample meets this many others as a pair: nearly all that pairs of all with all would tell.
NEIGHBOURS = 8

#: Parts of the pilot whose own answers show how much another pilot's answer would differ.
PARTS = 8


#: What the search for a width and the sum of the two predictions may be off by, relative to rho.
TOLERANCE = 1e-5


class PilotWarning(UserWarning):
    """The pilot predicts more disagreement than was asked for, and no width can mend it."""


@dataclass(frozen=True)
class PilotBinWidth:
    """Result of :func:`pilot_bin_width`.

    Attributes
    ----------
    bin_width : float
        The width to use.
    smallest : float
        The smallest width whose predicted disagreement is at most its share of rho; `bin_width` is
        this one, or the next of the shared list above it.
    predicted : float
        Predicted probability that two runs with `bin_width` have different codes.
    width_risk : float
        Predicted probability that another laboratory's pilot leads to another width; 0 for a pilot
        that is shared, 1 for one too small to tell. The two together predict the whole disagreement.
    reached : bool
        Whether that sum is at most the rho asked for; a :class:`PilotWarning` tells where it is not.
    """

    bin_width: float
    smallest: float
    predicted: float
    width_risk: float
    reached: bool


def _smallest_width(estimate, counts, n_samples, target, n_resamples, rng):
    """The width at which pairs of resamples disagree with probability `target`, and their differences."""
    shares = counts / counts.sum()
    answers = [as_float64("estimate(counts)", estimate(rng.multinomial(n_samples, shares))) for _ in range(n_resamples)]
    answers = np.array(answers).reshape(n_resamples, -1)
    check_finite("estimate(counts)", answers)
    shifts = range(1, min(NEIGHBOURS, (n_resamples - 1) // 2) + 1)
    gaps = np.abs(np.concatenate([answers - np.roll(answers, shift, axis=0) for shift in shifts]))
    mean = gaps.sum(axis=1).mean()
    if mean == 0:
        return 0.0, gaps
    # The law lies below mean / width, by the union bound, and grows as the width shrinks.
    high, low = 1.001 * mean / target, mean / target / 2
    while disagreement_probability(gaps, low).mean() <= target:
        low /= 2
    width: Any = brentq(lambda w: disagreement_probability(gaps, w).mean() - target, low, high, rtol=np.float64(1e-6))
    return width, gaps


def pilot_bin_width(
    estimate: Callable[..., Any],
    counts: ArrayLike,
    *,
    rho: float,
    rng: np.random.Generator,
    n_samples: int | None = None,
    shared_seed: int | None = None,
    key: tuple = (),
    ratio: float = 2.0,
    n_resamples: int = 400,
) -> PilotBinWidth:
    """Choose the smallest bin width at which a pilot sample predicts disagreement of at most rho.

    Pairs of samples are imitated by drawing from the pilot with replacement (bootstrap), and the exact
    law of Algorithm 1 is averaged over them. There are two ways to share the answer.

    Without `shared_seed`: one pilot for all. Run this once and publish the width; were each laboratory
    to choose from its own data, the widths would differ almost surely, and so would the codes.

    With `shared_seed`: each laboratory has a pilot of its own, which may be its whole sample. The
    width is then rounded up to the shared list ``ratio ** (k + u)``, k any integer and u drawn from the
    shared seed, on which laboratories differ with probability
    min(1, abs(log(width_1 / width_2)) / log(ratio)). Half of rho determines the width. The other half
    is left for laboratories that differ on the list, but no width can enforce it: it takes rows enough,
    resamples enough, or a larger ratio. The function estimates that risk, and where the two parts
    together exceed rho it says so with a :class:`PilotWarning` and in the field `reached`.

    Neither is a guarantee of Definition 2.2, which speaks of every distribution: the prediction is as
    good as the pilot is like the data. Check it with :func:`rrl.certify_replicability`.

    Parameters
    ----------
    estimate : callable
        ``estimate(counts)`` returns the unrounded estimate from a sample that holds row i of the pilot
        ``counts[i]`` times; any shape, always the same.
    counts : int or array_like of int, shape (n_rows,)
        Number of rows of the pilot, or how often each of its distinct rows occurred.
    rho : float
        Disagreement to allow, in (0, 1).
    rng : numpy.random.Generator
        For the resamples; not shared.
    n_samples : int, optional
        Size of the samples that will be rounded; by default the pilot's.
    shared_seed : int, optional
        The paper's r, for pilots that are not shared.
    key : tuple, default=()
        Name of this call in the shared randomness.
    ratio : float, default=2
        Of neighbours in the shared list, > 1. A larger one makes widths agree more often and costs
        accuracy: the width grows by (ratio - 1) / log(ratio) on average, 1.44 for 2. It must be shared.
    n_resamples : int, default=400
        Calls of `estimate`, at least 8; twice as many with `shared_seed`.

    Returns
    -------
    PilotBinWidth

    Raises
    ------
    ValueError
        If an argument is out of its range, the estimate is not finite, or it does not vary.

    Warns
    -----
    PilotWarning
        If the predicted disagreement, `predicted` + `width_risk`, is more than rho.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import pilot_bin_width
    >>> heads = np.array([0, 1])  # a pilot of 2,000 tosses, 613 of them heads
    >>> pilot = pilot_bin_width(
    ...     lambda counts: counts @ heads / counts.sum(),
    ...     [1387, 613],
    ...     rho=0.1,
    ...     rng=np.random.default_rng(0),
    ...     n_samples=10_000,
    ... )
    >>> round(pilot.bin_width, 2)  # normal theory: 2 sqrt(0.3 * 0.7 / (pi * 10_000)) / 0.1 = 0.052
    0.05
    >>> pilot.reached
    True
    """
    check_probability(rho=rho)
    if rho < 1e-300:
        raise ValueError(f"rho must be at least 1e-300, got {rho!r}")
    check_rng(rng)
    if not callable(estimate):
        raise TypeError(f"estimate must be a function of counts, got {estimate!r}")
    if not 1 < real(ratio) < np.inf:
        raise ValueError(f"ratio must be finite and above 1, got {ratio!r}")
    check_integer(8, n_resamples=n_resamples)
    ratio = float(ratio)
    if isinstance(counts, Integral | np.integer) and 1 <= counts < 2**63:
        counts = np.ones(int(counts), dtype=np.int64)
    counts = np.asarray(as_counts("counts", counts))
    if counts.ndim != 1 or counts.dtype.kind == "f" or counts.sum() < 2:
        raise ValueError(f"counts must be a number of rows or one count a row, two rows at least, got {counts!r}")
    n_samples = int(counts.sum()) if n_samples is None else n_samples
    check_integer(1, n_samples=n_samples)
    if shared_seed is not None:
        check_seed(shared_seed)
        check_key(key)
    elif key != () or ratio != 2:
        raise ValueError(f"ratio and key are for a shared list of widths: give shared_seed, got {ratio!r} and {key!r}")

    target = rho if shared_seed is None else rho / 2
    smallest, gaps = _smallest_width(estimate, counts, n_samples, target, n_resamples, rng)
    if smallest == 0:
        raise ValueError("the estimate is the same for every resample of the pilot: any bin width would do")
    width, risk = smallest, 0.0
    if shared_seed is not None:
        shift = float(shared_uniform(shared_seed, ("pilot", key), 1)[0])
        width = float(ratio ** (np.ceil(np.log(smallest) / np.log(ratio) - shift) + shift))
        parts = rng.multinomial(counts.astype(np.int64), np.full(PARTS, 1 / PARTS)).T
        # A part has an eighth of the rows and of the resamples, so the mean of eight varies as the whole does.
        few = max(8, n_resamples // PARTS)
        ways = [part.any() and _smallest_width(estimate, part, n_samples, target, few, rng)[0] for part in parts]
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.std(np.log(ways), ddof=1) / np.sqrt(PARTS)
        # Two normal answers differ by 2 error / sqrt(pi) in the mean; a part without any spread tells nothing.
        risk = float(min(1.0, 2 * error / np.sqrt(np.pi) / np.log(ratio))) if np.isfinite(error) else 1.0
    predicted = float(disagreement_probability(gaps, width).mean())
    reached = predicted + risk <= rho * (1 + TOLERANCE)
    if not reached:
        warnings.warn(
            f"the pilot predicts a disagreement of {predicted:.3g} (predicted) + {risk:.3g} (width_risk), "
            f"more than rho={rho!r}: share one pilot, or take more rows, more resamples or a larger ratio",
            PilotWarning,
            stacklevel=2,
        )
    return PilotBinWidth(width, float(smallest), predicted, risk, reached)
