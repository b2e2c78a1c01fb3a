"""Cards that a link to an item of the paper or an erratum shows: one file with what they say, from the built pages."""

import copy
import json
from functools import cache
from pathlib import Path
from urllib.parse import urljoin

from book_nodes import fill
from bs4 import BeautifulSoup

CLAIMS, ERRATA = "book/claims.html", "chapters/13_errata.html"
# A card is read, not used: it holds the corrected statement and nothing to press.
LEFT_OUT = ".printed, .headerlink, .statement-foot, .statement-tabs, button, script, style, details, .index"


def contents(part, page):
    """HTML inside a part of a page, for a card: without links and names, pictures from the book's root."""
    part = copy.copy(part)
    for left_out in part.select(LEFT_OUT):
        left_out.decompose()
    for tag in part.find_all(True):
        tag.attrs.pop("id", None)
        if tag.name == "a":
            tag.unwrap()
        elif tag.name == "img":
            tag["src"] = urljoin(page, tag["src"])
    return part.decode_contents().strip()


def make_cards(out):
    """The cards of the claim map's items and of the errata, by the addresses that links lead to."""
    cards = {}

    @cache
    def read(page):
        return BeautifulSoup((out / page).read_text(encoding="utf-8"), "html.parser")

    # Where a page was not built, its items are no links.
    for row in read(CLAIMS).select("table.claims tbody tr:has(td:first-child a)"):
        item, statement, status, _ = row.select("td")
        place = urljoin(CLAIMS, item.a["href"])
        page, _, name = place.partition("#")
        box = read(page).find(id=name)
        if section := box.select_one("section"):
            body = contents(section, page)
        else:
            shown = BeautifulSoup(str(box.select_one("img, table")), "html.parser")
            body = contents(shown, page) + contents(statement, CLAIMS)
        status = status.select_one(".claim-status").get_text()
        cards[place] = fill("card.html", title=item.get_text().strip(), status=status, body=body)
    for row in read(ERRATA).select("table.errata-all tbody tr"):
        number, *parts = row.select("td")
        place = number.a["href"]
        title = read(ERRATA).find(id=place[1:]).parent.find(["h2", "h3"]).contents[0]
        kind = number.select_one(".erratum-kind").get_text()
        parts = zip(("Printed", "Meant", "Survives"), [contents(part, ERRATA) for part in parts])
        cards[ERRATA + place] = fill("card.html", title=f"Erratum {title} ({kind})", parts=parts)
    return cards


def write_cards(app, exception):
    """Gather the cards in one script that a page loads when it is needed."""
    if exception is None and app.builder.name == "html":
        out = Path(app.outdir)
        text = f"globalThis.CARDS = {json.dumps(make_cards(out), ensure_ascii=False)};\n"
        (out / "_static" / "cards-data.js").write_text(text, encoding="utf-8")


def setup(app):
    app.connect("build-finished", write_cards, priority=700)
