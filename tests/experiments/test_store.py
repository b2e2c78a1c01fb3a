"""The run store: names, whole records, faults."""

import errno
import hashlib
import html
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

import rrl
from rrl.experiments import provenance as origins
from rrl.experiments import store as module
from rrl.experiments.provenance import commit_text, plain_markdown, provenance
from rrl.experiments.store import RunStore, canonical, unit_key
from rrl.packing import pack_array, unpack_array

UNITS = [{"experiment": "demo", "n": n} for n in range(6)]


def square(unit):
    return {"square": unit["n"] ** 2, "draw": float(np.random.default_rng(unit["n"]).random())}


def squares(units):
    for unit in units:
        yield square(unit)


def run(folder, function=square, **options):
    return RunStore(folder).run(UNITS, function, progress=False, **options)


def results(records):
    return [(r["unit"], r["result"]) for r in records]


# Names --------------------------------------------------------------------------------------------


def test_canonical_values():
    """Case 50."""
    value = {"alphas": (0.1, 0.2), "seed": np.int64(3), "flag": np.bool_(False), "out": Path("a b"), "x": np.ones(2)}
    plain = {"alphas": [0.1, 0.2], "seed": 3, "flag": False, "out": "a b", "x": [1.0, 1.0]}
    assert canonical(value) == plain and type(canonical(value)["flag"]) is bool
    assert unit_key({"experiment": "e", **value}) == unit_key({**plain, "experiment": "e"})
    assert canonical(float("nan"), nonfinite="null") is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), np.float64("nan"), {1}, b"x", {1: 2}, 1j, object(), print])
def test_what_has_no_canonical_form_is_refused(tmp_path, bad):
    store = RunStore(tmp_path / "s")
    with pytest.raises(TypeError, match=r"unit\['deep'\]\[0\]"):
        store.run([{"experiment": "demo", "deep": [bad]}], square)
    assert not store.folder.exists()


def test_units_need_a_name():
    for unit in ({"n": 1}, {"experiment": 3}, "demo"):
        with pytest.raises(TypeError, match="a unit is a dict"):
            unit_key(unit)


def test_keys_tell_units_apart():
    units = [{"experiment": "e", "x": x} for x in (1, 1.5, "1", True, None, [1], [[1]], {"a": 1}, {"b": 1})]
    assert len({unit_key(u) for u in units}) == len(units)
    assert unit_key({"experiment": "e", "a": 1, "b": 2}) == unit_key({"b": 2, "a": 1, "experiment": "e"})


kinds = hnp.integer_dtypes() | hnp.floating_dtypes(sizes=(16, 32, 64)) | hnp.boolean_dtypes()


@given(hnp.arrays(kinds, hnp.array_shapes(min_dims=0, min_side=0)))
def test_arrays_survive(array):
    back = unpack_array(json.loads(json.dumps(pack_array(array))))
    assert back.shape == np.ascontiguousarray(array).shape
    assert back.tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()


def test_objects_are_not_packed():
    with pytest.raises(TypeError, match="only plain numbers"):
        pack_array(np.array([object()]))


# Work ---------------------------------------------------------------------------------------------


def test_the_same_records_whatever_runs_them(tmp_path):
    """Case 23: processes, batches and executors change nothing."""
    want = results(run(tmp_path / "serial"))
    assert [r["square"] for _, r in want] == [0, 1, 4, 9, 16, 25]
    assert results(run(tmp_path / "jobs", jobs=2)) == want
    assert results(run(tmp_path / "batch", squares, batch=4)) == want
    with ThreadPoolExecutor(3) as executor:
        assert results(run(tmp_path / "executor", squares, batch=2, executor=executor)) == want
    names = [sorted(p.name for p in (tmp_path / kind).iterdir()) for kind in ("serial", "jobs", "batch", "executor")]
    assert names[0] == sorted(f"{unit_key(u)}.json" for u in UNITS) and names.count(names[0]) == 4


def test_done_units_are_not_done_again(tmp_path):
    calls = []

    def counted(unit):
        calls.append(unit["n"])
        return square(unit)

    store = RunStore(tmp_path)
    first = store.run(UNITS[:2], counted, progress=False)
    assert store.status(UNITS) == {"done": 2, "planned": 6} and store.todo(UNITS) == UNITS[2:]
    again = store.run([*UNITS, UNITS[0]], counted)
    assert calls == [0, 1, 2, 3, 4, 5] and again[:2] == first and again[-1] == again[0]
    store.write(UNITS[0], {"square": -1}, {})
    assert store.load(UNITS[0]) == first[0]
    assert len(store.records()) == 6 and store.records("other") == []


