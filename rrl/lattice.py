"""Rounding to a random shift of the lattice A_d*: rounder cells than the grid's, less surface at the same error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._checks import FLOATS_PER_BIN, as_float64, check_bin_width, check_finite, check_shared
from .randomness import CACHED, shared_uniform
from .rounding import Rounded, hypergrid_round
from .theory.lattice import lattice_scale

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["SCHEMES", "boundary_distance", "lattice_round"]


def lattice_round(a: ArrayLike, bin_width: float, *, shared_seed: int, key: tuple = ()) -> Rounded:
    """Round vectors to the nearest point of a randomly shifted lattice A_d*.

    A_d* consists of all integer vectors of length d + 1, projected along (1, ..., 1). It is scaled so
    that `bin_width` says what it says in :func:`rrl.hypergrid_round`: no vector moves by more than
    sqrt(d) bin_width / 2. Two vectors get different codes with probability at most
    :func:`rrl.theory.cut_rate` times their distance, less than on the grid in the mean over directions
    and in the worst one; a difference in a single entry is cut up to 1.16 times as often.
    :func:`rrl.theory.lattice_rows` says how many rows are saved. A vector takes one sort, O(d log d).
    For d = 1 the lattice is the grid, and the result is that of :func:`rrl.hypergrid_round`.

    Parameters
    ----------
    a : array_like, shape (..., d)
        Finite real numbers; each vector along the last axis is rounded on its own, with its own shift.
    bin_width : float
        The paper's alpha > 0, in the units of `a`.
    shared_seed : int
        The paper's random string r.
    key : tuple, default=()
        Name of this call.

    Returns
    -------
    Rounded
        ``codes`` (int64, as many as entries) are the coordinates of the lattice point: the entries of
        its integer vector less the last one. ``offsets`` is the lattice point with codes 0.

    Raises
    ------
    ValueError
        If an entry is not finite, or `bin_width` is no positive number, is so large that a value
        overflows, or is below eight spacings of floats at sqrt(d + 1) times the sum of a vector's
        absolute entries.
    TypeError
        If the seed is not an integer or `key` not a tuple of ints, strings and tuples.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import lattice_round
    >>> one = lattice_round([0.30, -1.20, 0.70], 0.5, shared_seed=7)
    >>> two = lattice_round([0.31, -1.19, 0.69], 0.5, shared_seed=7)
    >>> one.codes
    array([ 0, -2,  0])
    >>> bool((one.codes == two.codes).all())
    True
    >>> bool(np.linalg.norm(one.values - [0.30, -1.20, 0.70]) <= np.sqrt(3) * 0.5 / 2)
    True
    """
    a = as_float64("a", a)
    check_finite("a", a)
    width = check_bin_width(bin_width, ())
    check_shared(shared_seed, key)
    d = a.shape[-1] if a.ndim else 1
    if d < 2:
        return hypergrid_round(a, width, shared_seed=shared_seed, key=key)

    try:
        scale = lattice_scale(d, width)
    except OverflowError:
        raise ValueError(f"bin_width={bin_width!r} is too large: a lattice point overflows float64") from None
    _check_fine(a, width)
    # Uniform in the code's coordinates is uniform over a fundamental cell.
    shifts = shared_uniform(shared_seed, ("lattice", key), a.shape)
    values, codes, offsets = np.empty(a.shape), np.empty(a.shape, dtype=np.int64), np.empty(a.shape)
    flat = [array.reshape(-1, d) for array in (a, shifts, values, codes, offsets)]
    rows = max(1, CACHED // d)
    for first in range(0, len(flat[0]), rows):
        points, shift, near, numbers, origin = (array[first : first + rows] for array in flat)
        with np.errstate(over="ignore", invalid="ignore"):
            nearest = _nearest(_coordinates(points, scale) - shift)
            near[:], origin[:] = _points(nearest + shift, scale), _points(shift, scale)
        if not np.isfinite(near).all():
            raise ValueError(f"bin_width={bin_width!r} is too large: a lattice point overflows float64")
        numbers[:] = nearest
    return Rounded(values, codes, offsets, width)


def _total(rows):
    """Sum of each row, from left to right on every machine."""
    return np.add.accumulate(rows, axis=-1)[:, -1:]


def _coordinates(points, scale):
    """Entries of the vector of length d + 1 above each point, less its last entry, which becomes 0."""
    return (points + _total(points) / (1 + np.sqrt(points.shape[-1] + 1))) / scale


def _points(coordinates, scale):
    """The point below coordinates, as in `_coordinates`."""
    root = np.sqrt(coordinates.shape[-1] + 1)
    return (coordinates - _total(coordinates) / (root * (1 + root))) * scale


def _nearest(coordinates):
    """Coordinates of the lattice point next to each point: integers, as floats.

    For each shift along (1, ..., 1) the nearest integers are the next ones, so they are those below, and
    one more in the i coordinates of the largest fractions: the best i is found from partial sums.
    """
    below = np.floor(coordinates)
    fraction = coordinates - below
    d = coordinates.shape[-1]
    order = np.argsort(-fraction, axis=-1, kind="stable")
    sums = np.add.accumulate(np.take_along_axis(fraction, order, axis=-1), axis=-1)
    i = np.arange(1, d + 1)
    gain = i * (1 - i / (d + 1)) + 2 * (i * sums[:, -1:] / (d + 1) - sums)
    raised = np.where(gain.min(axis=-1) < 0, 1 + gain.argmin(axis=-1), 0)
    step = np.zeros_like(below)
    np.put_along_axis(step, order, (i <= raised[:, None]).astype(float), axis=-1)
    return below + step


def _check_fine(a, width):
    """Raise a ValueError that names the first vector whose coordinates floats do not resolve."""
    with np.errstate(over="ignore", invalid="ignore"):
        reach = np.sqrt(a.shape[-1] + 1) * np.abs(a).sum(axis=-1)
        fine = FLOATS_PER_BIN * np.spacing(reach) <= width
    if not fine.all():
        index = tuple(int(i) for i in np.argwhere(~fine)[0])
        raise ValueError(
            f"bin_width={width!s} is too fine for the vector at index {index}: sqrt(d + 1) times the sum of its "
            f"absolute entries is {reach[index]:.3g}, where a bin must span at least {FLOATS_PER_BIN} floats"
        )


def boundary_distance(a: ArrayLike, rounded: Rounded) -> np.ndarray:
    """Distance of each vector from the boundary of the lattice cell that it was rounded in.

    Parameters
    ----------
    a : array_like, shape (..., d)
        What was rounded.
    rounded : Rounded
        Result of :func:`lattice_round`.

    Returns
    -------
    ndarray, shape (...)
        Up to rounding error; a ball of this radius around the vector lies in one cell.

    Examples
    --------
    >>> from rrl.lattice import boundary_distance, lattice_round
    >>> rounded = lattice_round([0.0, 0.0], 1.0, shared_seed=1)
    >>> float(boundary_distance(rounded.values, rounded).round(3))  # half of the distance to the next point
    0.612
    """
    error = as_float64("a", a) - rounded.values
    d = error.shape[-1] if error.ndim else 1
    if d < 2:
        return rounded.bin_width / 2 - np.abs(error.reshape(error.shape[:-1]))
    root = np.sqrt(d + 1)
    total = error.sum(axis=-1, keepdims=True)
    lifted = np.concatenate([error - total / (root * (1 + root)), -total / root], axis=-1)
    largest = np.cumsum(-np.sort(-lifted, axis=-1), axis=-1)[..., :-1]
    i = np.arange(1, d + 1)
    normal = np.sqrt(i * (d + 1 - i) / (d + 1))
    return (lattice_scale(d, float(rounded.bin_width)) * normal / 2 - largest / normal).min(axis=-1)


#: Ways to round a vector, or each row of an array: same arguments, same worst error, a `Rounded` with codes.
SCHEMES = {"grid": hypergrid_round, "lattice": lattice_round}
