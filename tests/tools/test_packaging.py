"""Packaging: one set of versions everywhere, a light core, extras named where they are missing."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import rrl

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
HASHED = (ROOT / "requirements-hashed.lock").read_text(encoding="utf-8")
PINS = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", LOCK, flags=re.M))
PYTHONS = [f"3.{minor}" for minor in range(100) if Version(f"3.{minor}") in SpecifierSet(PROJECT["requires-python"])]
CORE = {"numpy", "scipy", "scikit-learn"}
OPTIONAL = ["torch", "gymnasium", "ale_py", "minari", "d3rlpy", "h5py", "numba", "dask", "matplotlib", "pandas", "cv2"]
OPTIONAL += ["plotly", "IPython", "tqdm", "safetensors", "yaml", "sympy"]


def run(code, *arguments):
    """Run Python code in a fresh interpreter and return what it prints."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


# Versions


def requirements():
    """What pyproject.toml asks for, of every extra."""
    texts = [text for extra in PROJECT["optional-dependencies"].values() for text in extra]
    found = [Requirement(text) for text in PROJECT["dependencies"] + texts]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]]


def test_the_lock_has_exact_public_versions_only():
    lines = [line for line in LOCK.splitlines() if not line.startswith("#")]
    assert len(lines) > 100
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9._-]*==[0-9][0-9a-z.]*( ; [\w .!=<>'*()]+)?", line) for line in lines)
    assert lines == sorted(lines, key=lambda line: line.split("==")[0])
    assert len(PINS) == len(lines)
    assert not re.search(r"^(nvidia|cuda|triton)", LOCK, re.M)


def test_every_locked_package_but_torch_has_hashes():
    blocks = re.findall(r"^[^#\s].*\n(?:[ \t].*\n)*", HASHED, flags=re.M)
    named = [block.splitlines()[0].removesuffix("\\").rstrip() for block in blocks]
    locked = [line for line in LOCK.splitlines() if not line.startswith(("#", "torch=="))]
    assert named == locked
    for block in blocks:
        first, *hashes = block.replace(" \\\n", "\n").splitlines()
        assert hashes and all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", line) for line in hashes), first
    # Wheels of several systems and Pythons, and the source.
    numpy = next(block for block in blocks if block.startswith("numpy=="))
    assert numpy.count("sha256") > 20


def test_the_lock_suits_the_first_release_of_every_python():
    unfit, compared = [], 0
    for name, version in PINS.items():
        try:
            installed = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if Version(installed.version).public == version:
            compared += 1
            needs = SpecifierSet(installed.metadata.get("Requires-Python") or "")
            unfit += [(name, str(needs)) for python in PYTHONS if f"{python}.0" not in needs]
    if compared < 100:
        pytest.skip("other versions than the locked ones are installed")
    assert not unfit


@pytest.mark.skipif(os.environ.get("RRL_VERSIONS") != "lowest", reason="the oldest versions are installed by one job")
def test_the_oldest_versions_are_those_of_the_lower_bounds():
    for requirement in requirements():
        (low,) = [part.version for part in requirement.specifier if part.operator in (">=", "==")]
        # A build of torch adds a local part.
        installed = Version(importlib.metadata.version(requirement.name)).public
        assert Version(installed) == Version(low), requirement


def test_every_requirement_has_a_lower_bound():
    for requirement in requirements():
        assert sum(part.operator in (">=", "==") for part in requirement.specifier) == 1, requirement


def workflow(name):
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8"))["jobs"]


def test_the_same_pythons_everywhere():
    assert PYTHONS == ["3.11", "3.12", "3.13"]
    prefix = "Programming Language :: Python :: "
    assert [text.removeprefix(prefix) for text in PROJECT["classifiers"] if text.startswith(prefix)] == PYTHONS
    jobs = workflow("tests")
    for job in (jobs["tests"], jobs["lowest"], workflow("weekly")["newest"]):
        assert job["strategy"]["matrix"]["python"] == PYTHONS
    assert {entry["python"] for entry in jobs["tests"]["strategy"]["matrix"]["include"]} <= set(PYTHONS)
    steps = workflow("book")["build"]["steps"]
    assert {step["with"]["python-version"] for step in steps if "python-version" in step.get("with", {})} <= set(
        PYTHONS
    )
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    pairs = re.search(r"\((\d+), (\d+)\) <= sys\.version_info\[:2\] <= \((\d+), (\d+)\)", makefile).groups()
    assert [".".join(pairs[:2]), ".".join(pairs[2:])] == [PYTHONS[0], PYTHONS[-1]]
    assert re.findall(r"python(3\.\d+)", re.search(r"for p in (.*?);", makefile)[1]) == PYTHONS[::-1]
    words = f"Python {', '.join(PYTHONS[:-1])} or {PYTHONS[-1]}"
    for name in ("README.md", "book/how_to.md", "Makefile"):
        assert words in (ROOT / name).read_text(encoding="utf-8"), name
    settings = tomllib.loads((ROOT / "tools" / "lock.toml").read_text(encoding="utf-8"))
    assert settings["pip"]["python-version"] == PYTHONS[0]


def test_the_oldest_and_the_newest_versions_are_tested():
    oldest = "\n".join(step.get("run", "") for step in workflow("tests")["lowest"]["steps"])
    assert "--resolution lowest-direct" in oldest and "make test" in oldest and ".[all]" in oldest
    assert workflow("tests")["lowest"]["env"] == {"RRL_VERSIONS": "lowest"}
    newest = "\n".join(step.get("run", "") for step in workflow("weekly")["newest"]["steps"])
    assert "--upgrade" in newest and "make test" in newest and ".[all]" in newest and ".lock" not in newest


def test_make_installs_by_hashes():
    commands = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--require-hashes --no-deps -r requirements-hashed.lock" in commands


def test_the_lock_satisfies_every_requirement_of_every_extra():
    for requirement in requirements():
        assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)]), requirement


