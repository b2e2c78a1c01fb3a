"""The built site in a browser: navigation, search, downloads, dark mode, print, access; no request leaves it.

Needs Chromium and `make book`; the continuous integration has both.
"""

import gzip
import json
import os
import re
import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import book_pages
import jupytext
import pytest
import rrl_book
from check_pages import FORMULA_FAULTS, find_chromium, find_pages, is_redirect, served
from notebook_texts import read_run
from sphinx_book_theme.header_buttons import launch

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("BOOK_SITE", ROOT / "_build" / "html"))
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("[!.]*.md"))
# A site from before this page existed says nothing of the sources as they are.
BUILT = find_chromium() and (SITE / "_sources" / "notebooks").is_dir()
PAGES = [name for name in find_pages(SITE) if not is_redirect(SITE / name)] if BUILT else []
site = pytest.mark.skipif(not BUILT, reason="needs Chromium and a built site")
# Cells whose code is on no page.
HIDDEN = {"remove-cell", "remove-input"}
DEFAULT_URL = "https://github.com/executablebooks/jupyter-book"
RECORD = {
    "scale": "quick",
    "parameters": {"scale": "quick", "steps": None},
    "commit": "0123456789+",
    "seconds": 12.4,
    "finished": "2026-01-02T03:04:05+00:00",
    "python": "3.11.7",
}


# What the pages are made to say


def words(html):
    """The text of some HTML."""
    return " ".join(re.sub("<[^>]+>", " ", html).split())


RUN = {"folder": "book/results/a", "count": 3, "data": ["standin"], "scale": ["full"], "seeds": "0–2"}
RUN |= {"commits": ["aaaaaaaaaa", "bbbbbbbbbb+"], "seconds": 7200, "command": "rrl run a --scale full"}


def test_provenance_comes_from_the_record():
    origin = {"numpy": "0–59", "shared": "13", "runs": [RUN], "files": ["rrl/datasets/data/x.npz"]}
    shown = words(book_pages.provenance("03_ridge", RECORD, origin))
    for part in (
        "Provenance of this figure (rests on recorded runs)",
        "notebooks/03_ridge.md",
        "steps=None",
        "3 records in book/results/a (data standin, scale full, seeds 0–2, commit aaaaaaaaaa , bbbbbbbbbb+",
        "bbbbbbbbbb+ (+: with changes not yet committed),",
        "2.0 h by the clock, rrl run a --scale full ); rrl/datasets/data/x.npz",
        "Seeds of NumPy's generators: 0–59; of the shared randomness: 13",
        "0123456789 , with changes not yet committed",
        "12 s for the notebook, 2026-01-02",
        "make notebook NAME=03",
    ):
        assert part in shown, (part, shown)
    assert "SCALE" not in shown


def test_provenance_says_what_was_not_used_and_what_is_not_known():
    exact = words(book_pages.provenance("03_ridge", RECORD, {}))
    assert "(quick scale)" in exact and "no file was read" in exact and "nothing random was drawn" in exact
    full = words(book_pages.provenance("03_ridge", RECORD | {"scale": "full", "commit": None}, None))
    assert "NAME=03 SCALE=full" in full and full.count("not recorded") == 3 and "(full scale)" in full


@pytest.mark.parametrize(
    ("scale", "overrides", "command"),
    [
        ("quick", {}, "make notebook NAME=09"),
        ("full", {"scale": "full"}, "make notebook NAME=09 SCALE=full"),
        ("quick", {"game": "asterix"}, ".venv/bin/python tools/run_notebooks.py 09 -p game=asterix"),
        (
            "full",
            {"scale": "full", "a": [1], "b": "x y"},
            ".venv/bin/python tools/run_notebooks.py 09 --scale full -p 'a=[1]' -p 'b=x y'",
        ),
    ],
)
def test_the_command_repeats_the_run_with_its_parameters(scale, overrides, command):
    assert book_pages.repeat_command("09_cartpole", {"scale": scale, "overrides": overrides}) == command
    job = book_pages.shlex.split(command)
    assert [word for word in job if word.startswith(("a=", "b=", "game="))] == [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in overrides.items()
        if key != "scale"
    ]


