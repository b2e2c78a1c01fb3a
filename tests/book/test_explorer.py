"""The explorer of Figure 2's runs: its data against the package, its script against its data, and Chromium."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from check_pages import CHROMIUM_FLAGS, fetches_of, find_chromium, read_page, served, words_of

from rrl.book.explorer import DIGITS, LINES, MULTIPLES, Group, RunSet, explorer_data, explorer_html, lines
from rrl.pqn import action_agreement, best_actions, reasons, rounded_actions, tied
from rrl.pqn.decomposition import RULES

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
SCRIPTS = [STATIC / "explorer.js", STATIC / "frames.js"]


def group(game, n_actions, runs, *, step=0.5, n_states=60, n_frames=5):
    """Runs that like common actions, plain and on the group's own grid."""
    rng = np.random.default_rng(n_actions)
    common = rng.normal(size=(1, n_states, n_actions))
    q = (common + rng.normal(size=(2, runs, n_states, n_actions))).astype(np.float32)
    states = np.linspace(0, n_states - 1, n_frames).astype(int)
    frames = np.repeat(np.arange(n_frames, dtype=np.uint8) * 40, 24).reshape(n_frames, 6, 4)
    sets = (RunSet("plain", q[0], 0.0, 12.34, (10.0, 14.0)), RunSet("both </script>", q[1], step, 101.0, (90.0, 120.0)))
    actions = tuple(f"action {k}" for k in range(n_actions))
    labels = tuple(f"state {k}" for k in states)
    return Group(game, f"{runs} runs of 1,000 steps", step, actions, frames, states, labels, sets)


def silent():
    """Runs that ended no game, and runs whose mean return has no upper limit."""
    made = group("Silent", 3, 3)
    ends = (float("nan"), (float("nan"),) * 2), (7.0, (0.0, float("inf")))
    return made._replace(sets=tuple(s._replace(final=f, ends=e) for s, (f, e) in zip(made.sets, ends, strict=True)))


GROUPS = [group("A & B", 4, 6), group("A & B", 3, 3, step=0.25), group("Nine", 9, 2), silent()]


def test_scores_that_are_not_there_are_told():
    own = explorer_data([silent()])["groups"][0]["sets"]
    assert [lines(one, 0, "first")[0] for one in own] == ["no game ended", "7.0"]


def embedded(text):
    return json.loads(re.search(r'<script type="application/json" class="explorer-data">(.*?)</script>', text)[1])


def decoded(text, width):
    """Masks of a packed text, one after the other."""
    digits = [DIGITS.index(letter) for letter in text]
    return [sum(d << 6 * k for k, d in enumerate(digits[i : i + width])) for i in range(0, len(digits), width)]


def test_the_data_are_the_package_s_numbers():
    data = explorer_data(GROUPS)
    for given, found in zip(GROUPS, data["groups"], strict=True):
        assert found["steps"] == pytest.approx([given.step * m for m in MULTIPLES])
        for own, kept in zip(given.sets, found["sets"], strict=True):
            assert found["steps"][kept["at"]] == own.step and kept["runs"] == len(own.q)
            for step, cell in zip(found["steps"], kept["cells"], strict=True):
                why = reasons(own.q, step)
                assert cell[0] == pytest.approx(action_agreement(rounded_actions(own.q, step)).mean, abs=1e-4)
                assert cell[0:9:3] == pytest.approx([why.agreement(rule) for rule in RULES], abs=1e-4)
                assert cell[9:] == pytest.approx([why.chance, tied(own.q, step).mean(), why.single, why.same], abs=1e-4)
                assert all(0 <= low <= value <= high <= 1 for value, low, high in np.reshape(cell[:9], (3, 3)))


def test_the_masks_are_the_best_actions():
    data = explorer_data(GROUPS, n_seeds=4)
    for given, found in zip(GROUPS, data["groups"], strict=True):
        runs = len(found["seeds"])
        assert runs == min(4, *(len(own.q) for own in given.sets)) and found["digits"] == 1 + (len(given.actions) > 6)
        for own, kept in zip(given.sets, found["sets"], strict=True):
            for step, text in zip(found["steps"], kept["masks"], strict=True):
                masks = np.reshape(decoded(text, found["digits"]), (len(given.states), runs))
                best = best_actions(own.q[:runs, given.states], step).swapaxes(0, 1)
                assert ((masks[..., None] >> np.arange(len(given.actions)) & 1) == best).all()


