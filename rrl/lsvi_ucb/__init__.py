"""Algorithm 5, R-LSVI-UCB: the algorithm, what it keeps of its trajectories, and its compiled engine."""

from .algorithm import r_lsvi_ucb
from .result import LSVIUCBResult

__all__ = ["LSVIUCBResult", "r_lsvi_ucb"]
