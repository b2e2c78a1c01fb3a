"""The bounds of Section 2.2 (Definition 2.2, Lemma 2.1)."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_float64, check_positive, check_probability, check_version
from ._formula import formula

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = [
    "disagreement_probability",
    "rounding_disagreement_bound",
    "rounding_error_bound",
    "slack",
]


@formula
def slack(rho: float, delta: float) -> float:
    """The share of rho that is left for rounding, rho' = rho - 2 delta (erratum E9).

    Both runs may miss their accuracy event, each with probability delta; only the rest of rho pays
    for the grid. It has to be positive, which the paper does not state: a call with delta in place of
    min(delta, rho / 4) may have nothing left, one with min(delta, rho / 4) has half of rho.

    Parameters
    ----------
    rho, delta : float
        Replicability parameter and failure probability, in (0, 1).

    Returns
    -------
    float
        rho - 2 delta.

    Raises
    ------
    ValueError
        If rho <= 2 delta.

    Examples
    --------
    >>> from rrl.theory import slack
    >>> round(slack(0.1, 0.01), 12)
    0.08
    """
    check_probability(rho=rho, delta=delta)
    rest = rho - 2 * delta
    if rest <= 0:
        raise ValueError(f"rho must exceed 2 * delta, got rho={rho!r} and delta={delta!r}: pass min(delta, rho / 4)")
    return rest


@formula
def rounding_error_bound(d1: int, d2: int, bin_width: float) -> float:
    """Lemma 2.1: the Frobenius distance from a d1 x d2 matrix to its rounding, sqrt(d1 d2) alpha / 2.

    Parameters
    ----------
    d1, d2 : int
        Shape of the matrix.
    bin_width : float
        The paper's alpha.

    Returns
    -------
    float
        The bound, reached when every entry lies on a cell's edge.

    Examples
    --------
    >>> from rrl.theory import rounding_error_bound
    >>> rounding_error_bound(4, 1, 0.2)
    0.2
    """
    check_positive(d1=d1, d2=d2, bin_width=bin_width)
    return float(np.sqrt(d1 * d2) * bin_width / 2)


@formula
def rounding_disagreement_bound(
    d1: int, d2: int, distance: float, bin_width: float, version: str = "corrected"
) -> float:
    """Lemma 2.1: bound on the probability that two matrices are rounded differently.

    Printed: d1 d2 Delta / alpha. Corrected (sharper): sqrt(d1 d2) Delta / alpha, by the union bound
    over entries and Cauchy-Schwarz. Neither is clipped at 1.

    Parameters
    ----------
    d1, d2 : int
        Shape of the matrices.
    distance : float
        The paper's Delta, their Frobenius distance.
    bin_width : float
        The paper's alpha.
    version : {"corrected", "printed"}
        Which of the two.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> from rrl.theory import rounding_disagreement_bound
    >>> rounding_disagreement_bound(4, 1, 0.125, 2.0, version="printed")
    0.25
    >>> rounding_disagreement_bound(4, 1, 0.125, 2.0)
    0.125
    """
    check_version(version)
    check_positive(d1=d1, d2=d2, bin_width=bin_width)
    if not (isinstance(distance, Real) and distance >= 0):
        raise ValueError(f"distance must be non-negative, got {distance!r}")
    factor = d1 * d2 if version == "printed" else np.sqrt(d1 * d2)
    return float(factor * distance / bin_width)


@formula
def disagreement_probability(differences: ArrayLike, bin_width: ArrayLike) -> Any:
    """The exact law behind Lemma 2.1: Pr[codes differ] = 1 - prod(1 - min(1, abs(delta_i) / alpha)).

    Parameters
    ----------
    differences : array_like, shape (..., d)
        Differences delta_i between the entries of two estimates; the last axis holds the entries.
    bin_width : float or array_like
        The paper's alpha, or one for each entry.

    Returns
    -------
    float or ndarray, shape (...)
        Probability over the shared offsets.

    Raises
    ------
    ValueError
        If a difference is NaN or a bin width not positive.

    Examples
    --------
    >>> from rrl.theory import disagreement_probability
    >>> round(disagreement_probability([0.1, 0.1], 1.0), 12)
    0.19
    """
    differences, width = np.abs(as_float64("differences", differences)), as_float64("bin_width", bin_width)
    if np.isnan(differences).any():
        raise ValueError("differences must not hold NaN")
    if not (width > 0).all():
        raise ValueError(f"bin_width must be positive, got {bin_width!r}")
    try:
        np.broadcast_shapes(differences.shape, width.shape)
    except ValueError:
        raise ValueError(f"bin_width has shape {width.shape}, differences {differences.shape}") from None
    # Logarithms keep the digits of a tiny probability, which 1 - prod(...) would lose; log 0 is a sure difference.
    with np.errstate(divide="ignore", over="ignore"):
        disagree = -np.expm1(np.log1p(-np.minimum(1, differences / width)).sum(axis=-1))
    return float(disagree) if np.ndim(disagree) == 0 else disagree
