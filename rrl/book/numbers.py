"""Numbers as the book's pages show them, in text, tables and figures: a × 10ᵇ, a true minus, two digits.

Tables need pandas, which the extra ``book`` brings.
"""

from __future__ import annotations

import math
import re
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from .._checks import check_integer
from .._extras import missing
from ..replicability import clopper_pearson, expanded_tail

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = ["bootstrap_limits", "number", "power_of_ten", "share_with_limits", "table"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: Numbers from here to there are written out; smaller and larger ones are a × 10ᵇ.
_WRITTEN_OUT = (1e-3, 1e6)


def _check_digits(digits):
    if not isinstance(digits, Integral) or isinstance(digits, bool) or digits < 1:
        raise ValueError(f"digits must be a whole number of at least 1, got {digits!r}")


def power_of_ten(value: Any = None, digits: int = 1, *, log10: float | None = None) -> str:
    """Write a number as a × 10ᵇ.

    Parameters
    ----------
    value : float or int, optional
        A finite number; whole numbers may exceed every float.
    digits : int, default=1
        Digits of a. With one digit, 1 × 10ᵇ is written 10ᵇ.
    log10 : float, optional
        In place of `value`: its logarithm, for numbers beyond every float.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If not exactly one of `value` and `log10` is given, it is not finite, or `digits` is below 1.

    Examples
    --------
    >>> from rrl.book.numbers import power_of_ten
    >>> print(power_of_ten(2.71e23), power_of_ten(-0.00097, 2), power_of_ten(log10=1234.6), sep="; ")
    3 × 10²³; −9.7 × 10⁻⁴; 4 × 10¹²³⁴
    """
    _check_digits(digits)
    if (value is None) == (log10 is None):
        raise ValueError(f"give either value or log10, got {value!r} and {log10!r}")
    if log10 is None and value == 0:
        return "0"
    sign = ""
    if log10 is None:
        sign = "−" if value < 0 else ""
        # Python's own whole numbers have logarithms where floats end.
        big = isinstance(value, Integral) and abs(int(value)) >= 10**300
        log10 = math.log10(abs(int(value))) if big else None
    elif not math.isfinite(log10):
        raise ValueError(f"log10 must be finite, got {log10!r}")
    if log10 is None:
        if not math.isfinite(value):
            raise ValueError(f"value must be finite, got {value!r}")
        factor, exponent = f"{abs(float(value)):.{digits - 1}e}".split("e")
    else:
        factor, carry = f"{10 ** (log10 - math.floor(log10)):.{digits - 1}e}".split("e")
        exponent = math.floor(log10) + int(carry)
    power = "10" + str(int(exponent)).translate(_RAISED)
    # The spaces do not break at the end of a line.
    return sign + (power if factor == "1" else f"{factor}\u00a0×\u00a0{power}")


def number(value: Any, digits: int = 2) -> str:
    """Write a number for the text: whole ones below a million as they are, others rounded to a few digits.

    Parameters
    ----------
    value : float or int
        NaN is written as a dash.
    digits : int, default=2
        Digits kept of a number that is not of a whole type, or of one written as a × 10ᵇ.

    Returns
    -------
    str

    Raises
    ------
    TypeError
        If `value` is no number.
    ValueError
        If `digits` is below 1.

    Examples
    --------
    >>> from rrl.book.numbers import number
    >>> print(*map(number, (12345, 12345.6, 0.01234, -0.5, 99.96, 2.71e23, float("inf"))), sep="; ")
    12,345; 12,000; 0.012; −0.50; 100; 2.7 × 10²³; ∞
    """
    _check_digits(digits)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"value must be a number, got {value!r}")
    if value != value:
        return "–"
    if abs(value) == math.inf:
        return "∞" if value > 0 else "−∞"  # pyright: ignore[reportOperatorIssue]
    if value == 0:
        return "0"
    sign, size = "−" if value < 0 else "", abs(value)
    if not _WRITTEN_OUT[0] <= size < _WRITTEN_OUT[1]:  # pyright: ignore[reportOperatorIssue]
        return power_of_ten(value, digits)
    if isinstance(value, Integral):
        return f"{sign}{int(size):,}"  # pyright: ignore[reportArgumentType]
    # The exponent after rounding: 0.0996 with two digits is 0.10.
    exponent = int(f"{size:.{digits - 1}e}".split("e")[1])
    places = digits - 1 - exponent
    return f"{sign}{round(size, places):,.{max(0, places)}f}"  # pyright: ignore[reportCallIssue, reportArgumentType]


