"""Tensors on disk: a file is whole and what was written, or it is refused."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from rrl._files import write_durably

if TYPE_CHECKING:
    import os
    from typing import Any

__all__ = ["DamagedFile", "load_tensors", "save_tensors"]


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


def load_tensors(path: Any) -> Any:
    """What `save_tensors` wrote.

    Returns
    -------
    (dict of str to torch tensor, dict)

    Raises
    ------
    FileNotFoundError
    DamagedFile
        Unless tensors and header are those that were written.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}
    except (SafetensorError, IsADirectoryError) as error:
        raise DamagedFile(f"{path} is no whole file of tensors: {error}") from error
    if metadata.get("sha256") != _digest(tensors, metadata.get("rrl", "")):
        raise DamagedFile(f"{path} does not hold what was written: its digest differs")
    return tensors, json.loads(metadata["rrl"])
