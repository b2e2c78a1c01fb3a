"""Seeds, data files and recorded runs behind each figure of an executed notebook.

A figure rests on the statements that made the names its cell uses, and the names that those use. Their seeds and
files, as the kernel's journal has them, are the figure's. Names are followed through the source of the cells; that a
function changes its argument is not seen.
"""

import ast
import functools
import json
import shlex
from itertools import takewhile

from IPython.core.inputtransformer2 import TransformerManager

from rrl.experiments.provenance import clock_seconds, commit_text

#: Methods that change their object although their result is used.
CHANGING = {"append", "extend", "add", "update", "insert", "setdefault", "pop", "check"}


def root_name(node):
    """Name at the beginning of x.a[i].b; None where there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


class Names(ast.NodeVisitor):
    """Names that a statement needs from before, needs when its functions run, makes, and changes."""

    def __init__(self, *statements):
        self.needed, self.later, self.made, self.changed, self.imported = set(), set(), set(), set(), set()
        self.sure = True
        self.visit_in_order(*statements)

    def visit_Name(self, node):
        """Read or make a name."""
        if isinstance(node.ctx, ast.Load):
            if node.id not in self.made:
                self.needed.add(node.id)
        else:
            (self.made if self.sure else self.changed).add(node.id)

    def visit_in_order(self, *parts):
        """Visit nodes and lists of nodes in the order in which they run."""
        for part in parts:
            for node in part if isinstance(part, list) else [part]:
                if node is not None:
                    self.visit(node)

    def visit_Assign(self, node):
        """The value runs before it gets its names."""
        self.visit_in_order(node.value, node.targets)

    def visit_AnnAssign(self, node):
        """As an assignment."""
        self.visit_in_order(node.value, node.target)

    def visit_NamedExpr(self, node):
        """As an assignment."""
        self.visit_in_order(node.value, node.target)

    def visit_AugAssign(self, node):
        """Change what is there already."""
        name = root_name(node.target)
        if name:
            self.visit(ast.Name(name, ast.Load()))
            self.changed.add(name)
        self.visit_in_order(node.value)

    def visit_For(self, node):
        """The loop's names come after what it runs over."""
        self.visit_in_order(node.iter, node.target, node.body, node.orelse)

    def visit_If(self, node):
        """What a branch makes may be made or not."""
        self.visit(node.test)
        before, self.sure = self.sure, False
        self.visit_in_order(node.body, node.orelse)
        self.sure = before

    def visit_Try(self, node):
        """As a branch."""
        before, self.sure = self.sure, False
        self.generic_visit(node)
        self.sure = before

    def visit_Subscript(self, node):
        """Writing to a part changes the whole."""
        if not isinstance(node.ctx, ast.Load) and root_name(node):
            self.changed.add(root_name(node))
        self.generic_visit(node)

    visit_Attribute = visit_Subscript

    def visit_Expr(self, node):
        """A method whose result nobody takes changes its object."""
        called = node.value.func if isinstance(node.value, ast.Call) else None
        if isinstance(called, ast.Attribute) and root_name(called):
            self.changed.add(root_name(called))
        self.generic_visit(node)

    def visit_Call(self, node):
        """Some methods change their object in any case."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING and root_name(node.func):
            self.changed.add(root_name(node.func))
        self.generic_visit(node)

    def visit_comprehension_of(self, node):
        """Names of a comprehension are its own."""
        inner = Names()
        for part in node.generators:
            inner.visit_in_order(part.iter, part.target, part.ifs)
        inner.visit_in_order(*([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]))
        self.needed |= inner.needed - self.made

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension_of

    def visit_FunctionDef(self, node):
        """A function needs what it does not make itself, at the time when it runs."""
        arguments = node.args
        inner = Names()
        inner.made |= {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
        inner.made |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a}
        inner.visit_in_order(node.body)
        self.later |= inner.needed | inner.later
        self.visit_in_order(arguments.defaults, arguments.kw_defaults, getattr(node, "decorator_list", []))
        if hasattr(node, "name"):
            self.visit(ast.Name(node.name, ast.Store()))

    visit_Lambda = visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        """A class, as a function that runs at once."""
        self.visit_in_order(node.bases, node.decorator_list, node.body)
        self.visit(ast.Name(node.name, ast.Store()))

    def visit_Import(self, node):
        """Names of modules and of what comes from them are no results."""
        self.imported |= {(name.asname or name.name).split(".")[0] for name in node.names}

    visit_ImportFrom = visit_Import


def statements(source):
    """The statements of a cell, outermost ones only."""
    return ast.parse(TransformerManager().transform_cell(source)).body


def behind(names, places):
    """Positions of the statements on which those at some positions rest, themselves included.

    Parameters
    ----------
    names : list of Names
        One a statement, in the order in which they run.
    places : iterable of int
    """
    imported = set().union(*(one.imported for one in names))
    found, last = set(places), max(places, default=0)
    waiting = [(name, place) for place in found for name in names[place].needed | names[place].later]
    asked = set(waiting)
    while waiting:
        name, place = waiting.pop()
        for earlier in range(place - 1, -1, -1) if name not in imported else ():
            one = names[earlier]
            if name in one.made | one.changed:
                found.add(earlier)
                # What a function needs, it finds when it runs, at the latest for the figure.
                more = {(other, earlier) for other in one.needed} | {(other, last) for other in one.later}
                waiting += more - asked
                asked |= more
            if name in one.made:
                break
    return found


def spans(numbers):
    """Whole numbers in words: 0–59, 2026."""
    numbers, parts = sorted(numbers), []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}–{b}" for a, b in parts)


def in_words(seeds, limit=12):
    """Seeds in words: runs of whole numbers, then tuples, both cut short where they are many."""
    whole, tuples = [s for s in seeds if isinstance(s, int)], sorted(tuple(s) for s in seeds if not isinstance(s, int))
    words = spans(whole)
    if words.count(",") > limit:
        words = f"{len(whole)} of them from {min(whole)} to {max(whole)}"
    if len(tuples) > 4:
        words += f"; {len(tuples)} of them from {tuples[0]} to {tuples[-1]}"
    elif tuples:
        words += "; " + ", ".join(map(str, tuples))
    return words.removeprefix("; ")


@functools.cache
def read_unit(path):
    """Unit and provenance of a recorded run; None where the file is no record of one."""
    if path.suffix != ".json":
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    return (record["unit"], record["provenance"]) if {"unit", "provenance"} <= record.keys() else None


def recorded_runs(root, files):
    """What the recorded runs among the files say of themselves, a dict a folder, and the files that are none."""
    folders, others = {}, []
    for file in files:
        record = read_unit(root / file)
        folders.setdefault(file.rpartition("/")[0], []).append(record) if record else others.append(file)
    runs = []
    for folder, records in folders.items():
        units, origins = zip(*records, strict=True)
        seeds = {seed for unit in units for seed in unit.get("draws", [unit["seed"]] if "seed" in unit else [])}
        words = zip(*(origin["command"] for origin in origins), strict=False)
        common = [same[0] for same in takewhile(lambda same: len(set(same)) == 1, words)]
        run = {
            "folder": folder,
            "count": len(records),
            "data": sorted({unit["source"] for unit in units if "source" in unit}),
            "scale": sorted({unit["scale"] for unit in units if "scale" in unit}),
            "seeds": in_words(seeds),
            "commits": sorted({commit_text(origin, 10) for origin in origins}),
            "seconds": round(clock_seconds(origins), 1),
            # Under the module's name the same program: python -m rrl.
            "command": shlex.join(["rrl", *common[1:]]) if common[:1] in (["rrl"], ["__main__.py"]) else "",
        }
        runs.append({key: value for key, value in run.items() if value})
    return runs, others


def figure_origins(notebook, journal, root):
    """Seeds, files and recorded runs of each cell that shows something, by its place in the notebook.

    Parameters
    ----------
    notebook : NotebookNode
        As executed.
    journal : list of dict
        The kernel's lines.
    root : Path
        Of the repository, below which the files lie.

    Returns
    -------
    dict
        ``{"7": {"numpy": "0–59", "shared": "13", "files": [...], "runs": [...]}}``; what is not there was not used.
    """
    parts = []  # every statement: its cell's place, its cell, itself
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            parts += [(index, cell, part) for part in statements(cell.source)]
    names = [Names(part) for *_, part in parts]
    origins = {}
    for index, cell in enumerate(notebook.cells):
        if not any(output.output_type in ("display_data", "execute_result") for output in cell.get("outputs", ())):
            continue
        rests = [parts[i] for i in behind(names, [i for i, part in enumerate(parts) if part[0] == index])]
        lines = [
            line
            for line in journal
            if any(c.execution_count == line["cell"] and s.lineno <= line["line"] <= s.end_lineno for _, c, s in rests)
        ]
        origin = {}
        for kind in ("numpy", "shared"):
            seeds = {tuple(s) if isinstance(s, list) else s for line in lines for s in line.get(kind, ())}
            if seeds:
                origin[kind] = in_words(seeds)
        runs, files = recorded_runs(root, sorted({file for line in lines for file in line.get("files", ())}))
        origins[str(index)] = origin | {key: found for key, found in (("runs", runs), ("files", files)) if found}
    return origins
