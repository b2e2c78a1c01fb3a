"""How far independently trained policies agree (Section 6.2, Figure 2), beyond ties and chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import as_flags, as_float64, check_integer
from rrl.pqn.actions import action_gaps, best_actions, rounded_actions, tied

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "ActionAgreement",
    "action_agreement",
    "action_gaps",
    "agreement_by_gap",
    "agreement_report",
    "best_actions",
    "bootstrap_interval",
    "rounded_actions",
    "tied",
]


def _labels(actions):
    """Actions as a matrix of integers (runs, states), checked."""
    as_float64("actions", actions)
    actions = np.asarray(actions)
    if actions.ndim != 2 or actions.shape[0] < 2 or actions.shape[1] < 1:
        raise ValueError(f"actions must have shape (at least 2 runs, at least 1 state), got {actions.shape}")
    if actions.dtype.kind not in "iu" or actions.min() < 0:
        raise ValueError(f"actions must be non-negative integers, got dtype {actions.dtype}")
    return actions


def _counts(actions):
    """How many runs choose each action in each state, shape (states, actions)."""
    return (actions[:, :, None] == np.arange(actions.max() + 1)).sum(0)


@dataclass(frozen=True, eq=False)
class ActionAgreement:
    """Agreement of R runs on N states.

    Attributes
    ----------
    pairwise : ndarray, shape (R, R)
        Share of states in which two runs choose the same action; 1 on the diagonal.
    mean, standard_error : float
        Mean over pairs; standard error over runs of a run's mean agreement with the others (the
        paper's error bars are 1.96 of it). It treats these as independent, but a pair counts for both of
        its runs: the mean's own error is up to twice as large with many runs, and more with few.
    jackknife_error : float
        The mean's error by leaving out one run after the other, infinite for two runs.
    fleiss_kappa, cohen_kappa : float
        Chance-corrected: Fleiss' kappa, and the mean of Cohen's over pairs. NaN where chance alone
        gives 1.
    majority : float
        Share of all choices that fall on the one most chosen action: 1 means that every policy has
        collapsed onto it.
    """

    pairwise: np.ndarray
    mean: float
    standard_error: float
    jackknife_error: float
    fleiss_kappa: float
    cohen_kappa: float
    majority: float


def action_agreement(actions: np.ndarray, states: np.ndarray | None = None) -> ActionAgreement:
    """Agreement of the actions that runs choose in the same states.

    The mean is the pairwise agreement of Section 6.2; between two policies it equals what d3rlpy's
    ``CompareDiscreteActionMatchEvaluator`` computes.

    Parameters
    ----------
    actions : array of int, shape (R, N)
        Action of each run in each state, R at least 2.
    states : array of bool, shape (N,), optional
        Use these states only.

    Returns
    -------
    ActionAgreement

    Raises
    ------
    ValueError
        For fewer than two runs, no state, or entries that are not actions.

    Examples
    --------
    >>> from rrl.pqn.agreement import action_agreement
    >>> agreement = action_agreement([[0, 1, 1, 2], [0, 1, 2, 2], [0, 0, 1, 2]])
    >>> round(agreement.mean, 4), round(agreement.fleiss_kappa, 4), round(agreement.majority, 4)
    (0.6667, 0.5, 0.3333)
    """
    actions = _labels(actions)
    if states is not None:
        states = as_flags("states", states)
        if states.shape != actions.shape[1:] or not states.any():
            raise ValueError(
                f"states must choose some of {actions.shape[1]} states, got shape {states.shape}, {states.sum()} chosen"
            )
        actions = actions[:, states]
    r, n = actions.shape
    pairwise = np.array([(actions == row).mean(1) for row in actions])
    pairs = np.triu_indices(r, 1)
    per_run = (pairwise.sum(1) - 1) / (r - 1)
    counts = _counts(actions)
    share = counts.sum(0) / (r * n)
    marginals = (actions[:, :, None] == np.arange(counts.shape[1])).mean(1)
    cohen = beyond_chance(pairwise, marginals @ marginals.T)[pairs]
    mean = float(pairwise[pairs].mean())
    standard_error = float(per_run.std(ddof=1) / np.sqrt(r))
    return ActionAgreement(
        pairwise=pairwise,
        mean=mean,
        standard_error=standard_error,
        # Without run i the mean moves by 2 / (r - 2) of what i's own mean differs by.
        jackknife_error=2 * (r - 1) / (r - 2) * standard_error if r > 2 else float("inf"),
        fleiss_kappa=float(beyond_chance(mean, (share**2).sum())),
        cohen_kappa=float(np.nanmean(cohen)) if np.isfinite(cohen).any() else float("nan"),
        majority=float(share.max()),
    )


def beyond_chance(observed: ArrayLike, chance: ArrayLike) -> np.ndarray:
    """Agreement beyond that of chance, as a share of the most that it could be: the kappas.

    Parameters
    ----------
    observed, chance : array_like of float
        Broadcast against each other.

    Returns
    -------
    ndarray of float
        ``(observed - chance) / (1 - chance)``; NaN where chance makes agreement certain.

    Examples
    --------
    >>> from rrl.pqn.agreement import beyond_chance
    >>> float(beyond_chance(0.75, 0.5)), float(beyond_chance(1.0, 1.0))
    (0.5, nan)
    """
    observed, chance = np.asarray(observed, dtype=float), np.asarray(chance, dtype=float)
    room = 1 - chance
    certain = room < 1e-12
    return np.where(certain, np.nan, (observed - chance) / np.where(certain, 1, room))


def agreement_by_gap(actions: np.ndarray, q: np.ndarray, n_bins: int = 5) -> tuple:
    """Agreement on states of small and of large action gap.

    Parameters
    ----------
    actions : array of int, shape (R, N)
    q : array of float, shape (R, N, A)
        Unrounded Q-values; a state's gap is the mean of the runs' gaps.
    n_bins : int
        Bins of equally many states.

    Returns
    -------
    gaps, agreement : ndarray of float, shape (n_bins,)
        Mean gap and mean pairwise agreement of each bin, smallest gaps first.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn.agreement import agreement_by_gap
    >>> q = np.array([[[0.0, 0.1], [5.0, 0.0]], [[0.1, 0.0], [4.0, 0.0]]])
    >>> [part.round(6).tolist() for part in agreement_by_gap(q.argmax(-1), q, 2)]
    [[0.1, 4.5], [0.0, 1.0]]
    """
    actions, gaps = _labels(actions), action_gaps(q)
    if gaps.shape != actions.shape:
        raise ValueError(
            f"q must have one row of values for each of actions' {actions.shape} choices, got shape {np.shape(q)}"
        )
    gaps = gaps.mean(0)
    check_integer(1, n_bins=n_bins)
    if n_bins > gaps.size:
        raise ValueError(f"n_bins must be between 1 and the number of states {gaps.size}, got {n_bins}")
    bins = np.array_split(np.argsort(gaps, kind="stable"), n_bins)
    return (
        np.array([gaps[index].mean() for index in bins]),
        np.array([action_agreement(actions[:, index]).mean for index in bins]),
    )


def bootstrap_interval(
    pairwise: np.ndarray, *, confidence: float = 0.95, n_resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of the mean pairwise agreement, resampling runs.

    A run drawn twice is not compared with itself; resamples of a single run are dropped. With few
    runs the interval is rough: with 3 there are only 9 distinct resamples left.

    Parameters
    ----------
    pairwise : ndarray, shape (R, R)
        Symmetric; its diagonal is not used.
    confidence : float
    n_resamples : int
    seed : int

    Returns
    -------
    (float, float)

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn.agreement import bootstrap_interval
    >>> bootstrap_interval(np.array([[1, 0.5, 0.7], [0.5, 1, 0.6], [0.7, 0.6, 1]]))
    (0.5, 0.7)
    """
    pairwise = as_float64("pairwise", pairwise)
    r = len(pairwise)
    if pairwise.shape != (r, r) or r < 2:
        raise ValueError(f"pairwise must have shape (runs, runs) of at least 2 runs, got {pairwise.shape}")
    check_integer(1, n_resamples=n_resamples)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    drawn = np.random.default_rng(seed).integers(r, size=(n_resamples, r))
    times = (drawn[:, :, None] == np.arange(r)).sum(1)
    total = np.einsum("bi,ij,bj->b", times, pairwise - np.diag(np.diag(pairwise)), times)
    pairs = r**2 - (times**2).sum(1)
    means = total[pairs > 0] / pairs[pairs > 0]
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def agreement_report(q: np.ndarray, grid_step: float = 0.0, seed: int = 0) -> dict:
    """How much of the agreement of R runs is more than ties and chance.

    Parameters
    ----------
    q : array of float, shape (R, N, A)
        Unrounded Q-values of R runs in N states.
    grid_step : float
        Step of the grid on which the runs act; 0 for none.
    seed : int
        Seeds random tie-breaks and the bootstrap.

    Returns
    -------
    dict
        ``agreement`` with ``standard_error``, ``jackknife_error`` and ``interval`` (bootstrap over runs, 95%),
        ``fleiss_kappa``, ``cohen_kappa``, ``majority``; ``first_action``, the share of all choices that fall on
        action 0, which wins ties; ``tie_rate``; ``unique``, the share of states where every run has one
        maximiser, and ``agreement_unique`` there (NaN without such states);
        ``agreement_shared`` and ``agreement_independent`` under random tie-breaks, the latter with
        ``independent_error`` (jackknife) and ``kappa_independent`` (Fleiss), which is free of ties and of
        shared habits; ``median_gap`` of the unrounded values. Errors and intervals need three runs: two are one
        pair, which has no spread.

    Raises
    ------
    ValueError
        If `grid_step` is negative or `q` is not of that shape.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn.agreement import agreement_report
    >>> report = agreement_report(np.random.default_rng(0).normal(size=(4, 2000, 3)), 4.0)
    >>> [round(report[key], 2) for key in ("agreement", "tie_rate", "agreement_independent")]
    [0.88, 0.93, 0.33]
    """
    actions, ties = rounded_actions(q, grid_step), tied(q, grid_step)
    unique = np.asarray(~ties.any(0))
    usual = action_agreement(actions)
    independent = action_agreement(rounded_actions(q, grid_step, "independent", seed))
    return {
        "agreement": usual.mean,
        "standard_error": usual.standard_error,
        "jackknife_error": usual.jackknife_error,
        "interval": bootstrap_interval(usual.pairwise, seed=seed),
        "fleiss_kappa": usual.fleiss_kappa,
        "cohen_kappa": usual.cohen_kappa,
        "majority": usual.majority,
        "first_action": float((actions == 0).mean()),
        "tie_rate": float(ties.mean()),
        "unique": float(unique.mean()),
        "agreement_unique": action_agreement(actions, unique).mean if unique.any() else float("nan"),
        "agreement_shared": action_agreement(rounded_actions(q, grid_step, "shared", seed)).mean,
        "agreement_independent": independent.mean,
        "independent_error": independent.jackknife_error,
        "kappa_independent": independent.fleiss_kappa,
        "median_gap": float(np.median(action_gaps(q))),
    }
