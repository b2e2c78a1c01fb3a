"""Algorithm 5 and Appendix D: R-LSVI-UCB against a plain loop, plain LSVI-UCB, optimism, potential."""

import dataclasses
import os
import subprocess
import sys
import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from rrl import LinearMDP, hypergrid_round, project_psd, r_lsvi_ucb, ridge_weights, theory
from rrl.lsvi_ucb.data import REFRESH, bonus
from rrl.mdp.linear_mdp import greedy_actions
from rrl.second_moment import round_symmetric

SIZES = {"n_states": 6, "n_actions": 3, "dim": 4, "horizon": 5}


def model(seed=0, **sizes):
    return LinearMDP.random(**{**SIZES, **sizes}, rng=np.random.default_rng(seed))


def run(mdp, seed=0, **changes):
    settings = {
        "n_rounds": 4,
        "n_trajectories": 7,
        "beta": 0.7,
        "penalty": 0.3,
        "bin_widths": (0.1, 0.05),
        "shared_seed": 3,
        **changes,
    }
    return r_lsvi_ucb(mdp, rng=np.random.default_rng(seed), **settings)


def reference(mdp, n_rounds, size, beta, penalty, widths, shared_seed, rng):
    """The corrected Algorithm 5 (audit, section 4) row by row, every trajectory kept and re-labelled."""
    H, d = mdp.horizon, mdp.dim
    weights, grams = np.zeros((H + 1, d)), np.tile(penalty * np.eye(d), (H, 1, 1))
    data = [[] for _ in range(H)]
    policies, codes, plain = [], [], []

    def q_value(h, s, a):
        phi = mdp.features[s, a]
        return min(H, phi @ weights[h] + beta * np.sqrt(phi @ np.linalg.inv(grams[h]) @ phi))

    def value(h, s):
        return 0.0 if h == H else max(0.0, max(q_value(h, s, a) for a in range(mdp.n_actions)))

    for t in range(n_rounds):
        policies.append(
            [
                [int(greedy_actions([q_value(h, s, a) for a in range(mdp.n_actions)])) for s in range(mdp.n_states)]
                for h in range(H)
            ]
        )
        states = mdp.sample_start(size, rng)
        for h in range(H):
            actions = np.array(policies[-1])[h, states]
            following = mdp.sample(h, states, actions, rng)
            data[h] += list(zip(states, actions, following))
            states = following
        if t + 1 == n_rounds:
            break
        for h in reversed(range(H)):
            table = [value(h + 1, s) for s in range(mdp.n_states)]
            X = np.array([mdp.features[s, a] for s, a, _ in data[h]])
            y = np.array([mdp.rewards_table[h, s, a] + table[following] for s, a, following in data[h]])
            # Mean over trajectories, sum over rounds: the same penalty serves regression and bonus.
            weights[h] = ridge_weights(X.T @ X / size, X.T @ y / size, penalty)
            plain.append(weights[h].copy())
            gram = X.T @ X / size
            if widths:
                key = ("lsvi_ucb", t, h)
                rounded = hypergrid_round(
                    weights[h], widths[0], shared_seed=shared_seed, key=("ridge", (*key, "ridge"))
                )
                weights[h] = rounded.values
                gram, gram_codes = round_symmetric(gram, widths[1], shared_seed=shared_seed, key=(*key, "gram"))
                codes.append((t, h, rounded.codes, gram_codes))
            grams[h] = gram + penalty * np.eye(d)
    return np.array(policies), codes, np.array(plain)


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("widths", [None, (0.1, 0.05)])
def test_the_algorithm_is_the_corrected_one_row_by_row(size, widths):
    mdp = model(size)
    result = run(mdp, n_trajectories=size, bin_widths=widths, by="draws", keep_estimates=True)
    policies, codes, plain = reference(mdp, 4, size, 0.7, 0.3, widths, 3, np.random.default_rng(0))
    assert np.array_equal(result.policies, policies)
    for t, h, ridge, gram in codes:
        assert np.array_equal(result.codes[0][t, h], ridge) and np.array_equal(result.codes[1][t, h], gram)
    if widths is None:
        order = [(t + 1, h) for t in range(3) for h in reversed(range(5))]
        assert np.allclose([result.weights[i] for i in order], plain, atol=1e-9)
        assert result.codes is None


