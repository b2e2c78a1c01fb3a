"""Definition 3.1: small sets of features that represent all others, each with its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ._checks import as_float64, check_finite, check_integer, check_positive, check_version, real

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = ["CoreSet", "barycentric_spanner", "core_set_constant", "g_optimal_design"]


@dataclass(frozen=True, eq=False)
class CoreSet:
    """Points that represent all others, and how often to sample each.

    Attributes
    ----------
    indices : ndarray of int64, shape (m,)
        Rows of ``features.reshape(-1, d)``, ascending: s A + a for the pair (s, a) of a LinearMDP.
    weights : ndarray, shape (m,)
        The paper's nu: positive, sums to 1.
    certificate : float
        What the construction guarantees: for a design the largest leverage x' A(nu)^+ x, at most
        (1 + tolerance) times the dimension of the span; for a spanner the largest coefficient, at most
        its bound.
    """

    indices: np.ndarray
    weights: np.ndarray
    certificate: float


def core_set_constant(core: CoreSet, features: ArrayLike, *, version: str = "corrected") -> float:
    """The smallest k for which a core set satisfies Definition 3.1.

    k is the largest, over all x, of the smallest norm(eta)^2 that represents x. Corrected:
    x = sum of sqrt(nu_i) eta_i x_i, so k is the largest leverage, at least the rank r and r for the
    G-optimal design. Printed: x = sum of nu_i eta_i x_i, which forces k >= r^2 (erratum E5).

    Parameters
    ----------
    core : CoreSet
        Indices and weights.
    features : array_like, shape (..., d)
        The points.
    version : {"corrected", "printed"}
        Which representation.

    Returns
    -------
    float
        k, or infinity where the core set does not span the points.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import core_set_constant, g_optimal_design
    >>> points = np.eye(3)
    >>> core = g_optimal_design(points)
    >>> round(core_set_constant(core, points), 9), round(core_set_constant(core, points, version="printed"), 9)
    (3.0, 9.0)
    """
    check_version(version)
    rows = _span(features)
    check_core_set(core, len(rows))
    weights = np.asarray(core.weights)
    used = weights > 0
    points, weights = rows[np.asarray(core.indices)[used]], weights[used]
    # What is small beside the largest point is no direction, as in the rank of all points.
    noise = max(rows.shape) * np.finfo(float).eps * np.linalg.norm(rows, 2)
    if np.linalg.matrix_rank(points, tol=noise) < rows.shape[1]:
        return float("inf")
    power = 1 if version == "corrected" else 2
    return float(_leverages(rows, points, weights**power)[1].max())


def g_optimal_design(features: ArrayLike, *, tolerance: float = 1e-3, max_iterations: int = 100_000) -> CoreSet:
    """Approximate G-optimal design by Frank-Wolfe with away steps (Todd and Yildirim).

    Maximises log det A(nu), A(nu) = sum of nu_i x_i x_i'. By Kiefer and Wolfowitz the optimum has
    largest leverage max x' A^-1 x = r, the rank; it stops when the leverage is at most
    (1 + tolerance) r. A Caratheodory step then leaves at most r (r + 1) / 2 rows.

    Parameters
    ----------
    features : array_like, shape (..., d)
        The points; any rank.
    tolerance : float, default=1e-3
        Relative slack in the largest leverage, positive.
    max_iterations : int, default=100000
        Steps before giving up.

    Returns
    -------
    CoreSet
        The certificate is the largest leverage: the corrected core-set constant of Definition 3.1.

    Raises
    ------
    RuntimeError
        If the steps run out.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import g_optimal_design
    >>> core = g_optimal_design(np.eye(3))
    >>> core.indices, round(core.certificate, 9)
    (array([0, 1, 2]), 3.0)
    """
    check_positive(tolerance=tolerance)
    check_integer(1, max_iterations=max_iterations)
    rows = _span(features)
    rank = rows.shape[1]
    start = barycentric_spanner(rows).indices
    weights = np.zeros(len(rows))
    weights[start] = 1 / rank
    for iteration in range(max_iterations):
        # The rank-one updates below lose digits, so the leverages are recomputed now and then.
        if iteration % 200 == 0:
            inverse, leverage = _leverages(rows, rows, weights)
        best = _first_largest(leverage)
        used = np.flatnonzero(weights)
        worst = used[_first_largest(-leverage[used])]
        if leverage[best] <= (1 + tolerance) * rank:
            break
        # The exact line search moves weight towards the largest leverage or away from the smallest used.
        away = rank - leverage[worst] > leverage[best] - rank
        index = worst if away else best
        level = leverage[index]
        step = -np.inf if level <= 1 else (level - rank) / (rank * (level - 1))
        if away:
            step = max(step, -weights[index] / (1 - weights[index]))
        weights *= 1 - step
        weights[index] += step
        if away and weights[index] < 1e-15:
            weights[index] = 0.0
        move = inverse @ rows[index]
        factor = step / (1 - step + step * level)
        inverse = (inverse - factor * np.outer(move, move)) / (1 - step)
        leverage = (leverage - factor * (rows @ move) ** 2) / (1 - step)
    else:
        raise RuntimeError(f"no design within tolerance={tolerance} after max_iterations={max_iterations} steps")
    weights = _reduce_support(rows, weights)
    used = np.flatnonzero(weights)
    leverage = _leverages(rows, rows[used], weights[used])[1]
    return CoreSet(used, weights[used], float(leverage.max()))


def barycentric_spanner(features: ArrayLike, *, bound: float = 1.01) -> CoreSet:
    """A basis of rows in which every row has coefficients of at most `bound` (Awerbuch and Kleinberg).

    Maximises the volume greedily, then swaps a row in while that multiplies the volume by more than
    `bound`. With equal weights the core-set constant is at most bound^2 r^2, r the rank.

    Parameters
    ----------
    features : array_like, shape (..., d)
        The points; any rank.
    bound : float, default=1.01
        Above 1.

    Returns
    -------
    CoreSet
        As many rows as the rank, equal weights; the certificate is the largest coefficient.

    Examples
    --------
    >>> from rrl import barycentric_spanner
    >>> core = barycentric_spanner([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    >>> core.indices, core.certificate
    (array([0, 2]), 1.0)
    """
    if not 1 < real(bound) < np.inf:
        raise ValueError(f"bound must be a number above 1, got {bound!r}")
    rows = _span(features)
    rank = rows.shape[1]
    chosen = np.empty(rank, dtype=np.int64)
    rest = rows.copy()
    for i in range(rank):
        chosen[i] = _first_largest((rest**2).sum(axis=1))
        direction = rest[chosen[i]] / np.linalg.norm(rest[chosen[i]])
        rest -= np.outer(rest @ direction, direction)
    while True:
        coefficients = np.linalg.solve(rows[chosen].T, rows.T)
        size = np.abs(coefficients)
        # A chosen row's own coefficient is 1, up to rounding error.
        if size.max() <= max(bound, 1 + 1e-9):
            break
        place, row = np.unravel_index(_first_largest(size.ravel()), size.shape)
        chosen[place] = row
    return CoreSet(np.sort(chosen), np.full(rank, 1 / rank), float(size.max()))


def check_core_set(core: Any, n_pairs: Any) -> None:
    """Refuse what is no CoreSet of `n_pairs` pairs."""
    if not isinstance(core, CoreSet):
        raise TypeError(f"core_set must be a CoreSet, got {core!r}")
    indices, weights = np.asarray(core.indices), as_float64("core_set.weights", core.weights)
    if indices.ndim != 1 or not indices.size or indices.dtype.kind not in "iu":
        raise ValueError(f"core_set.indices must be a vector of integers, got {core.indices!r}")
    if indices.min() < 0 or indices.max() >= n_pairs:
        raise ValueError(f"core_set.indices must lie in 0..{n_pairs - 1}, got {indices.min()} to {indices.max()}")
    if weights.shape != indices.shape or not (weights >= 0).all() or not abs(weights.sum() - 1) <= 1e-9:
        raise ValueError(f"core_set.weights must be {len(indices)} numbers >= 0 that sum to 1, got {core.weights!r}")


def _span(features):
    """Rows of the features in an orthonormal basis of their span, shape (n, r), up to a power of two.

    No result depends on the scale of the features, so the largest entry is brought to between 1/2 and 1.
    """
    features = as_float64("features", features)
    if features.ndim < 2 or 0 in features.shape:
        raise ValueError(f"features must have shape (..., d) with at least one row, got {features.shape}")
    check_finite("features", features)
    rows = features.reshape(-1, features.shape[-1])
    rows = np.ldexp(rows, -np.frexp(np.abs(rows).max())[1])
    _, scales, basis = np.linalg.svd(rows, full_matrices=False)
    rank = int((scales > scales[0] * max(rows.shape) * np.finfo(float).eps).sum()) if scales[0] > 0 else 0
    if rank == 0:
        raise ValueError("features are all zero: they have no core set")
    return rows @ basis[:rank].T


def _leverages(rows, points, weights):
    """Inverse of A(nu), the sum of nu_i x_i x_i' over the points, and the leverages x' A^-1 x of the rows."""
    inverse = np.linalg.inv((points * weights[:, None]).T @ points)
    return inverse, np.einsum("ni,ij,nj->n", rows, inverse, rows, optimize=True)


def _first_largest(values):
    """Index of the largest value; the first of those that differ by rounding error only."""
    return int(np.argmax(values >= values.max() - 1e-9 * np.abs(values).max()))


def _reduce_support(rows, weights):
    """Caratheodory: drop rows without changing the direction of A(nu), until r (r + 1) / 2 are left."""
    upper = np.triu_indices(rows.shape[1])
    size = len(upper[0])
    while np.count_nonzero(weights) > size:
        used = np.flatnonzero(weights)[: 2 * size]
        products = (rows[used][:, upper[0]] * rows[used][:, upper[1]]).T
        vanishing = np.linalg.svd(products)[2][size:]
        while len(vanishing):
            # These rows' products, so combined, give zero; their sum is at most 0, so A can only grow.
            shift = -vanishing[0] if vanishing[0].sum() > 0 else vanishing[0]
            falling = np.flatnonzero(shift < -1e-12)
            limits = weights[used[falling]] / -shift[falling]
            last = falling[np.argmin(limits)]
            weights[used] = np.maximum(weights[used] + limits.min() * shift, 0)
            weights[used[last]] = 0.0
            # A Householder reflection leaves the combinations that do without the dropped row.
            mirror = vanishing[:, last].copy()
            mirror[0] += np.copysign(np.linalg.norm(mirror), mirror[0])
            vanishing = (vanishing - np.outer(mirror, 2 * (mirror @ vanishing) / (mirror @ mirror)))[1:]
            vanishing[:, last] = 0.0
    return weights / weights.sum()
