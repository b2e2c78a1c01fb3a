"""Named linear MDPs: the class methods of :class:`rrl.LinearMDP` that build one; each passes Assumption 2.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_float64, check_finite, check_fraction, check_integer, check_rng
from .counterexamples import boundary_lock, faint_path, steep_measure

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = [
    "boundary_lock",
    "chain",
    "combination_lock",
    "faint_path",
    "random",
    "river_swim",
    "simplex",
    "steep_measure",
    "tabular",
]


def tabular(cls, transitions: ArrayLike, rewards: ArrayLike, initial: ArrayLike) -> Any:
    """Any finite MDP as a linear one, with one-hot features: d = S A.

    Parameters
    ----------
    transitions : array_like, shape (H, S, A, S)
        Probabilities of the next state.
    rewards : array_like, shape (H, S, A)
        In [0, 1].
    initial : array_like, shape (S,)
        Distribution of the first state.

    Returns
    -------
    LinearMDP
        Coordinate s A + a of the features belongs to the pair (s, a).

    Examples
    --------
    >>> from rrl import LinearMDP
    >>> coin = LinearMDP.tabular([[[[0.5, 0.5]], [[0.0, 1.0]]]], [[[0.0], [1.0]]], [1.0, 0.0])
    >>> coin.dim, coin.optimal_values().start
    (2, 0.0)
    """
    rewards = as_float64("rewards", rewards)
    if rewards.ndim != 3:
        raise ValueError(f"rewards must have shape (H, S, A), got {rewards.shape}")
    horizon, n_states, n_actions = rewards.shape
    transitions = as_float64("transitions", transitions)
    if transitions.shape != (*rewards.shape, n_states):
        raise ValueError(f"transitions must have shape {(*rewards.shape, n_states)}, got {transitions.shape}")
    check_finite("rewards", rewards)
    check_finite("transitions", transitions)
    dim = n_states * n_actions
    features = np.eye(dim).reshape(n_states, n_actions, dim)
    return cls(features, transitions.reshape(horizon, dim, n_states), rewards.reshape(horizon, dim), initial)


def simplex(cls, *, n_states: int, n_actions: int, dim: int, horizon: int, rng: np.random.Generator) -> Any:
    """Random mixtures of d distributions; the first d pairs are the pure ones.

    Features lie in the probability simplex and contain its vertices, so the first d pairs are a
    core set of constant d.

    Parameters
    ----------
    n_states, n_actions, dim, horizon : int
        S, A, d, H with d <= S A.
    rng : numpy.random.Generator
        Source of the instance.

    Returns
    -------
    LinearMDP

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP
    >>> mdp = LinearMDP.simplex(n_states=4, n_actions=2, dim=3, horizon=5, rng=np.random.default_rng(0))
    >>> mdp.features.reshape(-1, 3)[:3]
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    check_rng(rng)
    check_integer(1, n_states=n_states, n_actions=n_actions, dim=dim, horizon=horizon)
    if dim > n_states * n_actions:
        raise ValueError(f"dim={dim} exceeds n_states * n_actions = {n_states * n_actions}")
    features = rng.dirichlet(np.full(dim, 0.5), size=n_states * n_actions)
    features[:dim] = np.eye(dim)
    measures = rng.dirichlet(np.full(n_states, 0.5), size=(horizon, dim))
    initial = rng.dirichlet(np.ones(n_states))
    rewards = rng.uniform(size=(horizon, dim))
    return cls(features.reshape(n_states, n_actions, dim), measures, rewards, initial)


def random(cls, *, n_states: int, n_actions: int, dim: int, horizon: int, rng: np.random.Generator) -> Any:
    """A random linear MDP with signed features: a simplex instance in rotated coordinates.

    Parameters
    ----------
    n_states, n_actions, dim, horizon : int
        S, A, d, H with d <= S A.
    rng : numpy.random.Generator
        Source of the instance.

    Returns
    -------
    LinearMDP

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP
    >>> mdp = LinearMDP.random(n_states=4, n_actions=2, dim=3, horizon=5, rng=np.random.default_rng(0))
    >>> bool((mdp.features < 0).any()), bool((mdp.transitions >= 0).all())
    (True, True)
    """
    plain = simplex(cls, n_states=n_states, n_actions=n_actions, dim=dim, horizon=horizon, rng=rng)
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return cls(plain.features @ turn.T, np.matmul(turn, plain.measures), plain.rewards @ turn.T, plain.initial)


