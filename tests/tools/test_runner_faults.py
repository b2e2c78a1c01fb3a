"""What stands around a run of notebooks: variables, other checkouts, hand-made files, broken sources, ends."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import kernel_start
import nbformat
import psutil
import pytest
import run_notebooks
from notebook_texts import merge_streams, tidy
from run_notebooks import is_done, main, parse_parameter, prepare, write_atomic
from test_runner import DEFAULTS, ROOT, add, notebook, outputs, state

posix = pytest.mark.skipif(os.name != "posix", reason="sends a signal")


def with_tools(tree):
    """Copy the runner into a repository, and make its `rrl` a package with what the runner needs."""
    for name in run_notebooks.TOOLS:
        write_atomic(tree / "tools" / f"{name}.py", (ROOT / "tools" / f"{name}.py").read_text(encoding="utf-8"))
    return [sys.executable, str(tree / "tools" / "run_notebooks.py")]


def wait_for(condition, seconds=60):
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# Variables


VARIABLES = {
    "MPLBACKEND": "Agg",
    "PYTHONOPTIMIZE": "2",
    "PYTHONWARNINGS": "error",
    "PYTHONSTARTUP": "/nonexistent/start.py",
    "PYTHONDEVMODE": "1",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "XDG_CACHE_HOME": "/nonexistent",
    "MPLCONFIGDIR": "/nonexistent",
}


def test_variables_of_the_terminal_change_no_output(tree, monkeypatch):
    draw = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    warn = "import warnings\nwarnings.warn('told', stacklevel=1)\n"
    check = "try:\n    assert 1 + 1 == 3\nexcept AssertionError:\n    print('checked')"
    add(tree, "01", notebook(draw, warn + check, "def f():\n    'documented'\nprint(f.__doc__)"))
    assert main([], tree) == 0
    plain = (tree / "chapters" / "01.ipynb").read_bytes()
    assert outputs(tree, "01").startswith("checked\n") and b"image/png" in plain
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    assert main(["--force"], tree) == 0
    assert (tree / "chapters" / "01.ipynb").read_bytes() == plain


def test_the_user_s_own_settings_of_matplotlib_are_not_read(tree, monkeypatch, tmp_path):
    write_atomic(tmp_path / "settings" / "matplotlibrc", "lines.linewidth: 17\n")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "settings"))
    add(tree, "01", notebook("import matplotlib\nprint(matplotlib.rcParams['lines.linewidth'])"))
    assert main([], tree) == 0
    assert outputs(tree, "01") == "1.5\n"


# Whose package runs


def make_package(tree, value):
    """A copy of the package that knows which one it is."""
    ignored = shutil.ignore_patterns("__pycache__", "data")
    shutil.copytree(ROOT / "rrl", tree / "rrl", ignore=ignored, dirs_exist_ok=True)
    with open(tree / "rrl" / "__init__.py", "a", encoding="utf-8") as file:
        file.write(f"\nvalue = {value}\n")


def test_a_copied_or_renamed_checkout_runs_its_own_package(tree, tmp_path_factory, monkeypatch):
    """The interpreter knows another folder's package: that of PYTHONPATH, as an editable install of the old folder."""
    installed = tmp_path_factory.mktemp("installed")
    make_package(installed, 1)
    make_package(tree, 2)
    add(tree, "01", notebook("import rrl\nprint(rrl.value)"))
    monkeypatch.setenv("PYTHONPATH", str(installed))
    ran = subprocess.run(with_tools(tree), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert outputs(tree, "01") == "2\n"


def test_a_foreign_package_is_refused(tree, capsys):
    make_package(tree, 2)

    add(tree, "01", notebook())
    job = prepare(tree, tree / "notebooks" / "01.md", {})
    journal = tree / "journal"
    journal.write_text(json.dumps({"package": "/elsewhere/rrl/randomness.py"}) + "\n")
    with pytest.raises(run_notebooks.NotebookError, match=r"imported rrl from /elsewhere/rrl/randomness\.py, not from"):
        run_notebooks.read_journal(job, journal)
    journal.write_text(json.dumps({"package": None}) + "\n")
    with pytest.raises(run_notebooks.NotebookError, match="imported rrl from None"):
        run_notebooks.read_journal(job, journal)
    journal.unlink()
    with pytest.raises(run_notebooks.NotebookError, match="no journal"):
        run_notebooks.read_journal(job, journal)


# What a notebook rests on


def test_a_new_record_makes_only_those_notebooks_stale_that_read_its_folder(tree):
    read = "from pathlib import Path\nprint(len(list(Path('../book/results/NAME').glob('*.json'))))"
    write_atomic(tree / "book" / "results" / "one" / "a.json", "{}")
    add(tree, "01", notebook(read.replace("NAME", "one")))
    add(tree, "02", notebook("print('none')"))
    add(tree, "03", notebook(read.replace("NAME", "two")))
    assert main([], tree) == 0

    def done():
        jobs = [prepare(tree, tree / "notebooks" / f"0{k}.md", {"scale": "quick"}) for k in (1, 2, 3)]
        return [is_done(job) for job in jobs]

    assert done() == [True, True, True]
    write_atomic(tree / "book" / "results" / "one" / "b.json", "{}")
    assert done() == [False, True, True]
    write_atomic(tree / "book" / "results" / "two" / "c.json", "{}")
    assert done() == [False, True, False]


def test_chapters_name_the_folders_of_results_that_they_read():
    """The folder above would make them run again for any record of any experiment."""
    for source in sorted((ROOT / "notebooks").glob("[!.]*.md")):
        named = re.findall(r"book/results[\w/-]*", source.read_text(encoding="utf-8"))
        assert all(re.fullmatch(r"book/results/[\w-]+(/.*)?", name) for name in named), (source.name, named)


def test_results_that_a_source_does_not_name_are_a_fault(tree, capsys):
    write_atomic(tree / "book" / "results" / "one" / "a.json", "{}")
    add(tree, "01", notebook("from pathlib import Path\nPath('..', 'book', 'results', 'one', 'a.json').read_text()"))
    assert main([], tree) == 1
    assert (
        "01.md: NotebookError: reads book/results/one/a.json, but its source does not name" in capsys.readouterr().err
    )


# Repeatable outputs


def test_executed_notebooks_are_equal_byte_for_byte(tree):
    chunks = "import sys, time\nfor k in range(4):\n    print(k)\n    print('e', file=sys.stderr)\n    time.sleep(0.15)"
    styled = "import pandas as pd\nframe = pd.DataFrame({'a': [1, 2]})\nframe.style.format('{:.1f}')"
    add(tree, "01", notebook(chunks, styled, "display(frame.style, frame.style)\nprint('T_abcde')"))
    found = set()
    for _ in range(2):
        assert main(["--force"], tree) == 0
        found.add((tree / "chapters" / "01.ipynb").read_bytes())
    assert len(found) == 1
    assert len(set(re.findall(r"T_\d{5}", found.pop().decode()))) == 3


def test_pieces_of_a_stream_are_joined_and_stay_on_their_side_of_a_figure():
    def piece(name, text):
        return nbformat.v4.new_output("stream", name=name, text=text)

    figure = nbformat.v4.new_output("display_data", data={"text/plain": "figure"})
    given = [piece("stderr", "1"), piece("stdout", "a"), piece("stdout", "b"), figure, piece("stdout", "c")]
    assert [(o.get("name"), o.get("text")) for o in merge_streams(given)] == [
        ("stdout", "ab"),
        ("stderr", "1"),
        (None, None),
        ("stdout", "c"),
    ]
    assert merge_streams([]) == []


def test_text_that_looks_like_a_table_s_id_stays():
    cell = nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("stream", text="T_abcde")])
    assert tidy(nbformat.v4.new_notebook(cells=[cell])).cells[0].outputs[0].text == "T_abcde"


