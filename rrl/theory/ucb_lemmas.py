"""The lemmas of Appendix D for R-LSVI-UCB, and the bound on its gap that they give."""

from __future__ import annotations

from math import log, sqrt

from .._checks import check_non_negative, check_positive, check_probability, check_version, real
from ._formula import formula

__all__ = ["bonus_gap_bound", "elliptical_potential_bound", "gram_accuracy", "jin_beta", "ucb_gap_bound"]


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
    if 2 * d * K * H < p:
        raise ValueError(f"d, K and H must be so large that 2 d K H >= p, got {d!r}, {K!r}, {H!r} and p={p!r}")
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
