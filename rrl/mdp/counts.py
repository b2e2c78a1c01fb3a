"""Draws from finite distributions: one by one, or as counts of up to 9.2e18 at once and their limit beyond.

A sufficient statistic of n draws from a finite distribution is how often each value came out, and that
is one multinomial draw. It is drawn here down a binary tree of binomials.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_float64, check_rng, check_unmasked, real

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

__all__ = ["cumulative", "invert_cumulative", "multinomial_counts"]

#: Largest number of draws given to numpy's binomial at once. Up to here its double arithmetic holds
#: every integer; above about 1e18 it squares an int64 that overflows and the tails come out too heavy.
EXACT_PIECE = 2**53

#: Counts from here on do not fit an int64 and are floats.
INT64_END = 2.0**63

#: Beyond INT64_END: from this variance on the normal limit, below it the Poisson limit.
NORMAL_VARIANCE = 1e12


def _exact_binomial(n, p, rng):
    """Binomial(n, p) for int64 arrays, n up to 2^63 - 1: a sum of pieces that numpy draws exactly."""
    if n.size == 0 or n.max() <= EXACT_PIECE:
        return rng.binomial(n, p)
    pieces = np.maximum(1, -(-n // EXACT_PIECE))
    first = np.cumsum(pieces) - pieces
    sizes = np.full(pieces.sum(), EXACT_PIECE)
    sizes[first] = n - (pieces - 1) * EXACT_PIECE
    return np.add.reduceat(rng.binomial(sizes, np.repeat(p, pieces)), first)


def _limit_binomial(n, p, rng):
    """The limit law of Binomial(n, p) for float arrays n >= 2^63 and p <= 1/2."""
    variance = n * p * (1 - p)
    draw = n * p + np.sqrt(variance) * rng.standard_normal(n.shape)
    few = variance < NORMAL_VARIANCE
    draw[few] = rng.poisson(n[few] * p[few])
    return draw


def _binomial(n: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if n.dtype.kind == "i":
        return _exact_binomial(n, p, rng)
    big = n >= INT64_END
    out = np.empty(n.shape)
    out[big] = _limit_binomial(n[big], p[big], rng)
    out[~big] = _exact_binomial(n[~big].astype(np.int64), p[~big], rng)
    return out


def as_counts(name: str, counts: ArrayLike) -> NDArray[np.int64] | NDArray[np.float64]:
    """Counts as int64 where every one fits, else as float64; anything but whole numbers >= 0 is refused."""
    check_unmasked(name, counts)
    try:
        array = np.asarray(counts)
    except ValueError as error:
        raise ValueError(f"{name} must be whole numbers >= 0: {error}") from None
    if array.dtype.kind == "O":
        # Integers beyond an int64 come as objects.
        if not all(isinstance(count, Integral) and 0 <= real(count) < np.inf for count in array.ravel()):
            raise ValueError(f"{name} must be whole numbers >= 0, got {counts!r}")
        array = array.astype(np.float64) if max(array.ravel(), default=0) >= INT64_END else array.astype(np.int64)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold numbers, got dtype {array.dtype}")
    bad = ~(np.isfinite(array) & (array >= 0) & (array == np.floor(array)))
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{name} must be whole numbers >= 0, got {array[index]} at index {index}")
    # As a Python int: compared as a float, 2^63 - 1 would be 2^63.
    fits = array.size == 0 or int(array.max()) < 2**63
    return array.astype(np.int64 if fits else np.float64)  # pyright: ignore[reportReturnType]


def multinomial_counts(counts: ArrayLike, probabilities: ArrayLike, rng: np.random.Generator) -> np.ndarray:
    """How often each of m values comes out in n independent draws, for many rows at once.

    Counts below 2^63 (9.2e18) are exactly multinomial, up to the double arithmetic inside numpy's
    binomial sampler. From there on counts are floats and each binomial of the tree is replaced by its
    normal limit (or, below a variance of 1e12, its Poisson limit): the total variation error of one is
    below 2e-7, apart from the rounding of counts to float64.

    Parameters
    ----------
    counts : array_like, shape (rows,)
        Numbers of draws n, whole numbers >= 0 of any size below 1e300.
    probabilities : array_like, shape (rows, m)
        Rows sum to 1.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    ndarray, shape (rows, m)
        int64, or float64 where a count exceeds int64. Rows sum to `counts`.

    Raises
    ------
    TypeError
        If `rng` is no Generator.
    ValueError
        If a count is no whole number >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.mdp.counts import multinomial_counts
    >>> table = multinomial_counts([10, 9 * 10**18], [[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]], np.random.default_rng(0))
    >>> table.sum(axis=1)
    array([                 10, 9000000000000000000])
    """
    check_rng(rng)
    counts = as_counts("counts", counts)
    level = as_float64("probabilities", probabilities)
    if counts.ndim != 1 or level.ndim != 2 or len(level) != len(counts) or not level.shape[1]:
        raise ValueError(
            f"counts must have shape (rows,) and probabilities (rows, m), got {counts.shape} and {level.shape}"
        )
    bad = ~((level >= 0).all(axis=1) & (np.abs(level.sum(axis=1) - 1) <= 1e-9))
    if bad.any():
        row = bad.argmax()
        raise ValueError(f"probabilities must be >= 0 and sum to 1 in each row, got {level[row]} in row {row}")
    rows, m = level.shape
    # Pair sums from the leaves up: differences of cumulative sums would spoil small probabilities.
    tree = []
    while level.shape[1] > 1:
        if level.shape[1] % 2:
            level = np.hstack([level, np.zeros((rows, 1))])
        tree.append(level)
        level = level[:, ::2] + level[:, 1::2]
    nodes: np.ndarray = counts[:, None]
    for level in reversed(tree):
        left, right = level[:, ::2], level[:, 1::2]
        # The less likely half is drawn: 1 - p would lose the digits of a small p.
        share = np.divide(np.minimum(left, right), left + right, out=np.zeros_like(left), where=left + right > 0)
        nodes = nodes[:, : left.shape[1]]
        drawn = _binomial(nodes.ravel(), share.ravel(), rng).reshape(nodes.shape)
        halves = np.stack([drawn, nodes - drawn], axis=2)
        nodes = np.where((left > right)[..., None], halves[..., ::-1], halves).reshape(rows, level.shape[1])
    return nodes[:, :m]


def cumulative(chances: Any) -> Any:
    """Cumulative probabilities along the last axis, exactly 1 from the last possible value on."""
    total = np.cumsum(chances, axis=-1)
    last = chances.shape[-1] - 1 - np.argmax(chances[..., ::-1] > 0, axis=-1)
    total[np.arange(chances.shape[-1]) >= last[..., None]] = 1
    return total


def invert_cumulative(table: Any, row: Any, uniform: Any) -> Any:
    """Binary search in every row: how many cumulative probabilities are <= the uniform number."""
    position = np.zeros(len(row), dtype=np.int64)
    step = 1 << (table.shape[1].bit_length() - 1)
    while step:
        ahead = position + step
        fits = ahead < table.shape[1]
        fits[fits] = table[row[fits], ahead[fits] - 1] <= uniform[fits]
        position[fits] = ahead[fits]
        step >>= 1
    return position
