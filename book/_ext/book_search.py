"""Finding: words that lead to a page (book/search.yml), the paper's figures by their numbers, and a ranking."""

from pathlib import Path

import yaml
from book_claims import read_claims
from book_nodes import ROOT
from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)


def read_words(root):
    """What readers look for: page -> [(words, label or nothing)]; the paper's items are added."""
    found = {}
    for words, place in yaml.safe_load((root / "book" / "search.yml").read_text(encoding="utf-8")).items():
        page, _, label = place.partition("#")
        found.setdefault(page, []).append((words, label))
    for entry in read_claims(root):
        found.setdefault(entry["chapter"], []).append((entry["item"], entry.get("anchor", entry["label"])))
    return found


class SearchWords(SphinxTransform):
    """Enter a page's words in the index, at the place that they name."""

    # After labels have become ids of what follows them.
    default_priority = 800

    def apply(self):
        """Insert the entries before the places."""
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


def set_scorer(app, config):
    """Rank by our own rules; the file is read where the site is built."""
    config.html_search_scorer = str(Path(__file__).with_name("scorer.js"))


def setup(app):
    """Register everything with Sphinx."""
    app.add_transform(SearchWords)
    app.connect("config-inited", set_scorer)
    app.add_js_file("search.js")
