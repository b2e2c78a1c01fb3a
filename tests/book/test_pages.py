"""The checks of built pages: each kind of fault is found, and a good page passes."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import build_book
import check_pages
import psutil
import pytest
from check_pages import check_files, check_in_browser, find_chromium, find_pages, has_no_alternative, style_fetches

CHROMIUM = find_chromium()
browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

GOOD = """<!doctype html><title>Good</title><link rel="canonical" href="https://elsewhere.example/">
<link rel="icon" href="data:,"><link rel="stylesheet" href="_static/a.css"><style>p { background: url("a.svg") }</style>
<h1 id="top-of-it">Good</h1> <a href="sub/b.html#there">b</a> <a href="#top-of-it">up</a> <a href="?q=1">again</a>
<a href="https://elsewhere.example/x">a link may leave</a> <a href="mailto:a@b.example">write</a> <a href="#">top</a>
<img src="a.svg" alt="A rising line."> <img src="a.svg" role="presentation" alt="">"""


@pytest.fixture
def site(tmp_path):
    """Make a small good site."""
    files = {
        "a.html": GOOD,
        "sub/b.html": '<!doctype html><link rel="icon" href="data:,"><p id="there"><a href="../">home</a>',
        "index.html": '<meta http-equiv="Refresh" content="0; url=a.html">',
        "_static/a.css": "p { background: url(a.svg) } /* @import url(https://elsewhere.example/in-a-comment) */",
        "_static/template.html": '<a href="nowhere.html">not a page of the site</a>',
        "a.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="4"/></svg>',
        "_images/a.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="4"/></svg>',
        "_static/a.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="4"/></svg>',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def add(site, html):
    """Append to the first page."""
    page = site / "a.html"
    page.write_text(page.read_text(encoding="utf-8") + html, encoding="utf-8")


def test_a_good_site_has_no_fault(site):
    assert find_pages(site) == ["a.html", "index.html", "sub/b.html"]
    assert check_files(site, find_pages(site)) == []


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="none.html">x</a>', "a.html: broken link none.html"),
        ('<a href="sub/">x</a>', "a.html: broken link sub/"),
        ('<a href="sub/b.html#none">x</a>', "a.html: link to a missing anchor sub/b.html#none"),
        ('<a href="#none">x</a>', "a.html: link to a missing anchor #none"),
        ('<img src="none.png" alt="Text.">', "a.html: broken link none.png"),
        ('<script src="none.js"></script>', "a.html: broken link none.js"),
        ('<script src="https://cdn.example/x.js"></script>', "a.html: external request https://cdn.example/x.js"),
        ('<script src="//cdn.example/x.js"></script>', "a.html: external request //cdn.example/x.js"),
        ('<link rel="stylesheet" href="https://cdn.example/x.css">', "external request https://cdn.example/x.css"),
        ('<link rel="preconnect" href="https://cdn.example">', "external request https://cdn.example"),
        (
            "<style>@font-face { src: url('https://f.example/f.woff') }</style>",
            "external request https://f.example/f.woff",
        ),
        ("<p style='background: url(https://i.example/i.png)'>x</p>", "external request https://i.example/i.png"),
        ('<img src="https://badge.example/b.svg" alt="Badge.">', "external request https://badge.example/b.svg"),
        ('<img srcset="a.svg 1x, https://i.example/2.png 2x" src="a.svg" alt="Two.">', "https://i.example/2.png"),
        ('<iframe src="https://v.example/"></iframe>', "external request https://v.example/"),
        ('<img src="a.svg">', "without a written alternative text: a.svg (alt=None)"),
        ('<img src="a.svg" alt=" ">', "without a written alternative text: a.svg"),
        ('<img src="a.svg" alt="_images/a.svg">', "without a written alternative text: a.svg"),
        ('<img src="a.svg" alt="../book/other.png">', "without a written alternative text: a.svg"),
        (
            '<a href="https://mybinder.org/v2/gh/executablebooks/jupyter-book/executed">x</a>',
            "a.html: leads to another book: https://mybinder.org/v2/gh/executablebooks/jupyter-book/executed",
        ),
        ("<p>It took {glue:text}`seconds:.1f` s", "a.html: raw text {glue:text}`seconds:.1f`"),
        (r'<p class="math">\(n = {glue:}`n`\)</p>', "a.html: raw text {glue:}`n`"),
        (r'<div class="math">\[\frac{1}{glue:text}n\]</div>', "a.html: raw text {glue:text}n"),
        ("<p><code>glue:text</code>", "a.html: raw text glue:text"),
        ("<code><span>{</span><span>glue:figure</span>}</code>", "a.html: raw text {glue:figure}"),
        ("<article><script>alert(1)</script></article>", "a.html: a script in the text: alert(1)"),
        ("<section><p><SCRIPT type='module'>alert(1)</SCRIPT></section>", "a.html: a script in the text: alert(1)"),
        # What closes the text before its end does not lead out of it unseen.
        ("<article></article><script>alert(1)</script><article></article>", "a.html: a script in the text: alert(1)"),
        ("<article><p></article><script>alert(1)</script></article>", "a.html: an end without a beginning: article"),
        ("<article><script src='sub/../_images/a.svg'></script></article>", "a.html: a script in the text: sub/../_im"),
        ("<article><img src='a.svg' alt='Text.' onload=alert(1)></article>", "a.html: a script in the text: onload=a"),
        ("<p onclick='alert(1)' onclick='window.print()'>x", "a.html: a script in the text: onclick=alert(1)"),
        ("<svg/onload=alert(1)>", "a.html: a script in the text: onload=alert(1)"),
        ("<a href=' java\nscript:alert(1)'>x</a>", "a.html: a script in the text: href= java"),
        ("<iframe srcdoc='<script>alert(1)</script>'></iframe>", "a.html: a script in the text: srcdoc=<script>"),
    ],
)
def test_each_fault_is_found(site, html, fault):
    add(site, html)
    faults = check_files(site, find_pages(site))
    assert len(faults) == 1
    assert fault in faults[0]


def test_the_word_glue_in_code_scripts_and_prose_is_fine(site):
    add(site, "<script>'{glue:text}'</script><style>/* {glue:text} */</style><pre>glue('n', 3)</pre><p>We glue: twice.")
    assert check_files(site, find_pages(site)) == []


def test_our_own_scripts_and_the_themes_are_fine(site):
    own = "<script src='_static/a.svg'></script><script type='application/json'>{\"a\": 1}</script>"
    add(site, f"<script>themes()</script><button onclick='window.print()'>x</button><article>{own}</article>")
    add(site, "<script>themes()</script>")
    assert check_files(site, find_pages(site)) == []


def test_style_sheets_are_read_too(site):
    (site / "_static" / "b.css").write_text("@import 'https://f.example/f.css'; p { background: url(data:x) }")
    assert check_files(site, find_pages(site)) == ["_static/b.css: external request https://f.example/f.css"]
    assert style_fetches("a { b: url( 'x y.png' ) }") == ["x y.png"]


def test_an_empty_folder_fails(tmp_path):
    assert check_files(tmp_path / "none", []) == [f"no page found in {tmp_path / 'none'}"]


def test_alternative_texts_that_mention_a_word_of_the_file_name_are_fine():
    text = "Error of ridge regression against the penalty."
    assert not has_no_alternative({"src": "_images/ridge.svg", "alt": text})
    assert has_no_alternative({"src": "_images/a%20b.png", "alt": "_images/a b.png"})


def test_without_a_browser_the_skip_is_said_or_is_a_fault(site, monkeypatch, capsys):
    monkeypatch.setattr(check_pages, "find_chromium", lambda: None)
    assert check_pages.check(site) == 0
    assert "browser checks skipped" in capsys.readouterr().out
    assert check_pages.check(site, "required") == 1
    assert "no Chromium found" in capsys.readouterr().out


@browser
def test_a_good_site_passes_in_the_browser(site, capsys):
    assert check_pages.check(site, "required") == 0
    assert "0 faults in 3 pages, opened in" in capsys.readouterr().out


@browser
def test_script_faults_and_hidden_requests_are_found_in_the_browser(site):
    add(site, "<script>console.error('told'); fetch('https://t.example/x').catch(() => 0); undefinedName()</script>")
    (site / "sub" / "b.html").write_text('<script>fetch("none.json")</script>')
    faults = "\n".join(check_in_browser(site, CHROMIUM, ["a.html", "sub/b.html"]))
    for part in ("a.html: console error: told", "external request https://t.example/x", "undefinedName is not defined"):
        assert part in faults
    assert "sub/b.html: 404 for http://127.0.0.1" in faults


@browser
def test_formula_faults_are_found_in_the_browser(site):
    mathjax = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    (site / "_static" / "mathjax").symlink_to(mathjax)
    head = '<!doctype html><link rel="icon" href="data:,"><script defer src="_static/mathjax/tex-chtml.js"></script>'
    (site / "good.html").write_text(head + r'<p class="math">\(\frac{1}{2}\)')
    (site / "bad.html").write_text(head + r'<p class="math">\(\frac{1}\)</p><p class="math">\(\unknown{x}\)')
    (site / "bare.html").write_text('<!doctype html><link rel="icon" href="data:,"><p class="math">\\(x\\)')
    assert check_in_browser(site, CHROMIUM, ["good.html", "bad.html", "bare.html"]) == [
        "bad.html: formula error: Missing argument for \\frac",
        "bad.html: formula error: \\unknown",
        "bare.html: the formulas were not typeset",
    ]


# The step that builds the site


@pytest.fixture
def sources(tmp_path):
    """Make a book of one chapter and one page."""
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: chapters/00\nparts:\n- chapters:\n  - file: book/page\n")
    for name in ("notebooks/00.md", "book/page.md"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("# x\n")
    return tmp_path


def build(sources):
    """Build without a browser; tell whether it worked."""
    try:
        build_book.build(sources, "skip")
    except SystemExit as error:
        assert str(error).startswith("error: ")
        return False
    return True


def test_a_notebook_without_an_entry_in_the_contents_stops_the_build(sources):
    (sources / "notebooks" / "01.md").write_text("# y\n")
    with pytest.raises(SystemExit, match=r"error: chapters/01: a notebook, but no entry in _toc\.yml"):
        build_book.build(sources, "skip")


@pytest.fixture
def builder(sources, monkeypatch):
    """Stand in for jupyter-book: it makes a page that says which build made it, then ends as told."""
    (sources / "chapters").mkdir()

    class Builder:
        returncode, calls, stopped = 0, [], False

    def jupyter_book(command, cwd, **options):
        Builder.calls.append(command)
        html = cwd / command[command.index("--path-output") + 1] / "_build" / "html"
        html.mkdir(parents=True)
        (html / "index.html").write_text(f"<title>build {len(Builder.calls)}</title>")
        if Builder.stopped:
            raise KeyboardInterrupt
        return Builder

    monkeypatch.setattr(build_book.subprocess, "run", jupyter_book)
    return Builder


def test_an_unchanged_site_is_not_built_again_and_a_failed_one_is(sources, builder, monkeypatch):
    assert build(sources)
    assert build(sources)
    assert len(builder.calls) == 1
    assert builder.calls[0][3:6] == ["build", ".", "-q"] and builder.calls[0][-3:] == ["-W", "--keep-going", "-n"]
    (sources / "chapters" / "00.ipynb").write_text("{}")
    builder.returncode = 1
    assert not build(sources)
    assert not build(sources)
    builder.returncode = 0
    monkeypatch.setattr(build_book.check_pages, "check", lambda site, browser: 3)
    assert not build(sources)
    assert not build(sources)
    assert len(builder.calls) == 5


def test_the_old_site_survives_a_build_that_fails_or_is_stopped(sources, builder, monkeypatch):
    index, chapter = sources / "_build" / "html" / "index.html", sources / "chapters" / "00.ipynb"
    chapter.write_text("{}")
    assert build(sources)
    chapter.write_text("{ }")
    builder.returncode = 1
    assert not build(sources)
    builder.stopped = True
    with pytest.raises(KeyboardInterrupt):
        build(sources)
    builder.returncode, builder.stopped = 0, False
    with monkeypatch.context() as patch:
        patch.setattr(build_book.check_pages, "check", lambda site, browser: 3)
        assert not build(sources)
    assert index.read_text() == "<title>build 1</title>"
    # It still is the site of the sources as they were.
    chapter.write_text("{}")
    assert build(sources)
    assert len(builder.calls) == 4
    chapter.write_text("{ }")
    assert build(sources)
    assert index.read_text() == "<title>build 5</title>"
    assert sorted(path.name for path in (sources / "_build").glob("[!.]*")) == ["book.json", "html"]


# Builds that are stopped, doubled, or moved


STAND_IN = """
import os, pathlib, sys, time

