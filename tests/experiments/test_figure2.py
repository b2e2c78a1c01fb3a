"""Figure 2 from its records: which runs are compared, their numbers by loops, intervals, the parts of agreement."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rrl.experiments.games import atari
from rrl.experiments.games.atari import VARIANTS
from rrl.experiments.games.figure import NAMES, Study, compared, other_states, own_games, studies
from rrl.experiments.games.intervals import (
    change_interval,
    difference_interval,
    jackknife_interval,
    mean_interval,
    ratio_interval,
    t_factor,
)
from rrl.experiments.games.precision import in_float32, repeated
from rrl.experiments.games.results import q_values, table, variants_of
from rrl.experiments.games.runs import holdout_unit
from rrl.experiments.store import RunStore, unit_key
from rrl.packing import pack_array, unpack_array
from rrl.pqn import agreement_report, reasons, rounded_actions
from rrl.pqn.decomposition import RULES

RESULTS = Path(__file__).parents[2] / "book" / "results"


@pytest.fixture(scope="module")
def records():
    return [r for kind in ("minatar", "atari") for r in RunStore(RESULTS / kind).records()]


# Which runs are compared


class States:
    """A hold-out's name."""

    def __init__(self, digest):
        self.digest = digest


def made(seeds, *, steps=500_000, variants=VARIANTS, holdouts=("a",), complete=True, precision="bfloat16"):
    """Records of MsPacman as the study writes them."""
    rng, found = np.random.default_rng(steps), []
    for variant, seed in itertools.product(variants, seeds):
        unit = atari._unit("mspacman", variant, seed, steps, precision)
        games = {"step": pack_array(np.arange(30, dtype=np.int32)), "score": pack_array(np.ones(30, np.float32) * seed)}
        result = {"games": games, "final_mean": 100.0 + seed, "steps": steps, "complete": complete}
        found.append({"unit": unit, "result": result | {"evaluation": {"scores": [1.0, 2.0]}}})
        for digest in holdouts:
            q = pack_array(rng.normal(size=(40, 9)).astype(np.float32))
            source = f"recorded:holdout_mspacman_{digest}.recording" if digest == "long" else "recorded:atari.json"
            answer = {"q": q, "source": source, "agreement_with_expert": 0.5}
            found.append({"unit": holdout_unit(unit, States(digest)), "result": answer})
    return found


def test_with_no_records_there_is_nothing_to_show():
    assert compared([]) == ([], []) and studies([]) == []


def test_a_game_is_shown_from_two_whole_seeds_on():
    old = made([0, 1], steps=81_920, precision="float32")
    for seeds, shown in (([], 0), ([0], 0), ([0, 1], 2), ([0, 1, 2, 3, 4], 5)):
        found, older = compared(old + made(seeds))
        assert [len(study.seeds) for study in found] == ([shown] if shown else [])
        assert [study.total_steps for study in older] == [81_920]
        assert all(set(study.rows()) == set(VARIANTS) for study in found)


def test_a_seed_counts_when_its_four_variants_are_there():
    whole, part = made([0, 1]), made([2], variants=["plain", "both", "quantised"])
    (study,) = studies(whole + part)
    assert study.seeds == (0, 1)
    assert {row["seeds"] == [0, 1] for row in study.rows().values()} == {True}
    assert studies(part) == []


def test_runs_that_were_cut_and_repetitions_in_float32_are_not_compared():
    cut, _ = compared(made([0, 1], complete=False))
    assert cut == []
    # A run that was cut takes its seed out, not the others.
    found, older = compared(made([0, 1, 2]) + made([3], complete=False))
    assert [study.seeds for study in found] == [(0, 1, 2)] and older == []
    again = made([0, 1, 2], variants=["plain", "both"], precision="float32")
    (study,), _ = compared(made([0, 1]) + again)
    assert study.seeds == (0, 1) and {r["unit"].get("variant") for r in study.records} == set(VARIANTS)
    settings = [r["unit"]["settings"] for r in study.records if "settings" in r["unit"]]
    assert {s["precision"] for s in settings} == {"bfloat16"}


