"""The claim map: it has every item of the paper and no fault, what chapters found stops the build, its page works."""

import ast
import csv
import hashlib
import json
import pkgutil
import re
import shutil
from collections import Counter
from pathlib import Path

import book_claims
import jupytext
import numpy as np
import pytest
import yaml
from figure_origins import statements

from rrl.book.claims import KINDS, STATUSES, verdict

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "shared" / "paper" / "replicable-linear-rl.tex"
if not PAPER.is_file():
    PAPER = ROOT.parent / "shared" / "paper" / "replicable-linear-rl.tex"
SHORT = {
    "definition": "def",
    "assumption": "asm",
    "proposition": "prop",
    "lemma": "lem",
    "theorem": "thm",
    "corollary": "cor",
    "algorithm": "alg",
    "figure": "fig",
    "table": "tab",
}


# The list of items


def number_items(tex):
    """Number a paper's items as LaTeX does: label, kind, number, LaTeX label."""
    section, appendix, counts, rows, open_item = 0, False, Counter(), [], None
    kinds = "|".join(kind for kind in SHORT if kind != "figure")
    pattern = (
        rf"\\(section|appendix)\b(?!\*)|\\(begin|end)\{{({kinds}|figure|wrapfigure)\}}|\\label\{{((?!eq:|ln:)[^}}]*)\}}"
    )
    for found in re.finditer(pattern, re.sub(r"(?m)(?<!\\)%.*$", "", tex)):
        command, side, kind, label = found.groups()
        kind = "figure" if kind == "wrapfigure" else kind
        if command == "appendix":
            section, appendix = 0, True
        elif command == "section":
            section, counts = (
                section + 1,
                Counter({k: n for k, n in counts.items() if k in ("algorithm", "figure", "table")}),
            )
        elif side == "begin":
            counts[kind] += 1
            within = "ABCDEFG"[section - 1] if appendix else str(section)
            number = str(counts[kind]) if kind in ("algorithm", "figure", "table") else f"{within}.{counts[kind]}"
            open_item = [f"{SHORT[kind]}-{number.replace('.', '-').lower()}", kind, number, ""]
            rows.append(open_item)
        elif side == "end":
            open_item = None
        elif open_item:
            open_item[3] = label
    return rows


