"""The notebook runner: what it refuses, what it skips, and what a failure leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jupytext
import nbformat
import numpy as np
import pytest
import run_notebooks
from notebook_texts import NotebookError, read_source
from run_notebooks import canonical, is_done, main, prepare, run_all, write_atomic

ROOT = Path(__file__).resolve().parents[2]
HEADER = "---\nkernelspec:\n  name: python3\n  display_name: Python 3\n---\n"
DEFAULTS = 'scale = "quick"'


def cell(code, tags=None):
    """Write one MyST code cell."""
    option = f":tags: [{tags}]\n\n" if tags else ""
    return f"\n```{{code-cell}} ipython3\n{option}{code}\n```\n"


def notebook(*codes, parameters=DEFAULTS):
    """Write a MyST notebook with a parameters cell and the given cells."""
    return HEADER + "\n# Title\n" + cell(parameters, "parameters") + "".join(map(cell, codes))


def add(tree, name, text):
    """Write the source of a notebook."""
    write_atomic(tree / "notebooks" / f"{name}.md", text)


def outputs(tree, name):
    """Read the printed text of an executed notebook."""
    executed = nbformat.read(tree / "chapters" / f"{name}.ipynb", as_version=4)
    return "".join(output.get("text", "") for part in executed.cells for output in part.get("outputs", []))


def state(tree, name):
    """Read the state of a notebook's last run."""
    return json.loads((tree / "chapters" / ".runs" / f"{name}.json").read_text())["state"]


SHOW_CONSTANT = 'exec(open("../rrl/constant.py").read())\nprint("constant", value)'


# Parameters (case 50)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((0.1, 0.2), [0.1, 0.2]),
        (np.int64(3), 3),
        (np.bool_(False), False),
        (np.float32(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        (Path("a b"), "a b"),
        ({"x": (np.int8(1), None)}, {"x": [1, None]}),
    ],
)
def test_parameters_become_plain_json(value, expected):
    result = canonical(value)
    assert result == expected
    assert json.loads(json.dumps(result)) == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize("value", [{1, 2}, object(), 1j, {1: "x"}, [b"bytes"]])
def test_other_parameters_are_refused_by_name_before_anything_is_written(tree, value):
    add(tree, "01", notebook(parameters=f"{DEFAULTS}\nwidth = 1"))
    with pytest.raises(TypeError, match="width"):
        prepare(tree, tree / "notebooks" / "01.md", {"width": value})
    assert not (tree / "chapters").exists()


def test_parameters_arrive_as_the_values_they_were(tree):
    defaults = f"{DEFAULTS}\nalphas = ()\nseed = 0\nflag = True\nout = ''\nw = 0.0"
    add(tree, "01", notebook("print(scale, alphas, seed, flag is False, out, w != w)", parameters=defaults))
    values = {"scale": "full", "alphas": (0.1, 0.2), "seed": np.int64(3), "flag": np.bool_(False)}
    job = prepare(tree, tree / "notebooks" / "01.md", values | {"out": Path("a b"), "w": float("nan")})
    assert run_all([job], 1, 60) == {}
    assert outputs(tree, "01") == "full [0.1, 0.2] 3 True a b True\n"
    assert json.loads(job["record"].read_text())["scale"] == "full"


# What is refused (cases 50, 53)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + cell("x = 1"), "exactly one cell tagged `parameters`, found 0"),
        (notebook() + cell("scale = 1", "parameters"), "found 2"),
        (notebook(parameters="other = 1"), "must set scale"),
        (
            notebook().replace("kernelspec:", "jupytext:\n  cell_metadata_filter: -all\nkernelspec:"),
            "cell_metadata_filter",
        ),
        (notebook(parameters="scale = ="), "invalid syntax"),
    ],
)
def test_unusable_notebooks_fail_alone(tree, capsys, text, message):
    add(tree, "01", text)
    add(tree, "02", notebook())
    assert main([], tree) == 1
    assert message in capsys.readouterr().err
    assert not (tree / "chapters" / "01.ipynb").exists()
    assert state(tree, "02") == "done"


