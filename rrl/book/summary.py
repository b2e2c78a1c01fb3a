"""Numbers of the book's front pages that follow from formulas and from the recorded runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from rrl import theory
from rrl.law import certification_law

if TYPE_CHECKING:
    from typing import Any

__all__ = ["exponents", "from_cartpole", "from_minatar", "numbers"]

VARIANTS = ("plain", "quantised", "regularised", "both")


def exponents() -> dict:
    """Powers with which the bounds of the paper and of this book grow.

    Returns
    -------
    dict
        ``horizon-printed``, ``-corrected``, ``-sharp``: of H in Theorem 4.1, and ``horizon-design`` with least squares
        on the design in place of ridge regression; ``moments-paper``, ``-here``: of d in
        Theorem 3.3 and in the plan for second moments; ``ridge-paper``, ``-here``: of d for ridge regression.

    Examples
    --------
    >>> from rrl.book.summary import exponents
    >>> found = exponents()
    >>> found["horizon-printed"], found["horizon-corrected"], found["moments-here"]
    (23, 27, 4)
    """
    promise: dict[str, Any] = {"epsilon": 0.1, "delta": 0.01, "rho": 0.1}
    found = {}
    # A power of ten more, so far out that logarithms hardly grow.
    for version in ("printed", "corrected", "sharp"):
        sizes = [theory.lsvi_sample_size(2, 2, 10**k, **promise, version=version, log10=True) for k in (11, 12)]
        found[f"horizon-{version}"] = round(sizes[1] - sizes[0])
    rungs = {rung.name: rung for rung in theory.ladder("4.1")}
    found["horizon-design"] = int(rungs["least squares on the design"].demands["samples"].H)
    planned = {
        "moments-paper": lambda d: theory.second_moment_sample_size(d, **promise),
        "moments-here": lambda d: theory.second_moment_plan(d, **promise).n_samples,
        "ridge-paper": lambda d: theory.ridge_sample_size(d, **promise, penalty=0.1),
        "ridge-here": lambda d: theory.ridge_plan(d, **promise, penalty=0.1).n_samples,
    }
    for name, size in planned.items():
        found[name] = round(math.log10(size(10**7) / size(10**6)))
    return found


def from_cartpole(folder: Any) -> dict:
    """The ends of the paper's Figure 1, from the records of the CartPole experiment.

    Parameters
    ----------
    folder : path-like
        With the records of the study at full scale on the stand-in.

    Returns
    -------
    dict
        Means over the draws, at the largest share of the data: ``same-large`` and ``same-small``, the largest share
        of identical weights at the largest and the smallest penalty; ``same-fractions`` and ``same-curve-...``, the
        whole curves; ``return-rounded`` and ``return-unrounded`` at the largest penalty, in steps; ``return-none``
        of the paper's baseline; ``bad-same`` and ``bad-return``, the same at the largest penalty on random play, and
        ``bad-return-share`` of the ``longest`` episode.
    """
    from rrl.experiments.cartpole import plan, results, study
    from rrl.experiments.cartpole.sim import MAX_STEPS
    from rrl.experiments.store import RunStore

    store, data = RunStore(Path(folder)), study.load("standin")

    def recorded(name):
        records = [store.load(unit) for unit in plan.units("full", name, data=data)]
        if not all(records):
            raise ValueError(f"the records of study {name!r} are missing or damaged in {folder}")
        return results.gather(records)

    full, random = recorded("figure"), recorded("random")
    last = len(full.penalties) - 1
    returns, same = full.returns[:, :, -1].mean(axis=0), full.modal.mean(axis=0)
    return {
        "same-large": same[last, -1].item(),
        "same-small": same[0, -1].item(),
        "same-fractions": full.fractions.tolist(),
        **{f"same-curve-{p:g}": same[k].tolist() for k, p in enumerate(full.penalties)},
        "return-rounded": returns[last].item(),
        "return-unrounded": returns[2 * last + 1].item(),
        "return-none": returns[-1].item(),
        "bad-same": random.modal[:, last, -1].mean().item(),
        "bad-return": random.returns[:, last, -1].mean().item(),
        "bad-return-share": random.returns[:, last, -1].mean().item() / MAX_STEPS,
        "longest": MAX_STEPS,
    }


def from_minatar(folder: Any) -> dict:
    """Return and agreement of the four variants on each game, from the records of the MinAtar experiment.

    Parameters
    ----------
    folder : path-like
        With the records at full scale.

    Returns
    -------
    dict
        For each game: ``GAME-return-VARIANT``, ``GAME-agreement-VARIANT``, ``GAME-own-VARIANT`` (each run breaks its
        ties by itself), ``GAME-kept`` (the return of "both" over that of "plain") and ``GAME-ties`` (share of the gain
        in agreement of "both" that is ties); ``games-runs``, runs a variant; ``games``, how many; ``games-gained``,
        in how many "both" keeps the return of "plain" and agrees more when ties count for nothing.
    """
    from rrl.experiments.games.claims import judge
    from rrl.experiments.games.results import share_of_ties, table
    from rrl.experiments.store import RunStore

    rows = [row for row in table(RunStore(Path(folder)).records()) if len(row["seeds"]) >= 15 and row["complete"]]
    found, counts, gained = {}, [], []
    for game in sorted({row["game"] for row in rows}):
        by = {row["variant"]: row for row in rows if row["game"] == game}
        if not set(VARIANTS) <= by.keys():
            continue
        for variant in VARIANTS:
            found[f"{game}-return-{variant}"] = by[variant]["final"]
            found[f"{game}-agreement-{variant}"] = by[variant]["agreement"]
            found[f"{game}-own-{variant}"] = by[variant]["own"]
            counts.append(len(by[variant]["seeds"]))
        plain, both = by["plain"], by["both"]
        found[f"{game}-kept"] = both["final"] / plain["final"]
        ties = share_of_ties(plain["agreement"], both["agreement"], both["own"])
        found[f"{game}-ties"] = min(max(ties, 0.0), 1.0)
        judged = judge(by)
        gained.append(judged["beyond ties"][0] == judged["kept"][0] == "supported")
    if not found:
        raise ValueError(f"no game is recorded at full scale in {folder}")
    return found | {"games-runs": min(counts), "games": len(gained), "games-gained": sum(gained)}


def numbers(results: Any) -> dict:
    """Everything above, and what a certificate takes: one dictionary from name to number.

    Parameters
    ----------
    results : path-like
        The folder with the folders of records, ``book/results``.

    Returns
    -------
    dict
        With ``pairs-sure``: pairs that a certificate of rho <= 0.1 at 95% needs where all pairs agree.
    """
    results = Path(results)
    law = certification_law(0.0, 0.1)
    return {
        **exponents(),
        **from_cartpole(results / "cartpole"),
        **from_minatar(results / "minatar"),
        "pairs-sure": round(law.mean_pairs),
    }
