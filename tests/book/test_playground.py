"""The start page's playground computes what the book computes: its law, and its simulation against the law."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import pytest

from rrl import clopper_pearson

SCRIPT = Path(__file__).resolve().parents[2] / "book" / "_static" / "playground.js"
SETTINGS = [(1, 0.5, 2), (100, 0.5, 2), (400, 0.1, 1), (10_000, 0.1, 50), (10**7, 2.0, 1)]
PAIRS = 4_000


@pytest.fixture(scope="module")
def played():
    """The script's own law and count of agreeing pairs at each setting."""
    program = (
        f"const p = require({json.dumps(str(SCRIPT))});"
        f"const rows = {json.dumps(SETTINGS)}.map((s) => [p.agreement(...s), p.simulate(...s, {PAIRS}, 11)]);"
        "console.log(JSON.stringify(rows));"
    )
    ran = subprocess.run(["node", "-e", program], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize("index", range(len(SETTINGS)))
def test_law_and_simulation(played, index):
    n, width, dim = SETTINGS[index]
    x = width / math.sqrt(2 / n)
    one = math.erf(x / math.sqrt(2)) - math.sqrt(2 / math.pi) * -math.expm1(-(x**2) / 2) / x
    law, same = played[index]
    assert law == pytest.approx(one**dim, abs=1e-9)
    # False alarm: at most 5e-5 over the five settings, and the seed is fixed.
    low, high = clopper_pearson(same, PAIRS, 1 - 1e-5)
    assert low <= law <= high


def test_no_request_leaves_the_page():
    text = SCRIPT.read_text() + SCRIPT.with_suffix(".css").read_text()
    addresses = text.replace("http://www.w3.org/2000/svg", "")  # a name space, never fetched
    for word in ("http:", "https:", "//cdn", "fetch(", "XMLHttpRequest", "import(", "@import", "url(h"):
        assert word not in addresses, word
