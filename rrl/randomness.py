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

from ._checks import check_integer, check_key, check_seed

if TYPE_CHECKING:
    from typing import Any

__all__ = ["shared_integers", "shared_normal", "shared_permutation", "shared_uniform"]

#: Long arrays are worked on in parts of so many numbers, which stay in the processor's cache.
CACHED = 2**14


def _encode(item):
    """Bytes of a seed, a key or an item of one, prefix-free: type letter, length, content."""
    if isinstance(item, tuple):
        body = b"".join(_encode(part) for part in item)
        return b"t%d:%s" % (len(item), body)
    letter, body = (b"s", item.encode()) if isinstance(item, str) else (b"i", b"%x" % operator.index(item))
    return b"%s%d:%s" % (letter, len(body), body)


def _stream(kind, shared_seed, key):
    """Philox keyed by SHA-256 of (seed, key), for one kind of draw."""
    seed = check_seed(shared_seed)
    check_key(key)
    digest = hashlib.sha256(b"rrl.%s/1:" % kind + _encode((seed, key))).digest()
    words = np.frombuffer(digest, dtype="<u8").astype(np.uint64)
    # One uint64 array: a list that mixes ints and uint64 would pass through float64 and lose bits.
    counter = np.concatenate([np.zeros(2, dtype=np.uint64), words[2:]])
    return np.random.Philox(counter=counter, key=words[:2])


def _sizes(shape):
    """A shape as a tuple of ints."""
    try:
        sizes = tuple(operator.index(n) for n in (shape if np.iterable(shape) else (shape,)))
    except TypeError:
        raise TypeError(f"shape must be an integer or a tuple of integers, got {shape!r}") from None
    if any(n < 0 for n in sizes) or math.prod(sizes) >= 2**63:
        raise ValueError(f"shape must hold non-negative sizes, of a product below 2^63, got {shape!r}")
    return sizes


def _fractions(bits, n):
    """The next n doubles in [0, 1): the upper 53 bits of each word."""
    out = np.empty(n)
    for start in range(0, n, CACHED):
        raw = bits.random_raw(min(CACHED, n - start))
        raw >>= np.uint64(11)
        np.multiply(raw, 2.0**-53, out=out[start : start + CACHED])
    return out


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
    bits, sizes = _stream(b"shared_uniform", shared_seed, key), _sizes(shape)
    return _fractions(bits, math.prod(sizes)).reshape(sizes)


LOG_2 = 0.6931471805599453

#: Wichura's AS 241, the normal quantile as a ratio: coefficients above and below the line, highest power first.
MIDDLE = (
    *((2509.0809287301227, 5226.495278852854), (33430.57558358813, 28729.085735721943)),
    *((67265.7709270087, 39307.89580009271), (45921.95393154987, 21213.794301586597)),
    *((13731.69376550946, 5394.196021424751), (1971.5909503065513, 687.1870074920579)),
    *((133.14166789178438, 42.31333070160091), (3.3871328727963665, 1.0)),
)
TAILS = (
    *((0.0007745450142783414, 1.0507500716444169e-09), (0.022723844989269184, 0.0005475938084995345)),
    *((0.2417807251774506, 0.015198666563616457), (1.2704582524523684, 0.14810397642748008)),
    *((3.6478483247632045, 0.6897673349851), (5.769497221460691, 1.6763848301838038)),
    *((4.630337846156546, 2.053191626637759), (1.4234371107496835, 1.0)),
)
FAR_TAILS = (
    *((2.0103343992922881e-07, 2.0442631033899397e-15), (2.7115555687434876e-05, 1.421511758316446e-07)),
    *((0.0012426609473880784, 1.8463183175100548e-05), (0.026532189526576124, 0.0007868691311456133)),
    *((0.29656057182850487, 0.014875361290850615), (1.7848265399172913, 0.1369298809227358)),
    *((5.463784911164114, 0.599832206555888), (6.657904643501103, 1.0)),
)


def _ratio(coefficients, x):
    above, below = (np.full_like(x, first) for first in coefficients[0])
    for over, under in coefficients[1:]:
        above, below = above * x + over, below * x + under
    return above / below


def _minus_log(p):
    """-log(p) for p in (0, 1), by arithmetic that IEEE 754 fixes to the last bit: libraries' logarithms differ."""
    mantissa, exponent = np.frexp(p)
    small = mantissa < math.sqrt(0.5)
    mantissa, exponent = np.where(small, 2 * mantissa, mantissa), exponent - small
    s = (mantissa - 1) / (mantissa + 1)
    # The series of 2 artanh(s), with abs(s) < 0.172: 13 terms are all that a double holds.
    total = np.zeros_like(s)
    for odd in range(25, 0, -2):
        total = total * (s * s) + 1 / odd
    return -(exponent * LOG_2 + 2 * s * total)


