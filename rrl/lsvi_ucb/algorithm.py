"""Algorithm 5, R-LSVI-UCB: replicable exploration, in the corrected form of errata E1 to E4 and E11."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from .._checks import check_rng, check_shared
from .._extras import missing
from ..rounding import hypergrid_round
from ..second_moment import round_symmetric
from .arguments import check_arguments, data_of
from .publishing import Publishing
from .result import Kept, LSVIUCBResult

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["LSVIUCBResult", "r_lsvi_ucb"]


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
    beta, penalty = float(beta), float(penalty)
    # Lines 2 to 4: `data` starts from Q = min(H, beta norm(phi) / sqrt(lambda)) (erratum E11), its V and its policy.
    data = data_of(mdp, n_trajectories, beta, penalty, bin_widths, by, features, horizon, rng)
    if engine == "numba":
        return _run_compiled(mdp, n_rounds, beta, penalty, rng)

    T, H = n_rounds, len(data.gram)
    calls = data, bin_widths, shared_seed, key
    publishing = Publishing(growth, penalty)
    kept = Kept(T, data, bin_widths is not None, keep_estimates or data.policy is None)
    for t in range(T):  # line 5
        # Lines 6 to 11: M trajectories under the policy.
        kept.round(t, data.policy, data.collect(t), data.optimistic_value())
        if t + 1 == T:
            break
        moment = cache(partial(_r_uc_cov_estimation, *calls, t))
        if not publishing.due(lambda moment=moment: [moment(h)[0] for h in range(H)]):
            kept.again(t)
            continue
        for h in reversed(range(H)):  # line 12: from the last stage, as line 16 takes this round's V_{h+1} (erratum E3)
            # Lines 13 to 19: the rows of all rounds i, with labels r^i + V_{h+1} of theirs (erratum E4).
            w, w_codes = _r_ridge_regression(*calls, t, h)
            # Line 20.
            G, G_codes = moment(h)
            # Line 21: Lambda = G + lambda I.
            data.set_moment(h, G)
            # Lines 22, 23 and 25: Q = min(H, w' phi + beta sqrt(phi' Lambda^-1 phi)), V and the policy.
            data.set_stage(h, w)
            kept.stage(t, h, w, data.inverse, w_codes, G_codes)
        publishing.published(t, data.inverse)
    data.finish()
    # Line 27.
    return kept.result(publishing.switches, beta)


def _r_ridge_regression(data, bin_widths, shared_seed, key, t, h):
    """Algorithm 2 under a key of its own (erratum E2): weights and codes, or plain weights and None."""
    w = data.regress(h)
    if bin_widths is None:
        return w, None
    name = ("ridge", ("lsvi_ucb", t, h, *key, "ridge"))
    rounded = hypergrid_round(w, bin_widths[0], shared_seed=shared_seed, key=name)
    return rounded.values, rounded.codes


def _r_uc_cov_estimation(data, bin_widths, shared_seed, key, t, h):
    """Algorithm 3 under a key of its own (erratum E2): second moments and codes, or plain ones and None."""
    if bin_widths is None:
        return data.gram[h], None
    name = ("lsvi_ucb", t, h, *key, "gram")
    return round_symmetric(data.gram[h], bin_widths[1], shared_seed=shared_seed, key=name)


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
