"""The processes that units run in: how many may be used, what each does first, and how they end."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

from .._extras import missing

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "dask_executor",
    "end_with_parent",
    "end_workers",
    "keep_freed_memory",
    "portable",
    "start_worker",
    "usable_cores",
]


def usable_cores() -> Any:
    """Cores that this process may use: not those of the machine that an affinity or a container's quota withholds."""
    from joblib import cpu_count

    return cpu_count()


@contextlib.contextmanager
def dask_executor(address: Any) -> Any:
    """An executor of the Dask cluster at an address; its loss is an error of the connection.

    Raises
    ------
    ValueError
        If there is no address.
    ConnectionError
        If the cluster is lost within.
    """
    if not address:  # Dask would start a cluster of its own
        raise ValueError(f"--dask must be the address of a scheduler, got {address!r}")
    try:
        from dask.distributed import Client, KilledWorker
    except ImportError:
        raise missing("cluster", "--dask needs dask") from None
    with Client(address) as client:
        try:
            yield client.get_executor()
        except (CancelledError, KilledWorker) as error:
            raise ConnectionError(
                f"the Dask cluster at {address} lost its scheduler or too many workers; "
                "what is done is kept, and the same command goes on from there"
            ) from error


def portable(function: Any) -> Any:
    """The function as other processes can load it, also one that a cell of a notebook made.

    Raises
    ------
    TypeError
        If it holds something that no other process could have.
    """
    from joblib import wrap_non_picklable_objects

    wrapped = wrap_non_picklable_objects(function)
    try:
        wrapped.__reduce__()
    except Exception as error:
        name = getattr(function, "__qualname__", None) or repr(function)
        raise TypeError(
            f"{name} cannot be handed to other processes ({error}): make what it uses within it, or take jobs=1"
        ) from error
    return wrapped


def end_workers(others: Any, kind: Any, *_) -> None:
    """After Ctrl-C, end the child processes that are not `others`: workers would finish their units first."""
    if kind is not None and issubclass(kind, KeyboardInterrupt):
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()


def end_with_parent() -> None:
    """Let a worker end when the process that started it is gone: killed, it could not tell its workers."""
    parent = multiprocessing.parent_process()

    def watch():
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def keep_freed_memory() -> None:
    """Let glibc keep what is freed, for this process.

    Torch on a CPU takes and frees megabytes at every layer, and each new page costs a fault. Other C libraries
    are left as they are.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in ((-4, 0), (-1, -1)):  # M_MMAP_MAX, M_TRIM_THRESHOLD
            mallopt(option, value)


def start_worker() -> None:
    """What every worker process does first."""
    # Ctrl-C reaches the whole group: a worker that dies of it within the pool's queue would leave the others waiting.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    keep_freed_memory()
