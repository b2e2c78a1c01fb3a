"""Certifying an algorithm: a test of Definition 2.2 that may stop at any time, by the bets of :mod:`rrl.evidence`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ._checks import check_choice, check_measurement, check_probability
from ._progress import teller
from .evidence import anytime_limits, log_evidence
from .pairs import CRASHED, Pair, ReplicabilityWarning, RunFailed, is_constant, measured, notes_of
from .replicability import measurement_records, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Any

__all__ = ["Certificate", "certify_replicability"]

#: Pairs after which nothing is claimed where a run of every one crashed: the program itself is likely to be broken.
ALL_CRASHED = 10


@dataclass(frozen=True)
class Certificate:
    """Result of :func:`certify_replicability`.

    Attributes
    ----------
    verdict : {"replicable", "not replicable", "undecided"}
        The claim that holds at `confidence`: the probability of a disagreement is at most, or more
        than, `rho`; or neither after the largest number of pairs.
    n_pairs, n_disagree : int
        Pairs that were run, and those whose codes differ.
    rho, confidence : float
        As asked for.
    lower, upper : float
        :func:`rrl.anytime_limits` of the probability, valid in spite of the stopping.
    seed : int
        Of the measurement; :func:`rrl.pair_seeds` makes those of a pair of it.
    pairs : tuple of Pair
        The evidence: each pair's shared seed, and the first entries that differ.
    notes : tuple of str
        What makes the measurement doubtful: runs that never draw from their generator, outputs that
        are all the same whatever the shared seed.
    interrupted : bool
        Whether Ctrl-C ended the measurement.
    n_crashed : int
        Pairs of which a run crashed: part of `n_disagree`, or the one that ended the measurement.
    crash : {"differ", "stop"}
        Which of the two.
    withheld : str, default=""
        Why "replicable" is not claimed, although the limits would allow it.
    recorded : tuple of str, default=()
        When the pairs that were not run now, but come from records, were run.
    attempt : int, default=0
        How often a program's pairs had been run anew before.
    """

    verdict: str
    n_pairs: int
    n_disagree: int
    rho: float
    confidence: float
    lower: float
    upper: float
    seed: int = field(repr=False)
    pairs: tuple[Pair, ...] = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)
    interrupted: bool = field(repr=False)
    n_crashed: int = field(repr=False)
    crash: str = field(repr=False)
    withheld: str = field(default="", repr=False)
    recorded: tuple[str, ...] = field(default=(), repr=False, compare=False)
    attempt: int = field(default=0, repr=False, compare=False)

    def statement(self, subject: str, *, compared: str = "integer codes", **details) -> Any:
        """What one prints and publishes of this measurement.

        Parameters
        ----------
        subject : str
            What was run: a name, or a command.
        compared : str, default="integer codes"
            What the runs published and was compared.
        **details : str, dict or list
            More to state, such as ``data="FrozenLake-v1"``.

        Returns
        -------
        ReplicabilityStatement
        """
        from .statement import ReplicabilityStatement

        return ReplicabilityStatement.of(self, subject, compared, details)


def settle(
    pairs: Any,
    *,
    rho: float,
    confidence: float,
    seed: int,
    tell: Callable[..., Any] | None = None,
    known: Container[int] = (),
    needs_change: bool = False,
    crash: str = "stop",
) -> Certificate:
    """Take pairs in order until the claim is settled or they end; see :func:`certify_replicability`.

    Parameters
    ----------
    pairs : generator of Pair
    rho, confidence : float
    seed : int
    tell : callable, optional
        As of `teller`: what is said after a pair.
    known : container of int
        Pairs from a record, after which nothing is said: how many these are was said, or they come at once.
    needs_change : bool
        Claim "replicable" only if some outputs differ: it is all that is known of a program's use of its seeds.
    crash : {"stop", "differ"}
        What a crashed run does.

    Returns
    -------
    Certificate
    """
    level = -np.log1p(-confidence)
    seen, n_disagree, verdict, interrupted = [], 0, "undecided", False
    try:
        for pair in pairs:
            seen.append(pair)
            n_disagree += pair.differs
            if tell is not None and pair.index not in known:
                tell(_standing, n_disagree, len(seen), rho, confidence)
            below, above = log_evidence(n_disagree, len(seen), rho)
            if max(below, above) >= level and (len(seen) >= ALL_CRASHED or any(p.compared for p in seen)):
                verdict = "replicable" if below >= level else "not replicable"
                break
    except KeyboardInterrupt:
        if not seen:
            raise
        interrupted = True
    except RunFailed as error:
        if seen:
            one = int(error.crashes > 0)
            error.certificate = _certificate("undecided", seen, rho, confidence, seed, False, one, crash)
        raise
    finally:
        pairs.close()
    drew = [pair.drew for pair in seen]
    withheld = ""
    if verdict == "replicable" and (is_constant(seen) if needs_change else not any(d is None or d for d in drew)):
        verdict = "undecided"
        withheld = (
            "all runs published the same output, so that nobody can see whether their seeds are used"
            if needs_change
            else "no run drew from its generator"
        )
    n_crashed = sum(not pair.compared for pair in seen)
    if n_crashed == len(seen):
        verdict = "undecided"  # nothing was compared
    found = _certificate(verdict, seen, rho, confidence, seed, interrupted, n_crashed, crash)
    notes = list(found.notes)
    if withheld and needs_change:
        notes.append(
            'therefore nothing is claimed; --allow-constant (allow_constant=True) claims "replicable" all the same'
        )
    if verdict == "not replicable" and log_evidence(n_disagree - n_crashed, len(seen), rho)[1] < level:
        notes.append("had the crashed runs agreed, this would not be settled")
    return replace(found, withheld=withheld, notes=tuple(notes))


def _certificate(verdict, seen, rho, confidence, seed, interrupted, n_crashed, crash):
    n_disagree = sum(pair.differs for pair in seen)
    limits = anytime_limits(n_disagree, len(seen), confidence)
    found = (verdict, len(seen), n_disagree, float(rho), float(confidence), *limits)
    return Certificate(*found, seed, tuple(seen), notes_of(seen), interrupted, n_crashed, crash)


def with_records(found: Any, records: Any, known: Any, attempt: int = 0) -> Any:
    """The certificate, which tells when the pairs from records were run."""
    started = sorted(records.started.get(pair.index, "") for pair in found.pairs if pair.index in known)
    return replace(found, recorded=tuple(started), attempt=attempt)


def _standing(n_disagree, n_pairs, rho, confidence):
    """One line on a measurement that goes on."""
    low, high = anytime_limits(n_disagree, n_pairs, confidence)
    more, level = 0, -np.log1p(-confidence)
    while more < 1000 and max(log_evidence(n_disagree, n_pairs + more, rho)) < level:
        more += 1
    left = "settled" if more == 0 else f"{more} more that agree would settle it" if more < 1000 else "far from settled"
    return f"{n_pairs} pair{'s' * (n_pairs > 1)}, {n_disagree} differ: rho in [{low:.3f}, {high:.3f}]; {left}"


def certify_replicability(
    run: Callable[..., Any],
    *,
    rho: float,
    confidence: float = 0.95,
    max_pairs: int = 10_000,
    seed: int,
    n_jobs: int = 1,
    progress: bool = False,
    store: Any = None,
    crash: str = "stop",
) -> Certificate:
    """Run pairs until it is settled whether an algorithm is rho-replicable on this distribution.

    Whatever the true probability of a disagreement, and whatever `max_pairs`, the verdict is a false
    claim with probability at most 1 - confidence. How many pairs that takes, for a true probability
    that one has in mind, :func:`rrl.certification_law` tells exactly.

    Parameters
    ----------
    run : callable
        ``run(shared_seed, rng)`` as in :func:`rrl.estimate_replicability`. With one seed the pairs
        are the same, and come in the same order, as those of that function.
    rho : float
        The value to settle, in (0, 1).
    confidence : float, default=0.95
        One minus the probability of a false claim.
    max_pairs : int, default=10_000
        Give up after so many. A true probability of exactly `rho` is never settled but by an error.
    seed : int
        Seed of the whole measurement; another one than that of pairs by which the algorithm or its
        settings were chosen, such as those of :func:`rrl.trade_off`, which are no evidence any more.
    n_jobs : int, default=1
        Worker processes (joblib). They may run a few pairs too many; the certificate does not depend
        on it.
    progress : bool, default=False
        Say on standard error how it stands, and how many more pairs that agree would settle it.
    store : path or RunStore, optional
        Where every pair is put on record, as in :func:`rrl.estimate_replicability`: the same call
        goes on from there, and so does one with another rho, confidence or number of pairs.
    crash : {"stop", "differ"}, default="stop"
        What an exception of `run` does: end the measurement, or count the pair as one that differs, which
        can only raise the upper limit. A pair that crashed is never left out: runs may crash just where
        they would differ, and a certificate of the others would be of another algorithm. "differ" counts
        every crash in the store, whatever came out when the pair was run again.

    Returns
    -------
    Certificate
        Ctrl-C gives that of the pairs done so far, with a warning: it is as valid as any other.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    TypeError
        If `run` does not take two arguments, or a run returns anything but integer codes; the error says
        what it returned.
    Exception
        Of a run, with ``crash="stop"``; a note says of which pair.

    Warns
    -----
    ReplicabilityWarning
        If no run draws from its generator: then the verdict is never "replicable", since runs on one
        and the same data prove nothing. If a run of a pair crashed and was counted. Outputs that never
        change are certified with a note, since the draws are seen; of a program, whose draws nobody sees,
        :func:`rrl.certify_program` claims nothing then.

    Notes
    -----
    What agrees is what `run` returns. Return all that you would publish: codes may agree where
    predictions made with a scaler of one's own data do not.

    Examples
    --------
    >>> from rrl import certify_replicability, hypergrid_round
    >>> def mean_of_coins(shared_seed, rng):
    ...     return hypergrid_round(rng.binomial(10**6, 0.3) / 10**6, 0.1, shared_seed=shared_seed).codes
    >>> certificate = certify_replicability(mean_of_coins, rho=0.1, seed=0)
    >>> certificate.verdict, certificate.n_pairs
    ('replicable', 64)
    """
    check_probability(rho=rho)
    check_measurement(confidence, seed, max_pairs=max_pairs)
    check_choice("crash", crash, ("stop", "differ"))
    seed = int(seed)
    known = set()
    records = measurement_records(store, run, seed)
    pairs = measured(run, seed, int(max_pairs), n_jobs=n_jobs, records=records, known=known, crash=crash)
    settings = {"rho": rho, "confidence": confidence, "seed": seed, "known": known, "crash": crash}
    try:
        with teller(progress) as tell:
            found = with_records(settle(watched(pairs, stacklevel=4), **settings, tell=tell), records, known)
    except Exception as error:
        if hasattr(error, CRASHED):
            error.add_note('crash="differ" would count the pair as one that differs')
        raise
    if found.n_crashed:
        warnings.warn(notes_of(found.pairs)[0], ReplicabilityWarning, stacklevel=2)
    if found.interrupted:
        text = f"stopped after {found.n_pairs} pairs: the certificate is of these"
        warnings.warn(text, ReplicabilityWarning, stacklevel=2)
    return found
