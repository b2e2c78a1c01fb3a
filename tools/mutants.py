"""Mutation testing of the core: the small changes of its code that no test notices.

Needs Cosmic Ray beside the packages of the book (``pip install cosmic-ray==8.7.0``); run it as
``make mutants`` or ``python tools/mutants.py ridge --sample 40``. Nothing on disk is changed: each
mutant is imported in a forked process, which runs the module's tests, the fastest first, until one
fails. Results are kept in ``_build/mutants``; running again tries only what survived or is new.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from hypothesis import Phase, settings
from scipy.stats import binomtest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "_build" / "mutants"
SEED = 20261128
SLOW = 4.0  # Slower tests are left out: a survivor would cost minutes. Seconds.
MEMORY = 8 << 30
# The modules, by their tests: those of the interface and these; none is said where a test has the module's name.
MODULES = {
    "arguments rounding randomness ridge theory/theory": "_checks",
    "ridge second_moment_weights": "_estimators",
    "lsvi": "generative",
    "lsvi_ucb/lsvi_ucb": "lsvi_ucb/arguments lsvi_ucb/data",
    "": "rounding lattice randomness scaling core_set lsvi tabular mdp/linear_mdp fitted_q pilot choosing",
    "ridge ridge_scale second_moment_weights": "ridge _solve",
    "second_moment second_moment_weights lattice": "second_moment",
    "lsvi_ucb/switching lsvi_ucb/lsvi_ucb": "lsvi_ucb/algorithm",
    "mdp/linear_mdp": "mdp/counts",
    "replicability pairs": "replicability",
    "features fitted_q": "features",
    "certify pairs": "certify",
    "arguments theory/theory": "theory/_formula",
    "theory/theory theory/theory_rl theory/theory_sharper theory/theory_lattice": "theory/linear theory/rounding "
    "theory/lsvi theory/lsvi_ucb theory/sharper theory/bonus",
    "theory/theory_lattice": "theory/lattice theory/uniform",
    "theory/theory_stopping": "theory/stopping",
    "theory/theory_exploration": "theory/exploration",
    "theory/theory_exponents": "theory/exponents",
    "adaptive/adaptive": "adaptive/rounding adaptive/ridge adaptive/lsvi",
    "pqn/pqn": "pqn/targets",
    "pqn/pqn_agreement": "pqn/agreement",
}
TESTS = {
    module: ("interface", *(tests.split() or [module]))
    for tests, modules in MODULES.items()
    for module in modules.split()
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


def operators():
    """Cosmic Ray's operators that are used: family, name and the operator itself."""
    for name in operator_names():
        family, *change = name.removeprefix("core/").split("_")
        operator = get_operator(name)
        if not operator.arguments() and (not change or any(kind >= set(change) for kind in KINDS)):
            yield family, name, operator()


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


def places(source):
    """Places that can be changed, each with its possible changes; and the number of silent places left out."""
    tree = get_ast(source)
    silent = [(node.start_pos, node.end_pos) for node in silent_spans(tree)]
    found, left_out = {}, set()
    for family, name, operator in operators():
        spans = (span for node in ast_nodes(tree) for span in operator.mutation_positions(node))
        for occurrence, (start, end) in enumerate(spans):
            place = (start, family)
            if any(first <= start and end <= last for first, last in silent):
                left_out.add(place)
            else:
                found.setdefault(place, []).append((name, occurrence))
    return found, len(left_out)


def sample(source, size, seed):
    """One random change at each of `size` random places; a larger sample begins with the smaller one."""
    found, left_out = places(source)
    draws = {place: random.Random(f"{seed} {place}") for place in found}
    order = sorted(found, key=lambda place: draws[place].random())
    return [draws[place].choice(found[place]) for place in order[:size]], len(found), left_out


class Mutated(SourceFileLoader):
    """Finds and loads one module, from a text instead of its file."""

    def __init__(self, name, path, source):
        super().__init__(name, str(path))
        self.source = source

    def find_spec(self, name, path=None, target=None):
        return spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, fullname):
        return compile(self.source, self.path, "exec")


class FastestFirst:
    """Pytest plugin: orders and times the tests, and lets hypothesis stop at the first failure."""

    def __init__(self, seconds):
        self.seconds, self.timed = seconds, {}

    def pytest_sessionstart(self):
        profile = settings(settings.get_profile("rrl"), phases=[Phase.explicit, Phase.generate])
        settings.register_profile("mutants", profile)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items):
        if self.seconds:
            items[:] = [item for item in items if self.seconds.get(item.nodeid, 0) < SLOW]
            items.sort(key=lambda item: self.seconds.get(item.nodeid, 0))

    def pytest_runtest_logreport(self, report):
        self.timed[report.nodeid] = self.timed.get(report.nodeid, 0) + report.duration


