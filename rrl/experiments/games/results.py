"""Figure 2 as numbers, from the records of the Atari and the MinAtar experiments."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from rrl.experiments.games import atari, minatar
from rrl.experiments.games.atari import EXPERT_SEED, LAST_GAMES, VARIANTS
from rrl.experiments.games.minatar import CHOICES
from rrl.experiments.provenance import clock_seconds
from rrl.experiments.store import unit_key
from rrl.packing import unpack_array
from rrl.pqn.agreement import agreement_report

if TYPE_CHECKING:
    from typing import Any

__all__ = ["costs", "curves", "in_words", "q_values", "share_of_ties", "summary", "table"]

TRAINED = ("atari", "minatar")
# All runs of the protocol: the paper's, and the book's.
WHOLE = {"atari": functools.partial(atari.units, "paper"), "minatar": functools.partial(minatar.units, "full")}
# What a run is called that repeats one in bfloat16.
REPEATED = "{}, float32"
# In the order of tables and figures.
RANK = {variant: k for k, variant in enumerate([*VARIANTS, *CHOICES, *map(REPEATED.format, VARIANTS)])}


def _variants(records):
    """What each trained run is called in tables, by `unit_key`."""
    units = [record["unit"] for record in records if record["unit"]["experiment"] in TRAINED]
    plans = {(u["game"], u["settings"]["total_steps"]) for u in units if "precision" in u["settings"]}
    found = {}
    for unit in units:
        name, plan = unit.get("choice", unit["variant"]), (unit["game"], unit["settings"]["total_steps"])
        repeats = plan in plans and "precision" not in unit["settings"]
        found[unit_key(unit)] = REPEATED.format(name) if repeats else name
    return found


def _gathered(records, kind="holdout"):
    """Pairs of a run's record and its Q-values by study (game, planned steps, variant, hold-out) and seed.

    Runs of different plans never mix: a longer Breakout is another study, a repetition in float32 another variant.
    """
    trained = {unit_key(r["unit"]): r for r in records if r["unit"]["experiment"] in TRAINED}
    variants, asked = _variants(records), [f"{name}-{kind}" for name in TRAINED]
    groups = {}
    for record in records:
        unit = record["unit"]
        if unit["experiment"] in asked and unit["run"] in trained:
            run, variant = trained[unit["run"]], variants[unit["run"]]
            study = (unit["game"], run["unit"]["settings"]["total_steps"], variant, unit["holdout"])
            groups.setdefault(study, {})[unit["seed"]] = (run, record)
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
    for (game, steps, variant, states), runs in _gathered(records, kind).items():
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
        ``game``, ``total_steps`` (planned), ``variant``, ``holdout``, ``source`` of the hold-out, ``seeds``,
        ``steps`` (fewest and most done), ``complete``; ``finals`` (each run's mean over its last 20 training
        games), their mean ``final``, ``final_error`` (1.96 standard errors over runs, None for one run) and
        ``final_interval`` (bootstrap over runs, 95%); ``greedies`` (each run's mean score of greedy games),
        their mean ``greedy`` and ``greedy_error``; ``expert`` (each run's agreement with the expert); and what
        `rrl.pqn.agreement.agreement_report` gives for the hold-out.
    """
    rows = []
    for (game, total_steps, variant, states), runs in _gathered(records).items():
        results = [run["result"] for run, _ in runs.values()]
        answers = [record["result"] for _, record in runs.values()]
        q = np.stack([unpack_array(answer["q"]) for answer in answers])
        settings = next(iter(runs.values()))[0]["unit"]["settings"]
        step = settings["grid_step"] * settings["round_acting"]
        finals = np.array([r["final_mean"] for r in results], dtype=float)
        greedies = np.array([np.mean(r["evaluation"]["scores"]) for r in results])
        rows.append(
            {
                "game": game,
                "total_steps": total_steps,
                "variant": variant,
                "holdout": states,
                "source": answers[0]["source"],
                "seeds": list(runs),
                "steps": (min(r["steps"] for r in results), max(r["steps"] for r in results)),
                "complete": all(r["complete"] for r in results),
                "finals": finals.tolist(),
                "final": float(finals.mean()),
                "final_error": _error(finals),
                "final_interval": _mean_interval(finals, seed),
                "greedies": greedies.tolist(),
                "greedy": float(greedies.mean()),
                "greedy_error": _error(greedies),
                "expert": [answer["agreement_with_expert"] for answer in answers],
                **(agreement_report(q, step, seed) if len(q) > 1 else {}),
            }
        )
    return rows