def test_labels_are_those_of_their_own_round_and_of_the_same_round_value():
    """Errata E3 and E4: two arms with rewards 0 and 1 learn (0, 1), and a first stage sees them at once."""
    rewards = np.zeros((2, 1, 2))
    rewards[1, 0] = 0.0, 1.0
    mdp = LinearMDP.tabular(np.ones((2, 1, 2, 1)), rewards, [1.0])
    result = run(mdp, n_rounds=9, penalty=1e-6, beta=0.01, bin_widths=None, keep_estimates=True)
    assert sorted(set(result.policies[:2, 1, 0])) == [0, 1]
    assert np.allclose(result.weights[2, 1], [0, 1], atol=1e-4)
    # Round 0 saw V_1 = 2 behind the first arm of stage 0; re-labelled, it is this round's 1 + bonus.
    assert result.policies[:3, 0, 0].tolist() == [0, 0, 1]
    assert result.weights[1, 0, 0] == pytest.approx(2, abs=1e-4)
    assert result.weights[2, 0, 0] == pytest.approx(result.q_values(2, 1, mdp.features[0]).max(), abs=1e-4)
    assert result.weights[2, 0, 0] == pytest.approx(1.01, abs=1e-4)


# Optimistic start, bonus.


def test_case_43_every_stage_starts_at_h_where_the_bonus_is_large_and_beta_counts_steps():
    mdp = LinearMDP.tabular(np.ones((5, 1, 3, 1)), np.ones((5, 1, 3)), [1.0])
    start = run(mdp, n_rounds=1, beta=100.0, keep_estimates=True)
    assert [start.q_values(0, h, mdp.features[0]).tolist() for h in range(5)] == [[5.0] * 3] * 5
    # The start is min(H, beta norm(phi) / sqrt(penalty)) (erratum E11): no larger than the bonus.
    low = run(mdp, n_rounds=1, beta=0.6, penalty=0.09, keep_estimates=True)
    assert np.allclose(low.q_values(0, 2, 0.5 * mdp.features[0]), 1.0)
    assert theory.jin_beta(3, 4, 100, 0.1) == pytest.approx(38.110, abs=5e-4)


def test_case_44_the_bonus_has_its_factor_and_its_root_and_falls_with_visits():
    e1 = np.array([1.0, 0.0])
    assert bonus(e1, np.linalg.inv(4 * np.eye(2)), 2.0) == pytest.approx(1.0)
    assert bonus(e1, np.linalg.inv(4 * np.eye(2)), 0.0) == 0.0
    falling = [bonus(e1, np.linalg.inv(np.diag([1.0 + n, 1.0])), 2.0) for n in (0, 1, 3, 8)]
    assert np.allclose(falling, [2, 2**0.5, 1, 2 / 3])
    # In the algorithm: one action, one visit a round, no reward, so Q is the bonus plus the later bonuses.
    mdp = LinearMDP.tabular(np.ones((1, 1, 1, 1)), np.zeros((1, 1, 1)), [1.0])
    result = run(mdp, n_rounds=9, n_trajectories=1, bin_widths=None, beta=0.2, penalty=1.0, keep_estimates=True)
    q = [float(result.q_values(t, 0, mdp.features[0, 0])) for t in (0, 1, 3, 8)]
    assert np.allclose(q, np.array(falling) / 10)


def test_lemma_d_4_optimism_holds_along_a_run():
    """With the bonus width of Jin et al. every Q of every round lies above Q*, on ten models."""
    for seed in range(10):
        mdp = model(seed)
        best = mdp.optimal_values().q
        beta = theory.jin_beta(4, 5, 60, 0.1, c=0.1)
        result = run(
            mdp, seed, n_rounds=60, n_trajectories=1, bin_widths=None, beta=beta, penalty=1.0, keep_estimates=True
        )
        gap = [result.q_values(t, h, mdp.features) - best[h] for t in range(60) for h in range(5)]
        assert np.min(gap) >= -1e-9
        assert (np.array(result.history["optimistic_value"]) >= mdp.optimal_values().start - 1e-9).all()


def test_without_a_bonus_optimism_fails():
    mdp = model(0)
    result = run(mdp, n_rounds=30, n_trajectories=1, bin_widths=None, beta=0.0, penalty=1.0, keep_estimates=True)
    assert np.min(result.q_values(29, 0, mdp.features) - mdp.optimal_values().q[0]) < -0.1


