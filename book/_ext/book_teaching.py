"""The teaching guide's tables: goals and exercises from the chapters, the decks, and the citation."""

import re
from pathlib import Path

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
GOALS = re.compile(r"^(?:After (?:this|it).*?can)\n\n((?:- .*\n(?:  .*\n)*)+)", re.M)
EXERCISE = re.compile(r"^`{3,}\{exercise(?:-start)?\} *(.*)\n:label: *(\S+)", re.M)


def listed_chapters(root):
    """Names of the notebooks in the order of the table of contents."""
    contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    files = [contents["root"]] + [page["file"] for part in contents["parts"] for page in part["chapters"]]
    return [name.removeprefix("chapters/") for name in files if name.startswith("chapters/")]


def read_chapter(text):
    """Title, goals (Markdown) and exercises (title, label) of a chapter's source."""
    title = re.search(r"^# (.+)$", text.split("---\n", 2)[-1], re.M)[1]
    goals = GOALS.search(text)
    # A chapter names its neighbours without their folder.
    found = re.sub(r"(\{doc\}`(?:[^`<]*<)?)(?=\d\d_|[A-D]_)", r"\1/chapters/", goals[1]) if goals else ""
    found = re.sub(r"\[([^\]]*)\]\(#[^)]*\)", r"\1", found)
    return title, found, EXERCISE.findall(text)


def parse(directive, lines, source):
    """Parse Markdown where the directive stands."""
    box = nodes.container()
    box.document = directive.state.document
    directive.state.nested_parse(StringList(lines, source=source), 0, box)
    return box.children


class GoalsDirective(SphinxDirective):
    """Learning goals and exercises of every chapter, from the chapters themselves."""

    def run(self):
        lines = []
        for name in listed_chapters(ROOT):
            path = ROOT / "notebooks" / f"{name}.md"
            self.env.note_dependency(str(path))
            title, goals, exercises = read_chapter(path.read_text(encoding="utf-8"))
            number = name.split("_")[0].lstrip("0") or "Start"
            lines += [f"**{number} · {{doc}}`{title} </chapters/{name}>`**", "", *goals.splitlines(), ""]
            if exercises:
                links = ", ".join(f"{{ref}}`{text.strip()} <{label}>`" for text, label in exercises)
                lines += [f"Exercises: {links}.", ""]
        return parse(self, lines, "notebooks")


class SlidesDirective(SphinxDirective):
    """The decks with their length, to show and to print."""

    def run(self):
        rows, here = [], "../" * self.env.docname.count("/")
        for path in sorted((ROOT / "slides").glob("[!.]*.md")):
            self.env.note_dependency(str(path))
            deck = yaml.safe_load(path.read_text(encoding="utf-8").split("---\n")[1])
            link = f'<a href="{here}slides/{path.stem}.html'
            cells = [f'{link}">{deck["title"]}</a>', f"{deck['minutes']}&nbsp;min", deck["subtitle"]]
            cells.append(f'{link}?print-pdf" aria-label="Print: {deck["title"]}">on paper</a>')
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        head = "".join(f'<th scope="col">{text}</th>' for text in ("Slides", "Length", "Content", "Print"))
        body = f'<table class="table"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
        return [nodes.raw("", body, format="html")]


def bibtex(record):
    """BibTeX entries of CITATION.cff: the software, and the paper that it asks to be cited with it."""

    def entry(kind, key, fields):
        body = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
        return f"@{kind}{{{key},\n{body}}}"

    def people(authors):
        names = [
            f"{who['family-names']}, {who['given-names']}" if "family-names" in who else f"{{{who['name']}}}"
            for who in authors
        ]
        return " and ".join(names)

    paper = record["preferred-citation"]
    return "\n\n".join(
        [
            entry(
                "unpublished",
                f"{paper['authors'][0]['family-names'].lower()}{paper['year']}replicable",
                {"title": f"{{{paper['title']}}}", "author": people(paper["authors"]), "year": paper["year"]},
            ),
            entry(
                "software",
                f"rrl{record['version'].replace('.', '')}",
                {
                    "title": f"{{{record['title']}}}",
                    "author": people(record["authors"]),
                    "version": record["version"],
                    "year": str(record["date-released"])[:4],
                },
            ),
        ]
    )


class CitationDirective(SphinxDirective):
    """What CITATION.cff says, as BibTeX."""

    def run(self):
        path = ROOT / "CITATION.cff"
        self.env.note_dependency(str(path))
        text = bibtex(yaml.safe_load(path.read_text(encoding="utf-8")))
        return [nodes.literal_block(text, text, language="bibtex")]


def setup(app):
    """Register the directives."""
    app.add_directive("rrl-goals", GoalsDirective)
    app.add_directive("rrl-slides", SlidesDirective)
    app.add_directive("rrl-citation", CitationDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
