"""The book's own Figure 2: both games, four variants, five seeds, on two processor cores.

Every run trains alone, in a process with one thread, so that on one kind of machine it repeats bit for bit. Once a run
is recorded its network answers, before anything can be lost: on the hold-outs that there are, and on states of the
runs' own greedy games. A hold-out is played by a plain run of its game that trains four times as long.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rrl._checks import check_choice
from rrl.datasets.atari import RECORDED, holdout
from rrl.datasets.recordings import (
    Holdout,
    evenly_spaced,
    frames_digest,
    play_again,
    read_recording,
    write_recording,
)
from rrl.experiments.games import atari
from rrl.experiments.games.checkpoints import batches
from rrl.experiments.games.runs import check_plan, holdout_unit, network_path
from rrl.experiments.records import read_record
from rrl.experiments.store import RunStore, unit_key
from rrl.packing import unpack_array
from rrl.pqn.network import require_torch

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Any

__all__ = ["PLAYER_STEPS", "PRECISION", "own_states", "run", "units"]

PLAYER_STEPS = 2_000_000
# Runs that are repeated in float32.
PRECISION = {"games": ("mspacman",), "variants": ("plain", "both"), "n_seeds": 5}
# Of each run, in the set that the runs of one seed give.
OWN_STATES = 100


def units(
    study: str = "figure", *, games: Sequence[str], total_steps: int | None = None, n_seeds: int | None = None
) -> list[dict]:
    """The training units in the order in which they run: blocks of one seed, in each all variants of a game.

    Parameters
    ----------
    study : {"figure", "precision", "all"}
    games : sequence of str
    total_steps, n_seeds : int, optional
        In place of the plan's own; a player trains in proportion.

    Returns
    -------
    list of dict
        A game's player stands before its first block: it takes as long as that.

    Raises
    ------
    ValueError
        For another study, unknown games and counts below 1.
    """
    check_choice("study", study, ("figure", "precision", "all"))
    check_plan(atari.SCALES["book"], games, total_steps=total_steps, n_seeds=n_seeds)
    plan, planned = atari.SCALES["book"], []
    for seed in range(max(n_seeds or plan[game]["n_seeds"] for game in games)) if study != "precision" else ():
        for game in games:
            steps = total_steps or plan[game]["total_steps"]
            if seed == 0:
                planned.append(player(game, steps))
            if seed < (n_seeds or plan[game]["n_seeds"]):
                planned += [atari._unit(game, variant, seed, steps, "bfloat16") for variant in atari.VARIANTS]
    for seed in range(min(n_seeds or PRECISION["n_seeds"], PRECISION["n_seeds"])) if study != "figure" else ():
        for game in [game for game in games if game in PRECISION["games"]]:
            steps = total_steps or plan[game]["total_steps"]
            planned += [atari._unit(game, variant, seed, steps) for variant in PRECISION["variants"]]
    return planned


def player(game: Any, steps: Any) -> Any:
    """The unit of the run that plays the hold-out of runs of so many steps."""
    longer = steps * PLAYER_STEPS // atari.SCALES["book"][game]["total_steps"]
    return atari._unit(game, "plain", atari.EXPERT_SEED, longer, "bfloat16")


@functools.lru_cache(maxsize=4)
def _recorded(game, path=None):
    """A recorded hold-out: the package's, or one beside the records."""
    if path is None:
        return holdout(game, source="recorded")
    states = holdout(game, recording=read_recording(path, **RECORDED))
    return dataclasses.replace(states, source=f"recorded:{path.name}")


def own_states(records: list[dict]) -> Any:
    """States of the greedy games of trained runs, equally many of each run.

    Parameters
    ----------
    records : list of dict
        Of training units of one game.

    Returns
    -------
    rrl.datasets.recordings.Holdout
        Run after run, `OWN_STATES` of each; its actions are those that the runs took.

    Raises
    ------
    ValueError
        If the games do not replay to the recorded scores.
    """
    parts = []
    for record in records:
        games, key = record["result"]["evaluation"], unit_key(record["unit"])
        episodes = list(zip(games["seeds"], map(unpack_array, games["actions"]), strict=True))
        played = play_again(atari.make_pool(record["unit"]["game"], len(episodes), 1), episodes)
        if [float(rewards.sum()) for _, rewards in played] != games["scores"]:
            raise ValueError(f"the games of the run {key} replay to other scores than its record holds")
        chosen = [(seen[:-1], actions) for (seen, _), (_, actions) in zip(played, episodes, strict=True)]
        parts.append(evenly_spaced(chosen, key, OWN_STATES, {}))
    observations = np.concatenate([part.observations for part in parts])
    details = {"runs": [part.source for part in parts], "states": [len(part.actions) for part in parts]}
    actions = np.concatenate([part.actions for part in parts])
    return Holdout(observations, actions, "own games", frames_digest(observations), details)


