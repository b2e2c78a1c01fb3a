"""The errata: book/errata.yml as the tables of chapter 13, and their numbers in prose."""

from collections import Counter

import yaml
from book_nodes import ROOT
from docutils import nodes
from sphinx.util.docutils import SphinxDirective, SphinxRole

SOURCE = "book/errata.yml"
FIELDS = ("number", "title", "kind", "printed", "meant", "survives")


def read_errata(root):
    """The entries of book/errata.yml, as they stand in the file."""
    return yaml.safe_load((root / SOURCE).read_text(encoding="utf-8"))


def find_errata_faults(errata):
    """Everything that is wrong with the entries, one sentence each."""
    from rrl.book.claims import KINDS

    faults, numbers = [], [entry.get("number") for entry in errata]
    faults += [f"erratum {n}: {count} entries" for n, count in Counter(numbers).items() if count > 1]
    for entry in errata:
        if missing := [name for name in FIELDS if not entry.get(name)]:
            faults.append(f"erratum {entry.get('number')}: no {', '.join(missing)}")
        elif entry["kind"] not in KINDS:
            faults.append(f"erratum {entry['number']}: unknown kind {entry['kind']!r}")
    return faults


class ErrataDirective(SphinxDirective):
    """The table of all errata of one kind."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        self.env.note_dependency(str(ROOT / SOURCE))
        rows = [entry for entry in read_errata(ROOT) if entry["kind"] == self.arguments[0]]
        if not rows:
            raise self.error(f"no erratum is of kind {self.arguments[0]!r}")
        lines = ["| | Printed | Meant | What survives |", "|---|---|---|---|"]
        for row in rows:
            link = f"{{ref}}`{row['number']} <{row['number'].lower()}>`"
            lines.append(f"| {link} | {row['printed']} | {row['meant']} | {row['survives']} |")
        return self.parse_text_to_nodes("\n".join(lines))


class CountRole(SphinxRole):
    """How many errata there are of one kind, or of "all"."""

    def run(self):
        self.env.note_dependency(str(ROOT / SOURCE))
        kinds = [entry["kind"] for entry in read_errata(ROOT)]
        count = len(kinds) if self.text == "all" else kinds.count(self.text)
        if not count:
            return [], [self.inliner.reporter.error(f"no erratum is of kind {self.text!r}", line=self.lineno)]
        return [nodes.Text(str(count))], []


def setup(app):
    """Register with Sphinx."""
    app.add_directive("rrl-errata", ErrataDirective)
    app.add_role("rrl-errata", CountRole())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
