"""Figure 2: quantised and regularised PQN on MsPacman and Breakout (Section 6.2, Appendix E).

Two kinds of unit: ``atari`` trains one run and plays it greedily; ``atari-holdout`` takes its network's
Q-values on the hold-out states. Networks lie in ``networks/`` beside the records, outside git.
"""

import dataclasses
import functools
import hashlib
import json
import math
import os
import time
from pathlib import Path

import numpy as np

from rrl.datasets.atari import holdout, record_episodes
from rrl.experiments.store import RunStore, pack_array, unit_key
from rrl.pqn.atari import AtariPool, play
from rrl.pqn.config import PQNConfig
from rrl.pqn.network import StackedQNetwork, greedy_actions, quantise, require_torch
from rrl.pqn.train import Trainer, train

__all__ = ["GAMES", "SCALES", "TABLE_1", "VARIANTS", "config", "main", "make_holdout", "units"]

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
VARIANTS = {
    "plain": (),
    "quantised": ("grid_step",),
    "regularised": ("weight_decay",),
    "both": ("grid_step", "weight_decay"),
}
# The reduced scale keeps every setting but the number of steps (and of seeds and games).
SCALES = {
    "paper": {"games": ("mspacman", "breakout"), "total_steps": 10_000_000, "n_seeds": 15},
    "reduced": {"games": ("breakout",), "total_steps": 409_600, "n_seeds": 3},
}
# A plain run of this seed plays the recorded hold-out; it is never compared.
EXPERT_SEED = 1000
EVALUATION = {"max_steps": 4_500, "patience": 500}
LAST_GAMES = 20


def config(game, variant, total_steps=10_000_000):
    """Settings of a variant of a game.

    Examples
    --------
    >>> from rrl.experiments.atari import config
    >>> config("breakout", "both").grid_step, config("mspacman", "regularised").weight_decay
    (0.4, 0.1)
    """
    if game not in GAMES:
        raise ValueError(f"game must be one of {sorted(GAMES)}, got {game!r}")
    if variant not in VARIANTS:
        raise ValueError(f"variant must be one of {sorted(VARIANTS)}, got {variant!r}")
    settings = GAMES[game]
    own = {key: settings[key] for key in VARIANTS[variant]}
    return PQNConfig(total_steps=total_steps, exploration_fraction=settings["exploration_fraction"], **own)


def _unit(game, variant, seed, total_steps):
    settings = dataclasses.asdict(config(game, variant, total_steps))
    return {"experiment": "atari", "game": game, "variant": variant, "seed": seed, "settings": settings}


def units(scale="reduced", *, games=None, total_steps=None, n_seeds=None):
    """The training units of a scale, seed by seed.

    Parameters
    ----------
    scale : {"paper", "reduced"}
    games, total_steps, n_seeds : optional
        In place of the scale's own.

    Returns
    -------
    list of dict

    Examples
    --------
    >>> from rrl.experiments.atari import units
    >>> len(units("paper"))
    120
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {sorted(SCALES)}, got {scale!r}")
    plan = SCALES[scale]
    steps = total_steps or plan["total_steps"]
    return [
        _unit(game, variant, seed, steps)
        for game in games or plan["games"]
        for seed in range(n_seeds or plan["n_seeds"])
        for variant in VARIANTS
    ]


def _policy(network, theta, configs, noise=None):
    """Greedy actions as in training (rounded outputs, ties to the lowest index), for a pool.

    `noise` = (probability, generator) replaces some actions by random ones.
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
            probability, rng = noise
            random = rng.integers(network.n_actions, size=len(actions))
            actions = np.where(rng.random(len(actions)) < probability, random, actions)
        return actions

    return act


def _network_path(folder, unit):
    return Path(folder) / "networks" / f"{unit_key(unit)}.safetensors"


def _save_network(folder, unit, row):
    from safetensors.torch import save_file

    path = _network_path(folder, unit)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    save_file({"theta": row.cpu().contiguous()}, part)
    os.replace(part, path)
    return hashlib.sha256(row.cpu().numpy().tobytes()).hexdigest()


def _load_network(folder, unit):
    from safetensors.torch import load_file

    path = _network_path(folder, unit)
    if not path.exists():
        raise FileNotFoundError(f"no network {path.name} in {path.parent}: train that run again to have it")
    return load_file(path)["theta"]


