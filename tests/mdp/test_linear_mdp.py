"""Definition 2.1: validation, dynamic programming against enumeration, sampling by draw and by count."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rrl import LinearMDP
from rrl.mdp.counts import EXACT_PIECE, NORMAL_VARIANCE, _limit_binomial, cumulative, multinomial_counts
from rrl.mdp.linear_mdp import greedy_actions

ALARM = 1e-6


def small(seed=0, **sizes):
    sizes = {"n_states": 7, "n_actions": 3, "dim": 4, "horizon": 5, **sizes}
    return LinearMDP.random(**sizes, rng=np.random.default_rng(seed))


def parts(mdp):
    return [np.array(a) for a in (mdp.features, mdp.measures, mdp.rewards, mdp.initial)]


# Validation.


def test_what_is_given_is_kept_read_only_and_the_tables_follow_from_it():
    mdp = small()
    assert (mdp.n_states, mdp.n_actions, mdp.dim, mdp.horizon) == (7, 3, 4, 5)
    assert repr(mdp) == "LinearMDP(n_states=7, n_actions=3, dim=4, horizon=5)"
    h, s, a, t = 4, 6, 2, 3
    assert mdp.transitions[h, s, a, t] == pytest.approx(mdp.features[s, a] @ mdp.measures[h, :, t], abs=1e-14)
    assert mdp.rewards_table[h, s, a] == pytest.approx(mdp.features[s, a] @ mdp.rewards[h], abs=1e-14)
    assert np.allclose(mdp.transitions.sum(axis=3), 1, atol=1e-14)
    with pytest.raises(ValueError, match="read-only"):
        mdp.features[0, 0, 0] = 1


def only_at(place, value, array):
    array[place] = value
    return array


def broken(change):
    features, measures, rewards, initial = parts(LinearMDP.tabular(*tabular_parts()))
    arrays = {"features": features, "measures": measures, "rewards": rewards, "initial": initial}
    change(arrays)
    return lambda: LinearMDP(**arrays)


def tabular_parts(seed=0, horizon=4, n_states=3, n_actions=2):
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(n_states), size=(horizon, n_states, n_actions))
    return transitions, rng.uniform(size=(horizon, n_states, n_actions)), rng.dirichlet(np.ones(n_states))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["features"].__setitem__((2, 1), 1.0), r"features at \(s, a\)=\(2, 1\) have norm 2.449"),
        (lambda m: m["rewards"].__setitem__((3, 5), 1.5), r"reward at stage h=3, \(s, a\)=\(2, 1\) is 1.5"),
        (lambda m: m["rewards"].__setitem__((1, 0), -0.1), r"reward at stage h=1, \(s, a\)=\(0, 0\) is -0.1"),
        (lambda m: m["rewards"].__setitem__(2, 3.0), r"rewards \(theta\) at stage h=2 have norm 7.348"),
        (lambda m: m["measures"].__setitem__((1, 3), [3, 3, 3]), r"measures of all states at stage h=1 have norm"),
        (
            lambda m: m["measures"].__setitem__((2, 3), [1.25, -0.25, 0]),
            r"transition at stage h=2 from \(s, a\)=\(1, 1\) to state 1 has probability -0.25",
        ),
        (
            lambda m: m["measures"].__setitem__((3, 2), [0.5, 0.25, 0]),
            r"transitions at stage h=3 from \(s, a\)=\(1, 0\) sum to 0.75",
        ),
        (lambda m: m.__setitem__("initial", [1.5, -0.5, 0]), "initial has probability -0.5 at state 1"),
        (lambda m: m.__setitem__("initial", [0.5, 0.25, 0]), "initial sums to 0.75"),
        (lambda m: m.__setitem__("initial", [0.5, 0.5]), r"initial must have shape \(3,\)"),
        (lambda m: m.__setitem__("rewards", np.ones(6)), r"rewards must have shape"),
        (lambda m: m.__setitem__("rewards", 1.0), r"rewards must have shape"),
        (lambda m: m.__setitem__("measures", m["measures"][:2]), r"measures must have shape \(4, 6, 3\)"),
        (lambda m: m.__setitem__("features", np.ones(3)), r"features must have shape \(S, A, d\)"),
        (lambda m: m["measures"].__setitem__((0, 0, 0), np.nan), r"measures holds nan at index \(0, 0, 0\)"),
    ],
)
def test_what_breaks_the_definition_is_named_by_stage_and_entry(change, message):
    with pytest.raises(ValueError, match=message):
        broken(change)()


def test_the_measure_of_all_states_may_reach_the_bound_but_not_pass_it():
    assert LinearMDP.boundary_lock().dim == 8
    features, measures, rewards, initial = parts(LinearMDP.boundary_lock())
    with pytest.raises(ValueError, match="measures of all states at stage h=0"):
        LinearMDP(features[..., :7], measures[:, :7], rewards[:, :7], initial)


def test_a_zero_probability_that_came_out_as_rounding_noise_is_exactly_zero():
    features, measures, rewards, initial = parts(LinearMDP.chain(n_states=4, horizon=3, slip=0.0))
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
    mdp = LinearMDP(features @ turn.T, np.matmul(turn, measures), rewards @ turn.T, initial)
    assert np.count_nonzero(mdp.transitions) == 3 * 4 * 2
    # What is given exactly stays, however small.
    tiny = LinearMDP.tabular([[[[1 - 1e-17, 1e-17]], [[0.0, 1.0]]]], [[[0.0], [0.0]]], [1.0, 0.0])
    assert tiny.transitions[0, 0, 0, 1] == 1e-17


# Dynamic programming.


def enumerate_value(mdp, policy):
    """Expected return by listing every trajectory."""
    total = 0.0
    for path in itertools.product(range(mdp.n_states), repeat=mdp.horizon):
        chance, gain = mdp.initial[path[0]], 0.0
        for h, s in enumerate(path):
            a = policy[h][s]
            gain += mdp.features[s, a] @ mdp.rewards[h]
            if h + 1 < mdp.horizon:
                chance *= mdp.features[s, a] @ mdp.measures[h, :, path[h + 1]]
        total += chance * gain
    return total


@given(st.integers(0, 1000))
def test_policy_values_are_those_of_all_trajectories(seed):
    mdp = small(seed, n_states=4, n_actions=2, dim=3, horizon=5)
    policy = np.random.default_rng(seed).integers(2, size=(5, 4))
    assert mdp.policy_values(policy).start == pytest.approx(enumerate_value(mdp, policy), abs=1e-12)


def test_the_optimal_value_is_the_best_of_all_policies():
    mdp = small(3, n_states=3, n_actions=2, dim=4, horizon=2)
    policies = [np.reshape(p, (2, 3)) for p in itertools.product(range(2), repeat=6)]
    best = mdp.optimal_values()
    assert best.start == pytest.approx(max(enumerate_value(mdp, p) for p in policies), abs=1e-12)
    assert best.start == pytest.approx(mdp.policy_values(best.policy).start, abs=1e-14)
    # From every state at every stage, not only at the start.
    assert all((best.v >= mdp.policy_values(p).v - 1e-12).all() for p in policies)


def test_a_stochastic_policy_averages_over_its_actions_and_occupancy_gives_the_same_value():
    mdp = small(4)
    rng = np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(3), size=(5, 7))
    values = mdp.policy_values(policy)
    assert np.allclose(values.v[:-1], (values.q * policy).sum(axis=2))
    visits = mdp.occupancy(policy)
    assert np.allclose(visits.sum(axis=(1, 2)), 1)
    assert (visits * mdp.rewards_table).sum() == pytest.approx(values.start, abs=1e-12)
    sure = rng.integers(3, size=(5, 7))
    assert mdp.policy_values(sure).start == pytest.approx(mdp.policy_values(np.eye(3)[sure]).start, abs=1e-14)
    assert np.array_equal(mdp.occupancy(sure), mdp.occupancy(np.eye(3)[sure]))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.full((5, 7), 3), r"policy at stage h=0, state 0 is 3, no action"),
        (np.full((5, 7), -1), "no action"),
        (np.full((5, 7), 0.5), "no action"),
        (np.zeros((7, 5), dtype=int), r"policy must have shape"),
        (np.full((5, 7, 3), 0.3), r"stage h=0, state 0 is no distribution"),
        (only_at((3, 2), 3, np.zeros((5, 7), dtype=int)), r"policy at stage h=3, state 2 is 3, no action"),
        (only_at((3, 2), 0.0, np.full((5, 7, 3), 1 / 3)), r"policy at stage h=3, state 2 is no distribution"),
    ],
)
def test_policies_that_are_none_are_refused(policy, message):
    with pytest.raises(ValueError, match=message):
        small().policy_values(policy)


@given(st.integers(0, 1000))
def test_propositions_2_1_and_2_2_on_random_models(seed):
    mdp = small(seed, n_states=6, n_actions=3, dim=4, horizon=5)
    policy = np.random.default_rng(seed).integers(3, size=(5, 6))
    weights = mdp.policy_weights(policy)
    assert np.allclose(np.einsum("sad,hd->hsa", mdp.features, weights), mdp.policy_values(policy).q, atol=1e-12)
    assert np.linalg.norm(weights, axis=1).max() <= 2 * 5 * np.sqrt(4)


@pytest.mark.parametrize("gap", [0.1, 0.01, 1e-4])
def test_proposition_2_2_as_printed_fails_where_signed_measures_cancel(gap):
    mdp = LinearMDP.steep_measure(gap=gap)
    assert np.linalg.norm(mdp.measures.sum(axis=2), axis=1).max() <= np.sqrt(3)
    best = mdp.optimal_values()
    weights = mdp.policy_weights(best.policy)
    assert weights[0, 1] == pytest.approx(0.34 / gap)
    # The features span R^3, so no other weights give these action values.
    flat = mdp.features.reshape(-1, 3)
    assert np.linalg.matrix_rank(flat) == 3
    assert np.allclose(np.linalg.lstsq(flat, best.q[0].ravel())[0], weights[0])
    if gap < 0.04:
        assert np.linalg.norm(weights[0]) > 2 * 2 * np.sqrt(3)


# Sampling.


def chi_squared_accepts(observed, expected):
    keep = expected > 0
    assert (observed[~keep] == 0).all()
    if keep.sum() == 1:
        return np.array_equal(observed[keep], np.round(expected[keep]))
    statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    return statistic < stats.chi2.isf(ALARM, keep.sum() - 1)


@pytest.mark.parametrize("n_states", [1, 2, 3, 7, 8, 13])
def test_draws_and_counts_both_follow_the_transition_probabilities(n_states, rng):
    transitions, rewards, initial = tabular_parts(n_states, 2, n_states, 3)
    transitions[..., n_states // 2] = 0 if n_states > 1 else 1
    transitions /= transitions.sum(axis=3, keepdims=True)
    mdp = LinearMDP.tabular(transitions, rewards, initial)
    n, s, a = 30_000, n_states - 1, 2
    expected = n * mdp.transitions[1, s, a]
    drawn = np.bincount(mdp.sample(1, np.full(n, s), a, rng), minlength=n_states)
    counts = np.zeros((n_states, 3), dtype=int)
    counts[s, a], counts[0, 0] = n, 5
    table = mdp.sample_counts(1, counts, rng)
    assert table.shape == (n_states, 3, n_states) and np.array_equal(table.sum(axis=2), counts)
    assert chi_squared_accepts(drawn, expected) and chi_squared_accepts(table[s, a], expected)
    assert chi_squared_accepts(np.bincount(mdp.sample_start(n, rng), minlength=n_states), n * mdp.initial)
    assert chi_squared_accepts(mdp.start_counts(n, rng), n * mdp.initial)


def test_the_joint_law_of_counts_is_multinomial(rng):
    """Every outcome of 4 draws from 3 values, not only the marginals."""
    chances, n, repeats = np.array([0.2, 0.5, 0.3]), 4, 40_000
    table = multinomial_counts(np.full(repeats, n), np.tile(chances, (repeats, 1)), rng)
    outcomes = [(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)]
    observed = np.array([(table == o).all(axis=1).sum() for o in outcomes])
    assert chi_squared_accepts(observed, repeats * stats.multinomial(n, chances).pmf(outcomes))


def test_scalar_draws_are_ints_and_arguments_are_checked(rng):
    mdp = small()
    assert type(mdp.sample(0, 1, 2, rng)) is int
    assert mdp.sample(0, [[0], [1]], [0, 1, 2], rng).shape == (2, 3)
    assert mdp.sample(0, np.empty(0, dtype=int), 0, rng).shape == (0,)
    for call, message in [
        (lambda: mdp.sample(5, 0, 0, rng), r"h must lie in \[0, 5\), got 5"),
        (lambda: mdp.sample(0, 7, 0, rng), r"s must hold integers in \[0, 7\)"),
        (lambda: mdp.sample(0, 0, -1, rng), r"a must hold integers in \[0, 3\)"),
        (lambda: mdp.sample(0, 0.5, 0, rng), r"s must hold integers"),
        (lambda: mdp.sample_counts(0, np.ones((3, 7)), rng), r"counts must have shape \(7, 3\)"),
        (lambda: mdp.sample_counts(0, np.full((7, 3), -1), rng), r"whole numbers >= 0, got -1 at index \(0, 0\)"),
        (lambda: mdp.sample_counts(0, np.full((7, 3), 0.5), rng), "whole numbers"),
        (lambda: mdp.sample_counts(0, np.full((7, 3), np.inf), rng), "whole numbers"),
        (lambda: mdp.sample_counts(0, np.full((7, 3), "x"), rng), "must hold numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("n", [EXACT_PIECE, EXACT_PIECE + 1, 10**18, 2**63 - 1])
@pytest.mark.parametrize("p", [0.5, 0.3, 1e-3, 1e-16])
def test_counts_of_up_to_nine_quintillion_draws_have_binomial_moments_and_tails(n, p, rng, acceptance):
    """Numpy's own binomial fails at 9.2e18: 7.4% of its draws lie beyond two deviations in place of 4.6%."""
    repeats = 1500
    table = multinomial_counts(np.full(repeats, n), np.tile([1 - p, p], (repeats, 1)), rng)
    assert table.dtype == np.int64 and (table.sum(axis=1) == n).all()
    if p == 1e-16:
        law = stats.poisson(n * p)
        assert (
            stats.chisquare(*[np.append(a, repeats - a.sum()) for a in pool(table[:, 1], law, repeats)]).pvalue > ALARM
        )
        return
    # The mean as an exact integer, so that the difference keeps its digits.
    numerator, denominator = p.as_integer_ratio()
    z = (table[:, 1] - n * numerator // denominator) / np.sqrt(n * p * (1 - p))
    assert stats.kstest(z, "norm").pvalue > ALARM
    for limit in (1.0, 2.0):
        low, high = acceptance(repeats, 2 * stats.norm.sf(limit), ALARM)
        assert low <= (np.abs(z) > limit).sum() <= high
    assert chi_squared_accepts(np.bincount(table[:, 0] % 8, minlength=8), np.full(8, repeats / 8))


def pool(values, law, repeats):
    """Observed and expected counts of the values that are expected at least ten times."""
    grid = np.arange(int(law.ppf(1e-9)), int(law.isf(1e-9)) + 1)
    grid = grid[law.pmf(grid) * repeats > 10]
    return np.array([(values == v).sum() for v in grid]), repeats * law.pmf(grid)


def total_variation(n, p):
    """Distance between Binomial(n, p) and its rounded normal limit."""
    mean, deviation = n * p, np.sqrt(n * p * (1 - p))
    k = np.arange(int(max(0, mean - 12 * deviation)), int(min(n, mean + 12 * deviation)) + 1)
    normal = np.diff(stats.norm.cdf((np.append(k, k[-1] + 1) - 0.5 - mean) / deviation))
    return np.abs(stats.binom.pmf(k, n, p) - normal).sum() / 2


def test_the_stated_error_of_the_limits_beyond_int64():
    """The normal limit errs by at most 0.2 / deviation, so 2e-7 from a variance of 1e12 on; Poisson by at most p."""
    for p in (0.5, 0.3, 0.03, 1e-3):
        errors = []
        for variance in (1e2, 1e4, 1e6):
            n = int(variance / (p * (1 - p)))
            errors.append(total_variation(n, p) * np.sqrt(variance))
            assert errors[-1] <= 0.2
        # The error times the deviation has settled, so it may be carried on to larger n.
        assert errors[2] <= errors[1] * 1.05 + 1e-3
    assert 0.2 / np.sqrt(NORMAL_VARIANCE) <= 2.0001e-7 and NORMAL_VARIANCE / 2**63 <= 2e-7
    for n, p in ((1000, 0.01), (10**5, 1e-3)):
        k = np.arange(n + 1)
        assert np.abs(stats.binom.pmf(k, n, p) - stats.poisson.pmf(k, n * p)).sum() / 2 <= p


@pytest.mark.parametrize(
    ("counts", "chances", "message"),
    [
        (3, [[0.5, 0.5]], r"counts must have shape \(rows,\)"),
        (
            [3, 4],
            [[0.5, 0.5]],
            r"counts must have shape \(rows,\) and probabilities \(rows, m\), got \(2,\) and \(1, 2\)",
        ),
        ([3, 4], [0.5, 0.5], r"probabilities \(rows, m\), got \(2,\) and \(2,\)"),
        ([3], np.empty((1, 0)), r"probabilities \(rows, m\)"),
        ([3, 4], [[0.5, 0.5], [1.5, -0.5]], r"probabilities must be >= 0 and sum to 1 .* in row 1"),
        ([3], [[0.5, 0.4]], r"in row 0"),
    ],
)
def test_counts_of_what_is_no_distribution_are_refused(rng, counts, chances, message):
    with pytest.raises(ValueError, match=message):
        multinomial_counts(counts, chances, rng)


def test_no_rows_have_no_counts(rng):
    assert multinomial_counts([], np.empty((0, 3)), rng).shape == (0, 3)
    assert not small().sample_counts(0, np.zeros((7, 3), dtype=int), rng).any()


def test_cumulative_probabilities_are_exactly_one_from_the_last_possible_value_on():
    tenths = np.concatenate([np.full(10, 0.1), np.zeros(3)])
    assert np.cumsum(tenths)[9] < 1
    assert cumulative(tenths)[9:].tolist() == [1.0] * 4 and cumulative(tenths)[8] == pytest.approx(0.9)
    assert cumulative(np.array([[1.0, 0.0], [0.0, 1.0]])).tolist() == [[1.0, 1.0], [0.0, 1.0]]


@pytest.mark.parametrize(("n", "p"), [(1e20, 0.3), (1e20, 0.01), (1e30, 1e-9), (1e60, 0.5)])
def test_draws_in_the_normal_limit_have_the_right_law(n, p, rng):
    draws = _limit_binomial(np.full(4000, n), np.full(4000, p), rng)
    deviation = np.sqrt(n * p * (1 - p))
    if deviation > 100 * np.spacing(n * p):
        assert stats.kstest((draws - n * p) / deviation, "norm").pvalue > ALARM
    else:
        assert (np.abs(draws - n * p) <= 2 * np.spacing(n)).all()


def test_beyond_int64_rare_values_are_poisson_and_small_rows_stay_exact(rng):
    draws = _limit_binomial(np.full(4000, 1e20), np.full(4000, 1e-19), rng)
    observed, expected = pool(draws, stats.poisson(10), 4000)
    assert (
        stats.chisquare(np.append(observed, 4000 - observed.sum()), np.append(expected, 4000 - expected.sum())).pvalue
        > ALARM
    )
    table = multinomial_counts([1e30, 3, 0], np.full((3, 5), 0.2), rng)
    assert table.dtype == np.float64
    assert table[0].sum() == pytest.approx(1e30, rel=1e-15) and table[1].sum() == 3 and (table[2] == 0).all()
    assert np.allclose(table[0] / 1e30, 0.2, atol=1e-14)


def test_counts_may_be_any_kind_of_number_and_stay_integers_where_they_fit(rng):
    chances = np.full((2, 3), 1 / 3)
    for counts in ([10, 20], [10.0, 20.0], np.array([10, 20], dtype=object), np.array([10, 20], dtype=np.uint8)):
        table = multinomial_counts(counts, chances, rng)
        assert table.dtype == np.int64 and table.sum(axis=1).tolist() == [10, 20]
    assert multinomial_counts([10, 10**30], chances, rng).dtype == np.float64


# Named instances.


def test_known_values_of_the_named_instances():
    assert LinearMDP.chain(n_states=5, horizon=9, slip=0.0).optimal_values().start == pytest.approx(5)
    lock = LinearMDP.combination_lock(horizon=6, n_actions=3, slip=0.2, rng=np.random.default_rng(0))
    assert lock.optimal_values().start == pytest.approx(0.8**5)
    assert (lock.n_states, lock.dim) == (7, 21)
    river = LinearMDP.river_swim(n_states=4, horizon=3)
    assert np.allclose(river.transitions[0, 0], [[1, 0, 0, 0], [0.4, 0.6, 0, 0]])
    assert np.allclose(river.transitions[2, 3], [[0, 0, 1, 0], [0, 0, 0.4, 0.6]])
    assert np.allclose(river.transitions[1, 2, 1], [0, 0.05, 0.6, 0.35])
    chain = LinearMDP.chain(n_states=3, horizon=2, slip=0.25)
    assert np.allclose(chain.transitions[0, :, 1], [[0.25, 0.75, 0], [0.25, 0, 0.75], [0, 0.25, 0.75]])


def test_simplex_instances_begin_with_the_vertices_and_random_ones_are_signed():
    sizes = {"n_states": 5, "n_actions": 3, "dim": 4, "horizon": 6}
    mdp = LinearMDP.simplex(**sizes, rng=np.random.default_rng(0))
    assert np.array_equal(mdp.features.reshape(-1, 4)[:4], np.eye(4))
    assert (small(**sizes).measures < 0).any()
    with pytest.raises(ValueError, match="dim=16 exceeds"):
        LinearMDP.simplex(**{**sizes, "dim": 16}, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"rewards must have shape \(H, S, A\)"):
        LinearMDP.tabular(np.ones((1, 1, 1, 1)), np.ones(1), [1.0])
    with pytest.raises(ValueError, match="transitions must have shape"):
        LinearMDP.tabular(np.ones((1, 1, 1, 2)), np.ones((1, 1, 1)), [1.0])


# Ties (case 48).


def test_equal_values_give_the_smallest_action_whatever_their_last_bits():
    assert np.argmax([0.3, 0.1 + 0.2]) == 1
    assert greedy_actions([0.3, 0.1 + 0.2]) == 0 and greedy_actions([0.1 + 0.2, 0.3]) == 0
    assert {int(greedy_actions([0.0, 0.0, 0.0])) for _ in range(100)} == {0}
    assert greedy_actions([0.0, 1e-6]) == 1
    assert greedy_actions([0.0, 1e9]) == 1, "where the tolerance is below the spacing of floats"
    tied = LinearMDP.tabular(np.ones((2, 1, 3, 1)), np.full((2, 1, 3), 0.5), [1.0])
    assert (tied.optimal_values().policy == 0).all()


def test_noise_below_zero_within_the_tolerance_leaves_probabilities():
    noisy = np.array([[[[1 + 1e-10, -1e-10]], [[0.5, 0.5]]]])
    mdp = LinearMDP.tabular(noisy, np.zeros((1, 2, 1)), [1 + 1e-10, -1e-10])
    assert mdp.transitions[0, 0, 0].tolist() == [1.0, 0.0]
    assert mdp.occupancy(np.zeros((1, 2), dtype=int))[0, :, 0].tolist() == [1.0, 0.0]


# Gymnasium.


def test_the_gymnasium_view_passes_the_checker_and_gives_the_exact_mean_return():
    pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    mdp = small(n_states=4, n_actions=3, dim=2, horizon=5)
    env = mdp.as_gymnasium()
    check_env(env)
    assert env.mdp is mdp and env.spec.id == "rrl/LinearMDP-v0"
    policy = np.random.default_rng(0).integers(3, size=(5, 4))
    returns = []
    state, info = env.reset(seed=1)
    for _ in range(2000):
        total = 0.0
        for h in range(5):
            assert info == {"stage": h}
            state, reward, terminated, truncated, info = env.step(policy[h, state])
            total += reward
            assert (terminated, truncated) == (h == 4, False)
        returns.append(total)
        state, info = env.reset()
    spread = np.std(returns) / np.sqrt(2000)
    assert abs(np.mean(returns) - mdp.policy_values(policy).start) < stats.norm.isf(ALARM / 2) * spread
    first = [env.reset(seed=5)[0], *(env.step(0)[0] for _ in range(5))]
    assert first == [env.reset(seed=5)[0], *(env.step(0)[0] for _ in range(5))]
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(0)
    with pytest.raises(RuntimeError, match="call reset"):
        mdp.as_gymnasium().step(0)
    env.reset()
    with pytest.raises(ValueError, match="action must lie in"):
        env.step(3)
    with pytest.raises(ValueError, match="render_mode must be None"):
        type(env)(mdp, render_mode="human")


@pytest.mark.parametrize(
    "name", ["Chain", "RiverSwim", "CombinationLock", "RandomLinear", "BoundaryLock", "SteepMeasure"]
)
def test_the_named_environments_are_registered(name):
    gymnasium = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    from rrl.mdp.environments import register

    register()
    env = gymnasium.make(f"rrl.mdp.environments:rrl/{name}-v0")
    check_env(env.unwrapped)
    assert isinstance(env.unwrapped.mdp, LinearMDP)


def same_model(one, other):
    return all(np.array_equal(getattr(one, a), getattr(other, a)) for a in ("transitions", "rewards_table", "initial"))


def test_the_named_environments_are_the_instances_that_they_were():
    gymnasium = pytest.importorskip("gymnasium")

    rng = np.random.default_rng
    expected = {
        "Chain": LinearMDP.chain(n_states=8, horizon=16),
        "RiverSwim": LinearMDP.river_swim(),
        "CombinationLock": LinearMDP.combination_lock(horizon=8, n_actions=3, rng=rng(0)),
        "RandomLinear": LinearMDP.random(n_states=20, n_actions=4, dim=5, horizon=10, rng=rng(0)),
        "BoundaryLock": LinearMDP.boundary_lock(),
        "SteepMeasure": LinearMDP.steep_measure(),
    }
    for name, mdp in expected.items():
        assert same_model(gymnasium.make(f"rrl.mdp.environments:rrl/{name}-v0").unwrapped.mdp, mdp)
    other = gymnasium.make("rrl/CombinationLock-v0", seed=3, n_actions=2).unwrapped.mdp
    assert same_model(other, LinearMDP.combination_lock(horizon=8, n_actions=2, rng=rng(3)))
    assert gymnasium.make_vec("rrl/Chain-v0", num_envs=2, vectorization_mode="sync").reset(seed=0)[0].tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["RiverSwim", "RandomLinear", None])
