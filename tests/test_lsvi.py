"""Algorithm 4 and Appendix C: R-LSVI against dynamic programming, the ridge estimator, and its theorem."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rrl import (
    LinearMDP,
    LooseCodesWarning,
    ReplicableRidge,
    g_optimal_design,
    hypergrid_round,
    r_lsvi,
    ridge_weights,
    theory,
)
from rrl.core_set import CoreSet
from rrl.lsvi import _design_counts
from rrl.mdp.linear_mdp import greedy_actions
from rrl.replicability import clopper_pearson

SIZES = {"n_states": 11, "n_actions": 4, "dim": 3, "horizon": 5}


def model(seed=0, **sizes):
    return LinearMDP.random(**{**SIZES, **sizes}, rng=np.random.default_rng(seed))


def run(mdp, core, seed=0, **changes):
    settings = {"n_samples": 1000, "penalty": 1e-3, "bin_width": 0.1, "shared_seed": 1, **changes}
    return r_lsvi(mdp, core, rng=np.random.default_rng(seed), **settings)


def share_identical(mdp, core, pairs, **changes):
    prints = [
        [run(mdp, core, (i, arm), shared_seed=i, **changes).fingerprint() for arm in (0, 1)] for i in range(pairs)
    ]
    return sum(one == two for one, two in prints)


def test_one_hot_features_reproduce_tabular_dynamic_programming():
    rng = np.random.default_rng(0)
    h, s, a = 6, 5, 3
    mdp = LinearMDP.tabular(rng.dirichlet(np.ones(s), size=(h, s, a)), rng.uniform(size=(h, s, a)), np.eye(s)[2])
    core = g_optimal_design(mdp.features)
    result = run(mdp, core, n_samples=1e40, penalty=0.0, bin_width=None)
    best = mdp.optimal_values()
    assert np.abs(result.weights.reshape(h, s, a) - best.q).max() < 1e-8
    assert np.array_equal(result.policy, best.policy)
    assert result.codes is None and result.n_samples == pytest.approx(6e40)


def test_linear_features_reproduce_dynamic_programming_in_the_limit():
    mdp = model()
    result = run(mdp, g_optimal_design(mdp.features), n_samples=1e40, penalty=0.0, bin_width=None)
    assert np.abs(np.einsum("sad,hd->hsa", mdp.features, result.weights) - mdp.optimal_values().q).max() < 1e-8


def test_draws_are_ridge_regression_on_the_drawn_rows_under_the_key_of_the_stage():
    mdp = model()
    core = g_optimal_design(mdp.features)
    result = run(mdp, core, by="draws", n_samples=500)
    rng = np.random.default_rng(0)
    counts = [int(np.ceil(w * 500)) for w in core.weights]
    later = np.zeros(3)
    for h in reversed(range(5)):
        rows, labels = [], []
        for index, count in zip(core.indices, counts):
            s, a = divmod(int(index), 4)
            for following in mdp.sample(h, np.full(count, s), a, rng):
                rows.append(mdp.features[s, a])
                value = np.clip((mdp.features[following] @ later).max(), 0, 5)
                labels.append(mdp.rewards_table[h, s, a] + value)
        ridge = ReplicableRidge(1e-3, bin_width=0.1, shared_seed=1, key=("lsvi", h)).fit(rows, labels)
        assert np.allclose(result.unrounded_weights[h], ridge.unrounded_coef_, atol=1e-9)
        assert np.array_equal(result.codes[h], ridge.codes_) and np.array_equal(result.weights[h], ridge.coef_)
        later = ridge.coef_
    assert result.n_samples == 5 * sum(counts)


def test_counts_and_draws_have_the_same_law():
    mdp = model(2)
    core = g_optimal_design(mdp.features)
    samples = {
        by: np.array([run(mdp, core, (7, i), by=by, n_samples=200).unrounded_weights for i in range(200)])
        for by in ("counts", "draws")
    }
    for h, j in np.ndindex(5, 3):
        one, two = samples["counts"][:, h, j], samples["draws"][:, h, j]
        if np.ptp(one) > 1e-9:
            assert stats.ks_2samp(one, two).pvalue > 1e-6 / 15
        else:
            assert np.allclose(one, two.mean(), atol=1e-9)


def test_a_generative_model_given_as_a_function():
    """A function that wraps a LinearMDP gives what the LinearMDP gives, from the same stream of draws."""
    mdp = model(3)
    core = g_optimal_design(mdp.features)

    def generate(h, i, n, rng):
        s, a = divmod(i, 4)
        return mdp.rewards_table[h, s, a], mdp.features[mdp.sample(h, np.full(n, s), a, rng)]

    wrapped = run(generate, core, features=mdp.features, horizon=5, n_samples=40_000)
    own = run(mdp, core, by="draws", n_samples=40_000)
    assert np.array_equal(wrapped.codes, own.codes)
    assert np.allclose(wrapped.unrounded_weights, own.unrounded_weights, atol=1e-9)
    assert wrapped.policy is None and wrapped.n_samples == own.n_samples
    assert np.array_equal(wrapped.act(2, mdp.features), own.policy[2])


def test_actions_do_not_depend_on_the_batch_and_agree_with_the_policy():
    mdp = model(4, dim=6)
    result = run(mdp, g_optimal_design(mdp.features))
    for h in range(5):
        assert np.array_equal(result.act(h, mdp.features), result.policy[h])
        assert [int(result.act(h, phi)) for phi in mdp.features] == result.policy[h].tolist()


def test_rounding_moves_no_weight_by_more_than_half_a_bin():
    mdp = model(5)
    result = run(mdp, g_optimal_design(mdp.features), bin_width=0.25)
    assert np.abs(result.weights - result.unrounded_weights).max() <= 0.125 * (1 + 1e-12)
    assert (
        result.codes.dtype == np.int64
        and result.fingerprint() != run(mdp, g_optimal_design(mdp.features)).fingerprint()
    )


def test_every_stage_has_its_own_offsets():
    mdp = LinearMDP.tabular(np.ones((4, 1, 2, 1)), np.zeros((4, 1, 2)), [1.0])
    result = run(mdp, g_optimal_design(mdp.features), bin_width=1.0)
    offsets = np.mod(result.weights - 0.5, 1)
    assert len(np.unique(offsets.round(9))) == 8


def test_the_share_of_identical_outputs_rises_to_one():
    mdp = model()
    core = g_optimal_design(mdp.features)
    shares = [share_identical(mdp, core, 30, n_samples=10**k, penalty=1e-6, bin_width=0.05) for k in (3, 9, 15)]
    assert shares[0] < 20 and shares[1] >= 28 and shares[2] == 30


def test_without_rounding_hardly_any_two_runs_agree_in_their_weights_and_fingerprints_compare_policies():
    mdp = model()
    core = g_optimal_design(mdp.features)
    one, two = (run(mdp, core, seed, bin_width=None, n_samples=10**15) for seed in (1, 2))
    assert (one.weights != two.weights).any()
    assert np.array_equal(one.weights, one.unrounded_weights)
    assert one.fingerprint() == two.fingerprint()


@pytest.mark.parametrize("version", ["corrected", "printed", "sharp"])
def test_theorem_4_1_at_its_own_sample_size(version):
    """At the theorem's N both promises hold: 40 pairs agree (so rho <= 0.08 at 95%) and no policy loses eps."""
    mdp, epsilon, delta, rho = model(), 0.5, 0.02, 0.2
    core = g_optimal_design(mdp.features)
    k = core.certificate
    settings = {
        "n_samples": theory.lsvi_sample_size(3, k, 5, epsilon, delta, rho, version, per_stage=True),
        "penalty": theory.lsvi_penalty(3, k, 5, epsilon, version),
        "bin_width": theory.lsvi_bin_width(3, 5, epsilon, delta, rho, version),
    }
    assert settings["n_samples"] > 2**63
    agree = share_identical(mdp, core, 40, **settings)
    assert 1 - clopper_pearson(agree, 40)[0] < rho
    best = mdp.optimal_values()
    for seed in range(10):
        loss = best.v - mdp.policy_values(run(mdp, core, seed, shared_seed=seed, **settings).policy).v
        assert loss.max() <= epsilon


