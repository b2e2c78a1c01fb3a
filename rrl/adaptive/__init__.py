"""Stopping early: a run that sees that no edge is near its estimate draws no more rows (chapter 12)."""

from .lsvi import AdaptiveLSVIResult, adaptive_r_lsvi
from .ridge import AdaptiveRidgeResult, adaptive_ridge
from .rounding import AdaptiveRounded, adaptive_round

__all__ = [
    "AdaptiveLSVIResult",
    "AdaptiveRidgeResult",
    "AdaptiveRounded",
    "adaptive_r_lsvi",
    "adaptive_ridge",
    "adaptive_round",
]
