"""Algorithm 5, R-LSVI-UCB: replicable exploration, in the corrected form of errata E1 to E4 and E11."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_float64, check_bool, check_rng, check_shared
from .._extras import missing
from ..mdp import greedy_actions
from ..replicability import fingerprint
from ..rounding import hypergrid_round
from ..second_moment import round_symmetric
from .arguments import check_arguments, data_of
from .data import optimistic_q, regularised

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["LSVIUCBResult", "r_lsvi_ucb"]


@dataclass(frozen=True, eq=False)
class LSVIUCBResult:
    """Result of :func:`r_lsvi_ucb`: T policies, of which the uniform mixture is the output.

    Attributes
    ----------
    policies : ndarray of int64, shape (T, H, S), or None
        The policy of each round; None with a Gymnasium environment.
    codes : (ndarray, ndarray), or None
        Grid cells of the ridge weights, (T - 1, H, d), and of the second moments,
        (T - 1, H, d (d + 1) / 2), that decide the policies of rounds 1 to T - 1. None without rounding.
    switches : ndarray of int64
        Rounds whose policy is of new weights: 1 to T - 1, or fewer of them with `growth`.
    history : dict of ndarray, shape (T,)
        ``optimistic_value``: the estimate of the start value that each round's policy maximises;
        ``mean_return``: the mean return of its trajectories.
    weights, inverses : ndarray, shapes (T, H, d) and (T, H, d, d), or None
        Weights and inverse Gram matrices of every round, where they were kept.
    beta : float
        As given.
    """

    policies: np.ndarray | None
    codes: tuple | None
    switches: np.ndarray
    history: dict
    weights: np.ndarray | None
    inverses: Any
    beta: float

    def __repr__(self):
        known = self.codes is not None or self.policies is not None
        name = f"fingerprint {self.fingerprint()[:12]}..." if known else "unrounded"
        return f"LSVIUCBResult(T={len(self.history['mean_return'])}, beta={self.beta:g}, {name})"

    def fingerprint(self) -> str:
        """SHA-256 of the codes, and `switches` where rounds are skipped, or of the policies if nothing was rounded."""
        if self.codes is not None:
            # A code is one of its round's own grid: where weights were kept, the rounds of new ones count too.
            rare = len(self.switches) < len(self.history["mean_return"]) - 1
            return fingerprint([*self.codes, self.switches] if rare else list(self.codes))
        if self.policies is None:
            raise ValueError("an unrounded run on an environment has no codes to compare: give bin_widths")
        return fingerprint(self.policies)

    def q_values(self, t: Any, h: Any, phi: Any) -> Any:
        """Optimistic values of round `t` at stage `h` for features of shape (..., d)."""
        if self.weights is None:
            raise ValueError("the estimates were not kept: run with keep_estimates=True")
        phi, horizon = as_float64("phi", phi), self.weights.shape[1]
        return optimistic_q(phi, self.weights[t, h], self.inverses[t, h], self.beta, horizon)

    def act(self, t: Any, h: Any, phi: Any) -> Any:
        """Actions of round `t` at stage `h` for features of all actions, shape (..., A, d)."""
        return greedy_actions(self.q_values(t, h, phi))


def r_lsvi_ucb(
    mdp: Any,
    *,
    n_rounds: int,
    n_trajectories: float,
    beta: float,
    penalty: float,
    bin_widths: tuple[float, float] | None,
    shared_seed: int,
    rng: np.random.Generator,
    key: tuple = (),
    by: str | None = None,
    features: Callable[..., Any] | None = None,
    horizon: int | None = None,
    keep_estimates: bool = False,
    engine: str = "numpy",
    growth: float = 1.0,
) -> LSVIUCBResult:
    """Replicable least-squares value iteration with upper confidence bounds (Algorithm 5, Theorem 4.2).

    Every round runs M trajectories under the current policy, then goes from the last stage to the
    first: all data of the stage, each round with its own rewards and next states, are labelled with
    this round's V_{h+1}; the ridge weights and the second moment are rounded under the keys
    ``("lsvi_ucb", t, h, "ridge")`` and ``("lsvi_ucb", t, h, "gram")``; and
    Q_h = min(H, phi' w + beta * sqrt(phi' Lambda^-1 phi)) with Lambda the rounded second moment plus
    penalty * I. Sums over rounds are divided by M. It starts from Q = min(H, beta * norm(phi) / sqrt(penalty)).

    With ``n_trajectories=1, bin_widths=None`` this is plain LSVI-UCB (Jin et al., 2020).

    With `growth` above 1 it switches rarely: 1, 2, 4, 8, ... rounds after new weights were published
    the second moments are rounded, and new weights follow only if somewhere Lambda has grown by that
    factor, so that about d H log(T) policies and not T share rho (chapter 15).

    Parameters
    ----------
    mdp : LinearMDP or gymnasium.Env
        An environment needs a Discrete action space, `features` and `horizon`; rewards must lie in
        [0, 1]. After a termination all later values are 0, and nobody reads the observation; a
        truncation is bootstrapped. A time limit below the horizon is refused.
    n_rounds : int
        The paper's T.
    n_trajectories : int or float
        The paper's M; from 9.2e18 on a float, drawn in the normal limit.
    beta : float
        Width of the bonus.
    penalty : float
        The paper's lambda > 0, for sums over rounds of means over trajectories.
    bin_widths : (float, float) or None
        Bins of the ridge weights and of the second moment; None leaves both as they are.
    shared_seed : int
        The paper's random string r.
    rng : numpy.random.Generator
        The data.
    key : tuple, default=()
        Name of this call where several share one seed (erratum E2); it follows ``"lsvi_ucb", t, h``.
    by : {"counts", "draws"}, optional
        How a LinearMDP is sampled: the law is the same, the cost of counts does not grow with M. By
        default counts where M > S.
    features : callable, optional
        With an environment only: observation -> features of all actions, shape (A, d), norms at most 1.
    horizon : int, optional
        With an environment only: the paper's H.
    keep_estimates : bool, default=False
        Keep the weights and inverse matrices of all rounds; always so with an environment.
    engine : {"numpy", "numba"}, default="numpy"
        "numba" compiles plain LSVI-UCB on a LinearMDP (same trajectories, same policies).
    growth : float, default=1.0
        Least factor, over all stages and directions, by which Lambda has grown when new weights are
        published; 1 publishes every round.

    Returns
    -------
    LSVIUCBResult

    Warns
    -----
    UserWarning
        If every episode of an environment was cut at a stage below the horizon that none got past.

    Raises
    ------
    ValueError
        If an argument, or what the environment or `features` returns, is not as described; the message names it.
    TypeError
        If `mdp`, `rng`, the seed or the key is of another type.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP, r_lsvi_ucb
    >>> lock = LinearMDP.combination_lock(horizon=4, n_actions=3, rng=np.random.default_rng(5))
    >>> def lab(seed):
    ...     settings = dict(n_rounds=50, n_trajectories=10**15, beta=0.5, penalty=0.1, shared_seed=2)
    ...     return r_lsvi_ucb(lock, bin_widths=(0.05, 0.02), rng=np.random.default_rng(seed), **settings)
    >>> one, two = lab(1), lab(2)
    >>> one.fingerprint() == two.fingerprint()
    True
    >>> best = lock.optimal_values().start
    >>> float(round(best - lock.policy_values(one.policies[-1]).start, 9))
    0.0
    """
    bin_widths = check_arguments(
        mdp, n_rounds, n_trajectories, beta, penalty, bin_widths, by, engine, keep_estimates, growth
    )
    check_shared(shared_seed, key)
    check_rng(rng)
    check_bool(keep_estimates=keep_estimates)
    beta, penalty = float(beta), float(penalty)
    data = data_of(mdp, n_trajectories, beta, penalty, bin_widths, by, features, horizon, rng)
    if engine == "numba":
        return _run_compiled(mdp, n_rounds, beta, penalty, rng)

    T, (H, d) = n_rounds, data.gram.shape[:2]
    keep_estimates = keep_estimates or data.policy is None
    policies: Any = None if data.policy is None else np.empty((T, *data.policy.shape), dtype=np.int64)
    weights: Any = np.zeros((T, H, d)) if keep_estimates else None
    inverses: Any = np.tile(np.eye(d) / penalty, (T, H, 1, 1)) if keep_estimates else None
    history = {name: np.empty(T) for name in ("optimistic_value", "mean_return")}
    codes: Any = None
    if bin_widths is not None:
        codes = tuple(np.empty((T - 1, H, size), dtype=np.int64) for size in (d, d * (d + 1) // 2))
    published, since, switches = None, 0, []
    for t in range(T):
        if policies is not None:
            policies[t] = data.policy
        history["mean_return"][t] = data.collect(t)
        history["optimistic_value"][t] = data.optimistic_value()
        if t + 1 == T:
            break
        since += 1
        # Between the powers of two nothing is looked at, so that few calls share rho.
        grams: Any = None if since & (since - 1) else _rounded_moments(data.gram, t, bin_widths, shared_seed, key)
        if grams is None or not (growth == 1 or published is None or _grown(grams[0], published, penalty) >= growth):
            for kept in codes or ():
                kept[t] = kept[t - 1]
            if keep_estimates:
                weights[t + 1], inverses[t + 1] = weights[t], inverses[t]
            continue
        since = 0
        switches.append(t + 1)
        for h in reversed(range(H)):
            w = data.regress(h)
            if bin_widths is not None:
                name = ("ridge", ("lsvi_ucb", t, h, *key, "ridge"))
                rounded = hypergrid_round(w, bin_widths[0], shared_seed=shared_seed, key=name)
                w, codes[0][t, h], codes[1][t, h] = rounded.values, rounded.codes, grams[1][h]
            if not data.rank_one:
                data.set_inverse(h, regularised(np.linalg.inv, grams[0][h], penalty))
            data.set_stage(h, w)
            if keep_estimates:
                weights[t + 1, h], inverses[t + 1, h] = w, data.inverse[h]
        published = data.inverse.copy()
    data.finish()
    return LSVIUCBResult(policies, codes, np.array(switches, dtype=np.int64), history, weights, inverses, float(beta))


def _rounded_moments(grams, t, bin_widths, shared_seed, key):
    """Second moments of all stages after round t, and their codes; as they are without bin widths."""
    if bin_widths is None:
        return grams, None
    looks = [
        round_symmetric(gram, bin_widths[1], shared_seed=shared_seed, key=("lsvi_ucb", t, h, *key, "gram"))
        for h, gram in enumerate(grams)
    ]
    return tuple(zip(*looks))


def _grown(grams, inverses, penalty):
    """The largest factor, over stages and directions, between the published matrices Lambda and those of `grams`."""
    regular = np.asarray(grams) + penalty * np.eye(inverses.shape[1])
    return np.linalg.eigvals(inverses @ regular).real.max()


def _run_compiled(mdp, n_rounds, beta, penalty, rng):
    """The same for plain LSVI-UCB, compiled."""
    try:
        from .compiled import plain_lsvi_ucb
    except ImportError as error:
        raise missing("experiments", "engine='numba' needs numba") from error
    policies = np.empty((n_rounds, mdp.horizon, mdp.n_states), dtype=np.int64)
    history = {name: np.empty(n_rounds) for name in ("optimistic_value", "mean_return")}
    pairs = mdp.n_states * mdp.n_actions
    plain_lsvi_ucb(
        mdp.features.reshape(pairs, mdp.dim),
        mdp.cumulative.reshape(mdp.horizon, pairs, mdp.n_states),
        mdp.cumulative_start,
        mdp.rewards_table.reshape(mdp.horizon, pairs),
        mdp.start_probabilities,
        float(beta),
        float(penalty),
        rng.random((n_rounds, mdp.horizon + 1)),
        policies,
        history["optimistic_value"],
        history["mean_return"],
    )
    return LSVIUCBResult(policies, None, np.arange(1, n_rounds), history, None, None, float(beta))
