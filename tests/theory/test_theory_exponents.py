"""The ladders of Theorems 4.1 and 4.2: exponents that were recomputed by hand, slopes of the plans, and the pages."""

import re
from fractions import Fraction
from math import log10
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrl import theory
from rrl.theory import Powers, ladder

ROOT = Path(__file__).parents[2]
PLANNING = {rung.name: rung for rung in ladder("4.1")}
EXPLORING = {rung.name: rung for rung in ladder("4.2")}


def found(powers, names="d H epsilon"):
    return tuple(getattr(powers, name) for name in names.split())


def test_exponents_that_referees_computed_by_hand():
    horizon = {name: rung.demands["samples"].H for name, rung in PLANNING.items()}
    assert horizon == {
        "as printed": 23,
        "the algorithm's own penalty": 15,
        "penalty and ball of one stage": 27,
        "residuals that telescope": 19,
        "only the target in the ball": 21,
        "and residuals that telescope": 15,
        "and one gradient for ridge": 15,
        "least squares on the design": 7,
        "features in the simplex": 7,
    }
    assert found(PLANNING["only the target in the ball"].demands["samples"], "d k H epsilon rho") == (6, 2, 21, 6, 2)
    exploring = {name: tuple(map(found, rung.demands.values())) for name, rung in EXPLORING.items()}
    assert exploring == {
        "as printed": ((56, 62, 44), (34, 42, 28)),
        "printed Lemma D.3, used once": ((36, 38, 24), (34, 42, 28)),
        "corrected lemmas, used once": ((40, 42, 28), (34, 42, 28)),
        "and penalty 1": ((24, 26, 12), (18, 26, 12)),
        "and the bonus as a ratio": ((20, 18, 8), (18, 26, 12)),
        "and replicability in expectation": ((16, 18, 8), (14, 22, 10)),
        "and the bonus of a batch": ((12, 18, 8), (10, 22, 10)),
        "and rarely new weights": ((10, 12, 4), (8, 16, 6)),
        "bonus as a ratio, printed penalty": ((32, 30, 20), (34, 42, 28)),
        "and second moments in d^4, printed penalty": ((28, 30, 20), (34, 42, 28)),
        "and one gradient for ridge, printed penalty": ((28, 30, 20), (26, 34, 22)),
    }
    assert found(EXPLORING["as printed"].demands["second moments"], "rho log k") == (2, 5, 0)


def slopes(digits, **point):
    """Powers of ten gained per power of ten of each symbol, far out, where the leading term is alone."""
    base = digits(**point)
    return [
        digits(**point | {name: value * step}) - base
        for name, value, step in ((n, v, 0.1 if n in ("epsilon", "rho") else 10.0) for n, v in point.items())
    ]


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("printed", "as printed"),
        ("corrected", "penalty and ball of one stage"),
        ("sharp", "residuals that telescope"),
    ],
)
def test_slopes_of_the_planning_bound(version, name):
    def digits(d, k, H, epsilon, rho):
        return theory.lsvi_sample_size(d, k, H, epsilon, 1e-30, rho, version, log10=True)

    asked = found(PLANNING[name].demands["samples"], "d k H epsilon rho")
    measured = slopes(digits, d=1e6, k=1e6, H=1e6, epsilon=1e-6, rho=1e-6)
    assert measured == pytest.approx([float(x) for x in asked], abs=0.02)  # the logarithm of H / delta


@pytest.mark.parametrize(("name", "total"), [("least squares on the design", None), ("features in the simplex", 1.0)])
def test_slopes_of_the_design_s_plan(name, total):
    def digits(d, k, H, epsilon, rho):
        plan = theory.design_plan(d, k, epsilon / (2 * H), 0.01, rho / H, label_bound=H, coordinate_sum=total)
        return log10(H * plan.n_samples)

    asked = found(PLANNING[name].demands["samples"], "d k H epsilon rho")
    assert slopes(digits, d=1e4, k=1e4, H=1e4, epsilon=1e-4, rho=1e-4) == pytest.approx([float(x) for x in asked])


def test_slopes_of_one_gradient():
    def digits(d, k, H, epsilon, rho):
        accuracy, target = epsilon / (2 * H), 2 * H * d**0.5
        penalty = accuracy**2 / (4 * k * target**2)
        return log10(H * theory.ridge_plan(int(d), accuracy / 2, 0.01, rho / H, penalty, 2 * H, target).n_samples)

    asked = found(PLANNING["and one gradient for ridge"].demands["samples"], "d k H epsilon rho")
    measured = slopes(digits, d=1e6, k=1e6, H=1e6, epsilon=1e-6, rho=1e-6)
    assert measured == pytest.approx([float(x) for x in asked], abs=0.01)