def main():
    root = pathlib.Path.cwd()
    with open(root / "begun", "a") as file:
        file.write(f"{os.getpid()} ")
    html = root / sys.argv[sys.argv.index("--path-output") + 1] / "_build" / "html"
    html.mkdir(parents=True)
    (html / "index.html").write_text("<title>x</title>")
    time.sleep(float(os.environ["SECONDS"]))
"""


@pytest.fixture
def checkout(sources):
    """A repository with the tools and a stand-in for jupyter-book that takes its time."""
    shutil.copytree(build_book.ROOT / "tools", sources / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (sources / "chapters").mkdir()
    (sources / "_config.yml").write_text("sphinx: {config: {mathjax3_config: {tex: {macros: {}}}}}\n")
    (sources / "jupyter_book" / "cli").mkdir(parents=True)
    for name, text in (("__init__", ""), ("cli/__init__", ""), ("cli/main", STAND_IN)):
        (sources / "jupyter_book" / f"{name}.py").write_text(text)

    def start(seconds):
        command = [sys.executable, str(sources / "tools" / "build_book.py"), "--browser", "skip"]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=os.environ | {"SECONDS": str(seconds)}, **options)

    return sources, start


def wait_for_file(path):
    """Wait until a file has something in it."""
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells a process that its parent was killed")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda n: n.name)
def test_a_stopped_build_leaves_no_sphinx_running_and_the_next_one_is_whole(checkout, number):
    root, start = checkout
    process = start(300)
    wait_for_file(root / "begun")
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) == 1
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert err == ("" if number == signal.SIGKILL else "stopped; the site before stays as it was\n")
    assert not psutil.wait_procs(family, timeout=10)[1]
    process = start(0)
    assert process.wait(60) == 0, process.stderr.read()
    assert sorted(path.name for path in (root / "_build").glob("[!.]*")) == ["book.json", "html"]


def test_two_builds_wait_for_each_other(checkout):
    root, start = checkout
    first = start(3)
    wait_for_file(root / "begun")
    second = start(3)
    out, err = second.communicate(timeout=60)
    assert first.wait(60) == second.returncode == 0, err
    assert out.splitlines()[0] == "Waiting for another build in this folder to end"
    assert out.splitlines()[1].startswith("The site is up to date")
    assert len((root / "begun").read_text().split()) == 1
