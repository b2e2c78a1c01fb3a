"""Seeds, data files and recorded runs behind each figure of an executed notebook.

A figure rests on the statements that made the names its cell uses, and the names that those use. Their seeds and
files, as the kernel's journal has them, are the figure's. Names are followed through the source of the cells; that a
function changes its argument is not seen.
"""

import ast
import dis
import functools
import inspect
import json
import shlex
from itertools import groupby, takewhile

from IPython.core.inputtransformer2 import TransformerManager

from rrl.experiments.provenance import clock_seconds, commit_text

AT_ONCE = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
#: Methods that change their object although their result is used.
CHANGING = {"append", "extend", "add", "update", "insert", "setdefault", "pop", "check"}


def root_name(node):
    """Name at the beginning of x.a[i].b; None where there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def walk_outside_functions(node):
    """Every node of a statement but those of the bodies of functions."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from walk_outside_functions(child)


def changed_name(node):
    """Name whose object a node changes: a part written, += and calls of methods whose result nobody takes."""
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
            return root_name(node)
        case ast.AugAssign(target=target) | ast.Expr(value=ast.Call(func=ast.Attribute() as target)):
            return root_name(target)
        case ast.Call(func=ast.Attribute(attr=method) as target) if method in CHANGING:
            return root_name(target)


class Names:
    """Names that a statement needs from before, needs when its functions run, makes, and changes.

    What it needs and makes, the compiler's instructions say: the order in which they load and store names.
    """

    def __init__(self, *statements):
        self.needed, self.later, self.made, self.changed, self.imported = set(), set(), set(), set(), set()
        for statement in statements:
            self.changed |= {name for node in walk_outside_functions(statement) if (name := changed_name(node))}
            branches = [node for node in ast.walk(statement) if isinstance(node, ast.If | ast.Try)]
            # What a branch makes may be made or not.
            stored = [node for branch in branches for node in ast.walk(branch) if isinstance(node, ast.Name)]
            unsure = {node.id for node in stored if isinstance(node.ctx, ast.Store)}
            self.read_code(compile(ast.Module([statement], []), "cell", "exec"), unsure)

    def read_code(self, code, unsure=frozenset()):
        """Follow the instructions of a statement."""
        importing = False
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_NAME", "LOAD_GLOBAL") and step.argval not in self.made:
                self.needed.add(step.argval)
            elif step.opname == "STORE_NAME" and importing:
                # Names of modules and of what comes from them are no results.
                self.imported.add(step.argval)
            elif step.opname == "STORE_NAME":
                (self.changed if step.argval in unsure else self.made).add(step.argval)
            if step.opname != "RESUME":
                importing = step.opname in ("IMPORT_NAME", "IMPORT_FROM")
            if inspect.iscode(step.argval):
                inner = Names()
                inner.read_code(step.argval)
                # A comprehension and the body of a class run at once, a function when it is called.
                at_once = step.argval.co_name in AT_ONCE or "__qualname__" in inner.made
                (self.needed if at_once else self.later).update(inner.needed - (self.made if at_once else set()))
                self.later |= inner.later


def statements(source):
    """The statements of a cell, outermost ones only."""
    return ast.parse(TransformerManager().transform_cell(source)).body


def behind(names, places):
    """Positions of the statements, in the order in which they run, on which those at some places rest, and these."""
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
    parts = []
    for _, group in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        parts.append(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)))
    return ", ".join(parts)


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
    """Seeds, files and recorded runs of each cell of an executed notebook that shows something, by its place.

    As in ``{"7": {"numpy": "0–59", "shared": "13", "files": [...], "runs": [...]}}``; what is not there was not used.
    """
    cells = [(str(index), cell) for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    parts = [(index, cell, part) for index, cell in cells for part in statements(cell.source)]
    names, origins = [Names(part) for *_, part in parts], {}
    for index, cell in cells:
        if not any(output.output_type in ("display_data", "execute_result") for output in cell.outputs):
            continue
        rests = [parts[i] for i in behind(names, [i for i, part in enumerate(parts) if part[0] == index])]
        ran = {(c.execution_count, line) for _, c, s in rests for line in range(s.lineno, s.end_lineno + 1)}
        used = {kind: set() for kind in ("numpy", "shared", "files")}
        for line in (line for line in journal if (line["cell"], line["line"]) in ran):
            for kind, values in used.items():
                values.update(tuple(value) if isinstance(value, list) else value for value in line.get(kind, ()))
        runs, files = recorded_runs(root, sorted(used["files"]))
        found = {"numpy": in_words(used["numpy"]), "shared": in_words(used["shared"]), "runs": runs, "files": files}
        origins[index] = {kind: value for kind, value in found.items() if value}
    return origins
