"""Exponents read off by doubling: those that were put in, and no answer for what is no product of powers."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrl import theory
from rrl.book.exponents import powers, write_powers

whole = st.integers(-60, 60)


@given(whole, whole, whole, st.fractions(min_value=Fraction(1, 100), max_value=100))
def test_exponents_come_back(a, b, c, constant):
    assert powers(lambda d, H, eps: constant * d**a * H**b / eps**c) == (a, b, c)


@given(st.lists(whole, min_size=1, max_size=5))
def test_any_number_of_variables(exponents):
    def value(*sizes):
        product = Fraction(1)
        for size, exponent in zip(sizes, exponents):
            product *= size**exponent
        return product

    assert powers(value, " ".join("abcde"[: len(exponents)])) == tuple(exponents)
    assert powers(value, " ".join(f"1/{x}" for x in "abcde"[: len(exponents)])) == tuple(-e for e in exponents)


def test_the_paper_s_exponents():
    def size(d, H, eps):
        chain = theory.ucb_chain(d, H, eps, Fraction(1), Fraction(1))
        return chain["M"] * chain["T"]

    assert powers(size) == (56, 62, 44)


@pytest.mark.parametrize(
    "value",
    [
        lambda d, H, eps: d**2 + H**2,
        lambda d, H, eps: 2 * d**2 * H - 2 * d * H + d * H,  # 1 at one, no power of two when d doubles
        lambda d, H, eps: d + (d - 1) * (d - 2),  # doubles like d
        lambda d, H, eps: 3 * d if d > 1 else d,
    ],
)
def test_what_is_no_product_of_powers(value):
    with pytest.raises(ValueError, match="no product of powers of d, H, 1/ε"):
        powers(value)


def test_bad_input():
    with pytest.raises(TypeError, match=r"value must compute with fractions, got 1\.0"):
        powers(lambda d, H, eps: float(d))
    with pytest.raises(ValueError, match="value must be positive, got Fraction"):
        powers(lambda d, H, eps: -d)
    with pytest.raises(ValueError, match="variables must name at least one, got ' '"):
        powers(lambda: 1, " ")


@given(whole, whole, whole)
def test_what_is_written_reads_back(a, b, c):
    text = write_powers((a, b, c))
    above, _, below = text.replace("\u00a0", " ").partition(" / ")
    found = dict.fromkeys("dHε", 0)
    for word in [*above.split(), *below.split()]:
        if word != "1":
            raised = word[1:].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
            found[word[0]] = int(raised or 1)
    assert tuple(found.values()) == (a, b, c)
    assert not re.search(r"[0-9]", text.replace("1\u00a0/", "")) or text == "1"


@pytest.mark.parametrize("exponents", [(1, 2), (1, 2, 3, 4), (1, Fraction(1, 2), 3)])
def test_what_cannot_be_written(exponents):
    with pytest.raises(ValueError, match="exponents must be one whole number for each of d, H, 1/ε"):
        write_powers(exponents)
