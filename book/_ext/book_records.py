"""Tables of what was recorded: the notebooks' runs, versions, and the benchmarks in book/results/benchmarks."""

import importlib.metadata
import json

from book_nodes import ROOT, TEMPLATES, TemplateDirective

from rrl.experiments.provenance import commit_text

UNITS = [(1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]


def span(seconds):
    """Write a time with a unit that suits it."""
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


TEMPLATES.filters |= {"span": span, "commit": lambda made: commit_text(made, 10)}


def read_records(folder):
    """The records of a folder by their names."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


class BenchmarksDirective(TemplateDirective):
    """A table of one kind of rows, or of the runs themselves: ``{rrl-benchmarks} ratios``."""

    required_arguments = 1

    def data(self):
        records = read_records(ROOT / "book" / "results" / "benchmarks")
        rows = [row for record in records.values() for row in record["rows"]]
        return {"kind": self.arguments[0], "records": records, "rows": rows}


class RunsDirective(TemplateDirective):
    """A table of the notebooks' last runs: scale, seconds, date."""

    def data(self):
        return {"records": read_records(ROOT / "chapters" / ".runs")}


class VersionsDirective(TemplateDirective):
    """A table of the versions of the named distributions in the environment that built the book."""

    has_content = True

    def data(self):
        versions = {}
        for name in " ".join(self.content).split():
            try:
                versions[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                versions[name] = "not installed"
        return {"versions": versions}


def setup(app):
    app.add_directive("rrl-runs", RunsDirective)
    app.add_directive("rrl-versions", VersionsDirective)
    app.add_directive("rrl-benchmarks", BenchmarksDirective)
