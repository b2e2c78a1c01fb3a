"""Programs that know nothing of us: pairs and seeds, guards, crashes, time limits, kills; and the command line."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rrl import RunFailed, certification_law, certify_program, pair_seeds, programs
from rrl.experiments import cli
from rrl.experiments.store import RunStore
from rrl.programs import seeds

AWK = Path(__file__).parent / "program.awk"
SEEDS = ("{data_seed}", "{shared_seed}")


def program(code, *words):
    return [sys.executable, "-c", code, *SEEDS, *words]


#: Publishes 3 numbers; two runs of a pair differ with probability 0.1.
CODE = """
import random, sys
data, shared = sys.argv[1:3]
pair = random.Random(shared)
print(shared, 0, pair.random() < 0.1 and data)
"""
AGREES = "import sys; print(sys.argv[2])"


# Pairs.


def test_the_two_runs_share_one_seed_and_have_a_data_seed_each():
    found = certify_program(program("import sys; print(*sys.argv[1:3])"), rho=0.3)
    assert found.verdict == "not replicable"
    for pair in found.pairs:
        assert pair.differs and pair.drew is None and len(set(pair.data_seeds)) == 2
        one, two = (f"{data} {pair.shared_seed}" for data in pair.data_seeds)
        assert pair.first == (f"stdout line 1: '{one}' and '{two}'",)


def test_seeds_suit_every_language_and_belong_to_one_pair():
    drawn = np.array([seeds(5, index) for index in range(2000)])
    assert drawn.min() >= 0 and drawn.max() < 2**31 and drawn.max() > 2**30
    assert len(np.unique(drawn)) == drawn.size and not np.isin([seeds(6, index) for index in range(99)], drawn).any()
    # From the same sequences as those of Python's functions, cut short.
    shared, first, _ = pair_seeds(5, 0)
    assert seeds(5, 0)[1] == first.generate_state(1)[0] >> 1 and shared != seeds(5, 0)[0]


def test_verdicts_come_as_often_as_the_law_says(acceptance):
    """200 measurements, the program's runs replaced by their law; alarm 1e-6 a verdict."""

    class Fake(programs.Program):
        def run(self, shared_seed, data_seed, running):
            differ = np.random.default_rng(shared_seed).random() < 0.2
            return {"x": data_seed if differ else shared_seed}, {}

    law = certification_law(0.2, 0.4, confidence=0.8, max_pairs=15)
    command = tuple(program(AGREES))
    found = []
    for seed in range(200):
        records = programs.Records(None, None)
        pairs = programs.program_pairs(Fake(command, (), False, None), seed, 15, 1, records)
        found.append(programs.settle(pairs, rho=0.4, confidence=0.8, seed=seed, needs_change=True).verdict)
    for verdict, chance in (("replicable", law.replicable), ("not replicable", law.not_replicable)):
        low, high = acceptance(200, chance)
        assert low <= found.count(verdict) <= high


def test_jobs_change_nothing_and_pairs_count_in_order(tmp_path):
    """Later pairs end first here: what came first must not be what counts first."""
    code = "import random, sys, time; time.sleep(0.2 * random.Random(sys.argv[2]).random());" + CODE
    found = [certify_program(program(code), rho=0.4, jobs=jobs, seed=1) for jobs in (1, 2, 5)]
    assert found[0] == found[1] == found[2] and [pair.index for pair in found[0].pairs] == list(range(found[0].n_pairs))


def test_it_goes_on_from_its_records_and_another_program_does_not(tmp_path):
    log, script = tmp_path / "log", tmp_path / "train.py"
    script.write_text("import sys; print(sys.argv[2]); open(sys.argv[3], 'a').write('x')")
    command, folder = [sys.executable, str(script), *SEEDS, str(log)], tmp_path / "store"
    log.write_text("")
    partial = certify_program(command, rho=0.3, max_pairs=4, store=folder, allow_constant=True)
    # The log's text is part of what the program is, as any file that the command names.
    assert partial.n_pairs == 4 and len(log.read_text()) == 8
    log.write_text("")
    whole = certify_program(command, rho=0.3, store=folder)
    assert whole.verdict == "replicable" and whole.pairs[:4] == partial.pairs
    assert len(log.read_text()) == 2 * (whole.n_pairs - 4)
    script.write_text(script.read_text() + "\n# changed\n")
    log.write_text("")
    certify_program(command, rho=0.3, max_pairs=1, store=folder)
    assert len(log.read_text()) == 2


