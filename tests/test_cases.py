"""The table of cases: every test that it names exists; and the cases that have no better place."""

import ast
import re
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from rrl.experiments.store import provenance

ROOT = Path(__file__).parents[1]
FIRST, SECOND = (
    (ROOT / "tests" / "CASES.md").read_text(encoding="utf-8").split("\n## Kinds of faults of the second round\n")
)
ROWS = re.findall(r"^\| (\d\d) \| .* \| (.*) \|$", FIRST, re.M)
# Cells of every line of a table that is neither its head nor the rule below.
KINDS = [line.strip("|").split(" | ") for line in re.findall(r"^\|(?! Kind \||-).*\|$", SECOND, re.M)]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def node_ids(path):
    """Node ids, without parameters, of a test module."""
    for item in ast.parse(path.read_text(encoding="utf-8")).body:
        inside = item.body if isinstance(item, ast.ClassDef) else [item]
        prefix = f"::{item.name}" if isinstance(item, ast.ClassDef) else ""
        for each in inside:
            if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
                yield f"{path.relative_to(ROOT).as_posix()}{prefix}::{each.name}"


def test_every_test_of_the_tables_exists():
    assert KINDS and all(len(cells) == 4 and all(cell.strip() for cell in cells) for cells in KINDS)
    named = {
        name
        for names in [*(row[-1] for row in ROWS), *(cells[-1] for cells in KINDS)]
        for name in names.strip().split(", ")
    }
    known = {name for path in (ROOT / "tests").rglob("test_*.py") for name in node_ids(path)}
    assert not named - known
    numbers = [number for number, _ in ROWS]
    assert len(numbers) == len(set(numbers)) == 35 and numbers == sorted(numbers)


def test_every_case_that_a_test_is_named_after_is_in_the_table():
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert set(re.findall(r"def test_case_(\d\d)", text)) <= {number for number, _ in ROWS}


def test_case_26_a_record_states_threads_and_blas():
    np.ones((2, 2)) @ np.ones((2, 2))
    origin = provenance()
    assert isinstance(origin["threads"], dict)
    assert origin["blas"] and all(pool["num_threads"] >= 1 and pool["internal_api"] for pool in origin["blas"])


def test_case_38_and_60_the_extras_agree():
    """One version of the book's builder, h5py with the data, and a Python range that the classifiers name."""
    extras = {name: [Requirement(text) for text in texts] for name, texts in PROJECT["optional-dependencies"].items()}
    (builder,) = [r for r in extras["book"] if r.name == "jupyter-book"]
    assert builder.specifier.contains("1.0.4") and not builder.specifier.contains("2.1.7")
    assert {"h5py", "minari", "d3rlpy"} <= {r.name for r in extras["experiments"]}
    supported = SpecifierSet(PROJECT["requires-python"])
    named = {text.split()[-1] for text in PROJECT["classifiers"] if "Python :: 3." in text}
    assert named == {f"3.{minor}" for minor in range(8, 20) if supported.contains(f"3.{minor}")}


def test_case_60_warnings_of_matrix_products_are_no_failures():
    """Warnings in rrl are errors here, but for those that Apple's library gives without a reason."""
    code = compile("warnings.warn(text, RuntimeWarning)", "rrl", "exec")
    with pytest.raises(RuntimeWarning, match="overflow encountered in add"):
        exec(code, {"__name__": "rrl.any", "warnings": warnings, "text": "overflow encountered in add"})
    exec(code, {"__name__": "rrl.any", "warnings": warnings, "text": "overflow encountered in matmul"})
