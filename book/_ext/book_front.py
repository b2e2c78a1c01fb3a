"""The front pages: numbers and figures of the chapters on other pages, small charts of findings."""

import hashlib
import os
from functools import cache
from pathlib import Path

from book_claims import read_claims, read_errata
from book_nodes import ROOT, fill, raw
from docutils import nodes
from docutils.parsers.rst import directives
from notebook_texts import glued, named_figures, read_cells
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective, SphinxRole

from rrl.book import summary
from rrl.book.numbers import power_of_ten

RESULTS = ROOT / "book" / "results"
COUNTED = {"errata": (read_errata, "kind"), "items": (read_claims, "status")}
HEAVY = ("statement", "algorithm", "proof step")
summary_numbers = cache(summary.numbers)


def chapter_cells(root, chapter):
    """The cells of a chapter, which must have run."""
    cells = read_cells(root, chapter)
    if not cells:
        raise ExtensionError(f"{chapter} is not executed; run 'make notebook NAME={chapter.split('_')[0]}' first")
    return cells


def find_value(name, root=ROOT):
    """The value behind ``chapter/name`` (glued there), ``errata/kind``, ``items/status`` or a name of the summary."""
    chapter, _, key = name.rpartition("/")
    if chapter in COUNTED:
        kinds = [entry[COUNTED[chapter][1]] for entry in COUNTED[chapter][0](root)]
        counts = {"all": len(kinds), "rest": sum(kind not in HEAVY for kind in kinds)}
        return counts.get(key, kinds.count(key))
    numbers = glued(chapter_cells(root, chapter)) if chapter else summary_numbers(RESULTS)
    if key not in numbers:
        raise ExtensionError(f"{chapter or 'rrl.book.summary'} has no number {key!r}")
    return numbers[key]


def written(value, form):
    """Write a value in a format of Python's; ``10^`` takes a logarithm and writes a × 10ᵇ."""
    if form == "10^":
        # In one line, wherever it stands.
        return power_of_ten(log10=value).replace(" ", "\u00a0")
    return format(value, form).replace("-", "−") if form else str(value)


class FoundRole(SphinxRole):
    """A computed number: {found}`same-large:.0%`, or {found}`08_costs/sum-lsvi-enough:10^` from a chapter."""

    def run(self):
        name, _, form = self.text.partition(":")
        text = written(find_value(name), form)
        return [nodes.inline("", text, classes=["pasted-text"])], []


class FoundFigure(SphinxDirective):
    """A figure of a chapter on another page: ``{found-figure} 06_lsvi fig-06-decades``, the caption as its content."""

    has_content = True
    required_arguments = 2

    def run(self):
        chapter, label = self.arguments
        kind, text, alt = named_figures(chapter_cells(ROOT, chapter)).get(label, ("", "", ""))
        if kind != "image/svg+xml":
            raise ExtensionError(f"{chapter} shows no figure {label!r} as SVG")
        # The name and the bytes that MyST-NB gives it, so that the site holds each figure once.
        data = os.linesep.join(text.splitlines()).encode()
        path = Path(self.env.mystnb_config.output_folder) / f"{hashlib.sha256(data).hexdigest()}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        here = (Path(self.env.srcdir) / self.env.docname).parent
        image = nodes.image(uri=os.path.relpath(path, here), alt=alt)
        caption = nodes.inline("", "", *self.parse_inline(" ".join(self.content), lineno=self.lineno)[0])
        # No figure of docutils, which would be numbered: the number is the chapter's.
        return [raw('<figure class="found">'), image, raw("<figcaption>"), caption, raw("</figcaption></figure>")]


class ChartDirective(SphinxDirective):
    """A small chart of computed numbers: ``{chart} bars``, then lines ``label | name:format``; ``alt`` says it."""

    has_content = True
    required_arguments = 1
    option_spec = {"alt": directives.unchanged_required}  # noqa: RUF012

    def run(self):
        rows = []
        for line in filter(str.strip, self.content):
            label, _, spec = line.partition(" | ")
            name, _, form = spec.strip().partition(":")
            value = find_value(name)
            rows.append((label.strip(), value, written(value, form) if form else ""))
        return [raw(fill("chart.html", kind=self.arguments[0], rows=rows, **self.options))]


def name_start_page(app, env):
    """Call the root "Start page" in menus and search, where its heading would be too long."""
    env.titles[app.config.root_doc] = nodes.title("", "Start page")
    return []


def setup(app):
    app.add_role("found", FoundRole())
    app.add_directive("found-figure", FoundFigure)
    app.add_directive("chart", ChartDirective)
    app.connect("env-updated", name_start_page)