@functools.lru_cache(maxsize=16)
def _block_states(*paths):
    """The states of one seed's runs; kept, since every later network of a process answers on them too."""
    return own_states([read_record(path, path.stem) for path in paths])


def ask(planned: list[dict], folder: str | os.PathLike, device: str = "cpu") -> None:
    """Take the Q-values that can be taken now: of recorded runs whose network is here, on all sets of states.

    These are the package's hold-out, the one of the runs' player, and for each seed whose four runs are recorded the
    states of their own games.

    Parameters
    ----------
    planned : list of dict
        Training units of one game.
    folder : path
        Of the run store.
    device : str

    Raises
    ------
    ValueError
        If a network is damaged or another one, when all others have answered.
    """
    store, game, failures = RunStore(folder), planned[0]["game"], []

    @contextlib.contextmanager
    def others_first():
        """One damaged network keeps no other from answering."""
        try:
            yield
        except ValueError as error:
            failures.append(error)

    done = {unit_key(unit): unit for unit in planned if store.load(unit)}
    here = {key: unit for key, unit in done.items() if network_path(folder, unit).exists()}
    runs = {key: unit for key, unit in here.items() if unit["seed"] != atari.EXPERT_SEED}
    take = functools.partial(atari.q_values, trained=runs, folder=folder, device=device)
    sets = [_recorded(game)]
    for unit in done.values():
        if unit["seed"] == atari.EXPERT_SEED:
            path = Path(folder) / f"holdout_{game}_{unit['settings']['total_steps']}.recording"
            if not path.exists() and unit in here.values():
                with others_first():
                    write_recording(path, atari.make_holdout(unit, folder, device=device))
            sets += [_recorded(game, path)] if path.exists() else []
    for states in sets:
        with others_first():
            questions = [holdout_unit(unit, states) for unit in runs.values()]
            store.run(questions, functools.partial(take, states=states), progress=False)
    asked = {(record["unit"]["run"], record["unit"]["block"]) for record in store.records("atari-own")}
    for seed in sorted({unit["seed"] for unit in done.values()} - {atari.EXPERT_SEED}):
        block = [unit for unit in done.values() if unit["seed"] == seed and "precision" in unit["settings"]]
        todo = [unit for key, unit in runs.items() if (key, seed) not in asked]
        if todo and len(block) == len(atari.VARIANTS):
            block.sort(key=lambda unit: list(atari.VARIANTS).index(unit["variant"]))
            states = _block_states(*map(store.path, block))
            with others_first():
                questions = [holdout_unit(unit, states, "own") | {"block": seed} for unit in todo]
                store.run(questions, functools.partial(take, states=states), progress=False)
    if failures:
        raise failures[0]


def run(
    planned: list[dict],
    known: list[dict],
    *,
    folder: str | os.PathLike,
    jobs: int = 1,
    device: str = "cpu",
    log_every: int = 0,
) -> list[dict]:
    """Train what is not yet recorded, run by run, and ask each network as soon as it is there.

    Parameters
    ----------
    planned, known : list of dict
        From `units`: what to train, and all whose networks and states are asked.
    folder : path
        Of the run store.
    jobs : int
        Processes.
    device : str
    log_every : int
        Print a line of JSON every so many iterations; 0 for none.

    Returns
    -------
    list of dict
        All records of the folder.
    """
    store = RunStore(folder)
    work = functools.partial(_train, known=known, folder=folder, device=device, log_every=log_every)
    store.run(planned, work, jobs=jobs, batch=functools.partial(batches, folder=folder, size=1))
    for game in dict.fromkeys(unit["game"] for unit in planned):
        ask([unit for unit in known if unit["game"] == game], folder, device)
    return store.records()


def _train(batch, *, known, folder, device, log_every):
    """Train one run; when its record is written, ask."""
    require_torch().set_num_threads(1)
    yield from atari.train_units(batch, folder=folder, device=device, n_threads=1, log_every=log_every)
    ask([unit for unit in known if unit["game"] == batch[0]["game"]], folder, device)
