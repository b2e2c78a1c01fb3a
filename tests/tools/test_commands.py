"""The commands of README, guide and how-to run as printed: in a clone, or in an empty folder where the page says so."""

import contextlib
import html
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "book/how_to.md", "book/teaching.md", "book/studies.md")
STUDY = "```{code-block} python\n:name: study-pairs\n\n"
#: A chapter that is quick to run.
CHAPTER = """---
kernelspec: {name: python3, display_name: Python 3, language: python}
---

# Short

```{code-cell} ipython3
:tags: [parameters]

scale = "quick"
```

```{code-cell} ipython3
assert scale in ("quick", "full")
print("at", scale)
```
"""
#: Commands by their first words: those that other tests run, and those that none can.
ELSEWHERE = {
    "rrl certify --rho .2": "tests/test_programs.py::test_what_the_how_to_shows_is_what_comes_out",
    "rrl run coins.py": "tests/experiments/test_own_study.py::test_the_page_s_study_prints_what_the_page_shows",
    "rrl run curve.py": "tests/experiments/test_own_study.py::test_the_page_s_single_runs_and_their_table",
    "rrl export curve.csv": "tests/experiments/test_own_study.py::test_the_page_s_single_runs_and_their_table",
    ".venv/bin/rrl status": "tests/experiments/test_cli.py::test_status_says_how_much_of_the_figure_is_done",
    "mkdir -p graded": "tests/tools/test_assignments.py::test_the_guide_s_grading_commands_work_in_an_empty_folder",
    ".venv/bin/otter run": "tests/tools/test_assignments.py::test_the_guide_s_grading_commands_work_in_an_empty_folder",
    "python -m pip install jupyterlab": "tests/tools/test_assignments.py::"
    "test_the_guide_s_commands_for_students_find_what_they_name",
}
NOT_HERE = {
    "make book": "the continuous integration runs it",
    "make test": "the continuous integration runs it",
    "make lint": "the continuous integration runs it",
    "bash .ci/run": "it is the continuous integration",
    "make bench": "takes minutes",
    "make slides": "runs all notebooks",
    "make pdf": "takes minutes",
    "make lock": "asks package indexes",
    "python -m venv": "what make does, see below",
    ".venv/bin/python -m pip": "what make does, see below",
    ".venv/bin/python tools/build_book.py": "what make does, see below",
    ".venv/bin/python tools/run_notebooks.py": "what make does, see below; with a parameter, downloads data",
    ".venv/bin/rrl run": "takes minutes",
    "rrl run minatar": "takes minutes",
    "rrl run atari": "takes minutes",
}


def printed(page):
    """Commands of a page: those of its consoles, and those with arguments between backticks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:console|\{code-block\} console)\n(.*?)^```$", text, re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]
    spans = re.findall(r"`((?:make|pip install|jupyter|rrl run|rrl export|bash|python) [^`\n]+)`", text)
    found = [re.sub(r"\s+#.*", "", line.removeprefix("$ ")) for line in lines] + spans
    return list(dict.fromkeys(found))


def one(page, start):
    """The command of a page that is so, or the one that begins so."""
    commands = printed(page)
    (found,) = [start] if start in commands else [command for command in commands if command.startswith(start)]
    return found


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """An environment in which a server opens no browser, nothing is fetched, and this interpreter is `python`."""
    place = tmp_path_factory.mktemp("settings")
    script(place / "bin" / "python", f'exec "{sys.executable}" "$@"')
    script(place / "bin" / "rrl", f'exec "{sys.executable}" -m rrl "$@"')
    served = {"ServerApp": {"open_browser": False, "allow_root": True}}
    (place / "jupyter_server_config.json").write_text(json.dumps(served))
    path = os.pathsep.join([str(place / "bin"), sysconfig.get_path("scripts"), os.environ["PATH"]])
    return (
        os.environ
        | {"PATH": path, "PIP_NO_INDEX": "1", "OMP_NUM_THREADS": "1"}
        | {f"JUPYTER_{kind}_DIR": str(place) for kind in ("CONFIG", "RUNTIME")}
    )


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The files of a clone, with an environment that make takes as it is and that installs nothing."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("a clone") / "rrl-book"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "book/results/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / "book" / "results").symlink_to(ROOT / "book" / "results")
    place = folder / ".venv" / "bin"
    script(place / "python", f'test "$2" != pip || exit 1\nexec "{sys.executable}" "$@"')
    ready = folder / ".venv" / ".ready"
    ready.touch()
    os.utime(ready, (time.time() + 60,) * 2)
    return folder


def run(command, folder, environment):
    """Run a command in a shell, as it is printed; what it writes."""
    ran = subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def opened(command, folder, environment, log, where):
    """Start a server, ask it at the URL that `where` finds in what it says, and stop it; what it answered."""
    with open(log, "w") as said:
        options = {"cwd": folder, "env": environment, "stdout": said, "stderr": said, "start_new_session": True}
        process = subprocess.Popen(["bash", "-ec", f"exec {command}"], **options)
    stop = time.monotonic() + 60
    try:
        while True:
            assert process.poll() is None and time.monotonic() < stop, log.read_text()
            time.sleep(0.1)
            with contextlib.suppress(OSError):  # not yet
                if url := where(log.read_text()):
                    return urllib.request.urlopen(url, timeout=20).read().decode()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def shown(said):
    """The first URL that a server says."""
    found = re.search(r"http://localhost:\d+", said)
    return found and found[0]


def contents(said):
    """Where Jupyter's server tells what the file is with which it was started: a page of its own leads there."""
    if page := re.search(r"file://(\S+/jpserver-)(\S+-open\.html)", said):
        page = Path(f"{page[1]}file-to-run-{page[2]}").read_text(encoding="utf-8")
        return html.unescape(re.search(r'href="([^"]+)"', page)[1]).replace("/lab/tree/", "/api/contents/")
    return None


