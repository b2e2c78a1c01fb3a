"""The figure style: contrast, colours that differ without colour vision, and no lasting side effects."""

import itertools
import sys

import IPython
import matplotlib
import matplotlib.pyplot as plt
import matplotlib_inline.backend_inline
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from rrl.book.plotting import COLORS, STYLE, draw_shares, figure_style, use_style
from rrl.replicability import clopper_pearson

# Machado, Oliveira and Fernandes (2009): what protanopes, deuteranopes and tritanopes see, in linear RGB.
DEFICIENCIES = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(color):
    """Linear RGB of a colour."""
    rgb = np.array(to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(color, background="white"):
    """Contrast ratio as the accessibility guidelines define it."""
    light, dark = sorted((0.05 + linear(c) @ [0.2126, 0.7152, 0.0722] for c in (color, background)), reverse=True)
    return light / dark


def lab(rgb):
    """CIELAB of linear RGB."""
    xyz = np.clip(rgb, 0, 1) @ np.array([[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192], [0.1805, 0.0722, 0.9505]])
    x, y, z = np.cbrt(np.maximum(xyz / [0.9505, 1.0, 1.089], 1e-9))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.fixture(autouse=True)
def restored():
    """Give matplotlib its settings back."""
    with matplotlib.rc_context():
        yield


def test_lines_and_texts_stand_out_on_white():
    assert contrast("black") == pytest.approx(21)
    assert min(map(contrast, COLORS)) >= 3
    assert min(contrast(STYLE[f"{name}.color"]) for name in ("text", "xtick", "ytick")) >= 7
    assert contrast(STYLE["axes.labelcolor"]) >= 7
    assert (
        min(STYLE[name] for name in STYLE if name.endswith(("labelsize", "fontsize", "titlesize", "font.size"))) >= 10
    )


@pytest.mark.parametrize("deficiency", [None, *DEFICIENCIES])
def test_the_first_four_colours_differ_for_every_eye(deficiency):
    matrix = np.array(DEFICIENCIES.get(deficiency, np.eye(3)))
    seen = [lab(matrix @ linear(color)) for color in COLORS[:4]]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 10


def test_lines_differ_in_colour_dash_and_marker():
    with figure_style():
        figure, axes = plt.subplots()
        lines = [axes.plot([0, 1])[0] for _ in COLORS]
        for look in ("get_color", "get_marker"):
            assert len({getattr(line, look)() for line in lines}) == len(COLORS)
        assert len({str(line._unscaled_dash_pattern) for line in lines}) == len(COLORS)
        plt.close(figure)


def test_figures_are_opaque_and_the_style_ends_with_its_block():
    before = dict(matplotlib.rcParams)
    with figure_style():
        assert to_rgb(matplotlib.rcParams["savefig.facecolor"]) == (1, 1, 1)
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("in_notebook", [False, True])
def test_notebooks_draw_svg(monkeypatch, in_notebook):
    asked = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: object() if in_notebook else None)
    monkeypatch.setattr(
        matplotlib_inline.backend_inline, "set_matplotlib_formats", lambda *args, **kwargs: asked.append((args, kwargs))
    )
    use_style()
    assert matplotlib.rcParams["legend.frameon"] is False
    assert asked == ([(("svg",), {"metadata": {"Date": None}})] if in_notebook else [])


def test_without_ipython_the_style_still_applies(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    use_style()
    assert matplotlib.rcParams["axes.spines.top"] is False


@pytest.mark.parametrize("start", [use_style, lambda: figure_style().__enter__()])
def test_without_matplotlib_the_extra_is_named(monkeypatch, start):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"-rl\[book\]"):
        start()


def drawn_bars(ax):
    """Lower and upper ends of the bars on these axes, from left to right."""
    return np.array([[line[0][1], line[1][1]] for bars in ax.collections for line in bars.get_segments()])


def test_bars_of_shares_are_their_exact_limits():
    figure, ax = plt.subplots()
    counts, trials = [0, 3, 20], [20, 40, 20]
    limits = draw_shares(ax, [1, 2, 3], counts, trials, confidence=0.99)
    plt.close(figure)
    assert limits.tolist() == [list(clopper_pearson(k, n, 0.99)) for k, n in zip(counts, trials)]
    assert np.allclose(drawn_bars(ax), limits)
    assert drawn_bars(ax).min() >= 0
    assert drawn_bars(ax).max() <= 1


def test_where_nothing_was_seen_a_logarithmic_axis_shows_the_limit():
    figure, ax = plt.subplots()
    limits = draw_shares(ax, [1, 2, 3], [5, 0, 0], 100, of_zero="limit", color=COLORS[1])
    plt.close(figure)
    assert np.allclose(drawn_bars(ax), limits[:1])
    triangles = ax.lines[-1]
    assert triangles.get_marker() == "v"
    assert triangles.get_color() == COLORS[1]
    assert triangles.get_xydata().tolist() == [[2, limits[1, 1]], [3, limits[2, 1]]]


def test_shares_that_do_not_fit_are_refused():
    figure, ax = plt.subplots()
    plt.close(figure)
    with pytest.raises(ValueError, match="of_zero must be 'mark' or 'limit', got 'gone'"):
        draw_shares(ax, [1], [1], 2, of_zero="gone")
    with pytest.raises(ValueError, match=r"one shape \(K,\), got \(2,\) and \(1,\)"):
        draw_shares(ax, [1, 2], [1], 2)
    with pytest.raises(ValueError, match="0 <= successes <= trials"):
        draw_shares(ax, [1], [3], 2)
