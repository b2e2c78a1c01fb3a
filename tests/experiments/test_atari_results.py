"""What chapters 10 and 11 read from records: studies kept apart, running means, ties' share, speeds."""

import math
from pathlib import Path

import numpy as np
import pytest

from rrl.book.figure2 import summary, verdict_table
from rrl.experiments.games.atari import EXPERT_SEED, VARIANTS, holdout_unit, units
from rrl.experiments.games.claims import judge
from rrl.experiments.games.results import costs, curves, q_values, share_of_ties, table
from rrl.experiments.store import RunStore, unit_key
from rrl.packing import pack_array
from rrl.pqn import action_agreement, rounded_actions

RECORDED = Path(__file__).parents[2] / "book" / "results" / "atari"


class States:
    """A hold-out's name."""

    def __init__(self, digest):
        self.digest = digest


def made(game, total_steps, n_seeds, *, started="2026-01-01T00:00:00+00:00", seconds=100.0, device="cuda", gpu="G"):
    """Records as the experiment writes them, with the seed in every score."""
    records, rng = [], np.random.default_rng(total_steps)
    for unit in units("reduced", games=[game], total_steps=total_steps, n_seeds=n_seeds):
        k = list(VARIANTS).index(unit["variant"])
        scores = 10.0 * k + unit["seed"] + np.arange(30.0)
        games = {"step": pack_array(np.arange(30, dtype=np.int32) * 8), "score": pack_array(scores.astype(np.float32))}
        result = {"games": games, "final_mean": scores[-20:].mean(), "steps": total_steps, "complete": True}
        result |= {"evaluation": {"scores": [k, k + 2.0]}, "device": device}
        hardware = {"processor": "P", "cores": 4, "gpu": None}
        origin = {"hardware": hardware, "started": started, "seconds": seconds}
        records.append({"unit": unit, "result": result, "provenance": origin})
        q = pack_array(rng.normal(size=(50, 4)).astype(np.float32))
        answer = {"q": q, "source": "recorded:x", "agreement_with_expert": 0.5}
        origin = {**origin, "hardware": {**hardware, "gpu": gpu}}
        records.append({"unit": holdout_unit(unit, States(game)), "result": answer, "provenance": origin})
    return records


def test_studies_never_mix():
    """A longer plan of the same game, and another game, get rows of their own."""
    records = made("breakout", 2048, 3) + made("breakout", 4096, 2) + made("mspacman", 2048, 2)
    rows = table(records)
    assert [(r["game"], r["total_steps"], r["variant"]) for r in rows] == [
        (game, steps, variant)
        for game, steps in (("breakout", 2048), ("breakout", 4096), ("mspacman", 2048))
        for variant in VARIANTS
    ]
    assert [r["seeds"] for r in rows[::4]] == [[0, 1, 2], [0, 1], [0, 1]]
    row = rows[1]  # quantised, the first study
    finals = [10 + seed + np.arange(10, 30).mean() for seed in range(3)]
    assert row["finals"] == finals and row["final_error"] == pytest.approx(1.96 * 1 / math.sqrt(3))
    error = 4.302653 / math.sqrt(3)  # Student's t of two degrees
    assert row["final_interval"] == pytest.approx((finals[1] - error, finals[1] + error))
    assert row["greedy"] == 2 and row["greedy_error"] == 0 and row["expert"] == [0.5] * 3
    stacks = q_values(records)
    assert list(stacks) == [
        ("breakout", 2048, "breakout"),
        ("breakout", 4096, "breakout"),
        ("mspacman", 2048, "mspacman"),
    ]
    q = stacks["breakout", 2048, "breakout"]["quantised"]
    assert q.shape == (3, 50, 4) and row["agreement"] == action_agreement(rounded_actions(q, 0.4)).mean


def test_one_run_has_no_agreement():
    rows = table(made("breakout", 2048, 1))
    assert len(rows) == 4 and "agreement" not in rows[0] and rows[0]["final_error"] is None


def test_curves_are_means_of_the_last_games():
    records = made("breakout", 2048, 2)
    expert = {**records[0], "unit": {**records[0]["unit"], "seed": EXPERT_SEED}}
    found = curves([*records, expert], window=4)
    assert [(c["variant"], c["seed"]) for c in found] == [(v, s) for v in VARIANTS for s in (0, 1)]
    first = found[1]
    want = [1 + np.arange(max(0, k - 3), k + 1).mean() for k in range(30)]
    assert first["score"] == pytest.approx(want) and first["step"].tolist() == list(range(0, 240, 8))


def test_share_of_ties():
    assert share_of_ties(0.2, 0.6, 0.5) == pytest.approx(0.25)
    assert share_of_ties(0.2, 0.6, 0.1) > 1 and share_of_ties(0.2, 0.6, 0.6) == 0
    assert math.isnan(share_of_ties(0.6, 0.6, 0.1))


def test_costs_count_the_wall_clock_once():
    """Eight runs at the same time, four that overlap them, four later; a CPU apart."""
    records = made("breakout", 2000, 2, seconds=100.0)
    records += made("breakout", 4000, 1, started="2026-01-01T00:01:00+00:00", seconds=80.0)
    records += made("mspacman", 1500, 1, started="2026-01-02T00:00:00+00:00", seconds=60.0)
    records += made("mspacman", 1100, 1, device="cpu", gpu=None, seconds=50.0)
    gpu, cpu = costs(records)
    steps = 8 * 2000 + 4 * 4000 + 4 * 1500
    assert (gpu["gpu"], gpu["runs"], gpu["run_steps"]) == ("G", 16, steps)
    assert gpu["hours"] == pytest.approx((140 + 60) / 3600) and gpu["steps_a_second"] == pytest.approx(steps / 200)
    assert gpu["paper_hours"] == pytest.approx(1.2e9 / (steps / 200) / 3600)
    assert cpu["gpu"] is None and cpu["steps_a_second"] == pytest.approx(4 * 1100 / 50)


