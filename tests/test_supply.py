"""Supply and safety: nothing that could run code is read from files, and known vulnerabilities are looked for."""

import ast
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("rrl", "tools") for path in (ROOT / folder).rglob("*.py"))
MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve"}
CALLS = {"torch.load", "torch.jit.load", "pd.read_pickle", "pandas.read_pickle", "yaml.load", "yaml.unsafe_load"}
CALLS |= {"joblib.load", "eval", "exec"}


def faults(source):
    """What in a source could load a pickle or run text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module:
            loads = node.module in ("joblib", "torch") and any(alias.name == "load" for alias in node.names)
            found += [node.module] if loads or node.module.split(".")[0] in MODULES else []
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            found += [name] if name in CALLS else []
            for keyword in node.keywords:
                safe = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                found += ["allow_pickle"] if keyword.arg == "allow_pickle" and not safe else []
            # By default numpy loads no pickle; here it is said, so that a reader sees it.
            said = any(keyword.arg == "allow_pickle" for keyword in node.keywords)
            found += ["np.load without allow_pickle=False"] if name in ("np.load", "numpy.load") and not said else []
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_source_loads_pickles_or_runs_text(path):
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "import os, cloudpickle as c",
        "torch.load(path)",
        "joblib.load(path)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
        "eval(text)",
    ],
)
def test_the_search_finds(source):
    assert len(faults(source)) == 1


def test_the_locked_versions_are_audited_every_week():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "weekly.yml").read_text(encoding="utf-8"))
    runs = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert any("pip-audit" in run and "requirements.lock" in run for run in runs)
    # YAML reads the key `on` as true.
    assert workflow[True]["schedule"]
