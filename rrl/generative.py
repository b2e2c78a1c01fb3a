"""The generative model of Algorithm 4: sums of labels over draws of the core pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._checks import as_float64, check_choice, check_finite, check_integer, check_sums
from .core_set import check_core_set
from .mdp import LinearMDP

if TYPE_CHECKING:
    from typing import Any

#: A generative model given as a function is asked for at most this many samples at once.
BATCH = 2**14


class FiniteModel:
    """A LinearMDP, sampled by counts or draw by draw."""

    def __init__(self, mdp: Any, core_set: Any, by: Any) -> None:
        self.mdp, self.by_counts = mdp, by == "counts"
        self.features, self.horizon = mdp.features, mdp.horizon
        self.states, self.actions = np.divmod(np.asarray(core_set.indices, dtype=np.int64), mdp.n_actions)
        self.design = mdp.features[self.states, self.actions]

    def label_sums(self, h: Any, counts: Any, value: Any, rng: Any) -> Any:
        """Sum of r + V(s') over the draws of each core pair."""
        mdp, s, a = self.mdp, self.states, self.actions
        if self.by_counts:
            table = np.zeros((mdp.n_states, mdp.n_actions), dtype=counts.dtype)
            table[s, a] = counts
            following = mdp.sample_counts(h, table, rng)[s, a]
        else:
            following = np.zeros((len(s), mdp.n_states))
            for i, count in enumerate(counts):
                drawn = mdp.sample(h, np.full(count, s[i]), a[i], rng)
                following[i] = np.bincount(drawn, minlength=mdp.n_states)
        return counts * mdp.rewards_table[h, s, a] + following @ value(mdp.features)


class FunctionModel:
    """Any generative model, given as a function; sampled in batches."""

    by_counts = False
    features = None

    def __init__(self, model: Any, core_set: Any, features: Any, horizon: Any, bounded: bool) -> None:
        self.model, self.indices, self.horizon, self.bounded = model, core_set.indices, horizon, bounded
        self.design = features[core_set.indices]

    def label_sums(self, h: Any, counts: Any, value: Any, rng: Any) -> Any:
        """Sum of r + V(s') over the draws of each core pair."""
        dim, sums = self.design.shape[1], np.zeros(len(self.indices))
        for i, (index, count) in enumerate(zip(self.indices, counts)):
            while count > 0:
                n = min(int(count), BATCH)
                count -= n
                drawn = self.model(h, int(index), n, rng)
                if not isinstance(drawn, tuple) or len(drawn) != 2:
                    got = f"a tuple of {len(drawn)}" if isinstance(drawn, tuple) else type(drawn).__name__
                    raise ValueError(f"model must return a pair (rewards, next features), got {got}")
                rewards, following = as_float64("rewards", drawn[0]), as_float64("next features", drawn[1])
                if following.ndim != 3 or following.shape[::2] != (n, dim) or 0 in following.shape:
                    raise ValueError(f"model must return next features of shape ({n}, A, {dim}), got {following.shape}")
                if rewards.shape not in ((), (n,)):
                    raise ValueError(f"model must return rewards of shape ({n},) or one number, got {rewards.shape}")
                check_finite("rewards", rewards)
                if self.bounded and not (0 <= rewards.min() and rewards.max() <= 1):
                    raise ValueError(f"rewards must lie in [0, 1], got {rewards.min():g} to {rewards.max():g}")
                check_finite("next features", following)
                with np.errstate(over="ignore", invalid="ignore"):
                    sums[i] += (rewards + value(following)).sum()
        check_sums(**{"the sum of rewards and next values": sums})
        return sums


def generative_model(mdp: Any, core_set: Any, by: Any, features: Any, horizon: Any, *, bounded: bool = False) -> Any:
    """Check what :func:`rrl.r_lsvi` was given, and put one interface before both kinds of model.

    Where `bounded`, rewards that a function returns must lie in [0, 1], as those of a LinearMDP do.
    """
    check_choice("by", by, ("counts", "draws"))
    if isinstance(mdp, LinearMDP):
        if features is not None or horizon is not None:
            raise ValueError("features and horizon belong to a model given as a function, not to a LinearMDP")
        check_core_set(core_set, mdp.n_states * mdp.n_actions)
        if len(np.unique(core_set.indices)) < len(core_set.indices) and by == "counts":
            raise ValueError("core_set.indices must name each pair once where draws are counted: add up its weights")
        return FiniteModel(mdp, core_set, by)
    if not callable(mdp):
        raise TypeError(f"mdp must be a LinearMDP or a function, got {type(mdp).__name__}")
    if features is None or horizon is None:
        raise ValueError("a model given as a function needs features and a horizon")
    check_integer(1, horizon=horizon)
    features = as_float64("features", features)
    if features.ndim < 2 or 0 in features.shape:
        raise ValueError(f"features must have shape (..., d) with at least one row, got {features.shape}")
    check_finite("features", features)
    features = features.reshape(-1, features.shape[-1])
    check_core_set(core_set, len(features))
    return FunctionModel(mdp, core_set, features, int(horizon), bounded)
