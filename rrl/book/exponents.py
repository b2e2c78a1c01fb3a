"""Exponents of the paper's bounds: read off exactly from a function that computes with fractions, and written."""

from __future__ import annotations

from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["powers", "write_powers"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def powers(value: Callable[..., Any], variables: str = "d H 1/ε") -> tuple[int, ...]:
    """Exponents of a product of powers, by doubling one variable after the other.

    Parameters
    ----------
    value : callable
        Takes one Fraction for each variable, in their order, and returns a positive whole number or Fraction.
    variables : str, default="d H 1/ε"
        Names, separated by blanks. The exponent of ``1/x`` is that of one over the argument.

    Returns
    -------
    tuple of int
        One exponent for each variable.

    Raises
    ------
    TypeError
        If `value` returns no exact number.
    ValueError
        If `variables` has no name, or `value` is no product of powers with whole exponents.

    Examples
    --------
    >>> from rrl.book.exponents import powers
    >>> powers(lambda d, H, eps: 25 * d**3 * H / eps**2)
    (3, 1, 2)
    """
    names = variables.split()
    if not names:
        raise ValueError(f"variables must name at least one, got {variables!r}")

    def at(sizes):
        result = value(*(1 / size if name.startswith("1/") else size for name, size in zip(names, sizes)))
        if not isinstance(result, Rational):
            raise TypeError(f"value must compute with fractions, got {result!r}")
        if result <= 0:
            raise ValueError(f"value must be positive, got {result!r}")
        return Fraction(result)

    one = [Fraction(1)] * len(names)
    base = at(one)
    doubled = [at([*one[:i], Fraction(2), *one[i + 1 :]]) / base for i in range(len(names))]
    found = tuple(x.numerator.bit_length() - x.denominator.bit_length() for x in doubled)
    # Another point tells a product of powers from a sum that doubles alike.
    sizes = [Fraction(2 * i + 3) for i in range(len(names))]
    there = base
    for size, exponent in zip(sizes, found):
        there *= size**exponent
    if any(x != Fraction(2) ** e for x, e in zip(doubled, found)) or at(sizes) != there:
        raise ValueError(f"value is no product of powers of {', '.join(names)} with whole exponents")
    return found


def write_powers(exponents: Sequence[int], variables: str = "d H 1/ε") -> str:
    """Write a product of powers for the text: d⁵⁶ H⁶² / ε⁴⁴.

    Parameters
    ----------
    exponents : sequence of int
        One for each variable.
    variables : str, default="d H 1/ε"
        Names, separated by blanks; ``1/x`` stands in the denominator.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If there is not one whole exponent for each variable.

    Examples
    --------
    >>> from rrl.book.exponents import write_powers
    >>> print(write_powers((56, 62, 44)), write_powers((1, 0, 0)), write_powers((0, 0, 2)), sep="; ")
    d⁵⁶ H⁶² / ε⁴⁴; d; 1 / ε²
    """
    names = variables.split()
    if len(names) != len(exponents) or any(x != int(x) for x in exponents):
        raise ValueError(f"exponents must be one whole number for each of {', '.join(names)}, got {exponents!r}")
    parts = {True: [], False: []}
    for name, exponent in zip(names, exponents):
        if exponent:
            power = "" if exponent == 1 else str(int(exponent)).translate(_RAISED)
            parts[name.startswith("1/")].append(name.removeprefix("1/") + power)
    # The spaces do not break at the end of a line.
    above, below = ("\u00a0".join(parts[under]) for under in (False, True))
    return f"{above or '1'}\u00a0/\u00a0{below}" if below else above or "1"
