"""Notation and glossary: book/notation.yml as tables, and links from the chapters to them."""

import re

import yaml
from book_claims import short_title
from book_nodes import ROOT, row, table, xref
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

PAGE = "book/notation"


def read_notation(root):
    """Symbols and terms, as they stand in the file."""
    return yaml.safe_load((root / "book" / "notation.yml").read_text(encoding="utf-8"))


def defined(row):
    """The symbols that a row stands for: its first one, where it does not say which."""
    return row.get("defines", re.findall(r"(?!\\math)\\[A-Za-z]+|(?<![A-Za-z\\])[A-Za-z]", row["tex"])[:1])


def slug(text):
    """An id for a row: letters and digits."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def row_ids(rows):
    """An id for each row of symbols, counted where one letter has several."""
    seen, ids = {}, []
    for entry in rows:
        name = "symbol-" + slug(entry["tex"])
        seen[name] = seen.get(name, 0) + 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return ids


def find_page(names, key):
    """The chapter of this number or letter, or None if it is not in the build."""
    return next((name for name in sorted(names) if name.startswith(f"chapters/{key}_")), None)


class NotationDirective(SphinxDirective):
    """The table of symbols, or the glossary."""

    required_arguments = 1

    def run(self):
        notation = read_notation(ROOT)
        return [self.table(notation["symbols"]) if self.arguments[0] == "symbols" else self.glossary(notation["terms"])]

    def text(self, text):
        """One line of the file as a paragraph."""
        found, messages = self.parse_inline(text)
        return [nodes.paragraph("", "", *found), *messages]

    def link(self, key):
        """Where something is introduced."""
        page = find_page(self.env.found_docs, key)
        if page is None:
            return nodes.Text(short_title(f"chapters/{key}_"))
        return xref("std", "doc", f"/{page}", short_title(page), self.env.docname)

    def table(self, rows):
        """Symbols, what they mean, shape, name in rrl, page."""
        found = []
        for entry, name in zip(rows, row_ids(rows)):
            code = [nodes.literal("", entry["rrl"])] if "rrl" in entry else []
            page = nodes.paragraph("", "", self.link(entry["in"]), nodes.Text(" only" if entry.get("only") else ""))
            texts = (f"${entry['tex']}$", entry["means"], entry.get("shape", ""))
            found.append(row([*map(self.text, texts), [nodes.paragraph("", "", *code)], [page]], ids=[name]))
        heads = ("Symbol", "Meaning", "Shape or unit", "In rrl", "Page")
        return table(heads, found, (14, 42, 20, 14, 10), classes=["cards", "notation"])

    def glossary(self, terms):
        """Terms in order, each a target for the term role under all of its forms."""
        found = nodes.definition_list(classes=["glossary"])
        for entry in sorted(terms, key=lambda entry: entry["term"].lower()):
            name = f"term-{slug(entry['term'])}"
            for form in (entry["term"], *entry.get("also", ())):
                self.env.domains["std"]._note_term(form, name, self.state.document)
            term = nodes.term("", entry["term"], ids=[name])
            meaning = self.text(entry["means"])
            meaning[0] += [nodes.Text(" ("), self.link(entry["in"]), nodes.Text(")")]
            found += nodes.definition_list_item("", term, nodes.definition("", *meaning))
        return found


def spoken(text):
    """A meaning as plain words, for a title: without roles and the signs of TeX."""
    return re.sub(r"\{[\w:]+\}(?=`)|\\var|[$`\\{}]", "", text.replace(r"\dots", "…"))


def link_first_uses(app, doctree, docname):
    """Link each symbol that stands alone, and each term, where a chapter uses it first."""
    if PAGE not in app.env.found_docs or not docname.startswith("chapters/"):
        return
    key, notation = docname.removeprefix("chapters/").split("_")[0], read_notation(ROOT)
    address = app.builder.get_relative_uri(docname, PAGE)

    def wrap(child, name, **title):
        return nodes.reference("", "", child, refuri=f"{address}#{name}", internal=True, classes=["first-use"], **title)

    targets, meanings = {}, {}
    for entry, name in zip(notation["symbols"], row_ids(notation["symbols"])):
        if not entry.get("only") or key in ([entry["in"]] if entry["only"] is True else entry["only"]):
            for tex in (entry["tex"], *(defined(entry) if len(defined(entry)) == 1 else ())):
                targets[tex.replace(" ", "")] = name
        meanings[name] = spoken(entry["means"])
    for node in list(doctree.findall(nodes.math)):
        name = targets.get(node.astext().replace(" ", ""))
        if name and is_prose(node):
            # The title names the link: a formula has no text of its own.
            node.parent.replace(node, wrap(node.deepcopy(), name, reftitle=meanings[name]))
            targets = {tex: other for tex, other in targets.items() if other != name}
    forms = {}
    for entry in notation["terms"]:
        for form in entry.get("forms", [entry["term"], *entry.get("also", ())]):
            forms[form.lower()] = f"term-{slug(entry['term'])}"
    for node in [text for text in doctree.findall(nodes.Text) if is_prose(text)]:
        if not forms:
            break
        pattern = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        parts, end, text = [], 0, str(node)
        for match in re.finditer(rf"(?<![\w-])(?:{pattern})(?![\w-])", text, re.IGNORECASE):
            name = forms.get(match[0].lower())
            if name:
                parts += [nodes.Text(text[end : match.start()]), wrap(nodes.Text(match[0]), name)]
                end = match.end()
                forms = {form: other for form, other in forms.items() if other != name}
        if parts:
            node.parent.replace(node, [*parts, nodes.Text(text[end:])])


def is_prose(node):
    """Tell whether a node stands in running text: in a paragraph, and in no link, heading, code or caption."""
    found = False
    while node.parent is not None:
        node = node.parent
        if isinstance(node, (nodes.reference, nodes.title, nodes.literal, nodes.caption, nodes.FixedTextElement)):
            return False
        found = found or isinstance(node, nodes.paragraph)
    return found


def setup(app):
    """Register with Sphinx."""
    app.add_directive("rrl-notation", NotationDirective)
    app.connect("doctree-resolved", link_first_uses)