def test_items_are_numbered_as_latex_does():
    tex = r"""\section{One} \begin{lemma} \label{lem:a} \end{lemma} \label{sec:x} % \begin{lemma}
    \section{Two} \begin{algorithm} \label{alg:b} \end{algorithm} \begin{lemma} \end{lemma}
    \begin{wrapfigure} \label{fig:c} \end{wrapfigure}
    \appendix \section{Proofs} \begin{lemma} \label{eq:d} \end{lemma}"""
    assert number_items(tex) == [
        ["lem-1-1", "lemma", "1.1", "lem:a"],
        ["alg-1", "algorithm", "1", "alg:b"],
        ["lem-2-1", "lemma", "2.1", ""],
        ["fig-1", "figure", "1", "fig:c"],
        ["lem-a-1", "lemma", "A.1", ""],
    ]


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's source is not here")
def test_the_list_has_every_item_of_the_paper():
    lines = (ROOT / "book" / "paper_items.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "label,kind,number,latex"
    assert lines[1:] == [",".join(row) for row in number_items(PAPER.read_text(encoding="utf-8"))]


# The map of this book

FIELDS = {"label", "item", "title", "statement", "chapter", "functions", "tests", "status"}
ERRATUM_FIELDS = ("number", "title", "kind", "where", "source", "printed", "meant", "survives")


def read_items(root):
    """The paper's numbered items: label -> "Theorem 3.1"."""
    with open(root / "book" / "paper_items.csv", encoding="utf-8", newline="") as file:
        return {row["label"]: f"{row['kind'].title()} {row['number']}" for row in csv.DictReader(file)}


def has_name(path):
    """Tell whether a dotted name below rrl exists."""
    try:
        pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        return False
    return True


def find_errata_faults(errata):
    """Everything that is wrong with the entries, one sentence each."""
    faults, numbers = [], [entry.get("number") for entry in errata]
    faults += [f"erratum {n}: {count} entries" for n, count in Counter(numbers).items() if count > 1]
    for entry in errata:
        if missing := [name for name in ERRATUM_FIELDS if not entry.get(name)]:
            faults.append(f"erratum {entry.get('number')}: no {', '.join(missing)}")
        elif entry["kind"] not in KINDS:
            faults.append(f"erratum {entry['number']}: unknown kind {entry['kind']!r}")
    return faults


def has_test(root, node):
    """Tell whether a pytest node id below tests/ exists, by reading the file."""
    name, *parts = node.split("::")
    path = root / "tests" / name
    if not parts or not path.is_file():
        return False
    scope = ast.parse(path.read_text(encoding="utf-8")).body
    for part in parts:
        found = [n for n in scope if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == part]
        if not found:
            return False
        scope = found[0].body
    return True


def map_faults(root):
    """Everything that is wrong with the map and the errata, one sentence each."""
    claims, items, errata = book_claims.read_claims(root), read_items(root), book_claims.read_errata(root)
    faults, numbers = find_errata_faults(errata), [erratum.get("number") for erratum in errata]
    labels = Counter(entry.get("label") for entry in claims)
    faults += [f"{items[label]} ({label}) has no entry" for label in items.keys() - labels.keys()]
    faults += [f"{label} has {n} entries" for label, n in labels.items() if n > 1]
    for entry in claims:
        label = entry.get("label")
        missing = sorted(name for name in FIELDS if not entry.get(name) and (name != "functions" or name not in entry))
        if missing:
            faults.append(f"{label}: no {', '.join(missing)}")
            continue
        if items.get(label) != entry["item"]:
            faults.append(f"{label}: the paper has {items.get(label, 'no such item')}, the entry {entry['item']}")
        allowed = entry.get("allowed", [entry["status"]])
        faults += [f"{label}: unknown status {status!r}" for status in allowed if status not in STATUSES]
        if entry["status"] == "holds corrected" and not entry.get("errata"):
            faults.append(f"{label}: corrected by no erratum")
        faults += [f"{label}: no erratum {e}" for e in entry.get("errata", []) if e not in numbers]
        faults += [f"{label}: no function {name}" for name in entry["functions"] if not has_name(name)]
        faults += [f"{label}: no test {node}" for node in entry["tests"] if not has_test(root, node)]
    return sorted(faults)


@pytest.fixture(scope="module")
def claims():
    return book_claims.read_claims(ROOT)


def test_the_map_has_no_fault():
    assert map_faults(ROOT) == []


def test_every_item_has_its_box_or_figure_in_the_chapter_that_is_named(claims):
    missing = []
    for entry in claims:
        source = ROOT / "notebooks" / f"{Path(entry['chapter']).name}.md"
        anchor = (
            rf"(name: {entry['anchor']}|\({entry['anchor']}\)=)$"
            if "anchor" in entry
            else rf":label: {entry['label']}$"
        )
        if not source.is_file() or not re.search(anchor, source.read_text(encoding="utf-8"), re.M):
            missing.append(entry["item"])
    assert missing == []


JUDGES = {"verdict", "figure_status"}


def typed_verdicts(source):
    """Glued verdicts of a notebook that no judge gave, or that a status typed outside a judge's call may have been."""
    cells = jupytext.reads(source, fmt="md:myst").cells
    parts = [part for cell in cells if cell.cell_type == "code" for part in statements(cell.source)]
    tree = ast.Module(body=parts, type_ignores=[])
    made = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            targets, value = getattr(node, "targets", None) or [node.target], node.value
        elif isinstance(node, ast.For | ast.comprehension):
            targets, value = [node.target], node.iter
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            targets, value = [node.func.value], node
        else:
            continue
        for name in (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)):
            made.setdefault(name, []).append(value)

    def sources(value, seen):
        """Judges' calls and typed statuses that an expression rests on."""
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") in JUDGES:
            return {"judge"}
        found = {"typed"} if isinstance(value, ast.Constant) and value.value in STATUSES else set()
        if isinstance(value, ast.Name) and value.id not in seen:
            return set().union(*(sources(one, seen | {value.id}) for one in made.get(value.id, [])))
        return found.union(*(sources(child, seen) for child in ast.iter_child_nodes(value)))

    bad = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "glue":
            label = ast.unparse(node.args[0])
            if "claim-" in label and sources(node.args[1], set()) != {"judge"}:
                bad.append(label)
    return bad


