"""What several extensions are made of: the root, templates, raw HTML, references that the build checks."""

import re
import sys
from pathlib import Path

from docutils import nodes
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
# What the runner wrote is read by its own readers.
sys.path.append(str(ROOT / "tools"))

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parents[1] / "_templates"),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def short_title(chapter):
    """Name a page as in "chapter 3" (chapters/03_ridge) or "appendix A" (chapters/A_ridge_proof)."""
    number = Path(chapter).name.split("_")[0]
    if number == "00":
        return "introduction"
    return f"chapter {int(number)}" if number.isdigit() else f"appendix {number}"


def slug(text):
    """Letters and digits of a text, for a class or an id."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


TEMPLATES.filters |= {"short_title": short_title, "slug": slug}


def fill(template, /, **data):
    """Fill in a template of book/_templates; undefined names are errors."""
    return TEMPLATES.get_template(template).render(data)


class TemplateDirective(SphinxDirective):
    """A directive that shows what the MyST template of its name makes of what its method `data` returns."""

    def run(self):
        return self.parse_text_to_nodes(fill(f"{self.name}.md", **self.data()))


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