def test_files_it_writes_with_any_ending_or_in_a_folder_are_compared():
    code = """
import os, sys
data, shared, folder = sys.argv[1:]
os.makedirs(folder)
for n in (0, 1):
    open(f"{folder}/{n}.json", "w").write(f"[{shared}, {n * int(data)}]")
"""
    (pair,) = certify_program(program(code, "{out}"), rho=0.5, max_pairs=1).pairs
    assert pair.n_differ == 1 and pair.first[0].startswith("out/1.json [1]: ")
    save = "import sys, numpy as np; np.savez(sys.argv[3], codes=np.array([int(sys.argv[2]), int(sys.argv[1]) % 2]))"
    pairs = certify_program(program(save, "{out}"), rho=0.5, max_pairs=4).pairs
    assert {pair.first for pair in pairs} <= {(), ("out.npz codes[1]: 0 and 1",), ("out.npz codes[1]: 1 and 0",)}
    assert any(pair.differs for pair in pairs)


def test_what_agrees_on_the_key_and_differs_beside_it_is_named():
    code = """
import json, sys
open(sys.argv[3], "w").write(json.dumps({"codes": [int(sys.argv[2])], "predictions": [int(sys.argv[1]) / 7, 0.5]}))
"""
    found = certify_program(program(code, "{out}.json"), rho=0.5, keys=["codes"])
    assert found.verdict == "replicable" and all(pair.beside == ("predictions",) for pair in found.pairs)
    assert f"in {found.n_pairs} pairs that agree on what was compared, predictions differs" in found.notes[0]
    with pytest.raises(RunFailed, match=r"predictions\[0\] in out.json as float"):
        certify_program(program(code, "{out}.json"), rho=0.5)
    assert certify_program(program(code, "{out}.json"), rho=0.5, as_bytes=True).verdict == "not replicable"


def test_a_program_whose_output_never_changes_is_not_called_replicable():
    found = certify_program(program("print(1)"), rho=0.5)
    assert found.verdict == "undecided" and found.n_disagree == 0 and "published the same output" in found.notes[0]
    assert "--allow-constant" in found.notes[-1]
    assert "at confidence 95\\,\\%, because all runs published the same output, so" in found.statement("it").to_latex()
    allowed = certify_program(program("print(1)"), rho=0.5, allow_constant=True)
    assert allowed.verdict == "replicable" and "because" not in allowed.statement("it").to_latex()


def scripts(folder, inner):
    """A script that the command names, and one that it runs."""
    (folder / "inner.sh").write_text(inner)
    (folder / "outer.sh").write_text(f'sh {folder}/inner.sh "$1" "$2"\n')
    return ["sh", str(folder / "outer.sh"), *SEEDS]


def test_after_an_inner_change_only_again_runs_the_pairs_anew(tmp_path, capsys):
    words = ("certify", "--rho", 0.3, "--folder", tmp_path / "store", "--quiet")
    command = scripts(tmp_path, 'echo "$2"\n')
    assert rrl(*words, "--", *command) == 0
    assert "from records" not in capsys.readouterr().out
    first = {path: path.read_bytes() for path in (tmp_path / "store" / "pairs").glob("*.json")}
    scripts(tmp_path, 'echo "$1"\n')
    # What was measured is on record, and nobody looks into the inner script: it is said.
    assert rrl(*words, "--", *command) == 0
    out = capsys.readouterr().out
    assert "11 of 11 pairs are from records of 2" in out and "(imports, inner scripts) is not checked" in out
    content = json.loads((tmp_path / "store" / "statement.json").read_text())
    assert content["from_records"]["n_pairs"] == 11 and content["attempt"] == 0
    assert rrl(*words, "--again", "--", *command) == 1
    assert "from records" not in capsys.readouterr().out
    content = json.loads((tmp_path / "store" / "statement.json").read_text())
    assert content["from_records"] == {"n_pairs": 0, "first": "", "last": ""} and content["attempt"] == 1
    # The newest attempt is what counts from now on, and the first is still there.
    assert rrl(*words, "--", *command) == 1
    assert f"{content['n_pairs']} of {content['n_pairs']} pairs are from records" in capsys.readouterr().out
    assert all(path.read_bytes() == text for path, text in first.items())
    with pytest.raises(SystemExit):
        rrl("certify", "--help")
    assert "--again" in capsys.readouterr().out


