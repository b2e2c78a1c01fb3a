"""Definition 2.2 as a measurement: paired runs, exact confidence limits, shares of identical outputs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv, ndtr, stdtrit

from ._checks import check_integer, check_measurement, check_probability
from ._progress import teller
from ._published import as_array, as_arrays, digest
from ._resume import Records, identity
from .pairs import NO_DRAW, Pair, ReplicabilityWarning, measured, notes_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = [
    "ReplicabilityEstimate",
    "clopper_pearson",
    "estimate_replicability",
    "fingerprint",
    "modal_share",
    "pairwise_share",
]


def fingerprint(codes: ArrayLike) -> str:
    """SHA-256 of integer codes, the same on every machine.

    Parameters
    ----------
    codes : array_like of int, or a sequence of such arrays
        Grid codes. Floats are refused: they are not what replicability compares.

    Returns
    -------
    str
        64 hexadecimal digits; the shapes count too.

    Examples
    --------
    >>> from rrl.replicability import fingerprint
    >>> fingerprint([1, -2])[:12]
    'b73cde1d8154'
    """
    return digest(as_arrays(codes))


def expanded_tail(n: int, confidence: float) -> float:
    """Share of a bootstrap's means beyond each limit, for limits as wide as Student's t for `n` values.

    Percentiles alone are too narrow by sqrt((n - 1) / n) and by the normal law in place of t.
    """
    return float(ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - confidence) / 2)))


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Exact two-sided confidence interval for a probability.

    Parameters
    ----------
    successes, trials : int
        0 <= successes <= trials, trials >= 1.
    confidence : float, default=0.95
        Coverage, at least this whatever the true probability.

    Returns
    -------
    (float, float)
        Lower and upper limit.

    Examples
    --------
    >>> from rrl.replicability import clopper_pearson
    >>> low, high = clopper_pearson(0, 60)
    >>> low, round(high, 4)
    (0.0, 0.0596)
    """
    check_integer(0, successes=successes)
    check_integer(1, trials=trials)
    if successes > trials:
        raise ValueError(f"need integers 0 <= successes <= trials, trials >= 1, got {successes!r} and {trials!r}")
    check_probability(confidence=confidence)
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, tail))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - tail))
    return low, high


@dataclass(frozen=True)
class ReplicabilityEstimate:
    """Result of :func:`estimate_replicability`.

    Attributes
    ----------
    n_pairs, n_disagree : int
        Pairs of runs, and those whose codes differ.
    rho : float
        The share that differ: the estimate of Definition 2.2's probability.
    upper : float
        One-sided exact upper limit at `confidence`: the algorithm is upper-replicable on this
        distribution unless an event of probability 1 - confidence happened.
    confidence : float
        Of `upper`.
    pairs : tuple of Pair
        The evidence: each pair's shared seed, and the first entries that differ.
    notes : tuple of str
        What makes the measurement doubtful: runs that never draw from their generator, outputs that
        are all the same whatever the shared seed.
    """

    n_pairs: int
    n_disagree: int
    rho: float
    upper: float
    confidence: float
    pairs: tuple[Pair, ...] = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)


def measurement_records(store: Any, run: Any, seed: Any) -> Any:
    """Records of a Python function's pairs: the same for an estimate and for a certificate."""
    return Records(store, lambda: {"experiment": "pair of runs", "run": identity(run), "seed": seed})


def watched(pairs: Any, stacklevel: Any) -> Any:
    """The same pairs, with a warning at once if the first of them drew nothing."""
    for pair in pairs:
        if pair.index == 0 and pair.compared and pair.drew is False:
            warnings.warn(f"so far {NO_DRAW}", ReplicabilityWarning, stacklevel=stacklevel)
        yield pair


