"""The front pages: their numbers, the order of the book, what a search finds, the reference, the icons, the cards."""

import importlib
import json
import os
import pkgutil
import re
import sys
from collections import Counter
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from check_pages import find_chromium, served
from docutils.core import publish_doctree
from notebook_texts import named_figures, read_cells
from sphinx_external_toc.parsing import parse_toc_yaml

import rrl
from rrl import certify_replicability, theory
from rrl.book import summary

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "book" / "_ext"))
import book_api  # noqa: E402
import book_cards  # noqa: E402
import book_front  # noqa: E402
import book_head  # noqa: E402
import book_pages  # noqa: E402
from book_nodes import fill  # noqa: E402

SITE = Path(os.environ.get("BOOK_SITE", ROOT / "_build" / "html"))
site = pytest.mark.skipif(
    not (find_chromium() and (SITE / "book" / "twenty.html").is_file()), reason="needs Chromium and a built site"
)


# Numbers


def test_exponents_are_those_of_the_formulas_far_out():
    found = summary.exponents()
    assert (found["horizon-printed"], found["horizon-corrected"], found["horizon-sharp"]) == (23, 27, 19)
    assert (found["moments-paper"], found["moments-here"]) == (8, 4)
    # Doubling in place of ten times, at other settings.
    other = {"epsilon": 0.3, "delta": 1e-6, "rho": 0.2}
    sizes = [theory.ridge_sample_size(d, **other, penalty=1.0) for d in (2**30, 2**31)]
    assert sizes[1] / sizes[0] == pytest.approx(2 ** found["ridge-paper"], rel=0.05)
    sizes = [theory.ridge_plan(d, **other, penalty=1.0).n_samples for d in (2**30, 2**31)]
    assert sizes[1] / sizes[0] == pytest.approx(2 ** found["ridge-here"], rel=0.05)


@pytest.fixture(scope="module")
def numbers():
    return summary.numbers(ROOT / "book" / "results")


def test_what_the_front_pages_say_in_words_is_so(numbers):
    # "at lower return", "decides": the largest penalty agrees most and loses return by rounding.
    assert numbers["same-large"] > 0.5 > 10 * numbers["same-small"]
    assert numbers["return-rounded"] < 0.7 * numbers["return-unrounded"]
    curves = [numbers[f"same-curve-{p}"] for p in ("0.01", "0.1", "1")]
    assert all(low <= high for one, two in pairwise(curves) for low, high in zip(one, two, strict=True))
    assert numbers["bad-same"] > 0.5 and numbers["bad-return-share"] == numbers["bad-return"] / 500 < 0.1
    # "Rounding raises agreement in every game, and lowers the score in two of three."
    games = ("asterix", "breakout", "space_invaders")
    assert numbers["games"] == len(games) and numbers["games-gained"] == 1
    assert all(numbers[f"{game}-agreement-both"] > numbers[f"{game}-agreement-plain"] for game in games)
    assert sum(numbers[f"{game}-kept"] < 0.95 for game in games) == 2
    assert 0.5 < numbers["breakout-ties"] < 1


def test_the_certificate_takes_as_many_pairs_as_the_page_says(numbers):
    proof = certify_replicability(lambda shared_seed, rng: int(rng.random() < 2), rho=0.1, seed=0)
    assert proof.n_pairs == numbers["pairs-sure"] and proof.verdict == "replicable"


def test_records_that_are_not_there_are_said(tmp_path):
    with pytest.raises(ValueError, match="'figure' are missing or damaged"):
        summary.from_cartpole(tmp_path)
    with pytest.raises(ValueError, match="no game is recorded"):
        summary.from_minatar(tmp_path)


def test_no_item_of_the_paper_was_given_up():
    # The start page says "no theorem lost", the other page "none had to be given up".
    assert book_front.find_value("items/refuted") == 0
    kinds = [book_front.find_value(f"errata/{kind}") for kind in (*book_front.HEAVY, "rest")]
    assert sum(kinds) == book_front.find_value("errata/all") == len(book_front.read_errata(ROOT))


@pytest.fixture
def chapter(tmp_path):
    """A book of one executed chapter with a number and a figure."""
    glue = {"scrapbook": {"name": "n", "mime_prefix": "x/"}}
    shown = {"mystnb": {"figure": {"name": "fig-a"}, "image": {"alt": "A line."}}}
    cells = [
        {"metadata": {}, "outputs": [{"data": {"x/text/plain": "33.96"}, "metadata": glue}]},
        {"metadata": shown, "outputs": [{"data": {"image/svg+xml": ["<svg", "/>"]}, "metadata": {}}]},
    ]
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters" / "01_a.ipynb").write_text(json.dumps({"cells": cells}))
    return tmp_path


