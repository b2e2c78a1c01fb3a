"""Notation and glossary: book/notation.yml as tables, and links from the chapters to them."""

import re

import yaml
from book_nodes import ROOT, TemplateDirective, slug
from docutils import nodes

PAGE = "book/notation"


def read_notation(root):
    """Symbols and terms, as they stand in the file."""
    return yaml.safe_load((root / "book" / "notation.yml").read_text(encoding="utf-8"))


def defined(row):
    """The symbols that a row stands for: its first one, where it does not say which."""
    return row.get("defines", re.findall(r"(?!\\math)\\[A-Za-z]+|(?<![A-Za-z\\])[A-Za-z]", row["tex"])[:1])


def row_ids(rows):
    """An id for each row of symbols, counted where one letter has several."""
    seen, ids = {}, []
    for entry in rows:
        name = "symbol-" + slug(entry["tex"])
        seen[name] = seen.get(name, 0) + 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return ids


class NotationDirective(TemplateDirective):
    """The table of symbols, or the glossary."""

    required_arguments = 1

    def data(self):
        notation, names = read_notation(ROOT), [path.stem for path in (ROOT / "notebooks").glob("[!.]*.md")]
        symbols = [entry | {"id": name} for entry, name in zip(notation["symbols"], row_ids(notation["symbols"]))]
        pages = {name.split("_")[0]: f"chapters/{name}" for name in names}
        return {"shown": self.arguments[0], "symbols": symbols, "terms": notation["terms"], "pages": pages}


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
    linked = set()
    for node in list(doctree.findall(nodes.math)):
        name = targets.get(node.astext().replace(" ", ""))
        if name and name not in linked and is_prose(node):
            # The title names the link: a formula has no text of its own.
            node.parent.replace(node, wrap(node.deepcopy(), name, reftitle=meanings[name]))
            linked.add(name)
    forms = {}
    for entry in notation["terms"]:
        for form in entry.get("forms", [entry["term"], *entry.get("also", ())]):
            forms[form.lower()] = f"term-{slug(entry['term'])}"
    longest_first = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w-])(?:{longest_first})(?![\w-])", re.IGNORECASE)
    for node in [text for text in doctree.findall(nodes.Text) if is_prose(text)]:
        parts, end, text = [], 0, str(node)
        for match in pattern.finditer(text):
            name = forms[match[0].lower()]
            if name not in linked:
                parts += [nodes.Text(text[end : match.start()]), wrap(nodes.Text(match[0]), name)]
                end = match.end()
                linked.add(name)
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
    app.add_directive("rrl-notation", NotationDirective)
    app.connect("doctree-resolved", link_first_uses)
