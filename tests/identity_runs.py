"""Run every replicable algorithm of rrl, print the fingerprints of its codes and of its floats as JSON.

Run in a fresh process for each BLAS kernel and number of threads: see test_identity.py.
"""

import hashlib
import json
import sys

import numpy as np

from rrl import (
    LinearMDP,
    RandomFourierFeatures,
    ReplicableFittedQ,
    ReplicableRidge,
    ReplicableSecondMoment,
    fingerprint,
    g_optimal_design,
    r_lsvi,
    r_lsvi_ucb,
)


def sha(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def regression(seed, d=24, n=6_000):
    """Rows that float32 holds exactly, so that a float32 copy is the same data."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32).astype(np.float64)
    y = (X @ rng.normal(size=d) + rng.normal(size=n)).astype(np.float32).astype(np.float64)
    return X, y


def ridge(X, y, blocks=None):
    model = ReplicableRidge(penalty=0.01, bin_width=0.05, shared_seed=3)
    if blocks is None:
        model.fit(X, y)
    else:
        for part in np.array_split(np.arange(len(X)), blocks):
            model.partial_fit(X[part], y[part])
    return model.codes_, model.unrounded_coef_


def moment(X, _, blocks=None):
    model = ReplicableSecondMoment(bin_width=0.01, shared_seed=3)
    if blocks is None:
        model.fit(X)
    else:
        for part in np.array_split(np.arange(len(X)), blocks):
            model.partial_fit(X[part])
    return model.codes_, model.unrounded_second_moment_


def transitions(seed, n=2_000):
    rng = np.random.default_rng(seed)
    now = rng.normal(size=(n, 4)).astype(np.float32)
    later = rng.normal(size=(n, 4)).astype(np.float32)
    return now, rng.integers(2, size=n), rng.normal(size=n), later, rng.random(n) < 0.1


def fitted_q(data):
    features = RandomFourierFeatures(n_features=16, shared_seed=5).fit(np.zeros((1, 4)))
    model = ReplicableFittedQ(features, 2, n_rounds=4, penalty=0.1, bin_width=0.05, shared_seed=3).fit(*data)
    return model


def main():
    found = {}
    for seed in range(3):
        X, y = regression(seed)
        for name, run in (("ridge", ridge), ("moment", moment)):
            codes, floats = run(X, y)
            found[f"{name} {seed}"] = fingerprint(codes), sha(floats)
        found[f"fitted Q {seed}"] = fitted_q(transitions(seed)).fingerprint(), ""
        mdp = LinearMDP.random(n_states=30, n_actions=5, dim=18, horizon=6, rng=np.random.default_rng(seed))
        settings = {"n_samples": 10**6, "penalty": 1e-5, "bin_width": 0.05, "shared_seed": 1}
        one = r_lsvi(mdp, g_optimal_design(mdp.features), rng=np.random.default_rng(seed), **settings)
        settings = {
            "n_rounds": 6,
            "n_trajectories": 10**6,
            "beta": 0.3,
            "penalty": 0.1,
            "bin_widths": (0.05, 0.01),
            "shared_seed": 1,
        }
        two = r_lsvi_ucb(mdp, rng=np.random.default_rng(seed), **settings)
        found[f"R-LSVI {seed}"], found[f"R-LSVI-UCB {seed}"] = (one.fingerprint(), ""), (two.fingerprint(), "")
    from threadpoolctl import threadpool_info

    kernels = {info.get("architecture") for info in threadpool_info() if info["user_api"] == "blas"}
    json.dump({"found": found, "kernels": sorted(map(str, kernels))}, sys.stdout)


if __name__ == "__main__":
    main()