def test_lengths_never_mix_and_the_player_s_own_hold_out_is_preferred():
    mixed = made([0, 1], steps=81_920, precision="float32") + made([2, 3])
    assert [(s.total_steps, s.seeds) for s in studies(mixed)] == [(500_000, (2, 3)), (81_920, (0, 1))]
    (study,) = studies(made([0, 1], holdouts=("a", "long", "z")))
    assert study.holdout == "long" and len(study.records) == 8 * 2
    # A set on which fewer whole seeds have answered waits.
    (study,) = studies(made([0, 1]) + made([0], holdouts=("long",)))
    assert study.holdout == "a"


def test_other_games_and_players_say_nothing_of_precision(records):
    """Breakout is a game of both experiments, with plans of one length; a player is always in bfloat16."""
    small = [r for r in records if r["unit"]["experiment"].startswith("minatar")]
    fast = [{**r, "unit": {**r["unit"], "game": "breakout"}} for r in made([0, 1]) if "settings" in r["unit"]]
    names = variants_of(small + fast)
    assert not [name for name in names.values() if "float32" in name] and names == variants_of(small) | variants_of(
        fast
    )
    slow = made([0, 1], steps=2_000_000, precision="float32")
    player = atari._unit("mspacman", "plain", atari.EXPERT_SEED, 2_000_000, "bfloat16")
    assert studies([*slow, {"unit": player}])[0].seeds == (0, 1)


def test_runs_with_other_settings_are_not_averaged():
    runs = made([0, 1])
    odd = next(r for r in runs if r["unit"].get("variant") == "both" and r["unit"]["seed"] == 1)
    answer = next(r for r in runs if r["unit"].get("run") == unit_key(odd["unit"]))
    odd["unit"] = {**odd["unit"], "settings": {**odd["unit"]["settings"], "learning_rate": 0.5}}
    answer["unit"] = {**answer["unit"], "run": unit_key(odd["unit"])}
    with pytest.raises(ValueError, match=r"learning_rate is 0\.5 for seed 1 and 0\.00025 for seed 0"):
        q_values(runs)


def test_own_games_are_used_when_two_runs_of_each_variant_have_answered():
    runs = made([0, 1, 2])
    (study,) = studies(runs)
    rng, own = np.random.default_rng(0), []
    for record in study.records:
        if "settings" in record["unit"]:
            unit = holdout_unit(record["unit"], States("own-0"), "own") | {"block": 0}
            own.append({"unit": unit, "result": {"q": pack_array(rng.normal(size=(20, 9)).astype(np.float32))}})
    found = own_games(runs + own, study)
    assert list(found) == ["own-0"]
    assert {v: q.shape for v, q in found["own-0"].items()} == dict.fromkeys(VARIANTS, (3, 20, 9))
    first = own[0]["unit"]["variant"]
    lost = [record for record in own if record["unit"]["variant"] == first]
    few = own_games([r for r in runs + own if r is not lost[0]], study)
    assert len(few["own-0"][first]) == 2
    assert own_games([r for r in runs + own if r not in lost[:2]], study) == {} == own_games(runs, study)
    # Beside a set with fewer answers, the one with more.
    less = [{**r, "unit": {**r["unit"], "holdout": "own-1", "block": 1}} for r in own if r is not lost[0]]
    assert list(own_games(runs + own + less, study)) == ["own-0"]


def test_the_same_runs_on_the_other_states():
    """The hold-out with most whole seeds but for the study's own, or none."""
    records = made([0, 1, 2], holdouts=("long", "z")) + made([0, 1], holdouts=("y",))
    shorter = made([0, 1, 2, 3], steps=4_096, holdouts=("z", "x"))
    study = next(s for s in studies(records + shorter) if s.total_steps == 500_000)
    assert study.holdout == "long"
    other = other_states(records + shorter, study)
    assert (other.holdout, other.seeds, other.total_steps) == ("z", (0, 1, 2), 500_000)
    assert other_states(made([0, 1, 2], holdouts=("long",)) + shorter, study) is None


