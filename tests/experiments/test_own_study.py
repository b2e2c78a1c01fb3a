"""rrl run FILE.py: anybody's study on a grid, its records, its refusals, and the page that shows it."""

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rrl as package
from rrl.experiments import _own, cli
from rrl.experiments.store import RunStore

PAGE = (Path(__file__).parents[2] / "book" / "studies.md").read_text(encoding="utf-8")
#: A study that fails at one of its settings.
SQUARES = "def run(n, power=2.0):\n    if n == 2:\n        raise OSError('no such n')\n    return {'value': n**power}\n"


def block(name):
    return re.search(rf":name: {name}\n\n(.*?)```", PAGE, re.S)[1]


def rrl(*words):
    return cli.main([str(word) for word in words])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder in which asking git, which takes longest, is left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rrl.experiments.store.provenance", lambda: {"command": ["rrl", "run", "it.py"]})
    monkeypatch.setattr(cli, "usable_cores", lambda: 1)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def write(folder, text, name="it.py"):
    (folder / name).write_text(text, encoding="utf-8")
    return name


def units(name="it"):
    return [record["unit"] for record in RunStore(Path("rrl-results") / name).records(name)]


# The page ------------------------------------------------------------------------------------------


def test_the_page_s_study_prints_what_the_page_shows(here, capsys):
    write(here, block("study-pairs"), "coins.py")
    words = shlex.split(block("study-command").removeprefix("$ rrl"))
    assert rrl(*words[: words.index("--jobs")]) == 0
    assert capsys.readouterr().out == block("study-output")
    assert rrl(*words[:-2], "--resume") == 0
    assert capsys.readouterr().out == block("study-output").replace("coins: 0 of", "coins: 150 of")
    assert sorted(path.suffix for path in Path("rrl-results/coins").iterdir()) == [".json"] * 150 + [".py"]


def test_a_study_in_pairs_is_the_trade_off_of_python(here, capsys):
    """The same pairs, limits and scores, by another way."""
    pytest.importorskip("pandas")
    write(here, block("study-pairs"), "coins.py")
    assert rrl("run", "coins.py", "--set", "bin_width=.02,.2", "--pairs", 12, "--seed", 5) == 0
    head, *lines = capsys.readouterr().out.splitlines()[1:-1]
    assert re.split(r"\s\s+", head.strip()) == ["bin_width", "n", "pairs", "differ", "rho (95%)", "score (95%)"]
    found = {}
    exec(block("study-pairs"), found)
    grid = {"bin_width": [0.02, 0.2], "n": [1000]}
    frame = package.trade_off(found["run"], found["score"], grid, 12, seed=5, codes=found["codes"])
    for line, (_, row) in zip(lines, frame.iterrows(), strict=True):
        assert [float(x) for x in re.findall(r"[-\d.e]+", line)] == pytest.approx(row.tolist()[:-2], rel=1e-2)


def test_the_page_s_single_runs_and_their_table(here, capsys):
    write(here, block("study-single"), "curve.py")
    for line in block("study-single-command").splitlines():
        assert rrl(*shlex.split(line.removeprefix("$ rrl "))) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "curve: 0 of 10 records are there" and out[1].split() == ["n", "seed", "error", "mean"]
    assert len(out) == 14
    rows = list(csv.DictReader(io.StringIO(Path("curve.csv").read_text())))
    assert sorted((int(row["n"]), int(row["seed"])) for row in rows) == [(n, s) for n in (100, 10000) for s in range(5)]
    assert all(float(row["result.error"]) == abs(float(row["result.mean"])) for row in rows)
    assert {row["provenance.study"] for row in rows} == {"curve.py"}


def test_the_page_s_notebook_cell(here):
    found = {}
    exec(block("study-notebook").replace(", jobs=2", ", progress=False"), found)
    assert [record["result"]["square"] for record in found["records"]] == [0, 1, 4, 9, 16, 25]


def test_the_page_s_settings_are_read_as_it_says():
    read = dict(_own.parse_setting(text) for text in re.findall(r"^\| `--set (\S+)` \|", PAGE, re.M))
    expected = {"bin_width": [0.1, 0.3], "seed": list(range(10)), "rule": ["grid", "lattice"], "penalty": [None, 0.1]}
    assert read == expected | {"layers": [[64, 64], [256]]}
    assert len(re.findall(r"^\| `--set ", PAGE, re.M)) == len(read) + 1


