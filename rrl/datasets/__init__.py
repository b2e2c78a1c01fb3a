"""Recorded data of the experiments, and generators of fresh data.

Importing this package imports numpy only; h5py is imported when a file is read.
"""

from ._cartpole.data import CartPoleData, cartpole
from ._cartpole.dynamics import cartpole_step
from ._cartpole.play import cartpole_play, cartpole_random, cartpole_replay

__all__ = [
    "CartPoleData",
    "cartpole",
    "cartpole_play",
    "cartpole_random",
    "cartpole_replay",
    "cartpole_step",
]
