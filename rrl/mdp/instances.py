"""Named linear MDPs: the class methods of :class:`rrl.LinearMDP` that build one; each passes Assumption 2.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_float64, check_finite, check_fraction, check_integer, check_non_negative, check_rng, real

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = [
    "boundary_lock",
    "chain",
    "combination_lock",
    "faint_path",
    "random",
    "river_swim",
    "simplex",
    "steep_measure",
    "tabular",
]


def tabular(cls, transitions: ArrayLike, rewards: ArrayLike, initial: ArrayLike) -> Any:
    """Any finite MDP as a linear one, with one-hot features: d = S A.

    Parameters
    ----------
    transitions : array_like, shape (H, S, A, S)
        Probabilities of the next state.
    rewards : array_like, shape (H, S, A)
        In [0, 1].
    initial : array_like, shape (S,)
        Distribution of the first state.

    Returns
    -------
    LinearMDP
        Coordinate s A + a of the features belongs to the pair (s, a).

    Examples
    --------
    >>> from rrl import LinearMDP
    >>> coin = LinearMDP.tabular([[[[0.5, 0.5]], [[0.0, 1.0]]]], [[[0.0], [1.0]]], [1.0, 0.0])
    >>> coin.dim, coin.optimal_values().start
    (2, 0.0)
    """
    rewards = as_float64("rewards", rewards)
    if rewards.ndim != 3:
        raise ValueError(f"rewards must have shape (H, S, A), got {rewards.shape}")
    horizon, n_states, n_actions = rewards.shape
    transitions = as_float64("transitions", transitions)
    if transitions.shape != (*rewards.shape, n_states):
        raise ValueError(f"transitions must have shape {(*rewards.shape, n_states)}, got {transitions.shape}")
    check_finite("rewards", rewards)
    check_finite("transitions", transitions)
    dim = n_states * n_actions
    features = np.eye(dim).reshape(n_states, n_actions, dim)
    return cls(features, transitions.reshape(horizon, dim, n_states), rewards.reshape(horizon, dim), initial)


def simplex(cls, *, n_states: int, n_actions: int, dim: int, horizon: int, rng: np.random.Generator) -> Any:
    """Random mixtures of d distributions; the first d pairs are the pure ones.

    Features lie in the probability simplex and contain its vertices, so the first d pairs are a
    core set of constant d.

    Parameters
    ----------
    n_states, n_actions, dim, horizon : int
        S, A, d, H with d <= S A.
    rng : numpy.random.Generator
        Source of the instance.

    Returns
    -------
    LinearMDP

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP
    >>> mdp = LinearMDP.simplex(n_states=4, n_actions=2, dim=3, horizon=5, rng=np.random.default_rng(0))
    >>> mdp.features.reshape(-1, 3)[:3]
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    check_rng(rng)
    check_integer(1, n_states=n_states, n_actions=n_actions, dim=dim, horizon=horizon)
    if dim > n_states * n_actions:
        raise ValueError(f"dim={dim} exceeds n_states * n_actions = {n_states * n_actions}")
    features = rng.dirichlet(np.full(dim, 0.5), size=n_states * n_actions)
    features[:dim] = np.eye(dim)
    measures = rng.dirichlet(np.full(n_states, 0.5), size=(horizon, dim))
    initial = rng.dirichlet(np.ones(n_states))
    rewards = rng.uniform(size=(horizon, dim))
    return cls(features.reshape(n_states, n_actions, dim), measures, rewards, initial)


def random(cls, *, n_states: int, n_actions: int, dim: int, horizon: int, rng: np.random.Generator) -> Any:
    """A random linear MDP with signed features: a simplex instance in rotated coordinates.

    Parameters
    ----------
    n_states, n_actions, dim, horizon : int
        S, A, d, H with d <= S A.
    rng : numpy.random.Generator
        Source of the instance.

    Returns
    -------
    LinearMDP

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP
    >>> mdp = LinearMDP.random(n_states=4, n_actions=2, dim=3, horizon=5, rng=np.random.default_rng(0))
    >>> bool((mdp.features < 0).any()), bool((mdp.transitions >= 0).all())
    (True, True)
    """
    plain = simplex(cls, n_states=n_states, n_actions=n_actions, dim=dim, horizon=horizon, rng=rng)
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return cls(plain.features @ turn.T, np.matmul(turn, plain.measures), plain.rewards @ turn.T, plain.initial)


def chain(cls, *, n_states: int, horizon: int, slip: float = 0.1) -> Any:
    """A line of states: action 0 goes left, 1 goes right, and with probability `slip` the other way.

    Staying at the far right pays 1 a step, going left at the far left pays 0.1; it starts at the left.

    Parameters
    ----------
    n_states, horizon : int
        S >= 2 and H.
    slip : float, default=0.1
        Probability that a move goes the wrong way.

    Returns
    -------
    LinearMDP
        Tabular: d = 2 S.

    Examples
    --------
    >>> from rrl import LinearMDP
    >>> LinearMDP.chain(n_states=3, horizon=4, slip=0.0).optimal_values().start
    2.0
    """
    check_integer(2, n_states=n_states)
    check_integer(1, horizon=horizon)
    check_fraction(slip=slip)
    step = np.zeros((n_states, 2, n_states))
    states = np.arange(n_states)
    for action, move in enumerate((-1, 1)):
        np.add.at(step, (states, action, np.clip(states + move, 0, n_states - 1)), 1 - slip)  # pyright: ignore[reportArgumentType]
        np.add.at(step, (states, action, np.clip(states - move, 0, n_states - 1)), slip)  # pyright: ignore[reportArgumentType]
    rewards = np.zeros((n_states, 2))
    rewards[0, 0], rewards[-1] = 0.1, 1.0
    return _stationary(cls, step, rewards, horizon)


