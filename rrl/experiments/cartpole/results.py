"""From the records of the CartPole study to the numbers of its figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from ...packing import unpack_array
from ...replicability import modal_share, pairwise_share

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Study", "gather", "interval", "table"]


@dataclass(frozen=True, eq=False)
class Study:
    """All draws of one study: L penalties, C = 2 L + 1 columns, F fractions; K draws on the first axis.

    Columns: every penalty with rounding, every penalty without, and the baseline without both.

    Attributes
    ----------
    settings : dict
    penalties, fractions : ndarray, shapes (L,) and (F,)
    returns : ndarray, shape (K, C, F)
        Mean over runs and episodes, in steps (at most 500).
    modal, pairwise : ndarray, shape (K, L, F)
        Share of the runs with the most common rounded weights; share of pairs with equal ones.
    policies, policy_pairs : ndarray, shape (K, C, F)
        The same two of greedy actions on 1,000 recorded states.
    arrays : dict of ndarray
        Everything that ``rrl.experiments.cartpole.study.measure`` kept, draws first.
    """

    settings: dict
    penalties: np.ndarray
    fractions: np.ndarray
    returns: np.ndarray
    modal: np.ndarray
    pairwise: np.ndarray
    policies: np.ndarray
    policy_pairs: np.ndarray
    arrays: dict


def gather(records: list[dict]) -> Study:
    """Put the units of one study together.

    Parameters
    ----------
    records : list of dict
        From the run store.

    Returns
    -------
    Study
    """
    if not records:
        raise ValueError("there are no records to gather: run 'rrl run cartpole' first")
    settings = records[0]["unit"]["settings"]
    if any(record["unit"]["settings"] != settings for record in records):
        raise ValueError("the records are of different settings: gather one study at a time")
    parts = [{name: unpack_array(packed) for name, packed in record["result"].items()} for record in records]
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def shares(measure, names):
        return np.apply_along_axis(measure, -1, names)

    return Study(
        settings,
        np.array(settings["penalties"]),
        np.array(settings["fractions"]),
        arrays["steps"].mean(axis=-1) / settings["n_episodes"],
        shares(modal_share, arrays["weights"]),
        shares(pairwise_share, arrays["weights"]),
        shares(modal_share, arrays["policies"]),
        shares(pairwise_share, arrays["policies"]),
        arrays,
    )


def interval(values: Any, confidence: float = 0.95) -> Any:
    """Mean over draws (the first axis) and the half-width of its Student interval.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.experiments.cartpole.results import interval
    >>> mean, half = interval(np.array([1.0, 2.0, 3.0]))
    >>> mean.item(), round(half.item(), 3)
    (2.0, 2.484)
    """
    values = np.asarray(values)
    n = len(values)
    if n < 2:
        raise ValueError(f"an interval over draws needs at least two draws, got {n}")
    half = student.ppf((1 + confidence) / 2, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n)
    return values.mean(axis=0), half


def table(study: Study) -> list[dict]:
    """Rows of the figure's table: one for each penalty and fraction, and the baseline's.

    Parameters
    ----------
    study : Study

    Returns
    -------
    list of dict
        With ``penalty`` (None in the baseline), ``fraction``, ``return``, ``return without rounding``,
        ``modal share`` and ``pairwise share``, means over draws.
    """
    n = len(study.penalties)
    returns, modal, pairwise = (part.mean(axis=0) for part in (study.returns, study.modal, study.pairwise))
    rows = []
    for p, penalty in enumerate([*study.penalties, None]):
        for f, fraction in enumerate(study.fractions):
            rounded = penalty is not None
            rows.append(
                {
                    "penalty": float(penalty) if rounded else None,
                    "fraction": float(fraction),
                    "return": float(returns[p, f]) if rounded else None,
                    "return without rounding": float(returns[n + p, f]),
                    "modal share": float(modal[p, f]) if rounded else None,
                    "pairwise share": float(pairwise[p, f]) if rounded else None,
                }
            )
    return rows
