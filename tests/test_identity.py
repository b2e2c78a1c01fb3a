"""The same codes on another machine: BLAS kernels, threads, memory order, streaming, precision of the input.

Floats differ in their last bits between all of these; the integers that replicability compares must not.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from identity_runs import fitted_q, moment, regression, ridge, sha, transitions

from rrl import fingerprint, hypergrid_round

SCRIPT = Path(__file__).with_name("identity_runs.py")
X86 = platform.machine().lower() in ("x86_64", "amd64")
# From vectors of 8 doubles down to 2; OpenBLAS refuses none of them on a newer processor.
KERNELS = [("Nehalem", 1), ("Nehalem", 2), ("Sandybridge", 1), ("Haswell", 1), ("Haswell", 2), ("", 2)]


def fresh(kernel, threads):
    """What the script prints in a new process."""
    own = {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"} | own
    if kernel:
        environment["OPENBLAS_CORETYPE"] = kernel
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def reference():
    return fresh("", 1)


@pytest.mark.skipif(not X86, reason="OPENBLAS_CORETYPE names x86 kernels")
@pytest.mark.parametrize(("kernel", "threads"), KERNELS)
def test_codes_do_not_depend_on_the_blas_kernel_or_the_threads(reference, kernel, threads):
    other = fresh(kernel, threads)
    codes = {name: code for name, (code, _) in reference["found"].items()}
    assert {name: code for name, (code, _) in other["found"].items()} == codes
    assert len(codes) == 15 == len(set(codes.values()))
    if kernel == "Nehalem" and reference["kernels"] != other["kernels"]:
        # Else this test could not fail: the other kernel must have been used, and must round differently.
        floats = [(reference["found"][name][1], other["found"][name][1]) for name in codes if "ridge" in name]
        assert any(one != two for one, two in floats)


WAYS = {
    "Fortran order": lambda X, y: (np.asfortranarray(X), y),
    "strided": lambda X, y: (np.repeat(X, 2, axis=1)[:, ::2], np.repeat(y, 2)[::2]),
    "float32": lambda X, y: (X.astype(np.float32), y.astype(np.float32)),
    "reversed rows": lambda X, y: (X[::-1], y[::-1]),
}


@pytest.mark.parametrize("run", [ridge, moment])
@pytest.mark.parametrize("seed", range(5))
def test_codes_do_not_depend_on_how_the_rows_come(run, seed):
    X, y = regression(seed)
    codes, floats = run(X, y)
    variants = {name: run(*way(X, y)) for name, way in WAYS.items()}
    variants |= {f"{blocks} blocks": run(X, y, blocks=blocks) for blocks in (2, 7, 1000)}
    for name, (other, _) in variants.items():
        assert fingerprint(other) == fingerprint(codes), name
    assert len({sha(floats), *(sha(other) for _, other in variants.values())}) > 1


@pytest.mark.parametrize("seed", range(3))
def test_fitted_q_takes_float32_and_its_float64_copy_alike(seed):
    now, actions, rewards, later, ends = transitions(seed)
    copies = (now.astype(np.float64), actions, rewards, later.astype(np.float64), ends)
    assert fitted_q((now, actions, rewards, later, ends)).fingerprint() == fitted_q(copies).fingerprint()
    fortran = (np.asfortranarray(now), actions, rewards, np.asfortranarray(later), ends)
    assert fitted_q(fortran).fingerprint() == fitted_q(copies).fingerprint()


@pytest.mark.parametrize("noise", [1e-9, 1e-6, 1e-4])
def test_how_rarely_noise_moves_a_code(noise):
    """A shift by s < width moves a code with probability s / width exactly: count it.

    False-alarm rate below 1e-6 for each noise: the count is binomial and lies within 5.3 standard
    deviations (plus one) of its mean.
    """
    n, width = 1_000_000, 0.1
    values = np.random.default_rng(11).uniform(-10, 10, n)
    codes = hypergrid_round(values, width, shared_seed=4).codes
    moved = hypergrid_round(values + noise, width, shared_seed=4).codes
    count, mean = int((codes != moved).sum()), n * noise / width
    assert abs(count - mean) <= 5.3 * np.sqrt(mean) + 6
    if noise == 1e-4:
        assert count > 800