# Erratum E2.


def literal(mdp, core, n_samples, penalty, width, shared_seed, rng):
    """Algorithm 4 with one random string that every call reads from its beginning."""
    s, a = np.divmod(core.indices, mdp.n_actions)
    design, counts = mdp.features[s, a], np.zeros((mdp.n_states, mdp.n_actions), dtype=int)
    counts[s, a] = n_samples // 2
    weights, codes = np.zeros(mdp.dim), []
    for h in reversed(range(mdp.horizon)):
        value = np.clip((mdp.features @ weights).max(axis=1), 0, mdp.horizon)
        labels = mdp.rewards_table[h, s, a] + mdp.sample_counts(h, counts, rng)[s, a] @ value / (n_samples // 2)
        plain = ridge_weights(design.T @ design / 2, design.T @ labels / 2, penalty)
        rounded = hypergrid_round(plain, width, shared_seed=shared_seed, key=("one tape",))
        weights = rounded.values
        codes.append(rounded.codes)
    return greedy_actions(mdp.features @ weights)[0], np.array(codes)


@pytest.mark.parametrize("exponent", [5, 11])
def test_erratum_e2_one_re_read_random_string_never_replicates(exponent, acceptance):
    mdp, core = LinearMDP.boundary_lock(), CoreSet(np.array([0, 1]), np.array([0.5, 0.5]), np.nan)
    pairs, n = 200, 10**exponent
    arms = [
        [literal(mdp, core, n, 1e-10, 0.1, r, np.random.default_rng((r, arm))) for arm in (0, 1)] for r in range(pairs)
    ]
    low, high = acceptance(pairs, 0.5)
    # The stage-0 weight falls into either of two cells by a fair coin, and the policy with it.
    assert low <= sum((one[1] != two[1]).any() for one, two in arms) <= high
    assert low <= sum(one[0] != two[0] for one, two in arms) <= high
    agree = share_identical(mdp, core, pairs, n_samples=n, penalty=1e-10, bin_width=0.1)
    assert agree >= (150 if exponent == 5 else 199)


# Lemma C.1.


@given(st.integers(0, 10_000), st.floats(0.001, 1.0), st.sampled_from([-np.inf, 0]), st.sampled_from([5, np.inf]))
def test_lemma_c_1_on_random_models(seed, epsilon, lowest, highest):
    """Both claims, and the sharper loss 2 H eps that the printed 2 H^2 eps leaves unused, clipped or not."""
    mdp = model(seed, n_states=6, n_actions=3, dim=4, horizon=5)
    rng = np.random.default_rng(seed)
    q, later = np.empty((5, 6, 3)), np.zeros(6)
    for h in reversed(range(5)):
        q[h] = mdp.rewards_table[h] + mdp.transitions[h] @ later + epsilon * rng.choice([-1, 1], size=(6, 3))
        later = q[h].max(axis=1).clip(lowest, highest)
    best = mdp.optimal_values()
    for h in range(5):
        assert np.abs(q[h] - best.q[h]).max() <= (5 - h) * epsilon * (1 + 1e-9)
    loss = (best.v - mdp.policy_values(q.argmax(axis=2)).v).max()
    assert loss <= theory.bellman_loss_bound(5, epsilon) <= theory.bellman_loss_bound(5, epsilon, version="printed")


def test_the_sharp_lemma_c_1_is_tight():
    """One state, two actions: residuals of either sign make the worse action look as good at every stage."""
    epsilon, horizon = 0.1, 4
    rewards = np.tile([0.5 + epsilon, 0.5 - epsilon], (horizon, 1, 1))
    mdp = LinearMDP.tabular(np.ones((horizon, 1, 2, 1)), rewards, [1.0])
    later, policy = 0.0, []
    for h in reversed(range(horizon)):
        q = mdp.rewards_table[h, 0] + later + np.array([-epsilon, epsilon + 1e-9])
        later = q.max()
        policy.append([q.argmax()])
    loss = mdp.optimal_values().start - mdp.policy_values(np.array(policy)).start
    assert loss == pytest.approx(theory.bellman_loss_bound(horizon, epsilon))


# Refusals.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_samples": 0}, "n_samples must be a whole number >= 1 .*, got 0"),
        ({"n_samples": 1.5}, "n_samples must be a whole number"),
        ({"n_samples": 2.0**53 - 1}, "n_samples must be a whole number"),
        ({"n_samples": True}, "n_samples must be a whole number"),
        ({"n_samples": np.inf}, "n_samples must be a whole number"),
        ({"penalty": -1e-9}, "penalty must be a finite number >= 0, got -1e-09"),
        ({"bin_width": 0.0}, "bin_width must be positive"),
        ({"by": "luck"}, "by must be 'counts' or 'draws', got 'luck'"),
        ({"horizon": 3}, "belong to a model given as a function"),
        ({"by": "draws", "n_samples": 1e30}, "too large to draw one by one"),
    ],
)
def test_bad_arguments_are_refused_by_name(changes, message):
    mdp = model()
    with pytest.raises(ValueError, match=message):
        run(mdp, g_optimal_design(mdp.features), **changes)


