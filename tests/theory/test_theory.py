"""Every formula against a derivation of its own: the balance equations solved again, or the exact law."""

import inspect

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from rrl import hypergrid_round, theory
from rrl._checks import VERSIONS

# The argument values at which formulas are compared: (d, epsilon, delta, rho).
POINTS = [(1, 0.3, 0.05, 0.2), (2, 0.1, 0.01, 0.1), (5, 0.9, 0.001, 0.5), (12, 0.01, 0.2, 0.9)]


@pytest.fixture(scope="module")
def symbols():
    return sp.symbols("d epsilon r N alpha Delta lamda e1", positive=True)


# Lemma 2.1.


@given(st.integers(1, 6), st.integers(1, 6), st.floats(1e-3, 1e3), st.integers(0, 10_000))
def test_rounding_error_is_within_the_bound_which_is_the_norm_of_half_bins(d1, d2, width, seed):
    bound = theory.rounding_error_bound(d1, d2, width)
    assert bound == pytest.approx(np.linalg.norm(np.full((d1, d2), width / 2)), rel=1e-12)
    a = np.random.default_rng(seed).normal(size=(d1, d2))
    assert np.linalg.norm(hypergrid_round(a, width, shared_seed=seed).values - a) <= bound * (1 + 1e-9) + 1e-12


@given(st.integers(1, 5), st.integers(1, 5), st.floats(1e-4, 0.5), st.integers(0, 10_000))
def test_both_disagreement_bounds_lie_above_the_exact_law_and_the_printed_is_the_looser(d1, d2, distance, seed):
    gap = np.random.default_rng(seed).normal(size=d1 * d2)
    gap *= distance / np.linalg.norm(gap)
    law = theory.disagreement_probability(gap, 1.0)
    corrected, printed = (
        theory.rounding_disagreement_bound(d1, d2, distance, 1.0, v) for v in ("corrected", "printed")
    )
    assert law <= corrected * (1 + 1e-12) <= printed * (1 + 2e-12)
    assert printed == pytest.approx(corrected * np.sqrt(d1 * d2), rel=1e-12)


def test_the_corrected_bound_is_nearly_reached_by_equal_small_gaps():
    n, gap = 20, 1e-6
    law = theory.disagreement_probability(np.full(n, gap), 1.0)
    bound = theory.rounding_disagreement_bound(n, 1, np.sqrt(n) * gap, 1.0)
    assert law == pytest.approx(bound, rel=1e-4)
    assert theory.rounding_disagreement_bound(n, 1, 0.0, 1.0) == 0.0


@pytest.mark.parametrize("width", [0.5, [0.5, 1.0, 2.0]])
def test_the_exact_law_by_monte_carlo(width, acceptance):
    """Power: with 100,000 grids a law that is off by .011 is found with probability > .98."""
    one, two = np.array([0.1, -0.3, 0.7]), np.array([0.2, -0.1, 0.65])
    trials = 100_000
    codes = [hypergrid_round(np.tile(x, (trials, 1)), width, shared_seed=4).codes for x in (one, two)]
    low, high = acceptance(trials, theory.disagreement_probability(one - two, width))
    assert low <= (codes[0] != codes[1]).any(axis=1).sum() <= high


def test_the_exact_law_in_fractions_tiny_sure_and_many():
    law = theory.disagreement_probability
    assert law([0.25, 0.5], 1.0) == pytest.approx(1 - 0.75 * 0.5, rel=1e-14)
    assert law([0.0, 0.0], 1.0) == 0.0 and law([5.0, 0.1], 1.0) == 1.0 and law([1.0], 1.0) == 1.0
    assert law([-0.25], 0.5) == 0.5
    # No digit of a tiny probability is lost, as it would be in 1 - prod(1 - x).
    assert law([1e-18, 2e-18], 1.0) == pytest.approx(3e-18, rel=1e-12)
    many = law([[0.5, 0.5], [0.0, 0.1]], [1.0, 2.0])
    np.testing.assert_allclose(many, [1 - 0.5 * 0.75, 0.05], rtol=1e-14)
    assert type(law([0.5], 1.0)) is float and many.shape == (2,)


# Theorem 3.1.


