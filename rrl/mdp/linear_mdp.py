"""Definition 2.1: finite linear Markov decision processes, exact values, sampling by draw and by count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_float64, check_finite, check_index, check_integer, check_rng, check_unmasked
from .._extras import missing
from . import instances
from .counts import as_counts, cumulative, invert_cumulative, multinomial_counts
from .definition import TOLERANCE, checked_tables, refuse

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = ["LinearMDP", "Values", "greedy_actions"]


def greedy_actions(q: ArrayLike) -> np.ndarray:
    """Greedy actions; ties go to the smallest index.

    Values within 1e-9 of the largest count as tied: numbers that are equal in theory but came out
    apart in their last bits then give the same action on every machine.

    Parameters
    ----------
    q : array_like, shape (..., A)
        Action values.

    Returns
    -------
    ndarray of int, shape (...)

    Examples
    --------
    >>> from rrl.mdp import greedy_actions
    >>> greedy_actions([[0.3, 0.1 + 0.2], [0.0, 1.0]])
    array([0, 1])
    """
    q = np.asarray(q)
    return (q >= q.max(axis=-1, keepdims=True) - 1e-9).argmax(axis=-1)


@dataclass(frozen=True, eq=False)
class Values:
    """Exact values of a policy.

    Attributes
    ----------
    q : ndarray, shape (H, S, A)
        Action values.
    v : ndarray, shape (H + 1, S)
        State values; the last row is 0.
    policy : ndarray
        The policy: int (H, S), or (H, S, A) where it is stochastic.
    start : float
        Expected value of the initial state.
    """

    q: np.ndarray
    v: np.ndarray
    policy: np.ndarray
    start: float


class LinearMDP:
    """A finite linear MDP (Definition 2.1), checked against Assumption 2.1.

    Stages are h = 0, ..., H - 1. The reward of (s, a) at stage h is features[s, a] @ rewards[h], the
    probability of the next state s' is features[s, a] @ measures[h, :, s'].

    Parameters
    ----------
    features : array_like, shape (S, A, d)
        The map phi, norms at most 1.
    measures : array_like, shape (H, d, S)
        The signed measures mu_h, with norm(mu_h(all states)) <= sqrt(d).
    rewards : array_like, shape (H, d)
        The vectors theta_h, norms at most sqrt(d), rewards in [0, 1].
    initial : array_like, shape (S,)
        Distribution q of the first state.

    Attributes
    ----------
    features, measures, rewards, initial : ndarray
        As given, float64, read-only.
    transitions : ndarray, shape (H, S, A, S)
        Transition probabilities.
    rewards_table : ndarray, shape (H, S, A)
        Rewards.
    n_states, n_actions, dim, horizon : int
        S, A, d, H.

    Raises
    ------
    ValueError
        Naming the stage and the entry that breaks the definition or the assumption.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP
    >>> mdp = LinearMDP.random(n_states=7, n_actions=3, dim=4, horizon=5, rng=np.random.default_rng(0))
    >>> mdp.transitions.shape
    (5, 7, 3, 7)
    >>> best = mdp.optimal_values()
    >>> bool(mdp.policy_values(np.zeros((5, 7), dtype=int)).start <= best.start)
    True
    """

    # The named instances.
    tabular = classmethod(instances.tabular)
    simplex = classmethod(instances.simplex)
    random = classmethod(instances.random)
    chain = classmethod(instances.chain)
    river_swim = classmethod(instances.river_swim)
    combination_lock = classmethod(instances.combination_lock)
    boundary_lock = classmethod(instances.boundary_lock)
    steep_measure = classmethod(instances.steep_measure)
    faint_path = classmethod(instances.faint_path)

    def __init__(self, features: ArrayLike, measures: ArrayLike, rewards: ArrayLike, initial: ArrayLike) -> None:
        given = {"features": features, "measures": measures, "rewards": rewards, "initial": initial}
        arrays = {name: np.array(as_float64(name, value)) for name, value in given.items()}
        self.features, self.measures, self.rewards, self.initial = arrays.values()
        if self.features.ndim != 3 or 0 in self.features.shape:
            raise ValueError(f"features must have shape (S, A, d), got {self.features.shape}")
        self.n_states, self.n_actions, self.dim = self.features.shape
        self.horizon = len(self.rewards) if self.rewards.ndim else 0
        shapes = {
            "rewards": (max(1, self.horizon), self.dim),
            "measures": (max(1, self.horizon), self.dim, self.n_states),
            "initial": (self.n_states,),
        }
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} must have shape {shape} to fit the others, got {arrays[name].shape}")
        for name, array in arrays.items():
            check_finite(name, array)
            array.flags.writeable = False
        with np.errstate(over="ignore", invalid="ignore"):
            tables = checked_tables(self.features, self.measures, self.rewards, self.initial)
        self.transitions, self.rewards_table, self.start_probabilities = tables

    def __repr__(self):
        return (
            f"LinearMDP(n_states={self.n_states}, n_actions={self.n_actions}, dim={self.dim}, horizon={self.horizon})"
        )

    def optimal_values(self) -> Values:
        """Optimal values and a greedy optimal policy by dynamic programming.

        Returns
        -------
        Values
            With ``policy`` of shape (H, S), ties to the smallest action.
        """
        return self._backward(lambda h, q: greedy_actions(q))

    def policy_values(self, policy: ArrayLike) -> Values:
        """Exact values of a policy by dynamic programming.

        Parameters
        ----------
        policy : array_like
            Actions, int (H, S), or probabilities of actions (H, S, A).

        Returns
        -------
        Values
        """
        policy = self._check_policy(policy)
        return self._backward(lambda h, q: policy[h])

    def _backward(self, choose):
        v = np.zeros((self.horizon + 1, self.n_states))
        q = np.empty((self.horizon, self.n_states, self.n_actions))
        chosen: list[Any] = [None] * self.horizon
        for h in reversed(range(self.horizon)):
            q[h] = self.rewards_table[h] + self.transitions[h] @ v[h + 1]
            chosen[h] = choose(h, q[h])
            if chosen[h].ndim == 1:
                v[h] = np.take_along_axis(q[h], chosen[h][:, None], axis=1)[:, 0]
            else:
                v[h] = (q[h] * chosen[h]).sum(axis=1)
        return Values(q, v, np.array(chosen), float(self.start_probabilities @ v[0]))

    def _check_policy(self, policy):
        policy = as_float64("policy", policy)
        if policy.shape == (self.horizon, self.n_states):
            bad = (policy < 0) | (policy >= self.n_actions) | (policy != np.floor(policy))
            refuse(bad, lambda i: f"policy at stage h={i[0]}, state {i[1]} is {policy[i]:g}, no action")
            return policy.astype(np.int64)
        if policy.shape != (self.horizon, self.n_states, self.n_actions):
            raise ValueError(f"policy must have shape (H, S) or (H, S, A), got {policy.shape}")
        bad = (policy < 0).any(axis=2) | ~(np.abs(policy.sum(axis=2) - 1) <= TOLERANCE)
        refuse(bad, lambda i: f"policy at stage h={i[0]}, state {i[1]} is no distribution: {policy[i]}")
        return policy

    def policy_weights(self, policy: ArrayLike) -> np.ndarray:
        """The weights w of Proposition 2.1, with Q_h(s, a) = features[s, a] @ w[h] for the policy.

        Parameters
        ----------
        policy : array_like
            As in :meth:`policy_values`.

        Returns
        -------
        ndarray, shape (H, d)
        """
        v = self.policy_values(policy).v
        return self.rewards + np.einsum("hds,hs->hd", self.measures, v[1:])

    def occupancy(self, policy: ArrayLike) -> np.ndarray:
        """How often a policy visits each pair: exact probabilities at every stage.

        Parameters
        ----------
        policy : array_like
            As in :meth:`policy_values`.

        Returns
        -------
        ndarray, shape (H, S, A)
            Each stage sums to 1.
        """
        chances = self._check_policy(policy)
        if chances.ndim == 2:
            chances = np.eye(self.n_actions)[chances.astype(np.int64)]
        visits = np.empty(chances.shape)
        states = self.start_probabilities
        for h in range(self.horizon):
            visits[h] = states[:, None] * chances[h]
            states = np.einsum("sa,sat->t", visits[h], self.transitions[h])
        return visits

    @cached_property
    def cumulative(self) -> Any:
        """Cumulative transition probabilities, exactly 1 from the last possible state on."""
        return cumulative(self.transitions)

    @cached_property
    def cumulative_start(self) -> Any:
        """Cumulative probabilities of the first state."""
        return cumulative(self.start_probabilities)

    def sample(self, h: int, s: ArrayLike, a: ArrayLike, rng: np.random.Generator) -> Any:
        """Draw next states.

        Parameters
        ----------
        h : int
            Stage.
        s, a : int or array_like of int
            States and actions, broadcast against each other.
        rng : numpy.random.Generator
            Source of the draws; one double a sample.

        Returns
        -------
        ndarray of int64, or int for two ints
        """
        check_rng(rng)
        self._check_stage(h)
        check_unmasked("s", s)
        check_unmasked("a", a)
        try:
            s, a = np.broadcast_arrays(s, a)
        except ValueError as error:
            raise ValueError(f"s and a must be integers or arrays of one shape: {error}") from None
        for name, value, size in (("s", s, self.n_states), ("a", a, self.n_actions)):
            if value.size and not (value.dtype.kind in "iu" and value.min() >= 0 and value.max() < size):
                raise ValueError(f"{name} must hold integers in [0, {size}), got {value}")
        row = (s.astype(np.int64) * self.n_actions + a.astype(np.int64)).ravel()
        table = self.cumulative[h].reshape(-1, self.n_states)
        out = invert_cumulative(table, row, rng.random(row.size)).reshape(s.shape)
        return int(out) if out.ndim == 0 else out

    def _check_stage(self, h: Any) -> None:
        check_index(self.horizon, h=h)

    def sample_start(self, n: Any, rng: Any) -> Any:
        """Draw `n` initial states: ndarray of int64, shape (n,)."""
        check_rng(rng)
        check_integer(0, n=n)
        return invert_cumulative(self.cumulative_start[None], np.zeros(n, dtype=np.int64), rng.random(n))

    def sample_counts(self, h: int, counts: ArrayLike, rng: np.random.Generator) -> np.ndarray:
        """Draw how often each next state follows, for given numbers of visits.

        Exactly the law of that many independent draws for counts below 2^63 (9.2e18), at a cost that
        does not grow with them; a normal limit beyond (see :func:`rrl.mdp.counts.multinomial_counts`).

        Parameters
        ----------
        h : int
            Stage.
        counts : array_like, shape (S, A)
            Visits of each pair, whole numbers >= 0.
        rng : numpy.random.Generator
            Source of the draws.

        Returns
        -------
        ndarray, shape (S, A, S)
            int64, or float64 where a count does not fit one.
        """
        check_rng(rng)
        self._check_stage(h)
        counts = np.asarray(as_counts("counts", counts))
        if counts.shape != (self.n_states, self.n_actions):
            raise ValueError(f"counts must have shape {(self.n_states, self.n_actions)}, got {counts.shape}")
        visited = np.nonzero(counts)
        out = np.zeros((*counts.shape, self.n_states), dtype=counts.dtype)
        out[visited] = multinomial_counts(counts[visited], self.transitions[h][visited], rng)
        return out

    def start_counts(self, n: Any, rng: Any) -> Any:
        """Draw how often each state comes first in `n` episodes: ndarray, shape (S,)."""
        check_rng(rng)
        n = as_counts("n", n)
        if n.ndim:
            raise ValueError(f"n must be a whole number >= 0, got shape {n.shape}")
        return multinomial_counts(n[None], self.start_probabilities[None], rng)[0]

    def as_gymnasium(self) -> Any:
        """View as a Gymnasium environment: Discrete observations and actions, episodes of H steps.

        Returns
        -------
        gymnasium.Env
            Needs the extra ``experiments``. The stage is in ``info["stage"]``. Its ``spec`` holds the whole model, so
            that Minari can record it and build it anew.
        """
        try:
            import gymnasium
        except ImportError as error:
            raise missing("experiments", "as_gymnasium needs Gymnasium") from error
        from .environments import packed

        env: Any = gymnasium.make("rrl.mdp.environments:rrl/LinearMDP-v0", mdp=self).unwrapped
        env.spec.kwargs = {"mdp": packed(self)}
        return env
