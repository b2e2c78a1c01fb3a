"""What holds for every public name: documented defaults are the defaults, and results cannot be changed."""

import ast
import dataclasses
import inspect
import re
import sys

import pytest

import rrl
from rrl import theory

#: As in ``n_jobs : int, default=1``; of a list of choices, as in ``version : {"corrected", "printed"}``, the first.
DEFAULT = re.compile(r"^ *(\w+(?:, \w+)*) : (?:.*\bdefault=(.+)|\{([^,}]+).*\}.*)$", re.MULTILINE)
ELSEWHERE = re.compile(r"As in :func:`(\w+)`")


def documented():
    """Every public function and method with its docstring; of a class, its own docstring tells of `__init__`."""
    for module in (rrl, theory):
        for name in module.__all__:
            item = getattr(module, name)
            if inspect.isclass(item):
                yield name, item.__init__, item.__doc__
                for method, function in vars(item).items():
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield f"{name}.{method}", function, function.__doc__
            elif inspect.isfunction(item):
                others = (getattr(sys.modules[item.__module__], other) for other in ELSEWHERE.findall(item.__doc__))
                yield name, item, "\n".join([item.__doc__, *(other.__doc__ for other in others)])


FUNCTIONS = list(documented())
PUBLIC = [getattr(module, name) for module in (rrl, theory) for name in module.__all__]
HOMES = {sys.modules[item.__module__] for item in PUBLIC if inspect.isclass(item) or inspect.isfunction(item)}
RESULTS = sorted(
    {x for home in HOMES for x in vars(home).values() if inspect.isclass(x) and dataclasses.is_dataclass(x)},
    key=lambda item: item.__name__,
)


@pytest.mark.parametrize(("function", "text"), [pair[1:] for pair in FUNCTIONS], ids=[pair[0] for pair in FUNCTIONS])
def test_documented_defaults_are_the_defaults(function, text):
    parameters = inspect.signature(function).parameters
    real = {name: p.default for name, p in parameters.items() if p.default is not p.empty and p.default is not None}
    found = {name: (given, first) for names, given, first in DEFAULT.findall(text) for name in names.split(", ")}
    told = {
        name: ast.literal_eval(given or first)
        for name, (given, first) in found.items()
        if name in parameters and (given or name in real)
    }
    assert told == real


def test_the_defaults_of_the_docstrings_are_read():
    told = {name: DEFAULT.findall(text) for name, _, text in FUNCTIONS}
    assert ("n_features", "32", "") in told["RandomFourierFeatures"]
    assert ("max_pairs", "10_000", "") in told["certify_replicability"]
    assert ("version", "", '"corrected"') in told["core_set_constant"]


@pytest.mark.parametrize("result", RESULTS)
def test_results_are_frozen_and_those_that_hold_arrays_are_equal_only_to_themselves(result):
    # `==` of two arrays is an array: comparing field by field would raise or, for one entry, mislead.
    options = result.__dataclass_params__
    arrays = any("ndarray" in str(field.type) for field in dataclasses.fields(result))
    assert options.frozen
    assert options.eq is not arrays


def test_the_results_are_found():
    assert {"Rounded", "Certificate", "UCBParameters", "Values"} <= {result.__name__ for result in RESULTS}
