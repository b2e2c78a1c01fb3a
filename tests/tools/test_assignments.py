"""Graded assignments: nothing leaks to students, solutions score everything, an empty file scores nothing."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import build_assignments
import grade_submissions
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "assignments").glob("[!.]*.md"))
CONFIG = ROOT / "assignments" / "config.yml"
if not os.environ.get("CI"):
    pytest.importorskip("otter", reason="otter-grader is not installed; the extra 'teach' brings it")

CELL = re.compile(r"^```\{(raw-cell|code-cell)\}.*?\n(.*?)^```$", re.M | re.S)


def solution_lines(text):
    """Lines of a source that stand in solutions, code and prose alike, less what the prompts say too."""
    secret, public = set(), set()
    blocks = re.split(r"^```\{raw-cell\}\n# (BEGIN|END) SOLUTION\n```$", text, flags=re.M)
    assert len(blocks) % 4 == 1
    for i in range(0, len(blocks), 4):
        public.update(blocks[i].splitlines())
    for block in blocks[2::4]:
        inside = "# BEGIN SOLUTION" not in block and "# SOLUTION" not in block
        for line in block.splitlines():
            if line.strip().startswith("# BEGIN SOLUTION"):
                inside = True
            elif line.strip().startswith("# END SOLUTION"):
                inside = False
            elif line.rstrip().endswith("# SOLUTION"):
                secret.add(line.split("=", 1)[1].removesuffix("# SOLUTION"))
            elif inside:
                secret.add(line)
    return {line.strip() for line in secret if len(line.strip()) > 12} - {line.strip() for line in public}


def cells(path):
    """Sources of the cells of a notebook."""
    return ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


def hidden_tests(text):
    """Bodies of the hidden tests of a source."""
    found = [body.strip().removeprefix("# HIDDEN").strip() for _, body in CELL.findall(text) if "# HIDDEN" in body]
    return [line for body in found for line in body.splitlines() if line.startswith("assert")]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_an_assignment_leaks_nothing_and_grades_right(source, tmp_path, monkeypatch):
    from otter.api import grade_submission

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    text = source.read_text(encoding="utf-8")
    made = build_assignments.assign(source, CONFIG, tmp_path)
    student = made["student"] / f"{source.stem}.ipynb"
    handed_out = json.dumps(json.loads(student.read_text(encoding="utf-8")), ensure_ascii=False).replace('\\"', '"')
    secret, hidden = solution_lines(text), hidden_tests(text)
    assert len(secret) >= 12 and len(hidden) >= 4
    assert [line for line in secret | set(hidden) if line in handed_out] == []
    solved = "\n".join(cells(made["instructor"]))
    assert [line for line in secret if line not in solved] == []
    with zipfile.ZipFile(made["autograder"]) as archive:
        tests = "".join(archive.read(name).decode() for name in archive.namelist() if name.startswith("tests/"))
    assert tests.count("'hidden': True") == len(re.findall("^# HIDDEN$", text, re.M))
    points = sum(map(int, re.findall(r"^points: (\d+)$", re.sub(r"manual: true\npoints: \d+", "", text), re.M)))
    best = grade_submission(str(made["instructor"]), str(made["autograder"]), quiet=True)
    empty = grade_submission(str(student), str(made["autograder"]), quiet=True)
    assert (best.total, best.possible) == (points, points)
    assert (empty.total, empty.possible) == (0, points)


def test_the_leak_check_finds_a_leak():
    text = SOURCES[0].read_text(encoding="utf-8")
    secret = solution_lines(text)
    assert "return 1 - np.prod(np.maximum(0, 1 - gap))" in secret
    assert "scikit-learn minimises a sum, so `alpha` must be N times the penalty." in secret
    assert not any(line.startswith(("def ", '"""', "# BEGIN")) for line in secret)


def test_students_and_graders_get_the_package(tmp_path):
    wheel = build_assignments.make_wheel(ROOT, tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        assert "rrl/rounding.py" in archive.namelist()
        assert any(name.startswith("rrl/datasets/data/cartpole_standin") for name in archive.namelist())
    made = build_assignments.assign(SOURCES[0], CONFIG, tmp_path, wheel)
    assert (made["student"] / wheel.name).is_file()
    with zipfile.ZipFile(made["autograder"]) as archive:
        assert f"files/{wheel.name}" in archive.namelist()
        packages = yaml.safe_load(archive.read("environment.yml"))["dependencies"][-1]["pip"]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = {line for line in lock.splitlines() if line.startswith(("numpy==", "scipy==", "scikit-learn=="))}
    assert f"./files/{wheel.name}" in packages and len(pinned) == 3 and pinned <= set(packages)


def test_the_guide_s_grading_commands_work_in_an_empty_folder(tmp_path):
    """As printed, with the instructor's notebook as submission."""
    made = build_assignments.assign(SOURCES[0], CONFIG, tmp_path / "_build" / "assignments")
    shutil.copy(made["instructor"], tmp_path / "submission.ipynb")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "otter").symlink_to(Path(sys.executable).with_name("otter"))
    guide = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    (block,) = [text for text in re.findall(r"^```console\n(.*?)^```", guide, re.M | re.S) if "otter run" in text]
    commands = "\n".join(line.removeprefix("$ ") for line in block.splitlines())
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(["bash", "-ec", commands], cwd=tmp_path, env=environment, check=True, capture_output=True)
    scores = json.loads((tmp_path / "graded" / "results.json").read_text(encoding="utf-8"))["tests"]
    assert sum(test["score"] for test in scores if "max_score" in test) == 14


