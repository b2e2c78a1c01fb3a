"""Shared by all tests: a deterministic hypothesis profile, and exact limits for statistical tests."""

import numpy as np
import pytest
from check_pages import CHROMIUM_FLAGS, find_chromium
from hypothesis import settings
from scipy.stats import binom

# Derandomised: a test passes or fails for everyone alike. No deadline: the machines are shared.
settings.register_profile("rrl", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("rrl")


@pytest.fixture
def rng():
    """Fresh data, the same in every run of the tests."""
    return np.random.default_rng(20261128)


@pytest.fixture(scope="module")
def browser():
    """One Chromium for the tests of a module, which are skipped where there is none."""
    executable = find_chromium()
    if executable is None:
        pytest.skip("no Chromium is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS, chromium_sandbox=False)
        yield opened
        opened.close()


# What the tabulator key stops at.
STOPS = ":is(button:enabled, input, select, summary, [tabindex='0'])"


@pytest.fixture(scope="session")
def announced():
    """What a widget says to a screen reader, a text for each time: after some control is used several times."""

    def listen(page, root, act):
        page.evaluate(
            "root => { const region = document.querySelector(`${root} [role=status]`);"
            "globalThis.said = []; globalThis.ear?.disconnect();"
            "globalThis.ear = new MutationObserver(() => said.push(region.textContent));"
            "ear.observe(region, { childList: true }); }",
            root,
        )
        act()
        page.wait_for_function("said.length > 0")
        page.wait_for_timeout(800)  # longer than the rest it waits for
        return page.evaluate("said")

    return listen


@pytest.fixture(scope="session")
def reachable():
    """Every slider and list of a widget has a visible label, and Tab shows where it is; the number of stops."""

    def walk(page, root):
        unnamed = "all => all.filter((e) => ![...e.labels].some((l) => l.offsetWidth > 2)).map((e) => e.id)"
        assert page.eval_on_selector_all(f"{root} :is(input[type=range], select)", unnamed) == []
        stops = page.locator(f":is({root}[tabindex='0'], {root} {STOPS})").count()
        page.evaluate("document.activeElement.blur()")
        seen = set()
        for _ in range(page.locator(STOPS).count() + 2):
            page.keyboard.press("Tab")
            place, inside, line = page.evaluate(
                "root => { const e = document.activeElement, s = getComputedStyle(e);"
                "return [[...document.querySelectorAll('*')].indexOf(e), !!e.closest(root) && e !== document.body,"
                "s.outlineStyle === 'none' ? 0 : parseFloat(s.outlineWidth)]; }",
                root,
            )
            if inside:
                assert line >= 2, page.evaluate("document.activeElement.outerHTML")
                seen.add(place)
        assert len(seen) == stops
        return stops

    return walk


@pytest.fixture(scope="session")
def acceptance():
    """Interval of binomial counts that a true probability leaves with chance at most `alarm`."""

    def interval(trials, probability, alarm=1e-6):
        return binom.ppf(alarm / 2, trials, probability), binom.isf(alarm / 2, trials, probability)

    return interval
