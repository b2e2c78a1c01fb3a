"""Replicable fitted Q-iteration (Section 6.1): ridge regression per action, rounded in every round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ._checks import (
    as_column,
    as_flags,
    as_float64,
    check_bin_width,
    check_choice,
    check_finite,
    check_fraction,
    check_integer,
    check_penalty,
    check_shared,
    check_sums,
    check_weights,
)
from ._solve import solve_ridge, warn_of_loose_codes
from .features import RandomFourierFeatures, rowwise_product
from .lattice import SCHEMES
from .replicability import fingerprint

if TYPE_CHECKING:
    from typing import Any, Self

    from numpy.typing import ArrayLike

__all__ = ["ReplicableFittedQ"]


def r_fitted_q_iteration(model: Any, rows: Any, rewards: Any, going_on: Any, phi_next: Any, bin_width: Any) -> Any:
    """Fitted Q-iteration (Section 6.1) with the parameters of `model`; `rows` are those of `_rows_of_actions`.

    Returns the weights of the last round, the codes of all rounds, and the rounding error as a share of the bin width.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        grams = [left @ phi / N for _, phi, left, N in rows]
    check_sums(features=np.asarray(grams))
    weights, codes, share = np.zeros((len(rows), len(grams[0]))), [], 0.0
    for number in range(model.n_rounds):
        with np.errstate(over="ignore", invalid="ignore"):
            # Targets r + gamma max_a' Q(s', a'), and r where the episode ended.
            targets = np.array(rewards)
            if going_on.any():
                targets[going_on] += float(model.gamma) * (phi_next @ weights.T).max(axis=1)
            moments = [left @ targets[own] / N for own, _, left, N in rows]
        check_sums(targets=np.asarray(moments))
        # Algorithm 2 for each action, with offsets of the round's own.
        solved = [solve_ridge(gram, moment, model.penalty) for gram, moment in zip(grams, moments, strict=True)]
        weights, noise = (np.array(each) for each in zip(*solved, strict=True))
        if bin_width is not None:
            name = ("fitted_q", number, *model.key)
            rounded = SCHEMES[model.scheme](weights, bin_width, shared_seed=model.shared_seed, key=name)
            weights, share = rounded.values, max(share, (noise / bin_width).max())
            codes.append(rounded.codes)
    return weights, codes, share


