"""What a run of R-LSVI-UCB keeps of its rounds, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_float64, check_finite, check_index
from ..mdp import greedy_actions
from ..replicability import fingerprint
from .data import optimistic_q

if TYPE_CHECKING:
    from typing import Any

__all__ = ["LSVIUCBResult"]


@dataclass(frozen=True, eq=False)
class LSVIUCBResult:
    """Result of :func:`r_lsvi_ucb`: T policies, of which the uniform mixture is the output.

    Attributes
    ----------
    policies : ndarray of int64, shape (T, H, S), or None
        The policy of each round; None with a Gymnasium environment.
    codes : (ndarray, ndarray), or None
        Grid cells of the ridge weights, (T - 1, H, d), and of the second moments,
        (T - 1, H, d (d + 1) / 2), that decide the policies of rounds 1 to T - 1. None without rounding.
    switches : ndarray of int64
        Rounds whose policy is of new weights: 1 to T - 1, or fewer of them with `growth`.
    history : dict of ndarray, shape (T,)
        ``optimistic_value``: the estimate of the start value that each round's policy maximises;
        ``mean_return``: the mean return of its trajectories.
    weights, inverses : ndarray, shapes (T, H, d) and (T, H, d, d), or None
        Weights and inverse Gram matrices of every round, where they were kept.
    beta : float
        As given.
    """

    policies: np.ndarray | None
    codes: tuple | None
    switches: np.ndarray
    history: dict
    weights: np.ndarray | None
    inverses: Any
    beta: float

    def __repr__(self):
        known = self.codes is not None or self.policies is not None
        name = f"fingerprint {self.fingerprint()[:12]}..." if known else "unrounded"
        return f"LSVIUCBResult(T={len(self.history['mean_return'])}, beta={self.beta:g}, {name})"

    def fingerprint(self) -> str:
        """SHA-256 of the codes, and `switches` where rounds are skipped, or of the policies if nothing was rounded."""
        if self.codes is not None:
            # A code is one of its round's own grid: where weights were kept, the rounds of new ones count too.
            rare = len(self.switches) < len(self.history["mean_return"]) - 1
            return fingerprint([*self.codes, self.switches] if rare else list(self.codes))
        if self.policies is None:
            raise ValueError("an unrounded run on an environment has no codes to compare: give bin_widths")
        return fingerprint(self.policies)

    def q_values(self, t: Any, h: Any, phi: Any) -> Any:
        """Optimistic values of round `t` at stage `h` for features of shape (..., d)."""
        if self.weights is None:
            raise ValueError("the estimates were not kept: run with keep_estimates=True")
        rounds, horizon, d = self.weights.shape
        check_index(rounds, t=t)
        check_index(horizon, h=h)
        phi = as_float64("phi", phi)
        if phi.ndim < 1 or phi.shape[-1] != d:
            raise ValueError(f"phi must have shape (..., {d}), got {phi.shape}")
        check_finite("phi", phi)
        return optimistic_q(phi, self.weights[t, h], self.inverses[t, h], self.beta, horizon)

    def act(self, t: Any, h: Any, phi: Any) -> Any:
        """Actions of round `t` at stage `h` for features of all actions, shape (..., A, d)."""
        return greedy_actions(self.q_values(t, h, phi))


class Kept:
    """Policies, codes, estimates and history of T rounds, filled as they come.

    Parameters
    ----------
    T : int
        Rounds.
    data : FiniteData or EnvData
        Before the first round.
    rounded : bool
        Whether there are codes.
    estimates : bool
        Whether weights and inverses are kept.
    """

    def __init__(self, T: int, data: Any, rounded: bool, estimates: bool) -> None:
        H, d = data.gram.shape[:2]
        policy = data.policy
        self.policies: Any = None if policy is None else np.empty((T, *policy.shape), dtype=np.int64)
        self.history = {name: np.empty(T) for name in ("optimistic_value", "mean_return")}
        self.codes: Any = None
        if rounded:
            self.codes = tuple(np.empty((T - 1, H, size), dtype=np.int64) for size in (d, d * (d + 1) // 2))
        self.weights: Any = np.zeros((T, H, d)) if estimates else None
        self.inverses: Any = np.tile(data.inverse, (T, 1, 1, 1)) if estimates else None

    def round(self, t: int, policy: Any, mean_return: float, optimistic_value: float) -> None:
        """Keep what round `t` found."""
        if self.policies is not None:
            self.policies[t] = policy
        self.history["mean_return"][t] = mean_return
        self.history["optimistic_value"][t] = optimistic_value

    def stage(self, t: int, h: int, weights: Any, inverses: Any, *codes) -> None:
        """Keep the estimates of stage `h` after round `t`, which are those of the next one."""
        if self.codes is not None:
            for kept, new in zip(self.codes, codes, strict=True):
                kept[t, h] = new
        if self.weights is not None:
            self.weights[t + 1, h], self.inverses[t + 1, h] = weights, inverses[h]

    def again(self, t: int) -> None:
        """Keep the estimates before round `t` for the next one too."""
        for kept in self.codes or ():
            kept[t] = kept[t - 1]
        if self.weights is not None:
            self.weights[t + 1], self.inverses[t + 1] = self.weights[t], self.inverses[t]

    def result(self, switches: list[int], beta: float) -> LSVIUCBResult:
        """The result of the run."""
        rounds = np.array(switches, dtype=np.int64)
        return LSVIUCBResult(self.policies, self.codes, rounds, self.history, self.weights, self.inverses, beta)
