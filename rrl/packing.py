"""Arrays as JSON, without pickle: what records and recordings hold."""

from __future__ import annotations

import base64
import math
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

__all__ = ["pack_array", "unpack_array"]

#: Bytes of an array: a few kilobytes may unpack to a thousand times as many, and a record holds far fewer.
LARGEST = 2**28


def pack_array(array: Any) -> Any:
    """An array as JSON: dtype, shape and compressed bytes (no pickle).

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.packing import pack_array, unpack_array
    >>> unpack_array(pack_array(np.arange(3, dtype=np.int8)))
    array([0, 1, 2], dtype=int8)
    """
    array = np.ascontiguousarray(array)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"only plain numbers can be packed, got dtype {array.dtype}")
    array = array.astype(array.dtype.newbyteorder("<"))
    data = base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "zlib": data}


def unpack_array(packed: Any) -> Any:
    """The array that `pack_array` packed; a ValueError says that it is damaged."""
    try:
        dtype, shape = np.dtype(packed["dtype"]), tuple(packed["shape"])
        size = dtype.itemsize * math.prod(shape)
        if dtype.kind not in "biuf" or not 0 <= size <= LARGEST:
            raise ValueError(f"{dtype} of shape {shape}")
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(packed["zlib"], validate=True), size + 1)
        if not unpacker.eof:
            raise ValueError(f"its data do not end after {size} bytes")
        return np.frombuffer(data, dtype).reshape(shape).copy()
    except (KeyError, TypeError, ValueError, OverflowError, zlib.error) as error:
        raise ValueError(f"a packed array is damaged: {error!r}") from error
