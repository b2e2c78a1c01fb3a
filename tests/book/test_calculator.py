"""Chapter 8's calculator in a real browser: the numbers of rrl.theory, by pointer and by keyboard."""

import inspect
import itertools
import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from check_pages import served

from rrl import theory
from rrl._checks import VERSIONS

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
N_INPUTS = 250
CHAIN = {"both conversions": "both conversions", "corrected lemmas": "corrected", "lemma D.3": "lemma D.3"}
MEASURED = [{"formula": "ridge", "inputs": {"d": 4, "penalty": 0.01}, "log10": 9.5, "what": "Somewhere <b>else</b>"}]
PAGE = """<!doctype html><meta charset="utf-8"><title>c</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="book.css"><script src="book.js"></script>
<link rel="stylesheet" href="calculator.css"><div id="calculator" class="calculator">needs JavaScript</div>
<script type="application/json" id="calculator-measured">MEASURED</script><script src="calculator.js"></script>"""


def ucb(x, version):
    """log10 of M T."""
    if version in CHAIN:
        symbols = (Decimal(x[name]) for name in ("d", "H", "epsilon", "rho"))
        chain = theory.ucb_chain(*symbols, Decimal(1 / x["delta"]).ln(), gram=CHAIN[version])
        return float((chain["M"] * chain["T"]).log10())
    return theory.ucb_parameters(**x, version=version).log10_total


def rounding(x, version):
    if version == "exact law":
        gaps = np.full(x["d"], x["distance"] / math.sqrt(x["d"]))
        return math.log10(theory.disagreement_probability(gaps, x["bin_width"]))
    return math.log10(theory.rounding_disagreement_bound(x["d"], 1, x["distance"], x["bin_width"], version))


def estimator(formula, plan):
    """Theorems 3.1 to 3.3, and what chapters 4 and 12 have in their place."""

    def digits(x, version):
        return math.log10(plan(**x).n_samples if version == "sharper" else formula(**x, version=version))

    return digits


PYTHON = {
    "rounding": rounding,
    "ridge": estimator(theory.ridge_sample_size, theory.ridge_plan),
    "fixed_design": estimator(theory.fixed_design_sample_size, theory.design_plan),
    "second_moment": estimator(theory.second_moment_sample_size, theory.second_moment_plan),
    "lsvi": lambda x, v: theory.lsvi_sample_size(**x, version=v, log10=True),
    "ucb": ucb,
}


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    site = tmp_path_factory.mktemp("calculator")
    (site / "a.html").write_text(PAGE.replace("MEASURED", json.dumps(MEASURED)), encoding="utf-8")
    for name in ("calculator.js", "calculator.css", "book.js", "book.css"):
        (site / name).write_bytes((STATIC / name).read_bytes())
    with served(site) as address:
        yield address


@pytest.fixture(scope="module")
def script(browser, origin):
    """A page whose functions are called, and nothing is pressed."""
    page = browser.new_page()
    page.goto(origin + "a.html")
    return page


@pytest.fixture
def tab(browser, origin):
    """The calculator on a page of its own; any script error fails the test."""
    errors = []
    page = browser.new_page()
    page.on("pageerror", lambda error: errors.append(error.message))
    page.goto(origin + "a.html")
    yield page
    page.close()
    assert errors == []


def draw(rng, ranges):
    """Random inputs over all that the fields admit, on a logarithmic scale."""
    out = {}
    for name, (least, most, whole) in ranges.items():
        value = math.exp(rng.uniform(math.log(least), math.log(most)))
        out[name] = min(most, max(least, round(value) if whole else value))
    if "rho" in out:
        out["delta"] = min(out["delta"], 0.499 * out["rho"] * rng.uniform(0.01, 1))
    return out