def test_minari_records_an_environment_and_builds_it_anew(name, tmp_path, monkeypatch):
    """The collector takes it; its own recording of steps needs jax, so the episode's buffer is filled here."""
    gymnasium, minari = pytest.importorskip("gymnasium"), pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = gymnasium.make(f"rrl.mdp.environments:rrl/{name}-v0") if name else small().as_gymnasium()
    assert minari.DataCollector(env).reset(seed=5)[1] == {"stage": 0}
    mdp, steps = env.unwrapped.mdp, []
    states = [env.reset(seed=5)[0]]
    for h in range(mdp.horizon):
        steps.append(env.step(h % mdp.n_actions))
        states.append(steps[-1][0])
    columns = {
        "observations": states,
        "actions": [h % mdp.n_actions for h in range(mdp.horizon)],
        "rewards": [step[1] for step in steps],
        "terminations": [step[2] for step in steps],
        "truncations": [step[3] for step in steps],
    }
    buffer = minari.data_collector.EpisodeBuffer(id=0, seed=5, **columns)
    minari.create_dataset_from_buffers("rrl/small/test-v0", [buffer], env=env.spec, data_format="hdf5")
    recorded = minari.load_dataset("rrl/small/test-v0", download=False)
    again, (episode,) = recorded.recover_environment(), recorded
    assert same_model(again.unwrapped.mdp, mdp)
    again.reset(seed=5)
    for action, state, reward in zip(episode.actions, episode.observations[1:], episode.rewards, strict=True):
        assert again.step(action)[:2] == (state, reward)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mdp": "chess"}, r"mdp must be a model or one of \['boundary_lock', .*\], got 'chess'"),
        ({"mdp": "tabular"}, "mdp must be a model or one of"),
        ({"mdp": "__init__"}, "mdp must be a model or one of"),
        ({"mdp": None}, "mdp must be a LinearMDP, .* got None"),
        ({"mdp": lambda: 3}, "mdp must be a LinearMDP"),
        (
            {"mdp": LinearMDP.river_swim(), "n_states": 3},
            r"only a named instance has parameters, got \{'n_states': 3\}",
        ),
    ],
)
def test_environments_of_no_model_are_refused(options, message):
    pytest.importorskip("gymnasium")
    from rrl.mdp.environments import LinearMDPEnv

    with pytest.raises(ValueError, match=message):
        LinearMDPEnv(**options)
    assert LinearMDPEnv(LinearMDP.river_swim).mdp.n_states == 6


def test_without_gymnasium_the_error_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "rrl.mdp.environments", raising=False)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"-rl\[experiments\]"):
        small().as_gymnasium()
