"""Random Fourier features (Section 6.1): a fixed, shared, bounded feature map."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ._checks import as_float64, check_numbers, check_positive, check_shared
from ._estimators import unchanged_on_error
from .randomness import shared_uniform

if TYPE_CHECKING:
    from typing import Any, Self

    from numpy.typing import ArrayLike

__all__ = ["RandomFourierFeatures"]

#: Units of inputs below this, or beyond its inverse, make frequencies that lose their digits.
TINY = 2.0**-1000


def rowwise_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Matrix product a @ b whose every row has the same bits whatever batch it comes in.

    BLAS sums in an order that depends on the number of rows, which can flip a greedy action between
    a batch and a single state; here each row is summed from left to right.

    Parameters
    ----------
    a : ndarray, shape (n, d)
    b : ndarray, shape (d, m)

    Returns
    -------
    ndarray, shape (n, m)

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.features import rowwise_product
    >>> rowwise_product(np.ones((2, 3)), np.arange(6.0).reshape(3, 2))
    array([[6., 9.],
           [6., 9.]])
    """
    total = np.zeros((len(a), b.shape[1]))
    for column, row in zip(a.T, b, strict=True):
        total += column[:, None] * row
    return total


class RandomFourierFeatures(TransformerMixin, BaseEstimator):
    """Features sqrt(2/D) [cos(Wx), sin(Wx)] with Gaussian frequencies W drawn from the shared seed.

    Every feature vector has norm exactly 1, as Assumptions 2.1 and 3.1 ask, and inner products
    approximate the Gaussian kernel exp(-norm(x - x')^2 / (2 length_scale^2)) (Rahimi and Recht, 2007).

    Parameters
    ----------
    n_features : int, default=32
        The number of features D, even: D / 2 frequencies.
    length_scale : float, default=1.0
        Of the kernel, in the units of the scaled inputs.
    scale : array_like, shape (n_features_in,), optional
        Inputs are divided by it. It must be shared by all runs, never taken from one run's sample.
    shared_seed : int, default=0
        The paper's random string r: the features are part of the internal randomness.
    key : tuple, default=()
        Name of this map where several share one seed.

    Attributes
    ----------
    frequencies_ : ndarray, shape (n_features_in, D / 2)
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import RandomFourierFeatures
    >>> features = RandomFourierFeatures(n_features=8, shared_seed=1).fit(np.zeros((1, 4)))
    >>> phi = features.transform(np.ones((3, 4)))
    >>> phi.shape, bool(np.allclose((phi**2).sum(axis=1), 1))
    ((3, 8), True)
    """

    def __init__(
        self,
        n_features: int = 32,
        *,
        length_scale: float = 1.0,
        scale: ArrayLike | None = None,
        shared_seed: int = 0,
        key: tuple = (),
    ) -> None:
        self.n_features = n_features
        self.length_scale = length_scale
        self.scale = scale
        self.shared_seed = shared_seed
        self.key = key

    def fit(self, X: Any, y: None = None) -> Self:
        """Draw the frequencies; of X only the number of columns is used.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self
        """
        if not isinstance(self.n_features, Integral) or self.n_features < 2 or self.n_features % 2:
            raise ValueError(f"n_features must be an even integer >= 2, got {self.n_features!r}")
        check_positive(length_scale=self.length_scale)
        check_shared(self.shared_seed, self.key)
        check_numbers("X", X)
        with unchanged_on_error(self):
            return self._draw(as_float64("X", validate_data(self, X)))

    def _draw(self, X):
        scale = np.ones(X.shape[1]) if self.scale is None else as_float64("scale", self.scale)
        if scale.shape != (X.shape[1],) or not (np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError(f"scale must hold {X.shape[1]} positive numbers, got {self.scale!r}")
        # Row by row over frequencies, so that more features extend the same list.
        uniform = shared_uniform(self.shared_seed, ("fourier", self.key), (self.n_features // 2, X.shape[1]))
        # Half a step up, so that 0 is not minus infinity; the largest draw would then be 1.
        normal = ndtri(np.minimum(uniform + 2.0**-54, 1 - 2.0**-53))
        with np.errstate(over="ignore", under="ignore"):
            unit = float(self.length_scale) * scale[:, None]
        if not ((unit >= TINY) & (unit <= 1 / TINY)).all():
            raise ValueError(
                f"length_scale times scale must lie between {TINY:.3g} and {1 / TINY:.3g}, got length_scale="
                f"{self.length_scale!r} and scale={self.scale!r}"
            )
        self.frequencies_ = normal.T / unit
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Map inputs to features.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64, shape (n_samples, n_features)
            Rows of norm 1.
        """
        check_is_fitted(self, "frequencies_")
        check_numbers("X", X)
        try:
            X = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        except OverflowError as error:
            raise ValueError(f"X must hold numbers that fit float64: {error}") from None
        with np.errstate(over="ignore", invalid="ignore"):
            angles = rowwise_product(X, self.frequencies_)
        if not np.isfinite(angles).all():
            raise ValueError(f"X, up to {np.abs(X).max():.3g}, is too large for length_scale and scale: raise these")
        # As fitted, whatever `set_params` said since.
        return np.hstack([np.cos(angles), np.sin(angles)]) * np.sqrt(1 / self.frequencies_.shape[1])

    def get_feature_names_out(self, input_features: None = None) -> np.ndarray:
        """Names of the features: cos0, cos1, ..., sin0, sin1, ...

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str, shape (n_features,)
        """
        check_is_fitted(self)
        half = self.frequencies_.shape[1]
        return np.array([f"{name}{i}" for name in ("cos", "sin") for i in range(half)], dtype=object)