def test_an_attempt_that_was_interrupted_is_the_one_that_goes_on(tmp_path):
    store, options = tmp_path / "store", {"rho": 0.3, "store": tmp_path / "store"}
    command = scripts(tmp_path, 'echo "$2"\n')
    certify_program(command, **options)
    scripts(tmp_path, 'echo "$1"\n')
    begun = certify_program(command, again=True, max_pairs=1, **options)
    assert (begun.n_pairs, begun.n_disagree, begun.attempt, begun.recorded) == (1, 1, 1, ())
    whole = certify_program(command, **options)
    assert whole.verdict == "not replicable" and whole.n_disagree == whole.n_pairs and len(whole.recorded) == 1
    # Without a record there is nothing to set aside; an attempt that leaves none is none.
    assert certify_program(command, rho=0.3, again=True, store=tmp_path / "new", max_pairs=1).attempt == 0
    scripts(tmp_path, "exit 1\n")
    with pytest.raises(RunFailed):
        certify_program(command, again=True, **options)
    scripts(tmp_path, 'echo "$2"\n')
    third = certify_program(command, **options)
    assert (third.verdict, third.attempt, third.recorded) == ("replicable", 2, ())
    assert len({record["unit"].get("attempt", 0) for record in RunStore(store).records()}) == 3


def test_a_program_that_ignores_its_data_seed_is_told_from_none_and_the_statement_claims_no_draws(tmp_path):
    ignores = certify_program(program(AGREES), rho=0.3)
    assert "a program that ignores {data_seed} looks the same" in ignores.notes[-1]
    statement = ignores.statement("it")
    assert "were given independent data seeds" in statement.to_latex() and "drew" not in statement.to_json()
    # One that differs, or whose other outputs do, shows that it uses the seed.
    for rho in (0.2, 0.02):
        differs = certify_program(program(CODE), rho=rho, max_pairs=60)
        assert bool(differs.n_disagree) != any("ignores" in note for note in differs.notes)


# Refused before anything runs.


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ([], {}, "command must be the program's words"),
        ("python x", {}, "command must be a list of words, as shlex.split makes of a text, got 'python x'"),
        (["awk", 1], {}, "command must be the program's words"),
        (["awk", "{shared_seed}"], {}, "the command has no {data_seed}: the two runs of a pair need data of their own"),
        (["awk", "{data_seed}"], {}, "the command has no {shared_seed}: the two runs of a pair share the seed"),
        (["no-such-program", *SEEDS], {}, "there is no program 'no-such-program'"),
        (["awk", *SEEDS, "--out", "out.json"], {}, "--out out.json would write where all runs write: put {out}"),
        (["awk", *SEEDS, "--output-dir=runs"], {}, "--output-dir=runs would write where all runs write"),
        (["awk", *SEEDS, "-o", "a.npz"], {}, "-o a.npz would write where all runs write"),
        ([str(AWK), *SEEDS], {}, "is not executable: name its interpreter before it, as in sh "),
        ([str(AWK.parent), *SEEDS], {}, "it is a folder"),
        (program(AGREES), {"keys": ["a"]}, "a key is looked up in files that the program writes to {out}"),
        (program(AGREES, "{out}"), {"keys": ["a"], "as_bytes": True}, "a key is looked up"),
        (program(AGREES), {"time_limit": 0}, "time_limit must be positive"),
        (program(AGREES), {"jobs": 0}, "jobs must be an integer >= 1"),
        (program(AGREES), {"rho": 1}, "rho must lie strictly"),
        (program(AGREES), {"max_pairs": 0}, "max_pairs must be a positive integer"),
        (program(AGREES), {"crash": "skip"}, "crash must be 'stop' or 'differ', got 'skip'"),
    ],
)
def test_what_cannot_be_measured_is_refused(command, options, words, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(ValueError) as refused:
        certify_program(command, **{"rho": 0.1} | options)
    assert words in str(refused.value)


def test_options_that_only_look_like_an_output_s_are_none():
    for words in (["-o", "pipefail"], ["--output-format", "json"], ["--out", "-"], ["--out", "/dev/null"], ["--out"]):
        assert certify_program(program(AGREES, *words), rho=0.9).verdict == "replicable"


def test_a_program_in_the_working_folder_is_named_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("only-here.sh").write_text("echo $2\n")
    with pytest.raises(ValueError, match=r"search path: write \./only-here\.sh"):
        certify_program(["only-here.sh", *SEEDS], rho=0.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo $2\n", r"could not be started \(Exec format error\): name its interpreter before it, as in sh "),
        ("#!/no/such\necho $2\n", r"could not be started \(the interpreter that its first line names is not there\)"),
    ],
)
def test_a_script_that_no_interpreter_takes_says_so(text, words, tmp_path):
    script = tmp_path / "it.sh"
    script.write_text(text)
    script.chmod(0o755)
    with pytest.raises(RunFailed, match=words):
        certify_program([str(script), *SEEDS], rho=0.5)


