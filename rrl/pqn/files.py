"""Tensors on disk: a file is whole and what was written, or it is refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING

from rrl._files import write_durably

if TYPE_CHECKING:
    import os
    from typing import Any

__all__ = ["DamagedFile", "load_header", "load_tensors", "save_tensors"]


class DamagedFile(ValueError):
    """A file of tensors is cut, altered, or not of this kind."""


def _digest(tensors, header):
    """SHA-256 of names, shapes, types and bytes of tensors, and of a text."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        array = tensors[name].numpy()
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def save_tensors(path: str | os.PathLike, tensors: Any, header: dict) -> None:
    """Write tensors and plain JSON with a digest of both (safetensors, no pickle): beside, flushed, then renamed.

    Parameters
    ----------
    path : path
    tensors : dict of str to torch tensor
    header : dict
    """
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(header)
    write_durably(path, save(tensors, metadata={"rrl": text, "sha256": _digest(tensors, text)}))


@contextlib.contextmanager
def _opened(path):
    from safetensors import SafetensorError, safe_open

    try:
        open(path, "rb").close()  # for safetensors, a file that cannot be read is not there
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, IsADirectoryError) as error:
        raise DamagedFile(f"{path} is no whole file of tensors: {error}") from error


def load_header(path: Any) -> Any:
    """The header alone of what `save_tensors` wrote; whether it is still what was written is not checked.

    Returns
    -------
    dict

    Raises
    ------
    OSError
    DamagedFile
        If there is none.
    """
    with _opened(path) as file:
        text = (file.metadata() or {}).get("rrl", "")
    try:
        return json.loads(text)
    except ValueError as error:
        raise DamagedFile(f"{path} has no header: {error}") from error


def load_tensors(path: Any) -> Any:
    """What `save_tensors` wrote.

    Returns
    -------
    (dict of str to torch tensor, dict)

    Raises
    ------
    OSError
        If it is not there or cannot be read.
    DamagedFile
        Unless tensors and header are those that were written.
    """
    with _opened(path) as file:
        metadata = file.metadata() or {}
        tensors = {key: file.get_tensor(key) for key in file.keys()}
    if metadata.get("sha256") != _digest(tensors, metadata.get("rrl", "")):
        raise DamagedFile(f"{path} does not hold what was written: its digest differs")
    return tensors, json.loads(metadata["rrl"])
