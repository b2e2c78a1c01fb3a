"""Choosing the bin width of any algorithm: the smallest of a list that pairs of runs certify."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ._checks import as_float64, check_integer, check_measurement, check_probability
from ._progress import teller
from .certify import Certificate, certify_replicability
from .evidence import settling_pairs
from .pairs import ReplicabilityWarning, measured
from .replicability import measurement_records

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = ["ChosenBinWidth", "choose_bin_width"]

#: A width is worth testing if at most this share of rho times its explored pairs disagree: others take too long.
PROMISING = 0.25


@dataclass(frozen=True)
class ChosenBinWidth:
    """Result of :func:`choose_bin_width`.

    Attributes
    ----------
    bin_width : float
        The width to use; NaN where none of the list was certified.
    certificate : Certificate
        Of that width, valid in spite of the choice at the confidence asked for; else of the last that was tested.
    explored : tuple of (float, int, int)
        Width, pairs and disagreements of every look, in order. They chose where to begin, and prove nothing.
    tested : tuple of (float, Certificate)
        Every width that was tested, in order, and its certificate at its own share of the error.
    n_runs : int
        Runs of the algorithm in all.
    """

    bin_width: float
    certificate: Certificate
    explored: tuple[tuple[float, int, int], ...] = field(repr=False)
    tested: tuple[tuple[float, Certificate], ...] = field(repr=False)
    n_runs: int


def choose_bin_width(
    run: Callable[..., Any],
    bin_widths: ArrayLike,
    *,
    rho: float,
    confidence: float = 0.95,
    n_explore: int | None = None,
    max_pairs: int | None = None,
    seed: int,
    n_jobs: int = 1,
    progress: bool = False,
    store: Any = None,
) -> ChosenBinWidth:
    """Find the smallest bin width of a list at which an algorithm is rho-replicable, by few runs.

    A bisection looks at some of the widths, with `n_explore` pairs each and fewer where they disagree. Where it ends,
    :func:`rrl.certify_replicability` tests the width on new pairs, then the next larger one, until one is certified.
    The first test may err with half of 1 - confidence, the next with a quarter, and so on. So whatever the
    algorithm, also where rho does not fall as the width grows, a width that is not rho-replicable on this
    distribution is returned with probability at most 1 - confidence. That no smaller width of the list would do is
    no such claim: it rests on the looks, and on a limit of `max_pairs`.

    :func:`rrl.pilot_bin_width` needs a single sample, for algorithms that round an estimate from rows once.

    Parameters
    ----------
    run : callable
        ``run(shared_seed, rng, bin_width)`` draws data from `rng`, runs the algorithm and returns its integer codes,
        as in :func:`rrl.estimate_replicability`.
    bin_widths : array_like of float, shape (n_widths,)
        Positive, each larger than the one before, such as ``0.01 * 2.0 ** np.arange(8)``.
    rho : float
        Probability of a disagreement to allow, in (0, 1).
    confidence : float, default=0.95
        One minus the probability of a false claim.
    n_explore : int, optional
        Pairs of a look; by default 2 / rho, rounded up.
    max_pairs : int, optional
        Pairs of a test, after which the next larger width is tried; by default 200, or twice what the last test needs
        if no pair differs, where that is more.
    seed : int
        Of all pairs. Those of a test are the pairs of ``certify_replicability`` with this seed.
    n_jobs : int, default=1
        Worker processes (joblib). The result does not depend on it, but for `n_runs`: they may run a few too many.
    progress : bool, default=False
        Say on standard error how it stands.
    store : path or RunStore, optional
        Where every pair is put on record; the same call goes on from there.

    Returns
    -------
    ChosenBinWidth

    Raises
    ------
    ValueError
        If an argument is out of its range.
    TypeError
        If a run returns anything but integer codes.

    Warns
    -----
    ReplicabilityWarning
        If no width of the list was certified, or no run draws from its generator.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import choose_bin_width, hypergrid_round
    >>> def mean_of_coins(shared_seed, rng, bin_width):
    ...     return hypergrid_round(rng.binomial(10**4, 0.3) / 10**4, bin_width, shared_seed=shared_seed).codes
    >>> chosen = choose_bin_width(mean_of_coins, 0.01 * 2.0 ** np.arange(8), rho=0.1, seed=0)
    >>> chosen.bin_width, chosen.certificate.verdict
    (0.16, 'replicable')
    """
    check_probability(rho=rho)
    n_explore = int(np.ceil(2 / rho)) if n_explore is None else n_explore
    check_measurement(confidence, seed)
    check_integer(1, n_explore=n_explore)
    if not callable(run):
        raise TypeError(f"run must be a function of (shared_seed, rng, bin_width), got {run!r}")
    widths = as_float64("bin_widths", bin_widths)
    if (
        widths.ndim != 1
        or not widths.size
        or not (np.isfinite(widths).all() and (np.diff(widths, prepend=0) > 0).all())
    ):
        raise ValueError(f"bin_widths must be positive and finite, each larger than the one before, got {bin_widths!r}")
    widths = widths.tolist()
    least, most = (settling_pairs(rho, 1 - (1 - confidence) / 2**number) for number in (1, len(widths)))
    max_pairs = max(200, 2 * most) if max_pairs is None else max_pairs
    check_integer(1, max_pairs=max_pairs)
    if max_pairs < least:
        raise ValueError(
            f"max_pairs must be at least {least}, which settle rho={rho!r} if none differs, got {max_pairs}"
        )
    shared = {"n_jobs": n_jobs, "store": store}

    explored, low, high = [], 0, len(widths) - 1
    # Other pairs than those of the tests, which would be biased by the choice.
    own = int(np.random.SeedSequence(int(seed), spawn_key=(0, 0, 0)).generate_state(1, np.uint64)[0] >> np.uint64(1))
    with teller(progress) as tell:
        while low < high:
            middle = (low + high) // 2
            look = _look(run, widths[middle], rho, n_explore, own, **shared)
            explored.append(look)
            tell("bin width {:g}: {} pairs, {} differ".format, *look)
            low, high = (low, middle) if _promising(look, rho) else (middle + 1, high)
    tested: list[tuple[float, Certificate]] = []
    for number, width in enumerate(widths[low:], start=1):
        level = 1 - (1 - confidence) / 2**number
        found = certify_replicability(
            functools.partial(run, bin_width=width),
            rho=rho,
            confidence=level,
            max_pairs=max_pairs,
            seed=seed,
            progress=progress,
            **shared,
        )
        tested.append((width, found))
        if found.verdict == "replicable" or found.interrupted:
            break
    width, last = tested[-1]
    if last.verdict != "replicable":
        width = float("nan")
        warnings.warn(
            f"no bin width up to {tested[-1][0]:g} was certified for rho={rho!r}: the last pairs, {last.n_disagree} of "
            f"{last.n_pairs} of which differ, say {last.verdict!r}",
            ReplicabilityWarning,
            stacklevel=2,
        )
    n_pairs = sum(look[1] for look in explored) + sum(one.n_pairs for _, one in tested)
    return ChosenBinWidth(
        width, replace(last, confidence=float(confidence)), tuple(explored), tuple(tested), 2 * n_pairs
    )


def _promising(look, rho):
    return look[2] <= PROMISING * rho * look[1]


def _look(run, width, rho, n_pairs, seed, n_jobs, store):
    """Width, pairs and disagreements, until all pairs are done or too many disagree."""
    run = functools.partial(run, bin_width=width)
    pairs = measured(run, seed, n_pairs, n_jobs=n_jobs, records=measurement_records(store, run, seed))
    done = n_disagree = 0
    for pair in pairs:
        done, n_disagree = done + 1, n_disagree + pair.differs
        if n_disagree > PROMISING * rho * n_pairs:
            break
    pairs.close()
    return width, done, n_disagree
