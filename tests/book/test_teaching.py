"""The classroom: slides show what the notebooks computed and need no network; the guide repeats the chapters."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import build_slides
import pytest
import yaml
from build_slides import SlideError, find_decks, no_number, read_deck, read_results, render_deck
from check_pages import CHROMIUM_FLAGS, FORMULA_FAULTS, check_files, find_chromium, find_pages, served
from notebook_texts import NUMBER, put_numbers

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "book" / "_ext"))
import book_teaching  # noqa: E402

SOURCES = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "notebooks").glob("[!.]*.md")}
DECKS = find_decks(ROOT)
GUIDE = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
browser = pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def notebook(folder, name, figures=(), numbers=()):
    """Write an executed notebook that has these figures and numbers."""
    cells = [{"cell_type": "markdown", "metadata": {}}]
    for figure, mime, content in figures:
        shown = {"figure": {"name": figure}, "image": {"alt": 'A "line"\n of <text>.'}}
        cells.append({"metadata": {"mystnb": shown}, "outputs": [{"data": {mime: content}, "metadata": {}}]})
    for number, value in numbers:
        glued = {"scrapbook": {"name": number, "mime_prefix": "x/"}}
        cells.append({"metadata": {}, "outputs": [{"data": {"x/text/plain": repr(value)}, "metadata": glued}]})
    (folder / "chapters" / ".runs").mkdir(parents=True, exist_ok=True)
    (folder / "chapters" / f"{name}.ipynb").write_text(json.dumps({"cells": cells}))
    (folder / "chapters" / ".runs" / f"{name}.json").write_text('{"scale": "full"}')


def panels(rows, columns=2):
    """A figure as Matplotlib writes it: rows of 60 points with 40 between them, a legend above and labels below."""
    tops = [50 + 100 * (k // columns) for k in range(rows * columns)]
    axes = "".join(
        f'<g id="axes_{k}">\n<g id="patch_{k}">\n<path d="M 9 {y + 60} L 90 {y + 60} L 90 {y} L 9 {y} z"/></g></g>'
        for k, y in enumerate(tops, 1)
    )
    size = f'width="200pt" height="{100 * rows + 50}pt" viewBox="0 0 200 {100 * rows + 50}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} version="1.1">{axes}</svg>'


@pytest.fixture
def book(tmp_path):
    """A book whose chapters hold a stand-in for every figure and number that the real decks name."""
    decks = "\n".join(path.read_text(encoding="utf-8") for path in DECKS)
    rows = {name: int(n) for n, name in re.findall(r"^!\[\d/(\d)[^\]]*\]\((.*)\)$", decks, re.M)}
    used = [found for path in DECKS for found in NUMBER.findall(path.read_text(encoding="utf-8"))]
    names, formatted = {name for name, _ in used}, {name for name, form in used if form}
    for stem, text in SOURCES.items():
        named = re.findall(r"name: (fig-[\w-]+)", text)
        figures = [
            (name, "image/svg+xml", panels(rows[name])) if name in rows else (name, "image/png", PIXEL)
            for name in named
        ]
        known = [name for name in names if re.search(rf"""["']{re.escape(name)}["']""", text)]
        notebook(tmp_path, stem, figures, [(name, 12.5 if name in formatted else "12") for name in known])
    (tmp_path / "slides").symlink_to(ROOT / "slides")
    (tmp_path / "_config.yml").write_text((ROOT / "_config.yml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "handout.md").symlink_to(ROOT / "book" / "handout.md")
    return tmp_path


def executed():
    """Tell whether every figure and number of the decks has been computed on this machine."""
    figures, numbers = read_results(ROOT)
    text = "".join("\n".join(read_deck(path)[1]) for path in DECKS)
    wanted = set(re.findall(r"^!\[[^\]]*\]\((fig-[\w-]+)\)$", text, re.M))
    return wanted <= figures.keys() and {name for name, _ in NUMBER.findall(text)} <= numbers.keys()


# Slides


HEADER = {"title": "x", "subtitle": "y", "minutes": 5}


def render(text, figures, numbers=()):
    """The section of one slide, and the figures it shows."""
    page, shown = render_deck(HEADER, [text], (figures, dict(numbers)), {"macros": {}, "mathjax": "x", "site": "../"})
    return re.search(r'<section id=".*</section>', page, re.S)[0], shown


def test_the_decks_name_only_what_the_chapters_compute_and_link_only_pages_there_are(book):
    assert build_slides.build(book, book / "made", "../html/") == len(DECKS) >= 8
    for path in DECKS:
        for folder, name in re.findall(r"\]\((chapters|book)/(\w+)\)", path.read_text(encoding="utf-8")):
            assert name in SOURCES if folder == "chapters" else (ROOT / folder / f"{name}.md").is_file()


def test_the_decks_need_no_other_server_and_every_figure_has_its_text(book):
    made = book / "made"
    build_slides.build(book, made, "../")
    names = find_pages(made)
    assert len(names) == len(DECKS) + 1
    faults = [fault for fault in check_files(made, names) if "broken link ../" not in fault]
    assert not faults
    assert "free of charge" in (made / "reveal" / "LICENSE").read_text(encoding="utf-8")
    assert not (made / "mathjax").exists()


def test_every_deck_has_notes_and_no_typed_results():
    for path in DECKS:
        header, slides = read_deck(path)
        assert 5 <= header["minutes"] <= 90
        for text in slides:
            assert text.startswith("## "), text[:60]
            assert "\nNote:\n" in text, text[:60]
            # A measured number would be a decimal in the text; it has to be glued, and items of the paper are none.
            shown = re.sub(r"```.*?```|\$[^$]*\$|`[^`]*`|[A-Z]\w+ \d\.\d", "", text.partition("\nNote:")[0], flags=re.S)
            assert not re.search(r"\d\.\d", shown), shown


def minutes_of(slides):
    """Minutes of the rows of a deck's plan, and those that its speaker's notes begin with."""
    text = "\n".join(slides)
    patterns = r"^\| (\d+) \| ", r"^Note:\n(\d+) minutes?[.:] "
    return [[int(number) for number in re.findall(pattern, text, re.M)] for pattern in patterns]


@pytest.mark.parametrize("path", DECKS, ids=lambda path: path.stem)
def test_the_times_of_a_deck_add_up(path):
    header, slides = read_deck(path)
    plan, notes = minutes_of(slides)
    assert sum(notes) == header["minutes"]
    assert not plan or sum(plan) == header["minutes"]
    # The plan and the closing slide take no time of their own.
    assert len(slides) - 2 <= len(notes)


def test_missing_figures_numbers_and_headers_are_named(book, tmp_path):
    with pytest.raises(SlideError, match="fig-none"):
        render("## A\n\n![](fig-none)", {})
    with pytest.raises(SlideError, match="no-number"):
        render("## A\n\n{glue:text}`no-number:.1f`", {})
    (tmp_path / "bad.md").write_text("---\ntitle: x\n---\n## A\n")
    with pytest.raises(SlideError, match=r"bad\.md needs a header"):
        read_deck(tmp_path / "bad.md")
    (book / "chapters" / "01_rounding.ipynb").write_text('{"cells": []}')
    with pytest.raises(SlideError, match=r"1_foundations\.md: no executed notebook has the figure"):
        build_slides.build(book, tmp_path / "made", "../")


def test_a_slide_becomes_what_it_should(tmp_path):
    notebook(tmp_path, "03_x", [("fig-a", "image/svg+xml", ["<svg", "/>"])], [("share", 0.125), ("word", "7 × 10⁸")])
    # A copy without a record was made by hand.
    made = (tmp_path / "chapters" / "03_x.ipynb").read_text()
    (tmp_path / "chapters" / "04_y.ipynb").write_text(made.replace("0.125", "0.5"))
    figures, numbers = read_results(tmp_path)
    assert figures["fig-a"] == ("03_x", "notebook at full scale", 'A "line" of <text>.', "svg", b"<svg/>")
    assert put_numbers("{glue:text}`share:.1%`, {glue:text}`word`", numbers, no_number) == "12.5%, 7 × 10⁸"
    text = "## Head\n\nWords $a<b$ and [ch](chapters/03_x).\n\n![](fig-a)\n\nAnswer: yes.\nNote:\nSay *it*."
    section, shown = render(text, figures)
    assert shown == {"fig-a.svg": b"<svg/>"}
    for part in (
        '<section id="head"><h2>Head</h2>',
        r"\(a&lt;b\)",
        '<a href="../chapters/03_x.html">ch</a>',
        'alt="A &#34;line&#34; of &lt;text&gt;."',
        '<a href="../chapters/03_x.html#fig-a">Chapter 3</a>, notebook at full scale',
        '<p class="fragment"><strong>Answer.</strong> yes.</p>',
        '<aside class="notes"><p>Say <em>it</em>.</p>',
        '<div class="split">',
    ):
        assert part in section, part


def test_a_slide_can_show_one_row_of_a_tall_figure():
    """With the legend above all rows and the labels below all, and nothing of the rows beside it."""
    figures = {"fig-a": ("10_x", "recorded runs", "Three rows.", "svg", panels(3).encode())}
    for row, (top, bottom) in enumerate([(30, 130), (130, 230), (230, 330)], 1):
        section, shown = render(f"## Head\n\n![{row}/3](fig-a)", figures)
        assert f'src="figures/fig-a-{row}.svg" alt="Part {row} of 3. Three rows."' in section
        assert "Chapter 10</a>, recorded runs" in section
        (content,) = shown.values()
        tree = ElementTree.fromstring(content)
        assert tree.get("viewBox") == "0 0 200 150" and content.count(b'id="axes_1"') == 1
        bands = [(part.get("viewBox"), part.get("y")) for part in tree.iterfind("{*}svg")]
        assert bands == [("0 0 200 30", "0"), (f"0 {top} 200 {bottom - top}", "30"), ("0 330 200 20", "130")]
    with pytest.raises(SlideError, match="a row of the figure 'fig-a': it has 3 rows of panels, not 5"):
        render("## Head\n\n![1/5](fig-a)", figures)
    figures["fig-a"] = (*figures["fig-a"][:4], b"PNG")
    with pytest.raises(SlideError, match="a row of the figure 'fig-a': Start tag expected"):
        render("## Head\n\n![1/5](fig-a)", figures)


def test_a_picture_stands_beside_the_words_or_below_them_or_alone():
    figures = {"fig-a": ("10_x", "recorded runs", "A figure.", "svg", panels(2).encode())}
    image = '<img src="figures/fig-a.svg"'
    for text, layout in (("Words.\n\n![](fig-a)", "split"), ("![below](fig-a)\n\nWords.", "stack")):
        section = " ".join(render(f"## Head\n\n{text}", figures)[0].split())
        assert f'<div class="{layout}"><div><p>Words.</p></div><figure>{image}' in section
    assert '<div class="' not in render("## Head\n\n![](fig-a)", figures)[0]
    section, shown = render("## Head\n\n![1/2 below](fig-a)\n\nWords.", figures)
    assert '<div class="stack">' in section and shown.keys() == {"fig-a-1.svg"}


def test_a_deck_borrows_slides_of_others(tmp_path):
    head = "---\ntitle: x\nsubtitle: y\nminutes: 5\n---\n"
    (tmp_path / "a.md").write_text(
        f"{head}## One\n\nWords.\n\nNote:\n2 minutes. Old.\n---\n## One more\n\nNote:\n3 minutes.\n"
    )
    (tmp_path / "b.md").write_text(
        f"{head}Slide: a: One\n---\nSlide: a: One\n\nNote:\n1 minute. New.\n---\nSlide: a: One more\n"
    )
    borrowed = read_deck(tmp_path / "b.md")[1]
    assert borrowed == [
        "## One\n\nWords.\n\nNote:\n2 minutes. Old.",
        "## One\n\nWords.\n\nNote:\n1 minute. New.",
        "## One more\n\nNote:\n3 minutes.",
    ]
    (tmp_path / "b.md").write_text(f"{head}Slide: a: Two\n")
    with pytest.raises(SlideError, match=r"slides/b\.md borrows a slide that slides/a\.md does not have: 'Two'"):
        read_deck(tmp_path / "b.md")


def test_right_answers_do_not_all_stand_at_one_place():
    for name, source in SOURCES.items():
        questions = re.findall(r"^```\{question\}.*?^```", source, re.M | re.S)
        places = [re.findall(r"^(right|wrong):", text, re.M).index("right") for text in questions]
        assert len(places) < 3 or len(set(places)) > 1, f"{name}: {places}"


def test_a_figure_of_recorded_runs_is_called_so(tmp_path):
    """What the page's notebook ran at quick scale says nothing of runs that it only reads."""
    notebook(tmp_path, "09_x", [("fig-a", "image/png", PIXEL), ("fig-b", "image/png", PIXEL)])
    record = {"scale": "quick", "figures": {"1": {"runs": [{"folder": "book/results/x"}]}, "2": {"numpy": "0"}}}
    (tmp_path / "chapters" / ".runs" / "09_x.json").write_text(json.dumps(record))
    figures, _ = read_results(tmp_path)
    assert [figures[name][1] for name in ("fig-a", "fig-b")] == ["recorded runs", "notebook at quick scale"]


@browser
def test_the_handout_is_one_sheet(book):
    from playwright.sync_api import sync_playwright

    build_slides.build(book, book / "made", "../html/")
    with served(book / "made") as origin, sync_playwright() as playwright:
        window = playwright.chromium.launch(
            executable_path=find_chromium(), args=CHROMIUM_FLAGS, chromium_sandbox=False
        )
        tab = window.new_page()
        tab.goto(f"{origin}handout.html")
        tab.evaluate("() => MathJax.startup.promise")
        assert tab.locator(FORMULA_FAULTS).count() == 0 and tab.locator("mjx-container").count() > 20
        printed = tab.pdf(prefer_css_page_size=True)
        window.close()
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1


def test_the_command_says_what_is_missing(monkeypatch, tmp_path):
    (tmp_path / "slides").symlink_to(ROOT / "slides")
    (tmp_path / "_config.yml").write_text((ROOT / "_config.yml").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(build_slides, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"^error: 0_start\.md: no executed notebook"):
        build_slides.main()


OVERFLOW = """() => Reveal.getSlides().flatMap((slide, i) => {
  Reveal.slide(i, 0, 99);
  const box = slide.getBoundingClientRect(), n = document.querySelector(".slide-number").getBoundingClientRect();
  const over = [...slide.querySelectorAll("*")].filter(e => !e.closest("aside") && !e.closest("mjx-container"))
    .map(e => e.getBoundingClientRect())
    .filter(r => r.width && (r.bottom > box.bottom + 1 || r.right > box.right + 1 || r.top < box.top - 1
      || (r.bottom > n.top && r.top < n.bottom && r.left < n.right && r.right > n.left)));
  return over.length ? [i] : [];
})"""


@browser
def test_real_decks_in_the_browser(tmp_path):
    """Slides fit, formulas are set, no script fails, nothing is fetched, and paper gets a page a slide."""
    if not executed():
        pytest.skip("the notebooks that the slides draw on have not been run: make slides")
    from playwright.sync_api import sync_playwright

    build_slides.build(ROOT, tmp_path, "../html/")
    names, faults = [name for name in find_pages(tmp_path) if name != "handout.html"], []
    with served(tmp_path) as origin, sync_playwright() as playwright:
        driver = playwright.chromium
        window = driver.launch(executable_path=find_chromium(), args=CHROMIUM_FLAGS, chromium_sandbox=False)
        tab = window.new_page(viewport={"width": 1280, "height": 720})
        tab.on("pageerror", lambda error: faults.append(error.message))
        tab.on("console", lambda message: message.type == "error" and faults.append(message.text))
        tab.on("request", lambda request: request.url.startswith((origin, "data:")) or faults.append(request.url))
        for name in names:
            tab.goto(origin + name)
            tab.evaluate("() => MathJax.startup.promise")
            assert tab.evaluate("() => [...document.images].every(i => i.complete && i.naturalWidth > 0)"), name
            assert tab.locator(FORMULA_FAULTS).count() == 0 and tab.locator("mjx-container").count() > 0, name
            assert tab.evaluate(OVERFLOW) == [], name
            names_of_slides = tab.evaluate("() => Reveal.getSlides().slice(1).map(slide => slide.id)")
            assert all(names_of_slides) and len(set(names_of_slides)) == len(names_of_slides), name
            tab.goto(f"{origin}{name}#{names_of_slides[2]}")
            tab.reload()
            assert tab.evaluate("() => Reveal.getCurrentSlide().id") == names_of_slides[2]
        tab.goto(f"{origin}{names[0]}?print-pdf")
        tab.wait_for_selector(".pdf-page")
        assert tab.locator(".pdf-page").count() == 1 + len(read_deck(DECKS[0])[1])
        window.close()
    assert not faults


# The guide


SOLUTION = re.compile(
    r"^(`{3,})\{solution(-start)?\} (\S+)\n:class: dropdown\n(.*?)(?(2)^`{3,}\{solution-end\}$|^\1$)", re.M | re.S
)


def solutions(text):
    """Solutions that are folded, by the label of their exercise."""
    return {label: body for _, _, label, body in SOLUTION.findall(text)}


def sections(text):
    """Sections of a page by heading."""
    parts = re.split(r"^## (.+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def test_the_guide_knows_every_chapter():
    """No notebook without a row: in the tables that are made, and in those that are written."""
    listed = book_teaching.listed_chapters(ROOT)
    assert sorted(listed) == sorted(SOURCES) and len(listed) >= 18
    guide, decks = sections(GUIDE), book_teaching.read_decks(ROOT)
    for name in listed:
        assert f"</chapters/{name}>" in guide["What students need"], name
        assert f"</chapters/{name}>" in guide["Common misconceptions"], name
        assert book_teaching.decks_of(name, decks), name
    assert set(re.findall(r"</chapters/(\w+)>", GUIDE)) <= set(listed)


def test_goals_and_exercises_come_from_the_chapters():
    for name in book_teaching.listed_chapters(ROOT):
        title, goals, exercises = book_teaching.read_chapter(SOURCES[name])
        assert title and goals.count("\n- ") + goals.startswith("- ") >= 2, name
        assert exercises and all(label.startswith("ex-") for _, label in exercises), name
    text = "---\nk: v\n---\n\n# T\n\nAfter this chapter you can\n\n- see {doc}`03_ridge`,\n- and [x](#y).\n\nMore\n"
    assert book_teaching.read_chapter(text)[1] == "- see {doc}`/chapters/03_ridge`,\n- and x.\n"


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_every_exercise_has_a_folded_solution_and_some_check_themselves(name):
    exercises = {label for _, label in book_teaching.read_chapter(SOURCES[name])[2]}
    found = solutions(SOURCES[name])
    assert found.keys() == exercises
    cells = [cell for text in found.values() for cell in re.findall(r"^```\{code-cell\}.*?^```$", text, re.M | re.S)]
    assert any("assert " in cell for cell in cells)


def test_an_exercise_without_its_folded_solution_is_found():
    text = "```{solution} ex-a\n:class: dropdown\n\nSo.\n```\n"
    assert solutions(text) == {"ex-a": "\nSo.\n"}
    assert solutions(text.replace(":class: dropdown\n", "")) == solutions(text.replace("{solution} ex-a", "x")) == {}


def cell(kind, source, tags=(), **data):
    """A cell of an executed notebook."""
    return {"cell_type": kind, "source": source, "metadata": {"tags": list(tags)}, "outputs": [{"data": data}]}


def test_reading_times_are_counted_up_to_the_exercises():
    words, figure = cell("markdown", "word " * 1000), cell("code", "plot()", ["hide-input"], **{"image/png": ""})
    assert book_teaching.reading_minutes([words]) == 10
    assert book_teaching.reading_minutes([words] * 2) == 20
    assert book_teaching.reading_minutes([words, cell("code", "x = 1\n" * 75)]) == 15
    assert book_teaching.reading_minutes([figure] * 5) == 10
    table = cell("code", "", ["hide-input"], **{"text/html": "<table>"})
    assert book_teaching.reading_minutes([table] * 5) == 5
    assert book_teaching.reading_minutes([cell("code", "", **{"text/markdown": "word " * 500})]) == 5
    assert book_teaching.reading_minutes([cell("markdown", "$$\na b c\n$$\n" * 5)]) == 5
    assert book_teaching.reading_minutes([cell("code", "", ["remove-cell"], **{"image/png": ""})] * 9) == 0
    assert book_teaching.reading_minutes([cell("markdown", "## Exercises\n" + "word " * 900), words]) == 0


def test_the_guide_states_the_rates_that_the_times_use():
    pace = book_teaching.PACE
    stated = f"{1 / pace['word']:.0f} words a minute, {1 / pace['line']:.0f} lines of shown code a minute"
    assert stated in GUIDE and (pace["formula"], pace["table"], pace["figure"]) == (1, 1, 2)
    assert "a minute for a displayed formula or a table, and two for a figure" in GUIDE


def test_the_guide_links_slides_that_there_are():
    named = re.findall(r"\{rrl-slide\}`([^`]+) <(\w+)\.html#([\w-]+)>`", GUIDE)
    assert len(named) == GUIDE.count("{rrl-slide}") >= 12
    for heading, stem, anchor in named:
        slides = read_deck(ROOT / "slides" / f"{stem}.md")[1]
        assert sum(slide.startswith(f"## {heading}\n") for slide in slides) == 1, heading
        assert anchor == build_slides.slide_id(heading)


def test_the_guide_has_what_a_lecturer_looks_for():
    found = sections(GUIDE)
    assert {
        "In ten minutes",
        "A 90-minute session for tomorrow",
        "Slides",
        "Plans",
        "Graded assignments",
    } <= found.keys()
    for plan in ("One session", "Three sessions", "Six sessions"):
        assert f"**{plan}.**" in found["Plans"]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| ", found["A 90-minute session for tomorrow"], re.M)
    starts, minutes = ([int(row[k]) for row in rows] for k in (0, 1))
    assert sum(minutes) == 90 and starts == [sum(minutes[:k]) for k in range(len(rows))]
    questions = GUIDE.count("```{admonition}")
    assert questions >= 14 and GUIDE.count(":class: dropdown") == questions
    titles = {read_deck(path)[0]["title"] for path in DECKS}
    for title in re.findall(r"deck \*([^*]+)\*", GUIDE):
        assert title in titles, title
    assert all(f"*{title}*" in GUIDE for title in titles)


def test_the_citation_is_that_of_the_file():
    record = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    text = re.search(r"```bibtex\n(.*?)```", (ROOT / "book" / "cite.md").read_text(encoding="utf-8"), re.S)[1]
    assert f"@software{{rrl{record['version'].replace('.', '')}," in text and record["title"] in text
    assert [str(record["preferred-citation"]["year"]), str(record["date-released"])[:4]] == re.findall(
        r"year = {(.*)}", text
    )
    for author in record["preferred-citation"]["authors"]:
        assert f"{author['family-names']}, {author['given-names']}" in text
    assert record["preferred-citation"]["title"] in text and f"version = {{{record['version']}}}" in text
    assert f"url = {{{record['preferred-citation']['url']}}}" in text
    assert text.count("{") == text.count("}")


def test_the_start_page_shows_the_paper_as_the_files_have_it():
    record, start = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8")), (ROOT / "index.md").read_text()
    paper = record["preferred-citation"]
    names = ", ".join(f"{who['given-names']} {who['family-names']}" for who in paper["authors"])
    assert f'paper-title">{paper["title"]}<' in start and f'paper-authors">{names}, {paper["year"]}<' in start
    links = re.findall(r'href="(https://arxiv[^"]*)"', start)
    assert links == [paper["url"], paper["url"].replace("/abs/", "/pdf/")]
    assert f">arXiv {links[0].rpartition('/')[2]}<" in start and f"This book, version {record['version']}<" in start
    entry = re.search(r"^@unpublished\{.*?^\}", (ROOT / "book" / "cite.md").read_text(), re.M | re.S)[0]
    assert f">{entry}</pre>" in start


def test_the_changelog_is_in_its_form():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.+)$", text, re.M)
    assert versions[0] == "Unreleased" or re.match(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)$", versions[0])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.M)) <= kinds
