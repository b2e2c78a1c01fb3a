"""The widgets of the start page and of chapters 5 and 9 in a real browser: the package's numbers, and every control."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from check_pages import served
from scipy.stats import kstest, wishart

from rrl import clopper_pearson, project_psd, theory

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
FILES = ("book", "playground", "psd", "cartpole")
HEAD = '<!doctype html><meta charset="utf-8"><title>w</title><link rel="icon" href="data:,">'
HEAD += '<link rel="stylesheet" href="book.css"><script src="book.js"></script>'
UPPER = np.triu_indices(2)
PSD = """<link rel="stylesheet" href="playground.css"><link rel="stylesheet" href="psd.css">
<div id="psd" class="playground psd"><p>needs JavaScript</p></div>
<script src="playground.js"></script><script src="psd.js"></script>
<script src="playground.js"></script><script src="psd.js"></script>"""
CARTPOLE = """<link rel="stylesheet" href="cartpole.css">
<script type="application/json" id="cartpole-data">DATA</script>
<div id="cartpole" class="cartpole"><p class="cartpole-note">needs JavaScript</p></div>
<hr style="margin-bottom: 3000px"><script src="cartpole.js"></script><script src="cartpole.js"></script>"""


def recorded(push, x=0.0, angle=0.05):
    """A run whose cart stands at x (thousandths) until a last state."""
    n = len(push)
    return {
        "x": [round(1000 * x * k / n) for k in range(n + 1)],
        "angle": [50] * n + [round(1000 * angle)],
        "push": push,
    }


def pairs_of(rounded, plain):
    """Both pairs of a case; equal runs stand for equal policies."""
    common = {"of": 64, "asked": 1000}
    return [
        {"name": "With rounding", "rounded": True, "runs": rounded, "equal": 64, "alike": 1000, **common},
        {"name": "Without rounding", "rounded": False, "runs": plain, "equal": 0, "alike": 970, **common},
    ]


BALANCED = recorded("01" * 250)
CASES = [
    {"name": "first", "pairs": pairs_of([BALANCED, BALANCED], [recorded("0110" * 5, angle=0.21), recorded("01" * 15)])},
    {"name": "second", "pairs": pairs_of([recorded("0" * 9, x=-2.5)] * 2, [recorded("1" * 9), recorded("0" * 12)])},
]


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    site = tmp_path_factory.mktemp("widgets")
    (site / "psd.html").write_text(HEAD + PSD, encoding="utf-8")
    frame = pd.DataFrame({"claim": ["a long sentence that holds ± and has to wrap"], "return": ["9.76 ± 1.98 ↓"]})
    kinds = [frame.to_html(), frame.style.hide(axis="index").to_html()]
    tables = "".join(f'<div class="cell_output">{kind}</div>' for kind in kinds)
    (site / "tables.html").write_text(HEAD + tables, encoding="utf-8")
    # As on the one long page that is printed: both widgets, and what they share loaded for each.
    both = '<div id="playground" class="playground"></div>' + PSD
    (site / "both.html").write_text(HEAD + both, encoding="utf-8")
    packed = json.dumps({"cases": CASES})
    (site / "cartpole.html").write_text(HEAD + CARTPOLE.replace("DATA", packed), encoding="utf-8")
    for name in FILES:
        for kind in ("js", "css"):
            shutil.copy(STATIC / f"{name}.{kind}", site)
    with served(site) as address:
        yield address


@pytest.fixture
def visit(browser, origin):
    """Open a page as a phone would show it; a script error or a request elsewhere fails the test."""
    pages, errors = [], []

    def opened(name, **options):
        page = browser.new_page(**{"viewport": {"width": 390, "height": 844}, **options})
        page.on("pageerror", lambda error: errors.append(error.message))
        page.on("request", lambda request: request.url.startswith(origin) or errors.append(request.url))
        page.goto(origin + name)
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert errors == []


def test_every_table_of_pandas_follows_the_theme(visit):
    """Styled ones too; a number stays with its error, a sentence wraps."""
    page = visit("tables.html")
    page.wait_for_load_state()
    names = page.evaluate("[...document.querySelectorAll('table')].map((t) => t.classList.contains('dataframe'))")
    spaces = page.evaluate("[...document.querySelectorAll('td')].map((c) => getComputedStyle(c).whiteSpace)")
    assert names == [True, True] and spaces == ["normal", "nowrap"] * 2


def symmetric(entries):
    a, b, c = entries
    return np.array([[a, b], [b, c]])


def test_matrices_are_those_of_the_package(visit, rng):
    """Eigenvalues, projection, distance and the exact law, in and out of the cone."""
    edge = [[0, 0, 0], [1, 1, 1], [-1, 0, -2], [0, 1, 0], [1, 0, 1], [0.3, 0, -0.1]]
    cases = edge + rng.normal(size=(200, 3)).tolist()
    others = (np.array(cases) + rng.normal(scale=0.05, size=(len(cases), 3))).tolist()
    found = visit("psd.html").evaluate(
        "([xs, ys]) => xs.map((x, i) => [Psd.eigenvalues(x), Psd.project(x), Psd.distance(x, ys[i]), "
        "Psd.law(x, ys[i], 0.1)])",
        [cases, others],
    )
    outside = 0
    for x, y, (values, mended, gap, chance) in zip(cases, others, found, strict=True):
        matrix = symmetric(x)
        assert np.allclose(values, np.linalg.eigvalsh(matrix)[::-1], atol=1e-12)
        assert np.allclose(symmetric(mended), project_psd(matrix), atol=1e-12)
        assert gap == pytest.approx(np.linalg.norm(matrix - symmetric(y)))
        assert chance == pytest.approx(1 - theory.disagreement_probability(np.subtract(x, y), 0.1), abs=1e-12)
        outside += values[1] < 0
    assert 50 < outside < len(cases)


def test_samples_follow_the_law_of_normal_inputs(visit):
    """Each entry against the same entry of scipy's Wishart law; false alarm 1e-5 a test, six tests."""
    draws = visit("psd.html").evaluate(
        "() => { const u = Playground.generator(5);"
        "return [[10, 0.9], [1000, -0.5]].map(([n, c]) => Array.from({ length: 2000 }, () => Psd.sample(n, c, u))); }"
    )
    for (n, correlation), ours in zip([(10, 0.9), (1000, -0.5)], np.array(draws), strict=True):
        scale = symmetric([0.16, correlation * 0.12, 0.09]) / n
        theirs = wishart(n, scale).rvs(2000, random_state=1)[:, UPPER[0], UPPER[1]]
        for i in range(3):
            assert kstest(ours[:, i], theirs[:, i]).pvalue > 1e-5


