"""Figure 2: quantised and regularised PQN on MsPacman and Breakout (Section 6.2, Appendix E).

Two kinds of unit: ``atari`` trains one run and plays it greedily; ``atari-holdout`` takes its network's
Q-values on the hold-out states.
"""

from __future__ import annotations

import functools
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import check_choice
from rrl.datasets.atari import RECORDED, holdout, record_episodes
from rrl.datasets.recordings import read_recording, write_recording
from rrl.experiments.games import runs
from rrl.experiments.games.checkpoints import batches
from rrl.experiments.games.runs import LAST_GAMES, VARIANTS, Study, check_plan, holdout_unit, player, variant_settings
from rrl.experiments.store import RunStore, unit_key
from rrl.pqn.atari import PREPROCESSING, AtariPool
from rrl.pqn.config import PQNConfig
from rrl.pqn.network import Architecture, require_torch

if TYPE_CHECKING:
    import os
    from typing import Any

__all__ = ["GAMES", "LAST_GAMES", "SCALES", "TABLE_1", "VARIANTS", "config", "main", "make_holdout", "units"]

# Table 1 of the paper: name there, name and value here.
TABLE_1 = {
    "optimizer": ("optimizer", "AdamW"),
    "total_timesteps": ("total_steps", 10_000_000),
    "learning_rate": ("learning_rate", 2.5e-4),
    "num_envs": ("n_envs", 8),
    "num_steps": ("n_steps", 128),
    "anneal_lr": ("anneal_lr", True),
    "gamma": ("gamma", 0.99),
    "num_mini_batches": ("n_minibatches", 4),
    "update_epochs": ("epochs", 4),
    "max_grad_norm": ("max_grad_norm", 10.0),
    "start_e": ("start_e", 1.0),
    "end_e": ("end_e", 0.01),
    "exploration_fraction": ("exploration_fraction", 0.3),
    "q_lambda": ("q_lambda", 0.65),
}

# Appendix E: the text gives MsPacman an exploration fraction that Table 1 does not list.
GAMES = {
    "breakout": {"exploration_fraction": 0.3, "weight_decay": 0.2, "grid_step": 0.4},
    "mspacman": {"exploration_fraction": 0.25, "weight_decay": 0.1, "grid_step": 0.4},
}
# The reduced scales keep every setting but the number of steps and seeds: "book" is for hours of two processor cores
# in bfloat16; "reduced" was the first, Breakout on a GPU, MsPacman on two cores.
SCALES = {
    "paper": {game: {"total_steps": 10_000_000, "n_seeds": 15} for game in ("mspacman", "breakout")},
    "reduced": {
        "breakout": {"total_steps": 409_600, "n_seeds": 3},
        "mspacman": {"total_steps": 81_920, "n_seeds": 2},
    },
    "book": {game: {"total_steps": 500_000, "n_seeds": 5} for game in ("mspacman", "breakout")},
}
# A plain run of this seed plays the recorded hold-out; it is never compared.
EXPERT_SEED = 1000
EVALUATION = {"max_steps": 4_500, "patience": 500}
# Without sticky actions a seed changes the number of no-ops at the start only, which matters modulo the frame skip:
# greedy games are four games, however many are played. So now and then an action is random, as at training's end.
NOISE = 0.01


def make_pool(game: Any, n: Any, n_threads: int = 0) -> Any:
    """The environments of the experiment."""
    return AtariPool(game, n, n_threads)


STUDY = Study(make_pool, Architecture(), EVALUATION, PREPROCESSING, NOISE)


def config(game: Any, variant: Any, total_steps: int = 10_000_000, precision: str = "float32") -> Any:
    """Settings of a variant of a game.

    Examples
    --------
    >>> from rrl.experiments.games.atari import config
    >>> config("breakout", "both").grid_step, config("mspacman", "regularised").weight_decay
    (0.4, 0.1)
    """
    own = variant_settings(GAMES, game, variant)
    own["exploration_fraction"] = GAMES[game]["exploration_fraction"]
    return PQNConfig(total_steps=total_steps, precision=precision, **own)


def _unit(game, variant, seed, total_steps, precision="float32"):
    settings = config(game, variant, total_steps, precision).settings()
    return {"experiment": "atari", "game": game, "variant": variant, "seed": seed, "settings": settings}


