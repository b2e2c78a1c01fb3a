"""Make requirements.lock and environment.yml from pyproject.toml.

The lock holds exact versions for every extra. It names no index and no build of torch, so plain pip
chooses the build that fits the machine. It holds no hashes for the same reason: with one hash pip wants
a hash of everything, and which torch, and which packages below it, differs between machines.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from run_notebooks import write_atomic

ROOT = Path(__file__).resolve().parents[1]
LOCK_HEADER = """\
# Exact versions of everything that the book, the experiments, the clusters and the tests use.
# Made by `make lock` from pyproject.toml with Python 3.11; do not edit by hand.
"""
ENVIRONMENT = """\
# For conda users: conda env create -f environment.yml && conda activate rrl
# Made by `make lock`; versions as in requirements.lock, which also fixes the indirect dependencies.
# Python comes from conda and the rest from pip, because not every version is on conda-forge.
# Supported: linux-64, linux-aarch64, osx-arm64, win-64. Not supported: osx-64 (torch has no build for it).
name: rrl
channels:
  - conda-forge
dependencies:
  - python=3.11
  - pip
  - pip:
      - --constraint requirements.lock
{pins}
      - --editable .
"""


def normal(name):
    """Name of a distribution as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def direct_dependencies(project):
    """Requirements that pyproject.toml names itself, without those on its own extras."""
    named = list(project["dependencies"])
    for requirements in project["optional-dependencies"].values():
        named += [text for text in requirements if not text.startswith(f"{project['name']}[")]
    return sorted({re.match(r"[\w.-]+(\[[\w,-]+\])?", text)[0] for text in named}, key=str.lower)


def read_pins(lock):
    """Versions in the text of a lock file, by normal name."""
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", lock, flags=re.M)
    return {normal(name): version for name, version in found}


def environment_file(project, lock):
    """Text of environment.yml for the versions of a lock file."""
    pins = read_pins(lock)
    lines = [f"      - {name}=={pins[normal(name.split('[')[0])]}" for name in direct_dependencies(project)]
    return ENVIRONMENT.format(pins="\n".join(lines))


def main():
    """Resolve, strip, write; return the exit status."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "lock.txt"
        command = [sys.executable, "-m", "piptools", "compile", "--quiet", "--extra", "all", "--strip-extras"]
        command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
        command += ["--no-emit-trusted-host", "--output-file", str(result), "pyproject.toml"]
        print("Resolving the dependencies of every extra (minutes)", flush=True)
        if subprocess.run(command, cwd=ROOT).returncode:
            return 1
        lines = [line for line in result.read_text(encoding="utf-8").splitlines() if re.match(r"[\w.-]+==", line)]
    # A local version such as 2.13.0+cpu exists on no public index.
    lock = LOCK_HEADER + "".join(re.sub(r"\+[\w.]+", "", line) + "\n" for line in lines)
    write_atomic(ROOT / "requirements.lock", lock)
    write_atomic(ROOT / "environment.yml", environment_file(project, lock))
    print(f"Wrote requirements.lock ({len(lines)} packages) and environment.yml")
    return 0


if __name__ == "__main__":
    sys.exit(main())
