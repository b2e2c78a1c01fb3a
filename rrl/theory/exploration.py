"""Theorem 4.2, sharper: what R-LSVI-UCB is run with, every constant explicit (chapter 15)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite, log, log2, log10, sqrt
from typing import TYPE_CHECKING

from .._checks import check_bool, check_positive, check_probability
from ._formula import formula

if TYPE_CHECKING:
    from typing import Any

__all__ = ["UCBPlan", "ucb_plan"]

#: Share of the bias that the noise of a regression, over all value functions, may add to the bonus.
NOISE = 0.1


@dataclass(frozen=True)
class UCBPlan:
    """What :func:`rrl.r_lsvi_ucb` is run with.

    Attributes
    ----------
    n_rounds : int
        T.
    n_trajectories : float
        M of each round.
    beta, penalty : float
        Width of the bonus, and lambda = 1.
    bin_widths : (float, float)
        Of the ridge weights and of the second moments.
    growth : float
        1, or the factor that new weights wait for.
    """

    n_rounds: int
    n_trajectories: float
    beta: float
    penalty: float
    bin_widths: tuple
    growth: float

    @property
    def log10_total(self) -> float:
        """Base-10 logarithm of M T."""
        return log10(self.n_rounds) + log10(self.n_trajectories)

    def settings(self) -> dict[str, Any]:
        """Return the arguments of :func:`rrl.r_lsvi_ucb` by name.

        Returns
        -------
        dict
        """
        return dict(vars(self))


@formula
def ucb_plan(
    d: int,
    H: int,
    epsilon: float,
    delta: float,
    rho: float,
    *,
    rare: bool = False,
    kappa: float | None = None,
) -> UCBPlan:
    """All settings of Algorithm 5 under which a shorter proof gives both promises of Theorem 4.2.

    R-LSVI-UCB is then rho-replicable, and with probability 1 - delta the uniform mixture of its
    policies loses at most epsilon. It needs Assumption 2.1 as erratum E22 repairs it, but no
    rho > 2 delta. With lambda = 1, b = 1.1 sqrt(d) (1 + H) and a rounded matrix that errs by kappa:
    beta = sqrt(1 + kappa) b and T = 4 (2 + kappa)^2 b^2 H^2 d log2(1 + T / d) / eps^2. M is the largest
    of what replicability in expectation, the noise of the regressions and that of the trajectories
    need. M T is of order (d^12 H^18 / eps^8 + d^10 H^22 / eps^10) / rho^2.

    With `rare` new weights wait until Lambda has grown by 2 (1 + kappa)^2 somewhere: T is 4 (1 + kappa)^4
    times larger, and M T of order (d^10 H^12 / eps^4 + d^8 H^16 / eps^6) / rho^2.

    Parameters
    ----------
    d, H : int
        Features, horizon.
    epsilon, delta, rho : float
        Accuracy, failure probability, replicability parameter.
    rare : bool, default=False
        Whether weights are published rarely.
    kappa : float, optional
        Error of a rounded second moment over lambda; by default 0.7, and 0.25 with `rare`, about the
        best for large d.

    Returns
    -------
    UCBPlan

    Examples
    --------
    >>> from rrl.theory import ucb_parameters, ucb_plan
    >>> for rare in (False, True):
    ...     plan = ucb_plan(4, 4, 0.5, 0.01, 0.1, rare=rare)
    ...     print(f"{plan.n_rounds:.1g} rounds, {plan.log10_total:.0f} powers of ten")
    2e+07 rounds, 39 powers of ten
    2e+08 rounds, 32 powers of ten
    >>> f"{ucb_parameters(4, 4, 0.5, 0.01, 0.1).log10_total:.0f}"
    '82'
    """
    check_bool(rare=rare)
    kappa = (0.25 if rare else 0.7) if kappa is None else kappa
    check_positive(d=d, H=H, epsilon=epsilon, kappa=kappa)
    check_probability(delta=delta, rho=rho)
    bias = sqrt(d) * (1 + H)
    width = (1 + NOISE) * bias
    growth = 2 * (1 + kappa) ** 2 if rare else 1.0
    stale = 2 * (1 + kappa) ** 2 * growth if rare else 1.0
    T = _rounds(4 * (2 + kappa) ** 2 * stale * (width * H / epsilon) ** 2 * d, d)
    beta, bins = sqrt(1 + kappa) * width, (epsilon / (4 * H * sqrt(d)), 2 * kappa / d)

    if rare:
        published = 1 + H * d * log2(1 + T / d)
        ridge, moments = H * published * sqrt(T), H * published * (1 + log2(T)) * sqrt(T)
    else:  # the sum of sqrt(t) over the rounds
        ridge = moments = H * 2 / 3 * T**1.5
    apart = ridge * sqrt(2 * d) * (1 + H) / bins[0] + moments * sqrt(d * (d + 3) / 2) / bins[1]
    failures = delta / (4 if rare else 3)
    cover = NOISE * bias / (4 * sqrt(T))
    functions = d * log(1 + 4 * ((1 + H) * sqrt(T) / 2 + epsilon / (8 * H)) / cover)
    functions += d * (d + 1) / 2 * log(1 + 8 * sqrt(d) * (beta / cover) ** 2)
    M = max(
        (2 * apart / rho) ** 2,
        (H / (NOISE * bias)) ** 2 * (d * log(1 + T / d) + 2 * functions + 2 * log(H / failures)),
        32 * (sqrt(H**3) + H) ** 2 * log(1 / failures) / (epsilon**2 * T),
        9 * T * (1 + sqrt(log(H * T**2 / failures))) ** 2 if rare else 0.0,
    )
    return UCBPlan(T, ceil(M) if M < 2**63 else M, beta, 1.0, bins, growth)


def _rounds(factor, d):
    """A whole T of at least factor * log2(1 + T / d)."""
    n_rounds = max(factor, 1.0)
    for _ in range(100):
        n_rounds = max(factor * log2(1 + n_rounds / d), 1.0)
    if not isfinite(n_rounds):
        raise OverflowError("T overflows")
    return ceil(n_rounds * (1 + 1e-12))