def test_every_number_is_that_of_the_package(script):
    table = script.evaluate("() => Object.entries(Calculator.FORMULAS).map(([k, f]) => [k, f.inputs, f.versions])")
    limits = script.evaluate("() => Object.entries(Calculator.INPUTS).map(([k, i]) => [k, i.least, i.most, !!i.whole])")
    ranges = {name: rest for name, *rest in limits}
    assert [key for key, _, _ in table] == list(PYTHON)
    rng, beyond = np.random.default_rng(0), 0
    for key, inputs, versions in table:
        cases = [draw(rng, {name: ranges[name] for name in inputs}) for _ in range(N_INPUTS)]
        found = script.evaluate(
            "([key, versions, cases]) => cases.map((x) => versions.map((v) => "
            "[Calculator.log10(key, v, x), Calculator.fault(key, x)]))",
            [key, versions, cases],
        )
        for case, row in zip(cases, found, strict=True):
            for version, (digits, fault) in zip(versions, row, strict=True):
                assert fault == ""
                # A difference of x in log10 is one of x ln 10 of the value itself, beyond the floats too.
                expected = PYTHON[key](case, version)
                assert abs(math.expm1((digits - expected) * math.log(10))) < 1e-9, (key, version, case)
                beyond += expected > 308
    assert beyond > 100


def test_no_formula_and_no_version_is_left_out(script):
    pairs = script.evaluate("() => Object.entries(Calculator.FORMULAS).map(([key, { versions }]) => [key, versions])")
    versions = dict(pairs)
    sizes = {name for name in theory.__all__ if name.endswith("_sample_size")}
    assert sizes == {f"{key}_sample_size" for key in versions if key not in ("rounding", "ucb")}
    for key in ("ridge", "fixed_design", "second_moment"):
        assert set(versions[key]) == {*VERSIONS, "sharper"}
    assert {name for name in theory.__all__ if name.endswith("_plan")} - {"ucb_plan"} == {
        "ridge_plan",
        "design_plan",
        "second_moment_plan",
    }
    assert set(versions["lsvi"]) == {"printed", "corrected", "sharp"}
    # The chain's "printed" is the printed version, its "corrected" is "corrected lemmas" here.
    assert {CHAIN.get(v, v) for v in versions["ucb"]} == set(theory.lsvi_ucb.GRAM_ACCURACIES)
    for name in sizes:
        key = name.removesuffix("_sample_size")
        parameters = inspect.signature(getattr(theory, name)).parameters.values()
        required = {p.name for p in parameters if p.default is p.empty}
        assert required <= set(script.evaluate("(k) => Calculator.FORMULAS[k].inputs", key))


@pytest.mark.parametrize(
    ("digits", "value", "time"),
    [
        (0, "1", "less than 1 ms"),
        (-1.2, "0.0631", "less than 1 ms"),
        (3.5, "3,162", "3.16 ms"),
        (7, "1.00 × 10⁷", "10 seconds"),
        (8.9999, "1.00 × 10⁹", "16.7 minutes"),
        (6 + math.log10(3 * 86400), "2.59 × 10¹¹", "3 days"),
        (6 + math.log10(13.8e9 * 365.25 * 86400), "4.35 × 10²³", "1.38 × 10¹⁰ years"),
        (490.25, "1.78 × 10⁴⁹⁰", "4.08 × 10⁴⁶⁶ ages of the universe"),
    ],
)
def test_numbers_and_times_are_written_readably(script, digits, value, time):
    assert script.evaluate("(x) => [Calculator.show(x), Calculator.duration(x)]", digits) == [value, time]


def row(tab, version):
    """The cells of one version."""
    return tab.locator("tbody tr", has=tab.locator("th", has_text=version)).locator("td").all_inner_texts()


def digits_of(tab, version):
    return float(row(tab, version)[1])


def expected(**changes):
    values = {"d": 4, "epsilon": 0.1, "delta": 0.01, "rho": 0.1, "penalty": 0.1} | changes
    return round(math.log10(theory.ridge_sample_size(**values)), 2)


def test_sliders_and_fields_by_keyboard(tab):
    assert digits_of(tab, "corrected") == expected()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "calculator-formula"
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "calculator-d"
    tab.keyboard.press("ArrowRight")
    assert tab.input_value("#calculator-d-number") == "5"
    assert tab.get_attribute("#calculator-d", "aria-valuetext") == "d = 5"
    assert digits_of(tab, "corrected") == expected(d=5)
    tab.keyboard.press("Tab")
    tab.keyboard.press("Control+a")
    tab.keyboard.type("137")
    assert tab.input_value("#calculator-d-number") == "137"
    assert digits_of(tab, "corrected") == expected(d=137)
    # The first focus stop is the choice of the formula.
    tab.focus("#calculator-formula")
    tab.keyboard.press("End")
    assert tab.locator("caption").inner_text() == "Theorem 4.2: R-LSVI-UCB"
    assert tab.locator("#calculator-H").count() == 1 and tab.locator("#calculator-penalty").count() == 0
    total = theory.ucb_parameters(137, 3, 0.1, 0.01, 0.1, version="printed").log10_total
    assert digits_of(tab, "printed") == pytest.approx(total, abs=0.006)


