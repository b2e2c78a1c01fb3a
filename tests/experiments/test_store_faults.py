"""The run store under faults: killed writers, a full disk, damaged records, several writers, a lost worker."""

import errno
import functools
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import store_worker

from rrl import _files
from rrl.experiments import cli, workers
from rrl.experiments import store as module
from rrl.experiments.records import is_record_name, record_text
from rrl.experiments.store import RunStore, unit_key

HERE = Path(__file__).parent


def results(records):
    return [(r["unit"], r["result"]) for r in records]


def undisturbed(folder, units):
    return results(RunStore(folder).run(units, store_worker.work, progress=False))


def start(folder, log, count):
    command = [sys.executable, HERE / "store_worker.py", folder, log, count]
    return subprocess.Popen([str(part) for part in command], cwd=HERE.parent)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("seed", range(3))
def test_kill_at_random_points_loses_only_the_unit_in_progress(tmp_path, seed, monkeypatch):
    """SIGKILL, twice a run: no half record, and the rerun gives the undisturbed results."""
    monkeypatch.setattr(module, "provenance", dict)
    rng, folder, units = np.random.default_rng(seed), tmp_path / "store", store_worker.units(60)
    for kill in range(2):
        log, before = tmp_path / f"log{kill}", len(list(folder.glob("*.json")))
        process, began = start(folder, log, len(units)), time.monotonic()
        while not lines(log) and time.monotonic() - began < 60:
            time.sleep(0.005)
        time.sleep(float(rng.uniform(0, 0.25)))
        process.kill()
        process.wait()
        names = list(folder.glob("*.json"))
        assert len(RunStore(folder).records()) == len(names) and not list(folder.glob("*.corrupt"))
        begun, finished = len(lines(log)), len(names) - before
        assert 0 <= begun - finished <= 1
    assert undisturbed(folder, units) == undisturbed(tmp_path / "other", units)


