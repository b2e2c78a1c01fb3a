"""What replicability costs: the score of an algorithm against its rho, over a grid of settings."""

from __future__ import annotations

import functools
import itertools
import time
import warnings
from concurrent.futures import as_completed
from typing import TYPE_CHECKING

import numpy as np

from ._checks import check_integer, check_measurement
from ._extras import missing
from ._progress import progress_bar
from ._resume import Records, identity
from .pairs import (
    NO_DRAW,
    Pair,
    ReplicabilityWarning,
    chunks,
    compare_codes,
    is_constant,
    pair_children,
    run_twice,
    spread,
)
from .replicability import clopper_pearson, expanded_tail

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["plot_trade_off", "trade_off"]

#: Columns that a parameter of the grid may not be called.
COLUMNS = (
    "n_pairs",
    "n_disagree",
    "rho",
    "rho_low",
    "rho_high",
    "score",
    "score_low",
    "score_high",
    "score_mean",
    "constant",
)


def interquartile_mean(scores: Any) -> Any:
    """Mean of the middle half along the last axis, as papers on RL report it; each cut quarter is rounded down."""
    scores = np.sort(scores, axis=-1)
    cut = scores.shape[-1] // 4
    return scores[..., cut : scores.shape[-1] - cut].mean(axis=-1)


def settings_of(grid: Any) -> Any:
    """The settings of a grid, one dict each."""
    if isinstance(grid, dict):
        if not grid or not all(isinstance(values, list | tuple | range | np.ndarray) for values in grid.values()):
            raise ValueError(f"grid must give each parameter a list of values, got {grid!r}")
        names = list(grid)
        settings = [dict(zip(names, values, strict=True)) for values in itertools.product(*grid.values())]
    else:
        settings = list(grid)
        if not all(isinstance(setting, dict) and setting.keys() == settings[0].keys() for setting in settings):
            raise ValueError("grid must be a dict of lists, or dicts that all have the same names")
    if not settings or not settings[0]:
        raise ValueError(f"grid must hold at least one setting, got {grid!r}")
    taken = set(settings[0]) & {*COLUMNS, "shared_seed", "rng"}
    if taken:
        raise ValueError(f"no parameter of the grid may be called {sorted(taken)[0]!r}")
    return [{name: _plain(value) for name, value in setting.items()} for setting in settings]


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


def scored_pair(run: Any, score: Any, codes: Any, seed: Any, setting: Any, index: Any) -> Any:
    """One pair at one setting: where its runs differ, and what each of them is worth, by `score` if there is one."""
    shared_seed, outputs, drew = run_twice(functools.partial(run, **setting), seed, index)
    pair = compare_codes(index, shared_seed, outputs if codes is None else map(codes, outputs), drew)
    # A stream of its own for every evaluation: its children stand behind those of the pair's runs.
    rngs = map(np.random.default_rng, pair_children(seed, index, 5)[3:])
    scores = [] if score is None else [float(score(output, rng)) for output, rng in zip(outputs, rngs)]
    if not np.isfinite(scores).all():
        raise ValueError(f"score must be finite, got {scores} at {setting}")
    return {"pair": pair.to_dict(), "scores": scores}


