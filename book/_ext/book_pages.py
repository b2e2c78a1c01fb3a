"""What each chapter's page says of its run, and offers: scale, provenance, source, launch buttons, search entries."""

import json
import re
import shutil
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx_proof.nodes import unenumerable_node

ROOT = Path(__file__).resolve().parents[2]
# Holds the sources and the executed notebooks, which the main branch does not keep; the book's workflow makes it.
EXECUTED = "executed"


def read_run(root, docname):
    """Return the runner's record of a chapter, or None for other pages."""
    path = root / "chapters" / ".runs" / f"{docname.removeprefix('chapters/')}.json"
    if not docname.startswith("chapters/") or not path.is_file():
        return None
    return json.loads(path.read_text(encoding="utf-8"))


def repeat_command(name, record):
    """The command that repeats a run, with the parameters that are not the defaults of its scale."""
    return f"make notebook NAME={name.split('_')[0]}" + (" SCALE=full" if record["scale"] == "full" else "")


def provenance(name, record, recorded):
    """HTML of the folded lines below a figure."""
    parameters = ", ".join(f"{key}={value!r}" for key, value in record.get("parameters", {}).items())
    commit = record.get("commit")
    changed = ", with changes not yet committed" if commit and commit.endswith("+") else ""
    rows = {
        "Notebook": f"<code>notebooks/{escape(name)}.md</code>",
        "Parameters": f"<code>{escape(parameters)}</code>" if parameters else f"scale {escape(record['scale'])}",
        "Data": "made by the notebook, from the seeds in its code"
        + "".join(f"; recorded runs in <code>{escape(folder)}</code>" for folder in recorded),
        "Commit": f"<code>{escape(commit.rstrip('+'))}</code>{changed}" if commit else "not recorded",
        "Run": f"{record['seconds']:.0f} s for the notebook, {escape(record['finished'][:10])}, "
        f"Python {escape(record['python'])}",
        "Repeat": f"<code>{escape(repeat_command(name, record))}</code>",
    }
    lines = "".join(f"<dt>{key}</dt><dd>{value}</dd>" for key, value in rows.items())
    return f'<details class="provenance"><summary>Provenance of this figure</summary><dl>{lines}</dl></details>'


def banner(name, record, recorded):
    """HTML of the line at the top of a chapter that ran at quick scale."""
    records = " Recorded runs keep their own scale, which stands beside them." if recorded else ""
    return (
        '<p class="scale-banner"><strong>Quick scale.</strong> What this page computes, it computes at the scale of a '
        f"laptop ({record['seconds']:.0f} s).{records} Full scale: "
        f"<code>make notebook NAME={escape(name.split('_')[0])} SCALE=full</code>.</p>"
    )


class RunNotes(SphinxTransform):
    """Put the banner below the title of a chapter, and its provenance below each figure."""

    default_priority = 400

    def apply(self):
        """Read the run's record and add what it says."""
        record = read_run(ROOT, self.env.docname)
        if record is None or record.get("state") != "done":
            return
        name = self.env.docname.removeprefix("chapters/")
        source = (ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8")
        recorded = sorted(set(re.findall(r"\bbook/results/\w+", source)))
        for figure in list(self.document.findall(nodes.figure)):
            if figure.parent.get("nb_element") == "cell_code_output":
                place = figure.parent.index(figure) + 1
                figure.parent.insert(place, nodes.raw("", provenance(name, record, recorded), format="html"))
        title = next(self.document.findall(nodes.title), None)
        if record["scale"] == "quick" and title is not None:
            line = nodes.raw("", banner(name, record, recorded), format="html")
            title.parent.insert(title.parent.index(title) + 1, line)


class PaperIndex(SphinxTransform):
    """Enter the paper's numbered items in the index, so that a search for "Theorem 3.1" finds its box first."""

    default_priority = 400

    def apply(self):
        """Put an index entry before each box that has the paper's number."""
        for box in list(self.document.findall(unenumerable_node)):
            text = item_name(box["label"], box["realtype"])
            if text:
                entry = ("single", text, box["label"], "main", None)
                box.parent.insert(box.parent.index(box), addnodes.index(entries=[entry]))


def item_name(label, kind):
    """The paper's name of an item, as in "Theorem 3.1" for thm-3-1; empty for other labels."""
    number = re.fullmatch(r"[a-z]+-((?:\d+|[a-z])(?:-\d+)*)", label)
    return f"{kind.title()} {number[1].replace('-', '.').upper()}" if number else ""


def mark_own_results(app, env):
    """Number results that are not the paper's R1, R2, ..., so that none is mistaken for one of the paper's."""
    for kinds in env.toc_fignumbers.values():
        for numbers in kinds.values():
            for label, number in numbers.items():
                if "-own-" in label and not str(number[0]).startswith("R"):
                    numbers[label] = (f"R{number[0]}", *number[1:])
    return []


def launch_links(url, name):
    """Addresses that open a chapter's executed notebook: on Binder, and on Colab where the sources are on GitHub."""
    parts = urlsplit(url)
    place, file = parts.path.strip("/"), f"chapters/{name}.ipynb"
    if parts.netloc != "github.com":
        return {}
    return {
        "Binder": f"https://mybinder.org/v2/gh/{place}/{EXECUTED}?urlpath=lab/tree/{file}",
        "Colab": f"https://colab.research.google.com/github/{place}/blob/{EXECUTED}/{file}",
    }


def add_buttons(app, pagename, templatename, context, doctree):
    """Offer a chapter's source for download, and its launch buttons where the repository is known."""
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
    links = launch_links(app.config.html_theme_options.get("repository_url", ""), source.stem)
    if links:
        shown = [
            {"type": "link", "text": text, "url": url, "tooltip": f"Open on {text}", "icon": "fas fa-rocket"}
            for text, url in links.items()
        ]
        group = {"type": "group", "tooltip": "Run this chapter online", "icon": "fas fa-rocket", "buttons": shown}
        context["header_buttons"].insert(0, group | {"label": "launch-buttons"})


def mark_empty_corners(app, pagename, templatename, context, doctree):
    """Make the empty heads of pandas' tables plain cells, which a screen reader passes over."""
    if "body" in context:
        context["body"] = re.sub(r"<th([^>]*)>\s*</th>", r"<td\1></td>", context["body"])


def setup(app):
    """Register everything with Sphinx."""
    app.add_js_file("book.js")
    app.connect("html-page-context", mark_empty_corners)
    app.add_transform(RunNotes)
    app.add_transform(PaperIndex)
    # The numbers are given in the same event, at the usual priority.
    app.connect("env-get-updated", mark_own_results, priority=900)
    app.connect("html-page-context", add_buttons, priority=502)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