def test_the_conda_environment_has_the_lock_s_versions():
    python, pip, packages = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    assert python.removeprefix("python=") in PYTHONS and pip == "pip"
    assert packages["pip"] == ["--requirement requirements.lock", "--editable ."]


def test_the_conda_environment_works_elsewhere():
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    for pattern in (r"=[^=]+=[a-z0-9]+_[0-9]+", "_libgcc_mutex|libstdcxx-ng|ld_impl_linux", "^prefix:"):
        assert not re.search(pattern, text, re.M), pattern
    assert "Not supported: osx-64" in text


def test_one_version_and_licence_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["version"] == rrl.__version__
    assert citation["license"] == PROJECT["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert citation["preferred-citation"]["authors"][0]["family-names"] == "Eaton"


def test_no_file_names_a_registry_or_this_machine():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    # Put together here, so that this file does not name them either.
    hosts = [
        "pypi" + ".org",
        "files.python" + "hosted",
        "registry.npm" + "js",
        "/ro" + "ot/",
        "/wo" + "rk/",
        "/op" + "t/",
    ]
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file():
            content = path.read_bytes()
            found += [(name, host) for host in hosts if host.encode() in content]
    assert not found


# Commands that the documents name


def make_targets():
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


@pytest.mark.parametrize("name", ["README.md", "book/how_to.md", "book/teaching.md", "book/environment.md", ".ci/run"])
def test_documented_make_commands_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`|\$ |step )make ([a-z]+)", text, re.M))
    assert named <= make_targets(), named - make_targets()
    if name == "README.md":
        assert {"book", "test"} <= named


def test_documented_scripts_exist():
    for name in ("README.md", "book/how_to.md"):
        for script in re.findall(r"(?:tools|\.ci)/\w+(?:\.py)?", (ROOT / name).read_text(encoding="utf-8")):
            assert (ROOT / script).is_file(), script


def test_make_help_lists_every_command_and_make_says_when_python_is_missing():
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  make ([a-z]+)", shown, re.M)) == make_targets()
    command = ["make", "setup", "VENV=.venv-none", "PYTHON="]
    missing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert missing.returncode != 0
    assert "no Python 3.11, 3.12 or 3.13" in missing.stderr
    assert not (ROOT / ".venv-none").exists()


def test_make_takes_an_environment_whose_path_has_spaces(tmp_path):
    """What it would run, run for the parts that are quick: the interpreter is found, and the mark is made."""
    place = tmp_path / "a folder" / ".venv"
    (place / "bin").mkdir(parents=True)
    script = place / "bin" / "python"
    script.write_text('#!/bin/sh\necho "$PYTHONPATH|$PYTHONOPTIMIZE|$@" >> "$LOG"\n')
    script.chmod(0o755)
    environment = os.environ | {"LOG": str(tmp_path / "log"), "PYTHONOPTIMIZE": "1", "PYTHONPATH": "elsewhere"}
    for command in ("setup", "lint"):
        made = ["make", command, f"VENV={place}", f"PYTHON={sys.executable}"]
        ran = subprocess.run(made, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    assert (place / ".ready").is_file()
    lines = (tmp_path / "log").read_text().splitlines()
    assert {line.rpartition("|")[0] for line in lines} == {f"{ROOT}:elsewhere|"}
    ran = [line.rpartition("|")[2] for line in lines]
    assert "-m ruff check ." in ran and "-m pip check" in ran and sum("pip install" in line for line in ran) == 3


# The core alone (case 38)


def test_the_core_depends_on_three_packages():
    assert {Requirement(text).name for text in PROJECT["dependencies"]} == CORE


def test_importing_rrl_loads_nothing_optional():
    loaded = run("import sys, rrl; print(*sorted({name.split('.')[0] for name in sys.modules}))").split()
    assert not set(loaded) & set(OPTIONAL)


BLOCKED = """
import sys
blocked = set(sys.argv[1].split(","))
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in blocked else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = map(Without, sys.meta_path)
"""


def test_the_core_works_without_any_extra():
    code = """
import numpy as np, rrl
for name in rrl.__all__:
    getattr(rrl, name)
rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (200, 3)) / 2
model = rrl.ReplicableRidge(penalty=0.1, bin_width=0.1).fit(x, x @ [1.0, 0.5, 0.0])
moment = rrl.ReplicableSecondMoment(bin_width=0.1).fit(x)
print(model.codes_.shape, moment.codes_.shape, rrl.hypergrid_round(0.3, 0.1, shared_seed=1).codes.dtype)
"""
    assert run(BLOCKED + code, ",".join(OPTIONAL)) == "(3,) (6,) int64"


@pytest.mark.parametrize(
    ("extra", "call"),
    [
        ("book", "rrl.book.plotting.use_style()"),
        ("book", "rrl.book.plotting.figure_style().__enter__()"),
        ("experiments", "rrl.pqn.network.require_torch()"),
        ("experiments", "rrl.datasets.cartpole(source='d3rlpy')"),
        ("experiments", "rrl.datasets.atari.holdout('breakout', source='minari')"),
        ("experiments", "import rrl.mdp.environments"),
        ("experiments", "rrl.LinearMDP.tabular(np.ones((1, 1, 1, 1)), np.ones((1, 1, 1)), np.ones(1)).as_gymnasium()"),
    ],
)
def test_a_missing_extra_is_named(extra, call):
    code = f"""
import numpy as np, rrl
import rrl.datasets.atari, rrl.pqn.network, rrl.book.plotting
try:
    {call}
except ImportError as error:
    print(error)
"""
    said = run(BLOCKED + code, ",".join(OPTIONAL))
    assert f"pip install -e '.[{extra}]'" in said and f"pip install '{PROJECT['name']}[{extra}] @ git+URL'" in said


def test_nothing_advises_to_install_a_stranger_s_package():
    """On the public index `rrl` is another project."""
    pages = [path for folder in ("rrl", "tools", "book", "notebooks") for path in (ROOT / folder).rglob("*.[pm][yd]")]
    advice = re.compile(r"""install (?:-\S+ )*["']?rrl\b(?!, or)""")
    lines = [line for path in [*pages, ROOT / "README.md"] for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 20_000
    assert [line for line in lines if advice.search(line)] == []
    assert sum("`rrl` there is a stranger's" in line for line in lines) == 2
