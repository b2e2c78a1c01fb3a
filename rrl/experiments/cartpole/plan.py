"""The plan of the CartPole experiment: its settings, its studies, its samples."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

__all__ = ["STUDIES", "Settings", "columns", "samples", "units"]

#: Seeds of the data; every use spawns its own stream from them.
LAYOUT, SUBSAMPLES, FRESH, RANDOM, TUNING, PAIRS = range(101, 107)


@dataclass(frozen=True)
class Settings:
    """What a study fixes; the paper states the first three, the chapter gives the reasons of the rest.

    Attributes
    ----------
    n_rounds, bin_width, n_runs : int, float, int
        Rounds of fitted Q-iteration, the paper's alpha, runs per fraction and penalty.
    fractions, penalties : tuple of float
        Shares of the data; the paper's lambda, in average form per action.
    penalty_form : {"mean", "sum"}
        "sum" is scikit-learn's alpha.
    n_features, length_scale, gamma : int, float, float
        D and bandwidth of the random Fourier features, discount.
    scaled : bool
        Divide states by the standard deviations of the whole data set.
    data : {"recorded", "random", "replay"}
        The recorded data set, or as many rows of random play or of the behaviour policy's.
    sampling : {"rows", "episodes", "replacement", "fresh"}
        Sub-samples of rows or of whole episodes, rows with replacement, or a new data set every run.
    n_blocks, n_episodes : int
        Blocks that sub-samples are made of, episodes that every policy plays.
    """

    n_rounds: int = 5
    bin_width: float = 0.2
    n_runs: int = 100
    fractions: tuple = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 0.95)
    penalties: tuple = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    penalty_form: str = "mean"
    n_features: int = 32
    length_scale: float = 0.5
    gamma: float = 0.99
    scaled: bool = True
    data: str = "recorded"
    sampling: str = "rows"
    n_blocks: int = 200
    n_episodes: int = 16


_SMALL = {"fractions": (0.4,), "penalties": (0.1,), "n_runs": 40}
_SAMPLING = {"penalties": (0.01, 0.1, 1.0), "n_runs": 60}
#: Name of the study: (changed settings, draws). Units of "figure" hold one draw each, the others all.
STUDIES = {
    "figure": ({}, range(10)),
    "episodes": ({**_SAMPLING, "sampling": "episodes"}, range(8)),
    "replacement": ({**_SAMPLING, "sampling": "replacement"}, range(8)),
    "fresh": ({**_SAMPLING, "sampling": "fresh", "n_runs": 40}, range(6)),
    "random": ({"data": "random", "n_runs": 40, "fractions": (0.4, 0.95)}, range(8)),
    **{
        f"{name}={value}": ({**_SMALL, name: value}, range(8))
        for name, values in {
            "n_features": (4, 8, 16, 32, 64),
            "length_scale": (0.5, 1.0, 2.0, 4.0),
            "gamma": (0.9, 0.95, 0.99, 1.0),
            "bin_width": (0.05, 0.1, 0.2, 0.4, 0.8),
            "n_rounds": (1, 2, 5, 10, 20),
            "scaled": (False,),
        }.items()
        for value in values
    },
    **{
        f"sum={penalty:g}": ({**_SMALL, "penalty_form": "sum", "penalties": (penalty,)}, range(8))
        for penalty in (1.0, 100.0, 10_000.0)
    },
    **{
        f"tuning {d} {scale:g}": (
            {
                **_SMALL,
                "data": "replay",
                "n_runs": 8,
                "penalties": Settings.penalties,
                "n_features": d,
                "length_scale": scale,
            },
            range(1000, 1032),
        )
        for d in (4, 8, 16, 32)
        for scale in (0.25, 0.5, 1.0, 2.0, 4.0)
    },
}
QUICK = {"n_runs": 30, "fractions": (0.05, 0.2, 0.4, 0.8, 0.95), "penalties": (1e-2, 1e-1, 1.0), "n_episodes": 8}


def units(scale: str = "full", study: str = "figure", *, data: Any) -> list[dict]:
    """The units of a study.

    Parameters
    ----------
    scale : {"full", "quick"}
        "quick" has fewer runs, fractions, penalties and draws.
    study : str
        A key of `STUDIES`, or "all".
    data : CartPoleData
        Named in the units by its digest.

    Returns
    -------
    list of dict

    Examples
    --------
    >>> from rrl.datasets import cartpole
    >>> from rrl.experiments.cartpole.study import units
    >>> len(units("full", data=cartpole("standin"))), len(units("quick", data=cartpole("standin")))
    (10, 5)
    """
    if scale not in ("full", "quick"):
        raise ValueError(f"scale must be 'full' or 'quick', got {scale!r}")
    if study not in (*STUDIES, "all"):
        whole = [name.replace(" ", "\0") for name in STUDIES]  # no line ends within a name
        names = textwrap.fill(", ".join(whole), 100, initial_indent="  ", subsequent_indent="  ").replace("\0", " ")
        raise ValueError(f"study must be 'all' or one of these, got {study!r}:\n{names}")
    planned = []
    for name, (changes, draws) in STUDIES.items():
        if study in (name, "all"):
            settings = replace(Settings(**changes), **(QUICK if scale == "quick" else {}))
            draws = list(draws)[: 5 if scale == "quick" else None]
            planned += [
                {
                    "experiment": "cartpole",
                    "scale": scale,
                    "study": name,
                    "source": data.source,
                    "sha256": data.sha256,
                    "draws": group,
                    "settings": asdict(settings),
                }
                for group in ([[draw] for draw in draws] if name == "figure" else [draws])
            ]
    return planned


def columns(settings: Any) -> Any:
    """What is fitted to every sample: (penalties, rounded), two arrays of one entry a column.

    First every penalty with rounding, then every penalty without, last the paper's baseline "not
    replicable": no penalty, no rounding.
    """
    n = len(settings.penalties)
    return np.array([*settings.penalties, *settings.penalties, 0.0]), np.arange(2 * n + 1) < n


def samples(data: Any, settings: Any, draw: Any) -> tuple:
    """Blocks of rows, and the choice of blocks that makes each run's sample.

    Returns
    -------
    parts : list of ndarray
        Row numbers of every block; the same for all draws.
    choice : ndarray of int64, shape (n_fractions, n_runs, n_blocks)
        How often a run's sample holds each block.
    """
    layout = np.random.default_rng(LAYOUT)
    if settings.sampling == "episodes":
        groups = np.array_split(layout.permutation(data.episodes.max() + 1), settings.n_blocks)
        parts = [np.flatnonzero(np.isin(data.episodes, group)) for group in groups]
    else:
        parts = np.array_split(layout.permutation(len(data)), settings.n_blocks)
    rng = np.random.default_rng(np.random.SeedSequence(SUBSAMPLES, spawn_key=(draw,)))
    choice = np.zeros((len(settings.fractions), settings.n_runs, settings.n_blocks), np.int64)
    for f, fraction in enumerate(settings.fractions):
        size = max(1, round(fraction * settings.n_blocks))
        for run_choice in choice[f]:
            if settings.sampling == "replacement":
                run_choice += rng.multinomial(size, np.full(settings.n_blocks, 1 / settings.n_blocks))
            else:
                run_choice[rng.choice(settings.n_blocks, size, replace=False)] = 1
    return parts, choice
