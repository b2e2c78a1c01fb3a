"""Rare switching: after which rounds R-LSVI-UCB publishes new weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Publishing:
    """When new weights are due: after every round, or where Lambda has grown enough since the last ones.

    Parameters
    ----------
    growth : float
        Least factor by which Lambda grows, over all stages and directions; 1 is every round.
    penalty : float
        The paper's lambda.

    Attributes
    ----------
    switches : list of int
        Rounds whose policy is of new weights.
    """

    def __init__(self, growth: float, penalty: float) -> None:
        self.growth, self.penalty = growth, penalty
        self.switches: list[int] = []
        self._inverses: Any = None
        self._since = 0

    def due(self, moments: Callable[[], Any]) -> bool:
        """Whether new weights follow this round; `moments` gives the rounded second moments of all stages, if asked."""
        self._since += 1
        if self._inverses is None:
            return True
        # Between the powers of two nothing is looked at, so that few calls share rho.
        if self._since & (self._since - 1):
            return False
        matrices = np.asarray(moments()) + self.penalty * np.eye(self._inverses.shape[1])
        return np.linalg.eigvals(self._inverses @ matrices).real.max() >= self.growth

    def published(self, t: int, inverses: Any) -> None:
        """New weights, and these inverses of Lambda, follow round `t`."""
        self.switches.append(t + 1)
        self._since = 0
        if self.growth > 1:
            self._inverses = inverses.copy()
