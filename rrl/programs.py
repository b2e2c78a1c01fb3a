"""Any program, in any language, run in pairs: one shared seed, a data seed each, and what it published."""

import contextlib
import hashlib
import math
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ._checks import check_integer, check_measurement, check_positive, check_probability
from ._outputs import digest_outputs, read_outputs, top
from ._progress import teller
from ._published import MOST, differences
from ._resume import Records
from .certify import settle
from .pairs import Pair, RunFailed, pair_children

__all__ = ["Program", "certify_program"]

#: Lines of standard error that are told of a run that failed.
TAIL = 12


class Running:
    """The processes that run now, to be ended together with all that they have started."""

    def __init__(self):
        self.lock, self.processes, self.stopped = threading.Lock(), set(), False

    def start(self, *arguments, **options):
        """A new process, unless all were stopped."""
        with self.lock:
            if self.stopped:
                raise RunFailed("was stopped")
            # A session of its own: Ctrl-C reaches us alone, and the whole group can be ended.
            process = subprocess.Popen(*arguments, **options, start_new_session=True)
            self.processes.add(process)
        return process

    def end(self, process):
        """End a process that still runs, with its children."""
        with self.lock:
            self._kill(process)
            self.processes.discard(process)

    def stop(self):
        """End all, and start no other."""
        with self.lock:
            self.stopped = True
            for process in self.processes:
                self._kill(process)

    def _kill(self, process):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                if hasattr(os, "killpg"):
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()


@dataclass(frozen=True)
class Program:
    """A command with places for its seeds and its output.

    Attributes
    ----------
    command : tuple of str
        Words; ``{data_seed}``, ``{shared_seed}`` and ``{out}`` stand for what each run gets. Seeds are
        integers from 0 to 2^31 - 1. Without ``{out}``, its standard output is what it publishes.
    keys : tuple of str
        See :func:`certify_program`.
    as_bytes : bool
    time_limit : float or None
        Seconds of a run.
    """

    command: tuple[str, ...]
    keys: tuple[str, ...]
    as_bytes: bool
    time_limit: float | None

    def check(self):
        """Refuse what cannot be measured, before anything runs."""
        if not self.command or not all(isinstance(word, str) for word in self.command):
            raise ValueError(
                f"command must be the program's words, as ['python', 'train.py', ...], got {self.command!r}"
            )
        text = " ".join(self.command)
        if "{data_seed}" not in text:
            raise ValueError(
                "the command has no {data_seed}: the two runs of a pair need data of their own, "
                f"so the program must take a seed for its data or environment, got {text}"
            )
        if "{shared_seed}" not in text:
            raise ValueError(
                "the command has no {shared_seed}: the two runs of a pair share the seed of the algorithm's own "
                f"random choices; if it has none, hand it over unused (env SHARED={{shared_seed}} ...), got {text}"
            )
        if self.keys and (self.as_bytes or "{out}" not in text):
            raise ValueError(
                f"a key is looked up in files that the program writes to {{out}}, not in bytes, got {self.keys}"
            )
        if self.time_limit is not None:
            check_positive(time_limit=self.time_limit)
        if shutil.which(self.command[0]) is None:
            raise ValueError(f"there is no program {self.command[0]!r}")

    def unit(self):
        """What tells its records from others': the command, the files that it names, and what is compared."""
        return {
            "experiment": "program",
            "command": list(self.command),
            "files": self.files(),
            "keys": list(self.keys),
            "bytes": self.as_bytes,
        }

    def files(self):
        """SHA-256 of the files that the command names."""
        found = {}
        for word in self.command:
            path = word.rpartition("=")[2]
            with contextlib.suppress(OSError, ValueError):
                if Path(path).is_file():
                    found[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        return found

    def compared(self):
        """What is compared, in words."""
        if "{out}" not in " ".join(self.command):
            return "the standard output"
        if self.as_bytes:
            return "the bytes of the files it writes"
        return ", ".join(self.keys) if self.keys else "everything in the files it writes"

    def words(self, shared_seed, data_seed, out="{out}"):
        """The command of one run."""
        places = {"{shared_seed}": f"{shared_seed}", "{data_seed}": f"{data_seed}", "{out}": f"{out}"}
        filled = []
        for word in self.command:
            for place, value in places.items():
                word = word.replace(place, value)
            filled.append(word)
        return filled

    def run(self, shared_seed, data_seed, running):
        """Run it once.

        Returns
        -------
        compared, beside : dict
            As :func:`read_outputs`.

        Raises
        ------
        RunFailed
            With the last lines of its standard error.
        """
        with tempfile.TemporaryDirectory(prefix="rrl-", ignore_cleanup_errors=True) as folder:
            place, out = Path(folder), Path(folder) / "out"
            out.mkdir()
            said = [place / name for name in ("stdout", "stderr")]
            with open(said[0], "wb") as stdout, open(said[1], "wb") as stderr:
                process = running.start(
                    self.words(shared_seed, data_seed, out / "out"),
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                )
                try:
                    status = process.wait(self.time_limit)
                except subprocess.TimeoutExpired:
                    raise RunFailed(f"ran longer than {self.time_limit:g} s{_tail(said)}") from None
                finally:
                    running.end(process)
                    process.wait()
            if status:
                how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
                raise RunFailed(f"{how}{_tail(said)}")
            if "{out}" in " ".join(self.command):
                paths = sorted(path for path in out.rglob("*") if path.is_file())
                files = {path.relative_to(out).as_posix(): path.read_bytes() for path in paths}
            else:
                files = {"stdout": said[0].read_bytes()}
            try:
                if not any(files.values()):
                    raise RunFailed("published nothing")
                return read_outputs(files, self.keys, self.as_bytes)
            except RunFailed as error:
                raise RunFailed(f"{error}{_tail(said)}") from None


def _tail(said):
    """The last lines that a run wrote to standard error, or else to standard output."""
    for name, path in zip(("error", "output"), said[::-1], strict=True):
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 20_000))
            lines = file.read().decode(errors="replace").rstrip().splitlines()[-TAIL:]
        if lines:
            return "\n".join([f"; the end of its standard {name}:", *(f"  | {line}" for line in lines)])
    return "; it wrote nothing to standard error"


