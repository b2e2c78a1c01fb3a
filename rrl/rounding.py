"""Algorithm 1, R-Hypergrid-Rounding: every entry goes to the middle of its cell in a random grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ._checks import as_float64, check_bin_width, check_bounds, check_fine, check_finite, check_key
from .randomness import CACHED, shared_uniform

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["Rounded", "hypergrid_round"]


@dataclass(frozen=True, eq=False)
class Rounded:
    """Result of :func:`hypergrid_round`.

    Attributes
    ----------
    values : ndarray of float64
        Cell midpoints, rebuilt from the codes.
    codes : ndarray of int64
        Which cell each entry fell in. Two runs agree when their codes are equal.
    offsets : ndarray of float64
        The shared grid offset of each entry, in [0, bin_width).
    bin_width : float or ndarray
        The paper's alpha, per entry where an array was given.
    """

    values: np.ndarray
    codes: np.ndarray
    offsets: np.ndarray
    bin_width: float | np.ndarray


def hypergrid_round(
    a: ArrayLike, bin_width: ArrayLike, *, shared_seed: int, key: tuple = (), bounds: tuple[float, float] | None = None
) -> Rounded:
    """Round every entry to the midpoint of its cell in a randomly shifted grid (Algorithm 1).

    Entry i falls in the cell ``code = floor((a - offset) / bin_width)`` and becomes
    ``offset + (code + 1/2) * bin_width``. By Lemma 2.1 an entry moves by at most half a bin, and two
    entries d apart get different codes with probability exactly min(1, d / bin_width).

    Parameters
    ----------
    a : array_like, any shape (...)
        Finite real numbers: the paper's A.
    bin_width : float or array_like
        The paper's alpha > 0, in the units of `a`; an array that broadcasts to `a` gives every entry
        its own. It must itself be shared, never computed from one run's data.
    shared_seed : int
        The paper's random string r.
    key : tuple, default=()
        Name of this call. Calls inside one algorithm need different keys (see the errata, E2).
    bounds : (float, float), optional
        The paper's (b_s, b_e): the grid starts at b_s and the two outermost cells are cut off there.
        By default the grid is infinite.

    Returns
    -------
    Rounded
        Fields ``values``, ``codes`` (int64), ``offsets`` and ``bin_width``.

    Raises
    ------
    ValueError
        If an entry is not finite, lies outside `bounds`, or `bin_width` is not positive, is so large
        that a midpoint overflows, or is below eight spacings of floats at an entry (so that no code
        exceeds 2**51).
    TypeError
        If the seed is not an integer or `key` not a tuple of ints, strings and tuples.

    Examples
    --------
    >>> from rrl import hypergrid_round
    >>> one = hypergrid_round([0.30, -1.20], 0.5, shared_seed=7)
    >>> two = hypergrid_round([0.31, -1.19], 0.5, shared_seed=7)
    >>> one.codes
    array([ 0, -4])
    >>> bool((one.codes == two.codes).all())
    True
    """
    a = as_float64("a", a)
    check_finite("a", a)
    width = check_bin_width(bin_width, a.shape)
    check_key(key)
    start, end = (0.0, None) if bounds is None else check_bounds(bounds, a)

    # Line 1.
    offsets = shared_uniform(shared_seed, ("hypergrid", key), a.shape)
    offsets *= width
    check_fine(a, start, offsets, width)
    # Lines 2 and 3, a part that fits the cache at a time.
    values, codes = np.empty(a.shape), np.empty(a.shape, dtype=np.int64)
    flat = [array.reshape(-1) for array in (a, offsets, values, codes)]
    widths = None if np.ndim(width) == 0 else width.reshape(-1)
    for first in range(0, a.size, CACHED):
        part = slice(first, first + CACHED)
        entries, shifts, middles, numbers = (array[part] for array in flat)
        bins = width if widths is None else widths[part]
        with np.errstate(over="ignore", invalid="ignore"):
            middles[:], cells = _nearest_middle(entries, start + shifts, bins, start, end)
        if not np.isfinite(middles).all():
            raise ValueError(f"bin_width={bin_width!r} is too large: the midpoint of a cell overflows float64")
        numbers[:] = cells
    # Line 4. Indexing with an empty tuple makes a number of an array without dimensions.
    return Rounded(values[()], codes[()], offsets[()], width if np.ndim(width) == 0 else width.copy())


def _nearest_middle(a, origin, bin_width, start, end):
    """The cell of each entry, and the middle of that cell."""
    cell = np.floor((a - origin) / bin_width)
    if end is None:
        return origin + (cell + 0.5) * bin_width, cell
    # The top edge b_e belongs to the last cell, so that every entry has one.
    cell = np.clip(cell, -1, np.maximum(np.ceil((end - origin) / bin_width) - 1, -1))
    low = np.maximum(origin + cell * bin_width, start)
    high = np.minimum(origin + (cell + 1) * bin_width, end)
    return low + (high - low) / 2, cell
