"""Definition 2.1 and Assumption 2.1: what breaks them is named by stage and entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Slack of the checks, for rounding error in given arrays.
TOLERANCE = 1e-9


def refuse(bad: Any, message: Callable[[tuple], str]) -> None:
    """Raise a ValueError whose message is filled with the first index where `bad` holds."""
    if np.any(bad):
        raise ValueError(message(tuple(int(i) for i in np.argwhere(bad)[0])))


def checked_tables(features: Any, measures: Any, rewards: Any, initial: Any) -> tuple:
    """Probabilities of the next state, (H, S, A, S), rewards, (H, S, A), and probabilities of the first state, (S,).

    The arrays, finite and of shapes that fit, are those of :class:`rrl.LinearMDP`.

    Raises
    ------
    ValueError
        Naming what breaks the definition or the assumption.
    """
    (n_states, n_actions, dim), horizon = features.shape, len(rewards)
    root = np.sqrt(dim)
    norms = np.linalg.norm(features, axis=2)
    refuse(norms > 1 + TOLERANCE, lambda i: f"features at (s, a)={i} have norm {norms[i]:.6g}, more than 1")
    sizes = {
        "rewards (theta)": np.linalg.norm(rewards, axis=1),
        "measures of all states": np.linalg.norm(measures.sum(axis=2), axis=1),
    }
    for name, size in sizes.items():
        refuse(
            size > root * (1 + TOLERANCE),
            lambda i, name=name, size=size: (
                f"{name} at stage h={i[0]} have norm {size[i]:.6g}, more than sqrt(d)={root:.6g}"
            ),
        )
    table = np.einsum("sad,hd->hsa", features, rewards)
    refuse(
        (table < -TOLERANCE) | (table > 1 + TOLERANCE),
        lambda i: f"reward at stage h={i[0]}, (s, a)={i[1:]} is {table[i]:.6g}, outside [0, 1]",
    )
    chances = np.matmul(features.reshape(1, -1, dim), measures)
    chances = chances.reshape(horizon, n_states, n_actions, n_states)
    refuse(
        chances < -TOLERANCE,
        lambda i: (
            f"transition at stage h={i[0]} from (s, a)={i[1:3]} to state {i[3]} has probability "
            f"{chances[i]:.6g}, below 0"
        ),
    )
    sums = chances.sum(axis=3)
    refuse(
        np.abs(sums - 1) > TOLERANCE,
        lambda i: f"transitions at stage h={i[0]} from (s, a)={i[1:]} sum to {sums[i]:.9g}, not 1",
    )
    refuse(initial < -TOLERANCE, lambda i: f"initial has probability {initial[i]:.6g} at state {i[0]}, below 0")
    if abs(initial.sum() - 1) > TOLERANCE:
        raise ValueError(f"initial sums to {initial.sum():.9g}, not 1")
    # A zero that came out as 1e-17 would be drawn once in 1e17 samples.
    noise = np.matmul(np.abs(features).reshape(1, -1, dim), np.abs(measures)) * dim * np.finfo(float).eps
    chances[np.abs(chances) <= noise.reshape(chances.shape)] = 0
    transitions = np.maximum(chances, 0) / np.maximum(chances, 0).sum(axis=3, keepdims=True)
    return transitions, np.clip(table, 0, 1), np.maximum(initial, 0) / np.maximum(initial, 0).sum()
