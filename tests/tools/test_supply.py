"""Supply and safety: nothing that could run code is read from files, and known vulnerabilities are looked for.

The search guards against mistakes, not against malice: it follows imports and their other names, not values.
"""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDERS = ("rrl", "tools", "book", "benchmarks")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PAGES = sorted(path for folder in ("notebooks", "assignments", "slides") for path in (ROOT / folder).glob("*.md"))
MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve"}
NAMES = {
    "torch.load",
    "torch.jit.load",
    "torch.hub.load",
    "torch.hub.load_state_dict_from_url",
    "torch.serialization.load",
}
NAMES |= {"pandas.read_pickle", "pandas.io.pickle.read_pickle", "joblib.load", "joblib.numpy_pickle.load"}
NAMES |= {"yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "yaml.Loader", "yaml.UnsafeLoader"}
NAMES |= {"d3rlpy.load_learnable", "numpy.lib.npyio.load", "multiprocessing.reduction.ForkingPickler"}
NAMES |= {"eval", "exec", "builtins.eval", "builtins.exec"}
IMPORTERS = {"__import__", "importlib.import_module", "builtins.__import__"}


def faults(source):
    """What in a source could load a pickle or run text."""
    tree, names, found = ast.parse(source), {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
                found += [alias.name] if alias.name.split(".")[0] in MODULES else []
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                found += [names[alias.asname or alias.name]] if node.module.split(".")[0] in MODULES else []

    def full(node):
        """Dotted name behind an expression, or nothing."""
        if isinstance(node, ast.Name):
            return names.get(node.id, node.id)
        outer = full(node.value) if isinstance(node, ast.Attribute) else ""
        return f"{outer}.{node.attr}" if outer else ""

    for node in ast.walk(tree):
        # A reference is enough: the function may be called under another name.
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            found += [full(node)] if full(node) in NAMES else []
        elif isinstance(node, ast.Call):
            name, said = full(node.func), False
            for keyword in node.keywords:
                if keyword.arg == "allow_pickle":
                    said = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                    found += [] if said else ["allow_pickle"]
            # By default numpy loads no pickle; here it is said, so that a reader sees it.
            silent = name == "numpy.load" and not said and "allow_pickle" not in found
            found += ["numpy.load without allow_pickle=False"] if silent else []
            texts = [part.value for part in node.args[:1] if isinstance(part, ast.Constant)]
            found += [text for text in texts if name in IMPORTERS and str(text).split(".")[0] in MODULES]
            accessed = [part.value for part in node.args[1:2] if isinstance(part, ast.Constant)]
            found += [text for text in accessed if name == "getattr" and f"{full(node.args[0])}.{text}" in NAMES]
    return found


def code_of(page):
    """Python of a page's code cells, without the cells' options."""
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    lines = "\n".join(re.sub(r"\A---\n.*?^---\n", "", cell, flags=re.M | re.S) for cell in cells).splitlines()
    return "\n".join(line for line in lines if not re.match(r":\w", line))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_source_loads_pickles_or_runs_text(path):
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_page_loads_pickles_or_runs_text(path):
    assert faults(code_of(path)) == []


def test_the_pages_have_code():
    assert sum("import" in code_of(page) for page in PAGES) > 15


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, cloudpickle as c",
        "from pickle import loads as plain",
        "from joblib import load\nload(path)",
        "import joblib as j\nj.load(path)",
        "import torch\ntorch.load(path)",
        "import torch as t\nt.load(path)",
        "import torch\nread = torch.load",
        "from torch import load as read\nread(path)",
        "import torch.serialization\ntorch.serialization.load(path)",
        "def f():\n    import pandas\n    return pandas.read_pickle(path)",
        "from pandas import read_pickle\nread_pickle(path)",
        "import numpy as np\nnp.load(path)",
        "import numpy as other\nother.load(path)",
        "from numpy import load\nload(path)",
        "import numpy as np\nnp.load(path, None, True)",
        "import numpy as np\nnp.load(path, **options)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "import numpy as np\nnp.load(path, allow_pickle=flag)",
        "import numpy as np\nnp.lib.format.read_array(stream, allow_pickle=True)",
        "import yaml\nyaml.load(text, yaml.SafeLoader)",
        "import importlib\nimportlib.import_module('pickle')",
        "from importlib import import_module as bring\nbring('dill')",
        "__import__('marshal')",
        "import torch\ngetattr(torch, 'load')(path)",
        "import d3rlpy\nd3rlpy.load_learnable(path)",
        "eval(text)",
        "import builtins\nbuiltins.exec(text)",
    ],
)
def test_the_search_finds(source):
    assert len(faults(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.load(path, allow_pickle=False)",
        "from safetensors.torch import load_file\nload_file(path)",
        "import json\njson.load(stream)",
        "import yaml\nyaml.safe_load(text)",
        "from .store import load\nload(path)",
        "model.eval()",
    ],
)
def test_the_search_leaves_alone(source):
    assert faults(source) == []


