"""Replicable fitted Q-iteration (Section 6.1): ridge regression per action, rounded in every round."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator

from ._checks import as_float64, check_bin_width, check_choice, check_finite, check_sums
from .features import rowwise_product
from .lattice import SCHEMES
from .replicability import fingerprint
from .ridge import ridge_weights

__all__ = ["ReplicableFittedQ"]


class ReplicableFittedQ(BaseEstimator):
    """Fitted Q-iteration from a fixed set of transitions, with replicable rounding (Section 6.1).

    Starting from Q = 0, each round regresses reward + gamma * max_a' Q(s', a') on the features, one
    average-form ridge problem an action, and rounds the weights to a grid with fresh shared offsets.

    Parameters
    ----------
    features : transformer
        Fitted map from observations to features, such as :class:`rrl.RandomFourierFeatures`; shared
        by all runs.
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
    scheme : {"grid", "lattice"}, default="grid"
        How the weights of each action are rounded; the worst error is the same.

    Attributes
    ----------
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
        features,
        n_actions,
        *,
        n_rounds=5,
        penalty=0.1,
        gamma=0.99,
        bin_width=0.2,
        shared_seed=0,
        scheme="grid",
    ):
        self.features = features
        self.n_actions = n_actions
        self.n_rounds = n_rounds
        self.penalty = penalty
        self.gamma = gamma
        self.bin_width = bin_width
        self.shared_seed = shared_seed
        self.scheme = scheme

    def fit(self, observations, actions, rewards, next_observations, terminals):
        """Run all rounds on one sample of transitions.

        Parameters
        ----------
        observations, next_observations : array_like, shape (n, n_inputs)
        actions : array_like of int, shape (n,)
            In 0, ..., n_actions - 1; every action must occur.
        rewards : array_like, shape (n,)
        terminals : array_like of bool, shape (n,)
            True where the episode really ended, so that nothing is bootstrapped. A time limit is no
            such end.

        Returns
        -------
        self
        """
        width = self._check_parameters()
        actions, rewards, terminals = self._check_transitions(
            observations, actions, rewards, next_observations, terminals
        )
        phi, phi_next = self.features.transform(observations), self.features.transform(next_observations)
        rows = [np.flatnonzero(actions == a) for a in range(self.n_actions)]
        parts = [phi[index] for index in rows]
        grams = [part.T @ part / len(part) for part in parts]
        discount = self.gamma * ~terminals

        weights = np.zeros((self.n_actions, phi.shape[1]))
        history = []
        for number in range(self.n_rounds):
            targets = rewards + discount * (phi_next @ weights.T).max(axis=1)
            moments = [part.T @ targets[index] / len(part) for part, index in zip(parts, rows, strict=True)]
            check_sums(targets=np.asarray(moments))
            weights = np.array([ridge_weights(g, m, self.penalty) for g, m in zip(grams, moments, strict=True)])
            if width is not None:
                rounded = SCHEMES[self.scheme](weights, width, shared_seed=self.shared_seed, key=("fitted_q", number))
                weights = rounded.values
                history.append(rounded.codes)
        self.weights_ = weights
        self.history_codes_ = np.array(history) if history else None
        self.codes_ = history[-1] if history else None
        return self

    def _check_parameters(self):
        for name in ("n_actions", "n_rounds"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        for name, top in (("penalty", np.inf), ("gamma", 1)):
            value = getattr(self, name)
            if not (isinstance(value, Real) and np.isfinite(value) and 0 <= value <= top):
                raise ValueError(f"{name} must be a finite number in [0, {top}], got {value!r}")
        check_choice("scheme", self.scheme, SCHEMES)
        return None if self.bin_width is None else check_bin_width(self.bin_width, ())

    def _check_transitions(self, observations, actions, rewards, next_observations, terminals):
        n = len(observations)
        for name, value in (
            ("actions", actions),
            ("rewards", rewards),
            ("next_observations", next_observations),
            ("terminals", terminals),
        ):
            if len(value) != n:
                raise ValueError(f"{name} has {len(value)} rows, observations has {n}")
        actions = np.asarray(actions)
        if actions.dtype.kind not in "iu" or not np.isin(actions, np.arange(self.n_actions)).all():
            raise ValueError(f"actions must be integers in 0, ..., {self.n_actions - 1}")
        missing = np.setdiff1d(np.arange(self.n_actions), actions)
        if len(missing):
            raise ValueError(f"actions never holds {missing.tolist()}: no row to fit these weights on")
        rewards = as_float64("rewards", rewards)
        check_finite("rewards", rewards)
        return actions, rewards, np.asarray(terminals, dtype=bool)

    def q_values(self, observations):
        """Q-values of every action.

        Parameters
        ----------
        observations : array_like, shape (n, n_inputs)

        Returns
        -------
        ndarray, shape (n, n_actions)
            A row has the same bits whatever batch it comes in.
        """
        return rowwise_product(self.features.transform(observations), self.weights_.T)

    def act(self, observations):
        """Greedy actions; the smallest index wins a tie.

        Parameters
        ----------
        observations : array_like, shape (n, n_inputs)

        Returns
        -------
        ndarray of int, shape (n,)
        """
        return self.q_values(observations).argmax(axis=1)

    def fingerprint(self):
        """SHA-256 of the codes of the last round, the policy's identity.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        if self.codes_ is None:
            raise ValueError("bin_width=None gives no codes: an unrounded policy has no fingerprint")
        return fingerprint(self.codes_)
