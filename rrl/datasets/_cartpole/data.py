"""CartPole transitions for Section 6.1: d3rlpy's own file, or the recorded stand-in.

Both go through the same code: `files` reads and checks, `fetch` downloads, and
here the rows become transitions.
"""

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from .fetch import CARTPOLE_PATH, CARTPOLE_URL, episodes_of_d3rlpy, fetch
from .files import flat, join, read

__all__ = ["CartPoleData", "cartpole"]

DATA = Path(__file__).parents[1] / "data"
X_LIMIT, ANGLE_LIMIT = np.float32(2.4), np.float32(12 * 2 * np.pi / 360)


@dataclass(frozen=True, eq=False)
class CartPoleData:
    """Transitions of CartPole, one row a step, episodes one after the other (Section 6.1).

    The arrays are read-only. A row whose episode goes on has the next row's observation as its next
    observation. The files keep no observation after an episode's last step, so the next observation
    of a failure is zeros (its value is 0 and nothing looks at it) and that of a time limit, whose
    value has to be bootstrapped, is NaN: such a row is not `usable`.

    Attributes
    ----------
    observations : ndarray of float32, shape (n, 4)
        Cart position (m), cart velocity (m/s), pole angle (rad), pole angular velocity (rad/s).
    actions : ndarray of int64, shape (n,)
        0 pushes left, 1 pushes right.
    rewards : ndarray of float32, shape (n,)
    next_observations : ndarray of float32, shape (n, 4)
    terminals : ndarray of bool, shape (n,)
        True where the pole fell or the cart left the track: the value of the next state is 0.
    timeouts : ndarray of bool, shape (n,)
        True where the episode was cut while the pole was still up.
    episodes : ndarray of int64, shape (n,)
        Number of the row's episode, counted from 0.
    source : str
        ``"d3rlpy"``, ``"standin"``, ``"file"``, ``"random"``, ``"replay"`` or ``"play"``.
    sha256 : str
        Digest of the file that was read, or of the arrays if they were generated.
    description : str
        One sentence on where the rows come from, for a caption.
    provenance : dict
        What is recorded of their making, and what the loader dropped.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    next_observations: np.ndarray
    terminals: np.ndarray
    timeouts: np.ndarray
    episodes: np.ndarray
    source: str
    sha256: str
    description: str
    provenance: dict

    def __post_init__(self):
        for name in _ARRAYS:
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self):
        return len(self.actions)

    def __repr__(self):
        return (
            f"CartPoleData({len(self):,} transitions, {self.n_episodes:,} episodes, "
            f"{self.terminals.sum():,} failures, {self.timeouts.sum():,} time limits, "
            f"source={self.source!r})"
        )

    @property
    def n_episodes(self):
        """Number of episodes that have a row here."""
        return len(np.unique(self.episodes))

    @property
    def usable(self):
        """Mask of shape (n,): rows whose regression target can be computed."""
        return self.terminals | np.isfinite(self.next_observations).all(axis=1)

    def usable_rows(self):
        """Return the same data without the rows whose next observation is needed but unknown.

        Returns
        -------
        CartPoleData

        Examples
        --------
        >>> from rrl.datasets import cartpole
        >>> data = cartpole(source="standin")
        >>> rows = data.usable_rows()
        >>> len(data) - len(rows) == data.timeouts.sum() and not rows.timeouts.any()
        True
        """
        return self.take(self.usable)

    def take(self, index):
        """Return the rows that `index` (a mask, a slice or row numbers) picks, in that order.

        Returns
        -------
        CartPoleData
            ``sha256`` and ``provenance`` stay those of the whole data.
        """
        return replace(self, **{name: getattr(self, name)[index] for name in _ARRAYS})


_ARRAYS = tuple(f.name for f in fields(CartPoleData) if f.type is np.ndarray)


def cartpole(source="auto", path=None):
    """Load CartPole transitions (Section 6.1).

    Parameters
    ----------
    source : {"auto", "d3rlpy", "standin"}
        ``"d3rlpy"`` is d3rlpy's own replay file, read through ``d3rlpy.datasets.get_cartpole`` from
        ``d3rlpy_data/`` in the working directory and downloaded if it is not there. ``"standin"``
        is the recording that ships with this package: d3rlpy's DQN playing Gymnasium's CartPole-v1
        with episodes cut at 200 steps. ``"auto"`` takes the first if it is there or can be fetched
        within a few seconds, else the second; the environment variable ``RRL_OFFLINE``, if set,
        forbids the attempt. The result's ``source`` says which it was.
    path : str or Path, optional
        A file to read instead: HDF5 in d3rlpy's version-2 layout or in the flat layout of version 1
        (observations, actions, rewards, terminals and perhaps timeouts or episode_terminals), or
        an ``.npz`` file in that flat layout.

    Returns
    -------
    CartPoleData

    Raises
    ------
    ValueError
        If `source` is unknown, or a file is truncated, forged or laid out in another way. A broken
        file in ``d3rlpy_data/`` is reported, not passed over, whatever the source.
    FileNotFoundError
        If `path` does not exist, or ``source="d3rlpy"`` finds neither file nor network.
    ImportError
        If a file needs h5py or d3rlpy and the extra ``experiments`` is not installed.

    Notes
    -----
    d3rlpy's file is said to repeat each failure's row, which its loader takes for an episode of one
    step. A terminal row that repeats the terminal row before it is dropped, and so is one that
    holds a state beyond CartPole's limits, in which no action is taken: the row before it is then
    the failure. ``provenance["loader"]`` counts both.

    The stand-in's seed was chosen among eight for having about as many failures as d3rlpy's file is
    said to have. Its network unlearned to play near the end of the run, where most of the failures
    lie: ``provenance["mean_length_by_twentieth"]`` shows it, ``provenance["command"]`` makes the
    recording again.

    Examples
    --------
    >>> from rrl.datasets import cartpole
    >>> data = cartpole(source="standin")
    >>> data.observations.shape[1], data.source
    (4, 'standin')
    """
    if source not in ("auto", "d3rlpy", "standin"):
        raise ValueError(f"source must be 'auto', 'd3rlpy' or 'standin', got {source!r}")
    if path is not None:
        if source != "auto":
            raise ValueError(f"give either source or path, got source={source!r}, path={path!r}")
        path = Path(path)
        note = f"Transitions read from {path.name}."
        return _assemble(read(path), "file", _sha256(path), note, {"file": path.name})
    if source == "standin":
        return _standin()
    target = Path(CARTPOLE_PATH)
    if not target.is_file():
        try:
            fetch(CARTPOLE_URL, target, read)
        except (OSError, ImportError) as error:
            if source == "auto":
                return _standin(f" d3rlpy's own file was not used: {error}.")
            if isinstance(error, ImportError):
                raise
            raise FileNotFoundError(
                f"d3rlpy's CartPole file is not at {target.absolute()} and could not be fetched "
                f"from {CARTPOLE_URL}: {error}. Download it elsewhere and put it there, or pass "
                "path=, or use source='standin'"
            ) from error
    read(target)  # d3rlpy's reader checks nothing: find what is wrong first
    rows = flat(join(*episodes_of_d3rlpy(), target), target)
    note = "d3rlpy's replay data of CartPole (d3rlpy.datasets.get_cartpole)."
    about = {"file": target.name, "url": CARTPOLE_URL}
    return _assemble(rows, "d3rlpy", _sha256(target), note, about)


def _standin(reason=""):
    """The recorded stand-in, checked against the digest recorded with it."""
    path = DATA / "cartpole_standin.npz"
    record = standin_record()
    check_sha256(path, record)
    note = f"Recorded stand-in for d3rlpy's CartPole data: {record['description']}.{reason}"
    return _assemble(read(path), "standin", record["sha256"][path.name], note, record)


def standin_record():
    """What is recorded of the stand-in's making: seeds, versions, command, digests."""
    return json.loads((DATA / "cartpole_standin.json").read_text())