def test_several_writers_of_the_same_units(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "provenance", dict)
    folder, units = tmp_path / "store", store_worker.units(20)
    processes = [start(folder, tmp_path / f"log{i}", len(units)) for i in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert sorted(path.suffix for path in folder.iterdir()) == [".json"] * len(units)
    assert results(RunStore(folder).run(units, None, progress=False)) == undisturbed(tmp_path / "other", units)


def test_a_write_that_breaks_off_leaves_no_record(tmp_path, monkeypatch):
    """A limit on the size of files stops the write midway, as a full disk does."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(module, "provenance", dict)
    units = store_worker.units(6)

    def work(unit):
        return {"pad": "x" * 10 ** unit["n"]}

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OSError, match=r"cannot write a record to .*File too large; earlier records are whole"):
            RunStore(tmp_path).run(units, work, progress=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json"] * 5
    assert len(RunStore(tmp_path).records()) == 5
    records = RunStore(tmp_path).run(units, work, progress=False)
    assert [len(r["result"]["pad"]) for r in records] == [10**n for n in range(6)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's full device")
def test_a_device_that_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "open", lambda *_: open("/dev/full", "wb"), raising=False)
    with pytest.raises(OSError, match="No space left on device; earlier records are whole") as caught:
        RunStore(tmp_path).write({"experiment": "demo"}, {"value": 1}, {})
    assert caught.value.errno == errno.ENOSPC and list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_is_swept_after_a_day(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "provenance", dict)
    old, young = tmp_path / ".old.part", tmp_path / ".young.part"
    for part, age in ((old, 90_000), (young, 3_600)):
        part.write_text("{")
        os.utime(part, (time.time() - age,) * 2)
    RunStore(tmp_path).run(store_worker.units(1), store_worker.work, progress=False)
    assert not old.exists() and young.exists()


def test_any_flipped_byte_is_found_or_harmless(tmp_path):
    store, unit = RunStore(tmp_path), {"experiment": "demo", "n": 1, "name": "a b"}
    store.write(unit, {"x": [0.1, -2e-9, None, True], "text": "u\u00e9"}, {"command": ["rrl", "run"], "seconds": 0.25})
    path, good = store.path(unit), store.load(unit)
    parts, whole, found = ("unit", "result", "provenance"), path.read_bytes(), 0
    for place in range(len(whole)):
        for bit in (0, 5):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            record = store.load(unit)
            found += record is None
            assert record is None or all(record[part] == good[part] for part in parts)
    # The last byte ends the line.
    assert found >= 2 * len(whole) - 2 and list(tmp_path.iterdir()) == [path]


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "no seal": lambda path: path.write_text(path.read_text().replace('"seal"', '"sael"')),
    "provenance forged without a seal": lambda path: forge(path, lambda r: r.pop("seal") and r["provenance"].clear()),
    "a key twice": lambda path: path.write_text(path.read_text().replace('{"check"', '{"unit":{},"check"', 1)),
    "result a list": lambda path: forge(path, lambda r: r.update(result=[1], check=digest([1]))),
    "unit a list": lambda path: forge(path, lambda r: r.update(unit=["demo"])),
    "unit without experiment": lambda path: forge(path, lambda r: r.update(unit={"n": 0})),
    "provenance null": lambda path: forge(path, lambda r: r.update(provenance=None, seal=digest(None))),
    "a number too long": lambda path: path.write_text("9" * 5_000),
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "link loop": lambda path: (path.unlink(), path.symlink_to(path.name)),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "endless device": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
}


def digest(value):
    return hashlib.sha256(record_text(value).encode()).hexdigest()


def forge(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(record_text(record))


@pytest.mark.skipif(os.name != "posix", reason="pipes, devices and links of Unix")
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_said_and_moved_only_before_a_write(tmp_path, monkeypatch, capsys, kind):
    """Whatever lies in a record's place: looking leaves it, says so, and shows the others; a run replaces it."""
    monkeypatch.setattr(module, "provenance", dict)
    store, units = RunStore(tmp_path), store_worker.units(3)
    whole = store.run(units, store_worker.work, progress=False)
    DAMAGE[kind](store.path(units[0]))
    (tmp_path / "package.json").write_text("{}")
    before = sorted(tmp_path.iterdir())
    assert store.load(units[0]) is None and store.todo(units) == units[:1] and len(store.records()) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1  # once, however often it is looked at
    monkeypatch.setattr(module, "_tell", module._tell.__wrapped__)
    for command, lines in ((("show",), 2), (("status",), 6)):
        assert cli.main([*command, "--folder", str(tmp_path)]) == 0
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == lines and err.startswith(f"damaged record {store.path(units[0])}: ")
    assert sorted(tmp_path.iterdir()) == before
    assert results(store.run(units, store_worker.work, progress=False)) == results(whole)
    (aside,) = tmp_path.glob("*.corrupt")
    assert f"set aside as {aside.name}" in capsys.readouterr().err
    assert (tmp_path / "package.json").read_text() == "{}"


@pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="another user's file is made by root")
def test_a_record_that_may_not_be_read_stops_nothing(tmp_path):
    """In a process of another user: it is named, and the others are shown."""
    store, units = RunStore(tmp_path / "s"), store_worker.units(2)
    store.run(units, store_worker.work, progress=False)
    store.path(units[0]).chmod(0)
    code = (
        "import os, sys\nfrom rrl.experiments import cli\nimport rrl.experiments.cartpole.study\n"
        "os.setuid(12345)\nsys.exit(cli.main(['show', '--folder', '.']))"
    )
    for folder in (store.folder, *store.folder.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path(tempfile.gettempdir()) and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o55)
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=store.folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 1 and "it cannot be read: Permission denied" in ran.stderr


def test_a_slow_look_does_not_set_a_good_record_aside(tmp_path, monkeypatch):
    """Between our look at a damaged record and its renaming, another writer puts a whole one there."""
    monkeypatch.setattr(module, "provenance", dict)
    store, (unit,) = RunStore(tmp_path), store_worker.units(1)
    path, real = store.path(unit), module.os.replace
    path.write_text("{")
    moves = []

    def replace(source, target):
        moves.append(Path(target).suffix)
        if moves == [".corrupt"]:
            monkeypatch.setattr(module.os, "replace", real)
            RunStore(tmp_path).write(unit, {"value": 1}, {"writer": "other"})
            monkeypatch.setattr(module.os, "replace", replace)
        real(source, target)

    monkeypatch.setattr(module.os, "replace", replace)
    store.write(unit, {"value": 1}, {"writer": "we"})
    assert moves == [".corrupt", ".json"] and store.load(unit)["provenance"] == {"writer": "other"}
    (aside,) = tmp_path.glob("*.corrupt")
    assert aside.read_text() == "{"


