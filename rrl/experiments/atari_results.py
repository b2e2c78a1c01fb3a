"""Figure 2 as numbers, from the records of the Atari experiment."""

import numpy as np

from rrl.experiments.atari import VARIANTS
from rrl.experiments.store import unit_key, unpack_array
from rrl.pqn.agreement import agreement_report

__all__ = ["table"]


def table(records):
    """Figure 2 as numbers: one row a game and variant, from the records of `rrl.experiments.atari.main`.

    Parameters
    ----------
    records : list of dict
        As `main` or ``RunStore(folder).records()`` gives them; the expert's run is left out.

    Returns
    -------
    list of dict
        ``game``, ``variant``, ``seeds``, ``steps`` (fewest and most), ``complete``, ``final`` (mean over
        the runs' last 20 training games), ``final_error`` (1.96 standard errors over runs), ``greedy``
        (mean score of greedy games), and what `rrl.pqn.agreement.agreement_report` gives for the hold-out.
    """
    trained = {unit_key(r["unit"]): r for r in records if r["unit"]["experiment"] == "atari"}
    groups = {}
    for record in records:
        unit = record["unit"]
        if unit["experiment"] == "atari-holdout" and unit["run"] in trained:
            own = groups.setdefault((unit["game"], unit["variant"], unit["holdout"]), {})
            own[unit["seed"]] = (trained[unit["run"]], unpack_array(record["result"]["q"]))
    rows = []
    for game, variant, states in sorted(groups, key=lambda g: (g[0], list(VARIANTS).index(g[1]))):
        pairs = [pair for _, pair in sorted(groups[game, variant, states].items())]
        results = [record["result"] for record, _ in pairs]
        finals = np.array([r["final_mean"] for r in results], dtype=float)
        step = pairs[0][0]["unit"]["settings"]["grid_step"]
        rows.append(
            {
                "game": game,
                "variant": variant,
                "holdout": states,
                "seeds": sorted(groups[game, variant, states]),
                "steps": (min(r["steps"] for r in results), max(r["steps"] for r in results)),
                "complete": all(r["complete"] for r in results),
                "final": float(finals.mean()),
                "final_error": float(1.96 * finals.std(ddof=1) / np.sqrt(len(finals))) if len(finals) > 1 else None,
                "greedy": float(np.mean([r["evaluation"]["scores"] for r in results])),
                **agreement_report(np.stack([q for _, q in pairs]), step),
            }
        )
    return rows
