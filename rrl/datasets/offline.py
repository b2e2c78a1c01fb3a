"""Transitions of recorded episodes, from Minari and d3rlpy, as fitted Q-iteration takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rrl._checks import as_flags, as_float64

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Transitions", "transitions"]


class Transitions(NamedTuple):
    """What `ReplicableFittedQ.fit` takes, in its order.

    Attributes
    ----------
    observations, next_observations : ndarray, shape (n, n_inputs)
        After a real end the next observation is what was recorded, or zeros: nobody reads it.
    actions : ndarray of int64, shape (n,)
    rewards : ndarray of float64, shape (n,)
    terminals : ndarray of bool, shape (n,)
        True where the episode really ended; False where it was cut.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    next_observations: np.ndarray
    terminals: np.ndarray


def transitions(data: Any) -> Transitions:
    """Single steps of a data set of episodes with discrete actions.

    Minari keeps the observation after the last action, d3rlpy and :func:`rrl.datasets.cartpole` do not: of an episode
    that was cut, its last step is left out there, because the value after it is not known.

    Parameters
    ----------
    data : minari.MinariDataset, d3rlpy.dataset.ReplayBuffer, CartPoleData or iterable of episodes
        As ``minari.load_dataset``, ``d3rlpy.dataset.MDPDataset`` or :func:`rrl.datasets.cartpole` give them; or
        episodes of Minari or d3rlpy, such as a part of them. d3rlpy's pickers, which stack frames or steps, are not
        applied.

    Returns
    -------
    Transitions
        ``q.fit(*transitions(data))`` fits a :class:`rrl.ReplicableFittedQ`.

    Raises
    ------
    TypeError
        If `data` is nothing of that.
    ValueError
        If there is no step, or an episode holds no vectors of numbers, no discrete actions or columns that do not
        fit; the message names it.

    Examples
    --------
    >>> from rrl import RandomFourierFeatures, ReplicableFittedQ
    >>> from rrl.datasets import cartpole, transitions
    >>> rows = transitions(cartpole(source="standin"))
    >>> rows.observations.shape[1], rows.terminals.dtype
    (4, dtype('bool'))
    >>> q = ReplicableFittedQ(RandomFourierFeatures(8), 2).fit(*rows)
    >>> q.codes_.shape
    (2, 8)
    """
    if hasattr(data, "usable_rows"):
        rows = data.usable_rows()
        return Transitions(*(getattr(rows, name) for name in Transitions._fields))
    if hasattr(data, "iterate_episodes"):
        data = data.iterate_episodes()
    elif hasattr(data, "episodes"):
        data = data.episodes
    elif not np.iterable(data) or isinstance(data, (str, bytes, dict, np.ndarray)):
        raise TypeError(f"data must be a data set of Minari or d3rlpy, or episodes of one, got {data!r:.100}")
    parts = [_steps(number, episode) for number, episode in enumerate(data)]
    if not sum(len(part.actions) for part in parts):
        raise ValueError("data hold no step")
    widths = {part.observations.shape[1] for part in parts}
    if len(widths) > 1:
        raise ValueError(f"episodes must have observations of one length, got {sorted(widths)}")
    return Transitions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _steps(number, episode):
    """The steps of one episode."""
    name = f"episode {number}"
    if not all(hasattr(episode, column) for column in ("observations", "actions", "rewards")):
        raise TypeError(f"data must hold episodes of Minari or d3rlpy, {name} is {episode!r:.100}")
    seen = _vectors(f"observations of {name}", episode.observations)
    actions = _column(f"actions of {name}", episode.actions)
    rewards = _column(f"rewards of {name}", episode.rewards)
    if np.asarray(episode.actions).dtype.kind not in "iu":
        raise ValueError(f"actions of {name} must be discrete, got dtype {np.asarray(episode.actions).dtype}")
    if hasattr(episode, "terminations"):
        ends = as_flags(f"terminations of {name}", episode.terminations)
    elif episode.terminated:
        ends, seen = np.arange(len(actions)) == len(actions) - 1, np.concatenate([seen, np.zeros_like(seen[:1])])
    else:
        actions, rewards = actions[:-1], rewards[:-1]
        ends = np.zeros(len(actions), dtype=bool)
    lengths = len(seen) - 1, len(actions), len(rewards), len(ends)
    if len(set(lengths)) > 1:
        raise ValueError(f"{name} has {lengths[0]} steps of observations, {lengths[1:]} of actions, rewards and ends")
    return Transitions(seen[:-1], actions.astype(np.int64), rewards, seen[1:], ends)


def _vectors(name, values):
    """Observations as rows; the numbers of a Discrete space are a column."""
    if isinstance(values, (dict, tuple, list)):
        raise ValueError(f"{name} must be one array of vectors, got a {type(values).__name__}")
    values = np.asarray(values)
    as_float64(name, values)
    if values.ndim not in (1, 2) or not len(values):
        raise ValueError(f"{name} must have shape (n, n_inputs), got {values.shape}")
    return values.reshape(len(values), -1)


def _column(name, values):
    """One number a step: d3rlpy has columns of shape (n, 1)."""
    values = as_float64(name, values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} must be one number a step, got shape {values.shape}")
    return values
