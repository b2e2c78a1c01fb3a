"""The ledger of inequalities: what it accepts, what it refuses, what it shows."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from rrl.book.proofs import InequalityLedger


def test_ratios_are_kept_in_order():
    ledger = InequalityLedger()
    assert ledger.check("first", [1.0, 0.0], 2.0) == 0.5
    assert ledger.check("second", np.ones((2, 3)), np.arange(1.0, 4.0)) == 1.0
    assert [step for step, _, _ in ledger.rows] == ["first", "second"]
    assert ledger.rows[1][1].shape == (6,)


def test_one_broken_instance_is_enough():
    ledger = InequalityLedger()
    with pytest.raises(AssertionError, match=r"step: claimed true, largest ratio 1\.5"):
        ledger.check("step", [0.1, 3.0], 2.0)
    assert ledger.check("step", [0.1, 3.0], 2.0, holds=False) == 1.5
    assert not InequalityLedger().rows


def test_a_counter_example_must_be_one():
    with pytest.raises(AssertionError, match="claimed false"):
        InequalityLedger().check("step", 1.0, 1.0, holds=False)


def test_rounding_error_breaks_nothing():
    assert InequalityLedger().check("equality", 1.0 + 1e-12, 1.0) > 1


@pytest.mark.parametrize(("left", "right"), [(np.nan, 1.0), (1.0, np.inf), (0.0, 0.0), (1.0, -1.0)])
def test_sides_without_a_ratio_are_refused(left, right):
    with pytest.raises(ValueError, match="step: both sides must be finite"):
        InequalityLedger().check("step", left, right)


def test_no_instance_is_no_check():
    with pytest.raises(ValueError, match="no instance"):
        InequalityLedger().check("step", [], 1.0)


def test_steps_are_found_by_name():
    ledger = InequalityLedger()
    ledger.check("1  first", [1.0, 2.0], 2.0)
    ledger.check("1  second", 1.0, 2.0)
    ledger.check("2  third", 3.0, 2.0, holds=False)
    assert ledger.ratios("1  first").tolist() == [0.5, 1.0]
    assert ledger.holds("1  ")
    assert not ledger.holds("2")
    assert not ledger.holds("")
    for lookup in (ledger.ratios, ledger.holds):
        with pytest.raises(KeyError, match="fourth"):
            lookup("fourth")


def test_the_table_counts_what_broke(monkeypatch):
    ledger = InequalityLedger()
    ledger.check("good", [1.0, 2.0, 3.0], 4.0)
    ledger.check("bad", [1.0, 8.0, 3.0, 2.0], 4.0, holds=False)
    table = ledger.table()
    assert table["instances"].tolist() == [3, 4]
    assert table["median ratio"].tolist() == [0.5, 0.625]
    assert table["largest ratio"].tolist() == [0.75, 2.0]
    assert table["broken"].tolist() == [0.0, 0.25]
    assert table["holds"].tolist() == ["yes", "no"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"-rl\[book\]"):
        ledger.table()


def test_the_drawing_names_every_step_and_keeps_to_its_limits():
    ledger = InequalityLedger()
    ledger.check("good", [0.0, 0.0, 1.0], 2.0)
    ledger.check("bad", 300.0, 2.0, holds=False)
    fig, ax = plt.subplots()
    ledger.draw(ax, limits=(0.01, 20))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["good", "bad"]
    drawn = np.concatenate([line.get_xdata() for line in ax.lines])
    assert drawn.min() == 0.01
    assert drawn.max() == 20
    plt.close(fig)


def test_a_ratio_beyond_the_axis_is_an_arrow_with_its_value():
    ledger = InequalityLedger()
    ledger.check("far above", 9.11e6, 1.0, holds=False)
    ledger.check("far below", 1e-6, 1.0)
    ledger.check("within", 0.5, 1.0)
    figure, ax = plt.subplots()
    ledger.draw(ax)
    plt.close(figure)
    assert [text.get_text() for text in ax.texts] == ["9.1\u00a0×\u00a010⁶", "1.0\u00a0×\u00a010⁻⁶"]
    ends = {line.get_marker(): line.get_xdata()[-1] for line in ax.lines if line.get_marker() in tuple("><oX")}
    assert ends == {">": 100, "<": 1e-3, "o": 0.5}
