"""The bounds of Section 3: Theorem 3.1 (ridge), Theorem 3.2 (fixed design), Theorem 3.3 (second moments)."""

from __future__ import annotations

import numpy as np

from .._checks import check_positive, check_version
from ._formula import formula
from .rounding import slack

__all__ = [
    "fixed_design_penalty",
    "fixed_design_sample_size",
    "ridge_bin_width",
    "ridge_sample_size",
    "ridge_weight_bound",
    "second_moment_bin_width",
    "second_moment_sample_size",
]


@formula
def ridge_bin_width(d: int, epsilon: float, delta: float, rho: float, version: str = "corrected") -> float:
    """Bin width alpha of Algorithm 2 (Theorem 3.1).

    Printed: d eps / (d^{3/2} + rho'). Corrected: twice that, which spends all of eps instead of half
    and makes the paper's own choice of Delta right (erratum E15).

    Parameters
    ----------
    d : int
        Number of features.
    epsilon, delta, rho : float
        Accuracy, failure probability, replicability parameter; rho > 2 delta.
    version : {"corrected", "printed"}
        Which of the two.

    Returns
    -------
    float
        The bin width, in the units of epsilon.

    Examples
    --------
    >>> from rrl.theory import ridge_bin_width
    >>> round(ridge_bin_width(4, 0.1, 0.01, 0.1), 6)
    0.09901
    """
    check_version(version)
    check_positive(d=d, epsilon=epsilon)
    rest = slack(rho, delta)
    printed = d * epsilon / (d**1.5 + rest)
    return float(printed if version == "printed" else 2 * printed)


@formula
def ridge_weight_bound(label_bound: float, penalty: float) -> float:
    """Largest norm of a ridge solution in average form: Y / (2 sqrt(lambda)) (erratum E14).

    The paper takes a supremum over norm(theta) <= B although its ridge problem is unconstrained; this
    is a B that always holds.

    Parameters
    ----------
    label_bound : float
        The paper's Y >= abs(y).
    penalty : float
        The paper's lambda, average form.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> from rrl.theory import ridge_weight_bound
    >>> ridge_weight_bound(1.0, 0.25)
    1.0
    """
    check_positive(label_bound=label_bound, penalty=penalty)
    return float(label_bound / (2 * np.sqrt(penalty)))


@formula
def ridge_sample_size(
    d: int,
    epsilon: float,
    delta: float,
    rho: float,
    penalty: float,
    label_bound: float = 1.0,
    weight_bound: float | None = None,
    version: str = "corrected",
) -> float:
    """Samples N that Theorem 3.1 asks for.

    Printed (last line of its proof): 25 (B+Y)^2 d^3 log(2/delta) / (lambda eps rho')^2. Corrected:
    25 (B+Y)^2 (d^{3/2} + rho')^2 log(2/delta) / (lambda eps rho')^2, at most 100 (B+Y)^2 d^3 ...
    (erratum E15); valid with ``ridge_bin_width(..., version="corrected")``.

    Parameters
    ----------
    d : int
        Number of features.
    epsilon, delta, rho : float
        Accuracy, failure probability, replicability parameter; rho > 2 delta.
    penalty : float
        The paper's lambda, average form (erratum E1).
    label_bound : float, default=1
        The paper's Y.
    weight_bound : float, optional
        The paper's B; by default :func:`ridge_weight_bound`.
    version : {"corrected", "printed"}
        Which of the two.

    Returns
    -------
    float
        The bound on N.

    Examples
    --------
    >>> from rrl.theory import ridge_sample_size
    >>> f"{ridge_sample_size(4, 0.1, 0.01, 0.1, penalty=0.1):.3g}"
    '9e+10'
    """
    check_version(version)
    check_positive(d=d, epsilon=epsilon, penalty=penalty, label_bound=label_bound)
    rest = slack(rho, delta)
    if weight_bound is None:
        weight_bound = ridge_weight_bound(label_bound, penalty)
    check_positive(weight_bound=weight_bound)
    dimension = d**1.5 if version == "printed" else d**1.5 + rest
    root = (weight_bound + label_bound) * dimension / (penalty * epsilon * rest)
    return float(25 * root**2 * np.log(2 / delta))


@formula
def fixed_design_penalty(epsilon: float, k: float, theta_norm: float) -> float:
    """The penalty of Theorem 3.2, lambda = eps^2 / (4 k norm(theta*)^2).

    Parameters
    ----------
    epsilon : float
        Accuracy of every prediction.
    k : float
        Core-set constant of Definition 3.1.
    theta_norm : float
        Norm of the true weights.

    Returns
    -------
    float
        lambda, average form: the bias sqrt(k lambda) norm(theta*) is then at most eps / 2.

    Examples
    --------
    >>> from rrl.theory import fixed_design_penalty
    >>> round(fixed_design_penalty(0.2, 4, 1.0), 12)
    0.0025
    """
    check_positive(epsilon=epsilon, k=k, theta_norm=theta_norm)
    return float(epsilon**2 / (4 * k * theta_norm**2))