def test_costs_of_minatar_are_its_own():
    records = made("breakout", 2000, 1, device="cpu", seconds=100.0)
    mine = [{**r, "unit": {**r["unit"], "experiment": "minatar"}} for r in records if "device" in r["result"]]
    (cost,) = costs(records + mine, "minatar")
    assert cost["runs"] == 4 and cost["run_steps"] == 8000 and cost["hours"] == pytest.approx(100 / 3600)
    assert cost["paper_hours"] == pytest.approx(180e6 / 80 / 3600)


def test_runs_that_act_on_unrounded_values_are_compared_unrounded():
    records = made("breakout", 2048, 3)
    for record in records:
        if "settings" in record["unit"]:
            record["unit"]["settings"]["round_acting"] = False
    by_key = {record["unit"].get("variant"): record for record in records if "settings" in record["unit"]}
    assert by_key["quantised"]["unit"]["settings"]["grid_step"] > 0
    # The hold-out records name their runs by key, which the changed settings changed.
    trained = [r for r in records if "settings" in r["unit"]]
    answers = [r for r in records if "settings" not in r["unit"]]
    for run, answer in zip(trained, answers, strict=True):
        answer["unit"]["run"] = unit_key(run["unit"])
    row = next(row for row in table(records) if row["variant"] == "quantised")
    q = next(iter(q_values(records).values()))["quantised"]
    assert row["tie_rate"] == 0 and row["agreement"] == action_agreement(q.argmax(-1)).mean


def test_a_row_as_text():
    row = table(made("breakout", 2048, 3))[1]
    text = summary(row)
    assert text["runs"] == "3" and text["million steps"] == "0.002"
    assert text["return"] == "30.50 (28.02 to 32.98)" and text["return of greedy games"] == "2.00 ± 0.00"
    assert text["the paper's error of the return"] == "± 1.13"
    low, high = row["agreement_interval"]
    assert text["agreement"] == f"{row['agreement']:.2f} ({low:.2f} to {high:.2f})"
    assert text["the paper's error of the agreement"] == f"± {1.96 * row['standard_error']:.2f}"
    # One pair has an agreement and no error of it: a range of length 0 would claim certainty.
    text = summary(table(made("breakout", 2048, 2))[1])
    assert text["agreement"].endswith(", one pair") and text["the paper's error of the agreement"] == "one pair"


def test_a_row_of_runs_that_have_nothing_to_tell():
    """All runs take one action, and one run has not ended a game."""
    records = made("breakout", 2048, 3)
    q = np.zeros((50, 4), np.float32)
    q[:, 2] = 1
    for record in records:
        if "settings" not in record["unit"]:
            record["result"]["q"] = pack_array(q)
    records[2]["result"]["final_mean"] = None
    assert records[2]["unit"]["variant"] == "quantised"
    rows = {row["variant"]: row for row in table(records)}
    text = summary(rows["quantised"])
    assert text["Fleiss' kappa"] == text["Conger's kappa, ties broken at random"] == "not defined"
    assert text["return"].startswith("no game ended") and text["share of the first action"] == "0.00"
    (loss,) = judge(rows)["wrong"][1]
    assert loss.verdict == "cannot tell" and math.isinf(loss.smallest)
    assert "nan" not in "".join(verdict_table({"A": judge(rows)}, brief=False).data.to_numpy().ravel()).lower()


def test_records_that_are_given_twice_count_once():
    records = made("breakout", 2048, 2)
    assert len(curves(records * 2)) == len(curves(records)) == 8
    assert costs(records * 2) == costs(records)


@pytest.mark.parametrize(("ask", "words"), [(q_values, "kind must be"), (costs, "experiment must be")])
def test_an_unknown_kind_is_refused(ask, words):
    with pytest.raises(ValueError, match=f"{words} .* got 'nope'"):
        ask([], "nope")


def test_what_is_recorded():
    """Every record is used, and what the chapter says of ties can be computed."""
    records = RunStore(RECORDED).records()
    rows = table(records)
    trained = [r for r in records if r["unit"]["experiment"] == "atari" and r["unit"]["seed"] != EXPERT_SEED]
    # A run stands in the rows of each hold-out that its network was asked on, once in each.
    runs = {(r["game"], r["variant"], r["total_steps"], seed) for r in rows for seed in r["seeds"]}
    assert len(runs) == len(trained) == len(curves(records))
    assert sum(len(r["seeds"]) for r in rows) == sum(r["unit"]["experiment"] == "atari-holdout" for r in records)
    assert len({unit_key(r["unit"]) for r in trained}) == len(trained)
    for row in rows:
        mine = [c for c in curves(records) if (c["game"], c["variant"]) == (row["game"], row["variant"])]
        lasts = [c["score"][-1] for c in mine if c["total_steps"] == row["total_steps"]]
        assert lasts == pytest.approx(row["finals"])
    assert all(0 < cost["steps_a_second"] < 1e6 for cost in costs(records))