def test_a_model_of_one_stage_is_ridge_regression_on_its_rewards():
    core = g_optimal_design(np.eye(2))
    settings = {"n_samples": 10, "penalty": 0.25, "bin_width": None, "features": np.eye(2), "horizon": 1}
    result = run(lambda h, i, n, rng: (float(i), np.zeros((n, 3, 2))), core, **settings)
    # Weights (G + 0.25 I)^-1 b with G = I / 2 and b = (0, 1) / 2.
    np.testing.assert_allclose(result.weights, [[0.0, 0.5 / 0.75]])


def test_counts_are_exact_while_they_fit_an_integer():
    assert _design_counts(np.array([0.5, 0.25]), 2**62 + 2**12).tolist() == [2**61 + 2**11, 2**60 + 2**10]
    for samples in (2**63, 1.5 * 2**63):
        assert _design_counts(np.ones(1), samples).dtype == np.float64


def test_a_float_of_samples_is_taken_from_where_floats_are_whole_numbers():
    mdp = model()
    core = g_optimal_design(mdp.features)
    one, two = (run(mdp, core, n_samples=n) for n in (2**53, 2.0**53))
    assert one.fingerprint() == two.fingerprint()


def test_the_number_of_samples_is_exact_while_it_fits_an_integer():
    mdp = model()
    core = CoreSet(np.array([0]), np.ones(1), np.inf)
    n = 2**60 + 2**8  # as exact as a count can be, and its multiple is no float
    assert run(mdp, core, n_samples=n).n_samples == n * mdp.horizon > 2**62
    assert run(mdp, core, n_samples=2**62).n_samples == 2.0**62 * mdp.horizon


