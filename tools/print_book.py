"""Print the built site to _build/book.pdf, without TeX: its pages joined into one, printed by Chromium."""

import argparse
import io
import json
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import pikepdf
import yaml
from check_pages import CHROMIUM_FLAGS, SITE, find_chromium, read_page, served
from jinja2 import Environment
from lxml import etree
from lxml.html import tostring
from markupsafe import Markup
from notebook_texts import read_run
from playwright.sync_api import sync_playwright
from run_notebooks import find_commit

ROOT = Path(__file__).resolve().parents[1]
STYLE, TEMPLATE = Path(__file__).with_suffix(".css"), Path(__file__).with_suffix(".html")
NAME = "book-print.html"
PATIENCE = 600_000
# Where one element names others by their ids.
REFERENCES = {"id", "for", "aria-labelledby", "aria-describedby", "aria-controls", "aria-owns"}
# The width and the height of what stands within the margins of a page, in CSS pixels.
COLUMN, SHEET = 174 / 25.4 * 96, 255 / 25.4 * 96
# What folds on the site, and what of it each depth opens, as the site's switch does (book/_static/reading.js).
FOLDS = ":is(.hide, .fold, .provenance, .claim-tests)"
DEPTHS = {"read": "", "code": ".hide, .fold-code", "proofs": ".fold-proofs", "all": FOLDS}
SHOWN = {
    "read": "Story, statements and figures. make pdf DEPTH=proofs adds the proofs, DEPTH=code the code, DEPTH=all all.",
    "code": "Story, statements, figures and code. make pdf DEPTH=all adds the proofs.",
    "proofs": "Story, statements, figures and proofs. make pdf DEPTH=all adds the code.",
    "all": "Everything: story, statements, figures, proofs, code and where each figure comes from.",
}
# Open what the depth opens, shrink what is wider than the column, and mark what is to stay on one page.
FIT = """([width, height, opened]) => {
  for (const box of document.querySelectorAll('details')) box.open = box.matches(opened);
  for (const box of document.querySelectorAll('.bd-article :is(table, mjx-container[display])')) {
    const room = box.parentElement.getBoundingClientRect().width;
    const needed = box.matches('table') ? box.getBoundingClientRect().width : box.firstElementChild.scrollWidth;
    if (needed > room + 1) box.style.zoom = room / needed;
  }
  const short = 'pre, .admonition, .proof, dl.py > dt';
  const whole = 'figure, table, tr, div.math, .cell_output:not(:has(figure)), .frames, .playground, .calculator';
  for (const box of document.querySelectorAll(`.bd-article :is(${short}, ${whole})`)) {
    const limit = height * (box.matches(short) ? 0.3 : 0.95);
    box.classList.toggle('kept', box.getBoundingClientRect().height < limit);
  }
}"""
# What a reader of the paper would miss: what is not shown (the cart-pole, not for paper, says so), and what is cut.
FOLDED = """opened => [...document.querySelectorAll('.bd-article :is(details, .cell, .admonition, pre, figure)')]
  .filter(box => !box.closest(`.cartpole, details:not(${opened})`)
    && (box.matches('details:not([open])') || !box.getClientRects().length)
).map(box => box.textContent.trim().slice(0, 60))"""
WIDE = """width => [...document.querySelectorAll('.bd-article *')].filter(box => {
  if (box.closest('mjx-assistive-mml, .visually-hidden, svg *')) return false;
  const texts = [...box.childNodes].filter(node => node.nodeType === Node.TEXT_NODE).map(node => {
    const range = document.createRange();
    range.selectNode(node);
    return range;
  });
  return [box, ...texts].some(part => {
    const { left, right, height } = part.getBoundingClientRect();
    return height > 0 && (right > width + 1 || left < -1);
  });
}).map(box => `${box.localName}.${box.className}: ${box.textContent.trim().slice(0, 60)}`)"""
HEADINGS = """() => [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].filter(
  heading => heading.getClientRects().length).map(heading => heading.innerText.replace(/\\s+/g, ' ').trim())"""
NUMBER = """numbers => {
  for (const place of document.querySelectorAll('#contents .number')) {
    place.textContent = numbers[place.closest('a').getAttribute('href').slice(1)];
  }
}"""


