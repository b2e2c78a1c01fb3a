"""What a run published: integer codes as arrays, refusals that say what it was instead, and where two runs differ."""

import hashlib

import numpy as np

__all__ = ["as_array", "as_arrays", "differences", "digest"]

#: How many of the entries that differ are told.
MOST = 5
NEVER = "codes must be integers, got"


def as_array(codes):
    """Integer codes as an array; whatever else it is is named and refused."""
    if codes is None:
        raise TypeError(f"{NEVER} None: does the run end without a return?")
    if isinstance(codes, (str, bytes)):
        raise TypeError(f"{NEVER} the text {codes!r:.60}: return what it says as integers")
    if isinstance(codes, dict):
        names = ", ".join(map(repr, codes))
        raise TypeError(f"{NEVER} a dict with the keys {names:.60}: return its arrays as a list, in a fixed order")
    if np.ma.is_masked(codes):
        raise TypeError(f"{NEVER} an array with masked entries: return the entries that count, or codes.filled(value)")
    try:
        array = np.asarray(codes)
    except (ValueError, TypeError, RuntimeError) as error:
        parts = {type(part).__name__ for part in codes} if isinstance(codes, (list, tuple)) else {type(codes).__name__}
        kinds = " and ".join(sorted(parts))
        raise TypeError(
            f"{NEVER} a {type(codes).__name__} of {kinds} of which NumPy makes no array ({error}): "
            "return one NumPy array, or a list of NumPy arrays"
        ) from None
    if array.dtype.kind == "b":
        raise TypeError(f"{NEVER} booleans (dtype bool): return them as integers, as by codes.astype(int)")
    if array.size == 0 and isinstance(codes, (list, tuple)):
        raise TypeError(f"{NEVER} an empty {type(codes).__name__}, of no type: return an array of integers")
    if array.dtype.kind in "USOV":
        what = type(codes).__name__ if array.ndim == 0 else f"a {type(codes).__name__} with dtype {array.dtype}"
        held = next((f"its .{name}" for name in ("codes", "codes_") if hasattr(codes, name)), "integers that fit int64")
        raise TypeError(f"{NEVER} {what}: return {held}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{NEVER} dtype {array.dtype}: compare grid codes, never floats")
    if array.dtype.kind == "u" and (array > np.iinfo(np.int64).max).any():
        raise ValueError(f"codes must fit int64, got {array.max()}")
    return array


def as_arrays(codes):
    """The arrays of a run's codes: one, or those of a sequence."""
    several = isinstance(codes, (list, tuple)) and any(isinstance(part, np.ndarray) for part in codes)
    return [as_array(part) for part in (codes if several else [codes])]


def digest(arrays):
    """SHA-256 of integer arrays and their shapes, the same on every machine."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(repr(array.shape).encode() + array.astype("<i8").tobytes())
    return found.hexdigest()


def _short(value):
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _array_differences(name, one, two):
    kinds = {one.dtype.kind, two.dtype.kind}
    if one.shape != two.shape or (len(kinds) > 1 and kinds != {"i", "u"}):
        yield f"{name}: {one.dtype} of shape {one.shape} and {two.dtype} of shape {two.shape}"
        return
    for index in np.argwhere(one != two).tolist():
        place = f"{name}{index}" if index else name
        yield f"{place}: {_short(one[tuple(index)])} and {_short(two[tuple(index)])}"


def _byte_differences(name, one, two):
    """Lines that differ of two texts; of anything else, bytes."""
    if b"\0" in one + two:
        length = min(len(one), len(two))
        if len(one) != len(two):
            yield f"{name}: {len(one)} and {len(two)} bytes"
        arrays = (np.frombuffer(part[:length], np.uint8) for part in (one, two))
        yield from (text.replace("[", " byte ", 1).replace("]", "", 1) for text in _array_differences(name, *arrays))
        return
    lines = [part.split(b"\n") for part in (one, two)]
    for number in range(max(map(len, lines))):
        pair = [part[number : number + 1] for part in lines]
        if pair[0] != pair[1]:
            told = (repr(_short(part[0])) if part else "none" for part in pair)
            yield f"{name} line {number + 1}: {' and '.join(told)}"


def differences(one, two):
    """Where two runs differ.

    Parameters
    ----------
    one, two : dict
        By name: arrays, bytes, or single values.

    Returns
    -------
    n_differ : int
        Entries that differ; an array or a file that only one run has counts once.
    first : tuple of str
        The first of them, in words.
    """
    count, first = 0, []
    for name in dict.fromkeys([*one, *two]):
        if name not in one or name not in two:
            found = iter([f"{name}: only the {'first' if name in one else 'second'} run has it"])
        elif isinstance(one[name], np.ndarray) and isinstance(two[name], np.ndarray):
            found = _array_differences(name, one[name], two[name])
        elif isinstance(one[name], bytes) and isinstance(two[name], bytes):
            found = _byte_differences(name, one[name], two[name])
        else:
            pair = (one[name], two[name])
            equal = type(pair[0]) is type(pair[1]) and pair[0] == pair[1]
            found = iter([] if equal else [f"{name}: {_short(repr(pair[0]))} and {_short(repr(pair[1]))}"])
        for text in found:
            count += 1
            if len(first) < MOST:
                first.append(text.strip())
    return count, tuple(first)
