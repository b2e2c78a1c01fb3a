"""The parameters of R-LSVI-UCB (Theorem 4.2); what they are made of stands in `ucb_lemmas`.

Sizes beyond the range of a float are available as base-10 logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import log, log1p, log10, sqrt
from typing import TYPE_CHECKING

from .._checks import check_positive, check_probability, check_version
from ._formula import formula
from .linear import ridge_bin_width, second_moment_bin_width, second_moment_sample_size
from .lsvi import as_bound, ridge_digits
from .rounding import slack
from .ucb_lemmas import bonus_gap_bound, elliptical_potential_bound, gram_accuracy, jin_beta, ucb_gap_bound

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "UCBParameters",
    "bonus_gap_bound",
    "elliptical_potential_bound",
    "gram_accuracy",
    "jin_beta",
    "ucb_chain",
    "ucb_gap_bound",
    "ucb_parameters",
]

GRAM_ACCURACIES = ("printed", "corrected", "lemma D.3", "both conversions")


@formula
def ucb_chain(d: float, H: float, epsilon: float, rho: float, log_term: float, gram: str = "printed") -> dict:
    """The parameters of Algorithm 5 as printed, every hidden constant 1: arithmetic on any kind of number.

    Parameters
    ----------
    d, H, epsilon, rho : number
        The paper's symbols; floats, decimals or sympy symbols.
    log_term : number
        log(1/delta).
    gram : {"printed", "corrected", "lemma D.3", "both conversions"}
        Accuracy of the second moment: lambda^5 (eps/(beta H))^4 as printed; (lambda eps/(beta H))^2,
        all that the corrected lemmas need; lambda (eps/(beta H))^2 of the printed Lemma D.3; or
        lambda^6 (eps/(beta H))^4, the printed one with the corrected Lemma D.2.

    Returns
    -------
    dict
        ``penalty``, ``beta``, ``T``, ``delta_w``, ``delta_gram``, ``rho_est``, ``M``.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from rrl.theory import ucb_chain
    >>> ucb_chain(1, 2, Fraction(1, 2), Fraction(1, 2), 1)["T"]
    Fraction(1024, 1)
    """
    if gram not in GRAM_ACCURACIES:
        raise ValueError(f"gram must be one of {GRAM_ACCURACIES}, got {gram!r}")
    beta = d * H
    penalty = epsilon**2 / (H**2 * d**2)
    T = beta**2 * H**2 * d * log_term / (penalty * epsilon**2)
    error = epsilon / (beta * H)
    delta_gram = {
        "printed": penalty**5 * error**4,
        "corrected": (penalty * error) ** 2,
        "lemma D.3": penalty * error**2,
        "both conversions": penalty**6 * error**4,
    }[gram]
    rho_est = rho / (T * H)
    M = T * d**8 * log_term / (delta_gram**2 * rho_est**2)
    return {
        "penalty": penalty,
        "beta": beta,
        "T": T,
        "delta_w": epsilon / H,
        "delta_gram": delta_gram,
        "rho_est": rho_est,
        "M": M,
    }


@dataclass(frozen=True)
class UCBParameters:
    """What Algorithm 5 is run with.

    Attributes
    ----------
    penalty, beta : float
        lambda and beta.
    n_rounds : float
        T.
    delta_w, delta_gram : float
        Accuracy of the ridge weights and of the second moments.
    rho_est, delta_est : float
        Parameters of each estimator call.
    bin_widths : (float, float)
        Of the ridge weights and of the second moments.
    log10_n_trajectories, log10_total : float
        Base-10 logarithms of M and of M T.
    """

    penalty: float
    beta: float
    n_rounds: float
    delta_w: float
    delta_gram: float
    rho_est: float
    delta_est: float
    bin_widths: tuple
    log10_n_trajectories: float
    log10_total: float

    @property
    def n_trajectories(self) -> Any:
        """M as a float; an OverflowError where it does not fit one."""
        return as_bound(self.log10_n_trajectories, False)


@formula
def ucb_parameters(
    d: int, H: int, epsilon: float, delta: float, rho: float, version: str = "corrected", *, beta: float | None = None
) -> UCBParameters:
    """All parameters of Algorithm 5 (Theorem 4.2).

    Printed: :func:`ucb_chain`, with delta_est = delta / (T H). Corrected: T rounds such that half of
    epsilon covers the bonuses in :func:`ucb_gap_bound`, an eighth each the rounded weights
    (delta_w = eps / (16 H)) and the rounded bonuses (Lemma D.3 corrected, at eps / 16); M is the
    largest of what the second moments (Theorem 3.3), the ridge regressions (Theorem 3.1 at
    lambda / T, errata E1 and E14) and the sampling of trajectories need, with rho_est = rho / (4 H T)
    and delta_est = min(delta, rho / 4) / (4 H T), so that rho need not exceed 2 delta (erratum E9).
    The 2 H T calls fail with probability delta / 2, the bound on the gap with the other half.

    Parameters
    ----------
    d, H : int
        Features, horizon.
    epsilon, delta, rho : float
        Accuracy, failure probability, replicability parameter; printed version: rho > 2 delta.
    version : {"corrected", "printed"}
        Which of the two.
    beta : float, optional
        Corrected version only; d H by default. The paper's O-tilde hides a logarithm here.

    Returns
    -------
    UCBParameters

    Examples
    --------
    >>> from rrl.theory import ucb_parameters
    >>> f"{ucb_parameters(4, 4, 0.5, 0.01, 0.1, version='printed').log10_total:.0f}"
    '90'
    >>> f"{ucb_parameters(4, 4, 0.5, 0.01, 0.1).log10_total:.0f}"
    '82'
    """
    check_version(version)
    check_positive(d=d, H=H, epsilon=epsilon)
    check_probability(rho=rho, delta=delta)
    if version == "printed":
        slack(rho, delta)
        if beta is not None:
            raise ValueError("beta is d H in the printed version")
        exact = ucb_chain(*(Decimal(x) for x in (d, H, epsilon, rho)), Decimal(1 / delta).ln())  # pyright: ignore[reportCallIssue]
        n_rounds, delta_gram, rho_est = (float(exact[name]) for name in ("T", "delta_gram", "rho_est"))
        delta_w, delta_est = epsilon / H, delta / (n_rounds * H)
        digits = float(exact["M"].log10())
        total = float((exact["M"] * exact["T"]).log10())
        penalty, beta = float(exact["penalty"]), float(d * H)
    else:
        beta = float(d * H) if beta is None else beta
        check_positive(beta=beta)
        penalty = (epsilon / (H * d)) ** 2
        n_rounds = _rounds(64 * beta**2 * H**2 * (1 + 1 / penalty) * d / epsilon**2, penalty)
        delta_w, delta_gram = epsilon / (16 * H), gram_accuracy(penalty, beta, H, epsilon / 16)
        rho_est, delta_est = rho / (4 * H * n_rounds), min(delta, rho / 4) / (4 * H * n_rounds)
        unit = second_moment_sample_size(d, 1.0, delta_est, rho_est)
        average = penalty / n_rounds
        size = (1 + H) * (1 + 1 / (2 * sqrt(average)))
        digits = max(
            log10(unit) + log10(n_rounds) - 2 * log10(delta_gram),
            ridge_digits(d, delta_w, delta_est, rho_est, average, size) - log10(n_rounds),
            log10(128 * H**3 * log(6 / delta) / (epsilon**2 * n_rounds)),
        )
        total = digits + log10(n_rounds)
    bin_widths = (
        ridge_bin_width(d, delta_w, delta_est, rho_est, version),
        second_moment_bin_width(d, delta_gram, delta_est, rho_est, version),
    )
    return UCBParameters(penalty, beta, n_rounds, delta_w, delta_gram, rho_est, delta_est, bin_widths, digits, total)


def _rounds(factor, penalty):
    """The T with T = factor * log((penalty + T) / penalty), by fixed-point iteration; at least 1."""
    n_rounds = max(factor, 1.0)
    for _ in range(100):
        n_rounds = max(factor * log1p(n_rounds / penalty), 1.0)
    return n_rounds