def river_swim(cls, *, n_states: int = 6, horizon: int = 20) -> Any:
    """RiverSwim (Strehl and Littman, 2008): action 1 swims against the current, action 0 drifts.

    Drifting moves one state left and pays 0.005 at the left bank. Swimming goes right, stays or is
    carried left with probabilities 0.35, 0.6, 0.05 (0.6, 0.4 at the left bank; at the right bank it
    stays with 0.6 and pays 1).

    Parameters
    ----------
    n_states, horizon : int
        S >= 2 and H.

    Returns
    -------
    LinearMDP
        Tabular: d = 2 S.

    Examples
    --------
    >>> from rrl import LinearMDP
    >>> LinearMDP.river_swim().optimal_values().policy[0]
    array([1, 1, 1, 1, 1, 1])
    """
    check_integer(2, n_states=n_states)
    check_integer(1, horizon=horizon)
    step = np.zeros((n_states, 2, n_states))
    states = np.arange(n_states)
    step[states, 0, np.maximum(states - 1, 0)] = 1
    step[states, 1, states] = 0.6
    step[states[:-1], 1, states[:-1] + 1] = 0.35
    step[states[1:], 1, states[1:] - 1] = 0.05
    step[0, 1, :2] = 0.4, 0.6
    step[-1, 1, -2] = 0.4
    rewards = np.zeros((n_states, 2))
    rewards[0, 0], rewards[-1, 1] = 0.005, 1.0
    return _stationary(cls, step, rewards, horizon)


def combination_lock(cls, *, horizon: int, n_actions: int, slip: float = 0.1, rng: np.random.Generator) -> Any:
    """A lock of H tumblers: one action is right at each, any other jams it, and only the last pays.

    State i < H means that i tumblers are open, state H that the lock is jammed. The right action
    jams too with probability `slip`, except at the last tumbler, where it pays 1. The optimal value
    is (1 - slip)^(H - 1); a policy that never explores finds nothing.

    Parameters
    ----------
    horizon, n_actions : int
        H and A.
    slip : float, default=0.1
        Probability that the right action jams.
    rng : numpy.random.Generator
        Draws the combination.

    Returns
    -------
    LinearMDP
        Tabular, S = H + 1, d = S A.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP
    >>> lock = LinearMDP.combination_lock(horizon=3, n_actions=4, rng=np.random.default_rng(1))
    >>> round(lock.optimal_values().start, 12)
    0.81
    """
    check_rng(rng)
    check_integer(1, horizon=horizon, n_actions=n_actions)
    check_fraction(slip=slip)
    right = rng.integers(n_actions, size=horizon)
    step = np.zeros((horizon + 1, n_actions, horizon + 1))
    step[..., horizon] = 1
    opening = np.arange(horizon - 1)
    step[opening, right[:-1], horizon] = slip
    step[opening, right[:-1], opening + 1] = 1 - slip
    rewards = np.zeros((horizon + 1, n_actions))
    rewards[horizon - 1, right[-1]] = 1.0
    return _stationary(cls, step, rewards, horizon)


def _stationary(cls, step, rewards, horizon):
    """A tabular MDP with the same step at every stage, started in state 0."""
    initial = np.eye(len(step))[0]
    return tabular(cls, np.repeat(step[None], horizon, axis=0), np.repeat(rewards[None], horizon, axis=0), initial)


