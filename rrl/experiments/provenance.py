"""Where and with what a record was made."""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import html
import importlib.metadata
import math
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["clock_seconds", "commit_text", "loaded_code", "plain_markdown", "processor_name", "provenance"]

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "gymnasium", "ale-py", "minari", "d3rlpy", "numba")
HERE = Path(__file__).resolve()
# What a person's git may be told to do otherwise, so that the same changes have the same digest everywhere.
DIFF = (
    *("diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--unified=3"),
    *("--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/", "--find-renames", "--diff-algorithm=default"),
    *("--indent-heuristic", "--submodule=short", "--ignore-submodules=none", f"-O{os.devnull}"),
)


def _git(*arguments):
    """Bytes that git writes in the package's own repository; None without git, or where no repository has this file."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return _ask_git(*arguments) if _is_tracked() else None
    return None


def _ask_git(*arguments, place=None):
    command = ["git", "-C", str(place or HERE.parent), *arguments]
    # A hook or another checkout may have set GIT_DIR and the like.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(command, capture_output=True, timeout=20, check=True, env=environment).stdout


@functools.cache
def _is_tracked():
    """Whether the repository around rrl holds it: installed below somebody else's, rrl is none of its files."""
    return bool(_ask_git("ls-files", "--", HERE.name))


def folder_commit(folder: Any) -> str | None:
    """The commit that a folder's files are of, with ``-dirty`` where they were changed since; None outside git."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return _ask_git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*", place=folder).decode().strip()
    return None


@functools.cache
def loaded_code() -> dict[str, Any]:
    """Commit and changes of the code that this process has loaded: as they are when it first asks.

    ``commit`` and ``dirty`` are None where rrl does not lie in a git repository of its own, as when it is installed.
    ``diff_sha256`` is the SHA-256 of what ``git diff HEAD --binary`` writes by default, where the working tree is
    dirty.
    """
    commit, status = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")
    difference = _git(*DIFF) if status else None
    return {
        "commit": commit and commit.decode().strip(),
        "dirty": None if status is None else bool(status.strip()),
        "diff_sha256": hashlib.sha256(difference).hexdigest() if difference else None,
    }


def processor_name() -> str:
    """The processor's name, as the system tells it."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def _portable(argument):
    """A command's argument without this machine's folders: what lies below here by its place, else by its name."""
    before, equals, value = argument.rpartition("=")
    path = Path(value)
    if not path.is_absolute():
        return argument
    inside = path.is_relative_to(Path.cwd())
    return before + equals + (path.relative_to(Path.cwd()).as_posix() if inside else path.name)


def provenance() -> Any:
    """Where and with what a record is made: what `loaded_code` says, versions, hardware, threads, command.

    `RunStore` adds ``started`` (UTC) and ``seconds``, the time that the unit (or its batch so far) took.
    """
    versions = {"python": platform.python_version(), "rrl": __version__}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    torch = sys.modules.get("torch")
    gpu = torch.cuda.get_device_name() if torch and torch.cuda.is_available() else None
    threads = {key: os.environ[key] for key in sorted(os.environ) if key.endswith("_NUM_THREADS")}
    if torch:
        threads["torch"] = torch.get_num_threads()
    blas = []
    with contextlib.suppress(ImportError):
        from threadpoolctl import threadpool_info

        keys = ("internal_api", "version", "num_threads", "architecture")
        blas = [{key: pool.get(key) for key in keys} for pool in threadpool_info()]
    return {
        **loaded_code(),
        "versions": versions,
        "hardware": {"processor": processor_name(), "cores": os.cpu_count(), "gpu": gpu},
        "platform": f"{platform.system()} {platform.machine()}",
        "threads": threads,
        "blas": blas,
        "command": [Path(sys.argv[0]).name, *map(_portable, sys.argv[1:])],
    }


def commit_text(origin: dict, digits: int = 12) -> str:
    """The commit of a record, with a plus sign where the working tree had changes; else the version of rrl.

    Parameters
    ----------
    origin : dict
        A record's provenance.
    digits : int

    Returns
    -------
    str

    Examples
    --------
    >>> from rrl.experiments.provenance import commit_text
    >>> commit_text({"commit": "0123456789abcdef", "dirty": True}, 7)
    '0123456+'
    >>> commit_text({"commit": None, "dirty": None, "versions": {"rrl": "0.2.0"}})
    'rrl 0.2.0'
    """
    if origin.get("commit"):
        return plain_markdown(f"{origin['commit']}"[:digits]) + "+" * bool(origin.get("dirty"))
    return f"rrl {plain_markdown(origin.get('versions', {}).get('rrl', 'of unknown version'))}"


def plain_markdown(text: Any) -> Any:
    """Text from a record as Markdown that shows it and does nothing else.

    Examples
    --------
    >>> from rrl.experiments.provenance import plain_markdown
    >>> print(plain_markdown("<b>AMD</b> EPYC"))
    &lt;b&gt;AMD&lt;/b&gt; EPYC
    """
    text = " ".join(f"{text}".split())
    return re.sub(r"[\\`*_{}\[\]$~|#:^]", r"\\\g<0>", html.escape(text, quote=False))


def clock_seconds(origins: Iterable[dict]) -> Any:
    """Seconds in which at least one of the records was being made: those of one batch, or of several workers, overlap.

    Parameters
    ----------
    origins : iterable of dict
        Their provenance.

    Examples
    --------
    >>> from rrl.experiments.provenance import clock_seconds
    >>> times = [("03:04:01", 3.0), ("03:04:02", 2.0), ("03:05:00", 4.0)]
    >>> clock_seconds({"started": f"2026-01-02T{start}+00:00", "seconds": length} for start, length in times)
    7.0
    """
    spans = []
    for origin in origins:
        start = datetime.datetime.fromisoformat(origin["started"]).timestamp()
        spans.append((start, start + origin["seconds"]))
    seconds, end = 0.0, -math.inf
    for start, stop in sorted(spans):
        seconds += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return seconds