@pytest.mark.parametrize(("d", "epsilon", "delta", "rho"), POINTS)
def test_the_ridge_bin_solves_the_balance_equations_again(d, epsilon, delta, rho):
    """Spend all of epsilon, sqrt(d) alpha/2 + Delta/2 = epsilon, and all of rho', d Delta/alpha = rho'."""
    rest = rho - 2 * delta

    def unspent(alpha):
        return np.sqrt(d) * alpha / 2 + (rest * alpha / d) / 2 - epsilon

    alpha = brentq(unspent, 1e-12, 10 * epsilon * d, xtol=1e-16, rtol=1e-14)
    assert theory.ridge_bin_width(d, epsilon, delta, rho) == pytest.approx(alpha, rel=1e-12)
    # The printed bin spends half.
    printed = theory.ridge_bin_width(d, epsilon, delta, rho, version="printed")
    assert unspent(printed) == pytest.approx(-epsilon / 2, rel=1e-12)


@pytest.mark.parametrize(("d", "epsilon", "delta", "rho"), POINTS)
@pytest.mark.parametrize(("penalty", "Y", "B"), [(0.1, 1.0, 2.0), (3.0, 0.5, None)])
def test_the_ridge_sample_size_follows_the_chain_of_the_proof(d, epsilon, delta, rho, penalty, Y, B):
    """From Lemma A.2, eps'/(2 lambda) = Delta/2; from Theorem A.2, N = 100 (B+Y)^2 log(2/delta)/eps'^2."""
    rest = rho - 2 * delta
    bound = Y / (2 * penalty**0.5) if B is None else B
    gap = rest * theory.ridge_bin_width(d, epsilon, delta, rho) / d
    n = 100 * (bound + Y) ** 2 * np.log(2 / delta) / (penalty * gap) ** 2
    assert theory.ridge_sample_size(d, epsilon, delta, rho, penalty, Y, B) == pytest.approx(n, rel=1e-12)
    printed = theory.ridge_sample_size(d, epsilon, delta, rho, penalty, Y, B, version="printed")
    paper = 25 * (bound + Y) ** 2 * d**3 * np.log(2 / delta) / (penalty**2 * epsilon**2 * rest**2)
    assert printed == pytest.approx(paper, rel=1e-12)
    # The paper's last inequality is false (E15): its 25 d^3 is too small, 100 d^3 is always enough.
    assert printed < n <= 4 * printed


def test_erratum_e15_symbolically(symbols):
    d, epsilon, r, _, alpha, gap, lamda, e1 = symbols
    solution = sp.solve([sp.sqrt(d) * alpha / 2 + gap / 2 - epsilon, d * gap / alpha - r], [alpha, gap], dict=True)[0]
    assert sp.simplify(solution[alpha] - 2 * d * epsilon / (d ** sp.Rational(3, 2) + r)) == 0
    assert sp.simplify(solution[gap] - 2 * epsilon * r / (d ** sp.Rational(3, 2) + r)) == 0
    size = (100 / e1**2).subs(e1, lamda * solution[gap])
    assert sp.simplify(size - 25 * (d ** sp.Rational(3, 2) + r) ** 2 / (lamda * epsilon * r) ** 2) == 0
    # d^{3/2} + rho' <= 2 d^{3/2} as rho' <= 1 <= d; the printed line drops rho' altogether.
    assert 25 * (5**1.5 + 0.2) ** 2 > 25 * 5**3


@given(st.floats(1e-3, 1e3), st.floats(1e-6, 1e3), st.integers(0, 10_000))
def test_no_ridge_solution_is_longer_than_the_bound_and_one_reaches_it(Y, penalty, seed):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(1, 8), rng.integers(1, 4)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    y = rng.uniform(-Y, Y, size=n)
    bound = theory.ridge_weight_bound(Y, penalty)
    w = np.linalg.solve(X.T @ X / n + penalty * np.eye(d), X.T @ y / n)
    assert np.linalg.norm(w) <= bound * (1 + 1e-9)
    if penalty <= 1:
        # The one point x = sqrt(lambda), y = Y.
        assert np.sqrt(penalty) * Y / (penalty + penalty) == pytest.approx(bound, rel=1e-12)


# Theorem 3.2.