def test_a_part_that_a_clock_ahead_sweeps_is_written_again(tmp_path, monkeypatch):
    real, swept = module.os.replace, []

    def replace(source, target):
        if len(swept) < 2:
            swept.append(Path(source))
            os.unlink(source)
        real(source, target)

    monkeypatch.setattr(module.os, "replace", replace)
    store, (unit,) = RunStore(tmp_path), store_worker.units(1)
    store.write(unit, {"value": 1}, {})
    assert len(swept) == 2 and store.load(unit)["result"] == {"value": 1} and len(list(tmp_path.iterdir())) == 1
    store.path(unit).unlink()
    swept[:] = []
    monkeypatch.setattr(module.os, "replace", lambda source, target: (os.unlink(source), real(source, target)))
    with pytest.raises(OSError, match=r"cannot write a record to .*No such file"):
        store.write(unit, {"value": 1}, {})
    with pytest.raises(TypeError, match=r"a result is a dict, got \[1\]"):
        store.write(unit, [1], {})
    assert list(tmp_path.iterdir()) == []


def test_parts_are_swept_by_the_clock_that_stamps_them(tmp_path, monkeypatch):
    """Our own clock two days ahead leaves another writer's part alone."""
    monkeypatch.setattr(module, "provenance", dict)
    young = tmp_path / ".young.part"
    young.write_text("{")
    ahead = time.time() + 200_000
    monkeypatch.setattr(module.time, "time", lambda: ahead)
    RunStore(tmp_path).run(store_worker.units(1), store_worker.work, progress=False)
    assert young.exists()


def test_every_failing_unit_is_named(tmp_path, capsys):
    units = [{"experiment": "demo", "n": n, "rate": 0.5} for n in range(3)]
    for options, more in (({}, ""), ({"batch": 3}, ", and 2 more that were computed with it"), ({"jobs": 2}, "")):
        with pytest.raises(FloatingPointError, match="loss") as caught:
            RunStore(tmp_path).run(units, store_worker.diverge, progress=False, **options)
        first, *others = caught.value.__notes__
        assert first.startswith("unit ") and " (n " in first and first.endswith(", rate 0.5)" + more)
        assert [other[:11] for other in others] == ([] if more else ["failed too:"] * 2)
        named = " ".join([first, *others])
        assert more or all(f"unit {unit_key(unit)[:12]}" in named for unit in units)
    assert capsys.readouterr().err == ""
    many = [{"experiment": "demo", "n": n} for n in range(15)]
    with pytest.raises(FloatingPointError) as caught:
        RunStore(tmp_path).run(many, store_worker.diverge)
    assert len(caught.value.__notes__) == 12 and caught.value.__notes__[-1] == "and 4 more that failed"
    assert capsys.readouterr().err.count("failed: FloatingPointError: loss is not finite; unit ") == 15


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_failing_unit_of_many_leaves_the_others_done(jobs, tmp_path):
    units = store_worker.units(6)
    with pytest.raises(ZeroDivisionError) as caught:
        RunStore(tmp_path).run(units, store_worker.one_over, jobs=jobs, progress=False)
    assert RunStore(tmp_path).todo(units) == [units[0]]
    assert caught.value.__notes__[1] == "5 of 6 units were done and are on record"


def test_an_error_that_cannot_travel_is_told_in_words(tmp_path):
    """Unpickled in the parent, it would break the pool, and the word would be of a killed worker."""
    units = store_worker.units(4)
    with pytest.raises(RuntimeError) as caught:
        RunStore(tmp_path).run(units, store_worker.stubborn, jobs=2, progress=False)
    said = f"{caught.value} {' '.join(caught.value.__notes__)}"
    assert "Stubborn: three words of it" in said and "Local: known here only" in said
    assert RunStore(tmp_path).todo(units) == units[1:3] and caught.value.__notes__[0].startswith("unit ")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_function_that_exits_ends_its_unit_only(jobs, tmp_path):
    units = store_worker.units(3)
    with pytest.raises(RuntimeError, match="SystemExit: no data"):
        RunStore(tmp_path).run(units, store_worker.leave, jobs=jobs, progress=False)
    assert RunStore(tmp_path).todo(units) == units[:1]


