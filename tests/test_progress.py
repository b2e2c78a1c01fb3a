"""Progress: a bar on a terminal, lines in a log, nothing for what is short."""

import sys

import pytest

from rrl import _progress
from rrl._progress import progress_bar


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [0.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_now_and_then_and_the_last(clock, capsys):
    with progress_bar(10, initial=2, unit="run") as bar:
        for clock[0] in (10.0, 31.0, 40.0, 70.0, 71.0):
            bar.update()
        clock[0] = 72.0
        bar.update(3)
    assert capsys.readouterr().err.splitlines() == [
        "4 of 10 runs, 31 s, about 93 s left",
        "6 of 10 runs, 70 s, about 70 s left",
        "10 of 10 runs, 72 s",
    ]


def test_what_is_short_or_silent_prints_nothing(clock, capsys):
    with progress_bar(3) as bar:
        for clock[0] in (1.0, 2.0, 29.0):
            bar.update()
    with progress_bar(3, show=False) as bar:
        for clock[0] in (100.0, 200.0, 300.0):
            bar.update()
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch, capsys):
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress_bar(3, unit="game") as bar:
        bar.update(3)
    assert "3/3" in capsys.readouterr().err
