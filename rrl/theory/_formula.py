"""What all formulas share: numbers of NumPy count as Python's, and a value beyond a float is an error with a name."""

from __future__ import annotations

import functools
import inspect
import math
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["formula"]

P = ParamSpec("P")
R = TypeVar("R")


def _plain(value):
    """A scalar of NumPy as a Python number: int64 wraps where Python's integers grow, float32 has half the digits.

    An integer beyond an int64, which NumPy's functions refuse, as a float if it fits one.
    """
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    return float(value) if type(value) is int and 2**63 <= abs(value) < 2**1023 else value


def _overflowed(result):
    """Whether a number of the result is infinite or NaN."""
    numbers = result if isinstance(result, tuple) else vars(result).values() if is_dataclass(result) else (result,)
    return any(isinstance(number, float) and not math.isfinite(number) for number in numbers)


def formula(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator of a function of the paper's symbols: Python numbers go in, a finite result or an error comes out."""
    signature, call = inspect.signature(function), cast("Callable[..., R]", function)

    def beyond(reason, *args, **kwargs):
        told = ", ".join(f"{name}={value!r}" for name, value in signature.bind(*args, **kwargs).arguments.items())
        return OverflowError(f"{function.__name__}({told}) is beyond the range of a float: {reason}")

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        args, kwargs = [_plain(value) for value in args], {name: _plain(value) for name, value in kwargs.items()}
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                result = call(*args, **kwargs)
        except ArithmeticError as error:
            raise beyond(error, *args, **kwargs) from None
        except ValueError as error:
            # A formula within this one refuses a number that is none of this call: one on the way overflowed.
            inner = getattr(error, "formula", None) and not any(
                repr(x) in str(error) for x in [*args, *kwargs.values()]
            )
            if inner or "math domain error" in str(error):
                raise beyond(error, *args, **kwargs) from None
            vars(error)["formula"] = function.__name__
            raise
        if _overflowed(result):
            raise beyond("some step overflows", *args, **kwargs)
        return result

    return wrapped
