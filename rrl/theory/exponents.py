"""The exponents of Theorems 4.1 and 4.2 and of everything that lowers them, as one list each.

Every exponent is computed from the settings it follows from: `ladder` puts symbols into the arithmetic
of the proof. No exponent is typed here.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from fractions import Fraction
from math import log10
from typing import TYPE_CHECKING

from .._checks import check_choice, check_integer, check_positive
from .lsvi_ucb import ucb_chain

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Powers", "Rung", "ladder"]


@dataclass(frozen=True)
class Powers:
    """A product of powers of the paper's symbols; constants are dropped.

    Products, quotients and powers of such products are computed exactly.

    Attributes
    ----------
    d, k, H, epsilon, rho, log : Fraction, default=0
        Exponents of the number of features, the core-set constant, the horizon, 1 / epsilon, 1 / rho and
        log(1 / delta). Logarithms of other quantities are dropped.

    Examples
    --------
    >>> from rrl.theory import Powers
    >>> rounds = Powers(d=5, H=6, epsilon=4)
    >>> print(rounds**2 * Powers(rho=2), (rounds / Powers(d=1)).d)
    d^10 H^12 / (ε^8 ρ^2) 4
    """

    d: Fraction | int = 0
    k: Fraction | int = 0
    H: Fraction | int = 0
    epsilon: Fraction | int = 0
    rho: Fraction | int = 0
    log: Fraction | int = 0

    def __post_init__(self):
        for field in fields(self):
            object.__setattr__(self, field.name, Fraction(getattr(self, field.name)))

    def __mul__(self, other: Powers) -> Powers:
        return Powers(*(a + b for a, b in zip(astuple(self), astuple(other))))

    def __truediv__(self, other: Powers) -> Powers:
        return self * other**-1

    def __pow__(self, exponent: Fraction | int) -> Powers:
        return Powers(*(a * Fraction(exponent) for a in astuple(self)))

    def _written(self, power, product, rho, eps):
        def factors(**symbols):
            return [power(name, x) for name, x in symbols.items() if x]

        above = product.join(factors(d=self.d, k=self.k, H=self.H, L=self.log)) or "1"
        return above, factors(**{eps: self.epsilon, rho: self.rho})

    def __str__(self):
        above, below = self._written(lambda s, x: s if x == 1 else f"{s}^{x}", " ", "ρ", "ε")
        return f"{above} / {below[0]}" if len(below) == 1 else f"{above} / ({' '.join(below)})" if below else above

    def tex(self) -> str:
        r"""Return it as a formula of TeX, without the dollars.

        Returns
        -------
        str

        Examples
        --------
        >>> from rrl.theory import Powers
        >>> Powers(d=6, H=23, epsilon=8, rho=2).tex()
        'd^{6}H^{23}/(\\varepsilon^{8}\\rho^{2})'
        """
        above, below = self._written(lambda s, x: s if x == 1 else f"{s}^{{{x}}}", "", r"\rho", r"\varepsilon")
        return f"{above}/{below[0]}" if len(below) == 1 else f"{above}/({''.join(below)})" if below else above

    def with_core(self, power: int) -> Powers:
        """Put d^power in the place of the core-set constant k: 1 for the best design, 2 for one as printed (E5).

        Parameters
        ----------
        power : int
            At least 1.

        Returns
        -------
        Powers

        Examples
        --------
        >>> from rrl.theory import Powers
        >>> print(Powers(d=6, k=3).with_core(1), Powers(d=6, k=3).with_core(2))
        d^9 d^12
        """
        check_integer(1, power=power)
        return Powers(self.d + power * self.k, 0, self.H, self.epsilon, self.rho, self.log)

    def log10(self, *, d: float, H: float, epsilon: float, rho: float, k: float = 1.0, log: float = 1.0) -> float:
        """Return the base-10 logarithm of the product at a point, with every constant 1.

        Parameters
        ----------
        d, H, epsilon, rho : float
            The paper's symbols.
        k : float, default=1.0
            The core-set constant.
        log : float, default=1.0
            The value of log(1 / delta).

        Returns
        -------
        float

        Examples
        --------
        >>> from rrl.theory import Powers
        >>> Powers(d=2, epsilon=1).log10(d=10, H=10, epsilon=0.1, rho=0.1)
        3.0
        """
        check_positive(d=d, H=H, epsilon=epsilon, rho=rho, k=k, log=log)
        point = (d, k, H, 1 / epsilon, 1 / rho, log)
        return sum(float(power) * log10(x) for power, x in zip(astuple(self), point))


@dataclass(frozen=True)
class Rung:
    """One version of a theorem's sample size.

    Attributes
    ----------
    name : str
        What this rung changes.
    after : str
        Name of the rung that it changes; empty for a first one.
    demands : dict of str to Powers
        What each part of the algorithm asks for, in samples or trajectories of the whole run; the largest counts.
    status : {"printed", "corrected", "proved here", "sketch", "refuted"}
        "refuted": it follows from a printed line that is false.
    label : str
        Label in the book of where it is proved, shown or refuted.
    """

    name: str
    after: str
    demands: dict[str, Powers]
    status: str
    label: str

    def __str__(self):
        return f"{self.name}: {', '.join(map(str, self.demands.values()))} ({self.status})"

    def log10(self, **point: float) -> float:
        """Return the base-10 logarithm of the largest demand, with every constant 1.

        Parameters
        ----------
        **point : float
            As in :meth:`Powers.log10`.

        Returns
        -------
        float
        """
        return max(demand.log10(**point) for demand in self.demands.values())


ONE = Powers()
D, K, H, EPSILON, RHO = Powers(d=1), Powers(k=1), Powers(H=1), Powers(epsilon=-1), Powers(rho=-1)
LOG = Powers(log=1)


def ladder(theorem: str) -> tuple[Rung, ...]:
    """List every version of a theorem's sample size with its exponents, from the printed one down.

    Theorem 4.1 (samples N of R-LSVI) and Theorem 4.2 (trajectories M T of R-LSVI-UCB). Constants are
    dropped, and with them all logarithms but the displayed log(1 / delta). A page takes its exponents
    from here, in place of typing them.

    Parameters
    ----------
    theorem : {"4.1", "4.2"}
        Number in the paper.

    Returns
    -------
    tuple of Rung
        In an order in which every rung stands behind the one that it changes.

    Examples
    --------
    >>> from rrl.theory import ladder
    >>> rungs = {rung.name: rung for rung in ladder("4.1")}
    >>> print(rungs["as printed"])
    as printed: d^6 k^3 H^23 L / (ε^8 ρ^2) (printed)
    >>> print(rungs["penalty and ball of one stage"])
    penalty and ball of one stage: d^6 k^3 H^27 L / (ε^8 ρ^2) (corrected)
    >>> explore = ladder("4.2")
    >>> print(explore[0].demands["second moments"])
    d^56 H^62 L^5 / (ε^44 ρ^2)
    >>> [(str(rung.demands["second moments"].d), rung.label) for rung in explore if rung.status == "corrected"]
    [('40', 'e23'), ('24', 'e21')]
    >>> f"{explore[0].log10(d=10, H=10, epsilon=0.1, rho=0.1):.0f}"
    '164'
    """
    check_choice("theorem", theorem, ("4.1", "4.2"))
    return _planning_ladder() if theorem == "4.1" else _exploration_ladder()


def _planning(stage: Any, penalty_from: Any, ball: Any, gradient: bool = False) -> Any:
    """N of R-LSVI: H ridge regressions with accuracy `stage`, each at rho / H.

    Theorem 3.1 has d^3 and the radius of the ball; `gradient` takes :func:`ridge_plan` in its place.
    """
    penalty = penalty_from**2 / (K * D * H**2)
    rows = D**2 * H**2 if gradient else D**3 * ball**2 * LOG
    return {"samples": H * rows / (penalty * stage * RHO / H) ** 2}


def _planning_ladder():
    whole, stage, sharp, target = EPSILON, EPSILON / H**2, EPSILON / H, H * D ** Fraction(1, 2)

    def ball(accuracy):  # 2 H / sqrt(lambda)
        return H**2 * (K * D) ** Fraction(1, 2) / accuracy

    printed, corrected = "as printed", "penalty and ball of one stage"
    target_only, telescoped = "only the target in the ball", "and residuals that telescope"
    one_gradient = "and one gradient for ridge"
    design = K * D**3 * H**2 / (sharp * RHO / H) ** 2
    least_squares = "least squares on the design"
    return (
        Rung(printed, "", _planning(stage, stage, ball(whole)), "printed", "thm-4-1"),
        Rung("the algorithm's own penalty", printed, _planning(stage, whole, ball(whole)), "refuted", "e7"),
        Rung(corrected, printed, _planning(stage, stage, ball(stage)), "corrected", "e7"),
        Rung(
            "residuals that telescope",
            corrected,
            _planning(sharp, sharp, ball(sharp)),
            "proved here",
            "lem-own-telescope",
        ),
        Rung(target_only, corrected, _planning(stage, stage, target), "proved here", "e14"),
        Rung(telescoped, target_only, _planning(sharp, sharp, target), "proved here", "lem-own-telescope"),
        Rung(
            one_gradient,
            telescoped,
            _planning(sharp, sharp, target, gradient=True),
            "proved here",
            "prop-own-ridge-plan",
        ),
        Rung(least_squares, one_gradient, {"samples": H * design}, "proved here", "prop-own-design"),
        Rung("features in the simplex", least_squares, {"samples": H * design / D}, "proved here", "prop-own-design"),
    )


def _exploration(
    penalty: Any, accuracy: Any, beta: Any = D * H, moments: int = 8, gradient: bool = False, calls: Any = None
) -> Any:
    """M T of R-LSVI-UCB, as its second moments and its ridge regressions ask for it.

    `accuracy` of the second moments is a function of the penalty and of the error eps / (beta H) that
    a bonus may have; `moments` is the power of d of their estimator. Theorem 3.1 at lambda / T has the
    ball H / sqrt(lambda / T); `gradient` takes :func:`ridge_plan` in its place.
    """
    T = beta**2 * H**2 * D * LOG / (penalty * EPSILON**2)
    rho_call, width = RHO / (calls or T * H), EPSILON / H
    by_moments = T * D**moments / (accuracy(penalty, EPSILON / (beta * H)) * rho_call) ** 2
    ball = D**2 * H**2 if gradient else D**3 * LOG * H**2 * T / penalty
    by_ridge = T * ball / (penalty * width * rho_call) ** 2
    return {"second moments": T * by_moments * (LOG if moments == 8 else ONE), "ridge": T * by_ridge}


def _exploration_ladder():
    small = EPSILON**2 / (D * H) ** 2
    batch = H * D ** Fraction(1, 2)

    def ratio(penalty, error):
        return penalty

    def once(penalty, error):
        return (penalty * error) ** 2

    printed, corrected, unit = "as printed", "corrected lemmas, used once", "and penalty 1"
    ratios, expected = "and the bonus as a ratio", "and replicability in expectation"
    batched = "and the bonus of a batch"
    aside, aside_moments = "bonus as a ratio, printed penalty", "and second moments in d^4, printed penalty"
    chain = ucb_chain(D, H, EPSILON, RHO, LOG)  # pyright: ignore[reportArgumentType]
    paper = _exploration(small, lambda penalty, error: penalty**5 * error**4)
    paper["second moments"] = chain["M"] * chain["T"]
    return (
        Rung(printed, "", paper, "printed", "thm-4-2"),
        Rung(
            "printed Lemma D.3, used once",
            printed,
            _exploration(small, lambda penalty, error: penalty * error**2),
            "refuted",
            "lem-d-3",
        ),
        Rung(corrected, printed, _exploration(small, once), "corrected", "e23"),
        Rung(unit, corrected, _exploration(ONE, once), "corrected", "e21"),
        Rung(ratios, unit, _exploration(ONE, ratio), "proved here", "lem-own-ratio"),
        Rung(
            expected, ratios, _exploration(ONE, ratio, moments=4, gradient=True), "proved here", "prop-own-moment-plan"
        ),
        Rung(
            batched,
            expected,
            _exploration(ONE, ratio, batch, moments=4, gradient=True),
            "proved here",
            "thm-own-explore",
        ),
        Rung(
            "and rarely new weights",
            batched,
            _exploration(ONE, ratio, batch, moments=4, gradient=True, calls=D * H**2),
            "proved here",
            "thm-own-explore",
        ),
        Rung(aside, corrected, _exploration(small, ratio), "proved here", "lem-own-ratio"),
        Rung(aside_moments, aside, _exploration(small, ratio, moments=4), "proved here", "prop-own-moment-plan"),
        Rung(
            "and one gradient for ridge, printed penalty",
            aside_moments,
            _exploration(small, ratio, moments=4, gradient=True),
            "proved here",
            "prop-own-ridge-plan",
        ),
    )
