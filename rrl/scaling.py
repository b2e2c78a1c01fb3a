"""Standardising columns replicably: means and scales rounded to shared grids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ._checks import SMALLEST_SUM, check_bin_width, check_choice, check_numbers, check_shared, check_sums
from ._estimators import unchanged_on_error
from .lattice import SCHEMES

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike

__all__ = ["ReplicableScaler"]

#: The code of the scale of a column that does not vary.
CONSTANT = np.iinfo(np.int64).min


class ReplicableScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Subtract a mean and divide by a scale, both rounded so that runs with a shared seed find the same.

    scikit-learn's ``StandardScaler`` takes the numbers of its own sample, and what it passes on differs between two
    runs in every digit. Here the logarithm of each column's standard deviation is rounded to the shared grid, then
    its mean in units of the rounded deviation. Two fits on n independent rows of d columns have different ``codes_``
    with probability of about 2 d (1 + ((kurtosis - 1) / 4)^(1/2)) / (bin_width (pi n)^(1/2)) where that is small:
    1.93 d / (bin_width n^(1/2)) for normal columns. The columns that come out have means of at most half a bin and
    deviations between e^(-bin_width / 2) and e^(bin_width / 2), but for the sample's own error; with the lattice this
    holds of the columns together, whose means, or logarithms of deviations, have a norm of at most d^(1/2) / 2 bins.

    Parameters
    ----------
    bin_width : float, default=0.5
        Bins of the mean, in standard deviations, and of the deviation's logarithm.
    shared_seed : int, default=0
        The paper's random string r.
    key : tuple, default=()
        Name of this scaler where several share one seed.
    scheme : {"grid", "lattice"}, default="grid"
        How the means and the logarithms are rounded; the worst error is the same.

    Attributes
    ----------
    mean_, scale_ : ndarray, shape (n_features_in_,)
        What is subtracted, and what is divided by; the scale of a column that does not vary, but for the last digit
        of its numbers, is 1.
    codes_ : ndarray of int64, shape (2, n_features_in_)
        Grid cells of the scales and of the means: what two runs compare. The scale of a column that does not vary
        has the smallest int64.
    n_samples_seen_ : int
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import ReplicableScaler
    >>> def lab(seed):
    ...     X = np.random.default_rng(seed).normal([5.0, 0.0], [2.0, 300.0], size=(20_000, 2))
    ...     return ReplicableScaler(shared_seed=4).fit(X)
    >>> one, two = lab(1), lab(2)
    >>> bool((one.codes_ == two.codes_).all() and (one.mean_ == two.mean_).all() and (one.scale_ == two.scale_).all())
    True
    """

    def __init__(self, *, bin_width: float = 0.5, shared_seed: int = 0, key: tuple = (), scheme: str = "grid") -> None:
        self.bin_width = bin_width
        self.shared_seed = shared_seed
        self.key = key
        self.scheme = scheme

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Find the rounded means and scales.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or an entry is not as described, or a mean is too large for bins of its column's deviation.
        TypeError
            If the seed is not an integer or `key` not a tuple of ints, strings and tuples.
        """
        width = check_bin_width(self.bin_width, ())
        check_shared(self.shared_seed, self.key)
        check_choice("scheme", self.scheme, SCHEMES)
        with unchanged_on_error(self):
            return self._fit(self._rows(X, reset=True), width)

    def _fit(self, X, width):
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.mean(axis=0)
            variance = ((X - mean) ** 2).mean(axis=0)
        check_sums(**{"the variance of X": variance})
        low, high = X.min(axis=0), X.max(axis=0)
        if ((variance < SMALLEST_SUM) & (low < high)).any():
            raise ValueError("the variance of X underflows float64: rescale X")
        constant = high - low <= 2 * np.spacing(np.maximum(np.abs(low), np.abs(high)))
        logs = np.log(np.where(constant, 1, variance)) / 2
        rounding = SCHEMES[self.scheme]
        # A lattice cell is of all its columns together: those that do not vary stay out.
        rounded = ~constant if self.scheme == "lattice" else np.ones_like(constant)
        scale, codes = np.ones(len(logs)), np.full(len(logs), CONSTANT)
        if rounded.any():
            scales = rounding(logs[rounded], width, shared_seed=self.shared_seed, key=("scaler", "scale", *self.key))
            with np.errstate(over="ignore", under="ignore"):
                scale[rounded] = np.exp(scales.values)
            codes[rounded] = scales.codes
        scale[constant], codes[constant] = 1, CONSTANT
        if not ((scale > 0) & np.isfinite(scale)).all():
            raise ValueError(f"bin_width={self.bin_width!r} is too large: a rounded deviation is no float")
        means = rounding(mean / scale, width, shared_seed=self.shared_seed, key=("scaler", "mean", *self.key))
        self.scale_, self.mean_ = scale, means.values * scale
        self.codes_ = np.array([codes, means.codes])
        self.n_samples_seen_ = len(X)
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Scale columns.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64, shape (n_samples, n_features)
            (X - mean_) / scale_.
        """
        check_is_fitted(self, "scale_")
        with np.errstate(over="ignore"):
            out = (self._rows(X) - self.mean_) / self.scale_
        check_sums(**{"(X - mean_) / scale_": out})
        return out

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Undo the scaling.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64, shape (n_samples, n_features)
            X * scale_ + mean_.
        """
        check_is_fitted(self, "scale_")
        with np.errstate(over="ignore"):
            out = self._rows(X) * self.scale_ + self.mean_
        check_sums(**{"X * scale_ + mean_": out})
        return out

    def _rows(self, X, reset=False):
        check_numbers("X", X)
        try:
            return np.asarray(validate_data(self, X, reset=reset, dtype=np.float64))
        except OverflowError as error:
            raise ValueError(f"X must hold numbers that fit float64: {error}") from None