def test_lost_tags_stop_the_build(tree, monkeypatch):
    add(tree, "01", notebook())
    writes = jupytext.writes
    monkeypatch.setattr(jupytext, "writes", lambda *args, **kwargs: writes(*args, **kwargs).replace("parameters", "x"))
    with pytest.raises(NotebookError, match="lost"):
        read_source(tree / "notebooks" / "01.md")


def test_unknown_parameters_and_names_are_refused(tree, capsys):
    add(tree, "01", notebook())
    assert main(["-p", "sclae=full"], tree) == 1
    assert "unknown parameter sclae; it has scale" in capsys.readouterr().err
    assert main(["7"], tree) == 1
    assert "no notebook begins with '7'; there are: 01" in capsys.readouterr().err
    for wrong in (["-p", "scale"], ["--scale", "large"], ["--jobs", "0"]):
        with pytest.raises(SystemExit):
            main(wrong, tree)


@pytest.mark.parametrize("source", sorted((ROOT / "notebooks").glob("*.md")), ids=lambda path: path.stem)
def test_every_notebook_of_the_book_is_accepted(source):
    executed, defaults = read_source(source)
    assert defaults["scale"] == "quick"
    assert sum("parameters" in part.metadata.get("tags", []) for part in executed.cells) == 1


# Running and skipping (case 54)


def test_only_what_changed_runs_again(tree, capsys):
    add(tree, "01", notebook(SHOW_CONSTANT))
    add(tree, "02", notebook('print("second")'))

    def ran():
        assert main([], tree) == 0
        printed = capsys.readouterr().out
        return {name for name in ("01", "02") if f"{name}: done" in printed}

    assert ran() == {"01", "02"}
    assert outputs(tree, "01") == "constant 1\n"
    assert ran() == set()
    add(tree, "02", notebook('print("changed")'))
    assert ran() == {"02"}
    write_atomic(tree / "rrl" / "constant.py", "value = 2\n")
    assert ran() == {"01", "02"}
    assert outputs(tree, "01") == "constant 2\n"


def test_results_lock_parameters_and_edited_outputs_are_noticed(tree):
    add(tree, "01", notebook("# it reads ../book/results"))
    source = tree / "notebooks" / "01.md"
    seen = {prepare(tree, source, {})["inputs"], prepare(tree, source, {"scale": "full"})["inputs"]}
    for name in ("book/results/run.json", "requirements.lock", "rrl/datasets/data/a.npz"):
        write_atomic(tree / name, "changed\n")
        seen.add(prepare(tree, source, {})["inputs"])
    assert len(seen) == 5
    write_atomic(tree / "book" / "claims.yml", "not an input\n")
    write_atomic(tree / "rrl" / "__pycache__" / "constant.pyc", "not an input\n")
    job = prepare(tree, source, {})
    assert job["inputs"] in seen
    write_atomic(job["output"], "{}")
    good = {"state": "done", "inputs": job["inputs"], "output": run_notebooks.hashlib.sha256(b"{}").hexdigest()}
    write_atomic(job["record"], json.dumps(good))
    assert is_done(job)
    write_atomic(job["output"], "{ }")
    assert not is_done(job)


