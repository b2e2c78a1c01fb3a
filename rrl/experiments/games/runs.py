"""What the experiments with quantised PQN share: training units together, and their Q-values on a hold-out.

Networks lie in ``networks/`` beside the records, outside git.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rrl._checks import check_integer
from rrl._files import write_durably
from rrl.experiments.games.checkpoints import begun_with, checkpoint_path, config_of
from rrl.experiments.provenance import loaded_code, processor_name
from rrl.experiments.store import RunStore, canonical, unit_key
from rrl.packing import pack_array
from rrl.pqn.atari import play
from rrl.pqn.mixed import usable
from rrl.pqn.network import Architecture, StackedQNetwork, greedy_actions, quantise, require_torch
from rrl.pqn.train import Trainer, train

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["LAST_GAMES", "VARIANTS", "Study", "check_plan", "greedy_policy", "holdout_unit", "q_values", "train_units"]

# What each of Figure 2's variants takes from its game's settings.
VARIANTS = {
    "plain": (),
    "quantised": ("grid_step",),
    "regularised": ("weight_decay",),
    "both": ("grid_step", "weight_decay"),
}
LAST_GAMES = 20


class Study(NamedTuple):
    """What one family of games needs.

    Attributes
    ----------
    make_env : callable
        ``make_env(game, n, n_threads=0)`` gives a `rrl.pqn.VectorEnv`.
    architecture : Architecture
        Of the network.
    limits : dict
        `max_steps` and `patience` of greedy games, see `rrl.pqn.atari.play`.
    environment : dict
        Settings of the environments, for the records.
    noise : float
        Chance of a random action in the games that evaluate a run: where nothing else is random in an environment,
        greedy games repeat each other.
    """

    make_env: Callable
    architecture: Architecture
    limits: dict
    environment: dict
    noise: float = 0.0


def check_plan(known: Iterable[str], games: Any, **counts: Any) -> None:
    """Refuse games that are no list of `known` ones, each once, and counts that are not None nor at least 1."""
    known = sorted(known)
    if games is not None:
        if isinstance(games, str):
            raise ValueError(f"games must be a list of names, got {games!r}: write [{games!r}]")
        if unknown := [game for game in games if game not in known]:
            raise ValueError(f"games must be one of {known}, got {unknown[0]!r}")
        if not games or len(set(games)) < len(games):
            raise ValueError(f"games must name each game once, got {list(games)}")
    check_integer(1, **{name: value for name, value in counts.items() if value is not None})


def variant_settings(games: Any, game: Any, variant: Any) -> Any:
    """What a variant takes from its game's settings; `games` holds the settings by game."""
    if game not in games:
        raise ValueError(f"game must be one of {sorted(games)}, got {game!r}")
    if variant not in VARIANTS:
        raise ValueError(f"variant must be one of {sorted(VARIANTS)}, got {variant!r}")
    return {key: games[game][key] for key in VARIANTS[variant]}


def greedy_policy(network: Any, theta: Any, configs: Any, noise: Any = None) -> Any:
    """Greedy actions as in training (rounded outputs, ties to the lowest index), for a pool.

    `noise` = (probability, one generator a run) replaces some actions by random ones.
    """
    torch = require_torch()
    steps = [c.grid_step * c.round_acting for c in configs]
    steps = torch.tensor(steps, dtype=torch.float32, device=theta.device).reshape(-1, 1, 1)

    def act(observations, _):
        batch = observations.reshape(len(configs), -1, *observations.shape[1:])
        with torch.no_grad():
            q = quantise(network(theta, batch), steps)
        actions = greedy_actions(q).cpu().numpy().ravel()
        if noise:
            probability, generators = noise
            size = len(actions) // len(configs)
            random, chance = zip(
                *[(rng.integers(network.n_actions, size=size), rng.random(size)) for rng in generators]
            )
            actions = np.where(np.concatenate(chance) < probability, np.concatenate(random), actions)
        return actions

    return act


