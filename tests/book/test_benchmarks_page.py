"""The page of benchmarks: times with units, ratios against goals, and records that say where they come from."""

import pytest
from book_nodes import ROOT, fill
from book_records import read_records, span

RECORDS = read_records(ROOT / "book" / "results" / "benchmarks")
KINDS = ("ratios", "memory", "growth", "speeds")


def cells(kind, rows=(), records=()):
    """The table of one kind, as its template writes it, without its head."""
    lines = fill("rrl-benchmarks.md", kind=kind, rows=rows, records=dict(records)).strip().splitlines()
    assert {line.count("|") for line in lines} == {lines[1].count("|")}
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_times_have_a_unit_that_suits_them():
    assert [span(t) for t in (12.345, 0.5, 2e-6, 3e-8, 1e-10)] == ["12.3 s", "500 ms", "2 µs", "30 ns", "0.1 ns"]


@pytest.mark.parametrize(
    ("seconds", "goal", "ratio", "verdict"),
    [(2.2, 2, "2.20", "2: missed"), (2.0, 2, "2.00", "2: met"), (0.01, None, "1/100", "")],
)
def test_a_ratio_is_held_against_its_goal(seconds, goal, ratio, verdict):
    row = {"what": "w", "seconds": seconds, "peer": "p", "peer_seconds": 1.0, "goal": goal}
    assert cells("ratios", [row]) == [["w", span(seconds), "p", "1 s", ratio, verdict]]


def test_growth_names_the_first_and_the_last_size():
    row = {"what": "w", "sizes": [10, 100, 1000], "times": [0.1, 1, 10], "exponent": 1.0}
    assert cells("growth", [row]) == [["w", "10 to 1,000", "100 ms to 10 s", "1.00"]]


def test_every_record_can_be_shown_and_says_where_it_was_made():
    rows = [row for record in RECORDS.values() for row in record["rows"]]
    assert sum(len(cells(kind, rows)) for kind in KINDS) == len(rows) > 50
    assert all(len(line[-1].rstrip("+")) == 10 for line in cells("runs", records=RECORDS))


def test_a_run_without_git_is_shown_by_its_version():
    origin = {"commit": None, "dirty": None, "hardware": {"processor": "x"}}
    origin["versions"] = dict.fromkeys(("python", "numpy", "scikit-learn", "rrl"), "1")
    made = cells("runs", records={"a": {"date": "d", "provenance": origin}})
    assert made == [["a", "d", "x", "python 1, numpy 1, scikit-learn 1", "rrl 1"]]