def run_tests(module, source, seconds, report, timeout):
    """Import `source` as `module` and run its tests; runs in a process of its own."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # Also where nobody is left to stop it.
    resource.setrlimit(resource.RLIMIT_CPU, (int(timeout) + 1,) * 2)
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(report.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, handle in enumerate((null, log, log)):
        os.dup2(handle, number)
    path = ROOT / "rrl" / f"{module}.py"
    name = "rrl." + module.replace("/", ".")
    sys.meta_path.insert(0, Mutated(name, path, source))
    importlib.import_module(name)
    plugin = FastestFirst(seconds)
    files = [
        str(path),
        *(str((ROOT / "tests" / test).with_name(f"test_{Path(test).name}.py")) for test in TESTS[module]),
    ]
    options = ["-x", "-q", "--tb=line", *(f"-pno:{name}" for name in ("benchmark", "cacheprovider", "xdist", "cov"))]
    code = pytest.main([*options, *files], plugins=[plugin])
    if not seconds:
        report.write_text(json.dumps({"seconds": plugin.timed, "imported": sorted(sys.modules)}))
    sys.stdout.flush()
    os._exit(int(code))


def outcome(module, source, seconds, timeout):
    """What the tests say of one mutant, in a forked process that cannot outlive its time."""
    report = RESULTS / "report.json"
    process = multiprocessing.get_context("fork").Process(
        target=run_tests, args=(module, source, seconds, report, timeout)
    )
    process.start()
    process.join(timeout)
    late = process.is_alive()
    if process.pid:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.join()
    return "timeout" if late else "survived" if process.exitcode == 0 else "killed"


def time_tests(module, source):
    """Time the tests on the unchanged module, import here what they import, and run them once more as for a mutant.

    Returns the seconds of each test, and the time allowed for a mutant.
    """
    file = RESULTS / f"{'-'.join(TESTS[module]).replace('/', '.')}.times.json"
    if not file.exists():
        must_pass(module, source, {}, 1200)
        (RESULTS / "report.json").rename(file)
    report = json.loads(file.read_text())
    ours = {"rrl", "conftest", *(path.stem for path in ROOT.glob("*/*.py"))}
    for name in report["imported"]:
        if name.split(".")[0] not in ours and name not in sys.modules:
            with suppress(Exception):
                importlib.import_module(name)
    start = time.monotonic()
    must_pass(module, source, report["seconds"], 600)
    return report["seconds"], 20 + 4 * (time.monotonic() - start)


def must_pass(module, source, seconds, timeout):
    """Stop if the tests do not pass on the unchanged module."""
    if outcome(module, source, seconds, timeout) != "survived":
        raise SystemExit(f"the tests of {module} do not pass:\n" + (RESULTS / "report.log").read_text()[-3000:])


def changed_line(source, mutant):
    """First line that differs: its number, before and after."""
    for number, (old, new) in enumerate(zip(source.splitlines(), mutant.splitlines(), strict=False), 1):
        if old != new:
            return number, old.strip(), new.strip()
    return 0, "", ""


def try_module(module, size, seed):
    """Try a sample of mutants of one module; what was killed before, with the same source, is not tried again."""
    source = (ROOT / "rrl" / f"{module}.py").read_text()
    chosen, total, left_out = sample(source, size, seed)
    file = RESULTS / f"{module.replace('/', '_')}.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    tried = kept["mutants"] if kept.get("source") == source else {}
    seconds = None
    for name, occurrence in chosen:
        mutant = f"{name} {occurrence}"
        if tried.get(mutant, {"outcome": "survived"})["outcome"] == "survived":
            if seconds is None:
                seconds, allowed = time_tests(module, source)
            changed = mutate_code(source, get_operator(name)(), occurrence)
            line, before, after = changed_line(source, changed)
            start = time.monotonic()
            result = outcome(module, changed, seconds, allowed)
            print(f"{module}:{line} {result} {time.monotonic() - start:.1f} s: {before}  ->  {after}", flush=True)
            tried[mutant] = {"outcome": result, "line": line, "before": before, "after": after}
            file.write_text(json.dumps({"source": source, "mutants": tried}, indent=1, ensure_ascii=False))
    return total, left_out, [tried[f"{name} {occurrence}"]["outcome"] for name, occurrence in chosen]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("modules", nargs="*", default=list(TESTS), help="as in: ridge theory/linear (default: all)")
    parser.add_argument("--sample", type=int, default=25, help="places tried in each module")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = []
    for module in options.modules or list(TESTS):
        total, left_out, outcomes = try_module(module, options.sample, options.seed)
        killed = sum(result != "survived" for result in outcomes)
        rows.append((module, total, left_out, len(outcomes), killed, outcomes.count("timeout")))
    print("\n| module | places | silent | tried | killed | by time | score, 95 % interval |\n|-|-|-|-|-|-|-|")
    for module, total, silent, tried, killed, late in [*rows, ("all", *(map(sum, zip(*[row[1:] for row in rows]))))]:
        low, high = binomtest(killed, tried).proportion_ci()
        score = f"{killed / tried:.0%}, {low:.0%} to {high:.0%}"
        print(f"| {module} | {total} | {silent} | {tried} | {killed} | {late} | {score} |")


if __name__ == "__main__":
    main()