def estimate_replicability(
    run: Callable[..., Any],
    *,
    n_pairs: int,
    confidence: float = 0.95,
    seed: int,
    n_jobs: int = 1,
    progress: bool = False,
    store: Any = None,
) -> ReplicabilityEstimate:
    """Estimate rho of Definition 2.2 from independent pairs of runs.

    Every pair draws its own shared seed and two independent data generators, so the pairs are
    independent and the number that differ is binomial.

    Parameters
    ----------
    run : callable
        ``run(shared_seed, rng)`` draws data from `rng`, runs the algorithm and returns its integer
        codes (an array or a sequence of arrays).
    n_pairs : int
        How many pairs. With no disagreement in n pairs, rho <= 3 / n at 95%.
    confidence : float, default=0.95
        Of the exact upper limit (Clopper-Pearson, one-sided).
    seed : int
        Seed of the whole measurement; 0 is a seed like any other.
    n_jobs : int, default=1
        Worker processes (joblib). The result does not depend on it.
    progress : bool, default=False
        Say on standard error how far it is.
    store : path or RunStore, optional
        Where every pair is put on record when it is done; the same call goes on from there. A
        function begins anew if its source, its defaults, what it closes over or what it uses of its own
        module has changed; what it calls of other modules counts by name.

    Returns
    -------
    ReplicabilityEstimate
        Ctrl-C gives that of the pairs done so far, with a warning. Its limit holds if the moment did
        not depend on what was seen; :func:`rrl.certify_replicability` may be stopped at any moment.

    Raises
    ------
    TypeError
        If a run returns anything but integer codes; the error says what it returned.

    Warns
    -----
    ReplicabilityWarning
        If no run draws from its generator.

    Examples
    --------
    >>> from rrl import estimate_replicability, hypergrid_round
    >>> def mean_of_coins(shared_seed, rng):
    ...     return hypergrid_round(rng.binomial(1000, 0.3) / 1000, 0.1, shared_seed=shared_seed).codes
    >>> estimate = estimate_replicability(mean_of_coins, n_pairs=200, seed=0)
    >>> estimate.n_pairs, estimate.rho < 0.3 < estimate.upper + 0.2
    (200, True)
    """
    check_measurement(confidence, seed, n_pairs=n_pairs)
    found = []
    every = measured(run, int(seed), int(n_pairs), n_jobs=n_jobs, records=measurement_records(store, run, int(seed)))
    with teller(progress) as tell:
        try:
            for pair in watched(every, stacklevel=3):
                found.append(pair)
                tell(lambda: f"{len(found)} of {n_pairs} pairs, {sum(pair.differs for pair in found)} differ")
        except KeyboardInterrupt:
            if not found:
                raise
            warnings.warn(f"stopped after {len(found)} of {n_pairs} pairs", ReplicabilityWarning, stacklevel=2)
    n, count = len(found), sum(pair.differs for pair in found)
    upper = 1.0 if count == n else float(betaincinv(count + 1, n - count, confidence))
    return ReplicabilityEstimate(n, count, count / n, upper, confidence, tuple(found), notes_of(found))


def _group_sizes(codes):
    codes = as_array(codes)
    if codes.ndim == 0 or len(codes) == 0:
        raise ValueError(f"codes must hold at least one run on its first axis, got shape {codes.shape}")
    rows = codes.reshape(len(codes), -1)
    return np.unique(rows, axis=0, return_counts=True)[1] if rows.shape[1] else np.array([len(rows)])


def modal_share(codes: ArrayLike) -> float:
    """Share of runs with the most common output: the paper's measure in Figure 1.

    A modal share m bounds the pairwise disagreement rho-hat only to 1 - m <= rho-hat <= 1 - m^2.

    Parameters
    ----------
    codes : array_like of int, shape (n_runs, ...)
        One output a run.

    Returns
    -------
    float
        In [1 / n_runs, 1].

    Examples
    --------
    >>> from rrl import modal_share
    >>> modal_share([[0, 1], [0, 1], [0, 2], [0, 1]])
    0.75
    """
    sizes = _group_sizes(codes)
    return float(sizes.max() / sizes.sum())


def pairwise_share(codes: ArrayLike) -> float:
    """Share of pairs of distinct runs with identical outputs: unbiased for 1 - rho given the seed.

    Parameters
    ----------
    codes : array_like of int, shape (n_runs, ...)
        One output a run, at least two runs.

    Returns
    -------
    float
        In [0, 1].

    Examples
    --------
    >>> from rrl import pairwise_share
    >>> pairwise_share([[0, 1], [0, 1], [0, 2], [0, 1]])
    0.5
    """
    sizes = _group_sizes(codes)
    n = sizes.sum()
    if n < 2:
        raise ValueError("codes must hold at least two runs for a pair")
    return float((sizes * (sizes - 1)).sum() / (n * (n - 1)))