# Plans ---------------------------------------------------------------------------------------------


def test_all_combinations_each_once_of_the_default_s_kind(here):
    write(here, "grid = {'b': [True, False]}\ndef run(a=1.0, b=True, n=3, c='x'):\n    return {}\n")
    assert rrl("run", "it.py", "--set", "a=1,2,1.0", "--set", "n=4.0,5") == 0
    found = sorted((u["a"], u["b"], u["n"], u["c"]) for u in units())
    assert found == [(a, b, n, "x") for a in (1.0, 2.0) for b in (False, True) for n in (4, 5)]
    assert all(isinstance(u["a"], float) and isinstance(u["n"], int) for u in units())
    assert rrl("run", "it.py", "--set", "b=false") == 0  # the command line goes before the file's grid
    assert len(units()) == 9


def test_a_run_may_take_any_setting(here):
    write(here, "def run(a=1, **others):\n    return {'given': sorted(others)}\n")
    assert rrl("run", "it.py", "--set", "b=2,3") == 0
    assert sorted((u["a"], u["b"]) for u in units()) == [(1, 2), (1, 3)]


def test_more_values_and_pairs_compute_the_new_ones_only(here, capsys):
    log = "    with open('log', 'a') as log:\n        log.write('x')\n"
    write(here, f"def run(shared_seed, rng, k=2):\n{log}    return int(rng.integers(k))\n")
    for words, total in ((["k=2"], 4), (["k=2,3"], 8), (["k=2,3"], 8)):
        assert rrl("run", "it.py", "--pairs", 2, "--set", *words) == 0
        assert len(Path("log").read_text()) == total
    assert rrl("run", "it.py", "--pairs", 3, "--set", "k=2,3") == 0
    assert len(Path("log").read_text()) == 12 and "score" not in capsys.readouterr().out


def test_changed_code_is_another_study_and_changed_comments_are_not(here, capsys):
    write(here, "def run(n=1):\n    return {'n': n}\n")
    assert rrl("run", "it.py") == 0
    write(here, "# A word.\ndef run(n = 1):\n\n    return {'n': n}  # another\n")
    assert rrl("run", "it.py") == 0
    assert "it: 1 of 1 records are there\n" in capsys.readouterr().out
    write(here, "def run(n=1):\n    return {'n': -n}\n")
    assert rrl("run", "it.py") == 0
    out = capsys.readouterr().out
    assert "it: 0 of 1 records are there, and 1 of other versions of the file\n" in out
    assert len(units()) == 2 and len(list(Path("rrl-results/it").glob("it-*.py"))) == 2


def test_show_and_export_leave_earlier_versions_out_and_say_so(here, capsys):
    """By the file its version as it is now; by the name the one of which a record is newest."""

    def exported(*words):
        assert rrl("export", "-", *words) == 0
        out, err = capsys.readouterr()
        return [(row["result.n"], row.get("version")) for row in csv.DictReader(io.StringIO(out))], err

    folder = Path("rrl-results/it")
    one, two = (f"def run(n=1):\n    return {{'n': {value}}}\n" for value in ("n", "-n"))
    for day, text in enumerate((one, two), 1):
        write(here, text)
        units = _own.plan(study := _own.Study("it.py"), [("n", [1, 2] if day == 1 else [1])], None, None)
        store = RunStore(folder)
        for unit in units:
            origin = {"study": "it.py", "started": f"2026-01-0{day}T00:00:00+00:00"}
            store.write(unit, _own.compute(str(study.path), unit), origin)
    (newest,), said = exported("--experiment", "it")
    assert newest == ("-1", None) and said == "left out: 2 records of another version of it; --all-versions adds them\n"
    assert exported("--folder", folder) == exported("--experiment", "it.py") == ([newest], said)
    everything, said = exported("--experiment", "it", "--all-versions")
    versions = dict(everything)
    assert set(versions) == {"1", "2", "-1"} and versions["1"] == versions["2"] != versions["-1"] and said == ""
    assert _own.Study("it.py").source.startswith(versions["-1"]) and len(versions["-1"]) == 12
    # The file goes back to what it was.
    write(here, f"{one}# as before\n")
    found, said = exported("--experiment", "it.py")
    assert (
        sorted(found) == [("1", None), ("2", None)]
        and "1 record of another version of it; --all-versions adds it" in said
    )
    assert exported("--experiment", "it")[0] == [newest]
    # A list tells the same; a record is shown whatever its version.
    assert rrl("show", "it.py") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3 and err == said and "version" not in out
    # The name alone is that of its newest records, as it is for export.
    assert rrl("show", "it", "--folder", folder) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert rrl("show", "--folder", folder) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert rrl("show", "--all-versions", "--folder", folder) == 0
    out, err = capsys.readouterr()
    assert sum(f"version {versions['1']}" in line for line in out.splitlines()) == 2 and err == ""
    for path in folder.glob("*.json"):
        assert rrl("show", path.stem[:12], "--folder", folder) == 0
    # A version without a record.
    write(here, "def run(n=3):\n    return {}\n")
    capsys.readouterr()
    for words in (("show", "it.py"), ("export", "-", "--experiment", "it.py")):
        assert rrl(*words) == 1
        assert "left out: 3 records of 2 other versions of it; --all-versions adds them" in capsys.readouterr().err
    assert rrl("show", "none.py") == 1
    assert "cannot read none.py" in capsys.readouterr().err


