"""What trained policies of any library do in the same states."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import check_unmasked

if TYPE_CHECKING:
    from typing import Any

__all__ = ["policy_actions"]


def policy_actions(policies: Any, observations: Any) -> np.ndarray:
    """Actions of trained policies in the same states, for :func:`rrl.action_agreement`.

    Parameters
    ----------
    policies : sequence
        Each is an algorithm of Stable-Baselines3, asked for its deterministic actions; one of d3rlpy, or anything else
        whose ``predict(observations)`` gives actions; something with ``act(observations)``, such as
        :class:`rrl.ReplicableFittedQ`; or a function of observations.
    observations : array, shape (N, ...)
        As the policies take them: a batch of N states.

    Returns
    -------
    ndarray of int64, shape (n_policies, N)

    Raises
    ------
    TypeError
        If there is no policy, or something is none.
    ValueError
        If there is no state, or a policy does not answer with one discrete action a state.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import action_agreement, policy_actions
    >>> states = np.linspace(-1, 1, 5)[:, None]
    >>> actions = policy_actions([lambda s: (s[:, 0] > 0).astype(int), lambda s: (s[:, 0] > 0.7).astype(int)], states)
    >>> actions, action_agreement(actions).mean
    (array([[0, 0, 0, 1, 1],
           [0, 0, 0, 0, 1]]), 0.8)
    """
    if not np.iterable(policies) or not len(policies := list(policies)):
        raise TypeError(f"policies must be a sequence of at least one, got {policies!r}")
    if not np.ndim(observations) or not len(observations):
        raise ValueError(f"observations must be a batch of at least one state, got {observations!r}")
    return np.stack([_actions(f"policies[{number}]", policy, observations) for number, policy in enumerate(policies)])


def _actions(name, policy, observations):
    decide = _decision(name, policy)
    try:
        found = decide(observations)
        actions = np.asarray(found)
    except Exception as error:
        error.add_note(f"{name}, asked for its actions in observations of shape {np.shape(observations)}")
        raise
    check_unmasked(f"the answer of {name}", found)
    if actions.shape != (len(observations),) or actions.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must give {len(observations)} integers, one action a state, got {actions.dtype} of shape "
            f"{actions.shape}"
        )
    return actions.astype(np.int64)


def _decision(name, policy):
    """The function that takes observations to actions."""
    if hasattr(policy, "act"):
        return policy.act
    if hasattr(policy, "predict"):
        if "deterministic" in inspect.signature(policy.predict).parameters:
            return lambda observations: policy.predict(observations, deterministic=True)[0]
        return policy.predict
    if not callable(policy):
        raise TypeError(f"{name} must have act or predict, or be a function of observations, got {policy!r}")
    return policy
