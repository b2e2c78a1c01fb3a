"""The book's figure style: readable on light and dark pages, in print, and without colour vision.

Needs matplotlib, which the extra ``book`` brings.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from .._extras import missing
from ..replicability import clopper_pearson

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

__all__ = ["COLORS", "STYLE", "draw_shares", "figure_style", "use_style"]

#: Colours of Okabe and Ito that keep a contrast of 3 to 1 on white, told apart with any colour vision.
COLORS = ("#0072B2", "#D55E00", "#007A5A", "#A8497F", "#4D4D4D", "#8A6D00")

_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)))
_MARKERS = "os^Dvx"

#: Settings of matplotlib, without the property cycle. Figures are opaque white: the page's style sheet
#: sets them on a card in dark mode, so text keeps its full contrast in both.
STYLE = {
    "figure.figsize": (6.4, 3.6),
    "figure.dpi": 110,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "savefig.dpi": 200,
    "savefig.facecolor": "white",
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "text.color": "#222222",
    "axes.labelcolor": "#222222",
    "axes.edgecolor": "#555555",
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "image.cmap": "cividis",
    "svg.fonttype": "path",
    "svg.hashsalt": "rrl",
}


def _load():
    """Return matplotlib and the full style, with lines that differ in colour, dash and marker."""
    try:
        import matplotlib
        from cycler import cycler
    except ImportError as error:
        raise missing("book", "the figure style needs matplotlib") from error
    cycle = cycler(color=COLORS) + cycler(linestyle=_DASHES) + cycler(marker=_MARKERS)
    return matplotlib, STYLE | {"axes.prop_cycle": cycle}


def use_style() -> Any:
    """Apply the book's style to every later figure; in a notebook also draw figures as SVG.

    Raises
    ------
    ImportError
        If matplotlib is missing: the extra ``book`` brings it.

    Examples
    --------
    >>> from rrl.book.plotting import use_style
    >>> use_style()
    >>> import matplotlib
    >>> matplotlib.rcParams["axes.spines.top"]
    False
    """
    matplotlib, settings = _load()
    matplotlib.rcParams.update(settings)
    try:
        from IPython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    if get_ipython() is not None:
        set_matplotlib_formats("svg", metadata={"Date": None})


@contextmanager
def figure_style() -> Any:
    """Use the book's style inside a ``with`` block only.

    Raises
    ------
    ImportError
        If matplotlib is missing: the extra ``book`` brings it.

    Examples
    --------
    >>> import matplotlib
    >>> from rrl.book.plotting import figure_style
    >>> before = matplotlib.rcParams["legend.frameon"]
    >>> with figure_style():
    ...     matplotlib.rcParams["legend.frameon"]
    False
    >>> matplotlib.rcParams["legend.frameon"] == before
    True
    """
    matplotlib, settings = _load()
    with matplotlib.rc_context(settings):
        yield


def draw_shares(
    ax: Any,
    x: ArrayLike,
    counts: ArrayLike,
    trials: ArrayLike,
    *,
    confidence: float = 0.95,
    of_zero: str = "mark",
    **style,
) -> np.ndarray:
    """Draw shares of trials with their exact limits, which stay between 0 and 1.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    x : array_like, shape (K,)
        Places on the horizontal axis.
    counts : array_like of int, shape (K,)
        Successes at each place.
    trials : int, or array_like of int of shape (K,)
        Trials, at least 1 each.
    confidence : float, default=0.95
        Coverage of the limits of Clopper and Pearson.
    of_zero : {"mark", "limit"}
        What is drawn where no trial succeeded: a share of zero, or for logarithmic axes an open triangle at the
        upper limit, without a bar.
    **style
        Further arguments of ``Axes.errorbar``; a single `marker` without a line, unless they say otherwise.

    Returns
    -------
    array of float, shape (K, 2)
        Lower and upper limits.

    Raises
    ------
    ValueError
        If `of_zero` is neither word, or counts, trials and places do not fit.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from rrl.book.plotting import draw_shares
    >>> fig, ax = plt.subplots()
    >>> draw_shares(ax, [10, 100], [7, 0], 20).round(2).tolist()
    [[0.15, 0.59], [0.0, 0.17]]
    >>> plt.close(fig)
    """
    if of_zero not in ("mark", "limit"):
        raise ValueError(f"of_zero must be 'mark' or 'limit', got {of_zero!r}")
    x, counts = np.asarray(x), np.asarray(counts)
    if x.ndim != 1 or x.shape != counts.shape:
        raise ValueError(f"x and counts must be of one shape (K,), got {x.shape} and {counts.shape}")
    trials = np.broadcast_to(trials, counts.shape)
    limits = np.array([clopper_pearson(k.item(), n.item(), confidence) for k, n in zip(counts, trials)])
    limits = limits.reshape(-1, 2)
    shares = counts / trials
    style = {"marker": "o", "linestyle": "none", "capsize": 3} | style
    seen = counts > 0 if of_zero == "limit" else np.full(counts.shape, True)
    bars = ax.errorbar(x[seen], shares[seen], np.abs(limits[seen].T - shares[seen]), **style)
    if not seen.all():
        look = {"color": bars[0].get_color(), "markersize": bars[0].get_markersize(), "markerfacecolor": "white"}
        ax.plot(x[~seen], limits[~seen, 1], linestyle="none", marker="v", zorder=bars[0].get_zorder(), **look)
    return limits