def test_code_that_changes_while_it_runs_is_found(here, capsys):
    write(here, "def run(n=1):\n    return {'n': n}\n")
    study = _own.Study("it.py")
    (unit,) = _own.plan(study, [], None, None)
    write(here, "def run(n=1):\n    return {'n': 2 * n}\n")
    with pytest.raises(ValueError, match=r"it\.py was changed while it ran"):
        _own.compute(str(study.path), unit)


# Work ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_unit_is_named_and_the_others_are_finished(jobs, here, capsys):
    write(here, SQUARES)
    assert rrl("run", "it.py", "--set", "n=1..4", "--jobs", jobs) == 1
    assert sorted(unit["n"] for unit in units()) == [1, 3, 4]
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("failed: OSError: no such n; unit ")
    assert said[0].endswith(" (power 2.0, n 2)")
    assert said[1:] == ["error: 1 of 4 units failed, as told above; the other 3 were done and are on record"]
    # The same command tries it again, and nothing else.
    assert rrl("run", "it.py", "--set", "n=1..4", "--jobs", jobs) == 1
    assert "it: 3 of 4 records are there" in capsys.readouterr().out


def test_a_slip_that_fails_in_every_unit_is_not_told_a_hundred_times(here, capsys):
    write(here, "def run(n=1):\n    if n:\n        raise OSError('no such n')\n    return {}\n")
    assert rrl("run", "it.py", "--set", "n=0..100") == 1
    *told, last = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("failed: OSError: no such n; unit ") for line in told) == 20
    assert last == ("error: 100 of 101 units failed, 20 of them told above; the other 1 were done and are on record")


def test_modules_beside_the_file_are_found_by_every_process(here, capsys):
    (here / "study").mkdir()
    write(here, "def double(n):\n    return 2 * n\n", "study/helper_of_it.py")
    write(here, "from helper_of_it import double\ndef run(n=1):\n    return {'value': double(n)}\n", "study/it.py")
    assert rrl("run", "study/it.py", "--set", "n=1,2", "--jobs", 2) == 0
    assert sorted(r["result"]["value"] for r in RunStore("rrl-results/it").records()) == [2, 4]
    assert "failed" not in capsys.readouterr().err


def test_dask_does_the_work(here, capsys):
    distributed = pytest.importorskip("dask.distributed")
    write(here, "def run(n=1):\n    return {'n': n}\n")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as local:
        assert rrl("run", "it.py", "--set", "n=1..3", "--dask", local.scheduler_address) == 0
    assert len(units()) == 3 and capsys.readouterr().out.endswith(f"Records: {Path('rrl-results/it')}\n")


def test_runs_that_never_draw_are_noted(here, capsys):
    write(here, "def run(shared_seed, rng, k=1):\n    return k\n")
    assert rrl("run", "it.py", "--pairs", 3) == 0
    out = capsys.readouterr().out
    assert "note: at {'k': 1}, none of the runs drew from its rng" in out
    assert "note: at {'k': 1}, all 6 runs published the same output" in out


