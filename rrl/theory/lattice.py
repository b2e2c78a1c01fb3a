"""The laws of rounding to the lattice A_d* beside those of the grid (chapter 12 of the book).

The lattice is that of all integer vectors of length d + 1, projected along (1, ..., 1); its cells are
permutohedra. ``bin_width`` means the same for both schemes: no estimate moves by more than
sqrt(d) bin_width / 2, and there are estimates that do.
"""

from __future__ import annotations

from functools import lru_cache
from math import lgamma, log, pi
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from .._checks import check_choice, check_integer, check_positive, check_size
from ._formula import formula

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "cell_inradius",
    "cell_surface",
    "cut_rate",
    "lattice_rows",
    "lattice_scale",
    "rounding_rms_error",
]

SCHEMES = ("grid", "lattice")


@formula
def lattice_scale(d: int, bin_width: float) -> float:
    """Length s by which the projected integers are multiplied: sqrt(3 (d + 1) / (d + 2)) bin_width.

    The covering radius of the unscaled lattice is sqrt(d (d + 2) / (12 (d + 1))), so that of the
    scaled one is sqrt(d) bin_width / 2, the grid's.

    Parameters
    ----------
    d : int
        Dimension.
    bin_width : float
        Width of the grid's cell with the same worst error.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import lattice_scale
    >>> round(lattice_scale(2, 1.0), 12)
    1.5
    """
    check_size("d", d)
    check_positive(bin_width=bin_width)
    return float(np.sqrt(3 * (d + 1) / (d + 2))) * float(bin_width)


def _log_choices(n):
    """Sizes i = 1, ..., n - 1 of a subset of n, and the logarithm of the number of subsets of each."""
    i = np.arange(1, n)
    return i, gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1)


@formula
def cell_surface(d: int, bin_width: float, scheme: str = "grid") -> float:
    """Surface of a cell over its volume.

    Grid: 2 d / bin_width. Lattice, with n = d + 1 and s of :func:`lattice_scale`:
    (n / s) sum over i of C(n, i) i^(i - 3/2) (n - i)^(n - i - 3/2) / n^(n - 3/2). A ball of radius r
    around an estimate meets another cell with probability at most r times this.

    Parameters
    ----------
    d : int
        Dimension.
    bin_width : float
        The paper's alpha.
    scheme : {"grid", "lattice"}
        How the estimate is rounded.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import cell_surface
    >>> cell_surface(2, 0.5), round(cell_surface(2, 0.5, scheme="lattice"), 3)
    (8.0, 6.532)
    """
    check_integer(1, d=d)
    check_positive(bin_width=bin_width)
    check_choice("scheme", scheme, SCHEMES)
    if scheme == "grid":
        return float(2 * d / bin_width)
    n = d + 1
    i, choices = _log_choices(n)
    faces = choices + (i - 1.5) * np.log(i) + (n - i - 1.5) * np.log(n - i) - (n - 1.5) * log(n)
    return float(n / lattice_scale(d, bin_width) * np.exp(faces).sum())


@formula
def cell_inradius(d: int, bin_width: float, scheme: str = "grid") -> float:
    """Radius of the largest ball in a cell: alpha / 2, for the lattice sqrt(3 d / (d + 2)) alpha / 2.

    Parameters
    ----------
    d : int
        Dimension.
    bin_width : float
        The paper's alpha.
    scheme : {"grid", "lattice"}
        How the estimate is rounded.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import cell_inradius
    >>> cell_inradius(4, 1.0), round(cell_inradius(4, 1.0, "lattice"), 3)
    (0.5, 0.707)
    """
    check_size("d", d)
    check_positive(bin_width=bin_width)
    check_choice("scheme", scheme, SCHEMES)
    return float(bin_width / 2 if scheme == "grid" else lattice_scale(d, bin_width) * np.sqrt(d / (d + 1)) / 2)


