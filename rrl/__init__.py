"""rrl: replicable reinforcement learning with linear function approximation.

The algorithms of the paper of that name, the measuring of replicability, and its experiments. Every
name is imported when it is first used, so that ``import rrl`` costs nothing and needs nothing more
than the part in use. In the order of the paper:

- ``randomness``, ``rounding``, ``lattice``: the shared random string, Algorithm 1 and a better grid for it;
- ``ridge``, ``core_set``, ``second_moment``: Algorithm 2, Definition 3.1, Algorithm 3; ``scaling``: columns before it;
- ``mdp``: Definition 2.1, the model, its instances, draws and counts;
- ``generative``, ``lsvi``, ``lsvi_ucb``: Algorithms 4 and 5;
- ``features``, ``fitted_q``, ``pqn``: the methods of Section 6;
- ``pairs``, ``replicability``, ``evidence``, ``certify``, ``law``, ``choosing``, ``pilot``: measuring, certifying,
  choosing bins, for any algorithm; ``programs``, ``statement``, ``testing``: for programs, for print, for test suites;
- ``theory``: every formula, with its constants;
- ``datasets``, ``experiments``: loaders, the run store, the command line, Figures 1 and 2;
- ``book``: what only the book's pages use.
"""

import ast
from importlib import import_module
from pathlib import Path

__version__ = "0.2.0"

# The stub is what editors and type checkers read: the one list of names and their modules.
_IMPORTS = [
    node
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
]
_HOME = {alias.name: node.module for node in _IMPORTS for alias in node.names}

__all__ = sorted([*(name for name, home in _HOME.items() if home), "theory"])


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    value = getattr(import_module(f"{__name__}.{home}"), name) if home else import_module(f"{__name__}.{name}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOME})
