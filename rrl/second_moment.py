"""Algorithm 3, R-UC-Cov-Estimation: a replicable uncentred covariance, and the PSD projection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from . import theory
from ._checks import (
    as_square,
    check_choice,
    check_integer,
    check_numbers,
    check_rows,
    check_shared,
    check_sums,
    resolve_bin_width,
)
from ._estimators import Rows, unchanged_on_error
from .lattice import SCHEMES

if TYPE_CHECKING:
    from typing import Any, Self

    from numpy.typing import ArrayLike

__all__ = ["ReplicableSecondMoment", "project_psd", "round_symmetric"]


def r_uc_cov_estimation(
    rows: Rows, before: tuple, n_rounds: int, bin_width: Any, *, scheme: Any, shared_seed: Any, key: Any
) -> Any:
    """Algorithm 3 on checked rows, added to the sums of x x' and of ones over the rows before them.

    Returns the new sums, Sigma_hat of line 1, the estimate of line 4, and the codes of line 2.
    """
    gram, N = before
    # Line 1: Sigma_hat = sum over t rounds of the mean of x x' over M = N / t rows (erratum E8).
    with np.errstate(over="ignore", invalid="ignore"):
        for x, _ in rows.blocks():
            gram += x.T @ x
        N += rows.total
        sigma = gram * (n_rounds / N)
    _check_sums(rows, gram, N, sigma)
    if bin_width is None:
        return (gram, N), sigma, sigma.copy(), None
    # Line 2: R-Hypergrid-Rounding of the entries j <= l, under a key of its own (erratum E2).
    entries, codes = _round_triangle(sigma, bin_width, scheme, shared_seed, key)
    # Line 3: the entries l < j are theirs.
    symmetric = _mirror(entries, len(sigma))
    # Line 4: Pi_PSD.
    return (gram, N), sigma, project_psd(symmetric), codes


def _check_sums(rows, gram, N, sigma):
    """Refuse rows whose sums float64 does not hold."""
    check_rows(rows.estimator, rows.X, gram)
    check_sums(**{"X'X": gram, "the sum of sample_weight": N, "n_rounds times the mean of x x'": sigma})


def _round_triangle(a, bin_width, scheme, shared_seed, key):
    """The upper triangle, row-major, rounded by the scheme, and its codes."""
    upper = np.triu_indices(len(a))
    entries, length = a[upper], 1.0
    if scheme == "lattice":
        # An entry off the diagonal counts twice in the norm; the width keeps the grid's worst error.
        length = np.where(upper[0] == upper[1], 1.0, np.sqrt(2))
        bin_width = bin_width * np.sqrt(2 * len(a) / (len(a) + 1))
    rounded = SCHEMES[scheme](entries * length, bin_width, shared_seed=shared_seed, key=("second_moment", key))
    return rounded.values / length, rounded.codes


def _mirror(entries, d):
    """The symmetric d x d matrix of an upper triangle."""
    upper, matrix = np.triu_indices(d), np.empty((d, d))
    matrix[upper] = entries
    matrix.T[upper] = entries
    return matrix


class ReplicableSecondMoment(BaseEstimator):
    """Replicable estimate of E[x x'], the uncentred covariance (Algorithm 3, Theorem 3.3).

    The guarantee of Theorem 3.3 needs rows of norm at most 1, as in Assumption 3.1; this is not
    checked. Two estimates from independent samples then have the same ``codes_`` with probability at
    least 1 - rho once there are :func:`rrl.theory.second_moment_sample_size` rows for the same t.
    The order of the columns, of an array or of a data frame, is part of the codes.

    Parameters
    ----------
    bin_width : {"theorem", "printed"}, float or None, default="theorem"
        The paper's alpha: from Theorem 3.3 with the repaired constant, as printed, a number, or no
        rounding (``codes_`` is then None).
    epsilon : float, default=0.1
        Accuracy (Frobenius); like the next two it serves the first two widths only.
    delta : float, default=0.01
        Failure probability.
    rho : float, default=0.1
        Replicability parameter, above 2 delta.
    shared_seed : int, default=0
        The paper's random string r.
    n_rounds : int, default=1
        The paper's t: the rows are t batches of equal size (equal total weight), and the estimate is the
        *sum* of their second moments, t times the mean over rows (erratum E8).
    key : tuple, default=()
        Name of this estimator where several share one seed.
    scheme : {"grid", "lattice"}, default="grid"
        How the matrix is rounded; the worst error is the same.

    Attributes
    ----------
    second_moment_ : ndarray, shape (n_features_in_, n_features_in_)
        Rounded, symmetric, positive semidefinite.
    unrounded_second_moment_ : ndarray, shape (n_features_in_, n_features_in_)
        The plain estimate.
    codes_ : ndarray of int64, shape (d (d + 1) / 2,), or None
        Codes of the upper triangle, row-major, before the projection: what two runs compare.
    bin_width_ : float or None
        The bin width that was used.
    n_samples_seen_ : int
        Rows seen by ``fit`` and ``partial_fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import ReplicableSecondMoment
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(1000, 2))
    >>> estimate = ReplicableSecondMoment(bin_width=0.05, shared_seed=2).fit(X)
    >>> estimate.codes_.shape
    (3,)
    >>> bool((np.linalg.eigvalsh(estimate.second_moment_) > -1e-12).all())
    True
    """

    def __init__(
        self,
        *,
        bin_width: float | str | None = "theorem",
        epsilon: float = 0.1,
        delta: float = 0.01,
        rho: float = 0.1,
        shared_seed: int = 0,
        n_rounds: int = 1,
        key: tuple = (),
        scheme: str = "grid",
    ) -> None:
        self.bin_width = bin_width
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.shared_seed = shared_seed
        self.n_rounds = n_rounds
        self.key = key
        self.scheme = scheme

    def fit(self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate from a whole sample, forgetting what was seen before.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
            Any real type, also read-only or memory-mapped; read in blocks, in float64.
        y : None
            Ignored.
        sample_weight : array_like, shape (n_samples,), optional
            Non-negative weights, not all zero; an integer weight equals that many copies of the row.

        Returns
        -------
        self
        """
        return self._update(X, sample_weight, reset=True)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add a batch. The codes after the last batch are those of one fit on all rows.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        self
        """
        return self._update(X, sample_weight, reset=not hasattr(self, "_gram"))

    def _update(self, X, sample_weight, reset):
        check_integer(1, n_rounds=self.n_rounds)
        check_shared(self.shared_seed, self.key)
        check_choice("scheme", self.scheme, SCHEMES)
        with unchanged_on_error(self):
            check_numbers("X", X)
            X = validate_data(self, X, reset=reset, ensure_all_finite=False)
            d = X.shape[1]  # pyright: ignore[reportAttributeAccessIssue]
            width = resolve_bin_width(
                self.bin_width, d, self.epsilon, self.delta, self.rho, theory.second_moment_bin_width
            )
            before = (np.zeros((d, d)), 0.0) if reset else (self._gram.copy(), self._total)
            sums, plain, matrix, codes = r_uc_cov_estimation(
                Rows(self, X, sample_weight=sample_weight),
                before,
                self.n_rounds,
                width,
                scheme=self.scheme,
                shared_seed=self.shared_seed,
                key=self.key,
            )
        self.n_samples_seen_ = len(X) + (0 if reset else self.n_samples_seen_)
        self._gram, self._total = sums
        self.bin_width_ = width
        self.unrounded_second_moment_ = plain
        self.second_moment_ = matrix
        self.codes_ = codes
        return self


def round_symmetric(
    a: ArrayLike, bin_width: float, *, shared_seed: int, key: tuple = (), scheme: str = "grid"
) -> tuple:
    """Round the upper triangle of a symmetric matrix, mirror it, project (lines 2 to 4 of Algorithm 3).

    Parameters
    ----------
    a : array_like, shape (d, d)
        Symmetric; only the upper triangle is read.
    bin_width : float
        The paper's alpha.
    shared_seed : int
        The paper's r.
    key : tuple, default=()
        Name of this call.
    scheme : {"grid", "lattice"}, default="grid"
        The lattice rounds the triangle in coordinates with the Frobenius norm; its worst error is that
        of the grid, d bin_width / 2.

    Returns
    -------
    matrix : ndarray, shape (d, d)
        Rounded and projected.
    codes : ndarray of int64, shape (d (d + 1) / 2,)
        Codes of the upper triangle in row-major order, before the projection.

    Examples
    --------
    >>> from rrl.second_moment import round_symmetric
    >>> matrix, codes = round_symmetric([[0.5, 0.1], [0.1, 0.3]], 0.2, shared_seed=3)
    >>> codes.shape, bool((matrix == matrix.T).all())
    ((3,), True)
    """
    a = as_square("a", a)
    check_choice("scheme", scheme, SCHEMES)
    entries, codes = _round_triangle(a, bin_width, scheme, shared_seed, key)
    return project_psd(_mirror(entries, len(a))), codes


def project_psd(a: ArrayLike) -> np.ndarray:
    """Project a square matrix onto the cone of positive semidefinite matrices.

    Solves min over symmetric P >= 0 of norm(P - a)_F: symmetrise, then clip negative eigenvalues at
    zero (the paper's Pi_PSD, Algorithm 3). A matrix that is already positive semidefinite up to
    rounding error comes back as its symmetric part, so projecting twice changes nothing.

    Parameters
    ----------
    a : array_like, shape (d, d)
        Finite real numbers; the caller's array is not changed.

    Returns
    -------
    ndarray of float64, shape (d, d)
        Exactly symmetric.

    Raises
    ------
    ValueError
        If `a` is not square, an entry is not finite or an eigenvalue overflows.

    Examples
    --------
    >>> from rrl import project_psd
    >>> project_psd([[1.0, 5.0], [0.0, 1.0]])
    array([[1.75, 1.75],
           [1.75, 1.75]])
    """
    a = as_square("a", a)
    # Halving first keeps the sum of two large entries finite; adding zero turns a minus zero into zero.
    symmetric = a / 2 + a.T / 2 + 0.0
    eigenvalues, vectors = np.linalg.eigh(symmetric)
    check_sums(**{"an eigenvalue of a": eigenvalues})
    noise = 4 * len(a) * np.finfo(float).eps * np.abs(eigenvalues).max()
    if eigenvalues[0] >= -noise:
        return symmetric
    clipped = (vectors * np.maximum(eigenvalues, 0)) @ vectors.T
    return clipped / 2 + clipped.T / 2 + 0.0
