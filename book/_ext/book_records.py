"""Tables of what was recorded: the notebooks' runs, versions, and the benchmarks in book/results/benchmarks."""

import importlib.metadata
import json

from book_nodes import ROOT, table
from sphinx.util.docutils import SphinxDirective

from rrl.experiments.provenance import commit_text

UNITS = [(1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]


def span(seconds):
    """Write a time with a unit that suits it."""
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def ratio_row(row):
    """What, our time, the peer, its time, the ratio, the goal and whether it is met."""
    ratio, goal = row["seconds"] / row["peer_seconds"], row["goal"]
    verdict = "" if goal is None else f"{goal:g}: {'met' if ratio <= goal else 'missed'}"
    shown = f"{ratio:.2f}" if ratio >= 0.1 else f"1/{1 / ratio:.0f}"
    return [row["what"], span(row["seconds"]), row["peer"], span(row["peer_seconds"]), shown, verdict]


def growth_row(row):
    """What grows, over which sizes, and how fast."""
    sizes = " to ".join(f"{size:,}" for size in (row["sizes"][0], row["sizes"][-1]))
    return [
        row["what"],
        sizes,
        " to ".join(span(t) for t in (row["times"][0], row["times"][-1])),
        f"{row['exponent']:.2f}",
    ]


def memory_row(row):
    """What, and the most memory that it held beyond its input."""
    return [row["what"], f"{row['peak_bytes'] / 1e6:.2f} MB"]


def speed_row(row):
    """What, and how many steps a second."""
    return [row["what"], f"{row['run_steps_a_second']:,.0f}"]


def run_row(name, record):
    """Where and when a record was made."""
    made = record["provenance"]
    versions = ", ".join(f"{p} {made['versions'][p]}" for p in ("python", "numpy", "scikit-learn"))
    return [name, record["date"], made["hardware"]["processor"], versions, commit_text(made, 10)]


KINDS = {
    "ratios": ("peer", ratio_row, ["What", "Time", "Beside", "Its time", "Ratio", "Goal"]),
    "memory": ("peak_bytes", memory_row, ["What", "Extra memory at its peak"]),
    "growth": ("exponent", growth_row, ["What", "Sizes", "Times", "Exponent"]),
    "speeds": ("run_steps_a_second", speed_row, ["What", "Run-steps a second, one core"]),
}


class BenchmarksDirective(SphinxDirective):
    """A table of one kind of rows, or of the runs themselves: ``{rrl-benchmarks} ratios``."""

    required_arguments = 1

    def run(self):
        kind, records = self.arguments[0], {}
        for path in sorted((ROOT / "book" / "results" / "benchmarks").glob("*.json")):
            records[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        if kind == "runs":
            header = ["Run", "Date", "Processor", "Versions", "Commit"]
            return [table(header, [run_row(name, record) for name, record in records.items()])]
        field, line, header = KINDS[kind]
        rows = [line(row) for record in records.values() for row in record["rows"] if field in row]
        return [table(header, list(map(list, dict.fromkeys(map(tuple, rows)))))]


class RunsDirective(SphinxDirective):
    """A table of the notebooks' last runs: scale, seconds, date."""

    def run(self):
        rows = []
        for path in sorted((ROOT / "chapters" / ".runs").glob("*.json")):
            record = json.loads(path.read_text(encoding="utf-8"))
            rows.append([path.stem, record["scale"], f"{record['seconds']:.1f}", record["finished"], record["python"]])
        return [table(["Notebook", "Scale", "Seconds", "Finished", "Python"], rows)]


class VersionsDirective(SphinxDirective):
    """A table of the versions of the named distributions in the environment that built the book."""

    has_content = True

    def run(self):
        rows = []
        for name in " ".join(self.content).split():
            try:
                rows.append([name, importlib.metadata.version(name)])
            except importlib.metadata.PackageNotFoundError:
                rows.append([name, "not installed"])
        return [table(["Package", "Version"], rows)]


def setup(app):
    """Register the directives."""
    app.add_directive("rrl-runs", RunsDirective)
    app.add_directive("rrl-versions", VersionsDirective)
    app.add_directive("rrl-benchmarks", BenchmarksDirective)
