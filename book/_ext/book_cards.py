"""Cards that a link to an item of the paper or an erratum shows: one file with what they say, from the built pages."""

import json
import re
from html import escape
from pathlib import Path

from book_claims import read_claims, read_errata
from book_nodes import ROOT
from bs4 import BeautifulSoup

ERRATA = "chapters/13_errata"
# A card is read, not used: it holds the corrected statement and nothing to press.
LEFT_OUT = ".printed, .headerlink, .statement-foot, .statement-tabs, button, script, style, details, .index"


def box_card(box):
    """HTML of the card of a numbered item, from its box on the page."""
    box = BeautifulSoup(str(box), "html.parser")
    for part in box.select(LEFT_OUT):
        part.decompose()
    title, status, body = (box.select_one(name) for name in (".admonition-title", ".statement-status", "section"))
    for tag in box.find_all(True):
        if tag.name == "a":
            tag.unwrap()
        else:
            tag.attrs.pop("id", None)
    head = escape(" ".join(title.get_text().split()))
    return f'<p class="card-title">{head} {status or ""}</p>' + (body.decode_contents().strip() if body else "")


def figure_card(entry, figure):
    """HTML of the card of a figure or table: its picture, its status and what the paper says with it."""
    shown = BeautifulSoup(str(figure.select_one("img, table")), "html.parser")
    picture = shown.find("img")
    if picture:
        # From the root of the book; the script that shows the card knows where that is.
        picture["src"] = picture["src"].removeprefix("../")
    title = f"{escape(entry['item'])}, {escape(entry['title'])}"
    status = f'<span class="statement-status">{entry["status"]}</span>'
    return f'<p class="card-title">{title} {status}</p>{shown}<p>{in_html(entry["statement"])}</p>'


def in_html(text):
    """A line of Markdown with formulas as HTML that MathJax reads."""
    # A citation by its key, as in jin2020provably.
    text = re.sub(r"\{cite:\w\}`([a-z]+)(\d{4})\w*`", lambda key: f"{key[1].title()} et al. ({key[2]})", text)
    pieces = re.split(r"\$([^$]+)\$", text)
    return "".join(f'<span class="math">\\({escape(p)}\\)</span>' if k % 2 else escape(p) for k, p in enumerate(pieces))


def erratum_card(entry):
    """HTML of the card of an erratum."""
    lines = "".join(
        f"<dt>{name}</dt><dd>{in_html(str(entry[key]))}</dd>"
        for name, key in (("Printed", "printed"), ("Meant", "meant"), ("Survives", "survives"))
    )
    title = f"Erratum {entry['number']}, {entry['kind']}: {escape(entry['title'])}"
    return f'<p class="card-title">{title}</p><dl>{lines}</dl>'


def write_cards(app, exception):
    """Gather the boxes of all pages, and the errata, in one script that a page loads when it is needed."""
    if exception is not None or app.builder.name != "html":
        return
    out, cards = Path(app.outdir), {}
    claims = read_claims(ROOT)
    for page in sorted({entry["chapter"] for entry in claims}):
        path = out / f"{page}.html"
        if not path.is_file():
            continue
        soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        for entry in claims:
            anchor = entry.get("anchor", entry["label"])
            box = soup.find(id=anchor) if entry["chapter"] == page else None
            if box is None:
                continue
            if "anchor" in entry:
                cards[f"{page}.html#{anchor}"] = figure_card(entry, box)
            elif box.select_one(".admonition-title"):
                cards[f"{page}.html#{anchor}"] = box_card(box)
    if (out / f"{ERRATA}.html").is_file():
        for entry in read_errata(ROOT):
            cards[f"{ERRATA}.html#{entry['number'].lower()}"] = erratum_card(entry)
    text = f"globalThis.CARDS = {json.dumps(cards, ensure_ascii=False)};\n"
    (out / "_static" / "cards-data.js").write_text(text, encoding="utf-8")


def setup(app):
    """Register with Sphinx."""
    app.connect("build-finished", write_cards, priority=700)
    app.add_css_file("cards.css")
    app.add_js_file("cards.js")
