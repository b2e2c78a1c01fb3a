"""Why two runs take the same action: because of the state, by the rule for ties, or because both like that action."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rrl._checks import check_choice, check_index
from rrl.pqn.actions import best_actions

__all__ = ["RULES", "Reasons", "reasons"]

#: Rules for ties: the first action of the list, one random order for all runs, a random order of each run's own.
RULES = ("first", "shared", "independent")


@dataclass(frozen=True, eq=False)
class Reasons:
    """Agreement of R runs, exactly, and what it is made of.

    Under each rule for ties the agreement is ``state + chance + ties(rule)``.

    Attributes
    ----------
    pairwise : dict of str to ndarray, shape (R, R)
        For each of `RULES` the share of states in which two runs take the same action; random orders are averaged
        over exactly, not drawn.
    chosen : ndarray, shape (R, A)
        How often each run takes each action where it draws among tied ones.
    single, same : float
        Share of pairs of runs and states in which both runs have one best action, and in which it is the same one.
    tie_rate : float
        Share of runs and states with several best actions.
    """

    pairwise: dict
    chosen: np.ndarray
    single: float
    same: float
    tie_rate: float

    def agreement(self, rule: str = "first") -> float:
        """Mean over pairs of runs under one of `RULES`."""
        check_choice("rule", rule, RULES)
        return float(_pairs_mean(self.pairwise[rule]))

    @property
    def chance(self) -> float:
        """What two runs with their favourite actions would agree on if they never looked at the state, over pairs."""
        return float(_pairs_mean(self.chosen @ self.chosen.T))

    @property
    def state(self) -> float:
        """What is left beyond chance when each run breaks its ties by itself."""
        return self.agreement("independent") - self.chance

    def ties(self, rule: str = "first") -> float:
        """What a rule that all runs share adds: agreement with it, less agreement with orders of each run's own."""
        return self.agreement(rule) - self.agreement("independent")

    def without(self, run: int) -> Reasons:
        """The same of all runs but one, for the jackknife; `single`, `same` and `tie_rate` are not known then."""
        check_index(len(self.chosen), run=run)
        keep = np.arange(len(self.chosen)) != run
        pairwise = {rule: matrix[np.ix_(keep, keep)] for rule, matrix in self.pairwise.items()}
        return Reasons(pairwise, self.chosen[keep], np.nan, np.nan, np.nan)


def _pairs_mean(matrix):
    return matrix[np.triu_indices(len(matrix), 1)].mean()


def reasons(q: np.ndarray, grid_step: float = 0.0) -> Reasons:
    """Take the agreement of R runs apart.

    Parameters
    ----------
    q : array of float, shape (R, N, A)
        Unrounded Q-values of R runs in N states, R at least 2.
    grid_step : float
        Step of the grid on which they are compared; 0 for none.

    Returns
    -------
    Reasons

    Raises
    ------
    ValueError
        If `q` is not of that shape or not finite, or `grid_step` negative.

    Examples
    --------
    Two runs of two actions, indifferent in the first of two states:

    >>> from rrl.pqn.decomposition import reasons
    >>> why = reasons([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]], 0.5)
    >>> [why.agreement(rule) for rule in ("first", "shared", "independent")]
    [1.0, 1.0, 0.75]
    >>> why.state, why.chance, why.ties("first")
    (0.125, 0.625, 0.25)
    """
    q = np.asarray(q)
    if q.ndim != 3 or len(q) < 2 or 0 in q.shape:
        raise ValueError(f"q must have shape (at least 2 runs, states, actions), got {q.shape}")
    best = best_actions(q, grid_step)
    size = best.sum(-1)
    chosen, draws, single = best.argmax(-1), best / size[..., None], size == 1
    first = np.array([(chosen == row).mean(1) for row in chosen])
    common = np.array([(best & row).sum(-1) for row in best])  # (R, R, N)
    # In a common random order the first action of either run must be one that both have.
    shared = (common / (size + size[:, None] - common)).mean(-1)
    independent = (common / (size * size[:, None])).mean(-1)
    both = single & single[:, None]
    return Reasons(
        pairwise={"first": first, "shared": shared, "independent": independent},
        chosen=draws.mean(1),
        single=float(_pairs_mean(both.mean(-1))),
        same=float(_pairs_mean((both & (common > 0)).mean(-1))),
        tie_rate=float((size > 1).mean()),
    )
