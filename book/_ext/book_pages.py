"""What each chapter's page says of its run, and offers: scale, provenance, source, search entries."""

import json
import re
import shlex
import shutil
from pathlib import Path

import yaml
from book_claims import read_claims, read_errata
from book_nodes import ROOT, fill, joined, raw
from docutils import nodes
from notebook_texts import read_run
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)
# A result of the book, as prop-own-cells; an exercise may have the word in its name.
OWN = re.compile(r"(?!ex-)[a-z]+-own-")


def repeat_command(name, record):
    """The command that repeats a run, with the parameters that are not the notebook's defaults."""
    number, overrides = name.split("_")[0], dict(record.get("overrides", {}))
    overrides.pop("scale", None)
    full = record["scale"] == "full"
    if not overrides:
        return f"make notebook NAME={number}" + " SCALE=full" * full
    words = [".venv/bin/python", "tools/run_notebooks.py", number, *["--scale", "full"] * full]
    for key, value in overrides.items():
        words += ["-p", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    return shlex.join(words)


def provenance(name, record, origin):
    """HTML of the folded lines below a figure, whose seeds and data files the run's journal has."""
    parameters = ", ".join(f"{key}={value!r}" for key, value in record.get("parameters", {}).items())
    facts = {"parameters": parameters, "command": repeat_command(name, record), "known": origin is not None}
    return fill("provenance.html", name=name, record=record, origin=origin or {}, **facts)


def banner(name, record, recorded):
    """The paragraph on a chapter that ran at quick scale; it refers to the figures of recorded runs."""
    line = nodes.paragraph("", classes=["scale-banner"])
    line += nodes.Text(f"Computed in {record['seconds']:.0f} s on a laptop (quick scale). Full scale: ")
    line += nodes.literal("", f"make notebook NAME={name.split('_')[0]} SCALE=full")
    line += nodes.Text(".")
    if recorded:
        line += nodes.Text(" Figures that rest on recorded runs have a scale of their own: ")
        options = {"refdomain": "std", "reftype": "numref", "refexplicit": False, "refwarn": True}
        places = [addnodes.pending_xref("", nodes.inline("", x), reftarget=x, **options) for x in recorded]
        line += [*joined(places, ", "), nodes.Text(".")]
    return line


class RunNotes(SphinxTransform):
    """Put its provenance below each figure, and what a reader needs only to run a chapter at its end."""

    default_priority = 430

    def apply(self):
        record = read_run(ROOT, self.env.docname)
        if record is None or record.get("state") != "done":
            return
        name, recorded = self.env.docname.removeprefix("chapters/"), []
        for figure in list(self.document.findall(nodes.figure)):
            output = figure.parent
            if output.get("nb_element") != "cell_code_output":
                continue
            origin = record.get("figures", {}).get(str(output.parent["cell_index"]))
            output.insert(output.index(figure) + 1, raw(provenance(name, record, origin)))
            if origin and "runs" in origin:
                recorded += figure["names"][:1]
        end = nodes.section("", nodes.title("", "Run this chapter yourself"), ids=["run-this-chapter-yourself"])
        if record["scale"] == "quick":
            end += banner(name, record, recorded)
        cells = [cell for cell in self.document.findall(nodes.container) if cell.get("nb_element") == "cell_code"]
        first = next(place for place, cell in enumerate(cells) if "tag_parameters" in cell["classes"])
        # The imports follow the parameters.
        imports = [c for c in cells[first + 1 : first + 2] if re.search(r"^(import|from) ", c.astext(), re.M)]
        for cell in imports:
            cell["prompt_show"] = cell["prompt_hide"] = "Imports and sizes"
        for cell in [cells[first], *imports]:
            cell.parent.remove(cell)
            end += cell
        next(self.document.findall(nodes.section)).append(end)


def item_name(label, kind):
    """The paper's name of an item, as in "Theorem 3.1" for thm-3-1; empty for other labels."""
    number = re.fullmatch(r"[a-z]+-((?:\d+|[a-z])(?:-\d+)*)", label)
    return f"{kind.title()} {number[1].replace('-', '.').upper()}" if number else ""


def add_source(app, pagename, templatename, context, doctree):
    """Offer a chapter's source for download."""
    source = ROOT / "notebooks" / f"{pagename.removeprefix('chapters/')}.md"
    if not pagename.startswith("chapters/") or not source.is_file():
        return
    target = Path(app.outdir) / "_sources" / "notebooks" / source.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    button = {"type": "link", "text": ".md", "icon": "fas fa-file", "tooltip": "Download the source"}
    button |= {"url": context["pathto"](f"_sources/notebooks/{source.name}", 1), "label": "download-markdown-button"}
    for group in context["header_buttons"]:
        if group.get("label") == "download-buttons":
            group["buttons"].insert(1, button)


def say_what_to_install(app, exception):
    """Begin the notebooks that readers download or open online with what they need; the pages stay as they are."""
    if exception is not None or app.builder.name != "html":
        return
    url = app.config.html_theme_options.get("repository_url", "")
    cell = {"cell_type": "code", "execution_count": None, "id": "install", "metadata": {}, "outputs": []}
    cell["source"] = fill("install.py.txt", url=url)
    for path in (Path(app.outdir) / "_sources" / "chapters").glob("*.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        notebook["cells"].insert(0, cell)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def mend_access(app, pagename, templatename, context, doctree):
    """Mend what a screen reader stumbles over: empty heads of tables, and the items of the bibliography."""
    if "body" in context:
        body = re.sub(r"<th([^>]*)>(?:\s|&nbsp;|</?p>)*</th>", r"<td\1></td>", context["body"])
        # The role of an entry is deprecated, and no child that a list may have.
        context["body"] = body.replace('role="doc-biblioentry"', 'role="listitem"')


def read_words(root):
    """What readers look for: page -> [(words, label or nothing)]; the paper's items are added."""
    found = {}
    for words, place in yaml.safe_load((root / "book" / "search.yml").read_text(encoding="utf-8")).items():
        page, _, label = place.partition("#")
        found.setdefault(page, []).append((words, label))
    for entry in read_claims(root):
        found.setdefault(entry["chapter"], []).append((entry["item"], entry.get("anchor", entry["label"])))
    for entry in read_errata(root):
        found.setdefault("chapters/13_errata", []).append((entry["number"], entry["number"].lower()))
    return found


class SearchWords(SphinxTransform):
    """Enter a page's words in the index, at the place that they name."""

    # After labels have become ids of what follows them.
    default_priority = 800

    def apply(self):
        words = read_words(ROOT).get(self.env.docname, [])
        page = next(self.document.findall(nodes.section), None)
        for text, label in words:
            node = page
            if label:
                node = next((n for n in self.document.findall(nodes.Element) if label in n.get("ids", ())), None)
            if node is None:
                logger.warning("search: no place %r for %r", label, text, location=self.env.docname)
                continue
            # The page itself has no anchor, so that a search lists it once.
            entry = addnodes.index(entries=[("single", text, node["ids"][0] if label else "", "main", None)])
            if node is page:
                node.insert(1, entry)
            else:
                node.parent.insert(node.parent.index(node), entry)


def setup(app):
    app.add_transform(SearchWords)
    app.connect("html-page-context", mend_access)
    app.connect("build-finished", say_what_to_install)
    app.add_transform(RunNotes)
    app.connect("html-page-context", add_source, priority=502)
