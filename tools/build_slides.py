"""Build the lecture slides: decks in plain Markdown, with figures and numbers taken from the executed notebooks.

Reveal.js comes from the package sphinx-revealjs and MathJax from sphinx-mathjax-offline, so that the
slides need neither Node.js nor a network.
"""

import base64
import html
import itertools
import json
import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path

import yaml
from jinja2 import Environment
from lxml import etree
from lxml.builder import ElementMaker
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from notebook_texts import glued, named_figures, put_numbers, read_cells
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from run_notebooks import write_atomic

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE, HANDOUT = ROOT / "slides" / "deck.html", ROOT / "slides" / "handout.html"
MATHJAX_LICENCE = ROOT / "book" / "_static" / "mathjax" / "LICENSE"
E = ElementMaker(namespace="http://www.w3.org/2000/svg")
REVEAL_FILES = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js", "LICENSE")


class SlideError(Exception):
    """A deck asks for what there is not."""


def read_deck(path):
    """Read a deck; return its header and the Markdown of its slides.

    ``Slide: DECK: HEADING`` stands for that slide of another deck, with its notes unless others follow.
    """
    found = re.match(r"---\n(.*?)\n---\n(.*)", path.read_text(encoding="utf-8"), re.S)
    header = yaml.safe_load(found[1]) if found else {}
    if not found or not {"title", "subtitle", "minutes"} <= header.keys():
        raise SlideError(f"slides/{path.name} needs a header with title, subtitle and minutes")
    slides = [text.strip() for text in re.split(r"^---$", found[2], flags=re.M)]
    return header, [_borrowed(path, text) if text.startswith("Slide: ") else text for text in slides]


def _borrowed(path, text):
    wanted, _, notes = text.partition("\n\nNote:")
    deck, _, heading = wanted.removeprefix("Slide: ").partition(": ")
    found = [slide for slide in read_deck(path.with_name(f"{deck}.md"))[1] if slide.startswith(f"## {heading}\n")]
    if len(found) != 1:
        raise SlideError(f"slides/{path.name} borrows a slide that slides/{deck}.md does not have: {heading!r}")
    return f"{found[0].partition(chr(10) + 'Note:')[0]}\nNote:{notes}" if notes else found[0]


def find_decks(root):
    """Paths of the decks in their order."""
    return sorted((root / "slides").glob("[!.]*.md"))


def read_results(root):
    """Collect figures (chapter, origin, text, type, data) and numbers of the executed notebooks, by name.

    Notebooks of which there is no record were put there by hand, and do not count.
    """
    figures, numbers = {}, {}
    for record in sorted((root / "chapters" / ".runs").glob("*.json")):
        run, cells = json.loads(record.read_text(encoding="utf-8")), read_cells(root, record.stem)
        numbers |= glued(cells)
        noted = {_name(cells[int(place)]) for place, of in run.get("figures", {}).items() if "runs" in of}
        for name, (kind, data, text) in named_figures(cells).items():
            suffix, content = ("svg", data.encode()) if kind == "image/svg+xml" else ("png", base64.b64decode(data))
            origin = "recorded runs" if name in noted else f"notebook at {run['scale']} scale"
            figures.setdefault(name, (record.stem, origin, text, suffix, content))
    return figures, numbers


def _name(cell):
    return cell["metadata"].get("mystnb", {}).get("figure", {}).get("name")


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
    """One row of the panels of a figure by Matplotlib, with the legend above all and the labels below all."""
    root = etree.fromstring(svg)
    width, height = map(float, root.get("viewBox").split()[2:])
    patches = root.xpath("//*[starts-with(@id, 'axes_')]/*[starts-with(@id, 'patch_')][1]/*/@d")
    ends = [[float(y) for y in re.findall(r"[ML] [\d.]+ ([\d.]+)", patch)] for patch in patches]
    rows = sorted({(min(ys), max(ys)) for ys in ends})
    if len(rows) != parts:
        raise SlideError(f"it has {len(rows)} rows of panels, not {parts}")
    between = [(above[1] + below[0]) / 2 for above, below in itertools.pairwise(rows)]
    # Before the first row stands its title, behind the last one the marks of its axis.
    cuts = [rows[0][0] - 20, *between, rows[-1][1] + 20]
    whole, y = E.g(*root, id="whole"), 0.0
    root.append(E.defs(whole))
    for top, bottom in ((0, cuts[0]), (cuts[part - 1], cuts[part]), (cuts[-1], height)):
        size = {"y": f"{y:g}", "width": f"{width:g}", "height": f"{bottom - top:g}"}
        root.append(E.svg(E.use(href="#whole"), size, viewBox=f"0 {top:g} {width:g} {bottom - top:g}"))
        y += bottom - top
    root.attrib.update({"width": f"{width:g}pt", "height": f"{y:g}pt", "viewBox": f"0 0 {width:g} {y:g}"})
    return etree.tostring(root)