def test_rounding_moves_by_half_a_bin_and_agrees_by_the_law(visit):
    x, y, width, grids = [0.16, 0.11, 0.09], [0.162, 0.1, 0.087], 0.05, 4000
    page = visit("psd.html")
    chance, found, cell = page.evaluate(
        "([x, y, w, g]) => [Psd.law(x, y, w), Psd.simulate(x, y, w, g, 3), Psd.round(x, [0.01, 0.02, 0.03], w)]",
        [x, y, width, grids],
    )
    low, high = clopper_pearson(found["same"], grids, 1 - 1e-6)
    assert low <= chance <= high and 0 < found["outside"] < grids
    assert cell["codes"] == np.floor((np.array(x) - [0.01, 0.02, 0.03]) / width).tolist()
    assert np.abs(np.array(cell["matrix"]) - x).max() <= width / 2


def test_an_ellipse_a_hyperbola_and_nothing(visit):
    """Every point of a picture satisfies v' S^-1 v = 1."""
    page = visit("psd.html")
    for matrix in ([0.2, 0.05, 0.1], [0.1, 0.12, 0.1]):
        path = page.evaluate("(m) => Psd.shape(m)", matrix)
        points = np.array([p.split() for part in path.split("M")[1:] for p in part.split("L")], dtype=float)
        points = (points - 150) / 150 * 0.75 * [1, -1]
        near = points[np.abs(points).max(axis=1) < 0.75]
        inverse = np.linalg.inv(symmetric(matrix))
        assert np.allclose(np.einsum("ni,ij,nj->n", near, inverse, near), 1, atol=0.15) and len(near) > 5
        assert path.count("M") == (1 if np.linalg.det(symmetric(matrix)) > 0 else 2)
    assert page.evaluate("() => Psd.shape([-0.1, 0, -0.2])") == ""


def test_playground_controls_beside_another_widget(visit):
    page = visit("both.html")
    assert page.locator(".playground-controls").count() == 2
    verdict, law = page.locator("#playground figcaption").all()
    seen = set()
    for _ in range(8):
        seen.add(verdict.inner_text().split(":")[0])
        page.locator("#playground").get_by_role("button", name="New shared grid").click()
    assert seen == {"Same answer", "Different answers"}
    before = law.inner_text()
    page.locator("#playground").get_by_role("button", name="New data").press("Enter")
    assert law.inner_text() != before
    page.focus("#playground-logN")
    page.keyboard.press("End")
    assert page.get_attribute("#playground-logN", "aria-valuetext") == "10,000,000"
    page.fill("#playground-dim", "1")
    assert law.inner_text().startswith("Chance of the same answer: 0.999")
    assert page.inner_text("output[for=psd-logN]") == "1,000"  # the other widget keeps its own


