"""Bounds of Theorems 4.1 and 4.2: compositions checked symbolically, constants against the chain written out."""

import math
from decimal import Decimal

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from rrl import theory

d, H, epsilon, rho, L = sp.symbols("d H epsilon rho L", positive=True)


def powers(expression):
    """Exponents of the paper's symbols in a monomial."""
    expression = sp.simplify(expression)
    found = {s: sp.simplify(sp.diff(expression, s) * s / expression) for s in (d, H, epsilon, rho, L)}
    assert all(p.is_integer for p in found.values())
    return tuple(int(found[s]) for s in (d, H, epsilon, rho, L))


# Algorithm 5 as printed: exponents of (d, H, epsilon, rho, log(1/delta)).


@pytest.mark.parametrize(
    ("gram", "per_round", "total"),
    [
        ("printed", (51, 56, -40, -2, 4), (56, 62, -44, -2, 5)),
        ("corrected", (35, 36, -24, -2, 4), (40, 42, -28, -2, 5)),
        ("lemma D.3", (31, 32, -20, -2, 4), (36, 38, -24, -2, 5)),
        ("both conversions", (55, 60, -44, -2, 4), (60, 66, -48, -2, 5)),
    ],
)
def test_the_composition_of_theorem_4_2(gram, per_round, total):
    chain = theory.ucb_chain(d, H, epsilon, rho, L, gram=gram)
    assert powers(chain["T"]) == (5, 6, -4, 0, 1)
    assert powers(chain["M"]) == per_round
    assert powers(chain["M"] * chain["T"]) == total
    assert powers(chain["penalty"]) == (-2, -2, 2, 0, 0) and powers(chain["delta_w"]) == (0, -1, 1, 0, 0)


def test_the_printed_accuracy_is_safe_by_the_factor_of_the_audit():
    """Delta_Lambda was converted twice: it is (eps / (d H))^8 / H^2 of what the corrected lemmas need."""
    printed, needed = (theory.ucb_chain(d, H, epsilon, rho, L, gram=g)["delta_gram"] for g in ("printed", "corrected"))
    assert sp.simplify(printed / needed - (epsilon / (d * H)) ** 8 / H**2) == 0


def test_the_demand_of_ridge_under_matched_scaling():
    """M >= T^2 H^2 d^3 L / (lambda^3 Delta_w^2 rho_est^2): dominated by the second moments, except under Lemma D.3."""
    demand = {}
    for gram in theory.lsvi_ucb.GRAM_ACCURACIES:
        c = theory.ucb_chain(d, H, epsilon, rho, L, gram=gram)
        average = c["penalty"] / c["T"]
        rows = H**2 / average * d**3 * L / (average**2 * c["delta_w"] ** 2 * c["rho_est"] ** 2)
        demand[gram] = sp.simplify(rows / c["T"] / c["M"])
    ridge = demand["printed"] * theory.ucb_chain(d, H, epsilon, rho, L)["M"]
    assert powers(ridge)[:4] == (29, 36, -24, -2)
    at = {d: 10, H: 10, epsilon: sp.Rational(1, 10), rho: sp.Rational(1, 10), L: 3}
    dominated = {gram: bool(ratio.subs(at) < 1) for gram, ratio in demand.items()}
    assert dominated == {"printed": True, "corrected": True, "lemma D.3": False, "both conversions": True}