def test_verdicts_are_computed_not_typed():
    sources = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "notebooks").glob("*.md"))]
    assert sum(text.count('"claim-') for text in sources) > 30
    assert [bad for text in sources for bad in typed_verdicts(text)] == []


@pytest.mark.parametrize(
    ("code", "bad"),
    [
        ('glue("claim-a", verdict(x == 1, holding="illustrated"))', 0),
        ('glue("claim-a", "refuted")', 1),
        ('status = "refuted"\nglue("claim-a", status)', 1),
        ('status = verdict(x)\nif y:\n    status = "refuted"\nglue("claim-a", status)', 1),
        ('status = "refuted" if x else verdict(y)\nglue("claim-a", status)', 1),
        ('found = {"a": "illustrated"}\nfor k, v in found.items():\n    glue(f"claim-{k}", v)', 1),
        ('found = {"a": verdict(x)}\nfor k, v in found.items():\n    glue(f"claim-{k}", v)', 0),
        ('glue("claim-a", x)', 1),
        ('x = 3\nglue("claim-a", x)', 1),
        ('s = figure_status(a, b)\nglue("claim-a", s)\nglue("b", "refuted")', 0),
    ],
)
def test_a_typed_verdict_is_found_behind_a_variable(code, bad):
    cell = f"Text\n\n```{{code-cell}} ipython3\n:tags: [hide-cell]\n\n%matplotlib inline\n{code}\n```\n"
    assert len(typed_verdicts(cell)) == bad
    assert len(typed_verdicts(cell.replace(":tags: [hide-cell]\n", "---\ntags: [hide-cell]\n---\n"))) == bad


def test_a_verdict_says_what_the_checks_make_of_an_item():
    assert verdict(True) == verdict(np.True_, False) == "holds as printed"
    assert verdict(False, True) == "holds corrected"
    assert verdict(False) == verdict(False, np.False_, holding="illustrated") == "refuted"
    assert verdict(True, holding="measured at reduced scale") == "measured at reduced scale"
    assert {verdict(p, c) for p in (True, False) for c in (True, False)} <= set(STATUSES)
    for bad in (1, "yes", None, np.float64(0.5), np.array([True])):
        with pytest.raises(TypeError, match="printed must be True or False"):
            verdict(bad)
    with pytest.raises(TypeError, match="corrected must be True or False, got 2"):
        verdict(False, 2)
    for bad in ("refuted", "holds corrected", "proved"):
        with pytest.raises(ValueError, match="holding must be a status of an item that passed"):
            verdict(True, holding=bad)


# Its faults


ERRATUM = {
    "number": "E1",
    "title": "there",
    "kind": "constant",
    "printed": "$\\alpha$",
    "meant": "$\\alpha/2$",
    "survives": "all",
    "where": "Lemma 2.1",
    "source": "\\alpha",
}