def test_numbers_and_figures_come_from_the_executed_chapters(chapter):
    assert book_front.find_value("01_a/n", chapter) == 33.96
    assert book_front.written(33.96, "10^") == "9\u00a0×\u00a010³³" and book_front.written(-0.5, ".1f") == "−0.5"
    assert named_figures(read_cells(chapter, "01_a")) == {"fig-a": ("image/svg+xml", "<svg/>", "A line.")}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("01_a/m", "01_a has no number 'm'"),
        ("02_b/n", "02_b is not executed"),
        ("m", "summary has no number 'm'"),
    ],
)
def test_what_is_not_there_stops_the_build(chapter, name, message):
    with pytest.raises(book_front.ExtensionError, match=message):
        book_front.find_value(name, chapter)


def test_exercises_are_no_results_of_the_book():
    assert book_pages.OWN.match("prop-own-cells") and not book_pages.OWN.match("ex-00-own-grids")
    assert not book_pages.OWN.match("thm-3-1")


def chart_of(kind, *rows):
    return fill("chart.html", kind=kind, rows=rows, alt="<")


def test_charts_are_in_proportion():
    chart = chart_of("bars", ("a < b", 8, "8"), ("b", 4, "4"))
    widths = [float(width) for width in re.findall(r'<rect.* width="([\d.]+)"', chart)]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2) and 'viewBox="0 0 220 44"' in chart
    assert 'aria-label="&lt;"' in chart and ">a &lt; b</text>" in chart
    # The longest text ends within the chart.
    chart = chart_of("bars", ("a", 34, "9 × 10³³"))
    assert float(re.search(r'class="value" x="([\d.]+)"', chart)[1]) + 7 * len("9 × 10³³") <= 220
    assert chart_of("dots", ("pairs", 36, "36")).count("<circle") == 36
    chart = chart_of("lines", ("x", [0.0, 1.0], ""))
    (left, low), (right, high) = re.findall(r"([\d.]+) ([\d.]+)", re.search(r'line-0" d="([^"]+)"', chart)[1])
    assert float(high) < float(low) and float(left) < float(right)


def test_twenty_minutes_are_twenty_minutes():
    text = (ROOT / "book" / "twenty.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^```\{found-figure\}", text, re.M)) == 6
    text = re.sub(r"^```\{found-figure\}.*$", "", text, flags=re.M)
    assert len(re.findall(r"[^\W\d_]{2,}", re.sub(r"\$[^$]*\$", "", text))) <= 2500
    # Numbers are computed: what is written by hand is small, or the paper's own.
    prose = re.sub(
        r"\{[\w:]+\}`[^`]*`|\$[^$]*\$|</[^>]*>|\bFigure \d|\bTheorem \d\.\d|\d{3} times|of 100 runs|95%", "", text
    )
    assert re.findall(r"\d+", prose) == []


# Order


def test_the_book_begins_with_the_start_page_and_ends_with_the_reference():
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    parts = {part["caption"]: [page["file"] for page in part["chapters"]] for part in contents["parts"]}
    assert contents["root"] == "index"
    assert list(parts["Start"]) == ["book/twenty", "chapters/00_replicability", "book/claims"]
    assert list(parts)[-4:] == ["Beyond the paper", "Proofs", "Use it", "Reference"]


# Finding


def test_words_lead_to_pages_that_exist():
    assert set(book_pages.read_words(ROOT)) <= set(parse_toc_yaml(ROOT / "_toc.yml"))


FIRST = {
    "Theorem 3.1": "chapters/03_ridge.html#thm-3-1",
    "Figure 1": "chapters/09_cartpole.html#",
    "core set": "chapters/04_core_sets.html",
    "erratum": "chapters/13_errata.html",
    "replicable ridge": "chapters/03_ridge.html",
    "CartPole": "chapters/09_cartpole.html",
    "Breakout": "chapters/10_figure2.html",
    "certificate": "chapters/14_certify.html#",
    "teach": "book/teaching.html",
    "install": "book/how_to.html",
    "bin width of Algorithm 4": "chapters/06_lsvi.html#alg-4",
    "sample size Theorem 4.1": "chapters/06_lsvi.html#thm-4-1",
    "erratum E7": "chapters/13_errata.html#e7",
    "Appendix D proof": "chapters/D_lsvi_ucb_proof.html",
    "the Breakout game": "chapters/10_figure2.html",
    "weight decay": "chapters/10_figure2.html",
    "my own algorithm": "chapters/17_your_own.html",
    "hypergrid_round": "book/api/rounding.html#rrl.rounding.hypergrid_round",
}


