"""Recorded data of the experiments, generators of fresh data, and transitions of Minari and d3rlpy.

Importing this package imports numpy only; h5py is imported when a file is read.
"""

from ._cartpole.data import CartPoleData, cartpole
from ._cartpole.dynamics import cartpole_step
from ._cartpole.play import cartpole_play, cartpole_random, cartpole_replay
from .offline import Transitions, transitions

__all__ = [
    "CartPoleData",
    "Transitions",
    "cartpole",
    "cartpole_play",
    "cartpole_random",
    "cartpole_replay",
    "cartpole_step",
    "transitions",
]