@pytest.fixture
def small(tmp_path):
    """Make a book with one item and everything that it names."""
    entry = {
        "label": "lem-2-1",
        "item": "Lemma 2.1",
        "title": "rounding",
        "statement": "Half a bin, $\\alpha/2$.",
        "chapter": "chapters/01_rounding",
        "functions": ["rrl.hypergrid_round", "rrl.theory.rounding_error_bound"],
        "tests": ["test_a.py::test_one", "test_a.py::TestB::test_two"],
        "status": "holds corrected",
        "errata": ["E1"],
    }
    files = {
        "book/paper_items.csv": "label,kind,number,latex\nlem-2-1,lemma,2.1,lem:rounding\n",
        "book/errata.yml": yaml.safe_dump([ERRATUM]),
        "tests/test_a.py": "def test_one(): ...\nclass TestB:\n    def test_two(self): ...\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path, entry


def faults(root, entries, verdicts=None, chapters=("chapters/01_rounding",)):
    """What the tests of the map and the build would say."""
    (root / "book" / "claims.yml").write_text(yaml.safe_dump(entries), encoding="utf-8")
    if verdicts is None:
        verdicts = {"lem-2-1": {"chapters/01_rounding": "holds corrected"}}
    claims = book_claims.read_claims(root)
    return sorted([*map_faults(root), *book_claims.find_faults(claims, set(chapters), verdicts)])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, None),
        ({"label": "lem-2-2"}, "Lemma 2.1 (lem-2-1) has no entry"),
        ({"item": "Lemma 2.2"}, "lem-2-1: the paper has Lemma 2.1, the entry Lemma 2.2"),
        ({"title": ""}, "lem-2-1: no title"),
        ({"functions": []}, None),
        ({"tests": [], "statement": None}, "lem-2-1: no statement, tests"),
        ({"status": "proved"}, "lem-2-1: unknown status 'proved'"),
        ({"status": "refuted"}, "lem-2-1: the map says 'refuted', chapters/01_rounding recorded 'holds corrected'"),
        ({"errata": []}, "lem-2-1: corrected by no erratum"),
        ({"errata": ["E2"]}, "lem-2-1: no erratum E2"),
        ({"functions": ["rrl.nothing"]}, "lem-2-1: no function rrl.nothing"),
        ({"functions": ["rrl.theory.nothing.more"]}, "lem-2-1: no function rrl.theory.nothing.more"),
    ],
)
def test_each_fault_is_found(small, change, fault):
    root, entry = small
    found = faults(root, [entry | change])
    assert found == [] if fault is None else fault in found


def test_verdicts_are_demanded_and_compared_in_every_chapter(small):
    root, entry = small
    assert faults(root, [entry], verdicts={}) == ["lem-2-1: no page has recorded a verdict"]
    assert faults(root, [entry], verdicts={}, chapters=()) == []
    one, two = {"chapters/01_rounding": "holds corrected"}, {"chapters/13_errata": "refuted"}
    assert faults(root, [entry], verdicts={"lem-2-1": one | two}) == [
        "lem-2-1: the map says 'holds corrected', chapters/13_errata recorded 'refuted'"
    ]
    assert faults(root, [entry], verdicts={"lem-2-1": one, "lem-9": one}) == ["lem-9 has a verdict and no entry"]
    assert faults(root, [entry, entry]) == ["lem-2-1 has 2 entries"]


def test_where_runs_still_arrive_the_page_says_which_of_several_statuses_it_is(small):
    root, entry = small
    entry |= {"status": ["cannot tell", "measured at reduced scale"], "errata": []}
    page, (measured, first, other) = entry["chapter"], ("measured at reduced scale", "cannot tell", "refuted")
    assert faults(root, [entry], verdicts={"lem-2-1": {page: measured}}) == []
    assert faults(root, [entry], verdicts={"lem-2-1": {page: first}}) == []
    assert "recorded 'refuted'" in faults(root, [entry], verdicts={"lem-2-1": {page: other}})[0]
    assert book_claims.read_claims(root)[0]["status"] == first
    (root / "chapters").mkdir()
    (root / "chapters" / "01_rounding.ipynb").write_text(notebook(claim_lem_2_1=measured))
    assert book_claims.read_claims(root)[0]["status"] == measured
    entry["status"] = [first, "proved"]
    assert faults(root, [entry], verdicts={}) == [
        "lem-2-1: no page has recorded a verdict",
        "lem-2-1: unknown status 'proved'",
    ]


def test_tests_are_found_by_their_names(small):
    root, entry = small
    assert all(has_test(root, node) for node in entry["tests"])
    for node in ("test_a.py::test_two", "test_a.py::TestB::test_one", "test_b.py::test_one", "test_a.py"):
        assert not has_test(root, node)


