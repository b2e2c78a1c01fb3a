"""The paper's claims on Figure 2, judged on rows of `rrl.experiments.games.results.table`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from rrl.experiments.games.atari import VARIANTS

if TYPE_CHECKING:
    from typing import Any

__all__ = ["above", "difference", "judge", "t_factor"]

# Where a row keeps a mean's error, and how many standard errors it is.
ERRORS = {
    "final": ("final_error", 1.96),
    "agreement": ("jackknife_error", 1),
    "agreement_independent": ("independent_error", 1),
}


def t_factor(n: Any) -> Any:
    """Standard errors on either side of a mean of `n` runs that hold 95% of Student's t with n - 1 degrees.

    Examples
    --------
    >>> from rrl.experiments.games.claims import t_factor
    >>> [round(t_factor(n), 1) for n in (2, 3, 15)]
    [12.7, 4.3, 2.1]
    """
    return float(stats.t.ppf(0.975, n - 1))


def difference(one: dict, other: dict, measure: str = "final", reference: Any = None) -> tuple[float, float]:
    """A difference of two means and its 95% error.

    The error has Student's t with one degree of freedom less than the smaller number of runs: never
    fewer standard errors than Welch's.

    Parameters
    ----------
    one, other : dict
        Rows of `rrl.experiments.games.results.table`, of at least two runs (an agreement needs three).
    measure : {"final", "agreement", "agreement_independent"}
        Of `one`.
    reference : same, optional
        Of `other`; the same measure if not given.

    Returns
    -------
    tuple of two float

    Examples
    --------
    >>> from rrl.experiments.games.claims import difference
    >>> one = {"seeds": [0, 1, 2], "final": 9.0, "final_error": 1.96}
    >>> [round(x, 2) for x in difference(one, {**one, "final": 2.0})]
    [7.0, 6.08]
    """
    reference = reference or measure
    errors = [row[ERRORS[name][0]] / ERRORS[name][1] for row, name in ((one, measure), (other, reference))]
    factor = t_factor(min(len(one["seeds"]), len(other["seeds"])))
    return float(one[measure] - other[reference]), float(factor * np.hypot(*errors))


def above(one: Any, other: Any, measure: str = "final", reference: Any = None) -> Any:
    """Whether a mean is larger by more than the 95% error of the `difference`, whose parameters these are.

    Examples
    --------
    >>> from rrl.experiments.games.claims import above
    >>> one = {"seeds": [0, 1, 2], "final": 9.0, "final_error": 1.96}
    >>> other = {"seeds": [0, 1, 2], "final": 2.0, "final_error": 1.96}
    >>> above(one, other), above(one, {**other, "final": 4.0})
    (True, False)
    """
    found, error = difference(one, other, measure, reference)
    return found > error


def judge(rows: Any) -> Any:
    """Section 6.2's claims on one game, claim by claim.

    Parameters
    ----------
    rows : dict of str to dict
        A row of `rrl.experiments.games.results.table` for each of the four variants.

    Returns
    -------
    list of (str, str, bool)
        The claim in words, the numbers, and whether the runs show it: a difference has to be `above`, "within
        variance" and "kept" mean that no loss is. The last is ours, not the paper's.
    """
    plain, quantised, regularised, both = map(rows.get, VARIANTS)
    a = {v: f"{v} {row['agreement']:.2f}" for v, row in rows.items()}
    r = {v: f"{v} {row['final']:.2f} ± {row['final_error']:.2f}" for v, row in rows.items()}
    own = "agreement_independent"
    player = ", ".join(f"{v} {np.mean(rows[v]['expert']):.2f}" for v in ("plain", "quantised"))
    kappas = ", ".join(f"{v} {rows[v]['kappa_independent']:.2f}" for v in ("plain", "regularised", "both"))
    raised = [above(quantised, row, "agreement") for row in (plain, regularised)]
    yes = {True: "yes", False: "not beyond the error"}
    return [
        (
            "Quantisation raises agreement, above plain and above regularisation alone.",
            f"Agreement: {a['plain']}, {a['regularised']}, {a['quantised']}; above plain: {yes[raised[0]]}, "
            f"above regularised: {yes[raised[1]]}.",
            all(raised),
        ),
        (
            "Quantised policies can agree on wrong actions: their return is lower than plain's.",
            f"Return: {r['plain']}, {r['quantised']}, {quantised['final'] / plain['final']:.0%} of it. Agreement with "
            f"the hold-out's player: {player}.",
            above(plain, quantised),
        ),
        (
            "With both, the return is within variance of the baseline.",
            f"Return: {r['plain']}, {r['both']}, {both['final'] / plain['final']:.0%} of it; {r['regularised']}.",
            not above(plain, both),
        ),
        (
            "With both, the agreement of quantisation is kept.",
            f"Agreement: {a['plain']}, {a['both']}, {a['quantised']}.",
            above(quantised, plain, "agreement")
            and above(both, plain, "agreement")
            and not above(quantised, both, "agreement"),
        ),
        (
            "Our addition: with both, agreement is above plain even when each run breaks its own ties.",
            f"{both[own]:.2f} against {a['plain']} and {a['regularised']}. Fleiss' kappa of the same choices, which "
            f"takes shared habits out: {kappas}.",
            above(both, plain, own, "agreement"),
        ),
    ]
