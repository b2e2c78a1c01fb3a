"""The run store: one unit of work, one JSON record, named by what the unit is.

A unit is a dict with the key ``"experiment"`` and its parameters. Its record's file name is the
SHA-256 of the unit's canonical JSON, so that the same unit is never done twice, on any machine.
Records are only ever added: written beside, flushed to disk, then given their name.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import functools
import multiprocessing
import os
import sys
import time
import uuid
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING

from .._files import write_durably
from .._progress import progress_bar
from ._listing import settings
from .provenance import loaded_code, provenance
from .records import DamagedRecord, canonical, is_record_name, make_record, read_record, record_text, unit_key
from .workers import end_workers, portable, start_worker

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["RunStore", "canonical", "unit_key"]

#: Failed units that an error names besides the first.
MOST_TOLD = 10
#: Failures that are told at once, each in a line: a slip in a study fails in every unit.
AT_ONCE = 20


class CannotWrite(OSError):
    """A record that cannot be written: no other could be."""


@functools.cache
def _tell(text):
    """Say it once on standard error."""
    print(text, file=sys.stderr, flush=True)


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

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = Path(folder)

    def path(self, unit: Any) -> Any:
        """Where the unit's record is or will be."""
        return self.folder / f"{unit_key(unit)}.json"

    def load(self, unit: Any) -> Any:
        """The unit's record; None where there is none. A damaged one counts as none, and standard error says so."""
        return self._read(self.path(unit))

    def _read(self, path):
        try:
            return read_record(path, path.stem)
        except FileNotFoundError:
            return None
        except DamagedRecord as error:
            _tell(f"damaged record {path}: {error}; it counts as missing")
            return None

    def records(self, experiment: Any = None) -> Any:
        """All good records, by file name; those of one experiment if it is named. See `load` for the others."""
        found = (self._read(path) for path in sorted(self.folder.glob("*.json")) if is_record_name(path))
        return [r for r in found if r and experiment in (None, r["unit"]["experiment"])]

    def todo(self, units: Any) -> Any:
        """The units that have no good record yet."""
        return [unit for unit in units if self.load(unit) is None]

    def status(self, units: Any) -> Any:
        """How many of the planned units are done."""
        units = list(units)
        return {"done": len(units) - len(self.todo(units)), "planned": len(units)}

    def write(self, unit: Any, result: Any, provenance: Any) -> Any:
        """Add a record; one that is there already stays, and a damaged one is set aside as ``*.corrupt``.

        Raises
        ------
        TypeError
            If unit or result hold something that JSON cannot; nothing is written then.
        OSError
            If the folder cannot be written or the disk is full; no half record is left.
        """
        path, text = self.path(unit), record_text(make_record(unit, result, provenance)) + "\n"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Another process whose clock is ahead may take our part for what a killed writer left.
            for again in (True, True, False):
                try:
                    return write_durably(path, text.encode(), is_free=lambda: self._is_free(path))
                except FileNotFoundError:
                    if not again:
                        raise
        except OSError as error:
            message = f"cannot write a record to {self.folder}: {error.strerror}; earlier records are whole"
            raise CannotWrite(error.errno, message) from error

    def _is_free(self, path):
        """Whether a record may be put there; what is there and is no whole record is set aside first."""
        try:
            read_record(path, path.stem)
        except FileNotFoundError:
            return True
        except DamagedRecord as error:
            aside = path.with_suffix(f".{uuid.uuid4().hex[:8]}.corrupt")
            with contextlib.suppress(FileNotFoundError):  # another writer has set it aside
                os.replace(path, aside)
                try:
                    read_record(aside, path.stem)
                except (DamagedRecord, FileNotFoundError):  # a link may now lead nowhere
                    _tell(f"damaged record {path}: {error}; set aside as {aside.name}")
                else:
                    # Since we looked, another writer has put a whole record in its place.
                    os.replace(aside, path)
                    return False
            return True
        return False

    def run(
        self,
        units: Iterable[dict],
        function: Callable[..., Any],
        *,
        jobs: int = 1,
        batch: int | Callable[[list[dict]], list[list[dict]]] | None = None,
        progress: bool = True,
        executor: Any = None,
        origin: dict | None = None,
    ) -> list[dict]:
        """Do the units that have no record yet, and return the records of all.

        A unit that fails is named, at once where progress is shown, and the others are finished.

        Parameters
        ----------
        units : iterable of dict
        function : callable
            ``function(unit)`` gives the result, a dict; it must depend on the unit only. With a
            `batch`, ``function([unit, ...])`` yields the results in order, and each is stored as it
            comes. A function of a notebook's cell goes to other processes with all that it names.
        jobs : int
            Processes.
        batch : int or callable, optional
            Hand up to so many units to one call, as a list; or what splits the list of units without a record into
            such lists.
        progress : bool
            Show on standard error how far it is: a bar on a terminal, elsewhere a line every half minute.
        executor : concurrent.futures.Executor, optional
            Used in place of own processes, such as ``dask.distributed.Client(...).get_executor()``;
            its workers must see the folder.
        origin : dict, optional
            What the provenance of each record says besides what rrl knows.

        Returns
        -------
        list of dict
            Records with ``unit``, ``result`` and ``provenance``, in the order of `units`.

        Raises
        ------
        TypeError
            If `function` cannot be handed to other processes; nothing is computed then.
        Exception
            That of the first unit that failed, with notes on all that did, when the others are done.
        """
        if jobs < 1 or not (batch is None or callable(batch) or batch >= 1):
            raise ValueError(f"jobs and batch must be at least 1, got {jobs} and {batch}")
        units = list(units)
        keys = [unit_key(unit) for unit in units]
        todo = self.todo(dict(zip(keys, units, strict=True)).values())
        if todo:
            self._try_folder()
        if callable(batch):
            batches = batch(todo)
        else:
            batches = [todo[i : i + (batch or 1)] for i in range(0, len(todo), batch or 1)]
        work, failures = functools.partial(_work, self.folder, together=batch is not None, more=origin), []
        with contextlib.ExitStack() as stack:
            bar = progress_bar(len(units), initial=len(units) - len(todo), show=progress)
            bar = stack.enter_context(bar)
            if executor is None and jobs == 1:
                finished = (functools.partial(work, g, function) for g in batches)
            else:
                if not isinstance(executor, ThreadPoolExecutor):
                    function = portable(function)
                if executor is None:
                    # Forked workers would share the parent's threads and generators.
                    context = multiprocessing.get_context("spawn")
                    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=start_worker)
                    # Its own thread cancels what waits: a future cancelled from here would end that thread.
                    stack.callback(executor.shutdown, cancel_futures=True)
                    stack.push(functools.partial(end_workers, set(multiprocessing.active_children())))
                else:
                    stack.callback(lambda: [future.cancel() for future in waiting])
                waiting = [executor.submit(work, g, function) for g in batches]
                finished = (future.result for future in as_completed(waiting))
            for done in finished:
                try:
                    bar.update(done())
                except Exception as error:
                    if not hasattr(error, "units_left"):  # not the function's own: no other unit would fare better
                        raise
                    if progress and len(failures) < AT_ONCE:
                        print(f"failed: {_told(error)}", file=sys.stderr, flush=True)
                    failures.append(error)
        if failures:
            raise _all_told(failures, len(todo), progress)
        return [self.load(unit) for unit in units]

    def _try_folder(self):
        """Fail before the work, not after it, where nothing can be written."""
        probe = self.folder / f".{uuid.uuid4().hex}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(probe, "x") as file:
                now = os.fstat(file.fileno()).st_mtime  # by the clock that stamps the parts
            probe.unlink(missing_ok=True)
        except OSError as error:
            raise CannotWrite(error.errno, f"cannot write records to {self.folder}: {error.strerror}") from error
        sweep_parts(self.folder, now)