# Parameters of the command line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("None", None),
        ("True", True),
        ("False", False),
        ("null", None),
        ("false", False),
        ("none", "none"),
        ("[1, 2]", [1, 2]),
        ('"None"', "None"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_values_on_the_command_line_are_json_python_s_constants_or_words(text, value):
    name, found = parse_parameter(f"p={text}")
    assert (name, found) == ("p", value) and type(found) is type(value)


@pytest.mark.parametrize("default", ["True", "3", "0.5", "(1, 2)", "[]"])
def test_a_word_for_what_is_no_word_is_refused(tree, capsys, default):
    add(tree, "01", notebook(parameters=f"{DEFAULTS}\nvalue = {default}"))
    assert main(["-p", "value=no"], tree) == 1
    assert f"01.md: parameter value is {default} by default, not a word: 'no'" in capsys.readouterr().err
    assert not (tree / "chapters").exists()


def test_a_file_on_the_command_line_is_looked_for_where_the_command_is_given(tree, monkeypatch):
    add(tree, "01", notebook("print(open(source).read(), source)", parameters=f'{DEFAULTS}\nsource = ""'))
    write_atomic(tree / "mine" / "a.txt", "found")
    monkeypatch.chdir(tree / "mine")
    assert main(["-p", "source=a.txt"], tree) == 0
    assert outputs(tree, "01") == "found ../mine/a.txt\n"
    for word in ("none.npz", "a", str(tree / "mine" / "a.txt"), 3):
        assert run_notebooks.seen_from(tree / "notebooks", word) == word


# Hand-made and old files in chapters/


def test_only_what_a_run_made_is_deleted(tree, capsys):
    for name in ("01", "02", "03"):
        add(tree, name, notebook(f"print({name!r})"))
    assert main([], tree) == 0
    chapters = tree / "chapters"
    (chapters / "mine.ipynb").write_text("my own")
    (chapters / "01-Copy1.ipynb").write_text("a copy")
    (chapters / "folder.ipynb").mkdir()
    (chapters / "03.ipynb").write_text("edited")
    for name in ("02", "03"):
        (tree / "notebooks" / f"{name}.md").unlink()
    capsys.readouterr()
    assert main(["01"], tree) == 0
    assert "03.ipynb was changed since it was made: kept as 03.ipynb.bak" in capsys.readouterr().out
    names = [".runs", "01-Copy1.ipynb", "01.ipynb", "03.ipynb.bak", "folder.ipynb", "mine.ipynb"]
    assert sorted(path.name for path in chapters.iterdir()) == names
    assert (chapters / "03.ipynb.bak").read_text() == "edited"
    assert [path.name for path in (chapters / ".runs").iterdir()] == ["01.json"]


def test_a_changed_output_is_kept_and_said(tree, capsys):
    add(tree, "01", notebook("print(1)"))
    assert main([], tree) == 0
    output = tree / "chapters" / "01.ipynb"
    for edit, kept in (("first", "01.ipynb.bak"), ("second", "01.ipynb.bak1")):
        output.write_text(edit)
        capsys.readouterr()
        assert main([], tree) == 0
        assert f"01.ipynb was changed since it was made: kept as {kept}" in capsys.readouterr().out
        assert output.with_name(kept).read_text() == edit
        assert outputs(tree, "01") == "1\n"
    # What a run made is no edit, also where a failed run came between.
    add(tree, "01", notebook("1 / 0"))
    assert main([], tree) == 1
    add(tree, "01", notebook("print(2)"))
    assert main([], tree) == 0
    assert sorted(path.name for path in (tree / "chapters").glob("01*")) == [
        "01.ipynb",
        "01.ipynb.bak",
        "01.ipynb.bak1",
    ]


# Broken sources and hostile cells


BROKEN = {
    "latin": lambda path: path.write_bytes(notebook("x = 1").encode() + "# caf\xe9".encode("latin-1")),
    "nul": lambda path: path.write_text(notebook("x = 1") + "\0"),
    "yaml": lambda path: path.write_text("---\nkernelspec: [\n---\n" + notebook()),
    "folder": lambda path: path.mkdir(),
    "link": lambda path: path.symlink_to("nowhere.md"),
    "empty": lambda path: path.write_text(""),
    "parameters": lambda path: path.write_text(notebook(parameters="scale =")),
}


def test_a_broken_source_is_one_line_and_the_others_go_on(tree, capsys):
    for name, make in BROKEN.items():
        make(tree / "notebooks" / f"{name}.md")
    add(tree, "01", notebook('print("fine")'))
    assert main([], tree) == 1
    printed = capsys.readouterr()
    assert outputs(tree, "01") == "fine\n"
    for name in BROKEN:
        (line,) = re.findall(rf"^error: notebook {name} failed\n  (.*)$", printed.err, re.M)
        assert line.startswith(f"{name}.md"), line
    assert "Traceback" not in printed.err and len(printed.err.split("\n\n")) == len(BROKEN)
    assert "nul.md: ValueError: line 18 has a NUL character" in printed.err


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "DeadKernelError: Kernel died"),
        ("while True: pass", "CellTimeoutError: A cell timed out"),
        ("import os\nos._exit(0)", "DeadKernelError: Kernel died"),
    ],
    ids=["killed", "endless", "left"],
)
def test_a_dead_kernel_and_a_time_out_name_the_cell(tree, capsys, code, error):
    add(tree, "01", notebook("x = 1", code, "y = 2"))
    add(tree, "02", notebook('print("fine")'))
    assert main(["--time-limit", "5"], tree) == 1
    printed = capsys.readouterr().err
    assert f"01.md:20: {error}" in printed and "Traceback" not in printed
    assert state(tree, "02") == "done"


