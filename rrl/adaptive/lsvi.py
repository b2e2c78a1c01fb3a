"""R-LSVI that draws no more samples at a stage than it needs to settle that stage's weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._checks import check_bin_width, check_choice, check_positive, check_probability, check_rng, check_shared
from ..generative import generative_model
from ..lattice import SCHEMES
from ..lsvi import LSVIResult, linear_values
from ..mdp import greedy_actions
from ..theory.lattice import cell_inradius, cut_rate
from ..theory.stopping import check_ratio, stopping_stages
from .rounding import adaptive_round

if TYPE_CHECKING:
    from typing import Any

__all__ = ["AdaptiveLSVIResult", "adaptive_r_lsvi"]

#: Chances below this make numbers of rows that no float holds.
SMALLEST_SHARE = 1e-60


@dataclass(frozen=True, eq=False)
class AdaptiveLSVIResult(LSVIResult):
    """Result of :func:`adaptive_r_lsvi`: an :class:`rrl.LSVIResult`, and what each stage drew.

    Attributes
    ----------
    stage_samples : ndarray, shape (H,)
        Samples drawn at each stage h.
    fixed_samples : ndarray, shape (H,)
        Samples that the same bound asks for without stopping.
    settled : ndarray of bool, shape (H,)
        Whether a stage stopped because no edge was near.
    """

    stage_samples: np.ndarray
    fixed_samples: np.ndarray
    settled: np.ndarray


def adaptive_r_lsvi(
    mdp: Any,
    core_set: Any,
    *,
    rho: float,
    penalty: float,
    bin_width: Any,
    shared_seed: Any,
    rng: Any,
    key: tuple = (),
    by: str = "counts",
    features: Any = None,
    horizon: Any = None,
    scheme: str = "grid",
    early: float = 0.1,
    ratio: int = 4,
) -> AdaptiveLSVIResult:
    """R-LSVI of :func:`rrl.r_lsvi` that stops drawing at each stage h as soon as its weights' cell is settled.

    Two runs have different codes with probability at most `rho`, rho / H for each stage: while the
    later stages agree, the labels of both runs have one law, and nothing but the later codes is
    carried over. The design is fixed, so the radii are Hoeffding's, with the span of the value of the
    later stage as the range of the labels (a model given as a function: H + 1, for rewards in [0, 1]).

    Parameters
    ----------
    mdp, core_set, bin_width, shared_seed, rng, features, horizon
        As in :func:`rrl.r_lsvi`.
    rho : float
        Replicability parameter of the whole run.
    penalty : float
        The paper's lambda > 0, average form (erratum E1).
    key : tuple, default=()
        As in :func:`rrl.r_lsvi`: without one both draw the same offsets.
    by : {"counts", "draws"}, default="counts"
        As in :func:`rrl.r_lsvi`.
    scheme : {"grid", "lattice"}, default="grid"
        How the weights of a stage are rounded.
    early : float, default=0.1
        Share of rho for stopping early.
    ratio : int, default=4
        Of the numbers of samples of neighbouring looks at the data.

    Returns
    -------
    AdaptiveLSVIResult

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP, adaptive_r_lsvi, g_optimal_design
    >>> mdp = LinearMDP.random(n_states=20, n_actions=4, dim=3, horizon=5, rng=np.random.default_rng(0))
    >>> core = g_optimal_design(mdp.features)
    >>> def lab(seed):
    ...     settings = dict(rho=0.01, penalty=1e-6, bin_width=0.05, shared_seed=1)
    ...     return adaptive_r_lsvi(mdp, core, rng=np.random.default_rng(seed), **settings)
    >>> one, two = lab(1), lab(2)
    >>> one.fingerprint() == two.fingerprint(), bool(one.fixed_samples.sum() > 10 * one.n_samples)
    (True, True)
    """
    check_probability(rho=rho, early=early)
    if min(rho, early) < SMALLEST_SHARE:
        raise ValueError(f"rho and early must be at least {SMALLEST_SHARE}, got {rho!r} and {early!r}")
    check_ratio(ratio)
    check_positive(penalty=penalty)
    width = check_bin_width(bin_width, ())
    check_rng(rng)
    check_choice("scheme", scheme, SCHEMES)
    check_shared(shared_seed, key)
    ratio = int(ratio)
    # The radii are of labels in [0, H + 1].
    model = generative_model(mdp, core_set, by, features, horizon, bounded=True)
    H, d = model.horizon, model.design.shape[1]
    weights, plain = (np.zeros((H + 1, d)) for _ in range(2))
    codes = np.zeros((H, d), dtype=np.int64)
    drawn, fixed, settled = np.zeros(H), np.zeros(H), np.zeros(H, dtype=bool)
    for h in reversed(range(H)):

        def value(phi, later=weights[h + 1]):
            return np.clip(linear_values(phi, later).max(axis=-1), 0, H)

        span = H + 1.0 if model.features is None else float(np.ptp(value(model.features)))
        counts, n_looks, miss, fixed[h] = _looks(
            model.design,
            np.asarray(core_set.weights, dtype=np.float64),
            span,
            penalty,
            width,
            rho / H,
            scheme,
            early,
            ratio,
        )
        solve, spread = _solution(model.design, counts, penalty)
        radius = span * spread * _hoeffding(d, miss)

        def looks(h=h, counts=counts, n_looks=n_looks, solve=solve, radius=radius):
            sums, seen = np.zeros(len(counts)), 0
            for number in range(n_looks):
                total = counts * ratio**number
                sums += model.label_sums(h, _as_counts(total - seen), value, rng)
                seen, drawn[h] = total, float(total.sum())
                plain[h] = solve @ (sums / drawn[h])
                yield plain[h], radius / np.sqrt(drawn[h])

        name = ("ridge", ("lsvi", h, *key))
        rounded = adaptive_round(looks(), width, shared_seed=shared_seed, key=name, scheme=scheme)
        weights[h], codes[h], settled[h] = rounded.values, rounded.codes, rounded.settled
    policy = None
    if model.features is not None:
        policy = np.stack([greedy_actions(linear_values(model.features, w)) for w in weights[:-1]])
    return AdaptiveLSVIResult(weights[:-1], plain[:-1], codes, policy, drawn.sum(), drawn, fixed, settled)


def _as_counts(counts):
    """Python integers as int64 where they fit, else as floats."""
    return counts.astype(np.int64 if max(counts) < 2**63 else np.float64)


def _solution(design, counts, penalty):
    """The matrix from mean labels to ridge weights, and its rows' norms for labels of one span and one sample."""
    share = (counts / counts.sum()).astype(np.float64)
    gram = (design * share[:, None]).T @ design
    solve = np.linalg.inv(gram + penalty * np.eye(design.shape[1])) @ design.T
    return solve, np.sqrt(solve**2 @ share)


