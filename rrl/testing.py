"""Replicability in a test suite: an assertion that fails with its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .certify import certify_replicability

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["assert_replicable"]


def assert_replicable(
    run: Callable[..., Any], rho: float, delta: float = 0.05, *, seed: int = 0, max_pairs: int = 1000, n_jobs: int = 1
) -> Any:
    """Assert that two runs differ with probability at most rho.

    The seed makes it pass or fail for everyone alike. Over seeds, it passes for an algorithm that is
    not rho-replicable with probability at most delta. One that is, and differs in half as many pairs
    as allowed, fails with a probability that :func:`rrl.certification_law` tells: ask for a rho well
    above what you believe.

    Parameters
    ----------
    run : callable
        ``run(shared_seed, rng)`` as in :func:`rrl.estimate_replicability`.
    rho : float
        In (0, 1).
    delta : float, default=0.05
        One minus the confidence.
    seed : int, default=0
        Of the measurement.
    max_pairs : int, default=1000
        Give up after so many.
    n_jobs : int, default=1
        Worker processes.

    Returns
    -------
    Certificate

    Raises
    ------
    AssertionError
        If it is not replicable, with the first pairs that differ; if `max_pairs` settle nothing; and
        if no run draws from its generator.

    Examples
    --------
    >>> from rrl import hypergrid_round
    >>> from rrl.testing import assert_replicable
    >>> def mean_of_coins(shared_seed, rng, bin_width=0.1):
    ...     return hypergrid_round(rng.binomial(10**6, 0.3) / 10**6, bin_width, shared_seed=shared_seed).codes
    >>> assert_replicable(mean_of_coins, rho=0.1).n_pairs
    64
    >>> assert_replicable(lambda s, rng: mean_of_coins(s, rng, 1e-4), rho=0.1)
    Traceback (most recent call last):
        ...
    AssertionError: not 0.1-replicable at confidence 0.95: 2 of 2 pairs differ, rho >= 0.159
      pair 0 (shared seed 1317536309490288386): codes: 2994 and 2999
      pair 1 (shared seed 5769891174451087230): codes: 2998 and 2994
    """
    found = certify_replicability(run, rho=rho, confidence=1 - delta, max_pairs=max_pairs, seed=seed, n_jobs=n_jobs)
    if found.verdict == "replicable":
        return found
    head = f"{rho:g}-replicable at confidence {found.confidence:g}: {found.n_disagree} of {found.n_pairs} pairs differ"
    if found.verdict == "not replicable":
        lines = [f"not {head}, rho >= {found.lower:.3f}"]
    else:
        lines = [f"undecided whether {head}, rho in [{found.lower:.3f}, {found.upper:.3f}]"]
    lines += [f"  {note}" for note in found.notes]
    for pair in [pair for pair in found.pairs if pair.differs][:3]:
        more = f" and {pair.n_differ - len(pair.first)} more" if pair.n_differ > len(pair.first) else ""
        lines.append(f"  pair {pair.index} (shared seed {pair.shared_seed}): {'; '.join(pair.first)}{more}")
    raise AssertionError("\n".join(lines))
