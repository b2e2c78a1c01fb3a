"""The tabular baseline: value iteration on counted transitions, whose action values are rounded one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._checks import check_bin_width, check_rng, check_shared, check_size
from .mdp import LinearMDP, greedy_actions
from .replicability import fingerprint
from .rounding import hypergrid_round

__all__ = ["TabularResult", "r_qvi"]


@dataclass(frozen=True, eq=False)
class TabularResult:
    """Result of :func:`r_qvi`.

    Attributes
    ----------
    q, unrounded_q : ndarray, shape (H, S, A)
        Action values, rounded and as they were estimated.
    codes : ndarray of int64, shape (H, S, A), or None
        Grid cells of the action values; None without rounding.
    policy : ndarray of int64, shape (H, S)
        Greedy actions for the rounded values.
    n_samples : int or float
        Samples of all pairs and stages together, an int where it is below 2^63.
    """

    q: np.ndarray
    unrounded_q: np.ndarray
    codes: np.ndarray | None
    policy: np.ndarray
    n_samples: float

    def fingerprint(self) -> str:
        """SHA-256 of the codes, or of the policy where nothing was rounded."""
        return fingerprint(self.policy if self.codes is None else self.codes)


def r_qvi(
    mdp: LinearMDP,
    *,
    n_samples: float,
    bin_width: float | None,
    shared_seed: int,
    rng: np.random.Generator,
    key: tuple = (),
) -> TabularResult:
    """Replicable value iteration for tabular models, from a generative model and without features.

    Estimates all action values, by value iteration on the transitions that were counted, then rounds
    every one of them under the key ``("qvi",)`` and acts greedily. Values within e of the optimal ones
    lose at most 2 H e. Tabular models with a generative model are the setting of Karbasi et al. (2023),
    who treat discounted ones. It serves as the baseline of :func:`rrl.r_lsvi`, which rounds weights of
    features stage by stage.

    Parameters
    ----------
    mdp : LinearMDP
        Its features are not used.
    n_samples : int or float
        Samples of each pair at each stage; from 9.2e18 on a float, drawn in the normal limit.
    bin_width : float or None
        Bins of the action values; None leaves them as they are.
    shared_seed : int
        The shared random string.
    rng : numpy.random.Generator
        The data.
    key : tuple, default=()
        Name of this call where several share one seed; it follows ``"qvi"``.

    Returns
    -------
    TabularResult

    Raises
    ------
    ValueError
        If an argument is not as described; the message names it.
    TypeError
        If `mdp`, `rng`, the seed or the key is of another type.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP, r_qvi
    >>> mdp = LinearMDP.chain(n_states=4, horizon=5)
    >>> def lab(seed):
    ...     return r_qvi(mdp, n_samples=10**8, bin_width=0.1, shared_seed=1, rng=np.random.default_rng(seed))
    >>> one, two = lab(1), lab(2)
    >>> one.fingerprint() == two.fingerprint(), one.n_samples
    (True, 4000000000)
    >>> float(round(mdp.optimal_values().start - mdp.policy_values(one.policy).start, 2))
    0.0
    """
    if not isinstance(mdp, LinearMDP):
        raise TypeError(f"mdp must be a LinearMDP, got {mdp!r}")
    check_size("n_samples", n_samples)
    n_samples = n_samples if isinstance(n_samples, float) else int(n_samples)
    bin_width = None if bin_width is None else check_bin_width(bin_width, ())
    check_shared(shared_seed, key)
    check_rng(rng)
    H, pairs = mdp.horizon, (mdp.n_states, mdp.n_actions)
    value, q = np.zeros(mdp.n_states), np.empty((H, *pairs))
    counts = np.full(pairs, n_samples, dtype=np.int64 if n_samples < 2**63 else np.float64)
    for h in reversed(range(H)):
        q[h] = mdp.rewards_table[h] + mdp.sample_counts(h, counts, rng) @ value / float(n_samples)
        value = q[h].max(axis=1)
    total = n_samples * counts.size * H
    total = total if total < 2**63 else float(total)
    if bin_width is None:
        return TabularResult(q, q, None, greedy_actions(q), total)
    rounded = hypergrid_round(q, bin_width, shared_seed=shared_seed, key=("qvi", *key))
    return TabularResult(rounded.values, q, rounded.codes, greedy_actions(rounded.values), total)
