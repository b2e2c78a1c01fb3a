"""Stopping early: stages, their shares of rho, and radii that hold for every number of rows (chapter 12)."""

from __future__ import annotations

import math
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._checks import as_float64, check_non_negative, check_positive, check_probability, check_size, real
from ._formula import formula
from .lattice import cell_surface
from .sharper import ridge_disagreement_bound, ridge_weight_bound

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "StoppingStages",
    "mean_rows_bound",
    "mean_vector_radius",
    "ridge_gradient_radius",
    "ridge_last_stage",
    "stopping_stages",
]


class StoppingStages(NamedTuple):
    """Stages of a run that may stop early.

    Attributes
    ----------
    sizes : tuple of int
        Rows up to the end of each stage, each `ratio` times the one before.
    miss : float
        Probability with which the radius of one early stage of one run may fail.
    """

    sizes: tuple
    miss: float


@formula
def stopping_stages(n_last: float, n_first: float, rho: float, early: float = 0.1, ratio: int = 4) -> StoppingStages:
    """Stages from `n_first` rows or a little more up to `n_last`, and the failure probability of each radius.

    Two runs differ with probability at most 2 miss (stages - 1), which is early rho, plus what the
    last stage adds.

    Parameters
    ----------
    n_last : float
        Rows of the last stage, at least.
    n_first : float
        Fewest rows with which a run may stop.
    rho : float
        Replicability parameter of the whole.
    early : float, default=0.1
        Share of rho for the early stages. Rows grow like (1 - early)^-2 through the last stage, and
        like log(1 / early) through the radii.
    ratio : int, default=4
        Of the sizes of neighbouring stages, at least 2.

    Returns
    -------
    StoppingStages

    Examples
    --------
    >>> from rrl.theory import stopping_stages
    >>> stages = stopping_stages(1000, 20, rho=0.1)
    >>> stages.sizes, round(stages.miss, 4)
    ((63, 252, 1008), 0.0025)
    """
    check_positive(n_last=n_last, n_first=n_first)
    n_first = max(1.0, n_first)
    check_probability(rho=rho, early=early)
    check_ratio(ratio)
    early_stages = 0
    while n_last / ratio ** (early_stages + 1) >= n_first:
        early_stages += 1
    base = math.ceil(n_last / ratio**early_stages)
    return StoppingStages(
        tuple(base * ratio**k for k in range(early_stages + 1)), early * rho / (2 * max(early_stages, 1))
    )


def check_ratio(ratio: Any) -> None:
    """Refuse a ratio of stages that is no integer >= 2."""
    if not isinstance(ratio, Integral) or isinstance(ratio, bool) or not 2 <= real(ratio) < 2**63:
        raise ValueError(f"ratio must be an integer of at least 2, got {ratio!r}")


@formula
def mean_rows_bound(sizes: Any, radii: Any, d: int, bin_width: float, scheme: str = "grid") -> float:
    """Bound on the mean number of rows of a run that stops early.

    A ball of radius r around an estimate meets another cell with probability at most r times
    :func:`cell_surface`, over the shared offsets, and so does a cube of half-width r on the grid; stage
    k + 1 is drawn only then.

    Parameters
    ----------
    sizes : sequence of float
        Rows up to the end of each stage.
    radii : sequence of float
        Radius, or on the grid half-width, of each early stage: one less than `sizes`.
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
    >>> from rrl.theory import mean_rows_bound
    >>> mean_rows_bound([100, 400, 1600], [0.01, 0.005], d=2, bin_width=0.1)
    460.0
    """
    sizes, radii = as_float64("sizes", sizes), as_float64("radii", radii)
    if sizes.ndim != 1 or radii.shape != (sizes.size - 1,):
        raise ValueError(f"radii must be one fewer than sizes, got {radii.size} and {sizes.size}")
    if not (np.isfinite(sizes).all() and (np.diff(sizes, prepend=0) > 0).all() and (radii >= 0).all()):
        raise ValueError(f"sizes must increase from above 0 and radii be >= 0, got {sizes!r} and {radii!r}")
    with np.errstate(over="ignore"):
        go_on = np.minimum(1, radii * cell_surface(d, bin_width, scheme))
    return float(sizes[0] + np.diff(sizes) @ go_on)


