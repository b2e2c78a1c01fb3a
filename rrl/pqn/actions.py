"""From Q-values to actions: rounding to a grid, ties, and who wins them (Section 6.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import as_float64, check_choice, check_data_seed, check_non_negative
from rrl.pqn._torch import require_torch

if TYPE_CHECKING:
    from typing import Any

__all__ = ["action_gaps", "best_actions", "greedy_actions", "quantise", "rounded_actions", "tied"]


def quantise(q: Any, step: float | np.ndarray) -> Any:
    """Round Q-values to the nearest multiple of `step`, halves upwards.

    Section 6.2 rounds outputs to a fixed grid that contains zero; every half-way value goes up, and
    minus zero never comes out.

    Parameters
    ----------
    q : ndarray or torch tensor
        Q-values.
    step : float or array that broadcasts against `q`
        Distance of the grid points; entries of 0 leave the value as it is.

    Returns
    -------
    Same type as `q`

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn import quantise
    >>> quantise(np.array([-0.6, -0.2, 0.19, 0.2, 0.5]), 0.4).round(6).tolist()
    [-0.4, 0.0, 0.0, 0.4, 0.4]
    """
    if hasattr(q, "detach"):
        xp: Any = require_torch()
    else:
        # A whole number or a list is rounded in float64, an array of floats in its own type.
        numbers, xp, q = as_float64("q", q), np, np.asarray(q)
        q, step = q if q.dtype.kind == "f" else numbers, as_float64("step", step)
        if not ((step >= 0) & np.isfinite(step)).all():
            raise ValueError(f"step must be finite and >= 0, got {step}")
        try:
            np.broadcast_shapes(q.shape, step.shape)
        except ValueError:
            raise ValueError(f"step has shape {step.shape}, which does not broadcast to {q.shape} of q") from None
    step = xp.asarray(step, dtype=q.dtype) if xp is np else xp.as_tensor(step, dtype=q.dtype, device=q.device)
    rounding = step > 0
    width = xp.where(rounding, step, xp.ones_like(step))
    # + 0 turns a minus zero into zero.
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = xp.where(rounding, xp.floor(q / width + 0.5) * width + 0.0, q)
    if xp is np and not (np.isfinite(rounded) | ~np.isfinite(q)).all():
        raise ValueError("step is too fine or too large for q: a rounded value overflows")
    return rounded[()]


def greedy_actions(q: Any, priority: Any = None) -> Any:
    """Maximising actions, ties broken by `priority`, or by the lowest index.

    Parameters
    ----------
    q : ndarray or torch tensor, shape (..., A)
        Q-values, rounded or not.
    priority : same kind, shape that broadcasts to `q`, optional
        Among tied actions the one of largest priority (at least 0) wins.

    Returns
    -------
    Integers of shape (...)

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn import greedy_actions
    >>> q = np.array([[0.4, 0.4, 0.0], [0.0, 0.4, 0.4]])
    >>> greedy_actions(q).tolist(), greedy_actions(q, np.array([0.1, 0.2, 0.3])).tolist()
    ([0, 1], [1, 2])
    """
    if priority is None:
        return (q if hasattr(q, "argmax") else np.asarray(q)).argmax(-1)
    xp: Any = np if isinstance(q, np.ndarray) else require_torch()
    best = q.max(-1, keepdims=True) if xp is np else q.amax(-1, keepdim=True)  # pyright: ignore[reportAttributeAccessIssue]
    return xp.where(q == best, priority, -1.0).argmax(-1)


def _codes(q, grid_step):
    """Q-values as comparable numbers: grid codes, or the values themselves for step 0."""
    numbers, q = as_float64("q", q), np.asarray(q)
    if not np.isfinite(numbers).all():
        raise ValueError("q holds a value that is not finite")
    check_non_negative(grid_step=grid_step)
    q = q if q.dtype.kind == "f" else numbers
    if not grid_step:
        return q
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        codes = np.floor(q / q.dtype.type(grid_step) + q.dtype.type(0.5))
    if not np.isfinite(codes).all():
        raise ValueError(f"grid_step={grid_step!r} is too fine for q: a code overflows {q.dtype}")
    return codes


def best_actions(q: np.ndarray, grid_step: float = 0.0) -> np.ndarray:
    """Which actions share the largest rounded Q-value.

    Parameters
    ----------
    q : array of float, shape (..., A)
        Unrounded Q-values.
    grid_step : float
        Step of the rounding grid; 0 for none.

    Returns
    -------
    array of bool, shape (..., A)

    Raises
    ------
    ValueError
        If `q` holds no action or a value that is not finite, or `grid_step` is negative or too fine.

    Examples
    --------
    >>> from rrl.pqn import best_actions
    >>> best_actions([0.1, 0.15, -0.9], 0.4).tolist()
    [True, True, False]
    """
    codes = _codes(q, grid_step)
    if not codes.ndim or not codes.shape[-1]:
        raise ValueError(f"q must have shape (..., at least 1 action), got {codes.shape}")
    return codes == codes.max(-1, keepdims=True)


def tied(q: np.ndarray, grid_step: float = 0.0) -> np.ndarray:
    """Whether several actions share the largest rounded Q-value.

    Parameters
    ----------
    q : array of float, shape (..., A)
        Unrounded Q-values.
    grid_step : float
        Step of the rounding grid; 0 for none.

    Returns
    -------
    array of bool, shape (...)
        Its mean is the tie rate.

    Examples
    --------
    >>> from rrl.pqn import tied
    >>> tied([[0.1, 0.15, 0.9], [0.1, 0.15, -0.9]], 0.4).tolist()
    [False, True]
    """
    return best_actions(q, grid_step).sum(-1) > 1


def rounded_actions(q: np.ndarray, grid_step: float = 0.0, tie_break: str = "first", seed: int = 0) -> np.ndarray:
    """Greedy actions of rounded Q-values under one of three tie-breaks.

    Parameters
    ----------
    q : array of float, shape (R, N, A)
        Unrounded Q-values of R runs in N states.
    grid_step : float
        Step of the grid; 0 for none.
    tie_break : {"first", "shared", "independent"}
        Lowest index; a random order of the actions in each state that all runs share; an order of
        each run's own.
    seed : int
        Seeds the random orders.

    Returns
    -------
    array of int, shape (R, N)

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.pqn import action_agreement, rounded_actions
    >>> q = np.zeros((2, 1000, 3))
    >>> for rule in ("first", "shared", "independent"):
    ...     print(rule, action_agreement(rounded_actions(q, 0.4, rule)).mean)
    first 1.0
    shared 1.0
    independent 0.334
    """
    best = best_actions(q, grid_step)
    if best.ndim != 3:
        raise ValueError(f"q must have shape (runs, states, actions), got {best.shape}")
    check_choice("tie_break", tie_break, ("first", "shared", "independent"))
    check_data_seed(seed)
    if tie_break == "first":
        return best.argmax(-1)
    priority = np.random.default_rng(seed).random(best.shape if tie_break == "independent" else best.shape[1:])
    return np.where(best, priority, -1).argmax(-1)


def action_gaps(q: Any) -> Any:
    """Largest minus second largest Q-value, shape (..., A) to (...), A at least 2.

    Examples
    --------
    >>> from rrl.pqn import action_gaps
    >>> action_gaps([[0.5, 2.0, 1.25]]).tolist()
    [0.75]
    """
    q = np.asarray(q)
    if q.ndim < 1 or q.shape[-1] < 2:
        raise ValueError(f"q must hold at least two actions, got shape {q.shape}")
    top = np.sort(q, axis=-1)
    return top[..., -1] - top[..., -2]