def _normal_quantile(uniform):
    """Standard normal quantiles at the midpoints of the 2^53 cells of [0, 1) that begin at `uniform`, symmetric."""
    # Exact: multiples of 2^-54.
    centred = (uniform - 0.5) + 2.0**-54
    tail = 0.5 - np.abs(centred)
    out = centred * _ratio(MIDDLE, 0.180625 - centred * centred)
    outer = np.abs(centred) > 0.425
    r = np.sqrt(_minus_log(tail[outer]))
    out[outer] = np.copysign(np.where(r <= 5, _ratio(TAILS, r - 1.6), _ratio(FAR_TAILS, r - 5)), centred[outer])
    return out


def shared_normal(shared_seed: int, key: tuple, shape: Any) -> np.ndarray:
    """Draw standard normal numbers that every run with the same seed shares.

    They are the normal quantiles (Wichura's AS 241, 16 digits) of the midpoints of 2^53 equal cells, one word of
    the stream each. Only additions, products, quotients and square roots take part, so the bits are the same on
    every machine, as those of :func:`shared_uniform`; none is beyond 8.3 in size.

    Parameters
    ----------
    shared_seed : int
        The paper's random string r.
    key : tuple of (int, str or tuple)
        The name of the draw. Under one key, normal, uniform and other draws are independent of each other.
    shape : int or tuple of int
        Shape of the result. It must never depend on data.

    Returns
    -------
    ndarray of float64
        In row-major order: a longer draw under one key begins with the shorter.

    Raises
    ------
    TypeError, ValueError
        As :func:`shared_uniform`.

    Examples
    --------
    >>> from rrl import shared_normal
    >>> shared_normal(0, ("demo",), 3).round(6)
    array([ 0.808527, -0.74603 , -1.111452])
    """
    bits, sizes = _stream(b"shared_normal", shared_seed, key), _sizes(shape)
    n = math.prod(sizes)
    out = np.empty(n)
    for start in range(0, n, CACHED):
        part = out[start : start + CACHED]
        part[:] = _normal_quantile(_fractions(bits, part.size))
    return out.reshape(sizes)


def shared_integers(shared_seed: int, key: tuple, shape: Any, below: int) -> np.ndarray:
    """Draw integers from 0, 1, ..., below - 1 that every run with the same seed shares.

    Exactly uniform: a word of 64 bits counts if it lies below the largest multiple of `below`, and is then divided.

    Parameters
    ----------
    shared_seed : int
        The paper's random string r.
    key : tuple of (int, str or tuple)
        The name of the draw. Under one key, draws with different `below` are not independent.
    shape : int or tuple of int
        Shape of the result. It must never depend on data.
    below : int
        From 1 to 2^63 - 1.

    Returns
    -------
    ndarray of int64
        In row-major order: a longer draw under one key begins with the shorter.

    Raises
    ------
    TypeError, ValueError
        As :func:`shared_uniform`, and for a `below` that is no such integer.

    Examples
    --------
    >>> from rrl import shared_integers
    >>> shared_integers(0, ("demo",), 8, below=6)
    array([0, 1, 5, 3, 0, 5, 3, 2])
    """
    check_integer(1, below=below)
    bits, sizes = _stream(b"shared_integers", shared_seed, key), _sizes(shape)
    n, below = math.prod(sizes), int(below)
    out, done, last = np.empty(n, dtype=np.int64), 0, np.uint64(2**64 - 1 - 2**64 % below)
    while done < n:
        raw = bits.random_raw(min(CACHED, n - done))
        kept = raw[raw <= last] % np.uint64(below)
        out[done : done + kept.size] = kept
        done += kept.size
    return out.reshape(sizes)


def shared_permutation(shared_seed: int, key: tuple, n: int) -> np.ndarray:
    """Draw an order of 0, 1, ..., n - 1 that every run with the same seed shares.

    Exactly uniform: the order of n words of 64 bits, drawn anew should two of them be equal.

    Parameters
    ----------
    shared_seed : int
        The paper's random string r.
    key : tuple of (int, str or tuple)
        The name of the draw. Under one key, orders of different lengths are not independent.
    n : int
        At least 1. It must never depend on data.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    TypeError, ValueError
        As :func:`shared_uniform`, and for an `n` that is no such integer.

    Examples
    --------
    >>> from rrl import shared_permutation
    >>> shared_permutation(0, ("demo",), 5)
    array([3, 2, 4, 0, 1])
    """
    check_integer(1, n=n)
    bits = _stream(b"shared_permutation", shared_seed, key)
    while True:
        raw = bits.random_raw(int(n))
        order = np.argsort(raw)
        if (np.diff(raw[order]) > 0).all():
            return order.astype(np.int64)
