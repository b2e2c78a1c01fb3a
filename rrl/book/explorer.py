"""The explorer of chapter 10: one game's runs, a grid and a rule for ties, and why two runs then act alike.

The script and the styles are ``explorer.js`` and ``explorer.css`` in the book's static folder; frames are shown by
``frames.js``. Without them, and in print, the first choice stands on the page as a table and a first frame.
"""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rrl.book.viewer import MANY, VERDICTS, encode_frames, frames_html
from rrl.experiments.games.intervals import jackknife_interval
from rrl.pqn.actions import best_actions
from rrl.pqn.decomposition import RULES, reasons

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Group", "RunSet", "explorer_data", "explorer_html"]

#: Grid steps for the comparison, in multiples of a game's own.
MULTIPLES = (0, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)
RULE_WORDS = {
    "first": "the first in the list",
    "shared": "one random order for all runs",
    "independent": "a random order of each run's own",
}
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
#: What the table says of a set of runs, line by line; `explorer.js` writes the same.
LINES = (
    "return",
    "agreement",
    "… the state",
    "… chance",
    "… ties broken alike",
    "choices between ties",
    "both runs have one best action",
    "… and it is the same",
)


class RunSet(NamedTuple):
    """Runs of one variant.

    Attributes
    ----------
    name : str
    q : array of float32, shape (R, N, A)
        Unrounded Q-values.
    step : float
        The grid step on which these runs act; 0 for none.
    final : float
        Mean return.
    ends : (float, float)
        Its 95% interval.
    """

    name: str
    q: np.ndarray
    step: float
    final: float
    ends: tuple[float, float]


class Group(NamedTuple):
    """Sets of runs of one game, of one length, compared on the same states; the first is the plain one.

    Attributes
    ----------
    game, scale : str
        Name of the game, and how many runs of how many steps.
    step : float
        The game's own grid step.
    actions : sequence of str
    frames : array of uint8, shape (F, height, width[, 3])
        Pictures of some of the states.
    states : array of int, shape (F,)
        Which these are.
    labels : sequence of str
    sets : sequence of RunSet
    """

    game: str
    scale: str
    step: float
    actions: tuple[str, ...]
    frames: np.ndarray
    states: np.ndarray
    labels: tuple[str, ...]
    sets: tuple[RunSet, ...]


def _cell(q, step):
    """What is known of runs on a grid: agreements with their ends by rule, chance, ties, single, same."""
    why = reasons(q, step)
    few = [why.without(run) for run in range(len(q))] if len(q) > 2 else []
    found = []
    for rule in RULES:
        ends = jackknife_interval(why.agreement(rule), [other.agreement(rule) for other in few])
        found += [why.agreement(rule), *ends]
    # Six digits: numbers are rounded again where they are shown.
    return [round(value, 6) for value in (*found, why.chance, why.tie_rate, why.single, why.same)]


def _score(value):
    """A mean score as JSON holds it: no game has ended where it is not finite."""
    return round(float(value), 3) if np.isfinite(value) else None


def _pack(masks, width):
    """Bit masks as text, `width` digits of 64 each."""
    masks = np.asarray(masks).ravel()
    digits = [(masks >> (6 * k)) & 63 for k in range(width)]
    return "".join(DIGITS[part[i]] for i in range(len(masks)) for part in digits)


