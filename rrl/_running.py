"""One run of a program in any language: its words, its processes, what it published or how it failed."""

import contextlib
import errno
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from ._checks import check_positive
from ._outputs import read_outputs
from .pairs import RunFailed, RunPrevented

__all__ = ["Program", "Running", "command_text"]

#: Lines of standard error that are told of a run that failed.
TAIL = 12
#: What ends a job: a scheduler, Ctrl-C, a closed terminal; some send it to all that the job has started.
FROM_OUTSIDE = {getattr(signal, name, 0) for name in ("SIGTERM", "SIGINT", "SIGHUP")}


def command_text(words):
    """A command as one types it; braces alone need no quotes."""
    return " ".join(word if re.fullmatch(r"[\w@%+=:./{}-]+", word) else shlex.quote(word) for word in words)


class Running:
    """The processes that run now, to be ended together with all that they have started."""

    def __init__(self):
        self.lock, self.processes, self.stopped = threading.Lock(), set(), False

    def start(self, *arguments, **options):
        """A new process, unless all were stopped."""
        with self.lock:
            if self.stopped:
                raise RunPrevented("was stopped")
            # A session of its own: Ctrl-C reaches us alone, and the whole group can be ended.
            try:
                process = subprocess.Popen(*arguments, **options, start_new_session=True)
            except OSError as error:
                name = arguments[0][0]
                raise RunPrevented(f"could not be started ({_why_not(name, error)}") from error
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
        if "{out}" not in text and (told := _own_output(self.command)):
            raise ValueError(
                f"{told} would write where all runs write: put {{out}} in the file's place (with an ending of its "
                "own, as in {out}.json), for a file of each run that is compared"
            )
        _check_startable(self.command[0])

    def unit(self):
        """What tells its records from others': the command, the files that it names, and what is compared."""
        return {
            "experiment": "program",
            "command": list(self.command),
            "files": self.files(),
            "keys": list(self.keys),
            "bytes": self.as_bytes,
            # It decides what a crash is.
            **({"time_limit": self.time_limit} if self.time_limit is not None else {}),
        }

    def files(self):
        """SHA-256 of the files that the command names."""
        found = {}
        # A program that stands elsewhere, such as an interpreter, is no part of what is tried.
        first = [word for word in self.command[:1] if not Path(word).is_absolute()]
        for word in [*first, *self.command[1:]]:
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

    def words(self, shared_seed, data_seed, out="rrl-out"):
        """The command of one run; by default, one to paste."""
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
                    self.words(shared_seed, data_seed, str(out / "out")),
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
                raise (RunPrevented if -status in FROM_OUTSIDE else RunFailed)(f"{how}{_tail(said)}")
            if "{out}" in " ".join(self.command):
                paths = sorted(path for path in out.rglob("*") if path.is_file())
                files = {path.relative_to(out).as_posix(): path.read_bytes() for path in paths}
            else:
                files = {"stdout": said[0].read_bytes()}
            try:
                if not any(files.values()):
                    where = "at {out}" if "{out}" in " ".join(self.command) else "on standard output"
                    raise RunFailed(f"published nothing {where}")
                return read_outputs(files, self.keys, self.as_bytes)
            except RunFailed as error:
                failed = RunFailed(f"{error}{_tail(said, silent='')}")
                failed.unreadable = any(files.values())
                raise failed from None


def _own_output(command):
    """The option and the file by which a command seems to say where to write, or nothing."""
    for option, value in zip(command, (*command[1:], "")):
        name, equals, inner = option.partition("=")
        value = inner if equals else value
        long = re.fullmatch(r"--?out(put)?([-_]?(file|dir|folder|path))?", name)
        short = name == "-o" and re.search(r"\w\.[A-Za-z]\w*$", value)
        if (long or short) and value and not value.startswith(("-", "/dev/")):
            return option if equals else f"{option} {value}"
    return ""


def _check_startable(name):
    """Refuse a program that no process could be made of, and say why."""
    if shutil.which(name) is not None:
        return
    if os.path.dirname(name) and Path(name).is_file():
        raise ValueError(
            f"{name!r} is not executable: name its interpreter before it, as in sh {name}, or chmod +x {name}"
        )
    more = ""
    if Path(name).is_dir():
        more = ": it is a folder"
    elif Path(name).is_file():
        more = f" on the search path: write ./{name} for that of the working folder"
    raise ValueError(f"there is no program {name!r}{more}")


def _why_not(name, error):
    """Why a program did not start, in words."""
    if error.errno == errno.ENOEXEC:
        return f"{error.strerror}): name its interpreter before it, as in sh {name}"
    if isinstance(error, FileNotFoundError) and Path(name).is_file():
        return "the interpreter that its first line names is not there)"
    return f"{error.strerror})"


def _tail(said, silent="; it wrote nothing to standard error"):
    """The last lines that a run wrote to standard error, or else to standard output."""
    for name, path in zip(("error", "output"), said[::-1], strict=True):
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 20_000))
            lines = file.read().decode(errors="replace").rstrip().splitlines()[-TAIL:]
        if lines:
            return "\n".join([f"; the end of its standard {name}:", *(f"  | {line}" for line in lines)])
    return silent
