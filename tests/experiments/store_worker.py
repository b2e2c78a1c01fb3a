"""Work for the run store that other processes import, and a whole run that can be killed: FOLDER LOG COUNT."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from rrl.experiments import store


def units(count):
    return [{"experiment": "demo", "n": n} for n in range(count)]


def work(unit):
    draws = np.random.default_rng(unit["n"]).random(3)
    return {"n": unit["n"], "draws": draws, "pad": "x" * 100_000}


def diverge(unit):
    """A unit, or a batch, that fails."""
    raise FloatingPointError("loss is not finite")


def one_over(unit):
    """The first unit fails."""
    return {"value": 1 / unit["n"]}


class Stubborn(Exception):
    """An error that pickles and does not come back."""

    def __init__(self, three, words, more):
        super().__init__(f"{three} {words} {more}")


def stubborn(unit):
    """Two units fail in ways that cannot be sent."""

    class Local(Exception):
        pass

    if unit["n"] == 1:
        raise Stubborn("three", "words", "of it")
    if unit["n"] == 2:
        raise Local("known here only")
    return {}


def leave(unit):
    """The first unit stops as a program does."""
    if unit["n"] == 0:
        sys.exit("no data")
    return {}


def die_once(unit, marker):
    """The third unit takes its process along, the first time that it is tried."""
    if unit["n"] == 2 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return work(unit)


def slow(unit):
    time.sleep(0.5)
    return work(unit)


def page_faults(unit):
    """New pages of the second half of a time in which megabytes are taken and freed again and again."""
    import resource

    for again in range(20):
        if again == 10:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        blocks = [np.ones(3_000_000, np.uint8) for _ in range(8)]
        del blocks
    return {"n": unit["n"], "faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before}


def endless(unit, log):
    """Write down which process this is, and stay."""
    with open(log, "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(600)


def deaf(marker):
    """A process that Ctrl-C does not end, once the marker is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Path(marker).touch()
    time.sleep(600)


def busy(unit, log):
    """As `endless`, but Ctrl-C is noticed late and once, as within a long call of a library."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    with open(log, "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(2)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    time.sleep(600)


def logged(unit):
    """Say that the unit is begun."""
    with open(sys.argv[2], "a") as log:
        log.write(f"{unit['n']}\n")
    time.sleep(0.01)
    return work(unit)


if __name__ == "__main__":
    # Asking git for each unit would take most of the time.
    store.provenance = dict
    store.RunStore(sys.argv[1]).run(units(int(sys.argv[3])), logged, progress=False)