def test_still_page():
    """Without a script: the first choice as a table and a frame; nothing breaks out."""
    text = explorer_html(GROUPS, title='Runs "x"', static=".")
    tree, _ = read_page(text)
    words = words_of(tree)
    data = embedded(text)
    for line in (*LINES, *lines(data["groups"][0]["sets"][1], data["groups"][0]["sets"][1]["at"], "first")):
        assert line in words
    assert 'aria-label="Runs &quot;x&quot;"' in text and text.count("</script>") == 4
    assert fetches_of(tree) == ["./explorer.css", "./frames.css", "./frames.js", "./explorer.js"]


def test_lines_of_known_numbers():
    own = {"runs": 3, "return": [0.25, -0.04, 1.0], "cells": [[0.5, 0.4, 0.6] * 2 + [0.3, 0.2, 0.4, 0.125, 0.5, 1, 0]]}
    assert lines(own, 0, "first") == [
        "0.3 (0.0 to 1.0)",
        "0.50 (0.40 to 0.60)",
        "0.18",
        "0.13",
        "0.20",
        "50%",
        "100%",
        "0%",
    ]
    assert lines(own | {"runs": 2}, 0, "independent")[1:5] == ["0.30 (one pair of runs)", "0.18", "0.13", "0.00"]
    negative = own | {"cells": [[0.1, 0, 1] * 3 + [0.35, 0, 1, 0.1]]}
    assert lines(negative, 0, "shared")[2] == "\N{MINUS SIGN}0.25"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_script_says_what_the_package_says():
    data = explorer_data(GROUPS, n_seeds=4)
    program = (
        f"const e = require({json.dumps(str(SCRIPTS[0]))}), f = require({json.dumps(str(SCRIPTS[1]))});"
        f"const data = {json.dumps(data)}, out = [];"
        "for (const g of data.groups) for (const set of g.sets) g.steps.forEach((_, at) => {"
        "for (const [rule] of data.rules) { const masks = e.unpack(set.masks[at], g), orders = e.orders(g, rule);"
        "out.push({lines: e.lines(set, at, rule), parts: e.parts(set, at, rule), masks, orders: orders ?? null,"
        "status: masks.map((m, k) => f.status(m, orders?.[k])),"
        "chosen: masks.map((m, k) => m.map((x, run) => f.chosen(x, orders?.[k]?.[run])))}); } });"
        "console.log(JSON.stringify(out));"
    )
    ran = subprocess.run(["node", "-e", program], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    said, seen = iter(json.loads(ran.stdout)), set()
    for found in data["groups"]:
        for own in found["sets"]:
            for at in range(len(found["steps"])):
                for rule in RULES:
                    one = next(said)
                    assert one["lines"] == lines(own, at, rule)
                    parts = one["parts"]
                    assert parts["state"] + parts["chance"] + parts["rule"] == pytest.approx(parts["value"], abs=1e-9)
                    masks = np.array(one["masks"])
                    assert masks.ravel().tolist() == decoded(own["masks"][at], found["digits"])
                    for frame, row in enumerate(masks):
                        order = one["orders"][frame] if one["orders"] else [range(len(found["actions"]))] * len(row)
                        taken = [next(a for a in o if m >> a & 1) for m, o in zip(row, order, strict=True)]
                        assert one["chosen"][frame] == taken
                        assert all(sorted(o) == list(range(len(found["actions"]))) for o in order)
                        same = "tie" if (row & (row - 1)).any() else "agree"
                        assert one["status"][frame] == ("differ" if len(set(taken)) > 1 else same)
                        seen.add((rule, one["status"][frame]))
                        if rule == "shared":
                            assert len(set(map(tuple, order))) == 1
    assert next(said, None) is None and len(seen) == 9


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed")
def test_in_a_browser(tmp_path, announced, reachable):
    """What the script draws first is what stood there; every control works by keyboard; a phone shows all of it."""
    from playwright.sync_api import sync_playwright

    for name in ("explorer.js", "explorer.css", "frames.js", "frames.css", "book.js", "book.css"):
        shutil.copy(STATIC / name, tmp_path / name)
    text = explorer_html(GROUPS, title="Runs", static=".")
    head = '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">'
    head += '<link rel="stylesheet" href="book.css"><script src="book.js"></script>'
    (tmp_path / "a.html").write_text(head + f'<article class="bd-article cell_output">{text}</article>', "utf-8")
    data, faults = embedded(text), []
    with served(tmp_path) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=CHROMIUM_FLAGS, chromium_sandbox=False
        )
        still = browser.new_context(java_script_enabled=False).new_page()
        still.goto(origin + "a.html")
        before = [still.inner_text(f".{name}-table") for name in ("explorer", "frames")]
        assert still.locator(".explorer-controls").count() == 0
        tab = browser.new_page(viewport={"width": 390, "height": 900})
        tab.on("pageerror", lambda error: faults.append(error.message))
        tab.goto(origin + "a.html")
        words = [re.sub(r" \(theirs\)|, grid none", "", tab.inner_text(f".{n}-table")) for n in ("explorer", "frames")]
        assert [re.sub(r"\s+", " ", text) for text in words] == [re.sub(r"\s+", " ", text) for text in before]
        assert not tab.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert tab.eval_on_selector_all("[id]", "all => new Set(all.map((e) => e.id)).size === all.length")
        assert reachable(tab, ".explorer") == 8  # four controls; the viewer, its slider, a button and its list

        def column(k=1):
            cells = tab.locator(f".explorer-table tbody td:nth-child({k + 2})").all()
            return [cell.inner_text().strip() for cell in cells]

        both = data["groups"][0]["sets"][1]
        assert column() == lines(both, both["at"], "first")
        assert tab.locator(".explorer-bar").count() == 2

        def finer():
            tab.get_by_label("grid", exact=True).focus()
            tab.keyboard.press("ArrowLeft")

        [said] = announced(tab, ".explorer-controls", finer)
        assert column() == lines(both, both["at"] - 1, "first")
        value = lines(both, both["at"] - 1, "first")[1][:4]
        assert said.startswith(f"Agreement {value} = state ") and "keep 818% of plain's return" in said
        assert tab.get_by_label("grid", exact=True).get_attribute("aria-valuetext") == "0.25"
        tab.get_by_label("ties go to").select_option("independent")
        assert column() == lines(both, both["at"] - 1, "independent") and column()[4] == "0.00"
        tab.locator(".frames button").nth(1).click()
        assert tab.inner_text(".frames-label") == data["groups"][0]["labels"][1]
        tab.get_by_label("ties go to").select_option("shared")
        assert tab.inner_text(".frames-label") == data["groups"][0]["labels"][1]  # the frame stays
        tab.get_by_label("game").select_option("Nine")
        nine = data["groups"][2]["sets"]
        assert column(0) == lines(nine[0], 0, "first") and column() == lines(nine[1], nine[1]["at"], "shared")
        assert tab.locator(".frames tbody tr").count() == 2 and "one pair" in column()[1]
        assert not tab.evaluate("document.documentElement.scrollWidth > innerWidth")
        tab.get_by_label("game").select_option("A & B")
        tab.get_by_label("runs", exact=True).select_option("1/0")
        plain = data["groups"][1]["sets"][0]
        assert column() == lines(plain, 0, "shared") and "3 runs" in tab.inner_text(".explorer-scale")
        browser.close()
    assert not faults


def test_no_request_leaves_the_page():
    for path in (*SCRIPTS, STATIC / "explorer.css"):
        for word in ("http:", "https:", "//cdn", "fetch(", "XMLHttpRequest", "import(", "@import", "url(h"):
            assert word not in path.read_text(), (path.name, word)