READERS = """
import json, pathlib, pickle, sys, warnings
import rrl.datasets.atari as atari
from rrl.datasets import cartpole
from rrl.experiments import store
from rrl.experiments.games import runs
import h5py, safetensors.torch

folder, classes, outcomes = pathlib.Path(sys.argv[1]), [], {}
cartpole(source="standin")

class Bomb:
    def __reduce__(self):
        return (pathlib.Path.write_text, (folder / "exploded", "x"))

unit = {"experiment": "square", "seed": 0, "game": "breakout", "variant": "plain"}
network = runs.network_path(folder, unit)
readers = {
    folder / "a.npz": lambda path: cartpole(path=path),
    folder / "a.h5": lambda path: cartpole(path=path),
    folder / "a.json": lambda path: atari.read_recording(path, **atari.RECORDED),
    store.RunStore(folder).path(unit): lambda path: store.RunStore(folder).load(unit),
    network: lambda path: runs.load_network(folder, unit),
}
sys.addaudithook(lambda event, args: classes.append(args) if event == "pickle.find_class" else None)
cartpole(source="standin")
for path, reader in readers.items():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(Bomb()))
    try:
        outcomes[path.suffix + path.stem[:1]] = repr(reader(path))
    except Exception as error:
        outcomes[path.suffix + path.stem[:1]] = type(error).__name__
pickled = len(classes)
pickle.loads(pickle.dumps(pathlib.Path))
print(json.dumps([outcomes, pickled, len(classes), (folder / "exploded").exists()]))
"""


def test_readers_given_a_pickle_load_none(tmp_path):
    for module in ("torch", "h5py", "ale_py"):
        pytest.importorskip(module)
    ran = subprocess.run(
        [sys.executable, "-c", READERS, str(tmp_path)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    outcomes, pickled, after, exploded = json.loads(ran.stdout)
    assert len(outcomes) == 5 and set(outcomes.values()) <= {"ValueError", "SafetensorError", "None"}
    assert pickled == 0 and not exploded
    # The interpreter does report the pickle that the script loads itself.
    assert after == 1


WORKFLOWS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def test_actions_are_named_by_their_commits_and_programs_by_their_versions():
    used = [
        line.split("uses:")[1].strip() for text in WORKFLOWS.values() for line in text.splitlines() if "uses:" in line
    ]
    assert len(used) > 10
    assert [name for name in used if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", name)] == []
    # One version of each.
    assert len(set(used)) == len({name.split("@")[0] for name in used})
    run = re.findall(r"pipx run (.*)", "\n".join(WORKFLOWS.values()))
    assert len(run) == 2 and all(re.match(r"--spec ([\w-]+)==[\d.]+ \1 ", words) for words in run)
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert re.search(r"--spec (uv==[\d.]+)", WORKFLOWS["tests"])[1] in lock.splitlines()
    (update,) = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8"))["updates"]
    assert update["package-ecosystem"] == "github-actions"


def test_workflows_can_only_read_where_they_do_not_publish():
    for name, text in WORKFLOWS.items():
        workflow = yaml.safe_load(text)
        assert workflow["permissions"] == {"contents": "read"}
        more = {job for job, steps in workflow["jobs"].items() if "permissions" in steps}
        assert more == ({"publish", "executed"} if name == "book" else set())
        assert "pull_request_target" not in text and "github.event.pull_request" not in text


def test_the_package_is_built_with_the_locked_setuptools():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--no-deps --no-build-isolation --editable ." in makefile
    assert re.search(r"^setuptools==[\d.]+ \\$", (ROOT / "requirements-hashed.lock").read_text(encoding="utf-8"), re.M)


def test_the_locked_versions_are_audited_every_week():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "weekly.yml").read_text(encoding="utf-8"))
    runs = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    (audit,) = [run for run in runs if "pip-audit" in run]
    # Without --strict a package that the service does not know passes as audited.
    assert "--strict" in audit and "requirements.lock" in audit
    # YAML reads the key `on` as true.
    assert workflow[True]["schedule"]
