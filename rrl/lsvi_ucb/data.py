"""What R-LSVI-UCB keeps of its trajectories: sums on a finite model, transitions in an environment."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_flags, as_float64, check_finite
from ..features import rowwise_product
from ..mdp.counts import multinomial_counts
from ..mdp.linear_mdp import greedy_actions

if TYPE_CHECKING:
    from typing import Any

__all__ = ["EnvData", "FiniteData", "bonus", "optimistic_q", "regularised"]

#: Rank-one updates lose digits: the inverse is computed afresh after so many rounds.
REFRESH = 256


def bonus(phi: np.ndarray, inverse: np.ndarray, beta: float) -> np.ndarray:
    """The exploration bonus beta * sqrt(phi' inverse phi), the same for a state alone and in a batch.

    Parameters
    ----------
    phi : ndarray, shape (..., d)
        Features.
    inverse : ndarray, shape (d, d)
        Inverse of the regularised Gram matrix Lambda.
    beta : float
        The paper's beta >= 0.

    Returns
    -------
    ndarray, shape (...)

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.lsvi_ucb.data import bonus
    >>> float(bonus(np.array([1.0, 0.0]), np.eye(2) / 4, 2.0))
    1.0
    """
    rows = phi.reshape(-1, phi.shape[-1])
    spread = (rowwise_product(rows, inverse) * rows).sum(axis=1)
    with np.errstate(over="ignore"):
        return beta * np.sqrt(np.maximum(spread, 0)).reshape(phi.shape[:-1])


def optimistic_q(phi: Any, weights: Any, inverse: Any, beta: Any, horizon: Any) -> Any:
    """Optimistic values min(H, phi @ weights + bonus), shape (...)."""
    rows = phi.reshape(-1, phi.shape[-1])
    plain = rowwise_product(rows, weights[:, None]).reshape(phi.shape[:-1])
    return np.minimum(horizon, plain + bonus(phi, inverse, beta))


def regularised(solver: Any, gram: Any, penalty: Any, *moment) -> Any:
    """``solver(gram + penalty I, ...)``: its inverse, or the ridge weights on a moment."""
    system, noise = gram + penalty * np.eye(len(gram)), len(gram) * np.finfo(float).eps
    if penalty < noise * system.diagonal().max():
        # Scaled to a unit diagonal: columns of different sizes do no harm.
        scale = np.sqrt(system.diagonal())
        if not np.linalg.cond(system / scale / scale[:, None]) < 1 / noise:
            raise ValueError(f"penalty={penalty!r} is lost beside the second moments, which have no inverse: raise it")
    return solver(system, *moment)


class FiniteData:
    """What the trajectories on a LinearMDP leave behind: second moments and sums over next states.

    Everything is divided by M, the number of trajectories a round, so one penalty serves the
    regression and the bonus at every size of M.
    """

    def __init__(
        self, mdp: Any, n_trajectories: Any, by: Any, rank_one: Any, beta: Any, penalty: Any, rng: Any
    ) -> None:
        horizon, d = mdp.horizon, mdp.dim
        self.mdp, self.size, self.by, self.rank_one, self.rng = mdp, n_trajectories, by, rank_one, rng
        self.beta, self.penalty = beta, penalty
        self.flat = mdp.features.reshape(-1, d)
        self.gram = np.zeros((horizon, d, d))
        self.reward = np.zeros((horizon, d))
        self.following = np.zeros((horizon, d, mdp.n_states))
        self.value = np.zeros((horizon + 1, mdp.n_states))
        self.policy = np.empty((horizon, mdp.n_states), dtype=np.int64)
        self.inverse = np.tile(np.eye(d) / penalty, (horizon, 1, 1))
        self.spread = np.tile((self.flat**2).sum(axis=1) / penalty, (horizon, 1))
        for h in range(horizon):
            self.set_stage(h, np.zeros(d))

    def collect(self, t: Any) -> Any:
        """Run M trajectories under the current policy and return their mean return."""
        if self.rank_one:
            return self._walk(t)
        mdp, gain = self.mdp, 0.0
        if self.by == "counts":
            visits = mdp.start_counts(self.size, self.rng)
        else:
            states = mdp.sample_start(self.size, self.rng)
        for h in range(mdp.horizon):
            if self.by == "counts":
                rows = np.flatnonzero(visits)
                n = visits[rows]
                table = multinomial_counts(n, mdp.transitions[h, rows, self.policy[h, rows]], self.rng)
                visits = table.sum(axis=0)
            else:
                following = mdp.sample(h, states, self.policy[h, states], self.rng)
                table = np.bincount(states * mdp.n_states + following, minlength=mdp.n_states**2)
                table = table.reshape(mdp.n_states, mdp.n_states)
                rows = np.flatnonzero(table.sum(axis=1))
                table = table[rows]
                n = table.sum(axis=1)
                states = following
            actions = self.policy[h, rows]
            phi = mdp.features[rows, actions]
            scaled = phi * (n / self.size)[:, None]
            rewards = mdp.rewards_table[h, rows, actions]
            self.gram[h] += scaled.T @ phi
            self.reward[h] += scaled.T @ rewards
            self.following[h] += phi.T @ (table / self.size)
            gain += float(n @ rewards) / self.size
        return gain

    def _walk(self, t):
        """One trajectory, with rank-one updates of the inverse and of the spread phi' inverse phi."""
        mdp, gain = self.mdp, 0.0
        uniform = self.rng.random(mdp.horizon + 1)
        s = mdp.cumulative_start.searchsorted(uniform[0], "right")
        for h in range(mdp.horizon):
            a = self.policy[h, s]
            phi = mdp.features[s, a]
            reward = mdp.rewards_table[h, s, a]
            s = mdp.cumulative[h, s, a].searchsorted(uniform[h + 1], "right")
            self.gram[h] += phi[:, None] * phi
            self.reward[h] += reward * phi
            self.following[h, :, s] += phi
            gain += reward
            if t % REFRESH == REFRESH - 1:
                self.inverse[h] = regularised(np.linalg.inv, self.gram[h], self.penalty)
                self.spread[h] = ((self.flat @ self.inverse[h]) * self.flat).sum(axis=1)
            else:
                move = self.inverse[h] @ phi
                scale = 1 / (1 + move @ phi)
                self.inverse[h] -= (scale * move)[:, None] * move
                self.spread[h] -= scale * (self.flat @ move) ** 2
        return gain

    def regress(self, h: Any) -> Any:
        """Ridge weights at stage h on labels r + V_{h+1}(s'), unrounded."""
        moment = self.reward[h] + self.following[h] @ self.value[h + 1]
        if self.rank_one:
            return self.inverse[h] @ moment
        return regularised(np.linalg.solve, self.gram[h], self.penalty, moment)

    def set_moment(self, h: Any, moment: Any) -> None:
        """Take the second moment for the bonus of stage h; where walks update its inverse, nothing is to do."""
        if not self.rank_one:
            self.inverse[h] = regularised(np.linalg.inv, moment, self.penalty)
            self.spread[h] = ((self.flat @ self.inverse[h]) * self.flat).sum(axis=1)

    def set_stage(self, h: Any, weights: Any) -> None:
        """Turn weights and spread into optimistic values, V_h and the greedy policy."""
        q = self.flat @ weights
        with np.errstate(over="ignore"):
            q += self.beta * np.sqrt(np.maximum(self.spread[h], 0))
        q = np.minimum(q, self.mdp.horizon, out=q).reshape(self.mdp.n_states, -1)
        best = q.max(axis=1)
        self.policy[h] = (q >= best[:, None] - 1e-9).argmax(axis=1)
        self.value[h] = np.maximum(best, 0)

    def optimistic_value(self) -> Any:
        """Estimate of the start value that the current policy maximises."""
        return float(self.mdp.start_probabilities @ self.value[0])

    def finish(self) -> None:
        """Nothing to say: every trajectory has H steps."""


class EnvData:
    """The same for a Gymnasium environment and a feature map: transitions are kept and re-labelled."""

    policy = None

    def __init__(
        self, env: Any, features: Any, horizon: Any, n_trajectories: Any, beta: Any, penalty: Any, rng: Any
    ) -> None:
        self.env, self.features, self.horizon, self.size, self.rng = env, features, horizon, n_trajectories, rng
        self.beta, self.penalty = beta, penalty
        self.first = int(getattr(env.action_space, "start", 0))
        self.d = self._features(env.reset(seed=self._seed())[0]).shape[1]
        self.gram = np.zeros((horizon, self.d, self.d))
        self.reward = np.zeros((horizon, self.d))
        self.weights = np.zeros((horizon, self.d))
        self.inverse = np.tile(np.eye(self.d) / penalty, (horizon, 1, 1))
        # Per stage: features of the pair, features of all actions after it, for what did not terminate.
        self.pairs, self.after = ([[] for _ in range(horizon)] for _ in range(2))
        self.starts = []
        # The latest stages after which an episode went on, or was cut.
        self.furthest = self.cut = 0

    def _seed(self):
        return int(self.rng.integers(2**31))

    def _features(self, observation):
        phi = as_float64("features(observation)", self.features(observation))
        if phi.ndim != 2 or len(phi) != self.env.action_space.n:
            raise ValueError(f"features must return shape ({self.env.action_space.n}, d), got {phi.shape}")
        check_finite("features(observation)", phi)
        norms = np.linalg.norm(phi, axis=1)
        if norms.max() > 1 + 1e-9:
            raise ValueError(f"features must have norms of at most 1, got {norms.max():.6g} at {observation!r}")
        return phi

    def _q(self, h, phi):
        return optimistic_q(phi, self.weights[h], self.inverse[h], self.beta, self.horizon)

    def collect(self, t: Any) -> Any:
        """Run M episodes under the current policy and return their mean return."""
        total = 0.0
        self.starts.clear()
        for _ in range(self.size):
            phi = self._features(self.env.reset(seed=self._seed())[0])
            self.starts.append(phi)
            for h in range(self.horizon):
                action = int(greedy_actions(self._q(h, phi)))
                observation, reward, terminated, truncated = self._step(h, action)
                chosen = phi[action]
                self.gram[h] += np.outer(chosen, chosen) / self.size
                self.reward[h] += chosen * (reward / self.size)
                total += reward
                # Nobody reads what follows a termination or the last stage.
                if terminated or h + 1 == self.horizon:
                    break
                phi = self._features(observation)
                self.pairs[h].append(chosen)
                self.after[h].append(phi)
                if truncated:
                    self.cut = max(self.cut, h + 1)
                    break
                self.furthest = max(self.furthest, h + 1)
        return total / self.size

    def _step(self, h, action):
        observation, reward, terminated, truncated, _ = self.env.step(action + self.first)
        value = as_float64("reward", reward)
        if value.size != 1 or not -1e-9 <= value.item() <= 1 + 1e-9:
            raise ValueError(f"rewards of the environment must lie in [0, 1], got {reward!r} at stage h={h}")
        terminated, truncated = as_flags("terminated", terminated), as_flags("truncated", truncated)
        return observation, value.item(), bool(terminated), bool(truncated)

    def regress(self, h: Any) -> Any:
        """Ridge weights at stage h on labels r + V_{h+1}(s'), unrounded."""
        moment = self.reward[h].copy()
        if h + 1 < self.horizon and self.pairs[h]:
            value = np.maximum(self._q(h + 1, np.array(self.after[h])).max(axis=1), 0)
            moment += np.array(self.pairs[h]).T @ value / self.size
        return regularised(np.linalg.solve, self.gram[h], self.penalty, moment)

    def set_moment(self, h: Any, moment: Any) -> None:
        """Take the second moment for the bonus of stage h."""
        self.inverse[h] = regularised(np.linalg.inv, moment, self.penalty)

    def set_stage(self, h: Any, weights: Any) -> None:
        """Take the weights of stage h."""
        self.weights[h] = weights

    def optimistic_value(self) -> Any:
        """The same estimate, over the first states of the last round."""
        return float(np.maximum(self._q(0, np.array(self.starts)).max(axis=1), 0).mean())

    def finish(self) -> None:
        """Say so where cuts kept every episode from the later stages, whose values stay optimistic."""
        if self.cut > self.furthest:
            warnings.warn(
                f"horizon={self.horizon}, but a time limit cut every episode that did not end before, after at most "
                f"{self.cut} steps: values of later stages stay optimistic. Use horizon={self.cut} or a longer limit",
                stacklevel=3,
            )