def test_psd_controls(visit):
    page = visit("psd.html")
    assert page.locator("#psd .playground-controls").count() == 1  # the scripts were loaded twice
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")

    def cells(row):
        return page.locator(".psd-table tbody tr").nth(row).locator("td").all_inner_texts()

    def captions():
        return page.locator("#psd figcaption").all_inner_texts()

    # What stands on the page first: whatever the grid does, the words fit the numbers.
    seen, errors = set(), []
    for _ in range(12):
        raw, mended = (np.array([float(x.replace("−", "-")) for x in cells(k)[:3]]) for k in (2, 3))
        assert np.allclose(symmetric(mended), project_psd(symmetric(raw)), atol=2e-4)
        outside = "Indefinite" in captions()[0]
        seen.add(outside)
        assert outside == (np.linalg.eigvalsh(symmetric(raw))[0] < 0)
        assert page.locator("#psd svg path.rounded").get_attribute("d").count("M") == 1 + outside
        errors.append(float(cells(2)[4]) - float(cells(3)[4]))
        page.get_by_role("button", name="New shared grid").click()
    assert seen == {True, False} and min(errors) >= -1e-4
    page.get_by_role("button", name="New samples").focus()
    before = cells(1)
    page.keyboard.press("Enter")
    assert cells(1) != before and cells(0)[:3] == ["0.1600", "0.1140", "0.0900"]
    mine = cells(1)
    page.get_by_role("button", name="Show laboratory B").click()
    assert cells(1) != mine and page.locator("#psd svg path.lab-b").count() == 1
    page.focus("#psd-correlation")
    page.keyboard.press("Home")
    assert page.get_attribute("#psd-correlation", "aria-valuetext") == "−1.00"
    assert cells(0)[:4] == ["0.1600", "−0.1200", "0.0900", "0.2500, 0.0000"]
    page.fill("#psd-logN", "7")
    page.focus("#psd-logWidth")
    page.keyboard.press("End")
    assert "Same code" in captions()[1] and "0.99" in captions()[1]
    page.fill("#psd-correlation", "0")
    page.focus("#psd-logWidth")
    page.keyboard.press("Home")
    assert page.get_attribute("#psd-logWidth", "aria-valuetext") == "0.010"


@pytest.mark.parametrize(("name", "slider"), [("playground", "logN"), ("psd", "logWidth")])
def test_what_a_slider_does_is_said_once_it_rests(visit, announced, reachable, name, slider):
    page = visit("both.html")
    assert page.locator(f"#{name} [role=status]").count() == 1
    assert page.inner_text(f"#{name} [role=status]") == "" and page.locator(f"#{name} [aria-live]").count() == 0
    assert reachable(page, f"#{name}") >= 5

    def press():
        page.focus(f"#{name}-{slider}")
        for _ in range(6):
            page.keyboard.press("ArrowRight")

    captions = page.locator(f"#{name} figcaption")
    said = announced(page, f"#{name}", press)
    assert said == [" ".join(captions.all_text_contents())]
    again = announced(page, f"#{name}", lambda: page.locator(f"#{name} button").first.click())
    assert again == [" ".join(captions.all_text_contents())] and again != said


def test_cartpole_says_where_it_stands_once_it_rests(visit, announced, reachable):
    page = visit("cartpole.html", reduced_motion="reduce")
    assert page.inner_text("#cartpole [role=status]") == "" and page.locator("#cartpole [aria-live]").count() == 0
    assert reachable(page, "#cartpole") == 5  # play, slider, next step, two lists; one cannot step back from the start

    def press():
        page.focus("#cartpole-step")
        for _ in range(20):
            page.keyboard.press("ArrowRight")

    [said] = announced(page, "#cartpole", press)
    assert said.startswith("Step 20 of 500 (0.40 s). With rounding: same push; A: pushes")
    assert "Without rounding: a run is over; A: fell at step 20, B: pushes" in said
    [said] = announced(page, "#cartpole", lambda: page.select_option("#cartpole-case", label="second"))
    assert "one and the same policy" in said and "two different policies" in said
    page.select_option("#cartpole-speed", label="4 × speed")
    said = announced(page, "#cartpole", lambda: page.get_by_role("button", name="Play").click())
    assert said[-1].startswith("Step 12 of 12")


def test_without_a_script_the_words_remain(browser, origin):
    page = browser.new_context(java_script_enabled=False).new_page()
    for name in ("psd.html", "cartpole.html"):
        page.goto(origin + name)
        assert "needs JavaScript" in page.inner_text("body")
    page.context.close()


def test_no_request_leaves_the_page():
    text = "".join((STATIC / f"{name}.{kind}").read_text() for name in FILES for kind in ("js", "css"))
    addresses = text.replace("http://www.w3.org/2000/svg", "")  # a name space, never fetched
    for word in ("http:", "https:", "//cdn", "fetch(", "XMLHttpRequest", "import(", "@import", "url(h"):
        assert word not in addresses, word