@pytest.mark.parametrize("penalty", [0.05, 1.0])
def test_lemma_d_5_the_sum_of_the_norms_stays_below_the_elliptical_potential(penalty):
    mdp, rounds, size = model(5), 40, 3
    result = run(
        mdp, n_rounds=rounds, n_trajectories=size, bin_widths=None, penalty=penalty, by="draws", keep_estimates=True
    )
    rng, total = np.random.default_rng(0), 0.0
    for t in range(rounds):
        states = mdp.sample_start(size, rng)
        for h in range(5):
            actions = result.policies[t, h, states]
            total += bonus(mdp.features[states, actions], result.inverses[t, h], 1.0).sum()
            states = mdp.sample(h, states, actions, rng)
    bound = theory.elliptical_potential_bound(4, 5, rounds, size, penalty)
    assert 0.05 * bound < total < bound


# Counts.


def test_counts_and_draws_have_the_same_law():
    mdp = model(6)
    samples = {
        by: np.array(
            [
                run(mdp, (9, i), n_rounds=2, n_trajectories=50, bin_widths=None, by=by, keep_estimates=True).weights[1]
                for i in range(250)
            ]
        )
        for by in ("counts", "draws")
    }
    for h, j in np.ndindex(5, 4):
        assert stats.ks_2samp(samples["counts"][:, h, j], samples["draws"][:, h, j]).pvalue > 1e-6 / 20


def test_at_any_size_runs_from_counts_approach_one_limit():
    mdp = model(7)
    results = [run(mdp, i, n_rounds=6, n_trajectories=n) for i, n in enumerate((10**18, 1e30, 1e60))]
    assert len({r.fingerprint() for r in results}) == 1
    assert all(np.array_equal(r.policies, results[0].policies) for r in results)
    assert results[1].history["mean_return"] == pytest.approx([mdp.policy_values(p).start for p in results[1].policies])


def test_the_share_of_identical_runs_rises_with_m_and_plain_lsvi_ucb_never_replicates():
    mdp = LinearMDP.combination_lock(horizon=3, n_actions=2, rng=np.random.default_rng(0))

    def share(**changes):
        prints = [[run(mdp, (i, arm), shared_seed=i, **changes).fingerprint() for arm in (0, 1)] for i in range(12)]
        return sum(one == two for one, two in prints)

    shares = [share(n_rounds=8, n_trajectories=10**k) for k in (2, 6, 15)]
    assert shares[0] <= 2 and shares[0] <= shares[1] <= shares[2] == 12
    assert share(n_rounds=100, n_trajectories=1, bin_widths=None, beta=0.3) <= 2


def test_exploration_opens_the_combination_lock_which_greed_does_not():
    lock = LinearMDP.combination_lock(horizon=4, n_actions=3, rng=np.random.default_rng(5))
    best = lock.optimal_values().start
    # Greed is run unrounded: rounding moves the zero weights of unseen pairs, which is a little exploration.
    for beta, widths, opened in ((0.5, (0.1, 0.05), True), (0.5, None, True), (0.0, None, False)):
        result = run(lock, n_rounds=60, n_trajectories=10**15, beta=beta, penalty=0.1, bin_widths=widths)
        loss = [best - lock.policy_values(policy).start for policy in result.policies]
        assert (min(loss) < 1e-12) == opened
        if opened:
            assert np.mean(loss[-20:]) < np.mean(loss[:20]) - 0.4
            bound = theory.ucb_gap_bound(lock.dim, 4, 60, 10**15, beta, 0.1, 0.05)
            assert np.mean(loss) < bound


def test_with_one_hot_features_and_every_pair_seen_the_estimate_is_tabular_dynamic_programming():
    """Unseen pairs are worth H, so every reachable one is tried; what is left of the bonus is below 1e-5."""
    rng = np.random.default_rng(1)
    h, s, a = 4, 3, 2
    mdp = LinearMDP.tabular(rng.dirichlet(np.ones(s), size=(h, s, a)), rng.uniform(size=(h, s, a)), np.eye(s)[1])
    result = run(
        mdp,
        n_rounds=40,
        n_trajectories=1e40,
        beta=1e-5,
        penalty=1e-12,
        bin_widths=None,
        by="counts",
        keep_estimates=True,
    )
    q = np.array([result.q_values(39, i, mdp.features) for i in range(h)])
    reached = mdp.occupancy(np.full((h, s, a), 1 / a)) > 0
    assert np.abs(q - mdp.optimal_values().q)[reached].max() < 1e-4
    assert np.array_equal(result.policies[39][reached.any(axis=2)], mdp.optimal_values().policy[reached.any(axis=2)])


