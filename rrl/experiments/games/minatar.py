"""Figure 2's question on MinAtar: quantised and regularised PQN, on a laptop.

``minatar`` units train one run and play it greedily; ``minatar-holdout`` units take its network's Q-values
on the hold-out states, which games of a plain run of its own (`EXPERT_SEED`) pass through.
"""

from __future__ import annotations

import functools
import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import check_integer
from rrl.datasets.recordings import (
    check_scores,
    episodes_of,
    evenly_spaced,
    play_again,
    read_recording,
    write_recording,
)
from rrl.experiments.games import runs
from rrl.experiments.games.checkpoints import batches
from rrl.experiments.games.runs import VARIANTS, Study, check_plan, holdout_unit, player, variant_settings
from rrl.experiments.store import RunStore, unit_key
from rrl.packing import pack_array
from rrl.pqn.atari import play
from rrl.pqn.config import PQNConfig
from rrl.pqn.minatar import MinAtarPool
from rrl.pqn.network import Architecture, require_torch

if TYPE_CHECKING:
    import os
    from typing import Any

__all__ = ["CHOICES", "GAMES", "SCALES", "config", "holdout", "main", "units"]

# The grid step is 4 % of the mean of max Q in the last tenth of the expert's run (a plain one), to one digit.
GAMES = {
    "breakout": {"grid_step": 0.2, "weight_decay": 0.2},
    "space_invaders": {"grid_step": 0.5, "weight_decay": 0.2},
    "asterix": {"grid_step": 0.1, "weight_decay": 0.2},
}
# Table 1 of the paper, but for the learning rate: the one that Gallici et al. (2025) use on MinAtar.
LEARNING_RATE = 5e-4
# MinAtar's usual network (Young and Tian 2019), with PQN's LayerNorm.
ARCHITECTURE = Architecture(convs=((16, 3, 1),), dense=(128,), scale=1.0)
MAX_STEPS = 5_000
ENVIRONMENT = {"sticky_action_prob": 0.1, "difficulty_ramping": True, "frameskip": 1, "max_steps": MAX_STEPS}
LIMITS = {"max_steps": MAX_STEPS, "patience": 500}
EXPERT_SEED = 1000
RECORDED = {"keys": ("game", "expert", "sha256"), "episode_keys": ("score",), "games": GAMES}

# What the paper leaves open, one change of the quantised variant a line, and the sensitivity to the grid step.
CHOICES = {
    "round acting only": {"round_targets": False},
    "round targets only": {"round_acting": False},
    "loss, straight through": {"round_loss": "straight-through"},
    "loss, plain": {"round_loss": "plain"},
    "ties at random, shared": {"tie_break": "shared"},
    "ties at random, own": {"tie_break": "independent"},
    "step / 4": {"grid_step": 0.25},
    "step / 2": {"grid_step": 0.5},
    "step x 2": {"grid_step": 2.0},
    "step x 4": {"grid_step": 4.0},
    "trace through ends": {"trace_through_ends": True},
}
SCALES = {
    "quick": {"games": ("breakout",), "variants": ("plain", "both"), "total_steps": 51_200, "n_seeds": 3},
    "full": {"games": tuple(GAMES), "variants": tuple(VARIANTS), "total_steps": 1_000_000, "n_seeds": 15},
}
STUDIES = ("figure", "choices", "steps")
CHOICES_SCALE = {"total_steps": 500_000, "n_seeds": 5}
# Runs that train together: more would leave the cache, fewer would wait for Python.
SEEDS_TOGETHER = 3


def make_pool(game: Any, n: Any, n_threads: int = 0) -> Any:
    """The environments of the experiment: MinAtar's own rules, and a time limit."""
    del n_threads  # one core steps faster than the networks learn
    keys = ("sticky_action_prob", "difficulty_ramping", "max_steps")
    return MinAtarPool(game, n, **{key: ENVIRONMENT[key] for key in keys})


STUDY = Study(make_pool, ARCHITECTURE, LIMITS, ENVIRONMENT)


