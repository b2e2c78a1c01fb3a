"""Runs that were repeated in another precision from the same seeds, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rrl.experiments.games.atari import VARIANTS
from rrl.experiments.games.intervals import jackknife_interval, mean_interval
from rrl.experiments.games.results import REPEATED, gathered, table
from rrl.packing import unpack_array
from rrl.pqn.actions import rounded_actions
from rrl.pqn.agreement import action_agreement

if TYPE_CHECKING:
    from rrl.experiments.games.figure import Study

__all__ = ["Repeated", "in_float32", "repeated"]


class Repeated(NamedTuple):
    """Runs of one variant in bfloat16 and their repetitions in float32.

    Attributes
    ----------
    game, variant : str
    total_steps : int
    seeds : list of int
        Trained in both precisions, and asked on the same hold-out.
    returns, agreements : dict of str to float
        Of ``"float32"`` and ``"bfloat16"``.
    change : float
        Mean over seeds of the return in bfloat16 less that in float32.
    change_interval : tuple of float
        95%, Student's t of the paired differences.
    agreement_change : float
        Agreement of the runs in bfloat16 less that of the runs in float32.
    agreement_interval : tuple of float
        95%, the jackknife over seeds; everything for two seeds.
    itself, others : float
        Agreement of a run in bfloat16 with its own repetition, and with those of the other seeds.
    """

    game: str
    variant: str
    total_steps: int
    seeds: list[int]
    returns: dict[str, float]
    agreements: dict[str, float]
    change: float
    change_interval: tuple[float, float]
    agreement_change: float
    agreement_interval: tuple[float, float]
    itself: float
    others: float


def repeated(records: list[dict]) -> list[Repeated]:
    """All variants with at least two seeds in both precisions.

    Parameters
    ----------
    records : list of dict
        Of the Atari experiment.

    Returns
    -------
    list of Repeated
        Where runs answered on several hold-outs, on the one with most such seeds; of equals on the one that the plan's
        own player played.
    """
    groups, best = gathered(records), {}
    for (game, steps, variant, states), runs in groups.items():
        again = groups.get((game, steps, REPEATED.format(variant), states), {})
        # A processor without bfloat16 trained in float32 what was to be in bfloat16.
        seeds = sorted(s for s in runs.keys() & again.keys() if _as_planned(runs[s][0]) and _as_planned(again[s][0]))
        if variant in VARIANTS and len(seeds) > 1:
            own = "holdout_" in runs[seeds[0]][1]["result"]["source"]
            pairs = [(again[seed], runs[seed]) for seed in seeds]
            rank = best.get((game, steps, variant), ((), None))[0]
            if (len(seeds), own) > rank:
                best[game, steps, variant] = (len(seeds), own), pairs
    return [_beside(game, steps, variant, pairs) for (game, steps, variant), (_, pairs) in best.items()]


def in_float32(records: list[dict], study: Study) -> dict[str, dict]:
    """Rows of `rrl.experiments.games.results.table` for the repetitions of a study's runs, on its hold-out.

    Parameters
    ----------
    records : list of dict
    study : Study

    Returns
    -------
    dict of str to dict
        By variant, for `rrl.experiments.games.claims.compare_variants`.
    """
    names, place = {REPEATED.format(name): name for name in VARIANTS}, (study.total_steps, study.holdout)
    mine = [r for r in records if r["unit"].get("game") == study.game and study.experiment in r["unit"]["experiment"]]
    rows = [row for row in table(mine) if (row["total_steps"], row["holdout"]) == place]
    return {names[row["variant"]]: row for row in rows if row["variant"] in names}


def _as_planned(run):
    """Whether a run has the precision of its settings."""
    wanted = run["unit"]["settings"].get("precision", "float32")
    return run["result"].get("precision", wanted) == wanted


def _beside(game, steps, variant, pairs):
    finals = np.array([[run["result"]["final_mean"] for run, _ in pair] for pair in pairs], dtype=float)
    settings = pairs[0][1][0]["unit"]["settings"]
    step = settings["grid_step"] * settings["round_acting"]
    q = np.array([[unpack_array(answer["result"]["q"]) for _, answer in pair] for pair in pairs])
    seeds, n = [run["unit"]["seed"] for _, (run, _) in pairs], len(pairs)
    # Runs in float32 first, then those in bfloat16.
    same = action_agreement(rounded_actions(np.concatenate([q[:, 0], q[:, 1]]), step)).pairwise
    slow, fast, crossed = same[:n, :n], same[n:, n:], same[:n, n:]

    def change(kept):
        return _others(fast[np.ix_(kept, kept)]) - _others(slow[np.ix_(kept, kept)])

    few = [change(np.delete(np.arange(n), seed)) for seed in range(n)] if n > 2 else []
    found, differences = change(np.arange(n)), finals[:, 1] - finals[:, 0]
    return Repeated(
        game,
        variant,
        steps,
        seeds,
        dict(zip(("float32", "bfloat16"), finals.mean(0).tolist(), strict=True)),
        {"float32": _others(slow), "bfloat16": _others(fast)},
        float(differences.mean()),
        mean_interval(differences, least=-np.inf),
        found,
        jackknife_interval(found, few, share=False, agreement=min(_others(slow), _others(fast))),
        float(np.trace(crossed) / n),
        _others(crossed),
    )


def _others(matrix):
    """Mean beside the diagonal."""
    return float(matrix[~np.eye(len(matrix), dtype=bool)].mean())
