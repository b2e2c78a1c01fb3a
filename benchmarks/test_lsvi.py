"""Speed of R-LSVI and R-LSVI-UCB at the sizes that their issue sets as goals, beside a plain implementation.

Run with ``OMP_NUM_THREADS=1 python -m pytest benchmarks/test_lsvi.py``. Times are of the processor, not of
the clock on the wall, so that other work on the machine counts little; each goal is asserted on the fastest round.
"""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from rrl import LinearMDP, g_optimal_design, r_lsvi, r_lsvi_ucb

pytestmark = pytest.mark.benchmark(timer=time.process_time)

PLAIN = {"n_rounds": 1000, "n_trajectories": 1, "beta": 0.5, "penalty": 1.0, "bin_widths": None, "shared_seed": 0}


@pytest.fixture(scope="module")
def middle():
    return LinearMDP.random(n_states=50, n_actions=5, dim=10, horizon=5, rng=np.random.default_rng(0))


def textbook(mdp, n_rounds, beta, penalty, rng):
    """LSVI-UCB as published: every episode solves each stage's ridge regression over all rows seen."""
    H, d = mdp.horizon, mdp.dim
    X, r, following = np.zeros((H, n_rounds, d)), np.zeros((H, n_rounds)), np.zeros((H, n_rounds), dtype=int)
    policies = np.zeros((n_rounds, H, mdp.n_states), dtype=int)
    for k in range(n_rounds):
        value = np.zeros(mdp.n_states)
        for h in reversed(range(H)):
            rows = X[h, :k]
            gram = rows.T @ rows + penalty * np.eye(d)
            w = np.linalg.solve(gram, rows.T @ (r[h, :k] + value[following[h, :k]]))
            spread = np.einsum("sad,de,sae->sa", mdp.features, np.linalg.inv(gram), mdp.features, optimize=True)
            q = np.minimum(H, mdp.features @ w + beta * np.sqrt(spread))
            value = np.maximum(q.max(axis=1), 0)
            policies[k, h] = (q >= q.max(axis=1, keepdims=True) - 1e-9).argmax(axis=1)
        s = mdp.sample_start(1, rng)[0]
        for h in range(H):
            a = policies[k, h, s]
            X[h, k], r[h, k] = mdp.features[s, a], mdp.rewards_table[h, s, a]
            s = following[h, k] = mdp.sample(h, s, a, rng)
    return policies


def test_plain_lsvi_ucb_textbook(benchmark, middle):
    policies = benchmark(lambda: textbook(middle, 1000, 0.5, 1.0, np.random.default_rng(1)))
    # The peer computes the same thing.
    assert np.array_equal(policies, r_lsvi_ucb(middle, rng=np.random.default_rng(1), **PLAIN).policies)


def test_plain_lsvi_ucb_beside_the_textbook(benchmark, compare, middle):
    def ours(engine):
        return lambda: r_lsvi_ucb(middle, rng=np.random.default_rng(1), engine=engine, **PLAIN)

    peer = {"the textbook loop in NumPy": (lambda: textbook(middle, 1000, 0.5, 1.0, np.random.default_rng(1)), None)}
    for engine in ("numpy", "numba"):
        compare(f"LSVI-UCB, 1,000 episodes, {engine}", ours(engine), peer, rounds=2)
    benchmark.pedantic(ours("numpy"), rounds=1)


def test_plain_lsvi_ucb_rlberry(benchmark, middle):
    """A tenth of the episodes: its work grows with their square. It pools one Gram matrix over the stages."""
    agent = pytest.importorskip("rlberry_scool.agents.linear.lsvi_ucb").LSVIUCBAgent
    env = middle.as_gymnasium()
    env.reward_range = 0.0, 1.0
    env.reset(seed=1)
    features = SimpleNamespace(shape=(10,), map=lambda s, a: middle.features[s, a])
    settings = {"horizon": 5, "gamma": 1.0, "bonus_scale_factor": 0.5, "reg_factor": 1.0}
    benchmark.pedantic(lambda: agent(env, feature_map_fn=lambda _: features, **settings).fit(100), rounds=1)


@pytest.mark.parametrize(("engine", "goal"), [("numpy", 0.35), ("numba", 0.05)])
def test_plain_lsvi_ucb(benchmark, middle, engine, goal):
    if engine == "numba":
        pytest.importorskip("numba")
    r_lsvi_ucb(middle, rng=np.random.default_rng(1), engine=engine, **PLAIN)
    result = benchmark(lambda: r_lsvi_ucb(middle, rng=np.random.default_rng(1), engine=engine, **PLAIN))
    assert np.array_equal(result.policies, r_lsvi_ucb(middle, rng=np.random.default_rng(1), **PLAIN).policies)
    assert benchmark.stats.stats.min <= goal


def test_r_lsvi_at_nine_quintillion_samples(benchmark):
    mdp = LinearMDP.random(n_states=20, n_actions=4, dim=3, horizon=3, rng=np.random.default_rng(0))
    core = g_optimal_design(mdp.features)
    settings = {"n_samples": 9 * 10**18, "penalty": 1e-6, "bin_width": 0.05, "shared_seed": 1}
    benchmark(lambda: r_lsvi(mdp, core, rng=np.random.default_rng(0), **settings))
    assert benchmark.stats.stats.min <= 0.02


@pytest.mark.parametrize("size", [10**3, 10**6, 10**12, 9 * 10**18, 1e60])
def test_r_lsvi_ucb_from_counts_at_any_size(benchmark, size):
    mdp = LinearMDP.random(n_states=100, n_actions=5, dim=10, horizon=10, rng=np.random.default_rng(0))
    settings = {"n_rounds": 100, "beta": 0.5, "penalty": 0.1, "bin_widths": (0.1, 0.05), "shared_seed": 0}
    benchmark.pedantic(
        lambda: r_lsvi_ucb(mdp, n_trajectories=size, by="counts", rng=np.random.default_rng(1), **settings), rounds=3
    )
    assert benchmark.stats.stats.min <= 2.0
