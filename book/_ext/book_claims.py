"""The claim map and the errata as tables; the map is checked against what chapters found, and stands on their boxes."""

from collections import Counter
from pathlib import Path

import yaml
from book_nodes import ROOT, joined, raw, row, table, xref
from docutils import nodes
from notebook_texts import glued, read_cells
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

PAGE = "book/claims"
logger = logging.getLogger(__name__)


def read_claims(root):
    """The entries of the map; where recorded runs still arrive a status is a list, and the page says which it is."""
    claims = yaml.safe_load((root / "book" / "claims.yml").read_text(encoding="utf-8"))
    for entry in claims:
        if isinstance(entry.get("status"), list):
            page = [entry["chapter"]] if (root / f"{entry['chapter']}.ipynb").is_file() else []
            said = read_verdicts(root, page).get(entry["label"], {}).values()
            allowed = entry["status"]
            entry |= {"allowed": allowed, "status": next((word for word in said if word in allowed), allowed[0])}
    return claims


def read_errata(root):
    """The entries of book/errata.yml, as they stand in the file."""
    return yaml.safe_load((root / "book" / "errata.yml").read_text(encoding="utf-8"))


def read_verdicts(root, chapters):
    """What the executed chapters have glued: label -> {chapter: verdict}."""
    found = {}
    for chapter in sorted(chapters):
        for name, text in glued(read_cells(root, Path(chapter).name)).items():
            if name.startswith("claim-"):
                found.setdefault(name.removeprefix("claim-"), {})[chapter] = text
    return found


def find_faults(claims, chapters, verdicts):
    """Where the executed chapters contradict the map, one sentence each; what the map itself says, its tests check."""
    labels = {entry["label"] for entry in claims}
    faults = [f"{label} has a verdict and no entry" for label in verdicts.keys() - labels]
    for entry in claims:
        label, recorded = entry["label"], verdicts.get(entry["label"], {})
        for chapter, verdict in recorded.items():
            if verdict not in entry.get("allowed", [entry["status"]]):
                faults.append(f"{label}: the map says {entry['status']!r}, {chapter} recorded {verdict!r}")
        if not recorded and entry["chapter"] in chapters:
            faults.append(f"{label}: no page has recorded a verdict")
    return sorted(faults)


class ClaimsDirective(SphinxDirective):
    """The table of all items, and how many have which status."""

    def run(self):
        chapters = {name for name in self.env.found_docs if name.startswith("chapters/")}
        claims, verdicts = read_claims(ROOT), read_verdicts(ROOT, chapters)
        for fault in find_faults(claims, chapters, verdicts):
            logger.warning("claim map: %s", fault, location=(self.env.docname, self.lineno))
        counts = Counter(entry["status"] for entry in claims)
        summary = nodes.paragraph(classes=["claims-summary"])
        summary += nodes.Text(f"{len(claims)} items: ")
        summary += nodes.Text(", ".join(f"{status} {n}" for status, n in counts.most_common()) + ".")
        kinds = {erratum["number"]: erratum["kind"] for erratum in read_errata(ROOT)}
        rows = [self.row(entry, verdicts.get(entry["label"], {}), kinds) for entry in claims]
        heads = ("Item", "What it says", "Status", "Where it is checked")
        return [summary, table(heads, rows, (18, 40, 16, 26), classes=["cards", "claims"])]

    def row(self, entry, recorded, kinds):
        """One item; `kinds` has the kind of each erratum."""
        from rrl.book.claims import KINDS

        label, docname, built = entry["label"], self.env.docname, self.env.found_docs

        def link(kind, target, text, page):
            return xref(*kind.split(":"), target, text, docname) if page in built else nodes.Text(text)

        anchor = entry.get("anchor")
        item = link("std:ref" if anchor else "prf:ref", anchor or label, entry["item"], entry["chapter"])
        text, messages = self.parse_inline(entry["statement"])
        status = nodes.paragraph("", "", nodes.inline("", entry["status"], classes=["claim-status"]))
        for kind in KINDS:
            numbers = [number for number in entry.get("errata", []) if kinds[number] == kind]
            links = [link("std:ref", number.lower(), number, "chapters/13_errata") for number in numbers]
            status += joined([nodes.Text(f" {kind}"), *links], " ") if links else []
        pages = sorted({entry["chapter"], *recorded})
        places = [link("std:doc", f"/{page}", short_title(page), page) for page in pages if page in built]
        places += [xref("py", "obj", name, name.removeprefix("rrl."), docname) for name in entry["functions"]]
        n_tests = f"{len(entry['tests'])} test{'s' * (len(entry['tests']) > 1)}"
        tests = [nodes.paragraph("", "", nodes.literal("", node)) for node in entry["tests"]]
        tests = [raw(f'<details class="claim-tests"><summary>{n_tests}</summary>'), *tests, raw("</details>")]
        item = nodes.paragraph("", "", item, nodes.Text(f" ({entry['title']})"))
        places = nodes.paragraph("", "", *joined(places, ", "), classes=["claim-places"])
        cells = ([item], [nodes.paragraph("", "", *text), *messages], [status], [places, *tests])
        classes = [f"kind-{label.split('-')[0]}", "status-" + entry["status"].replace(" ", "-")]
        classes += [f"in-{Path(page).name}" for page in pages]
        return row(cells, ids=[f"claim-{label}"], classes=classes)


