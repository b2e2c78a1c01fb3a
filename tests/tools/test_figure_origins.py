"""Which cells, seeds and recorded runs a figure rests on."""

import json

import numpy as np
import pytest
from figure_origins import Names, behind, in_words, recorded_runs, spans, statements
from kernel_start import LARGE, Journal


def cells_behind(*cells):
    """Positions on which the last of the cells rests."""
    return behind([Names(*statements(cell)) for cell in cells], [len(cells) - 1])


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["x = 1", "y = 2", "x + 1"], {0, 2}),
        (["x = 1", "x = 2", "x"], {1, 2}),
        (["x = 1", "x += 1", "x"], {0, 1, 2}),
        (["x = 1", "y = x", "x = 3", "y"], {0, 1, 3}),
        (["rows = []", "rows.append(1)", "n = len(rows)", "rows"], {0, 1, 3}),
        (["a = {}", "b = 1", "a['k'] = b", "a"], {0, 1, 2, 3}),
        (["a = f = 1", "a.b = 2", "a"], {0, 1, 2}),
        (["ledger = 1", "tight = ledger.check(1)", "ledger"], {0, 1, 2}),
        (["x = 1", "if x:\n    y = 2", "y"], {0, 1, 2}),
        (["y = 1", "try:\n    y = 2\nexcept ValueError:\n    pass", "y"], {0, 1, 2}),
        # A function finds its names where it runs, not where it is defined.
        (["def f():\n    return s", "s = 1", "f()"], {0, 1, 2}),
        (["s = 1", "def f(s):\n    return s", "f(2)"], {1, 2}),
        (["s = 1", "def f():\n    s = 2\n    return s", "f()"], {1, 2}),
        (["s = 1", "def f(x=s):\n    return x", "f()"], {0, 1, 2}),
        (["s = 1", "f = lambda x: x + s", "f(1)"], {0, 1, 2}),
        # Names of a function are its own, also in the functions inside it and where it changes them.
        (["n = 1", "def f(n):\n    return lambda: n", "f(2)"], {1, 2}),
        (["x = []", "def f():\n    x = []\n    x.append(1)\n    return x", "x, 1"], {0, 2}),
        (["s = 1", "def f():\n    def g():\n        return s\n    return g()", "f()"], {0, 1, 2}),
        (["e = 1", "try:\n    1 / 0\nexcept ValueError as e:\n    print(e)"], {1}),
        # What a loop or a comprehension names anew is not what another cell called so.
        (["ax = 1", "for ax in (1, 2):\n    ax"], {1}),
        (["x = 1", "[x for x in (1, 2)]"], {1}),
        (["x = 1", "{k: x for k in (1, 2)}"], {0, 1}),
        (["x = [1]", "[x for x in x]"], {0, 1}),
        (["f = 1", "with open('a') as f:\n    f"], {1}),
        (["s = 1", "class C:\n    a = s", "C()"], {0, 1, 2}),
        (["import numpy as np\nrng = np.random.default_rng(1)", "np.zeros(3)"], {1}),
        # A magic is read, and its text is not followed.
        (["x = 1", "%time x"], {1}),
        (["x = 1", "(y := x) + y"], {0, 1}),
        (["x = 1", "y: int = x", "y"], {0, 1, 2}),
    ],
)
def test_cells_behind_a_figure(cells, found):
    assert cells_behind(*cells) == found


def test_seeds_in_words():
    assert spans({3, 1, 2, 7, 8, 2026}) == "1–3, 7, 8, 2026"
    assert in_words({1, (2, 3)}) == "1; (2, 3)"
    assert in_words({(i, 0) for i in range(9)}) == "9 of them from (0, 0) to (8, 0)"
    assert in_words(set(range(0, 100, 2))) == "50 of them from 0 to 98"


def test_recorded_runs_speak_for_themselves(tmp_path):
    origin = {"commit": "a" * 40, "dirty": True, "seconds": 2, "command": ["rrl", "run", "x", "--study", "one"]}
    # The second begins one second after the first and ends with it: one by the clock.
    for name, unit, command, second in (
        ("1", {"experiment": "x", "scale": "full", "source": "standin", "draws": [0, 1]}, origin["command"], 1),
        ("2", {"experiment": "x", "scale": "full", "source": "standin", "draws": [2]}, ["rrl", "run", "x", "-j"], 2),
    ):
        own = {"command": command, "started": f"2026-01-02T03:04:0{second}+00:00", "seconds": 4 - second}
        record = {"unit": unit, "result": {}, "provenance": origin | own}
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    (tmp_path / "3.json").write_text("{}")
    (tmp_path / "4.csv").write_text("1")
    runs, others = recorded_runs(tmp_path, ["1.json", "2.json", "3.json", "4.csv"])
    assert others == ["3.json", "4.csv"]
    expected = {"count": 2, "data": ["standin"], "scale": ["full"], "seeds": "0–2", "commits": ["a" * 10 + "+"]}
    assert runs == [expected | {"seconds": 3, "command": "rrl run x"}]


def merged(journal):
    """Notes of all lines together."""
    return {kind: found for notes in journal.notes.values() for kind, found in notes.items()}


def test_the_journal_notes_chosen_seeds_only(tmp_path):
    journal = Journal(tmp_path / "journal", tmp_path)
    child = np.random.SeedSequence(5).spawn(1)[0]
    for seed in (None, 1, np.int64(2), [3, 4], (5, "x"), child, np.array([6, 7])):
        journal.note_generator(seed)
    for seed in (0, -1, LARGE):
        journal.note_shared(seed)
    assert merged(journal) == {"numpy": {1, 2, (3, 4), 5, (6, 7)}, "shared": {0, -1}}


@pytest.mark.parametrize(
    ("place", "mode", "noted"),
    [
        ("book/results/a/1.json", "r", True),
        ("book/results/a/1.json", None, True),
        ("book/results/a/1.json", "wb", False),
        ("rrl/datasets/data/a.npz", "rb", True),
        ("rrl/datasets/atari.py", "r", False),
        ("rrl/ridge.json", "r", False),
        ("../elsewhere/book/results/1.json", "r", False),
    ],
)
def test_the_journal_notes_data_files_that_are_read(tmp_path, place, mode, noted):
    journal = Journal(tmp_path / "journal", tmp_path)
    journal.note_event("open", (str(tmp_path / place), mode, 0))
    journal.note_event("open", (3, "r", 0))
    journal.note_event("exec", (None,))
    assert merged(journal) == ({"files": {place}} if noted else {})
