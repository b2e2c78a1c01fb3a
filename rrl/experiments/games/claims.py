"""The paper's claims on Figure 2, judged: supported, contradicted, or the runs cannot tell.

Each claim is an inequality, of one or more differences and a bar. It is supported where all of a difference's 95%
interval lies above the bar, contradicted where all of it lies below, and where the interval contains both answers the
runs cannot tell. Two runs of a variant are one pair and tell nothing of agreements; runs of equal return tell nothing
of returns. Intervals are those of `rrl.experiments.games.intervals`; nothing is corrected for the number of claims.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rrl.experiments.games.atari import SCALES, VARIANTS
from rrl.experiments.games.intervals import difference_interval, ratio_interval

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rrl.experiments.games.figure import Study

__all__ = [
    "CLAIMS",
    "MARGIN",
    "VERDICTS",
    "Finding",
    "all_of",
    "compare_variants",
    "decide",
    "figure_status",
    "judge",
]

VERDICTS = ("supported", "contradicted", "cannot tell")
#: What counts as lost: more than a tenth, of plain's return or of all states. Our choice; the paper names none.
MARGIN = 0.1


class Finding(NamedTuple):
    """One difference of a claim.

    Attributes
    ----------
    words : str
        What is compared.
    value, low, high : float
        The difference and its 95% interval; returns are relative to plain's.
    bar : float
        What it must exceed.
    bounds : (float, float)
        Between which such a difference lies.
    """

    words: str
    value: float
    low: float
    high: float
    bar: float = 0.0
    bounds: tuple[float, float] = (-1.0, 1.0)

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        return decide(self.low, self.high, self.bar)

    @property
    def smallest(self) -> float:
        """The smallest distance from the bar that would be seen on this side of it: the interval's arm towards it.

        Infinite where no difference would be.
        """
        sign, end = (1, self.low) if self.value >= self.bar else (-1, self.high)
        arm = sign * (self.value - end)
        inside = self.bounds[0] < self.bar + sign * arm < self.bounds[1]
        return arm if inside and end not in self.bounds else math.inf

    @property
    def decisive(self) -> float:
        """The value nearest to the bar, on this side of it, that would decide: `smallest` away from it."""
        return self.bar + (self.smallest if self.value >= self.bar else -self.smallest)


def decide(low: float, high: float, bar: float = 0.0) -> str:
    """A verdict on "more than `bar`" from an interval.

    Examples
    --------
    >>> from rrl.experiments.games.claims import decide
    >>> decide(0.1, 0.3), decide(-0.3, -0.1), decide(-0.1, 0.3), decide(-0.1, 0.3, -0.2)
    ('supported', 'contradicted', 'cannot tell', 'supported')
    """
    if low > bar:
        return "supported"
    return "contradicted" if high < bar else "cannot tell"


def all_of(verdicts: Iterable[str]) -> str:
    """The verdict on a claim that asks for several things: contradicted if one is, supported if all are.

    Examples
    --------
    >>> from rrl.experiments.games.claims import all_of
    >>> all_of(["supported", "cannot tell"]), all_of(["cannot tell", "contradicted"]), all_of([])
    ('cannot tell', 'contradicted', 'cannot tell')
    """
    verdicts = list(verdicts)
    if "contradicted" in verdicts:
        return "contradicted"
    return "supported" if verdicts and set(verdicts) == {"supported"} else "cannot tell"


def _part(row, name):
    return row[name], row[f"{name}_interval"]


def _beside(rows, one, other, name, bar=0.0):
    """A variant's part less another's."""
    a, b = _part(rows[one], name), _part(rows[other], name)
    low, high = difference_interval(*a, *b)
    if min(len(rows[v]["seeds"]) for v in (one, other)) < 3:
        low, high = -1.0, 1.0
    return Finding(f"{one} less {other}", a[0] - b[0], max(low, -1.0), min(high, 1.0), bar)


def _return(rows, one, sign=1, bar=0.0, other="plain"):
    """A variant's return less another's, as a share of it; with sign -1 the loss, which is at most all of it."""
    a, b = _part(rows[one], "final"), _part(rows[other], "final")
    value = a[0] / b[0] - 1 if b[0] > 0 else math.nan
    # Equal scores say nothing of their spread.
    told = b[0] > 0 and all(low < high for _, (low, high) in (a, b))
    low, high = sorted(sign * (end - 1) for end in (ratio_interval(*a, *b) if told else (0.0, math.inf)))
    bounds = (-1.0, math.inf) if sign > 0 else (-math.inf, 1.0)
    return Finding(f"{one} {'beside' if sign > 0 else 'below'} {other}", sign * value, low, high, bar, bounds)


def compare_variants(rows: dict[str, dict], variant: str, other: str = "plain") -> dict[str, Finding]:
    """A variant's return and agreement less those of another.

    Parameters
    ----------
    rows : dict of str to dict
        Rows of `rrl.experiments.games.results.table`.
    variant, other : str

    Returns
    -------
    dict of str to Finding
        ``final`` (relative to the other's), ``agreement``, ``own`` and ``state``.
    """
    parts = {name: _beside(rows, variant, other, name) for name in ("agreement", "own", "state")}
    return {"final": _return(rows, variant, other=other), **parts}


#: Claims: their key, their words, whether they are the paper's, and what they compare.
CLAIMS = (
    (
        "insufficient",
        "Regularisation alone is not enough: quantised runs agree more than regularised ones.",
        True,
        lambda rows: [_beside(rows, "quantised", "regularised", "agreement")],
    ),
    (
        "raises",
        "Quantisation raises agreement above that of plain runs.",
        True,
        lambda rows: [_beside(rows, "quantised", "plain", "agreement")],
    ),
    (
        "gaps",
        "Low action gaps are part of it: some of the quantised runs' agreement is ties.",
        True,
        lambda rows: [
            Finding("ties of quantised", rows["quantised"]["ties"], *rows["quantised"]["ties_interval"]),
        ],
    ),
    (
        "wrong",
        "Quantised runs can agree on wrong actions: their return is lower than plain's.",
        True,
        lambda rows: [_return(rows, "quantised", sign=-1)],
    ),
    (
        "kept",
        "With both, nothing is lost: at least nine tenths of plain's return are kept.",
        True,
        lambda rows: [_return(rows, "both", bar=-MARGIN)],
    ),
    (
        "benefit",
        "With both, the gain in agreement stays: above plain, and less than 0.1 below quantised.",
        True,
        lambda rows: [
            _beside(rows, "both", "plain", "agreement"),
            _beside(rows, "both", "quantised", "agreement", bar=-MARGIN),
        ],
    ),
    (
        "beyond ties",
        "With both, runs agree more than plain ones even with ties broken at random.",
        False,
        lambda rows: [_beside(rows, "both", "plain", "own")],
    ),
    (
        "beyond habits",
        "With both, runs as they act agree more about the state: beyond ties and favourite actions.",
        False,
        lambda rows: [_beside(rows, "both", "plain", "state")],
    ),
)


def judge(rows: dict[str, dict]) -> dict[str, tuple[str, list[Finding]]]:
    """Judge every claim on one game.

    Parameters
    ----------
    rows : dict of str to dict
        A row of `rrl.experiments.games.results.table` for each of the four variants; of a single run each, or none,
        nothing can be told.

    Returns
    -------
    dict of str to (str, list of Finding)
        For each key of `CLAIMS` its verdict, and the differences that it rests on.
    """
    judged = {}
    for key, _, _, compare in CLAIMS:
        known = rows.keys() >= VARIANTS.keys() and min(len(row["seeds"]) for row in rows.values()) > 1
        found = compare(rows) if known else []
        judged[key] = all_of(finding.verdict for finding in found), found
    return judged


def figure_status(judged: dict[str, dict], studies: dict[str, Study]) -> str:
    """The claim map's word for Figure 2: its caption says that agreement rises and the return stays, on both games.

    Parameters
    ----------
    judged : dict of str to dict
        Of `judge`, by game.
    studies : dict of str to Study
        The comparisons that were judged, by game.

    Returns
    -------
    str
        A status of `rrl.book.claims`. Only the paper's scale (15 seeds of 10 million steps) can refute.
    """
    plan = SCALES["paper"]
    word = all_of(judged[g][key][0] if g in judged else "cannot tell" for g in plan for key in ("benefit", "kept"))
    full = all(
        g in studies
        and studies[g].total_steps >= plan[g]["total_steps"]
        and len(studies[g].seeds) >= plan[g]["n_seeds"]
        for g in plan
    )
    if word == "supported":
        return "holds as printed" if full else "measured at reduced scale"
    return "refuted" if full and word == "contradicted" else "cannot tell"