@formula
def fixed_design_sample_size(
    d: int,
    k: float,
    epsilon: float,
    delta: float,
    rho: float,
    theta_norm: float = 1.0,
    label_bound: float = 1.0,
    weight_bound: float | None = None,
    version: str = "corrected",
) -> float:
    """Samples N of Theorem 3.2: Theorem 3.1 at accuracy eps/2 and the penalty of the theorem.

    Printed: 1600 (B+Y)^2 d^3 k^2 norm(theta*)^4 log(2/delta) / (eps^6 rho'^2), the exponents of the
    statement with the constant that its proof implies. Corrected: the same chain with the corrected
    Theorem 3.1.

    Parameters
    ----------
    d : int
        Number of features.
    k : float
        Core-set constant of Definition 3.1.
    epsilon, delta, rho : float
        Accuracy, failure probability, replicability parameter; rho > 2 delta.
    theta_norm, label_bound : float, default=1.0
        Norm of the true weights and the paper's Y.
    weight_bound : float, optional
        The paper's B; by default :func:`ridge_weight_bound` at the theorem's penalty.
    version : {"corrected", "printed"}
        Which of the two.

    Returns
    -------
    float
        The bound on N.

    Examples
    --------
    >>> from rrl.theory import fixed_design_sample_size
    >>> f"{fixed_design_sample_size(4, 4, 0.5, 0.01, 0.1):.3g}"
    '2.21e+12'
    """
    penalty = fixed_design_penalty(epsilon, k, theta_norm)
    return ridge_sample_size(d, epsilon / 2, delta, rho, penalty, label_bound, weight_bound, version)


@formula
def second_moment_bin_width(d: int, epsilon: float, delta: float, rho: float, version: str = "corrected") -> float:
    """Bin width alpha of Algorithm 3 (Theorem 3.3).

    Printed: d^2 eps / (d^3 + rho'). Corrected: twice that (erratum E15).

    Parameters
    ----------
    d : int
        Number of features.
    epsilon, delta, rho : float
        Accuracy in Frobenius norm, failure probability, replicability parameter; rho > 2 delta.
    version : {"corrected", "printed"}
        Which of the two.

    Returns
    -------
    float
        The bin width.

    Examples
    --------
    >>> from rrl.theory import second_moment_bin_width
    >>> round(second_moment_bin_width(2, 0.1, 0.01, 0.1), 6)
    0.09901
    """
    check_version(version)
    check_positive(d=d, epsilon=epsilon)
    rest = slack(rho, delta)
    printed = d**2 * epsilon / (d**3 + rest)
    return float(printed if version == "printed" else 2 * printed)


@formula
def second_moment_sample_size(
    d: int, epsilon: float, delta: float, rho: float, t: int = 1, version: str = "corrected"
) -> float:
    """Samples N = t M that Theorem 3.3 asks for, M of each of t distributions.

    Printed (last line of its proof): M = 8 t d^8 log(2 d^2/delta) / (eps rho')^2. Corrected:
    M = 2 t d^2 (d^3 + rho')^2 log(2 d^2/delta) / (eps rho')^2, valid with the corrected bin width.
    The printed statement has rho - delta in place of rho' = rho - 2 delta (erratum E9).

    Parameters
    ----------
    d : int
        Number of features.
    epsilon, delta, rho : float
        Accuracy in Frobenius norm, failure probability, replicability parameter; rho > 2 delta.
    t : int, default=1
        Number of distributions; the estimated matrix is the sum of their t second moments (E8).
    version : {"corrected", "printed"}
        Which of the two.

    Returns
    -------
    float
        The bound on N = t M.

    Examples
    --------
    >>> from rrl.theory import second_moment_sample_size
    >>> f"{second_moment_sample_size(2, 0.1, 0.01, 0.1):.3g}"
    '5.46e+07'
    """
    check_version(version)
    check_positive(d=d, epsilon=epsilon, t=t)
    rest = slack(rho, delta)
    log = np.log(2 * d**2 / delta)
    if version == "printed":
        per_round = 8 * t * d**8 * log / (epsilon * rest) ** 2
    else:
        per_round = 2 * t * d**2 * (d**3 + rest) ** 2 * log / (epsilon * rest) ** 2
    return float(t * per_round)


#: The formulas of the algorithms build on those above, so they are imported when asked for.