def list_pages(contents):
    """The pages of a table of contents: part, file, title (None where it gives none), and id in the printed book."""
    found = [(None, {"file": contents["root"]})]
    for part in contents.get("parts", []):
        for entry in part["chapters"]:
            found += [(part["caption"], page) for page in (entry, *entry.get("sections", []))]
    return [
        {"part": part, "file": page["file"], "title": page.get("title"), "id": f"page-{page['file'].replace('/', '-')}"}
        for part, page in found
    ]


def join_pages(site, pages):
    """Read the pages of a site, note title and section of each, and return the style sheets and scripts they need.

    Ids stay as they are, as scripts and styles name them, except where a page before has the same one.
    """
    names = {f"{page['file']}.html": page for page in pages}
    if missing := [name for name in names if not (site / name).is_file()]:
        sys.exit(f"error: the site lacks {', '.join(missing)}; run 'make book' first")
    trees = {name: read_page((site / name).read_text(encoding="utf-8"))[0] for name in names}
    taken, ids = set(), {}
    for name, page in names.items():
        page["section"] = trees[name].find_class("bd-article")[0]
        own = set(page["section"].xpath(".//@id"))
        ids[name] = {old: f"{page['id']}--{old}" if old in taken else old for old in own}
        taken |= own

    def printed(link):
        """Where a link leads in the printed book; what only the site has is fetched from there."""
        path, _, anchor = unquote(link).removeprefix(SITE).partition("#")
        if not link.startswith(SITE):
            return link
        return f"#{ids[path].get(anchor, names[path]['id'])}" if path in names else f"/{link.removeprefix(SITE)}"

    head = {}
    for name, page in names.items():
        tree, section = trees[name], page["section"]
        tree.rewrite_links(printed, base_href=SITE + name)
        for tag in tree.xpath("//head/link[@rel='stylesheet'] | //head/script"):
            text = tostring(tag, encoding="unicode", with_tail=False)
            if tag.tag == "link" or "mathjax" in text.lower():
                head[text] = None
        for tag in [*section.iter("button"), *section.find_class("headerlink")]:
            tag.drop_tree()
        for tag in section.xpath(".//a[starts-with(@href, '/')]"):
            tag.drop_tag()
        for tag in section.iter(etree.Element):
            # Pictures are not to wait until someone scrolls to them.
            tag.attrib.pop("loading", None)
            for key in REFERENCES & {*tag.keys()}:
                tag.set(key, " ".join(ids[name].get(word, word) for word in tag.get(key).split()))
        heading = section.find(".//h1")
        if page["title"]:
            heading[:], heading.text = [], page["title"]
        page["title"] = heading.text_content().strip()
        section.tag = "section"
        section.attrib.clear()
        section.set("id", page["id"])
    return "".join(head)


def figures_at_quick_scale(root, pages):
    """Say in words which figures the notebooks made at quick scale."""
    ranges = []
    for page in pages:
        figures = [figure for box in page["section"].find_class("cell_output") for figure in box.iter("figure")]
        labels = [tag.text_content().split()[-1] for figure in figures for tag in figure.find_class("caption-number")]
        if labels and (read_run(root, page["file"]) or {"scale": ""})["scale"] == "quick":
            ranges.append("–".join(dict.fromkeys([labels[0], labels[-1]])))
    if not ranges:
        return "None of this copy was computed at quick scale."
    words = "Recorded runs in them keep their own scale."
    return f"Computed at quick scale, that of a laptop: {', '.join(ranges)}. {words}"


def quoted(text):
    """A text as a string of CSS, within a page: JSON's escapes of quotes and backslashes are those of CSS."""
    return Markup(json.dumps(text, ensure_ascii=False).replace("<", r"\3c "))