def _error(values):
    """1.96 standard errors of the mean; None for one value."""
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def _mean_interval(values, seed, n_resamples=10_000):
    """95% percentile interval of the mean, resampling the values."""
    drawn = np.random.default_rng(seed).integers(len(values), size=(n_resamples, len(values)))
    return tuple(np.quantile(values[drawn].mean(1), [0.025, 0.975]).tolist())


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


def in_words(share: Any) -> Any:
    """A share of a gain, of `share_of_ties`, in words.

    Examples
    --------
    >>> from rrl.experiments.games.results import in_words
    >>> in_words(0.6)
    'Most of the gain is ties (60%).'
    >>> in_words(1.5)
    'All of the gain is ties.'
    """
    if np.isnan(share):
        return "There is no gain to explain."
    if share >= 0.95:
        return "All of the gain is ties."
    for limit, words in (
        (0.75, "Nearly all of the gain is ties"),
        (0.5, "Most of the gain is ties"),
        (0.25, "A good part of the gain is ties, but not most"),
        (0.1, "Little of the gain is ties"),
    ):
        if share >= limit:
            return f"{words} ({share:.0%})."
    return "Hardly any of the gain is ties."


def summary(row: dict) -> Any:
    """A row of `table` as text, mean ± 1.96 standard errors over runs; one pair's agreement has no error.

    Parameters
    ----------
    row : dict
        Of at least two runs.

    Returns
    -------
    dict of str to str
    """
    agreement, interval = f"{row['agreement']:.2f}", "one pair"
    if len(row["seeds"]) > 2:
        agreement += f" ± {1.96 * row['standard_error']:.2f}"
        interval = "{:.2f} to {:.2f}".format(*row["interval"])
    return {
        "seeds": f"{len(row['seeds'])}",
        "million steps done": " to ".join(dict.fromkeys(f"{s / 1e6:.2g}" for s in row["steps"])),
        "return (last 20 games)": f"{row['final']:.2f} ± {row['final_error']:.2f}",
        "return, bootstrap interval": "{:.2f} to {:.2f}".format(*row["final_interval"]),
        "return, greedy games": f"{row['greedy']:.2f} ± {row['greedy_error']:.2f}",
        "agreement": agreement,
        "agreement, bootstrap interval": interval,
        "Fleiss' kappa": f"{row['fleiss_kappa']:z.2f}",
        "Fleiss' kappa, own tie-breaks": f"{row['kappa_independent']:z.2f}",
        "Cohen's kappa, mean": f"{row['cohen_kappa']:z.2f}",
        "most common action's share": f"{row['majority']:.2f}",
        "states with ties": f"{row['tie_rate']:.2f}",
        "agreement, shared tie-breaks": f"{row['agreement_shared']:.2f}",
        "agreement, own tie-breaks": f"{row['agreement_independent']:.2f}",
        "states where all runs have one best": f"{row['unique']:.3f}",
        "agreement in those states": f"{row['agreement_unique']:.2f}",
        "agreement with the recorded player": f"{np.mean(row['expert']):.2f}",
        "median action gap before rounding": f"{row['median_gap']:.3g}",
    }


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
    found, variants = [], _variants(records)
    for record in records:
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
    the same time are counted once.

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
    machines, cards = {}, {}
    for record in records:
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