def check_sha256(path, record):
    """Refuse a shipped file that is not the recorded one."""
    expected, found = record["sha256"][path.name], _sha256(path)
    if found != expected:
        raise ValueError(
            f"{path} ({path.stat().st_size} bytes) is damaged: SHA-256 should be {expected}, is "
            f"{found}. Reinstall rrl, or make the file again with: {record['command']}"
        )


def _sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _assemble(rows, source, sha256, description, about):
    """Drop the rows that are no steps, number the episodes and pair each row with the next."""
    observations, terminals = rows["observations"], rows["terminals"].copy()
    repeated = np.zeros(len(terminals), bool)
    repeated[1:] = terminals[1:] & terminals[:-1]
    repeated[1:] &= (observations[1:] == observations[:-1]).all(axis=1)
    past = np.abs(observations[:, 0]) > X_LIMIT
    past |= np.abs(observations[:, 2]) > ANGLE_LIMIT
    past &= terminals
    before = np.flatnonzero(past[1:])
    terminals[before] |= ~rows["timeouts"][before]
    # rows after the last end belong to an unfinished episode, which d3rlpy does not load either
    unfinished = np.cumsum((terminals | rows["timeouts"])[::-1])[::-1] == 0
    keep = ~(repeated | past | unfinished)
    if not keep.any():
        raise ValueError(f"{description} None of its {len(keep)} rows is a step of CartPole")

    observations, terminals = observations[keep], terminals[keep]
    timeouts = rows["timeouts"][keep]
    last = terminals | timeouts
    following = np.zeros_like(observations)
    following[:-1] = observations[1:]
    following[last] = 0
    following[timeouts] = np.nan
    counts = {
        "rows_read": len(keep),
        "repeated_rows_dropped": int((repeated & ~past).sum()),
        "final_states_dropped": int(past.sum()),
        "unfinished_rows_dropped": int(unfinished.sum()),
    }
    return CartPoleData(
        observations=observations,
        actions=rows["actions"][keep],
        rewards=rows["rewards"][keep],
        next_observations=following,
        terminals=terminals,
        timeouts=timeouts,
        episodes=np.cumsum(np.r_[False, last[:-1]]),
        source=source,
        sha256=sha256,
        description=description,
        provenance={**about, "loader": counts},
    )
