"""The command line: run, status, show, their refusals, and what is kept when stopped."""

import argparse
import inspect
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import rrl as package
from rrl.experiments import cli
from rrl.experiments.cartpole import study as cartpole
from rrl.experiments.store import RunStore, unit_key

TINY = {"n_runs": 3, "fractions": (0.2, 0.5), "penalties": (0.1,), "n_features": 4, "n_episodes": 2}


@pytest.fixture
def tiny(monkeypatch):
    """A figure of two small units, and a whole plan of nothing else."""
    monkeypatch.setattr(cartpole, "STUDIES", {"figure": (TINY, range(2))})
    monkeypatch.setattr("rrl.experiments.cartpole.plan.STUDIES", {"figure": (TINY, range(2))})


def rrl(*arguments):
    return cli.main([str(argument) for argument in arguments])


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
RUN = ("run", "cartpole", "--scale", "full", "--data", "standin", "--jobs", 1)


def test_run_status_show(tiny, tmp_path, capsys):
    assert rrl(*RUN, "--folder", tmp_path) == 0
    out = capsys.readouterr().out
    assert "cartpole, full, study figure: 0 of 2 records are there" in out and "pairwise share" in out
    rows = [line.split() for line in out.splitlines() if line.split()[0] in ("0.1", "-")]
    assert len(rows) == 4 and {row[1] for row in rows} == {"0.2", "0.5"}

    assert rrl("status", "--folder", tmp_path) == 0
    lines = {tuple(line.split()[:2]): line for line in capsys.readouterr().out.splitlines()}
    assert lines["cartpole", "full"].endswith(f"2 of 2 records, in {tmp_path}") and len(lines) == 6
    assert lines["cartpole", "quick"].endswith("0 of 2 records")

    record = RunStore(tmp_path).records()[0]
    assert rrl("show", unit_key(record["unit"])[:10], "--folder", tmp_path) == 0
    out = capsys.readouterr().out
    assert record["provenance"]["started"] in out and "steps: array (1, 3, 2, 3)" in out

    assert rrl(*RUN, "--folder", tmp_path, "--resume") == 0
    assert "2 of 2 records are there" in capsys.readouterr().out


