"""Figure 2's question on MinAtar: the plan, the recorded games, and the whole experiment in small."""

import dataclasses
import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("torch")

from rrl.experiments.cli import main as command
from rrl.experiments.games import minatar as experiment
from rrl.experiments.games.checkpoints import batches, checkpoint_path, config_of
from rrl.experiments.games.results import table
from rrl.experiments.store import RunStore, canonical, unit_key
from rrl.packing import pack_array, unpack_array
from rrl.pqn import PQNConfig, quantise
from rrl.pqn.train import Trainer


def test_settings_are_table_1_but_for_the_learning_rate():
    plain, default = experiment.config("breakout"), PQNConfig(total_steps=1_000_000)
    assert dataclasses.replace(plain, learning_rate=default.learning_rate) == default
    both = experiment.config("asterix", "both")
    assert both.grid_step == experiment.GAMES["asterix"]["grid_step"] > 0 and both.weight_decay == 0.2
    half = experiment.config("breakout", "quantised", choice="step / 2")
    assert half.grid_step == experiment.GAMES["breakout"]["grid_step"] / 2 and half.weight_decay == 0


RECORDS = RunStore(Path(experiment.__file__).parents[3] / "book/results/minatar")


def test_grid_steps_are_four_percent_of_the_experts_values():
    """Of the mean of max Q in the last tenth of the recorded experts' runs, to one digit."""
    found = {}
    for record in RECORDS.records("minatar"):
        unit, values = record["unit"], record["result"]["curve"]["mean_q"]
        if unit["seed"] == experiment.EXPERT_SEED:
            step = 0.04 * np.mean(values[-(len(values) // 10) :])
            found[unit["game"], unit["settings"]["total_steps"]] = float(f"{step:.0e}")
    whole, half = experiment.SCALES["full"]["total_steps"], experiment.CHOICES_SCALE["total_steps"]
    # Those of the short runs, which kept the steps of the long ones, stand in the records' README.
    expected = {(game, whole): settings["grid_step"] for game, settings in experiment.GAMES.items()}
    short = {"breakout": 0.2, "space_invaders": 0.4, "asterix": 0.05}
    assert found == expected | {(game, half): step for game, step in short.items()}


def test_every_study_is_recorded():
    trained, planned = {unit_key(r["unit"]) for r in RECORDS.records("minatar")}, experiment.units("full", "all")
    asked = [r["unit"]["run"] for r in RECORDS.records("minatar-holdout")]
    assert {unit_key(unit) for unit in planned} == set(asked) <= trained and len(asked) == len(planned)


def test_every_choice_changes_the_settings():
    base = experiment.config("breakout", "quantised")
    changed = {choice: experiment.config("breakout", "quantised", choice=choice) for choice in experiment.CHOICES}
    assert len({base, *changed.values()}) == 1 + len(changed)


def test_the_plan():
    full = experiment.units("full")
    assert len(full) == len({unit_key(u) for u in full}) == 3 * 4 * 15
    # A run that is stopped early has some seeds of every game, rather than one whole game.
    assert {u["game"] for u in full[:36]} == set(experiment.GAMES) and {u["seed"] for u in full[:36]} == set(range(3))
    choices = experiment.units("full", "choices")
    assert len(choices) == 5 * (2 + len(experiment.CHOICES)) and {u["game"] for u in choices} == {"breakout"}
    steps = {g: [u for u in experiment.units("full", "steps") if u["game"] == g] for g in experiment.GAMES}
    assert {len(own) for own in steps.values()} == {5 * 6}
    assert all(unit in choices for unit in steps["breakout"])  # recorded once for both studies
    kinds = {(u["variant"], u["settings"]["grid_step"]) for u in steps["space_invaders"]}
    assert kinds == {("plain", 0.0)} | {("quantised", 0.5 * m) for m in (0.25, 0.5, 1, 2, 4)}
    whole = experiment.units("full", "all")
    assert len(whole) == len({unit_key(u) for u in whole}) == len(full) + len(choices) + 2 * 5 * 6
    groups = experiment._together(whole)
    assert sorted(unit_key(u) for g in groups for u in g) == sorted(map(unit_key, whole))
    shared = ("total_steps", "trace_through_ends", "learning_rate")
    assert all(len({tuple(u["settings"][k] for k in shared) for u in g}) == 1 for g in groups)
    with pytest.raises(ValueError, match="variants can be chosen"):
        experiment.units("full", "steps", variants=["both"])
    assert config_of(json.loads(json.dumps(full[-1]))) == experiment.config(full[-1]["game"], full[-1]["variant"])


@pytest.mark.parametrize(
    "bad", [("huge",), ("full", "figures"), ("quick", "figure", "pong"), ("quick", "figure", None, ["best"])]
)
def test_unknown_names_are_refused(bad):
    names = dict(zip(("games", "variants"), ([bad[2]] if len(bad) > 2 and bad[2] else None, *bad[3:])))
    with pytest.raises(ValueError, match="must be one of"):
        experiment.units(*bad[:2], **names)
    with pytest.raises(ValueError, match="choice must be one of"):
        experiment.config("breakout", choice="none of these")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("minatar")
    return folder, experiment.main("quick", folder=folder, total_steps=3072, seeds=[0, 1], log_every=2)


def test_a_dask_cluster_trains_the_same_networks(recorded, tmp_path):
    """The same batch on a worker of a cluster: bit for bit."""
    distributed = pytest.importorskip("dask.distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path / "dask"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        options = {"folder": tmp_path / "store", "total_steps": 3072, "seeds": [0, 1]}
        there = experiment.main("quick", executor=client.get_executor(), **options)

    def networks(records):
        return {unit_key(r["unit"]): r["result"].get("network_sha256") for r in records}

    assert networks(there) == networks(recorded[1]) and any(networks(there).values())


def test_the_whole_experiment(recorded, monkeypatch):
    folder, records = recorded
    kinds = sorted((r["unit"]["experiment"], r["unit"]["variant"], r["unit"]["seed"]) for r in records)
    assert kinds == sorted(
        [("minatar", "plain", 1000)]
        + [(e, v, s) for e in ("minatar", "minatar-holdout") for v in ("plain", "both") for s in (0, 1)]
    )
    by_key = {unit_key(r["unit"]): r for r in records}
    for record in records:
        unit, result = record["unit"], record["result"]
        if unit["experiment"] == "minatar":
            assert result["complete"] and result["steps"] == 3072 and result["exact_resume"]
            assert len(result["evaluation"]["scores"]) == 8
        else:
            q, step = unpack_array(result["q"]), by_key[unit["run"]]["unit"]["settings"]["grid_step"]
            assert np.array_equal(unpack_array(result["actions"]), quantise(q, step).argmax(1))
    monkeypatch.setattr(experiment.runs, "train_units", lambda *_, **__: pytest.fail("trained twice"))
    assert len(experiment.main("quick", folder=folder, total_steps=3072, seeds=[0, 1])) == len(records)


def test_a_recording_replays_to_the_same_states(recorded):
    folder, records = recorded
    recording = json.loads((folder / "holdout_breakout_3072.recording").read_text())
    states = experiment.holdout(recording, n_states=50)
    asked = {r["unit"]["holdout"] for r in records if "holdout" in r["unit"]}
    assert asked == {experiment.holdout(recording).digest} != {states.digest}
    assert states.observations.shape[1:] == (4, 10, 10) and len(states.actions) == len(states.observations) <= 50
    assert states.details["seed"] == experiment.EXPERT_SEED and len(states.details["scores"]) == 8
    actions = unpack_array(recording["episodes"][0]["actions"]).copy()
    actions[0] = 2 - actions[0] // 2
    damaged = {**recording, "episodes": [{**recording["episodes"][0], "actions": pack_array(actions)}]}
    with pytest.raises(ValueError, match="replay to other states"):
        experiment.holdout(damaged)
    recording["episodes"][7]["score"] += 1
    with pytest.raises(ValueError, match=r"episode 7 of breakout scores .* when it is played again"):
        experiment.holdout(recording)
    with pytest.raises(ValueError, match="n_states must be an integer >= 1, got 0"):
        experiment.holdout(recording, n_states=0)


MORTAL = """
import os, signal, sys
from rrl.experiments.games import minatar, runs
train = runs.train
def mortal(trainer, *, after, **options):
    def then(t):
        after(t)
        if t.iteration == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    return train(trainer, after=then, every=0.0, **options)
runs.train = mortal
units = minatar.units("quick", total_steps=4096, seeds=[3], variants=["both"])
list(minatar._train(units, folder=sys.argv[1]))
"""


def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    """Killed in training after a checkpoint and resumed, the record equals that of an undisturbed run."""
    units = experiment.units("quick", total_steps=4096, seeds=[3], variants=["both"])
    killed = subprocess.run([sys.executable, "-c", MORTAL, str(tmp_path / "b")], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    checkpoint = checkpoint_path(tmp_path / "b", units)
    trainer = Trainer(
        [(3, config_of(units[0]))], lambda n: experiment.make_pool("breakout", n), architecture=experiment.ARCHITECTURE
    )
    trainer.load(checkpoint)
    assert trainer.iteration == 2
    (whole,), (resumed,) = (canonical(list(experiment._train(units, folder=tmp_path / name))) for name in ("a", "b"))
    for result, begun in ((whole, [0]), (resumed, [0, 2])):
        del result["train_seconds"], result["processor_seconds"]
        sessions = result.pop("sessions")
        assert [part["iteration"] for part in sessions] == begun
        assert all(part["started"] and part["processor"] and "commit" in part for part in sessions)
    assert resumed == whole and resumed["exact_resume"]
    assert not list((tmp_path / "b/networks").glob("checkpoint*"))


@pytest.fixture(scope="module")
def four():
    """Units that train together."""
    return experiment.units("quick", total_steps=4096, seeds=[3, 4], variants=["plain", "both"])


def _interrupted(folder, units, monkeypatch, iteration=2):
    """Train units together and stop them after an iteration, as Ctrl-C does."""
    train = experiment.runs.train

    def stopping(trainer, *, after, **options):
        def then(t):
            after(t)
            if t.iteration > iteration:  # after the checkpoint of that one
                raise KeyboardInterrupt

        return train(trainer, after=then, every=0.0, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(experiment.runs, "train", stopping)
        list(experiment._train(units, folder=folder))


def _go_on(folder, units, size, jobs=1):
    work = functools.partial(experiment._train, folder=folder)
    split = functools.partial(batches, folder=folder, size=size)
    return RunStore(folder).run(units, work, jobs=jobs, batch=split, progress=False)


def _outcomes(results):
    """What must not depend on when and where a run was stopped."""
    gone = ("train_seconds", "processor_seconds", "sessions")
    return [{key: value for key, value in result.items() if key not in gone} for result in canonical(results)]


def test_an_interrupted_batch_goes_on_as_it_began(four, tmp_path, monkeypatch):
    """Whatever number of processes or size of batches is asked for then, and when its first records are written."""
    whole = _outcomes([record["result"] for record in _go_on(tmp_path / "whole", four, 4)])
    _interrupted(tmp_path / "jobs", four, monkeypatch)
    resumed = [record["result"] for record in _go_on(tmp_path / "jobs", four, 2, jobs=2)]
    assert _outcomes(resumed) == whole
    assert all([part["iteration"] for part in result["sessions"]] == [0, 2] for result in resumed)
    # The second writer finds a full disk.
    store, results = RunStore(tmp_path / "full"), experiment._train(four, folder=tmp_path / "full")
    store.write(four[0], next(results), {})
    store.write(four[1], next(results), {})
    results.close()
    resumed = [record["result"] for record in _go_on(tmp_path / "full", four, 1)]
    assert _outcomes(resumed) == whole
    (last,) = {result["sessions"][-1]["iteration"] for result in resumed[2:]}
    assert last == 4096 // (experiment.config("breakout").n_envs * experiment.config("breakout").n_steps)
    for name in ("jobs", "full"):
        assert not list((tmp_path / name / "networks").glob("checkpoint*"))


def test_a_part_of_an_interrupted_batch_trains_alone(four, tmp_path, monkeypatch):
    """Nobody waits for runs that were not asked for; and what they had learnt stays."""
    _interrupted(tmp_path, four, monkeypatch)
    (left,) = (tmp_path / "networks").iterdir()
    assert batches(four[:1], folder=tmp_path, size=4) == [four[:1]]
    (record,) = _go_on(tmp_path, four[:1], 4)
    assert record["result"]["trained_together"] == 1 and len(record["result"]["sessions"]) == 1
    assert list((tmp_path / "networks").glob("checkpoint*")) == [left]
    # With that record the others are all that is due of it.
    assert batches(four[1:], folder=tmp_path, size=1) == [four[1:]]


def test_new_runs_train_beside_an_interrupted_batch(four, tmp_path, monkeypatch):
    _interrupted(tmp_path, four[1:3], monkeypatch)
    more = experiment.units("quick", total_steps=4096, seeds=[5], variants=["plain", "both"])
    split = batches([*more, *four[::-1]], folder=tmp_path, size=3)
    assert split == [four[1:3], [*more, four[3]], four[:1]]


@pytest.mark.parametrize(("whole", "part"), [(1, 3), (3, 1)])
def test_of_batches_that_overlap_the_one_with_more_work_done_goes_on(four, tmp_path, monkeypatch, whole, part):
    """Four runs and two of them, both stopped: of 4 iterations each had done `whole` and `part`."""
    _interrupted(tmp_path, four, monkeypatch, whole)
    _interrupted(tmp_path, four[:2], monkeypatch, part)
    split = batches(four, folder=tmp_path, size=4)
    assert split == ([four] if whole > part else [four[:2], four[2:]])


def test_one_run_does_not_go_on_with_many_that_are_recorded(four, tmp_path, monkeypatch):
    """Three iterations of four runs are more work than four of one."""
    store = RunStore(tmp_path)
    _interrupted(tmp_path, four, monkeypatch, 1)
    for unit in four[:3]:
        store.write(unit, {}, {})
    results = list(experiment._train(four[3:], folder=tmp_path))
    assert [part["iteration"] for part in results[0]["sessions"]] == [0] and results[0]["trained_together"] == 1
    store.write(four[3], results[0], {})
    assert list((tmp_path / "networks").glob("checkpoint*"))
    assert batches([], folder=tmp_path, size=1) == []
    assert not list((tmp_path / "networks").glob("checkpoint*"))


def test_what_lies_beside_checkpoints_stops_nothing(four, tmp_path, monkeypatch):
    """Damaged ones of other runs, ones that do not say what they are of, other files; old parts are removed."""
    from safetensors.numpy import save_file

    from rrl.pqn.files import save_tensors

    _interrupted(tmp_path, four[:2], monkeypatch)
    folder = tmp_path / "networks"
    (checkpoint,) = folder.iterdir()
    text = checkpoint.read_bytes()
    for name, data in {"empty": b"", "cut": text[:200], "renamed": text, "noise": bytes(range(200))}.items():
        (folder / f"checkpoint-{name}.safetensors").write_bytes(data)
    (folder / "checkpoint-folder.safetensors").mkdir()
    save_file({"x": np.zeros(1)}, folder / "checkpoint-foreign.safetensors")
    for k, label in enumerate((None, [1], "abc", {}, [{"experiment": "other"}])):
        save_tensors(folder / f"checkpoint-{k}.safetensors", {}, {"label": label, "iteration": 3})
    part = folder / ".checkpoint-a.0.part"
    part.write_bytes(b"")
    os.utime(part, (0, 0))
    split = batches(four, folder=tmp_path, size=1)
    assert split == [four[:2], four[2:3], four[3:]] and not part.exists()


def test_the_command_line_knows_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(experiment.SCALES["quick"], "total_steps", 1024)
    monkeypatch.setitem(experiment.SCALES["quick"], "n_seeds", 1)
    assert command(["run", "minatar", "--folder", str(tmp_path), "--jobs", "1"]) == 0
    assert command(["status", "--folder", str(tmp_path)]) == 0
    assert "minatar    quick  2 of 14 records" in capsys.readouterr().out
    assert command(["run", "minatar", "--folder", str(tmp_path), "--jobs", "1", "--study", "steps"]) == 0
    assert command(["status", "--folder", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "minatar, quick, study steps: 1 of 6 records are there" in out and "minatar    quick  7 of 14 records" in out
    stepped = {row["variant"] for row in table(RunStore(tmp_path).records())}
    assert {"quantised", "step / 4", "step / 2", "step x 2", "step x 4"} < stepped
    assert len(RunStore(tmp_path).records("minatar-holdout")) == 7
