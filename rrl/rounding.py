"""Algorithm 1, R-Hypergrid-Rounding: every entry goes to the middle of its cell in a random grid."""

from dataclasses import dataclass

import numpy as np

from .randomness import CACHED, check_key, shared_uniform

__all__ = ["Rounded", "hypergrid_round"]

#: Fewest spacings of floats in a bin: with fewer, midpoints are no longer in the middle of their cells.
FLOATS_PER_BIN = 8


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


def check_finite(name, a):
    """Raise a ValueError that names the first entry of `a` that is NaN or infinite."""
    bad = ~np.isfinite(a)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{name} holds {a[index]} at index {index}; every entry must be finite (no NaN, no infinity)")


def as_float64(name, a):
    """Convert real data to float64; complex, text and objects that are no numbers are refused."""
    try:
        array = np.asarray(a)
    except ValueError as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from None
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}")
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
    try:
        # A long double beyond float64 becomes an infinity, which the caller refuses.
        with np.errstate(over="ignore"):
            return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must hold real numbers that fit float64: {error}") from None


def check_bin_width(bin_width, shape):
    """Return the bin width as a float or as a float64 array that broadcasts to `shape`."""
    width = as_float64("bin_width", bin_width)
    if not (np.isfinite(width).all() and (width > 0).all()):
        raise ValueError(f"bin_width must be positive and finite, got {bin_width!r}")
    if width.ndim == 0:
        return float(width)
    try:
        return np.broadcast_to(width, shape)
    except ValueError:
        raise ValueError(f"bin_width has shape {width.shape}, which does not broadcast to {tuple(shape)}") from None


def check_bounds(bounds):
    """Return (b_s, b_e) as floats, finite and in order."""
    pair = as_float64("bounds", bounds)
    if not (pair.shape == (2,) and np.isfinite(pair).all() and pair[0] < pair[1]):
        raise ValueError(f"bounds must be two finite numbers b_s < b_e, got {bounds!r}")
    return pair.tolist()


def check_fine(a, start, offsets, width):
    """Raise a ValueError that names the first entry of `a` whose bin spans too few floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        # The largest number bounds the spacing of all; one by one is slow, and only where that is not enough.
        low, high = (width, width) if np.ndim(width) == 0 else (width.min(initial=np.inf), width.max(initial=0))
        if FLOATS_PER_BIN * np.spacing(max(-a.min(initial=start), a.max(initial=start), start + high)) <= low:
            return
        origin = start + offsets
        spacing = np.spacing(np.maximum(np.abs(a), np.abs(origin)))
        fine = ~(FLOATS_PER_BIN * spacing <= width)
    if fine.any():
        index = tuple(int(i) for i in np.argwhere(fine)[0])
        raise ValueError(
            f"bin_width={np.broadcast_to(width, a.shape)[index]!s} is too fine for the entry {a[index]!s} at index "
            f"{index}, whose cell starts at {origin[index]!s} plus whole bins: floats there are {spacing[index]:.3g} "
            f"apart and a bin must span at least {FLOATS_PER_BIN} of them"
        )


def hypergrid_round(a, bin_width, *, shared_seed, key=(), bounds=None):
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
    start = 0.0
    if bounds is not None:
        start, end = check_bounds(bounds)
        outside = (a < start) | (a > end)
        if outside.any():
            index = tuple(int(i) for i in np.argwhere(outside)[0])
            raise ValueError(f"a holds {a[index]} at index {index}, outside bounds ({start}, {end})")

    offsets = shared_uniform(shared_seed, ("hypergrid", key), a.shape)
    offsets *= width
    check_fine(a, start, offsets, width)
    values, codes = np.empty(a.shape), np.empty(a.shape, dtype=np.int64)
    flat = [array.reshape(-1) for array in (a, offsets, values, codes)]
    widths = None if np.ndim(width) == 0 else width.reshape(-1)
    for first in range(0, a.size, CACHED):
        part = slice(first, first + CACHED)
        entries, shifts, middles, numbers = (array[part] for array in flat)
        bins = width if widths is None else widths[part]
        with np.errstate(over="ignore", invalid="ignore"):
            origin = start + shifts
            cell = np.floor((entries - origin) / bins)
            if bounds is None:
                np.add(origin, (cell + 0.5) * bins, out=middles)
            else:
                # The top edge b_e belongs to the last cell, so that every entry has one.
                cell = np.clip(cell, -1, np.maximum(np.ceil((end - origin) / bins) - 1, -1))
                low = np.maximum(origin + cell * bins, start)
                high = np.minimum(origin + (cell + 1) * bins, end)
                np.add(low, (high - low) / 2, out=middles)
        if not np.isfinite(middles).all():
            raise ValueError(f"bin_width={bin_width!r} is too large: the midpoint of a cell overflows float64")
        numbers[:] = cell
    # Indexing with an empty tuple makes a number of an array without dimensions.
    return Rounded(values[()], codes[()], offsets[()], width)
