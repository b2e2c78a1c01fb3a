"""Runs of games whose training together was interrupted: they go on as they began, whatever is asked for then."""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rrl.experiments.store import RunStore, sweep_parts, unit_key
from rrl.pqn.config import PQNConfig
from rrl.pqn.files import load_header

if TYPE_CHECKING:
    from typing import Any

__all__ = ["batches", "begun_with", "checkpoint_path", "config_of"]


def config_of(unit: Any) -> Any:
    """The settings of a unit as they were given to the trainer."""
    settings = dict(unit["settings"])
    return PQNConfig(**{**settings, "adam_betas": tuple(settings["adam_betas"])})


def checkpoint_path(folder: Any, batch: Any) -> Any:
    """Where the units of a batch, in this order, keep their state while they train."""
    digest = hashlib.sha256("".join(map(unit_key, batch)).encode()).hexdigest()[:16]
    return Path(folder) / "networks" / f"checkpoint-{digest}.safetensors"


class _Begun(NamedTuple):
    """A checkpoint of units that train together."""

    path: Path
    units: list[dict]
    iteration: int

    def still(self, due, store):
        """Iterations of one run that are saved by going on here rather than anew, and which of the keys `due` end here.

        (0, []) where runs would go on that are neither due nor recorded, or where to go on would be more work.
        """
        keys = [unit_key(unit) for unit in self.units]
        own = [key for key in keys if key in due]
        others = [unit for key, unit in zip(keys, self.units, strict=True) if key not in due]
        if not own or not all(map(store.load, others)):
            return 0, []
        total = config_of(self.units[0]).n_iterations
        saved = len(own) * total - len(keys) * (total - self.iteration)
        return (saved, own) if saved > 0 else (0, [])


def _begun(folder):
    """The checkpoints in a folder that say what they are of."""
    found = []
    for path in sorted(Path(folder, "networks").glob("checkpoint-*.safetensors")):
        # What is wrong with one is said by who loads it.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            header = load_header(path)
            if checkpoint_path(folder, header["label"]) == path:
                found.append(_Begun(path, header["label"], header["iteration"]))
    return found


def begun_with(batch: list[dict], folder: Any) -> list[dict]:
    """The units with which a batch was begun: itself, and those of it that are recorded since.

    Parameters
    ----------
    batch : list of dict
    folder : path
        Of the run store.

    Returns
    -------
    list of dict
    """
    keys, store = [unit_key(unit) for unit in batch], RunStore(folder)
    found = [(one.still(keys, store), one.units) for one in _begun(folder)]
    found = [(saved, units) for (saved, own), units in found if own == keys]
    return max(found, key=lambda entry: entry[0], default=(0, batch))[1]


def batches(units: list[dict], *, folder: Any, size: int) -> list[list[dict]]:
    """Units that train together: first what was interrupted, as it began, then as many as `size` at a time.

    Checkpoints of which all runs are recorded are removed.

    Parameters
    ----------
    units : list of dict
        Without those that are recorded.
    folder : path
        Of the run store.
    size : int

    Returns
    -------
    list of list of dict
    """
    due, found, store = {unit_key(unit): unit for unit in units}, [], RunStore(folder)
    sweep_parts(Path(folder, "networks"), time.time())
    begun = _begun(folder)
    while keys := max([one.still(due, store) for one in begun], default=(0, []))[1]:
        found.append([due.pop(key) for key in keys])
    for one in begun:
        if all(map(store.load, one.units)):
            one.path.unlink(missing_ok=True)
    rest = list(due.values())
    return found + [rest[i : i + size] for i in range(0, len(rest), size)]
