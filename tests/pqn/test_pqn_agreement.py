"""Agreement of policies against brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rrl.pqn.agreement import (
    action_agreement,
    action_gaps,
    agreement_by_gap,
    agreement_report,
    bootstrap_interval,
    rounded_actions,
    tied,
)
from rrl.pqn.network import quantise

matrices = hnp.arrays(np.int64, st.tuples(st.integers(2, 5), st.integers(1, 8)), elements=st.integers(0, 3))
values = hnp.arrays(np.float64, (3, 7, 4), elements=st.floats(-3, 3))


@settings(max_examples=60, deadline=None)
@given(matrices)
def test_against_loops(actions):
    r, n = actions.shape
    pairs = list(itertools.combinations(range(r), 2))
    share = {p: sum(actions[p[0], s] == actions[p[1], s] for s in range(n)) / n for p in pairs}
    got = action_agreement(actions)
    assert got.mean == pytest.approx(np.mean(list(share.values())))
    for (i, j), value in share.items():
        assert got.pairwise[i, j] == got.pairwise[j, i] == pytest.approx(value)
    own = [np.mean([share[p] for p in pairs if i in p]) for i in range(r)]
    assert got.standard_error == pytest.approx(np.std(own, ddof=1) / np.sqrt(r))
    without = [np.mean([share[p] for p in pairs if i not in p]) for i in range(r)] if r > 2 else [np.inf, -np.inf]
    spread = (r - 1) ** 2 / r * np.var(without, ddof=1) if r > 2 else np.inf
    assert got.jackknife_error == pytest.approx(np.sqrt(spread))
    # Fleiss' kappa by its definition: agreeing pairs in each state, chance from pooled shares.
    inside = [sum(actions[i, s] == actions[j, s] for i, j in pairs) / len(pairs) for s in range(n)]
    chance = sum((actions == a).mean() ** 2 for a in range(4))
    assert got.majority == max((actions == a).mean() for a in range(4))
    if chance == 1:
        assert np.isnan(got.fleiss_kappa) and np.isnan(got.cohen_kappa)
        return
    assert got.fleiss_kappa == pytest.approx((np.mean(inside) - chance) / (1 - chance))
    cohen = []
    for i, j in pairs:
        expected = sum((actions[i] == a).mean() * (actions[j] == a).mean() for a in range(4))
        if expected < 1:
            cohen.append((share[i, j] - expected) / (1 - expected))
    assert got.cohen_kappa == pytest.approx(np.mean(cohen))


@pytest.mark.parametrize("r", [3, 6, 15])
def test_jackknife_is_the_error_of_the_mean(r):
    """Runs that take one of two actions with a chance of their own, 1,000 times; fixed seed, error known to 2%."""
    rng = np.random.default_rng(r)

    def favour(r):
        return rng.choice([0.1, 0.8], (r, 1), p=(0.8, 0.2))

    drawn = [action_agreement((rng.random((r, 400)) < favour(r)).astype(int)) for _ in range(1000)]
    true = np.std([a.mean for a in drawn])
    jackknife = np.sqrt(np.mean([a.jackknife_error**2 for a in drawn]))
    assert 0.9 < jackknife / true < (1.5 if r == 3 else 1.2)
    assert np.sqrt(np.mean([a.standard_error**2 for a in drawn])) / true < 0.6


def test_cohen_against_scikit_learn():
    from sklearn.metrics import cohen_kappa_score

    actions = np.random.default_rng(0).integers(4, size=(2, 300))
    actions[1, :120] = actions[0, :120]
    assert action_agreement(actions).cohen_kappa == pytest.approx(cohen_kappa_score(*actions))


def test_is_what_d3rlpy_evaluates():
    """CompareDiscreteActionMatchEvaluator: the share of states with equal greedy actions of two algorithms."""
    d3rlpy = pytest.importorskip("d3rlpy")
    rng = np.random.default_rng(0)
    n, tables = 60, rng.integers(3, size=(2, 60))

    class Fixed:
        observation_scaler = None

        def __init__(self, table):
            self.table = table

        def predict(self, x):
            return self.table[np.asarray(x)[:, 0].astype(int)]

    observations = np.arange(n, dtype=np.float32)[:, None]
    episode = d3rlpy.dataset.Episode(observations, tables[0][:, None], np.zeros((n, 1), np.float32), True)
    dataset = d3rlpy.dataset.create_infinite_replay_buffer([episode])
    evaluator = d3rlpy.metrics.CompareDiscreteActionMatchEvaluator(Fixed(tables[0]))
    assert evaluator(Fixed(tables[1]), dataset) == pytest.approx(action_agreement(tables).mean)


def test_chance_gives_kappa_zero():
    """Independent actions: kappa within 6 standard deviations of 0 (false alarm under 1e-6)."""
    actions = np.random.default_rng(1).choice(3, p=[0.6, 0.3, 0.1], size=(5, 20_000))
    got = action_agreement(actions)
    assert got.mean == pytest.approx(0.46, abs=0.01)
    assert abs(got.fleiss_kappa) < 0.02 and abs(got.cohen_kappa) < 0.02
    assert got.majority == pytest.approx(0.6, abs=0.01)


def test_the_kappa_without_ties():
    """Without ties it is the usual one; where all is tied, runs that break ties by themselves agree by chance."""
    q = np.random.default_rng(2).normal(size=(4, 20_000, 3))
    q[:, ::2] = q[0, ::2]
    report = agreement_report(q, 0.0)
    assert report["kappa_independent"] == report["fleiss_kappa"] == pytest.approx(0.5, abs=0.02)
    report = agreement_report(q, 100.0)
    assert np.isnan(report["fleiss_kappa"]) and abs(report["kappa_independent"]) < 0.02
    # One action in 2,000 states of all runs alike, ties elsewhere.
    q[:, 2_000:] = 0.0
    q[:, :2_000] = [9.0, 0.0, 0.0]
    report = agreement_report(q, 1.0)
    share = np.array([0.4, 0.3, 0.3])
    assert report["kappa_independent"] == pytest.approx((0.4 - share @ share) / (1 - share @ share), abs=0.02)


@settings(max_examples=40, deadline=None)
@given(values, st.sampled_from([0.0, 0.4, 1.0]))
def test_ties_and_actions_against_loops(q, step):
    rounded = quantise(q, step)
    ties, gaps = tied(q, step), action_gaps(q)
    rules = {rule: rounded_actions(q, step, rule, seed=5) for rule in ("first", "shared", "independent")}
    for i, s in itertools.product(range(3), range(7)):
        row = rounded[i, s].tolist()
        best = [a for a in range(4) if row[a] == max(row)]
        assert ties[i, s] == (len(best) > 1)
        assert rules["first"][i, s] == best[0]
        assert rules["shared"][i, s] in best and rules["independent"][i, s] in best
        top = sorted(q[i, s])
        assert gaps[i, s] == top[-1] - top[-2]
    for i, j in itertools.combinations(range(3), 2):
        same = [
            np.array_equal(rounded[i, s] == rounded[i, s].max(), rounded[j, s] == rounded[j, s].max()) for s in range(7)
        ]
        assert (rules["shared"][i] == rules["shared"][j])[same].all()


def test_tie_breaks_are_uniform():
    """Chi-square over 9,000 tied states; 40 on 2 degrees of freedom has probability 2e-9."""
    q = np.zeros((2, 9_000, 3))
    for rule in ("shared", "independent"):
        actions = rounded_actions(q, 0.4, rule)
        counts = np.bincount(actions[0], minlength=3)
        assert ((counts - 3_000) ** 2 / 3_000).sum() < 40
        assert (actions[0] == actions[1]).all() == (rule == "shared")
    assert (rounded_actions(q, 0.4, "shared", 1) != rounded_actions(q, 0.4, "shared", 2)).any()


def test_agreement_by_gap():
    rng = np.random.default_rng(0)
    q = rng.normal(scale=np.linspace(0.1, 3, 50)[None, :, None], size=(4, 50, 3)) + np.arange(3) * 0.5
    actions = q.argmax(-1)
    gaps, agreement = agreement_by_gap(actions, q, 4)
    order = np.argsort(action_gaps(q).mean(0), kind="stable")
    for k, index in enumerate(np.array_split(order, 4)):
        assert gaps[k] == pytest.approx(np.mean([action_gaps(q[:, s]).mean() for s in index]))
        assert agreement[k] == pytest.approx(action_agreement(actions[:, index]).mean)
    assert (np.diff(gaps) > 0).all()
    with pytest.raises(ValueError, match="n_bins"):
        agreement_by_gap(actions, q, 51)


def test_bootstrap_against_loops():
    rng = np.random.default_rng(0)
    pairwise = rng.random((4, 4))
    pairwise = (pairwise + pairwise.T) / 2
    drawn = np.random.default_rng(3).integers(4, size=(500, 4))
    means = []
    for sample in drawn:
        pairs = [pairwise[i, j] for i, j in itertools.permutations(sample, 2) if i != j]
        if pairs:
            means.append(np.mean(pairs))
    want = np.quantile(means, [0.05, 0.95])
    got = bootstrap_interval(pairwise, confidence=0.9, n_resamples=500, seed=3)
    np.testing.assert_allclose(got, want)
    assert got == bootstrap_interval(pairwise, confidence=0.9, n_resamples=500, seed=3)
    assert got != bootstrap_interval(pairwise, confidence=0.9, n_resamples=500, seed=4)
    for confidence in (-0.5, 0.0, 1.0):
        with pytest.raises(ValueError, match="confidence"):
            bootstrap_interval(pairwise, confidence=confidence)


def test_report_tells_ties_from_agreement():
    """Policies that share nothing but a coarse grid agree by ties alone."""
    q = np.random.default_rng(0).normal(scale=0.05, size=(5, 4_000, 3)) + 0.2
    coarse = agreement_report(q + 0.2, 0.4)
    assert coarse["agreement"] > 0.9 and coarse["tie_rate"] > 0.9 and coarse["majority"] > 0.9
    # Ties go to the first action, a single best one to any.
    assert coarse["first_action"] > 0.9 > 0.4 > agreement_report(q)["first_action"] > 0.25
    assert coarse["agreement_independent"] == pytest.approx(1 / 3, abs=0.03)
    plain = agreement_report(q)
    assert plain["tie_rate"] == 0 and plain["unique"] == 1
    assert plain["agreement"] == plain["agreement_unique"] == plain["agreement_shared"]
    assert plain["interval"][0] <= plain["agreement"] <= plain["interval"][1]
    assert np.isnan(agreement_report(np.zeros((2, 5, 3)), 0.4)["agreement_unique"])


@pytest.mark.parametrize(
    "bad", [[[0, 1]], [0, 1], [[0.5, 1], [1, 0]], [[-1, 0], [0, 0]], np.zeros((2, 0), int), np.zeros((3, 2, 2), int)]
)
def test_bad_actions(bad):
    with pytest.raises(ValueError, match="actions must"):
        action_agreement(bad)


def test_bad_values():
    with pytest.raises(ValueError, match="not finite"):
        tied([[np.nan, 0.0]])
    with pytest.raises(ValueError, match="shape"):
        rounded_actions(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="tie_break"):
        rounded_actions(np.zeros((2, 3, 2)), tie_break="last")
    for measure in (tied, rounded_actions, agreement_report):
        with pytest.raises(ValueError, match="grid_step must be a finite number >= 0, got -1"):
            measure(np.zeros((3, 4, 2)), -1)
    for states in ([False, False], [True], [[True, True]]):
        with pytest.raises(ValueError, match="states must choose some of 2 states"):
            action_agreement([[0, 1], [1, 0]], states)
    actions, q = np.zeros((3, 4), int), np.zeros((3, 4, 2))
    for other in (q[:2], q[:, :3], np.zeros((3, 5, 2))):
        with pytest.raises(ValueError, match="q must have one row of values for each"):
            agreement_by_gap(actions, other)
    for bins, words in ((2.5, "n_bins must be an integer"), (5, "n_bins must be between 1 and"), (0, "n_bins must be")):
        with pytest.raises(ValueError, match=words):
            agreement_by_gap(actions, q, bins)
    for measure in (action_gaps, agreement_report):
        with pytest.raises(ValueError, match="q must hold at least two actions"):
            measure(np.zeros((3, 4, 1)))
    for pairwise in (np.ones((1, 1)), np.ones((2, 3)), np.ones(3)):
        with pytest.raises(ValueError, match="pairwise must have shape"):
            bootstrap_interval(pairwise)
    with pytest.raises(ValueError, match="n_resamples must be an integer >= 1, got 0"):
        bootstrap_interval(np.ones((3, 3)), n_resamples=0)


@pytest.mark.parametrize("seed", [None, np.random.default_rng(0), 0.5, -1, True, "0"])
def test_a_seed_is_a_number_that_is_not_used_up(seed):
    q = np.zeros((2, 5, 3))
    for rule in ("first", "independent"):
        with pytest.raises(ValueError, match="seed must be a non-negative integer"):
            rounded_actions(q, tie_break=rule, seed=seed)
    assert (
        rounded_actions(q, tie_break="shared", seed=2**80) == rounded_actions(q, tie_break="shared", seed=2**80)
    ).all()


def test_states_are_chosen_by_booleans():
    actions = [[0, 1, 1], [0, 1, 2]]
    assert action_agreement(actions, [1, 1, 0]).mean == action_agreement(actions, [True, True, False]).mean == 1
    for states in (["True", "True", "False"], [0.5, 1, 0], [0, 1, 2]):
        with pytest.raises(ValueError, match="states must be booleans or 0 and 1"):
            action_agreement(actions, states)


def test_codes_that_overflow_are_refused():
    with pytest.raises(ValueError, match="grid_step=1e-320 is too fine for q"):
        tied([[1.0, 2.0]], 1e-320)
