"""The built site in a browser: navigation, search, downloads, dark mode, print, access; no request leaves it.

Needs Chromium and `make book`; the continuous integration has both.
"""

import json
import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import book_pages
import prepare_launch
import pytest
from check_pages import FORMULA_FAULTS, find_chromium, served

ROOT = Path(__file__).resolve().parents[1]
SITE = Path(os.environ.get("BOOK_SITE", ROOT / "_build" / "html"))
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("[!.]*.md"))
# A site from before this page existed says nothing of the sources as they are.
BUILT = find_chromium() and (SITE / "_sources" / "notebooks").is_dir()
site = pytest.mark.skipif(not BUILT, reason="needs Chromium and a built site")
RECORD = {
    "scale": "quick",
    "parameters": {"scale": "quick", "steps": None},
    "commit": "0123456789+",
    "seconds": 12.4,
    "finished": "2026-01-02T03:04:05+00:00",
    "python": "3.11.7",
}


# What the pages are made to say


def test_provenance_comes_from_the_record():
    shown = re.sub("<[^>]+>", " ", book_pages.provenance("03_ridge", RECORD, ["book/results/a"]))
    for part in ("notebooks/03_ridge.md", "steps=None", "recorded runs in", "book/results/a", "0123456789 "):
        assert part in shown, part
    for part in ("not yet committed", "12 s for the notebook, 2026-01-02", "make notebook NAME=03 "):
        assert part in shown, part
    full = book_pages.provenance("03_ridge", RECORD | {"scale": "full", "commit": None}, [])
    assert "NAME=03 SCALE=full</code>" in full and "not recorded" in full and "recorded runs" not in full


def test_the_runner_s_records_are_read_for_chapters_only(tmp_path):
    (tmp_path / "chapters" / ".runs").mkdir(parents=True)
    (tmp_path / "chapters" / ".runs" / "03_ridge.json").write_text(json.dumps(RECORD))
    assert book_pages.read_run(tmp_path, "chapters/03_ridge") == RECORD
    assert book_pages.read_run(tmp_path, "book/03_ridge") is None
    assert book_pages.read_run(tmp_path, "chapters/04_core_sets") is None


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


def test_launch_links_name_the_branch_with_executed_notebooks():
    links = book_pages.launch_links("https://github.com/one/two", "03_ridge")
    assert links["Colab"].endswith("/github/one/two/blob/executed/chapters/03_ridge.ipynb")
    assert links["Binder"].endswith("/gh/one/two/executed?urlpath=lab/tree/chapters/03_ridge.ipynb")
    assert book_pages.launch_links("https://gitlab.com/one/two", "03_ridge") == {}
    assert book_pages.launch_links("", "03_ridge") == {}
    workflow = (ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8")
    assert f"HEAD:{book_pages.EXECUTED}" in workflow


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
def test_figures_have_their_provenance_and_quick_pages_say_so(tab, origin):
    tab.goto(f"{origin}chapters/01_rounding.html")
    figures = tab.locator(".cell_output figure").count()
    assert figures > 0
    boxes = tab.locator("details.provenance")
    assert boxes.count() == figures
    boxes.first.locator("summary").click()
    assert "make notebook NAME=01" in boxes.first.inner_text()
    scale = json.loads((ROOT / "chapters" / ".runs" / "01_rounding.json").read_text(encoding="utf-8"))["scale"]
    assert tab.locator(".scale-banner").count() == (scale == "quick")


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
    tab.set_viewport_size({"width": 360, "height": 780})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360


@site
@pytest.mark.skipif(find_spec("axe_playwright_python") is None, reason="needs axe-playwright-python")
@pytest.mark.parametrize("name", ["book/how_to", "chapters/01_rounding"])
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_axe_finds_nothing(tab, origin, name, mode):
    tab.emulate_media(color_scheme=mode, reduced_motion="reduce")
    tab.goto(f"{origin}{name}.html")
    tab.evaluate("() => window.MathJax?.startup?.promise")
    script = Path(find_spec("axe_playwright_python").origin).with_name("axe.min.js")
    tab.add_script_tag(content=script.read_text(encoding="utf-8"))
    # MathJax names its own formulas, of which a page has hundreds: neither they nor links made of one are looked at.
    found = tab.evaluate("() => axe.run({ exclude: [['mjx-container'], ['a.first-use']] })")
    assert [(fault["id"], [node["target"] for node in fault["nodes"]]) for fault in found["violations"]] == []


def test_on_colab_a_first_cell_installs_the_package_once(tmp_path, capsys):
    (tmp_path / "03_ridge.ipynb").write_text('{"cells": [{"id": "cell-0"}], "nbformat": 4}')
    for _ in range(2):
        assert prepare_launch.main(["https://github.com/one/two"], tmp_path) == 0
    first, second = json.loads((tmp_path / "03_ridge.ipynb").read_text())["cells"]
    assert "git clone --quiet --depth 1 https://github.com/one/two /content/rrl" in first["source"]
    assert second == {"id": "cell-0"}
    assert prepare_launch.main([], tmp_path) == 1 and "address" in capsys.readouterr().err
    assert prepare_launch.main(["https://github.com/one/two"], tmp_path / "none") == 1


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
