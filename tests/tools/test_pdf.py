"""The printed book: cover, contents with page numbers, running heads, and nothing lost, folded or cut."""

import json
import re
import unicodedata
from pathlib import Path

import pikepdf
import print_book
import pypdf
import pytest
from check_pages import find_chromium

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed")

ROOT = Path(__file__).parents[2]
PAGE = """<!doctype html><html data-theme="dark"><head><title>x</title>
<link rel="stylesheet" href="../_static/a.css"><link rel="stylesheet" href="../_static/book.css"></head>
<body><nav>site only</nav>
<article class="bd-article"><section id="{id}"><h1>{title}<a class="headerlink" href="#{id}">#</a></h1>
{body}</section></article></body></html>"""
LONG = "<p>" + "</p><p>".join(f"Paragraph {k} fills the page." for k in range(150)) + "</p>"
# Some of these headings do not fit at the end of their page and move to the next.
HEADINGS = "".join(f"<h2>A heading {k}</h2>" + "<p>A paragraph.</p>" * 5 for k in range(24))
FIGURE = """<div class="cell_output"><figure><img alt="A square." loading="lazy" src="../_images/a.svg"><figcaption>
<span class="caption-number">Fig. 1.{} </span>The square.</figcaption></figure></div>"""
FIRST = (
    LONG
    + """<p id="same">First same.</p><p><a href="#same">near</a> <a href="../book/c.html#same">far</a>
<a href="02_b.html">next</a> <a href="../genindex.html">index</a> <a href="https://elsewhere.example/">out</a></p>
<details class="hide"><summary>Show code</summary><pre>folded = 1</pre></details>
<details class="fold fold-proofs"><summary>Proof</summary><p>A proof step.</p>
<details class="fold fold-none"><summary>Table</summary><p>A long table.</p></details></details>
<details class="provenance"><summary>Provenance</summary><p>A commit.</p></details>
<details class="dropdown"><summary>Solution</summary><p>The solution.</p></details>
<div class="cell_input"><div class="highlight"><pre>"""
    + "wide_name_" * 30
    + """</pre></div></div>
<table><tr>"""
    + "<td>unbreakable</td>" * 20
    + "</tr></table>"
)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Make a site of three pages, in two parts, whose second chapter ran at full scale."""
    root = tmp_path_factory.mktemp("book")
    entries = ["file: chapters/02_b, title: '2 · The second: \"B\" & more'", "file: book/c"]
    files = {
        "_config.yml": "title: A Book\nauthor: The authors\n",
        "_toc.yml": "root: chapters/01_a\nparts:\n"
        + "".join(f"- caption: Part {k}\n  chapters: [{{{entry}}}]\n" for k, entry in enumerate(entries, 1)),
        "CITATION.cff": "version: 1.2.3\npreferred-citation:\n  title: The Paper\n  year: 2025\n"
        "  authors: [{given-names: Ada, family-names: Author}]\n",
        "chapters/.runs/01_a.json": json.dumps({"scale": "quick"}),
        "chapters/.runs/02_b.json": json.dumps({"scale": "full"}),
        "_build/html/_static/book.css": "".join(
            (ROOT / "book" / "_static" / name).read_text(encoding="utf-8") for name in ("book.css", "reading.css")
        ),
        "_build/html/_static/a.css": ".bd-article :is(.highlight, pre) { break-inside: avoid; overflow: auto }"
        ".highlight { display: flex; flex-direction: column }",
        "_build/html/_images/a.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="2000" height="2000">'
        '<rect width="2000" height="2000" fill="red"/></svg>',
    }
    pages = {
        "chapters/01_a": ("first", "The first", FIRST + "".join(map(FIGURE.format, (1, 2, 3)))),
        "chapters/02_b": (
            "second",
            "Not this title",
            FIGURE.format(5) + "<div class='highlight'><pre>" + "code\n" * 200 + "</pre></div>",
        ),
        "book/c": ("third", "The third", '<p id="same">Third same.</p><button>Press</button>' + HEADINGS),
    }
    for name, (key, title, body) in pages.items():
        files[f"_build/html/{name}.html"] = PAGE.format(id=key, title=title, body=body)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def html(book):
    """The page that is printed."""
    return print_book.compose(book, book / "_build" / "html")


@pytest.fixture(scope="module")
def pdf(book, html):
    """Print the small book."""
    target = book / "book.pdf"
    assert print_book.print_pages(book / "_build" / "html", html, target) == []
    return target


def read_pages(path):
    """The words of each page; some fonts draw "fi" as one letter."""
    return [
        " ".join(unicodedata.normalize("NFKC", page.extract_text()).split()) for page in pypdf.PdfReader(path).pages
    ]


@pytest.fixture(scope="module")
def pages(pdf):
    """The words of each printed page."""
    return read_pages(pdf)


def test_the_cover_says_what_this_copy_is(pages):
    cover = pages[0]
    assert cover.startswith("A Book The authors The reproducible companion to the paper The Paper by Ada Author (2025)")
    assert "Version 1.2.3 Commit not known Printed " in cover
    assert "Depth Everything: " in cover
    # Figure 1.5 is of a chapter at full scale.
    assert "Computed at quick scale, that of a laptop: 1.1–1.3." in cover


def test_the_contents_give_the_pages_on_which_the_chapters_begin(pages, pdf):
    lines = re.findall(r"(The first|2 · The second: \"B\" & more|The third) (\d+)", pages[1])
    starts = [
        next(k for k, text in enumerate(pages, 1) if re.search(rf" \d+ {re.escape(title)}\b", text) and k > 2)
        for title, _ in lines
    ]
    assert len(lines) == 3
    assert [int(number) for _, number in lines] == starts
    assert starts[0] == 3
    assert starts[1] > 6
    assert re.search(r"Contents The first \d+ Part 1 2 .* Part 2 The third", pages[1])
    places = print_book.destinations(pikepdf.open(pdf))
    assert [places[f"page-{name}"] for name in ("chapters-01_a", "chapters-02_b", "book-c")] == starts


def test_every_page_but_the_cover_has_its_heads_and_number(pages):
    for number, text in enumerate(pages[1:], 2):
        assert re.match(rf'A Book (Contents|The first|2 · The second: "B" & more|The third) {number} ', text + " ")


def test_nothing_is_lost_and_what_only_the_site_has_is_not_there(pages):
    text = " ".join(pages[2:])
    assert [int(k) for k in re.findall(r"Paragraph (\d+) fills the page", text)] == list(range(150))
    for word in ("folded = 1", "A proof step.", "A long table.", "A commit.", "The solution."):
        assert word in text
    assert text.replace(" ", "").count("wide_name_") == 30
    assert text.count("unbreakable") == 20
    assert len(re.findall(r"\bcode\b", text)) == 200
    for word in ("Press", "site only", "#", "Not this title", "Show code"):
        assert word not in text


def test_long_code_begins_where_there_is_room(pages):
    assert re.search(r"Fig\. 1\.5 The square\. code code", " ".join(pages))


def test_links_lead_within_the_print_or_out_and_the_outline_names_the_chapters(html, pdf):
    links = dict(re.findall(r'<a href="([^"]*)">(near|far|next|out)</a>', html))
    assert links == {
        "#same": "near",
        "#page-book-c--same": "far",
        "#page-chapters-02_b": "next",
        "https://elsewhere.example/": "out",
    }
    assert " index " in html
    assert len(re.findall(r'id="same"', html)) == 1
    marks = [mark.get_object() for page in pypdf.PdfReader(pdf).pages for mark in page.get("/Annots", [])]
    assert [mark["/A"]["/URI"] for mark in marks if "/A" in mark] == ["https://elsewhere.example/"]
    with pikepdf.open(pdf) as printed, printed.open_outline() as outline:
        assert {"same", "page-book-c--same"} <= print_book.destinations(printed).keys()
        titles = [entry.title for entry in print_book.entries(outline.root)]
    heads = [f"A heading {k}" for k in range(24)]
    assert titles == ["Contents", "The first", '2 · The second: "B" & more', "The third", *heads]


SHOWN = {
    "read": {"The solution."},
    "code": {"The solution.", "folded = 1"},
    "proofs": {"The solution.", "A proof step."},
    "all": {"The solution.", "folded = 1", "A proof step.", "A long table.", "A commit."},
}


@pytest.mark.parametrize("depth", SHOWN)
def test_each_depth_opens_what_the_switch_of_the_site_opens(book, tmp_path, depth):
    site, target = book / "_build" / "html", tmp_path / "book.pdf"
    assert print_book.print_pages(site, print_book.compose(book, site, depth), target, depth) == []
    text = " ".join(read_pages(target))
    assert {word for word in SHOWN["all"] if word in text} == SHOWN[depth]
    assert "Provenance" not in text or depth == "all"
    assert f"Depth {print_book.SHOWN[depth][:20]}" in text


def test_what_is_folded_or_cut_is_named(book, tmp_path):
    body = (
        "<style>.bd-article { display: block; width: 174mm; margin: 0 }</style>"
        "<pre hidden>unseen = 1</pre><p style='width: 900px'>Too wide.</p><p style='width: 90px'>Narrow.</p>"
        f"<pre>{'code ' * 200}</pre>"
    )
    html = f'<!doctype html><link rel="icon" href="data:,"><body style="margin: 0"><div class="bd-article">{body}</div>'
    lost = print_book.print_pages(book / "_build" / "html", html, tmp_path / "lost.pdf")
    assert lost == [
        "folded: unseen = 1",
        "wider than the page: p.: Too wide.",
        f"wider than the page: pre.kept: {'code ' * 12}",
    ]


def test_faults_end_the_command_and_leave_no_new_pdf(book, monkeypatch):
    monkeypatch.setattr(print_book, "ROOT", book)
    target = book / "_build" / "book.pdf"
    target.write_text("the one before")
    monkeypatch.setattr(print_book, "print_pages", lambda site, html, target, depth: ["folded: unseen = 1"])
    with pytest.raises(SystemExit, match=r"^error: folded: unseen = 1$"):
        print_book.main([])
    (book / "_build" / "html" / "book" / "c.html").rename(book / "c.html")
    with pytest.raises(SystemExit, match=r"^error: the site lacks book/c\.html; run 'make book' first$"):
        print_book.main([])
    (book / "c.html").rename(book / "_build" / "html" / "book" / "c.html")
    monkeypatch.setattr(print_book, "find_chromium", lambda: None)
    with pytest.raises(SystemExit, match="printing needs Chromium"):
        print_book.main([])
    assert target.read_text() == "the one before"