@pytest.mark.parametrize(
    ("errata", "fault"),
    [
        ([ERRATUM], None),
        ([ERRATUM, ERRATUM], "erratum E1: 2 entries"),
        ([ERRATUM | {"kind": "slip"}], "erratum E1: unknown kind 'slip'"),
        ([ERRATUM | {"kind": ["constant", "notation"]}], "erratum E1: unknown kind ['constant', 'notation']"),
        ([ERRATUM | {"kind": None, "meant": ""}], "erratum E1: no kind, meant"),
    ],
)
def test_each_fault_of_an_erratum_is_found(small, errata, fault):
    root, entry = small
    (root / "book" / "errata.yml").write_text(yaml.safe_dump(errata), encoding="utf-8")
    found = faults(root, [entry])
    assert found == [] if fault is None else fault in found


def test_the_table_of_chapter_13_has_every_kind_and_its_sections_follow_it():
    errata = book_claims.read_errata(ROOT)
    kinds = [erratum["kind"] for erratum in errata]
    assert len(kinds) == 24 and set(kinds) == set(KINDS)
    page = (ROOT / "notebooks" / "13_errata.md").read_text(encoding="utf-8")
    assert re.findall(r"^```\{rrl-errata\} (.+)$", page, re.M) == ["all", "source"]
    assert all(f"- **{kind}**: " in page for kind in KINDS)
    titles = [(erratum["number"], erratum["title"]) for erratum in errata]
    assert re.findall(r"^### (E\d+): (.+)$", page, re.M) == titles
    assert re.findall(r"^```\{rrl-erratum\} (.+)$", page, re.M) == [number for number, _ in titles]


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's source is not here")
def test_the_errata_stand_in_the_order_of_the_paper_and_quote_it():
    tex, place = PAPER.read_text(encoding="utf-8"), 0
    for erratum in book_claims.read_errata(ROOT):
        place = tex.find(erratum["source"], place)
        assert place >= 0, erratum["number"]


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's source is not here")
def test_the_errata_name_the_text_that_they_are_about():
    page = (ROOT / "notebooks" / "13_errata.md").read_text(encoding="utf-8")
    assert re.findall(r"`([0-9a-f]{64})`", page) == [hashlib.sha256(PAPER.read_bytes()).hexdigest()]
    tex = PAPER.read_text(encoding="utf-8")
    assert r"\date{}" in tex and "d^{56}H^{62}" in tex and "H^{23}" in tex


def test_no_page_types_a_number_of_errata():
    digits = "|".join([r"\d+", *"two three four five six seven eight nine ten twenty twenty-four".split()])
    kinds = "errata|erratum|misprints?|proof steps?|wrong statements?"
    typed = {}
    for path in [ROOT / "README.md", *(p for d in ("notebooks", "book", "slides") for p in (ROOT / d).glob("*.md"))]:
        for found in re.findall(rf"(?i)\b(?:{digits}) (?:{kinds})\b", path.read_text(encoding="utf-8")):
            typed.setdefault(path.name, []).append(found)
    assert typed == {}


def notebook(**glued):
    """An executed notebook that glued these verdicts, and a picture of no interest."""
    prefix = "application/papermill.record/"
    outputs = [
        {
            "output_type": "display_data",
            "data": {f"{prefix}text/plain": repr(value)},
            "metadata": {"scrapbook": {"name": name.replace("_", "-"), "mime_prefix": prefix}},
        }
        for name, value in glued.items()
    ]
    cells = [{"cell_type": "code", "outputs": [*outputs, {"output_type": "stream", "text": "x"}]}]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": "x"}, *cells]})


def test_verdicts_are_read_from_executed_chapters(tmp_path):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters" / "01_a.ipynb").write_text(notebook(claim_lem_2_1="refuted", other="x"))
    (tmp_path / "chapters" / "02_b.ipynb").write_text(notebook(claim_lem_2_1="illustrated"))
    both = {"lem-2-1": {"chapters/01_a": "refuted", "chapters/02_b": "illustrated"}}
    assert book_claims.read_verdicts(tmp_path, ["chapters/02_b", "chapters/01_a"]) == both
    assert book_claims.read_verdicts(tmp_path, ["chapters/01_a"]) == {"lem-2-1": {"chapters/01_a": "refuted"}}


# In Sphinx


