"""Decisive numbers of the errata; the literal variants of Algorithms 2 to 5 are taken from chapter 13 itself.

Elsewhere: E1 in test_ridge, E9 there and in test_theory_rl, E5 in test_core_set, E6 in test_lsvi_ucb, E8 in
test_second_moment, E14, E15 in test_theory, E22 in test_linear_mdp, E23 and the exponent of E7 in test_theory_rl.
E19 is about indices only.
"""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from rrl import (
    CoreSet,
    LinearMDP,
    ReplicableSecondMoment,
    core_set_constant,
    g_optimal_design,
    r_lsvi,
    r_lsvi_ucb,
    ridge_weights,
    theory,
)

CHAPTER = Path(__file__).parents[2] / "notebooks" / "13_errata.md"
ALL = ("E1", "E2", "E3", "E4", "E11", "E20")


@pytest.fixture(scope="module")
def chapter():
    """All functions that the chapter defines."""
    namespace = {}
    for cell in re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```$", CHAPTER.read_text(encoding="utf-8"), re.M | re.S):
        code = re.sub(r"\A---\n.*?^---\n|^:tags:.*\n", "", cell, flags=re.M | re.S if cell.startswith("---") else re.M)
        kept = [n for n in ast.parse(code).body if isinstance(n, (ast.Import, ast.ImportFrom, ast.FunctionDef))]
        exec(compile(ast.Module(kept, []), str(CHAPTER), "exec"), namespace)
    return SimpleNamespace(**{name: f for name, f in namespace.items() if callable(f)})


@pytest.fixture(scope="module")
def lock():
    return LinearMDP.combination_lock(horizon=4, n_actions=2, rng=np.random.default_rng(1))


# Literal algorithms.


def test_e1_the_printed_algorithm_2_is_ridge_at_the_penalty_over_n(chapter, rng):
    X, y, counts = rng.uniform(-0.5, 0.5, (5, 2)), rng.uniform(-1, 1, 5), np.array([3, 1, 4, 1, 5])
    sharp = chapter.printed_algorithm_2(X, y, counts, 0.7, 1e-9, 0.01, 0.1, 3)
    share = counts / counts.sum()
    assert sharp.values == pytest.approx(ridge_weights((X.T * share) @ X, X.T @ (share * y), 0.7 / 14), abs=1e-8)
    assert sharp.bin_width == pytest.approx(theory.ridge_bin_width(2, 1e-9, 0.01, 0.1, version="printed"))


def test_e8_the_printed_algorithm_3_estimates_the_sum(chapter):
    settings = {"epsilon": 0.1, "delta": 0.01, "rho": 0.1}
    blocks = [np.eye(3)[[i]] for i in range(3)]
    ours = ReplicableSecondMoment(**settings, n_rounds=3).fit(np.eye(3)).second_moment_
    for r in range(20):
        answer = chapter.printed_algorithm_3(blocks, [[7]] * 3, **settings, r=r)
        assert np.linalg.norm(answer - np.eye(3)) <= 0.1 < 1 < np.linalg.norm(answer - np.eye(3) / 3)
        assert np.linalg.norm(answer - ours) <= 0.2


def test_e2_the_printed_algorithm_4_tosses_a_fair_coin_for_ever(chapter, acceptance):
    """100 pairs at M = 10^11: the codes differ in half of them, with a key for each stage in none."""
    width = theory.ridge_bin_width(8, 0.9 / 8, 0.005, 0.05, version="printed")
    mdp, core = LinearMDP.boundary_lock(bin_width=width), CoreSet(np.array([0, 1]), np.full(2, 0.5), 4.0)
    literal = keyed = 0
    for r in range(100):
        arms = [np.random.default_rng((r, arm)) for arm in (0, 1)]
        one, two = (chapter.printed_algorithm_4(mdp, core, 10**11, 1e-4, 0.9, 0.01, 0.1, r, a)[1] for a in arms)
        literal += not np.array_equal(one, two)
        settings = {"n_samples": 10**11, "penalty": 1e-15, "bin_width": width, "shared_seed": r}
        one, two = (r_lsvi(mdp, core, rng=a, **settings).codes for a in arms)
        keyed += not np.array_equal(one, two)
    low, high = acceptance(100, 0.5)
    assert low <= literal <= high and keyed <= 1


def test_e20_values_of_the_printed_algorithm_4_go_below_zero(chapter):
    mdp = LinearMDP.combination_lock(horizon=3, n_actions=2, rng=np.random.default_rng(0))
    core = CoreSet(np.arange(8), np.full(8, 1 / 8), 8.0)
    runs = [
        chapter.printed_algorithm_4(mdp, core, 1000, 1e-6, 0.9, 0.02, 0.2, r, np.random.default_rng(r))
        for r in range(30)
    ]
    lowest = min(run[2] for run in runs)
    # The true values of jammed states are 0, and rounding moves a weight by half a bin at most.
    width = theory.ridge_bin_width(8, 0.9 / 18, 0.02 / 3, 0.2 / 3, version="printed")
    assert -width / 2 - 1e-6 <= lowest < -width / 4


@pytest.mark.parametrize("widths", [None, (0.1, 0.05)])
def test_the_literal_algorithm_5_with_all_repairs_is_that_of_rrl(chapter, lock, widths):
    rest = {"n_rounds": 12, "n_trajectories": 30, "beta": 0.5, "penalty": 0.1, "shared_seed": 4}
    ours = r_lsvi_ucb(lock, bin_widths=widths, rng=np.random.default_rng(6), by="draws", **rest)
    policies, *_ = chapter.printed_algorithm_5(lock, 12, 30, 0.5, 0.1, widths, 4, np.random.default_rng(6), ALL)
    assert np.array_equal(policies, ours.policies)


@pytest.mark.parametrize(
    ("repaired", "learns"),
    [((), False), (tuple(e for e in ALL if e != "E4"), False), (("E4",), True), (ALL, True)],
)
def test_e4_decides_whether_algorithm_5_learns(chapter, lock, repaired, learns):
    policies, *_ = chapter.printed_algorithm_5(lock, 60, 10, 0.5, 0.1, None, 0, np.random.default_rng(0), repaired)
    best = lock.optimal_values().start
    late = np.mean([1 - lock.policy_values(p).start / best for p in policies[30:]])
    assert late < 0.01 if learns else late > 0.5


def test_e3_the_printed_order_breaks_lemma_d_1(chapter):
    mdp = LinearMDP.tabular(np.ones((2, 1, 1, 1)), np.array([[[0.0]], [[1.0]]]), [1.0])
    allowed = 2.0 / np.sqrt(1000 + 0.0625)
    for repaired, holds in (((), False), (("E3",), True)):
        args = (mdp, 1, 1000, 2.0, 0.0625, None, 0, np.random.default_rng(0), repaired)
        _, values, weights = chapter.printed_algorithm_5(*args)
        # The values of stage 1 are cut at H = 2; the printed label is the start value 1/8.
        assert values[1, 1, 0, 0] == 2.0 and values[0, 1, 0, 0] == 0.125
        assert weights[0, 0, 0] == pytest.approx(2.0 if holds else 0.125, rel=1e-3)
        assert (abs(weights[0, 0, 0] - values[1, 1, 0, 0]) <= allowed) == holds


def test_e11_the_printed_start_is_not_optimistic_and_costs_one_round(chapter, lock):
    most = tuple(e for e in ALL if e != "E11")
    _, values, _ = chapter.printed_algorithm_5(lock, 20, 50, 4.0, 0.1, None, 0, np.random.default_rng(0), most)
    excess = (values - lock.optimal_values().q).min(axis=(1, 2, 3))
    assert excess[0] < -0.1 and (excess[1:] >= 0).all()


def test_e10_the_second_moment_before_and_after_a_round_is_singular(lock):
    run = r_lsvi_ucb(
        lock,
        n_rounds=2,
        n_trajectories=10**6,
        beta=0.5,
        penalty=0.1,
        bin_widths=None,
        shared_seed=0,
        rng=np.random.default_rng(0),
        keep_estimates=True,
    )
    gram = np.linalg.inv(run.inverses) - 0.1 * np.eye(lock.dim)
    assert np.linalg.matrix_rank(gram, tol=1e-9).max(axis=1).tolist()[0] == 0
    assert 0 < np.linalg.matrix_rank(gram, tol=1e-9).max() < lock.dim


# Statements and proof steps.


def test_e7_the_printed_penalty_breaks_the_budget_of_one_stage(chapter):
    # Bias about 2 lambda H against eps / (2 H^2): eps H / 16 as printed, eps / (64 H^3) corrected.
    for horizon in (10, 40, 160):
        assert chapter.stage_bias(horizon, 0.9, "printed") == pytest.approx(0.9 * horizon / 16, rel=0.01)
        ratio = chapter.stage_bias(horizon, 0.9, "printed") / chapter.stage_bias(horizon, 0.9, "corrected")
        assert ratio == pytest.approx(4 * horizon**4, rel=0.1)


FOUR = CoreSet(np.arange(4), np.full(4, 0.25), 4.0)


def faint_loss(horizon, epsilon, version, *, built_for=None, seed=0):
    """Loss of R-LSVI with all parameters of one version, and its answer, on the path built for the printed penalty."""
    lam = theory.lsvi_penalty(4, built_for or 4, horizon, epsilon, "printed")
    mdp = LinearMDP.faint_path(horizon=horizon, penalty=lam, margin=2e-3 * epsilon)
    run = r_lsvi(
        mdp,
        FOUR,
        n_samples=theory.lsvi_sample_size(4, 4, horizon, epsilon, 0.01, 0.1, version, per_stage=True),
        penalty=theory.lsvi_penalty(4, built_for or 4, horizon, epsilon, version),
        bin_width=theory.lsvi_bin_width(4, horizon, epsilon, 0.01, 0.1, version),
        shared_seed=seed,
        rng=np.random.default_rng(seed),
    )
    return mdp.optimal_values().start - mdp.policy_values(run.policy).start


@pytest.mark.parametrize(("horizon", "loss"), [(40, 0.896), (60, 1.353), (80, 1.810)])
def test_e7_the_printed_penalty_loses_more_than_epsilon_at_the_printed_sample_size(horizon, loss):
    for seed in range(3):
        assert faint_loss(horizon, 0.9, "printed", seed=seed) == pytest.approx(loss, abs=5e-4)
        assert faint_loss(horizon, 0.9, "corrected", seed=seed) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.9, 0.5, 0.1])
def test_e7_the_loss_grows_with_the_horizon_for_every_epsilon(epsilon):
    losses = [faint_loss(horizon, epsilon, "printed") / (epsilon * horizon) for horizon in (40, 80, 160)]
    # 1.4 sqrt(8) / 128 = 1/32 where 1.4 x H is small; at most a fifth less here.
    assert losses == sorted(losses) and 1 / 41 < losses[0] and losses[-1] < 1.4 * np.sqrt(8) / 128
    # With the constant 16 of the printed core set x is half as large.
    assert faint_loss(100, 0.9, "printed", built_for=16) > 0.9 > faint_loss(60, 0.9, "printed", built_for=16)


@pytest.mark.parametrize("share", [1.0, 0.01, 1e-4])
def test_e7_no_constant_in_front_of_the_printed_penalty_helps(share):
    """Scalars only: b is three quarters of what the way out is worth, and the loss passes epsilon."""
    epsilon, horizon = 0.9, round(60 / np.sqrt(share))
    lam = share * theory.lsvi_penalty(4, 4, horizon, epsilon, "printed")
    chance = 1.4 * np.sqrt(8 * lam)
    stay = go = 0.0
    for left in range(horizon):  # the paying state is worth the stages that are left
        stay, go = stay + 0.75 * chance * (left - stay), go + chance * (left - go)
    mdp = LinearMDP.faint_path(horizon=horizon, penalty=lam, margin=1e-6)
    always = mdp.policy_values(np.full((horizon, 2), 1)).start
    assert mdp.optimal_values().start == pytest.approx(go, abs=1e-5)
    assert always == pytest.approx(stay, rel=0.01)
    plain = r_lsvi(mdp, FOUR, n_samples=1e60, penalty=lam, bin_width=None, shared_seed=0, rng=np.random.default_rng(0))
    assert (plain.policy[:, 0] == 1).all() and go - always > epsilon


@pytest.mark.parametrize("penalty", [1e-9, 2e-6, 0.004])
def test_e7_the_path_meets_assumption_2_1_with_the_bound_on_all_integrals(penalty):
    mdp = LinearMDP.faint_path(horizon=40, penalty=penalty)  # the constructor checks Assumption 2.1
    # The norm is convex, so its largest value over f: S -> [0, 1] is at a corner.
    corners = np.array([[0, 1], [1, 0], [1, 1]])
    assert np.linalg.norm(mdp.measures @ corners.T, axis=1).max() <= 2
    for policy in (mdp.optimal_values().policy, np.full((40, 2), 1), np.zeros((40, 2), dtype=int)):
        norms = np.linalg.norm(mdp.policy_weights(policy), axis=1)
        assert (norms <= [theory.value_weight_bound(4, 40, h, version="sharp") for h in range(40)]).all()
    assert core_set_constant(FOUR, mdp.features) == pytest.approx(4)
    assert core_set_constant(FOUR, mdp.features, version="printed") == pytest.approx(16)
    assert g_optimal_design(mdp.features).certificate == pytest.approx(4)


@pytest.mark.parametrize("bad", [0, -1e-6, 0.0041, np.nan, "x", None])
def test_e7_a_penalty_outside_of_the_path_is_named(bad):
    with pytest.raises(ValueError, match=r"penalty must lie in \(0, 0.004\], got"):
        LinearMDP.faint_path(horizon=4, penalty=bad)


def both_above(rng, d, lam):
    """Two matrices that are at least lambda I, as before and after a projected rounding, and a unit vector."""
    low = [lam * np.eye(d) + (a @ a.T) * lam * 10 ** rng.uniform(-4, 1) for a in rng.normal(size=(2, d, d))]
    phi = rng.normal(size=d)
    return *low, phi / np.linalg.norm(phi)


def test_e6_after_the_projection_the_printed_lemma_fails_below_a_threshold_only(rng):
    kappa = np.linspace(1e-6, 1 - 1e-6, 10**5)
    share = (1 - (1 + kappa) ** -0.5) * np.sqrt((1 - kappa) / kappa)
    threshold, worst_kappa = share.max() ** 2, kappa[share.argmax()]
    assert threshold == pytest.approx(0.03612, abs=1e-5)
    for _ in range(3000):
        d, lam = int(rng.integers(1, 5)), 10 ** rng.uniform(-4, 0.3)
        one, two, phi = both_above(rng, d, lam)
        error = np.linalg.norm(one - two, 2)
        norms = [np.sqrt(phi @ np.linalg.solve(a, phi)) for a in (one, two)]
        gap, kappa = abs(norms[0] - norms[1]), error / lam
        assert max(norms) / min(norms) <= np.sqrt(1 + kappa) * (1 + 1e-9)
        assert gap <= error / (2 * lam**1.5) * (1 + 1e-9)
        if kappa < 1 and lam >= threshold:
            assert gap <= theory.bonus_gap_bound(error, lam, version="printed") * (1 + 1e-9)
    for lam, broken in ((0.99 * threshold, True), (1.01 * threshold, False)):
        error = lam * worst_kappa
        printed = theory.bonus_gap_bound(error, lam, version="printed")
        assert (lam**-0.5 - (lam + error) ** -0.5 > printed) == broken


def test_e9_with_a_quarter_of_rho_no_assumption_is_needed():
    """With d = 1 and unlimited data the printed bin misses in 94 of 100 cases, with min(delta, rho / 4) in none."""
    epsilon, delta, rho = 0.02, 0.49, 0.01
    printed = epsilon / (1 + rho - 2 * delta)
    assert 1 - 2 * epsilon / printed == pytest.approx(0.94)
    assert theory.ridge_bin_width(1, epsilon, min(delta, rho / 4), rho) / 2 <= epsilon
    for delta in (0.001, 0.0025, 0.3, 0.99):
        assert theory.slack(rho, min(delta, rho / 4)) >= rho / 2


def test_e12_published_answers_tilt_the_data_and_tie_the_runs():
    """All pairs of samples of 100 coins that lie on the same side of 1/2, enumerated."""
    k = np.arange(101)
    law = binom.pmf(k, 100, 0.5)
    pair = np.outer(law, law) * ((k >= 50)[:, None] == (k >= 50))
    pair /= pair.sum()
    one, two = np.meshgrid(k / 100, k / 100, indexing="ij")
    mean = (pair * one).sum()
    correlation = (pair * (one - mean) * (two - mean)).sum() / (pair * (one - mean) ** 2).sum()
    assert correlation == pytest.approx(2 / np.pi, abs=0.01)
    tilted = (law * k / 100)[50:].sum() / law[50:].sum()
    assert tilted == pytest.approx(0.5369, abs=1e-4)


@given(st.lists(st.floats(1e-3, 1), min_size=1, max_size=8))
def test_e12_leaving_the_likeliest_answer_is_no_likelier_than_a_disagreement(weights):
    law = np.array(weights) / sum(weights)
    assert 1 - law.max() <= 1 - (law**2).sum() + 1e-12


def test_e13_steps_of_appendix_a():
    k = np.arange(101)
    law, gap = binom.pmf(k, 100, 0.5), np.abs(2 * k - 100) / 100
    tail = law[gap > law @ gap + 0.15].sum()
    assert tail == pytest.approx(0.02098, abs=1e-5) and tail > np.exp(-4.5)
    # Theorem A.1 at theta = 0 with G' = -y: printed right side 0, corrected one twice the left.
    assert law @ gap * 100 / 2 > 0
    # The last step holds exactly for delta <= 2 / e.
    for delta, holds in ((2 / np.e - 1e-9, True), (2 / np.e + 1e-9, False)):
        log = np.log(2 / delta)
        assert ((8 + 2 * np.sqrt(log)) ** 2 <= 100 * log) == holds
    L = np.linspace(0, 700, 200_001)
    assert ((4 + np.sqrt(8 * L)) ** 2 <= 100 * (L + np.log(2))).all()


@pytest.mark.parametrize("mu", [0.5, 0.1, 0.01])
def test_e24_a_rare_gradient_breaks_proposition_a_1(mu):
    """N times both sides, in samples without any gradient; the printed term is too small by 2 exp(-mu)."""
    count = np.arange(1001)
    law = binom.pmf(count, 1000, mu / 1000)
    left, printed = law @ np.abs(count - mu), -np.log(law[0])
    assert left / printed == pytest.approx(2 * np.exp(-mu), rel=1e-3)
    assert printed < left < 4 * printed


def test_e15_the_printed_25_survives_without_symmetrisation(rng):
    L = np.linspace(0, 700, 200_001)
    ratio = (2 + np.sqrt(8 * L)) ** 2 / (25 * (L + np.log(2)))
    assert 0.5 < ratio.max() < 0.56
    # The mean that it rests on, at its worst: fair coins at a fixed row, B = 0.
    n, coins = 100, binom.pmf(np.arange(101), 100, 0.5)
    mean = 2 * coins @ np.abs(2 * np.arange(101) - 100) / n
    assert 0.79 * 2 / np.sqrt(n) < mean <= 2 / np.sqrt(n)
    # ... and on random populations, over the ball of radius B = 1.
    X, y = rng.normal(size=(12, 2)), rng.uniform(-1, 1, 12)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    off = rng.multinomial(50, np.full(12, 1 / 12), size=2000) / 50 - 1 / 12
    circle = np.exp(1j * np.linspace(0, 2 * np.pi, 361))
    theta = np.stack([circle.real, circle.imag])
    grams = np.einsum("sk,ki,kj->sij", off, X, X)
    gaps = 2 * np.linalg.norm(grams @ theta - (off @ (X * y[:, None]))[..., None], axis=1).max(axis=1)
    assert gaps.mean() <= 2 * 2 / np.sqrt(50)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=5))
def test_e15_the_printed_8_survives_as_products_of_coordinates_span_an_interval_of_length_one(x):
    x = np.array(x) / max(1.0, np.linalg.norm(x))
    products = np.outer(x, x)
    assert (np.diag(products) >= 0).all() and np.trace(products) <= 1 + 1e-12
    assert np.abs(products - np.diag(np.diag(products))).max() <= 0.5 + 1e-12


def test_e15_hoeffding_with_the_right_range_gives_the_printed_size():
    t, d, epsilon, rest, log = sp.symbols("t d epsilon rest log", positive=True)
    gap = epsilon * rest / (d**3 + rest)  # Delta of the printed bin
    tau = gap / 2 / d
    for length, factor in ((2, 4), (1, 1)):
        # 2 exp(-2 M tau^2 / (t length^2)) for each entry.
        size = log * t * length**2 / (2 * tau**2)
        assert sp.simplify(size / (2 * t * d**2 * (d**3 + rest) ** 2 * log / (epsilon * rest) ** 2)) == factor


def test_e16_the_bias_has_a_root_of_lambda():
    """No data, one state, V - V^pi = H = 2: the term is 2, the printed bound 0.2."""
    lam, difference = 0.01, 2.0
    mdp = LinearMDP.tabular(np.ones((2, 1, 1, 1)), np.zeros((2, 1, 1)), [1.0])
    value = float(mdp.measures[0, 0] @ [difference - mdp.policy_values(np.zeros((2, 1), dtype=int)).v[1, 0]])
    term = lam * mdp.features[0, 0, 0] / lam * value
    norm = 1 / np.sqrt(lam)
    assert lam * difference * norm < term <= np.sqrt(lam) * difference * norm * (1 + 1e-12)


def test_e17_values_chosen_after_the_data_cost_another_root_of_d(chapter):
    dims, rng = np.array([4, 8, 16, 32, 64]), np.random.default_rng(3)
    fixed, chosen = np.polyfit(np.log(dims), np.log([chapter.noise(d, rng) for d in dims]), 1)[0]
    assert fixed == pytest.approx(0.5, abs=0.1) and chosen > 0.8


def test_e18_a_noise_of_mean_zero_that_follows_the_input_is_never_averaged_out():
    truth, half, lam = np.array([0.3, -0.2]), np.array([0.5, 0.5]), 1e-4
    for tilt, error in ((0.5, 0.5), (0.0, 0.0)):
        labels = truth + tilt * np.array([1, -1])
        assert half @ (labels - truth) == pytest.approx(0, abs=1e-15)
        weights = ridge_weights(np.diag(half), half * labels, lam)
        assert np.abs(weights - truth).max() == pytest.approx(error, abs=1e-3)


def test_e21_exponents_at_penalty_one():
    """The corrected chain of Theorem 4.2 in sympy, with lambda free."""
    d, H, epsilon, lam = sp.symbols("d H epsilon lambda", positive=True)
    beta = d * H
    T = beta**2 * H**2 * d / (lam * epsilon**2)
    gram = T * d**8 * (T * H) ** 2 / (lam * epsilon / (beta * H)) ** 4
    average = lam / T
    ridge = (H**2 / average) * d**3 / average**2 * (H / epsilon) ** 2 * (T * H) ** 2 / T
    one = {lam: 1}
    assert sp.simplify((gram * T).subs(one) - d**24 * H**26 / epsilon**12) == 0
    assert sp.simplify((ridge * T).subs(one) - d**18 * H**26 / epsilon**12) == 0
    printed = {lam: epsilon**2 / (H * d) ** 2}
    assert sp.simplify((gram * T).subs(printed) - d**40 * H**42 / epsilon**28) == 0