def test_the_banner_of_a_quick_page_refers_to_the_figures_of_recorded_runs():
    line = book_pages.banner("09_cartpole", RECORD, ["fig-09-one", "fig-09-two"])
    assert line.astext().startswith("Computed in 12 s on a laptop (quick scale). Full scale: make notebook NAME=09")
    assert "make notebook NAME=09 SCALE=full" in line.astext()
    targets = [node["reftarget"] for node in line.findall(book_pages.addnodes.pending_xref)]
    assert targets == ["fig-09-one", "fig-09-two"]
    assert "recorded" not in book_pages.banner("03_ridge", RECORD, []).astext()


def test_the_runner_s_records_are_read_for_chapters_only(tmp_path):
    (tmp_path / "chapters" / ".runs").mkdir(parents=True)
    (tmp_path / "chapters" / ".runs" / "03_ridge.json").write_text(json.dumps(RECORD))
    assert read_run(tmp_path, "chapters/03_ridge") == RECORD
    assert read_run(tmp_path, "book/03_ridge") is None
    assert read_run(tmp_path, "chapters/04_core_sets") is None


@pytest.mark.parametrize(
    ("label", "kind", "name"),
    [
        ("thm-3-1", "theorem", "Theorem 3.1"),
        ("alg-1", "algorithm", "Algorithm 1"),
        ("lem-a-1", "lemma", "Lemma A.1"),
        ("lem-own-core", "lemma", ""),
        ("", "remark", ""),
    ],
)
def test_items_of_the_paper_are_named_as_in_the_paper(label, kind, name):
    assert book_pages.item_name(label, kind) == name


@pytest.mark.parametrize("remote", ["", "https://elsewhere.example/a/b.git", "/srv/mirror/a.git"])
def test_without_a_known_repository_no_button_leads_to_another_book(monkeypatch, remote):
    """Jupyter Book's own repository stands in the settings where a book names none."""
    monkeypatch.setenv("BOOK_REPOSITORY", remote or "none")
    config = SimpleNamespace(html_context={}, html_theme_options={"repository_url": DEFAULT_URL})
    rrl_book.set_repository(None, config)
    assert config.html_theme_options == {"repository_url": ""}


def launch_buttons(options):
    """Names and addresses of the theme's launch buttons on a chapter's page."""
    context = {"pagename": "chapters/03_ridge", "sourcename": "chapters/03_ridge.ipynb", "header_buttons": []}
    context |= {"github_url": "https://github.com", "github_user": "one", "github_repo": "two"}
    env = SimpleNamespace(doc2path=lambda name: f"{name}.ipynb", metadata={"chapters/03_ridge": {"kernelspec": {}}})
    app = SimpleNamespace(env=env, config={"html_theme_options": options})
    launch.add_launch_buttons(app, context["pagename"], "page.html", context, None)
    return {button["text"]: button["url"] for group in context["header_buttons"] for button in group["buttons"]}


def test_with_a_repository_the_buttons_open_this_book_s_executed_notebooks(monkeypatch):
    monkeypatch.setenv("BOOK_REPOSITORY", "git@github.com:one/two.git")
    config = SimpleNamespace(html_context={}, html_theme_options={"repository_url": DEFAULT_URL})
    rrl_book.set_repository(None, config)
    assert config.html_theme_options["repository_url"] == "https://github.com/one/two"
    assert config.html_context["edit_page_url_template"].startswith("https://github.com/one/two/edit/main/")
    assert launch_buttons(config.html_theme_options) == {
        "Binder": "https://mybinder.org/v2/gh/one/two/executed?urlpath=lab/tree/chapters/03_ridge.ipynb",
        "Colab": "https://colab.research.google.com/github/one/two/blob/executed/chapters/03_ridge.ipynb",
    }
    workflow = (ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8")
    assert f"HEAD:{rrl_book.EXECUTED}" in workflow
    monkeypatch.setenv("BOOK_REPOSITORY", "https://gitlab.com/one/two")
    config.html_theme_options = {}
    rrl_book.set_repository(None, config)
    assert launch_buttons(config.html_theme_options) == {}


def test_fitted_names_in_docstrings_are_code_and_formulas_are_not():
    lines = ["coef_ and ``codes_``, omega_(d-1), `link_`_, x_{1} and self.coef_."]
    rrl_book.quote_fitted_names(None, "class", "x", None, None, lines)
    assert lines == ["``coef_`` and ``codes_``, omega_(d-1), `link_`_, x_{1} and self.coef_."]


@pytest.mark.parametrize("url", ["", "https://github.com/one/two"])
def test_copies_of_notebooks_begin_with_what_to_install(tmp_path, url):
    copy = tmp_path / "_sources" / "chapters" / "03_ridge.ipynb"
    copy.parent.mkdir(parents=True)
    copy.write_text('{"cells": [{"id": "cell-0"}], "nbformat": 4}')
    options = {"repository_url": url}
    app = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(name="html"))
    app.config = SimpleNamespace(html_theme_options=options)
    book_pages.say_what_to_install(app, None)
    first, second = json.loads(copy.read_text())["cells"]
    assert second == {"id": "cell-0"}
    assert f'pip install "replicable-rl[experiments,book] @ git+{url or "URL"}' in first["source"]
    assert ("git clone --quiet --depth 1 https://github.com/one/two /content/rrl" in first["source"]) == bool(url)
    assert ("!git" in first["source"]) == bool(url)


