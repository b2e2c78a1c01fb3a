"""Grade a folder of submissions of one assignment with Otter, into one table of points.

A submission is a program, and this runs it with your rights, one after the other, each in a folder of its own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 1200


def find_autograder(root, name):
    """The zip file of the assignment whose name begins so."""
    folder = root / "_build" / "assignments" / "autograder"
    found = sorted(folder.glob("*.zip"))
    if not found:
        sys.exit(f"error: there is no autograder in {folder.relative_to(root)}; run 'make assignments' first")
    named = [path for path in found if path.stem.startswith(name)]
    if len(named) != 1:
        sys.exit(f"error: {len(named)} assignments begin with {name!r}; there are: {', '.join(p.stem for p in found)}")
    return named[0]


def find_submissions(folder):
    """Notebooks and Otter's zip files at or below a folder."""
    if not folder.is_dir():
        sys.exit(f"error: there is no folder {folder}")
    paths = [path for kind in ("*.ipynb", "*.zip") for path in folder.rglob(kind)]
    found = sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    if not found:
        sys.exit(f"error: there is no .ipynb or .zip file in {folder}")
    return found


def grade(submission, autograder, seconds=SECONDS):
    """Points of one submission by question, their sum and what there was to get, or the error why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "otter", "run", "--no-logo", "-a", autograder, "-o", folder, submission]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)
            tests = json.loads((Path(folder) / "results.json").read_text(encoding="utf-8"))["tests"]
        except subprocess.TimeoutExpired:
            return {"error": f"ran longer than {seconds:g} s"}
        except (OSError, ValueError, KeyError):
            lines = (ran.stderr or ran.stdout).strip().splitlines() or [f"otter ended with status {ran.returncode}"]
            return {"error": " ".join(lines[-1].split())[:300]}
    scored = [test for test in tests if "max_score" in test and "score" in test]
    if not scored:
        return {"error": "otter found nothing to score"}
    points = {test["name"]: test["score"] for test in scored}
    return points | {"total": sum(points.values()), "possible": sum(test["max_score"] for test in scored)}


def main(argv=None):
    """Run the command line; return the exit status: 1 if a submission could not be graded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="first letters of the assignment's name, as 1")
    parser.add_argument("folder", type=Path, help="of the submissions, .ipynb or .zip, in folders of any kind")
    args = parser.parse_args(argv)
    autograder, paths = find_autograder(ROOT, args.name), find_submissions(args.folder)
    rows, last = [], ["total", "possible", "error"]
    for count, path in enumerate(paths, 1):
        submission = path.relative_to(args.folder).as_posix()
        rows.append({"submission": submission, "error": ""} | grade(path.resolve(), autograder))
        said = rows[-1]["error"] or "{total:g} of {possible:g}".format_map(rows[-1])
        print(f"  [{count}/{len(paths)}] {submission}: {said}", flush=True)
        # After each: a class takes long, and what is done is there.
        table = pd.DataFrame(rows)
        table = table.reindex(columns=[*table.columns.drop(last, errors="ignore"), *last])
        table.to_csv(args.folder / "grades.csv", index=False)
    failed = sum(bool(row["error"]) for row in rows)
    print(f"==> Done: {args.folder / 'grades.csv'}" + (f"; {failed} could not be graded" if failed else ""))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
