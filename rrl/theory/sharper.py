"""Bounds that are sharper than the paper's, derived in chapter 12 of the book.

Each holds for every distribution that meets the paper's assumption, with every constant explicit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_float64, check_positive, check_probability
from ._formula import formula
from ._plan import SamplePlan, fewer_cuts
from .linear import ridge_weight_bound
from .sharper_moments import second_moment_disagreement_bound, second_moment_error_bound, second_moment_plan

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "SamplePlan",
    "design_plan",
    "ridge_disagreement_bound",
    "ridge_error_bound",
    "ridge_plan",
    "second_moment_disagreement_bound",
    "second_moment_error_bound",
    "second_moment_plan",
    "unequal_bin_widths",
]


@formula
def ridge_disagreement_bound(
    d: int, n_samples: float, bin_width: float, penalty: float, label_bound: float = 1.0
) -> float:
    """Bound on the probability that two rounded ridge regressions differ, sqrt(2 d) Y / (alpha lambda sqrt(N)).

    From the mean distance of two estimates, so it needs neither B nor delta.

    Parameters
    ----------
    d : int
        Number of features.
    n_samples : float
        The paper's N.
    bin_width, penalty : float
        The paper's alpha and lambda, average form.
    label_bound : float, default=1
        The paper's Y.

    Returns
    -------
    float
        Not clipped at 1.

    Examples
    --------
    >>> from rrl.theory import ridge_disagreement_bound
    >>> round(ridge_disagreement_bound(2, 10**6, 0.2, 0.1), 12)
    0.1
    """
    check_positive(d=d, n_samples=n_samples, bin_width=bin_width, penalty=penalty, label_bound=label_bound)
    return float(np.sqrt(2 * d / n_samples) * label_bound / (bin_width * penalty))


@formula
def ridge_error_bound(
    n_samples: float, delta: float, penalty: float, label_bound: float = 1.0, target_norm: float | None = None
) -> float:
    """Distance of ridge weights to their target that is exceeded with probability at most delta.

    (Y + (norm(theta) + Y) sqrt(2 log(1/delta))) / (lambda sqrt(N)) with theta the target: the gradient
    is needed there only, so no supremum over a ball is taken and the dimension does not appear.

    Parameters
    ----------
    n_samples : float
        The paper's N.
    delta : float
        Failure probability.
    penalty : float
        The paper's lambda, average form.
    label_bound : float, default=1
        The paper's Y.
    target_norm : float, optional
        Norm of the minimiser of the expected objective; by default :func:`ridge_weight_bound`.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import ridge_error_bound
    >>> round(ridge_error_bound(10**6, 0.01, 0.1), 4)
    0.0883
    """
    check_positive(n_samples=n_samples, penalty=penalty, label_bound=label_bound)
    check_probability(delta=delta)
    if target_norm is None:
        target_norm = ridge_weight_bound(label_bound, penalty)
    check_positive(target_norm=target_norm)
    tail = (target_norm + label_bound) * np.sqrt(2 * np.log(1 / delta))
    return float((label_bound + tail) / (penalty * np.sqrt(n_samples)))


@formula
def ridge_plan(
    d: int,
    epsilon: float,
    delta: float,
    rho: float,
    penalty: float,
    label_bound: float = 1.0,
    target_norm: float | None = None,
    scheme: str = "grid",
) -> SamplePlan:
    """Samples and bin width for both promises of Theorem 3.1, without its uniform convergence.

    The smallest N for which some width alpha has sqrt(d) alpha / 2 + :func:`ridge_error_bound` <= eps
    and :func:`ridge_disagreement_bound` <= rho:
    N = ((d Y / (sqrt(2) rho) + Y + (norm(theta) + Y) sqrt(2 log(1/delta))) / (lambda eps))^2.
    Of order d^2 instead of d^3; rho > 2 delta is not needed. On the lattice the first term is
    multiplied by the square root of :func:`lattice_rows`.

    Parameters
    ----------
    d : int
        Number of features.
    epsilon, delta, rho : float
        Accuracy, failure probability, replicability parameter.
    penalty : float
        The paper's lambda, average form.
    label_bound : float, default=1
        The paper's Y.
    target_norm : float, optional
        As in :func:`ridge_error_bound`.
    scheme : {"grid", "lattice"}
        How the weights are rounded.

    Returns
    -------
    SamplePlan

    Examples
    --------
    >>> from rrl.theory import ridge_plan, ridge_sample_size
    >>> plan = ridge_plan(4, 0.1, 0.01, 0.1, penalty=0.1)
    >>> f"{plan.n_samples:.2g}, {plan.bin_width:.3f}"
    '1.4e+07, 0.076'
    >>> f"{ridge_sample_size(4, 0.1, 0.01, 0.1, penalty=0.1):.2g}"
    '9e+10'
    """
    check_positive(d=d, epsilon=epsilon)
    check_probability(rho=rho)
    # The width for rho, times sqrt(N).
    apart = ridge_disagreement_bound(d, 1, rho, penalty, label_bound) * fewer_cuts(d, scheme)
    error = ridge_error_bound(1, delta, penalty, label_bound, target_norm)
    root = (np.sqrt(d) * apart / 2 + error) / epsilon
    return SamplePlan(float(root**2), float(apart / root))


@formula
def design_plan(
    d: int,
    k: float,
    epsilon: float,
    delta: float,
    rho: float,
    label_bound: float = 1.0,
    coordinate_sum: float | None = None,
) -> SamplePlan:
    """Samples and bin width for Theorem 3.2's promise by least squares in the design's coordinates.

    N = max(2 k (c d Y)^2 / (eps rho)^2, 4 k d Y^2 (1 + sqrt(2 log(1/delta)))^2 / eps^2) with
    alpha = eps / c (chapter 4 of the book): no lambda, no norm of theta*. Rounding moves a prediction
    by at most c alpha / 2, where c is the largest sum of a point's absolute coordinates.

    Parameters
    ----------
    d : int
        Number of features.
    k : float
        Core-set constant of Definition 3.1; d for an optimal design.
    epsilon, delta, rho : float
        Accuracy of every prediction, failure probability, replicability parameter.
    label_bound : float, default=1
        The paper's Y.
    coordinate_sum : float, optional
        c, by default sqrt(d), which is enough for points of norm at most 1; 1 for one-hot features and
        others in the simplex with its vertices as the design.

    Returns
    -------
    SamplePlan

    Examples
    --------
    >>> from rrl.theory import design_plan
    >>> f"{design_plan(4, 4, 0.5, 0.01, 0.1).n_samples:.3g}"
    '2.05e+05'
    >>> f"{design_plan(4, 4, 0.5, 0.01, 0.1, coordinate_sum=1.0).n_samples:.3g}"
    '5.12e+04'
    """
    check_positive(d=d, k=k, epsilon=epsilon, label_bound=label_bound)
    check_probability(delta=delta, rho=rho)
    if coordinate_sum is None:
        coordinate_sum = float(np.sqrt(d))
    check_positive(coordinate_sum=coordinate_sum)
    noise = k * d * (label_bound / epsilon) ** 2
    tail = (1 + np.sqrt(2 * np.log(1 / delta))) ** 2
    rounding = 2 * d * (coordinate_sum / rho) ** 2
    return SamplePlan(float(noise * max(rounding, 4 * tail)), float(epsilon / coordinate_sum))


@formula
def unequal_bin_widths(spread: ArrayLike, bin_width: float) -> np.ndarray:
    """One bin width for each entry, for the fewest disagreements at a given rounding error.

    alpha_i is proportional to spread_i^(1/3), scaled so that sum alpha_i^2 = d alpha^2: the worst
    rounding error is that of equal widths alpha, and sum spread_i / alpha_i is the least possible.

    Parameters
    ----------
    spread : array_like, shape (d,)
        Standard deviation of each entry, or any multiple of it, > 0. It must be shared, never
        computed from one run's data.
    bin_width : float
        The equal width alpha that is replaced.

    Returns
    -------
    ndarray, shape (d,)

    Raises
    ------
    ValueError
        If a spread or the width is not positive and finite.

    Examples
    --------
    >>> from rrl.theory import unequal_bin_widths
    >>> unequal_bin_widths([1.0, 1.0], 0.5)
    array([0.5, 0.5])
    >>> widths = unequal_bin_widths([8.0, 1.0], 0.5)
    >>> float((widths[0] / widths[1]).round(12)), float((widths**2).sum().round(12))
    (2.0, 0.5)
    """
    check_positive(bin_width=bin_width)
    root = np.cbrt(as_float64("spread", spread))
    if root.ndim != 1 or root.size == 0 or not (np.isfinite(root).all() and (root > 0).all()):
        raise ValueError(f"spread must be a vector of positive finite numbers, got {spread!r}")
    return bin_width * root / np.sqrt(np.mean(root**2))