def test_bad_generative_models_are_refused():
    features = np.eye(2)
    core = g_optimal_design(features)
    good = {"features": features, "horizon": 2, "n_samples": 10}

    def returns(rewards, following):
        return lambda h, i, n, rng: (rewards, following)

    with pytest.raises(TypeError, match="mdp must be a LinearMDP or a function, got str"):
        run("chain", core)
    for mdp, changes, message in [
        (returns(0.0, np.zeros((5, 3, 2))), {"features": None}, "needs features and a horizon"),
        (returns(0.0, np.zeros((5, 3, 2))), {"horizon": None}, "needs features and a horizon"),
        (returns(0.0, np.zeros((5, 3, 2))), {"horizon": 0}, "horizon must be an integer >= 1, got 0"),
        (returns(0.0, np.zeros((5, 3, 2))), {"features": 0.2}, r"features must have shape \(..., d\)"),
        (returns(0.0, np.zeros((5, 3, 2))), {"features": [0.6, 0.8]}, r"features must have shape \(..., d\).*\(2,\)"),
        (returns(0.0, np.zeros((5, 3, 2))), {"features": [[1, np.nan], [0, 1]]}, "features holds nan"),
        (returns(np.zeros((5, 1)), np.zeros((5, 3, 2))), {}, r"rewards of shape \(5,\) or one number, got \(5, 1\)"),
        (returns(np.zeros(1), np.zeros((5, 3, 2))), {}, r"rewards of shape \(5,\) or one number, got \(1,\)"),
        (returns("0", np.zeros((5, 3, 2))), {}, "rewards must hold real numbers"),
        (returns(np.full(5, 1e308), np.zeros((5, 3, 2))), {}, "the sum of rewards and next values overflows"),
        (
            lambda h, i, n, rng: (0.0, np.zeros((n, 3, 2)), {}),
            {},
            r"a pair \(rewards, next features\), got a tuple of 3$",
        ),
        (lambda h, i, n, rng: np.zeros((n, 3, 2)), {}, r"a pair \(rewards, next features\), got ndarray$"),
        (lambda h, i, n, rng: None, {}, r"a pair \(rewards, next features\), got NoneType$"),
        (returns(0.0, np.zeros((4, 3, 2))), {}, r"model must return next features of shape \(5, A, 2\)"),
        (returns(np.nan, np.zeros((5, 3, 2))), {}, "rewards holds nan"),
        (returns(0.0, np.full((5, 3, 2), np.inf)), {}, "next features holds inf"),
        (returns(0.0, np.zeros((5, 3, 2))), {"n_samples": 1e30}, "too large to draw"),
    ]:
        with pytest.raises(ValueError, match=message):
            run(mdp, core, **{**good, **changes})


def test_a_state_of_zero_features_ends_the_episode():
    """A reward of 1 a step for ever is worth H; once the second state is an end, one step of it."""
    core = g_optimal_design(np.eye(2))
    settings = {"n_samples": 100, "penalty": 0.0, "bin_width": None, "features": np.eye(2), "horizon": 4}

    def model(end):
        return lambda h, i, n, rng: (1.0, np.tile((0 if i and end else 1) * np.eye(2), (n, 1, 1)))

    assert run(model(False), core, **settings).weights[0] == pytest.approx([4, 4])
    assert run(model(True), core, **settings).weights[0] == pytest.approx([4, 1])


