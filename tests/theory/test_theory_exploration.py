"""Theorem 4.2, sharper: every step of its proof on random instances, and the plan against all of its conditions."""

from math import ceil, log, log2, sqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from rrl import LinearMDP, r_lsvi_ucb, theory
from rrl.second_moment import round_symmetric
from rrl.theory import ladder, ucb_plan

SIZES = {
    "d": st.integers(1, 40),
    "H": st.integers(1, 40),
    "epsilon": st.floats(1e-3, 1.0),
    "delta": st.floats(1e-6, 0.9),
    "rho": st.floats(1e-4, 0.9),
    "kappa": st.floats(0.05, 3),
}


@given(**SIZES)
@example(d=1, H=1, epsilon=36.0, delta=1e-4, rho=0.999, kappa=2.0)  # the noise of the regressions asks for most
@example(d=1, H=1, epsilon=1000.0, delta=1e-4, rho=0.999, kappa=150.0)  # the blocks of one policy do
@settings(max_examples=60, deadline=None)
def test_the_plan_keeps_every_condition_of_the_proof(d, H, epsilon, delta, rho, kappa):
    """The conditions as the proof states them, stage by stage and round by round, not as the plan solves them.

    They also hold no better than they must: T and M are the smallest, up to rounding up to a whole number.
    """
    for rare in (False, True):
        plan = ucb_plan(d, H, epsilon, delta, rho, rare=rare, kappa=kappa)
        T, M, (wide_w, wide_g) = plan.n_rounds, plan.n_trajectories, plan.bin_widths
        assert plan.penalty == 1 and plan.growth == (2 * (1 + kappa) ** 2 if rare else 1)
        # Step 2: rounding errors; the bonus covers bias and noise after the matrix was rounded.
        rounded_w, covered = sqrt(d) * wide_w / 2, plan.beta / sqrt(1 + d * wide_g / 2)
        assert d * wide_g / 2 == pytest.approx(kappa)
        # Step 1: what is left for the noise, half of it for the cover.
        left = covered - sqrt(d) * (1 + H)
        net = left / (4 * sqrt(T))
        functions = d * log(1 + 4 * ((1 + H) * sqrt(T) / 2 + rounded_w) / net)
        functions += d * (d + 1) / 2 * log(1 + 8 * sqrt(d) * plan.beta**2 / net**2)
        events = 4 if rare else 3
        noise = H / (2 * sqrt(M)) * sqrt(d * log(1 + T / d) + 2 * functions + 2 * log(events * H / delta))
        assert noise + 2 * sqrt(T) * net <= left * (1 + 1e-9)
        # Steps 3 and 4, and 6: the losses add up to epsilon.
        stale = 2 * (1 + kappa) ** 2 if rare else 1
        bonuses = (covered + plan.beta * sqrt(1 + kappa)) * stale * H * sqrt(d * log2(1 + T / d) / T)
        sampling = (sqrt(H**3) + H) * sqrt(2 * log(events / delta) / (T * M))
        assert bonuses + sampling + 2 * H * rounded_w <= epsilon * (1 + 1e-9)
        assert 2 * H * rounded_w == pytest.approx(epsilon / 4)
        assert T < 1000 or bonuses == pytest.approx(epsilon / 2, rel=1 / T + 1e-9)
        used = [2 * noise / left, 4 * sampling / epsilon]
        # Steps 5 and 6: the calls of a run.
        ridge, moments = sqrt(2 * d) * (1 + H) / wide_w, sqrt(d * (d + 3) / 2) / wide_g
        if rare:
            weights = 1 + H * d * log2(1 + T / d)
            calls = H * weights * sqrt(T / M) * (ridge + (1 + log2(T)) * moments)
            block = sqrt(T / M) * (1 + sqrt(log(4 * H * T**2 / delta)))
            assert 3 * block <= 1 + 1e-9
            used.append(3 * block)
        else:  # the sum of sqrt(t), with an integral above it
            calls = H * (2 / 3 * T**1.5) / sqrt(M) * (ridge + moments)
            if T < 10**5:
                assert np.sqrt(np.arange(1.0, T)).sum() <= 2 / 3 * T**1.5
        assert 2 * calls <= rho * (1 + 1e-9)
        assert max(2 * calls / rho, *used) == pytest.approx(1, rel=1 / M + 1e-9)