# Repetitions in float32


def test_repetitions_by_loops():
    """Of three seeds in both precisions, one more in bfloat16 alone, on two hold-outs."""
    variants, both = ["plain", "both"], ("long", "z")
    fast = made([0, 1, 2, 3], variants=variants, holdouts=both)
    slow = made([0, 1, 2], variants=variants, holdouts=both, precision="float32")
    rng = np.random.default_rng(3)
    for record in fast + slow:
        if "settings" in record["unit"]:
            record["result"]["final_mean"] = float(rng.integers(100, 2_000))
        else:
            q = rng.normal(scale=0.4, size=(40, 9)).astype(np.float32)
            record["result"]["q"] = pack_array(q)
    rows = in_float32(slow + fast, Study("atari", "mspacman", 500_000, "long", (0, 1, 2, 3), True, []))
    alone = {row["variant"]: row for row in table(slow) if row["holdout"] == "long"}
    assert rows == {name: {**row, "variant": f"{name}, float32"} for name, row in alone.items()}
    assert list(rows) == ["plain", "both"] and rows["both"]["seeds"] == [0, 1, 2]
    plain, rounded = repeated(slow + fast)
    assert (plain.variant, rounded.variant) == ("plain", "both") and plain.seeds == rounded.seeds == [0, 1, 2]
    assert plain.game == "mspacman" and plain.total_steps == 500_000
    for found, step in ((plain, 0.0), (rounded, 0.4)):
        scores, actions = {}, {}
        for name, own in (("float32", slow), ("bfloat16", fast)):
            runs = {unit_key(r["unit"]): r for r in own if r["unit"]["variant"] == found.variant}
            for record in runs.values():
                unit = record["unit"]
                if unit["seed"] == 3:
                    continue
                if "settings" in unit:
                    scores[name, unit["seed"]] = record["result"]["final_mean"]
                elif unit["holdout"] == "long":
                    q = unpack_array(record["result"]["q"])
                    code = np.floor(q / np.float32(step) + np.float32(0.5)) if step else q
                    actions[name, unit["seed"]] = code.argmax(-1)

        def agree(one, other, seeds, actions=actions):
            pairs = [(i, j) for i in seeds for j in seeds if i != j]
            return np.mean([(actions[one, i] == actions[other, j]).mean() for i, j in pairs])

        changes = [scores["bfloat16", seed] - scores["float32", seed] for seed in range(3)]
        test = stats.ttest_1samp(changes, 0).confidence_interval(0.95)
        assert found.change == pytest.approx(np.mean(changes)) and found.change_interval == pytest.approx(tuple(test))
        for name in ("float32", "bfloat16"):
            assert found.returns[name] == pytest.approx(np.mean([scores[name, seed] for seed in range(3)]))
            assert found.agreements[name] == pytest.approx(agree(name, name, range(3)))

        def shift(seeds):
            return agree("bfloat16", "bfloat16", seeds) - agree("float32", "float32", seeds)

        parts = np.array([shift([1, 2]), shift([0, 2]), shift([0, 1])])
        error = stats.t.ppf(0.975, 2) * np.sqrt(2 / 3 * ((parts - parts.mean()) ** 2).sum())
        assert found.agreement_change == pytest.approx(shift(range(3)))
        ends = np.clip([shift(range(3)) - error, shift(range(3)) + error], -1, 1)
        assert found.agreement_interval == pytest.approx(tuple(ends))
        itself = np.mean([(actions["float32", seed] == actions["bfloat16", seed]).mean() for seed in range(3)])
        assert found.itself == pytest.approx(itself)
        assert found.others == pytest.approx(agree("float32", "bfloat16", range(3)))