def test_sizes_and_faults_are_said_once_the_controls_rest(tab, announced, reachable):
    assert tab.locator("[role=status]").count() == 1 and tab.inner_text("[role=status]") == ""
    assert reachable(tab, "#calculator") == 13  # the formula, a slider and a field for each input, a button, the source

    def press():
        tab.focus("#calculator-d")
        for _ in range(5):
            tab.keyboard.press("ArrowRight")

    [said] = announced(tab, "#calculator", press)
    assert said.startswith("Theorem 3.1: ridge regression: printed") and said.endswith("rows.")
    assert f"corrected 10 to the {math.log10(theory.ridge_sample_size(9, 0.1, 0.01, 0.1, 0.1)):.1f}" in said
    [said] = announced(tab, "#calculator", lambda: tab.fill("#calculator-rho-number", "0.02"))
    assert said == "ρ must exceed 2δ (erratum E9)."


def test_sliders_by_pointer(tab):
    box = tab.locator("#calculator-epsilon").bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2)
    tab.mouse.up()
    assert tab.input_value("#calculator-epsilon-number") == "0.001"
    assert digits_of(tab, "corrected") == expected(epsilon=0.001)


@pytest.mark.parametrize(
    ("name", "typed", "says"),
    [
        ("rho", "0.02", "ρ must exceed 2δ"),
        ("d", "2.5", "d must be a whole number"),
        ("d", "0", "d must lie between 1 and"),
        ("epsilon", "", "ε must lie between"),
        ("epsilon", "-1", "ε must lie between"),
    ],
)
def test_a_wrong_value_is_named_and_no_number_shown(tab, name, typed, says):
    tab.fill(f"#calculator-{name}-number", typed)
    message = tab.locator(".calculator-message")
    assert says in message.inner_text()
    assert tab.locator("tbody tr").count() == 0
    tab.fill(f"#calculator-{name}-number", "1" if name in ("d", "epsilon") else "0.3")
    assert tab.locator("tbody tr").count() == 3 and "must" not in message.inner_text()


def test_a_measurement_is_offered_and_compared(tab):
    assert "Somewhere <b>else</b>" in tab.locator(".calculator-known").inner_text()
    assert tab.locator("tbody tr").count() == 3
    tab.focus("text=set these values")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "calculator-d"
    assert tab.input_value("#calculator-penalty-number") == "0.01"
    assert tab.locator("tbody tr").count() == 4
    ratio = theory.ridge_sample_size(4, 0.1, 0.01, 0.1, 0.01) / 10**9.5
    assert float(row(tab, "corrected")[-1].replace(",", "")) == pytest.approx(ratio, rel=0.005)


@pytest.mark.parametrize("width", [360, 390, 520, 1280])
def test_no_two_words_of_the_line_touch(tab, width):
    tab.set_viewport_size({"width": width, "height": 900})
    choices = tab.evaluate("[...document.getElementById('calculator-formula').options].map((o) => o.value)")
    for choice in choices:
        tab.select_option("#calculator-formula", choice)
        words = tab.evaluate(
            "[...document.querySelectorAll('svg text')].map((t) => [t.textContent, t.getBoundingClientRect().toJSON()])"
        )
        assert len(words) > 2
        for (name, a), (other, b) in itertools.combinations(words, 2):
            apart = max(a["left"] - b["right"], b["left"] - a["right"])
            above = max(a["top"] - b["bottom"], b["top"] - a["bottom"])
            assert apart >= 4 or above >= -4, (choice, name, other)  # boxes are taller than their letters


def test_no_request_leaves_the_page():
    text = "".join((STATIC / name).read_text(encoding="utf-8") for name in ("calculator.js", "calculator.css"))
    addresses = text.replace("http://www.w3.org/2000/svg", "")  # a name space, never fetched
    for word in ("http:", "https:", "//cdn", "fetch(", "XMLHttpRequest", "import(", "@import", "url("):
        assert word not in addresses, word
