"""Notebooks as texts: sources that are read and checked, outputs that are made tidy, failures told in words."""

import ast
import contextlib
import itertools
import json
import re

NUMBER = re.compile(r"\{glue:text\}`([\w-]+)(?::([^`]+))?`")


class NotebookError(Exception):
    """A notebook that cannot run or did not run, said in words for the person at the terminal."""


def read_source(source):
    """Read a MyST source as a notebook and return it with the defaults of its parameters cell."""
    import jupytext

    try:
        text = source.read_text(encoding="utf-8")
        if "\0" in text:
            raise ValueError(f"line {text[: text.index(chr(0))].count(chr(10)) + 1} has a NUL character")
        notebook = jupytext.reads(text, fmt="md:myst")
    except Exception as error:  # whatever a parser says of a broken file
        said = " ".join((str(error) or repr(error)).split())
        raise NotebookError(f"{source.name}: {type(error).__name__}: {said}") from None
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise NotebookError(f"{source.name}: needs exactly one cell tagged `parameters`, found {len(tagged)}")
    again = jupytext.reads(jupytext.writes(notebook, fmt="md:myst"), fmt="md:myst")
    before, after = ([cell.metadata.get("tags", []) for cell in nb.cells] for nb in (notebook, again))
    if before != after:
        said = "cell tags are lost between Markdown and notebook; is there a cell_metadata_filter in its head?"
        raise NotebookError(f"{source.name}: {said}")
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{index}"  # jupytext makes them at random
    defaults = {}
    try:
        body = ast.parse(tagged[0].source).body
    except SyntaxError as error:
        raise NotebookError(f"{source.name}: the parameters cell: {error}") from None
    for node in body:
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Name):
                try:
                    defaults[target.id] = ast.literal_eval(node.value)
                except ValueError:
                    defaults[target.id] = ...
    if "scale" not in defaults:
        raise NotebookError(f'{source.name}: the parameters cell must set scale = "quick"')
    return notebook, defaults


def merge_streams(outputs):
    """Join neighbouring pieces of a stream, stdout first: where they were cut, and how the two mixed, was chance."""
    merged = []
    for is_stream, group in itertools.groupby(outputs, key=lambda output: output.output_type == "stream"):
        pieces, texts = list(group), {}
        for piece in pieces if is_stream else ():
            first = texts.setdefault(piece.name, piece)
            first.text += piece.text if first is not piece else ""
        merged += [texts[name] for name in sorted(texts, reverse=True)] if is_stream else pieces
    return merged


def tidy(notebook):
    """Drop what papermill adds and what differs from run to run."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": notebook.metadata.get("language_info", {"name": "python"}),
    }
    tables = {}

    def renamed(found):
        return tables.setdefault(found[0], f"T_{len(tables):05}")

    for cell in notebook.cells:
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if not cell.metadata.get("tags"):
            cell.metadata.pop("tags", None)
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if output.output_type == "stream":
                # Warnings name a file of the kernel, and that its process.
                output.text = re.sub(r"(?<=/ipykernel_)\d+(?=/)", "0", output.text)
            if "text/html" in data:
                # pandas draws the id of a styled table.
                data["text/html"] = re.sub(r"\bT_[0-9a-f]{5}(?=\b|_)", renamed, data["text/html"])
            if "text/plain" in data:
                data["text/plain"] = re.sub(r"(?<= at )0x[0-9a-f]+(?=>)", "0x0", data["text/plain"])
    return notebook


def put_numbers(text, numbers, missing):
    """Replace each glue role by the value that a notebook computed, or by what `missing` makes of name and role."""

    def value(match):
        name, form = match.groups()
        return format(numbers[name], form or "") if name in numbers else missing(name, match[0])

    return NUMBER.sub(value, text)


def read_cells(root, chapter):
    """The cells of an executed chapter; none where it is not executed."""
    path = root / "chapters" / f"{chapter}.ipynb"
    return json.loads(path.read_text(encoding="utf-8"))["cells"] if path.is_file() else []


def read_run(root, page):
    """The runner's record of a chapter; None for other pages."""
    path = root / "chapters" / ".runs" / f"{page.removeprefix('chapters/')}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def named_figures(cells):
    """Figures of an executed notebook by the names that its cells give them: (type, data, alternative text)."""
    found = {}
    for cell in cells:
        shown = cell["metadata"].get("mystnb", {})
        for output in cell.get("outputs", ()) if "name" in shown.get("figure", {}) else ():
            for kind in ("image/svg+xml", "image/png"):
                if kind in output.get("data", {}):
                    figure = kind, "".join(output["data"][kind]), " ".join(shown["image"]["alt"].split())
                    found.setdefault(shown["figure"]["name"], figure)
    return found


def glued(cells):
    """Numbers and words that an executed notebook has glued, by name."""
    found = {}
    for output in (output for cell in cells for output in cell.get("outputs", ())):
        name = output.get("metadata", {}).get("scrapbook", {}).get("name")
        text = next((text for kind, text in output.get("data", {}).items() if kind.endswith("text/plain")), None)
        with contextlib.suppress(ValueError, SyntaxError, TypeError):
            found |= {name: ast.literal_eval("".join(text))} if name else {}
    return found


def fill_in(notebook):
    """Put the notebook's own values into its text, where the site would put them: for reading it by itself."""
    numbers = glued(notebook.cells)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = put_numbers(cell.source, numbers, lambda name, place: place)


def find_line(source, cell):
    """Where a cell begins: file and line of the source, or the file alone."""
    text, code = source.read_text(encoding="utf-8"), (cell or "").strip()
    place = text.find(code) if code else -1
    return f"{source.name}:{text.count(chr(10), 0, place) + 1}" if place >= 0 else source.name


def explain(source, error, cell):
    """A short account of a failed run: the place in the source, the error, the last lines of the trace."""
    from papermill.exceptions import PapermillExecutionError

    if not isinstance(error, PapermillExecutionError):
        said = (str(error).strip() or repr(error)).splitlines()[0]
        return f"{find_line(source, cell)}: {type(error).__name__}: {said}"
    lines = error.source.strip().splitlines()
    trace = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback)).splitlines()
    trace = [line for line in trace if re.match(r"Cell |File |-+> ", line)][-12:]
    shown = "\n".join(f"    | {line}" for line in lines[:6] + ["..."] * (len(lines) > 6))
    where = find_line(source, error.source)
    return f"{where}: {error.ename}: {error.evalue}\n{shown}\n" + "\n".join(f"    {line}" for line in trace)
