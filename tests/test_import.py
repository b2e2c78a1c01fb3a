"""Importing rrl: lazy, light, complete, and without the optional packages."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rrl

ROOT = Path(__file__).resolve().parents[1]

BLOCKER = """
import sys
class Block:
    names = set("torch gymnasium ale_py minari d3rlpy h5py numba dask".split())
    names |= set("matplotlib pandas plotly tqdm sympy IPython yaml safetensors".split())
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    ).stdout


def test_case_38_the_core_works_without_any_optional_package():
    assert (
        run(
            BLOCKER
            + """
import numpy as np, rrl
from rrl import *
X = np.eye(2)
ReplicableRidge(bin_width=.1).fit(X, [1, 2]).predict(X)
ReplicableSecondMoment(bin_width=.1).fit(X)
project_psd(X), ridge_weights(X, [1, 2], .1), shared_uniform(0, ("a",), 3)
estimate_replicability(lambda s, rng: hypergrid_round(rng.uniform(), 1, shared_seed=s).codes, n_pairs=3, seed=0)
modal_share([1, 1]), pairwise_share([1, 1]), clopper_pearson(0, 3), fingerprint([1]), theory.slack(.1, .01)
print("done")
"""
        )
        == "done\n"
    )


def test_certifying_needs_no_optional_package_either(tmp_path):
    code = """
from rrl import certify_program, certify_replicability, testing
def run(shared_seed, rng):
    return [shared_seed, 0 * int(rng.integers(2))]
settings = {"rho": .5, "progress": True, "store": "pairs"}
testing.assert_replicable(run, .5), certify_replicability(run, seed=0, **settings).statement("it").to_latex()
program = [sys.executable, "-c", "import sys; print(sys.argv[1])", "{shared_seed}", "{data_seed}"]
print(certify_program(program, **settings).verdict)
"""
    command = [sys.executable, "-c", BLOCKER + code]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert out == "replicable\n"


def test_import_loads_nothing_and_changes_no_global_state():
    out = run(
        """
import sys, warnings, random, logging
before = set(sys.modules), list(warnings.filters), random.getstate(), list(logging.root.handlers)
import rrl
loaded = {name.partition(".")[0] for name in set(sys.modules) - before[0]}
print(sorted(loaded & {"numpy", "scipy", "sklearn", "torch", "joblib"}))
print(before[1:] == (list(warnings.filters), random.getstate(), list(logging.root.handlers)))
print("numpy" in sys.modules, rrl.shared_uniform.__name__, "numpy" in sys.modules, "sklearn" in sys.modules)
"""
    )
    assert out.splitlines() == ["[]", "True", "False shared_uniform True False"]


@pytest.mark.parametrize(
    "name", ["ReplicableRidge", "Rounded", "hypergrid_round", "project_psd", "shared_uniform", "theory"]
)
def test_every_name_of_the_core_is_found_listed_and_its_own(name):
    assert name in rrl.__all__ and name in dir(rrl)
    value = getattr(rrl, name)
    assert value is getattr(rrl, name)
    assert value.__name__.rpartition(".")[2] == name


def test_every_public_name_resolves_to_what_its_module_exports():
    for name in rrl.__all__:
        value = getattr(rrl, name)
        assert name == "theory" or name in sys.modules[value.__module__].__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'rrl' has no attribute 'ridge_regression'"):
        _ = rrl.ridge_regression
    with pytest.raises(ImportError):
        exec("from rrl import nothing_of_this_name")


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert rrl.__version__ == version("replicable-rl")


def test_the_stub_that_editors_read_is_whole():
    """`__init__.pyi` lists every public name twice, as an import and in `__all__`."""
    text = Path(rrl.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    listed = next(node.value for node in ast.parse(text).body if isinstance(node, ast.Assign))
    assert ast.literal_eval(listed) == rrl.__all__
    assert {"book", "datasets", "experiments", "mdp", "pqn"} <= set(dir(rrl))
    assert Path(rrl.__file__).with_name("py.typed").is_file()


def rows_of_the_map():
    """Row of each module and room of ``rrl``, from the map of the repository."""
    lines = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| `rrl/")]
    names = [re.findall(r"`(?:rrl/)?(\w+)(?:\.py|/)`", row) for row in rows]
    return {name: number for number, row in enumerate(names) for name in row}


def imports_at_the_start(path):
    """Modules and rooms of ``rrl`` that a file imports when it is imported itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            room = list(path.relative_to(ROOT).parent.parts)
            name = [*room[: len(room) - node.level + 1], *filter(None, [node.module])] if node.level else [node.module]
            target = ".".join(name)
            for module in [target] if target.count(".") else [f"{target}.{alias.name}" for alias in node.names]:
                if module.startswith("rrl."):
                    yield module.split(".")[1]


def test_modules_import_from_their_row_of_the_map_and_those_above():
    rows = rows_of_the_map()
    for path in sorted((ROOT / "rrl").rglob("*.py")):
        own = path.relative_to(ROOT / "rrl").parts[0].removesuffix(".py")
        if own in ("__init__", "__main__"):
            continue
        assert own in rows, f"the map of the repository has no {own}"
        for other in imports_at_the_start(path):
            assert other not in rows or rows[other] <= rows[own], f"{path.name} imports {other} from a row below"
