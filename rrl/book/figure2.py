"""What chapters 10 and 11 show of the runs of Figure 2: the explorer's groups, the frames behind them, verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rrl.book.explorer import Group, RunSet
from rrl.book.numbers import table as shown_table
from rrl.book.viewer import pictures
from rrl.datasets.atari import RECORDED
from rrl.datasets.atari import holdout as atari_holdout
from rrl.datasets.recordings import read_recording
from rrl.experiments.games import atari, minatar
from rrl.experiments.games.claims import CLAIMS
from rrl.experiments.games.figure import NAMES, compared
from rrl.experiments.games.results import q_values, table
from rrl.pqn.agreement import beyond_chance
from rrl.pqn.atari import action_names as atari_actions
from rrl.pqn.minatar import action_names as minatar_actions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rrl.datasets.recordings import Holdout

__all__ = ["explorer_groups", "scale_of", "states_of", "summary", "verdict_table"]

FRAMES = 24
MARKS = {"supported": "✓ supported", "contradicted": "✗ contradicted", "cannot tell": "? cannot tell"}


def scale_of(rows: Iterable[dict]) -> str:
    """How many runs of how many steps stand behind rows of a table.

    Examples
    --------
    >>> from rrl.book.figure2 import scale_of
    >>> scale_of([{"seeds": [0, 1], "steps": (80_000, 81_920)}])
    '2 runs of 80,000 to 81,920 steps'
    """
    rows = list(rows)
    counts = sorted({len(row["seeds"]) for row in rows})
    ends = sorted({end for row in rows for end in row["steps"]})
    runs = " to ".join(dict.fromkeys((f"{counts[0]}", f"{counts[-1]}")))
    steps = " to ".join(dict.fromkeys((f"{ends[0]:,}", f"{ends[-1]:,}")))
    return f"{runs} runs of {steps} steps"


def states_of(row: dict, folder: Any) -> Holdout | None:
    """The states on which a row's runs are compared, or None where their recording is not here.

    Parameters
    ----------
    row : dict
        Of `rrl.experiments.games.results.table`.
    folder : path
        Holds the records of both experiments, ``minatar`` and ``atari``.

    Returns
    -------
    rrl.datasets.recordings.Holdout or None
    """
    folder, source = Path(folder) / row["experiment"], row["source"]
    if row["experiment"] == "minatar":
        path = folder / f"holdout_{row['game']}_{row['total_steps']}.recording"
        found = minatar.holdout(json.loads(path.read_text("utf-8"))) if path.exists() else None
    else:
        own = folder / source.partition(":")[2]
        try:
            recording = read_recording(own, **RECORDED) if own.suffix == ".recording" else None
            kind = "auto" if recording else source.partition(":")[0]
            found = atari_holdout(row["game"], source=kind, recording=recording)
        except FileNotFoundError:
            found = None
    return found if found and found.digest == row["holdout"] else None


def explorer_groups(records: list[dict], folder: Any) -> list[Group]:
    """Every set of runs that can be compared, for `rrl.book.explorer.explorer_html`.

    Parameters
    ----------
    records : list of dict
        Of both experiments.
    folder : path
        Holds both folders of records.

    Returns
    -------
    list of rrl.book.explorer.Group
        The figure's comparisons first of each game, then shorter runs; sets of states that are not here are left out.
    """
    shown, older = compared(records)
    parts = [study.records for study in shown]
    # MinAtar's shorter runs answer other questions than the four variants, so they are no whole study.
    mine = [r for r in records if r["unit"]["experiment"].startswith("minatar")]
    taken = {(s.game, s.total_steps) for s in shown if s.experiment == "minatar"}
    rows = [row for row in table(mine) if (row["game"], row["total_steps"]) not in taken and len(row["seeds"]) > 1]
    stacks = q_values(mine)
    found = []
    for own in [*parts, *(study.records for study in older if study.experiment == "atari")]:
        found.append((table(own), q_values(own)))
    for plan in dict.fromkeys((row["game"], row["total_steps"], row["holdout"]) for row in rows):
        found.append(([row for row in rows if (row["game"], row["total_steps"], row["holdout"]) == plan], stacks))
    groups = [_group(rows, stacks, folder) for rows, stacks in found if any(r["variant"] == "plain" for r in rows)]
    groups = [group for group in groups if group]
    order = {name: k for k, name in enumerate(NAMES.values())}
    return sorted(groups, key=lambda group: order[group.game])


def _group(rows, stacks, folder):
    """One group of the explorer; None where its states are not here."""
    states = states_of(rows[0], folder)
    if states is None:
        return None
    experiment, game = rows[0]["experiment"], rows[0]["game"]
    small = experiment == "minatar"
    names = (minatar_actions if small else atari_actions)(game)
    chosen = np.linspace(0, len(states.actions) - 1, FRAMES).astype(int)
    frames = pictures(states.observations[chosen]) if small else states.observations[chosen, -1]
    labels = [f"state {k + 1:,} of {len(states.actions):,}; the player: {names[states.actions[k]]}" for k in chosen]
    q = stacks[game, rows[0]["total_steps"], rows[0]["holdout"]]
    sets = [
        RunSet(row["variant"], q[row["variant"]], row["grid_step"], row["final"], row["final_interval"]) for row in rows
    ]
    step = (minatar if small else atari).GAMES[game]["grid_step"]
    scale = scale_of(rows)
    return Group(NAMES[experiment, game], scale, step, tuple(names), frames, chosen, tuple(labels), tuple(sets))


def summary(row: dict) -> dict[str, str]:
    """A row of `rrl.experiments.games.results.table` as text: ranges are 95% intervals, ± the paper's error over runs.

    Parameters
    ----------
    row : dict
        Of at least two runs.

    Returns
    -------
    dict of str to str
    """
    few = len(row["seeds"]) < 3

    def ranged(value):
        if few:
            return f"{row[value]:z.2f}, one pair"
        return "{:z.2f} ({:z.2f} to {:z.2f})".format(row[value], *row[f"{value}_interval"])

    def score(value):
        return "no game ended" if np.isnan(value) else f"{value:,.{0 if row['final'] >= 100 else 2}f}"

    text = {
        "runs": f"{len(row['seeds'])}",
        "million steps": " to ".join(dict.fromkeys(f"{s / 1e6:.2g}" for s in row["steps"])),
        "return": "{} ({} to {})".format(*map(score, (row["final"], *row["final_interval"]))),
        "the paper's error of the return": f"± {score(row['final_error'])}",
        "return of greedy games": f"{score(row['greedy'])} ± {score(row['greedy_error'])}",
        "agreement": ranged("agreement"),
        "the paper's error of the agreement": "one pair" if few else f"± {1.96 * row['standard_error']:.2f}",
        "agreement, ties broken at random": ranged("own"),
        "agreement, one random order for all": ranged("shared"),
        "part of ties": ranged("ties"),
        "part of chance": f"{row['chance']:.2f}",
        "part of the state": ranged("state"),
        "Fleiss' kappa": _or_none(row["fleiss_kappa"]),
        "Conger's kappa, ties broken at random": _or_none(beyond_chance(row["own"], row["chance"])),
        "choices between tied actions": f"{row['tie_rate']:.2f}",
        "pairs with one best action each": f"{row['single']:.2f}",
        "states where all runs have one best action": f"{row['unique']:.3f}",
        "agreement in those states": _or_none(row["agreement_unique"]),
        "share of the first action": f"{row['first_action']:.2f}",
        "most common action's share": f"{row['majority']:.2f}",
        "agreement with the player": f"{np.mean(row['expert']):.2f}",
        "median action gap": f"{row['median_gap']:.3g}",
    }
    return {name: value.replace("-", "\N{MINUS SIGN}") for name, value in text.items()}


def _or_none(value):
    return "not defined" if np.isnan(value) else f"{value:z.2f}"


def verdict_table(judged: dict[str, dict], *, brief: bool = True) -> Any:
    """The claims with their verdict in each game.

    Parameters
    ----------
    judged : dict of str to dict
        What `rrl.experiments.games.claims.judge` gives, by the name of the game.
    brief : bool
        Give the deciding difference alone, and what would decide only where they cannot tell; otherwise all
        differences with their intervals.

    Returns
    -------
    pandas.io.formats.style.Styler
    """
    rows = []
    for key, words, papers, _ in CLAIMS:
        cells = [words if papers else f"<em>Ours.</em> {words}"]
        for claims in judged.values():
            verdict, found = claims[key]
            if brief:
                found = [next((f for f in found if f.verdict == verdict), None)] if found else []
            numbers = "; ".join(_numbers(finding, brief) for finding in found) or "no two runs"
            cells.append(f"<strong>{MARKS[verdict]}</strong><br>{numbers}")
        rows.append(cells)
    return shown_table(rows, ["Claim", *judged]).set_table_attributes('class="verdicts"')


def _numbers(finding, brief):
    """A finding's difference, with its interval or where it decides nothing; the smallest that would decide."""
    if np.isnan(finding.value):
        return "no return to compare"
    # Of returns one bound is infinite; a loss, whose lower one it is, is shown as the change that it is.
    returns, sign = not np.isfinite(finding.bounds).all(), -1 if finding.bounds[0] == -np.inf else 1

    def form(number, digits=0):
        text = f"{sign * number:+z.{digits}%}" if returns else f"{sign * number:+z.{digits + 2}f}"
        return text.replace("-", "\N{MINUS SIGN}").replace("inf%", "\N{INFINITY}")

    undecided, told = finding.verdict == "cannot tell", finding.decisive
    digits = int(brief and undecided and form(finding.value) == form(told))  # values that look alike
    text = form(finding.value, digits) + " of the return" * returns
    if not brief:
        text += ", from {} to {}".format(*map(form, (finding.low, finding.high)[::sign]))
    if not brief or undecided:
        text += f"; told from {form(told, digits)}" if np.isfinite(told) else "; no difference would tell"
    return text
