"""What follows from the rounding error being uniform in its cell and independent of the data (chapter 12).

So it is sqrt(d / 12) alpha rather than sqrt(d) alpha / 2, adds to the error of estimation by
Pythagoras rather than by the triangle inequality, and is short along any direction fixed in advance.
"""

from __future__ import annotations

import numpy as np

from .._checks import check_positive, check_probability, check_size
from ._formula import formula
from .lattice import shadow
from .sharper import (
    SamplePlan,
    ridge_disagreement_bound,
    ridge_error_bound,
    ridge_plan,
    second_moment_disagreement_bound,
    second_moment_error_bound,
    second_moment_plan,
)

__all__ = [
    "prediction_rounding_error",
    "ridge_plan_uniform",
    "rotation_limits",
    "second_moment_plan_uniform",
    "typical_rounding_error",
]


def _bernstein(mean, variance, largest, log):
    """Limit that a sum of independent terms, each at most `largest` above its mean, exceeds with chance exp(-log)."""
    tail = largest * log / 3
    return mean + tail + np.sqrt(tail**2 + 2 * variance * log)


@formula
def typical_rounding_error(d: int, delta: float, bin_width: float) -> float:
    """Norm that the rounding error of Algorithm 1 exceeds with probability at most delta.

    alpha sqrt(d / 12 + log(1/delta) / 18 + sqrt((log(1/delta) / 18)^2 + d log(1/delta) / 90)), and
    never more than the worst case sqrt(d) alpha / 2: the squares of the entries are independent, with
    mean alpha^2 / 12 and variance alpha^4 / 180 (Bernstein). For the infinite grid, whatever the data.

    Parameters
    ----------
    d : int
        Number of entries.
    delta : float
        Failure probability over the shared offsets.
    bin_width : float
        The paper's alpha.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import typical_rounding_error
    >>> round(typical_rounding_error(64, 0.01, 1.0), 2)  # the worst case is 4
    2.72
    """
    check_size("d", d)
    check_probability(delta=delta)
    check_positive(bin_width=bin_width)
    square = _bernstein(d / 12, d / 180, 1 / 6, np.log(1 / delta))
    return float(np.sqrt(min(square, d / 4)) * bin_width)


@formula
def prediction_rounding_error(n_points: int, delta: float, bin_width: float) -> float:
    """Largest abs(x'e) at `n_points` points of norm at most 1, exceeded with probability at most delta.

    alpha sqrt(log(2 n_points / delta) / 6), for e the rounding error of Algorithm 1 and points that do
    not depend on the shared offsets: a uniform entry has no heavier tails than a normal one of its own
    variance alpha^2 / 12. The dimension does not appear.

    Parameters
    ----------
    n_points : int
        Number of points.
    delta : float
        Failure probability over the shared offsets.
    bin_width : float
        The paper's alpha.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import prediction_rounding_error
    >>> round(prediction_rounding_error(1000, 0.01, 1.0), 2)
    1.43
    """
    check_size("n_points", n_points)
    check_probability(delta=delta)
    check_positive(bin_width=bin_width)
    return float(np.sqrt(np.log(2 * n_points / delta) / 6) * bin_width)


def _sum_plan(apart, error, square, cross, epsilon, other):
    """The N at which error^2 + square apart^2 + 2 cross error apart, all over N, is epsilon^2; `other` if that is less.

    `apart` is the bin width for rho times sqrt(N), `error` the estimation error times sqrt(N).
    """
    n_samples = (error**2 + square * apart**2 + 2 * cross * error * apart) / epsilon**2
    return min(SamplePlan(float(n_samples), float(apart / np.sqrt(n_samples))), other)


