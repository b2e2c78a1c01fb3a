"""Measuring anybody's function: what is refused in words, guards, evidence, records, and what Ctrl-C leaves."""

import functools
import importlib
import json
import linecache
import os
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrl import (
    ReplicabilityWarning,
    ReplicableRidge,
    _resume,
    anytime_limits,
    certify_replicability,
    estimate_replicability,
    fingerprint,
    hypergrid_round,
    modal_share,
    pair_seeds,
)
from rrl._published import MOST, differences
from rrl._resume import identity
from rrl.certify import _standing, log_evidence
from rrl.experiments.store import RunStore
from rrl.testing import assert_replicable


def coin(shared_seed, rng):
    """Two runs differ with probability 0.18."""
    return int(rng.random() < 0.1)


def table(shared_seed, rng):
    return [rng.integers(3, size=2), rng.poisson(0.2, size=(1, 3))]


def rounded(shared_seed, rng):
    return hypergrid_round(rng.uniform(size=2), 1.0, shared_seed=shared_seed).codes


# The results for equal seeds are those of version 0.1, whatever is told beside them.


@pytest.mark.parametrize(
    ("run", "seed", "n_disagree", "certificate"),
    [
        (rounded, 0, 164, ("not replicable", 4, 4)),
        (rounded, 7, 151, ("not replicable", 30, 17)),
        (coin, 0, 65, ("undecided", 200, 44)),
        (coin, 7, 59, ("replicable", 11, 0)),
        (table, 0, 286, ("not replicable", 4, 4)),
        (table, 7, 290, ("not replicable", 4, 4)),
    ],
)
def test_golden_measurements(run, seed, n_disagree, certificate, tmp_path):
    assert estimate_replicability(run, n_pairs=300, seed=seed).n_disagree == n_disagree
    for more in ({}, {"store": tmp_path}, {"store": tmp_path}, {"progress": True}):
        found = certify_replicability(run, rho=0.3, seed=seed, max_pairs=200, **more)
        assert (found.verdict, found.n_pairs, found.n_disagree) == certificate


# What is not integer codes is named.


class Tensor:
    """Something that NumPy makes no array of, as a tensor on a GPU."""

    def __array__(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (None, "got None: does the run end without a return?"),
        (True, "got booleans (dtype bool): return them as integers"),
        ([np.array([True]), np.array([1])], "got booleans"),
        ("abc", "got the text 'abc'"),
        (hypergrid_round([0.5], 1.0, shared_seed=0), "got Rounded: return its .codes"),
        (ReplicableRidge().fit(np.eye(2), [0, 1]), "got ReplicableRidge: return its .codes_"),
        (b"abc", "got the text b'abc'"),
        ({"weights": 1, "bias": 2}, "got a dict with the keys 'weights', 'bias': return its arrays as a list"),
        ([Tensor(), Tensor()], "got a list of Tensor of which NumPy makes no array (can't convert cuda:0"),
        (Tensor(), "got a Tensor of Tensor of which NumPy makes no array"),
        ([[1, 2], [3]], "got a list of list of which NumPy makes no array"),
        ([], "got an empty list"),
        ({1, 2}, "got set"),
        (["a", "b"], "got a list with dtype <U1"),
        (10**30, "got int"),
        (np.array(["2020"], "M8[D]"), "got dtype datetime64[D]"),
        (1j, "got dtype complex128"),
        (np.ma.masked_array([1, 2], [0, 1]), "got an array with masked entries: return the entries that count"),
        ([1.0], "got dtype float64: compare grid codes, never floats"),
    ],
)
def test_every_other_output_has_its_own_words(codes, words):
    for call in (fingerprint, lambda out: estimate_replicability(lambda s, rng: out, n_pairs=1, seed=0), modal_share):
        if call is modal_share and isinstance(codes, list) and len(codes) and isinstance(codes[0], np.ndarray):
            continue  # a sequence of arrays is one run's, not many runs'
        with pytest.raises(TypeError) as refused:
            call(codes)
        assert f"codes must be integers, {words}" in str(refused.value)


