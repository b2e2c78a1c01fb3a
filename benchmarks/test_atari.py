"""Atari: training in bfloat16 beside float32, one run in one process, as `rrl run atari --scale full` does."""

import functools

import pytest
from conftest import side_by_side

from rrl.experiments.games import atari
from rrl.experiments.workers import keep_freed_memory
from rrl.pqn.mixed import has_bfloat16
from rrl.pqn.train import Trainer


def test_atari_training(benchmark, compare):
    torch = pytest.importorskip("torch")
    pytest.importorskip("ale_py")
    if not has_bfloat16():
        pytest.skip("this processor has no bfloat16 products")
    torch.set_num_threads(1)
    keep_freed_memory()  # as every worker of `rrl run` does
    for game, name in (("mspacman", "MsPacman"), ("breakout", "Breakout")):
        pair = []
        for precision in ("bfloat16", "float32"):
            settings = atari.config(game, "both", 500_000, precision)
            pair.append(Trainer([(0, settings)], functools.partial(atari.make_pool, game, n_threads=1)))
        for trainer in pair:
            trainer.iterate()
        steps = settings.n_envs * settings.n_steps
        fast, slow = (took / steps for took in side_by_side([trainer.iterate for trainer in pair], 4))
        row = {"what": f"PQN on {name} in bfloat16: one run-step", "seconds": fast, "peer": "float32"}
        compare.rows.append(row | {"peer_seconds": slow, "goal": 0.6})
        for precision, took in (("bfloat16", fast), ("float32", slow)):
            compare.rows.append({"what": f"PQN on {name}, one run in {precision}", "run_steps_a_second": 1 / took})
    benchmark.pedantic(pair[0].iterate, rounds=1)