def test_the_printed_parameters_are_the_chain():
    exact = theory.ucb_chain(*(Decimal(x) for x in (4, 3, 0.5, 0.1)), Decimal(1 / 0.01).ln())
    p = theory.ucb_parameters(4, 3, 0.5, 0.01, 0.1, version="printed")
    assert (p.penalty, p.beta, p.delta_w) == (0.25 / 144, 12.0, 0.5 / 3)
    for name, value in (("T", p.n_rounds), ("delta_gram", p.delta_gram), ("rho_est", p.rho_est)):
        assert value == pytest.approx(float(exact[name]), rel=1e-12)
    assert p.n_trajectories == pytest.approx(float(exact["M"]), rel=1e-10)
    assert p.log10_total == pytest.approx(p.log10_n_trajectories + math.log10(p.n_rounds))
    assert p.delta_est == pytest.approx(0.01 / (3 * p.n_rounds))
    assert p.bin_widths[0] == theory.ridge_bin_width(4, p.delta_w, p.delta_est, p.rho_est, version="printed")


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.floats(0.01, 0.9),
    st.floats(0.05, 0.9),
    st.floats(1e-4, 0.99),
    st.floats(0.1, 50),
)
def test_the_corrected_parameters_meet_every_demand(d, H, epsilon, rho, delta, beta):
    p = theory.ucb_parameters(d, H, epsilon, delta, rho, beta=beta)
    M = p.n_trajectories if p.log10_n_trajectories < 300 else 1e300
    # Accuracy: Lemma D.3 turns the Gram error into the bonus gap, and all shares add up to at most epsilon.
    gap = theory.bonus_gap_bound(p.delta_gram, p.penalty) if p.delta_gram < p.penalty else np.inf
    assert gap <= epsilon / (16 * H * beta) * (1 + 1e-9)
    assert p.delta_w == pytest.approx(epsilon / (16 * H))
    # The calls may fail with probability delta / 2, the bound on the gap with the rest.
    assert 2 * H * p.n_rounds * p.delta_est <= delta / 2 * (1 + 1e-9)
    loss = theory.ucb_gap_bound(d, H, p.n_rounds, M, beta, p.penalty, delta / 2, p.delta_w, gap)
    assert loss <= epsilon * (1 + 1e-6)
    # Corollary D.1 needs the gap below the potential's own average.
    assert gap <= theory.elliptical_potential_bound(d, 1, p.n_rounds, 1, p.penalty) / p.n_rounds * (1 + 1e-9)
    # Replicability: both estimators of every call get their sample sizes.
    log_t = math.log10(p.n_rounds)
    moments = theory.second_moment_sample_size(d, 1.0, p.delta_est, p.rho_est, t=p.n_rounds)
    assert p.log10_n_trajectories + 1e-9 >= math.log10(moments) - log_t - 2 * math.log10(p.delta_gram)
    ridge = theory.ridge_sample_size(d, p.delta_w, p.delta_est, p.rho_est, p.penalty / p.n_rounds, label_bound=1 + H)
    assert p.log10_n_trajectories + 1e-9 >= math.log10(ridge) - log_t
    assert 2 * H * p.n_rounds * p.rho_est == pytest.approx(rho / 2) and p.rho_est > 2 * p.delta_est


def test_erratum_e9_the_corrected_parameters_need_no_rho_above_two_delta():
    tight, loose = (theory.ucb_parameters(3, 4, 0.5, delta, 0.1) for delta in (0.025, 0.4))
    # Beyond rho / 4 a larger delta changes no call.
    assert (loose.delta_est, loose.bin_widths) == (tight.delta_est, tight.bin_widths)
    assert loose.log10_total == tight.log10_total
    with pytest.raises(ValueError, match="rho must exceed 2"):
        theory.ucb_parameters(3, 4, 0.5, 0.4, 0.1, version="printed")


def test_the_gap_bound_pays_for_three_events():
    """Each of three independent events at its share of delta: together they fail with at most delta."""
    for delta in (0.01, 0.3, 0.9):
        # Azuma at the deviation of the bound, for T M H steps of range 2 H and T M starts.
        T, M, H = 40, 3, 5
        off = theory.ucb_gap_bound(1, H, T, M, 1e-12, 1.0, delta) * T * M
        steps, starts = off * math.sqrt(H) / (math.sqrt(H) + 1), off / (math.sqrt(H) + 1)
        tails = math.exp(-(steps**2) / (2 * T * M * H**3)), math.exp(-(starts**2) / (2 * T * M * H**2))
        assert tails == pytest.approx((delta / 3, delta / 3), rel=1e-6)


@pytest.mark.parametrize(("d", "H", "beta"), [(1, 1, None), (1, 5, None), (2, 2, 1e-3)])
def test_where_ridge_asks_for_most_its_count_is_the_count(d, H, beta):
    """Theorem 3.1 with targets up to 1 + H, whose minimiser has norm at most (1 + H) / (2 sqrt(lambda / T))."""
    p = theory.ucb_parameters(d, H, 0.9, 0.01, 0.5, beta=beta)
    ridge = theory.ridge_sample_size(d, p.delta_w, p.delta_est, p.rho_est, p.penalty / p.n_rounds, label_bound=1 + H)
    assert p.log10_n_trajectories == pytest.approx(math.log10(ridge) - math.log10(p.n_rounds), abs=1e-9)


def test_the_number_of_rounds_solves_its_equation():
    p = theory.ucb_parameters(3, 5, 0.4, 0.01, 0.1)
    half = 4 * p.beta * 5 * math.sqrt((1 + 1 / p.penalty) * 3 * math.log1p(p.n_rounds / p.penalty) / p.n_rounds)
    assert half == pytest.approx(0.2, rel=1e-9)
    assert theory.lsvi_ucb._rounds(0.01, 1.0) == 1.0


