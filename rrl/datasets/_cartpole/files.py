"""Readers of CartPole files: whatever the layout, checked flat arrays or an error that says what is wrong.

Three layouts are known: the flat arrays of d3rlpy 1 (HDF5), the numbered episodes of d3rlpy 2 (HDF5), and flat
arrays in an ``.npz`` file, which is how the stand-in is shipped. Nothing that could run code is loaded, no other file
is followed, and what the digest covers is all that was read.
"""

import hashlib
import io
import math
import re

import numpy as np

from ..._extras import missing

#: Bytes of a file, and of its arrays: room for ten million steps.
LARGEST = 2**29


def read(path):
    """Read a file of any known layout: checked flat arrays, and the SHA-256 of the file."""
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no file {path}")
    with path.open("rb") as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{path} has {path.stat().st_size} bytes; a CartPole file may have {LARGEST}")
    return _flat_arrays(content, path), hashlib.sha256(content).hexdigest()


def _flat_arrays(content, path):
    if content.startswith(b"PK"):
        return flat(*_from_npz(content, path), path)
    if not content.startswith(b"\x89HDF\r\n\x1a\n"):
        raise ValueError(
            f"{path} ({len(content)} bytes) is not an HDF5 file: it begins with {content[:8]!r}. "
            "Delete it and load again, or put the right file there"
        )
    arrays, shapes = _from_hdf5(content, path)
    if {"columns", "num_episodes"} <= set(shapes):
        arrays = _numbered(arrays, path, sorted(shapes))
        shapes = {name: array.shape for name, array in arrays.items()}
    return flat(arrays, shapes, path)


_NEEDED = ("observations", "actions", "rewards", "terminals")
_FLAT = {*_NEEDED, "timeouts", "episode_terminals"}
_KNOWN = re.compile(r"num_episodes|(observations|actions|rewards|terminated)_\d+|" + "|".join(sorted(_FLAT)))


def _from_npz(content, path):
    """Arrays of known names, and the shapes of all. Damage may end in any error of numpy's, zipfile's or zlib's."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            size = sum(member.file_size for member in archive.zip.infolist())
            if size > LARGEST:
                raise ValueError(f"its arrays have {size} bytes; those of a CartPole file may have {LARGEST}")
            twice = sorted({name for name in archive.files if archive.files.count(name) > 1})
            if twice:
                raise ValueError(f"it holds {twice} more than once")
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    except Exception as error:
        raise ValueError(f"{path} is truncated or not plain arrays: {error}") from error
    return {name: array for name, array in arrays.items() if name in _FLAT}, {k: a.shape for k, a in arrays.items()}


def _from_hdf5(content, path):
    """Arrays of known names, and the shapes of all (None for what is no array). Damage may end in any error."""
    try:
        import h5py
    except ImportError:
        raise missing("experiments", "reading HDF5 needs h5py") from None
    arrays, shapes, room = {}, {}, LARGEST
    try:
        with h5py.File(io.BytesIO(content)) as file:
            for name in sorted(file):
                link = file.get(name, getlink=True)
                item = file[name] if isinstance(link, h5py.HardLink) else None
                shapes[name] = getattr(item, "shape", None)
                if _KNOWN.fullmatch(name):
                    room -= _plain_size(name, item, room)
                    arrays[name] = np.asarray(item[()])  # pyright: ignore[reportIndexIssue, reportOptionalSubscript]
    except _Refused as error:
        raise ValueError(f"{path}: {error}") from None
    except Exception as error:
        size = re.search(r"eof = (\d+).*stored_eof = (\d+)", str(error))
        wrong = f"expected {size[2]} bytes, found {size[1]}" if size else str(error)
        raise ValueError(
            f"{path} is truncated or damaged: {wrong}. Delete it and load again, or put a whole copy there"
        ) from error
    return arrays, shapes


class _Refused(ValueError):
    """What is whole and yet not read."""


def _plain_size(name, item, room):
    """Bytes that reading an array needs; refuse what is no array of numbers in this very file, or needs too many."""
    if item is None or not hasattr(item, "chunks"):
        raise _Refused(f"{name} is a link or a group; it should be an array in this file")
    if item.external or item.is_virtual:
        raise _Refused(f"{name} lies in other files; it should be an array in this file")
    if item.dtype.kind not in "biuf" or item.shape is None:
        raise _Refused(f"{name} should be numbers, are {item.dtype}")
    # A chunk is unpacked whole, even where the array has less.
    size = max(item.size, math.prod(item.chunks or ())) * item.dtype.itemsize
    if size > room:
        raise _Refused(f"{name} has {size} bytes; all arrays of a CartPole file may have {LARGEST}")
    return size


def _numbered(arrays, path, keys):
    """Flat arrays of d3rlpy 2's layout: one numbered dataset an episode and column."""
    names = ("observations", "actions", "rewards", "terminated")
    count = arrays["num_episodes"]
    if count.size != 1 or count.dtype.kind not in "iu":
        raise ValueError(f"{path}: num_episodes should be one integer, is {count.dtype} of shape {count.shape}")
    n_episodes = count.item()
    # More episodes than keys cannot all be there, and their names need not all be made.
    wanted = [f"{name}_{i}" for i in range(min(n_episodes, len(keys))) for name in names]
    lacking = [name for name in wanted if name not in arrays]
    if lacking or not wanted:
        raise ValueError(
            f"{path} says that it holds {n_episodes} episodes but lacks {lacking[:4]}; it has the keys {keys[:12]}"
        )
    if more := sorted(set(arrays) - {"num_episodes", *wanted}):
        raise ValueError(f"{path} says that it holds {n_episodes} episodes but has {more[:4]}, too")
    parts = [[arrays[f"{name}_{i}"] for i in range(n_episodes)] for name in names]
    return _join(*parts, path)  # pyright: ignore[reportCallIssue]