def test_results_are_told_in_a_line_and_count_in_whole_numbers():
    mdp = model()
    core = g_optimal_design(mdp.features)
    result = run(mdp, core, n_samples=1000)
    assert isinstance(result.n_samples, int) and result.n_samples >= 1000 * mdp.horizon
    shape = f"H={mdp.horizon}, d={mdp.dim}, n_samples={result.n_samples}"
    assert repr(result) == f"LSVIResult({shape}, fingerprint {result.fingerprint()[:12]}...)"
    assert "n_samples=5e+20, " in repr(run(mdp, core, n_samples=1e20))
    settings = {"features": np.eye(2), "horizon": 2, "n_samples": 10, "bin_width": None}
    free = run(lambda h, i, n, rng: (0.0, np.zeros((n, 1, 2))), g_optimal_design(np.eye(2)), **settings)
    assert repr(free).endswith("unrounded)")
    with pytest.raises(ValueError, match="has no codes to compare: give bin_width"):
        free.fingerprint()


def test_a_key_names_a_call_and_none_is_the_call_as_it_was():
    mdp = model()
    core = g_optimal_design(mdp.features)
    plain, other = (run(mdp, core, n_samples=10**6, key=key) for key in ((), ("b",)))
    assert (plain.codes == run(mdp, core, n_samples=10**6).codes).all() and (plain.codes != other.codes).any()
    last = hypergrid_round(
        plain.unrounded_weights[-1], 0.1, shared_seed=0, key=("ridge", ("lsvi", mdp.horizon - 1, "b"))
    )
    named = run(mdp, core, n_samples=10**6, key=("b",), bin_width=0.1, shared_seed=0)
    assert (named.codes[-1] == last.codes).all()
    for changes in ({"key": "b"}, {"key": (0.5,)}, {"shared_seed": 0.5}):
        with pytest.raises(TypeError, match=next(iter(changes))):
            run(mdp, core, **changes)


def test_an_ill_conditioned_design_is_told():
    features = np.array([[0.6, 0.6], [0.6, 0.6 + 1e-6]])
    core = CoreSet(np.arange(2), np.full(2, 0.5), 2.0)
    settings = {"n_samples": 10, "features": features, "horizon": 1, "penalty": 0.0, "bin_width": 1e-3}
    with pytest.warns(LooseCodesWarning):
        run(lambda h, i, n, rng: (float(i), np.zeros((n, 1, 2))), core, **settings)


def test_pairs_are_numbers_whatever_their_type():
    """Rows of 100 states and 4 actions do not fit the types of states and actions."""
    stay = LinearMDP.tabular(np.eye(100)[None, :, None].repeat(4, 2), np.zeros((1, 100, 4)), np.eye(100)[0])
    for kind in (np.uint8, np.int8, np.int16):
        s, a = np.arange(0, 100, 9).astype(kind), kind(3)
        assert (stay.sample(0, s, a, np.random.default_rng(0)) == s).all()


def test_a_pair_that_is_named_twice():
    """Draw by draw its weights add up; counted at once they would overwrite each other."""
    mdp = LinearMDP.chain(n_states=4, horizon=3)
    twice = CoreSet(np.r_[0, np.arange(8)], np.r_[0.9, np.full(8, 0.1 / 8)], 8.0)
    once = CoreSet(np.arange(8), np.r_[0.9 + 0.1 / 8, np.full(7, 0.1 / 8)], 8.0)
    given = {"n_samples": 20_000, "penalty": 1e-6, "bin_width": None, "shared_seed": 1}
    with pytest.raises(ValueError, match="indices must name each pair once"):
        r_lsvi(mdp, twice, rng=np.random.default_rng(1), **given)
    one, two = (r_lsvi(mdp, c, rng=np.random.default_rng(1), by="draws", **given) for c in (twice, once))
    assert one.unrounded_weights == pytest.approx(two.unrounded_weights, abs=0.05)


@pytest.mark.parametrize(
    ("h", "phi", "words"),
    [
        (-1, np.ones((2, 3)), "h must be an integer >= 0, got -1"),
        (2, np.ones((2, 3)), r"h must lie in \[0, 2\), got 2"),
        (0, np.ones((2, 2)), r"phi must have shape \(..., A, 3\), got \(2, 2\)"),
        (0, np.full((2, 3), np.nan), "phi must be finite|NaN"),
    ],
)
def test_what_a_policy_is_asked_is_checked(h, phi, words):
    mdp = LinearMDP.random(n_states=5, n_actions=2, dim=3, horizon=2, rng=np.random.default_rng(0))
    core = g_optimal_design(mdp.features)
    result = r_lsvi(mdp, core, n_samples=10, penalty=0.1, bin_width=0.5, shared_seed=0, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=words):
        result.act(h, phi)
