"""Shared by the tests of the tools: a small repository with notebooks."""

import pytest
from run_notebooks import write_atomic


@pytest.fixture
def tree(tmp_path):
    """Make a repository with a package of one constant and recorded results."""
    for name, text in {
        "rrl/constant.py": "value = 1\n",
        "book/results/run.json": "{}\n",
        "requirements.lock": "",
    }.items():
        write_atomic(tmp_path / name, text)
    (tmp_path / "notebooks").mkdir()
    return tmp_path
