"""Timing side by side, and the record that the book's page of benchmarks shows."""

import datetime
import json
import os
import time
from pathlib import Path

import pytest

from rrl.experiments.provenance import provenance

RESULTS = Path(__file__).resolve().parents[1] / "book" / "results" / "benchmarks"


def pytest_addoption(parser):
    parser.addoption("--record", action="store_true", help="write the results to book/results/benchmarks")


def seconds(function):
    """Processor time of one call, which other work on the machine hardly changes."""
    start = time.process_time()
    function()
    return time.process_time() - start


def side_by_side(functions, rounds):
    """Fastest processor time of each function; in every round each of them runs once, so that load hits all alike."""
    times = [[seconds(f) for f in functions] for _ in range(rounds)]
    return [min(column) for column in zip(*times)]


@pytest.fixture(scope="session")
def origin():
    """Where the run comes from, before its records change the working tree."""
    return provenance()


@pytest.fixture
def compare(benchmark, request, origin):
    """Time a function beside its peers and keep a row for each: `compare(what, ours, {peer: (f, goal)}, rounds)`."""
    rows = []

    def run(what, ours, peers, rounds=5):
        own, *others = side_by_side([ours, *(f for f, _ in peers.values())], rounds)
        for (peer, (_, goal)), other in zip(peers.items(), others, strict=True):
            rows.append({"what": what, "seconds": own, "peer": peer, "peer_seconds": other, "goal": goal})
            print(f"\n{what}: {own:.4g} s, {own / other:.3g} times {peer}")

    run.rows = rows
    yield run
    benchmark.extra_info["rows"] = rows
    if rows and request.config.getoption("--record"):
        RESULTS.mkdir(exist_ok=True)
        name = request.node.name.removeprefix("test_").replace("[", "-").rstrip("]")
        path = RESULTS / f"{name}.json"
        record = {"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "rows": rows}
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(record | {"provenance": origin}, indent=1) + "\n", encoding="utf-8")
        os.replace(part, path)
