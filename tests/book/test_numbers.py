"""Numbers on pages: they read back as what they were, at the digits that they show, and no minus is a hyphen."""

import math
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rrl.book.numbers import bootstrap_limits, number, power_of_ten, share_with_limits, table

LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
SHAPE = re.compile(r"(−?)(?:([1-9](?:\.\d+)?)\u00a0×\u00a0)?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")


def read(text):
    """Sign, factor and exponent of a × 10ᵇ."""
    sign, factor, exponent = SHAPE.fullmatch(text).groups()
    return -1 if sign else 1, float(factor or 1), int(exponent.translate(LOWERED))


finite = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x and abs(x) > 1e-300)


@given(finite, st.integers(1, 6))
def test_powers_of_ten_read_back(x, digits):
    sign, factor, exponent = read(power_of_ten(x, digits))
    # Divided in two steps, so that nothing leaves the range of floats.
    shown = x / 10.0 ** (exponent // 2) / 10.0 ** (exponent - exponent // 2)
    assert sign * factor == pytest.approx(shown, rel=0.51 * 10.0 ** (1 - digits))
    assert 1 <= factor < 10


@given(st.floats(-280, 280), st.integers(1, 4))
def test_a_logarithm_writes_the_same_number(log10, digits):
    one, other = read(power_of_ten(10**log10, digits)), read(power_of_ten(log10=log10, digits=digits))
    # They may round a tie apart, never more.
    assert one[1] * 10.0 ** (one[2] - other[2]) == pytest.approx(other[1], rel=1.01 * 10.0 ** (1 - digits))


def test_known_powers():
    assert power_of_ten(9.96e4) == power_of_ten(log10=4.999) == "10⁵"  # the rounding carries over
    assert power_of_ten(1e5, 2) == "1.0\u00a0×\u00a010⁵"
    assert power_of_ten(10**400 * 3) == power_of_ten(log10=400.4771) == "3\u00a0×\u00a010⁴⁰⁰"
    assert power_of_ten(0) == "0"
    assert power_of_ten(-2.5e-7, 2) == "−2.5\u00a0×\u00a010⁻⁷"


@given(finite)
def test_numbers_show_two_digits_and_read_back(x):
    text = number(x)
    assert "-" not in text and "e" not in text
    if "×" not in text and "10" not in text[:3]:
        assert float(text.replace("−", "-").replace(",", "")) == pytest.approx(x, rel=0.051)


@given(st.integers(-999_999, 999_999))
def test_whole_numbers_below_a_million_are_kept(n):
    for kind in (int, np.int64):
        assert int(number(kind(n)).replace("−", "-").replace(",", "")) == n


def test_known_numbers():
    cases = {
        0.0996: "0.10",
        999_999.6: "1,000,000",
        0.0004: "4.0\u00a0×\u00a010⁻⁴",
        -0.0: "0",
        1234.5: "1,200",
        10**6: "1.0\u00a0×\u00a010⁶",
    }
    assert {x: number(x) for x in cases} == cases
    assert number(math.pi, 4) == "3.142"
    assert number(float("nan")) == "–"
    assert number(-math.inf) == "−∞"


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_limits_enclose_the_share_and_stay_between_0_and_100(pair):
    share, low, high = (float(x) for x in re.fullmatch(r"(.+)% \((.+)% to (.+)%\)", share_with_limits(*pair)).groups())
    assert 0 <= low <= share <= high <= 100
    assert share == pytest.approx(100 * pair[0] / pair[1], abs=0.5)
    # Only a share of exactly 0 or 1 is written as 0% or 100%.
    assert (share == 0) == (pair[0] == 0) and (share == 100) == (pair[0] == pair[1])


def test_tables_write_numbers_by_kind():
    rows = [["theorem", 2.71e23, 4, True, "< 5%"], ["enough", -1234.0, 0.25, False, "12%"]]
    text = table(rows, ["what", "rows", "d", "kept", "share"], digits={"d": 1}).to_html()
    for cell in ("2.7\u00a0×\u00a010²³", "−1,200", ">4<", ">0.2<", ">True<", ">theorem<", ">&lt; 5%<"):
        assert cell in text or cell.replace("&lt;", "<") in text
    rule = text[: text.index("text-align: right")]
    assert {int(place) for place in re.findall(r"row0_col(\d)", rule)} == {1, 2, 4}
    assert table({"n": [1, 2]}).to_html().count("<th ") == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: power_of_ten(1.0, log10=2), "either value or log10"),
        (lambda: power_of_ten(), "either value or log10"),
        (lambda: power_of_ten(math.inf), "value must be finite, got inf"),
        (lambda: power_of_ten(log10=math.nan), "log10 must be finite, got nan"),
        (lambda: power_of_ten(3.0, 0), "digits must be a whole number of at least 1, got 0"),
        (lambda: number(3.0, 1.5), "digits must be"),
        (lambda: table([[1]], ["a"], digits={"b": 2}), r"does not have: \['b'\]"),
    ],
)
def test_what_cannot_be_written_is_said(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_words_are_no_numbers_and_pandas_is_named(monkeypatch):
    with pytest.raises(TypeError, match="value must be a number, got True"):
        number(True)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"-rl\[book\]"):
        table([[1]])


# Limits of a mean over draws


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12), st.integers(0, 5))
def test_limits_of_shares_stay_between_zero_and_one(values, seed):
    low, high = bootstrap_limits(values, n_resamples=200, seed=seed)
    assert min(values) <= low <= high <= max(values)


def test_limits_of_two_draws_are_those_of_their_four_resamples():
    """Means 0, 1/2 and 1 with probabilities 1/4, 1/2 and 1/4: tails of Student's t beyond a quarter end at a half."""
    for confidence in (0.2, 0.3, 0.6):
        tail = stats.norm.cdf(2**0.5 * stats.t.ppf((1 - confidence) / 2, 1))
        assert bootstrap_limits([0, 1], confidence) == ((0.5, 0.5) if tail > 0.25 else (0, 1))
    assert bootstrap_limits([0.25] * 7) == (0.25, 0.25)


def test_limits_of_many_draws_are_those_of_the_normal_law(rng):
    values = rng.exponential(size=(2000, 3))
    low, high = bootstrap_limits(values)
    half = 1.96 * values.std(axis=0) / np.sqrt(2000)
    assert low == pytest.approx(values.mean(axis=0) - half, abs=0.15 * half.min())
    assert high == pytest.approx(values.mean(axis=0) + half, abs=0.15 * half.min())


@pytest.mark.parametrize(("n", "coverage"), [(5, 0.9), (10, 0.94), (20, 0.95)])
def test_limits_of_few_draws_cover_about_as_often_as_the_docstring_says(n, coverage, acceptance):
    """Normal draws, 1,000 samples: at this coverage the count leaves these limits with probability 1e-6."""
    samples = np.random.default_rng(5).normal(size=(n, 1000))
    low, high = bootstrap_limits(samples, n_resamples=1000)
    least, most = acceptance(1000, coverage)
    assert least <= ((low <= 0) & (high >= 0)).sum() <= most


@pytest.mark.parametrize(
    ("values", "more", "message"),
    [
        ([1.0], {}, "values must hold at least two draws, got shape"),
        (1.0, {}, "values must hold at least two draws, got shape"),
        ([1.0, math.nan], {}, "values must be finite"),
        ([0, 1], {"confidence": 1}, r"confidence must lie in \(0, 1\), got 1"),
        ([0, 1], {"n_resamples": 0}, "n_resamples"),
        ([0, 1], {"seed": -1}, "seed"),
    ],
)
def test_draws_without_limits_are_named(values, more, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_limits(values, **more)