def test_an_error_of_a_run_says_which_run_it_was():
    def run(shared_seed, rng):
        if rng.random() < 0.2:
            raise ZeroDivisionError("no data")
        return 0

    with pytest.raises(ZeroDivisionError) as raised:
        certify_replicability(run, rho=0.1, seed=3)
    note, advice = raised.value.__notes__
    assert advice == 'crash="differ" would count the pair as one that differs'
    which, index = int(note.split()[2]), int(note.split("pair ")[1].split(":")[0])
    with pytest.raises(ZeroDivisionError):
        run(0, np.random.default_rng(pair_seeds(3, index)[which]))


def test_an_exception_counts_as_a_disagreement_where_it_is_asked_for(tmp_path):
    """Its limits are those of a run that differs there; the store serves both ways, and an estimate stops."""

    def run(shared_seed, rng):
        if rng.random() < 0.05:
            raise ZeroDivisionError("no data")
        return shared_seed % 3

    def twin(shared_seed, rng):
        u = rng.random()
        return int(u * 2**53) if u < 0.05 else shared_seed % 3

    settings = {"rho": 0.2, "seed": 5}
    with pytest.raises(ZeroDivisionError) as raised:
        certify_replicability(run, **settings, store=tmp_path)
    with pytest.raises(ZeroDivisionError) as again:
        certify_replicability(run, **settings, store=tmp_path)
    assert len(raised.value.__notes__) == 2 and "it has crashed 2 times with these seeds" in again.value.__notes__
    with pytest.raises(ZeroDivisionError):
        estimate_replicability(run, n_pairs=40, seed=5, store=tmp_path)
    expected = certify_replicability(twin, **settings)
    assert expected.n_disagree > 0
    for more in ({}, {"n_jobs": 2}, {"store": tmp_path}, {"store": tmp_path}):
        with pytest.warns(ReplicabilityWarning, match="a run crashed in"):
            found = certify_replicability(run, **settings, crash="differ", **more)
        assert (found.verdict, found.n_pairs, found.lower, found.upper) == (
            *(expected.verdict, expected.n_pairs),
            *(expected.lower, expected.upper),
        )
        assert found.n_crashed == found.n_disagree == expected.n_disagree
        assert all("raised ZeroDivisionError: no data" in pair.first[0] for pair in found.pairs if pair.differs)


def test_a_bug_in_every_run_gives_no_verdict_and_wrong_codes_never_count():
    with pytest.warns(ReplicabilityWarning, match="a run crashed in 10 of 10 pairs"):
        found = certify_replicability(lambda s, rng: rng.random() + no_such_name, rho=0.1, seed=0, crash="differ")  # noqa: F821
    assert found.verdict == "undecided" and found.n_disagree == found.n_crashed == 10
    with pytest.raises(TypeError, match="codes must be integers"):
        certify_replicability(lambda s, rng: rng.random(), rho=0.1, seed=0, crash="differ")
    with pytest.raises(ValueError, match="crash must be 'stop' or 'differ', got 'skip'"):
        certify_replicability(coin, rho=0.1, seed=0, crash="skip")


@given(st.integers(1, 300), st.data())
def test_to_count_a_crash_as_a_disagreement_can_only_raise_the_limit(n, data):
    k = data.draw(st.integers(0, n))
    crashed = data.draw(st.integers(0, n - k))
    assert anytime_limits(k + crashed, n)[1] >= anytime_limits(k, n)[1]


# Which entries differ.

parts = st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=3), min_size=1, max_size=3)


@given(parts, parts)
def test_entries_that_differ_by_brute_force(one, two):
    arrays = [{f"a{i}": np.array(part) for i, part in enumerate(output)} for output in (one, two)]
    count, first = differences(*arrays)
    expected = []
    for i in range(max(len(one), len(two))):
        if i >= min(len(one), len(two)):
            expected.append(f"a{i}: only the {'first' if i < len(one) else 'second'} run has it")
        elif len(one[i]) != len(two[i]):
            expected.append(f"a{i}: int64 of shape ({len(one[i])},) and int64 of shape ({len(two[i])},)")
        else:
            pairs = enumerate(zip(one[i], two[i], strict=True))
            expected += [f"a{i}[{j}]: {a} and {b}" for j, (a, b) in pairs if a != b]
    assert count == len(expected) and list(first) == expected[:MOST]