def short_title(chapter):
    """Name a page as in "chapter 3" (chapters/03_ridge) or "appendix A" (chapters/A_ridge_proof)."""
    number = Path(chapter).name.split("_")[0]
    if number == "00":
        return "introduction"
    return f"chapter {int(number)}" if number.isdigit() else f"appendix {number}"


def chip(erratum):
    """The kind of an erratum as a small label."""
    return nodes.inline("", erratum["kind"], classes=["erratum-kind", erratum["kind"].replace(" ", "-")])


def place(erratum):
    """Where an erratum stands in the paper."""
    return nodes.inline("", erratum["where"], classes=["erratum-where"])


class ErrataDirective(SphinxDirective):
    """The errata of one kind, or "all", as a table; or "source", where each stands in the paper's LaTeX."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        wanted = self.arguments[0]
        found = [entry for entry in read_errata(ROOT) if wanted in ("all", "source", entry["kind"])]
        if not found:
            raise self.error(f"no erratum is of kind {wanted!r}")
        if wanted == "source":
            heads = ("Erratum", "Place", "The paper's LaTeX")
            rows = [[self.link(one), one["where"], [nodes.literal("", one["source"])]] for one in found]
        else:
            heads, rows = ("Erratum", "What is printed", "What is meant", "What survives"), []
            for one in found:
                kind = nodes.paragraph("", "", chip(one))
                printed, meant, survives = (self.text(one[name]) for name in ("printed", "meant", "survives"))
                where = nodes.paragraph("", "", place(one))
                cells = [[*self.link(one), kind], [where, *printed], meant, survives]
                rows.append(row(cells, classes=[f"kind-{one['kind'].replace(' ', '-')}"]))
        return [table(heads, rows, classes=["cards", "errata", f"errata-{wanted.replace(' ', '-')}"])]

    def text(self, words):
        """A paragraph of MyST."""
        return [nodes.paragraph("", "", *self.parse_inline(words)[0])]

    def link(self, erratum):
        """The number of an erratum, which leads to its section."""
        return self.text(f"{{ref}}`{erratum['number']} <{erratum['number'].lower()}>`")


class ErratumDirective(SphinxDirective):
    """Under the heading of an erratum: its kind, and its place in the paper."""

    required_arguments = 1

    def run(self):
        found = [entry for entry in read_errata(ROOT) if entry["number"] == self.arguments[0]]
        if not found:
            raise self.error(f"there is no erratum {self.arguments[0]}")
        return [nodes.paragraph("", "", chip(found[0]), nodes.Text(" "), place(found[0]), classes=["erratum-head"])]


class FrameItems(SphinxPostTransform):
    """Give every box and figure that the map names its status, and links to errata, code, tests and the map."""

    # Before references are resolved.
    default_priority = 5

    def run(self):
        docname = self.env.docname
        if PAGE not in self.env.found_docs or not docname.startswith("chapters/"):
            return
        names = {entry.get("anchor", entry["label"]): entry for entry in read_claims(ROOT)}
        for node in list(self.document.findall(lambda n: isinstance(n, nodes.Element) and n.get("ids"))):
            entry = next((names[i] for i in node["ids"] if i in names), None)
            if entry is None or not (node.get("realtype") or isinstance(node, (nodes.figure, nodes.container))):
                continue
            foot = self.links(docname, entry)
            if node.get("realtype"):
                classes = ["statement-status", entry["status"].replace(" ", "-")]
                status = nodes.inline("", entry["status"], classes=classes)
                node.insert(1, nodes.paragraph("", "", status, classes=["statement-head"]))
                node += foot
            else:
                node.parent.insert(node.parent.index(node) + 1, foot)

    def links(self, docname, entry):
        """One line: the errata behind a correction, the code, and the place in the claim map."""
        errata = entry.get("errata", ()) if "chapters/13_errata" in self.env.found_docs else ()
        parts = [xref("std", "ref", number.lower(), number, docname) for number in errata]
        parts += [xref("py", "obj", name, name.removeprefix("rrl."), docname) for name in entry["functions"]]
        address = self.app.builder.get_relative_uri(docname, PAGE) + f"#claim-{entry['label']}"
        count = len(entry["tests"])
        text = f"{count} test{'s' * (count > 1)}, and its place in the claim map"
        parts.append(nodes.reference("", text, refuri=address, internal=True))
        return nodes.paragraph("", "", *joined(parts, " · "), classes=["statement-foot"])


def setup(app):
    """Register with Sphinx."""
    app.add_directive("rrl-claims", ClaimsDirective)
    app.add_directive("rrl-errata", ErrataDirective)
    app.add_directive("rrl-erratum", ErratumDirective)
    app.add_post_transform(FrameItems)
    app.add_css_file("claims.css")