def units(
    scale: str = "reduced", study: str = "figure", *, games: Any = None, total_steps: Any = None, n_seeds: Any = None
) -> list[dict]:
    """The training units of a scale, seed by seed.

    Parameters
    ----------
    scale : {"paper", "reduced", "book"}
    study : {"figure", "precision", "all"}
        Of scale "book" alone, see `rrl.experiments.games.study`: Figure 2's variants; some of the same runs in
        float32; or both.
    games, total_steps, n_seeds : optional
        In place of the scale's own.

    Returns
    -------
    list of dict

    Examples
    --------
    >>> from rrl.experiments.games.atari import units
    >>> len(units("paper")), len(units("reduced", games=["mspacman"]))
    (120, 8)
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {sorted(SCALES)}, got {scale!r}")
    plan = SCALES[scale]
    if scale == "book":
        from rrl.experiments.games.study import units as book

        return book(study, games=[*plan] if games is None else games, total_steps=total_steps, n_seeds=n_seeds)
    check_choice("study", study, ("figure", "precision", "all"))
    if study != "figure":
        raise ValueError(f"study {study!r} is for scale 'book', got scale {scale!r}")
    check_plan(plan, games, total_steps=total_steps, n_seeds=n_seeds)
    return [
        _unit(game, variant, seed, total_steps or plan[game]["total_steps"])
        for game in games or plan
        for seed in range(n_seeds or plan[game]["n_seeds"])
        for variant in VARIANTS
    ]


train_units = functools.partial(runs.train_units, STUDY)
q_values = functools.partial(runs.q_values, STUDY)


def make_holdout(unit: Any, folder: Any, *, device: str = "cpu", n_games: int = 8, noise: float = 0.01) -> Any:
    """Record games of a trained unit as a hold-out (see `rrl.datasets.atari`).

    A little noise keeps the games from being one game.
    """
    policy = player(STUDY, unit, folder, noise=noise, rng=np.random.default_rng(EXPERT_SEED), device=device)
    names = {key: unit[key] for key in ("variant", "seed")}
    details = {
        "expert": f"plain PQN after {unit['settings']['total_steps']} steps, not among the compared runs",
        "noise": noise,
        **names,
    }
    return record_episodes(unit["game"], policy, range(9000, 9000 + n_games), details=details, **EVALUATION)


def main(
    scale: str = "reduced",
    *,
    folder: str | os.PathLike,
    study: str = "figure",
    jobs: int = 1,
    batch: int | None = None,
    device: str | None = None,
    conv: str | None = None,
    n_threads: int = 0,
    budget: float = math.inf,
    log_every: int = 0,
    **plan,
) -> list[dict]:
    """Train what is not yet recorded, then take Q-values on the hold-out; the command line's entry.

    Parameters
    ----------
    scale : {"paper", "reduced", "book"}
    folder : path
        Of the run store.
    study : str
        See `units`.
    jobs : int
        Processes; on a GPU two let one emulate while the other learns.
    batch : int, optional
        Units that train together; as many as there are for each process, if not given. Those of scale "book" train
        alone.
    device : str, optional
        Of torch; the GPU if there is one.
    conv : str, optional
        See `rrl.pqn.Trainer`.
    n_threads : int
        Emulator threads of each process; 0 lets ale-py choose.
    budget : float
        Seconds after which training stops, its runs marked as incomplete.
    log_every : int
        Print a line of JSON every so many iterations; 0 for none.
    **plan
        `games`, `total_steps`, `n_seeds` of `units`.

    Returns
    -------
    list of dict
        All records of the plan.
    """
    deadline = time.monotonic() + budget
    device = device or ("cuda" if require_torch().cuda.is_available() else "cpu")
    store, records = RunStore(folder), []
    planned = units(scale, study, **plan)
    if scale == "book":
        for name, value, default in (
            ("batch", batch, None),
            ("conv", conv, None),
            ("n_threads", n_threads, 0),
            ("budget", budget, math.inf),
        ):
            if value != default:
                raise ValueError(
                    f"scale 'book' trains each run alone and to the end: {name} is for the others, got {value!r}"
                )
        from rrl.experiments.games.study import run

        return run(planned, units(scale, "all", **plan), folder=folder, jobs=jobs, device=device, log_every=log_every)
    for game in dict.fromkeys(unit["game"] for unit in planned):
        own = [unit for unit in planned if unit["game"] == game]
        expert = _unit(game, "plain", EXPERT_SEED, own[0]["settings"]["total_steps"])
        path = Path(folder) / f"holdout_{game}.recording"
        try:
            states = holdout(game, recording=read_recording(path, **RECORDED) if path.exists() else None)
        except FileNotFoundError:
            states = None
        todo = own if states else [*own, expert]
        size = batch or math.ceil(len(todo) / jobs)
        work = functools.partial(
            train_units,
            folder=folder,
            device=device,
            conv=conv,
            n_threads=n_threads,
            deadline=deadline,
            log_every=log_every,
        )
        records += store.run(todo, work, jobs=jobs, batch=functools.partial(batches, folder=folder, size=size))
        if not states:
            recording = make_holdout(expert, folder, device=device)
            write_recording(path, recording)
            states = holdout(game, recording=recording)
        trained = {unit_key(unit): unit for unit in own}
        work = functools.partial(q_values, trained=trained, states=states, folder=folder, device=device)
        records += store.run([holdout_unit(unit, states) for unit in own], work)
    return records
