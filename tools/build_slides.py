"""Build the lecture slides: decks in plain Markdown, with figures and numbers taken from the executed notebooks.

Reveal.js comes from the package sphinx-revealjs and MathJax from sphinx-mathjax-offline, so that the
slides need neither Node.js nor a network.
"""

import argparse
import base64
import html
import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path

import yaml
from jinja2 import Environment
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from notebook_texts import glued, named_figures, put_numbers, read_cells
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from run_notebooks import write_atomic

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = ROOT / "slides" / "deck.html"
MATHJAX_LICENCE = ROOT / "book" / "_static" / "mathjax" / "LICENSE"
REVEAL_FILES = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js", "LICENSE")


class SlideError(Exception):
    """A deck asks for what there is not."""


def read_deck(path):
    """Read a deck; return its header and the Markdown of its slides."""
    found = re.match(r"---\n(.*?)\n---\n(.*)", path.read_text(encoding="utf-8"), re.S)
    header = yaml.safe_load(found[1]) if found else {}
    if not found or not {"title", "subtitle", "minutes"} <= header.keys():
        raise SlideError(f"slides/{path.name} needs a header with title, subtitle and minutes")
    return header, [text.strip() for text in re.split(r"^---$", found[2], flags=re.M)]


def find_decks(root):
    """Paths of the decks in their order."""
    return sorted((root / "slides").glob("[!.]*.md"))


def read_results(root):
    """Collect figures (chapter, scale, text, type, data) and numbers of the executed notebooks, by name.

    Notebooks of which there is no record were put there by hand, and do not count.
    """
    figures, numbers = {}, {}
    for record in sorted((root / "chapters" / ".runs").glob("*.json")):
        scale, cells = json.loads(record.read_text(encoding="utf-8"))["scale"], read_cells(root, record.stem)
        numbers |= glued(cells)
        for name, (kind, data, text) in named_figures(cells).items():
            suffix, content = ("svg", data.encode()) if kind == "image/svg+xml" else ("png", base64.b64decode(data))
            figures.setdefault(name, (record.stem, scale, text, suffix, content))
    return figures, numbers


def no_number(name, place):
    """Say that a deck asks for a number that there is not."""
    raise SlideError(f"no executed notebook computes the number {name!r}")


def make_renderer():
    """Make the Markdown renderer: formulas as MathJax reads them, code highlighted."""

    def colour(code, language, _):
        return highlight(code, get_lexer_by_name(language), HtmlFormatter(nowrap=True)) if language else ""

    def formula(content, options):
        left, right = (r"\[", r"\]") if options["display_mode"] else (r"\(", r"\)")
        return f"{left}{html.escape(content.strip())}{right}"

    renderer = MarkdownIt("commonmark", {"highlight": colour}).enable("table")
    return renderer.use(dollarmath_plugin, renderer=formula, double_inline=True)


