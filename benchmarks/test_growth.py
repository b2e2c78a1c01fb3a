"""How the time grows: the exponent of each size, fitted to the processor times of several sizes."""

import numpy as np
from conftest import side_by_side

from rrl import LinearMDP, ReplicableRidge, g_optimal_design, r_lsvi, r_lsvi_ucb


def rounds_of(mdp, n_rounds):
    settings = {"beta": 0.5, "penalty": 1.0, "bin_widths": (0.1, 0.05), "shared_seed": 0, "n_trajectories": 100}
    return lambda: r_lsvi_ucb(mdp, n_rounds=n_rounds, by="counts", rng=np.random.default_rng(1), **settings)


def random_mdp(n_states):
    return LinearMDP.random(n_states=n_states, n_actions=5, dim=10, horizon=5, rng=np.random.default_rng(0))


def planned(n_states):
    mdp = random_mdp(n_states)
    core = g_optimal_design(mdp.features)
    settings = {"n_samples": 10**6, "penalty": 1e-3, "bin_width": 0.05, "shared_seed": 1}
    return lambda: r_lsvi(mdp, core, rng=np.random.default_rng(0), **settings)


def fitted(n, d):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(n, d)), rng.uniform(-1, 1, n)
    return lambda: ReplicableRidge(bin_width=0.1).fit(X, y)


def test_growth(benchmark, compare):
    middle = random_mdp(50)
    series = {
        "ridge in n (d = 32)": {n: fitted(n, 32) for n in (25_000, 50_000, 100_000, 200_000)},
        "ridge in d (n = 50,000)": {d: fitted(50_000, d) for d in (32, 64, 128, 256)},
        "R-LSVI in S (d = 10, H = 5)": {s: planned(s) for s in (100, 200, 400, 800)},
        "R-LSVI-UCB in S (T = 20)": {s: rounds_of(random_mdp(s), 20) for s in (50, 100, 200, 400)},
        "R-LSVI-UCB in T (S = 50)": {t: rounds_of(middle, t) for t in (20, 40, 80, 160)},
    }
    for name, sizes in series.items():
        times = side_by_side(list(sizes.values()), 2)
        slope = np.polyfit(np.log(list(sizes)), np.log(times), 1)[0]
        compare.rows.append({"what": name, "sizes": list(sizes), "times": times, "exponent": slope})
        print(f"\n{name}: exponent {slope:.2f}")
    benchmark.pedantic(rounds_of(middle, 20), rounds=1)