# Failures.


def failing(how):
    """Fails in every pair whose shared seed is 0 modulo 5."""
    code = "import os, sys, time; data, shared = map(int, sys.argv[1:3]); print(shared)"
    return program(f"{code}\nif shared % 5 == 0: {how}")


FIRST = next(index for index in range(99) if seeds(0, index)[0] % 5 == 0)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            "print('a\\nb', file=sys.stderr); sys.exit(3)",
            ["ended with status 3; the end of its standard error:", "  | b"],
        ),
        ("1 / 0", ["ended with status 1", "  | ZeroDivisionError: division by zero"]),
        ("os.kill(os.getpid(), 9)", ["was ended by signal 9; the end of its standard output:", "  | "]),
        ("time.sleep(60)", ["ran longer than 2 s"]),
    ],
)
@pytest.mark.parametrize("jobs", [1, 4])
def test_a_run_that_fails_is_named_and_its_pair_counts_neither_way(how, words, jobs, tmp_path):
    with pytest.raises(RunFailed) as failed:
        certify_program(failing(how), rho=0.01, jobs=jobs, store=tmp_path, time_limit=2)
    text = str(failed.value)
    assert f"of pair {FIRST} " in text and all(word in text for word in words)
    shared, *data = seeds(0, FIRST)
    assert any(f"{d} {shared}" in text.splitlines()[-1] for d in data)
    found = failed.value.certificate
    assert (found.n_pairs, found.n_disagree, found.verdict) == (FIRST, 0, "undecided") and FIRST > 0
    assert (found.n_crashed, found.crash) == (1, "stop") and failed.value.crashes == 1
    # Of the lost pair its crash is on record, and nothing else; those before it are whole.
    units = [record["unit"] for record in RunStore(tmp_path).records()]
    on_record = {unit["pair"] for unit in units if "crash" not in unit}
    assert FIRST not in on_record and set(range(FIRST)) <= on_record
    assert [unit["crash"] for unit in units if unit["pair"] == FIRST] == [0]


def test_another_time_limit_is_another_measurement(tmp_path):
    """What takes too long is a crash: pairs that ran under one limit say nothing of another."""
    slow = program("import sys, time; time.sleep(0.6); print(sys.argv[2])")
    kept = {"rho": 0.5, "crash": "differ", "store": tmp_path, "max_pairs": 1, "jobs": 2, "allow_constant": True}
    for limit, crashed in ((None, 0), (0.3, 1), (30, 0), (0.3, 1)):
        assert certify_program(slow, time_limit=limit, **kept).n_crashed == crashed


