"""The linear system of ridge regression: its solution, how far rounding error moves it, and a warning for codes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from ._checks import as_float64, as_square, check_finite, check_sums

if TYPE_CHECKING:
    from typing import Any

#: A d x d Gram whose reciprocal condition number is below d times this is singular but for rounding error.
CONDITION_NOISE = 32 * np.finfo(float).eps

#: Rounding error of the weights, as a share of the bin width, from which on a warning says so.
LOOSE = 1e-3


def solve_ridge(gram: Any, moment: Any, penalty: Any) -> Any:
    """Ridge weights as :func:`rrl.ridge_weights`, and how far apart two processors may put each of them.

    Sums in another order differ in their last digits; the solution differs by up to the condition number times that.
    The penalty, one number or one of each weight's own, has been checked.
    """
    gram, moment = as_square("gram", gram), as_float64("moment", moment)
    check_finite("moment", moment)
    if moment.ndim not in (1, 2) or len(moment) != len(gram):
        raise ValueError(f"moment must have {len(gram)} rows as gram has, got shape {moment.shape}")
    if not np.abs(gram - gram.T).max(initial=0) <= 1e-6 * np.abs(gram).max(initial=0):
        raise ValueError("gram must be symmetric")
    with np.errstate(over="ignore"):
        system = gram + np.asarray(penalty, dtype=np.float64) * np.eye(len(gram))
    check_sums(**{"gram + penalty I": system})
    cut = CONDITION_NOISE * len(gram)
    reciprocal = 0.0
    try:
        factor = linalg.cholesky(system, lower=True)
        # Scaled to a unit diagonal, so that columns of different units do not look singular.
        scale = np.sqrt(np.diag(system))
        norm = np.abs(system / scale / scale[:, None]).sum(axis=0).max()
        reciprocal = linalg.lapack.dpocon(factor / scale[:, None], norm, uplo="L")[0]  # pyright: ignore[reportAttributeAccessIssue]
    except linalg.LinAlgError:
        pass
    with np.errstate(over="ignore", invalid="ignore"):
        if reciprocal > cut:
            weights = linalg.cho_solve((factor, True), moment)
            scaled = np.abs(weights.T * scale).max(axis=-1)
            noise = np.finfo(float).eps / reciprocal * (scaled[..., None] / scale).T
        else:
            weights, noise = _least_norm(system, moment, penalty, cut, reciprocal)
    check_sums(**{"the solution w": weights})
    return weights, np.broadcast_to(noise, weights.shape)


def _least_norm(system, moment, penalty, cut, reciprocal):
    """Of a singular system the solution of least penalty, or of least norm without one, and its rounding error.

    Columns are scaled to one size first, so that none is dropped for its unit. The error is infinite where another
    processor may drop another direction.
    """
    diagonal = np.diag(system)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1))
    values, vectors = linalg.eigh(system / scale / scale[:, None])
    largest = max(values[-1], 0.0) or 1.0
    if values[0] < -1e-9 * largest or (diagonal < 0).any():
        raise ValueError(
            f"gram + penalty I must be positive semidefinite, got an eigenvalue {values[0]:.3g} of its scaled self "
            "(sums in float32 can leave such ones: sum in float64)"
        )
    kept = values > cut * largest
    labels = (moment.T / scale).T
    weights = (((vectors[:, kept] / values[kept]) @ (vectors[:, kept].T @ labels)).T / scale).T
    # Along what is dropped the penalty decides, in the columns' own units.
    root = np.sqrt(np.broadcast_to(np.asarray(penalty, dtype=np.float64), len(system)))
    root = root if root.any() else np.ones_like(root)
    # What rounding error mixes in is large in another column's unit.
    free = np.where(np.abs(vectors[:, ~kept]) > 1e-8, vectors[:, ~kept], 0) / scale[:, None]
    sizes = np.linalg.norm(root[:, None] * free, axis=0)
    free /= np.where(sizes > 0, sizes, 1)
    weights -= free @ np.linalg.lstsq(root[:, None] * free, (weights.T * root).T, rcond=None)[0] if free.size else 0.0
    near = reciprocal > cut / 2 or ((cut / 2 < values / largest) & (values / largest < 2 * cut)).any()
    condition = np.inf if near else largest / values[kept].min(initial=largest)
    noise = np.finfo(float).eps * np.abs(weights.T * scale).max(axis=-1)[..., None] * (diagonal > 0) / scale
    return weights, np.where(noise > 0, noise * condition, 0).T


class LooseCodesWarning(UserWarning):
    """Codes may differ between processors: in so ill-conditioned a problem rounding error nears the bin width."""

    __module__ = "rrl.ridge"  # where it is public, and where pickles look for it


def warn_of_loose_codes(share: Any, stacklevel: int = 2) -> None:
    """Warn where rounding error, as a share of the bin width, may change one code in a thousand.

    At the default `stacklevel` the line that is named is the one that called the function which calls this.
    """
    if share > LOOSE:
        warnings.warn(
            f"on another processor a code may differ with probability up to about {min(share, 1):.2g}: the Gram matrix "
            "plus penalty is so ill-conditioned that rounding error nears bin_width. Raise penalty or bin_width, "
            "subtract large means, or drop columns that nearly repeat others.",
            LooseCodesWarning,
            stacklevel=stacklevel + 1,
        )
