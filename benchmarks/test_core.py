"""Ridge, second moment, rounding and the import, each beside its peer or the limit that the machine sets."""

import resource
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from sklearn.covariance import EmpiricalCovariance
from sklearn.linear_model import Ridge

from rrl import ReplicableRidge, ReplicableSecondMoment, hypergrid_round
from rrl._estimators import BLOCK_ENTRIES
from rrl.randomness import shared_uniform

ROWS = 10**6


def peak(function):
    """Most bytes that a call held at once, beyond what was there before."""
    tracemalloc.start()
    function()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("d", [32, 128])
def test_ridge_and_second_moment(benchmark, compare, d, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(ROWS, d)) / np.sqrt(d)
    y = X @ rng.uniform(-1, 1, d)
    ridge = ReplicableRidge(penalty=0.1, bin_width=0.01)
    moment = ReplicableSecondMoment(bin_width=0.01)
    size = f"n = {ROWS:,}, d = {d}"
    compare(
        f"ridge, {size}",
        lambda: ridge.fit(X, y),
        {
            "X.T @ X": (lambda: X.T @ X, 1.15),
            "X.T @ X and X.T @ y": (lambda: (X.T @ X, X.T @ y), None),
            'scikit-learn Ridge(solver="cholesky")': (
                lambda: Ridge(alpha=0.1 * ROWS, fit_intercept=False, solver="cholesky").fit(X, y),
                None,
            ),
        },
        rounds=3,
    )
    compare(
        f"second moment, {size}",
        lambda: moment.fit(X),
        {
            "X.T @ X": (lambda: X.T @ X, 1.1),
            "scikit-learn EmpiricalCovariance": (
                lambda: EmpiricalCovariance(assume_centered=True, store_precision=False).fit(X),
                None,
            ),
        },
        rounds=3,
    )
    # Memory: a few d x d matrices and a block, also from a file that is larger than a block and of another type.
    allowed = 8 * (20 * d * d + 4 * BLOCK_ENTRIES)
    np.save(tmp_path / "x.npy", X[:: 20 if d == 128 else 5].astype(np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r", allow_pickle=False)
    labels = y[:: 20 if d == 128 else 5]
    assert mapped.size > 10 * BLOCK_ENTRIES
    for what, function in {
        f"ridge, {size}": lambda: ridge.fit(X, y),
        f"second moment, {size}": lambda: moment.fit(X),
        f"ridge, a mapped float32 file of {mapped.nbytes / 1e6:.0f} MB, d = {d}": lambda: ridge.fit(mapped, labels),
        f"second moment, a mapped float32 file of {mapped.nbytes / 1e6:.0f} MB, d = {d}": lambda: moment.fit(mapped),
    }.items():
        compare.rows.append({"what": what, "peak_bytes": peak(function)})
        assert compare.rows[-1]["peak_bytes"] <= allowed
    benchmark.pedantic(lambda: ridge.fit(X, y), rounds=1)


@pytest.mark.parametrize("n", [10**6, 10**8])
def test_rounding(benchmark, compare, n):
    a = np.random.default_rng(0).normal(size=n)
    compare(
        f"rounding, {n:,} entries",
        lambda: hypergrid_round(a, 0.1, shared_seed=0),
        {
            "a memory copy": (a.copy, 3),
            "the raw random words alone": (lambda: np.random.Philox(0).random_raw(n), None),
            "the shared offsets alone": (lambda: shared_uniform(0, (), n), None),
        },
        rounds=5 if n < 10**7 else 2,
    )
    benchmark.pedantic(lambda: hypergrid_round(a, 0.1, shared_seed=0), rounds=1)


def child(code, *options):
    """Processor time of a fresh interpreter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *options, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_import(benchmark, compare, tmp_path):
    """Cold: no compiled byte code of any package lies on the disk."""
    pairs = {"import rrl": "import numpy", "from rrl import ReplicableRidge": "from sklearn.linear_model import Ridge"}
    for state, options, rounds in [
        ("cold", ["-B", "-X", f"pycache_prefix={tmp_path / 'none'}"], 1),
        ("warm", [], 4),
    ]:
        for code, peer in pairs.items():
            own, other = np.min([[child(code, *options), child(peer, *options)] for _ in range(rounds)], axis=0)
            row = {"what": f"{code}, {state}", "seconds": own, "peer": f"{peer}, {state}", "peer_seconds": other}
            compare.rows.append(row | {"goal": None})
    benchmark.pedantic(lambda: child("import rrl"), rounds=1)
