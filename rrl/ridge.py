"""Algorithm 2, R-Ridge-Regression: ridge weights rounded to the shared random grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from . import theory
from ._checks import (
    check_bool,
    check_choice,
    check_numbers,
    check_penalty,
    check_rows,
    check_shared,
    check_small_rows,
    check_sums,
    resolve_bin_width,
)
from ._estimators import Rows, row_blocks, unchanged_on_error
from ._solve import CONDITION_NOISE, LooseCodesWarning, solve_ridge, warn_of_loose_codes
from .lattice import SCHEMES

if TYPE_CHECKING:
    from typing import Any, Self

    from numpy.typing import ArrayLike

__all__ = ["LooseCodesWarning", "ReplicableRidge", "ridge_weights"]


def r_ridge_regression(
    rows: Rows, before: tuple, penalty: Any, bin_width: Any, *, scheme: Any, shared_seed: Any, key: Any
) -> Any:
    """Algorithm 2 on checked rows, added to the sums of x x', of x y and of ones over the rows before them.

    Returns the new sums, the weights w_hat of line 1 and their rounding error, and line 2's `Rounded`, w_bar.
    """
    gram, moment, N = before
    # Line 1: w_hat = (sum of x x' + lambda I)^-1 (sum of x y), with both sums divided by N (erratum E1).
    with np.errstate(over="ignore", invalid="ignore"):
        for x, y in rows.blocks():
            gram += x.T @ x
            moment += x.T @ y
        N += rows.total
    _check_sums(rows, gram, moment, N, penalty)
    w_hat, noise = solve_ridge(gram / N, moment / N, penalty)
    # Line 2: w_bar = R-Hypergrid-Rounding(w_hat, r, bin_width), under a key of its own (erratum E2).
    w_bar = None
    if bin_width is not None:
        w_bar = SCHEMES[scheme](w_hat, bin_width, shared_seed=shared_seed, key=("ridge", key))
    # Line 3.
    return (gram, moment, N), w_hat, noise, w_bar


def _check_sums(rows, gram, moment, N, penalty):
    """Refuse rows whose sums float64 does not hold."""
    check_rows(rows.estimator, rows.X, gram)
    check_sums(**{"X'X": gram, "X'y": moment, "the sum of sample_weight": N})
    with np.errstate(over="ignore"):
        check_small_rows(rows.X, rows.weight, (np.diag(gram) + penalty * N)[: rows.X.shape[1]])


class ReplicableRidge(RegressorMixin, BaseEstimator):
    """Replicable ridge regression (Algorithm 2, Theorem 3.1).

    Minimises mean squared error + penalty * norm(w)^2 and rounds the weights to a random grid that
    every run with the same ``shared_seed`` shares. If every row has norm at most 1 and
    ``abs(y) <= Y`` (Assumption 3.1; neither is checked), two fits on independent samples of one
    distribution return the same ``codes_`` with probability at least 1 - rho once there are
    :func:`rrl.theory.ridge_sample_size` rows for that Y.

    There is no intercept unless ``fit_intercept=True``, and Theorem 3.1 knows none: a column of ones gives one, but its
    weight is penalised like every other, and labels far from 0 then bend the slopes too. The intercept of
    ``fit_intercept`` is not penalised; no theorem tells its bin width or its number of rows, so measure.

    What is computed from one run's data before the fit, such as scikit-learn's ``StandardScaler`` or ``PCA``, is not
    rounded and breaks replicability unseen: two runs may have equal ``codes_`` and still differ in every prediction.
    Scale by numbers that all runs share, or by :class:`rrl.ReplicableScaler`, and compare all that you publish. The
    order of the columns, of an array or of a data frame, is part of the codes.

    A :class:`rrl.LooseCodesWarning` says when the problem is so ill-conditioned that another processor may find
    other codes.

    Parameters
    ----------
    penalty : float, default=1.0
        The paper's lambda >= 0 in *average* form. scikit-learn's ``Ridge(alpha=...)`` penalises the
        sum of squares: alpha = n_samples * penalty.
    bin_width : {"theorem", "printed"}, float or None, default="theorem"
        The paper's alpha: from Theorem 3.1 with the repaired constant, as printed, a number, or no
        rounding (``codes_`` is then None).
    epsilon : float, default=0.1
        Accuracy; like the next two it serves the first two widths only.
    delta : float, default=0.01
        Failure probability.
    rho : float, default=0.1
        Replicability parameter, above 2 delta.
    shared_seed : int, default=0
        The paper's random string r.
    key : tuple, default=()
        Name of this estimator where several share one seed (erratum E2).
    scheme : {"grid", "lattice"}, default="grid"
        :func:`rrl.hypergrid_round`, or :func:`rrl.lattice_round` with the same worst error and fewer disagreements.
    fit_intercept : bool, default=False
        Fit an intercept that is not penalised, and round it like a weight; scikit-learn's ``Ridge`` does so unless told
        otherwise. `bin_width` must then be a number or None.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features_in_,)
        Rounded weights, rebuilt from the codes.
    intercept_ : float
        Rounded; 0 without `fit_intercept`.
    unrounded_coef_ : ndarray, shape (n_features_in_,)
        Plain ridge weights.
    codes_ : ndarray of int64, shape (n_features_in_,) or, with an intercept, (n_features_in_ + 1,), or None
        Grid cells of the weights, and of the intercept: what two runs compare.
    bin_width_ : float or None
        The bin width that was used.
    n_samples_seen_ : int
        Rows seen by ``fit`` and ``partial_fit``.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import ReplicableRidge
    >>> def lab(seed):
    ...     rng = np.random.default_rng(seed)
    ...     X = rng.uniform(-0.5, 0.5, size=(20_000, 2))
    ...     y = X @ [1.0, -2.0] + rng.normal(scale=0.1, size=20_000)
    ...     return ReplicableRidge(penalty=0.01, bin_width=0.2, shared_seed=5).fit(X, y)
    >>> one, two = lab(1), lab(2)
    >>> bool((one.unrounded_coef_ == two.unrounded_coef_).all())
    False
    >>> bool((one.codes_ == two.codes_).all())
    True
    """

    def __init__(
        self,
        penalty: float = 1.0,
        *,
        bin_width: float | str | None = "theorem",
        epsilon: float = 0.1,
        delta: float = 0.01,
        rho: float = 0.1,
        shared_seed: int = 0,
        key: tuple = (),
        scheme: str = "grid",
        fit_intercept: bool = False,
    ) -> None:
        self.penalty = penalty
        self.bin_width = bin_width
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.shared_seed = shared_seed
        self.key = key
        self.scheme = scheme
        self.fit_intercept = fit_intercept

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # An average-form penalty of 1 and a coarse grid are not made for scikit-learn's toy data.
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on a whole sample, forgetting what was seen before.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
            Any real type, also read-only or memory-mapped; read in blocks, in float64.
        y : array_like, shape (n_samples,)
            Labels.
        sample_weight : array_like, shape (n_samples,), optional
            Non-negative weights, not all zero; an integer weight equals that many copies of the row.

        Returns
        -------
        self
        """
        return self._update(X, y, sample_weight, reset=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add a batch. The codes after the last batch are those of one fit on all rows.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.

        Returns
        -------
        self
        """
        return self._update(X, y, sample_weight, reset=not hasattr(self, "_gram"))

    def _update(self, X, y, sample_weight, reset):
        check_penalty(self.penalty)
        check_shared(self.shared_seed, self.key)
        check_choice("scheme", self.scheme, SCHEMES)
        check_bool(fit_intercept=self.fit_intercept)
        if self.fit_intercept and isinstance(self.bin_width, str):
            raise ValueError(f"bin_width must be a number or None with fit_intercept=True, got {self.bin_width!r}")
        check_numbers("X", X)
        check_numbers("y", y)
        with unchanged_on_error(self):
            X, y = validate_data(self, X, y, y_numeric=True, reset=reset, ensure_all_finite=False)
            d = X.shape[1]  # pyright: ignore[reportAttributeAccessIssue]
            width = resolve_bin_width(self.bin_width, d, self.epsilon, self.delta, self.rho, theory.ridge_bin_width)
            rows = Rows(self, X, y, sample_weight, ones=self.fit_intercept)
            n = d + bool(self.fit_intercept)
            if not reset and len(self._gram) != n:
                raise ValueError(f"fit_intercept={self.fit_intercept!r} was another in the first batch: fit anew")
            zeros = np.zeros((n, n)), np.zeros(n), 0.0
            before = zeros if reset else (self._gram.copy(), self._moment.copy(), self._total)
            penalty = np.full(n, float(self.penalty))
            penalty[d:] = 0  # an intercept's
            sums, weights, noise, rounded = r_ridge_regression(
                rows, before, penalty, width, scheme=self.scheme, shared_seed=self.shared_seed, key=self.key
            )
            self.n_samples_seen_ = len(y) + (0 if reset else self.n_samples_seen_)
            self._gram, self._moment, self._total = sums
            self.bin_width_ = width
            self.unrounded_coef_ = weights[:d]
            self.codes_ = None if rounded is None else rounded.codes
            values = weights.copy() if rounded is None else rounded.values
            self.coef_, self.intercept_ = values[:d], float(values[d:].sum())
            # Last, and still a failure where warnings are errors.
            lost = self.fit_intercept and self._loses_deviations(X)
            if width is not None or lost:
                warn_of_loose_codes(np.inf if lost else (noise / width).max(), stacklevel=3)
        return self

    def _loses_deviations(self, X):
        """Whether the sums hold no digit of how a column that varies deviates from its mean."""
        d = X.shape[1]
        squares, means = np.diag(self._gram)[:d] / self._total, self._gram[:d, d] / self._total
        small = squares - means**2 <= CONDITION_NOISE * (d + 1) * squares
        return any(np.ptp(np.asarray(X[:, column], dtype=np.float64)) > 0 for column in np.flatnonzero(small))

    def predict(self, X: Any) -> np.ndarray:
        """Predict labels with the rounded weights.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
            Features, in the columns' order of the fit.

        Returns
        -------
        ndarray, shape (n_samples,)
            X @ coef_ + intercept_.
        """
        check_is_fitted(self)
        check_numbers("X", X)
        X = validate_data(self, X, reset=False)
        return np.concatenate([block @ self.coef_ for _, block in row_blocks(X)]) + self.intercept_


def ridge_weights(gram: ArrayLike, moment: ArrayLike, penalty: float) -> np.ndarray:
    """Solve (gram + penalty I) w = moment, the normal equations of ridge regression.

    Parameters
    ----------
    gram : array_like, shape (d, d)
        Mean of x x', symmetric and positive semidefinite.
    moment : array_like, shape (d,) or (d, m)
        Mean of x y.
    penalty : float
        The paper's lambda >= 0, average form (erratum E1). At 0 with a singular `gram` the answer is
        the solution of least norm.

    Returns
    -------
    ndarray, shape (d,) or (d, m)
        The minimiser of mean squared error + penalty * norm(w)^2.

    Raises
    ------
    ValueError
        If an entry is not finite, the shapes do not fit, the penalty is negative, the weights overflow, or `gram` is
        not symmetric; or if it is singular and not positive semidefinite.

    Examples
    --------
    >>> from rrl import ridge_weights
    >>> ridge_weights([[1.0, 0.0], [0.0, 0.5]], [1.0, 1.0], 0.5)
    array([0.66666667, 1.        ])
    """
    check_penalty(penalty)
    return solve_ridge(gram, moment, penalty)[0]