# Engines.


def test_rank_one_updates_survive_their_refresh():
    mdp = model(8, n_states=9)
    settings = {"n_rounds": REFRESH + 20, "n_trajectories": 1, "bin_widths": None, "keep_estimates": True}
    result = run(mdp, by="draws", **settings)
    gram = np.zeros((5, 4, 4))
    rng = np.random.default_rng(0)
    for t in range(REFRESH + 19):
        s = mdp.sample_start(1, rng)
        for h in range(5):
            phi = mdp.features[s[0], result.policies[t, h, s[0]]]
            gram[h] += np.outer(phi, phi)
            s = mdp.sample(h, s, result.policies[t, h, s], rng)
    assert np.allclose(result.inverses[-1], np.linalg.inv(gram + 0.3 * np.eye(4)), atol=1e-10)


def test_a_fresh_inverse_gives_the_same_bonuses_as_an_updated_one(monkeypatch):
    mdp = model(8, n_states=9)
    settings = {"n_rounds": 60, "n_trajectories": 1, "bin_widths": None, "keep_estimates": True}
    updated = run(mdp, by="draws", **settings)
    monkeypatch.setattr("rrl.lsvi_ucb.data.REFRESH", 4)
    fresh = run(mdp, by="draws", **settings)
    assert np.array_equal(updated.policies, fresh.policies)
    for name in updated.history:
        assert np.allclose(updated.history[name], fresh.history[name], atol=1e-10)


def test_the_compiled_loop_gives_the_same_run(monkeypatch):
    """Run uncompiled, which tests the same lines without the wait for the compiler; `benchmarks/` runs it compiled."""
    kernel = pytest.importorskip("rrl.lsvi_ucb.compiled")
    monkeypatch.setattr(kernel, "regress", kernel.regress.py_func)
    monkeypatch.setattr(kernel, "plain_lsvi_ucb", kernel.plain_lsvi_ucb.py_func)
    monkeypatch.setattr(kernel, "REFRESH", 16)
    mdp = model(9, n_states=4, n_actions=3, dim=2)
    settings = {"n_rounds": 40, "n_trajectories": 1, "bin_widths": None}
    numpy, numba = (run(mdp, engine=engine, **settings) for engine in ("numpy", "numba"))
    assert np.array_equal(numpy.policies, numba.policies) and numpy.fingerprint() == numba.fingerprint()
    for name in numpy.history:
        assert np.allclose(numpy.history[name], numba.history[name], atol=1e-10)


def test_without_numba_the_error_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "rrl.lsvi_ucb.compiled", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(ImportError, match=r"-rl\[experiments\]"):
        run(model(), n_trajectories=1, bin_widths=None, engine="numba")


# Environments.


def test_an_environment_gives_what_its_linear_mdp_gives():
    """Without chance in the model the two routes see the same trajectories."""
    pytest.importorskip("gymnasium")
    lock = LinearMDP.combination_lock(horizon=4, n_actions=3, slip=0.0, rng=np.random.default_rng(2))
    finite = run(lock, n_rounds=12, n_trajectories=2, keep_estimates=True)
    env = run(lock.as_gymnasium(), n_rounds=12, n_trajectories=2, features=lambda s: lock.features[s], horizon=4)
    assert env.policies is None and env.fingerprint() == finite.fingerprint()
    assert np.allclose(env.weights, finite.weights) and np.allclose(env.inverses, finite.inverses)
    for name in env.history:
        assert np.allclose(env.history[name], finite.history[name])
    for t, h in np.ndindex(12, 4):
        assert np.array_equal(env.act(t, h, lock.features), finite.policies[t, h])
        assert [int(env.act(t, h, phi)) for phi in lock.features] == finite.policies[t, h].tolist()


class Corridor:
    """Pays 0.5 a step; ends after one step, by termination or truncation, in a state as good as the first."""

    action_space = SimpleNamespace(n=2, start=5)

    def __init__(self, terminated, truncated):
        self.end = terminated, truncated
        self.actions = set()

    def reset(self, *, seed):
        return 0, {}

    def step(self, action):
        self.actions.add(action)
        return 1, 0.5, *self.end, {}


