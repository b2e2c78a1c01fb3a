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
            weights = linalg.pinvh(system, rtol=cut) @ moment
            noise = np.finfo(float).eps * _kept_condition(system, cut, reciprocal) * np.abs(weights).max(axis=0)
    check_sums(**{"the solution w": weights})
    return weights, np.broadcast_to(noise, weights.shape)


def _kept_condition(system, cut, reciprocal):
    """Condition number of what the pseudo-inverse keeps; infinite where another processor may keep something else."""
    sizes = np.abs(linalg.eigvalsh(system))
    sizes /= sizes.max(initial=0) or 1
    if reciprocal > cut / 2 or ((cut / 2 < sizes) & (sizes < 2 * cut)).any():
        return np.inf
    return 1 / sizes[sizes > cut].min(initial=1)


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
            "plus penalty is so ill-conditioned that rounding error nears bin_width. Raise penalty or bin_width, or "
            "drop columns that nearly repeat others.",
            LooseCodesWarning,
            stacklevel=stacklevel + 1,
        )
