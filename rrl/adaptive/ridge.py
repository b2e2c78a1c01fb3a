"""Replicable ridge regression that draws no more rows than it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_float64, check_bin_width, check_finite, check_penalty, check_positive, check_shared, check_size
from ..replicability import fingerprint
from ..ridge import ridge_weights
from ..theory.lattice import cell_inradius
from ..theory.linear import ridge_weight_bound
from ..theory.stopping import check_ratio, ridge_gradient_radius, ridge_last_stage, stopping_stages
from .rounding import adaptive_round

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["AdaptiveRidgeResult", "adaptive_ridge"]


@dataclass(frozen=True, eq=False)
class AdaptiveRidgeResult:
    """Result of :func:`adaptive_ridge`.

    Attributes
    ----------
    coef : ndarray, shape (d,)
        Rounded weights.
    unrounded_coef : ndarray, shape (d,)
        Plain ridge weights of the rows that were drawn.
    codes : ndarray of int64, shape (d,)
        What two runs compare.
    n_samples : int
        Rows drawn.
    n_stages : int
        Stages used.
    settled : bool
        Whether the run stopped because no edge was near.
    fixed_samples : float
        Rows that the same bound asks for without stopping.
    """

    coef: np.ndarray
    unrounded_coef: np.ndarray
    codes: np.ndarray
    n_samples: int
    n_stages: int
    settled: bool
    fixed_samples: float

    def fingerprint(self) -> str:
        """SHA-256 of the codes."""
        return fingerprint(self.codes)


def adaptive_ridge(
    draw: Callable[..., Any],
    d: int,
    *,
    penalty: float,
    bin_width: float,
    rho: float,
    label_bound: float = 1.0,
    target_norm: float | None = None,
    shared_seed: int = 0,
    key: tuple = (),
    scheme: str = "grid",
    early: float = 0.1,
    ratio: int = 4,
) -> AdaptiveRidgeResult:
    """Ridge regression of :class:`rrl.ReplicableRidge` that stops as soon as its weights' cell is settled.

    Two runs on independent rows of one distribution have different codes with probability at most
    `rho`, if every row has norm at most 1 and ``abs(y) <= label_bound`` (neither is checked). The
    mean number of rows grows like 1 / rho, where a fixed number grows like 1 / rho^2. The radius of a
    stage comes from :func:`rrl.theory.ridge_gradient_radius` and the Gram matrix of the rows.

    Parameters
    ----------
    draw : callable
        ``draw(n)`` returns X, y or X, y, sample_weight: `n` fresh rows, independent of all others, or
        their distinct rows and how often each occurred.
    d : int
        Number of features.
    penalty : float
        The paper's lambda > 0, average form.
    bin_width : float
        The paper's alpha.
    rho : float
        Replicability parameter.
    label_bound : float, default=1
        The paper's Y.
    target_norm : float, optional
        Norm of the minimiser of the expected objective, or a bound on it; by default
        :func:`rrl.theory.ridge_weight_bound`.
    shared_seed : int, default=0
        The paper's random string r.
    key : tuple, default=()
        Name of this estimator where several share one seed.
    scheme : {"grid", "lattice"}, default="grid"
        How the weights are rounded.
    early : float, default=0.1
        Share of rho for stopping early.
    ratio : int, default=4
        Of the numbers of rows of neighbouring stages.

    Returns
    -------
    AdaptiveRidgeResult

    Raises
    ------
    ValueError
        If an argument is out of its range, or `draw` returns other shapes or another number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import adaptive_ridge
    >>> def lab(seed):
    ...     rng = np.random.default_rng(seed)
    ...     def draw(n):  # unit inputs e_1, e_2 with labels -1 and 1
    ...         return np.repeat(np.eye(2), 2, axis=0), [-1, 1, -1, 1], rng.multinomial(n, [0.1, 0.4, 0.3, 0.2])
    ...     return adaptive_ridge(draw, 2, penalty=0.1, bin_width=0.2, rho=0.01, shared_seed=3)
    >>> one, two = lab(1), lab(2)
    >>> bool((one.codes == two.codes).all()), one.fixed_samples > 50 * one.n_samples
    (True, True)
    """
    check_size("d", d)
    check_penalty(penalty)
    check_positive(penalty=penalty, label_bound=label_bound)
    width = check_bin_width(bin_width, ())
    check_shared(shared_seed, key)
    check_ratio(ratio)
    if target_norm is None:
        target_norm = ridge_weight_bound(label_bound, penalty)
    sizes, miss, fixed = _sizes(d, width, rho, penalty, label_bound, target_norm, scheme, early, ratio)
    if not callable(draw):
        raise TypeError(f"draw must be a function of the number of rows, got {draw!r}")
    drawn, newest = 0, np.zeros(d)

    def stages():
        nonlocal drawn, newest
        gram, moment = np.zeros((d, d)), np.zeros(d)
        for size in sizes:
            more_gram, more_moment = _sums(draw, size - drawn, d)
            gram, moment, drawn = gram + more_gram, moment + more_moment, size
            newest = ridge_weights(gram / size, moment / size, penalty)
            # The error is this matrix times a vector of at most the radius' length.
            inverse = np.linalg.inv(gram / size + penalty * np.eye(d))
            stretch = np.linalg.norm(inverse, axis=1) if scheme == "grid" else np.linalg.norm(inverse, 2)
            yield newest, stretch * ridge_gradient_radius(size, miss, penalty, label_bound, target_norm)

    result = adaptive_round(stages(), width, shared_seed=shared_seed, key=("ridge", key), scheme=scheme)
    return AdaptiveRidgeResult(result.values, newest, result.codes, drawn, result.n_stages, result.settled, fixed)


def _sizes(d, bin_width, rho, penalty, label_bound, target_norm, scheme, early, ratio):
    """Rows up to each stage, failure of a stage's radius, rows without stopping."""
    last, fixed = ridge_last_stage(d, bin_width, rho, penalty, label_bound, scheme, early)
    reach = cell_inradius(d, bin_width, scheme) * (penalty + 1 / d)
    first = 1
    # The trace of the Gram matrix is at most 1, so with fewer rows no radius fits into a cell.
    while ridge_gradient_radius(first, early * rho / 2, penalty, label_bound, target_norm) > reach and first < last:
        first *= 2
    sizes, miss = stopping_stages(last if last / ratio >= first else fixed, first, rho, early, ratio)
    return sizes, miss, fixed


def _sums(draw, n, d):
    """X'X and X'y of n fresh rows."""
    drawn = draw(n)
    if not isinstance(drawn, (tuple, list)) or len(drawn) not in (2, 3):
        raise ValueError(f"draw must return X, y or X, y, sample_weight, got {type(drawn).__name__}")
    X, y, *weight = drawn
    X, y = as_float64("X", X), as_float64("y", y)
    if X.ndim != 2 or X.shape[1] != d or y.shape != X.shape[:1]:
        raise ValueError(f"draw must return X of shape (rows, {d}) and y of shape (rows,), got {X.shape} and {y.shape}")
    weight = as_float64("sample_weight", weight[0]) if weight else np.ones(len(X))
    # Large counts are rounded on their way to floats.
    if weight.shape != y.shape or not (weight >= 0).all() or abs(weight.sum() - n) > 1e-12 * n:
        raise ValueError(f"draw({n}) must return {n} rows, got {weight.sum():g} in {len(X)} rows")
    weighted = X * weight[:, None]
    gram, moment = weighted.T @ X, weighted.T @ y
    check_finite("X'X", gram)
    check_finite("X'y", moment)
    return gram, moment
