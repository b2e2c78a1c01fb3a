"""What a record is: plain JSON about one unit of work, named by the unit, with digests of what it says."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

__all__ = ["DamagedRecord", "canonical", "is_record_name", "make_record", "read_record", "record_text", "unit_key"]


class DamagedRecord(ValueError):
    """What lies in a record's place is no whole record."""


def canonical(value: object, path: str = "value", nonfinite: str = "refuse") -> Any:
    """Plain JSON value: numpy scalars, arrays, tuples and paths become numbers, lists and text.

    Parameters
    ----------
    value : object
    path : str
        How the value is called in error messages.
    nonfinite : {"refuse", "null", "keep"}
        What becomes of NaN and infinities: they have no canonical JSON.

    Raises
    ------
    TypeError
        Naming the entry that is neither.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.experiments.store import canonical
    >>> canonical({"seed": np.int64(3), "alphas": (0.1, 0.2), "flag": np.bool_(False)})
    {'seed': 3, 'alphas': [0.1, 0.2], 'flag': False}
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value) or nonfinite == "keep":
            return value
        if nonfinite == "null":
            return None
        raise TypeError(f"{path} is {value}, which a record cannot hold")
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, list | tuple):
        return [canonical(item, f"{path}[{i}]", nonfinite) for i, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}; keys must be text")
        return {key: canonical(item, f"{path}[{key!r}]", nonfinite) for key, item in value.items()}
    raise TypeError(f"{path} is {value!r} of type {type(value).__name__}, which a record cannot hold")


def record_text(value: Any) -> Any:
    """Canonical JSON of a plain value: what is hashed, and what a file holds."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(value):
    return hashlib.sha256(record_text(value).encode()).hexdigest()


def unit_key(unit: Any) -> Any:
    """SHA-256 of a unit's canonical JSON: the name of its record.

    Examples
    --------
    >>> from rrl.experiments.store import unit_key
    >>> unit_key({"experiment": "demo", "seed": 1})[:12]
    'c9506e1000a0'
    """
    if not isinstance(unit, dict) or not isinstance(unit.get("experiment"), str):
        raise TypeError(f"a unit is a dict with the text 'experiment', got {unit!r}")
    return _digest(canonical(unit, "unit"))


def is_record_name(path: Any) -> Any:
    """Whether a file's name is that of a record; no other file is looked into or renamed."""
    return re.fullmatch(r"[0-9a-f]{64}\.json", path.name) is not None


def make_record(unit: Any, result: Any, provenance: Any) -> Any:
    """The record of a finished unit, with digests of result (``check``) and provenance (``seal``).

    Raises
    ------
    TypeError
        If a part holds something that JSON cannot, or the result is no dict.
    """
    if not isinstance(result, dict):
        raise TypeError(f"a result is a dict, got {result!r}")
    result = canonical(result, "result", "null")
    provenance = canonical(provenance, "provenance", "null")
    return {
        "unit": canonical(unit, "unit"),
        "result": result,
        "check": _digest(result),
        "provenance": provenance,
        "seal": _digest(provenance),
    }


def read_record(path: Any, key: Any) -> Any:
    """The record of the unit with this key.

    Raises
    ------
    FileNotFoundError
        If nothing has this name.
    DamagedRecord
        If it is no whole record of this unit, or cannot be read; the message says why.
    """
    text = _content(path)
    try:
        record = json.loads(text, object_pairs_hook=_unique)
        parts = [record[name] for name in ("unit", "result", "provenance")]
        if not all(isinstance(part, dict) for part in parts):
            raise DamagedRecord("a part of it is no table of names and values")
        if record["check"] != _digest(record["result"]):
            raise DamagedRecord("its result is not the one that was written")
        if record["seal"] != _digest(record["provenance"]):
            raise DamagedRecord("its provenance is not the one that was written")
        if unit_key(record["unit"]) != key:
            raise DamagedRecord("its unit is not the one that it is named after")
    except KeyError as error:
        raise DamagedRecord(f"it has no {error}") from None
    except DamagedRecord:
        raise
    except (ValueError, TypeError, RecursionError) as error:  # deep nesting is no ValueError
        raise DamagedRecord(f"it is no record: {error}") from error
    return record


def _content(path):
    """The bytes of a plain file: a pipe would wait for a writer, and a device need not end."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise DamagedRecord("it is no plain file")
            with open(handle, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(handle)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"there is no {path}") from None
    except OSError as error:
        raise DamagedRecord(f"it cannot be read: {error.strerror}") from error


def _unique(pairs):
    """A JSON object; of two values under one key, readers would take different ones."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DamagedRecord("a name stands in it twice")
    return found
