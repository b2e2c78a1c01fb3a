"""What :func:`rrl.r_lsvi_ucb` is given: checked, and turned into the data that it works on."""

from __future__ import annotations

from math import inf
from numbers import Integral
from typing import TYPE_CHECKING

from .._checks import (
    check_bin_width,
    check_bool,
    check_choice,
    check_integer,
    check_non_negative,
    check_size,
    real,
)
from ..mdp import LinearMDP
from .data import EnvData, FiniteData

if TYPE_CHECKING:
    from typing import Any

#: Below it the inverse of the penalty overflows, or leaves no room for the bonus.
SMALLEST_PENALTY = 1e-300

#: Rank-one updates subtract numbers of the size of the inverse penalty: below this the bonus loses its digits.
SMALLEST_PLAIN = 1e-10


def check_arguments(
    mdp: Any,
    n_rounds: Any,
    n_trajectories: Any,
    beta: Any,
    penalty: Any,
    bin_widths: Any,
    by: Any,
    engine: Any,
    keep_estimates: Any,
    growth: Any,
) -> Any:
    """Refuse what does not describe a run; return the bin widths as a pair of floats or None."""
    check_integer(1, n_rounds=n_rounds)
    check_size("n_trajectories", n_trajectories)
    check_non_negative(beta=beta, penalty=penalty)
    if penalty == 0:
        raise ValueError("penalty must be positive: the bonus divides by it")
    least = SMALLEST_PLAIN if is_plain(mdp, n_trajectories, bin_widths, by) else SMALLEST_PENALTY
    if penalty < least:
        raise ValueError(f"penalty must be at least {least}, or the bonus is lost in rounding error; got {penalty!r}")
    check_choice("by", by, ("counts", "draws", None))
    check_choice("engine", engine, ("numpy", "numba"))
    if bin_widths is not None:
        if not isinstance(bin_widths, (tuple, list)) or len(bin_widths) != 2:
            raise ValueError(f"bin_widths must be None or a pair (ridge, second moment), got {bin_widths!r}")
        bin_widths = tuple(check_bin_width(width, ()) for width in bin_widths)
    if not 1 <= real(growth) < inf:
        raise ValueError(f"growth must be a number of at least 1, got {growth!r}")
    if engine == "numba" and growth != 1:
        raise ValueError(f"engine='numba' publishes every round: growth must be 1, got {growth!r}")
    if engine == "numba" and not (is_plain(mdp, n_trajectories, bin_widths, by) and not keep_estimates):
        raise ValueError("engine='numba' runs plain LSVI-UCB only: a LinearMDP, n_trajectories=1, no bin_widths")
    check_bool(keep_estimates=keep_estimates)
    return bin_widths


def is_plain(mdp: Any, n_trajectories: Any, bin_widths: Any, by: Any) -> Any:
    """Plain LSVI-UCB on a finite model, for which rank-one updates of the inverse are enough."""
    return isinstance(mdp, LinearMDP) and n_trajectories == 1 and bin_widths is None and by != "counts"


def data_of(
    mdp: Any,
    n_trajectories: Any,
    beta: Any,
    penalty: Any,
    bin_widths: Any,
    by: Any,
    features: Any,
    horizon: Any,
    rng: Any,
) -> Any:
    """What is kept of the trajectories: of a LinearMDP its sums, of an environment its transitions."""
    if isinstance(mdp, LinearMDP):
        if features is not None or horizon is not None:
            raise ValueError("features and horizon belong to an environment, not to a LinearMDP")
        by = by or ("counts" if n_trajectories > mdp.n_states else "draws")
    else:
        if not hasattr(getattr(mdp, "action_space", None), "n"):
            raise TypeError(f"mdp must be a LinearMDP or an environment with discrete actions, got {mdp!r}")
        if not callable(features) or horizon is None:
            raise ValueError("an environment needs features (a function of the observation) and a horizon")
        check_integer(1, horizon=horizon)
        check_time_limit(mdp, horizon)
        by = "draws"
    if by == "draws" and not (isinstance(n_trajectories, Integral) and n_trajectories < 2**63):
        raise ValueError(f"n_trajectories={n_trajectories!r} is too large to draw one by one: use by='counts'")
    if isinstance(mdp, LinearMDP):
        plain = is_plain(mdp, n_trajectories, bin_widths, by)
        return FiniteData(mdp, n_trajectories, by, plain, beta, penalty, rng)
    return EnvData(mdp, features, horizon, n_trajectories, beta, penalty, rng)


def check_time_limit(env: Any, horizon: Any) -> None:
    """Refuse an environment whose time limit is below the horizon: what comes after it stays optimistic for ever."""
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    if limit is not None and limit < horizon:
        raise ValueError(
            f"horizon={horizon} exceeds the environment's time limit of {limit} steps: no data ever reach the stages "
            f"behind it, whose values stay optimistic. Use horizon={limit} or a limit (max_episode_steps) of {horizon}"
        )
