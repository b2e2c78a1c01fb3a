"""The viewer of frames: its HTML, its script's logic against the package's, and its controls in Chromium."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from check_pages import CHROMIUM_FLAGS, fetches_of, find_chromium, read_page, served, words_of

from rrl.book.plotting import COLORS
from rrl.book.viewer import _png, _status, _words, frames_html, pictures
from rrl.pqn import quantise, rounded_actions, tied

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
SCRIPT = STATIC / "frames.js"
ACTIONS = ["stay", "fire", "right", "left", "up"]
STEP = 1.0


def example(n_frames=11, n_runs=3):
    """Frames of one grey each, and Q-values of two variants; the second acts on a coarse grid."""
    rng = np.random.default_rng(4)
    q = rng.normal(size=(2, n_runs, n_frames, len(ACTIONS))) + rng.normal(size=(n_frames, len(ACTIONS)))
    frames = np.repeat(np.arange(n_frames, dtype=np.uint8) * 20, 6 * 4).reshape(n_frames, 6, 4)
    return frames, {"plain": q[0], "quantised & more": quantise(q[1], STEP)}


def page(frames, panels, **options):
    labels = [f"state <{k}>" for k in range(len(frames))]
    return frames_html(frames, panels, ACTIONS, labels=labels, title='Game "A"', **options)


def embedded(text):
    """The data that the script reads."""
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', text)[1])


def test_pictures_survive():
    """The embedded image holds every frame in its place, grey and in colour."""
    from io import BytesIO

    from PIL import Image

    frames, panels = example()
    sheets = re.search(r"base64,([^\"]+)", page(frames, panels, columns=4))[1]
    sheet = np.array(Image.open(BytesIO(base64.b64decode(sheets))))
    assert sheet.shape == (3 * 6, 4 * 4) and (sheet[12:, 12:] == 0).all()
    for k, frame in enumerate(frames):
        y, x = k // 4 * 6, k % 4 * 4
        assert np.array_equal(sheet[y : y + 6, x : x + 4], frame)
    colour = np.random.default_rng(0).integers(256, size=(5, 7, 3), dtype=np.uint8)
    assert np.array_equal(np.array(Image.open(BytesIO(_png(colour)))), colour)
    stripes = np.random.default_rng(1).integers(256, size=(11, 3, 2, 3), dtype=np.uint8)
    assert "base64" in page(stripes, panels)


def test_masks_are_the_policies():
    frames, panels = example()
    rounded = panels["quantised & more"]
    best = np.array(embedded(page(frames, panels))["panels"][1]["best"])
    assert np.array_equal(np.log2(best & -best).T, rounded_actions(rounded))
    assert np.array_equal((best & (best - 1) > 0).T, tied(rounded))
    verdicts = [_status(masks) for masks in best.tolist()]
    same = (rounded_actions(rounded) == rounded_actions(rounded)[0]).all(0)
    assert [v != "differ" for v in verdicts] == same.tolist() and set(verdicts) == {"agree", "differ", "tie"}
    assert [_status(masks) for masks in ([2, 2], [2, 6], [2, 4], [3, 2])] == ["agree", "tie", "differ", "differ"]


def test_words():
    assert _words(0b00100, ACTIONS) == ("right", "")
    assert _words(0b01110, ACTIONS) == ("fire", "tied with right, left")
    assert _words(0b11111, ACTIONS) == ("stay", "tied with 4 others")


def test_still_page():
    """Without a script: the first frame with a name, every run's action, and text that cannot break out."""
    frames, panels = example()
    panels = {**panels, "</script><b>": panels["plain"]}
    text = page(frames, panels, seeds=[7, 8, 9])
    tree, _ = read_page(text)
    words = words_of(tree)
    assert all(f"seed {seed}" in words for seed in (7, 8, 9)) and "first of 11 frames" in words
    assert 'aria-label="Game &quot;A&quot;: state &lt;0&gt;"' in text and "<b>" not in text.replace(
        "<\\/script><b>", ""
    )
    assert embedded(text)["panels"][2]["name"] == "</script><b>"
    assert fetches_of(tree) == ["../_static/frames.css", "../_static/frames.js"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frames": np.zeros((11, 6, 4))}, "frames must be uint8"),
        ({"frames": np.zeros((11, 6, 4, 2), np.uint8)}, "frames must be uint8"),
        ({"frames": np.zeros((0, 6, 4), np.uint8)}, "frames must be uint8"),
        ({"panels": {}}, "at least one variant"),
        (
            {"panels": {"a": np.zeros((2, 11, 5)), "b": np.zeros((3, 11, 5))}},
            r"panels\['b'\] must have shape \(2, 11, 5",
        ),
        ({"panels": {"a": np.zeros((2, 10, 5))}}, r"panels\['a'\] must have shape"),
        ({"seeds": [1]}, "seeds must have 3 entries, got 1"),
        ({"labels": ["x"]}, "labels must have 11 entries, got 1"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    frames, panels = example()
    good = {"frames": frames, "panels": panels, "actions": ACTIONS, "labels": ["x"] * 11, "title": "T"}
    with pytest.raises(ValueError, match=message):
        frames_html(**{**good, **change})


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_script_says_what_the_package_says():
    data = embedded(page(*example()))
    every = list(range(1, 2 ** len(ACTIONS)))
    pairs = [[a, b] for a in every for b in every]
    program = (
        f"const f = require({json.dumps(str(SCRIPT))}), data = {json.dumps(data)};"
        f"const pairs = {json.dumps(pairs)}, every = {json.dumps(every)};"
        "const names = ['all', 'any', ...data.panels.map((p) => p.name)];"
        "const near = [[[2, 5, 9], 4], [[2, 5, 9], 0], [[2, 5, 9], 100], [[3], 7]].map((x) => f.nearest(...x));"
        "console.log(JSON.stringify({status: pairs.map(f.status), words: every.map((m) => f.words(m, data.actions, 3)),"
        "lists: names.map((n) => f.select(data.panels, n)), near, clamp: [-1, 0, 4, 9].map((p) => f.clamp(p, 5))}));"
    )
    ran = subprocess.run(["node", "-e", program], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["status"] == [_status(pair) for pair in pairs]
    assert said["words"] == [list(_words(mask, ACTIONS)) for mask in every]
    differ = [[k for k, m in enumerate(p["best"]) if _status(m) == "differ"] for p in data["panels"]]
    assert said["lists"] == [list(range(11)), sorted(set(differ[0]) | set(differ[1])), *differ]
    assert 0 < len(differ[1]) < 11  # a filter that keeps or drops everything would prove nothing
    assert said["near"] == [1, 0, 2, 0] and said["clamp"] == [0, 0, 4, 4]


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed")
def test_in_a_browser(tmp_path, announced, reachable):
    """Two viewers on a page: what the script draws first is what stood there, and every control works."""
    from playwright.sync_api import sync_playwright

    for name in ("frames.js", "frames.css", "book.js", "book.css"):
        shutil.copy(STATIC / name, tmp_path / name)
    frames, panels = example()
    viewer = page(frames, panels, static=".")
    head = '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">'
    head += '<link rel="stylesheet" href="book.css"><script src="book.js"></script>'
    (tmp_path / "a.html").write_text(f"{head}{viewer}<hr>{viewer}", encoding="utf-8")
    faults = []
    with served(tmp_path) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=CHROMIUM_FLAGS, chromium_sandbox=False
        )
        still = browser.new_context(java_script_enabled=False).new_page()
        still.goto(origin + "a.html")
        before = still.inner_text(".frames-table >> nth=0")
        assert still.locator(".frames-controls").count() == 0 and still.locator("noscript p").first.is_visible()
        tab = browser.new_page(viewport={"width": 390, "height": 800})
        tab.on("pageerror", lambda error: faults.append(error.message))
        tab.goto(origin + "a.html")
        assert tab.locator(".frames-controls").count() == 2
        assert tab.inner_text(".frames-table >> nth=0") == before
        assert not tab.evaluate("document.documentElement.scrollWidth > innerWidth")
        second = tab.locator(".frames").nth(1)
        assert tab.locator("[role=status]").all_inner_texts() == ["", ""]
        assert tab.eval_on_selector_all("[id]", "all => new Set(all.map((e) => e.id)).size === all.length")
        assert reachable(tab, ".frames") == 8  # in both: the viewer, its slider, one button, its list

        def press():
            tab.locator(".frames input").first.focus()
            for _ in range(5):
                tab.keyboard.press("ArrowRight")

        [said] = announced(tab, ".frames", press)
        assert said.startswith("state <5>. Frame 6 of 11. plain: ")
        [said] = announced(tab, ".frames", lambda: tab.locator(".frames").first.press("ArrowLeft"))
        assert said.startswith("state <4>. Frame 5 of 11. plain: ")

        def shown():
            return second.locator("svg").get_attribute("viewBox"), second.locator(".frames-label").inner_text()

        assert shown() == ("0 0 4 6", "state <0>")
        second.locator("button").nth(1).click()
        assert shown() == ("4 0 4 6", "state <1>")
        tab.keyboard.press("ArrowRight")  # the button has the focus
        assert shown()[1] == "state <2>"
        second.locator("input").focus()
        tab.keyboard.press("ArrowRight")  # the slider moves by itself, and once
        assert shown()[1] == "state <3>"
        second.locator("input").fill("9")
        assert shown() == ("4 6 4 6", "state <9>")
        box = second.locator("svg").bounding_box()
        tab.mouse.move(box["x"] + 100, box["y"] + 20)
        tab.mouse.down()
        tab.mouse.move(box["x"] + 20, box["y"] + 20)
        tab.mouse.up()
        assert shown()[1] == "state <10>" and second.locator("button").nth(1).is_disabled()
        second.locator("select").select_option("quantised & more")
        chosen = [k for k, m in enumerate(embedded(viewer)["panels"][1]["best"]) if _status(m) == "differ"]
        assert shown()[1] == f"state <{chosen[-1]}>" and len(chosen) < 11
        assert f"of {len(chosen)}" in second.locator(".frames-report").inner_text()
        assert "differ" in second.locator("tfoot td").nth(1).inner_text()
        assert tab.locator(".frames").nth(0).locator(".frames-label").inner_text() == "state <4>"
        browser.close()
    assert not faults


def test_no_request_leaves_the_page():
    text = SCRIPT.read_text() + SCRIPT.with_suffix(".css").read_text()
    for word in ("http:", "https:", "//cdn", "fetch(", "XMLHttpRequest", "import(", "@import", "url(h"):
        assert word not in text, word


def test_pictures_show_every_plane():
    planes = np.zeros((1, 2, 10, 10), dtype=np.uint8)
    planes[0, 0, 2, 3] = planes[0, 1, 2, 3] = planes[0, 1, 9, 0] = 1
    image = pictures(planes, cell=8)
    assert image.shape == (1, 80, 80, 3) and image.dtype == np.uint8
    first, second = (tuple(bytes.fromhex(color[1:])) for color in COLORS[:2])
    assert tuple(image[0, 76, 4]) == second and tuple(image[0, 72, 0]) == (250,) * 3
    cell = image[0, 16:24, 24:32]  # the earlier plane is a small square on the later one
    assert tuple(cell[4, 4]) == first and tuple(cell[1, 1]) == second
    assert (image != 250).any(-1).sum() == 2 * 6 * 6
    with pytest.raises(ValueError, match="cell must be at least 4, got 3"):
        pictures(planes, cell=3)
    with pytest.raises(ValueError, match="observations must have shape"):
        pictures(np.zeros((1, 7, 10, 10), dtype=np.uint8))
