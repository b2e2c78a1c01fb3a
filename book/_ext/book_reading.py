"""How a page is read: its abstract first, three depths, numbers by chapter, and questions to check oneself."""

import ast
import re

from book_nodes import ROOT, raw
from book_pages import OWN, item_name
from docutils import nodes
from docutils.parsers.rst import directives
from notebook_texts import read_run
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective
from sphinx_proof.nodes import proof_node

WORDS_PER_MINUTE = 200
SECONDS_PER_FIGURE = 30
FOLDED = {"solution", "folded", "printed"}
UNREAD = (nodes.literal_block, nodes.math, nodes.math_block, nodes.comment, nodes.raw, proof_node)


class AbstractDirective(SphinxDirective):
    """The box on top of a chapter: its question, its answer, what it needs; minutes and seconds are filled in."""

    has_content = True
    option_spec = {"needs": directives.unchanged_required, "items": directives.unchanged_required}  # noqa: RUF012

    def run(self):
        box = nodes.container(classes=["abstract"])
        box += self.parse_content_to_nodes()
        facts = nodes.paragraph(classes=["abstract-facts"])
        for name, before in (("needs", "needs "), ("items", "")):
            if name in self.options:
                found, messages = self.parse_inline(self.options[name], lineno=self.lineno)
                facts += [nodes.Text(f" · {before}"), *found, *messages]
        return [box, facts]


class QuestionDirective(SphinxDirective):
    """A question with its answers, ``right: answer | why`` or ``wrong: answer | why``, one a line."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        answers = [re.fullmatch(r"(right|wrong): (.+?) \| (.+)", line.strip()) for line in self.content if line.strip()]
        if not all(answers) or not any(answer[1] == "right" for answer in answers):
            raise self.error("a question has lines 'right: answer | why' and 'wrong: answer | why', and a right one")
        name = f"question-{self.env.new_serialno('question')}"
        parts = [raw(f'<fieldset class="question" id="{name}"><legend>')]
        parts += [self.text(self.arguments[0]), raw("</legend>")]
        for place, (_, verdict, answer, why) in enumerate((a[0], a[1], a[2], a[3]) for a in answers):
            chosen = f'<label class="{verdict}"><input type="radio" name="{name}" value="{place}"><span>'
            parts += [raw(chosen), self.text(answer), raw("</span></label>")]
            parts += [raw(f'<p class="why {verdict}">'), self.text(why), raw("</p>")]
        box = nodes.container("", *parts, raw("</fieldset>"), classes=["question-box"])
        return [box]

    def text(self, words):
        """A line of MyST; a link in it needs a parent that holds text."""
        return nodes.inline("", "", *self.parse_inline(words, lineno=self.lineno)[0])


class PrintedDirective(SphinxDirective):
    """Inside a numbered item, the paper's own version where the item was corrected."""

    has_content = True

    def run(self):
        return [nodes.container("", *self.parse_content_to_nodes(), classes=["printed"])]


class FoldDirective(SphinxDirective):
    """What the default depth folds: ``{fold} title`` for long tables, ``:depth: proofs`` for steps of a proof."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"depth": lambda value: directives.choice(value, ("code", "proofs", "none"))}  # noqa: RUF012

    def run(self):
        title = self.parse_inline(self.arguments[0], lineno=self.lineno)[0]
        depth = self.options.get("depth", "none")
        return [
            raw(f'<details class="fold fold-{depth}"><summary>'),
            nodes.inline("", "", *title),
            raw("</summary>"),
            nodes.container("", *self.parse_content_to_nodes(), classes=["folded"]),
            raw("</details>"),
        ]


def receipt(source):
    """The line under which a cell is folded: what its first comment or docstring says, and how many checks passed."""
    tree, first = ast.parse(source), source.lstrip().split("\n", 1)[0]
    documented = (ast.get_docstring(node) for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    words = first[1:] if first.startswith("#") else next(filter(None, documented), "").split("\n")[0]
    # A line of a ledger, `ledger.check(...)`, asserts its inequality.
    called = [getattr(node.func, "attr", "") for node in ast.walk(tree) if isinstance(node, ast.Call)]
    checks = called.count("check") + sum(isinstance(node, ast.Assert) for node in ast.walk(tree))
    count = f"{checks} check{'s' * (checks > 1)} passed" if checks else ""
    return " · ".join(filter(None, (words.strip().rstrip("."), count))) or "Code of what follows"


class Depths(SphinxTransform):
    """Fold what the default depth does not show, each under one line: code, checks, proofs."""

    default_priority = 410

    def apply(self):
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") == "cell_code" and cell.get("hide_mode"):
                cell["prompt_show"] = cell["prompt_hide"] = receipt(cell.children[0].astext())
        for proof in list(self.document.findall(proof_node)):
            place = proof.parent.index(proof)
            before = proof.parent[place - 1] if place else None
            name = item_name(before["label"], before["realtype"]) if before and before.get("realtype") else ""
            proof.parent.insert(place + 1, raw("</details>"))
            title = f"Proof of {name}" if name else "Proof"
            proof.parent.insert(place, raw(f'<details class="fold fold-proofs"><summary>{title}</summary>'))


class Minutes(SphinxTransform):
    """Fill in how long a chapter takes to read at the default depth, and took to run."""

    default_priority = 420

    def apply(self):
        """Count figures, and the words outside code, formulas and what is folded."""
        for facts in self.document.findall(nodes.paragraph):
            if "abstract-facts" not in facts["classes"]:
                continue
            words = sum(len(text.split()) for text in read_texts(self.document))
            figures = sum(1 for _ in self.document.findall(nodes.figure))
            minutes = round(words / WORDS_PER_MINUTE + figures * SECONDS_PER_FIGURE / 60)
            record = read_run(ROOT, self.env.docname)
            facts.insert(0, nodes.Text(f"{max(1, minutes)} minutes"))
            if record and "seconds" in record:
                facts += nodes.Text(f" · computed in {record['seconds']:.0f} s")


def read_texts(node):
    """The texts below a node that are no code and no formula, and not folded away at the default depth."""
    if isinstance(node, nodes.Text):
        yield node
    elif not (isinstance(node, UNREAD) or node.get("hide_mode") == "all" or FOLDED & set(node["classes"])):
        for child in node.children:
            yield from read_texts(child)


def number_by_chapter(app, env):
    """Count figures, tables, equations and exercises by chapter: Figure 9.1; the book's own results are R1, R2, ..."""
    for docname, kinds in env.toc_fignumbers.items():
        found = re.fullmatch(r"chapters/(\d\d|[A-D])_\w+", docname)
        chapter = found[1].lstrip("0") if found else ""
        for numbers in kinds.values():
            # So that none is mistaken for one of the paper's.
            own = {label for label in numbers if OWN.match(label)}
            numbers |= {label: (f"R{str(numbers[label][0]).lstrip('R')}", *numbers[label][1:]) for label in own}
            counted = sorted(numbers.keys() - own, key=lambda name: numbers[name]) if found else []
            for place, label in enumerate(counted, 1):
                numbers[label] = (chapter, place) if chapter else (place,)
    return []


def setup(app):
    app.add_directive("abstract", AbstractDirective)
    app.add_directive("question", QuestionDirective)
    app.add_directive("fold", FoldDirective)
    app.add_directive("printed", PrintedDirective)
    app.add_transform(Depths)
    app.add_transform(Minutes)
    # The numbers are given in the same event, at the usual priority.
    app.connect("env-get-updated", number_by_chapter, priority=890)
