"""Readers of CartPole files: whatever the layout, checked flat arrays or an error that says what is wrong.

Three layouts are known: the flat arrays of d3rlpy 1 (HDF5), the numbered episodes of d3rlpy 2 (HDF5), and flat
arrays in an ``.npz`` file, which is how the stand-in is shipped. Nothing that could run code is loaded.
"""

import re
import zipfile
import zlib

import numpy as np


def read(path):
    """Read a file of any known layout into checked flat arrays."""
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no file {path}")
    with path.open("rb") as stream:
        head = stream.read(8)
    if head.startswith(b"PK"):
        try:
            with np.load(path, allow_pickle=False) as archive:
                arrays = dict(archive)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
            raise ValueError(f"{path} is truncated or not plain arrays: {error}") from error
        return flat(arrays, path)
    if head != b"\x89HDF\r\n\x1a\n":
        raise ValueError(
            f"{path} ({path.stat().st_size} bytes) is not an HDF5 file: it begins with {head!r}. "
            "Delete it and load again, or put the right file there"
        )
    try:
        import h5py
    except ImportError:
        raise ImportError("reading HDF5 needs h5py: pip install 'rrl[experiments]'") from None
    try:
        with h5py.File(path) as file:
            if {"columns", "num_episodes"} <= set(file):
                return flat(_numbered(file, path), path)
            plain = [n for n in set(file) & _FLAT if isinstance(file[n], h5py.Dataset)]
            return flat({name: file[name][()] for name in plain}, path, list(file))
    except OSError as error:
        size = re.search(r"eof = (\d+).*stored_eof = (\d+)", str(error))
        wrong = f"expected {size[2]} bytes, found {size[1]}" if size else str(error)
        raise ValueError(
            f"{path} is truncated or damaged: {wrong}. Delete it and load again, or put a whole copy there"
        ) from error


_NEEDED = ("observations", "actions", "rewards", "terminals")
_FLAT = {*_NEEDED, "timeouts", "episode_terminals"}


def _numbered(file, path):
    """Flat arrays of d3rlpy 2's layout: one numbered dataset an episode and column."""
    names = ("observations", "actions", "rewards", "terminated")
    n_episodes = int(file["num_episodes"][()])
    wanted = [f"{name}_{i}" for i in range(n_episodes) for name in names]
    missing = [name for name in wanted if name not in file]
    if missing or not wanted:
        raise ValueError(
            f"{path} says that it holds {n_episodes} episodes but lacks {missing[:4]}; it has the "
            f"keys {sorted(file)[:12]}"
        )
    parts = [[file[f"{name}_{i}"][()] for i in range(n_episodes)] for name in names]
    return join(*parts, path)


def join(observations, actions, rewards, terminated, path):
    """Flat arrays of a list of episodes."""
    for number, parts in enumerate(zip(observations, actions, rewards)):
        shapes = [np.shape(part) for part in parts]
        steps = shapes[1][:1]
        if steps in ((), (0,)) or shapes[0] != (*steps, 4) or shapes[2][:1] != steps:
            raise ValueError(
                f"{path}: episode {number} has observations, actions and rewards of shapes {shapes}; "
                "they should be (n, 4), (n, 1) and (n, 1)"
            )
    ends = np.cumsum([len(part) for part in actions]) - 1
    terminals = np.zeros(ends[-1] + 1, bool)
    timeouts = np.zeros(ends[-1] + 1, bool)
    terminals[ends] = np.array(terminated, bool)
    timeouts[ends] = ~terminals[ends]
    return {
        "observations": np.concatenate(observations),
        "actions": np.concatenate(actions),
        "rewards": np.concatenate(rewards),
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
        bad = np.flatnonzero(~np.isfinite(array.reshape(n, -1)).all(axis=1))
        if len(bad):
            raise ValueError(f"{path}: {name} has {len(bad)} rows not finite, the first {bad[0]}")
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
