"""Figure 2 as numbers, from the records of the Atari and the MinAtar experiments."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import check_choice
from rrl.experiments.games import atari, minatar
from rrl.experiments.games.atari import EXPERT_SEED, LAST_GAMES, VARIANTS
from rrl.experiments.games.intervals import change_interval, jackknife_interval, mean_interval
from rrl.experiments.games.minatar import CHOICES
from rrl.experiments.provenance import clock_seconds
from rrl.experiments.store import unit_key
from rrl.packing import unpack_array
from rrl.pqn.agreement import agreement_report
from rrl.pqn.decomposition import reasons

if TYPE_CHECKING:
    from typing import Any

__all__ = ["costs", "curves", "gathered", "q_values", "reasons_of", "share_of_ties", "table", "variants_of"]

TRAINED = ("atari", "minatar")
# All runs of the protocol: the paper's, and the book's.
WHOLE = {"atari": functools.partial(atari.units, "paper"), "minatar": functools.partial(minatar.units, "full")}
# What a run is called that repeats one in bfloat16.
REPEATED = "{}, float32"
# In the order of tables and figures.
RANK = {variant: k for k, variant in enumerate([*VARIANTS, *CHOICES, *map(REPEATED.format, VARIANTS)])}


def variants_of(records: list[dict]) -> dict[str, str]:
    """What each trained run is called in tables, by `unit_key`."""
    units = [record["unit"] for record in records if record["unit"]["experiment"] in TRAINED]

    def plan(unit):
        return unit["experiment"], unit["game"], unit["settings"]["total_steps"]

    fast = {plan(unit) for unit in units if "precision" in unit["settings"] and unit["seed"] != EXPERT_SEED}
    found = {}
    for unit in units:
        name = unit.get("choice", unit["variant"])
        repeats = plan(unit) in fast and "precision" not in unit["settings"]
        found[unit_key(unit)] = REPEATED.format(name) if repeats else name
    return found


def gathered(records: list[dict], kind: str = "holdout") -> dict[tuple, dict[int, tuple[dict, dict]]]:
    """Pairs of a run's record and its Q-values by study (game, planned steps, variant, hold-out) and seed.

    Runs of different plans never mix: a longer Breakout is another study, a repetition in float32 another variant.

    Parameters
    ----------
    records : list of dict
    kind : {"holdout", "own"}
        See `q_values`.

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If `kind` is not one of these, or if runs of one study have other settings.
    """
    check_choice("kind", kind, ("holdout", "own"))
    trained = {unit_key(r["unit"]): r for r in records if r["unit"]["experiment"] in TRAINED}
    variants, asked = variants_of(records), [f"{name}-{kind}" for name in TRAINED]
    groups = {}
    for record in records:
        unit = record["unit"]
        if unit["experiment"] in asked and unit["run"] in trained:
            run, variant = trained[unit["run"]], variants[unit["run"]]
            study = (unit["game"], run["unit"]["settings"]["total_steps"], variant, unit["holdout"])
            group = groups.setdefault(study, {})
            first = next(iter(group.values()), (run,))[0]["unit"]
            if (mine := run["unit"]["settings"]) != first["settings"]:
                odd = next(k for k in {**mine, **first["settings"]} if mine.get(k) != first["settings"].get(k))
                raise ValueError(
                    f"records of {study[2]} on {study[0]} have settings that differ: {odd} is {mine.get(odd)} for seed "
                    f"{unit['seed']} and {first['settings'].get(odd)} for seed {first['seed']}"
                )
            group[unit["seed"]] = (run, record)
    order = sorted(groups, key=lambda g: (g[0], g[1], g[3], RANK[g[2]]))
    return {study: dict(sorted(groups[study].items())) for study in order}


def q_values(records: list[dict], kind: str = "holdout") -> dict:
    """Unrounded Q-values on the hold-out states, or on states of the runs' own games.

    Parameters
    ----------
    records : list of dict
        As `rrl.experiments.games.atari.main` or ``RunStore(folder).records()`` gives them.
    kind : {"holdout", "own"}
        The second: sets of `rrl.experiments.games.study.own_states`, one a seed.

    Returns
    -------
    dict
        Key (game, planned steps, hold-out digest), value a dict of variant to an array of float32 of shape
        (seeds, states, actions), seeds in ascending order.
    """
    found = {}
    for (game, steps, variant, states), runs in gathered(records, kind).items():
        stack = np.stack([unpack_array(record["result"]["q"]) for _, record in runs.values()])
        found.setdefault((game, steps, states), {})[variant] = stack
    return found


def table(records: list[dict], *, seed: int = 0) -> list[dict]:
    """Figure 2 as numbers: one row a game, plan and variant, from the records of `rrl.experiments.games.atari.main`.

    Parameters
    ----------
    records : list of dict
        As `main` or ``RunStore(folder).records()`` gives them; the expert's run is left out.
    seed : int
        Seeds the bootstrap and the random tie-breaks.

    Returns
    -------
    list of dict
        ``experiment``, ``game``, ``total_steps`` (planned), ``variant``, ``grid_step`` on which its runs act,
        ``holdout``, ``source`` of the hold-out, ``seeds``,
        ``steps`` (fewest and most done), ``complete``; ``finals`` (each run's mean over its last 20 training
        games), their mean ``final``, ``final_error`` (1.96 standard errors over runs, None for one run) and
        ``final_interval`` (95%, see `rrl.experiments.games.intervals`); ``greedies`` (each run's mean score of
        greedy games), their mean ``greedy`` and ``greedy_error``; ``expert`` (each run's agreement with the
        expert); and for two runs and more what `reasons_of` and `rrl.pqn.agreement.agreement_report` give for the
        hold-out.
    """
    rows = []
    for (game, total_steps, variant, states), runs in gathered(records).items():
        results = [run["result"] for run, _ in runs.values()]
        answers = [record["result"] for _, record in runs.values()]
        q = np.stack([unpack_array(answer["q"]) for answer in answers])
        settings = next(iter(runs.values()))[0]["unit"]["settings"]
        step = settings["grid_step"] * settings["round_acting"]
        finals = np.array([r["final_mean"] for r in results], dtype=float)
        greedies = np.array([np.mean(r["evaluation"]["scores"]) for r in results])
        rows.append(
            {
                "experiment": next(iter(runs.values()))[0]["unit"]["experiment"],
                "game": game,
                "total_steps": total_steps,
                "variant": variant,
                "grid_step": step,
                "holdout": states,
                "source": answers[0]["source"],
                "seeds": list(runs),
                "steps": (min(r["steps"] for r in results), max(r["steps"] for r in results)),
                "complete": all(r["complete"] for r in results),
                "finals": finals.tolist(),
                "final": float(finals.mean()),
                "final_error": _error(finals),
                "final_interval": mean_interval(finals),
                "greedies": greedies.tolist(),
                "greedy": float(greedies.mean()),
                "greedy_error": _error(greedies),
                "expert": [answer["agreement_with_expert"] for answer in answers],
                **(agreement_report(q, step, seed) | reasons_of(q, step) if len(q) > 1 else {}),
            }
        )
    return rows


def _error(values):
    """1.96 standard errors of the mean; None for one value."""
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def reasons_of(q: np.ndarray, grid_step: float) -> dict[str, Any]:
    """Parts of an agreement with their 95% intervals.

    Parameters
    ----------
    q : array of float, shape (R, N, A)
    grid_step : float

    Returns
    -------
    dict
        ``agreement_interval`` (ties to the first action); ``own`` and ``shared``, the exact agreement with random
        orders of tied actions, of each run's own or common; ``own_interval``; the parts ``state``, ``chance`` and
        ``ties`` of `rrl.pqn.decomposition.Reasons`, which add up to the agreement; ``state_interval``,
        ``ties_interval``; ``single`` and ``same``.
    """
    why = reasons(q, grid_step)
    few = [why.without(run) for run in range(len(q))] if len(q) > 2 else []
    found: dict[str, Any] = {}
    for name, rule in (("agreement", "first"), ("own", "independent"), ("shared", "shared")):
        ends = jackknife_interval(why.agreement(rule), [other.agreement(rule) for other in few])
        found |= {name: why.agreement(rule), f"{name}_interval": ends}
    for name, measure in (("state", lambda w: w.state), ("ties", lambda w: w.ties())):
        found |= {name: measure(why), f"{name}_interval": change_interval(measure, why)}
    return found | {"chance": why.chance, "single": why.single, "same": why.same}


def share_of_ties(plain: float, rounded: float, own: float) -> float:
    """Share of a gain in agreement that is gone when ties are broken at random.

    Parameters
    ----------
    plain : float
        Agreement of the runs without rounding.
    rounded : float
        Agreement of the runs with rounding, ties to the first action.
    own : float
        The same with ties broken by each run on its own.

    Returns
    -------
    float
        ``(rounded - own) / (rounded - plain)``: 0 if ties do not matter, 1 if nothing is left of the gain,
        above 1 if less than nothing is. NaN where there is no gain.

    Examples
    --------
    >>> from rrl.experiments.games.results import share_of_ties
    >>> share_of_ties(0.25, 0.75, 0.5), share_of_ties(0.25, 0.75, 0.25), share_of_ties(0.5, 0.25, 0.25)
    (0.5, 1.0, nan)
    """
    return (rounded - own) / (rounded - plain) if rounded > plain else float("nan")


def curves(records: list[dict], window: int = LAST_GAMES) -> list[dict]:
    """Returns over training: running means over each run's last games.

    Parameters
    ----------
    records : list of dict
    window : int
        Games in a mean; the first points average what there is.

    Returns
    -------
    list of dict
        ``game``, ``total_steps``, ``variant``, ``seed``, ``step`` (int array: when each game ended) and
        ``score`` (float array: mean score of the last games).
    """
    found, variants = [], variants_of(records)
    for record in {unit_key(r["unit"]): r for r in records}.values():
        unit = record["unit"]
        if unit["experiment"] not in TRAINED or unit["seed"] == EXPERT_SEED:
            continue
        scores = unpack_array(record["result"]["games"]["score"]).astype(float)
        sums = np.concatenate([[0.0], np.cumsum(scores)])
        ends = np.arange(1, len(scores) + 1)
        starts = np.maximum(ends - window, 0)
        names = {key: unit[key] for key in ("game", "seed")} | {"variant": variants[unit_key(unit)]}
        steps = unpack_array(record["result"]["games"]["step"])
        score = (sums[ends] - sums[starts]) / (ends - starts)
        found.append(
            {**names, "total_steps": unit["settings"]["total_steps"], "step": steps, "score": score},
        )
    return sorted(found, key=lambda c: (c["game"], c["total_steps"], RANK[c["variant"]], c["seed"]))


def costs(records: list[dict], experiment: str = "atari") -> list[dict]:
    """Speed of the recorded training on each machine, and what the whole protocol would take there.

    The time is that of the wall clock while any recorded run trained or was evaluated: runs that trained at
    the same time are counted once. Of a run that was stopped and resumed, only the last stretch counts, but all steps.

    Parameters
    ----------
    records : list of dict
    experiment : {"atari", "minatar"}

    Returns
    -------
    list of dict
        For each machine ``processor``, ``cores``, ``device`` (of torch), ``gpu`` (or None), ``runs``,
        ``run_steps`` (environment steps of all runs), ``hours``, ``steps_a_second``, ``paper_hours`` (for all
        runs of the largest scale, for Atari the paper's, at that speed).
    """
    check_choice("experiment", experiment, TRAINED)
    machines, cards = {}, {}
    for record in {unit_key(r["unit"]): r for r in records}.values():
        hardware = record["provenance"]["hardware"]
        place = (hardware["processor"], hardware["cores"])
        if hardware["gpu"]:
            cards.setdefault(place, hardware["gpu"])
        if record["unit"]["experiment"] == experiment:
            machines.setdefault((*place, record["result"]["device"]), []).append(record)
    paper_steps = sum(unit["settings"]["total_steps"] for unit in WHOLE[experiment]())
    found = []
    for (processor, cores, device), own in machines.items():
        seconds = clock_seconds(record["provenance"] for record in own)
        steps = sum(record["result"]["steps"] for record in own)
        found.append(
            {
                "processor": processor,
                "cores": cores,
                "device": device,
                "gpu": None if device == "cpu" else cards.get((processor, cores)),
                "runs": len(own),
                "run_steps": steps,
                "hours": seconds / 3600,
                "steps_a_second": steps / seconds,
                "paper_hours": paper_steps / (steps / seconds) / 3600,
            }
        )
    return found
