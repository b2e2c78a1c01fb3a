"""Build the graded assignments from their Markdown sources: student, autograder and instructor versions.

Each file of assignments/ is a notebook in Otter Assign's format, kept as MyST Markdown.
"""

import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import jupytext
import yaml
from otter.assign import main as otter_assign

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("numpy==", "scipy==", "scikit-learn==")


def make_wheel(root, folder):
    """Build the package's wheel, which students and graders install; return its path."""
    with tempfile.TemporaryDirectory() as copy:
        # setuptools builds in place, so it gets a copy of what it needs.
        shutil.copytree(root / "rrl", Path(copy) / "rrl", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(root / name, copy)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
        subprocess.run([*command, "--wheel-dir", str(folder), copy], check=True)
    return next(Path(folder).glob("replicable_rl-*.whl"))


def assign(source, config, target, wheel=None):
    """Make the three versions of one assignment under `target`; return their paths.

    Without a wheel the versions are for a machine where rrl is installed already.
    """
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        settings = yaml.safe_load(config.read_text(encoding="utf-8"))
        if wheel is not None:
            shutil.copy(wheel, folder)
            lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
            needed = [line for line in lock if line.startswith(NEEDED)]
            settings |= {"files": [wheel.name], "requirements": [*needed, f"./files/{wheel.name}"]}
        (folder / config.name).write_text(yaml.safe_dump(settings), encoding="utf-8")
        jupytext.write(jupytext.read(source), folder / f"{source.stem}.ipynb")
        with contextlib.redirect_stdout(io.StringIO()):
            otter_assign(str(folder / f"{source.stem}.ipynb"), str(folder / "made"), no_pdfs=True)
        for version in ("autograder", "instructor"):
            (target / version).mkdir(parents=True, exist_ok=True)
        student, grader = target / "student" / source.stem, folder / "made" / "autograder"
        shutil.rmtree(student, ignore_errors=True)
        return {
            "student": Path(shutil.copytree(folder / "made" / "student", student)),
            "autograder": Path(shutil.copy(next(grader.glob("*.zip")), target / "autograder" / f"{source.stem}.zip")),
            "instructor": Path(shutil.copy(grader / f"{source.stem}.ipynb", target / "instructor")),
        }


def main():
    """Build every assignment."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = make_wheel(ROOT, folder)
        for source in sorted((ROOT / "assignments").glob("[!.]*.md")):
            print(f"Assignment {source.stem}", flush=True)
            assign(source, ROOT / "assignments" / "config.yml", ROOT / "_build" / "assignments", wheel)
    print("==> Done: _build/assignments/{student,autograder,instructor}")


if __name__ == "__main__":
    main()
