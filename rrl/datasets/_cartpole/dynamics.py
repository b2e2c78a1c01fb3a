"""Gymnasium's CartPole-v1 for many carts at once.

The step is Gymnasium's, operation by operation in float64, so that it gives the same bits (a test compares them);
observations are its float32 roundings.
"""

import numpy as np

__all__ = ["ANGLE_LIMIT", "X_LIMIT", "cartpole_step"]

FORCE, GRAVITY, TAU = 10.0, 9.8, 0.02
POLE_MASS, TOTAL_MASS, HALF_LENGTH = 0.1, 1.0 + 0.1, 0.5
X_LIMIT, ANGLE_LIMIT = 2.4, 12 * 2 * np.pi / 360


def cartpole_step(states, actions):
    """Advance many carts by one step of Gymnasium's CartPole-v1.

    Parameters
    ----------
    states : ndarray of float64, shape (m, 4)
        Cart position (m), cart velocity (m/s), pole angle (rad), pole angular velocity (rad/s).
    actions : ndarray of int, shape (m,)
        0 pushes left, 1 pushes right.

    Returns
    -------
    next_states : ndarray of float64, shape (m, 4)
    failed : ndarray of bool, shape (m,)
        Whether the next state lies beyond 2.4 m or 12 degrees. The reward is 1 in either case.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.datasets import cartpole_step
    >>> states, failed = cartpole_step(np.zeros((2, 4)), np.array([0, 1]))
    >>> states.round(4).tolist(), failed.tolist()
    ([[0.0, -0.1951, 0.0, 0.2927], [0.0, 0.1951, 0.0, -0.2927]], [False, False])
    """
    x, speed, angle, spin = states.T
    force = np.where(actions == 1, FORCE, -FORCE)
    cos, sin = np.cos(angle), np.sin(angle)
    pole = POLE_MASS * HALF_LENGTH
    temp = (force + pole * np.square(spin) * sin) / TOTAL_MASS
    angular = (GRAVITY * sin - cos * temp) / (HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * np.square(cos) / TOTAL_MASS))
    linear = temp - pole * angular * cos / TOTAL_MASS
    moved = (x + TAU * speed, speed + TAU * linear, angle + TAU * spin, spin + TAU * angular)
    failed = (np.abs(moved[0]) > X_LIMIT) | (np.abs(moved[2]) > ANGLE_LIMIT)
    return np.stack(moved, axis=1), failed
