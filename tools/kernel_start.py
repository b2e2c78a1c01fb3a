"""What the runner's kernels do before the first cell: keep a journal of seeds and files, and let tries go on.

The journal's first line says which package `rrl` the kernel has. Then comes one JSON line for each statement of a cell
that used any: seeds of numpy's generators, shared seeds, and data files of the repository that it read. Provenance
below the figures comes from it (see ``figure_origins.py``).
"""

import ast
import contextlib
import ctypes
import functools
import json
import operator
import os
import signal
import sys

#: Where data lie, below the root; code there is no data.
DATA = ("book/results/", "rrl/datasets/")
#: Shared seeds from here on were drawn from another seed, which is in the journal itself.
LARGE = 2**31
#: How the line begins that says what a try has seen.
TOLD = "no longer holds"


class Soften(ast.NodeTransformer):
    """Turn `assert x` into a line on stderr where x does not hold."""

    def visit_Assert(self, node):
        """Keep the condition, so that what it computes is computed."""
        told = f"{TOLD}: {' '.join(ast.unparse(node).split())}"
        line = ast.parse(f"print({told!r}, file=__import__('sys').stderr)").body
        soft = ast.If(test=ast.UnaryOp(op=ast.Not(), operand=node.test), body=line, orelse=[])
        return ast.fix_missing_locations(ast.copy_location(soft, node))


class Journal:
    """Notes of the running cell, written down at its end."""

    def __init__(self, path, root):
        self.path, self.root, self.notes = path, os.path.join(os.path.abspath(root), ""), {}

    def note(self, kind, value):
        """Note a value once, under the line of the cell that runs; 0 where none does."""
        frame = sys._getframe(1)
        while frame and not (frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__"):
            frame = frame.f_back
        self.notes.setdefault(frame.f_lineno if frame else 0, {}).setdefault(kind, set()).add(value)

    def note_generator(self, seed):
        """Note the seed of a generator; of a spawned one, that of its root."""
        seed = getattr(seed, "entropy", seed)
        seed = seed.tolist() if hasattr(seed, "tolist") else seed
        try:
            self.note("numpy", operator.index(seed))
        except TypeError:
            if isinstance(seed, list | tuple) and all(isinstance(item, int) for item in seed):
                self.note("numpy", tuple(seed))

    def note_shared(self, seed):
        """Note a shared seed that somebody chose."""
        if abs(seed) < LARGE:
            self.note("shared", seed)

    def note_event(self, event, arguments):
        """Note a data file that is opened to be read: an audit hook."""
        if event != "open" or not isinstance(arguments[0], str | os.PathLike):
            return
        path, mode = os.path.abspath(os.fspath(arguments[0])), arguments[1] or ""
        if path.startswith(self.root) and not set(mode) & set("wax+"):
            place = path[len(self.root) :].replace(os.sep, "/")
            if place.startswith(DATA) and not place.endswith((".py", ".pyc", ".pyi")):
                self.note("files", place)

    def begin_cell(self, info):
        """Forget what was noted outside of cells: an event of IPython."""
        self.notes = {}

    def end_cell(self, result):
        """Write the notes of a cell that ran: an event of IPython."""
        notes, self.notes = self.notes, {}
        with open(self.path, "a", encoding="utf-8") as file:
            for line, found in notes.items():
                place = {"cell": result.execution_count, "line": line}
                file.write(json.dumps(place | {kind: list(values) for kind, values in found.items()}) + "\n")


def end_with_parent(number):
    """Have Linux send this process a signal when the thread that started it ends; elsewhere do nothing."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).prctl(1, int(number))  # PR_SET_PDEATHSIG


def watch(journal):
    """Make numpy and rrl tell the journal the seeds that the notebook and rrl use; other libraries have their own.

    Returns the path of rrl, or None where there is none.
    """
    import numpy as np

    made = np.random.default_rng

    @functools.wraps(made)
    def default_rng(seed=None):
        if sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] in ("__main__", "rrl"):
            journal.note_generator(seed)
        return made(seed)

    np.random.default_rng = default_rng
    try:
        from rrl import randomness
    except ImportError:
        return None
    check = randomness.check_seed

    @functools.wraps(check)
    def check_seed(shared_seed):
        seed = check(shared_seed)
        journal.note_shared(seed)
        return seed

    randomness.check_seed = check_seed
    return randomness.__file__


def start(path, root, trying):
    """Begin the journal in this kernel, and soften assertions where a change is only tried."""
    from IPython import get_ipython

    shell, journal = get_ipython(), Journal(path, root)
    if trying:
        shell.ast_transformers.append(Soften())
    end_with_parent(signal.SIGKILL)
    package = watch(journal)
    with open(journal.path, "w", encoding="utf-8") as file:
        file.write(json.dumps({"package": package}) + "\n")
    sys.addaudithook(journal.note_event)
    shell.events.register("pre_run_cell", journal.begin_cell)
    shell.events.register("post_run_cell", journal.end_cell)
