"""Targets and schedules of PQN; they work on numpy arrays and torch tensors alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import as_flags, as_float64, check_bool, check_finite, check_fraction, check_sums, check_unmasked
from rrl.pqn._torch import require_torch

if TYPE_CHECKING:
    from typing import Any

__all__ = ["linear_schedule", "q_lambda_targets", "td_target"]


def _columns(**given):
    """Rewards, next values, real ends and cuts, checked, as numpy arrays or torch tensors.

    A next value behind a real end comes back as 0: nobody may read what stands there.
    """
    tensors = [value for value in given.values() if hasattr(value, "detach")]
    names, arrays = list(given), [_on_cpu(name, value) for name, value in given.items()]
    shapes = {array.shape for array in arrays if array.ndim}
    if len(shapes) > 1:
        told = ", ".join(f"{name} {array.shape}" for name, array in zip(names, arrays))
        raise ValueError(f"all must have one shape, or be numbers; got {told}")
    reward, following = (as_float64(name, array) for name, array in zip(names[:2], arrays))
    ended, cut = (as_flags(name, array) for name, array in zip(names[2:], arrays[2:]))
    check_finite(names[0], reward)
    check_finite(f"{names[1]}, where no episode ended,", np.where(ended, 0.0, following))
    if tensors:
        torch = require_torch()
        reward, following = (torch.as_tensor(given[name], device=tensors[0].device) for name in names[:2])
        ended, cut = (torch.as_tensor(flags, device=tensors[0].device) for flags in (ended, cut))
        following = torch.where(ended, 0.0, following)
        return reward, following, ended.to(following.dtype), cut.to(following.dtype)
    reward, following = (a if a.dtype.kind == "f" else b for a, b in zip(arrays, (reward, following)))
    following = np.where(ended, following.dtype.type(0), following)
    return reward, following, ended.astype(following.dtype), cut.astype(following.dtype)


def _on_cpu(name, value):
    """A tensor of whatever type and device as an array of float64; anything else as an array."""
    if hasattr(value, "detach"):
        return value.detach().cpu().double().numpy()
    check_unmasked(name, value)
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from None


def td_target(
    reward: float | np.ndarray, next_value: float | np.ndarray, terminated: Any, truncated: Any, gamma: float
) -> Any:
    """One-step target: a real end has no future, a time limit keeps it.

    Parameters
    ----------
    reward, next_value : float or array
        Reward, and max_a Q at the state that followed. All arrays have one shape; what `next_value` holds behind a
        real end does not count, be it NaN.
    terminated, truncated : bool or array
        The episode really ended; the episode was cut by a time limit. When both hold, it ended. Booleans, or 0 and 1.
    gamma : float
        Discount factor in [0, 1].

    Returns
    -------
    float or array

    Raises
    ------
    ValueError
        If a number that counts is not finite, shapes differ, or an end is no boolean.

    Examples
    --------
    >>> from rrl.pqn import td_target
    >>> [td_target(1, 10, end, cut, 0.9) for end, cut in ((0, 0), (1, 0), (0, 1), (1, 1))]
    [10.0, 1.0, 10.0, 1.0]
    """
    check_fraction(gamma=gamma)
    gamma = float(gamma)
    # `truncated` is named so that a caller has to say which of the two an end is.
    reward, following, _, _ = _columns(reward=reward, next_value=next_value, terminated=terminated, truncated=truncated)
    with np.errstate(over="ignore"):
        target = reward + gamma * following
    check_sums(target=_on_cpu("target", target))
    return float(target) if np.ndim(target) == 0 and not hasattr(target, "detach") else target


def q_lambda_targets(
    rewards: np.ndarray,
    next_values: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    gamma: float,
    q_lambda: float,
    trace_through_ends: bool = False,
) -> Any:
    """Q(lambda) targets of Gallici et al. (2025), by backward recursion over T steps.

    ``G_t = r_t + gamma (lambda G_{t+1} + (1 - lambda) max_a Q(s_{t+1}, a))``, where a real end drops
    the whole bracket and a time limit (like the last step) replaces it by the maximum alone.

    Parameters
    ----------
    rewards, next_values : array, shape (T, ...)
        Rewards, and max_a Q at the state that followed each step; what stands behind a real end does not count.
    terminated, truncated : array of bool, or of 0 and 1, shape (T, ...)
        Real ends, and cuts by a time limit.
    gamma, q_lambda : float
        Discount factor and trace parameter, in [0, 1].
    trace_through_ends : bool
        CleanRL's loop does not stop ``lambda G_{t+1}`` at an end, except at the last step: True
        repeats that.

    Returns
    -------
    list of T arrays

    Raises
    ------
    ValueError
        As :func:`td_target`.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn import q_lambda_targets
    >>> r, v, no = np.array([1.0, 2, 3]), np.array([10.0, 20, 30]), np.zeros(3)
    >>> [float(g) for g in q_lambda_targets(r, v, no, no, 1.0, 0.5)]
    [20.25, 28.5, 33.0]
    >>> [float(g) for g in q_lambda_targets(r, v, np.array([0.0, 1, 0]), no, 1.0, 0.5)]
    [7.0, 2.0, 33.0]
    """
    check_fraction(gamma=gamma, q_lambda=q_lambda)
    check_bool(trace_through_ends=trace_through_ends)
    gamma, q_lambda = float(gamma), float(q_lambda)
    rewards, following, ended, cut = _columns(
        rewards=rewards, next_values=next_values, terminated=terminated, truncated=truncated
    )
    for name, column in (("rewards", rewards), ("next_values", following), ("terminated", ended), ("truncated", cut)):
        if not column.ndim:
            raise ValueError(f"{name} must have one entry a step, shape (T, ...), got a number")
    going_on = 1 - cut if trace_through_ends else (1 - ended) * (1 - cut)
    targets = []
    with np.errstate(over="ignore", invalid="ignore"):
        for t in reversed(range(len(rewards))):
            target = rewards[t] + gamma * following[t]
            if targets:
                target = target + gamma * q_lambda * going_on[t] * (targets[-1] - following[t])
            targets.append(target)
    for target in targets:
        check_sums(targets=_on_cpu("target", target))
    return targets[::-1]


def linear_schedule(start: float, end: float, duration: float, step: float) -> float:
    """A straight line from `start` to `end` over `duration` steps, then constant.

    Parameters
    ----------
    start, end : float
        Falling or rising.
    duration : float
        At 0 the line is `end` throughout.
    step : float

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.pqn import linear_schedule
    >>> [round(linear_schedule(1.0, 0.01, 300, t), 6) for t in (0, 150, 300, 900)]
    [1.0, 0.505, 0.01, 0.01]
    """
    line = start + (end - start) * step / duration if duration > 0 else end
    return min(max(line, min(start, end)), max(start, end))
