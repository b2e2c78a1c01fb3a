"""Pairs of runs, one after the other: which seeds they have, what they published, where they differ."""

from __future__ import annotations

import contextlib
import inspect
import os
import time
import traceback
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ._checks import check_data_seed, check_integer
from ._published import as_arrays, differences, digest

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Pair", "ReplicabilityWarning", "RunFailed", "pair_seeds"]

NO_DRAW = (
    "none of the runs drew from its rng: their data were the same, or come from elsewhere. "
    "Draw the data, or a seed for them, from rng"
)


#: What an exception of a run carries: its pair, as it would count.
CRASHED = "rrl_crashed_pair"


class ReplicabilityWarning(UserWarning):
    """A measurement of replicability that may not mean what it says."""


class RunFailed(RuntimeError):
    """A run of a program that came to no end that can be compared.

    Attributes
    ----------
    certificate : Certificate or None
        Of the pairs before it.
    crashes : int
        How often the run's pair has crashed with these seeds, this time included; 0 if nobody knows that
        it was the program's fault.
    unreadable : bool
        Whether the run ended well, and published what cannot be compared.
    """

    certificate: Any = None
    crashes: int = 0
    unreadable: bool = False


class RunPrevented(RunFailed):
    """A run that did not begin, or that was ended from outside: it says nothing of the program."""