def chain(cls, *, n_states: int, horizon: int, slip: float = 0.1) -> Any:
    """A line of states: action 0 goes left, 1 goes right, and with probability `slip` the other way.

    Staying at the far right pays 1 a step, going left at the far left pays 0.1; it starts at the left.

    Parameters
    ----------
    n_states, horizon : int
        S >= 2 and H.
    slip : float, default=0.1
        Probability that a move goes the wrong way.

    Returns
    -------
    LinearMDP
        Tabular: d = 2 S.

    Examples
    --------
    >>> from rrl import LinearMDP
    >>> LinearMDP.chain(n_states=3, horizon=4, slip=0.0).optimal_values().start
    2.0
    """
    check_integer(2, n_states=n_states)
    check_integer(1, horizon=horizon)
    check_fraction(slip=slip)
    step = np.zeros((n_states, 2, n_states))
    states = np.arange(n_states)
    for action, move in enumerate((-1, 1)):
        np.add.at(step, (states, action, np.clip(states + move, 0, n_states - 1)), 1 - slip)  # pyright: ignore[reportArgumentType]
        np.add.at(step, (states, action, np.clip(states - move, 0, n_states - 1)), slip)  # pyright: ignore[reportArgumentType]
    rewards = np.zeros((n_states, 2))
    rewards[0, 0], rewards[-1] = 0.1, 1.0
    return _stationary(cls, step, rewards, horizon)


def river_swim(cls, *, n_states: int = 6, horizon: int = 20) -> Any:
    """RiverSwim (Strehl and Littman, 2008): action 1 swims against the current, action 0 drifts.

    Drifting moves one state left and pays 0.005 at the left bank. Swimming goes right, stays or is
    carried left with probabilities 0.35, 0.6, 0.05 (0.6, 0.4 at the left bank; at the right bank it
    stays with 0.6 and pays 1).

    Parameters
    ----------
    n_states, horizon : int
        S >= 2 and H.

    Returns
    -------
    LinearMDP
        Tabular: d = 2 S.

    Examples
    --------
    >>> from rrl import LinearMDP
    >>> LinearMDP.river_swim().optimal_values().policy[0]
    array([1, 1, 1, 1, 1, 1])
    """
    check_integer(2, n_states=n_states)
    check_integer(1, horizon=horizon)
    step = np.zeros((n_states, 2, n_states))
    states = np.arange(n_states)
    step[states, 0, np.maximum(states - 1, 0)] = 1
    step[states, 1, states] = 0.6
    step[states[:-1], 1, states[:-1] + 1] = 0.35
    step[states[1:], 1, states[1:] - 1] = 0.05
    step[0, 1, :2] = 0.4, 0.6
    step[-1, 1, -2] = 0.4
    rewards = np.zeros((n_states, 2))
    rewards[0, 0], rewards[-1, 1] = 0.005, 1.0
    return _stationary(cls, step, rewards, horizon)


def combination_lock(cls, *, horizon: int, n_actions: int, slip: float = 0.1, rng: np.random.Generator) -> Any:
    """A lock of H tumblers: one action is right at each, any other jams it, and only the last pays.

    State i < H means that i tumblers are open, state H that the lock is jammed. The right action
    jams too with probability `slip`, except at the last tumbler, where it pays 1. The optimal value
    is (1 - slip)^(H - 1); a policy that never explores finds nothing.

    Parameters
    ----------
    horizon, n_actions : int
        H and A.
    slip : float, default=0.1
        Probability that the right action jams.
    rng : numpy.random.Generator
        Draws the combination.

    Returns
    -------
    LinearMDP
        Tabular, S = H + 1, d = S A.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP
    >>> lock = LinearMDP.combination_lock(horizon=3, n_actions=4, rng=np.random.default_rng(1))
    >>> round(lock.optimal_values().start, 12)
    0.81
    """
    check_rng(rng)
    check_integer(1, horizon=horizon, n_actions=n_actions)
    check_fraction(slip=slip)
    right = rng.integers(n_actions, size=horizon)
    step = np.zeros((horizon + 1, n_actions, horizon + 1))
    step[..., horizon] = 1
    opening = np.arange(horizon - 1)
    step[opening, right[:-1], horizon] = slip
    step[opening, right[:-1], opening + 1] = 1 - slip
    rewards = np.zeros((horizon + 1, n_actions))
    rewards[horizon - 1, right[-1]] = 1.0
    return _stationary(cls, step, rewards, horizon)


def _stationary(cls, step, rewards, horizon):
    """A tabular MDP with the same step at every stage, started in state 0."""
    initial = np.eye(len(step))[0]
    return tabular(cls, np.repeat(step[None], horizon, axis=0), np.repeat(rewards[None], horizon, axis=0), initial)