# All of them -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_run_somewhere_or_has_a_reason(page):
    here = Path(__file__).read_text(encoding="utf-8")
    # Those that tests of this file take from a page; of make's commands one of a kind is enough.
    run_here = [start.replace("\\", "") for _, start in re.findall(r"""one\("[^"]+", (["'])(.+?)\1\)""", here)]
    run_here += [" ".join(start.split()[:2]) for start in run_here if start.startswith("make ")]
    for command in printed(page):
        assert command.startswith((*run_here, *ELSEWHERE, *NOT_HERE)), f"{page}: no test runs {command!r}"


def test_the_reasons_hold():
    for test in ELSEWHERE.values():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test
    checks = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command, reason in NOT_HERE.items():
        assert "continuous" not in reason or command in checks or command == "bash .ci/run"
    everything = [command for page in PAGES for command in printed(page)]
    for start in (*ELSEWHERE, *NOT_HERE):
        assert any(command.startswith(start) for command in everything), f"no page prints {start!r}"


def test_the_steps_without_make_are_those_of_make():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("$(PY)", ".venv/bin/python")
    makefile = re.sub(r" --(progress-bar off|quiet|scale \S+|jobs \S+|browser \S+)", "", makefile)
    page = printed("book/how_to.md")
    first = page.index("python -m venv .venv")
    steps = page[first + 1 : first + 6]
    assert len(steps) == 5 and all(f"@{step}\n" in makefile for step in steps)


# In a clone --------------------------------------------------------------------------------------


def test_help_lists_the_commands(clone, settings):
    assert "make student" in run(one("README.md", "make help"), clone, settings)