def test_one_seed_in_both_precisions_is_no_comparison_and_two_say_nothing_of_agreement():
    fast = made([0, 1, 2], holdouts=("long",))
    assert repeated(fast) == repeated(fast + made([2], holdouts=("long",), precision="float32")) == []
    # Another length, or another hold-out, is no repetition.
    assert repeated(fast + made([0, 1], steps=81_920, holdouts=("long",), precision="float32")) == []
    assert repeated(fast + made([0, 1], precision="float32")) == []
    slow = made([0, 2], variants=["both"], holdouts=("long",), precision="float32")
    # Where the processor had no bfloat16, both runs are the same.
    fallen = [{**r, "result": {**r["result"], "precision": "float32"}} if "settings" in r["unit"] else r for r in fast]
    assert repeated(fallen + slow) == []
    (found,) = repeated(fast + slow)
    assert found.seeds == [0, 2] and found.agreement_interval == (-1.0, 1.0)


def test_the_recorded_comparisons(records):
    shown, older = compared(records)
    assert [s.key for s in shown] == list(NAMES)
    assert all(len(s.seeds) == 15 and s.total_steps == 1_000_000 and s.equal for s in shown[:3])
    assert all(s.total_steps == 500_000 and s.equal for s in shown[3:])
    assert ("atari", "breakout") in {s.key for s in older if not s.equal}


# Its numbers, from the records by loops


def test_the_figure_from_the_records_by_loops(records):
    """Return, agreement and agreement with ties at random of every point, without the package's own functions."""
    shown, _ = compared(records)
    runs = {unit_key(r["unit"]): r for r in records if "settings" in r["unit"]}
    for study in shown:
        for variant, row in study.rows().items():
            answers = [
                r
                for r in records
                if r["unit"].get("run") in runs
                and r["unit"]["holdout"] == study.holdout
                and runs[r["unit"]["run"]]["unit"]["variant"] == variant
                and "choice" not in runs[r["unit"]["run"]]["unit"]
                and r["unit"]["seed"] in study.seeds
                and runs[r["unit"]["run"]]["unit"]["settings"]["total_steps"] == study.total_steps
                and runs[r["unit"]["run"]]["unit"]["settings"].get("precision", "float32")
                == ("bfloat16" if study.experiment == "atari" else "float32")
            ]
            assert len(answers) == len(study.seeds)
            scores, chosen, best = [], [], []
            for answer in answers:
                run = runs[answer["unit"]["run"]]
                scores.append(unpack_array(run["result"]["games"]["score"])[-20:].astype(float).mean())
                q = unpack_array(answer["result"]["q"])
                step = np.float32(run["unit"]["settings"]["grid_step"])
                code = np.floor(q / step + np.float32(0.5)) if step else q
                best.append([np.flatnonzero(line == line.max()) for line in code])
                chosen.append([actions[0] for actions in best[-1]])
            pairs = list(itertools.combinations(range(len(answers)), 2))
            same = [np.mean(np.equal(chosen[i], chosen[j])) for i, j in pairs]
            own = [
                np.mean([len(np.intersect1d(a, b)) / len(a) / len(b) for a, b in zip(best[i], best[j], strict=True)])
                for i, j in pairs[:20]
            ]
            assert row["final"] == pytest.approx(np.mean(scores))
            assert row["agreement"] == pytest.approx(np.mean(same))
            matrix = reasons(
                np.stack([unpack_array(answer["result"]["q"]) for answer in answers]), row["grid_step"]
            ).pairwise["independent"]
            assert [matrix[pair] for pair in pairs[:20]] == pytest.approx(own)
            assert row["own"] == pytest.approx(np.mean([matrix[pair] for pair in pairs]))
            error = stats.t.ppf(0.975, len(scores) - 1) * stats.sem(scores)
            assert row["final_interval"] == pytest.approx((max(0, np.mean(scores) - error), np.mean(scores) + error))


def test_the_parts_add_up_and_every_interval_of_a_share_stays_in_0_to_1(records):
    shown, older = compared(records)
    for study in [*shown, *older]:
        for row in study.rows().values():
            assert row["state"] + row["chance"] + row["ties"] == pytest.approx(row["agreement"], abs=1e-12)
            for name in ("agreement", "own", "shared"):
                low, high = row[f"{name}_interval"]
                assert 0 <= low <= row[name] <= high <= 1
            assert row["final_interval"][0] >= 0


# The parts of an agreement