def sweep_parts(folder: Path, now: float) -> None:
    """Remove what killed writers left in a folder more than a day ago; a younger part may be another writer's."""
    for part in folder.glob(".*.part"):
        with contextlib.suppress(OSError):
            if now - part.stat().st_mtime > 86_400:
                part.unlink()


def _work(folder, units, function, *, together, more):
    """Do one batch and store each result; runs in a worker. Return how many."""
    store, start = RunStore(folder), time.monotonic()
    loaded_code()  # before the work: what is committed while it runs is none of it
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    done = 0
    try:
        results = function(units) if together else [function(units[0])]
        for unit, result in zip(units, results, strict=True):
            # After the work: only then are its libraries loaded and their devices known.
            origin = {**provenance(), **(more or {}), "started": started, "seconds": round(time.monotonic() - start, 3)}
            store.write(unit, result, origin)
            done += 1
    except CannotWrite:
        raise
    except (Exception, SystemExit) as caught:  # a program's own way to stop ends its unit only
        error, left = _sendable(caught), units[done:]
        together = f", and {len(left) - 1} more that were computed with it" if len(left) > 1 else ""
        if left:
            error.add_note(f"unit {unit_key(left[0])[:12]} ({settings(canonical(left[0]))}){together}")
        setattr(error, "units_left", len(left))  # noqa: B010 (no exception declares it)
        if error is caught:
            raise
        raise error from caught
    return done


def _sendable(error):
    """The error, or its words where it would not survive the way to the process that asked, and the pool with it."""
    words = RuntimeError(f"{type(error).__name__}: {error}")
    if isinstance(error, SystemExit):
        return words
    if multiprocessing.parent_process() is not None:
        try:
            copy.deepcopy(error)  # takes it apart and makes it anew, as the way does
        except Exception:
            return words
        return words if "<locals>" in type(error).__qualname__ else error
    return error


def _told(error):
    """An error and its unit in one line."""
    return " ".join("; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])]).split())


def _all_told(failures, planned, told):
    """The first of the failures, with notes on the others; what was told at once is summed up in `summary`."""
    first, *others = failures
    left = sum(error.units_left for error in failures)
    if told:
        done = f"; the other {planned - left} were done and are on record" if left < planned else ""
        above = "as told above" if len(failures) <= AT_ONCE else f"{AT_ONCE} of them told above"
        setattr(first, "summary", f"{left} of {planned} units failed, {above}{done}")  # noqa: B010
    for error in others[:MOST_TOLD]:
        first.add_note(f"failed too: {_told(error)}")
    if len(others) > MOST_TOLD:
        first.add_note(f"and {len(others) - MOST_TOLD} more that failed")
    if left < planned:
        first.add_note(f"{planned - left} of {planned} units were done and are on record")
    return first