def test_the_package_installs(clone, settings, tmp_path):
    """Its dependencies and the tool that builds it are here already, so that no index is asked."""
    pytest.importorskip("setuptools")
    here = settings | {"PIP_TARGET": str(tmp_path), "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    for command in (one("README.md", "pip install ."), one("book/how_to.md", 'pip install ".[experiments]"')):
        run(command, clone, here)
        assert (tmp_path / "rrl" / "__init__.pyi").is_file() and list(tmp_path.glob("replicable_rl-*.dist-info"))
        shutil.rmtree(tmp_path)


@pytest.mark.slow
def test_chapters_are_run_tried_and_served(clone, settings, tmp_path):
    """A short one stands in for chapters 1 and 3."""
    kept = {path: path.read_text(encoding="utf-8") for path in (clone / "notebooks").glob("0[13]_*.md")}
    for path in kept:
        path.write_text(CHAPTER)
    run(one("README.md", "make notebook NAME=01"), clone, settings)
    assert "at quick" in (clone / "chapters" / "01_rounding.ipynb").read_text()
    run(one("README.md", "make notebook NAME=03"), clone, settings)
    assert "at full" in (clone / "chapters" / "03_ridge.ipynb").read_text()
    run(one("README.md", "make try NAME=01"), clone, settings)
    assert "at quick" in (clone / "_build" / "tried" / "01_rounding.ipynb").read_text()
    for path, text in kept.items():
        path.write_text(text, encoding="utf-8")
    (clone / "_build" / "html").mkdir()
    (clone / "_build" / "html" / "index.html").write_text("the site")
    run(one("book/how_to.md", "make zip"), clone, settings)
    assert (clone / "_build" / "book.zip").is_file()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = one("README.md", "make serve")
    log = tmp_path / "log"
    assert opened(command, clone, settings | {"PORT": f"{port}"}, log, shown) == "the site"


@pytest.mark.slow
def test_a_class_gets_chapters_and_assignments_and_is_graded(clone, settings, tmp_path):
    pytest.importorskip("otter", reason="the extra 'teach' is not installed")
    run(one("book/teaching.md", "make student NAME=03"), clone, settings)
    assert [path.name for path in (clone / "_build" / "student" / "chapters").iterdir()] == ["03_ridge.ipynb"]
    for path in (clone / "assignments").glob("[2-9]_*.md"):
        path.unlink()  # one is enough
    run(one("book/teaching.md", "make assignments"), clone, settings)
    made = clone / "_build" / "assignments"
    (clone / "submissions").mkdir()
    shutil.copy(made / "instructor" / "1_rounding_and_ridge.ipynb", clone / "submissions")
    run(one("book/teaching.md", "make grade"), clone, settings)
    head, row = (clone / "submissions" / "grades.csv").read_text().splitlines()
    assert dict(zip(head.split(","), row.split(",")))["total"] in ("14", "14.0")
    pytest.importorskip("jupyterlab", reason="the extra 'lab' is not installed")
    folder = made / "student" / "1_rounding_and_ridge"
    found = json.loads(opened(one("book/teaching.md", "jupyter lab"), folder, settings, tmp_path / "log", contents))
    assert found["type"] == "notebook" and "grader.check" in json.dumps(found["content"])


@pytest.mark.slow
def test_jupyterlab_opens_a_chapter_s_source(clone, settings, tmp_path):
    pytest.importorskip("jupyterlab", reason="the extra 'lab' is not installed")
    found = json.loads(opened(one("book/how_to.md", "make lab NAME=03"), clone, settings, tmp_path / "log", contents))
    assert found["path"] == "03_ridge.md" and found["type"] == "notebook"


# In an empty folder ------------------------------------------------------------------------------


def test_the_readme_s_certificate_and_study_and_the_how_to_s_table(settings, tmp_path):
    """By a program that takes the options printed, and by the page's own study under the name printed."""
    here = settings | {"PYTHONPATH": str(ROOT)}
    (tmp_path / "train.py").write_text(
        "import sys, zipfile\nfound = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
        "head = \"{'descr': '<i8', 'fortran_order': False, 'shape': ()}\".ljust(117) + '\\n'\n"
        "code = int(found['--shared-seed']).to_bytes(8, 'little')\n"
        "with zipfile.ZipFile(found['--out'], 'w') as file:\n"
        "    file.writestr('codes.npy', b'\\x93NUMPY\\x01\\x00v\\x00' + head.encode() + code)\n"
    )
    command = one("README.md", "rrl certify --rho .1")
    assert run(command, tmp_path, here).splitlines()[0].startswith("replicable: python train.py")
    text = (ROOT / "book" / "studies.md").read_text(encoding="utf-8").split(STUDY)[1].split("```")[0]
    (tmp_path / "my_study.py").write_text(text)
    assert "my_study: 0 of 100 records are there" in run(one("README.md", "rrl run my_study.py"), tmp_path, here)
    assert "--study" in run(one("book/how_to.md", "rrl run --help"), tmp_path, here)
    run(one("book/how_to.md", "rrl export records.csv"), tmp_path, here)
    assert "my_study" in (tmp_path / "records.csv").read_text()


def test_clean_keeps_the_environment(clone, settings):
    run(one("book/how_to.md", "make clean"), clone, settings)
    assert not (clone / "_build").exists() and (clone / ".venv" / "bin" / "python").is_file()
