"""Build the graded assignments from their Markdown sources: student, autograder and instructor versions.

Each file of assignments/ is a notebook in Otter Assign's format, kept as MyST Markdown.
"""

import argparse
import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rrl._extras import missing

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("numpy==", "scipy==", "scikit-learn==")


def find_sources(root):
    """Paths of the assignments' sources in their order."""
    return sorted((root / "assignments").glob("[!.]*.md"))


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
    try:
        import jupytext
        from otter.assign import main as otter_assign
    except ImportError as error:
        raise missing("book,teach", "building assignments needs otter-grader") from error
    import yaml

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        notebook = jupytext.read(source)
        settings = yaml.safe_load(config.read_text(encoding="utf-8"))
        if wheel is not None:
            shutil.copy(wheel, folder)
            lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
            needed = [line for line in lock if line.startswith(NEEDED)]
            settings |= {"files": [wheel.name], "requirements": [*needed, f"./files/{wheel.name}"]}
        (folder / config.name).write_text(yaml.safe_dump(settings), encoding="utf-8")
        jupytext.write(notebook, folder / f"{source.stem}.ipynb")
        with contextlib.redirect_stdout(io.StringIO()):
            otter_assign(str(folder / f"{source.stem}.ipynb"), str(folder / "made"), no_pdfs=True)
        made = {
            "student": target / "student" / source.stem,
            "autograder": target / "autograder" / f"{source.stem}.zip",
            "instructor": target / "instructor" / f"{source.stem}.ipynb",
        }
        shutil.rmtree(made["student"], ignore_errors=True)
        for path in made.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder / "made" / "student", made["student"])
        shutil.copy(next((folder / "made" / "autograder").glob("*.zip")), made["autograder"])
        shutil.copy(folder / "made" / "autograder" / f"{source.stem}.ipynb", made["instructor"])
    return made


def main(argv=None):
    """Run the command line; return the exit status."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args(argv)
    target = ROOT / "_build" / "assignments"
    with tempfile.TemporaryDirectory() as folder:
        wheel = make_wheel(ROOT, folder)
        for source in find_sources(ROOT):
            print(f"Assignment {source.stem}", flush=True)
            try:
                assign(source, ROOT / "assignments" / "config.yml", target, wheel)
            except ImportError as error:
                print(f"error: {error}", file=sys.stderr)
                return 1
    print("==> Done: _build/assignments/{student,autograder,instructor}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