@pytest.mark.parametrize("name", CHAPTERS)
def test_lines_of_code_that_readers_see_fit_beside_the_side_bars(name):
    cells = jupytext.read(ROOT / "notebooks" / f"{name}.md").cells
    seen = [c.source for c in cells if c.cell_type == "code" and not HIDDEN & set(c.metadata.get("tags", []))]
    fence = re.compile(r"^(`{3,})(?:python|console|text)\n(.*?)^\1$", re.M | re.S)
    seen += [found[2] for c in cells if c.cell_type == "markdown" for found in fence.finditer(c.source)]
    assert [line for source in seen for line in source.splitlines() if len(line) > 88] == []


# The site


@pytest.fixture(scope="module")
def origin():
    """Serve the site."""
    with served(SITE) as address:
        yield address


@pytest.fixture
def tab(browser, origin):
    """A fresh page; what leaves the site or fails in a script fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.set_default_timeout(60_000)
    tab, faults = context.new_page(), []
    tab.on("request", lambda request: request.url.startswith((origin, "data:", "blob:")) or faults.append(request.url))
    tab.on("pageerror", lambda error: faults.append(error.message))
    yield tab
    context.close()
    assert not faults


@site
def test_navigation_leads_through_numbered_chapters(tab, origin):
    tab.goto(f"{origin}chapters/03_ridge.html")
    entries = tab.locator(".bd-sidebar-primary a.internal").all_inner_texts()
    assert any(text.strip().startswith("3 · ") for text in entries)
    tab.locator("a.right-next").click()
    tab.wait_for_url("**/chapters/04_core_sets.html")


@site
@pytest.mark.parametrize(
    ("query", "page"),
    [("Theorem 3.1", "chapters/03_ridge.html"), ("Lemma 2.1", "chapters/01_rounding.html"), ("hypergrid_round", "api")],
)
def test_search_lists_what_was_meant_first(tab, origin, query, page):
    tab.goto(f"{origin}search.html?q={query.replace(' ', '+')}")
    assert page in tab.locator("#search-results li a").first.get_attribute("href")


@site
@pytest.mark.parametrize("name", CHAPTERS)
def test_every_chapter_offers_its_notebook_and_its_source(name):
    page = (SITE / "chapters" / f"{name}.html").read_text(encoding="utf-8")
    assert f'href="../_sources/notebooks/{name}.md"' in page
    assert f'href="../_sources/chapters/{name}.ipynb"' in page
    assert (SITE / "_sources" / "notebooks" / f"{name}.md").read_text(encoding="utf-8").startswith("---")
    notebook = json.loads((SITE / "_sources" / "chapters" / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert any(cell.get("outputs") for cell in notebook["cells"])


@site
def test_downloads_arrive(tab, origin):
    tab.goto(f"{origin}chapters/01_rounding.html")
    tab.locator(".dropdown-download-buttons > button").click()
    with tab.expect_download() as download:
        tab.locator(".btn-download-source-button").click()
    assert download.value.suggested_filename.endswith(".ipynb")


@site
@pytest.mark.parametrize("name", CHAPTERS)
def test_figures_have_their_provenance_and_quick_pages_say_so(tab, origin, name):
    run = json.loads((ROOT / "chapters" / ".runs" / f"{name}.json").read_text(encoding="utf-8"))
    tab.goto(f"{origin}chapters/{name}.html")
    figures = tab.locator(".cell_output figure").count()
    boxes = tab.locator(".cell_output details.provenance")
    assert boxes.count() == figures > 0
    texts = boxes.all_text_contents()
    assert not any("not recorded" in text for text in texts)
    boxes.first.locator("summary").click()
    assert f"NAME={name.split('_')[0]}" in boxes.first.inner_text()
    lines = tab.locator(".scale-banner")
    assert lines.count() == (run["scale"] == "quick")
    recorded = sum("(rests on recorded runs)" in text for text in texts)
    if run["scale"] == "quick":
        assert ("recorded runs" in lines.inner_text()) == (recorded > 0)
        assert lines.locator("a").count() == recorded


@site
@pytest.mark.parametrize("name", ["09_cartpole", "10_figure2", "11_numbers"])
def test_quick_figures_stand_beside_recorded_ones(tab, origin, name):
    tab.goto(f"{origin}chapters/{name}.html")
    kinds = [("recorded runs" in text) for text in tab.locator("details.provenance summary").all_inner_texts()]
    assert any(kinds)
    places = tab.locator(".scale-banner a")
    for place in range(places.count()):
        assert tab.locator(places.nth(place).get_attribute("href")).count() == 1


@site
def test_the_dark_mode_switch_works_and_is_remembered(tab, origin):
    tab.goto(f"{origin}chapters/01_rounding.html")
    seen = set()
    for _ in range(3):
        tab.locator("button.theme-switch-button:visible").first.click()
        seen.add(tab.evaluate("document.documentElement.dataset.mode"))
    assert seen == {"light", "dark", "auto"}
    while tab.evaluate("document.documentElement.dataset.mode") != "dark":
        tab.locator("button.theme-switch-button:visible").first.click()
    tab.reload()
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"


@site
def test_print_shows_the_text_and_no_buttons(tab, origin):
    tab.goto(f"{origin}chapters/01_rounding.html")
    tab.emulate_media(media="print")
    assert tab.locator("article p:visible").count() > 10
    assert not tab.locator(".bd-sidebar-primary").is_visible()
    assert tab.locator(".bd-article button:visible").count() == 0


@site
@pytest.mark.parametrize("name", ["00_replicability", "01_rounding", "03_ridge"])
def test_formulas_are_typeset_and_a_phone_shows_the_page_in_its_width(tab, origin, name):
    tab.goto(f"{origin}chapters/{name}.html")
    tab.evaluate("() => window.MathJax.startup.promise")
    assert tab.locator("mjx-container").count() > 0
    assert tab.locator(FORMULA_FAULTS).count() == 0
    tab.set_viewport_size({"width": 320, "height": 780})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.fixture(scope="module")
def reader(browser, origin):
    """One tab for the whole site, and a function that opens a page in it and says what happened."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab, faults, fetched = context.new_page(), [], set()
    tab.set_default_timeout(60_000)
    tab.on("request", lambda request: request.url.startswith((origin, "data:", "blob:")) or faults.append(request.url))
    tab.on("request", lambda request: fetched.add(unquote(urlsplit(request.url).path)))
    tab.on("pageerror", lambda error: faults.append(error.message))
    tab.on("console", lambda message: message.type == "error" and faults.append(message.text))

    @cache
    def packed(path):
        return len(gzip.compress(path.read_bytes()))

    def visit(name):
        faults.clear()
        fetched.clear()
        tab.emulate_media(color_scheme="light")
        tab.set_viewport_size({"width": 1280, "height": 900})
        tab.goto(f"{origin}{name}")
        tab.evaluate("() => window.MathJax?.startup?.promise")
        files = {path: SITE / path.lstrip("/") for path in fetched}
        return list(faults), {path: packed(file) for path, file in files.items() if file.is_file()}

    yield tab, visit
    context.close()