@formula
def ridge_plan_uniform(
    d: int,
    epsilon: float,
    delta: float,
    rho: float,
    penalty: float,
    label_bound: float = 1.0,
    target_norm: float | None = None,
    n_points: int | None = None,
) -> SamplePlan:
    """Samples and bin width as :func:`ridge_plan`, with the rounding error as the uniform noise that it is.

    delta is shared out among the error of estimation, the norm of the rounding error
    (:func:`typical_rounding_error`) and the product of the two, which is small because the second does
    not depend on the first. With `n_points`, epsilon is the accuracy of the predictions at so many
    points of norm at most 1 (:func:`prediction_rounding_error`), and N grows like d instead of d^2.
    Never more than :func:`ridge_plan`.

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
    n_points : int, optional
        Number of points at which predictions count; by default the norm of the weights counts.

    Returns
    -------
    SamplePlan

    Examples
    --------
    >>> from rrl.theory import ridge_plan, ridge_plan_uniform
    >>> for options in ({}, {"n_points": 1000}):
    ...     plan = ridge_plan_uniform(64, 0.1, 0.01, 0.01, 0.1, **options)
    ...     print(f"{ridge_plan(64, 0.1, 0.01, 0.01, 0.1).n_samples / plan.n_samples:.4f}")
    2.0845
    7.3874
    """
    check_positive(epsilon=epsilon)
    check_probability(rho=rho)
    other = ridge_plan(d, epsilon, delta, rho, penalty, label_bound, target_norm)
    apart = ridge_disagreement_bound(d, 1, rho, penalty, label_bound)
    if n_points is not None:
        error = ridge_error_bound(1, delta / 2, penalty, label_bound, target_norm)
        # abs(x'v + x'e) adds up by the triangle inequality.
        along = prediction_rounding_error(n_points, delta / 2, 1.0)
        return _sum_plan(apart, error, along**2, along, epsilon, other)
    error = ridge_error_bound(1, delta / 3, penalty, label_bound, target_norm)
    square = typical_rounding_error(d, delta / 3, 1.0) ** 2
    return _sum_plan(apart, error, square, np.sqrt(np.log(3 / delta) / 6), epsilon, other)


@formula
def second_moment_plan_uniform(d: int, epsilon: float, delta: float, rho: float, t: int = 1) -> SamplePlan:
    """Samples and bin width as :func:`second_moment_plan`, with the rounding error as the uniform noise that it is.

    As in :func:`ridge_plan_uniform`; an entry off the diagonal counts twice in the Frobenius norm.
    Never more than :func:`second_moment_plan`.

    Parameters
    ----------
    d : int
        Number of features.
    epsilon, delta, rho : float
        Accuracy in Frobenius norm, failure probability, replicability parameter.
    t : int, default=1
        Number of distributions.

    Returns
    -------
    SamplePlan

    Examples
    --------
    >>> from rrl.theory import second_moment_plan, second_moment_plan_uniform
    >>> plan = second_moment_plan_uniform(16, 0.1, 0.01, 0.01)
    >>> f"{second_moment_plan(16, 0.1, 0.01, 0.01).n_samples / plan.n_samples:.4f}"
    '2.3189'
    """
    check_positive(epsilon=epsilon)
    check_probability(rho=rho)
    other = second_moment_plan(d, epsilon, delta, rho, t)
    apart = second_moment_disagreement_bound(d, 1, rho, t)
    error = second_moment_error_bound(1, delta / 3, t)
    log = np.log(3 / delta)
    square = min(_bernstein(d**2 / 12, (2 * d**2 - d) / 180, 1 / 3, log), d**2 / 4)
    return _sum_plan(apart, error, square, np.sqrt(log / 3), epsilon, other)


@formula
def rotation_limits(d: int) -> tuple[float, float]:
    """What a shared random rotation before the grid does to disagreement: the factors at best and at worst.

    Two estimates a small distance apart are then cut at the mean rate over all directions,
    2 omega_(d-1) / (omega_d alpha), whatever their direction was; without it at the sum of the absolute
    entries of the direction, over alpha. The best case, sqrt(2 / pi) in high dimension, is a difference
    spread evenly over all entries; the worst, sqrt(2 d / pi), one in a single entry.

    Parameters
    ----------
    d : int
        Dimension.

    Returns
    -------
    (float, float)

    Examples
    --------
    >>> from rrl.theory import rotation_limits
    >>> [round(factor, 2) for factor in rotation_limits(64)]
    [0.8, 6.41]
    """
    check_size("d", d)
    mean = 2 * shadow(d)
    return mean / np.sqrt(d).item(), mean
