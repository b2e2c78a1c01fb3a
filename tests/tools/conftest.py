"""Shared by the tests of the tools: a small repository with notebooks."""

import os
from pathlib import Path

import pytest
from run_notebooks import write_atomic

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Make a repository with a package of one constant and recorded results; this checkout's package comes after it."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    for name, text in {
        "rrl/constant.py": "value = 1\n",
        "book/results/run.json": "{}\n",
        "requirements.lock": "",
    }.items():
        write_atomic(tmp_path / name, text)
    (tmp_path / "notebooks").mkdir()
    return tmp_path