def find_figure(name, words, figures):
    """What the template shows of the figure `name`, and its bytes; the words may ask for a row, as 2/3."""
    if name not in figures:
        raise SlideError(f"no executed notebook has the figure {name!r}")
    chapter, origin, alt, suffix, content = figures[name]
    file, number = name, chapter.split("_")[0].lstrip("0")
    if row := re.search(r"(\d)/(\d)", words):
        try:
            content = crop(content, *map(int, row.groups()))
        except (SlideError, etree.XMLSyntaxError) as error:
            raise SlideError(f"a row of the figure {name!r}: {error}") from None
        file, alt = f"{name}-{row[1]}", f"Part {row[1]} of {row[2]}. {alt}"
    home = f"Chapter {number}" if number else "Start page"
    shown = {"file": f"{file}.{suffix}", "alt": alt, "page": f"{chapter}.html#{name}", "home": home, "origin": origin}
    return shown | {"below": "below" in words}, content


def read_slide(text, figures, site, renderer):
    """What the template shows of the Markdown of one slide, and the bytes of its figure, if there is one.

    A figure stands beside the words, or below them: ``![below](fig-name)``.
    """
    text = re.sub(r"\]\((chapters|book)/(\w+)\)", rf"]({site}\1/\2.html)", text)
    text, _, notes = text.partition("\nNote:")
    body = renderer.render(re.sub(r"^Answer:", "**Answer.**", text, flags=re.M))
    body = body.replace("<p><strong>Answer.</strong>", '<p class="fragment"><strong>Answer.</strong>')
    image = re.search(r'<p><img src="([\w-]+)" alt="(.*?)" /></p>', body)
    figure, content = find_figure(*image.groups(), figures) if image else (None, None)
    head, found, words = body.replace(image[0], "").partition("</h2>") if image else body.partition("</h2>")
    name = slide_id(re.match(r"(?:## )?(.*)", text.strip())[1])
    slide = {"id": name, "head": head + found, "words": words.strip(), "notes": renderer.render(notes.strip())}
    return slide | {"figure": figure}, content


def render_deck(header, slides, results, common):
    """Make the page of a deck; return it with the figures it shows, by file name."""
    figures, numbers = results
    renderer, shown, read = make_renderer(), {}, []
    for text in slides:
        slide, content = read_slide(put_numbers(text, numbers, no_number), figures, common["site"], renderer)
        read.append(slide)
        if content:
            shown[slide["figure"]["file"]] = content
    style = HtmlFormatter(style="friendly").get_style_defs("code")
    return fill(TEMPLATE, header | common | {"code_style": style, "slides": read}), shown


def fill(template, values):
    """Make a page of a template."""
    text = template.read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True).from_string(text).render(values)


def build(root, target, site):
    """Build every deck into the folder `target`, from which the site's pages lie at `site`; return how many.

    Inside the site, the slides use the site's MathJax; elsewhere they get a copy of the parts that they need.
    """
    decks = find_decks(root)
    if not decks:
        return 0
    for folder in ("reveal", "figures"):
        (target / folder).mkdir(parents=True, exist_ok=True)
    mathjax = "../_static/mathjax" if site == "../" else "mathjax"
    if mathjax == "mathjax":
        source = files("sphinx-mathjax-offline") / "static" / "mathjax"
        shutil.copytree(source / "output", target / "mathjax" / "output", dirs_exist_ok=True)
        for path in (source / "tex-chtml.js", MATHJAX_LICENCE):
            shutil.copy(path, target / "mathjax")
    for name in REVEAL_FILES:
        shutil.copy(files("sphinx_revealjs") / "_static" / "revealjs" / name, target / "reveal")
    shutil.copy(root / "slides" / "slides.css", target)
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    common = {"macros": config["mathjax3_config"]["tex"]["macros"], "mathjax": mathjax, "site": site}
    results = read_results(root)
    for path in decks:
        try:
            page, shown = render_deck(*read_deck(path), results, common)
        except SlideError as error:
            raise SlideError(f"{path.name}: {error}") from None
        for file, content in shown.items():
            (target / "figures" / file).write_bytes(content)
        write_atomic(target / f"{path.stem}.html", page)
    handout = root / "book" / "handout.md"
    if handout.is_file():
        text = handout.read_text(encoding="utf-8")
        values = {"title": re.match(r"# (.+)", text)[1], "body": make_renderer().render(text)}
        write_atomic(target / "handout.html", fill(HANDOUT, values | common))
    return len(decks)


def main():
    """Build the decks by themselves."""
    try:
        count = build(ROOT, ROOT / "_build" / "slides", "../html/")
    except SlideError as error:
        sys.exit(f"error: {error}")
    print(f"==> Done: {count} decks in _build/slides (add ?print-pdf to an address to print)")


if __name__ == "__main__":
    main()
