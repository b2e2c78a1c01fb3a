"""The reference of the package: a table of the public names in the paper's order, and a page a topic."""

import ast
import importlib
import pkgutil
from functools import cache

from book_nodes import ROOT
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

# Page, and the packages and modules that it documents; what no page names stands on the last one.
TOPICS = {
    "rounding": ("rrl.randomness", "rrl.rounding", "rrl.lattice"),
    "estimators": ("rrl.ridge", "rrl.scaling", "rrl.core_set", "rrl.second_moment", "rrl.features", "rrl.pilot"),
    "learning": ("rrl.mdp", "rrl.lsvi", "rrl.tabular", "rrl.lsvi_ucb", "rrl.generative", "rrl.fitted_q"),
    "measuring": (
        *("rrl.replicability", "rrl.certify", "rrl.evidence", "rrl.pairs", "rrl.programs", "rrl.statement"),
        *("rrl.choosing", "rrl.testing", "rrl.tradeoff"),
    ),
    "adaptive": ("rrl.adaptive",),
    "theory": ("rrl.theory",),
    "networks": ("rrl.pqn",),
    "data": ("rrl.datasets",),
    "internals": (),
}


@cache
def documented():
    """Every public module that exists, with the names that are documented there: once each, so that none is missing.

    What a package exports itself is documented there, and not again under its submodules.
    """
    import rrl

    found, seen = {}, set()
    for info in pkgutil.walk_packages(rrl.__path__, "rrl."):
        if any(part.startswith("_") for part in info.name.split(".")):
            continue
        module = importlib.import_module(info.name)
        names = [name for name in getattr(module, "__all__", ()) if id(getattr(module, name)) not in seen]
        if names:
            seen.update(id(getattr(module, name)) for name in names)
            found[info.name] = names
    return found


def topic_of(module):
    """The page of a module: that of its nearest package on the list."""
    parts = module.split(".")
    for end in range(len(parts), 1, -1):
        for topic, modules in TOPICS.items():
            if ".".join(parts[:end]) in modules:
                return topic
    return "internals"


def modules_of(topic):
    """The documented modules of a page, in the order of the list above."""
    order = TOPICS[topic]

    def place(module):
        return next((k for k, name in enumerate(order) if f"{module}.".startswith(f"{name}.")), len(order))

    return sorted((module for module in documented() if topic_of(module) == topic), key=lambda m: (place(m), m))


def public_names(root=ROOT):
    """The names that ``import rrl`` offers, in the order of the paper."""
    tree = ast.parse((root / "rrl" / "__init__.pyi").read_text(encoding="utf-8"))
    listed = next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    imported = [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    return [name for name in imported if name in listed]


class ApiDirective(SphinxDirective):
    """Document the modules of one page."""

    required_arguments = 1

    def run(self):
        lines = []
        for name in modules_of(self.arguments[0]):
            lines += [f"## {name}", "", "```{eval-rst}", f".. automodule:: {name}"]
            lines += [f"   :members: {', '.join(documented()[name])}", "```", ""]
        section = nodes.section()
        section.document = self.state.document
        nested_parse_with_titles(self.state, StringList(lines, source="rrl"), section)
        return section.children


class NamesDirective(SphinxDirective):
    """The table of public names: what each is, in the paper's order."""

    def run(self):
        lines = ["```{eval-rst}", ".. autosummary::", "   :nosignatures:", ""]
        return self.parse_text_to_nodes("\n".join([*lines, *(f"   ~rrl.{name}" for name in public_names()), "```"]))


def setup(app):
    """Register the directives."""
    app.add_directive("rrl-api", ApiDirective)
    app.add_directive("rrl-names", NamesDirective)