@pytest.fixture(scope="module")
def origin():
    with served(SITE) as address:
        yield address


@pytest.fixture
def tab(browser, origin):
    """A fresh page; what leaves the site or fails in a script fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(60_000)
    tab, faults = context.new_page(), []
    tab.on("request", lambda request: request.url.startswith((origin, "data:", "blob:")) or faults.append(request.url))
    tab.on("pageerror", lambda error: faults.append(error.message))
    yield tab
    context.close()
    assert not faults


def search(tab, origin, query):
    tab.goto(f"{origin}search.html?q={query.replace(' ', '+')}")
    tab.wait_for_function("document.querySelector('#search-results').textContent.includes('Search finished')")
    return tab.locator("#search-results li")


@site
@pytest.mark.parametrize(("query", "first"), FIRST.items())
def test_the_right_page_is_found_first(tab, origin, query, first):
    hits = search(tab, origin, query)
    assert hits.first.locator("a").get_attribute("href").startswith(first)
    links = hits.locator("a").evaluate_all("links => links.map((a) => a.getAttribute('href'))")
    assert len(links) == len(set(links))
    # Pages of the interface that merely hold the words come after all others that do.
    whole = [link for link in links if "#" not in link]
    last = ("book/api", "book/environment", "book/changelog")
    assert [link.startswith(last) for link in whole] == sorted(link.startswith(last) for link in whole)


@site
def test_extracts_are_prose_and_the_magnifier_covers_nothing(tab, origin):
    hits = search(tab, origin, "rounding")
    hits.locator("p.context").first.wait_for()
    tab.wait_for_timeout(500)
    shown = " ".join(hits.locator("p.context").all_inner_texts())
    assert len(shown) > 500
    for piece in ("\\(", "\\rho", ".ipynb", ".pdf", "Copy", "import numpy", "$"):
        assert piece not in shown, piece
    field = tab.locator(".bd-search input:visible").first
    icon = tab.locator(".bd-search .fa-magnifying-glass:visible").first.bounding_box()
    start = field.bounding_box()["x"] + float(field.evaluate("(e) => parseFloat(getComputedStyle(e).paddingLeft)"))
    assert icon["x"] + icon["width"] <= start


# The start page


@site
def test_the_first_screen_says_what_it_is_and_shows_playground_and_paper(tab, origin):
    tab.goto(f"{origin}index.html")
    tab.wait_for_selector("#playground svg")
    for part in (".landing > p", "#playground", ".paper-card", ".paper-links a >> nth=0", ".paper-bibtex"):
        box = tab.locator(part).first.bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 800, part
    links = tab.locator(".paper-links a").evaluate_all("links => links.map((a) => a.href)")
    assert links == ["https://arxiv.org/abs/2509.08660", "https://arxiv.org/pdf/2509.08660"]
    findings = tab.locator(".finding")
    assert 6 <= findings.count() <= 8
    for place in range(findings.count()):
        one = findings.nth(place)
        assert one.locator("svg[aria-label]").count() == 1 and one.locator("a").count() == 1
        assert re.search(r"\d", one.inner_text())
    assert [text.strip() for text in tab.locator(".door p strong").all_inner_texts()] == ["Read", "Run", "Teach"]


# The reference


def test_the_table_has_every_public_name_in_the_paper_s_order():
    names = book_api.public_names()
    listed = re.search(r"__all__ = \[(.*?)\]", (ROOT / "rrl" / "__init__.pyi").read_text(encoding="utf-8"), re.S)[1]
    assert sorted(names) == sorted(re.findall(r'"(\w+)"', listed))
    assert names.index("ReplicableRidge") < names.index("r_lsvi")


def exported(module):
    """What a module exports, by name."""
    found = importlib.import_module(module)
    return {name: getattr(found, name) for name in getattr(found, "__all__", ())}


def test_the_reference_documents_everything_public_once():
    """A package documents what it takes from its own modules; `:exclude-members:` leaves it out below."""
    documented, homes = Counter(), {}
    for page in sorted((ROOT / "book" / "api").glob("*.md")):
        for module, left_out in re.findall(
            r"^## (\S+)\n\n.*\n\.\. automodule:: \1\n(?:.*: (.*)\n)?```$", page.read_text(), re.M
        ):
            homes[module] = page.stem
            documented.update(id(x) for name, x in exported(module).items() if name not in left_out.split(", "))
    modules = [info.name for info in pkgutil.walk_packages(rrl.__path__, "rrl.") if "._" not in info.name]
    assert set(documented) == {id(x) for module in modules for x in exported(module).values()}
    assert set(documented.values()) == {1}
    public = {getattr(rrl, name).__module__ for name in book_api.public_names() if name != "theory"}
    assert "internals" not in {homes.get(module) for module in public}


# Heads and icons


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ("Too few words. And $x$.", ""),
        ("A share $x<1$ of pairs, no less & no more.", "A share of pairs, no less & no more."),
        ("word " * 60, "word " * 39 + "word…"),
    ],
)
def test_a_page_is_described_by_the_words_of_its_first_long_paragraph(text, described):
    page = publish_doctree(re.sub(r"[$](.*?)[$]", r":math:`\1`", text))
    assert book_head.describe(page) == described and len(described) <= book_head.LONGEST


def test_an_abstract_describes_a_page_better_than_its_first_paragraph():
    page = publish_doctree(
        "This paragraph stands first on it.\n\n.. container:: abstract\n\n   What is asked and answered here?"
    )
    assert book_head.describe(page) == "What is asked and answered here?"


def test_icons_are_found_by_class_and_by_number():
    rules = '.fa-search:before,.fa-find:before{content:"\\f002"}.fa-x:before{content:"\\f00d"}'
    assert book_head.used_codes(rules, ['<i class="fas fa-find">', 'a::after{content:"\\f05a"}']) == {0xF002, 0xF05A}
    # The theme has some as characters, such as that of its link that ends a search.
    assert book_head.used_codes(rules, [':root{--minus:"\uf010"}']) == {0xF010}


@site
def test_icons_need_no_file_and_pages_describe_themselves():
    for sheet in SITE.glob("_static/vendor/fontawesome/*/css/all.min.css"):
        rules = sheet.read_text(encoding="utf-8")
        assert "data:font/woff" in rules and "woff2" not in rules
    for name in ("index.html", "book/twenty.html", "chapters/03_ridge.html"):
        page = (SITE / name).read_text(encoding="utf-8")
        assert len(re.search(r'<meta name="description" content="([^"]+)"', page)[1]) > 60
        assert "preview.png" in page


# The bibliography


def test_every_entry_of_the_bibliography_leads_somewhere():
    entries = re.findall(
        r"^@\w+\{([^,]+),\n(.*?)\n\}", (ROOT / "book" / "references.bib").read_text("utf-8"), re.M | re.S
    )
    assert len(entries) > 40
    for key, body in entries:
        assert re.search(r"^\s*(doi|eprint|url)\s*=", body, re.M), key


@site
def test_labels_of_the_bibliography_can_be_read():
    page = (SITE / "book" / "bibliography.html").read_text(encoding="utf-8")
    entries = re.findall(r'<div class="citation".*?</div>', page, re.S)
    assert len(entries) > 40
    for entry in entries:
        label = " ".join(
            re.sub("<[^>]+>", "", re.search(r'<span class="label">.*?</span></span>', entry, re.S)[0]).split()
        )
        assert re.fullmatch(r"\[[\w .'’-]+, \d{4}[a-z]?\]", label), label
        assert re.search(r'href="https?://', entry), label


# Cards


ROW = (
    '<tr><td><p><a href="../chapters/01_a.html{place}">{item}</a></p></td>'
    '<td><p>Where <span class="math">\\(x&lt;1\\)</span>.</p></td>'
    '<td><p><span class="claim-status">{status}</span> constant</p></td><td><p>chapter 1</p></td></tr>'
)
BUILT = {
    "book/claims.html": '<table class="claims"><tbody>'
    + ROW.format(place="#thm-1", item="Theorem 1 (a &lt; b)", status="holds corrected")
    + ROW.format(place="#f", item="Figure 1 (c)", status="illustrated")
    + "<tr><td>Lemma 1 (not built)</td></tr></tbody></table>",
    "chapters/01_a.html": '<div id="thm-1"><p class="admonition-title">Theorem 1<a class="headerlink">#</a></p>'
    '<section id="s"><p id="p">See <a href="x.html">this</a>.</p><div class="printed">Wrong.</div></section></div>'
    '<figure id="f"><img alt="Rises." src="../_images/f.svg"/><p>Long.</p></figure>',
    "chapters/13_errata.html": '<table class="errata-all"><tbody><tr><td><p><a href="#e9">E9</a></p>'
    '<p><span class="erratum-kind">notation</span></p></td><td><p>a &lt; b</p></td><td><p>c</p></td><td><p>d</p></td>'
    '</tr></tbody></table><section id="e9-t"><span id="e9"></span><h3>E9: t<a class="headerlink">#</a></h3></section>',
}


@pytest.fixture
def cards(tmp_path):
    for name, text in BUILT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return book_cards.make_cards(tmp_path)


def test_a_card_has_the_corrected_statement_and_nothing_to_press(cards):
    assert cards.keys() == {"chapters/01_a.html#thm-1", "chapters/01_a.html#f", "chapters/13_errata.html#e9"}
    card = cards["chapters/01_a.html#thm-1"]
    status = '<span class="statement-status holds-corrected">holds corrected</span>'
    assert card.startswith(f'<p class="card-title">Theorem 1 (a &lt; b) {status}</p>')
    assert card.strip().endswith("<p>See this.</p>")


def test_a_card_of_a_figure_has_its_picture_from_the_root_and_its_statement(cards):
    card = cards["chapters/01_a.html#f"]
    assert '<img alt="Rises." src="_images/f.svg"/><p>Where <span class="math">\\(x&lt;1\\)</span>.</p>' in card
    assert "Figure 1 (c) <span" in card and "Long" not in card


def test_a_card_of_an_erratum_has_its_kind_and_its_row(cards):
    card = cards["chapters/13_errata.html#e9"]
    assert '<p class="card-title">Erratum E9: t (notation)</p>' in card
    assert re.findall("<dt>(.*?)</dt><dd><p>(.*?)</p></dd>", card) == [
        ("Printed", "a &lt; b"),
        ("Meant", "c"),
        ("Survives", "d"),
    ]


@site
@pytest.mark.parametrize("place", ["server", "file"])
def test_a_card_comes_on_hover_focus_and_tap_and_goes(browser, origin, place):
    start = origin if place == "server" else f"{SITE.as_uri()}/"
    context = browser.new_context(viewport={"width": 1280, "height": 800}, has_touch=True)
    context.set_default_timeout(30_000)
    tab, faults = context.new_page(), []
    tab.on("pageerror", lambda error: faults.append(error.message))
    tab.on("request", lambda request: request.url.startswith((start, "data:", "blob:")) or faults.append(request.url))
    tab.goto(f"{start}book/twenty.html")
    tab.evaluate("() => window.MathJax?.startup?.promise")
    shown = tab.locator(".item-card.placed")
    link = tab.locator('article a[href$="#thm-3-1"]').first
    link.hover()
    shown.wait_for()
    assert "Theorem 3.1" in shown.inner_text() and shown.locator("mjx-container").count() > 3
    assert link.get_attribute("aria-describedby") == shown.get_attribute("id")
    box = shown.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 1280
    tab.keyboard.press("Escape")
    assert shown.count() == 0 and link.get_attribute("aria-describedby") is None
    # By keyboard: on focus, and away with it.
    tab.locator('article a[href$="#e1"]').first.focus()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Shift+Tab")
    shown.wait_for()
    assert "Erratum E1" in shown.inner_text()
    if place == "server":
        tab.evaluate(
            Path(find_spec("axe_playwright_python").origin).with_name("axe.min.js").read_text(encoding="utf-8")
        )
        found = tab.evaluate("() => axe.run('.item-card').then((r) => r.violations.map((v) => v.id))")
        assert [rule for rule in found if rule != "region"] == []
    tab.keyboard.press("Tab")
    tab.wait_for_function("!document.querySelector('.item-card')?.textContent.includes('Erratum E1')")
    tab.keyboard.press("Escape")
    # The first tap shows, the second follows.
    tapped = tab.locator('article a[href$="#thm-4-1"]').first
    tapped.tap()
    shown.wait_for()
    assert tab.url.endswith("twenty.html") and "Theorem 4.1" in shown.inner_text()
    tapped.tap()
    tab.wait_for_url("**/chapters/06_lsvi.html#thm-4-1")
    # A figure's card has its picture, also from a page at another depth of the book; what has no card is followed.
    tab.goto(f"{start}book/claims.html")
    tab.locator('article a[href$="#fig-09-full"]').first.hover()
    shown.wait_for()
    tab.wait_for_function("document.querySelector('.item-card img').naturalWidth > 100")
    tab.keyboard.press("Escape")
    tab.goto(f"{start}chapters/03_ridge.html")
    tab.locator('article a[href$="#fig-03-decades"]:visible').first.tap()
    tab.wait_for_url("**/chapters/03_ridge.html#fig-03-decades")
    context.close()
    assert not faults