def test_a_folder_of_submissions_becomes_one_table(tmp_path, monkeypatch, capsys):
    """Whatever is handed in: solved, untouched, no notebook at all, one that never ends."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(grade_submissions, "ROOT", tmp_path)
    name, folder = SOURCES[0].stem, tmp_path / "submissions"
    (folder / "ann").mkdir(parents=True)
    with pytest.raises(SystemExit, match="error: there is no autograder in"):
        grade_submissions.main(["1", str(folder)])
    made = build_assignments.assign(SOURCES[0], CONFIG, tmp_path / "_build" / "assignments")
    with pytest.raises(SystemExit, match=r"there is no \.ipynb or \.zip file in"):
        grade_submissions.main(["1", str(folder)])
    with pytest.raises(SystemExit, match=f"0 assignments begin with '2'; there are: {name}"):
        grade_submissions.main(["2", str(folder)])
    shutil.copy(made["instructor"], folder / "ann" / "solved.ipynb")
    shutil.copy(made["student"] / f"{name}.ipynb", folder / "ben.ipynb")
    (folder / "cyd.ipynb").write_text('{"cells": [')
    (folder / ".hidden.ipynb").write_text("no submission")
    assert grade_submissions.main(["1", str(folder)]) == 1
    rows = {row["submission"]: row for row in csv.DictReader((folder / "grades.csv").open())}
    assert list(rows) == ["ann/solved.ipynb", "ben.ipynb", "cyd.ipynb"]
    best, empty, broken = rows.values()
    assert [float(best[key]) for key in ("q1", "q2", "q3", "q4", "total", "possible")] == [3, 3, 4, 4, 14, 14]
    assert [float(empty[key]) for key in ("q1", "total", "possible")] == [0, 0, 14] and not best["error"]
    assert "does not appear to be JSON" in broken["error"] and broken["q1"] == ""
    assert capsys.readouterr().out.endswith("grades.csv; 1 could not be graded\n")
    assert grade_submissions.grade(folder / "ben.ipynb", made["autograder"], 0.5)["error"] == "ran longer than 0.5 s"


def test_the_guide_s_commands_for_students_find_what_they_name(tmp_path):
    """In the folder that is handed out: one wheel for the pattern, and the notebook."""
    wheel = build_assignments.make_wheel(ROOT, tmp_path)
    folder = build_assignments.assign(SOURCES[0], CONFIG, tmp_path / "made", wheel)["student"]
    guide = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    (block,) = [text for text in re.findall(r"^```console\n(.*?)^```", guide, re.M | re.S) if "otter-grader" in text]
    install, start = (line.removeprefix("$ ") for line in block.splitlines())
    *_, pattern = install.split()
    assert [path.name for path in folder.glob(pattern)] == [wheel.name] and (folder / start.split()[-1]).is_file()
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        tmp_path / "site",
    ]
    subprocess.run([*install, *folder.glob(pattern)], check=True)
    assert (tmp_path / "site" / "rrl" / "__init__.py").is_file()


def test_make_grade_says_what_it_needs():
    def make(*words):
        return subprocess.run(["make", "--dry-run", "grade", *words], cwd=ROOT, capture_output=True, text=True).stdout

    assert "tools/grade_submissions.py 1 handed_in" in make("NAME=1", "FROM=handed_in")
    assert "as in: make grade NAME=1 FROM=submissions" in make()


def test_the_guide_states_the_points():
    guide = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    for number, source in enumerate(SOURCES, 1):
        text = re.sub(r"manual: true\npoints: \d+", "", source.read_text(encoding="utf-8"))
        total = sum(map(int, re.findall(r"^points: (\d+)$", text, re.M)))
        assert re.search(rf"^\| {number} .*\| {total} \|$", guide, re.M), source.stem
        minutes = re.search(r"It takes about (\d+) minutes", text)[1]
        assert re.search(rf"^\| {number} .*\| {minutes} \|", guide, re.M), source.stem
