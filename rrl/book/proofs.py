"""Inequalities of a proof, checked on random instances: how often they hold and how much they give away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._checks import as_float64
from .._extras import missing
from .numbers import number

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = ["InequalityLedger"]

#: An equality that rounding error tips over is no counter-example.
TOLERANCE = 1e-9


class InequalityLedger:
    """A record of inequalities "left <= right" and of their ratios left / right.

    A ratio near 1 means that the step is tight on some instance, a small largest ratio that it is
    loose on all that were tried, and a ratio above 1 that it is false.

    Attributes
    ----------
    rows : list of tuple
        ``(step, ratios, holds)`` in the order of the checks; ``ratios`` is a flat float64 array.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.book.proofs import InequalityLedger
    >>> ledger = InequalityLedger()
    >>> x = np.linspace(0.1, 1, 10)
    >>> ledger.check("sine", np.sin(x), x) < 1
    True
    >>> ledger.check("sine, the other way", x, np.sin(x), holds=False) > 1
    True
    """

    def __init__(self) -> None:
        self.rows = []

    def check(self, step: str, left: ArrayLike, right: ArrayLike, *, holds: bool = True) -> float:
        """Compare both sides on all instances and keep the ratios.

        Parameters
        ----------
        step : str
            Name of the inequality.
        left, right : array_like
            Both sides, finite, of shapes that broadcast; `right` must be positive.
        holds : bool, default=True
            Whether "left <= right" is claimed for every instance. With False at least one instance
            must break it: a counter-example that no longer is one is a fault of the page.

        Returns
        -------
        float
            The largest ratio.

        Raises
        ------
        ValueError
            If a side is not finite, `right` is not positive, or there is no instance.
        AssertionError
            If the claim and the instances disagree.
        """
        left, right = as_float64("left", left), as_float64("right", right)
        if not (np.isfinite(left).all() and np.isfinite(right).all() and (right > 0).all()):
            raise ValueError(f"{step}: both sides must be finite and the right one positive")
        ratios = np.ravel(left / right)
        if not ratios.size:
            raise ValueError(f"{step}: no instance was given")
        largest = float(ratios.max())
        if holds != (largest <= 1 + TOLERANCE):
            raise AssertionError(f"{step}: claimed {'true' if holds else 'false'}, largest ratio {largest:.6g}")
        self.rows.append((step, ratios, holds))
        return largest

    def ratios(self, step: Any) -> Any:
        """The ratios of one step, as a flat array; a KeyError if there is no such step."""
        for name, ratios, _ in self.rows:
            if name == step:
                return ratios
        raise KeyError(step)

    def holds(self, beginning: Any) -> Any:
        """Tell whether all steps hold whose names begin so; a KeyError if there is none."""
        found = [holds for step, _, holds in self.rows if step.startswith(beginning)]
        if not found:
            raise KeyError(beginning)
        return all(found)

    def table(self) -> Any:
        """Show the record as a table, one inequality a row.

        Returns
        -------
        pandas.DataFrame
            Columns ``inequality``, ``instances``, ``median ratio``, ``largest ratio``, ``broken`` (the
            share of instances) and ``holds``.

        Raises
        ------
        ImportError
            If pandas is missing: the extra ``book`` brings it.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise missing("book", "the table needs pandas") from error
        return pd.DataFrame(
            {
                "inequality": [step for step, _, _ in self.rows],
                "instances": [ratios.size for _, ratios, _ in self.rows],
                "median ratio": [float(np.median(ratios)) for _, ratios, _ in self.rows],
                "largest ratio": [float(ratios.max()) for _, ratios, _ in self.rows],
                "broken": [float((ratios > 1 + TOLERANCE).mean()) for _, ratios, _ in self.rows],
                "holds": ["yes" if holds else "no" for _, _, holds in self.rows],
            }
        )

    def draw(self, ax: Any, limits: tuple[float, float] = (1e-3, 1e2)) -> None:
        """Draw each inequality as a line from the 5% quantile of its ratios to the largest, with the median.

        Parameters
        ----------
        ax : matplotlib.axes.Axes
            Where to draw; the ratio is on a logarithmic axis.
        limits : (float, float), default=(1e-3, 1e2)
            Ends of the axis. A largest ratio outside is an arrow at the end with its value beside it.
        """
        from .plotting import COLORS

        places = range(len(self.rows), 0, -1)
        for place, (_, ratios, holds) in zip(places, self.rows):
            low, median, high = np.quantile(ratios, [0.05, 0.5, 1])
            color = COLORS[0] if holds else COLORS[1]
            ends = np.clip([low, high], *limits)
            ax.plot(ends, [place, place], "-", marker="", color=color, linewidth=1.5)
            if limits[0] <= median <= limits[1]:
                ax.plot(median, place, "|", color=color, markersize=9, markeredgewidth=2)
            outside = high > limits[1] or high < limits[0]
            marker = (">" if high > limits[1] else "<") if outside else ("o" if holds else "X")
            ax.plot(ends[1], place, marker, color=color, markersize=6, clip_on=False)
            if outside:
                beside = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
                ax.annotate(number(float(high)), (ends[1], place), color=color, annotation_clip=False, **beside)
        ax.axvline(1, color="black", linewidth=1)
        ax.set(xscale="log", xlabel="left side / right side", yticks=list(places), ylim=(0.4, len(self.rows) + 0.6))
        ax.set_xlim(limits[0] / 1.3, limits[1] * 1.3)
        ax.set_yticklabels([step for step, _, _ in self.rows])