@pytest.mark.parametrize(("k", "norm"), [(4, 1.0), (2.5, 3.0)])
@pytest.mark.parametrize(("d", "epsilon", "delta", "rho"), POINTS)
def test_the_fixed_design_penalty_makes_the_bias_half_of_epsilon_and_the_size_is_theorem_3_1_there(
    d, epsilon, delta, rho, k, norm
):
    penalty = brentq(lambda x: np.sqrt(k * x) * norm - epsilon / 2, 1e-16, 1e3, xtol=1e-18, rtol=1e-14)
    assert theory.fixed_design_penalty(epsilon, k, norm) == pytest.approx(penalty, rel=1e-10)
    Y, B, rest = 1.5, 2.0, rho - 2 * delta
    for version, dimension in (("printed", d**1.5), ("corrected", d**1.5 + rest)):
        n = 1600 * (B + Y) ** 2 * dimension**2 * k**2 * norm**4 * np.log(2 / delta) / (epsilon**6 * rest**2)
        ours = theory.fixed_design_sample_size(d, k, epsilon, delta, rho, norm, Y, B, version=version)
        assert ours == pytest.approx(n, rel=1e-10)
    # By default B is the bound that always holds, at this penalty.
    default = theory.fixed_design_sample_size(d, k, epsilon, delta, rho, norm, Y)
    sharp = theory.fixed_design_sample_size(d, k, epsilon, delta, rho, norm, Y, Y / (2 * np.sqrt(penalty)))
    assert default == pytest.approx(sharp, rel=1e-9)


# Theorem 3.3.


@pytest.mark.parametrize(("d", "epsilon", "delta", "rho"), POINTS)
@pytest.mark.parametrize("t", [1, 4])
def test_the_second_moment_solves_its_balance_equations_again(d, epsilon, delta, rho, t):
    """Solve d alpha/2 + Delta/2 = epsilon, d^2 Delta/alpha = rho', eps' = Delta/2, M by Hoeffding at eps'/d."""
    rest = rho - 2 * delta

    def unspent(alpha):
        return d * alpha / 2 + (rest * alpha / d**2) / 2 - epsilon

    alpha = brentq(unspent, 1e-12, 10 * epsilon, xtol=1e-18, rtol=1e-14)
    assert theory.second_moment_bin_width(d, epsilon, delta, rho) == pytest.approx(alpha, rel=1e-10)
    printed = theory.second_moment_bin_width(d, epsilon, delta, rho, version="printed")
    assert unspent(printed) == pytest.approx(-epsilon / 2, rel=1e-10)
    tau = rest * alpha / d**2 / 2 / d
    m = brentq(lambda m: np.log(2 * d**2 / delta) - m * tau**2 / (2 * t), 1e-3, 1e30, rtol=1e-14)
    ours = theory.second_moment_sample_size(d, epsilon, delta, rho, t=t)
    assert ours == pytest.approx(t * m, rel=1e-9)
    paper = t * 8 * t * d**8 * np.log(2 * d**2 / delta) / (epsilon**2 * rest**2)
    size = theory.second_moment_sample_size(d, epsilon, delta, rho, t=t, version="printed")
    assert size == pytest.approx(paper, rel=1e-12)
    # With the doubled bin the printed size is enough (d^3 + rho' <= 2 d^3); with the printed bin, 4 times that.
    assert ours <= size


# Monotone in every argument, and in the direction that sense dictates.

RISING, FALLING = 1, -1
DIRECTIONS = [
    ("slack", {"rho": 0.3, "delta": 0.05}, {"rho": RISING, "delta": FALLING}),
    ("rounding_error_bound", {"d1": 3, "d2": 2, "bin_width": 0.1}, {"d1": RISING, "d2": RISING, "bin_width": RISING}),
    (
        "rounding_disagreement_bound",
        {"d1": 3, "d2": 2, "distance": 0.1, "bin_width": 0.5},
        {"d1": RISING, "d2": RISING, "distance": RISING, "bin_width": FALLING},
    ),
    (
        "ridge_bin_width",
        {"d": 3, "epsilon": 0.1, "delta": 0.05, "rho": 0.3},
        {"d": FALLING, "epsilon": RISING, "delta": RISING, "rho": FALLING},
    ),
    ("ridge_weight_bound", {"label_bound": 1.0, "penalty": 0.1}, {"label_bound": RISING, "penalty": FALLING}),
    (
        "ridge_sample_size",
        {"d": 3, "epsilon": 0.1, "delta": 0.05, "rho": 0.3, "penalty": 0.1, "label_bound": 1.0, "weight_bound": 1.0},
        {
            "d": RISING,
            "epsilon": FALLING,
            "rho": FALLING,
            "penalty": FALLING,
            "label_bound": RISING,
            "weight_bound": RISING,
        },
    ),
    (
        "fixed_design_penalty",
        {"epsilon": 0.1, "k": 4, "theta_norm": 1.0},
        {"epsilon": RISING, "k": FALLING, "theta_norm": FALLING},
    ),
    (
        "fixed_design_sample_size",
        {"d": 3, "k": 4, "epsilon": 0.1, "delta": 0.05, "rho": 0.3, "theta_norm": 1.0, "label_bound": 1.0},
        {"d": RISING, "k": RISING, "epsilon": FALLING, "rho": FALLING, "theta_norm": RISING, "label_bound": RISING},
    ),
    (
        "second_moment_bin_width",
        {"d": 3, "epsilon": 0.1, "delta": 0.05, "rho": 0.3},
        {"d": FALLING, "epsilon": RISING, "delta": RISING, "rho": FALLING},
    ),
    (
        "second_moment_sample_size",
        {"d": 3, "epsilon": 0.1, "delta": 0.05, "rho": 0.3, "t": 2},
        {"d": RISING, "epsilon": FALLING, "rho": FALLING, "t": RISING},
    ),
]


