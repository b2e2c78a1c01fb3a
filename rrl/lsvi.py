"""Algorithm 4, R-LSVI: replicable value iteration from a generative model and a core set."""

from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real

import numpy as np

from .core_set import CoreSet
from .features import rowwise_product
from .mdp.linear_mdp import LinearMDP, greedy_actions
from .randomness import check_rng
from .replicability import fingerprint
from .ridge import ridge_weights
from .rounding import as_float64, check_bin_width, check_finite, hypergrid_round

__all__ = ["LSVIResult", "r_lsvi"]

#: A generative model given as a function is asked for at most this many samples at once.
BATCH = 2**14


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
        Samples drawn at all stages together: the paper's N.
    """

    weights: np.ndarray
    unrounded_weights: np.ndarray
    codes: np.ndarray | None
    policy: np.ndarray | None
    n_samples: float

    def fingerprint(self):
        """SHA-256 of the codes, or of the policy where nothing was rounded."""
        return fingerprint(self.policy if self.codes is None else self.codes)

    def act(self, h, phi):
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
        return greedy_actions(linear_values(as_float64("phi", phi), self.weights[h]))


def linear_values(phi, weights):
    """Compute phi @ weights with bits that do not depend on the batch or on BLAS."""
    return rowwise_product(phi.reshape(-1, phi.shape[-1]), weights[:, None]).reshape(phi.shape[:-1])


def _check(n_samples, penalty, bin_width):
    whole = isinstance(n_samples, Integral) and not isinstance(n_samples, bool)
    if not (whole or (isinstance(n_samples, Real) and np.isfinite(n_samples) and n_samples >= 2.0**53)):
        raise ValueError(f"n_samples must be a whole number (a float from 2^53 on), got {n_samples!r}")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples!r}")
    if not (isinstance(penalty, Real) and np.isfinite(penalty) and penalty >= 0):
        raise ValueError(f"penalty must be a finite number >= 0, got {penalty!r}")
    return None if bin_width is None else check_bin_width(bin_width, ())


def _design_counts(weights, n_samples):
    """Samples of each core point, ceil(nu M): exact integers as far as they fit an int64."""
    counts = [int(np.ceil(w * n_samples)) for w in weights]
    return np.array(counts, dtype=np.int64 if max(counts) < 2**63 else np.float64)


def _finite_label_sums(mdp, pairs, counts, by, rng, h, value):
    """Sum of r + V(s') over the draws of each core pair of a LinearMDP, by counts or by draws."""
    s, a = pairs
    if by == "counts":
        table = np.zeros((mdp.n_states, mdp.n_actions), dtype=counts.dtype)
        table[s, a] = counts
        following = mdp.sample_counts(h, table, rng)[s, a]
    else:
        following = np.zeros((len(s), mdp.n_states))
        for i, count in enumerate(counts):
            following[i] = np.bincount(mdp.sample(h, np.full(count, s[i]), a[i], rng), minlength=mdp.n_states)
    return counts * mdp.rewards_table[h, s, a] + following @ value(mdp.features)


def _model_label_sums(model, indices, dim, counts, rng, h, value):
    """The same for a generative model given as a function, in batches."""
    sums = np.zeros(len(indices))
    for i, (index, count) in enumerate(zip(indices, counts)):
        while count > 0:
            n = min(int(count), BATCH)
            count -= n
            rewards, following = model(h, int(index), n, rng)
            following = as_float64("next features", following)
            if following.ndim != 3 or following.shape[::2] != (n, dim):
                raise ValueError(f"model must return next features of shape ({n}, A, {dim}), got {following.shape}")
            rewards = np.broadcast_to(as_float64("rewards", rewards), (n,))
            check_finite("rewards", rewards)
            check_finite("next features", following)
            sums[i] += (rewards + value(following)).sum()
    return sums


def r_lsvi(mdp, core_set, *, n_samples, penalty, bin_width, shared_seed, rng, by="counts", features=None, horizon=None):
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
        features of all actions in them, shape (n, A, d).
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
    by : {"counts", "draws"}, default="counts"
        How a LinearMDP is sampled: the law of the result is the same, the cost of counts does not
        grow with M.
    features, horizon : array_like of shape (..., d), int
        With a callable only: the pairs that `core_set` refers to, and H.

    Returns
    -------
    LSVIResult

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
    bin_width = _check(n_samples, penalty, bin_width)
    check_rng(rng)
    if not isinstance(core_set, CoreSet):
        raise TypeError(f"core_set must be a CoreSet, got {core_set!r}")
    counts = _design_counts(core_set.weights, n_samples)
    finite = isinstance(mdp, LinearMDP)
    if by not in ("counts", "draws"):
        raise ValueError(f"by must be 'counts' or 'draws', got {by!r}")
    if finite:
        if features is not None or horizon is not None:
            raise ValueError("features and horizon belong to a model given as a function, not to a LinearMDP")
        features, horizon = mdp.features, mdp.horizon
        pairs = np.divmod(core_set.indices, mdp.n_actions)
        label_sums = partial(_finite_label_sums, mdp, pairs, counts, by, rng)
    else:
        if not callable(mdp):
            raise TypeError(f"mdp must be a LinearMDP or a function, got {type(mdp).__name__}")
        if features is None or not isinstance(horizon, Integral) or horizon < 1:
            raise ValueError("a model given as a function needs features and a horizon >= 1")
        features = as_float64("features", features)
        label_sums = partial(_model_label_sums, mdp, core_set.indices, features.shape[-1], counts, rng)
    if (not finite or by == "draws") and counts.dtype.kind == "f":
        raise ValueError(f"n_samples={n_samples!r} is too large to draw one by one: use by='counts'")
    design = features.reshape(-1, features.shape[-1])[core_set.indices]
    total = float(sum(int(n) for n in counts))
    gram = (design * (counts / total)[:, None]).T @ design

    weights, plain = (np.zeros((horizon + 1, design.shape[1])) for _ in range(2))
    codes = None if bin_width is None else np.zeros((horizon, design.shape[1]), dtype=np.int64)
    for h in reversed(range(horizon)):

        def value(phi, later=weights[h + 1]):
            return np.clip(linear_values(phi, later).max(axis=-1), 0, horizon)

        moment = design.T @ (label_sums(h, value) / total)
        plain[h] = weights[h] = ridge_weights(gram, moment, penalty)
        if bin_width is not None:
            rounded = hypergrid_round(plain[h], bin_width, shared_seed=shared_seed, key=("ridge", ("lsvi", h)))
            weights[h], codes[h] = rounded.values, rounded.codes
    policy = None
    if finite:
        policy = np.stack([greedy_actions(linear_values(features, w)) for w in weights[:-1]])
    return LSVIResult(weights[:-1], plain[:-1], codes, policy, total * horizon)
