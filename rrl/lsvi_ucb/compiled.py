"""Plain LSVI-UCB compiled by numba: what `r_lsvi_ucb(..., engine="numba")` runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._compiled import njit
from .data import REFRESH

if TYPE_CHECKING:
    from typing import Any

__all__ = ["plain_lsvi_ucb"]


@njit()
def plain_lsvi_ucb(
    flat: np.ndarray,
    cumulative: np.ndarray,
    first: np.ndarray,
    rewards: np.ndarray,
    start: np.ndarray,
    beta: float,
    penalty: float,
    uniform: np.ndarray,
    policies: np.ndarray,
    optimistic: np.ndarray,
    returns: np.ndarray,
) -> None:
    """Fill `policies`, `optimistic` and `returns` as the numpy loop does, from the same uniform numbers.

    Parameters
    ----------
    flat : ndarray, shape (S A, d)
        Features.
    cumulative, first : ndarray, shapes (H, S A, S) and (S,)
        Cumulative probabilities of next and of initial states.
    rewards : ndarray, shape (H, S A)
        Rewards.
    start : ndarray, shape (S,)
        Distribution of the initial state.
    beta, penalty : float
        Of the bonus and of the regression.
    uniform : ndarray, shape (T, H + 1)
        One number for each draw of a state.
    policies, optimistic, returns : ndarray, shapes (T, H, S), (T,), (T,)
        Filled.
    """
    n_rounds, horizon, n_states = policies.shape
    pairs, d = flat.shape
    n_actions = pairs // n_states
    gram = np.zeros((horizon, d, d))
    inverse = np.zeros((horizon, d, d))
    reward = np.zeros((horizon, d))
    following = np.zeros((horizon, n_states, d))
    spread = np.zeros((horizon, pairs))
    value = np.zeros((horizon + 1, n_states))
    policy = np.zeros((horizon, n_states), dtype=np.int64)
    weights = np.zeros((horizon, d))
    q = np.zeros(n_actions)
    for h in range(horizon):
        gram[h] = penalty * np.eye(d)
        inverse[h] = np.eye(d) / penalty
        for i in range(pairs):
            spread[h, i] = (flat[i] * flat[i]).sum() / penalty
    for t in range(n_rounds):
        for h in range(horizon - 1, -1, -1):
            for s in range(n_states):
                for a in range(n_actions):
                    i = s * n_actions + a
                    total = 0.0
                    for j in range(d):
                        total += flat[i, j] * weights[h, j]
                    q[a] = min(total + beta * np.sqrt(max(spread[h, i], 0.0)), horizon)
                best = q.max()
                value[h, s] = max(best, 0.0)
                for a in range(n_actions):
                    if q[a] >= best - 1e-9:
                        policy[h, s] = a
                        break
            # The weights of stage h - 1 need the values of stage h, just computed.
            if t > 0 and h > 0:
                regress(h - 1, inverse, reward, following, value, weights)
        policies[t] = policy
        optimistic[t] = (start * value[0]).sum()
        returns[t] = 0.0
        s = np.searchsorted(first, uniform[t, 0], side="right")
        for h in range(horizon):
            i = s * n_actions + policy[h, s]
            phi = flat[i]
            returns[t] += rewards[h, i]
            s = np.searchsorted(cumulative[h, i], uniform[t, h + 1], side="right")
            for j in range(d):
                reward[h, j] += rewards[h, i] * phi[j]
                following[h, s, j] += phi[j]
                for k in range(d):
                    gram[h, j, k] += phi[j] * phi[k]
            if t % REFRESH == REFRESH - 1:
                inverse[h] = np.linalg.inv(gram[h])
                for i in range(pairs):
                    total = 0.0
                    for j in range(d):
                        for k in range(d):
                            total += flat[i, j] * inverse[h, j, k] * flat[i, k]
                    spread[h, i] = total
            else:
                move = np.zeros(d)
                for j in range(d):
                    for k in range(d):
                        move[j] += inverse[h, j, k] * phi[k]
                scale = 1 / (1 + (move * phi).sum())
                for j in range(d):
                    for k in range(d):
                        inverse[h, j, k] -= scale * move[j] * move[k]
                for i in range(pairs):
                    total = 0.0
                    for j in range(d):
                        total += flat[i, j] * move[j]
                    spread[h, i] -= scale * total * total
        regress(horizon - 1, inverse, reward, following, value, weights)


@njit()
def regress(h: Any, inverse: Any, reward: Any, following: Any, value: Any, weights: Any) -> None:
    """Set weights[h] to the ridge solution on labels r + V_{h+1}(s')."""
    d = reward.shape[1]
    moment = reward[h].copy()
    for s in range(following.shape[1]):
        if value[h + 1, s] != 0.0:
            for j in range(d):
                moment[j] += following[h, s, j] * value[h + 1, s]
    for j in range(d):
        total = 0.0
        for k in range(d):
            total += inverse[h, j, k] * moment[k]
        weights[h, j] = total