def share_with_limits(count: int, trials: int, confidence: float = 0.95) -> str:
    """Write a share of trials with its exact limits, in percent.

    Parameters
    ----------
    count, trials : int
        0 <= count <= trials, trials >= 1.
    confidence : float, default=0.95
        Coverage of the limits of Clopper and Pearson.

    Returns
    -------
    str

    Examples
    --------
    >>> from rrl.book.numbers import share_with_limits
    >>> share_with_limits(0, 60), share_with_limits(13, 1000)
    ('0% (0% to 6.0%)', '1.3% (0.69% to 2.2%)')
    """
    low, high = clopper_pearson(count, trials, confidence)
    share, low, high = (_percent(x) for x in (count / trials, low, high))
    return f"{share} ({low} to {high})"


def bootstrap_limits(
    values: ArrayLike, confidence: float = 0.95, *, n_resamples: int = 4000, seed: int = 0
) -> tuple[Any, Any]:
    """Percentile limits of the bootstrap for a mean over draws; they never leave the range of the values.

    Their tails are those of `rrl.replicability.expanded_tail`, as wide as Student's t. With five draws they still cover
    the mean of normal numbers in about nine cases of ten, with fewer less often; equal values have limits of no width.

    Parameters
    ----------
    values : array_like, shape (K, ...)
        Finite, one entry for each of at least two draws on the first axis.
    confidence : float, default=0.95
        Share of the resampled means between the limits.
    n_resamples : int, default=4000
        How often K draws are drawn from the K, with replacement.
    seed : int, default=0
        Of the resampling.

    Returns
    -------
    low, high : float or ndarray, shape (...)

    Raises
    ------
    ValueError
        If there are fewer than two draws, a value is not finite, or `confidence` does not lie in (0, 1).

    Examples
    --------
    >>> from rrl.book.numbers import bootstrap_limits
    >>> low, high = bootstrap_limits([0.2, 0.9, 1.0, 1.0, 1.0])
    >>> bool(0.2 < low < 0.82 < high <= 1)
    True
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim == 0 or len(values) < 2:
        raise ValueError(f"values must hold at least two draws, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("values must be finite, got NaN or infinity")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence!r}")
    check_integer(1, n_resamples=n_resamples)
    check_integer(0, seed=seed)
    n = len(values)
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=n_resamples)
    means = np.tensordot(counts, values, axes=1) / n
    tail = expanded_tail(n, confidence)
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    # Sums in floating point may leave the range by a rounding error.
    return tuple(np.clip(limit, values.min(axis=0), values.max(axis=0))[()] for limit in (low, high))


def _percent(share):
    """Two digits, but neither 0% nor 100% for what only comes close."""
    if share in (0, 1):
        return f"{share:.0%}"
    # Near one, the distance to it is what counts.
    near = min(share, 1 - share) * 100
    places = max(0, 1 - math.floor(math.log10(near))) if near < 10 else 0
    return f"{share * 100:.{places}f}%"


def table(rows: Any, columns: Sequence[str] | None = None, digits: Any = 2) -> Any:
    """A table of a page: no index, numbers written by `number`, words as they are.

    Columns of numbers, and of words that begin with one, are aligned at the right.

    Parameters
    ----------
    rows : sequence of sequence, or dict of str to sequence
        Rows, or columns by name.
    columns : sequence of str, optional
        Names of the columns, where `rows` has none.
    digits : int, or dict of str to int, default=2
        Digits for every column, or for those named (2 for the others).

    Returns
    -------
    pandas.io.formats.style.Styler

    Raises
    ------
    ValueError
        If `digits` names a column that the table does not have.
    ImportError
        If pandas is missing: the extra ``book`` brings it.

    Examples
    --------
    >>> from rrl.book.numbers import table
    >>> "1,234" in table([["enough", 1234]], ["", "rows"]).to_html()
    True
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise missing("book", "a table needs pandas") from error
    # As objects, whole numbers in a column with broken ones stay whole.
    frame = pd.DataFrame(rows, columns=columns, dtype=object)  # pyright: ignore[reportArgumentType]
    kept = digits if isinstance(digits, dict) else dict.fromkeys(frame.columns, digits)
    unknown = [name for name in kept if name not in frame.columns]
    if unknown:
        raise ValueError(f"digits names columns that the table does not have: {unknown}")

    def write(name):
        def cell(value):
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            return number(value, kept.get(name, 2)) if is_number else str(value)  # pyright: ignore[reportArgumentType]

        return cell

    shown = {name: write(name) for name in frame.columns}
    right = [name for name in frame.columns if all(re.match(r"[−<>≤≥]? ?\d|[–∞]", shown[name](x)) for x in frame[name])]
    style = frame.style.format(shown).hide(axis="index")  # pyright: ignore[reportAttributeAccessIssue]
    return style.set_properties(subset=right, **{"text-align": "right"}) if right else style