def slide_id(heading):
    """Name of a slide in addresses: its heading in lower case, with hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def crop(svg, part, parts):
    """One of several equal bands of an SVG figure, counted from the top."""

    def band(match):
        width, height = map(float, match.groups())
        box = f"0 {height * (part - 1) / parts:g} {width:g} {height / parts:g}"
        return f'width="{width:g}pt" height="{height / parts:g}pt" viewBox="{box}"'.encode()

    return re.sub(rb'width="[\d.]+pt" height="[\d.]+pt" viewBox="0 0 ([\d.]+) ([\d.]+)"', band, svg, count=1)


def render_slide(text, figures, site, renderer):
    """Turn the Markdown of one slide into a section; return it with the figures it shows, by file name."""
    text, _, notes = text.partition("\nNote:")
    shown = {}

    def figure(match):
        name, part, parts = match.groups()
        if name not in figures:
            raise SlideError(f"no executed notebook has the figure {name!r}")
        stem, scale, alt, suffix, content = figures[name]
        file = f"{name}.{suffix}"
        if part:
            file, content = f"{name}-{part}.{suffix}", crop(content, int(part), int(parts))
            alt = f"Part {part} of {parts}. {alt}"
        shown[file] = content
        number = stem.split("_")[0].lstrip("0")
        home = f"Chapter {number}" if number else "Start page"
        link = f'<a href="{site}chapters/{stem}.html#{name}">{home}</a>, notebook at {scale} scale'
        image = f'<img src="figures/{file}" alt="{html.escape(alt)}">'
        return f"<figure>{image}<figcaption>{link}</figcaption></figure>"

    text = re.sub(r"\]\((chapters|book)/(\w+)\)", rf"]({site}\1/\2.html)", text)
    body = renderer.render(re.sub(r"^Answer:", "**Answer.**", text, flags=re.M))
    body = body.replace("<p><strong>Answer.</strong>", '<p class="fragment"><strong>Answer.</strong>')
    body = re.sub(r'<p><img src="([\w-]+)" alt="(?:(\d)/(\d))?" /></p>', figure, body)
    head, found, rest = body.partition("</h2>")
    picture = re.search(r"<figure>.*?</figure>", rest, re.S)
    if picture and (words := rest.replace(picture[0], "").strip()):
        rest = f'<div class="split"><div>{words}</div>{picture[0]}</div>'
    aside = f'<aside class="notes">{renderer.render(notes.strip())}</aside>' if notes else ""
    name = slide_id(re.match(r"(?:## )?(.*)", text.strip())[1])
    return f'<section id="{name}">{head}{found}{rest}{aside}</section>', shown


def render_deck(header, slides, results, macros, site, mathjax):
    """Make the page of a deck; return it with the figures it shows, by file name."""
    figures, numbers = results
    renderer, shown, sections = make_renderer(), {}, []
    for text in slides:
        section, files = render_slide(put_numbers(text, numbers, no_number), figures, site, renderer)
        sections.append(section)
        shown |= files
    template = Environment(autoescape=True, trim_blocks=True).from_string(TEMPLATE.read_text(encoding="utf-8"))
    style = HtmlFormatter(style="friendly").get_style_defs("code")
    return template.render(header, code_style=style, macros=macros, mathjax=mathjax, sections=sections), shown


def package_folder(name):
    """Folder of an installed package, which need not be importable under its name."""
    found = importlib.util.find_spec(name)
    if found is None:
        raise SlideError(f"the package {name} is not installed; the extra 'book' brings it")
    return Path(found.origin).parent


def build(root, target, site):
    """Build every deck into the folder `target`, from which the site's pages lie at `site`; return how many.

    Inside the site, the slides use the site's MathJax; elsewhere they get a copy of the parts that they need.
    """
    decks = find_decks(root)
    if not decks:
        return 0
    target.mkdir(parents=True, exist_ok=True)
    reveal = package_folder("sphinx_revealjs") / "_static" / "revealjs"
    mathjax = "../_static/mathjax" if site == "../" else "mathjax"
    if mathjax == "mathjax":
        source = package_folder("sphinx-mathjax-offline") / "static" / "mathjax"
        shutil.copytree(source / "output", target / "mathjax" / "output", dirs_exist_ok=True)
        shutil.copy(source / "tex-chtml.js", target / "mathjax")
        shutil.copy(MATHJAX_LICENCE, target / "mathjax")
    for folder in ("reveal", "figures"):
        (target / folder).mkdir(exist_ok=True)
    for name in REVEAL_FILES:
        shutil.copy(reveal / name, target / "reveal")
    shutil.copy(root / "slides" / "slides.css", target)
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    macros = config["mathjax3_config"]["tex"]["macros"]
    results = read_results(root)
    for path in decks:
        try:
            page, shown = render_deck(*read_deck(path), results, macros, site, mathjax)
        except SlideError as error:
            raise SlideError(f"{path.name}: {error}") from None
        for file, content in shown.items():
            (target / "figures" / file).write_bytes(content)
        write_atomic(target / f"{path.stem}.html", page)
    return len(decks)


def main(argv=None):
    """Run the command line; return the exit status."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args(argv)
    try:
        count = build(ROOT, ROOT / "_build" / "slides", "../html/")
    except SlideError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"==> Done: {count} decks in _build/slides (add ?print-pdf to an address to print)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
