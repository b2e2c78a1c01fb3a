"""Bounds for Algorithm 3 that are sharper than Theorem 3.3, derived in chapter 12 of the book."""

from __future__ import annotations

import numpy as np

from .._checks import check_positive, check_probability
from ._formula import formula
from ._plan import SamplePlan, fewer_cuts

__all__ = ["second_moment_disagreement_bound", "second_moment_error_bound", "second_moment_plan"]


@formula
def second_moment_disagreement_bound(d: int, n_samples: float, bin_width: float, t: int = 1) -> float:
    """Bound on the probability that two runs of Algorithm 3 differ, sqrt(d (d + 3) / (2 N)) t / alpha.

    From the mean Frobenius distance of two estimates, at most sqrt(2 / N) t, and from the triangle that
    is rounded: its absolute entries sum to at most sqrt(d (d + 3)) / 2 times that (Appendix B).

    Parameters
    ----------
    d : int
        Number of features.
    n_samples : float
        N = t M, M of each of t distributions.
    bin_width : float
        The paper's alpha.
    t : int, default=1
        Number of distributions; the estimate is the sum of their second moments.

    Returns
    -------
    float
        Not clipped at 1.

    Examples
    --------
    >>> from rrl.theory import second_moment_disagreement_bound
    >>> round(second_moment_disagreement_bound(3, 9 * 10**4, 0.1), 12)
    0.1
    """
    check_positive(d=d, n_samples=n_samples, bin_width=bin_width, t=t)
    return float(np.sqrt(d * (d + 3) / (2 * n_samples)) * t / bin_width)


@formula
def second_moment_error_bound(n_samples: float, delta: float, t: int = 1) -> float:
    """Frobenius distance to the second moment exceeded with probability at most delta.

    t (1 + sqrt(log(1/delta))) / sqrt(N): the entries of x x' share one unit of length, so the
    dimension does not appear.

    Parameters
    ----------
    n_samples : float
        N = t M, M of each of t distributions.
    delta : float
        Failure probability.
    t : int, default=1
        Number of distributions.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import second_moment_error_bound
    >>> round(second_moment_error_bound(10**4, 0.01), 4)
    0.0315
    """
    check_positive(n_samples=n_samples, t=t)
    check_probability(delta=delta)
    return float(t * (1 + np.sqrt(np.log(1 / delta))) / np.sqrt(n_samples))


@formula
def second_moment_plan(
    d: int, epsilon: float, delta: float, rho: float, t: int = 1, scheme: str = "grid"
) -> SamplePlan:
    """Samples and bin width for both promises of Theorem 3.3, of order d^4 instead of d^8.

    The smallest N for which some width alpha has d alpha / 2 + :func:`second_moment_error_bound` <= eps
    and :func:`second_moment_disagreement_bound` <= rho:
    N = t^2 ((d sqrt(d (d + 3) / 8) / rho + 1 + sqrt(log(1/delta))) / eps)^2. On the lattice, which
    rounds the matrix in coordinates with the Frobenius norm, the first term is multiplied by
    (d + 1) / sqrt(d (d + 3)) and the square root of :func:`lattice_rows` in d (d + 1) / 2 dimensions.

    Parameters
    ----------
    d : int
        Number of features.
    epsilon, delta, rho : float
        Accuracy in Frobenius norm, failure probability, replicability parameter.
    t : int, default=1
        Number of distributions.
    scheme : {"grid", "lattice"}
        How the matrix is rounded.

    Returns
    -------
    SamplePlan

    Examples
    --------
    >>> from rrl.theory import second_moment_plan
    >>> f"{second_moment_plan(8, 0.1, 0.01, 0.1).n_samples:.2g}"
    '7.2e+06'
    """
    check_positive(d=d, epsilon=epsilon)
    check_probability(rho=rho)
    apart = second_moment_disagreement_bound(d, 1, rho, t)
    if scheme != "grid":
        apart *= (d + 1) / np.sqrt(d * (d + 3)) * fewer_cuts(d * (d + 1) // 2, scheme)
    root = (d * apart / 2 + second_moment_error_bound(1, delta, t)) / epsilon
    return SamplePlan(float(root**2), float(apart / root))