def _hoeffding(d, miss):
    """Radius of d weights at once, over their spread and sqrt(N)."""
    return np.sqrt(np.log(2 * d / miss) / 2)


def _looks(design, nu, span, penalty, width, rho, scheme, early, ratio):
    """Samples of each core pair at the first look, number of looks, failure of a radius, samples without stopping.

    All looks have the same shares of the core pairs, and so the same target.
    """
    if span == 0:
        return np.ones(len(nu), dtype=object), 1, early * rho / 2, float(len(nu))
    d = design.shape[1]

    def fixed_number(counts):
        """Of labels of this span: the mean distance of two runs is at most their spread / sqrt(2 N)."""
        spread = span * _solution(design, counts, penalty)[1]
        cut = spread.sum() / width if scheme == "grid" else np.linalg.norm(spread) * cut_rate(d, width, scheme, "worst")
        return float((cut / (np.sqrt(2) * rho)) ** 2)

    # Target and both estimates in one cell, in place of the two estimates alone.
    more = ((1 + np.sqrt(2)) / (2 * (1 - early))) ** 2
    fixed, spread = fixed_number(nu), span * _solution(design, nu, penalty)[1]
    largest = spread.max() if scheme == "grid" else np.linalg.norm(spread)
    first = max(1.0, (largest * _hoeffding(d, early * rho / 2) / cell_inradius(d, width, scheme)) ** 2)
    if more * fixed / ratio < first:
        more = 1.0
    sizes, miss = stopping_stages(max(1.0, more * fixed), first, rho, early, ratio)
    base = sizes[0]
    while True:
        counts = np.array([math.ceil(w * base) for w in nu], dtype=object)
        if counts.sum() * ratio ** (len(sizes) - 1) >= more * fixed_number(counts):
            return counts, len(sizes), miss, fixed
        # Rounding up has changed the shares for the worse.
        base = math.ceil(1.01 * base)
