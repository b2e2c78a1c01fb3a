"""AdamW for many runs at once: a row of parameters, of gradients and of moments each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def clip_norms(gradient: Any, largest: float) -> None:
    """Shorten the rows of a gradient, shape (R, P), to at most this norm, in place."""
    norm = gradient.norm(dim=1, keepdim=True)
    gradient.mul_((largest / (norm + 1e-6)).clamp(max=1))


def adamw_step(
    theta: Any, moments: Any, gradient: Any, number: int, rate: float, decay: Any, betas: tuple, eps: float
) -> None:
    """One step in place (Loshchilov and Hutter, 2019), as torch.optim.AdamW takes it.

    Parameters
    ----------
    theta, gradient : torch tensors, shape (R, P)
    moments : torch tensor, shape (2, R, P)
        Running means of the gradients and of their squares.
    number : int
        Of this step, from 1.
    rate : float
        Learning rate.
    decay : torch tensor, shape (R,)
        Weight decay of each run.
    betas : (float, float)
    eps : float
    """
    (b1, b2), (first, second) = betas, moments
    theta.mul_(1 - rate * decay[:, None])
    first.lerp_(gradient, 1 - b1)
    second.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
    correction = math.sqrt(1 - b2**number)
    root = second.sqrt().add_(eps * correction)
    theta.addcdiv_(first, root, value=-rate * correction / (1 - b1**number))