@pytest.fixture(scope="module", params=PAGES)
def opened(reader, request):
    """A page, opened once for all that is looked at; the faults; the bytes of each file, packed as by a server."""
    tab, visit = reader
    return request.param, tab, *visit(request.param)


@site
def test_pages_load_without_a_fault_and_light_and_fit_a_phone(opened):
    name, tab, faults, sizes = opened
    assert faults == []
    assert f"/{name}" in sizes and sum(sizes.values()) < 2e6, sizes
    tab.set_viewport_size({"width": 320, "height": 780})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 320


@site
def test_the_table_of_claims_fits_and_boxes_have_no_marks(tab, origin):
    tab.goto(f"{origin}chapters/10_figure2.html")
    assert tab.evaluate("(table => table.scrollWidth <= table.clientWidth)(document.querySelector('.verdicts'))")
    marks = "[...document.querySelectorAll('.admonition-title')].map(t => getComputedStyle(t, '::after').content)"
    assert set(tab.evaluate(marks)) == {"none"}


@site
def test_figure_2_answers_in_its_first_screen(tab, origin):
    """The answer, and at least three quarters of the figure."""
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto(f"{origin}chapters/10_figure2.html")
    box = tab.locator("article figure img").first.bounding_box()
    assert box["y"] > 100 and box["y"] + 0.75 * box["height"] < 900


