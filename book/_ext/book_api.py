"""The reference of the package: a table of the public names, in the paper's order."""

import ast

from book_nodes import ROOT
from sphinx.util.docutils import SphinxDirective


def public_names():
    """The names that ``import rrl`` offers, in the order of the paper."""
    tree = ast.parse((ROOT / "rrl" / "__init__.pyi").read_text(encoding="utf-8"))
    listed = next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    imported = [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    return [name for name in imported if name in listed]


class NamesDirective(SphinxDirective):
    """The table of public names: what each is, in the paper's order."""

    def run(self):
        lines = ["```{eval-rst}", ".. autosummary::", "   :nosignatures:", ""]
        return self.parse_text_to_nodes("\n".join([*lines, *(f"   ~rrl.{name}" for name in public_names()), "```"]))


def setup(app):
    app.add_directive("rrl-names", NamesDirective)