ERRATA_PAGE = """# Errata

```{rrl-errata} all
```

```{rrl-errata} source
```

(e1)=
## E1: there

```{rrl-erratum} E1
```
"""


@pytest.fixture
def build(small, monkeypatch):
    """Build the small book with Sphinx; give the page, the chapter and the warnings."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    root, entry = small
    (root / "chapters").mkdir()
    (root / "index.md").write_text("# Book\n\n```{toctree}\nerrata\nbook/claims\nchapters/01_rounding\n```\n")
    (root / "book" / "claims.md").write_text("# Claim map\n\n```{rrl-claims}\n```\n")
    names = "".join(f".. py:function:: {name}\n" for name in entry["functions"])
    api = f"---\norphan: true\n---\n\n# Names\n\n```{{eval-rst}}\n{names}```\n"
    (root / "book" / "api.md").write_text(api)
    (root / "chapters" / "01_rounding.ipynb").write_text(notebook(claim_lem_2_1="holds corrected"))
    monkeypatch.setattr(book_claims, "ROOT", root)

    def run(box="lem-2-1", more="", **change):
        (root / "errata.md").write_text(ERRATA_PAGE + more, encoding="utf-8")
        (root / "book" / "claims.yml").write_text(yaml.safe_dump([entry | change]), encoding="utf-8")
        text = f"# Rounding\n\n```{{prf:lemma}} 2.1\n:label: {box}\n:nonumber:\n\nTrue.\n```\n"
        (root / "chapters" / "01_rounding.md").write_text(text)
        options = {
            "extensions": ["myst_parser", "sphinx_proof", "book_claims"],
            "exclude_patterns": ["out", "notebooks"],
            "myst_enable_extensions": ["attrs_block", "dollarmath"],
        }
        warnings = open(root / "warnings", "w+", encoding="utf-8")
        with warnings, patch_docutils(root), docutils_namespace():
            app = Sphinx(root, None, root / "out", root / "out", "html", options, None, warnings, freshenv=True)
            app.build()
            warnings.seek(0)
            said = warnings.read()
        return *((root / "out" / f"{name}.html").read_text() for name in ("book/claims", "chapters/01_rounding")), said

    return run


def test_the_table_and_the_box_lead_to_each_other(build):
    page, chapter, said = build()
    assert said == ""
    assert 'href="../book/claims.html#claim-lem-2-1">2 tests, and its place in the claim map</a>' in chapter
    assert '<tr class="kind-lem status-holds-corrected in-01_rounding' in page
    assert 'id="claim-lem-2-1"' in page
    assert 'href="../chapters/01_rounding.html#lem-2-1"' in page
    assert "holds corrected 1." in page
    assert "<summary>2 tests</summary>" in page
    assert re.search(r'holds corrected</span> constant <a class="reference internal" href="../errata.html#e1">', page)


def test_the_errata_are_a_table(build):
    build()
    page = (book_claims.ROOT / "out" / "errata.html").read_text(encoding="utf-8")
    row = re.search(r"<tbody>.*?</tbody>", page, re.S)[0]
    assert '<a class="reference internal" href="#e1"><span class="std std-ref">E1</span></a>' in row
    assert r"\(\alpha/2\)" in row and row.count("<tr") == 1
    assert '<span class="erratum-kind constant">constant</span>' in row and ">Lemma 2.1<" in row
    source = re.findall(r"<tbody>.*?</tbody>", page, re.S)[1]
    assert "E1" in source and "<p>Lemma 2.1</p>" in source and r"\alpha" in source
    head = page[page.index('class="erratum-head"') :]
    assert head.index("constant") < head.index("Lemma 2.1") < 200


def test_a_section_of_no_erratum_is_a_warning(build):
    assert "there is no erratum E2" in build(more="\n```{rrl-erratum} E2\n```\n")[2]


def test_an_entry_without_anchor_and_a_contradiction_are_warnings(build):
    assert "lem-2-1" in (said := build(box="lem-x")[2]) and "not found" in said, said
    assert "undefined label: 'fig-1'" in build(anchor="fig-1")[2]
    said = build(status="illustrated")[2]
    assert (
        "WARNING: claim map: lem-2-1: the map says 'illustrated', chapters/01_rounding recorded 'holds corrected'"
        in said
    )


# In the browser

ROWS = """<!doctype html><link rel="icon" href="data:,">
<link rel="stylesheet" href="book.css"><link rel="stylesheet" href="claims.css"><script src="book.js"></script>
<table class="cards claims"><thead><tr><th>Item</th></tr></thead><tbody>
<tr id="claim-lem-2-1" class="kind-lem status-holds-as-printed in-01_rounding"><td>Lemma 2.1 rounding</td></tr>
<tr id="claim-thm-3-1" class="kind-thm status-holds-corrected in-03_ridge"><td>Theorem 3.1 ridge regression</td></tr>
<tr id="claim-lem-a-1" class="kind-lem status-holds-as-printed in-03_ridge in-A_proof"><td>Lemma A.1 rounding</td></tr>
</tbody></table><script src="claims.js"></script>"""


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """Open a page with three rows in the browser."""
    folder = tmp_path_factory.mktemp("claims")
    for name in ("claims.js", "claims.css", "book.js", "book.css"):
        shutil.copy(ROOT / "book" / "_static" / name, folder)
    (folder / "a.html").write_text(ROWS)
    tab = browser.new_page()
    tab.set_default_timeout(5_000)
    tab.goto((folder / "a.html").as_uri())
    return tab


def shown(page):
    """Ids of the rows that are visible."""
    return page.eval_on_selector_all("tbody tr", "rows => rows.filter(r => r.offsetParent).map(r => r.id.slice(6))")


def test_filters_work_together_and_say_how_many_are_left(page):
    assert shown(page) == ["lem-2-1", "thm-3-1", "lem-a-1"]
    page.get_by_label("Text").fill("Rounding LEMMA")
    assert shown(page) == ["lem-2-1", "lem-a-1"]
    page.get_by_label("Chapter").select_option(label="appendix A")
    assert shown(page) == ["lem-a-1"]
    assert page.locator(".claims-count").inner_text() == "1 of 3 items"
    page.get_by_role("button", name="Show all").click()
    assert len(shown(page)) == 3
    page.get_by_label("Chapter").select_option(label="chapter 3")
    assert shown(page) == ["thm-3-1", "lem-a-1"]
    page.get_by_label("Kind").select_option(label="theorems")
    assert shown(page) == ["thm-3-1"]
    page.get_by_label("Status").select_option(label="holds as printed")
    assert shown(page) == []
    assert page.locator(".claims-count").inner_text() == "0 of 3 items"
    page.get_by_role("button", name="Show all").click()
    assert len(shown(page)) == 3


def test_the_keyboard_reaches_every_control_and_enter_reloads_nothing(page):
    page.get_by_label("Text").focus()
    page.keyboard.type("ridge")
    page.keyboard.press("Enter")
    assert shown(page) == ["thm-3-1"]
    names = []
    for _ in range(4):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.parentElement.textContent.slice(0, 4)"))
    assert names[:3] == ["Kind", "Stat", "Chap"]
    page.keyboard.press("Enter")
    assert len(shown(page)) == 3


def test_a_link_to_a_row_that_is_filtered_out_finds_it(page):
    page.get_by_label("Text").fill("ridge")
    assert shown(page) == ["thm-3-1"]
    page.evaluate("location.hash = '#claim-lem-a-1'")
    page.wait_for_function("!document.getElementById('claim-lem-a-1').hidden")
    assert len(shown(page)) == 3


def test_the_count_is_said_once_the_typing_rests(page, announced, reachable):
    assert page.locator("[role=status]").count() == 1 and page.locator("output").count() == 0
    assert reachable(page, ".claims-filter") == 5
    page.get_by_label("Text").fill("")

    def type_word():
        page.get_by_label("Text").focus()
        page.keyboard.type("rounding")

    assert announced(page, ".claims-filter", type_word) == ["2 of 3 items"]
    show_all = page.get_by_role("button", name="Show all")
    assert announced(page, ".claims-filter", show_all.click) == ["3 of 3 items"]