@pytest.mark.parametrize(("end", "value"), [((True, False), 0.5), ((False, True), 1.5), ((True, True), 0.5)])
def test_a_termination_has_no_later_value_and_a_truncation_is_bootstrapped(end, value):
    """Case 30: the unvisited second stage is worth H = 2, clipped from its bonus, shrunk here to beta = 1."""
    env = Corridor(*end)
    settings = {"n_rounds": 2, "penalty": 1.0, "beta": 1.0, "bin_widths": None, "n_trajectories": 4}
    told = pytest.warns(UserWarning, match="after at most 1 steps") if end == (False, True) else nullcontext()
    with told:
        result = run(env, features=lambda s: np.eye(2), horizon=2, **settings)
    # One mean visit of the chosen action against a penalty of 1 halves its label.
    assert result.weights[1, 0, 0] == pytest.approx(value / 2)
    assert env.actions in ({5}, {5, 6})
    assert result.history["mean_return"].tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="has no codes to compare"):
        result.fingerprint()


class Steps:
    """Walks along states 0, 1, ...; what a step answers is given."""

    action_space = SimpleNamespace(n=2)

    def __init__(self, answer, spec=None):
        self.answer, self.spec = answer, spec

    def reset(self, *, seed):
        self.state = 0
        return 0, {}

    def step(self, action):
        self.state += 1
        return (self.state, *self.answer(self.state), {})


def walk(answer, horizon=3, spec=None, **changes):
    def features(state):
        return np.eye(2) if np.isfinite(state) else np.full((2, 2), np.nan)

    return run(Steps(answer, spec), features=features, horizon=horizon, **changes)


def test_nobody_reads_what_a_termination_or_the_last_stage_shows():
    class Blind(Steps):
        def step(self, action):
            state, reward, terminated, truncated, info = super().step(action)
            return (np.nan if terminated or state == 3 else state), reward, terminated, truncated, info

    def features(state):
        assert np.isfinite(state)
        return np.eye(2)

    for end in (2, 9):
        answer = lambda state, end=end: (0.5, state == end, False)  # noqa: E731
        blind = run(Blind(answer), features=features, horizon=3)
        assert blind.fingerprint() == walk(answer).fingerprint()
    with pytest.raises(ValueError, match=r"features\(observation\) holds nan"):
        run(Blind(lambda state: (0.5, False, state == 3)), features=lambda s: np.eye(2) + s - s, horizon=5)


def test_a_time_limit_below_the_horizon_is_refused_or_told():
    """With a limit of 3 and a horizon of 5 the last stages never see data: their optimism would stand for ever."""
    gymnasium = pytest.importorskip("gymnasium")
    lock = LinearMDP.combination_lock(horizon=5, n_actions=2, rng=np.random.default_rng(2))
    for env in (
        gymnasium.wrappers.TimeLimit(lock.as_gymnasium(), 3),
        SimpleNamespace(action_space=SimpleNamespace(n=2), spec=SimpleNamespace(max_episode_steps=3)),
    ):
        with pytest.raises(ValueError, match="horizon=5 exceeds the environment's time limit of 3 steps"):
            run(env, features=lambda s: lock.features[s], horizon=5)
    enough = gymnasium.wrappers.TimeLimit(lock.as_gymnasium(), 5)
    assert run(enough, features=lambda s: lock.features[s], horizon=5).codes[0].shape[1] == 5
    # A limit that nobody tells shows in the data.
    with pytest.warns(UserWarning, match="horizon=5, but a time limit .* after at most 3 steps"):
        walk(lambda state: (0.5, False, state == 3), horizon=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        walk(lambda state: (0.5, False, state == 3), horizon=3)
        walk(lambda state: (0.5, state == 3, False), horizon=5)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((np.nan, False, False), r"rewards of the environment must lie in \[0, 1\], got nan at stage h=0"),
        ((-1.0, False, False), r"must lie in \[0, 1\], got -1.0"),
        ((1.5, False, False), r"must lie in \[0, 1\], got 1.5"),
        (([0.5, 0.5], False, False), "rewards of the environment"),
        (("1", False, False), "reward must hold real numbers"),
        ((0.5, "False", False), "terminated must be booleans or 0 and 1"),
        ((0.5, np.nan, False), "terminated must be booleans or 0 and 1, got nan"),
        ((0.5, False, 0.5), "truncated must be booleans or 0 and 1, got 0.5"),
    ],
)
def test_what_an_environment_answers_is_checked(answer, message):
    with pytest.raises(ValueError, match=message):
        walk(lambda state: answer)