def _join(observations, actions, rewards, terminated, path):
    """Flat arrays of a list of episodes."""
    for number, parts in enumerate(zip(observations, actions, rewards, terminated)):
        *shapes, end = [np.shape(part) for part in parts]
        steps = shapes[1][:1]
        if steps in ((), (0,)) or shapes[0] != (*steps, 4) or any(s not in (steps, (*steps, 1)) for s in shapes[1:]):
            raise ValueError(
                f"{path}: episode {number} has observations, actions and rewards of shapes {shapes}; "
                "they should be (n, 4), (n, 1) and (n, 1)"
            )
        if end not in ((), (1,)) or not np.isin(parts[3], (0, 1)).all():
            raise ValueError(f"{path}: episode {number} has the end {parts[3]!r}; it should be one number, 0 or 1")
    ends = np.cumsum([len(part) for part in actions]) - 1
    terminals = np.zeros(ends[-1] + 1, bool)
    timeouts = np.zeros(ends[-1] + 1, bool)
    terminals[ends] = [bool(np.ravel(part)[0]) for part in terminated]
    timeouts[ends] = ~terminals[ends]
    return {
        "observations": np.concatenate(observations),
        "actions": np.concatenate([np.ravel(part) for part in actions]),
        "rewards": np.concatenate([np.ravel(part) for part in rewards]),
        "terminals": terminals,
        "timeouts": timeouts,
    }


def flat(arrays, shapes, path):
    """Check flat arrays; return them with one shape and type each. `shapes` has all that the file holds."""
    lacking = [name for name in _NEEDED if name not in arrays]
    if lacking:
        raise ValueError(
            f"{path} lacks {lacking}: it has the keys {sorted(shapes)[:12]}. A CartPole "
            f"file has {list(_NEEDED)} (flat), or columns and num_episodes (d3rlpy 2)"
        )
    observations = arrays["observations"]
    if observations.ndim != 2 or observations.shape[1] != 4 or not len(observations):
        raise ValueError(f"{path}: observations should be (n, 4), are {observations.shape}")
    n = len(observations)
    # Next observations or another name of an end would change what the rows mean.
    if unknown := [name for name, shape in shapes.items() if name not in _FLAT and shape and shape[0] == n]:
        raise ValueError(f"{path} has the columns {unknown}, which are not read; the names known are {sorted(_FLAT)}")
    columns = {}
    for name in sorted(_FLAT & set(arrays) - {"observations"}):
        if arrays[name].shape not in ((n,), (n, 1)):
            raise ValueError(f"{path}: {name} should be ({n},), are {arrays[name].shape}")
        columns[name] = arrays[name].reshape(n)
    columns["observations"] = observations
    for name, array in columns.items():
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{path}: {name} should be numbers, are {array.dtype}")
        with np.errstate(over="ignore"):
            kept = array if array.dtype.kind != "f" else array.astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(kept.reshape(n, -1)).all(axis=1))
        if len(bad):
            raise ValueError(f"{path}: {name} has {len(bad)} rows not finite in float32, the first {bad[0]}")
        if name not in ("observations", "rewards") and not np.isin(array, (0, 1)).all():
            found = np.unique(array)[:6].tolist()
            raise ValueError(f"{path}: {name} should be 0 or 1, has the values {found}")
    terminals = columns["terminals"].astype(bool)
    # A failure on the very step of the limit is a failure.
    cuts = [columns[name].astype(bool) & ~terminals for name in ("timeouts", "episode_terminals") if name in columns]
    if len(cuts) == 2 and (cuts[0] != cuts[1]).any():
        row = np.flatnonzero(cuts[0] != cuts[1])[0]
        raise ValueError(f"{path}: timeouts and episode_terminals differ, first in row {row}")
    timeouts = cuts[0] if cuts else np.zeros(n, bool)
    if not (terminals | timeouts).any():
        raise ValueError(f"{path}: no row ends an episode (terminals are all 0)")
    return {
        "observations": observations.astype(np.float32),
        "actions": columns["actions"].astype(np.int64),
        "rewards": columns["rewards"].astype(np.float32),
        "terminals": terminals,
        "timeouts": timeouts,
    }
