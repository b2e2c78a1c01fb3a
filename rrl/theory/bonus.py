"""How far two exploration bonuses are apart, sharper than Lemma D.2 where the algorithm uses it (chapter 15)."""

from __future__ import annotations

import numpy as np

from .._checks import check_bool, check_non_negative, check_positive, real
from ._formula import formula

__all__ = ["bonus_difference_bound", "bonus_ratio_limits"]


@formula
def bonus_ratio_limits(kappa: float, *, projected: bool = True) -> tuple[float, float]:
    """Smallest and largest ratio of two bonuses whose matrices differ by at most kappa lambda.

    In place of Lemma D.2's difference, which is large where both bonuses are. After the projection of
    Algorithm 3 both matrices are at least lambda I, and the limits are (1 + kappa)^(-1/2) and
    (1 + kappa)^(1/2) for every kappa. If only the first is, the upper one is (1 - kappa)^(-1/2).

    Parameters
    ----------
    kappa : float
        Spectral norm of the difference over lambda, at least 0; below 1 unless `projected`.
    projected : bool, default=True
        Whether the second matrix is at least lambda I too, not the first alone.

    Returns
    -------
    (float, float)
        Limits of the second bonus over the first.

    Examples
    --------
    >>> from rrl.theory import bonus_ratio_limits
    >>> bonus_ratio_limits(3)
    (0.5, 2.0)
    >>> low, high = bonus_ratio_limits(0.5, projected=False)
    >>> round(low**-2, 12), round(high**-2, 12)
    (1.5, 0.5)
    """
    check_bool(projected=projected)
    if not (0 <= real(kappa) < (np.inf if projected else 1)):
        raise ValueError(f"kappa must lie in [0, {'inf' if projected else 1}), got {kappa!r}")
    return (1 + kappa) ** -0.5, (1 + kappa) ** 0.5 if projected else (1 - kappa) ** -0.5


@formula
def bonus_difference_bound(gap: float, penalty: float) -> float:
    """How far two bonuses of a unit vector differ when both matrices are at least lambda I: gap / (2 lambda^(3/2)).

    Linear in the gap, where Lemma D.2 has its square root, and without the lemma's condition gap < lambda.

    Parameters
    ----------
    gap : float
        Spectral norm of the difference of the two matrices, at least 0.
    penalty : float
        The paper's lambda.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import bonus_difference_bound, bonus_gap_bound
    >>> bonus_difference_bound(0.005, 0.25), round(bonus_gap_bound(0.005, 0.25), 3)
    (0.02, 0.286)
    """
    check_positive(penalty=penalty)
    check_non_negative(gap=gap)
    return gap / (2 * penalty**1.5)