def seeds(seed, index):
    """Shared seed and two data seeds of a pair, small enough for every language."""
    return [int(child.generate_state(1)[0] >> 1) for child in pair_children(seed, index, 3)]


def _pair(program, seed, index, running, slots, records):
    """One pair, from its record or by two runs side by side."""
    known = records.load(pair=index)
    if known:
        return Pair.from_dict(known)
    shared_seed, *data_seeds = seeds(seed, index)
    start = time.monotonic()

    failures = []

    def one(which):
        with slots:
            if failures:  # the pair is lost
                return None
            try:
                return program.run(shared_seed, data_seeds[which], running)
            except RunFailed as error:
                command = shlex.join(program.words(shared_seed, data_seeds[which]))
                failures.append(RunFailed(f"run {which + 1} of pair {index} {error}\n  command: {command}"))
                return None

    with ThreadPoolExecutor(2) as both:
        runs = list(both.map(one, (0, 1)))
    if failures:
        raise failures[0]
    (one_is, one_has), (two_is, two_has) = runs
    beside = sorted(one_has.keys() | two_has.keys())
    other = [top(n.split(" ", 1)[-1]) for n in beside if _unlike(one_has, two_has, n)]
    prints = (digest_outputs(one_is), digest_outputs(two_is))
    found = (0, ()) if prints[0] == prints[1] else differences(one_is, two_is)
    pair = Pair(index, shared_seed, prints, *found, None, tuple(data_seeds), tuple(dict.fromkeys(other))[:MOST])
    records.save(pair.to_dict(), time.monotonic() - start, pair=index)
    return pair