# Thousands of pieces of code are alike for the eye: of each kind the first is kept. So are the interface's entries.
THIN = """() => {
  const seen = new Set();
  for (const span of document.querySelectorAll("pre span")) {
    const box = span.closest("pre").parentElement.parentElement;
    const kind = [span.className, span.parentElement.className, box.className].join("|");
    if (seen.has(kind)) span.replaceWith(...span.childNodes);
    else seen.add(kind);
  }
  document.querySelectorAll("dl.py").forEach((entry, i) => i < 40 || entry.remove());
}"""
# The files that axe would fetch again to look at style sheets are not needed by these rules.
AXE = """(rules) => axe.run({ preload: false, resultTypes: ["violations"], ...rules }).then(({ violations }) =>
  violations.map(({ id, nodes }) => [id, nodes.map(({ target, html }) => `${target} ${html.slice(0, 200)}`)]))"""


@site
@pytest.mark.skipif(find_spec("axe_playwright_python") is None, reason="needs axe-playwright-python")
def test_axe_finds_nothing(opened):
    """All rules in light, and in dark the one that looks at colours; nothing is left out."""
    name, tab, _, _ = opened
    assert tab.url.endswith(f"/{name}"), "a page of another test"
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.evaluate(THIN)
    script = Path(find_spec("axe_playwright_python").origin).with_name("axe.min.js")
    tab.evaluate(script.read_text(encoding="utf-8"))
    assert tab.evaluate(AXE, {}) == []
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function("document.documentElement.dataset.theme !== 'light'")
    assert tab.evaluate(AXE, {"runOnly": {"type": "rule", "values": ["color-contrast"]}}) == []


@site
def test_no_page_leads_to_another_book():
    assert [name for name in PAGES if "executablebooks" in (SITE / name).read_text(encoding="utf-8")] == []


@site
@pytest.mark.parametrize("name", CHAPTERS)
def test_downloaded_notebooks_begin_with_what_to_install(name):
    first, second, *_ = json.loads((SITE / "_sources" / "chapters" / f"{name}.ipynb").read_text())["cells"]
    assert 'pip install -e ".[experiments,book]"' in first["source"] and first["id"] == "install"
    assert second["cell_type"] == "markdown" and second["source"][0].startswith("# ")


@site
def test_the_site_ships_the_licences_of_what_it_ships():
    for folder, words in (("_static/mathjax", "Apache License"), ("slides/reveal", "free of charge")):
        assert words in (SITE / folder / "LICENSE").read_text(encoding="utf-8")


@site
def test_the_zipped_site_works_from_files_without_a_network(browser, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "book"), "zip", SITE)
    shutil.unpack_archive(archive, tmp_path / "elsewhere")
    context = browser.new_context(offline=True)
    context.set_default_timeout(60_000)
    tab, faults = context.new_page(), []
    tab.on("pageerror", lambda error: faults.append(error.message))
    tab.on("request", lambda request: request.url.startswith(("file:", "data:", "blob:")) or faults.append(request.url))
    tab.goto((tmp_path / "elsewhere" / "index.html").as_uri())
    tab.wait_for_selector("#playground svg")
    before = tab.locator("#playground").inner_text()
    tab.locator("#playground input[type=range]").first.press("PageUp")
    assert tab.locator("#playground").inner_text() != before
    tab.locator(".bd-sidebar-primary a", has_text="core sets").first.click()
    tab.wait_for_url("**/chapters/04_core_sets.html")
    assert tab.evaluate("() => MathJax.startup.promise.then(() => document.fonts.ready).then(() => true)")
    assert tab.locator("article mjx-container").count() > 50
    assert tab.evaluate("[...document.fonts].some(f => f.family.startsWith('MJX') && f.status === 'loaded')")
    assert tab.locator(FORMULA_FAULTS).count() == 0
    tab.goto((tmp_path / "elsewhere" / "search.html").as_uri() + "?q=hypergrid")
    tab.wait_for_selector("#search-results li a")
    tab.wait_for_function("document.querySelector('#search-results').textContent.includes('Search finished')")
    assert faults == []
    found = tab.locator("#search-results li a", has_text="rounding").first
    found.click()
    tab.wait_for_selector("article h1")
    assert "search" not in tab.url
    context.close()