def test_reasons_by_drawing():
    """Exact agreements are the means of drawn ones; 400 draws of each rule, 5 standard errors allowed."""
    q = np.random.default_rng(1).normal(size=(3, 60, 4))
    why = reasons(q, 1.0)
    assert 0.3 < why.tie_rate < 0.9
    for rule in RULES:
        drawn = []
        for seed in range(400):
            actions = rounded_actions(q, 1.0, rule, seed)
            drawn.append(np.mean([(actions[i] == actions[j]).mean() for i, j in ((0, 1), (0, 2), (1, 2))]))
        assert abs(np.mean(drawn) - why.agreement(rule)) <= 5 * np.std(drawn) / 20 + 1e-12
    report = agreement_report(q, 1.0)
    assert report["agreement"] == pytest.approx(why.agreement()) and report["tie_rate"] == pytest.approx(why.tie_rate)


def test_reasons_of_known_runs():
    """Runs without ties; runs that are indifferent; runs with one favourite."""
    rng = np.random.default_rng(2)
    q = rng.normal(size=(4, 300, 3))
    plain = reasons(q)
    assert plain.ties() == 0 and plain.single == 1 and plain.same == pytest.approx(plain.agreement())
    assert plain.state + plain.chance == pytest.approx(plain.agreement())
    indifferent = reasons(q, 1e3)
    assert indifferent.agreement() == 1 == indifferent.tie_rate and indifferent.single == 0
    assert indifferent.agreement("independent") == pytest.approx(1 / 3) == indifferent.chance
    assert indifferent.state == pytest.approx(0, abs=1e-12) and indifferent.ties() == pytest.approx(2 / 3)
    habit = reasons(q + np.array([0, 100.0, 0]))
    assert habit.chance == habit.agreement() == 1 and habit.state == 0
    # The same decisions in different states: all of what chance leaves.
    same = np.eye(3)[np.arange(300) % 3][None].repeat(4, 0)
    assert reasons(same).state == pytest.approx(2 / 3) and reasons(same).chance == pytest.approx(1 / 3)


def test_runs_that_never_look_agree_by_chance_alone():
    """Chance is a mean over pairs of different runs: no part of the state is left, whatever their favourites."""
    apart = np.zeros((2, 100, 2))
    apart[0, :, 0] = apart[1, :, 1] = 1
    assert reasons(apart).chance == 0 == reasons(apart).state
    rng, found = np.random.default_rng(7), []
    for _ in range(400):
        habits = rng.dirichlet([0.5] * 4, size=3)
        q = np.array([np.eye(4)[rng.choice(4, size=50, p=habit)] for habit in habits])
        why = reasons(q)
        mine = [np.bincount(row.argmax(-1), minlength=4) / 50 for row in q]
        assert why.chance == pytest.approx(np.mean([a @ b for a, b in itertools.combinations(mine, 2)]))
        found.append(why.state)
    # 4 standard errors: one seed in 16,000.
    assert abs(np.mean(found)) < 4 * np.std(found) / 20


def test_a_rule_or_a_run_that_is_not_there_is_named():
    why = reasons(np.eye(3)[None].repeat(3, 0))
    with pytest.raises(ValueError, match="rule must be 'first', 'shared' or 'independent', got 'random'"):
        why.agreement("random")
    for run in (3, -1, 0.5):
        with pytest.raises(ValueError, match=rf"run must .*, got {run}"):
            why.without(run)


def test_leaving_a_run_out_is_asking_the_others():
    q = np.random.default_rng(3).normal(size=(5, 80, 4))
    why = reasons(q, 0.7)
    for run in range(5):
        few, fewer = why.without(run), reasons(np.delete(q, run, 0), 0.7)
        for rule in RULES:
            assert few.agreement(rule) == pytest.approx(fewer.agreement(rule))
        assert few.state == pytest.approx(fewer.state) and few.ties() == pytest.approx(fewer.ties())


@pytest.mark.parametrize("q", [np.zeros((1, 3, 2)), np.zeros((3, 2)), np.zeros((2, 0, 2)), np.zeros((2, 3, 0))])
def test_too_few_runs_or_states_are_refused(q):
    with pytest.raises(ValueError, match="q must have shape"):
        reasons(q)