class ReplicableFittedQ(BaseEstimator):
    """Fitted Q-iteration from a fixed set of transitions, with replicable rounding (Section 6.1).

    Starting from Q = 0, each round regresses reward + gamma * max_a' Q(s', a') on the features, one
    average-form ridge problem an action, and rounds the weights to a grid with fresh shared offsets.

    Parameters
    ----------
    features : RandomFourierFeatures, transformer or callable
        Map from observations, shape (n, n_inputs), to features, shape (n, D); all runs must share it.
        :class:`rrl.RandomFourierFeatures` are drawn in :meth:`fit`, from their own ``shared_seed``
        (``features__shared_seed`` in `set_params`), which must be shared like that of the grid. Any other transformer
        comes fitted, on data that all runs share; :func:`sklearn.base.clone` forgets that unless it is wrapped in
        :class:`sklearn.frozen.FrozenEstimator`.
    n_actions : int
        Number of actions A.
    n_rounds : int, default=5
        Rounds of fitted Q-iteration (5 in the paper).
    penalty : float, default=0.1
        The paper's lambda, average form over the rows of each action.
    gamma : float, default=0.99
        Discount factor in [0, 1].
    bin_width : float or None, default=0.2
        The paper's alpha (0.2 in its figure); None for no rounding.
    shared_seed : int, default=0
        The paper's random string r, for the grid offsets.
    key : tuple, default=()
        Name of this estimator where several share one seed (erratum E2).
    scheme : {"grid", "lattice"}, default="grid"
        How the weights of each action are rounded; the worst error is the same.

    Attributes
    ----------
    features_ : transformer or callable
        The fitted features.
    weights_ : ndarray, shape (n_actions, D)
        Weights of the last round.
    codes_ : ndarray of int64, shape (n_actions, D), or None
        Grid codes of the last round: what two runs compare.
    history_codes_ : ndarray of int64, shape (n_rounds, n_actions, D), or None
        Grid codes of every round.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import RandomFourierFeatures, ReplicableFittedQ
    >>> rng = np.random.default_rng(0)
    >>> states, actions = rng.uniform(-1, 1, (500, 1)), rng.integers(2, size=500)
    >>> moved = np.clip(states + (2 * actions - 1)[:, None] * 0.3, -1, 1)
    >>> features = RandomFourierFeatures(8, shared_seed=1).fit(states)
    >>> q = ReplicableFittedQ(features, 2, penalty=0.01, gamma=0.5)
    >>> q = q.fit(states, actions, moved[:, 0], moved, np.zeros(500, bool))
    >>> q.act([[0.0], [0.5]])
    array([1, 1])
    """

    def __init__(
        self,
        features: Any,
        n_actions: int,
        *,
        n_rounds: int = 5,
        penalty: float = 0.1,
        gamma: float = 0.99,
        bin_width: float | None = 0.2,
        shared_seed: int = 0,
        key: tuple = (),
        scheme: str = "grid",
    ) -> None:
        self.features = features
        self.n_actions = n_actions
        self.n_rounds = n_rounds
        self.penalty = penalty
        self.gamma = gamma
        self.bin_width = bin_width
        self.shared_seed = shared_seed
        self.key = key
        self.scheme = scheme

    def fit(
        self,
        observations: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        next_observations: ArrayLike,
        terminals: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Run all rounds on one sample of transitions.

        Parameters
        ----------
        observations, next_observations : array_like, shape (n, n_inputs)
            Next observations of terminal rows are not read: they may be NaN.
        actions : array_like of int, shape (n,)
            In 0, ..., n_actions - 1; every action must occur.
        rewards : array_like, shape (n,)
        terminals : array_like of bool, or of 0 and 1, shape (n,)
            True where the episode really ended, so that nothing is bootstrapped. A time limit is no
            such end.
        sample_weight : array_like, shape (n,), optional
            Non-negative weights, some of every action above 0; an integer weight equals that many copies of the row, so
            that rows which are drawn again and again are given once with their counts.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or a column is not as described; the message names it.
        TypeError
            If the seed is not an integer or `key` not a tuple of ints, strings and tuples.
        """
        width = self._check_parameters()
        checked = self._check_transitions(observations, actions, rewards, next_observations, terminals)
        actions, rewards, going_on = checked
        counts = None if sample_weight is None else check_weights(sample_weight, len(actions))
        if counts is not None and not all(counts[actions == a].any() for a in range(self.n_actions)):
            raise ValueError("sample_weight must not be 0 for all rows of an action")
        features = _fitted(self.features, observations)
        phi, phi_next = _features(features, observations), np.empty((0, 1))
        if going_on.any():
            phi_next = _features(features, _rows(next_observations, going_on))
        rows = list(_rows_of_actions(phi, actions, counts, self.n_actions))
        weights, history, share = r_fitted_q_iteration(self, rows, rewards, going_on, phi_next, width)
        self.features_ = features
        self.weights_ = weights
        self.history_codes_ = np.array(history) if history else None
        self.codes_ = history[-1] if history else None
        warn_of_loose_codes(share)
        return self

    def _check_parameters(self):
        check_integer(1, n_actions=self.n_actions, n_rounds=self.n_rounds)
        check_penalty(self.penalty)
        check_fraction(gamma=self.gamma)
        check_shared(self.shared_seed, self.key)
        check_choice("scheme", self.scheme, SCHEMES)
        return None if self.bin_width is None else check_bin_width(self.bin_width, ())

    def _check_transitions(self, observations, actions, rewards, next_observations, terminals):
        seen, following = as_float64("observations", observations), as_float64("next_observations", next_observations)
        n = len(seen) if seen.ndim else 0
        if seen.ndim != 2 or n == 0:
            raise ValueError(f"observations must have shape (n, n_inputs) with at least one row, got {seen.shape}")
        if following.shape != seen.shape:
            raise ValueError(
                f"next_observations must have the shape {seen.shape} of observations, got {following.shape}"
            )
        rewards = as_column("rewards", rewards, n, "observations")
        as_column("actions", actions, n, "observations")
        actions = np.asarray(actions)
        if actions.dtype.kind not in "iu" or not np.isin(actions, np.arange(self.n_actions)).all():
            raise ValueError(f"actions must be integers in 0, ..., {self.n_actions - 1}")
        missing = np.setdiff1d(np.arange(self.n_actions), actions)
        if len(missing):
            raise ValueError(f"actions never holds {missing.tolist()}: no row to fit these weights on")
        terminals = as_flags("terminals", terminals)
        as_column("terminals", terminals, n, "observations")
        check_finite("observations", seen)
        check_finite("rewards", rewards)
        # Nobody reads what follows a real end.
        unknown = ~terminals & ~np.isfinite(following).all(axis=1)
        if unknown.any():
            value = next(x for x in following[unknown][0] if not np.isfinite(x))
            raise ValueError(
                f"next_observations, whose row is no real end, holds {value} in row {unknown.argmax()} and in "
                f"{unknown.sum() - 1} more rows: leave rows out where what follows a cut is not known, as "
                "rrl.datasets.transitions(data) does"
            )
        return actions, rewards, ~terminals

    def q_values(self, observations: ArrayLike) -> np.ndarray:
        """Q-values of every action.

        Parameters
        ----------
        observations : array_like, shape (n, n_inputs)

        Returns
        -------
        ndarray, shape (n, n_actions)
            A row has the same bits whatever batch it comes in.
        """
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):
            q = rowwise_product(_features(self.features_, observations), self.weights_.T)
        check_sums(**{"features(observations) @ weights": q})
        return q

    def act(self, observations: ArrayLike) -> np.ndarray:
        """Greedy actions; the smallest index wins a tie.

        Parameters
        ----------
        observations : array_like, shape (n, n_inputs)

        Returns
        -------
        ndarray of int, shape (n,)
        """
        return self.q_values(observations).argmax(axis=1)

    def fingerprint(self) -> str:
        """SHA-256 of the codes of the last round, the policy's identity.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        check_is_fitted(self)
        if self.codes_ is None:
            raise ValueError("bin_width=None gives no codes: an unrounded policy has no fingerprint")
        return fingerprint(self.codes_)


def _rows_of_actions(phi, actions, counts, n_actions):
    """For each action the mask of its rows, their features, these transposed and weighted, and the sum of weights."""
    for a in range(n_actions):
        own = actions == a
        part = phi[own]
        yield (own, part, part.T, len(part)) if counts is None else (own, part, part.T * counts[own], counts[own].sum())


def _fitted(features, observations):
    """The map that a fit uses: Fourier features drawn from their seed, anything else as it was given."""
    if isinstance(features, RandomFourierFeatures):
        own: Any = clone(features)
        return own.fit(observations)
    if not (hasattr(features, "transform") or callable(features)):
        raise TypeError(f"features must be a transformer or a function, got {features!r}")
    if hasattr(features, "fit"):
        message = (
            "features, a %(name)s, must come fitted, on data that all runs share; sklearn.base.clone forgets a fit, "
            "unless it is wrapped in sklearn.frozen.FrozenEstimator"
        )
        check_is_fitted(features, msg=message)
    return features


def _features(features, observations):
    """Features of observations, shape (n, D), finite."""
    rows = as_float64("observations", observations)
    if rows.ndim != 2:
        raise ValueError(f"observations must have shape (n, n_inputs), got {rows.shape}")
    check_finite("observations", rows)
    phi = features.transform(observations) if hasattr(features, "transform") else features(observations)
    phi = as_float64("features(observations)", phi)
    if phi.ndim != 2 or len(phi) != len(observations):
        raise ValueError(f"features must map {len(observations)} observations to shape (n, D), got {phi.shape}")
    check_finite("features(observations)", phi)
    return phi


def _rows(observations, chosen):
    """Rows of an array or, with its column names, of a data frame."""
    return observations[chosen] if hasattr(observations, "iloc") else np.asarray(observations)[chosen]
