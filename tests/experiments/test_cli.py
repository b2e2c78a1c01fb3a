"""The command line: run, status, show, their refusals, and what is kept when stopped."""

import inspect
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

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


RUN = ("run", "cartpole", "--scale", "full", "--data", "standin", "--jobs", 1)


def test_run_status_show(tiny, tmp_path, capsys):
    assert rrl(*RUN, "--folder", tmp_path) == 0
    out = capsys.readouterr().out
    assert "0 of 2 units recorded" in out and "pairwise share" in out
    rows = [line.split() for line in out.splitlines() if line.split()[0] in ("0.1", "-")]
    assert len(rows) == 4 and {row[1] for row in rows} == {"0.2", "0.5"}

    assert rrl("status", "--folder", tmp_path) == 0
    lines = {tuple(line.split()[:2]): line for line in capsys.readouterr().out.splitlines()}
    assert lines["cartpole", "full"].endswith("2 of 2 records") and len(lines) == 6
    assert lines["cartpole", "quick"].endswith("0 of 2 records")

    record = RunStore(tmp_path).records()[0]
    assert rrl("show", unit_key(record["unit"])[:10], "--folder", tmp_path) == 0
    out = capsys.readouterr().out
    assert record["provenance"]["started"] in out and "steps: array (1, 3, 2, 3)" in out

    assert rrl(*RUN, "--folder", tmp_path, "--resume") == 0
    assert "2 of 2 units recorded" in capsys.readouterr().out


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
    assert "--data is cartpole's alone, got 'standin' for minatar" in capsys.readouterr().err
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
    ]
    units.append({"experiment": "demo-holdout", "run": unit_key(units[2])})
    RunStore(tmp_path).run(units, lambda unit: {"value": 1}, progress=False)
    names = [unit_key(unit) for unit in units]
    expected = sorted(
        [
            f"{names[0][:12]}  demo           seeds 1 to 4, small",
            f"{names[1][:12]}  demo           seed 3, seeds 5, plain",
            f"{names[2][:12]}  demo           step / 4, steps 500",
            f"{names[3][:12]}  demo-holdout   step / 4, steps 500",
        ]
    )
    assert rrl("show", "--folder", tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == expected
    assert rrl("show", "unknown", "--folder", tmp_path) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["error: 0 records begin with 'unknown'; there are:", *expected]
    assert rrl("show", "", "--folder", tmp_path) == 1
    assert capsys.readouterr().err.startswith("error: 4 records begin with ''; there are:")


def test_a_missing_package_is_not_taken_for_a_missing_experiment(monkeypatch, tmp_path, capsys):
    def broken(name):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(cli, "import_module", broken)
    assert rrl("run", "atari", "--folder", tmp_path) == 1
    assert "No module named 'torch'" in capsys.readouterr().err


def test_dask_is_refused_for_atari_and_named_where_missing(tiny, tmp_path, monkeypatch, capsys):
    with pytest.raises(ValueError, match="--dask is not for atari"):
        cli._dask(cli._parser().parse_args(["run", "atari", "--dask", "tcp://nowhere:1"])).__enter__()
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


def test_default_folders(monkeypatch, tmp_path):
    book = Path(cli.__file__).parents[2] / "book" / "results"
    assert cli.default_folder("cartpole") == book / "cartpole"
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "site" / "rrl" / "experiments" / "cli.py"))
    assert cli.default_folder("atari") == Path("rrl-results") / "atari"


def test_module_is_the_same_program(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rrl", "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("rrl", run_name="__main__")
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("run", "status", "show"))
