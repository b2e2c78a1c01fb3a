"""Any program, in any language, run in pairs: one shared seed, a data seed each, and what it published."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ._checks import check_choice, check_integer, check_measurement, check_probability
from ._outputs import digest_outputs, top
from ._progress import teller
from ._published import MOST, differences
from ._resume import Records
from ._running import Program, Running, command_text
from .certify import settle, with_records
from .pairs import Pair, RunFailed, RunPrevented, crashed_pair, keep, pair_children, recalled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["certify_program"]


def seeds(seed: Any, index: Any) -> Any:
    """Shared seed and two data seeds of a pair, small enough for every language."""
    return [int(child.generate_state(1)[0] >> 1) for child in pair_children(seed, index, 3)]


def _pair(program, seed, index, running, slots, records, known, crash):
    """One pair, from its record, which `known` is told, or by two runs side by side."""
    loaded, past = recalled(records, index, crash)
    if loaded:
        known.add(index)
        return loaded
    shared_seed, *data_seeds = seeds(seed, index)
    start = time.monotonic()

    failures = []

    def one(which):
        with slots:
            if failures:  # the pair is lost
                return None
            try:
                return program.run(shared_seed, data_seeds[which], running)
            except RunFailed as error:
                failures.append((which, error))
                return None

    with ThreadPoolExecutor(2) as both:
        runs: list[Any] = list(both.map(one, (0, 1)))
    if failures:
        which, error = failures[0]
        command = command_text(program.words(shared_seed, data_seeds[which]))
        text = f"run {which + 1} of pair {index} {error}\n  command: {command}"
        if running.stopped or isinstance(error, RunPrevented):
            raise RunPrevented(text)
        words = f"run {which + 1} {_headline(error)}"
        pair = crashed_pair(index, shared_seed, words, None, data_seeds)
        pair = keep(records, pair, past, time.monotonic() - start)
        if crash == "differ":
            return pair
        failed = RunFailed(f"{text}\n  with these seeds it has failed {len(pair.crashed)} times" if past else text)
        failed.crashes, failed.unreadable = len(pair.crashed), error.unreadable
        raise failed
    (one_is, one_has), (two_is, two_has) = runs
    beside = sorted(one_has.keys() | two_has.keys())
    other = [top(n.split(" ", 1)[-1]) for n in beside if _unlike(one_has, two_has, n)]
    prints = (digest_outputs(one_is), digest_outputs(two_is))
    found = (0, ()) if prints[0] == prints[1] else differences(one_is, two_is)
    pair = Pair(index, shared_seed, prints, *found, None, tuple(data_seeds), tuple(dict.fromkeys(other))[:MOST])
    return keep(records, pair, past, time.monotonic() - start)


def _headline(error):
    """How a run failed, in one line, with the last that it wrote."""
    first, *tail = f"{error}".splitlines()
    return first.partition("; the end of its")[0] + (f": {tail[-1].removeprefix('  | ')}" if tail else "")


def _unlike(one, two, name):
    parts = [{name: values[name]} if name in values else {} for values in (one, two)]
    return digest_outputs(parts[0]) != digest_outputs(parts[1])


def program_pairs(
    program: Any, seed: Any, max_pairs: Any, jobs: Any, records: Any, known: Any = None, crash: Any = "stop"
) -> Any:
    """Yield the pairs in order, and tell `known` those on record; all processes end with it."""
    running, slots, waiting = Running(), threading.Semaphore(jobs), deque()
    known = set() if known is None else known
    ahead = math.ceil(jobs / 2)
    with ThreadPoolExecutor(ahead) as pool:
        try:
            for index in range(max_pairs + ahead):
                if index < max_pairs:
                    waiting.append(pool.submit(_pair, program, seed, index, running, slots, records, known, crash))
                if len(waiting) >= ahead or index >= max_pairs:
                    if not waiting:
                        return
                    yield waiting.popleft().result()
        finally:
            running.stop()
            for future in waiting:
                future.cancel()


def certify_program(
    command: Sequence[str],
    *,
    rho: float,
    confidence: float = 0.95,
    max_pairs: int = 10_000,
    seed: int = 0,
    jobs: int = 1,
    time_limit: float | None = None,
    keys: Sequence[str] = (),
    as_bytes: bool = False,
    allow_constant: bool = False,
    progress: bool = False,
    store: Any = None,
    crash: str = "stop",
    again: bool = False,
) -> Any:
    """Settle whether a program in any language is rho-replicable: what ``rrl certify`` does.

    Its runs come in pairs: the two of a pair get one shared seed and a data seed each. What they publish
    is compared exactly, and the measurement ends as soon as :func:`rrl.certify_replicability` would.

    Parameters
    ----------
    command : sequence of str
        The program's words, with ``{data_seed}``, ``{shared_seed}`` and ``{out}`` where they belong; seeds
        are integers from 0 to 2^31 - 1. At ``{out}`` it may write one file (with an ending of its own) or
        a folder; without ``{out}``, its standard output is compared.
    rho : float
        The value to settle, in (0, 1).
    confidence : float, default=0.95
        One minus the probability of a false claim.
    max_pairs : int, default=10_000
        Give up after so many.
    seed : int, default=0
        Of the measurement.
    jobs : int, default=1
        Runs at a time.
    time_limit : float, optional
        Seconds after which a run has failed.
    keys : sequence of str, default=()
        What to compare of the files it writes: names of arrays in ``.npz`` and ``.safetensors``, entries
        of ``.json`` (``codes``, ``result.codes``). By default, all of it. Integers, booleans and text are
        compared; floats are refused, since they differ by the machine.
    as_bytes : bool, default=False
        Compare files bit by bit, whatever they hold. Files of other kinds are always compared so.
    allow_constant : bool, default=False
        Claim "replicable" even if all runs publish the same, whatever their seeds: nobody can then see
        that the program uses them.
    progress : bool, default=False
        Say on standard error how it stands.
    store : path or RunStore, optional
        Where every pair is put on record; the same call goes on from there. Records belong to the command
        and the files that it names; what the program itself opens (imports, inner scripts) is not checked.
    crash : {"stop", "differ"}, default="stop"
        What a run does that crashes, takes too long, or publishes nothing that can be compared: end the
        measurement, or count its pair as one that differs, which can only raise the upper limit. Such a
        pair is never left out: runs may crash just where they would differ, and a certificate of the
        others would be of another program. "differ" counts every crash of the attempt on record, whatever came out
        when the pair was run again. A run that did not start, or that SIGTERM, SIGINT or SIGHUP ended,
        says nothing of the program, and ends the measurement always.
    again : bool, default=False
        Run all pairs anew, as after a change that the records do not know of. Earlier records stay where
        they are; later calls go on from the newest attempt of which a pair is on record.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        If the command has no place for one of the seeds, or an argument is out of its range.
    RunFailed
        If a run crashes, takes too long, or publishes nothing that can be compared, and does not count. It
        names the run and the last lines of its standard error; ``certificate`` is that of the pairs before
        it. The same call runs the pair again, with the same seeds, and goes on if it then works.

    Examples
    --------
    >>> import sys
    >>> from rrl import certify_program
    >>> code = "import sys; print(sys.argv[2], int(sys.argv[1]) % 50 == 0)"
    >>> found = certify_program([sys.executable, "-c", code, "{data_seed}", "{shared_seed}"], rho=0.5, jobs=2)
    >>> found.verdict, found.n_pairs
    ('replicable', 6)
    """
    if isinstance(command, str):
        raise ValueError(f"command must be a list of words, as shlex.split makes of a text, got {command!r}")
    check_probability(rho=rho)
    check_measurement(confidence, seed, max_pairs=max_pairs)
    check_integer(1, jobs=jobs)
    check_choice("crash", crash, ("stop", "differ"))
    program = Program(tuple(command), tuple(keys), bool(as_bytes), time_limit)
    program.check()
    records = Records(store, lambda: program.unit() | {"seed": int(seed)})
    attempt = 0
    if records.store is not None:
        attempt = records.newest(before=again)
        records.take(attempt)
    known = set()
    pairs = program_pairs(program, int(seed), int(max_pairs), int(jobs), records, known, crash)
    with teller(progress) as tell:
        settings = {"rho": rho, "confidence": confidence, "seed": int(seed), "crash": crash}
        try:
            found = settle(pairs, **settings, tell=tell, known=known, needs_change=not allow_constant)
        except RunFailed as error:
            if error.certificate is not None:
                error.certificate = with_records(error.certificate, records, known, attempt)
            raise
    return with_records(found, records, known, attempt)