def test_a_failing_unit_leaves_the_others(tmp_path):
    def failing(units):
        for unit in units:
            if unit["n"] == 3:
                raise RuntimeError("unit 3")
            yield square(unit)

    with pytest.raises(RuntimeError, match="unit 3"):
        run(tmp_path, failing, batch=6)
    assert RunStore(tmp_path).status(UNITS)["done"] == 3


@pytest.mark.parametrize("options", [{"jobs": 0}, {"batch": 0}])
def test_bad_options(tmp_path, options):
    with pytest.raises(ValueError, match="at least 1"):
        run(tmp_path, **options)


def test_provenance():
    origin = provenance()
    assert len(origin["commit"]) == 40 and isinstance(origin["dirty"], bool)
    assert origin["versions"]["rrl"] == rrl.__version__
    assert origin["versions"]["numpy"] == np.__version__ and origin["hardware"]["cores"] == os.cpu_count()
    assert "/" not in origin["command"][0]
    canonical(origin)


def test_the_recorded_command_names_no_folder_of_the_machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = ["run", "--folder", tmp_path / "out" / "a", f"--data={tmp_path.parent / 'x.h5'}", "b/c", "--jobs=2"]
    monkeypatch.setattr("sys.argv", [str(tmp_path / "bin" / "rrl"), *map(str, arguments)])
    assert provenance()["command"] == ["rrl", "run", "--folder", "out/a", "--data=x.h5", "b/c", "--jobs=2"]


@pytest.fixture
def another_checkout():
    """What this process says of its code is asked anew within the test, and after it."""
    origins.loaded_code.cache_clear()
    yield
    origins.loaded_code.cache_clear()


def test_a_commit_during_the_work_is_none_of_it(tmp_path, monkeypatch, another_checkout):
    now = {"rev-parse": b"a" * 40, "status": b""}
    monkeypatch.setattr(origins, "_git", lambda command, *_: now[command])

    def work(unit):
        now["rev-parse"] = b"b" * 40
        return unit

    (record,) = RunStore(tmp_path).run(UNITS[:1], work, progress=False)
    assert record["provenance"]["commit"] == "a" * 40 and record["provenance"]["dirty"] is False


def test_provenance_without_git_or_proc(monkeypatch, another_checkout):
    def missing(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    read_text = Path.read_text
    # Other libraries read their own versions from files.
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda path, *args, **kwargs: missing() if path == Path("/proc/cpuinfo") else read_text(path, *args, **kwargs),
    )
    origin = provenance()
    assert origin["commit"] is None and origin["dirty"] is None and origin["hardware"]["processor"]


IN_GIT = (Path(rrl.__file__).parents[1] / ".git").exists()
ORIGIN = "from rrl.experiments.provenance import provenance; o = provenance(); print(o['commit'], o['dirty'])"


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})


