"""Algorithm 5, R-LSVI-UCB: the algorithm, what it keeps of its trajectories, and its compiled engine."""

from .algorithm import LSVIUCBResult, r_lsvi_ucb

__all__ = ["LSVIUCBResult", "r_lsvi_ucb"]