def _unlike(one, two, name):
    parts = [{name: values[name]} if name in values else {} for values in (one, two)]
    return digest_outputs(parts[0]) != digest_outputs(parts[1])


def program_pairs(program, seed, max_pairs, jobs, records):
    """Yield the pairs in order; all processes end with it."""
    running, slots, waiting = Running(), threading.Semaphore(jobs), deque()
    ahead = math.ceil(jobs / 2)
    with ThreadPoolExecutor(ahead) as pool:
        try:
            for index in range(max_pairs + ahead):
                if index < max_pairs:
                    waiting.append(pool.submit(_pair, program, seed, index, running, slots, records))
                if len(waiting) >= ahead or index >= max_pairs:
                    if not waiting:
                        return
                    yield waiting.popleft().result()
        finally:
            running.stop()
            for future in waiting:
                future.cancel()


def certify_program(
    command,
    *,
    rho,
    confidence=0.95,
    max_pairs=10_000,
    seed=0,
    jobs=1,
    time_limit=None,
    keys=(),
    as_bytes=False,
    allow_constant=False,
    progress=False,
    store=None,
):
    """Settle whether a program in any language is rho-replicable: what ``rrl certify`` does.

    Its runs come in pairs: the two of a pair get one shared seed and a data seed each. What they publish
    is compared exactly, and the measurement ends as soon as :func:`rrl.certify_replicability` would.

    Parameters
    ----------
    command : sequence of str
        The program's words, with ``{data_seed}``, ``{shared_seed}`` and ``{out}`` where they belong; seeds
        are integers from 0 to 2^31 - 1. At ``{out}`` it may write one file (with an ending of its own) or
        a folder; without ``{out}``, its standard output is compared.
    rho, confidence, max_pairs, progress
        As in :func:`rrl.certify_replicability`.
    seed : int, default=0
        Of the measurement.
    jobs : int, default=1
        Runs at a time.
    time_limit : float, optional
        Seconds after which a run has failed.
    keys : sequence of str, default=()
        What to compare of the files it writes: names of arrays in ``.npz`` and ``.safetensors``, entries
        of ``.json`` (``codes``, ``result.codes``). By default, all of it. Integers, booleans and text are
        compared; floats are refused, since they differ by the machine.
    as_bytes : bool, default=False
        Compare files bit by bit, whatever they hold. Files of other kinds are always compared so.
    allow_constant : bool, default=False
        Claim "replicable" even if all runs publish the same, whatever their seeds: nobody can then see
        that the program uses them.
    store : path or RunStore, optional
        Where every pair is put on record; the same call goes on from there.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        If the command has no place for one of the seeds, or an argument is out of its range.
    RunFailed
        If a run crashes, takes too long, or publishes nothing that can be compared. It names the run and
        the last lines of its standard error; its pair counts neither way, and ``certificate`` is that of
        the pairs before it.

    Examples
    --------
    >>> import sys
    >>> from rrl import certify_program
    >>> code = "import sys; print(sys.argv[2], int(sys.argv[1]) % 50 == 0)"
    >>> found = certify_program([sys.executable, "-c", code, "{data_seed}", "{shared_seed}"], rho=0.5, jobs=2)
    >>> found.verdict, found.n_pairs
    ('replicable', 6)
    """
    if isinstance(command, str):
        raise ValueError(f"command must be a list of words, as shlex.split makes of a text, got {command!r}")
    check_probability(rho=rho)
    check_measurement(confidence, seed, max_pairs=max_pairs)
    check_integer(1, jobs=jobs)
    program = Program(tuple(command), tuple(keys), bool(as_bytes), time_limit)
    program.check()
    records = Records(store, lambda: program.unit() | {"seed": int(seed)})
    pairs = program_pairs(program, int(seed), int(max_pairs), int(jobs), records)
    with teller(progress) as tell:
        settings = {"rho": rho, "confidence": confidence, "seed": int(seed)}
        return settle(pairs, **settings, tell=tell, needs_change=not allow_constant)
