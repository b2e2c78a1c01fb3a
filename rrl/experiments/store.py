"""The run store: one unit of work, one JSON record, named by what the unit is.

A unit is a dict with the key ``"experiment"`` and its parameters. Its record's file name is the
SHA-256 of the unit's canonical JSON, so that the same unit is never done twice, on any machine.
Records are only ever added: written beside, flushed to disk, then given their name.
"""

import contextlib
import ctypes
import datetime
import functools
import hashlib
import json
import math
import multiprocessing
import os
import signal
import threading
import time
import uuid
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path, PurePath

import numpy as np

from .provenance import provenance

__all__ = ["RunStore", "canonical", "unit_key"]


def canonical(value, path="value", nonfinite="refuse"):
    """Plain JSON value: numpy scalars, arrays, tuples and paths become numbers, lists and text.

    Parameters
    ----------
    value : object
    path : str
        How the value is called in error messages.
    nonfinite : {"refuse", "null"}
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
        if math.isfinite(value):
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


def _text(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(value):
    return hashlib.sha256(_text(value).encode()).hexdigest()


def unit_key(unit):
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


class RunStore:
    """Records of finished units in one folder; safe for several writers at once.

    Parameters
    ----------
    folder : path
        Made when the first record is written.

    Examples
    --------
    >>> import tempfile
    >>> from rrl.experiments.store import RunStore
    >>> units = [{"experiment": "demo", "n": n} for n in range(3)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = RunStore(folder)
    ...     records = store.run(units, lambda unit: {"square": unit["n"] ** 2}, progress=False)
    ...     [record["result"]["square"] for record in records], store.todo(units), store.status(units)
    ([0, 1, 4], [], {'done': 3, 'planned': 3})
    """

    def __init__(self, folder):
        self.folder = Path(folder)

    def path(self, unit):
        """Where the unit's record is or will be."""
        return self.folder / f"{unit_key(unit)}.json"

    def load(self, unit):
        """The unit's record, or None. A corrupt file is set aside as ``*.corrupt``."""
        return self._read(self.path(unit))

    def _read(self, path):
        try:
            text = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        # Deep nesting is no ValueError.
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            record = json.loads(text)
            whole = record["check"] == _digest(record["result"])
            # The first records have no seal.
            whole &= record.get("seal") in (None, _digest(record["provenance"]))
            if whole and f"{unit_key(record['unit'])}.json" == path.name:
                return record
        # Another reader may have set it aside already, or the folder may be read-only.
        with contextlib.suppress(OSError):
            os.replace(path, path.with_suffix(f".{uuid.uuid4().hex[:8]}.corrupt"))
        return None

    def records(self, experiment=None):
        """All good records, by file name; those of one experiment if it is named."""
        found = map(self._read, sorted(self.folder.glob("*.json")))
        return [r for r in found if r and experiment in (None, r["unit"]["experiment"])]

    def todo(self, units):
        """The units that have no good record yet."""
        return [unit for unit in units if self.load(unit) is None]

    def status(self, units):
        """How many of the planned units are done."""
        units = list(units)
        return {"done": len(units) - len(self.todo(units)), "planned": len(units)}

    def write(self, unit, result, provenance):
        """Add a record; one that is there already stays.

        Raises
        ------
        TypeError
            If unit or result hold something that JSON cannot; nothing is written then.
        OSError
            If the folder cannot be written or the disk is full; no half record is left.
        """
        path, result = self.path(unit), canonical(result, "result", "null")
        provenance = canonical(provenance, "provenance", "null")
        record = {
            "unit": canonical(unit, "unit"),
            "result": result,
            "check": _digest(result),
            "provenance": provenance,
            "seal": _digest(provenance),
        }
        part = self.folder / f".{path.stem}.{uuid.uuid4().hex}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with open(part, "x", encoding="utf-8") as file:
                    file.write(_text(record) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                if self.load(unit) is None:
                    os.replace(part, path)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            message = f"cannot write a record to {self.folder}: {error.strerror}; earlier records are whole"
            raise OSError(error.errno, message) from error

    def run(self, units, function, *, jobs=1, batch=None, progress=True, executor=None):
        """Do the units that have no record yet, and return the records of all.

        Parameters
        ----------
        units : iterable of dict
        function : callable
            ``function(unit)`` gives the result, a dict; it must depend on the unit only. With a
            `batch`, ``function([unit, ...])`` yields the results in order, and each is stored as it
            comes. With several jobs it must be importable.
        jobs : int
            Processes.
        batch : int, optional
            Hand up to so many units to one call, as a list.
        progress : bool
            Show a progress bar on standard error.
        executor : concurrent.futures.Executor, optional
            Used in place of own processes, such as ``dask.distributed.Client(...).get_executor()``;
            its workers must see the folder.

        Returns
        -------
        list of dict
            Records with ``unit``, ``result`` and ``provenance``, in the order of `units`.
        """
        if jobs < 1 or (batch is not None and batch < 1):
            raise ValueError(f"jobs and batch must be at least 1, got {jobs} and {batch}")
        units = list(units)
        keys = [unit_key(unit) for unit in units]
        todo = self.todo(dict(zip(keys, units, strict=True)).values())
        if todo:
            self._try_folder()
        batches = [todo[i : i + (batch or 1)] for i in range(0, len(todo), batch or 1)]
        with contextlib.ExitStack() as stack:
            bar = None
            if progress:
                from tqdm import tqdm

                bar = stack.enter_context(
                    tqdm(total=len(units), initial=len(units) - len(todo), unit="unit", disable=None)
                )
            if executor is None and jobs == 1:
                finished = (_work(self.folder, group, function, batch) for group in batches)
            else:
                if executor is None:
                    # Forked workers would share the parent's threads and generators.
                    context = multiprocessing.get_context("spawn")
                    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=start_worker)
                    stack.enter_context(executor)
                    stack.push(functools.partial(end_workers, set(multiprocessing.active_children())))
                waiting = [executor.submit(_work, self.folder, group, function, batch) for group in batches]
                stack.callback(lambda: [future.cancel() for future in waiting])
                finished = (future.result() for future in as_completed(waiting))
            for done in finished:
                if bar is not None:
                    bar.update(done)
        return [self.load(unit) for unit in units]

    def _try_folder(self):
        """Fail before the work, not after it, where nothing can be written."""
        probe = self.folder / f".{uuid.uuid4().hex}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise OSError(error.errno, f"cannot write records to {self.folder}: {error.strerror}") from error
        # What killed writers left; a younger part may be another writer's.
        for part in self.folder.glob(".*.part"):
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > 86_400:
                    part.unlink()


def end_workers(others, kind, *_):
    """After Ctrl-C, end the child processes that are not `others`: workers would finish their units first."""
    if kind is not None and issubclass(kind, KeyboardInterrupt):
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()


def end_with_parent():
    """Let a worker end when the process that started it is gone: killed, it could not tell its workers."""
    parent = multiprocessing.parent_process()

    def watch():
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def keep_freed_memory():
    """Let glibc keep what is freed, for this process.

    Torch on a CPU takes and frees megabytes at every layer, and each new page costs a fault. Other C libraries
    are left as they are.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in ((-4, 0), (-1, -1)):  # M_MMAP_MAX, M_TRIM_THRESHOLD
            mallopt(option, value)


def start_worker():
    """What every worker process does first."""
    # Ctrl-C reaches the whole group: a worker that dies of it within the pool's queue would leave the others waiting.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    keep_freed_memory()


def _work(folder, units, function, batch):
    """Do one batch and store each result; runs in a worker."""
    store, start = RunStore(folder), time.monotonic()
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    results = function(units) if batch else [function(units[0])]
    done = 0
    for unit, result in zip(units, results, strict=True):
        # After the work: only then are its libraries loaded and their devices known.
        origin = {**provenance(), "started": started, "seconds": round(time.monotonic() - start, 3)}
        store.write(unit, result, origin)
        done += 1
    return done
