"""Build chapters for a class: notebooks without solutions, whose exercises begin with a cell to fill in.

They lie in _build/student with what they need: the package as a wheel, and the records that some of them read.
"""

import argparse
import re
import shutil
import sys
from pathlib import Path

import jupytext
from build_assignments import make_wheel
from notebook_texts import NotebookError, glued, put_numbers, read_cells
from run_notebooks import RESULTS, choose, write_atomic

ROOT = Path(__file__).resolve().parents[1]
# A fence around all, or one at the start and one at the end.
SOLUTION = re.compile(
    r"^(`{3,})\{solution(-start)?\} (?P<label>\S+)\n.*?(?(2)^(`{3,})\{solution-end\}\n\4|^\1)\n", re.M | re.S
)
EXERCISE = re.compile(
    r"^(`{3,})\{exercise(-start)?\} (?P<title>[^\n]*)\n:label: (?P<label>\S+)\n(?(2)\1\n)(?P<body>.*?)"
    r"(?(2)^(`{3,})\{exercise-end\}\n\6|^\1)\n",
    re.M | re.S,
)
STARTER = re.compile(r"^```python\n(.*?)^```\n", re.M | re.S)
CELL = "```{{code-cell}} ipython3\n:tags: [raises-exception]\n\n{}```\n"
ROLE = re.compile(r"\{([\w:]+)\}`([^`]+)`")
CODE = ("func", "class", "meth", "mod")
ITEMS = {"thm": "Theorem", "lem": "Lemma", "prop": "Proposition", "cor": "Corollary", "def": "Definition"}
ITEMS |= {"alg": "Algorithm", "asm": "Assumption"}
README = """\
# Chapters of the book on replicable reinforcement learning, without solutions

Once, in an environment of Python 3.11, 3.12 or 3.13 and in this folder:

    python -m pip install jupyterlab "./{wheel}[experiments,book]"

Then:

    jupyter lab chapters

An exercise has a cell to fill in. As long as it is not, it stops with an error, and the cells after it still run.
"""


def without_solutions(text):
    """A chapter's source without its solutions, and with a cell to fill in at each exercise."""
    solved, asked = ({found["label"] for found in kind.finditer(text)} for kind in (SOLUTION, EXERCISE))
    text = EXERCISE.sub(_as_cells, SOLUTION.sub("", text))
    if solved != asked or re.search(r"\{(?:solution|exercise)", text):
        odd = ", ".join(sorted(solved ^ asked)) or "a fence is left"
        raise NotebookError(f"exercises and solutions do not go in pairs: {odd}")
    return text


def _as_cells(found):
    body, n = STARTER.subn(lambda starter: CELL.format(starter[1]), found["body"])
    own = "" if n else "\n" + CELL.format("# Your answer\n")
    return f"### Exercise: {found['title']}\n\n{body.strip()}\n{own}"


def readable(text, titles):
    """Roles of the book as Jupyter shows Markdown: links between the chapters, code, and words."""

    def role(found):
        kind, content = found.groups()
        words, _, target = content.rstrip(">").rpartition("<")
        target = target.strip()
        if kind == "doc" and target.split("/")[-1] in titles:
            name = target.split("/")[-1]
            return f"[{words.strip() or titles[name]}]({name}.ipynb)"
        if kind in CODE:
            return f"`{words.strip() or target}`"
        if kind.startswith("cite"):
            return re.sub(r"([a-z]+)(\d{4})\w*", lambda key: f"{key[1].capitalize()} {key[2]}", content)
        if kind == "prf:ref" and not words and (item := re.fullmatch(r"([a-z]+)-([\dA-D](?:-\d+)*)", target)):
            return f"{ITEMS.get(item[1], item[1])} {item[2].replace('-', '.')}"
        return found[0] if kind == "glue:text" else words.strip() or target

    return ROLE.sub(role, text)


def make_notebook(root, source, titles):
    """The student's notebook of a chapter; numbers in its text are those of the executed chapter, if there is one."""
    numbers = glued(read_cells(root, source.stem))
    text = without_solutions(source.read_text(encoding="utf-8"))
    notebook = jupytext.reads(text, fmt="md:myst")
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{index}"  # jupytext makes them at random
        if cell.cell_type == "markdown":
            cell.source = put_numbers(readable(cell.source, titles), numbers, lambda name, place: place)
    return notebook


def build(root, target, only=()):
    """Write the notebooks and what they need below `target`; return their paths."""
    shutil.rmtree(target, ignore_errors=True)
    (target / "chapters").mkdir(parents=True)
    wheel = make_wheel(root, target)
    sources, made, results = choose(root, only), [], set()
    texts = {source.stem: source.read_text(encoding="utf-8") for source in choose(root, [])}
    titles = {name: re.search(r"^# (.+)$", text.split("---\n", 2)[-1], re.M)[1] for name, text in texts.items()}
    for source in sources:
        try:
            notebook = make_notebook(root, source, titles)
        except NotebookError as error:
            raise NotebookError(f"{source.name}: {error}") from None
        made.append(target / "chapters" / f"{source.stem}.ipynb")
        write_atomic(made[-1], jupytext.writes(notebook, fmt="ipynb"))
        results |= set(re.findall(rf"{RESULTS}(?:/[\w-]+)?", texts[source.stem]))
    for name in sorted(results, key=len):
        shutil.copytree(root / name, target / name, dirs_exist_ok=True)
    write_atomic(target / "README.md", README.format(wheel=wheel.name))
    return made


def main(argv=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", metavar="NAME", help="first letters of a chapter's name (default: all)")
    try:
        made = build(ROOT, ROOT / "_build" / "student", parser.parse_args(argv).only)
    except NotebookError as error:
        sys.exit(f"error: {error}")
    print(f"==> Done: {len(made)} chapters without solutions in _build/student; hand out the folder")


if __name__ == "__main__":
    main()
