"""Arguments are checked here: every refusal names the argument and the value, before any work is done."""

from __future__ import annotations

import operator
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing import Any

VERSIONS = ("corrected", "printed")

#: Sums of products below this have lost digits: their summands underflow.
SMALLEST_SUM = 2.0**-960

#: Fewest spacings of floats in a bin: with fewer, midpoints are no longer in the middle of their cells.
FLOATS_PER_BIN = 8


def real(value: Any) -> float:
    """The float of an integer or float; NaN, which no check lets pass, of anything else or where no float holds it."""
    try:
        return float(value) if isinstance(value, (Integral, float, np.floating)) else np.nan
    except OverflowError:
        return np.nan


def check_finite(name: Any, a: Any) -> None:
    """Raise a ValueError that names the first entry of `a` that is NaN or infinite."""
    bad = ~np.isfinite(a)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{name} holds {a[index]} at index {index}; every entry must be finite (no NaN, no infinity)")


def check_unmasked(name: Any, a: Any) -> None:
    """Refuse masked entries: as a plain array, what stands under the mask would count."""
    if np.ma.is_masked(a):
        told = f"{np.ma.count_masked(a)} of {a.size}"
        raise ValueError(f"{name} has masked entries ({told}): drop them, or fill them in by a.filled(value)")


def as_float64(name: Any, a: Any) -> NDArray[np.float64]:
    """Convert real data to float64; complex, text, masked entries and objects that are no numbers are refused."""
    check_unmasked(name, a)
    try:
        array = np.asarray(a)
    except ValueError as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from None
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}")
    text = array.dtype.kind == "O" and any(isinstance(entry, (str, bytes)) for entry in array.ravel())
    if array.dtype.kind not in "biufO" or text:
        raise ValueError(f"{name} must hold real numbers, got {'text' if text else f'dtype {array.dtype}'}")
    try:
        # A long double beyond float64 becomes an infinity, which the caller refuses.
        with np.errstate(over="ignore"):
            return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must hold real numbers that fit float64: {error}") from None


def as_column(name: Any, values: Any, n: Any, other: Any) -> Any:
    """Convert to a float64 vector of n entries, one a row of `other`: (n, 1) would broadcast to n x n."""
    values = as_float64(name, values)
    if values.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one entry a row of {other}, got {values.shape}")
    return values


def as_square(name: Any, a: Any) -> NDArray[np.float64]:
    """Convert to a square float64 matrix of finite entries."""
    a = as_float64(name, a)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or a.shape[0] == 0:
        raise ValueError(f"{name} must be a square matrix, got shape {a.shape}")
    check_finite(name, a)
    return a


def check_sums(**sums) -> None:
    """Refuse sums of products, or results of them, that overflowed."""
    for name, value in sums.items():
        if not np.isfinite(value).all():
            raise ValueError(f"{name} overflows float64: rescale the data (the paper assumes norms of at most 1)")


def check_non_negative(**symbols) -> None:
    """Refuse what is no finite number >= 0."""
    for name, value in symbols.items():
        if not 0 <= real(value) < np.inf:
            raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")


def check_positive(**symbols) -> None:
    """Refuse what is no finite number > 0."""
    for name, value in symbols.items():
        if not 0 < real(value) < np.inf:
            raise ValueError(f"{name} must be positive and finite, got {value!r}")


def check_probability(**symbols) -> None:
    """Refuse what does not lie strictly between 0 and 1."""
    for name, value in symbols.items():
        if not 0 < real(value) < 1:
            raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}")


def check_version(version: Any) -> None:
    """Refuse anything but the two versions of a formula."""
    if not isinstance(version, str) or version not in VERSIONS:
        raise ValueError(f"version must be one of {VERSIONS}, got {version!r}")


def check_size(name: Any, value: Any) -> None:
    """Refuse what is no number of samples: a whole number >= 1, or a float from 2^53 on, where all are whole."""
    whole = isinstance(value, Integral | np.integer) and not isinstance(value, bool)
    if not 1 <= real(value) < np.inf or not (whole or real(value) >= 2.0**53):
        raise ValueError(f"{name} must be a whole number >= 1 (a float from 2^53 on), got {value!r}")


