"""Files that are whole or not there, whatever stops the program that writes them."""

import contextlib
import os
import uuid
from pathlib import Path

__all__ = ["write_durably"]


def write_durably(path, data, *, is_free=lambda: True):
    """Write a file beside its place, let it reach the disk, then give it its name.

    Parameters
    ----------
    path : path
    data : bytes
    is_free : callable
        Asked just before the name is given; nothing is left where it says False.

    Raises
    ------
    OSError
        If the disk is full or the folder cannot be written; what stood there before still does.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rrl._files import write_durably
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_durably(pathlib.Path(folder, "a.txt"), b"whole")
    ...     [(path.name, path.read_bytes()) for path in pathlib.Path(folder).iterdir()]
    [('a.txt', b'whole')]
    """
    path = Path(path)
    part = path.parent / f".{path.stem}.{uuid.uuid4().hex}.part"
    try:
        with open(part, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if is_free():
            os.replace(part, path)
            _sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _sync(folder):
    """Let new names survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