# Intervals


def test_a_mean_s_interval():
    assert mean_interval([3.0]) == (0.0, float("inf"))
    low, high = mean_interval([1.0, 2.0])
    assert low == 0 and high == pytest.approx(1.5 + 12.706 * 0.5, abs=1e-3)
    values = [10.0, 11.0, 12.5, 9.5]
    assert mean_interval(values) == pytest.approx(
        stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    )
    assert stats.t.cdf(t_factor(5), 4) == pytest.approx(0.975)


def test_one_pair_says_nothing():
    assert jackknife_interval(0.9, []) == (0.0, 1.0) and jackknife_interval(0.2, [], share=False) == (-1.0, 1.0)
    why = reasons(np.random.default_rng(0).normal(size=(2, 50, 3)), 0.5)
    assert change_interval(lambda w: w.state, why) == (-1.0, 1.0)


def test_runs_that_are_all_alike_may_have_missed_another_kind():
    """At p = .025^(1/n) all n runs are of the kind of probability p in 2.5% of studies; a pair is then in p^2."""
    assert jackknife_interval(1.0, [1.0, 1.0, 1.0]) == pytest.approx((0.025 ** (2 / 3), 1))
    assert jackknife_interval(0.0, [0.0] * 15) == pytest.approx((0, 1 - 0.025 ** (2 / 15)))
    assert jackknife_interval(0.0, [0.0] * 15, share=False) == (0, 0), "plain runs have no ties at all"


@pytest.mark.parametrize(("n", "p"), [(3, 0.9), (5, 0.9), (15, 0.9), (3, 0.7), (5, 0.7), (15, 0.7)])
def test_habits_of_two_kinds_are_covered(n, p):
    """Exactly: the chance, over the number of runs of one kind, that the interval holds the true agreement."""
    truth, covered = p**2 + (1 - p) ** 2, 0.0

    def agreement(k, n):
        return (k * (k - 1) + (n - k) * (n - k - 1)) / (n * (n - 1))

    for k in range(n + 1):
        without = [agreement(k - 1, n - 1)] * k + [agreement(k, n - 1)] * (n - k)
        low, high = jackknife_interval(agreement(k, n), without)
        covered += stats.binom.pmf(k, n, p) * (low <= truth <= high)
    assert covered >= 0.85


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.05])
@pytest.mark.parametrize(("n", "p"), [(3, 0.9), (5, 0.95), (5, 0.9), (5, 0.8), (15, 0.95), (15, 0.9)])
def test_habits_with_noise_are_covered(n, p, noise):
    """Runs that differ in a few states are still of one kind: without room for another, 40% of intervals held it."""
    few = noise * np.arange(1, n + 1) / n
    truth, covered = (p**2 + (1 - p) ** 2) * (1 - 2 * few.mean()), 0.0
    for k in range(n + 1):
        kinds = np.arange(n) < k
        pairs = (kinds[:, None] == kinds) * (1 - few[:, None] - few)

        def mean(kept, pairs=pairs):
            part = pairs[np.ix_(kept, kept)]
            return part[~np.eye(len(kept), dtype=bool)].mean()

        runs = np.arange(n)
        low, high = jackknife_interval(mean(runs), [mean(np.delete(runs, run)) for run in runs])
        covered += stats.binom.pmf(k, n, p) * (low <= truth <= high)
    assert covered >= 0.9


def test_parts_of_runs_of_one_kind_leave_room_too():
    """Five runs that take one action nearly everywhere: nothing about the state, but other runs may be otherwise."""
    q = np.tile([1.0, 0.0, 0.0], (5, 400, 1))
    q[0, 0], q[1, 1] = [0, 1, 0], [0, 0, 1]
    why = reasons(q, 0.0)
    low, high = change_interval(lambda w: w.state, why)
    assert why.agreement() > 0.9 and low < -0.5 and high > 0.5
    # Runs of different habits have no ties at all, and so have others.
    assert change_interval(lambda w: w.ties(), reasons(np.random.default_rng(0).normal(size=(5, 50, 3)), 0.0)) == (0, 0)