def test_resume_goes_on_from_what_is_there(tiny, tmp_path, monkeypatch, capsys):
    assert rrl(*RUN, "--folder", tmp_path / "empty", "--resume") == 1
    assert "nothing to resume" in capsys.readouterr().err
    real, calls = cartpole.compute, []

    def stopped(unit, *, source):
        calls.append(unit["draws"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(unit, source=source)

    monkeypatch.setattr(cartpole, "compute", stopped)
    assert rrl(*RUN, "--folder", tmp_path) == 130
    assert "what is done is kept" in capsys.readouterr().err
    assert len(RunStore(tmp_path).records()) == 1
    assert rrl(*RUN, "--folder", tmp_path, "--resume") == 0
    assert calls == [[0], [1], [1]]


def test_errors_are_one_line_and_status_one(tiny, tmp_path, capsys):
    for key in ((), ("0000",)):
        assert rrl("show", *key, "--folder", tmp_path) == 1
        assert capsys.readouterr().err == f"error: there are no records in {tmp_path}\n"
    assert rrl("run", "minatar", "--folder", tmp_path, "--data", "standin") == 1
    assert "--data is for cartpole, got 'standin' for minatar" in capsys.readouterr().err
    for experiment, option, value, words in (
        ("atari", "--seed", 7, "--seed is for a study of your own, a file that ends in .py, got 7 for atari"),
        ("cartpole", "--log", 5, "--log is for minatar and atari, got 5 for cartpole"),
        ("atari", "--study", "precision", "--study precision of atari is for --scale full, got --scale quick"),
    ):
        assert rrl("run", experiment, option, value, "--folder", tmp_path) == 1
        assert words in capsys.readouterr().err
    assert rrl(*RUN, "--folder", tmp_path, "--study", "nothing") == 1
    assert "study must be 'all' or one of" in capsys.readouterr().err
    assert rrl("run", "cartpole", "--data", tmp_path / "no.h5", "--folder", tmp_path) == 1
    assert "no.h5" in capsys.readouterr().err
    for bad in (("run", "pong"), ("run", "cartpole", "--jobs", 0), ("run", "cartpole", "--scale", "huge"), ()):
        with pytest.raises(SystemExit) as stop:
            rrl(*bad)
        assert stop.value.code == 2
    capsys.readouterr()


def test_show_lists_the_records_it_has(tmp_path, capsys):
    units = [
        {"experiment": "demo", "seeds": [1, 2, 4], "sha256": "0" * 64, "study": "small", "settings": {"n": 1}},
        {"experiment": "demo", "seed": 3, "seeds": [5], "variant": "plain"},
        {"experiment": "demo", "choice": "step / 4", "settings": {"total_steps": 500}},
        {"experiment": "demo", "seed": 4, "settings": {"n": 2, "deep": {"rate": 0.5}}, "wide": list(range(0, 99, 2))},
    ]
    units.append({"experiment": "demo-holdout", "run": unit_key(units[2])})
    RunStore(tmp_path).run(units, lambda unit: {"value": 1}, progress=False)
    names = [unit_key(unit) for unit in units]
    expected = sorted(
        [
            f"{names[0][:12]}  demo           seeds [1,2,4], n 1, small",
            f"{names[1][:12]}  demo           seed 3, seeds 5, plain",
            f"{names[2][:12]}  demo           step / 4, steps 500",
            f"{names[3][:12]}  demo           seed 4, deep.rate 0.5, n 2, wide 0 to 98 (50)",
            f"{names[4][:12]}  demo-holdout   step / 4, steps 500",
        ]
    )
    assert rrl("show", "--folder", tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == expected
    assert rrl("show", "unknown", "--folder", tmp_path) == 1
    assert capsys.readouterr().err == "error: no record begins with 'unknown'; rrl show lists all\n"
    near = "x" + names[0][1:9]
    assert rrl("show", near, "--folder", tmp_path) == 1
    told = f"error: no record begins with {near!r}, but close are {names[0][:12]}; rrl show lists all\n"
    assert capsys.readouterr().err == told
    assert rrl("show", "", "--folder", tmp_path) == 1
    assert capsys.readouterr().err.startswith("error: 5 records begin with ''; there are:")
    RunStore(tmp_path).run([{"experiment": "demo", "n": n} for n in range(300)], lambda _: {}, progress=False)
    assert rrl("show", "", "--folder", tmp_path) == 1
    *told, last = capsys.readouterr().err.splitlines()
    assert len(told) == 6 and last == "and 300 more; rrl show lists all"
    assert rrl("show", names[0][:2] + "z", "--folder", tmp_path) == 1
    close = capsys.readouterr().err.splitlines()[-1].split("close are ")[1].split("; ")[0].split(", ")
    assert 1 <= len(close) <= 5


def test_a_missing_package_is_not_taken_for_a_missing_experiment(monkeypatch, tmp_path, capsys):
    def broken(name):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(cli, "import_module", broken)
    assert rrl("run", "atari", "--folder", tmp_path) == 1
    assert "this needs torch: pip install -e '.[experiments]'" in capsys.readouterr().err


def test_dask_is_refused_for_atari_and_named_where_missing(tiny, tmp_path, monkeypatch, capsys):
    assert rrl("run", "atari", "--dask", "tcp://nowhere:1", "--folder", tmp_path) == 1
    assert "--dask is for cartpole, minatar and studies of your own, got 'tcp" in capsys.readouterr().err
    assert rrl(*RUN, "--folder", tmp_path, "--dask", "") == 1
    assert "--dask must be the address of a scheduler, got ''" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    assert rrl(*RUN, "--folder", tmp_path, "--dask", "tcp://nowhere:1") == 1
    assert ".[cluster]" in capsys.readouterr().err


def test_dask_executor_does_the_work(tiny, tmp_path, monkeypatch, capsys):
    distributed = pytest.importorskip("dask.distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as local:
        assert rrl(*RUN, "--folder", tmp_path, "--dask", local.scheduler_address) == 0
    assert len(RunStore(tmp_path).records()) == 2
    capsys.readouterr()


def test_the_recipe_for_slurm_fits_dask_jobqueue(monkeypatch, tmp_path):
    """The page's own script, up to the point where Slurm would be asked; then the command that it runs."""
    jobqueue = pytest.importorskip("dask_jobqueue")
    page = (Path(__file__).parents[2] / "book" / "how_to.md").read_text(encoding="utf-8")
    script = page.split(":name: slurm-recipe")[1].split("```")[0]
    commands, scripts = [], []

    class Cluster(jobqueue.SLURMCluster):
        def adapt(self, *, minimum_jobs, maximum_jobs):
            assert {"minimum_jobs", "maximum_jobs"} <= set(inspect.signature(super().adapt).parameters)
            scripts.append(self.job_script())

    def finished(command):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobqueue, "SLURMCluster", Cluster)
    monkeypatch.setattr(subprocess, "run", finished)
    with pytest.raises(SystemExit) as stop:
        exec(script, {"__name__": "__main__"})
    assert stop.value.code == 0
    lines = scripts[0].splitlines()
    assert {"#SBATCH -p normal", "#SBATCH --cpus-per-task=8", "#SBATCH -t 02:00:00"} <= set(lines)
    worker = next(line for line in lines if "dask_worker" in line)
    assert "--nworkers 8" in worker and "--nthreads 1" in worker and "--lifetime 110m" in worker
    (command,) = commands
    assert command[:3] == [sys.executable, "-m", "rrl"]
    args = cli._parser().parse_args(command[3:])
    assert args.experiment == "cartpole" and args.dask.startswith("tcp://") and args.folder.is_absolute()


def test_what_an_option_is_for_is_a_table():
    """What `rrl run` takes is for every experiment, or stands in the table of what it is for, with its default."""
    everywhere = {"traceback", "command", "experiment", "jobs", "resume", "folder", "do"}
    for experiment in (*cli.EXPERIMENTS, "my_study.py"):
        args = cli._parser().parse_args(["run", experiment])
        assert vars(args).keys() == everywhere | cli.MEANT.keys()
        cli._refuse_others(args)
        own = None if experiment.endswith(".py") else experiment
        for name, (words, _, takers) in cli.MEANT.items():
            changed = argparse.Namespace(**vars(args) | {name: [("n", [1])] if name == "set" else 5})
            if own in takers:
                cli._refuse_others(changed)
            else:
                with pytest.raises(ValueError, match=f"--{name} is for {words}, got .* for {experiment}"):
                    cli._refuse_others(changed)


def test_default_folders(monkeypatch, tmp_path):
    book, tried = Path(cli.__file__).parents[2] / "book" / "results", Path("rrl-results")
    assert cli.default_folder("cartpole") == cli.default_folder("cartpole", "full") == book / "cartpole"
    # Quick records among the book's own would make every notebook run again.
    assert cli.default_folder("cartpole", "quick") == tried / "cartpole"
    assert cli.default_folder("atari", "quick") == book / "atari"
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "site" / "rrl" / "experiments" / "cli.py"))
    assert {cli.default_folder("atari", scale) for scale in ("quick", "full")} == {tried / "atari"}


def test_a_quick_run_in_a_clone_leaves_the_book_alone(tiny, tmp_path, monkeypatch, capsys):
    """And status and show look in both places and say which."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "rrl" / "experiments" / "cli.py"))
    (tmp_path / "book" / "results").mkdir(parents=True)
    quick, full = Path("rrl-results") / "cartpole", tmp_path / "book" / "results" / "cartpole"
    assert rrl("run", "cartpole", "--data", "standin", "--jobs", 1) == 0
    assert capsys.readouterr().out.endswith(f"Records: {quick}\n")
    assert not full.exists() and len(RunStore(quick).records()) == 2
    assert rrl(*RUN) == 0
    assert len(RunStore(full).records()) == 2
    capsys.readouterr()
    assert rrl("status") == 0
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["cartpole", "quick", f"2 of 2 records, in {quick}"]
    assert lines[1] == ["cartpole", "full", f"2 of 2 records, in {full}"]
    assert rrl("show") == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 6 and (out[0], out[3]) == (f"{full}:", f"{quick}:")
    key = out[1].split()[0]
    assert rrl("show", key) == 0
    assert capsys.readouterr().out.startswith(f"record {full / key}")


def test_status_says_how_much_of_the_figure_is_done(monkeypatch, tmp_path, capsys):
    studies = {"figure": (TINY, range(2)), "other": (TINY | {"gamma": 0.5}, range(2))}
    monkeypatch.setattr("rrl.experiments.cartpole.plan.STUDIES", studies)
    assert rrl(*RUN, "--folder", tmp_path) == 0
    capsys.readouterr()
    assert rrl("status", "--folder", tmp_path) == 0
    assert f"cartpole   full   2 of 3 records, figure 2 of 2, in {tmp_path}\n" in capsys.readouterr().out


def test_the_home_folder_is_meant_by_its_sign(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    args = cli._parser().parse_args(["run", "cartpole", "--folder=~/r", "--data=~/x.npz"])
    assert args.folder == tmp_path / "r" and args.data == str(tmp_path / "x.npz")
    assert cli._parser().parse_args(["run", "cartpole"]).data == "auto"


def test_a_data_file_that_is_not_there_is_named_with_its_place(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert rrl("run", "cartpole", "--data", "cart.npz", "--folder", tmp_path) == 1
    expected = f"error: there is no file {tmp_path / 'cart.npz'}; without a file the data are auto, d3rlpy, standin\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("experiment", ["cartpole", "minatar", "atari"])
def test_an_unknown_study_is_refused_everywhere(experiment, tmp_path, capsys):
    pytest.importorskip("torch")
    assert rrl("run", experiment, "--study", "nonsense", "--folder", tmp_path) == 1
    error = capsys.readouterr().err
    assert "study must be" in error and "nonsense" in error and max(map(len, error.splitlines())) <= 120
    if experiment == "cartpole":
        listed = [name.strip() for line in error.splitlines()[1:] for name in line.rstrip(",").split(",")]
        assert listed == list(cartpole.STUDIES)


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        rrl("--version")
    assert stop.value.code == 0 and capsys.readouterr().out == f"rrl {package.__version__}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe of Unix")
@pytest.mark.parametrize("length", [10, 10_000], ids=["within the buffer", "beyond it"])
def test_nobody_reads_on(tmp_path, length):
    """`rrl show | head -1` ends without a word, as other programs do."""
    units = [{"experiment": "demo", "n": n, "name": "x" * length} for n in range(3)]
    RunStore(tmp_path).run(units, lambda unit: {}, progress=False)
    command = [sys.executable, "-m", "rrl", "show", "--folder", str(tmp_path)]
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    os.close(writer)
    assert ran.stderr == "" and ran.returncode == 141


def test_processes_are_counted_from_what_may_be_used(tiny, monkeypatch, tmp_path, capsys):
    seen = []
    monkeypatch.setattr(cartpole, "main", lambda scale, **options: seen.append(options["jobs"]))
    for cores in (1, 3):
        monkeypatch.setattr(cli, "usable_cores", lambda cores=cores: cores)
        assert rrl("run", "cartpole", "--data", "standin", "--study", "all", "--folder", tmp_path) == 0
    assert seen == [1, 3]
    capsys.readouterr()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="an affinity of Linux")
def test_usable_cores_respect_the_affinity():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from rrl.experiments.workers import usable_cores; print(usable_cores())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert ran.stdout == "1\n"


def test_a_run_that_fails_is_told_with_its_unit_and_not_where(tiny, tmp_path, monkeypatch, capsys):
    def diverge(unit, *, source):
        raise FloatingPointError("loss is not finite")

    monkeypatch.setattr(cartpole, "compute", diverge)
    assert rrl(*RUN, "--folder", tmp_path) == 1
    *failed, error, hint = capsys.readouterr().err.splitlines()
    assert [line[:52] for line in failed] == ["failed: FloatingPointError: loss is not finite; unit "[:52]] * 2
    assert error == "error: 2 of 2 units failed, as told above" and "rrl --traceback" in hint
    assert all("n_runs 3" in line and "{" not in line for line in failed)
    assert rrl("--traceback", *RUN, "--folder", tmp_path) == 1
    assert "in diverge" in capsys.readouterr().err


def test_tqdm_may_be_missing(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert rrl(*RUN, "--folder", tmp_path) == 0
    assert len(RunStore(tmp_path).records()) == 2
    capsys.readouterr()


HOSTILE = {
    "run a list": {"unit": {"experiment": "demo", "run": ["a"]}},
    "settings null": {"unit": {"experiment": "demo", "settings": None, "run": "b"}},
    "steps a list": {"unit": {"experiment": "demo", "settings": {"total_steps": [1, {}]}, "choice": {"a": [1]}}},
    "zlib without shape": {"result": {"array": {"zlib": "x"}, "other": {"zlib": 1, "shape": 3}}},
    "command no list": {"provenance": {"command": 7, "commit": ["a"], "dirty": "x"}},
    "escapes": {
        "unit": {"experiment": "demo\x1b[2J", "name": "\x1b]0;owned\x07", "list": ["\u202e", "\x9b1m"]},
        "provenance": {"command": ["rrl", "\x1b[31m"], "commit": "\x1b[31m", "k\x1b": 1},
        "result": {"\x1b[5m": "\x1b"},
    },
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_others_put_into_records_is_only_shown(kind, tmp_path, capsys):
    """Records with right digests, whose parts are not what the experiments write."""
    record = {"unit": {"experiment": "demo"}, "result": {}, "provenance": {}} | HOSTILE[kind]
    store = RunStore(tmp_path)
    store.write(record["unit"], record["result"], record["provenance"])
    key = unit_key(record["unit"])
    assert rrl("show", "--folder", tmp_path) == rrl("show", key[:9], "--folder", tmp_path) == 0
    assert rrl("status", "--folder", tmp_path) == 0
    assert rrl("show", "none", "--folder", tmp_path) == 1
    said = "".join(capsys.readouterr())
    assert key[:12] in said and all(c.isprintable() or c == "\n" for c in said)


def test_show_says_how_to_repeat(tmp_path, capsys):
    store, unit = RunStore(tmp_path), {"experiment": "demo", "rate": 0.25}
    store.write(
        unit, {}, {"commit": "a" * 40, "dirty": True, "command": ["__main__.py", "run", "demo", "--set", "a b"]}
    )
    assert rrl("show", unit_key(unit)[:5], "--folder", tmp_path) == 0
    *_, title, line = capsys.readouterr().out.splitlines()
    assert title == "repeat"
    assert line == f"  at commit {'a' * 40}, whose working tree had changes then: rrl run demo --set 'a b'"
    assert rrl("show", "--folder", tmp_path) == 0
    assert capsys.readouterr().out.endswith("demo           rate 0.25\n")


def test_module_is_the_same_program(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rrl", "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("rrl", run_name="__main__")
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("run", "status", "show", "rrl certify --rho .1 -- python train.py"))
