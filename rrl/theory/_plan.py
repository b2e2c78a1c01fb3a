"""What the plans of chapter 12 of the book have in common."""

from __future__ import annotations

from typing import NamedTuple

from .lattice import cell_surface


class SamplePlan(NamedTuple):
    """A number of samples, and the bin width that goes with it.

    Attributes
    ----------
    n_samples : float
        Samples N of one run.
    bin_width : float
        The paper's alpha.
    """

    n_samples: float
    bin_width: float


def fewer_cuts(d: int, scheme: str) -> float:
    """How seldom estimates are cut, beside the grid of the same worst error."""
    return cell_surface(d, 1.0, scheme) / cell_surface(d, 1.0)
