"""The recipe of the CartPole stand-in, on a run of some seconds."""

import json

import numpy as np
import pytest

from rrl.datasets import cartpole
from rrl.datasets._cartpole.data import standin_record
from rrl.experiments.cartpole import standin

pytest.importorskip("d3rlpy")
SMALL = standin.SETTINGS | {"n_steps": 1200, "max_episode_steps": 20, "epsilon_steps": 400, "n_snapshots": 4}


def digests(folder, *arguments):
    """SHA-256 of the files that a run writes."""
    assert standin.main(["--out", str(folder), *arguments], SMALL) == 0
    return json.loads((folder / "cartpole_standin.json").read_text())["sha256"]


def test_a_recording_is_what_its_record_says_and_is_made_again_by_its_seed(tmp_path):
    made = digests(tmp_path / "a")
    assert digests(tmp_path / "b") == made and digests(tmp_path / "c", "--seed", "1") != made
    record = json.loads((tmp_path / "a" / "cartpole_standin.json").read_text())
    data = cartpole(path=tmp_path / "a" / "cartpole_standin.npz")
    assert record.keys() == standin_record().keys()
    counts = len(data), data.n_episodes, data.terminals.sum()
    assert counts == (record["rows"], record["episodes"], record["failures"])
    assert data.timeouts.sum() == record["time_limits"] > 0 and data.sha256 == made["cartpole_standin.npz"]
    assert {c: v for c, v in data.provenance["loader"].items() if v} == {"rows_read": record["rows"]}
    with np.load(tmp_path / "a" / "cartpole_behaviour.npz") as networks:
        assert networks["basis"].shape == (4, 32, 256) and networks["w1"].shape == (4, 256, 4)
    assert min(record["snapshot_greedy_agreement"]) > 0.9


def test_without_a_bottleneck_a_network_plays_as_before():
    rng = np.random.default_rng(0)
    whole = [rng.normal(size=shape) for shape in ((64, 4), 64, (64, 64), 64, (2, 64), 2)]
    states = rng.normal(size=(500, 4))
    # Of 500 states few lie where float16 tells two values apart otherwise.
    assert standin.narrow(whole, states, 64)[1] > 0.98 > standin.narrow(whole, states, 2)[1]
