"""The tabular baseline: known values, many samples, the law of agreement, R-LSVI with one-hot features."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rrl import LinearMDP, g_optimal_design, hypergrid_round, r_lsvi, r_qvi, theory
from rrl.mdp import greedy_actions


def model(seed=0, **sizes):
    sizes = {"n_states": 4, "n_actions": 2, "dim": 3, "horizon": 3} | sizes
    return LinearMDP.simplex(**sizes, rng=np.random.default_rng(seed))


def run(mdp, seed=0, **changes):
    plan = {"n_samples": 50, "bin_width": 0.1, "shared_seed": 3} | changes
    return r_qvi(mdp, rng=np.random.default_rng(seed), **plan)


def test_without_chance_the_values_are_the_optimal_ones():
    mdp = LinearMDP.chain(n_states=4, horizon=5, slip=0.0)
    result = run(mdp, n_samples=1, bin_width=None)
    assert np.allclose(result.q, mdp.optimal_values().q, atol=1e-12)
    assert result.codes is None and result.q is result.unrounded_q
    assert result.n_samples == 4 * 2 * 5
    assert np.array_equal(result.policy, greedy_actions(result.q))


def test_by_hand_on_two_states():
    """One stage back: the mean of the counted next values, whose counts are drawn here once more."""
    mdp = model(1, n_states=2, horizon=2)
    result = run(mdp, 5, n_samples=7)
    rng = np.random.default_rng(5)
    last = mdp.rewards_table[1] + 0 * mdp.sample_counts(1, np.full((2, 2), 7), rng).sum(axis=-1)
    table = mdp.sample_counts(0, np.full((2, 2), 7), rng)
    first = mdp.rewards_table[0] + (table * last.max(axis=1)).sum(axis=-1) / 7
    assert np.allclose(result.unrounded_q, [first, last])
    rounded = hypergrid_round(result.unrounded_q, 0.1, shared_seed=3, key=("qvi",))
    assert np.array_equal(result.codes, rounded.codes) and np.array_equal(result.q, rounded.values)


@given(st.integers(0, 10**6), st.floats(0.01, 0.5))
@settings(max_examples=20, deadline=None)
def test_many_samples_leave_rounding_alone_and_its_loss_is_bounded(seed, width):
    mdp = model(seed % 100, n_states=5, horizon=4)
    result = run(mdp, seed, n_samples=10**14, bin_width=width, shared_seed=seed)
    best = mdp.optimal_values()
    assert np.abs(result.unrounded_q - best.q).max() < 1e-5
    off = np.abs(result.q - best.q).max()
    assert off <= width / 2 + 1e-5
    loss = (best.v - mdp.policy_values(result.policy).v)[0].max()
    assert -1e-9 <= loss <= 2 * mdp.horizon * off


def test_two_runs_disagree_as_often_as_the_exact_law_says():
    """300 pairs; the two means differ by more than 4 standard errors by chance in 1 of 10,000."""
    mdp, law, differ = model(2), [], []
    for k in range(300):
        one, two = (run(mdp, (k, side), n_samples=20_000, shared_seed=k) for side in (0, 1))
        law.append(theory.disagreement_probability((one.unrounded_q - two.unrounded_q).ravel(), 0.1))
        differ.append(one.fingerprint() != two.fingerprint())
    law, differ = np.array(law), np.array(differ)
    assert 0.2 < law.mean() < 0.8
    assert abs(differ.mean() - law.mean()) <= 4 * np.sqrt((law * (1 - law)).mean() / 300)


def test_with_one_hot_features_r_lsvi_estimates_the_same_values():
    """Without rounding and with the same draws: least squares on indicators is counting."""
    mdp = model(3)
    table = LinearMDP.tabular(mdp.transitions, mdp.rewards_table, mdp.initial)
    core = g_optimal_design(table.features)
    pairs = table.dim
    plan = {"penalty": 0.0, "bin_width": None, "shared_seed": 0}
    ours = r_lsvi(table, core, n_samples=pairs * 64, **plan, rng=np.random.default_rng(1))
    counted = r_qvi(table, n_samples=64, bin_width=None, shared_seed=0, rng=np.random.default_rng(1))
    assert np.allclose(ours.weights, counted.q.reshape(3, pairs), atol=1e-9)


def test_the_key_and_the_seed_name_the_grid_and_large_numbers_are_floats():
    mdp = model(4)
    base = run(mdp)
    assert run(mdp).fingerprint() == base.fingerprint()
    for change in ({"shared_seed": 4}, {"key": ("a",)}):
        assert run(mdp, **change).fingerprint() != base.fingerprint()
        assert np.array_equal(run(mdp, **change).unrounded_q, base.unrounded_q)
    huge = run(mdp, n_samples=1e25)
    assert isinstance(huge.n_samples, float) and np.abs(huge.unrounded_q - mdp.optimal_values().q).max() < 1e-9
    assert run(mdp, bin_width=None).fingerprint() != base.fingerprint()


def test_the_number_of_samples_is_an_integer_where_it_is_below_two_to_the_63():
    one, two = (LinearMDP.tabular([[[[1.0]] * actions]], [[[0.5] * actions]], [1.0]) for actions in (1, 2))
    for mdp, n, total in ((one, 2**63 - 1, 2**63 - 1), (two, 2**62 - 1, 2**63 - 2)):
        found = run(mdp, n_samples=n).n_samples
        assert isinstance(found, int) and found == total
    assert run(one, n_samples=np.int32(10**8)).n_samples == 10**8 == run(one, n_samples=np.int64(10**8)).n_samples
    assert run(two, n_samples=np.int64(2**62 - 1)).n_samples == 2**63 - 2
    for mdp, n, total in ((one, 2.0**63, 2.0**63), (two, 2**62, 2.0**63)):
        result = run(mdp, n_samples=n, bin_width=None)
        assert isinstance(result.n_samples, float) and result.n_samples == total and (result.q == 0.5).all()


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="mdp must be a LinearMDP, got 3"):
        run(3)
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        run(model(), n_samples=0)
    with pytest.raises(ValueError, match="bin_width"):
        run(model(), bin_width=-1.0)


def test_the_share_of_equal_runs_follows_the_samples():
    """Disagreement is about sum of differences over the width, so it falls like one over the root of the samples."""
    mdp = model(5)
    share = []
    for n in (10**6, 10**8):
        pairs = [[run(mdp, (k, side), n_samples=n).unrounded_q for side in (0, 1)] for k in range(100)]
        share.append(np.mean([theory.disagreement_probability((a - b).ravel(), 0.1) for a, b in pairs]))
    assert 0.09 < share[1] / share[0] < 0.13