def trade_off(
    run: Callable[..., Any],
    score: Callable[..., Any],
    grid: Any,
    n_pairs: int,
    *,
    seed: int,
    codes: Callable[..., Any] | None = None,
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    bootstrap_seed: int = 0,
    n_jobs: int = 1,
    executor: Any = None,
    progress: bool = False,
    store: Any = None,
) -> Any:
    """Measure rho and score of an algorithm at every setting of a grid.

    All settings have the same seeds, so that they are compared on the same shared randomness; at each, the
    pairs are those of :func:`rrl.estimate_replicability` with this seed. A setting that was chosen by them
    is certified with another seed: its own pairs have been selected.

    Parameters
    ----------
    run : callable
        ``run(shared_seed, rng, **setting)`` draws data from `rng`, runs the algorithm and returns its
        integer codes, or whatever `codes` takes.
    score : callable
        ``score(output, rng)`` says what a run's output is worth; `rng` is for its episodes or test data.
    grid : dict of lists, or iterable of dicts
        Values of each parameter, of which all combinations are taken; or the settings themselves.
    n_pairs : int
        Pairs of runs at each setting.
    seed : int
        Of all pairs.
    codes : callable, optional
        ``codes(output)`` gives the integer codes of a run's output, such as ``lambda model: model.codes_``.
    confidence : float, default=0.95
        Of the limits, each pair of limits alone.
    n_bootstrap : int, default=2000
        Resamples of the pairs behind the limits of the score.
    bootstrap_seed : int, default=0
        Of the resamples.
    n_jobs : int, default=1
        Worker processes (joblib). The result does not depend on it.
    executor : concurrent.futures.Executor, optional
        Used in place of `n_jobs`, such as ``dask.distributed.Client(...).get_executor()``.
    progress : bool, default=False
        Say on standard error how far it is.
    store : path or RunStore, optional
        Where every pair is put on record; the same call goes on from there.

    Returns
    -------
    pandas.DataFrame
        One row a setting: its parameters; ``n_pairs``, ``n_disagree``, ``rho`` and exact two-sided limits
        ``rho_low``, ``rho_high`` (Clopper-Pearson); ``score``, the interquartile mean over all runs, with
        percentile bootstrap limits ``score_low``, ``score_high`` over pairs, since the two runs of a pair
        are not independent, as wide as Student's t would have them (of fewer than five pairs they hold
        less often than they say; of one pair they are NaN); ``score_mean``; and ``constant``, whether all
        runs published the same.

    Raises
    ------
    ValueError
        If an argument is out of its range, or a score is not finite.
    TypeError
        If the codes are not integers.
    ImportError
        If pandas is missing.

    Warns
    -----
    ReplicabilityWarning
        If no run at a setting draws from its generator.

    Examples
    --------
    >>> from rrl import hypergrid_round, trade_off
    >>> def mean_of_coins(shared_seed, rng, bin_width):
    ...     return hypergrid_round(rng.binomial(1000, 0.3) / 1000, bin_width, shared_seed=shared_seed)
    >>> frame = trade_off(
    ...     mean_of_coins,
    ...     lambda rounded, rng: -abs(float(rounded.values) - 0.3),
    ...     {"bin_width": [0.01, 0.1]},
    ...     n_pairs=50,
    ...     seed=0,
    ...     codes=lambda rounded: rounded.codes,
    ... )
    >>> frame[["bin_width", "rho", "score"]].round(3).values.tolist()
    [[0.01, 0.78, -0.012], [0.1, 0.22, -0.031]]
    """
    check_measurement(confidence, seed, n_pairs=n_pairs, n_bootstrap=n_bootstrap)
    check_integer(0, bootstrap_seed=bootstrap_seed)
    settings = settings_of(grid)
    try:
        import pandas
    except ImportError:
        raise missing("book", "trade_off returns a table and needs pandas") from None

    def unit():
        parts = {"run": run, "score": score, "codes": codes}
        told = {name: identity(part) for name, part in parts.items() if part is not None}
        return {"experiment": "trade-off", **told, "seed": int(seed)}

    records = Records(store, unit)
    tasks = [(setting, index) for index in range(n_pairs) for setting in settings]
    found = [None] * len(tasks)
    work = functools.partial(scored_pair, run, score, codes, int(seed))
    with progress_bar(len(tasks), unit="pair", show=progress) as bar:
        for number, result in _done(work, tasks, records, n_jobs, executor):
            found[number] = result
            bar.update(1)
    rows = []
    for place, setting in enumerate(settings):
        results: list[Any] = found[place :: len(settings)]
        pairs = [Pair.from_dict(result["pair"]) for result in results]
        if not any(pair.drew for pair in pairs):
            warnings.warn(f"at {setting}, {NO_DRAW}", ReplicabilityWarning, stacklevel=2)
        scores = np.array([result["scores"] for result in results])
        rows.append(setting | summary(pairs, scores, confidence, n_bootstrap, bootstrap_seed))
    return pandas.DataFrame(rows)