def test_each_pair_tells_its_seeds_and_where_it_differs():
    found = estimate_replicability(table, n_pairs=30, seed=5)
    assert [pair.index for pair in found.pairs] == list(range(30))
    for pair in found.pairs:
        shared_seed, *sequences = pair_seeds(5, pair.index)
        one, two = (table(shared_seed, np.random.default_rng(sequence)) for sequence in sequences)
        assert (pair.shared_seed, pair.fingerprints) == (shared_seed, (fingerprint(one), fingerprint(two)))
        assert pair.n_differ == sum(int((a != b).sum()) for a, b in zip(one, two, strict=True))
        assert pair.differs == (pair.n_differ > 0) and len(pair.first) == min(pair.n_differ, MOST)
    assert found.n_disagree == sum(pair.differs for pair in found.pairs)


# Guards.


def own_seed(shared_seed, rng):
    """The commonest slip: a fixed seed left in."""
    return hypergrid_round(np.random.default_rng(0).uniform(size=3), 0.1, shared_seed=shared_seed).codes


def test_runs_that_never_draw_are_warned_of_and_never_called_replicable():
    with pytest.warns(ReplicabilityWarning) as told:
        found = certify_replicability(own_seed, rho=0.1, seed=0)
    assert str(told[0].message).startswith("so far none of the runs drew from its rng") and len(told) == 1
    assert told[0].filename == __file__
    assert found.verdict == "undecided" and found.n_disagree == 0 and "none of the runs drew" in found.notes[0]
    # It gives up where the evidence would have been enough, not after max_pairs.
    assert log_evidence(0, found.n_pairs, 0.1)[0] >= np.log(20) > log_evidence(0, found.n_pairs - 1, 0.1)[0]
    with pytest.warns(ReplicabilityWarning):
        assert estimate_replicability(own_seed, n_pairs=5, seed=0).notes == found.notes


def test_data_from_elsewhere_that_differ_still_refute():
    source = iter(range(10**6))
    with pytest.warns(ReplicabilityWarning, match="so far none"):
        found = certify_replicability(lambda s, rng: next(source), rho=0.1, seed=0)
    assert found.verdict == "not replicable"


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.random(),
        lambda rng: rng.integers(2),
        lambda rng: rng.integers(2**63),
        lambda rng: rng.spawn(1),
        lambda rng: rng.bit_generator.seed_seq.spawn(2),
        lambda rng: rng.bit_generator.random_raw(),
        lambda rng: rng.shuffle([1, 2, 3]),
        lambda rng: rng.bit_generator.jumped() and rng.bytes(1),
        lambda rng: [rng.integers(2, dtype=np.int8) for _ in range(3)],
    ],
)
def test_whatever_is_drawn_counts_as_drawn(draw):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = certify_replicability(lambda s, rng: [s, 0 * bool(draw(rng))][0], rho=0.3, seed=0)
    assert found.verdict == "replicable" and found.notes == () and all(pair.drew for pair in found.pairs)


def test_an_output_that_is_always_the_same_is_named_and_keeps_its_verdict():
    found = certify_replicability(lambda s, rng: 0 * rng.integers(9), rho=0.3, seed=0)
    assert found.verdict == "replicable" and found.n_pairs == 11
    assert found.notes[0].startswith("all 22 runs published the same output")
    assert "all 22 runs" in str(found.statement("x")) and "all 22 runs" in found.statement("x").to_latex()
    assert estimate_replicability(lambda s, rng: 0 * rng.integers(9), n_pairs=1, seed=0).notes == ()


# Records.


def counted(shared_seed, rng):
    counted.calls.append(shared_seed)
    return int(rng.random() < 0.1)


# No name of its module: such a list is a part of the function.
counted.calls = []