def test_one_and_zero_are_booleans_and_an_array_of_one_reward_is_a_reward():
    plain = walk(lambda state: (0.5, state == 2, False))
    same = walk(lambda state: (np.array([0.5], np.float32), np.int64(state == 2), 0))
    assert plain.fingerprint() == same.fingerprint()


def test_a_key_names_a_call_and_none_is_the_call_as_it_was():
    plain, same, other, again = (run(model(), **changes) for changes in ({}, {"key": ()}, *[{"key": ("b", 1)}] * 2))
    assert plain.fingerprint() == same.fingerprint() != other.fingerprint() == again.fingerprint()
    for changes in ({"key": "b"}, {"shared_seed": 0.5}, {"shared_seed": None, "bin_widths": None}):
        with pytest.raises(TypeError, match=next(iter(changes))):
            run(model(), **changes)


def test_an_episode_that_outlasts_the_horizon_is_left_there():
    env = Corridor(False, False)
    result = run(env, features=lambda s: np.eye(2), horizon=3, n_trajectories=2)
    assert result.history["mean_return"].tolist() == [1.5] * 4
    assert result.codes[0].shape == (3, 3, 2) and len(result.fingerprint()) == 64


def test_actions_may_share_their_features():
    """Every row has norm 1; the columns have not."""
    env = Corridor(False, False)
    run(env, features=lambda s: np.array([[1.0, 0.0], [1.0, 0.0]]), horizon=2)
    assert env.actions == {5}


# Refusals.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_rounds": 0}, "n_rounds must be an integer >= 1, got 0"),
        ({"n_trajectories": 0}, "n_trajectories must be a whole number >= 1"),
        ({"n_trajectories": 2.5}, "n_trajectories must be a whole number >= 1"),
        ({"n_trajectories": np.nan}, "n_trajectories must be a whole number >= 1"),
        ({"n_trajectories": 2.0**53 - 1}, "n_trajectories must be a whole number >= 1"),
        ({"beta": -1e-9}, "beta must be a finite number >= 0, got -1e-09"),
        ({"penalty": np.inf}, "penalty must be a finite number >= 0, got inf"),
        ({"penalty": 0}, "penalty must be positive"),
        ({"penalty": 1e-320}, "penalty must be at least 1e-300, or the bonus is lost"),
        ({"penalty": 1e-11, "n_trajectories": 1, "bin_widths": None}, "penalty must be at least 1e-10"),
        ({"penalty": 1e-20}, "penalty=1e-20 is lost beside the second moments"),
        ({"bin_widths": 0.1}, "bin_widths must be None or a pair"),
        ({"bin_widths": (0.1, -1.0)}, "bin_width must be positive"),
        ({"by": "luck"}, "by must be 'counts', 'draws' or None, got 'luck'"),
        ({"engine": "abacus"}, "engine must be 'numpy' or 'numba', got 'abacus'"),
        ({"engine": "numba"}, "engine='numba' runs plain LSVI-UCB only"),
        ({"horizon": 3}, "belong to an environment"),
        ({"by": "draws", "n_trajectories": 1e30}, "too large to draw one by one"),
    ],
)
def test_bad_arguments_are_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        run(model(), **changes)


def test_a_float_of_trajectories_is_taken_from_where_floats_are_whole_numbers():
    one, two = (run(model(), n_trajectories=n) for n in (2**53, 2.0**53))
    assert one.fingerprint() == two.fingerprint()


def test_bad_environments_and_features_are_refused():
    env = Corridor(False, False)
    with pytest.raises(TypeError, match="mdp must be a LinearMDP or an environment"):
        run("CartPole-v1")
    for changes, message in [
        ({"horizon": 2}, "needs features"),
        ({"features": lambda s: np.eye(2)}, "and a horizon"),
        ({"features": lambda s: np.eye(2), "horizon": 0}, "horizon must be an integer >= 1, got 0"),
        ({"features": lambda s: np.eye(3), "horizon": 2}, r"features must return shape \(2, d\), got \(3, 3\)"),
        ({"features": lambda s: 2 * np.eye(2), "horizon": 2}, "norms of at most 1, got 2 at 0"),
        ({"features": lambda s: [[0.0, 0.0], [0.8, 0.8]], "horizon": 2}, "norms of at most 1, got 1.13137 at 0"),
        ({"features": lambda s: np.full((2, 2), np.nan), "horizon": 2}, r"features\(observation\) holds nan"),
    ]:
        with pytest.raises(ValueError, match=message):
            run(env, **changes)
    with pytest.raises(ValueError, match="keep_estimates=True"):
        run(model()).q_values(0, 0, np.eye(4))


