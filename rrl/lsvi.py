"""Algorithm 4, R-LSVI: replicable value iteration from a generative model and a core set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ._checks import (
    as_float64,
    check_bin_width,
    check_choice,
    check_finite,
    check_index,
    check_penalty,
    check_rng,
    check_shared,
    check_size,
    check_sums,
)
from ._solve import solve_ridge, warn_of_loose_codes
from .features import rowwise_product
from .generative import generative_model
from .lattice import SCHEMES
from .mdp import greedy_actions
from .replicability import fingerprint

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = ["LSVIResult", "r_lsvi"]


@dataclass(frozen=True, eq=False)
class LSVIResult:
    """Result of :func:`r_lsvi`.

    Attributes
    ----------
    weights : ndarray, shape (H, d)
        Rounded weights: Q_h(s, a) = phi(s, a) @ weights[h].
    unrounded_weights : ndarray, shape (H, d)
        Plain ridge weights, regressed on the rounded later stages.
    codes : ndarray of int64, shape (H, d), or None
        Grid cells of the weights: what two runs compare. None without rounding.
    policy : ndarray of int64, shape (H, S), or None
        Greedy actions; None where the model is a function.
    n_samples : int or float
        Samples drawn at all stages together: the paper's N, an int where it is below 2^63.
    """

    weights: np.ndarray
    unrounded_weights: np.ndarray
    codes: np.ndarray | None
    policy: np.ndarray | None
    n_samples: float

    def __repr__(self):
        rounded = "unrounded" if self.codes is None else f"fingerprint {self.fingerprint()[:12]}..."
        (horizon, d), n = self.weights.shape, self.n_samples
        return f"LSVIResult(H={horizon}, d={d}, n_samples={n:{'d' if isinstance(n, int) else '.3g'}}, {rounded})"

    def fingerprint(self) -> str:
        """SHA-256 of the codes, or of the policy where nothing was rounded."""
        if self.codes is None and self.policy is None:
            raise ValueError("an unrounded run on a model given as a function has no codes to compare: give bin_width")
        return fingerprint(self.codes if self.codes is not None else self.policy)  # pyright: ignore[reportArgumentType]

    def act(self, h: int, phi: ArrayLike) -> np.ndarray:
        """Greedy actions at stage `h`, the same for a state alone and in a batch.

        Parameters
        ----------
        h : int
            Stage.
        phi : array_like, shape (..., A, d)
            Features of all actions.

        Returns
        -------
        ndarray of int64, shape (...)
        """
        check_index(len(self.weights), h=h)
        phi = as_float64("phi", phi)
        if phi.ndim < 2 or phi.shape[-1] != self.weights.shape[1] or not phi.shape[-2]:
            raise ValueError(f"phi must have shape (..., A, {self.weights.shape[1]}), got {phi.shape}")
        check_finite("phi", phi)
        return greedy_actions(linear_values(phi, self.weights[h]))


def linear_values(phi: Any, weights: Any) -> Any:
    """Compute phi @ weights with bits that do not depend on the batch or on BLAS."""
    return rowwise_product(phi.reshape(-1, phi.shape[-1]), weights[:, None]).reshape(phi.shape[:-1])


def _design_counts(weights, n_samples):
    """Samples of each core point, ceil(nu M): exact integers as far as they fit an int64."""
    counts = [int(np.ceil(w * n_samples)) for w in weights]
    return np.array(counts, dtype=np.int64 if max(counts) < 2**63 else np.float64)


def r_lsvi(
    mdp: Any,
    core_set: Any,
    *,
    n_samples: float,
    penalty: float,
    bin_width: float | None,
    shared_seed: int,
    rng: np.random.Generator,
    key: tuple = (),
    by: str = "counts",
    features: ArrayLike | None = None,
    horizon: ArrayLike | None = None,
    scheme: str = "grid",
) -> LSVIResult:
    """Replicable least-squares value iteration with a generative model (Algorithm 4, Theorem 4.1).

    From the last stage to the first: draw ceil(nu M) next states for every core pair, label them with
    reward + V_{h+1}(s'), fit replicable ridge regression under the key ``("lsvi", h)``, and set
    V_h = max over a of Q_h, clipped to [0, H]. The sizes that Theorem 4.1 asks for come from
    :func:`rrl.theory.lsvi_sample_size`, ``lsvi_penalty`` and ``lsvi_bin_width``.

    Parameters
    ----------
    mdp : LinearMDP or callable
        A callable ``model(h, i, n, rng)`` is any generative model: it draws `n` next states of the
        pair in row `i` of `features` and returns their rewards, shape (n,) or a number, and the
        features of all actions in them, shape (n, A, d): zeros for a state that ends the episode,
        which makes its value 0.
    core_set : CoreSet
        Core pairs and their weights nu.
    n_samples : int or float
        The paper's M, samples a stage; from 9.2e18 on a float, drawn in the normal limit.
    penalty : float
        The paper's lambda >= 0, average form (erratum E1).
    bin_width : float or None
        The paper's alpha; None leaves the weights as they are: plain LSVI.
    shared_seed : int
        The paper's random string r.
    rng : numpy.random.Generator
        The data.
    key : tuple, default=()
        Name of this call where several share one seed (erratum E2); it follows ``"lsvi", h``.
    by : {"counts", "draws"}, default="counts"
        How a LinearMDP is sampled: the law of the result is the same, the cost of counts does not
        grow with M.
    features, horizon : array_like of shape (..., d), int
        With a callable only: the pairs that `core_set` refers to, and H.
    scheme : {"grid", "lattice"}, default="grid"
        How the weights of a stage are rounded; the worst error is the same.

    Returns
    -------
    LSVIResult

    Raises
    ------
    ValueError
        If an argument, or what the model returns, is not as described; the message names it.
    TypeError
        If `mdp`, `core_set`, `rng`, the seed or the key is of another type.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import LinearMDP, g_optimal_design, r_lsvi
    >>> mdp = LinearMDP.random(n_states=20, n_actions=4, dim=3, horizon=5, rng=np.random.default_rng(0))
    >>> core = g_optimal_design(mdp.features)
    >>> def lab(seed):
    ...     settings = dict(n_samples=10**12, penalty=1e-6, bin_width=0.05, shared_seed=1)
    ...     return r_lsvi(mdp, core, rng=np.random.default_rng(seed), **settings)
    >>> one, two = lab(1), lab(2)
    >>> one.fingerprint() == two.fingerprint()
    True
    >>> float(round(mdp.optimal_values().start - mdp.policy_values(one.policy).start, 2))
    0.0
    """
    check_size("n_samples", n_samples)
    check_penalty(penalty)
    bin_width = None if bin_width is None else check_bin_width(bin_width, ())
    check_shared(shared_seed, key)
    check_rng(rng)
    check_choice("scheme", scheme, SCHEMES)
    model = generative_model(mdp, core_set, by, features, horizon)
    counts = _design_counts(core_set.weights, n_samples)
    if not model.by_counts and counts.dtype.kind == "f":
        raise ValueError(f"n_samples={n_samples!r} is too large to draw one by one: use by='counts'")

    H, design = model.horizon, model.design
    n_drawn = sum(int(n) for n in counts)
    total = float(n_drawn)
    with np.errstate(over="ignore", invalid="ignore"):
        gram = (design * (counts / total)[:, None]).T @ design
    check_sums(features=gram)
    # Line 2: V_{H+1} = 0, as its weights are.
    weights, plain = (np.zeros((H + 1, design.shape[1])) for _ in range(2))
    codes: Any = None if bin_width is None else np.zeros((H, design.shape[1]), dtype=np.int64)
    share = 0.0
    for h in reversed(range(H)):  # line 3
        # Lines 6 and 7 of stage h + 1.
        def value(phi, later=weights[h + 1]):
            return np.clip(linear_values(phi, later).max(axis=-1), 0, H)

        # Line 4: ceil(nu M) samples of each core pair, labelled r + V_{h+1}(s').
        moment = design.T @ (model.label_sums(h, counts, value, rng) / total)
        # Line 5: Algorithm 2 (erratum E1), under a key of the stage's own (erratum E2).
        plain[h], noise = solve_ridge(gram, moment, penalty)
        weights[h] = plain[h]
        if bin_width is not None:
            name = ("ridge", ("lsvi", h, *key))
            rounded = SCHEMES[scheme](plain[h], bin_width, shared_seed=shared_seed, key=name)
            weights[h], codes[h] = rounded.values, rounded.codes
            share = max(share, (noise / bin_width).max())
    warn_of_loose_codes(share)
    # Line 9.
    policy = None
    if model.features is not None:
        policy = np.stack([greedy_actions(linear_values(model.features, w)) for w in weights[:-1]])
    return LSVIResult(weights[:-1], plain[:-1], codes, policy, n_drawn * H if n_drawn * H < 2**63 else total * H)
