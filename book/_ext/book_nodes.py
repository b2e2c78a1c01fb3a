"""What several extensions are made of: the root, raw HTML, references that the build checks, tables."""

import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

ROOT = Path(__file__).resolve().parents[2]
# What the runner wrote is read by its own readers.
sys.path.append(str(ROOT / "tools"))


def raw(text):
    """Write HTML as it stands."""
    return nodes.raw("", text, format="html")


def xref(domain, kind, target, text, docname):
    """A reference that Sphinx resolves later, and reports if it cannot."""
    node = addnodes.pending_xref("", refdomain=domain, reftype=kind, reftarget=target, refdoc=docname, refexplicit=True)
    node["refwarn"] = True
    node += nodes.inline("", text, classes=["xref", domain, f"{domain}-{kind}"])
    return node


def joined(parts, mark):
    """Nodes with a mark between them."""
    return [node for part in parts for node in (nodes.Text(mark), part)][1:]


def row(cells, **attributes):
    """A row of a table; a cell is a text, or a list of nodes."""
    parts = ([nodes.paragraph("", cell)] if isinstance(cell, str) else cell for cell in cells)
    return nodes.row("", *(nodes.entry("", *part) for part in parts), **attributes)


def table(header, rows, widths=None, **attributes):
    """A table of rows, or of lists of cells."""
    group = nodes.tgroup("", *(nodes.colspec(colwidth=w) for w in widths or [1] * len(header)), cols=len(header))
    group += nodes.thead("", row(header))
    group += nodes.tbody("", *(line if isinstance(line, nodes.row) else row(line) for line in rows))
    return nodes.table("", group, **attributes)