def test_sizes_beyond_a_float_come_as_logarithms():
    p = theory.ucb_parameters(1000, 1000, 1e-3, 0.01, 0.1, version="printed")
    # 56 * 3 + 62 * 3 + 44 * 3 + 2 digits and log(100)^5.
    assert p.log10_total == pytest.approx(3 * (56 + 62 + 44) + 2 + 5 * math.log10(math.log(100)), abs=1e-6)
    with pytest.raises(OverflowError, match="log10=True"):
        _ = p.n_trajectories
    digits = theory.lsvi_sample_size(10**9, 10**9, 10**9, 1e-12, 0.01, 0.1, log10=True)
    assert 308 < digits < 500
    with pytest.raises(OverflowError, match="beyond a float"):
        theory.lsvi_sample_size(10**9, 10**9, 10**9, 1e-12, 0.01, 0.1)


# Theorem 4.1.


def chain_of_theorem_4_1(power, k):
    """The corrected chain in sympy, B + Y replaced by B and d^{3/2} + rho' by d^{3/2}, what dominates."""
    accuracy = epsilon / (2 * H**power)
    penalty = accuracy**2 / (4 * k * 4 * H**2 * d)
    bound = 2 * H / sp.sqrt(penalty)
    ridge = 25 * bound**2 * d**3 / (penalty**2 * (accuracy / 2) ** 2 * (rho / H) ** 2)
    return sp.expand(sp.simplify(ridge * H))


@pytest.mark.parametrize(("power", "horizon"), [(2, 27), (1, 19)])
def test_the_composition_of_theorem_4_1_is_not_the_printed_one(power, horizon):
    k = sp.symbols("k", positive=True)
    size = chain_of_theorem_4_1(power, k)
    assert sp.simplify(size - 25 * 256 * 4096 * 16 * d**6 * k**3 * H**horizon / (epsilon**8 * rho**2)) == 0
    # The function approaches it where B >> Y and d^{3/2} >> rho'.
    version = {2: "corrected", 1: "sharp"}[power]
    values = {d: 400, k: 400, H: 6, epsilon: sp.Rational(1, 1000), rho: sp.Rational(1, 100)}
    exact = float(size.subs(values)) * math.log(2 * 6 / 0.005)
    assert theory.lsvi_sample_size(400, 400, 6, 1e-3, 0.005, 0.02, version) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(("version", "horizon"), [("printed", 23), ("corrected", 27), ("sharp", 19)])
def test_the_exponents_of_theorem_4_1_in_numbers(version, horizon):
    """Slopes between large arguments, where the lower-order terms are gone."""

    def digits(d=2000, k=2000, H=2000, epsilon=1e-4):
        return theory.lsvi_sample_size(d, k, H, epsilon, 1e-3, 0.1, version, log10=True)

    base = digits()
    log = math.log10(math.log(2 * 4000 / 1e-3) / math.log(2 * 2000 / 1e-3))
    if version == "printed":
        log = math.log10(math.log(4000 / 1e-3) / math.log(2000 / 1e-3))
    slopes = (digits(d=4000), digits(k=4000), digits(H=4000) - log, digits(epsilon=5e-5))
    slopes = [(x - base) / math.log10(2) for x in slopes]
    assert slopes == pytest.approx([6, 3, horizon, 8], abs=1e-3)


