"""Readers of CartPole files: whatever the layout, checked flat arrays or an error that says what is wrong.

Three layouts are known: the flat arrays of d3rlpy 1 (HDF5), the numbered episodes of d3rlpy 2 (HDF5), and flat
arrays in an ``.npz`` file, which is how the stand-in is shipped. Nothing that could run code is loaded.
"""

import re

import numpy as np

from ..._extras import missing


def read(path):
    """Read a file of any known layout into checked flat arrays."""
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no file {path}")
    with path.open("rb") as stream:
        head = stream.read(8)
    if head.startswith(b"PK"):
        return flat(*_from_npz(path))
    if head != b"\x89HDF\r\n\x1a\n":
        raise ValueError(
            f"{path} ({path.stat().st_size} bytes) is not an HDF5 file: it begins with {head!r}. "
            "Delete it and load again, or put the right file there"
        )
    arrays, keys = _from_hdf5(path)
    if {"columns", "num_episodes"} <= set(keys):
        return flat(_numbered(arrays, path, keys), path)
    return flat({name: arrays[name] for name in _FLAT & set(arrays)}, path, keys)


_NEEDED = ("observations", "actions", "rewards", "terminals")
_FLAT = {*_NEEDED, "timeouts", "episode_terminals"}
_KNOWN = re.compile(r"num_episodes|(observations|actions|rewards|terminated)_\d+|" + "|".join(sorted(_FLAT)))


def _from_npz(path):
    """Arrays of known names, the path and all names. Damage may end in any error of numpy's, zipfile's or zlib's."""
    try:
        # Given a path, numpy would leave a damaged file open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files if name in _FLAT}
            return arrays, path, archive.files
    except Exception as error:
        raise ValueError(f"{path} is truncated or not plain arrays: {error}") from error


def _from_hdf5(path):
    """Arrays of known names, and all names. Damage may end in any error of h5py's."""
    try:
        import h5py
    except ImportError:
        raise missing("experiments", "reading HDF5 needs h5py") from None
    try:
        with h5py.File(path) as file:
            keys = sorted(file)
            plain = [name for name in keys if _KNOWN.fullmatch(name) and isinstance(file[name], h5py.Dataset)]
            return {name: np.asarray(file[name][()]) for name in plain}, keys
    except Exception as error:
        size = re.search(r"eof = (\d+).*stored_eof = (\d+)", str(error))
        wrong = f"expected {size[2]} bytes, found {size[1]}" if size else str(error)
        raise ValueError(
            f"{path} is truncated or damaged: {wrong}. Delete it and load again, or put a whole copy there"
        ) from error


def _numbered(arrays, path, keys):
    """Flat arrays of d3rlpy 2's layout: one numbered dataset an episode and column."""
    names = ("observations", "actions", "rewards", "terminated")
    count = arrays.get("num_episodes", np.empty(0))
    if count.size != 1 or count.dtype.kind not in "iu":
        raise ValueError(f"{path}: num_episodes should be one integer, is {count.dtype} of shape {count.shape}")
    n_episodes = count.item()
    # More episodes than keys cannot all be there, and their names need not all be made.
    wanted = [f"{name}_{i}" for i in range(min(n_episodes, len(keys))) for name in names]
    missing = [name for name in wanted if name not in arrays]
    if missing or not wanted:
        raise ValueError(
            f"{path} says that it holds {n_episodes} episodes but lacks {missing[:4]}; it has the keys {keys[:12]}"
        )
    parts = [[arrays[f"{name}_{i}"] for i in range(n_episodes)] for name in names]
    return join(*parts, path)


def join(observations, actions, rewards, terminated, path):
    """Flat arrays of a list of episodes."""
    for number, parts in enumerate(zip(observations, actions, rewards, terminated)):
        kinds = [np.asarray(part).dtype for part in parts]
        if any(kind.kind not in "biuf" for kind in kinds):
            raise ValueError(f"{path}: episode {number} should be numbers, has the types {list(map(str, kinds))}")
        *shapes, end = [np.shape(part) for part in parts]
        steps = shapes[1][:1]
        if steps in ((), (0,)) or shapes[0] != (*steps, 4) or any(s not in (steps, (*steps, 1)) for s in shapes[1:]):
            raise ValueError(
                f"{path}: episode {number} has observations, actions and rewards of shapes {shapes}; "
                "they should be (n, 4), (n, 1) and (n, 1)"
            )
        if end not in ((), (1,)):
            raise ValueError(f"{path}: episode {number} has an end of shape {end}; it should be one number")
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


def flat(arrays, path, keys=None):
    """Check flat arrays; return them with one shape and type each."""
    missing = [name for name in _NEEDED if name not in arrays]
    if missing:
        raise ValueError(
            f"{path} lacks {missing}: it has the keys {sorted(keys or arrays)[:12]}. A CartPole "
            f"file has {list(_NEEDED)} (flat), or columns and num_episodes (d3rlpy 2)"
        )
    observations = arrays["observations"]
    if observations.ndim != 2 or observations.shape[1] != 4 or not len(observations):
        raise ValueError(f"{path}: observations should be (n, 4), are {observations.shape}")
    n = len(observations)
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
    cut = columns.get("timeouts", columns.get("episode_terminals", np.zeros(n))).astype(bool)
    if not (terminals | cut).any():
        raise ValueError(f"{path}: no row ends an episode (terminals are all 0)")
    return {
        "observations": observations.astype(np.float32),
        "actions": columns["actions"].astype(np.int64),
        "rewards": columns["rewards"].astype(np.float32),
        "terminals": terminals,
        # a failure on the very step of the limit is a failure
        "timeouts": cut & ~terminals,
    }
