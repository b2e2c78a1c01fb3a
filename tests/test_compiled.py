"""The engines' compiler where nothing can be kept on disk, and without compiling."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

MODULE = """
from rrl._compiled import njit

@njit()
def double(x):
    return 2 * x
"""
GAMES = """
import hashlib, warnings, numpy as np
from rrl.pqn.minatar import GAMES, MinAtarPool
warnings.simplefilter("error")
for game in GAMES:
    pool, digest, rng = MinAtarPool(game, 8), hashlib.sha256(), np.random.default_rng(0)
    digest.update(pool.reset(range(8)).tobytes())
    for _ in range(300):
        step = pool.step(rng.integers(pool.n_actions, size=8))
        digest.update(step.observation.tobytes() + step.reward.tobytes() + step.ended.tobytes())
    print(game, digest.hexdigest(), *pool.state()["random"])
"""


def python(code, folder=None, **environment):
    path = os.pathsep.join([str(folder), *sys.path]) if folder else os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_no_folder_for_the_cache_is_no_obstacle(tmp_path):
    """As in a container with a read-only package and no home: files lie where numba would make its folders."""
    (tmp_path / "own.py").write_text(MODULE)
    (tmp_path / "__pycache__").touch()
    nowhere = {name: str(tmp_path / "own.py" / "x") for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    plain = (
        "import numba, own\n"
        "try:\n    numba.njit(cache=True)(own.double.py_func)\n"
        "except RuntimeError as e:\n    print(e)"
    )
    assert "cannot cache function" in python(plain, tmp_path, **nowhere)
    assert python("import own; print(own.double(21))", tmp_path, **nowhere) == "42\n"


def test_the_cache_is_used_where_there_is_a_place(tmp_path):
    (tmp_path / "own.py").write_text(MODULE)
    python("import own; own.double(21)", tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kept"))
    assert list((tmp_path / "kept").rglob("*.nbi"))


def test_games_without_compiling_are_the_same_games():
    played = python(GAMES, NUMBA_DISABLE_JIT="0")
    assert len(played.splitlines()) == 3 and python(GAMES, NUMBA_DISABLE_JIT="1") == played
