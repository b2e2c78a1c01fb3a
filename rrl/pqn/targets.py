"""Targets and schedules of PQN; they work on numpy arrays and torch tensors alike."""

__all__ = ["linear_schedule", "q_lambda_targets", "td_target"]


def td_target(reward, next_value, terminated, truncated, gamma):
    """One-step target: a real end has no future, a time limit keeps it.

    Parameters
    ----------
    reward, next_value : float or array
        Reward, and max_a Q at the state that followed.
    terminated, truncated : bool or array
        The episode really ended; the episode was cut by a time limit. When both hold, it ended.
    gamma : float
        Discount factor.

    Returns
    -------
    float or array

    Examples
    --------
    >>> from rrl.pqn import td_target
    >>> [td_target(1, 10, end, cut, 0.9) for end, cut in ((0, 0), (1, 0), (0, 1), (1, 1))]
    [10.0, 1.0, 10.0, 1.0]
    """
    del truncated  # named so that a caller has to say which of the two an end is
    return reward + gamma * next_value * (1 - terminated)


def q_lambda_targets(rewards, next_values, terminated, truncated, gamma, q_lambda, trace_through_ends=False):
    """Q(lambda) targets of Gallici et al. (2025), by backward recursion over T steps.

    ``G_t = r_t + gamma (lambda G_{t+1} + (1 - lambda) max_a Q(s_{t+1}, a))``, where a real end drops
    the whole bracket and a time limit (like the last step) replaces it by the maximum alone.

    Parameters
    ----------
    rewards, next_values : array, shape (T, ...)
        Rewards, and max_a Q at the state that followed each step.
    terminated, truncated : array of 0 and 1 in the dtype of `rewards`, shape (T, ...)
        Real ends, and cuts by a time limit.
    gamma, q_lambda : float
        Discount factor and trace parameter.
    trace_through_ends : bool
        CleanRL's loop does not stop ``lambda G_{t+1}`` at an end, except at the last step: True
        repeats that.

    Returns
    -------
    list of T arrays

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
    targets = []
    for t in reversed(range(len(rewards))):
        one_step = td_target(rewards[t], next_values[t], terminated[t], truncated[t], gamma)
        if targets:
            trace = targets[-1] - next_values[t] * (1 - terminated[t] * trace_through_ends)
            open_end = 1 - truncated[t] if trace_through_ends else (1 - terminated[t]) * (1 - truncated[t])
            one_step = one_step + gamma * q_lambda * open_end * trace
        targets.append(one_step)
    return targets[::-1]


def linear_schedule(start, end, duration, step):
    """A straight line from `start` to `end` over `duration` steps, then constant.

    Examples
    --------
    >>> from rrl.pqn import linear_schedule
    >>> [round(linear_schedule(1.0, 0.01, 300, t), 6) for t in (0, 150, 300, 900)]
    [1.0, 0.505, 0.01, 0.01]
    """
    return max(start + (end - start) * step / duration, end)