def test_a_store_goes_on_and_serves_estimates_and_certificates_alike(tmp_path):
    run, calls = counted, counted.calls
    whole = certify_replicability(run, rho=0.05, seed=3, max_pairs=25)
    calls.clear()
    estimate = estimate_replicability(run, n_pairs=10, seed=3, store=tmp_path)
    assert len(calls) == 20 and len(RunStore(tmp_path).records()) == 10
    found = certify_replicability(run, rho=0.05, seed=3, max_pairs=25, store=RunStore(tmp_path))
    assert found == whole and found.pairs[:10] == estimate.pairs and len(calls) == 2 * found.n_pairs
    certify_replicability(run, rho=0.9, seed=3, max_pairs=2, store=str(tmp_path))
    assert len(calls) == 2 * found.n_pairs
    estimate_replicability(run, n_pairs=1, seed=4, store=tmp_path)
    assert len(calls) == 2 * found.n_pairs + 2


def scaled(width, shared_seed, rng, *, scale=1):
    return hypergrid_round(scale * rng.uniform(), np.max(width), shared_seed=shared_seed).codes


#: Printed short, they look alike.
WIDTHS = np.concatenate([np.ones(3000), [2], np.ones(3000)])


class Learner:
    def __init__(self, width):
        self.width = width

    def __call__(self, shared_seed, rng):
        return scaled(self.width, shared_seed, rng)

    def run(self, shared_seed, rng):
        return self(shared_seed, rng)


def closed(width):
    return lambda shared_seed, rng: scaled(width, shared_seed, rng)


def test_another_function_is_another_measurement(tmp_path):
    runs = [functools.partial(scaled, width) for width in (0.1, WIDTHS, np.roll(WIDTHS, 1))]
    runs += [functools.partial(scaled, 0.1, scale=2), Learner(0.1), Learner(0.2), Learner(0.1).run, Learner(0.2).run]
    runs += [closed(0.1), closed(0.2), lambda s, rng: int(rng.random() < 0.5), lambda s, rng: int(rng.random() < 0.4)]
    for n, run in enumerate(runs, start=1):
        for _ in range(2):
            estimate_replicability(run, n_pairs=1, seed=0, store=tmp_path)
        assert len(RunStore(tmp_path).records()) == n


MODULE = """
from rrl import hypergrid_round

WIDTH = {width}
settings = {{"noise": {noise}}}


def noise(rng):
    return settings["noise"] * rng.{law}()


def run(shared_seed, rng):
    return [hypergrid_round(noise(rng) + depth, WIDTH, shared_seed=shared_seed).codes for depth in range(2)]
"""


def test_what_a_function_uses_of_its_module_is_a_part_of_it(tmp_path):
    versions = [(0.5, 1, "uniform"), (0.1, 1, "uniform"), (0.1, 2, "uniform"), (0.1, 2, "normal")]
    for n, (width, noise, law) in enumerate(versions, start=1):
        module = {"__name__": "study"}
        exec(MODULE.format(width=width, noise=noise, law=law), module)
        for _ in range(2):
            estimate_replicability(module["run"], n_pairs=1, seed=0, store=tmp_path)
        assert len(RunStore(tmp_path).records()) == n


CLASSES = """
import functools


def coarse(run):
    @functools.wraps(run)
    def inner(shared_seed, rng):
        return run(shared_seed, rng) // {decorator}
    return inner


def helper(rng):
    return int(rng.integers({helper}))


def timed(method):
    @functools.wraps(method)
    def inner(self, rng):
        return method(self, rng) + {method}
    return inner


class Base:
    unit = {base}


class Learner(Base):
    @timed
    def learn(self, rng):
        return self.unit * helper(rng)


@coarse
def run(shared_seed, rng):
    return Learner().learn(rng)


class Callable:
    def __call__(self, shared_seed, rng):
        return helper(rng)
"""


@pytest.mark.parametrize(("name", "counts"), [("run", (1, 2, 3, 4, 5)), ("Callable", (1, 1, 2, 2, 2))])
def test_decorators_bases_and_what_methods_use_are_parts_of_a_function(name, counts, tmp_path, monkeypatch):
    """Each version changes one place alone: the decorator, the helper of a method, the base class, its decorator."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    versions = [(1, 9, 1, 0), (2, 9, 1, 0), (2, 5, 1, 0), (2, 5, 3, 0), (2, 5, 3, 1)]
    for version, count in zip(versions, counts, strict=True):
        given = dict(zip(("decorator", "helper", "base", "method"), version, strict=True))
        (tmp_path / "edited_study.py").write_text(CLASSES.format(**given))
        monkeypatch.delitem(sys.modules, "edited_study", raising=False)
        importlib.invalidate_caches()
        linecache.clearcache()
        module = importlib.import_module("edited_study")
        run = module.run if name == "run" else module.Callable()
        for _ in range(2):
            estimate_replicability(run, n_pairs=1, seed=0, store=tmp_path / "store")
        assert len(RunStore(tmp_path / "store").records()) == count
    monkeypatch.delitem(sys.modules, "edited_study")


EDITS = {
    "a cached helper": """
