"""Figure 1: replicable fitted Q-iteration on CartPole (Section 6.1), and the studies around it.

A unit is one study at some draws of the shared randomness (features and grid offsets); within a
draw, all runs of all fractions and penalties are fitted at once and every distinct policy is played.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from ...datasets import cartpole, cartpole_random, cartpole_replay
from ...features import RandomFourierFeatures
from ...packing import pack_array
from ...replicability import fingerprint, pairwise_share
from ...theory import disagreement_probability
from ..store import RunStore
from .fit import batched_fitted_q, cut_blocks
from .plan import FRESH, LAYOUT, PAIRS, RANDOM, STUDIES, TUNING, Settings, columns, samples, units
from .sim import play, start_states

if TYPE_CHECKING:
    import os
    from typing import Any

__all__ = [
    "STUDIES",
    "Settings",
    "columns",
    "compute",
    "feature_map",
    "fit_draw",
    "load",
    "main",
    "measure",
    "samples",
    "units",
]

#: Recorded states that policies are compared on, and pairs of runs that the rounding law is averaged over.
N_VISITED, N_PAIRS = 1_000, 1_000
NAMED = ("auto", "d3rlpy", "standin")


def load(source: str | os.PathLike = "auto") -> Any:
    """Usable rows of the CartPole data.

    Parameters
    ----------
    source : str or path
        As in :func:`rrl.datasets.cartpole`, or a file.

    Returns
    -------
    CartPoleData

    Raises
    ------
    FileNotFoundError
        Naming the place where it was looked for.
    """
    if source in NAMED:
        return _load(source)
    path = Path(source).absolute()
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}; without a file the data are {', '.join(NAMED)}")
    return _load(path)


@lru_cache(maxsize=2)
def _load(source):
    return (cartpole(source) if source in NAMED else cartpole(path=source)).usable_rows()


def compute(unit: dict, *, source: str | os.PathLike = "auto") -> dict:
    """Result of a unit, as the run store keeps it.

    Parameters
    ----------
    unit : dict
        Made by :func:`units`.
    source : str or path
        Where the recorded data are read from; they must be those of the unit.

    Returns
    -------
    dict
        Packed arrays with a leading axis of draws: see :func:`measure`.
    """
    data = load(source)
    if data.sha256 != unit["sha256"]:
        raise ValueError(f"the unit is about data with SHA-256 {unit['sha256']}, {source!r} has {data.sha256}")
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in unit["settings"].items()}
    settings = Settings(**given)
    with threadpool_limits(1):
        data = other_data(data, settings)
        results = fit_fresh(data, settings, unit["draws"]) if settings.sampling == "fresh" else None
        results = results or [fit_draw(data, settings, draw) for draw in unit["draws"]]
        found = [measure(data, settings, draw, *fits) for draw, fits in zip(unit["draws"], results)]
    return {name: pack_array(np.array([each[name] for each in found])) for name in found[0]}


def other_data(data: Any, settings: Any) -> Any:
    """The data set that the study is about, given the recorded one."""
    if settings.data == "recorded":
        return data
    draw, seed = {"random": (cartpole_random, RANDOM), "replay": (cartpole_replay, TUNING)}[settings.data]
    return draw(len(data), np.random.default_rng(seed))


def feature_map(data: Any, settings: Settings, draw: int) -> RandomFourierFeatures:
    """Random Fourier features that all runs of a draw share.

    Parameters
    ----------
    data : CartPoleData
        The whole data set, whose standard deviations set the scale: never one run's sample.
    settings : Settings
    draw : int
        The shared seed.

    Returns
    -------
    RandomFourierFeatures
    """
    scale = data.observations.astype(np.float64).std(axis=0) if settings.scaled else np.ones(4)
    features = RandomFourierFeatures(
        settings.n_features, length_scale=settings.length_scale, scale=scale, shared_seed=draw
    )
    return features.fit(data.observations[:1])


def fit_samples(data: Any, features: Any, settings: Any, draw: Any, parts: Any, choice: Any, path: Any = None) -> Any:
    """All columns on the samples of `choice`, and one step of every round from a common path.

    The path is that of a run on all rows, if none is given. Returns the fit, the one-step ridge
    weights of the rounded columns and the path.
    """
    penalties, rounded = columns(settings)
    blocks = cut_blocks(data, features, settings.gamma, parts)
    fit = partial(
        batched_fitted_q,
        blocks,
        n_rounds=settings.n_rounds,
        bin_width=settings.bin_width,
        shared_seed=draw,
        sums=settings.penalty_form == "sum",
    )
    own = fit(choice, penalties, rounded)
    only = (penalties[rounded], rounded[rounded])
    if path is None:
        whole = fit(np.ones((1, len(parts)), np.int64), *only)
        path = whole.weights[:, 0]
    return own, fit(choice, *only, path=path).unrounded, path


def fit_draw(data: Any, settings: Settings, draw: int) -> tuple:
    """Fit all columns to all sub-samples of a draw.

    Parameters
    ----------
    data : CartPoleData
    settings : Settings
    draw : int

    Returns
    -------
    weights : ndarray, shape (F, R, C, 2, D)
        Of the last round.
    codes : ndarray of int64, shape (T, F, R, C, 2, D)
        Of every round.
    steps : ndarray, shape (T, F, R, L, 2, D)
        Ridge weights of the rounded columns, each round started from the path of a run on all rows.
    """
    parts, choice = samples(data, settings, draw)
    own, steps, _ = fit_samples(
        data, feature_map(data, settings, draw), settings, draw, parts, choice.reshape(-1, len(parts))
    )
    shape = choice.shape[:2]
    return (
        own.weights[-1].reshape(*shape, *own.weights.shape[2:]),
        *(part.reshape(len(part), *shape, *part.shape[2:]) for part in (own.codes, steps)),
    )


def fit_fresh(data: Any, settings: Any, draws: Any) -> Any:
    """As `fit_draw` for every draw, each run on a data set of its own (the same for all draws)."""
    one = replace(settings, n_runs=1, sampling="rows")
    maps = {draw: feature_map(data, settings, draw) for draw in draws}
    whole = [np.arange(len(data))]
    paths = {d: fit_samples(data, maps[d], one, d, whole, np.ones((1, 1), np.int64))[2] for d in draws}
    found = {draw: [] for draw in draws}
    for number in range(settings.n_runs):
        rng = np.random.default_rng(np.random.SeedSequence(FRESH, spawn_key=(number,)))
        new = cartpole_replay(len(data), rng)
        parts, choice = samples(new, one, 0)
        for draw in draws:
            own, steps, _ = fit_samples(new, maps[draw], one, draw, parts, choice[:, 0], paths[draw])
            found[draw].append((own.weights[-1], own.codes, steps))
    return [tuple(np.stack(part, axis=k) for k, part in zip((1, 2, 2), zip(*found[draw]))) for draw in draws]


def measure(
    data: Any, settings: Settings, draw: int, weights: np.ndarray, codes: np.ndarray, steps: np.ndarray
) -> dict[str, np.ndarray]:
    """What is kept of a draw, with L penalties, C columns, F fractions, R runs, D features.

    Parameters
    ----------
    data : CartPoleData
    settings : Settings
    draw : int
    weights, codes, steps : ndarray
        From :func:`fit_draw`.

    Returns
    -------
    dict of ndarray
        ``steps`` (C, F, R): steps over all episodes of a policy; the return is their mean.
        ``weights`` (L, F, R): the first 32 bits of each rounded weight vector's fingerprint.
        ``policies`` (C, F, R): first run with the same actions on the visited states.
        ``matches`` (C, F): share of visited rows whose recorded action is the policy's, mean over runs.
        ``paths`` (L, F): pairwise agreement of the codes of all rounds.
        ``predicted`` (2, L, F): pairwise agreement by the exact rounding law, of the last round given
        equal weights before it, and of all rounds.
        ``spread`` (F, C, 3): standard deviation over runs of a weight: its 10, 50, 90% points over weights.
        ``modal`` (L, 2, D): most common codes at the largest fraction.
        ``modal_steps`` (L,): steps of that policy.
        ``margin`` (): nearest tie between Q-values in play.
    """
    n_penalties = len(settings.penalties)
    differences = weights[..., 1, :] - weights[..., 0, :]
    shape, d = differences.shape[:3], differences.shape[-1]
    distinct, which = np.unique(differences.reshape(-1, d), axis=0, return_inverse=True)
    which = np.moveaxis(which.reshape(shape), 2, 0)
    features = feature_map(data, settings, draw)
    # Other start states in every draw, so that their mean is over many.
    played = play(features.frequencies_, distinct, start_states(settings.n_episodes, 10_000 * draw))
    total = played.lengths.sum(axis=1)

    seen = np.random.default_rng(LAYOUT).choice(len(data), N_VISITED, replace=False)
    moves = features.transform(data.observations[seen]) @ distinct.T > 0
    matches = (moves == (data.actions[seen, None] == 1)).mean(axis=0)
    same = np.unique(np.packbits(moves.T, axis=1), axis=0, return_inverse=True)[1].ravel()[which]

    paths = codes[:, :, :, :n_penalties].transpose(3, 1, 2, 0, 4, 5)
    codes = paths[:, :, :, -1]
    names = np.array([int(fingerprint(c)[:8], 16) for c in codes.reshape(-1, 2, d)], np.uint32)
    names = names.reshape(codes.shape[:3])
    first, second = np.random.default_rng(PAIRS).integers(settings.n_runs, size=(2, N_PAIRS))
    second = np.where(first == second, (second + 1) % settings.n_runs, second)
    gap = (steps[:, :, first] - steps[:, :, second]).transpose(3, 1, 2, 0, 4, 5)
    gaps = [part.reshape(*gap.shape[:3], -1) for part in (gap[..., -1, :, :], gap)]
    differ = np.array([disagreement_probability(part, settings.bin_width) for part in gaps])
    spread = np.quantile(weights.std(axis=1).reshape(*weights.shape[::2][:2], -1), (0.1, 0.5, 0.9), axis=-1)
    modal = [names[p, -1].tolist().index(_most_common(names[p, -1])) for p in range(n_penalties)]
    return {
        "steps": total[which].astype(np.promote_types(np.uint16, np.min_scalar_type(total.max()))),
        "weights": names,
        "policies": _first_equal(same).astype(np.min_scalar_type(settings.n_runs - 1)),
        "matches": matches[which].mean(axis=2).astype(np.float32),
        "paths": np.array([[pairwise_share(runs) for runs in row] for row in paths], np.float32),
        "predicted": (1 - differ).mean(axis=-1).astype(np.float32),
        "spread": np.moveaxis(spread, 0, 2).astype(np.float32),
        "modal": np.array([codes[p, -1, run] for p, run in enumerate(modal)], np.int32),
        "modal_steps": np.array([total[which[p, -1, run]] for p, run in enumerate(modal)]),
        "margin": np.array(played.margin),
    }


def _most_common(names):
    values, sizes = np.unique(names, return_counts=True)
    return values[np.argmax(sizes)]


def _first_equal(labels):
    """For every run (last axis), the first run with the same label."""
    return (labels[..., :, None] == labels[..., None, :]).argmax(axis=-1)


def main(
    scale: str = "full",
    study: str = "figure",
    *,
    folder: str | os.PathLike,
    source: str | os.PathLike = "auto",
    jobs: int = 1,
    progress: bool = True,
    executor: Any = None,
) -> list[dict]:
    """Compute what is not yet recorded, and return the records of the study.

    Parameters
    ----------
    scale, study : str
        As in :func:`units`.
    folder : path
        Of the run store.
    source : str or path
        Of the data, as in :func:`load`.
    jobs, progress, executor
        As in :meth:`rrl.experiments.store.RunStore.run`.

    Returns
    -------
    list of dict
        Records, in the order of the units.
    """
    planned = units(scale, study, data=load(source))
    work = partial(compute, source=source)
    return RunStore(folder).run(planned, work, jobs=jobs, progress=progress, executor=executor)
