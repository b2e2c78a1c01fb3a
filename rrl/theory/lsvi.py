"""The bounds of Sections 2.1 and 4 for R-LSVI (Theorem 4.1, Lemma C.1).

Sizes beyond the range of a float are available as base-10 logarithms.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .._checks import check_bool, check_choice, check_positive, check_version, real
from ._formula import formula
from .linear import fixed_design_penalty, ridge_bin_width, ridge_sample_size
from .rounding import slack

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "bellman_loss_bound",
    "lsvi_bin_width",
    "lsvi_penalty",
    "lsvi_sample_size",
    "lsvi_weight_bound",
    "value_weight_bound",
]


@formula
def value_weight_bound(d: int, H: int, h: int = 0, version: str = "printed") -> float:
    """Proposition 2.2: bound on the norm of a policy's weights at stage h.

    Printed: 2 H sqrt(d). Sharp: (H - h) sqrt(d), reached by one-hot features and rewards of 1. Both
    need norm(integral of f dmu_h) <= sqrt(d) for every f with values in [0, 1]; Assumption 2.1 bounds
    f = 1 only, as in Jin et al. (2020), and ``LinearMDP.steep_measure`` then breaks them (erratum E22).

    Parameters
    ----------
    d, H : int
        Features, horizon.
    h : int, default=0
        Stage, counted from 0; only the sharp bound depends on it.
    version : {"printed", "sharp"}
        Which of the two.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import value_weight_bound
    >>> value_weight_bound(4, 3), value_weight_bound(4, 3, 1, version="sharp")
    (12.0, 4.0)
    """
    check_choice("version", version, ("printed", "sharp"))
    check_positive(d=d, H=H)
    if not 0 <= real(h) < H:
        raise ValueError(f"h must lie in [0, H={H!r}), got {h!r}")
    return (2 * H if version == "printed" else H - h) * math.sqrt(d)


@formula
def bellman_loss_bound(H: int, epsilon: float, version: str = "corrected") -> float:
    """Lemma C.1: loss of the greedy policy whose Bellman residuals are at most epsilon everywhere.

    Printed: 2 H^2 eps. Corrected (sharper and tight): 2 H eps, the residuals of the optimal and of
    the greedy policy telescope along one trajectory each.

    Parameters
    ----------
    H : int
        Horizon.
    epsilon : float
        Largest residual.
    version : {"corrected", "printed"}
        Which of the two.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import bellman_loss_bound
    >>> bellman_loss_bound(5, 0.5), bellman_loss_bound(5, 0.5, version="printed")
    (5.0, 25.0)
    """
    check_version(version)
    check_positive(H=H, epsilon=epsilon)
    return 2 * H ** (1 if version == "corrected" else 2) * epsilon


def _lsvi_accuracy(H, epsilon, version):
    """The Bellman accuracy epsilon' that R-LSVI needs at every stage, by Lemma C.1."""
    check_choice("version", version, ("corrected", "printed", "sharp"))
    check_positive(H=H, epsilon=epsilon)
    return epsilon / (2 * H ** (1 if version == "sharp" else 2))


@formula
def lsvi_penalty(d: int, k: float, H: int, epsilon: float, version: str = "corrected") -> float:
    """The penalty of Algorithm 4, lambda = accuracy^2 / (4 k norm(w)^2) with norm(w) <= 2 H sqrt(d).

    Printed: accuracy = eps, lambda = eps^2 / (16 k d H^2). Corrected: the accuracy of one stage,
    eps / (2 H^2), so lambda = eps^2 / (64 k d H^6) (erratum E7). Sharp: eps / (2 H) by the tight
    Lemma C.1.

    Parameters
    ----------
    d : int
        Number of features.
    k : float
        Core-set constant.
    H : int
        Horizon.
    epsilon : float
        Accuracy of the policy's value.
    version : {"corrected", "printed", "sharp"}
        Which of the three.

    Returns
    -------
    float
        lambda, average form.

    Examples
    --------
    >>> from rrl.theory import lsvi_penalty
    >>> lsvi_penalty(4, 4, 2, 0.5) == 0.5**2 / (64 * 4 * 4 * 2**6)
    True
    """
    accuracy = _lsvi_accuracy(H, epsilon, version)
    return fixed_design_penalty(epsilon if version == "printed" else accuracy, k, value_weight_bound(d, H))


