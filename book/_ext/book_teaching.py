"""The teaching guide's tables: goals, exercises and reading times from the chapters, and the decks."""

import re

from book_nodes import ROOT, TemplateDirective
from build_slides import find_decks, read_deck
from notebook_texts import read_cells
from sphinx_external_toc.parsing import parse_toc_yaml

GOALS = re.compile(r"^(?:After (?:this|it).*?can)\n\n((?:- .*\n(?:  .*\n)*)+)", re.M)
EXERCISE = re.compile(r"^`{3,}\{exercise(?:-start)?\} *(.*)\n:label: *(\S+)", re.M)
WORD = re.compile(r"\$[^$]+\$|[A-Za-z]{2,}")  # a formula in the text is read like a word
# Minutes for a word, a line of code that is shown, a displayed formula, a table and a figure; the guide states them.
PACE = {"word": 1 / 100, "line": 1 / 15, "formula": 1, "table": 1, "figure": 2}


def listed_chapters(root):
    """Names of the notebooks in the order of the table of contents."""
    pages = parse_toc_yaml(root / "_toc.yml")
    return [name.removeprefix("chapters/") for name in pages if name.startswith("chapters/")]


def read_chapter(text):
    """Title, goals (Markdown) and exercises (title, label) of a chapter's source."""
    title = re.search(r"^# (.+)$", text.split("---\n", 2)[-1], re.M)[1]
    goals = GOALS.search(text)
    # A chapter names its neighbours without their folder.
    found = re.sub(r"(\{doc\}`(?:[^`<]*<)?)(?=\d\d_|[A-D]_)", r"\1/chapters/", goals[1]) if goals else ""
    found = re.sub(r"\[([^\]]*)\]\(#[^)]*\)", r"\1", found)
    return title, found, EXERCISE.findall(text)


def reading_minutes(cells):
    """Minutes that an executed notebook takes to read up to its exercises, to the nearest five."""
    seen = dict.fromkeys(PACE, 0)
    for cell in cells:
        source, tags = "".join(cell["source"]), cell["metadata"].get("tags", ())
        if "remove-cell" in tags:
            continue
        if cell["cell_type"] == "markdown":
            source, *rest = re.split(r"^## Exercises", source, flags=re.M)
            seen["formula"] += len(re.findall(r"\$\$.+?\$\$", source, re.S))
            seen["table"] += len(re.findall(r"^\|[-:| ]+\|$", source, re.M))
            seen["word"] += len(WORD.findall(re.sub(r"\$\$.+?\$\$", "", source, flags=re.S)))
            if rest:
                break
            continue
        if not {"hide-input", "remove-input", "parameters"} & set(tags):
            seen["line"] += sum(1 for line in source.splitlines() if line.strip())
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/svg+xml" in data or "image/png" in data:
                seen["figure"] += 1
            elif "text/markdown" in data:
                seen["word"] += len(WORD.findall("".join(data["text/markdown"])))
            elif "text/html" in data:
                seen["table"] += 1
    return 5 * round(sum(PACE[kind] * count for kind, count in seen.items()) / 5)


def read_decks(root):
    """Header and slides of every deck by its path, in their order."""
    return {path: read_deck(path) for path in find_decks(root)}


def decks_of(chapter, decks):
    """Titles of the decks that show a figure of a chapter or link to it."""
    number = chapter.split("_")[0]
    shown = re.compile(rf"\]\((?:fig-{number}-|chapters/{chapter}\))")
    return [header["title"] for header, slides in decks.values() if any(map(shown.search, slides))]


class ChaptersDirective(TemplateDirective):
    """Goals, exercises, reading times and slides of every chapter, from the chapters themselves."""

    def data(self):
        decks, rows = read_decks(ROOT), []
        for name in listed_chapters(ROOT):
            source = (ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8")
            title, goals, exercises = read_chapter(source)
            row = {"name": name, "title": title, "goals": goals, "exercises": exercises}
            # The number as readers know it.
            row["number"] = name.split("_")[0].lstrip("0") or "Start"
            rows.append(row | {"minutes": reading_minutes(read_cells(ROOT, name)), "decks": decks_of(name, decks)})
        return {"chapters": rows}


class SlidesDirective(TemplateDirective):
    """The decks with their length, to show and to print."""

    def data(self):
        decks = [deck | {"name": path.stem} for path, (deck, _) in read_decks(ROOT).items()]
        return {"decks": decks, "folder": "../" * self.env.docname.count("/") + "slides"}


def setup(app):
    app.add_directive("rrl-goals", ChaptersDirective)
    app.add_directive("rrl-slides", SlidesDirective)
    app.add_directive("rrl-times", ChaptersDirective)