def network_path(folder: Any, unit: Any) -> Any:
    """Where the parameters of a trained unit lie."""
    return Path(folder) / "networks" / f"{unit_key(unit)}.safetensors"


def _network_digest(row):
    return hashlib.sha256(row.cpu().numpy().tobytes()).hexdigest()


def _save_network(folder, unit, row):
    from safetensors.torch import save

    path = network_path(folder, unit)
    path.parent.mkdir(parents=True, exist_ok=True)
    if RunStore(folder).load(unit) is None:  # another writer's record names its own network
        write_durably(path, save({"theta": row.cpu().contiguous()}))
    return _network_digest(row)


def load_network(folder: Any, unit: Any) -> Any:
    """Parameters (P,) of a trained unit.

    Raises
    ------
    FileNotFoundError
        If the network is gone: networks are no part of the records.
    ValueError
        If it is damaged, or not the one that the run's record names.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = network_path(folder, unit)
    if not path.exists():
        raise FileNotFoundError(
            f"no network {path.name} in {path.parent}: train that run again, in another folder (here its record stands)"
        )
    try:
        theta = load_file(path)["theta"]
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{path} is damaged or no network: {error}") from error
    record = RunStore(folder).load(unit)
    if record is None or record["result"]["network_sha256"] != _network_digest(theta):
        raise ValueError(f"{path} is not the network whose SHA-256 stands in the record of its run")
    return theta


def train_units(
    study: Any,
    batch: Any,
    *,
    folder: Any,
    device: str = "cpu",
    conv: Any = None,
    n_threads: int = 0,
    deadline: Any = math.inf,
    log_every: int = 0,
) -> Any:
    """Train units of one game together, play them, and yield their results.

    `n_threads` are those of the study's pool. A run that the deadline cut has ``complete: False`` in its result.
    """
    torch = require_torch()
    if len({unit["game"] for unit in batch}) > 1:
        raise ValueError("units that train together must be of one game")
    due, batch = {unit_key(unit) for unit in batch}, begun_with(batch, folder)
    game, runs = batch[0]["game"], [(u["seed"], config_of(u)) for u in batch]
    checkpoint = checkpoint_path(folder, batch)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    pool = functools.partial(study.make_env, game, n_threads=n_threads)
    trainer = Trainer(runs, pool, architecture=study.architecture, device=device, conv=conv)
    trainer.label = canonical(batch)
    start = time.monotonic()

    def log(t):
        if log_every and t.iteration % log_every == 0:
            means = [round(float(np.mean([s for _, s in g[-LAST_GAMES:]])), 2) if g else None for g in t.games]
            report = {"game": game, "runs": [f"{u['variant']} {u['seed']}" for u in batch], "step": t.step_count()}
            report |= {"run_steps_a_processor_second": round(t.step_count() * t.n_runs / t.seconds)}
            print(json.dumps(report | {"means": means} | t.curve[-1]), flush=True)

    session = {"started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), **loaded_code()}
    session |= {"processor": processor_name()}
    complete = train(
        trainer, checkpoint=checkpoint, deadline=deadline, after=log, progress=not log_every, session=session
    )
    seconds = time.monotonic() - start
    # The same luck for every run, whatever it is trained with.
    noise = (study.noise, [np.random.default_rng([2, 26]) for _ in runs]) if study.noise else None
    policy = greedy_policy(trainer.network, trainer.theta, trainer.configs, noise)
    n = trainer.config.n_envs
    # One game in each of its environments: a new Atari pool takes a fifth of a second for each of them.
    seeds = np.tile(np.random.default_rng([2, 25]).integers(2**31 - 1, size=n), len(runs))
    games = play(policy, trainer.env, seeds, **study.limits)
    for k, unit in enumerate(batch):
        if unit_key(unit) not in due:
            continue
        steps, scores = zip(*trainer.games[k]) if trainer.games[k] else ((), ())
        curve = trainer.curve[:: max(1, len(trainer.curve) // 100)]
        own = slice(k * n, (k + 1) * n)
        yield {
            "complete": complete,
            "steps": trainer.step_count(),
            "exact_resume": trainer.exact,
            "restarts": trainer.restarts,
            "sessions": trainer.sessions,
            "games": {
                "step": pack_array(np.array(steps, np.int32)),
                "score": pack_array(np.array(scores, np.float32)),
            },
            "final_mean": float(np.mean(scores[-LAST_GAMES:])) if scores else None,
            "curve": {
                "step": [c["step"] for c in curve],
                **{key: [round(c[key][k], 6) for c in curve] for key in ("loss", "mean_q", "ties")},
            },
            "evaluation": {
                "policy": "greedy",
                "noise": study.noise,
                **study.limits,
                "seeds": seeds[own],
                "scores": games.scores[own],
                "truncated": games.truncated[own],
                "lengths": [len(a) for a in games.actions[own]],
                "actions": [pack_array(a) for a in games.actions[own]],
            },
            "environment": study.environment,
            "precision": ", ".join(trainer.precisions),
            "network_sha256": _save_network(folder, unit, trainer.theta[k]),
            "device": str(trainer.device),
            "conv": trainer.network.conv,
            "tf32": {"conv": torch.backends.cudnn.allow_tf32, "matmul": torch.backends.cuda.matmul.allow_tf32},
            "trained_together": len(batch),
            "train_seconds": round(seconds, 1),
            "processor_seconds": round(trainer.seconds, 1),
        }
    checkpoint.unlink(missing_ok=True)  # another writer may have finished these runs


def _network(study, unit, shape, device):
    """The network of a trained unit, for observations of `shape`, and the precision that it has here."""
    precision = usable(config_of(unit).precision, require_torch().device(device))
    n_actions = study.make_env(unit["game"], 1).n_actions
    return StackedQNetwork(1, shape, n_actions, study.architecture, precision=precision)


def player(study: Any, unit: Any, folder: Any, *, noise: Any, rng: Any, device: str = "cpu") -> Any:
    """The greedy policy of a trained unit, for `play`; with probability `noise` an action is random."""
    theta = load_network(folder, unit)[None].to(device)
    network = _network(study, unit, study.make_env(unit["game"], 1).observation_shape, device)
    return greedy_policy(network, theta, [config_of(unit)], (noise, [rng]))


def holdout_unit(unit: Any, states: Any, kind: str = "holdout") -> Any:
    """The unit that takes a trained unit's Q-values on a `Holdout`."""
    names = {key: unit[key] for key in ("game", "variant", "seed")}
    return {"experiment": f"{unit['experiment']}-{kind}", "run": unit_key(unit), "holdout": states.digest, **names}


def q_values(study: Any, unit: Any, *, trained: Any, states: Any, folder: Any, device: str = "cpu") -> Any:
    """Unrounded Q-values of a trained unit on the hold-out states, and its agreement with the expert.

    Raises
    ------
    FileNotFoundError, ValueError
        See `load_network`; also if a Q-value is not finite.
    """
    torch = require_torch()
    run = trained[unit["run"]]
    theta = load_network(folder, run)[None].to(device)
    network = _network(study, run, states.observations.shape[1:], device)
    with torch.no_grad():
        parts = [network(theta, part[None])[0].cpu() for part in np.array_split(states.observations, 16)]
    q = torch.cat(parts).numpy()
    if not np.isfinite(q).all():
        raise ValueError(f"the network {network_path(folder, run)} gives Q-values that are not finite")
    settings = config_of(run)
    actions = quantise(q, settings.grid_step * settings.round_acting).argmax(1)
    return {
        "q": pack_array(q),
        "actions": pack_array(actions.astype(np.int8)),
        "agreement_with_expert": float((actions == states.actions).mean()),
        "precision": network.precision,
        "source": states.source,
        "details": states.details,
    }
