"""MinAtar: the pool beside the package that made the games, and training as `rrl run minatar --jobs 1` batches it."""

import functools

import numpy as np
import pytest
from conftest import seconds, side_by_side

from rrl.experiments.games import minatar
from rrl.experiments.games.runs import VARIANTS
from rrl.experiments.workers import keep_freed_memory
from rrl.pqn.train import Trainer


def test_minatar_pool(benchmark, compare):
    package = pytest.importorskip("minatar")
    for game in minatar.GAMES:
        pool, env = minatar.make_pool(game, 128), package.Environment(game)
        env.seed(0)
        pool.reset(np.arange(128))
        actions = np.random.default_rng(0).integers(pool.n_actions, size=(200, 128))
        minimal = env.minimal_action_set()

        def ours(pool=pool, actions=actions):
            for row in actions:
                pool.step(row)

        def peer(env=env, actions=actions, minimal=minimal):
            for a in actions.ravel()[:2000]:
                if env.act(minimal[a])[1]:
                    env.reset()
                env.state()

        own, other = side_by_side([ours, peer], 3)
        row = {"what": f"{game}: one step", "seconds": own / actions.size, "peer": "the minatar package"}
        compare.rows.append(row | {"peer_seconds": other / 2000, "goal": None})
    benchmark.pedantic(ours, rounds=1)


def test_minatar_training(benchmark, compare):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    keep_freed_memory()  # as every worker of `rrl run` does
    for game in minatar.GAMES:
        runs = [(seed, minatar.config(game, v)) for seed in range(minatar.SEEDS_TOGETHER) for v in VARIANTS]
        trainer = Trainer(runs, functools.partial(minatar.make_pool, game), architecture=minatar.ARCHITECTURE)
        trainer.iterate()  # compile
        took = min(seconds(trainer.iterate) for _ in range(5))
        speed = trainer.config.n_envs * trainer.config.n_steps * len(runs) / took
        name = game.replace("_", " ").title()
        compare.rows.append({"what": f"PQN on {name}, {len(runs)} runs together", "run_steps_a_second": speed})
    benchmark.pedantic(trainer.iterate, rounds=1)
