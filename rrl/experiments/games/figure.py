"""Which runs make a comparison of Figure 2: the four variants of a game, equally long, on the same states."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rrl.experiments.games.atari import EXPERT_SEED, SCALES, VARIANTS
from rrl.experiments.games.results import q_values, table, variants_of
from rrl.experiments.store import unit_key

if TYPE_CHECKING:
    import numpy as np

__all__ = ["NAMES", "Study", "compared", "other_states", "own_games", "studies"]

#: What a game is called, by the experiment that plays it.
NAMES = {
    ("minatar", "breakout"): "Breakout (MinAtar)",
    ("minatar", "space_invaders"): "Space Invaders (MinAtar)",
    ("minatar", "asterix"): "Asterix (MinAtar)",
    ("atari", "mspacman"): "MsPacman (Atari)",
    ("atari", "breakout"): "Breakout (Atari)",
}


class Study(NamedTuple):
    """The largest whole block of runs of one plan: seeds for which every variant is recorded.

    Where two seeds or more trained to the end of the plan, these alone.

    Attributes
    ----------
    experiment, game : str
    total_steps : int
        Planned.
    holdout : str
        Digest of the states on which the runs are compared.
    seeds : tuple of int
    equal : bool
        Whether all its runs trained to the end of the plan.
    records : list of dict
        Of these runs and of their Q-values on these states.
    """

    experiment: str
    game: str
    total_steps: int
    holdout: str
    seeds: tuple[int, ...]
    equal: bool
    records: list[dict]

    @property
    def key(self) -> tuple[str, str]:
        """Experiment and game, of `NAMES`."""
        return self.experiment, self.game

    def rows(self) -> dict[str, dict]:
        """The four rows of `rrl.experiments.games.results.table`, by variant."""
        return {row["variant"]: row for row in table(self.records)}


def studies(records: list[dict]) -> list[Study]:
    """Every plan of every game with at least one whole seed, in the order of `NAMES`, long plans first.

    Parameters
    ----------
    records : list of dict
        Of both experiments; repetitions in another precision, choices and players are left out.

    Returns
    -------
    list of Study
        Where runs answered on several hold-outs, on the one with most whole seeds; of equals on the one that the plan's
        own player played, not the package's.
    """
    names = variants_of(records)
    runs = {unit_key(r["unit"]): r for r in records if unit_key(r["unit"]) in names}
    runs = {key: r for key, r in runs.items() if names[key] in VARIANTS and r["unit"]["seed"] != EXPERT_SEED}
    answers = {}
    for record in records:
        unit = record["unit"]
        if unit["experiment"].endswith("-holdout") and unit["run"] in runs:
            run = runs[unit["run"]]["unit"]
            plan = (run["experiment"], run["game"], run["settings"]["total_steps"])
            sets = answers.setdefault(plan, {}).setdefault(unit["holdout"], {})
            sets.setdefault(unit["seed"], {})[names[unit["run"]]] = record
    found = []
    for plan, sets in answers.items():
        whole = {
            digest: {seed: own for seed, own in by_seed.items() if own.keys() == VARIANTS.keys()}
            for digest, by_seed in sets.items()
        }

        def rank(digest, whole=whole):
            first = next(iter(whole[digest].values()), {}).get("plain")
            return len(whole[digest]), bool(first) and "holdout_" in first["result"]["source"], digest

        digest = max(whole, key=rank)
        done = {
            seed: own
            for seed, own in whole[digest].items()
            if all(runs[record["unit"]["run"]]["result"]["complete"] for record in own.values())
        }
        if len(done) > 1:
            whole[digest] = done
        block = [record for own in whole[digest].values() for record in own.values()]
        if block:
            own = [runs[record["unit"]["run"]] for record in block]
            seeds = tuple(sorted(whole[digest]))
            complete = all(r["result"]["complete"] for r in own)
            found.append(Study(*plan, digest, seeds, complete, own + block))  # pyright: ignore[reportCallIssue]
    return sorted(found, key=lambda s: (list(NAMES).index(s.key), -s.total_steps))


def compared(records: list[dict]) -> tuple[list[Study], list[Study]]:
    """Of each game the comparison that the figure shows, and the older ones that it does not.

    Parameters
    ----------
    records : list of dict

    Returns
    -------
    shown, older : list of Study
        Shown are the longest plans with at least two whole seeds of runs that all trained to the end; MsPacman's and
        Breakout's only from the scale "book" on, as earlier runs were far too short.
    """
    shown, older = {}, []
    for study in studies(records):
        least = SCALES["book"][study.game]["total_steps"] if study.experiment == "atari" else 0
        fits = study.equal and len(study.seeds) > 1 and study.total_steps >= least
        if fits and study.key not in shown:
            shown[study.key] = study
        elif len(study.seeds) > 1:
            older.append(study)
    return list(shown.values()), older


def other_states(records: list[dict], study: Study) -> Study | None:
    """The runs of a study's plan on other states than its own; None where they have answered on no others.

    Parameters
    ----------
    records : list of dict
    study : Study

    Returns
    -------
    Study or None
        On the hold-out with most whole seeds, see `studies`.
    """
    others = studies([r for r in records if r["unit"].get("holdout") != study.holdout])
    return next((s for s in others if (s.key, s.total_steps) == (study.key, study.total_steps)), None)


def own_games(records: list[dict], study: Study) -> dict[str, dict[str, np.ndarray]]:
    """Q-values of a study's runs on states of their own greedy games, where they are recorded.

    Parameters
    ----------
    records : list of dict
    study : Study

    Returns
    -------
    dict of str to dict
        For each digest of a set of states (one a seed) the Q-values, shape (runs, states, actions), by variant. Runs
        whose network was gone when the states came have no answers: of each variant at least two have answered, and
        a set stays out where the variant with fewest has fewer than on another set.
    """
    keys = {unit_key(r["unit"]) for r in study.records}
    mine = [r for r in records if unit_key(r["unit"]) in keys or r["unit"].get("run") in keys]
    found = q_values(mine, "own")
    whole = {digest: q for (_, _, digest), q in found.items() if q.keys() == VARIANTS.keys()}
    fewest = {digest: min(map(len, q.values())) for digest, q in whole.items()}
    return {digest: q for digest, q in whole.items() if 1 < fewest[digest] == max(fewest.values())}