def check_integer(least: Any, **values) -> None:
    """Refuse what is no integer of at least `least` that fits an int64."""
    for name, value in values.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or not least <= value < 2**63:
            end = " below 2^63" if isinstance(value, Integral) and value >= 2**63 else ""
            raise ValueError(f"{name} must be an integer >= {least}{end}, got {value!r}")


def check_index(size: Any, **values) -> None:
    """Refuse what is no integer in 0, ..., size - 1."""
    check_integer(0, **values)
    for name, value in values.items():
        if value >= size:
            raise ValueError(f"{name} must lie in [0, {size}), got {value!r}")


def check_integers(name: Any, values: Any, n: Any, below: Any) -> NDArray[np.int64]:
    """Return `values` as an array of shape (n,) of integers in 0, ..., below - 1; anything else is refused."""
    check_unmasked(name, values)
    values = np.asarray(values)
    if values.shape != (n,) or values.dtype.kind not in "iu":
        raise ValueError(f"{name} must be {n} integers, got {values!r}")
    if values.min() < 0 or values.max() >= below:
        raise ValueError(f"{name} must lie in 0..{below - 1}, got {values.min()} to {values.max()}")
    return values


def check_fraction(**symbols) -> None:
    """Refuse what is no number in [0, 1]."""
    for name, value in symbols.items():
        if not 0 <= real(value) <= 1:
            raise ValueError(f"{name} must lie in [0, 1], got {value!r}")


def as_flags(name: Any, flags: Any) -> NDArray[np.bool_]:
    """Convert booleans, or numbers 0 and 1, to a bool array; text, NaN and .5 are refused: each would count as true."""
    check_unmasked(name, flags)
    try:
        array = np.asarray(flags)
    except ValueError as error:
        raise ValueError(f"{name} must be booleans or 0 and 1: {error}") from None
    if array.dtype.kind == "O" and all(isinstance(flag, (bool, np.bool_, Real)) for flag in array.ravel()):
        array = np.array([real(flag) for flag in array.ravel()]).reshape(array.shape)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be booleans or 0 and 1, got dtype {array.dtype}")
    bad = (array != 0) & (array != 1)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{name} must be booleans or 0 and 1, got {array[index]} at index {index}")
    return array.astype(bool)


def check_numbers(name: Any, a: Any) -> None:
    """Refuse masked entries, and dates and times, which NumPy turns into floats, a missing one included."""
    check_unmasked(name, a)
    kinds = a.dtypes if hasattr(a, "dtypes") and hasattr(a, "columns") else [getattr(a, "dtype", None)]
    for kind in kinds:
        if getattr(kind, "kind", "") in ("M", "m"):
            raise ValueError(f"{name} must hold real numbers, got dtype {kind}")


def check_choice(name: Any, value: Any, choices: Any) -> None:
    """Refuse a value that is none of `choices`, which are texts or None."""
    if not (value is None or isinstance(value, str)) or value not in choices:
        *most, last = map(repr, choices)
        raise ValueError(f"{name} must be {', '.join(most)} or {last}, got {value!r}")


def check_bool(**values) -> None:
    """Refuse what is not True or False: most other things would count as True."""
    for name, value in values.items():
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False, got {value!r}")


def check_key(key: Any) -> None:
    """Raise a TypeError unless `key` is a tuple of ints, strings and tuples."""
    if not isinstance(key, tuple):
        raise TypeError(f"key must be a tuple, got {key!r}")
    for item in key:
        if isinstance(item, tuple):
            check_key(item)
        elif isinstance(item, (bool, np.bool_)):
            raise TypeError(f"key holds the boolean {item!r}; use an int or a str")
        elif not isinstance(item, str):
            try:
                operator.index(item)
            except TypeError:
                raise TypeError(
                    f"key must be made of ints, strings and tuples, got {item!r} of type {type(item).__name__}"
                ) from None


def check_seed(shared_seed: Any) -> Any:
    """Return the shared seed as a Python int; anything but an integer is refused."""
    if isinstance(shared_seed, (bool, np.bool_)):
        raise TypeError(f"shared_seed must be an integer, got {shared_seed!r}")
    try:
        return operator.index(shared_seed)
    except TypeError:
        raise TypeError(f"shared_seed must be an integer, got {shared_seed!r}") from None


