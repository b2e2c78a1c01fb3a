"""Notation and glossary: book/notation.yml as tables, and links from the chapters to them."""

import re
from pathlib import Path

import yaml
from book_claims import short_title, xref
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
PAGE = "book/notation"

#: What needs no entry: layout, spacing, arithmetic, relations and the functions of every textbook.
ORDINARY = set(
    r"""\frac \dfrac \tfrac \sqrt \left \right \bigl \bigr \Bigl \Bigr \biggl \biggr \big \Big \bigm
    \middle \quad \qquad \textstyle \displaystyle \limits \underbrace \overbrace \binom \not \mathrm
    \text \operatorname \mathbf \mathcal \mathbb \mathsf \cdot \times \circ \pm \mp \le \leq \ge \geq \ne
    \neq \lt \gt \approx \sim \equiv \propto \to \mapsto \ll \gg \in \notin \subset \subseteq \cup \cap
    \setminus \forall \exists \neg \land \lor \Rightarrow \Longrightarrow \iff \infty \dots \ldots \cdots
    \vdots \sum \prod \int \partial \max \min \sup \inf \lim \log \ln \exp \sin \cos \tan \cosh \sinh
    \tanh \arccos \det \bmod \mod \mid \lceil \rceil \lfloor \rfloor \langle \rangle \lVert \rVert \lvert
    \rvert \colon \prime \ast \star \label \begin \end \tag \notag \nonumber \mathop \hspace \phantom""".split()
)
#: Words inside a formula: units, names of functions, environments.
WORDS = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathop|operatorname\*?|begin|end|label|tag|hspace|phantom)\*?\s*\{[^{}]*\}"
)


def symbols(tex):
    """The symbols of a formula, in order: letters and commands that are not ordinary."""
    tokens = re.findall(r"\\[A-Za-z]+|[A-Za-z]", WORDS.sub(" ", tex.replace(r"\\", " ")))
    return [token for token in tokens if token not in ORDINARY]


def formulas(text, first=1):
    """Every formula of a MyST source as (line, tex); code is skipped, captions are not."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.colon_fence import colon_fence_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.front_matter import front_matter_plugin

    reader = MarkdownIt().enable("table").use(dollarmath_plugin, double_inline=True)
    for token in reader.use(front_matter_plugin).use(colon_fence_plugin).parse(text):
        line = first + (token.map[0] if token.map else 0)
        if token.type in ("fence", "colon_fence"):
            name, content = token.info.strip(), token.content
            title = name.partition("}")[2]
            if name.startswith("{math}"):
                yield line, re.sub(r"(?m)^:\w+:.*$", "", content)
            elif name.startswith("{code-cell}"):
                caption = re.search(r"(?ms)^(\s*)caption: \|?\n?(.*?)(?=^\1\w+:|^\s{0,3}\w+:|^---)", content)
                if caption:
                    yield from formulas(re.sub(r"(?m)^ +", "", caption[2]), line)
            elif name.startswith("{"):
                yield from formulas(title + "\n" + content, line)
        elif token.type in ("math_block", "math_block_label"):
            yield line, token.content
        elif token.type == "inline":
            for child in token.children:
                if child.type.startswith("math_inline"):
                    yield line, child.content


def read_notation(root):
    """Symbols and terms, as they stand in the file."""
    return yaml.safe_load((root / "book" / "notation.yml").read_text(encoding="utf-8"))


def defined(row):
    """The symbols that a row stands for."""
    return row.get("defines", symbols(row["tex"])[:1])


def slug(text):
    """An id for a row: letters and digits."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def row_ids(rows):
    """An id for each row of symbols, counted where one letter has several."""
    seen, ids = {}, []
    for row in rows:
        name = "symbol-" + slug(row["tex"])
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
        self.env.note_dependency(str(ROOT / "book" / "notation.yml"))
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
        group = nodes.tgroup("", *(nodes.colspec(colwidth=w) for w in (14, 42, 20, 14, 10)), cols=5)
        heads = ("Symbol", "Meaning", "Shape or unit", "In rrl", "Page")
        group += nodes.thead("", nodes.row("", *(nodes.entry("", nodes.paragraph("", head)) for head in heads)))
        body = nodes.tbody()
        for row, name in zip(rows, row_ids(rows)):
            code = nodes.paragraph()
            if "rrl" in row:
                code += nodes.literal("", row["rrl"])
            page = nodes.paragraph("", "", self.link(row["in"]))
            if row.get("only"):
                page += nodes.Text(" only")
            cells = (
                self.text(f"${row['tex']}$"),
                self.text(row["means"]),
                self.text(row.get("shape", "")),
                [code],
                [page],
            )
            body += nodes.row("", *(nodes.entry("", *cell) for cell in cells), ids=[name])
        group += body
        return nodes.table("", group, classes=["cards", "notation"])

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
    for row, name in zip(notation["symbols"], row_ids(notation["symbols"])):
        if not row.get("only") or key in ([row["in"]] if row["only"] is True else row["only"]):
            for tex in (row["tex"], *(defined(row) if len(defined(row)) == 1 else ())):
                targets[tex.replace(" ", "")] = name
        meanings[name] = spoken(row["means"])
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
    return {"parallel_read_safe": True, "parallel_write_safe": True}
