"""What the two estimators share: rows in blocks, and updates that succeed as a whole or change nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

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
