"""Linear MDPs on which a statement or an algorithm of the paper fails: class methods of :class:`rrl.LinearMDP`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._checks import check_integer, check_non_negative, real

if TYPE_CHECKING:
    from typing import Any

__all__ = ["boundary_lock", "faint_path", "steep_measure"]


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