@functools.cache
def helper(): return {k}
def run(s, rng): return helper()
""",
    "a cached property": """
def helper(): return {k}
class Learner:
    @functools.cached_property
    def x(self): return helper()
def run(s, rng): return Learner().x
""",
    "a setter": """
def helper(): return {k}
class Learner:
    @property
    def x(self): return self._x
    @x.setter
    def x(self, value): self._x = helper()
def run(s, rng): return Learner().x
""",
    "a class within a class": """
def helper(): return {k}
class Learner:
    class Part:
        def x(self): return helper()
def run(s, rng): return Learner.Part().x()
""",
    "a class attribute": """
RATE = {k}
class Learner:
    rate = RATE
def run(s, rng): return Learner.rate
""",
    "a function that an instance holds": """
def helper(): return {k}
class Run:
    def __init__(self, part): self.part = part
    def __call__(self, s, rng): return self.part()
run = Run(helper)
""",
    "a function that NumPy holds": """
def helper(x): return {k} * x
each = np.vectorize(helper)
def run(s, rng): return each(1)
""",
    "a method of a dict": """
look = {{"a": {k}}}.get
def run(s, rng): return look("a")
""",
    "a wrapper of another module's function": """
def factor(): return {k}
def scaled(function):
    @functools.wraps(function)
    def inner(s, rng): return factor() * function(s, rng)
    return inner
run = scaled(np.add)
""",
    "the order of names": """
run = functools.partial((lambda s, rng, *, a, b: 10 * a + b) if {k} == 1 else (lambda s, rng, *, b, a: 10 * a + b))
""",
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_of_what_a_function_uses_makes_another_function(kind, monkeypatch):
    names = []
    for k in (1, 2, 1):
        monkeypatch.setitem(sys.modules, "study", module := types.ModuleType("study"))
        exec("import functools\nimport numpy as np\n" + EDITS[kind].format(k=k), vars(module))
        names.append(identity(module.run)["sha256"])
    assert names[0] == names[2] != names[1]


def test_what_an_installed_module_wraps_is_known_by_the_function_and_not_by_its_wrapper():
    """Its internals hold locks and caches; a lock of one's own says nothing either."""
    code = """
import contextlib, threading
LOCK = threading.Lock()
@contextlib.contextmanager
def helper(): yield {k}
def synchronized(method):
    lock = threading.RLock()
    def inner(self):
        with lock: return method(self)
    return inner
class Learner:
    @synchronized
    def x(self): return 1
def run(s, rng):
    with LOCK, helper() as x: return x + Learner().x()
"""
    names = []
    for k in (1, 2, 1):
        module = {"__name__": "study"}
        exec(code.format(k=k), module)
        names.append(identity(module["run"])["sha256"])
    assert names[0] == names[2] != names[1]