def asked(package, **environment):
    """Commit and dirty flag that the package in a folder finds."""
    path = os.pathsep.join([str(package), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, **{k: str(v) for k, v in environment.items()}}
    ran = subprocess.run([sys.executable, "-c", ORIGIN], cwd=package, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.skipif(not IN_GIT, reason="not a git checkout")
def test_the_commit_is_of_the_repository_that_holds_the_package(tmp_path):
    """Not of one that it was installed into, nor of the one that GIT_DIR names."""
    other, root = tmp_path / "other", Path(rrl.__file__).parents[1]
    other.mkdir()
    git(other, "init", "--quiet")
    git(other, "commit", "--quiet", "--allow-empty", "--message", "x")
    shutil.copytree(root / "rrl", other / "rrl", ignore=shutil.ignore_patterns("data", "__pycache__"))
    assert asked(other) == "None None"
    ours = f"{provenance()['commit']} {provenance()['dirty']}"
    assert asked(root, GIT_DIR=other / ".git") == asked(root, GIT_DIR="/nonexistent") == ours
    git(other, "add", "rrl")
    git(other, "commit", "--quiet", "--message", "rrl is ours")
    commit, dirty = asked(other).split()
    assert len(commit) == 40 and commit not in ours and dirty == "False"


SETTINGS = """\
color.ui=always diff.external=false diff.txt.textconv=false diff.noprefix=true diff.mnemonicPrefix=true
diff.context=9 diff.interHunkContext=20 diff.algorithm=patience diff.renames=false diff.relative=true
diff.orderFile=order diff.indentHeuristic=false diff.submodule=log color.diff=always diff.srcPrefix=x/"""


def test_the_digest_of_a_change_does_not_hang_on_the_settings_of_git(tmp_path, monkeypatch, another_checkout):
    """It is that of ``git diff HEAD --binary`` where nothing is set, for a text that moved, changed and is binary."""
    folder = tmp_path / "rrl"
    folder.mkdir()
    # Repeated lines and indented blocks, which algorithms and heuristics match in ways of their own.
    lines = ["def a():", "    x", "", "def b():", "    x", "", "def c():", "    x", ""] * 4
    files = {"rrl/here.py": lines, "rrl/moved.txt": [*map(str, range(30))], "a.txt": ["a"], "order": ["rrl/*", "*"]}
    for name, text in files.items():
        (tmp_path / name).write_text("\n".join(text))
    (tmp_path / ".gitattributes").write_text("*.txt diff=txt\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "x")
    git(tmp_path, "mv", "rrl/moved.txt", "rrl/new.txt")
    (folder / "here.py").write_text("\n".join([*lines[:7], "    y", "", "def d():", "    x", "", *lines[9:20], "z"]))
    (folder / "new.txt").write_text("\n".join([*map(str, range(29)), "end"]))
    (tmp_path / "a.txt").write_bytes(b"\0\1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setattr(origins, "HERE", folder / "here.py")
    monkeypatch.setattr(origins, "_is_tracked", lambda: True)
    plain = subprocess.run(["git", "-C", tmp_path, "diff", "HEAD", "--binary"], capture_output=True, check=True).stdout
    digest, changed = hashlib.sha256(plain).hexdigest(), 0
    assert origins.provenance()["diff_sha256"] == digest
    for name, value in (setting.split("=") for setting in SETTINGS.split()):
        git(tmp_path, "config", name, value)
        origins.loaded_code.cache_clear()
        assert origins.provenance()["diff_sha256"] == digest, name
        told = subprocess.run(["git", "-C", folder, "diff", "HEAD", "--binary"], capture_output=True).stdout
        changed += told != plain
        git(tmp_path, "config", "--unset", name)
    # Most of them change what a person sees here: the rest need a submodule, or a newer git.
    assert changed >= 9


def test_commit_text_needs_no_commit():
    assert commit_text({"commit": "a" * 40, "dirty": False}) == "a" * 12
    assert commit_text({"commit": None, "dirty": None, "versions": {}}) == "rrl of unknown version"
    assert commit_text({"commit": ["<b>"], "dirty": True}) == r"\['&lt;b&gt;'\]+"


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "<img src=x onload=y>", "a|b", "*x* _y_ `z` $w$ [l](j:k)"]
)
def test_text_from_a_record_is_shown_and_does_nothing(text):
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark", {"html": True}).enable("table")
    made = markdown.render(f"- **2 threads ({plain_markdown(text)})**: ok")
    shown = html.escape(text, quote=False)
    assert made == f"<ul>\n<li><strong>2 threads ({shown})</strong>: ok</li>\n</ul>\n"


def test_records_say_when_and_how_long(tmp_path):
    origin = run(tmp_path)[0]["provenance"]
    assert origin["started"].endswith("+00:00") and origin["seconds"] >= 0


# Faults -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: b"",
        lambda text: b"null",
        lambda text: text.replace(b'"square":4', b'"square":5'),
        lambda text: text.replace(b'"n":2', b'"n":3'),
        lambda text: b"\xff" + text,
        lambda text: text.replace(b'"started":"20', b'"started":"19'),
        lambda text: b"[" * 100_000,
    ],
)
def test_a_corrupt_record_is_set_aside_and_redone(tmp_path, damage):
    want = results(run(tmp_path))
    path = RunStore(tmp_path).path(UNITS[2])
    bad = damage(path.read_bytes())
    path.write_bytes(bad)
    assert RunStore(tmp_path).todo(UNITS) == [UNITS[2]]
    assert results(run(tmp_path)) == want
    (aside,) = tmp_path.glob("*.corrupt")
    assert aside.read_bytes() == bad


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    run(tmp_path / "a")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write a record to .*: No space left on device") as caught:
        run(tmp_path / "b")
    assert caught.value.errno == errno.ENOSPC and list((tmp_path / "b").iterdir()) == []
    assert len(run(tmp_path / "a")) == 6


def test_a_folder_that_cannot_be_written_stops_before_the_work(tmp_path):
    (tmp_path / "file").write_text("x")
    calls = []
    with pytest.raises(OSError, match="cannot write records to"):
        run(tmp_path / "file" / "sub", calls.append)
    assert calls == []


def test_a_read_only_folder(tmp_path, monkeypatch):
    """Root may write anywhere, so the refusal is made here."""

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(module, "open", refuse, raising=False)
    with pytest.raises(OSError, match=r"cannot write records to .*Read-only file system"):
        run(tmp_path)
    assert list(tmp_path.iterdir()) == []