def compose(root, site, depth="all"):
    """Return the HTML of the printed book."""
    names = {"contents": "_toc.yml", "config": "_config.yml", "citation": "CITATION.cff"}
    files = {key: yaml.safe_load((root / name).read_text(encoding="utf-8")) for key, name in names.items()}
    pages, commit = list_pages(files["contents"]), find_commit(root)
    head = join_pages(site, pages)
    environment = Environment(autoescape=True, trim_blocks=True)
    environment.filters |= {"quoted": quoted, "html": partial(tostring, encoding="unicode", with_tail=False)}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        **files,
        commit="not known" if commit is None else commit.rstrip("+") + ", with changes" * commit.endswith("+"),
        printed=f"{datetime.now(UTC):%d %B %Y}".lstrip("0"),
        depth=SHOWN[depth],
        figures=figures_at_quick_scale(root, pages),
        head=head,
        style=STYLE.read_text(encoding="utf-8"),
        pages=pages,
    )


def destinations(pdf):
    """Page numbers of the named places in a PDF."""
    numbers = {page.objgen: number for number, page in enumerate(pdf.pages, 1)}
    return {name.removeprefix("/"): numbers[place[0].objgen] for name, place in pdf.Root.get("/Dests", {}).items()}


def entries(outline):
    """The entries of an outline in the order of the pages."""
    for entry in outline:
        yield entry
        yield from entries(entry.children)


def name_entries(pdf, headings):
    """Give an outline its headings: Chromium repeats a line that it moves to the next page."""
    with pdf.open_outline() as outline:
        found = list(entries(outline.root))
        if len(found) != len(headings):
            sys.exit(f"error: the outline has {len(found)} entries, the pages have {len(headings)} headings")
        for entry, heading in zip(found, headings, strict=True):
            entry.title = heading


def print_pages(site, html, target, depth="all"):
    """Print a composed page, which fetches from the site what it needs; return what is folded or cut."""
    opened = f":is({', '.join(filter(None, (f':not({FOLDS})', DEPTHS[depth])))})"
    with served(site) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=CHROMIUM_FLAGS, chromium_sandbox=False
        )
        size = {"width": round(COLUMN), "height": round(SHEET)}
        tab = browser.new_context(viewport=size).new_page()
        tab.set_default_timeout(PATIENCE)
        tab.emulate_media(media="print", color_scheme="light")
        if not tab.evaluate("'CSSMarginRule' in window"):
            sys.exit(f"error: Chromium {browser.version} cannot print running heads; install a newer one")
        tab.route(origin + NAME, lambda route: route.fulfill(body=html, content_type="text/html; charset=utf-8"))
        tab.goto(origin + NAME, wait_until="load", timeout=PATIENCE)
        tab.evaluate("() => window.MathJax?.startup?.promise.then(() => document.fonts.ready).then(() => true)")
        tab.evaluate(FIT, [COLUMN, SHEET, opened])
        lost = [f"folded: {text}" for text in tab.evaluate(FOLDED, opened)]
        lost += [f"wider than the page: {text}" for text in tab.evaluate(WIDE, size["width"])]
        headings = tab.evaluate(HEADINGS)
        # The first print tells the page numbers that stand in the second.
        numbers = destinations(pikepdf.open(io.BytesIO(tab.pdf(prefer_css_page_size=True))))
        tab.evaluate(NUMBER, numbers)
        printed = tab.pdf(prefer_css_page_size=True, print_background=True, outline=True, tagged=True)
        browser.close()
    pdf = pikepdf.open(io.BytesIO(printed))
    if destinations(pdf) != numbers:
        sys.exit("error: the page numbers in the contents moved the pages")
    name_entries(pdf, headings)
    pdf.save(target, object_stream_mode=pikepdf.ObjectStreamMode.generate)
    return lost


def main(arguments=None):
    """Compose the book from the site and print it."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--depth", choices=DEPTHS, default="read", help="what is opened of what the site folds (read)")
    depth = parser.parse_args(arguments).depth
    site, target = ROOT / "_build" / "html", ROOT / "_build" / "book.pdf"
    beside = target.with_suffix(".part")
    if find_chromium() is None:
        sys.exit("error: printing needs Chromium; install it (Debian, Ubuntu: apt install chromium)")
    if lost := print_pages(site, compose(ROOT, site, depth), beside, depth):
        sys.exit("\n".join(f"error: {text}" for text in lost))
    beside.replace(target)
    print(f"==> Done: {target.relative_to(ROOT)} ({target.stat().st_size / 2**20:.1f} MB)")


if __name__ == "__main__":
    main()
