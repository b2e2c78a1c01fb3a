"""R-LSVI-UCB that switches rarely: the rule as a plain loop, the bound on its switches, and what it is worth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh

from rrl import LinearMDP, hypergrid_round, r_lsvi_ucb
from rrl.mdp import greedy_actions
from rrl.replicability import fingerprint
from rrl.second_moment import round_symmetric

SIZES = {"n_states": 6, "n_actions": 3, "dim": 4, "horizon": 5}


def model(seed=0, **sizes):
    return LinearMDP.random(**{**SIZES, **sizes}, rng=np.random.default_rng(seed))


def run(mdp, seed=0, **changes):
    settings = {"n_rounds": 4, "n_trajectories": 7, "beta": 0.7, "penalty": 0.3, "bin_widths": (0.1, 0.05)}
    return r_lsvi_ucb(mdp, rng=np.random.default_rng(seed), **settings | {"shared_seed": 3} | changes)


def rare_reference(mdp, settings, growth, rng):
    """The rule of `growth` as a plain loop over rounds: rounds with new weights, and the weights of each."""
    H, d = mdp.horizon, mdp.dim
    flat = mdp.features.reshape(-1, d)
    gram, reward = np.zeros((H, d, d)), np.zeros((H, d))
    following, value = np.zeros((H, d, mdp.n_states)), np.zeros((H + 1, mdp.n_states))
    size, beta, lam = (settings[name] for name in ("n_trajectories", "beta", "penalty"))
    weights, inverses = np.zeros((H, d)), np.tile(np.eye(d) / lam, (H, 1, 1))
    policy, published, since, switches, all_weights = None, None, 0, [], []

    def update(h):
        bonuses = beta * np.sqrt(np.einsum("nd,de,ne->n", flat, inverses[h], flat))
        q = np.minimum(H, flat @ weights[h] + bonuses).reshape(mdp.n_states, -1)
        value[h] = np.maximum(q.max(axis=1), 0)
        return greedy_actions(q)

    policy = np.stack([update(h) for h in range(H)])
    for t in range(settings["n_rounds"]):
        all_weights.append(weights.copy())
        states = mdp.sample_start(size, rng)
        for h in range(H):
            phi = mdp.features[states, policy[h, states]]
            rewards = mdp.rewards_table[h, states, policy[h, states]]
            states = mdp.sample(h, states, policy[h, states], rng)
            gram[h] += phi.T @ phi / size
            reward[h] += phi.T @ rewards / size
            np.add.at(following[h].T, states, phi / size)
        since += 1
        if t + 1 == settings["n_rounds"] or np.log2(since) % 1:
            continue
        looks = []
        for h in range(H):
            key = ("lsvi_ucb", t, h, "gram")
            width = settings["bin_widths"][1]
            looks.append(
                round_symmetric(gram[h], width, shared_seed=settings["shared_seed"], key=key)[0] + lam * np.eye(d)
            )
        if published is not None and max(eigh(a, b, eigvals_only=True)[-1] for a, b in zip(looks, published)) < growth:
            continue
        published, since = looks, 0
        switches.append(t + 1)
        for h in reversed(range(H)):
            moment = reward[h] + following[h] @ value[h + 1]
            w = np.linalg.solve(gram[h] + lam * np.eye(d), moment)
            key = ("ridge", ("lsvi_ucb", t, h, "ridge"))
            width = settings["bin_widths"][0]
            weights[h] = hypergrid_round(w, width, shared_seed=settings["shared_seed"], key=key).values
            inverses[h] = np.linalg.inv(looks[h])
            policy[h] = update(h)
    return switches, np.array(all_weights)


@pytest.mark.parametrize("growth", [1.2, 2.0, 8.0])
def test_rarely_new_weights_follow_the_rule_round_by_round(growth):
    mdp = model(2)
    settings = {"n_rounds": 40, "n_trajectories": 9, "beta": 0.7, "penalty": 0.3, "shared_seed": 3}
    settings["bin_widths"] = 0.1, 0.05
    result = run(mdp, 5, **settings, by="draws", growth=growth, keep_estimates=True)
    switches, weights = rare_reference(mdp, settings, growth, np.random.default_rng(5))
    assert result.switches.tolist() == switches
    assert np.array_equal(result.weights, weights)
    assert 1 < len(switches) < 30


@pytest.mark.parametrize("widths", [(0.1, 0.05), None])
@pytest.mark.parametrize("size", [1, 7])
def test_if_every_round_switches_it_is_the_algorithm_code_for_code(widths, size):
    mdp = model(3)
    # Every look finds some growth: the bins are far below what a round adds.
    every, rare = (
        run(mdp, n_rounds=9, n_trajectories=size, bin_widths=widths and (0.1, 1e-9), growth=growth)
        for growth in (1.0, 1 + 1e-9)
    )
    assert every.switches.tolist() == rare.switches.tolist() == list(range(1, 9))
    assert every.fingerprint() == rare.fingerprint() == fingerprint(list(every.codes) if widths else every.policies)
    assert np.array_equal(every.policies, rare.policies)
    if widths:
        assert all(np.array_equal(a, b) for a, b in zip(every.codes, rare.codes))


@given(
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(1, 4),
    st.floats(1.1, 10),
    st.floats(1e-3, 2),
    st.integers(2, 60),
)
@settings(max_examples=30, deadline=None)
def test_the_number_of_switches_is_logarithmic(seed, dim, horizon, growth, penalty, rounds):
    """Unrounded matrices: every switch but the first multiplies a determinant by `growth` at least."""
    mdp = model(seed, dim=dim, horizon=horizon)
    result = run(
        mdp, seed, n_rounds=rounds, n_trajectories=3, bin_widths=None, by="counts", growth=growth, penalty=penalty
    )
    bound = 1 + horizon * dim * np.log1p(rounds / (dim * penalty)) / np.log(growth)
    assert len(result.switches) <= bound
    gaps = np.diff([0, *result.switches])
    assert not (gaps & (gaps - 1)).any()  # powers of two
    assert result.switches[:1].tolist() == [1]
    changed = (np.diff(result.policies, axis=0) != 0).any(axis=(1, 2))
    assert set(np.flatnonzero(changed) + 1) <= set(result.switches)


def test_codes_stay_in_force_until_new_weights():
    """Rounds in between repeat them, whatever their second moments are, so what two runs compare is what decides."""
    result = run(model(1), n_rounds=60, n_trajectories=10**6, growth=3.0, keep_estimates=True)
    new = np.zeros(60, dtype=bool)
    new[result.switches] = True
    assert 2 < new.sum() < 30
    for t in range(2, 60):
        same = [np.array_equal(kind[t - 1], kind[t - 2]) for kind in result.codes]
        assert same == [not new[t]] * 2
        assert np.array_equal(result.inverses[t], result.inverses[t - 1]) is not new[t]


def test_equal_codes_of_other_rounds_are_no_agreement():
    """Offsets differ from round to round, so new weights may have the codes of those before them."""
    mdp = LinearMDP.random(n_states=3, n_actions=2, dim=2, horizon=1, rng=np.random.default_rng(7))
    settings = {"n_trajectories": 5, "beta": 0.3, "penalty": 1.0, "bin_widths": (2.0, 2.0), "growth": 1.5}
    labs = [run(mdp, (7, s), **settings, shared_seed=7) for s in range(6)]
    chance = 0
    for a in labs:
        for b in labs:
            codes = all(np.array_equal(x, y) for x, y in zip(a.codes, b.codes))
            same = codes and np.array_equal(a.switches, b.switches)
            assert (a.fingerprint() == b.fingerprint()) == same
            assert np.array_equal(a.policies, b.policies) or not same
            chance += codes and not same
    assert chance > 0


def test_an_environment_switches_as_its_linear_mdp_does():
    env, mdp = model(4).as_gymnasium(), model(4)
    features = lambda observation: mdp.features[int(observation)]  # noqa: E731
    result = run(env, n_rounds=30, bin_widths=(0.2, 0.1), growth=2.0, features=features, horizon=mdp.horizon)
    assert 1 < len(result.switches) < 15
    kept = np.flatnonzero(~np.isin(np.arange(1, 30), result.switches)) + 1
    assert all(np.array_equal(result.weights[t], result.weights[t - 1]) for t in kept)
    assert all(not np.array_equal(result.weights[t], result.weights[t - 1]) for t in result.switches)


def test_rare_switching_agrees_more_often_at_the_same_trajectories():
    """Same M and T, 12 pairs each: 10% and 88% of 40 others agreed, so the test fails by chance in 1 of 1,000."""
    mdp = model(6, dim=2, horizon=2)
    agree = []
    for growth in (1.0, 4.0):
        settings = {"n_rounds": 30, "n_trajectories": 10**6, "growth": growth}
        pairs = [[run(mdp, s, **settings, shared_seed=k) for s in (2 * k, 2 * k + 1)] for k in range(12)]
        agree.append(sum(a.fingerprint() == b.fingerprint() for a, b in pairs))
    assert agree[1] - agree[0] >= 4


def test_a_growth_of_one_publishes_every_round_though_coarse_bins_hide_all_growth():
    """30 rounds stay below a bin of 50, so that Lambda, one number here, shrinks about as often as it grows."""
    result = run(model(dim=1, horizon=1), n_rounds=30, bin_widths=(0.1, 50.0))
    assert result.switches.tolist() == list(range(1, 30))


def test_a_bad_growth_is_refused():
    for growth in (0.5, np.nan, np.inf, "2"):
        with pytest.raises((ValueError, TypeError), match="growth"):
            run(model(), growth=growth)
    with pytest.raises(ValueError, match="publishes every round: growth must be 1, got 2"):
        run(model(), n_trajectories=1, bin_widths=None, engine="numba", growth=2)