def test_a_crash_counts_as_a_disagreement_where_it_is_asked_for(tmp_path):
    """It is the measurement of a program that differs where this one crashes, whatever was on record."""
    crashes, differs = failing("sys.exit('no data')"), failing("print(data)")
    twin = certify_program(differs, rho=0.5)
    found = [certify_program(crashes, rho=0.5, crash="differ", jobs=jobs) for jobs in (1, 3)]
    with pytest.raises(RunFailed):
        certify_program(crashes, rho=0.5, store=tmp_path)
    found += [certify_program(crashes, rho=0.5, crash="differ", store=tmp_path) for _ in range(2)]
    # With one run at a time the second of such a pair is spared; beside each other either may fail first.
    assert found[0] == found[2] == found[3]
    for one in found:
        assert [pair.differs for pair in one.pairs] == [pair.differs for pair in twin.pairs]
        assert (one.verdict, one.n_disagree, one.upper) == (twin.verdict, twin.n_disagree, twin.upper)
        assert (one.n_crashed, one.crash) == (one.n_disagree, "differ") and one.n_disagree > 0
        failed = [pair for pair in one.pairs if pair.differs]
        assert all(pair.first == pair.crashed and "ended with status 1: no data" in pair.first[0] for pair in failed)
        assert (
            f"a run crashed in {len(failed)} of {one.n_pairs} pairs, which count as pairs that differ" in one.notes[0]
        )
    text = found[0].statement("it").to_latex()
    assert "A run crashed in" in text and "count" in text and "No run crashed" in twin.statement("it").to_latex()
    # Without the option again, it is tried again, and stops.
    with pytest.raises(RunFailed, match="with these seeds it has failed 2 times") as failed:
        certify_program(crashes, rho=0.5, store=tmp_path)
    assert failed.value.crashes == 2


def test_a_pair_that_works_when_it_is_run_again_says_so_and_counts_as_its_crash_if_crashes_count(tmp_path):
    flag = tmp_path / "flag"
    how = f"new = not os.path.exists({str(flag)!r}); open({str(flag)!r}, 'w'); sys.exit(new)"
    command, store = failing(how), tmp_path / "store"
    with pytest.raises(RunFailed, match=f"of pair {FIRST} ended"):
        certify_program(command, rho=0.5, store=store)
    again = certify_program(command, rho=0.5, store=store)
    assert again.verdict == "replicable" and (again.n_disagree, again.n_crashed) == (0, 0)
    assert again.notes[:-1] == (
        f"of pair {FIRST} a run had crashed: what was published when the pair was run again, with the same seeds, "
        "is what counts",
    )
    assert again == certify_program(command, rho=0.5, store=store)
    strict = certify_program(command, rho=0.5, store=store, crash="differ")
    assert strict.pairs[FIRST].differs and (strict.n_disagree, strict.n_crashed) == (1, 1)
    assert strict.upper > again.upper or strict.n_pairs > again.n_pairs


def test_a_program_that_always_crashes_has_no_verdict():
    found = certify_program(program("1 / 0"), rho=0.1, crash="differ")
    assert found.verdict == "undecided" and found.n_crashed == found.n_pairs == 10
    assert (
        "a run crashed in 10 of 10 pairs" in found.notes[0] and "ZeroDivisionError: division by zero" in found.notes[0]
    )


def test_a_refutation_that_rests_on_crashes_says_so():
    """No two of its outputs differ; agreements that say nothing of the seeds are still named."""
    found = certify_program(failing("sys.exit(1)"), rho=0.02, crash="differ")
    assert found.verdict == "not replicable" and found.n_crashed == found.n_disagree
    assert found.notes[-1] == "had the crashed runs agreed, this would not be settled"
    constant = "import sys\nsys.exit(int(sys.argv[2]) % 5 == 0) if int(sys.argv[2]) % 5 == 0 else print(1)"
    found = certify_program(program(constant), rho=0.5, crash="differ")
    assert found.verdict == "undecided" and "runs of the other pairs published the same output" in found.notes[1]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_run_ended_from_outside_never_counts(name, tmp_path):
    how = f"import signal; signal.signal(signal.{name}, signal.SIG_DFL); os.kill(os.getpid(), signal.{name})"
    with pytest.raises(RunFailed, match="was ended by signal") as failed:
        certify_program(failing(how), rho=0.01, crash="differ", store=tmp_path)
    assert failed.value.crashes == failed.value.certificate.n_crashed == 0
    assert all("crash" not in record["unit"] for record in RunStore(tmp_path).records())