@formula
def mean_vector_radius(n_samples: float, delta: float, variance: float, size: float) -> float:
    """Distance of a mean of independent vectors from its expectation, exceeded with probability at most delta.

    Bernstein's inequality in a Euclidean space of any dimension, after Pinelis:
    (log(2/delta) b / 3 + sqrt((log(2/delta) b / 3)^2 + 2 N v log(2/delta))) / N.

    Parameters
    ----------
    n_samples : float
        Number of vectors N.
    delta : float
        Failure probability.
    variance : float
        v, at least the mean of the expected squared distances of the vectors from their expectations.
    size : float
        b, at least every distance of a vector from its expectation.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import mean_vector_radius
    >>> round(mean_vector_radius(10_000, 0.01, 1.0, 1.0), 4)
    0.0327
    """
    check_positive(n_samples=n_samples, variance=variance, size=size)
    check_probability(delta=delta)
    log = np.log(2 / delta)
    tail = log * size / 3
    return float((tail + np.sqrt(tail**2 + 2 * n_samples * variance * log)) / n_samples)


@formula
def ridge_gradient_radius(
    n_samples: float, delta: float, penalty: float, label_bound: float = 1.0, target_norm: float | None = None
) -> float:
    """Distance r such that ridge weights miss their target by (G + penalty I)^-1 v with norm(v) <= r.

    G is the Gram matrix of the same rows, which the run knows. :func:`mean_vector_radius` of
    x (y - x'theta), with variance Y^2 and size Y + norm(theta) + min(penalty norm(theta), Y), theta
    the target; exceeded with probability at most delta.

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
        Norm of the target; by default :func:`ridge_weight_bound`.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import ridge_gradient_radius
    >>> round(ridge_gradient_radius(10**6, 0.01, 0.1), 5)
    0.00326
    """
    check_positive(penalty=penalty, label_bound=label_bound)
    if target_norm is None:
        target_norm = ridge_weight_bound(label_bound, penalty)
    check_non_negative(target_norm=target_norm)
    size = label_bound + target_norm + min(penalty * target_norm, label_bound)
    return mean_vector_radius(n_samples, delta, label_bound**2, size)


@formula
def ridge_last_stage(
    d: int,
    bin_width: float,
    rho: float,
    penalty: float,
    label_bound: float = 1.0,
    scheme: str = "grid",
    early: float = 0.1,
) -> tuple[float, float]:
    """Rows of the last stage, and rows without stopping, for ridge regression at a given bin width.

    A run that stops early publishes the target's cell, so the target and both estimates of the last
    stage have to be in one cell: with probability 1 - (1 + 1/sqrt(2)) rate Y / (penalty sqrt(N)),
    where only the two estimates have to be, 1 - sqrt(2) rate Y / (penalty sqrt(N)); rate is
    :func:`cut_rate` in the worst direction.

    Parameters
    ----------
    d : int
        Number of features.
    bin_width : float
        The paper's alpha.
    rho : float
        Replicability parameter.
    penalty : float
        The paper's lambda, average form.
    label_bound : float, default=1
        The paper's Y.
    scheme : {"grid", "lattice"}
        How the weights are rounded.
    early : float, default=0.1
        Share of rho for the early stages.

    Returns
    -------
    (float, float)

    Examples
    --------
    >>> from rrl.theory import ridge_last_stage
    >>> last, fixed = ridge_last_stage(4, 0.1, 0.01, 0.1)
    >>> f"{last:.2g} {fixed:.2g}"
    '1.4e+09 8e+08'
    """
    check_size("d", d)
    check_positive(bin_width=bin_width)
    check_probability(rho=rho, early=early)
    # Of the grid; the lattice is cut less often, by the ratio of the surfaces.
    bound = ridge_disagreement_bound(d, 1, bin_width, penalty, label_bound)
    bound *= cell_surface(d, 1.0, scheme) / cell_surface(d, 1.0)
    three = (1 + np.sqrt(2)) / 2
    return float((three * bound / ((1 - early) * rho)) ** 2), float((bound / rho) ** 2)