def test_status_show_and_export_know_the_study(here, capsys):
    write(here, "def run(shared_seed, rng, rate=0.5, layers=(8, 8)):\n    return int(rng.random() < rate)\n")
    assert rrl("run", "it.py", "--pairs", 2, "--set", "rate=.25,.75") == 0
    capsys.readouterr()
    assert rrl("status") == 0
    assert capsys.readouterr().out.endswith(f"it                4 records, in {Path('rrl-results/it')}\n")
    assert rrl("show") == 0
    lines = [line.split("  it  ")[1].strip() for line in capsys.readouterr().out.splitlines() if "  it  " in line]
    assert sorted(lines) == sorted(
        f"layers [8,8], measurement_seed 0, pair {k}, rate {rate}" for k in range(2) for rate in (0.25, 0.75)
    )
    key = next(Path("rrl-results/it").glob("*.json")).stem
    assert rrl("show", key[:9]) == 0
    *_, command, where = capsys.readouterr().out.splitlines()
    assert command.endswith(": rrl run it.py") and where == "  with it.py; a copy of it lies beside the record"
    assert rrl("export", "-", "--experiment", "it") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 4 and {row["rate"] for row in rows} == {"0.25", "0.75"}
    assert all((row["result.differs"] == "True") == (row["result.pair.n_differ"] != "0") for row in rows)
    assert {json.dumps(json.loads(row["layers"])) for row in rows} == {"[8, 8]"}


# Refusals ------------------------------------------------------------------------------------------

