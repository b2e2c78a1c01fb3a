"""CartPole transitions for Section 6.1: d3rlpy's own file, or the recorded stand-in.

Both go through the same code: `files` reads and checks, `fetch` downloads, and
here the rows become transitions.
"""

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from .dynamics import ANGLE_LIMIT, X_LIMIT, cartpole_step
from .fetch import CARTPOLE_PATH, CARTPOLE_URL, fetch
from .files import read

__all__ = ["CartPoleData", "cartpole"]

DATA = Path(__file__).parents[1] / "data"
# States that lie no further apart are one: float32 keeps seven digits, another step is a hundred times as far.
SAME_STATE = 1e-4
# Share of steps that may be none of CartPole's in a file that passes for d3rlpy's.
FOREIGN = 0.05


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
        ``"d3rlpy"`` is d3rlpy's own replay file, read from ``d3rlpy_data/`` in the working directory,
        where ``d3rlpy.datasets.get_cartpole`` looks, and downloaded if it is not there. ``"standin"``
        is the recording that ships with this package: d3rlpy's DQN playing Gymnasium's CartPole-v1
        with episodes cut at 200 steps. ``"auto"`` takes the first if it is there or can be fetched
        within a few seconds, else the second; the environment variable ``RRL_OFFLINE``, if set,
        forbids the attempt. The result's ``source`` says which it was.
    path : str or Path, optional
        A file to read instead, of at most half a gigabyte: HDF5 in d3rlpy's version-2 layout or in
        the flat layout of version 1 (observations, actions, rewards, terminals and perhaps timeouts
        or episode_terminals), or an ``.npz`` file in that flat layout. It must hold its arrays
        itself: links and arrays in other files are refused, and columns of other names, too.

    Returns
    -------
    CartPoleData

    Raises
    ------
    ValueError
        If `source` is unknown, or a file is truncated, forged or laid out in another way. A broken
        file in ``d3rlpy_data/`` is reported, not passed over, whatever the source; and so is one
        with more than 5 % of steps whose reward, state or next state is not CartPole's.
    FileNotFoundError
        If `path` does not exist, or ``source="d3rlpy"`` finds neither file nor network.
    ImportError
        If a file needs h5py and the extra ``experiments`` is not installed.

    Notes
    -----
    d3rlpy's file is said to repeat each failure's row, which its loader takes for an episode of one
    step. A terminal row that repeats the terminal row before it is dropped, and so is one that
    holds a state beyond CartPole's limits, in which no action is taken: the row before it is then
    the failure. ``provenance["loader"]`` counts both, and the steps of any file that break CartPole's
    rules. d3rlpy publishes no digest of its file: what stands in its place is known by its steps
    alone, and ``sha256`` says which file it was.

    The stand-in's seed was chosen among eight for having about as many failures as d3rlpy's file is
    said to have. Its network unlearned to play near the end of the run, where most of the failures
    lie: ``provenance["mean_length_by_twentieth"]`` shows it, and ``python -m
    rrl.experiments.cartpole.standin`` makes the recording again.

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
        return _assemble(*read(path), "file", f"Transitions read from {path.name}.", {"file": path.name})
    if source == "standin":
        return _standin()
    target = Path(CARTPOLE_PATH)
    if not target.is_file():
        try:
            fetch(CARTPOLE_URL, target, _own_file)
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
    return _own_file(target)


def _own_file(path):
    """What stands in d3rlpy's place, whose rows must be CartPole's: there is no published digest to compare with."""
    about = {"file": Path(CARTPOLE_PATH).name, "url": CARTPOLE_URL}
    rows, sha256 = read(path)
    note = (
        f"d3rlpy's replay data of CartPole, as {Path(CARTPOLE_PATH).name} with SHA-256 {sha256[:12]} has them; d3rlpy "
        "publishes no digest, so this was recognised by its steps alone."
    )
    data = _assemble(rows, sha256, "d3rlpy", note, about)
    counts = data.provenance["loader"]
    wrong = {name: counts[name] for name in ("rewards_not_1", "states_beyond_limits", "steps_off_dynamics")}
    if any(count > len(data) * FOREIGN for count in wrong.values()):
        raise ValueError(
            f"{path} is not d3rlpy's CartPole data: of {len(data)} steps too many are none of CartPole's ({wrong}). "
            "Delete it and load again, or read it by path= as data of your own"
        )
    return data


def _standin(reason=""):
    """The recorded stand-in, checked against the digest recorded with it."""
    path = DATA / "cartpole_standin.npz"
    record = standin_record()
    check_sha256(path, record)
    note = f"Recorded stand-in for d3rlpy's CartPole data: {record['description']}.{reason}"
    return _assemble(*read(path), "standin", note, record)


def standin_record():
    """What is recorded of the stand-in's making: seeds, versions, command, digests."""
    return json.loads((DATA / "cartpole_standin.json").read_text())


def check_sha256(path, record):
    """Refuse a shipped file that is not the recorded one."""
    expected, found = record["sha256"][path.name], _sha256(path)
    if found != expected:
        raise ValueError(
            f"{path} ({path.stat().st_size} bytes) is damaged: SHA-256 should be {expected}, is "
            f"{found}. Reinstall rrl, or make the file again with: python -m rrl.experiments.cartpole.standin"
        )


def _sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _assemble(rows, sha256, source, description, about):
    """Drop the rows that are no steps, number the episodes and pair each row with the next."""
    observations, terminals = rows["observations"], rows["terminals"].copy()
    repeated = np.zeros(len(terminals), bool)
    repeated[1:] = terminals[1:] & terminals[:-1]
    repeated[1:] &= (observations[1:] == observations[:-1]).all(axis=1)
    beyond = np.abs(observations[:, 0]) > np.float32(X_LIMIT)
    beyond |= np.abs(observations[:, 2]) > np.float32(ANGLE_LIMIT)
    past = beyond & terminals
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
    states, _ = cartpole_step(observations.astype(np.float64), rows["actions"][keep])
    off = ~last & (np.abs(states - following).max(axis=1) > SAME_STATE)
    following[last] = 0
    following[timeouts] = np.nan
    counts = {
        "rows_read": len(keep),
        "repeated_rows_dropped": int((repeated & ~past).sum()),
        "final_states_dropped": int(past.sum()),
        "unfinished_rows_dropped": int(unfinished.sum()),
        "rewards_not_1": int((rows["rewards"][keep] != 1).sum()),
        "states_beyond_limits": int(beyond[keep].sum()),
        "steps_off_dynamics": int(off.sum()),
    }
    if off.any():
        description += f" After {off.sum():,} of its steps the next row is not the state that CartPole's rules give."
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
