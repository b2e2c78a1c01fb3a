"""What the two estimators share: rows in blocks, and updates that succeed as a whole or change nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ._checks import as_float64, check_weights

if TYPE_CHECKING:
    from typing import Any

#: Rows are converted and multiplied in blocks of about this many numbers, which stay in the cache and bound the memory.
BLOCK_ENTRIES = 2**17


@contextmanager
def unchanged_on_error(estimator: Any) -> Any:
    """Put an estimator's attributes back when the block fails (`validate_data` writes some early)."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        for name in vars(estimator).keys() - before.keys():
            delattr(estimator, name)
        vars(estimator).update(before)
        raise


def row_blocks(X: Any) -> Any:
    """Cut the rows of X into float64 blocks: (slice, block) pairs, whatever X's type and size."""
    rows = max(1, BLOCK_ENTRIES // X.shape[1])
    for start in range(0, X.shape[0], rows):
        part = slice(start, start + rows)
        yield part, np.asarray(X[part], dtype=np.float64)


class Rows:
    """Rows of a batch, and labels where there are any, each times the root of its weight.

    Parameters
    ----------
    estimator : object
        Whose batch it is, for messages.
    X : ndarray, shape (n_samples, n_features)
    y : ndarray, shape (n_samples,), optional
    sample_weight : array_like, optional
        Checked here.
    ones : bool
        Whether each row is followed by a one, for an intercept.

    Attributes
    ----------
    total : int or float
        Number of rows, or the sum of their weights.
    """

    def __init__(self, estimator: Any, X: Any, y: Any = None, sample_weight: Any = None, ones: bool = False) -> None:
        self.estimator, self.X, self.y, self.ones = estimator, X, y, ones
        self.weight = None if sample_weight is None else check_weights(sample_weight, len(X))
        with np.errstate(over="ignore"):
            self.total = len(X) if self.weight is None else self.weight.sum()

    def blocks(self) -> Any:
        """Rows and labels in float64, block by block, each for use before the next; labels may be None."""
        held = None
        for part, x in row_blocks(self.X):
            y = None if self.y is None else as_float64("y", self.y[part])
            if self.ones:
                x = np.column_stack([x, np.ones(len(x))])
            if self.weight is not None:
                root = np.sqrt(self.weight[part])
                # A block takes the place of the one before it, which is in the cache.
                held = held if held is not None and held.shape == x.shape else np.empty_like(x)
                x, y = np.multiply(x, root[:, None], out=held), None if y is None else y * root
            yield x, y