def test_what_is_said_of_runs(visit):
    page = visit("cartpole.html")
    said = page.evaluate(
        "(cases) => cases.flatMap((c) => c.pairs.map((pair) => { const runs = pair.runs.map(CartPole.unpack);"
        "return [CartPole.differences(runs), CartPole.history({ ...pair, runs }), CartPole.verdict(pair), "
        "[0, 2, 19, 20, 499, 500].map((k) => CartPole.status(runs, k))]; }))",
        CASES,
    )
    pushes = ("0110" * 5, "01" * 10)
    apart = [k for k, (one, two) in enumerate(zip(*pushes, strict=True)) if one != two]
    assert [row[0] for row in said] == [[], apart, [], list(range(9))]
    assert said[0][1] == "The pushes never differ; A reaches step 500, B reaches step 500."
    assert said[1][1] == "The pushes first differ at step 2; A falls at step 20, B falls at step 30."
    assert said[2][1] == "The pushes never differ; A leaves the track at step 9, B leaves the track at step 9."
    assert said[0][2].startswith("64 of 64 codes equal: one and the same policy. On 1,000 of 1,000")
    assert said[1][2].startswith("0 of 64 weights equal: two different policies. On 970 of 1,000")
    assert said[0][3] == ["same"] * 5 + ["over"] and said[1][3] == ["same", "differ", "differ", "over", "over", "over"]


def step_of(page):
    return int(page.input_value("#cartpole input[type=range]"))


def test_cartpole_controls(visit):
    """Without motion asked for: still until the reader plays, steps or chooses."""
    page = visit("cartpole.html", reduced_motion="reduce")
    assert page.locator("#cartpole .cartpole-controls").count() == 1  # the script was loaded twice
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    page.wait_for_timeout(200)
    play = page.locator("#cartpole button").first
    assert step_of(page) == 0 and play.inner_text() == "Play" and page.get_by_label("previous step").is_disabled()
    marks = page.locator(".cartpole-pair")

    def mark():
        return [marks.nth(k).get_attribute("data-mark") for k in range(2)]

    assert mark() == ["same", "same"]
    page.get_by_label("next step").click()
    page.get_by_label("next step").press("Enter")
    assert step_of(page) == 2 and mark() == ["same", "differ"]
    assert "✗ pushes differ" in marks.nth(1).inner_text() and "✓ same push" in marks.nth(0).inner_text()
    page.get_by_label("step", exact=True).press("ArrowRight")
    assert step_of(page) == 3
    page.fill("#cartpole input[type=range]", "20")
    assert mark() == ["same", "over"] and "A: fell at step 20" in marks.nth(1).inner_text()
    assert page.locator("svg.down").count() == 1
    assert marks.nth(1).locator(".marks").get_attribute("d").count("M") == 10
    page.get_by_label("shared seed and penalty").select_option("second")
    assert step_of(page) == 0 and "leaves the track" in marks.nth(0).inner_text()
    assert page.get_attribute("#cartpole input[type=range]", "max") == "12"
    speed = page.get_by_label("speed")
    speed.select_option("1/10 speed")
    play.click()
    assert play.inner_text() == "Pause"
    speed.select_option("4 × speed")
    page.wait_for_function("document.querySelector('#cartpole input[type=range]').value === '12'")
    assert play.inner_text() == "Play" and page.get_by_label("next step").is_disabled()
    speed.select_option("1/10 speed")
    play.press("Enter")  # from the end it starts again
    page.wait_for_function("document.querySelector('#cartpole input[type=range]').value !== '12'")


def test_cartpole_moves_when_seen_until_the_reader_stops_it(visit):
    page = visit("cartpole.html", reduced_motion="no-preference")
    page.wait_for_function("document.querySelector('#cartpole input[type=range]').value > 2")
    place = page.locator("#cartpole g").first.get_attribute("transform")
    assert place is not None and page.inner_text("#cartpole [role=status]") == ""
    page.locator("#cartpole button").first.click()
    stopped = step_of(page)
    page.evaluate("scrollTo(0, 5000)")
    page.wait_for_timeout(100)
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(200)
    assert step_of(page) == stopped
    page.wait_for_function(
        "s => document.querySelector('#cartpole [role=status]').textContent.includes(s)", arg=f"Step {stopped} of"
    )


def test_on_paper_a_note_stands_for_the_animation(visit):
    page = visit("cartpole.html")
    assert not page.locator(".cartpole-note").is_visible()
    page.emulate_media(media="print")
    assert page.locator(".cartpole-note").is_visible() and not page.locator(".cartpole-pair").first.is_visible()
    assert not page.locator(".cartpole-controls").is_visible()
