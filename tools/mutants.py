"""Mutation testing with Cosmic Ray: of a random sample of changes to each module, the share that its tests notice.

Needs ``pip install -c requirements.lock cosmic-ray==8.7.0``; run it as ``make mutants`` or as
``python tools/mutants.py ridge --sample 40``. Cosmic Ray changes files in place: it works in a copy below
``_build/mutants``, beside its sessions, from which a run that was stopped goes on.
"""

import argparse
import hashlib
import os
import random
import resource
import shutil
import sys
import time
from pathlib import Path

from cosmic_ray import commands
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.config import ConfigDict
from cosmic_ray.testing import run_tests
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import TestOutcome
from scipy.stats import binomtest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "_build" / "mutants"
SEED = 20261128
MEMORY = 8 << 30
PYTEST = f"{sys.executable} -m pytest -x -q -m 'not slow' -p no:benchmark -p no:cacheprovider -p no:xdist -p no:cov"
MODULES = (
    "_checks _estimators _solve rounding lattice randomness ridge second_moment scaling core_set generative lsvi "
    "tabular features fitted_q replicability pairs evidence certify law pilot choosing tradeoff mdp/definition "
    "mdp/linear_mdp mdp/instances mdp/counterexamples mdp/counts lsvi_ucb/arguments lsvi_ucb/data "
    "lsvi_ucb/algorithm lsvi_ucb/publishing lsvi_ucb/result adaptive/rounding adaptive/ridge adaptive/lsvi "
    "theory/_formula theory/linear theory/rounding theory/lsvi theory/lsvi_ucb theory/ucb_lemmas "
    "theory/sharper theory/sharper_moments theory/bonus theory/lattice theory/uniform theory/stopping "
    "theory/exploration theory/exponents pqn/targets pqn/actions pqn/agreement"
).split()
# A module's tests are those of its name or of its folder, those of the interface, and these.
MORE = {
    "_checks": "test_arguments.py test_rounding.py test_randomness.py test_ridge.py theory/test_theory.py",
    "_estimators": "test_ridge.py test_second_moment_weights.py",
    "_solve": "test_ridge.py test_ridge_scale.py test_second_moment_weights.py",
    "ridge": "test_second_moment_weights.py",
    "second_moment": "test_lattice.py",
    "generative": "test_lsvi.py",
    "features": "test_fitted_q.py",
    "replicability": "test_pairs.py",
    "evidence": "test_certify.py",
    "certify": "test_pairs.py test_programs.py",
    "law": "test_certify.py",
    "mdp/counterexamples": "book/test_errata.py",
}
# Only changes to an operator of the same kind: `a << b` for `a * b` would crash on any float.
KINDS = (
    {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"},
    {"BitOr", "BitAnd", "BitXor", "LShift", "RShift"},
    {"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"},
    {"Is", "IsNot"},
    {"UAdd", "USub"},
    {"Delete", "USub"},
    {"Delete", "Invert"},
    {"Delete", "Not"},
)


def silent_spans(tree):
    """Where no test should see a change: type hints, messages of errors, some arguments, the `*` of a signature."""
    for node in ast_nodes(tree):
        if node.type in ("param", "funcdef") and node.annotation:
            yield node.annotation
        elif node.type in ("annassign", "raise_stmt"):
            yield node.children[1]
        elif node.type == "if_stmt" and node.children[1].get_code().strip() == "TYPE_CHECKING":
            yield node
        elif node.type == "argument" and node.children[0].get_code().strip() in ("strict", "stacklevel"):
            yield node
        elif node.type == "operator" and node.parent.type in ("param", "parameters", "lambdef"):
            yield node


def places(path, items):
    """Changes by the place and the kind of change, without those in silent spans."""
    silent = [(node.start_pos, node.end_pos) for node in silent_spans(get_ast_from_path(path))]
    found = {}
    for item in items:
        (change,) = item.mutations
        family, *operators = change.operator_name.removeprefix("core/").split("_")
        told = any(first <= change.start_pos and change.end_pos <= last for first, last in silent)
        if not told and (not operators or any(kind >= set(operators) for kind in KINDS)):
            found.setdefault((change.start_pos, family), []).append(item)
    return found


def try_module(module, size, seed):
    """Try one random change at each of `size` random places of a module; return what became of them."""
    path, folder = Path("rrl", f"{module}.py"), module.rpartition("/")[0]
    tests = [] if folder else sorted(Path("tests").glob(f"test_{module}*.py"))
    tests += [Path("tests", name) for name in f"test_interface.py {folder} {MORE.get(module, '')}".split()]
    command = f"{PYTEST} {path} {' '.join(map(str, tests))}"
    start = time.monotonic()
    outcome, said = run_tests(command, 1200)
    if outcome != TestOutcome.SURVIVED:
        raise SystemExit(f"the tests of {module} do not pass:\n{said[-3000:]}")
    settings = {"test-command": command, "timeout": 20 + 4 * (time.monotonic() - start)}
    key = hashlib.sha256(f"{size} {seed} {path.read_text()}".encode()).hexdigest()[:8]
    with use_db(str(RESULTS / f"{module.replace('/', '-')}-{key}.sqlite")) as work:
        if not work.num_work_items:
            commands.init([path], work, {})
            found = sorted(places(path, work.work_items).items())
            draw = random.Random(f"{seed} {module}")
            draw.shuffle(found)
            work.clear()
            work.add_work_items([draw.choice(items) for _, items in found[:size]])
        commands.execute(work, ConfigDict(settings | {"distributor": {"name": "local"}}))
        results = [result for _, result in work.results]
    for result in results:
        if not result.is_killed:
            print("".join(line + "\n" for line in result.diff.splitlines() if line[:1] in "+-"), flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("modules", nargs="*", default=MODULES, help="as in: ridge theory/linear (default: all)")
    parser.add_argument("--sample", type=int, default=25, help="places tried in each module")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    tree = RESULTS / "tree"
    shutil.copytree(ROOT, tree, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "_build", "chapters"))
    os.chdir(tree)
    os.environ |= {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    rows = []
    for module in options.modules:
        results = try_module(module, options.sample, options.seed)
        late = sum(result.output == "timeout" for result in results)
        rows.append((module, len(results), sum(result.is_killed for result in results), late))
    print("| module | tried | killed | by time | score, 95 % interval |\n|-|-|-|-|-|")
    for module, tried, killed, late in [*rows, ("all", *map(sum, list(zip(*rows))[1:]))]:
        low, high = binomtest(killed, tried).proportion_ci()
        print(f"| {module} | {tried} | {killed} | {late} | {killed / tried:.0%}, {low:.0%} to {high:.0%} |")


if __name__ == "__main__":
    main()