REFUSED = {
    "no run": ("x = 1\n", [], "it.py has no function run, whose arguments are the settings"),
    "half a pair": ("def run(rng): pass\n", [], "takes both of shared_seed and rng, or none"),
    "positional": ("def run(*a): pass\n", [], "must take its settings by name, not *a"),
    "a record's name": ("def run(pair=1): pass\n", [], "a setting may not be called pair"),
    "a result's name": ("def run(shared_seed, rng, rho=1): pass\n", [], "a setting may not be called rho"),
    "a grid of numbers": ("grid = {'n': 3}\ndef run(n): pass\n", [], "grid in it.py must give each setting a list"),
    "score alone": ("def run(): pass\ndef score(o, rng): pass\n", [], "codes and score in it.py are for pairs"),
    "no default": ("def run(n): pass\n", [], "n has no default: give it values, as in --set n=1,2"),
    "no such setting": ("def run(n=1): pass\n", ["--set", "m=1"], "it.py has no setting 'm'; it has n"),
    "a word for a number": ("def run(n=1): pass\n", ["--set", "n=a"], "n is 1 by default, not 'a'"),
    "a number for a bool": ("def run(n=True): pass\n", ["--set", "n=1"], "n is True by default, not 1"),
    "an empty list": ("grid = {'n': []}\ndef run(n): pass\n", [], "grid in it.py gives n no value, got []"),
    "an empty range": (
        "grid = {'n': range(5, 1)}\ndef run(**kw): pass\n",
        [],
        "grid in it.py gives n no value, got range(5, 1)",
    ),
    "given twice": ("def run(n=1): pass\n", ["--set", "n=1", "--set", "n=2"], "--set n is given twice"),
    "no record's value": ("def run(n=1e999): pass\n", [], "n is inf, which a record cannot hold"),
    "pairs of singles": ("def run(n=1): pass\n", ["--pairs", "3"], "--pairs is for a run that takes shared_seed"),
    "no pairs": ("def run(shared_seed, rng): pass\n", ["--pairs", "0"], "pairs must be"),
    "a bad seed": ("def run(shared_seed, rng): pass\n", ["--seed", "-1"], "seed must be"),
    "the book's option": (
        "def run(): pass\n",
        ["--scale", "full"],
        "--scale is for the book's experiments, got 'full'",
    ),
    "a missing package": ("import no_such_package\n", [], "it.py needs no_such_package, which is not installed here"),
    "no Python": ("def run(:\n", [], "SyntaxError: invalid syntax (it.py, line 1)"),
    "nothing to resume": ("def run(): pass\n", ["--resume"], "nothing to resume"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_a_study_is_refused_before_any_work(kind, here, capsys):
    code, words, expected = REFUSED[kind]
    write(here, code)
    assert rrl("run", "it.py", *words) == 1
    assert expected in capsys.readouterr().err and not Path("rrl-results").exists()


def test_other_refusals(here, capsys):
    assert rrl("run", "none.py") == 1
    assert capsys.readouterr().err == "error: cannot read none.py: No such file or directory\n"
    write(here, "def run(n=1):\n    return n\n")
    assert rrl("run", "it.py") == 1
    assert "run must return a dict of results, as {'score': 0.5}, got 1" in capsys.readouterr().err
    write(here, "def run():\n    return {}\n", "cartpole.py")
    assert rrl("run", "cartpole.py") == 1
    assert "has the name of an experiment of the book" in capsys.readouterr().err
    assert rrl("run", "cartpole", "--set", "n=1") == 1
    assert "--set is for a study of your own, a file that ends in .py, got n for cartpole" in capsys.readouterr().err
    for bad in ("n", "=1", "a b=1", "n=", "n= ", "n=5..1", "n=1,5..4", "n=1,,2", "n=a,[1", "n='a"):
        with pytest.raises(SystemExit) as stop:
            rrl("run", "it.py", "--set", bad)
        err = capsys.readouterr().err
        assert stop.value.code == 2 and (repr(bad) in err or "holds no number: write " in err)


@pytest.mark.parametrize("name", ["numpy.py", "re.py", "tqdm.py", "json/__init__.py", "sys.py"])
def test_a_file_with_the_name_of_a_module_in_use_is_refused(name, here, capsys):
    (here / name).parent.mkdir(exist_ok=True)
    write(here, "def run(n=1):\n    return {'n': n}\n", name)
    write(here, "def run(n=1):\n    return {'n': n}\n")
    before = list(sys.path)
    for study in {"it.py", name if "/" not in name else "it.py"}:
        assert rrl("run", study) == 1
        assert f"{Path(name)} has the name of a module that rrl or Python imports" in capsys.readouterr().err
    assert sys.path == before and not Path("rrl-results").exists()


def test_ctrl_c_of_a_whole_group_says_that_it_stopped_and_no_more(here):
    write(here, "import time\ndef run(shared_seed, rng, w=1):\n    time.sleep(0.5)\n    return int(rng.integers(9))\n")
    command = [sys.executable, "-m", "rrl", "run", "it.py", "--jobs", "2"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    process = subprocess.Popen(command, **options)
    stop = time.monotonic() + 60
    while not list(here.glob("rrl-results/it/*.json")) and time.monotonic() < stop:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "stopped; what is done is kept, and the same command goes on from there\n"


def test_pairs_that_crashed_are_told_wherever_numbers_are_shown(here, capsys):
    """They are in no row: what is shown is of the others alone."""
    text = "def run(shared_seed, rng, p=0.5):\n    if rng.random() < p:\n        raise OSError('lost')\n    return 0\n"
    write(here, text)
    assert rrl("run", "it.py", "--pairs", "20", "--set", "p=0.,.3") == 1
    out = capsys.readouterr().out
    kept = sorted(unit["pair"] for unit in units() if unit["p"] == 0.3)
    assert 0 < len(kept) < 20 and kept[-1] > len(kept) - 1
    assert (
        f"note: at {{'p': 0.3}}, {20 - len(kept)} of 20 pairs have no record" in out
        and out.count("have no record") == 1
    )
    assert rrl("export", "-", "--experiment", "it.py") == 0
    lost = kept[-1] + 1 - len(kept)
    assert f"note: at {{'p': 0.3}}, {lost} of at least {kept[-1] + 1} pairs have no record" in capsys.readouterr().err


def test_results_that_are_not_finite_stay_seen(here, capsys):
    write(here, "def run(n=1):\n    return {'loss': [0.5, float('inf'), float('nan')][n], 'all': [float('-inf')]}\n")
    assert rrl("run", "it.py", "--set", "n=0,1,2") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:5]]
    assert sorted(row[1] for row in rows) == ["0.5", "inf", "nan"]
    assert rrl("export", "-", "--experiment", "it.py") == 0
    text = capsys.readouterr().out
    assert {"inf", "nan", "0.5"} <= {row["result.loss"] for row in csv.DictReader(io.StringIO(text))}
    assert '["-inf"]' in {row["result.all"] for row in csv.DictReader(io.StringIO(text))}


def test_a_seed_is_refused_where_it_would_do_nothing(here, capsys):
    write(here, "def run(n=100, seed=0):\n    return {'n': n}\n")
    assert rrl("run", "it.py", "--seed", "7") == 1
    assert "--seed is for a run that takes shared_seed and rng" in (error := capsys.readouterr().err)
    assert "--set seed=7" in error and not Path("rrl-results").exists()