def train_units(batch, *, folder, device="cpu", conv=None, n_threads=0, deadline=math.inf, log_every=0):
    """Train units of one game together, play them, and yield their results.

    A run that the deadline cut has ``complete: False`` in its result.
    """
    torch = require_torch()
    if len({unit["game"] for unit in batch}) > 1:
        raise ValueError("units that train together must be of one game")
    game, runs = batch[0]["game"], [(u["seed"], _config_of(u)) for u in batch]
    digest = hashlib.sha256("".join(map(unit_key, batch)).encode()).hexdigest()[:16]
    checkpoint = Path(folder) / "networks" / f"checkpoint-{digest}.safetensors"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(runs, lambda n: AtariPool(game, n, n_threads), device=device, conv=conv)
    start, first = time.monotonic(), trainer.iteration

    def log(t):
        if log_every and t.iteration % log_every == 0:
            speed = (t.iteration - first) * t.config.n_envs * t.config.n_steps * t.n_runs
            means = [round(float(np.mean([s for _, s in g[-LAST_GAMES:]])), 2) if g else None for g in t.games]
            report = {"step": t.step_count(), "run_steps_a_second": round(speed / (time.monotonic() - start))}
            print(json.dumps(report | {"means": means} | t.curve[-1]), flush=True)

    complete = train(trainer, checkpoint=checkpoint, deadline=deadline, after=log)
    seconds = time.monotonic() - start
    policy = _policy(trainer.network, trainer.theta, trainer.configs)
    n = trainer.config.n_envs
    # One game in each of its environments: a new pool takes a fifth of a second for each of them.
    seeds = np.tile(np.random.default_rng([2, 25]).integers(2**31 - 1, size=n), len(runs))
    games = play(policy, trainer.env, seeds, **EVALUATION)
    for k, unit in enumerate(batch):
        steps, scores = zip(*trainer.games[k]) if trainer.games[k] else ((), ())
        curve = trainer.curve[:: max(1, len(trainer.curve) // 100)]
        own = slice(k * n, (k + 1) * n)
        yield {
            "complete": complete,
            "steps": trainer.step_count(),
            "exact_resume": trainer.restarts == 0,
            "restarts": trainer.restarts,
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
                **EVALUATION,
                "scores": games.scores[own],
                "truncated": games.truncated[own],
                "lengths": [len(a) for a in games.actions[own]],
            },
            "network_sha256": _save_network(folder, unit, trainer.theta[k]),
            "device": str(trainer.device),
            "conv": trainer.network.conv,
            "tf32": {"conv": torch.backends.cudnn.allow_tf32, "matmul": torch.backends.cuda.matmul.allow_tf32},
            "trained_together": len(batch),
            "train_seconds": round(seconds, 1),
        }
    checkpoint.unlink()


def _config_of(unit):
    settings = dict(unit["settings"])
    return PQNConfig(**{**settings, "adam_betas": tuple(settings["adam_betas"])})


def holdout_unit(unit, states):
    """The unit that takes a trained unit's Q-values on a `Holdout`."""
    names = {key: unit[key] for key in ("game", "variant", "seed")}
    return {"experiment": "atari-holdout", "run": unit_key(unit), "holdout": states.digest, **names}


def q_values(unit, *, trained, states, folder, device="cpu"):
    """Unrounded Q-values of a trained unit on the hold-out states, and its agreement with the expert."""
    torch = require_torch()
    run = trained[unit["run"]]
    n_actions = AtariPool(unit["game"], 1).n_actions
    network = StackedQNetwork(1, states.observations.shape[1:], n_actions)
    theta = _load_network(folder, run)[None].to(device)
    with torch.no_grad():
        parts = [network(theta, part[None])[0].cpu() for part in np.array_split(states.observations, 16)]
    q = torch.cat(parts).numpy()
    actions = quantise(q, _config_of(run).grid_step).argmax(1)
    return {
        "q": pack_array(q),
        "actions": pack_array(actions.astype(np.int8)),
        "agreement_with_expert": float((actions == states.actions).mean()),
        "source": states.source,
        "details": states.details,
    }


def make_holdout(unit, folder, *, device="cpu", n_games=8, noise=0.01):
    """Record games of a trained unit as a hold-out (see `rrl.datasets.atari`).

    A little noise keeps the games from being one game.
    """
    torch = require_torch()
    theta = _load_network(folder, unit)[None].to(torch.device(device))
    pool = AtariPool(unit["game"], 1)
    network = StackedQNetwork(1, pool.observation_shape, pool.n_actions)
    policy = _policy(network, theta, [_config_of(unit)], (noise, np.random.default_rng(EXPERT_SEED)))
    names = {key: unit[key] for key in ("variant", "seed")}
    details = {
        "expert": f"plain PQN after {unit['settings']['total_steps']} steps, not among the compared runs",
        "noise": noise,
        **names,
    }
    return record_episodes(unit["game"], policy, range(9000, 9000 + n_games), details=details, **EVALUATION)


def main(
    scale="reduced",
    *,
    folder,
    jobs=1,
    batch=None,
    device=None,
    conv=None,
    n_threads=0,
    budget=math.inf,
    log_every=0,
    **plan,
):
    """Train what is not yet recorded, then take Q-values on the hold-out; the command line's entry.

    Parameters
    ----------
    scale : {"paper", "reduced"}
    folder : path
        Of the run store.
    jobs : int
        Processes; on a GPU two let one emulate while the other learns.
    batch : int, optional
        Units that train together; as many as there are for each process, if not given.
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
    planned = units(scale, **plan)
    for game in dict.fromkeys(unit["game"] for unit in planned):
        own = [unit for unit in planned if unit["game"] == game]
        expert = _unit(game, "plain", EXPERT_SEED, own[0]["settings"]["total_steps"])
        path = Path(folder) / f"holdout_{game}.recording"
        try:
            states = holdout(game, recording=json.loads(path.read_text("utf-8")) if path.exists() else None)
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
        records += store.run(todo, work, jobs=jobs, batch=size)
        if not states:
            recording = make_holdout(expert, folder, device=device)
            path.write_text(json.dumps(recording, indent=1), encoding="utf-8")
            states = holdout(game, recording=recording)
        trained = {unit_key(unit): unit for unit in own}
        work = functools.partial(q_values, trained=trained, states=states, folder=folder, device=device)
        records += store.run([holdout_unit(unit, states) for unit in own], work)
    return records
