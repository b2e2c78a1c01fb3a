"""Grade a folder of submissions of one assignment with Otter, into one table of points.

A submission is a program, and this runs it with your rights, one after the other, each in a folder of its own.
"""

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from run_notebooks import write_atomic

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 1200


class GradeError(Exception):
    """A request that cannot be carried out, in words."""


def find_autograder(root, name):
    """The zip file of the assignment whose name begins so."""
    folder = root / "_build" / "assignments" / "autograder"
    found = sorted(folder.glob("*.zip"))
    if not found:
        raise GradeError(f"there is no autograder in {folder.relative_to(root)}; run 'make assignments' first")
    named = [path for path in found if path.stem.startswith(name)]
    if len(named) != 1:
        raise GradeError(f"{len(named)} assignments begin with {name!r}; there are: {', '.join(p.stem for p in found)}")
    return named[0]


def find_submissions(folder):
    """Notebooks and Otter's zip files at or below a folder."""
    if not folder.is_dir():
        raise GradeError(f"there is no folder {folder}")
    paths = [path for kind in ("*.ipynb", "*.zip") for path in folder.rglob(kind)]
    found = sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    if not found:
        raise GradeError(f"there is no .ipynb or .zip file in {folder}")
    return found


def grade(submission, autograder, seconds=SECONDS):
    """Points of each question of one submission, or why there are none: (points, possible, error)."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "otter", "run", "--no-logo", "-a", str(autograder), "-o", folder]
        try:
            ran = subprocess.run(
                [*command, str(submission)], capture_output=True, text=True, errors="replace", timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return {}, {}, f"ran longer than {seconds:g} s"
        try:
            tests = json.loads((Path(folder) / "results.json").read_text(encoding="utf-8"))["tests"]
        except (OSError, ValueError, KeyError):
            lines = (ran.stderr or ran.stdout).strip().splitlines()
            return {}, {}, " ".join(lines[-1].split())[:300] if lines else f"otter ended with status {ran.returncode}"
    scored = {test["name"]: test for test in tests if "max_score" in test and "score" in test}
    if not scored:
        return {}, {}, "otter found nothing to score"
    return ({n: t["score"] for n, t in scored.items()}, {n: t["max_score"] for n, t in scored.items()}, "")


def write_table(path, rows):
    """One row a submission: its points by question, their sum, what there was to get, and what went wrong."""
    questions = list(dict.fromkeys(name for row in rows for name in row["points"]))
    names = ["submission", *questions, "total", "possible", "error"]
    lines = []
    for row in rows:
        total = {"total": sum(row["points"].values()), "possible": sum(row["possible"].values())}
        lines.append({"submission": row["submission"], "error": row["error"], **row["points"], **total})
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_atomic(path, text.getvalue())


def main(argv=None):
    """Run the command line; return the exit status: 1 if a submission could not be graded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="first letters of the assignment's name, as 1")
    parser.add_argument("folder", type=Path, help="of the submissions, .ipynb or .zip, in folders of any kind")
    parser.add_argument("--output", type=Path, help="the table (default: grades.csv in that folder)")
    parser.add_argument("--time-limit", type=float, default=SECONDS, metavar="SECONDS", help="for each submission")
    args = parser.parse_args(argv)
    rows = []
    try:
        autograder = find_autograder(ROOT, args.name)
        paths = find_submissions(args.folder)
    except GradeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    output = args.output or args.folder / "grades.csv"
    for count, path in enumerate(paths, 1):
        points, possible, error = grade(path.resolve(), autograder, args.time_limit)
        submission = path.relative_to(args.folder).as_posix()
        rows.append({"submission": submission, "points": points, "possible": possible, "error": error})
        said = error or f"{sum(points.values()):g} of {sum(possible.values()):g}"
        print(f"  [{count}/{len(paths)}] {submission}: {said}", flush=True)
        # After each: a class takes long, and what is done is there.
        write_table(output, rows)
    failed = sum(bool(row["error"]) for row in rows)
    print(f"==> Done: {os.fspath(output)}" + (f"; {failed} could not be graded" if failed else ""))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