def check_shared(shared_seed: Any, key: Any) -> None:
    """Raise a TypeError unless the seed is an integer and the key a tuple of ints, strings and tuples."""
    check_seed(shared_seed)
    check_key(key)


def check_data_seed(seed: Any) -> None:
    """Refuse what is no integer >= 0, as a seed of NumPy's generators has to be."""
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed must be a non-negative integer, got {seed!r}")


def check_rng(rng: Any) -> None:
    """Raise a TypeError unless `rng` is a numpy Generator: a seed would mix the two kinds of randomness."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {rng!r}")


def check_bin_width(bin_width: Any, shape: Any) -> Any:
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


def resolve_bin_width(bin_width: Any, d: Any, epsilon: Any, delta: Any, rho: Any, formula: Any) -> Any:
    """Turn the ``bin_width`` argument of an estimator into a number, or None for no rounding."""
    if bin_width is None:
        return None
    if isinstance(bin_width, str):
        names = {"theorem": "corrected", "printed": "printed"}
        if bin_width not in names:
            raise ValueError(f"bin_width must be 'theorem', 'printed', a number or None, got {bin_width!r}")
        try:
            return formula(d, epsilon, delta, rho, version=names[bin_width])
        except OverflowError as error:
            raise ValueError(f"bin_width={bin_width!r} has no value for this epsilon: {error}") from None
    return check_bin_width(bin_width, ())


def check_bounds(bounds: Any, a: Any) -> Any:
    """Return (b_s, b_e) as floats, finite, in order, and with every entry of `a` between them."""
    pair = as_float64("bounds", bounds)
    if not (pair.shape == (2,) and np.isfinite(pair).all() and pair[0] < pair[1]):
        raise ValueError(f"bounds must be two finite numbers b_s < b_e, got {bounds!r}")
    start, end = pair.tolist()
    outside = (a < start) | (a > end)
    if outside.any():
        index = tuple(int(i) for i in np.argwhere(outside)[0])
        raise ValueError(f"a holds {a[index]} at index {index}, outside bounds ({start}, {end})")
    return start, end


def check_fine(a: Any, start: Any, offsets: Any, width: Any) -> Any:
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


def check_penalty(penalty: Any) -> None:
    """Raise a ValueError unless the penalty is a finite number >= 0."""
    check_non_negative(penalty=penalty)


def check_rows(estimator: Any, X: Any, gram: Any) -> None:
    """Refuse NaN and infinity in X, which its Gram matrix shows without another pass over the rows."""
    if not np.isfinite(np.diag(gram)).all():
        from sklearn.utils import assert_all_finite

        assert_all_finite(X, input_name="X", estimator_name=type(estimator).__name__)


def check_small_rows(X: Any, weight: Any, diagonal: Any) -> None:
    """Refuse columns of X whose squares underflow in the diagonal of X'X plus penalty, but for columns of zeros."""
    small = diagonal < SMALLEST_SUM
    if small.any() and (X if weight is None else X[weight > 0])[:, small].any():
        raise ValueError("X'X underflows float64: rescale X, or raise penalty")


def check_weights(sample_weight: Any, n_samples: Any) -> NDArray[np.float64]:
    """Return sample weights as float64 of shape (n_samples,), non-negative with a positive sum."""
    weight = as_float64("sample_weight", sample_weight)
    if weight.ndim == 0:
        weight = np.full(n_samples, weight)
    if weight.shape != (n_samples,):
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected ({n_samples},)!")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise ValueError("sample_weight must be finite, non-negative and not all zero")
    if weight.max() < SMALLEST_SUM:
        raise ValueError(
            f"sample_weight is at most {weight.max()}, where products lose their digits: scale all weights"
        )
    return weight


def check_measurement(confidence: Any, seed: Any, **counts) -> None:
    """Refuse a confidence outside (0, 1), a seed that is no integer >= 0, and counts below 1."""
    for name, value in counts.items():
        if not isinstance(value, Integral | np.integer) or isinstance(value, bool) or not 1 <= real(value) < 2**63:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
    check_probability(confidence=confidence)
    check_data_seed(seed)