def test_shares_never_leave_0_to_1():
    rng = np.random.default_rng(4)
    for _ in range(200):
        parts = rng.random(rng.integers(3, 8))
        low, high = jackknife_interval(parts.mean(), parts)
        assert 0 <= low <= parts.mean() <= high <= 1


@pytest.mark.parametrize(("habit", "n"), [(0.0, 3), (0.7, 3), (3.0, 3), (0.7, 5), (0.7, 15)])
def test_agreements_are_covered(habit, n):
    """At least 90% of 300 intervals hold the truth; with a true 95% each of the five fails in 1 of 8,000 seeds.

    Runs have common preferences in each of 60 states, favourites of their own and noise; the truth is the mean over
    all pairs of 500 runs.
    """
    rng = np.random.default_rng([n, int(10 * habit)])
    states = rng.normal(size=(60, 4))

    def act(runs):
        return (states + habit * rng.normal(size=(runs, 1, 4)) + rng.normal(size=(runs, 60, 4))).argmax(-1)

    def pairs(actions):
        counts = (actions[:, :, None] == np.arange(4)).sum(0)
        r = len(actions)
        return (counts * (counts - 1)).sum() / (r * (r - 1) * actions.shape[1])

    truth, hits = pairs(act(500)), 0
    for _ in range(300):
        actions = act(n)
        low, high = jackknife_interval(pairs(actions), [pairs(np.delete(actions, run, 0)) for run in range(n)])
        hits += low <= truth <= high
    assert hits >= 270


def test_differences_combine_two_intervals():
    """For symmetric intervals the usual root of squares; shares never differ by more than 1."""
    assert difference_interval(5.0, (4.0, 6.0), 2.0, (0.0, 4.0)) == pytest.approx((3 - 5**0.5, 3 + 5**0.5))
    rng = np.random.default_rng(5)
    for _ in range(300):
        a, b = np.sort(rng.random((2, 3)), axis=1)
        low, high = difference_interval(a[1], (a[0], a[2]), b[1], (b[0], b[2]))
        assert -1 <= low <= a[1] - b[1] <= high <= 1
    assert difference_interval(0.9, (0.0, 1.0), 0.1, (0.0, 1.0))[0] < 0


def test_a_ratio_s_ends_are_where_the_difference_s_interval_ends_at_nothing():
    rng = np.random.default_rng(6)
    for _ in range(300):
        a, b = rng.uniform(0.1, 10, 2)
        one, other = ((x * rng.random(), x + rng.exponential(5)) for x in (a, b))
        low, high = ratio_interval(a, one, b, other)
        assert 0 <= low < a / b < high
        for r, end in ((low, 0), (high, 1)):
            found = difference_interval(a, one, r * b, (r * other[0], r * other[1]))
            assert found[end] == pytest.approx(0, abs=1e-6 * (1 + r) * (a + b + one[1] + other[1]))
    # No limit where the denominator may be nothing, none below where the numerator may.
    assert ratio_interval(5.0, (4.0, 6.0), 2.0, (0.0, 4.0))[1] == np.inf
    assert ratio_interval(5.0, (0.0, 10.0), 2.0, (1.0, 3.0))[0] == 0.0
    assert ratio_interval(5.0, (4.0, 6.0), 2.0, (0.0, np.inf)) == (0.0, np.inf)


@pytest.mark.parametrize("gain", [0.3, 1.0, 3.0])
def test_relative_returns_are_covered(gain):
    """At least 92% of 2,000 intervals of five runs' ratio hold it; 95% with an error of .5%: six errors."""
    rng, hits = np.random.default_rng(int(10 * gain)), 0
    for _ in range(2_000):
        one, other = gain * rng.normal(100, 15, 5), rng.normal(100, 15, 5)
        low, high = ratio_interval(one.mean(), mean_interval(one), other.mean(), mean_interval(other))
        hits += low <= gain <= high
    assert hits >= 1_840