@formula
def cut_rate(d: int, bin_width: float, scheme: str = "grid", direction: str = "uniform") -> float:
    """Chance that two estimates are rounded differently, over their distance.

    For a difference of any length the chance is at most the distance times the rate of its direction
    (the cells are convex); for short ones it is that. The mean over all directions is
    omega_(d-1) / (d omega_d) times :func:`cell_surface`, omega_d the volume of the unit ball. No
    direction of either scheme exceeds the cell's surface over 2 sqrt(d) volumes, at most
    sqrt(pi / 2) = 1.25 times the mean; the grid reaches that along its diagonals.

    Parameters
    ----------
    d : int
        Dimension.
    bin_width : float
        The paper's alpha.
    scheme : {"grid", "lattice"}
        How the estimate is rounded.
    direction : {"uniform", "worst"}
        The mean over directions, or the bound that holds for each.

    Returns
    -------
    float
        In inverse units of `bin_width`.

    Examples
    --------
    >>> from rrl.theory import cut_rate
    >>> cut_rate(4, 1.0, direction="worst"), round(cut_rate(4, 1.0, "lattice", "worst"), 3)
    (2.0, 1.321)
    """
    check_choice("direction", direction, ("uniform", "worst"))
    surface = cell_surface(d, bin_width, scheme)
    return surface / (2 * np.sqrt(d)).item() if direction == "worst" else surface * shadow(d) / d


def shadow(d: Any) -> Any:
    """Volume of the unit ball in d - 1 dimensions over that in d, half the mean of sum_i abs(u_i) over unit vectors."""
    return float(np.exp(lgamma(d / 2 + 1) - lgamma((d + 1) / 2) - log(pi) / 2))


@lru_cache
def _permutohedron_moment(n):
    """Mean squared distance from the centre of the permutohedron with vertices at the orders of 0, ..., n - 1."""
    moments = np.zeros(n + 1)
    for m in range(2, n + 1):
        i, choices = _log_choices(m)
        # Shares of the volume in the pyramids over the faces; a face is a product of two smaller permutohedra.
        share = choices + (i - 1) * np.log(i) + (m - i - 1) * np.log(m - i) - (m - 2) * log(m) - log(2 * (m - 1))
        face = m * i * (m - i) / 4 + moments[i] + moments[m - i]
        moments[m] = (m - 1) / (m + 1) * np.exp(share) @ face
    return float(moments[n])


@formula
def rounding_rms_error(d: int, bin_width: float, scheme: str = "grid") -> float:
    """Root mean square of the rounding error, which is uniform in the cell whatever the estimate.

    Grid: sqrt(d / 12) bin_width. Lattice: by cutting the cell into pyramids over its faces, each a
    product of two smaller cells of the same kind.

    Parameters
    ----------
    d : int
        Dimension.
    bin_width : float
        The paper's alpha.
    scheme : {"grid", "lattice"}
        How the estimate is rounded.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import rounding_rms_error
    >>> round(rounding_rms_error(3, 1.0), 3), round(rounding_rms_error(3, 1.0, scheme="lattice"), 3)
    (0.5, 0.597)
    """
    check_integer(1, d=d)
    check_positive(bin_width=bin_width)
    check_choice("scheme", scheme, SCHEMES)
    if scheme == "grid":
        return float(np.sqrt(d / 12) * bin_width)
    return lattice_scale(d, bin_width) * _permutohedron_moment(int(d) + 1) ** 0.5 / (d + 1)


@formula
def lattice_rows(d: int, error: str = "worst") -> float:
    """Rows that the lattice needs for the same rho, over those of the grid.

    The distance of two runs falls like 1 / sqrt(N), so this is the square of the ratio of the cut
    rates, in the mean over directions and in the worst one (a difference in a single entry gains
    nothing), at bin widths of the same worst or the same root mean square error. By worst error it falls
    from 1 at d = 1 towards 0.128; by root mean square error it stays above 0.37.

    Parameters
    ----------
    d : int
        Dimension.
    error : {"worst", "rms"}
        Which error is held.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import lattice_rows
    >>> [round(lattice_rows(d), 2) for d in (1, 2, 8, 64)]
    [1.0, 0.67, 0.3, 0.16]
    >>> [round(lattice_rows(d, error="rms"), 2) for d in (1, 2, 8, 64)]
    [1.0, 0.83, 0.56, 0.4]
    """
    check_choice("error", error, ("worst", "rms"))
    ratio = cell_surface(d, 1.0, "lattice") / cell_surface(d, 1.0)
    if error == "rms":
        ratio *= rounding_rms_error(d, 1.0, "lattice") / rounding_rms_error(d, 1.0)
    return ratio**2
