"""Playing very many linear policies in CartPole-v1: Gymnasium's states bit for bit, at compiled speed.

A policy with random Fourier features moves right when its Q-values differ by more than 0. That
difference is a sum of shifted cosines, sum_k A_k cos(f_k . s - psi_k), which costs one cosine a
frequency. The physics calls the same sine and cosine as Gymnasium, so states agree bit for bit.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..._compiled import njit
from ..._extras import missing
from ...datasets import cartpole_step

__all__ = ["Play", "play", "start_states"]

MAX_STEPS = 500
#: pi in two parts, the first with zeros at its end, so that angle - turns * pi keeps its last digits.
PI_HIGH, PI_LOW = float.fromhex("0x1.921fb54400000p+1"), float.fromhex("0x1.0b4611a626331p-33")
#: Taylor coefficients of cos up to r^20: the error on [-pi/2, pi/2] is below 1e-16.
COSINE = tuple(float(c) for c in np.cumprod([1.0] + [-1.0 / ((2 * k - 1) * 2 * k) for k in range(1, 11)])[::-1])
#: Adding and subtracting it rounds a small float64 to the nearest integer.
ROUND = 1.5 * 2.0**52
#: Float64 numbers in the widest vector register.
LANES = 8


class Play(NamedTuple):
    """Result of :func:`play`.

    Attributes
    ----------
    lengths : ndarray of int64, shape (n_policies, n_episodes)
        Steps of every episode: its return, since each step is worth 1.
    states : ndarray of float64, shape (n_policies, n_episodes, 4)
        Last state of every episode.
    margin : float
        The least distance between the two Q-values at any step (without the features' constant).
    """

    lengths: np.ndarray
    states: np.ndarray
    margin: float


def start_states(n_episodes: int, seed: int) -> np.ndarray:
    """Start states as ``gymnasium.make("CartPole-v1").reset(seed=seed + i)`` draws them.

    Parameters
    ----------
    n_episodes : int
    seed : int
        Of the first episode; the i-th has ``seed + i``.

    Returns
    -------
    ndarray of float64, shape (n_episodes, 4)
        Uniform on [-0.05, 0.05].

    Examples
    --------
    >>> from rrl.experiments.cartpole.sim import start_states
    >>> start_states(1, seed=0).round(4)
    array([[ 0.0137, -0.023 , -0.0459, -0.0483]])
    """
    return np.array([np.random.default_rng(seed + i).uniform(-0.05, 0.05, 4) for i in range(n_episodes)])


def play(
    frequencies: np.ndarray,
    differences: np.ndarray,
    starts: np.ndarray,
    *,
    max_steps: int = MAX_STEPS,
    engine: str = "auto",
) -> Play:
    """Play every policy from every start state of CartPole-v1.

    Parameters
    ----------
    frequencies : ndarray of float64, shape (4, K)
        Of :class:`rrl.RandomFourierFeatures`, the scale of the states included.
    differences : ndarray of float64, shape (n_policies, 2 K)
        Weights of action 1 minus weights of action 0, cosines first. The constant sqrt(2 / D) of
        the features changes no sign and is left out.
    starts : ndarray of float64, shape (n_episodes, 4)
    max_steps : int, default=500
        Time limit of CartPole-v1.
    engine : {"auto", "numba", "numpy"}
        Compiled code, plain array code, or the first of these that is installed. Both give the
        same numbers unless two Q-values lie within about 1e-12 of each other.

    Returns
    -------
    Play

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.experiments.cartpole.sim import play, start_states
    >>> lean = np.array([[0.0], [0.0], [1.0], [1.0]])  # one frequency, along the pole's angle and spin
    >>> differences = np.array([[0.0, 1.0], [0.0, -1.0]])  # its sine: push with the lean, or against
    >>> play(lean, differences, start_states(3, seed=0), engine="numpy").lengths
    array([[334, 500, 500],
           [  8,  10,  10]])
    """
    if engine not in ("auto", "numba", "numpy"):
        raise ValueError(f"engine must be 'auto', 'numba' or 'numpy', got {engine!r}")
    frequencies, differences, starts = (
        np.ascontiguousarray(a, dtype=np.float64) for a in (frequencies, differences, starts)
    )
    half = frequencies.shape[1]
    if differences.ndim != 2 or differences.shape[1] != 2 * half:
        raise ValueError(f"differences has shape {differences.shape}, expected (n_policies, {2 * half})")
    if not np.isfinite(differences).all():
        raise ValueError("differences holds an entry that is not finite")
    amplitudes = np.hypot(differences[:, :half], differences[:, half:])
    phases = np.arctan2(differences[:, half:], differences[:, :half])
    run = _play_numpy if engine == "numpy" else _compiled(required=engine == "numba") or _play_numpy
    return Play(*run(np.ascontiguousarray(frequencies.T), amplitudes, phases, starts, int(max_steps)))


def _play_numpy(frequencies, amplitudes, phases, starts, max_steps):
    """All policies and episodes side by side; those that ended are dropped."""
    n_policies, n_episodes = len(amplitudes), len(starts)
    lengths = np.full(n_policies * n_episodes, max_steps)
    alive = np.arange(n_policies * n_episodes)
    policy = alive // n_episodes
    states = np.tile(starts, (n_policies, 1))
    final = states.copy()
    margin = np.inf
    for step in range(1, max_steps + 1):
        observed = states.astype(np.float32).astype(np.float64)
        value = np.zeros(len(alive))
        for k, frequency in enumerate(frequencies):
            angle = observed @ frequency - phases[policy, k]
            value += amplitudes[policy, k] * np.cos(angle)
        margin = min(margin, np.abs(value).min(initial=np.inf))
        states, failed = cartpole_step(states, value > 0)
        lengths[alive[failed]], final[alive] = step, states
        states, alive, policy = states[~failed], alive[~failed], policy[~failed]
        if not len(alive):
            break
    return lengths.reshape(n_policies, n_episodes), final.reshape(n_policies, n_episodes, 4), float(margin)


@cache
def _compiled(required):
    """The numba kernel, compiled at its first call; None where numba is missing and not required."""
    try:
        return njit(nogil=True, error_model="numpy")(_play_loops)
    except ImportError:
        if required:
            raise missing("experiments", "engine='numba' needs numba") from None
        return None


def _play_loops(frequencies, amplitudes, phases, starts, max_steps):  # pragma: no cover (compiled)
    n_policies, n_episodes = len(amplitudes), len(starts)
    lengths, final = np.full((n_policies, n_episodes), max_steps), np.empty((n_policies, n_episodes, 4))
    width = (n_episodes + LANES - 1) // LANES * LANES
    s0, s1, s2, s3 = np.zeros((4, width))
    o0, o1, o2, o3 = np.zeros((4, width))
    value = np.zeros(width)
    lane = np.zeros(width, np.int64)
    margin = np.inf
    for p in range(n_policies):
        alive = n_episodes
        for e in range(n_episodes):
            s0[e], s1[e], s2[e], s3[e], lane[e] = starts[e, 0], starts[e, 1], starts[e, 2], starts[e, 3], e
        for step in range(1, max_steps + 1):
            lanes = (alive + LANES - 1) // LANES * LANES  # idle lanes cost less than a broken vector
            for e in range(lanes):
                o0[e], o1[e] = np.float64(np.float32(s0[e])), np.float64(np.float32(s1[e]))
                o2[e], o3[e] = np.float64(np.float32(s2[e])), np.float64(np.float32(s3[e]))
                value[e] = 0.0
            for k in range(frequencies.shape[0]):
                f0, f1, f2, f3 = frequencies[k, 0], frequencies[k, 1], frequencies[k, 2], frequencies[k, 3]
                amplitude, phase = amplitudes[p, k], phases[p, k]
                for e in range(lanes):  # no call and no branch: the compiler runs several lanes at once
                    angle = o0[e] * f0 + o1[e] * f1 + o2[e] * f2 + o3[e] * f3 - phase
                    turns = (angle * (1 / np.pi) + ROUND) - ROUND
                    r = (angle - turns * PI_HIGH) - turns * PI_LOW
                    square = r * r
                    c = 0.0
                    for coefficient in COSINE:
                        c = c * square + coefficient
                    half = turns * 0.5
                    odd = np.abs(half - ((half + ROUND) - ROUND))
                    value[e] += amplitude * (c - 4.0 * odd * c)
            kept = 0
            for e in range(alive):
                margin = min(margin, abs(value[e]))
                force = 10.0 if value[e] > 0 else -10.0
                x, v, a, w = s0[e], s1[e], s2[e], s3[e]
                cos, sin = np.cos(a), np.sin(a)
                temp = (force + 0.05 * (w * w) * sin) / 1.1
                angular = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * (cos * cos) / 1.1))
                linear = temp - 0.05 * angular * cos / 1.1
                x, v, a, w = x + 0.02 * v, v + 0.02 * linear, a + 0.02 * w, w + 0.02 * angular
                failed = abs(x) > 2.4 or abs(a) > 12 * 2 * np.pi / 360
                if failed or step == max_steps:
                    lengths[p, lane[e]] = step
                    final[p, lane[e], 0], final[p, lane[e], 1], final[p, lane[e], 2], final[p, lane[e], 3] = x, v, a, w
                else:
                    s0[kept], s1[kept], s2[kept], s3[kept], lane[kept] = x, v, a, w, lane[e]
                    kept += 1
            alive = kept
            if alive == 0:
                break
    return lengths, final, margin
