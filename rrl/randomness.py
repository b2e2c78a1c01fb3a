"""The shared random string r of Definition 2.2: keyed, order-free streams.

A replicable algorithm has two kinds of randomness. The data are fresh in every run and come from a
`numpy.random.Generator` called ``rng``. The internal randomness is the same in every run and comes
from here: each draw is named by a key, so no draw depends on how many came before it.
"""

from __future__ import annotations

import hashlib
import math
import operator
from typing import TYPE_CHECKING

import numpy as np

from ._checks import check_key, check_seed

if TYPE_CHECKING:
    from typing import Any

__all__ = ["shared_uniform"]

#: Long arrays are worked on in parts of so many numbers, which stay in the processor's cache.
CACHED = 2**14


def _encode(item):
    """Bytes of a seed, a key or an item of one, prefix-free: type letter, length, content."""
    if isinstance(item, tuple):
        body = b"".join(_encode(part) for part in item)
        return b"t%d:%s" % (len(item), body)
    letter, body = (b"s", item.encode()) if isinstance(item, str) else (b"i", b"%x" % operator.index(item))
    return b"%s%d:%s" % (letter, len(body), body)


def shared_uniform(shared_seed: int, key: tuple, shape: Any) -> np.ndarray:
    """Draw uniform numbers that every run with the same seed shares.

    The stream is Philox keyed by SHA-256 of (seed, key); doubles are made from the upper 53 bits of
    its raw 64-bit words, so the values do not depend on numpy's distribution code.

    Parameters
    ----------
    shared_seed : int
        The paper's random string r (any integer, 0 and negative ones included).
    key : tuple of (int, str or tuple)
        The name of the draw, such as ``("ridge", t, h)``. Different keys give independent streams.
    shape : int or tuple of int
        Shape of the result. It must never depend on data.

    Returns
    -------
    ndarray of float64
        Uniform in [0, 1), in row-major order: a longer draw under one key begins with the shorter.

    Raises
    ------
    TypeError
        If the seed is not an integer, the key holds anything but ints, strings and tuples, or the shape
        anything but integers.
    ValueError
        If a size is negative.

    Examples
    --------
    >>> from rrl import shared_uniform
    >>> shared_uniform(0, ("demo",), 3).round(6)
    array([0.102881, 0.052766, 0.988994])
    >>> bool((shared_uniform(0, ("demo", 0), 3) == shared_uniform(0, ("demo",), 3)).any())
    False
    """
    seed = check_seed(shared_seed)
    check_key(key)
    try:
        sizes = tuple(operator.index(n) for n in (shape if np.iterable(shape) else (shape,)))
    except TypeError:
        raise TypeError(f"shape must be an integer or a tuple of integers, got {shape!r}") from None
    if any(n < 0 for n in sizes) or math.prod(sizes) >= 2**63:
        raise ValueError(f"shape must hold non-negative sizes, of a product below 2^63, got {shape!r}")
    digest = hashlib.sha256(b"rrl.shared_uniform/1:" + _encode((seed, key))).digest()
    words = np.frombuffer(digest, dtype="<u8").astype(np.uint64)
    # One uint64 array: a list that mixes ints and uint64 would pass through float64 and lose bits.
    counter = np.concatenate([np.zeros(2, dtype=np.uint64), words[2:]])
    bits = np.random.Philox(counter=counter, key=words[:2])
    out = np.empty(math.prod(sizes))
    for start in range(0, out.size, CACHED):
        raw = bits.random_raw(min(CACHED, out.size - start))
        raw >>= np.uint64(11)
        np.multiply(raw, 2.0**-53, out=out[start : start + CACHED])
    return out.reshape(sizes)