def _done(work, tasks, records, n_jobs, executor):
    """Yield the number of each task with its result, those on record first; the others are recorded as they come."""
    todo, began = [], time.monotonic()
    for number, (setting, index) in enumerate(tasks):
        known = records.load(setting=setting, pair=index)
        if known is None:
            todo.append(number)
        else:
            yield number, known
    for number, result in _computed(work, tasks, todo, n_jobs, executor):
        setting, index = tasks[number]
        records.save(result, time.monotonic() - began, setting=setting, pair=index)
        yield number, result


def _computed(work, tasks, todo, n_jobs, executor):
    if executor is None:
        for part in chunks(len(todo), n_jobs):
            numbers = [todo[i] for i in part]
            yield from zip(numbers, spread(work, [tasks[number] for number in numbers], n_jobs), strict=True)
        return
    waiting = {executor.submit(work, *tasks[number]): number for number in todo}
    try:
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        for future in waiting:
            future.cancel()


def summary(
    pairs: Any, scores: Any, confidence: float = 0.95, n_bootstrap: int = 2000, bootstrap_seed: int = 0
) -> dict:
    """What `trade_off` says of the pairs at one setting; without scores, nothing of them."""
    n, count = len(pairs), sum(pair.differs for pair in pairs)
    found: dict = dict(zip(COLUMNS, (n, count, count / n, *clopper_pearson(count, n, confidence))))
    scores = np.asarray(scores)
    if scores.size:
        limits = [np.nan, np.nan]
        if n > 1:
            resamples = np.random.default_rng(bootstrap_seed).integers(n, size=(n_bootstrap, n))
            means = interquartile_mean(scores[resamples].reshape(n_bootstrap, -1))
            tail = expanded_tail(n, confidence)
            limits = np.quantile(means, [tail, 1 - tail])
        values = (float(interquartile_mean(scores.ravel())), *map(float, limits), float(scores.mean()))
        found |= zip(COLUMNS[5:], values)
    return found | {"constant": is_constant(pairs)}


def plot_trade_off(frame: Any, *, ax: Any = None, label: str | None = None) -> Any:
    """Draw the score against rho, with the limits of both.

    Parameters
    ----------
    frame : pandas.DataFrame
        Of :func:`trade_off`.
    ax : matplotlib.axes.Axes, optional
        Where; a new figure by default.
    label : str, optional
        In the legend.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("svg")
    >>> from rrl import plot_trade_off, trade_off
    >>> frame = trade_off(
    ...     lambda shared_seed, rng, n: int(rng.random(n).mean() > 0.4),
    ...     lambda code, rng: code,
    ...     [{"n": 5}, {"n": 50}],
    ...     n_pairs=20,
    ...     seed=0,
    ... )
    >>> [text.get_text() for text in plot_trade_off(frame).texts]
    ['n 5', 'n 50']
    """
    try:
        from matplotlib import pyplot
    except ImportError:
        raise missing("book", "plot_trade_off needs matplotlib") from None

    ax = ax or pyplot.subplots()[1]
    x, y = frame["rho"], frame["score"]
    across = [x - frame["rho_low"], frame["rho_high"] - x]
    # An interquartile mean may lie outside its percentile limits.
    along = [(y - frame["score_low"]).clip(lower=0), (frame["score_high"] - y).clip(lower=0)]
    ax.errorbar(x, y, xerr=across, yerr=along, fmt="o", capsize=2, label=label)
    names = [name for name in frame if name not in COLUMNS]
    for _, row in frame.iterrows():
        text = ", ".join(
            f"{name} {row[name]:g}" if isinstance(row[name], int | float) else f"{name} {row[name]}" for name in names
        )
        ax.annotate(text, (row["rho"], row["score"]), xytext=(4, 4), textcoords="offset points", fontsize="small")
    ax.set(xlabel="probability that two runs differ, ρ", ylabel="score (interquartile mean)")
    ax.set_xlim(left=min(0.0, ax.get_xlim()[0]))
    if label is not None:
        ax.legend()
    return ax