@formula
def lsvi_weight_bound(d: Any, k: Any, H: Any, epsilon: Any, version: str = "corrected") -> float:
    """The paper's B in Theorem 4.1, 2 H / sqrt(lambda): printed 8 sqrt(k d) H^2 / eps.

    Parameters
    ----------
    d, k, H, epsilon, version
        As in :func:`lsvi_penalty`.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import lsvi_weight_bound
    >>> lsvi_weight_bound(1, 4, 3, 0.5, version="printed"), lsvi_weight_bound(1, 4, 3, 0.5)
    (288.0, 5184.0)
    """
    penalty = lsvi_penalty(d, k, H, epsilon, version)
    return 2 * H / math.sqrt(penalty)


@formula
def lsvi_bin_width(d: int, H: int, epsilon: float, delta: float, rho: float, version: str = "corrected") -> float:
    """Bin width of the ridge regressions in Algorithm 4, with rho / H and delta / H for each stage.

    Printed: ridge accuracy eps / (2 H^2) and the printed alpha. Corrected: half of it, as Theorem 3.2
    asks, and the corrected alpha. Sharp: eps / (4 H).

    Parameters
    ----------
    d, H : int
        Features, horizon.
    epsilon, delta, rho : float
        Of the whole algorithm; rho > 2 delta.
    version : {"corrected", "printed", "sharp"}
        Which of the three.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import lsvi_bin_width
    >>> f"{lsvi_bin_width(4, 3, 0.5, 0.01, 0.1):.5f}"
    '0.01384'
    """
    slack(rho, delta)
    accuracy = _lsvi_accuracy(H, epsilon, version)
    if version == "printed":
        return ridge_bin_width(d, accuracy, delta / H, rho / H, version="printed")
    return ridge_bin_width(d, accuracy / 2, delta / H, rho / H)


@formula
def lsvi_sample_size(
    d: int,
    k: float,
    H: int,
    epsilon: float,
    delta: float,
    rho: float,
    version: str = "corrected",
    *,
    per_stage: bool = False,
    log10: bool = False,
) -> float:
    """Samples N = H M of Theorem 4.1.

    Printed (the proof's last line with Theorem 3.1's constant 25):
    N = 40000 d^6 k^3 H^23 log(H/delta) / (eps^8 rho'^2). Corrected: Theorem 3.1 at accuracy
    eps / (4 H^2), delta / H, rho / H, label bound 2 H, and the penalty and B above, of order
    d^6 k^3 H^27 / (eps^8 rho'^2) (errata E7, E15). Sharp: the same with eps / (4 H), of order H^19.

    Parameters
    ----------
    d : int
        Number of features.
    k : float
        Core-set constant.
    H : int
        Horizon.
    epsilon, delta, rho : float
        Accuracy, failure probability, replicability parameter; rho > 2 delta.
    version : {"corrected", "printed", "sharp"}
        Which of the three.
    per_stage : bool, default=False
        Return M, what :func:`rrl.r_lsvi` calls ``n_samples``.
    log10 : bool, default=False
        Return the base-10 logarithm.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import lsvi_sample_size
    >>> f"{lsvi_sample_size(3, 3, 3, 0.5, 0.02, 0.2, log10=True):.1f}"
    '30.6'
    >>> f"{lsvi_sample_size(3, 3, 3, 0.5, 0.02, 0.2, version='printed', log10=True):.1f}"
    '24.6'
    """
    rest = slack(rho, delta)
    accuracy = _lsvi_accuracy(H, epsilon, version)
    check_positive(d=d, k=k)
    check_bool(per_stage=per_stage, log10=log10)
    if version == "printed":
        digits = math.log10(40000 * math.log(H / delta) / rest**2) + 6 * math.log10(d) + 3 * math.log10(k)
        digits += 22 * math.log10(H) - 8 * math.log10(epsilon)
    else:
        penalty = lsvi_penalty(d, k, H, epsilon, version)
        size = 2 * H + lsvi_weight_bound(d, k, H, epsilon, version)
        digits = ridge_digits(d, accuracy / 2, delta / H, rho / H, penalty, size)
    return as_bound(digits + (0 if per_stage else math.log10(H)), log10)


def ridge_digits(d: Any, epsilon: Any, delta: Any, rho: Any, penalty: Any, size: Any) -> Any:
    """log10 of the corrected :func:`ridge_sample_size` with B + Y = size, free of overflow."""
    unit = ridge_sample_size(d, 1.0, delta, rho, 1.0, label_bound=0.5, weight_bound=0.5)
    return math.log10(unit) + 2 * (math.log10(size) - math.log10(penalty) - math.log10(epsilon))


def as_bound(digits: Any, as_digits_of: Any) -> Any:
    if as_digits_of:
        return digits
    if digits > 308:
        raise OverflowError(f"the bound is 10^{digits:.1f}, beyond a float: ask for log10=True")
    return 10.0**digits
