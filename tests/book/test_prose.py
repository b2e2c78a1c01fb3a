"""The prose of chapters and pages: errata are links, and each chapter has a box with two changes to try."""

import re
from pathlib import Path

import jupytext
import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "notebooks").glob("[!.]*.md"))
PAGES = CHAPTERS + sorted((ROOT / "book").glob("*.md"))


def prose(text):
    """Lines of a source that are read as prose, and the captions of its figures, by line number."""
    lines, code, head = {}, False, []
    for number, line in enumerate(text.splitlines(), 1):
        if code:
            if line.startswith("```"):
                code = False
            elif line == "---" and head:
                options = yaml.safe_load("\n".join(head[1:])) or {}
                caption = options.get("mystnb", {}).get("figure", {}).get("caption", "")
                lines[number], head = caption, []
            elif line == "---" or head:
                head.append(line)
        elif re.match(r"```(\w|\{(code|raw|math))", line):
            code, head = True, []
        elif not re.match(r"#+ |\(e\d+\)=|```+\{(?!admonition)", line):
            lines[number] = line
    return lines


def plain_errata(text):
    """Numbers of errata that stand in prose without a link, with their lines."""
    found = []
    for number, line in prose(text).items():
        line = re.sub(r"\{ref\}`[^`]*`", "", line.replace("```", ""))
        line = re.sub(r"`[^`]*`|\$\$?[^$]*\$\$?", "", line)
        found += [(number, name) for name in re.findall(r"(?<![\w\\{])E\d{1,2}\b", line)]
    return found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("A bound (E9); write", [(1, "E9")]),
        ("- **Penalty** (erratum E1), {ref}`E2 <e2>`", [(1, "E1")]),
        ("| `E3` | $E4$ and $\\E5$ | {ref}`E22 <e22>` |", []),
        ("### E9: more replicable than reliable", []),
        ("(e9)=", []),
        ("```{admonition} To repair (E5)", [(1, "E5")]),
        ("```{code-cell} ipython3\nx = 'E9'  # E9\n```\nE8.", [(4, "E8")]),
        ("```{code-cell} ipython3\n---\nmystnb:\n  figure:\n    caption: |\n      By E7.\n---\nE9\n```", [(7, "E7")]),
        ("```python\nE9\n```", []),
    ],
)
def test_plain_errata_are_found(line, found):
    assert plain_errata(line) == found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_erratum_in_prose_is_a_link(path):
    assert plain_errata(path.read_text(encoding="utf-8")) == []


def code_of(text):
    """The code cells of a source."""
    return "\n".join(re.findall(r"^```\{code-cell\}.*?^```$", text, re.M | re.S))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_chapter_has_a_box_with_two_changes_of_values_that_it_has(path):
    text, number = path.read_text(encoding="utf-8"), path.stem.split("_")[0]
    boxes = re.findall(r"^(`{3,})\{admonition\} Change this\n(.*?)^\1$", text, re.M | re.S)
    assert len(boxes) == 1
    box, code = boxes[0][1], code_of(text)
    assert f"_build/tried/{path.stem}.ipynb" in box
    assert f"`make try NAME={number}`" in box or f"run_notebooks.py {number} --try" in box
    changes = re.findall(r"^- (.*)$", box, re.M)
    assert len(changes) == 2
    for change in changes:
        assert "?" in change  # what to look for
        names = re.findall(r"`\"?(\w+)", change)
        assert re.search(rf"\b{names[0]}\b", code), names[0]
        for old in re.findall(r"in place of (?:`([^`]+)`|([\d.,]*\d))", change):
            value = old[0] or old[1].replace(",", "")
            assert value in code.replace("_", "") or value in code, (change, value)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_fence_of_backticks_has_another_one_in_its_title(path):
    # It would be no fence, and its end would begin one.
    assert not re.findall(r"^```+[^`\n]+`.*$", path.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_cell_that_is_not_folded_has_twelve_lines_at_most(path):
    folded = ("hide", "remove", "parameters")
    shown = [
        cell.source.splitlines()
        for cell in jupytext.read(path).cells
        if cell.cell_type == "code" and not any(tag.startswith(folded) for tag in cell.metadata.get("tags", ()))
    ]
    assert [lines[0] for lines in shown if len(lines) > 12] == []
