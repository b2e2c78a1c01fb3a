"""The claim map and the errata as tables; the map is checked against what chapters found, and stands on their boxes."""

from collections import Counter
from pathlib import Path

import yaml
from book_nodes import ROOT, TemplateDirective, joined, xref
from docutils import nodes
from notebook_texts import glued, read_cells
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from rrl.book.claims import KINDS

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


class ClaimsDirective(TemplateDirective):
    """The table of all items, and how many have which status."""

    def data(self):
        chapters = {name for name in self.env.found_docs if name.startswith("chapters/")}
        claims, verdicts = read_claims(ROOT), read_verdicts(ROOT, chapters)
        for fault in find_faults(claims, chapters, verdicts):
            logger.warning("claim map: %s", fault, location=(self.env.docname, self.lineno))
        for entry in claims:
            entry["pages"] = sorted({entry["chapter"], *verdicts.get(entry["label"], {})})
        counts = Counter(entry["status"] for entry in claims).most_common()
        errata = {erratum["number"]: erratum["kind"] for erratum in read_errata(ROOT)}
        return {"claims": claims, "counts": counts, "kinds": KINDS, "errata": errata}


class ErrataDirective(TemplateDirective):
    """All errata as a table; or "source", where each stands in the paper's LaTeX; or the head of one by its number."""

    required_arguments = 1

    def data(self):
        shown, errata = self.arguments[0], read_errata(ROOT)
        if shown not in ("all", "source"):
            errata = [entry for entry in errata if entry["number"] == shown]
        if not errata:
            raise self.error(f"there is no erratum {shown}")
        return {"shown": shown, "errata": errata}


class FrameItems(SphinxPostTransform):
    """Give every box and figure that the map names its status, and links to errata, code, tests and the map."""

    # Before references are resolved.
    default_priority = 5

    def run(self):
        docname = self.env.docname
        if not docname.startswith("chapters/"):
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
        parts = [xref("std", "ref", number.lower(), number, docname) for number in entry.get("errata", ())]
        parts += [xref("py", "obj", name, name.removeprefix("rrl."), docname) for name in entry["functions"]]
        address = self.app.builder.get_relative_uri(docname, PAGE) + f"#claim-{entry['label']}"
        count = len(entry["tests"])
        text = f"{count} test{'s' * (count > 1)}, and its place in the claim map"
        parts.append(nodes.reference("", text, refuri=address, internal=True))
        return nodes.paragraph("", "", *joined(parts, " · "), classes=["statement-foot"])


def setup(app):
    app.add_directive("rrl-claims", ClaimsDirective)
    app.add_directive("rrl-errata", ErrataDirective)
    app.add_directive("rrl-erratum", ErrataDirective)
    app.add_post_transform(FrameItems)
