"""Frames of recorded states beside what each run would do there, as a small viewer for a web page.

The script and the styles are ``frames.js`` and ``frames.css`` in the book's static folder. Without them, and
in print, the first frame and its actions stand on the page as a picture and a table.
"""

from __future__ import annotations

import base64
import html
import json
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

from rrl.book.plotting import COLORS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["MANY", "VERDICTS", "encode_frames", "frames_html", "pictures"]

# What a frame is called where all seeds choose one action, do so by ties only, or do not.
VERDICTS = {"agree": "✓ all agree", "tie": "≈ agree, by ties", "differ": "✗ differ"}
MANY = 3  # more tied actions than this are counted, not named


def _png(image):
    """A grey (height, width) or colour (height, width, 3) uint8 image as the bytes of a PNG file."""
    height, width = image.shape[:2]
    header = struct.pack(">2I5B", width, height, 8, 2 * (image.ndim - 2), 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    parts = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _sprite(frames, columns):
    """All frames in one image, row by row; the last row is filled with black."""
    rows = -(-len(frames) // columns)
    sheet = np.zeros((rows * columns, *frames.shape[1:]), np.uint8)
    sheet[: len(frames)] = frames
    sheet = sheet.reshape(rows, columns, *frames.shape[1:]).swapaxes(1, 2)
    return sheet.reshape(rows * frames.shape[1], columns * frames.shape[2], *frames.shape[3:])


def encode_frames(frames: np.ndarray, columns: int = 8) -> tuple[str, int, int, tuple[int, int]]:
    """All frames as the address of one picture, with a frame's height and width and the picture's shape.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.book.viewer import encode_frames
    >>> address, *sizes = encode_frames(np.zeros((9, 10, 20), np.uint8))
    >>> address[:22], sizes
    ('data:image/png;base64,', [10, 20, (20, 160)])
    """
    sheet = _sprite(frames, columns)
    address = f"data:image/png;base64,{base64.b64encode(_png(sheet)).decode()}"
    return address, *frames.shape[1:3], sheet.shape[:2]


def _words(mask, actions):
    """The chosen action (the lowest of the best ones), and which it is tied with."""
    best = [name for index, name in enumerate(actions) if mask >> index & 1]
    others = best[1:]
    if not others:
        return best[0], ""
    return best[0], "tied with " + (", ".join(others) if len(others) <= MANY else f"{len(others)} others")


def _status(masks):
    """``agree``, ``tie`` or ``differ``: what the runs do in one frame."""
    if len({mask & -mask for mask in masks}) > 1:
        return "differ"
    return "tie" if any(mask & (mask - 1) for mask in masks) else "agree"


def frames_html(
    frames: np.ndarray,
    panels: Any,
    actions: Sequence[str],
    *,
    labels: Sequence[str],
    title: str,
    seeds: Any = None,
    columns: int = 8,
    static: str = "../_static",
) -> str:
    """HTML that shows frames one at a time, with the actions of all runs of some variants side by side.

    Parameters
    ----------
    frames : array of uint8, shape (F, height, width) or (F, height, width, 3)
        Pictures, grey or in colour.
    panels : dict of str to array of float, shape (R, F, A)
        For each variant the Q-values on which its R runs act, rounded if they act on rounded ones. The largest
        is chosen; of several equal ones the first, and the viewer says which are tied.
    actions : sequence of str
        Names of the A actions.
    labels : sequence of str
        What each frame is called.
    title : str
        Accessible name of the viewer.
    seeds : sequence, optional
        What the runs are called; 0 to R - 1 by default.
    columns : int
        Frames in a row of the embedded image.
    static : str
        Where ``frames.js`` and ``frames.css`` lie, as seen from the page.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If shapes do not fit together.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.book.viewer import frames_html
    >>> q = np.array([[[0.0, 1.0]], [[1.0, 1.0]]])  # two runs, one frame, two actions
    >>> text = frames_html(np.zeros((1, 10, 10), np.uint8), {"plain": q}, ["stay", "go"], labels=["start"], title="T")
    >>> "✗ differ" in text, "tied with go" in text
    (True, True)
    """
    frames = np.ascontiguousarray(frames)
    if frames.dtype != np.uint8 or frames.ndim not in (3, 4) or not len(frames) or frames.shape[3:] not in ((), (3,)):
        raise ValueError(f"frames must be uint8 of shape (F, height, width[, 3]), got {frames.dtype} {frames.shape}")
    panels = {name: np.asarray(q) for name, q in panels.items()}
    n_runs = len(next(iter(panels.values()))) if panels else 0
    for name, q in panels.items():
        if q.shape != (n_runs, len(frames), len(actions)):
            raise ValueError(
                f"panels[{name!r}] must have shape {(n_runs, len(frames), len(actions))} (runs, frames, actions), "
                f"got {q.shape}"
            )
    seeds = [str(seed) for seed in (range(n_runs) if seeds is None else seeds)]
    for name, found, wanted in (("labels", len(labels), len(frames)), ("seeds", len(seeds), n_runs)):
        if found != wanted:
            raise ValueError(f"{name} must have {wanted} entries, got {found}")
    if not n_runs:
        raise ValueError("panels must hold at least one variant and one run")
    bits = 1 << np.arange(len(actions))
    masks = {name: ((q == q.max(-1, keepdims=True)) * bits).sum(-1).T.tolist() for name, q in panels.items()}
    sprite, height, width, sheet = encode_frames(frames, columns)
    data = {
        "panels": [{"name": name, "best": best} for name, best in masks.items()],
        "actions": list(actions),
        "labels": list(labels),
        "verdicts": VERDICTS,
        "many": MANY,
        "columns": columns,
        "width": width,
        "height": height,
    }
    # Nothing in the data may end the script element.
    packed = json.dumps(data, ensure_ascii=False).replace("</", "<\\/")
    picture = (
        f'<svg class="frames-picture" role="img" aria-label="{html.escape(f"{title}: {labels[0]}")}" '
        f'viewBox="0 0 {width} {height}"><image href="{sprite}" width="{sheet[1]}" height="{sheet[0]}"/></svg>'
    )
    return (
        f'<link rel="stylesheet" href="{static}/frames.css">'
        f'<div class="frames" role="group" aria-label="{html.escape(title)}" data-title="{html.escape(title)}">'
        f'<div class="frames-body"><div class="frames-view">{picture}'
        f'<p class="frames-label">{html.escape(labels[0])}</p></div>{_table(masks, seeds, actions)}</div>'
        f'<noscript><p class="frames-note">This is the first of {len(frames)} frames; '
        "JavaScript shows the others.</p></noscript>"
        f'<script type="application/json">{packed}</script></div><script src="{static}/frames.js"></script>'
    )


def _table(masks, seeds, actions):
    """The first frame's actions, a row a run and a column a variant."""
    verdicts = {name: _status(best[0]) for name, best in masks.items()}
    rows = []
    for run, seed in enumerate(seeds):
        cells = []
        for name, best in masks.items():
            chosen, ties = (html.escape(text) for text in _words(best[0][run], actions))
            cells.append(f'<td data-mark="{verdicts[name]}"><span>{chosen}</span><small>{ties}</small></td>')
        rows.append(f'<tr><th scope="row">seed {html.escape(seed)}</th>{"".join(cells)}</tr>')
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in masks)
    last = "".join(f'<td data-mark="{verdict}">{VERDICTS[verdict]}</td>' for verdict in verdicts.values())
    return (
        f'<table class="frames-table"><thead><tr><td></td>{head}</tr></thead><tbody>{"".join(rows)}</tbody>'
        f'<tfoot><tr><th scope="row">together</th>{last}</tr></tfoot></table>'
    )


def pictures(observations: np.ndarray, cell: int = 12) -> np.ndarray:
    """Observations as pictures, plane k in the book's colour k.

    Where planes overlap, the earlier one is a smaller square on the later one.

    Parameters
    ----------
    observations : array of uint8, shape (N, planes, 10, 10)
        At most as many planes as `COLORS` has colours.
    cell : int
        Side of a cell in pixels, at least 4.

    Returns
    -------
    array of uint8, shape (N, 10 * cell, 10 * cell, 3)

    Examples
    --------
    >>> import numpy as np
    >>> from rrl.book.viewer import pictures
    >>> from rrl.pqn.minatar import MinAtarPool
    >>> pictures(MinAtarPool("breakout", 2).reset(np.array([0, 1])), 4).shape
    (2, 40, 40, 3)
    """
    observations = np.asarray(observations)
    n, planes = observations.shape[:2]
    if observations.shape[2:] != (10, 10) or planes > len(COLORS):
        raise ValueError(f"observations must have shape (N, at most {len(COLORS)}, 10, 10), got {observations.shape}")
    if cell < 4:
        raise ValueError(f"cell must be at least 4, got {cell}")
    image = np.full((n, 10, cell, 10, cell, 3), 250, dtype=np.uint8)
    taken = np.zeros((n, 10, 10), dtype=bool)
    for plane in reversed(range(planes)):
        own = observations[:, plane] > 0
        for mask, margin in ((own & ~taken, 1), (own & taken, cell // 4 + 1)):
            i, y, x = np.nonzero(mask)
            inside = slice(margin, cell - margin)
            image[i, y, inside, x, inside] = tuple(bytes.fromhex(COLORS[plane][1:]))
        taken |= own
    return image.reshape(n, 10 * cell, 10 * cell, 3)
