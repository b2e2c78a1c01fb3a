"""The page of benchmarks: times with units, ratios against goals, and records that say where they come from."""

import json

import pytest
from book_records import KINDS, ROOT, growth_row, ratio_row, run_row, span

RECORDS = sorted((ROOT / "book" / "results" / "benchmarks").glob("*.json"))


def test_times_have_a_unit_that_suits_them():
    assert [span(t) for t in (12.345, 0.5, 2e-6, 3e-8, 1e-10)] == ["12.3 s", "500 ms", "2 µs", "30 ns", "0.1 ns"]


@pytest.mark.parametrize(
    ("seconds", "goal", "ratio", "verdict"),
    [(2.2, 2, "2.20", "2: missed"), (2.0, 2, "2.00", "2: met"), (0.01, None, "1/100", "")],
)
def test_a_ratio_is_held_against_its_goal(seconds, goal, ratio, verdict):
    row = {"what": "w", "seconds": seconds, "peer": "p", "peer_seconds": 1.0, "goal": goal}
    assert ratio_row(row)[4:] == [ratio, verdict]


def test_growth_names_the_first_and_the_last_size():
    row = {"what": "w", "sizes": [10, 100, 1000], "times": [0.1, 1, 10], "exponent": 1.0}
    assert growth_row(row) == ["w", "10 to 1,000", "100 ms to 10 s", "1.00"]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_every_record_can_be_shown_and_says_where_it_was_made(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert len(run_row(path.stem, record)[-1].rstrip("+")) == 10
    for row in record["rows"]:
        shown = [line(row) for field, line, _ in KINDS.values() if field in row]
        assert shown and all(isinstance(text, str) for texts in shown for text in texts)


def test_a_run_without_git_is_shown_by_its_version():
    origin = {"commit": None, "dirty": None, "hardware": {"processor": "x"}}
    origin["versions"] = dict.fromkeys(("python", "numpy", "scikit-learn", "rrl"), "1")
    assert run_row("a", {"date": "d", "provenance": origin})[-1] == "rrl 1"