def test_outputs_beyond_measure_are_refused(tree, capsys, monkeypatch):
    monkeypatch.setattr(run_notebooks, "LARGEST", 2**20)
    add(tree, "01", notebook("print('x' * 3 * 2**20)"))
    assert main([], tree) == 1
    assert "01.md: NotebookError: its outputs take 3 MB, more than 1" in capsys.readouterr().err


def test_a_try_ends_with_the_sentences_that_no_longer_hold(tree, capsys):
    add(tree, "01", notebook("import sys\nprint('noise', file=sys.stderr)\nassert 1 == 2, 'said'", "assert 2 == 3"))
    assert main(["--try"], tree) == 0
    lines = capsys.readouterr().out.splitlines()
    told = ["2 outputs on stderr", "no longer holds: assert 1 == 2, 'said'", "no longer holds: assert 2 == 3"]
    assert [line.strip() for line in lines[2:5]] == told


# Two builds at once, and builds that are stopped


SLEEPING = 'import os, time\nopen("../pid", "a").write(f"{os.getpid()} ")\ntime.sleep(300)'


def test_two_runs_in_one_folder_wait_for_each_other(tree):
    add(tree, "01", notebook('import time\nopen("../begun", "a").write("x")\ntime.sleep(3)'))
    command = with_tools(tree)
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    wait_for((tree / "begun").exists)
    second = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert first.wait(60) == 0 and second.returncode == 0
    said, counted = second.stdout.splitlines()
    assert said == "Waiting for another build in this folder to end"
    assert counted == "Notebooks at scale quick: 0 to run, 1 unchanged"
    assert (tree / "begun").read_text() == "x"
    assert first.stdout.read().startswith("Notebooks at scale quick: 1 to run")


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_a_stopped_run_leaves_nothing_running(tree, number):
    """SIGKILL cannot be heard: the kernels die with the runner."""
    add(tree, "01", notebook(SLEEPING))
    add(tree, "02", notebook(SLEEPING))
    command = [*with_tools(tree), "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: (tree / "pid").exists() and len((tree / "pid").read_text().split()) == 2)
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 2
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert err == "stopped; finished notebooks are kept, and the next run goes on from there\n"
    left = psutil.wait_procs(family, timeout=10)[1]
    for other in left:
        other.kill()
    assert not left


@posix
def test_a_hang_up_that_nohup_ignores_stays_ignored(monkeypatch):
    code = "import signal, run_notebooks\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\nrun_notebooks.hear_stops()\n"
    code += "print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, signal.getsignal(signal.SIGTERM).__name__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT / "tools", check=True)
    assert ran.stdout == "True default_int_handler\n"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells a process that its parent ended")
def test_the_end_of_make_ends_what_it_started(tmp_path):
    """A make that is killed cannot tell: Linux does, where make is the parent."""
    code = 'import run_notebooks as r, time; r.hear_stops(); print("on", flush=True); time.sleep(99)'
    (tmp_path / "Makefile").write_text(f"all:\n\t@$(PY) -c '{code}'\n")
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'tools'}{os.pathsep}{ROOT}"}
    command = ["make", "-s", "-C", str(tmp_path), f"PY={sys.executable}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert process.stdout.readline() == "on\n"
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.kill()
    process.wait()
    left = psutil.wait_procs(family, timeout=10)[1]
    for other in left:
        other.kill()
    assert not left


def test_elsewhere_than_on_linux_nothing_is_asked_for(monkeypatch):
    monkeypatch.setattr(kernel_start.ctypes, "CDLL", lambda name: Path())
    kernel_start.end_with_parent(signal.SIGTERM)
