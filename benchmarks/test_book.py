"""The book from nothing, again, and after a change of one chapter, in a copy of the working tree."""

import shutil
import subprocess
import time
from pathlib import Path

from rrl.experiments.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]


def make_book(folder):
    """Seconds of the wall clock: the notebooks run in processes of their own."""
    start = time.perf_counter()
    done = subprocess.run(["make", "book", f"VENV={ROOT / '.venv'}"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return time.perf_counter() - start


def test_make_book(benchmark, compare, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0")[:-1]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        # With its date: a newer lock file would set the environment up again.
        shutil.copy2(ROOT / name, tmp_path / name)
    cold, warm = make_book(tmp_path), make_book(tmp_path)
    chapter = tmp_path / "notebooks" / "01_rounding.md"
    chapter.write_text(chapter.read_text("utf-8") + "\nOne more sentence.\n", "utf-8")
    changed = make_book(tmp_path)
    first = f"make book, from nothing, {provenance()['hardware']['cores']} cores"
    for what, own in (("make book, nothing changed", warm), ("make book, chapter 1 changed", changed)):
        compare.rows.append({"what": what, "seconds": own, "peer": first, "peer_seconds": cold, "goal": None})
    benchmark.pedantic(lambda: None, rounds=1)