def test_outputs_are_tidy_repeatable_and_made_by_this_interpreter(tree, monkeypatch, tmp_path):
    elsewhere = {"argv": ["/nonexistent/python", "{connection_file}"], "display_name": "x", "language": "python"}
    write_atomic(tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json", json.dumps(elsewhere))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    add(tree, "01", notebook("import sys, os\nprint(sys.executable, os.path.basename(os.getcwd()))"))
    add(tree, "02", notebook())
    assert main(["01"], tree) == 0
    first = (tree / "chapters" / "01.ipynb").read_bytes()
    assert main(["01", "--force"], tree) == 0
    assert (tree / "chapters" / "01.ipynb").read_bytes() == first
    assert outputs(tree, "01") == f"{sys.executable} notebooks\n"
    assert b"papermill" not in first
    executed = nbformat.reads(first.decode(), as_version=4)
    assert executed.metadata.kernelspec.name == "python3"
    assert [part.metadata.get("tags") for part in executed.cells if "tags" in part.metadata] == [["parameters"]]


# Trying a change


def test_a_try_goes_past_assertions_and_leaves_the_chapters_alone(tree, capsys):
    add(tree, "01", notebook('print("good")'))
    assert main([], tree) == 0
    before = {path: path.read_bytes() for path in (tree / "chapters").rglob("*") if path.is_file()}
    changed = "for x in (1, 2):\n    assert x == 1, 'told'\nprint('went on with', x)"
    glued = "from myst_nb import glue\nglue('n', 2 / 3, display=False)\nglue('word', 'five', display=False)"
    text = "\n{glue:text}`n:.2f`, {glue:text}`word`, {glue:text}`no`\n"
    add(tree, "01", notebook(changed, "assert 1 + 1 == 3", glued) + text)
    assert main(["01", "--try", "-p", "scale=full"], tree) == 0
    assert "01: done" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before
    tried = nbformat.read(tree / "_build" / "tried" / "01.ipynb", as_version=4)
    shown = [output for part in tried.cells for output in part.get("outputs", [])]
    texts = [(output.name, output.text) for output in shown if output.output_type == "stream"]
    assert ("stdout", "went on with 2\n") in texts
    assert tried.cells[-1].source == "0.67, five, {glue:text}`no`"
    told = [text for name, text in texts if name == "stderr"]
    assert told == ["no longer holds: assert x == 1, 'told'\n", "no longer holds: assert 1 + 1 == 3\n"]
    assert main(["01"], tree) == 1  # without --try it stops
    assert "AssertionError: told" in capsys.readouterr().err


# What the record says of the figures


def test_a_figure_s_record_has_the_seeds_and_files_that_it_rests_on(tree):
    unit = {"unit": {"experiment": "demo", "seed": 3}, "result": {}, "provenance": {"commit": "c" * 40, "dirty": False}}
    unit["provenance"] |= {
        "started": "2026-01-02T03:04:05+00:00",
        "seconds": 1.5,
        "command": ["rrl", "run", "demo", "--jobs", "2"],
    }
    write_atomic(tree / "book" / "results" / "demo" / "1.json", json.dumps(unit))
    write_atomic(tree / "rrl" / "datasets" / "data" / "a.csv", "1,2\n")
    show = "from IPython.display import display, HTML\ndisplay(HTML(str([{}])))"
    add(
        tree,
        "01",
        notebook(
            "import json\nimport numpy as np\nfrom pathlib import Path\nimport rrl",
            "unused = np.random.default_rng(99)",
            "from scipy.stats import qmc\nqmc.Sobol(1, seed=77).random(1)\n"
            "draws = [np.random.default_rng(seed).normal() for seed in range(5)] + [np.random.default_rng((7, 1))]",
            "cell = rrl.hypergrid_round(0.3, 0.1, shared_seed=13).codes",
            "found = rrl.estimate_replicability(lambda r, rng: [r, rng.integers(9)], n_pairs=2, seed=42)",
            "exact = 3\nnoise = np.random.default_rng(8).normal()",
            "record = json.loads(Path('../book/results/demo/1.json').read_text())",
            "table = open('../rrl/datasets/data/a.csv').read()\nopen('../rrl/datasets/data/b.csv', 'w').close()",
            show.format("draws, cell"),
            show.format("found"),
            show.format("exact"),
            show.format("record, table"),
            show.format("1"),
        ),
    )
    assert main([], tree) == 0
    figures = json.loads((tree / "chapters" / ".runs" / "01.json").read_text())["figures"]
    run = {"folder": "book/results/demo", "count": 1, "seeds": "3", "commits": ["c" * 10], "seconds": 1.5}
    run["command"] = "rrl run demo --jobs 2"
    assert list(figures.values()) == [
        {"numpy": "0–4; (7, 1)", "shared": "13"},
        {"numpy": "42"},
        {},
        {"runs": [run], "files": ["rrl/datasets/data/a.csv"]},
        {},
    ]
    executed = nbformat.read(tree / "chapters" / "01.ipynb", as_version=4)
    assert all("display(" in executed.cells[int(place)].source for place in figures)


def test_a_kernel_begins_without_names_of_the_runner(tree):
    add(tree, "01", notebook("print([n for n in ('np', 'sys', 'kernel_start', 'json', 'Journal') if n in globals()])"))
    assert main([], tree) == 0
    assert outputs(tree, "01") == "[]\n"


# Failures (cases 51, 55)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\n1 / 0", "01.md:16: ZeroDivisionError: division by zero"),
        ("def f(x):\n    return [][x]\nf(1)", "----> 2     return [][x]"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "DeadKernelError"),
        ("while True: pass", "CellTimeoutError"),
    ],
    ids=["error", "place", "killed kernel", "endless cell"],
)
def test_a_failed_run_is_reported_kept_apart_and_repeated(tree, capsys, code, message):
    add(tree, "01", notebook('print("good")'))
    add(tree, "02", notebook('print("fine")'))
    limit = ["--time-limit", "5"]
    assert main(limit, tree) == 0
    add(tree, "01", notebook(code))
    capsys.readouterr()
    assert main(limit, tree) == 1
    printed = capsys.readouterr()
    assert "error: notebook 01 failed" in printed.err
    assert message in printed.err
    assert outputs(tree, "01") == "good\n"
    assert state(tree, "01") == "failed"
    assert state(tree, "02") == "done"
    job = prepare(tree, tree / "notebooks" / "01.md", {"scale": "quick"})
    assert not is_done(job)
    assert sorted(path.name for path in (tree / "chapters").iterdir()) == [".runs", "01.ipynb", "02.ipynb"]


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a process group")
@pytest.mark.parametrize("moment", ["starting", "in a cell"])
def test_ctrl_c_stops_kernels_at_once(tree, moment):
    import psutil

    add(tree, "01", notebook('import os, time\nopen("../pid", "w").write(f"{os.getpid()} ")\ntime.sleep(300)'))
    add(tree, "02", notebook("import time\ntime.sleep(300)"))
    for name in run_notebooks.TOOLS:
        copied = (ROOT / "tools" / f"{name}.py").read_text(encoding="utf-8")
        write_atomic(tree / "tools" / f"{name}.py", copied)
    process = subprocess.Popen(
        [sys.executable, tree / "tools" / "run_notebooks.py", "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline() == "Notebooks at scale quick: 2 to run, 0 unchanged\n"
        pid, deadline = tree / "pid", time.monotonic() + 60
        while moment == "in a cell" and not (pid.exists() and pid.read_text().endswith(" ")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.2)
        family = psutil.Process(process.pid).children(recursive=True)
        assert moment == "starting" or family
        started = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert time.monotonic() - started < 10
    assert process.returncode == 130
    assert out == ""
    assert err == "stopped; finished notebooks are kept, and the next run goes on from there\n"
    assert not psutil.wait_procs(family, timeout=5)[1]
    assert not (tree / "chapters" / "01.ipynb").exists()


def test_a_killed_run_leaves_no_kernel(tree):
    import psutil

    add(tree, "01", notebook('import os, time\nopen("../pid", "w").write(f"{os.getpid()} ")\ntime.sleep(300)'))
    code = "import run_notebooks as r; r.main(['--jobs', '1'], root=r.Path(ROOT))".replace("ROOT", repr(str(tree)))
    command = [sys.executable, "-c", f"if __name__ == '__main__':\n    {code}"]
    process = subprocess.Popen(command, cwd=ROOT / "tools", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        pid, deadline = tree / "pid", time.monotonic() + 60
        while not (pid.exists() and pid.read_text().endswith(" ")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        family = psutil.Process(process.pid).children(recursive=True)
        assert family
    finally:
        process.kill()
        process.wait()
    left = psutil.wait_procs(family, timeout=20)[1]
    for other in left:
        other.kill()
    assert not left


def test_a_good_output_does_not_hide_a_later_failure(tree):
    add(tree, "01", notebook())
    job = prepare(tree, tree / "notebooks" / "01.md", {})
    write_atomic(job["output"], "{}")
    digest = run_notebooks.hashlib.sha256(b"{}").hexdigest()
    for unfinished in ("running", "failed"):
        write_atomic(job["record"], json.dumps({"state": unfinished, "inputs": job["inputs"], "output": digest}))
        assert not is_done(job)


def test_slow_cells_are_allowed():
    assert run_notebooks.TIME_LIMITS["quick"] >= 120
    assert run_notebooks.TIME_LIMITS["full"] > run_notebooks.TIME_LIMITS["quick"]


def test_a_failed_write_leaves_the_earlier_file(tmp_path):
    target = tmp_path / "file.txt"
    write_atomic(target, "earlier")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(target, "\ud800")
    assert target.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [target]