def test_the_command_line_counts_crashes_where_it_is_asked_for(tmp_path, capsys):
    words = ("certify", "--rho", 0.5, "--folder", tmp_path, "--quiet", "--crash", "differ", "--", *failing("1 / 0"))
    assert rrl(*words) == 0
    out = capsys.readouterr().out
    assert f"pair {FIRST} differs: run 1 ended with status 1: ZeroDivisionError" in out and "note: a run crashed" in out
    content = json.loads((tmp_path / "statement.json").read_text())
    assert content["n_crashed"] == content["n_disagree"] == sum(bool(pair["crashed"]) for pair in content["pairs"]) > 0
    assert content["crashed_pairs"] == "count as pairs that differ"


def test_a_failure_in_the_first_pair_has_no_certificate_and_the_second_run_is_spared(tmp_path):
    log = tmp_path / "log"
    code = f"import sys; open({str(log)!r}, 'a').write('x'); sys.exit(1)"
    with pytest.raises(RunFailed, match="run 1 of pair 0 ended with status 1; it wrote nothing to") as failed:
        certify_program(program(code), rho=0.1)
    assert failed.value.certificate is None and log.read_text() == "x"


def test_a_program_that_writes_nothing_has_failed():
    with pytest.raises(RunFailed, match="published nothing on standard output"):
        certify_program(program("pass"), rho=0.1)
    with pytest.raises(RunFailed, match=r"published nothing at \{out\}; the end of its standard output:\n  \| forgot"):
        certify_program(program("print('forgot')", "{out}"), rho=0.1)


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_running(pid):
    """A zombie that nobody waits for has ended, too."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_a_time_limit_ends_the_children_of_the_program_too(tmp_path):
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! >> {pids}; wait; : {{data_seed}} {{shared_seed}}"
    with pytest.raises(RunFailed, match="ran longer than 1 s"):
        certify_program(["sh", "-c", script], rho=0.1, time_limit=1, jobs=2)
    children = [int(pid) for pid in pids.read_text().split()]
    wait_for(lambda: not any(map(is_running, children)))
    assert children


# The command line.


def rrl(*words):
    return cli.main([str(word) for word in words])


def awk(n, width=0.05):
    return ["--", "awk", "-v", f"n={n}", "-v", "data={data_seed}", "-v", "shared={shared_seed}", "-f", AWK]


def test_the_worked_example_from_an_empty_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert rrl("certify", "--rho", 0.2, "--jobs", 2, "--time-limit", 60, *awk(20_000)) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[-3].startswith("replicable: awk -v n=20000 -v data={data_seed} -v shared={shared_seed} -f ")
    assert "pairs differ in the standard output; rho in [0.000, 0." in lines[-2]
    assert "program" in err and "1 pair, " in err
    (folder,) = (tmp_path / "rrl-results" / "certify").iterdir()
    assert folder.name.startswith("program-")
    content = json.loads((folder / "statement.json").read_text())
    assert content["verdict"] == "replicable" and content["n_pairs"] == len(content["pairs"])
    assert list(content["files_sha256"]) == [str(AWK)] and len(content["pairs"][0]["data_seeds"]) == 2
    assert content["time_limit_seconds"] == 60
    assert r"\paragraph{Replicability.}" in (folder / "statement.tex").read_text()
    assert rrl("status") == 0
    assert f"{folder.name:<17} {content['n_pairs']} records, in " in capsys.readouterr().out
    # Again, all is on record.
    monkeypatch.setattr(programs.Program, "run", lambda *_: pytest.fail("it ran"))
    assert rrl("certify", "--rho", 0.2, "--jobs", 2, "--time-limit", 60, "--quiet", *awk(20_000)) == 0
    lines, n = capsys.readouterr().out.splitlines(), content["n_pairs"]
    assert lines[-3].startswith(f"{n} of {n} pairs are from records of 2") and "--again" in lines[-2]
    assert lines[:-3] + lines[-1:] == out.splitlines()


def test_what_the_how_to_shows_is_what_comes_out(tmp_path):
    """In a folder of its own, by the page's own program and command; the numbers are those of one kind of awk."""
    page = (Path(__file__).parents[1] / "book" / "how_to.md").read_text(encoding="utf-8")
    script, command, shown = (
        page.split(f":name: certify-{name}\n\n")[1].split("```")[0] for name in ("program", "command", "output")
    )
    (tmp_path / "coins.awk").write_text(script)
    words = shlex.split(command.removeprefix("$ "))
    assert words.pop(0) == "rrl"
    ran = subprocess.run(
        [sys.executable, "-m", "rrl", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    version = subprocess.run(["awk", "-W", "version"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    if version.startswith("mawk"):
        assert ran.stdout == shown
    assert ran.stdout.splitlines()[-3:][0].startswith("replicable: awk ")


def test_each_end_has_its_exit_status(tmp_path, capsys):
    folder = ("--folder", tmp_path, "--quiet")
    assert rrl("certify", "--rho", 0.2, *folder, *awk(200)) == 1
    out = capsys.readouterr().out
    assert out.startswith("pair ") and " differs: stdout line 1: " in out and "\n  awk -v n=200 -v data=" in out
    assert "not replicable: awk" in out
    assert rrl("certify", "--rho", 0.2, "--max-pairs", 2, *folder, *awk(20_000)) == 3
    assert "undecided: awk" in capsys.readouterr().out
    assert rrl("certify", "--rho", 0.2, *folder, "--", *program("print(1)")) == 3
    assert "note: all " in capsys.readouterr().out
    assert rrl("certify", "--rho", 0.2, *folder, "--allow-constant", "--", *program("print(1)")) == 0
    capsys.readouterr()
    assert rrl("certify", "--rho", 0.01, *folder, "--", *failing("sys.exit('\\x1b[31mred')")) == 4
    out, err = capsys.readouterr()
    assert "undecided: " in out and "the same command runs it again, with the same seeds" in err
    assert r"  | \x1b[31mred" in err and "\x1b" not in err
    content = json.loads((tmp_path / "statement.json").read_text())
    assert content["verdict"] == "undecided" and f"pair {FIRST} ended with status 1" in content["failed"]
    assert (content["n_pairs"], content["n_crashed"]) == (FIRST, 1)
    assert content["crashed_pairs"] == "none counts: the first ends the measurement"
    assert "A run of the pair after these crashed, which ended the" in (tmp_path / "statement.tex").read_text()
    # Again: it stops for good, and says so.
    assert rrl("certify", "--rho", 0.01, *folder[:2], "--", *failing("sys.exit('\\x1b[31mred')")) == 4
    err = capsys.readouterr().err
    assert "2 times with these seeds, so the same command is likely to stop here again" in err
    assert (
        "--crash differ" in err
        and "after any other change, add --again" in err
        and f"{FIRST} pairs are there, 1 failure" in err
    )
    (tmp_path / "file").touch()
    assert rrl("certify", "--rho", 0.2, "--quiet", "--folder", tmp_path / "file", *awk(200)) == 4
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rho", 0.2, "python", "x"], "give the program after --"),
        (["--rho", 0.2, "--"], "give the program after --"),
        (["--", "awk", *SEEDS], "the following arguments are required: --rho"),
        (["--rho", 0.2, "--", "awk", "1"], "the command has no {data_seed}"),
        (["--rho", 2, "--", "awk", *SEEDS], "rho must lie strictly between 0 and 1, got 2.0"),
        (["--rho", 0.2, "--delta", 0, "--", "awk", *SEEDS], "delta must lie strictly between 0 and 1, got 0.0"),
        (["--rho", 0.2, "--seed", -1, "--", "awk", *SEEDS], "seed must be a non-negative integer"),
        (["--rho", 0.2, "--jobs", 0, "--", "awk", *SEEDS], "--jobs must be at least 1"),
    ],
)
def test_a_wrong_command_line_has_status_2_and_leaves_nothing(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        rrl("certify", *words)
    assert stopped.value.code == 2 and message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_options_of_rrl_and_a_program_s_own_help_stand_where_they_belong(tmp_path, capsys):
    words = ("certify", "--rho", 0.9, "--folder", tmp_path, "--quiet", "--", *program(AGREES), "-h", "--help")
    assert rrl("--traceback", *words) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("replicable: ")


def test_progress_goes_on_from_what_is_on_record(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr("rrl.certify._standing", lambda *found: told.append(found[1]) or "")
    monkeypatch.setattr("rrl._progress.EVERY", 0)
    options = {"rho": 0.3, "store": tmp_path, "progress": True}
    certify_program(program(AGREES), max_pairs=4, **options)
    certify_program(program(AGREES), max_pairs=6, jobs=4, **options)
    assert told == [1, 2, 3, 4, 5, 6]


def test_help_tells_the_statuses_and_an_example(capsys):
    with pytest.raises(SystemExit) as stopped:
        rrl("certify", "--help")
    out = capsys.readouterr().out
    assert stopped.value.code == 0 and "exit status: 0 replicable, 1 not replicable" in out and "--out {out}.npz" in out


# Stopped and killed.

SLOW = "import sys, time; open({log!r}, 'a').write('x'); time.sleep({sleep}); print(sys.argv[2])"


def start(folder, log, sleep, *options):
    command = [sys.executable, "-m", "rrl", "certify", "--rho", "0.3", "--folder", folder, *options]
    command += ["--", *program(SLOW.format(log=str(log), sleep=sleep))]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def records(folder):
    return len(list((folder / "pairs").glob("*.json")))


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_ctrl_c_and_a_scheduler_leave_a_statement_of_what_was_done(tmp_path, name):
    log = tmp_path / "log"
    process = start(tmp_path, log, 0.3, "--jobs", 2)
    wait_for(lambda: records(tmp_path) >= 2)
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "undecided" in out and "the same command goes on from there" in err and "Traceback" not in err
    content = json.loads((tmp_path / "statement.json").read_text())
    assert content["interrupted"] and 1 <= content["n_pairs"] < 11 and content["n_disagree"] == 0
    begun = len(log.read_text())
    time.sleep(0.5)
    assert len(log.read_text()) == begun  # no run goes on behind our back


def test_killed_in_the_middle_it_goes_on_from_its_records(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "store"
    process = start(folder, log, 0.2)
    wait_for(lambda: records(folder) >= 3)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    time.sleep(1)  # a run that had just begun goes on alone, and its result is lost
    done, begun = records(folder), len(log.read_text())
    assert 3 <= done < 11 and 2 * done <= begun <= 2 * done + 2
    process = start(folder, log, 0.2)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and f"{done} pairs are there" in err
    assert len(log.read_text()) - begun == 2 * (11 - done) and "0 of 11 pairs differ" in out


def test_stopped_before_the_first_pair_there_is_nothing_to_state(tmp_path):
    log = tmp_path / "log"
    process = start(tmp_path / "store", log, 60)
    wait_for(log.exists)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == "" and "goes on from there" in err
    assert not list(tmp_path.glob("store/statement*"))


def test_a_program_that_fails_at_once_leaves_words_and_no_statement(tmp_path, capsys):
    assert rrl("certify", "--rho", 0.2, "--folder", tmp_path, "--", *program("1 / 0")) == 4
    out, err = capsys.readouterr()
    assert out == "" and "run 1 of pair 0 ended with status 1" in err and "ZeroDivisionError" in err
    assert not list(tmp_path.glob("statement*"))


def test_floats_are_no_crash_to_count_and_the_command_can_be_pasted(tmp_path, capsys):
    code = "import json, sys; json.dump([float(sys.argv[1])], open(sys.argv[3], 'w'))"
    assert rrl("certify", "--rho", 0.2, "--folder", tmp_path, "--quiet", "--", *program(code, "{out}.json")) == 4
    err = capsys.readouterr().err
    assert "as float" in err and "what it publishes cannot be compared" in err and "--crash" not in err
    command = err.split("command: ")[1].splitlines()[0]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert (tmp_path / "rrl-out.json").is_file()
