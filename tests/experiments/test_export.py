"""rrl export: every parameter and result of every record in one table, and what it says without the packages."""

import csv
import io
import json
import sys

import pytest

from rrl.experiments import cli
from rrl.experiments.store import RunStore, unit_key


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("rrl.experiments.store.provenance", lambda: {"versions": {"rrl": "9"}, "gpu": None})
    units = [
        {"experiment": "demo", "bin_width": 0.1, "name": 'a, "b"\nc', "settings": {"n": 1}},
        {"experiment": "demo", "bin_width": 0.3, "extra": True},
        {"experiment": "other", "bin_width": 1},
    ]
    result = {"score": 2.5, "codes": [1, [2]], "curve": {"zlib": "eJw", "shape": [3]}, "nan": float("nan")}
    RunStore(tmp_path / "one").run(units[:2], lambda unit: result, progress=False)
    RunStore(tmp_path / "two").run(units[1:], lambda unit: result, progress=False)
    return tmp_path


def export(*words):
    return cli.main(["export", *map(str, words)])


def test_one_row_a_record_with_all_that_is_no_packed_array(folder, capsys):
    assert export(folder / "t.csv", "--folder", folder / "one", "--folder", folder / "two") == 0
    assert capsys.readouterr().out.startswith("3 records (2 of demo, 1 of other), ")
    rows = list(csv.DictReader(io.StringIO((folder / "t.csv").read_text(), newline="")))
    stored = [r for name in ("one", "two") for r in RunStore(folder / name).records()]
    expected = {unit_key(record["unit"])[:12]: record for record in stored}
    assert {row["record"] for row in rows} == set(expected) and len(rows) == 3
    for row in rows:
        unit = expected[row["record"]]["unit"]
        assert float(row["bin_width"]) == unit["bin_width"] and row["experiment"] == unit["experiment"]
        assert row["name"] == unit.get("name", "") and row["settings.n"] == str(unit.get("settings", {}).get("n", ""))
        assert json.loads(row["result.codes"]) == [1, [2]] and row["result.score"] == "2.5" and row["result.nan"] == ""
        assert row["provenance.versions.rrl"] == "9" and not any("curve" in column for column in row)
    assert sorted(path.name for path in folder.iterdir()) == ["one", "t.csv", "two"]


def test_standard_output_and_one_experiment(folder, capsys):
    assert export("-", "--folder", folder / "two", "--experiment", "other") == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["experiment"] == "other"
    assert export("-", "--folder", folder / "two", "--experiment", "none") == 1
    assert capsys.readouterr().err == (
        f"error: there are no records of none in {folder / 'two'}; there are records of demo, other\n"
    )
    assert export("table.txt", "--folder", folder / "two") == 1
    assert "TABLE must end in .csv or .parquet, got 'table.txt'" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_parquet_without_its_packages_is_refused_in_words(folder, package, monkeypatch, capsys):
    pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    assert export(folder / "t.parquet", "--folder", folder / "one") == 1
    assert "Parquet needs pandas and pyarrow: pip install pandas pyarrow; CSV needs neither" in capsys.readouterr().err
    assert not (folder / "t.parquet").exists()


def test_parquet_holds_the_same_table(folder):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    words = ["--folder", folder / "one", "--folder", folder / "two"]
    assert export(folder / "t.parquet", *words) == 0 == export(folder / "t.csv", *words)
    found, expected = pandas.read_parquet(folder / "t.parquet"), pandas.read_csv(folder / "t.csv")
    assert list(found) == list(expected) and found["bin_width"].tolist() == expected["bin_width"].tolist()
    assert found["result.codes"].tolist() == expected["result.codes"].tolist()