@dataclass(frozen=True)
class Pair:
    """Two runs with one shared seed and data of their own.

    Attributes
    ----------
    index : int
        Its place in the measurement, from 0.
    shared_seed : int
        Of both runs.
    fingerprints : (str, str)
        SHA-256 of what each run published.
    n_differ : int
        How many entries differ; 0 where the runs agree.
    first : tuple of str
        The first entries that differ, in words.
    drew : bool or None
        Whether a run drew from its generator; None for a program, whose draws nobody sees.
    data_seeds : tuple of int
        Of the two runs of a program. Of a Python function's, :func:`pair_seeds` makes the generators.
    beside : tuple of str
        What a program published, was not compared, and differs.
    crashed : tuple of str, default=()
        What became of those of its runs that crashed, in words. It counts as one that differs where
        `fingerprints` are empty; else it was run again with the same seeds, and counts by what it
        published then.
    """

    index: int
    shared_seed: int
    fingerprints: tuple[str, str]
    n_differ: int
    first: tuple[str, ...]
    drew: bool | None
    data_seeds: tuple[int, ...]
    beside: tuple[str, ...]
    crashed: tuple[str, ...] = ()

    @property
    def compared(self) -> Any:
        """Whether both runs published something."""
        return all(self.fingerprints)

    @property
    def differs(self) -> Any:
        """Whether the two runs published different things, or counts so because one of them crashed."""
        return not self.compared or self.fingerprints[0] != self.fingerprints[1]

    def to_dict(self) -> Any:
        """Its attributes, for a record."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Any) -> Any:
        """The pair of a record."""
        given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}
        return cls(**given)


def pair_children(seed: Any, index: Any, n: Any) -> Any:
    """`n` seed sequences of a pair, of which no other pair has any."""
    return np.random.SeedSequence(seed, spawn_key=(index,)).spawn(n)


def shared_seed_of(sequence: Any) -> Any:
    """The shared seed is a plain int, the data generators are spawned: no stream is used twice."""
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


def pair_seeds(seed: int, index: int) -> tuple:
    """The seeds of one pair, to run it again.

    Parameters
    ----------
    seed : int
        Of the measurement.
    index : int
        Of the pair, from 0.

    Returns
    -------
    shared_seed : int
    first, second : numpy.random.SeedSequence
        ``numpy.random.default_rng(first)`` is the generator of the first run.

    Examples
    --------
    >>> import numpy as np
    >>> from rrl import estimate_replicability, pair_seeds
    >>> def run(shared_seed, rng):
    ...     return rng.integers(3, size=2)
    >>> pair = estimate_replicability(run, n_pairs=3, seed=0).pairs[0]
    >>> pair.n_differ, pair.first
    (2, ('codes[0]: 1 and 2', 'codes[1]: 1 and 0'))
    >>> shared_seed, first, second = pair_seeds(0, 0)
    >>> run(shared_seed, np.random.default_rng(first)), shared_seed == pair.shared_seed
    (array([1, 1]), True)
    """
    check_data_seed(seed)
    check_integer(0, index=index)
    shared, first, second = pair_children(int(seed), int(index), 3)
    return shared_seed_of(shared), first, second


def _state(rng):
    return rng.bit_generator.state, rng.bit_generator.seed_seq.n_children_spawned


def run_twice(run: Any, seed: Any, index: Any) -> Any:
    """The shared seed of a pair, what its two runs return, and whether any of them drew from its generator."""
    shared_seed, *sequences = pair_seeds(seed, index)
    outputs, drew = [], False
    for which, sequence in enumerate(sequences):
        rng = np.random.default_rng(sequence)
        before = _state(rng)
        try:
            outputs.append(run(shared_seed, rng))
        except Exception as error:
            error.add_note(f"in run {which + 1} of pair {index}: rrl.pair_seeds({seed}, {index}) gives its seeds")
            words = f"run {which + 1} raised {type(error).__name__}: {error}".splitlines()[0]
            with contextlib.suppress(AttributeError):
                setattr(error, CRASHED, crashed_pair(index, shared_seed, words, drew or _state(rng) != before))
            raise
        drew |= _state(rng) != before
    return shared_seed, outputs, drew


def compare_codes(index: Any, shared_seed: Any, codes: Any, drew: Any) -> Any:
    """The pair whose runs published these codes."""
    one, two = map(as_arrays, codes)
    prints, found = (digest(one), digest(two)), (0, ())
    if prints[0] != prints[1]:
        names = [f"array {i} " if max(len(one), len(two)) > 1 else "codes" for i in range(max(len(one), len(two)))]
        found = differences(dict(zip(names, one)), dict(zip(names, two)))
    return Pair(index, shared_seed, prints, *found, drew, (), ())


def run_pair(run: Any, seed: Any, index: Any, crash: Any) -> Any:
    """Run one pair of a Python function, and compare; an exception of a run is a pair, too, if it counts."""
    try:
        return compare_codes(index, *run_twice(run, seed, index))
    except Exception as error:
        if crash == "stop" or not hasattr(error, CRASHED):
            raise
        return getattr(error, CRASHED)


def _attempted(run: Any, seed: Any, index: Any, crash: Any, home: Any) -> Any:
    """The pair, or the exception that ended it: those before it in order come first, whoever ran them."""
    try:
        return run_pair(run, seed, index, crash)
    except Exception as error:
        if os.getpid() != home:  # where it was raised is lost on the way
            error.add_note("in a worker:\n" + "".join(traceback.format_tb(error.__traceback__)))
        return error


def crashed_pair(index: Any, shared_seed: Any, words: Any, drew: Any, data_seeds: Any = ()) -> Any:
    """A pair of which a run crashed, as it counts: it differs."""
    words = words if len(words) <= 200 else f"{words[:197]}..."
    return Pair(index, shared_seed, ("", ""), 1, (words,), drew, tuple(data_seeds), (), (words,))


def recalled(records: Any, index: Any, crash: Any) -> Any:
    """The pair on record, if there is one, and the words of its crashes there: if they count, any of them decides."""
    past = []
    while loaded := records.load(pair=index, crash=len(past)):
        past.append(Pair.from_dict(loaded))
    words = tuple(text for pair in past for text in pair.crashed)
    if past and crash == "differ":
        return replace(past[0], crashed=words), words
    loaded = records.load(pair=index)
    return loaded and Pair.from_dict(loaded), words


def chunks(n: Any, n_jobs: Any) -> Any:
    """Ranges of tasks to hand out together: one each for every worker, and more where they are done in no time."""
    if n_jobs == 1:
        yield from (range(i, i + 1) for i in range(n))
        return
    from joblib import effective_n_jobs

    size, done = effective_n_jobs(n_jobs), 0
    while done < n:
        start = time.monotonic()
        yield range(done, min(done + size, n))
        done += size
        if time.monotonic() - start < 1:
            size *= 2


def spread(work: Any, tasks: Any, n_jobs: Any) -> Any:
    """The results of ``work(*task)`` in order, by so many processes."""
    if n_jobs == 1 or len(tasks) < 2:
        return [work(*task) for task in tasks]
    from joblib import Parallel, delayed

    return Parallel(n_jobs=n_jobs)(delayed(work)(*task) for task in tasks)


def measured(
    run: Any, seed: Any, n_pairs: Any, *, n_jobs: Any, records: Any, known: Any = None, crash: Any = "stop"
) -> Any:
    """Yield the pairs of a measurement in order, those on record, which `known` is told, without running them."""
    if not callable(run):
        raise TypeError(f"run must be a function of (shared_seed, rng), got {run!r}")
    # Not a run that crashes, whatever crashes count as.
    with contextlib.suppress(ValueError):  # of some builtins nobody knows
        signature = inspect.signature(run)
        try:
            signature.bind(0, None)
        except TypeError as error:
            raise TypeError(f"run must be a function of (shared_seed, rng), got one of {signature}: {error}") from None
    for indices in chunks(n_pairs, n_jobs):
        loaded = {index: recalled(records, index, crash) for index in indices}
        todo = [index for index in indices if loaded[index][0] is None]
        if known is not None:
            known.update({*indices} - {*todo})
        start = time.monotonic()
        found = spread(_attempted, [(run, seed, index, crash, os.getpid()) for index in todo], n_jobs)
        seconds, errors = time.monotonic() - start, {}
        for index, pair in zip(todo, found, strict=True):
            past = loaded[index][1]
            if isinstance(pair, Exception):
                errors[index] = pair
                if crashed := getattr(pair, CRASHED, None):
                    keep(records, crashed, past, seconds)
                    if past:
                        pair.add_note(f"it has crashed {len(past) + 1} times with these seeds")
            else:
                loaded[index] = keep(records, pair, past, seconds), ()
        for index in indices:
            if index in errors:
                raise errors[index]
            yield loaded[index][0]


def keep(records: Any, pair: Any, past: Any, seconds: Any) -> Any:
    """Put a pair on record, a crash beside those before it; the pair, which knows of them."""
    pair = replace(pair, crashed=(*past, *pair.crashed))
    if pair.compared:
        records.save(pair.to_dict(), seconds, pair=pair.index)
    else:
        last = replace(pair, crashed=pair.crashed[-1:])
        records.save(last.to_dict(), seconds, pair=pair.index, crash=len(past))
    return pair


def is_constant(pairs: Any) -> Any:
    """Whether all runs published the same, whatever their shared seeds were."""
    pairs = [pair for pair in pairs if pair.compared]
    return len(pairs) > 1 and len({part for pair in pairs for part in pair.fingerprints}) == 1


def notes_of(pairs: Any) -> Any:
    """What a reader of the measurement should know of its runs."""
    notes = [NO_DRAW] if pairs and not any(pair.drew is None or pair.drew for pair in pairs) else []
    crashed = [pair for pair in pairs if not pair.compared]
    if crashed:
        notes.append(
            f"a run crashed in {len(crashed)} of {len(pairs)} pairs, which count as pairs that differ: rho is the "
            f"probability that two runs differ or one crashes; of pair {crashed[0].index}, {crashed[0].first[0]}"
        )
    if again := [f"{pair.index}" for pair in pairs if pair.compared and pair.crashed]:
        notes.append(
            f"of pair{'s' * (len(again) > 1)} {', '.join(again)} a run had crashed: what was published when the pair "
            "was run again, with the same seeds, is what counts"
        )
    if is_constant(pairs):
        which = f"all {2 * (len(pairs) - len(crashed))} runs" + (" of the other pairs" if crashed else "")
        notes.append(
            f"{which} published the same output, whatever their shared seeds and data: "
            "see whether it depends on them at all"
        )
    beside = dict.fromkeys(name for pair in pairs if not pair.differs for name in pair.beside)
    if beside:
        n = sum(bool(pair.beside) and not pair.differs for pair in pairs)
        differ = "differs" if len(beside) == 1 else "differ"
        notes.append(
            f"in {n} pair{'s' * (n > 1)} that agree{'s' * (n == 1)} on what was compared, "
            f"{', '.join(beside)} {differ}: compare all that you publish"
        )
    whole = [pair for pair in pairs if pair.compared]
    if len(whole) > 1 and not (is_constant(pairs) or beside or any(p.differs or p.drew is not None for p in whole)):
        notes.append(
            "no two runs of a pair differed: a program that ignores {data_seed} looks the same. "
            "Run it twice with one shared seed and two data seeds, and print what was drawn"
        )
    return tuple(notes)