def config(game: Any, variant: str = "plain", total_steps: int = 1_000_000, choice: Any = None) -> Any:
    """Settings of a variant of a game, or of the quantised one with one of `CHOICES`.

    Examples
    --------
    >>> from rrl.experiments.games.minatar import config
    >>> config("breakout", "both").weight_decay
    0.2
    >>> config("breakout", "quantised", choice="round acting only").round_targets
    False
    """
    own = variant_settings(GAMES, game, variant)
    if choice is not None and choice not in CHOICES:
        raise ValueError(f"choice must be one of {sorted(CHOICES)}, got {choice!r}")
    change = dict(CHOICES[choice]) if choice else {}
    if "grid_step" in change:
        change["grid_step"] *= GAMES[game]["grid_step"]
    return PQNConfig(total_steps=total_steps, learning_rate=LEARNING_RATE, **(own | change))


def _unit(game, variant, seed, total_steps, choice=None):
    settings = config(game, variant, total_steps, choice).settings()
    unit = {"experiment": "minatar", "game": game, "variant": variant, "seed": seed, "max_game_steps": MAX_STEPS}
    return unit | ({"choice": choice} if choice else {}) | {"settings": settings}


def units(
    scale: str = "quick",
    study: str = "figure",
    *,
    games: Any = None,
    variants: Any = None,
    total_steps: Any = None,
    seeds: Any = None,
) -> list[dict]:
    """The training units of a scale: blocks of a few seeds, in each every game and variant.

    Parameters
    ----------
    scale : {"quick", "full"}
    study : {"figure", "choices", "steps", "all"}
        Figure 2's four variants; what the paper leaves open, on the first game; of that the grid step, on all games
        of the scale; or all three, without the runs that they share.
    games, variants, total_steps, seeds : optional
        In place of the scale's own; `variants` of ``study="figure"`` alone.

    Returns
    -------
    list of dict

    Examples
    --------
    >>> from rrl.experiments.games.minatar import units
    >>> len(units("quick")), len(units("full"))
    (6, 180)
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {sorted(SCALES)}, got {scale!r}")
    if study not in (*STUDIES, "all"):
        raise ValueError(f"study must be one of {(*STUDIES, 'all')}, got {study!r}")
    check_plan(GAMES, games, total_steps=total_steps)
    if variants and study != "figure":
        raise ValueError(f"variants can be chosen for study 'figure' only, got {variants!r} for {study!r}")
    if study == "all":
        own = {"games": games, "total_steps": total_steps, "seeds": seeds}
        planned = [unit for name in STUDIES for unit in units(scale, name, **own)]
        return list({unit_key(unit): unit for unit in planned}.values())
    plan: dict[str, Any] = SCALES[scale]
    if study != "figure":
        plan = plan | ({} if scale == "quick" else CHOICES_SCALE)
    if study == "choices":
        plan = plan | {"games": plan["games"][:1]}
    steps = total_steps or plan["total_steps"]
    seeds = list(seeds if seeds is not None else range(plan["n_seeds"]))
    blocks = [seeds[i : i + SEEDS_TOGETHER] for i in range(0, len(seeds), SEEDS_TOGETHER)]
    kinds = [(variant, None) for variant in variants or plan["variants"]]
    if study != "figure":
        tried = [choice for choice, change in CHOICES.items() if study == "choices" or "grid_step" in change]
        kinds = [("plain", None), ("quantised", None), *(("quantised", choice) for choice in tried)]
    return [
        _unit(game, variant, seed, steps, choice)
        for block in blocks
        for game in games or plan["games"]
        for seed in block
        for variant, choice in kinds
    ]


def _together(planned):
    """Batches that may train together: one game, one block of seeds, the same shared settings."""
    groups = {}
    for unit in planned:
        shared = [unit["settings"][name] for name in ("total_steps", "trace_through_ends")]
        key = (unit["game"], unit["seed"] // SEEDS_TOGETHER, *shared)
        groups.setdefault(key, []).append(unit)
    return list(groups.values())


def record_games(unit: dict, folder: str | os.PathLike, *, n_games: int = 8, noise: float = 0.01) -> dict:
    """Play games with a trained unit's network, now and then at random, and keep them as seeds and actions.

    Parameters
    ----------
    unit : dict
    folder : path
        Of the run store.
    n_games : int
    noise : float
        Chance of a random action, so that the games do not resemble each other.

    Returns
    -------
    dict
        Plain JSON, for `holdout`.
    """
    pool = make_pool(unit["game"], n_games)
    policy = player(STUDY, unit, folder, noise=noise, rng=np.random.default_rng(EXPERT_SEED))
    seeds = list(range(9000, 9000 + n_games))
    games = play(policy, pool, np.asarray(seeds), **LIMITS)
    episodes = [
        {"seed": seed, "score": float(score), "truncated": bool(cut), "actions": pack_array(actions)}
        for seed, score, cut, actions in zip(seeds, games.scores, games.truncated, games.actions, strict=True)
    ]
    return {
        "game": unit["game"],
        "max_game_steps": MAX_STEPS,
        "expert": {"steps": unit["settings"]["total_steps"], "seed": unit["seed"], "noise": noise},
        "episodes": episodes,
        "sha256": _digest(play_again(make_pool(unit["game"], n_games), list(zip(seeds, games.actions)))),
    }


def _digest(played):
    """SHA-256 of the observations before each action."""
    return hashlib.sha256(b"".join(seen[:-1].tobytes() for seen, _ in played)).hexdigest()


def holdout(recording: dict, *, n_states: int = 1_500) -> Any:
    """States of recorded games, evenly spaced over all of their steps.

    Parameters
    ----------
    recording : dict
        Of `record_games`; ``holdout_GAME.recording`` beside the records.
    n_states : int
        At most so many states.

    Returns
    -------
    rrl.datasets.recordings.Holdout

    Raises
    ------
    ValueError
        If something is missing or damaged, or the games replay to other states.
    """
    check_integer(1, n_states=n_states)
    episodes = episodes_of(recording, **RECORDED)
    played = play_again(make_pool(recording["game"], len(episodes)), episodes)
    if _digest(played) != recording["sha256"]:
        raise ValueError(
            f"the recorded games of {recording['game']} replay to other states than those of the recording"
        )
    check_scores(recording, [rewards for _, rewards in played])
    details = {**recording["expert"], "scores": [episode["score"] for episode in recording["episodes"]]}
    chosen = [(seen[:-1], actions) for (seen, _), (_, actions) in zip(played, episodes, strict=True)]
    return evenly_spaced(chosen, f"recorded:minatar_{recording['game']}", n_states, details)


def _expert_states(game, total_steps, *, folder, work):
    """The hold-out of a game; its expert is trained first where there is no recording yet."""
    path = Path(folder) / f"holdout_{game}_{total_steps}.recording"
    if not path.exists():
        expert = _unit(game, "plain", EXPERT_SEED, total_steps)
        RunStore(folder).run([expert], work, batch=1)
        write_recording(path, record_games(expert, folder))
    return holdout(read_recording(path, **RECORDED))


def main(
    scale: str = "quick",
    *,
    folder: str | os.PathLike,
    study: str = "figure",
    jobs: int = 1,
    log_every: int = 0,
    executor: Any = None,
    **plan,
) -> list[dict]:
    """Train what is not yet recorded, then take Q-values on the hold-out; the command line's entry.

    Parameters
    ----------
    scale : {"quick", "full"}
    folder : path
        Of the run store.
    study : {"figure", "choices", "steps", "all"}
    jobs : int
        Processes; the runs of a block of seeds are shared among them.
    log_every : int
        Print a line of JSON every so many iterations; 0 for none.
    executor : concurrent.futures.Executor, optional
        See `rrl.experiments.store.RunStore.run`.
    **plan
        `games`, `variants`, `total_steps`, `seeds` of `units`.

    Returns
    -------
    list of dict
        All records of the folder.
    """
    require_torch().set_num_threads(1)
    store = RunStore(folder)
    planned = units(scale, study, **plan)
    work = functools.partial(_train, folder=folder, log_every=log_every)
    for batch in _together(planned):
        states = _expert_states(batch[0]["game"], batch[0]["settings"]["total_steps"], folder=folder, work=work)
        size = max(1, math.ceil(len(store.todo(batch)) / jobs))
        split = functools.partial(batches, folder=folder, size=size)
        store.run(batch, work, jobs=jobs, batch=split, executor=executor)
        trained = {unit_key(unit): unit for unit in batch}
        answer = functools.partial(runs.q_values, STUDY, trained=trained, states=states, folder=folder)
        store.run([holdout_unit(unit, states) for unit in batch], answer, progress=False)
    return store.records()


def _train(batch, **options):
    """`train_units` on one thread, in this process or another."""
    require_torch().set_num_threads(1)
    yield from runs.train_units(STUDY, batch, **options)