def explorer_data(groups: Sequence[Group], *, n_seeds: int = 5, seed: int = 0) -> dict[str, Any]:
    """Everything that the explorer shows, as plain JSON.

    Parameters
    ----------
    groups : sequence of Group
    n_seeds : int
        At most so many runs stand in the viewer of frames.
    seed : int
        Seeds the random orders of tied actions in the viewer.

    Returns
    -------
    dict
    """
    out = []
    for group in groups:
        width = -(-len(group.actions) // 6)
        runs = min(n_seeds, *(len(runs.q) for runs in group.sets))
        rng = np.random.default_rng(seed)
        orders = rng.permuted(np.tile(np.arange(len(group.actions)), (1 + runs, len(group.states), 1)), axis=-1)
        steps = [multiple * group.step for multiple in MULTIPLES]
        sets = []
        for own in group.sets:
            bits = 1 << np.arange(len(group.actions))
            seen = own.q[:runs, group.states]
            masks = [(best_actions(seen, step) * bits).sum(-1).T for step in steps]
            sets.append(
                {
                    "name": own.name,
                    "runs": len(own.q),
                    "at": int(np.argmin(np.abs(np.array(steps) - own.step))),
                    "return": [_score(value) for value in (own.final, *own.ends)],
                    "cells": [_cell(own.q, step) for step in steps],
                    "masks": [_pack(mask, width) for mask in masks],
                }
            )
        picture, height, breadth, sheet = encode_frames(group.frames)
        out.append(
            {
                "game": group.game,
                "scale": group.scale,
                "steps": [float(f"{step:.4g}") for step in steps],
                "actions": list(group.actions),
                "labels": list(group.labels),
                "seeds": [str(k) for k in range(runs)],
                "digits": width,
                "orders": ["".join(map(str, part.ravel())) for part in (orders[0], orders[1:].swapaxes(0, 1))],
                "sets": sets,
                "image": {"href": picture, "width": sheet[1], "height": sheet[0]},
                "width": breadth,
                "height": height,
                "columns": 8,
            }
        )
    rules = [[rule, RULE_WORDS[rule]] for rule in RULES]
    return {"groups": out, "rules": rules, "lines": LINES, "verdicts": VERDICTS, "many": MANY}


def lines(own: dict[str, Any], at: int, rule: str) -> list[str]:
    """The table's column of a set on one of the group's steps under a rule; the script writes the same.

    Parameters
    ----------
    own : dict
        One of the ``sets`` of `explorer_data`.
    at : int
        Place of the step.
    rule : str
        One of `rrl.pqn.decomposition.RULES`.

    Returns
    -------
    list of str
    """
    cell, k = own["cells"][at], 3 * RULES.index(rule)
    value, low, high = cell[k : k + 3]
    alone, (chance, ties, single, same) = cell[6], cell[9:]
    few = own["runs"] < 3
    mean, *ends = own["return"]
    digits = 0 if (mean or 0) >= 100 else 1
    limits = (f" ({_fixed(ends[0], digits)} to {_fixed(ends[1], digits)})") if None not in ends else ""
    return [
        "no game ended" if mean is None else f"{_fixed(mean, digits)}{limits}",
        f"{_fixed(value)} (one pair of runs)" if few else f"{_fixed(value)} ({_fixed(low)} to {_fixed(high)})",
        *(_fixed(part) for part in (alone - chance, chance, value - alone)),
        *(f"{_fixed(100 * part, 0)}%" for part in (ties, single, same)),
    ]


def _fixed(value, digits=2):
    """So many digits, halves upwards as in the script, a true minus, no minus before nothing."""
    unit = 10**digits
    return f"{np.floor(value * unit + 0.5) / unit:z.{digits}f}".replace("-", "\N{MINUS SIGN}")


def explorer_html(
    groups: Sequence[Group], *, title: str, chosen: int = 1, static: str = "../_static", **options: int
) -> str:
    """HTML of the explorer.

    Parameters
    ----------
    groups : sequence of Group
    title : str
        Accessible name.
    chosen : int
        The set of the first group that stands beside the plain one at first.
    static : str
        Where scripts and styles lie, as seen from the page.
    **options
        Of `explorer_data`.

    Returns
    -------
    str
    """
    data, first = explorer_data(groups, **options), groups[0]
    data["chosen"] = chosen
    own = data["groups"][0]["sets"]
    columns = [lines(own[0], 0, "first"), lines(own[chosen], own[chosen]["at"], "first")]
    names = [own[0]["name"], f"{own[chosen]['name']}, grid {data['groups'][0]['steps'][own[chosen]['at']]:g}"]
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{line}</th><td>{html.escape(a)}</td><td>{html.escape(b)}</td></tr>'
        for line, a, b in zip(LINES, *columns, strict=True)
    )
    n_seeds = len(data["groups"][0]["seeds"])
    acted = [(k, runs.q[:n_seeds, first.states], runs.step) for k, runs in enumerate(first.sets) if k in (0, chosen)]
    panels = {names[k > 0]: best_actions(q, step).astype(float) for k, q, step in acted}
    viewer = frames_html(
        first.frames, panels, first.actions, labels=first.labels, title=f"Frames of {first.game}", static=static
    )
    packed = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("</", "<\\/")
    return (
        f'<link rel="stylesheet" href="{static}/explorer.css">'
        f'<div class="explorer" role="group" aria-label="{html.escape(title)}">'
        f'<p class="explorer-scale">{html.escape(f"{first.game}, {first.scale}")}</p>'
        f'<table class="explorer-table"><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>'
        f'<div class="explorer-frames">{viewer}</div>'
        f'<script type="application/json" class="explorer-data">{packed}</script></div>'
        f'<script src="{static}/explorer.js"></script>'
    )
