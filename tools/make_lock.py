"""Make requirements.lock and requirements-hashed.lock from pyproject.toml.

requirements.lock holds exact versions for every extra, on every supported Python and system. It names no
index and no build of torch, so plain pip chooses the build that fits the machine.

requirements-hashed.lock holds the same packages with the hashes of all their files, but without torch:
a CPU build from another index has other hashes than the public one, and what lies below torch differs
between builds. So it is installed with --no-deps, and torch after it by requirements.lock.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from run_notebooks import write_atomic

ROOT = Path(__file__).resolve().parents[1]
LOCK_HEADER = """\
# Exact versions of everything that the book, the experiments, the clusters and the tests use.
# Made by `make lock` from pyproject.toml for Python 3.11 to 3.13; do not edit by hand.
"""
HASHED_HEADER = """\
# requirements.lock with the hashes of every package's files, without torch. Made by `make lock`.
# pip install --require-hashes --no-deps -r requirements-hashed.lock && pip install -r requirements.lock
"""


def normal(name):
    """Name of a distribution as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(lock):
    """Versions in the text of a lock file, by normal name."""
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", lock, flags=re.M)
    return {normal(name): version for name, version in found}


def locked_blocks(text):
    """One block of text a package: its version, marker and hashes, without what one build of torch brings."""
    blocks = re.findall(r"^\S.*\n(?:[ \t].*\n)*", text, flags=re.M)
    build = re.compile(r"(nvidia|cuda)-[\w-]+==|triton==|.*implementation_name == 'pypy'")
    return [block for block in blocks if not build.match(block)]


def main():
    """Resolve, strip, write; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "lock.txt"
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--all-extras", "--python-version", "3.11"]
        command += ["--no-header", "--no-annotate", "--output-file", str(result), "pyproject.toml"]
        print("Resolving the dependencies of every extra", flush=True)
        # First for Python 3.11.0; the second run keeps those versions and adds what other Pythons and systems need.
        for options in ([], ["--universal", "--fork-strategy", "fewest", "--generate-hashes"]):
            if subprocess.run(command + options, cwd=ROOT).returncode:
                return 1
        blocks = locked_blocks(result.read_text(encoding="utf-8"))
    lines = [block.splitlines()[0].removesuffix("\\").rstrip() for block in blocks]
    hashed = [block for block in blocks if not block.startswith("torch==")]
    write_atomic(ROOT / "requirements.lock", LOCK_HEADER + "\n".join(lines) + "\n")
    write_atomic(ROOT / "requirements-hashed.lock", HASHED_HEADER + "".join(hashed))
    print(f"Wrote requirements.lock ({len(lines)} packages) and requirements-hashed.lock")
    return 0


if __name__ == "__main__":
    sys.exit(main())