@pytest.mark.parametrize("rare", [False, True])
def test_slopes_of_the_plan_are_the_ladder_s(rare):
    """Far out where one of the two demands is alone; logarithms bend the lines, by less than half a power."""
    rungs = {rung.name: rung.demands for rung in ladder("4.2")}
    demands = rungs["and rarely new weights" if rare else "and the bonus of a batch"]
    for part, point in {
        "second moments": {"d": 1e9, "H": 30, "epsilon": 1e-1, "rho": 1e-2},
        "ridge": {"d": 1e2, "H": 1e5, "epsilon": 1e-6, "rho": 1e-2},
    }.items():
        base = ucb_plan(delta=0.01, rare=rare, **point).log10_total
        for name, value in point.items():
            step = 0.1 if name in ("epsilon", "rho") else 10.0
            rise = ucb_plan(delta=0.01, rare=rare, **point | {name: value * step}).log10_total - base
            assert abs(rise - float(getattr(demands[part], name))) < 0.7, (part, name, rise)


def test_larger_wishes_cost_more_and_bad_ones_are_refused():
    good = {"d": 4, "H": 3, "epsilon": 0.5, "delta": 0.1, "rho": 0.1}
    for rare in (False, True):
        base = ucb_plan(**good, rare=rare)
        for name, factor in (("d", 2), ("H", 2), ("epsilon", 0.5), ("rho", 0.5)):
            assert ucb_plan(**good | {name: good[name] * factor}, rare=rare).log10_total > base.log10_total
        assert ucb_plan(**good | {"delta": 0.9}, rare=rare).log10_total <= base.log10_total  # no rho > 2 delta
    assert set(base.settings()) == {"n_rounds", "n_trajectories", "beta", "penalty", "bin_widths", "growth"}
    assert isinstance(base.n_rounds, int)
    for change, message in (
        ({"kappa": 0.0}, "kappa must be positive and finite"),
        ({"rho": 1.5}, "rho must lie strictly between"),
        ({"rare": 2}, "rare must be True or False"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            ucb_plan(**good | change)
    # The default kappa is about the best: a tenth less or more saves less than a twentieth.
    many = {"d": 10**4, "H": 3, "epsilon": 0.5, "delta": 0.1, "rho": 0.1}
    for rare, kappa in ((False, 0.7), (True, 0.25)):
        near = [ucb_plan(**many, rare=rare, kappa=kappa * x).log10_total for x in (0.9, 1.1)]
        assert min(near) > ucb_plan(**many, rare=rare).log10_total - 0.02


# The steps of the proof on instances.


def simplex_model(rng, d=3, S=5):
    """One stage of a model that keeps E22: features and measures are probabilities."""
    return rng.dirichlet(np.full(d, 0.3), 60), rng.uniform(size=d), rng.dirichlet(np.full(S, 0.3), d)


def test_step_1_bias_and_noise_of_a_batch_stay_below_b():
    """Three features, H = 4; noise bound at .05 but far from tight: none of 200 instances fails."""
    rng, d, H = np.random.default_rng(1), 3, 4
    for _ in range(200):
        phi, theta, mu = simplex_model(rng)
        M = int(rng.integers(1, 200))
        rounds = 10
        policy = rng.integers(0, 60, rounds)  # a row a round, each with M next states
        X = phi[policy]
        value = H * rng.uniform(size=5) ** rng.choice([0.05, 1.0, 3.0])
        shares = np.array([rng.multinomial(M, row) for row in X @ mu]) / M
        gram = X.T @ X + np.eye(d)
        w = np.linalg.solve(gram, X.T @ (X @ theta + shares @ value))
        lengths = np.sqrt(np.einsum("id,de,ie->i", phi, np.linalg.inv(gram), phi))
        residual = np.abs(phi @ w - phi @ (theta + mu @ value))
        noise = H / (2 * sqrt(M)) * sqrt(d * log(1 + rounds / d) + 2 * log(1 / 0.05))
        assert (residual <= (sqrt(d) * (1 + H) + noise) * lengths + 1e-12).all()
        # The weights are no longer than half of their labels.
        assert np.linalg.norm(w) <= (1 + H) * sqrt(rounds) / 2


def test_step_1_the_cover_s_distance():
    """Two functions of the class whose parameters differ by gamma/2 and gamma^2/(4 beta^2) differ by at most gamma."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        d, beta, gamma = int(rng.integers(1, 5)), rng.uniform(0.5, 20), 10 ** rng.uniform(-3, 0)
        a = rng.normal(size=(d, d))
        A = a @ a.T
        A /= max(1, np.linalg.norm(A))
        e, f = rng.normal(size=d), rng.normal(size=(d, d))
        w, moved = rng.normal(size=d), e / np.linalg.norm(e) * gamma / 2
        other = (f + f.T) / np.linalg.norm(f + f.T) * gamma**2 / (4 * beta**2)
        phi = rng.normal(size=(200, d))
        phi /= np.linalg.norm(phi, axis=1, keepdims=True)

        def q(w, A, phi=phi, beta=beta):
            spread = np.maximum(np.einsum("nd,de,ne->n", phi, A, phi), 0)
            return np.clip(phi @ w + beta * np.sqrt(spread), 0, 7)

        assert np.abs(q(w, A) - q(w + moved, A + other)).max() <= gamma * (1 + 1e-9)


def test_step_1_the_noise_of_a_neighbour():
    """|X' z| in the inverse of X'X + I is at most |z|: what replaces a function by one of the cover."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        X, z = rng.normal(size=(20, 4)) * 10 ** rng.uniform(-2, 2), rng.normal(size=20)
        v = X.T @ z
        assert v @ np.linalg.solve(X.T @ X + np.eye(4), v) <= z @ z * (1 + 1e-9)


@pytest.mark.parametrize("kappa", [0.25, 0.7, 3.0])
def test_step_2_the_rounded_bonus_for_every_sample(kappa):
    """The ratio of the bonuses after rounding and projecting, with the plan's bins; worst instances come close."""
    rng, d, reached = np.random.default_rng(4), 3, 0.0
    for seed in range(300):
        x = rng.normal(size=(int(rng.integers(1, 6)), d)) * 10 ** rng.uniform(-2, 0.5)
        gram = x.T @ x
        rounded, _ = round_symmetric(gram, 2 * kappa / d, shared_seed=seed)
        gap = np.linalg.norm(rounded - gram)
        assert gap <= kappa * (1 + 1e-9)
        phi = rng.normal(size=(50, d))
        lengths = [np.sqrt(np.einsum("nd,de,ne->n", phi, np.linalg.inv(g + np.eye(d)), phi)) for g in (gram, rounded)]
        ratio = lengths[1] / lengths[0]
        assert ratio.max() <= sqrt(1 + kappa) * (1 + 1e-9) and ratio.min() >= (1 - 1e-9) / sqrt(1 + kappa)
        reached = max(reached, ratio.max() ** 2 / (1 + kappa))
    assert reached > 0.3


def test_step_4_the_potential_with_a_logarithm_of_base_two():
    rng = np.random.default_rng(5)
    for d, T in ((1, 50), (3, 100), (6, 200)):
        for kind in ("random", "least seen"):
            matrix, total = np.eye(d), 0.0
            for _ in range(T):
                phi = rng.normal(size=d) if kind == "random" else np.linalg.eigh(matrix)[1][:, 0]
                phi /= np.linalg.norm(phi)
                total += sqrt(phi @ np.linalg.solve(matrix, phi))
                matrix += np.outer(phi, phi)
            assert total <= sqrt(T * d * log2(1 + T / d))
    assert sqrt(1 * 1 * log2(2)) == 1  # reached by one round in one dimension


def test_step_6_a_block_of_one_policy_grows_as_it_began():
    """A block of n rounds is at most twice its first n0 > n / 2, up to errors; 300 blocks, false alarms below .01."""
    rng, d, M = np.random.default_rng(6), 3, 50
    for _ in range(300):
        support, law = rng.dirichlet(np.full(d, 0.3), 6), rng.dirichlet(np.ones(6))
        length = int(rng.integers(1, 40))
        looked = 2 ** int(log2(length))
        counts = rng.multinomial(M, law, size=length) / M
        grams = [np.einsum("n,nd,ne->de", counts[:k].sum(axis=0), support, support) for k in (looked, length)]
        error = (2 * sqrt(looked / M) + sqrt(length / M)) * (1 + sqrt(log(300 / 0.005)))
        assert np.linalg.eigvalsh(grams[1] - 2 * grams[0]).max() <= error


def test_step_6_a_publication_doubles_a_determinant():
    """Along real runs, with the unrounded matrices made again from the estimates that were kept."""
    for seed in range(4):
        mdp = LinearMDP.random(n_states=6, n_actions=3, dim=3, horizon=3, rng=np.random.default_rng(seed))
        kappa = 0.25
        growth = 2 * (1 + kappa) ** 2
        run = r_lsvi_ucb(
            mdp,
            n_rounds=300,
            n_trajectories=10**9,
            beta=2.0,
            penalty=1.0,
            bin_widths=(0.01, 2 * kappa / 3),
            shared_seed=seed,
            rng=np.random.default_rng(seed),
            growth=growth,
            keep_estimates=True,
        )
        assert 2 <= len(run.switches) <= 1 + mdp.horizon * mdp.dim * log2(1 + 300 / mdp.dim)
        at = np.linalg.inv(run.inverses[run.switches])
        grown = np.linalg.eigvals(np.linalg.inv(at[:-1]) @ at[1:]).real.max(axis=(1, 2))
        assert (grown >= growth * (1 - 1e-9)).all()


def test_the_theorem_at_its_own_settings():
    """Two features, one stage, epsilon = 2: the smallest run of the theorem's own T and M.

    No loss here is above epsilon, but its parts are small: optimism up to epsilon / 8, and equal codes.
    False alarms: delta = .05 and rho = .1 at most; the bounds are so far from tight that none is seen.
    """
    features = np.array([[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]])
    mdp = LinearMDP(features, np.ones((1, 2, 1)), np.array([[0.8, 0.3]]), np.ones(1))
    for rare in (False, True):
        plan = ucb_plan(2, 1, 2.0, 0.05, 0.1, rare=rare)
        settings = plan.settings() | {"n_rounds": min(plan.n_rounds, 1500), "shared_seed": 5}
        one, two = (r_lsvi_ucb(mdp, **settings, rng=np.random.default_rng(seed)) for seed in (1, 2))
        assert one.fingerprint() == two.fingerprint()
        assert one.history["optimistic_value"].min() >= 0.8 - 2 / 8
        assert 0.8 - one.history["mean_return"].mean() <= 2 / 10


def test_the_canonical_output_is_missed_no_more_often_than_two_runs_differ():
    """Lemma own-canonical on exact laws."""
    p = np.random.default_rng(7).dirichlet(np.full(5, 0.3), 500)
    assert (1 - p.max(axis=1) <= 1 - (p**2).sum(axis=1) + 1e-15).all()


def test_step_5_rounded_regressions_on_ideal_data_differ_no_more_often_than_the_bound():
    """Three rounds of M trajectories under fixed policies, labels of a fixed V. 400 pairs; false alarm below 1e-3."""
    rng, d, H, M, width = np.random.default_rng(8), 3, 4, 400, 1.5
    phi, theta, mu = simplex_model(rng)
    X = phi[[0, 1, 2]]
    value = H * rng.uniform(size=5)

    def weights(n):
        shares = rng.multinomial(M, np.broadcast_to(X @ mu, (n, 3, 5))) / M
        labels = X @ theta + shares @ value
        return np.linalg.solve(X.T @ X + np.eye(d), (labels @ X).T).T

    differ = theory.disagreement_probability(weights(400) - weights(400), width).mean()
    bound = sqrt(2 * d) * (1 + H) / width * sqrt(3 / M)
    assert bound < 1
    assert differ <= bound + stats.norm.isf(1e-3) * 0.5 / sqrt(400)
    assert differ > 0 and ceil(bound) == 1
