"""The book's figure style: readable on light and dark pages, in print, and without colour vision.

Needs matplotlib, which the extra ``book`` brings.
"""

from contextlib import contextmanager

from .._extras import missing

__all__ = ["COLORS", "STYLE", "figure_style", "use_style"]

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


def use_style():
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
def figure_style():
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