@pytest.mark.parametrize(
    ("version", "name", "slack"),
    [("printed", "as printed", 1e-6), ("corrected", "corrected lemmas, used once", 0.4)],
)
def test_slopes_of_the_exploration_parameters(version, name, slack):
    """The corrected parameters spell out logarithms of T, which the ladder drops: a few tenths of a power here."""

    def digits(d, H, epsilon, rho):
        return theory.ucb_parameters(d, H, epsilon, 1e-30, rho, version).log10_total

    asked = found(EXPLORING[name].demands["second moments"], "d H epsilon rho")
    measured = slopes(digits, d=1e4, H=1e4, epsilon=1e-4, rho=1e-2)
    assert measured == pytest.approx([float(x) for x in asked], abs=slack)


@pytest.mark.parametrize("theorem", ["4.1", "4.2"])
def test_a_ladder_goes_down_and_every_label_is_in_the_book(theorem):
    rungs = ladder(theorem)
    pages = "".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("notebooks/*.md")))
    labels = set(re.findall(r"^\(([\w-]+)\)=$|^:label: ([\w-]+)$", pages, re.MULTILINE))
    labels = {label for pair in labels for label in pair if label}
    point = {"d": 10, "H": 10, "epsilon": 0.1, "rho": 0.1, "k": 10}
    seen = {}
    for rung in rungs:
        assert rung.status in ("printed", "corrected", "proved here", "sketch", "refuted")
        assert rung.label in labels, rung
        assert rung.after in seen if seen else rung.after == ""
        assert rung.name not in seen
        if rung.status in ("proved here", "sketch"):
            assert rung.log10(**point) <= seen[rung.after].log10(**point), rung
        seen[rung.name] = rung
    assert rungs[0].status == "printed"
    assert str(rungs[0]).startswith("as printed: d^")


def test_every_power_of_the_horizon_on_a_page_is_a_rung():
    """Whole-sample and one-stage sizes of 4.1, all parts of 4.2; other formulas have lower powers of H."""
    known = {demand.H for rung in (*PLANNING.values(), *EXPLORING.values()) for demand in rung.demands.values()}
    known |= {rung.demands["samples"].H - 1 for rung in PLANNING.values()}
    typed = set()
    for path in [*ROOT.glob("notebooks/*.md"), *ROOT.glob("slides/*.md"), *ROOT.glob("book/*.md"), ROOT / "index.md"]:
        typed |= {int(power) for power in re.findall(r"H\^\{?(\d\d)\b", path.read_text(encoding="utf-8"))}
    assert {23, 27, 62} <= typed <= known


def test_what_a_core_set_makes_of_the_printed_bound():
    """Erratum E5: d^12 with a core set as printed, d^9 with the corrected definition."""
    printed = PLANNING["as printed"].demands["samples"]
    assert [found(printed.with_core(power), "d k") for power in (1, 2)] == [(9, 0), (12, 0)]


EXPONENTS = st.fractions(-50, 50, max_denominator=2)


@given(st.lists(EXPONENTS, min_size=6, max_size=6), st.lists(EXPONENTS, min_size=6, max_size=6), EXPONENTS)
def test_arithmetic_of_powers_is_that_of_numbers(one, two, exponent):
    point = {"d": 3.0, "k": 5.0, "H": 7.0, "epsilon": 0.3, "rho": 0.2, "log": 11.0}
    a, b = Powers(*one), Powers(*two)
    first, second = a.log10(**point), b.log10(**point)
    assert (a * b).log10(**point) == pytest.approx(first + second, abs=1e-9)
    assert (a / b).log10(**point) == pytest.approx(first - second, abs=1e-9)
    assert (a**exponent).log10(**point) == pytest.approx(float(exponent) * first, abs=1e-7)
    assert a * b / b == a


def test_how_powers_are_written():
    half = Fraction(1, 2)
    assert str(Powers()) == Powers().tex() == "1"
    assert str(Powers(d=half, epsilon=1)) == "d^1/2 / ε"
    assert str(Powers(d=1, k=2, H=3, log=1)) == "d k^2 H^3 L"
    assert Powers(epsilon=2).tex() == r"1/\varepsilon^{2}"
    assert Powers(d=12, H=18, epsilon=8, rho=2).tex() == r"d^{12}H^{18}/(\varepsilon^{8}\rho^{2})"
    with pytest.raises(ValueError, match="power must be an integer >= 1, got 0"):
        Powers().with_core(0)
    with pytest.raises(ValueError, match="epsilon must be positive and finite, got 0"):
        Powers().log10(d=1, H=1, epsilon=0, rho=0.1)
    with pytest.raises(ValueError, match=r"theorem must be '4\.1' or '4\.2', got '4\.3'"):
        ladder("4.3")