@pytest.mark.parametrize(("name", "arguments", "directions"), DIRECTIONS, ids=[row[0] for row in DIRECTIONS])
def test_every_formula_moves_the_right_way_in_every_argument(name, arguments, directions):
    formula = getattr(theory, name)
    versions = [{"version": v} for v in VERSIONS] if "version" in inspect.signature(formula).parameters else [{}]
    for version in versions:
        base = formula(**arguments, **version)
        assert type(base) is float
        for argument, direction in directions.items():
            up = formula(**{**arguments, argument: arguments[argument] * 2}, **version)
            assert np.sign(up - base) == direction, (argument, version)


# Refusals.


@pytest.mark.parametrize(("name", "arguments", "directions"), DIRECTIONS, ids=[row[0] for row in DIRECTIONS])
def test_every_bad_argument_is_refused_by_name(name, arguments, directions):
    formula = getattr(theory, name)
    for argument in arguments:
        # No weight_bound means the bound that always holds.
        for bad in (-1, np.nan, "x", [0.1, 0.2], *([] if argument == "weight_bound" else [None])):
            with pytest.raises(ValueError, match=argument):
                formula(**{**arguments, argument: bad})
        for bad in () if argument == "distance" else (0, np.inf):
            with pytest.raises(ValueError, match=argument):
                formula(**{**arguments, argument: bad})
    if "version" in inspect.signature(formula).parameters:
        with pytest.raises(ValueError, match="version must be one of"):
            formula(**arguments, version="paper")


@pytest.mark.parametrize(("rho", "delta"), [(0.1, 0.05), (0.1, 0.06), (0.2, 0.1), (1e-9, 0.4)])
def test_rho_must_exceed_two_delta(rho, delta):
    for call in (
        lambda: theory.slack(rho, delta),
        lambda: theory.ridge_bin_width(2, 0.1, delta, rho),
        lambda: theory.ridge_sample_size(2, 0.1, delta, rho, 0.1),
        lambda: theory.fixed_design_sample_size(2, 2, 0.1, delta, rho),
        lambda: theory.second_moment_bin_width(2, 0.1, delta, rho),
        lambda: theory.second_moment_sample_size(2, 0.1, delta, rho),
    ):
        with pytest.raises(ValueError, match=r"rho must exceed 2 \* delta, got rho="):
            call()


@pytest.mark.parametrize(
    ("rho", "delta", "name"), [(1, 0.1, "rho"), (0, 0.1, "rho"), (0.5, 0, "delta"), (0.5, 1, "delta")]
)
def test_probabilities_lie_strictly_inside_the_unit_interval(rho, delta, name):
    with pytest.raises(ValueError, match=f"{name} must lie strictly between 0 and 1"):
        theory.slack(rho, delta)


@pytest.mark.parametrize(
    ("differences", "width", "message"),
    [
        ([np.nan], 1.0, "differences must not hold NaN"),
        ([0.1], 0.0, "bin_width must be positive"),
        ([0.1], -1.0, "bin_width must be positive"),
        ([0.1, 0.1], [1.0, np.nan], "bin_width must be positive"),
    ],
)
def test_the_exact_law_refuses_by_name(differences, width, message):
    with pytest.raises(ValueError, match=message):
        theory.disagreement_probability(differences, width)


def test_every_public_function_is_a_formula():
    """One that takes NumPy's numbers as Python's and names what is beyond a float; the ladder is a list."""
    functions = {name: getattr(theory, name) for name in theory.__all__ if inspect.isfunction(getattr(theory, name))}
    assert [name for name, function in functions.items() if inspect.unwrap(function) is function] == ["ladder"]
