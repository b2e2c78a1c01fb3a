"""Files that a program published, as names with values: arrays of NumPy and safetensors, leaves of JSON, or bytes."""

import contextlib
import hashlib
import io
import json
import re
import zipfile
from typing import NamedTuple

import numpy as np

from .pairs import RunFailed

__all__ = ["digest_outputs", "read_outputs", "top"]

#: safetensors' own names of what is compared exactly.
EXACT = {"BOOL": "?", **{f"{sign}{bits}": f"<{sign.lower()}{bits // 8}" for sign in "IU" for bits in (8, 16, 32, 64)}}


class Uncompared(NamedTuple):
    """Numbers that are not compared, and their bytes."""

    dtype: str
    data: bytes

    @property
    def reason(self):
        """Why they are not."""
        floats = re.match("float|complex|B?F[0-9]|C[0-9]", self.dtype)
        return "and floats differ by the machine" if floats else "which is not compared"


def _array(array):
    if array.dtype.kind in "iubUS":
        return array
    return Uncompared(array.dtype.name, array.tobytes())


def _numpy(data):
    found = np.load(io.BytesIO(data), allow_pickle=False)
    if isinstance(found, np.ndarray):
        return {"": _array(found)}
    # By their members: of arrays "a" and "a.npy" NumPy gives the first for both.
    return _unique((name, _array(found[f"{name}.npy"])) for name in found.files)


def _safetensors(data):
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size], object_pairs_hook=_unique), data[8 + size :]
    found = list(_leaves("__metadata__", header.pop("__metadata__", {})))
    for name, part in header.items():
        values = body[slice(*part["data_offsets"])]
        kind = EXACT.get(part["dtype"])
        array = np.frombuffer(values, kind).reshape(part["shape"]) if kind else Uncompared(part["dtype"], values)
        found.append((name, array))
    return _unique(found)


def _leaves(path, value):
    """Paths and values of JSON, floats set apart."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _leaves(f"{path}.{name}" if path else name, part)
    elif isinstance(value, list) and value:
        for i, part in enumerate(value):
            yield from _leaves(f"{path}[{i}]", part)
    else:
        yield path, Uncompared("float", repr(value).encode()) if isinstance(value, float) else value


def _unique(pairs):
    """Values by name, two of one name refused: a name in JSON may look like a path; a repeated one hides a value."""
    found = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"two of its entries are called {name}")
        found[name] = value
    return found


def _is_npz(data):
    with contextlib.suppress(zipfile.BadZipFile):
        members = zipfile.ZipFile(io.BytesIO(data)).namelist()
        return bool(members) and all(member.endswith(".npy") for member in members)
    return False


def _parse(name, data):
    try:
        if name.endswith((".npz", ".npy")) or data.startswith(b"\x93NUMPY") or _is_npz(data):
            return _numpy(data)
        if name.endswith(".json"):
            return _unique(_leaves("", json.loads(data, object_pairs_hook=_unique)))
        if name.endswith(".safetensors"):
            return _safetensors(data)
    except Exception as error:  # readers of damaged files raise whatever they meet
        raise RunFailed(f"published {name}, which cannot be read ({error}); --bytes compares any file") from error
    return {"": data}


def top(name):
    """Name of the array or of the outermost entry of JSON that a value belongs to."""
    return re.split(r"[.\[]", name, maxsplit=1)[0] or name


def _chosen(name, keys):
    return not keys or any(name == key or name.startswith((f"{key}.", f"{key}[")) for key in keys)


def read_outputs(files, keys=(), as_bytes=False):
    """What is compared of a run's files, and what else it published.

    Parameters
    ----------
    files : dict of bytes
        By name.
    keys : sequence of str
        Arrays, or entries of JSON (``codes``, ``result.codes``), to compare; everything if empty.
    as_bytes : bool
        Compare files bit by bit, whatever they hold.

    Returns
    -------
    compared, beside : dict
        Values by name.

    Raises
    ------
    RunFailed
        If there is nothing to compare, a key is not there, a file cannot be read, or floats would be compared.
    """
    compared, beside, names = {}, {}, []
    for file, data in files.items():
        for name, value in ({"": data} if as_bytes else _parse(file, data)).items():
            names.append(name or file)
            shown = f"{file} {name}" if name else file
            if shown in compared or shown in beside:
                raise RunFailed(f"published two values that are called {shown}: give the files or entries other names")
            (compared if _chosen(name, keys) else beside)[shown] = value
            if isinstance(value, Uncompared) and _chosen(name, keys):
                raise RunFailed(
                    f"published {name or 'numbers'} in {file} as {value.dtype}, {value.reason}: "
                    "publish integer codes and choose them by --key, or compare files bit by bit by --bytes"
                )
    missing = [key for key in keys if not any(_chosen(name, [key]) for name in names)]
    if missing:
        there = ", ".join(dict.fromkeys(map(top, names))) or "nothing"
        raise RunFailed(f"published no {missing[0]!r}; there is {there:.200}")
    if not compared:
        raise RunFailed("published nothing")
    return compared, beside


def digest_outputs(values):
    """SHA-256 of named values; integers count by their values, whatever their width."""
    found = hashlib.sha256()
    for name in sorted(values):
        value = values[name]
        if isinstance(value, np.ndarray):
            numbers = value.dtype.kind in "iu"
            fits = value.dtype != np.uint64 or (value <= np.iinfo(np.int64).max).all()
            kind = ("<i8" if fits else "<u8") if numbers else value.dtype.kind
            data = value.astype(kind).tobytes() if numbers else repr(value.tolist()).encode()
            part = (kind, value.shape)
        else:
            part, data = (type(value).__name__,), value if isinstance(value, bytes) else repr(value).encode()
        head = repr((name, *part, len(data))).encode()
        found.update(head + data)
    return found.hexdigest()
