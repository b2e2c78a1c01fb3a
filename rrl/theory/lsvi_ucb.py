"""The bounds of Section 4 and Appendix D for R-LSVI-UCB (Theorem 4.2).

Sizes beyond the range of a float are available as base-10 logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import log, log1p, log10, sqrt
from typing import TYPE_CHECKING

from .._checks import check_non_negative, check_positive, check_probability, check_version, real
from ._formula import formula
from .linear import ridge_bin_width, second_moment_bin_width, second_moment_sample_size
from .lsvi import as_bound, ridge_digits
from .rounding import slack

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
def jin_beta(d: int, H: int, K: int, p: float, c: float = 1.0) -> float:
    """Bonus width of plain LSVI-UCB (Jin et al., 2020), c d H sqrt(log(2 d K H / p)).

    Parameters
    ----------
    d, H, K : int
        Features, horizon, episodes: K H is the number of *steps*.
    p : float
        Failure probability.
    c : float, default=1
        Their absolute constant.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import jin_beta
    >>> f"{jin_beta(3, 4, 100, 0.1):.3f}"
    '38.110'
    """
    check_positive(d=d, H=H, K=K, c=c)
    check_probability(p=p)
    return c * d * H * sqrt(log(2 * d * K * H / p))


@formula
def bonus_gap_bound(gap: float, penalty: float, version: str = "corrected") -> float:
    """Lemma D.2: how far two Mahalanobis norms of a unit vector differ when the matrices differ by `gap`.

    Printed: sqrt(gap / (lambda - gap)), false for lambda < 0.0361 also where both matrices are at
    least lambda I (erratum E6). Corrected: sqrt(gap / (lambda (lambda - gap))), for symmetric perturbations.

    Parameters
    ----------
    gap : float
        Spectral norm of the difference, in [0, penalty).
    penalty : float
        Smallest eigenvalue lambda of the unperturbed matrix.
    version : {"corrected", "printed"}
        Which of the two.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import bonus_gap_bound
    >>> bonus_gap_bound(0.005, 0.01, version="printed"), round(bonus_gap_bound(0.005, 0.01), 9)
    (1.0, 10.0)
    """
    check_version(version)
    check_positive(penalty=penalty)
    if not 0 <= real(gap) < penalty:
        raise ValueError(f"gap must lie in [0, penalty={penalty!r}), got {gap!r}")
    return sqrt(gap / ((penalty if version == "corrected" else 1) * (penalty - gap)))


@formula
def gram_accuracy(penalty: float, beta: float, H: int, epsilon: float, version: str = "corrected") -> float:
    """Lemma D.3: accuracy of the second moment for which the bonus errs by at most eps / (beta H).

    Printed: lambda (eps / (beta H))^2 / 2. Corrected: lambda^2 (eps / (beta H))^2 / 2 (erratum E6).

    Parameters
    ----------
    penalty, beta : float
        The paper's lambda and beta.
    H : int
        Horizon.
    epsilon : float
        The paper's epsilon.
    version : {"corrected", "printed"}
        Which of the two.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import gram_accuracy
    >>> gram_accuracy(0.5, 1.0, 2, 1.0), gram_accuracy(0.5, 1.0, 2, 1.0, version="printed")
    (0.03125, 0.0625)
    """
    check_version(version)
    check_positive(penalty=penalty, beta=beta, H=H, epsilon=epsilon)
    return penalty ** (2 if version == "corrected" else 1) * (epsilon / (beta * H)) ** 2 / 2


@formula
def elliptical_potential_bound(d: float, H: float, T: float, M: float, penalty: float) -> float:
    """Lemma D.5: bound M H sqrt(T (1 + 1/lambda) d log((lambda + T) / lambda)) on the sum of the norms.

    Parameters
    ----------
    d, H, T, M : int
        Features, horizon, rounds, trajectories a round.
    penalty : float
        The paper's lambda.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import elliptical_potential_bound
    >>> round(elliptical_potential_bound(2, 3, 10, 1, 1.0), 6)
    29.380985
    """
    check_positive(d=d, H=H, T=T, M=M, penalty=penalty)
    return M * H * sqrt(T * (1 + 1 / penalty) * d * log((penalty + T) / penalty))


@formula
def ucb_gap_bound(
    d: float,
    H: float,
    T: float,
    M: float,
    beta: float,
    penalty: float,
    delta: float,
    delta_w: float = 0.0,
    bonus_gap: float = 0.0,
) -> float:
    """The bound on the mixture's value gap in the proof of Theorem 4.2, its O() replaced by constants.

    4 beta H sqrt((1 + 1/lambda) d log((lambda + T) / lambda) / T) + sqrt(2 H^3 L / (T M)) +
    H sqrt(2 L / (T M)) + 2 H (beta bonus_gap + delta_w), L = log(3/delta): rounding costs each of
    optimism and regret once a stage. Three events may fail, each with probability delta / 3: Lemma D.1,
    for which `beta` has to be wide enough, the next states and the start states.

    Parameters
    ----------
    d, H, T, M : int or float
        Features, horizon, rounds, trajectories a round.
    beta, penalty : float
        The paper's beta and lambda.
    delta : float
        Failure probability.
    delta_w, bonus_gap : float, default=0
        Rounding error of the weights and of the Mahalanobis norms.

    Returns
    -------
    float

    Examples
    --------
    >>> from rrl.theory import ucb_gap_bound
    >>> f"{ucb_gap_bound(4, 5, 10**6, 1, 1.0, 1.0, 0.05):.3f}"
    '0.257'
    """
    check_probability(delta=delta)
    check_positive(d=d, H=H, T=T, M=M, beta=beta, penalty=penalty)
    check_non_negative(delta_w=delta_w, bonus_gap=bonus_gap)
    trajectories = T * M
    potential = 4 * beta * elliptical_potential_bound(d, H, T, M, penalty) / trajectories
    noise = sqrt(2 * log(3 / delta) / trajectories)
    return potential + (sqrt(H**3) + H) * noise + 2 * H * (beta * bonus_gap + delta_w)


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