def boundary_lock(cls, *, bin_width: float = 0.1) -> Any:
    """Counter-example of erratum E2 (H = 2): one re-read random string puts stage 0 on a cell boundary.

    With the core pairs (0, 0) and (0, 1), half the samples each, R-LSVI's stage-0 weight of
    coordinate 0 is the *rounded* stage-1 weight plus an odd number of half bins. If both calls of
    ridge regression use the same offsets, it lies on a boundary of the grid for every shared seed,
    and two runs disagree half the time however many samples they draw.

    Parameters
    ----------
    bin_width : float, default=0.1
        The paper's alpha in ridge regression, at most 1.

    Returns
    -------
    LinearMDP
        S = 3, A = 2, d = 8, of which two coordinates are in use: the norms ask for d >= 8.

    Examples
    --------
    >>> from rrl import LinearMDP
    >>> LinearMDP.boundary_lock().features[0, :, :2]
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    if not 1e-300 <= real(bin_width) <= 1:
        raise ValueError(f"bin_width must lie in [1e-300, 1], got {bin_width!r}")
    features = np.zeros((3, 2, 8))
    features[0, 0, 0] = features[0, 1, 1] = 0.5
    features[1, :, :2] = 0.75, -0.25
    features[2, :, :2] = 0.25, 0.25
    measures = np.zeros((2, 8, 3))
    measures[:, :2, 1:] = 1.0
    rewards = np.zeros((2, 8))
    rewards[0, :2] = bin_width * (np.floor(0.4 / bin_width) + 0.5)
    rewards[1, :2] = 1.0, 0.4
    return cls(features, measures, rewards, [1.0, 0.0, 0.0])


def steep_measure(cls, *, gap: float = 0.01) -> Any:
    """Counter-example to Proposition 2.2 as printed: Assumption 2.1 holds, the weights are unbounded.

    Two actions whose features differ by `gap` in one coordinate lead to different states, so the
    signed measure of that coordinate has mass 1 / (2 gap) of either sign. The signs cancel in
    mu(all states), which is all that Assumption 2.1 bounds, as in Jin et al. (2020), whom the paper
    quotes. The proposition needs the bound on
    the total variations, or on the integral of every function with values in [0, 1].

    Parameters
    ----------
    gap : float, default=0.01
        Difference of the features, in [1e-150, 0.17].

    Returns
    -------
    LinearMDP
        S = 2, A = 2, d = 3, H = 2; the optimal stage-0 weights have norm about 0.34 / gap.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP
    >>> mdp = LinearMDP.steep_measure()
    >>> weights = mdp.policy_weights(mdp.optimal_values().policy)
    >>> round(float(np.linalg.norm(weights[0]))), round(2 * mdp.horizon * np.sqrt(mdp.dim), 2)
    (34, np.float64(6.93))
    """
    if not 1e-150 <= real(gap) <= 0.17:
        raise ValueError(f"gap must lie in [1e-150, 0.17], got {gap!r}")
    features = np.zeros((2, 2, 3))
    features[..., 0] = 0.9
    features[:, 1, 1] = gap
    features[1, :, 2] = 0.4
    measures = np.zeros((2, 3, 2))
    measures[:, 0] = 0.5 / 0.9
    measures[:, 1] = np.array([-0.5, 0.5]) / gap
    rewards = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.7]])
    return cls(features, measures, rewards, [1.0, 0.0])


def faint_path(cls, *, horizon: int, penalty: float, margin: float = 1e-9) -> Any:
    """Counter-example of erratum E7: ridge regression at `penalty` prefers a small reward to a rare way out.

    State 0 pays nothing, except for action 1, which pays b_h and stays. Action 2 leads to state 1,
    which pays 1 for ever, with probability 1.4 x; its features differ from those of action 0, which
    stays and pays nothing, by x in one coordinate, x^2 = 8 penalty. With the four pairs
    (0, 0), (0, 1), (0, 2), (1, 0) as core set, equally weighted, which is the optimal design (k = 4),
    the penalty shrinks what action 2 is worth beyond action 0 to three quarters, at every sample
    size, and b_h lies above that by `margin`. R-LSVI then loses about x H^2 / 6, in multiples of
    sqrt(penalty) H^2, although Assumption 2.1 holds with the bound on all integrals of erratum E22.

    Parameters
    ----------
    horizon : int
        H.
    penalty : float
        The penalty in average form that the regression is to be run with, in (0, 0.004].
    margin : float, default=1e-9
        By how much the estimated value of action 1 exceeds the next one.

    Returns
    -------
    LinearMDP
        S = 2, A = 3, d = 4.

    Examples
    --------
    >>> from rrl import LinearMDP
    >>> LinearMDP.faint_path(horizon=40, penalty=2e-6).optimal_values().policy[0, 0]
    np.int64(2)
    """
    check_integer(1, horizon=horizon)
    check_non_negative(margin=margin)
    if not 0 < real(penalty) <= 0.004:
        raise ValueError(f"penalty must lie in (0, 0.004], got {penalty!r}")
    x = np.sqrt(8 * penalty)
    c = np.sqrt(1 - x**2)
    features = np.zeros((2, 3, 4))
    features[0] = [c, 0, 0, 0], [0, 1, 0, 0], [c, 0, 0, x]
    features[1, :, 2] = 1
    measures = np.array([[1 / c, 0], [1, 0], [0, 1], [-1.4, 1.4]])
    core = features[[0, 0, 0, 1], [0, 1, 2, 0]]
    # Fitted values at the core pairs, as a linear map of the means of their labels.
    fit = core @ np.linalg.solve(core.T @ core / 4 + penalty * np.eye(4), core.T) / 4
    rewards, value = np.tile([0.0, 0.0, 1.0, 0.0], (horizon, 1)), np.zeros(2)
    for h in reversed(range(horizon)):
        guess = fit @ (core @ (rewards[h] + measures @ value))
        best = max(guess[0], guess[2]) + margin
        rewards[h, 1] = (best - guess[1]) / fit[1, 1]
        value = np.clip([best, guess[3]], 0, horizon)
    return cls(features, np.repeat(measures[None], horizon, axis=0), rewards, [1.0, 0.0])
