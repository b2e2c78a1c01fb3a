"""Rounding to the lattice beside the grid, a vector at a time and in batches."""

import numpy as np
import pytest

from rrl import hypergrid_round, lattice_round


@pytest.mark.parametrize("d", [8, 64])
def test_lattice(benchmark, compare, d):
    rng = np.random.default_rng(0)
    one, many = rng.normal(size=d), rng.normal(size=(10**6 // d, d))
    compare(
        f"rounding 200 vectors to the lattice one by one, d = {d}",
        lambda: [lattice_round(one, 0.1, shared_seed=0) for _ in range(200)],
        {"the grid": (lambda: [hypergrid_round(one, 0.1, shared_seed=0) for _ in range(200)], 4)},
    )
    compare(
        f"rounding {len(many):,} vectors to the lattice at once, d = {d}",
        lambda: lattice_round(many, 0.1, shared_seed=0),
        {
            "the grid": (lambda: hypergrid_round(many, 0.1, shared_seed=0), None),
            "sorting them": (lambda: np.argsort(many, axis=-1, kind="stable"), None),
        },
    )
    benchmark.pedantic(lambda: lattice_round(many, 0.1, shared_seed=0), rounds=1)