def test_the_constants_of_theorem_4_1():
    # By hand: d = 2, k = 3, H = 4, eps = 1/2, delta = 0.01, rho = 0.1.
    accuracy = 0.5 / 32
    penalty = accuracy**2 / (4 * 3 * (2 * 4) ** 2 * 2)
    assert theory.lsvi_penalty(2, 3, 4, 0.5) == pytest.approx(penalty) == pytest.approx(0.25 / (64 * 3 * 2 * 4**6))
    assert theory.lsvi_penalty(2, 3, 4, 0.5, "printed") == pytest.approx(0.25 / (16 * 3 * 2 * 16))
    assert theory.lsvi_penalty(2, 3, 4, 0.5, "sharp") == pytest.approx(0.25 / (64 * 3 * 2 * 4**4))
    bound = 16 * math.sqrt(6) * 4**4 / 0.5
    assert theory.lsvi_weight_bound(2, 3, 4, 0.5) == pytest.approx(bound)
    assert theory.lsvi_weight_bound(2, 3, 4, 0.5, "printed") == pytest.approx(8 * math.sqrt(6) * 16 / 0.5)
    rest = 0.08 / 4
    stage = 25 * (bound + 8) ** 2 * (2**1.5 + rest) ** 2 * math.log(2 * 4 / 0.01) / (penalty * accuracy / 2 * rest) ** 2
    assert theory.lsvi_sample_size(2, 3, 4, 0.5, 0.01, 0.1, per_stage=True) == pytest.approx(stage)
    assert theory.lsvi_sample_size(2, 3, 4, 0.5, 0.01, 0.1) == pytest.approx(4 * stage)
    printed = 40000 * 2**6 * 27 * 4.0**23 * math.log(4 / 0.01) / (0.5**8 * 0.08**2)
    assert theory.lsvi_sample_size(2, 3, 4, 0.5, 0.01, 0.1, "printed") == pytest.approx(printed)
    alpha = 2 * 2 * (accuracy / 2) / (2**1.5 + rest)
    assert theory.lsvi_bin_width(2, 4, 0.5, 0.01, 0.1) == pytest.approx(alpha)
    assert theory.lsvi_bin_width(2, 4, 0.5, 0.01, 0.1, "printed") == pytest.approx(2 * accuracy / (2**1.5 + rest))
    assert theory.lsvi_bin_width(2, 4, 0.5, 0.01, 0.1, "sharp") == pytest.approx(4 * alpha)
    assert theory.value_weight_bound(9, 4) == 24


# The lemmas.


def test_the_lemmas_in_numbers():
    assert theory.bellman_loss_bound(3, 0.1, version="printed") == pytest.approx(1.8)
    assert theory.bellman_loss_bound(3, 0.1) == pytest.approx(0.6)
    assert theory.gram_accuracy(0.1, 2.0, 3, 0.6) == pytest.approx(5e-5)
    assert theory.elliptical_potential_bound(2, 3, 5, 7, 0.5) == pytest.approx(21 * math.sqrt(5 * 3 * 2 * math.log(11)))
    assert theory.jin_beta(3, 4, 100, 0.1, c=2.0) == pytest.approx(24 * math.sqrt(math.log(24000)))
    terms = theory.ucb_gap_bound(2, 3, 50, 7, 0.4, 0.5, 0.05, delta_w=0.01, bonus_gap=0.02)
    potential = 4 * 0.4 * 3 * math.sqrt(3 * 2 * math.log(101) / 50)
    noise = math.sqrt(2 * 27 * math.log(60) / 350) + 3 * math.sqrt(2 * math.log(60) / 350)
    assert terms == pytest.approx(potential + noise + 6 * (0.4 * 0.02 + 0.01))


@given(st.floats(1e-6, 1.0), st.floats(0.01, 1.0), st.floats(0.1, 20), st.integers(1, 20))
def test_lemma_d_3_follows_from_lemma_d_2(penalty, epsilon, beta, H):
    """The corrected accuracy gives the promised gap wherever the gap itself is at most 1 / sqrt(lambda)."""
    target = epsilon / (beta * H)
    accuracy = theory.gram_accuracy(penalty, beta, H, epsilon)
    if target**2 * penalty <= 1:
        assert theory.bonus_gap_bound(accuracy, penalty) <= target * (1 + 1e-9)


def test_names_are_re_exported_and_bad_symbols_refused():
    for module in (theory.rounding, theory.linear, theory.lsvi, theory.lsvi_ucb):
        for name in module.__all__:
            assert getattr(theory, name) is getattr(module, name)
    for call, message in [
        (lambda: theory.lsvi_penalty(2, 3, 4, 0.5, version="x"), "version must be 'corrected', 'printed' or 'sharp'"),
        (lambda: theory.lsvi_sample_size(2, 3, 4, 0.5, 0.1, 0.1), "rho must exceed 2"),
        (lambda: theory.lsvi_sample_size(-2, 3, 4, 0.5, 0.01, 0.1), "d must be positive"),
        (lambda: theory.bellman_loss_bound(0, 0.1), "H must be positive"),
        (lambda: theory.bonus_gap_bound(0.2, 0.1), r"gap must lie in \[0, penalty=0.1\), got 0.2"),
        (lambda: theory.ucb_chain(1, 1, 1, 1, 1, gram="x"), "gram must be one of"),
        (
            lambda: theory.ucb_parameters(2, 3, 0.5, 0.01, 0.1, version="printed", beta=1.0),
            "beta is d H in the printed",
        ),
        (lambda: theory.ucb_parameters(2, 3, 0.5, 0.01, 0.1, beta=0.0), "beta must be positive"),
        (lambda: theory.jin_beta(2, 3, 4, 1.0), "p must lie strictly between"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