def test_a_function_of_a_cell_goes_to_other_processes(tmp_path):
    """As a notebook's kernel has it: in a main module without a file, with what it names."""
    code = (
        "from rrl.experiments.store import RunStore\n"
        "offset = 5\n"
        "def shift(n):\n    return n + offset\n"
        "def work(unit):\n    return {'value': shift(unit['n'])}\n"
        "units = [{'experiment': 'demo', 'n': n} for n in range(4)]\n"
        f"records = RunStore({str(tmp_path / 'store')!r}).run(units, work, jobs=2, progress=False)\n"
        "print([record['result']['value'] for record in records])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert ran.stdout == "[5, 6, 7, 8]\n", ran.stderr


def test_a_function_that_cannot_travel_is_refused_before_any_work(tmp_path):
    lock, calls = threading.Lock(), []

    def guarded(unit):
        with lock:
            calls.append(unit)
            return {}

    with pytest.raises(TypeError, match=r"guarded cannot be handed to other processes \(.*lock.*take jobs=1"):
        RunStore(tmp_path).run(store_worker.units(2), guarded, jobs=2, progress=False)
    assert calls == [] and not list(tmp_path.glob("*.json"))
    with ThreadPoolExecutor(2) as threads:  # threads share what the function holds
        RunStore(tmp_path).run(store_worker.units(2), guarded, executor=threads, progress=False)
    assert len(calls) == 2


def test_every_shipped_record_is_whole_and_sealed():
    folders = [path for path in (HERE.parents[1] / "book" / "results").iterdir() if path.name != "benchmarks"]
    files = [path for folder in folders for path in folder.glob("*.json")]
    assert len(files) >= 719 and all(map(is_record_name, files))
    assert sum(len(RunStore(folder).records()) for folder in folders) == len(files)


def test_a_corrupt_record_in_a_read_only_folder_is_passed_over(tmp_path, monkeypatch):
    store, units = RunStore(tmp_path), store_worker.units(2)
    store.run(units, store_worker.work, progress=False)
    store.path(units[0]).write_bytes(b"{")

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(module.os, "replace", refuse)
    monkeypatch.setattr(module, "open", refuse, raising=False)
    assert store.todo(units) == units[:1] and len(store.records()) == 1
    with pytest.raises(OSError, match=r"cannot write records to .*Read-only file system"):
        store.run(units, store_worker.work, progress=False)
    assert store.path(units[0]).read_bytes() == b"{"


def test_a_killed_process_of_the_pool_leaves_whole_records(tmp_path):
    units = store_worker.units(6)
    mortal = functools.partial(store_worker.die_once, marker=tmp_path / "marker")
    with pytest.raises(BrokenExecutor):
        RunStore(tmp_path / "store").run(units, mortal, jobs=2, progress=False)
    names = list((tmp_path / "store").glob("*.json"))
    assert len(RunStore(tmp_path / "store").records()) == len(names) < 6
    again = RunStore(tmp_path / "store").run(units, mortal, progress=False)
    assert results(again) == undisturbed(tmp_path / "other", units)


def test_workers_end_with_a_killed_parent(tmp_path):
    """SIGKILL of the main process leaves no worker behind that works on for hours."""
    psutil = pytest.importorskip("psutil")
    log = tmp_path / "log"
    script = tmp_path / "main.py"
    script.write_text(
        "import functools, store_worker\n"
        "from rrl.experiments.store import RunStore\n"
        "if __name__ == '__main__':\n"
        f"    work = functools.partial(store_worker.endless, log={str(log)!r})\n"
        f"    RunStore({str(tmp_path / 'store')!r}).run(store_worker.units(2), work, jobs=2, progress=False)\n"
    )
    path = os.pathsep.join([str(HERE), str(HERE.parent)])
    main = subprocess.Popen([sys.executable, script], env={**os.environ, "PYTHONPATH": path})
    began = time.monotonic()
    while len(lines(log)) < 2 and time.monotonic() - began < 120:
        time.sleep(0.05)
    workers = [psutil.Process(int(line)) for line in lines(log)]
    main.kill()
    main.wait()
    left = psutil.wait_procs(workers, timeout=60)[1]
    for other in left:
        other.kill()
    assert len(workers) == 2 and not left


@pytest.mark.parametrize("times", [1, 2, 3])
def test_ctrl_c_ends_the_run_however_often_it_is_pressed(times, tmp_path):
    """SIGINT to the whole group, as a terminal sends it: main process and workers end, another child of it does not."""
    psutil = pytest.importorskip("psutil")
    log, folder = tmp_path / "log", tmp_path / "store"
    script = tmp_path / "main.py"
    script.write_text(
        "import functools, multiprocessing, os, sys, time, store_worker\n"
        "from rrl.experiments.store import RunStore\n"
        "if __name__ == '__main__':\n"
        f"    work = functools.partial(store_worker.busy, log={str(log)!r})\n"
        "    marker = sys.argv[0] + '.deaf'\n"
        "    start = multiprocessing.get_context('spawn').Process\n"
        "    other = start(target=store_worker.deaf, args=(marker,), daemon=True)\n"
        "    other.start()\n"
        "    while not os.path.exists(marker):\n"
        "        time.sleep(0.01)\n"
        "    try:\n"
        f"        RunStore({str(folder)!r}).run(store_worker.units(2), work, jobs=2, progress=False)\n"
        "    except KeyboardInterrupt:\n"
        "        other.join(1)\n"
        "        sys.exit(130 if other.is_alive() else 1)\n"
    )
    path = os.pathsep.join([str(HERE), str(HERE.parent)])
    environment = {**os.environ, "PYTHONPATH": path}
    main = subprocess.Popen([sys.executable, script], env=environment, start_new_session=True)
    began = time.monotonic()
    while len(lines(log)) < 2 and time.monotonic() - began < 120:
        time.sleep(0.05)
    workers = [psutil.Process(int(line)) for line in lines(log)]
    for _ in range(times):
        os.killpg(main.pid, signal.SIGINT)
        time.sleep(0.05)
    try:
        code = main.wait(timeout=30)
    finally:
        main.kill()
        left = psutil.wait_procs(workers, timeout=10)[1]
        for other in left:
            other.kill()
    assert len(workers) == 2 and not left and (code == 130 or times > 1)


def test_the_command_says_that_a_process_was_killed(tmp_path, monkeypatch, capsys):
    def broken(*_, **__):
        raise BrokenExecutor("a process was terminated abruptly")

    monkeypatch.setattr("rrl.experiments.cartpole.study.main", broken)
    assert cli.main(["run", "cartpole", "--data", "standin", "--folder", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "a worker process was killed" in error and "what is done is kept" in error


def test_a_killed_dask_worker_changes_no_result(tmp_path):
    """The scheduler gives the lost unit to another worker."""
    distributed = pytest.importorskip("dask.distributed")
    units = store_worker.units(8)
    mortal = functools.partial(store_worker.die_once, marker=tmp_path / "marker")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path / "dask"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        records = RunStore(tmp_path / "store").run(units, mortal, executor=client.get_executor(), progress=False)
    assert (tmp_path / "marker").exists()
    assert results(records) == undisturbed(tmp_path / "other", units)
    assert sorted(path.suffix for path in (tmp_path / "store").iterdir()) == [".json"] * 8


def test_a_lost_dask_scheduler_is_told_and_the_rerun_goes_on(tmp_path):
    pytest.importorskip("dask.distributed")
    units, file, folder = store_worker.units(12), tmp_path / "scheduler.json", tmp_path / "store"
    path = os.pathsep.join([str(HERE), str(HERE.parent)])
    options = {"env": {**os.environ, "PYTHONPATH": path}, "stderr": subprocess.DEVNULL}
    own = ["--scheduler-file", file, "--no-dashboard"]
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", *own, "--host", "127.0.0.1", "--port", "0"]
    worker = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        *own,
        "--nthreads",
        "1",
        "--local-directory",
        tmp_path,
    ]
    processes = [subprocess.Popen(list(map(str, command)), **options) for command in (scheduler, worker)]

    def kill_after_two():
        while len(list(folder.glob("*.json"))) < 2:
            time.sleep(0.02)
        processes[0].kill()

    try:
        began = time.monotonic()
        while not file.exists() and time.monotonic() - began < 60:
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        threading.Thread(target=kill_after_two, daemon=True).start()
        with (
            pytest.raises(ConnectionError, match=r"lost its scheduler .* goes on from there"),
            workers.dask_executor(address) as executor,
        ):
            RunStore(folder).run(units, store_worker.slow, executor=executor, progress=False)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    store = RunStore(folder)
    assert 2 <= len(store.records()) == len(list(folder.glob("*.json"))) < 12
    assert results(store.run(units, store_worker.work, progress=False)) == undisturbed(tmp_path / "other", units)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_workers_keep_freed_memory(tmp_path):
    """Ten times 24 MB are 58,000 pages, each of them a fault where freed memory goes back to the system."""
    records = RunStore(tmp_path).run(store_worker.units(2), store_worker.page_faults, jobs=2, progress=False)
    assert max(record["result"]["faults"] for record in records) < 1_000