def test_a_function_has_one_name_in_every_process():
    code = (
        "from rrl._resume import identity\n"
        "print(identity(lambda s, rng: s in {'a', 'b', 'c', 'dd', ('e', frozenset('xyz'))})['sha256'])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": f"{seed}"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert len(found) == 1


def test_functions_that_all_call_each_other_are_read_once_each(monkeypatch):
    names = [f"part_{n}" for n in range(25)]
    body = "".join(f"def {name}(s, rng): return s or [{', '.join(names)}]\n" for name in names)
    module, read = {"__name__": "dense"}, []
    exec(body, module)
    source = _resume._source
    monkeypatch.setattr(_resume, "_source", lambda item: read.append(item) or source(item))
    first = identity(module["part_0"])
    assert sorted(item.__name__ for item in read) == sorted(names)
    assert identity(module["part_0"]) == first != identity(module["part_1"])


def test_a_function_that_holds_what_cannot_be_known_again_is_refused_before_it_runs(tmp_path):
    lines = open(__file__)
    with lines, pytest.raises(ValueError, match=r"store= must know .* cannot be pickled"):
        estimate_replicability(lambda s, rng: lines and pytest.fail("it ran"), n_pairs=1, seed=0, store=tmp_path)
    module = {"__name__": "study", "LINES": lines}
    exec("def run(shared_seed, rng):\n    return len(LINES.read())", module)
    with pytest.raises(ValueError, match=r"cannot be pickled \(LINES of its module: .*make"):
        estimate_replicability(module["run"], n_pairs=1, seed=0, store=tmp_path)
    with pytest.raises(TypeError, match="store must be a folder or a RunStore, got 3"):
        certify_replicability(coin, rho=0.1, seed=0, store=3)


# Ctrl-C.


def stopping(after):
    calls = iter(range(10**6))

    def run(shared_seed, rng):
        if next(calls) == 2 * after + 1:
            raise KeyboardInterrupt
        return [shared_seed, 0 * rng.integers(2)]

    return run


def test_ctrl_c_gives_what_was_done():
    with pytest.warns(ReplicabilityWarning, match="stopped after 4 pairs"):
        found = certify_replicability(stopping(4), rho=0.1, seed=0)
    assert found.interrupted and (found.verdict, found.n_pairs, found.n_disagree) == ("undecided", 4, 0)
    assert 0 == found.lower < found.upper < 1
    with pytest.warns(ReplicabilityWarning, match="stopped after 3 of 9 pairs"):
        estimate = estimate_replicability(stopping(3), n_pairs=9, seed=0)
    assert (estimate.n_pairs, estimate.rho) == (3, 0.0) and estimate.upper == pytest.approx(1 - 0.05 ** (1 / 3))
    for measure in (
        lambda: certify_replicability(stopping(0), rho=0.1, seed=0),
        lambda: estimate_replicability(stopping(0), n_pairs=2, seed=0),
    ):
        with pytest.raises(KeyboardInterrupt):
            measure()


# Progress.


def test_progress_says_how_it_stands_and_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr("rrl._progress.EVERY", 0.0)
    found = certify_replicability(coin, rho=0.5, seed=1, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == found.n_pairs and lines[0].startswith("1 pair, ") and lines[-1].endswith("; settled")
    estimate_replicability(coin, n_pairs=3, seed=1, progress=True)
    assert capsys.readouterr().err.splitlines()[1].startswith("2 of 3 pairs, ")
    certify_replicability(coin, rho=0.5, seed=1)
    assert capsys.readouterr().err == ""


def test_the_line_renews_itself_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("rrl._progress.RENEWED", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    estimate_replicability(coin, n_pairs=3, seed=0, progress=True)
    text = capsys.readouterr().err
    assert text.count("\r") == 3 and text.endswith("\n") and text.count("\n") == 1


@pytest.mark.parametrize(("k", "n"), [(0, 1), (0, 20), (2, 30), (5, 6)])
def test_the_pairs_still_to_go_are_the_least_that_settle(k, n):
    words = _standing(k, n, 0.1, 0.95)
    level = np.log(20)
    if k == 5:
        assert words.endswith("; settled")
    else:
        more = int(words.split("; ")[1].split()[0])
        assert log_evidence(k, n + more, 0.1)[0] >= level > log_evidence(k, n + more - 1, 0.1)[0]
    assert _standing(4000, 40_000, 0.1, 0.95).endswith("far from settled")


# Statements.


@pytest.fixture(scope="module")
def refuted():
    return certify_replicability(table, rho=0.3, seed=0)


def test_the_statement_holds_what_was_measured(refuted, tmp_path):
    subject = r"train.py --set a_b={x} 50% #1 & ~ ^ \ $HOME"
    statement = refuted.statement(subject, data={"rows": 3})
    content = json.loads(statement.to_json())
    assert content == statement.content
    assert (content["verdict"], content["n_pairs"], content["n_disagree"]) == ("not replicable", 4, 4)
    assert [pair["shared_seed"] for pair in content["pairs"]] == [pair.shared_seed for pair in refuted.pairs]
    assert content["pairs"][0]["first"] == list(refuted.pairs[0].first) and content["data"] == {"rows": 3}
    assert {"rrl", "python", "numpy"} <= set(content["versions"])
    names = statement.write(tmp_path / "new" / "statement")
    assert [path.name for path in names] == ["statement.json", "statement.tex"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["statement.json", "statement.tex"]
    assert names[1].read_text() == statement.to_latex()
    assert "not replicable" in str(statement) and "4 of 4 pairs differ" in str(statement)


@given(st.text(max_size=40))
def test_no_subject_breaks_the_latex(text):
    """No character that gives an order is left bare, braces balance, and every macro is of the kernel."""
    found = _CERTIFICATE.statement(text, compared=text).to_latex()
    body = "\n".join(found.splitlines()[1:])
    depth, i = 0, 0
    while i < len(body):
        if body[i] == "\\":
            name = next((m for m in MACROS if body.startswith(m, i + 1)), None)
            assert name is not None, body[i : i + 20]
            i += 1 + len(name)
            continue
        depth += (body[i] == "{") - (body[i] == "}")
        assert depth >= 0 and body[i] not in "#%&_~^"
        i += 1
    assert depth == 0 and body.count("$") - body.count(r"\$") == 6 and "\r" not in body


MACROS = ["textbackslash{}", "textasciitilde{}", "textasciicircum{}", "textasciigrave{}", "textquotesingle{}"]
MACROS += ["textless{}", "textgreater{}", "char34{}", "paragraph{Replicability.}", "ttfamily ", "rho$", ","]
MACROS += list("#$%&_{}")
_CERTIFICATE = certify_replicability(coin, rho=0.3, seed=7, max_pairs=3)


def test_limits_are_rounded_to_the_side_on_which_they_hold(refuted):
    for found in (refuted, _CERTIFICATE):
        low, high = (float(x) for x in str(found.statement("x")).split("[")[1].split("]")[0].split(", "))
        assert low <= found.lower < low + 0.001 + 1e-9 and high - 0.001 - 1e-9 < found.upper <= high


# In a test suite.


def test_the_assertion_fails_with_its_evidence():
    with pytest.raises(AssertionError) as failed:
        assert_replicable(table, rho=0.3)
    lines = str(failed.value).splitlines()
    assert lines[0] == "not 0.3-replicable at confidence 0.95: 4 of 4 pairs differ, rho >= 0.393" and len(lines) == 4
    assert "pair 0 (shared seed" in lines[1] and "array 0 [0]: " in lines[1]
    with pytest.raises(AssertionError, match=r"undecided whether 0.18-replicable .* rho in \["):
        assert_replicable(coin, rho=0.18, max_pairs=5)
    with pytest.warns(ReplicabilityWarning), pytest.raises(AssertionError, match="none of the runs drew"):
        assert_replicable(own_seed, rho=0.1)
    assert assert_replicable(rounded_well, rho=0.2, delta=0.2, seed=1).confidence == 0.8


def rounded_well(shared_seed, rng):
    return hypergrid_round(rng.binomial(10**6, 0.3) / 10**6, 0.1, shared_seed=shared_seed).codes


def test_the_assertion_passes_what_is_not_replicable_with_probability_at_most_delta(acceptance):
    """200 seeds, a coin of rho 0.18 against 0.15 at delta 0.2; false alarm 1e-6."""
    passed = 0
    for seed in range(200):
        try:
            assert_replicable(coin, rho=0.15, delta=0.2, seed=seed, max_pairs=60)
            passed += 1
        except AssertionError:
            pass
    assert 0 < passed <= acceptance(200, 0.2)[1]


def test_the_example_of_the_how_to_runs(tmp_path):
    page = (Path(__file__).parents[1] / "book" / "how_to.md").read_text(encoding="utf-8")
    (example,) = [
        part.split("```")[0] for part in page.split("```python\n") if "assert_replicable(" in part.split("```")[0]
    ]
    ran = subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert r"\paragraph{Replicability.}" in ran.stdout and "1 pair, " in ran.stderr