# Lemmas D.2 and D.3 (erratum E6).


def symmetric(rng, d, norm):
    a = rng.normal(size=(d, d))
    a = (a + a.T) / 2
    return a * norm / np.linalg.norm(a, 2)


def test_erratum_e6_the_printed_lemma_d_2_fails_and_the_corrected_one_holds():
    rng, failures = np.random.default_rng(0), 0
    for _ in range(1500):
        d, penalty = int(rng.integers(1, 5)), 10 ** rng.uniform(-4, 0)
        gram = penalty * np.eye(d) + project_psd(symmetric(rng, d, 10 ** rng.uniform(-4, 0)))
        gap = penalty * rng.uniform(0.01, 0.99)
        phi = rng.normal(size=d)
        phi /= np.linalg.norm(phi)
        one, two = (bonus(phi, np.linalg.inv(g), 1.0) for g in (gram, gram + symmetric(rng, d, gap)))
        assert abs(one - two) <= theory.bonus_gap_bound(gap, penalty) * (1 + 1e-9)
        failures += abs(one - two) > theory.bonus_gap_bound(gap, penalty, version="printed")
    assert failures > 50


def test_the_counter_examples_of_erratum_e6():
    """In one dimension, E >= 0: E = 0.005 at lambda = 0.01; and Lemma D.3 at lambda = 1e-4, error 0.1."""
    gap = bonus(np.ones(1), np.eye(1) / 0.01, 1.0) - bonus(np.ones(1), np.eye(1) / 0.015, 1.0)
    assert gap == pytest.approx(1.835, abs=5e-4)
    assert theory.bonus_gap_bound(0.005, 0.01, version="printed") < gap < theory.bonus_gap_bound(0.005, 0.01)
    errors = [
        100 - (1e-4 + theory.gram_accuracy(1e-4, 1.0, 1, 0.1, version=version)) ** -0.5
        for version in ("printed", "corrected")
    ]
    assert errors == pytest.approx([100 * (1 - 1.005**-0.5), 2.5e-5], rel=1e-3)
    assert errors[1] < 0.1 < 0.249 < errors[0]


# Identity across machines.

RUNS = """
import numpy as np
from rrl import LinearMDP, g_optimal_design, r_lsvi, r_lsvi_ucb
for seed in range(3):
    rng = lambda: np.random.default_rng(seed)
    mdp = LinearMDP.random(n_states=30, n_actions=5, dim=18, horizon=6, rng=rng())
    core = g_optimal_design(mdp.features)
    one = r_lsvi(mdp, core, n_samples=10**6, penalty=1e-5, bin_width=0.05, shared_seed=1, rng=rng())
    settings = dict(n_rounds=6, n_trajectories=10**6, beta=0.3, penalty=0.1, bin_widths=(0.05, 0.01))
    two = r_lsvi_ucb(mdp, shared_seed=1, rng=rng(), **settings)
    print(one.fingerprint(), two.fingerprint(), two.policies.sum())
"""


def test_the_same_codes_come_out_on_another_blas_kernel_and_thread_count(capsys):
    exec(RUNS, {})
    here = capsys.readouterr().out
    assert len(here.split()) == 9
    other = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Nehalem"}
    done = subprocess.run([sys.executable, "-c", RUNS], env=other, capture_output=True, text=True, check=True)
    assert done.stdout == here


def test_a_result_is_told_in_a_line():
    mdp = LinearMDP.random(n_states=4, n_actions=2, dim=3, horizon=2, rng=np.random.default_rng(0))
    settings = {"n_rounds": 3, "n_trajectories": 5, "beta": 0.5, "penalty": 0.1, "shared_seed": 1}
    for widths in (None, (0.1, 0.1)):
        result = r_lsvi_ucb(mdp, bin_widths=widths, rng=np.random.default_rng(0), **settings)
        assert repr(result) == f"LSVIUCBResult(T=3, beta=0.5, fingerprint {result.fingerprint()[:12]}...)"
    assert repr(dataclasses.replace(result, codes=None, policies=None)) == "LSVIUCBResult(T=3, beta=0.5, unrounded)"
