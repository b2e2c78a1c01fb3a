"""Chapters for a class: no solution is left in them, every exercise has a cell, and the other cells run."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import build_student
import nbformat
import pytest
from build_student import EXERCISE, SOLUTION, make_notebook, readable, without_solutions
from nbclient import NotebookClient
from notebook_texts import NotebookError

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "notebooks").glob("[!.]*.md"))


def secret_lines(text):
    """Lines of the solutions that stand nowhere else in the chapter."""
    inside, outside, end = set(), [], None
    for line in text.splitlines():
        if start := re.match(r"(`{3,})\{solution(-start)?\}", line):
            end = start[1] + ("{solution-end}" if start[2] else "")
        elif line == end:
            end = None
        else:
            inside.add(line.strip()) if end else outside.append(line)
    rest = "\n".join(outside)
    return {line for line in inside if len(line) > 12 and line not in rest and not line.startswith(("```", ":"))}


def cells_of(source):
    return make_notebook(ROOT, source, {path.stem: path.stem for path in SOURCES}).cells


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_no_solution_is_left_and_every_exercise_has_a_cell(source):
    text = source.read_text(encoding="utf-8")
    secret, cells = secret_lines(text), cells_of(source)
    shown = "\n".join(cell.source for cell in cells)
    assert len(secret) >= 3
    assert [line for line in secret if line in shown] == [] and "{solution" not in shown and "{exercise" not in shown
    exercises = re.findall(r"^`{3,}\{exercise(?:-start)?\} ?(.*)$", text, re.M)
    to_fill = [cell for cell in cells if "raises-exception" in cell.metadata.get("tags", ())]
    assert exercises == re.findall(r"^### Exercise: (.*)$", shown, re.M) and len(to_fill) >= len(exercises)
    assert all(cell.cell_type == "code" for cell in to_fill)
    # All else is as in the book: the code cells that are no solution, in their order.
    kept = [cell.source for cell in cells if cell.cell_type == "code" and cell not in to_fill]
    outside = SOLUTION.sub("", text)
    assert len(kept) == len(re.findall(r"^```\{code-cell\}", outside, re.M))


TEXT = """\
```{exercise-start} A title
:label: ex-a
```

What?

```python
x = ...
```

```{exercise-end}
```

````{solution-start} ex-a
:class: dropdown
````

```{code-cell} ipython3
x = 1
```

````{solution-end}
````

````{exercise} Another
:label: ex-b

Why? $x$
````

````{solution} ex-b
:class: dropdown

So: ```x```.
````

Rest.
"""


def test_an_exercise_s_starter_becomes_a_cell_and_one_without_gets_one():
    cell = "```{{code-cell}} ipython3\n:tags: [raises-exception]\n\n{}\n```"
    expected = f"### Exercise: A title\n\nWhat?\n\n{cell.format('x = ...')}\n\n\n### Exercise: Another\n\nWhy? $x$\n\n"
    assert without_solutions(TEXT).replace(
        "\n\n\n", "\n\n"
    ) == f"{expected}{cell.format('# Your answer')}\n\nRest.\n".replace("\n\n\n", "\n\n")


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("ex-b\n:class", "ex-c\n:class", "ex-b, ex-c"),
        ("````{solution-end}\n````\n", "", "ex-a"),
        ("```{exercise-end}\n```\n", "", "ex-a"),
    ],
)
def test_what_does_not_go_in_pairs_is_refused(old, new, named):
    assert EXERCISE.search(TEXT) and old in TEXT
    with pytest.raises(NotebookError, match=rf"do not go in pairs: .*{named}"):
        without_solutions(TEXT.replace(old, new))


def test_roles_become_what_jupyter_shows():
    text = (
        "{doc}`03_ridge`, {doc}`there </chapters/03_ridge>`, {func}`rrl.ridge`, {cite:t}`a2022b,c2023d`, "
        "{prf:ref}`thm-3-1`, {ref}`words <x>`, {eq}`eq-1`, {glue:text}`n:.1f`, {prf:ref}`prop-own-cells`"
    )
    assert readable(text, {"03_ridge": "Ridge"}) == (
        "[Ridge](03_ridge.ipynb), [there](03_ridge.ipynb), `rrl.ridge`, A 2022,C 2023, "
        "Theorem 3.1, words, eq-1, {glue:text}`n:.1f`, prop-own-cells"
    )


def test_a_chapter_runs_past_what_students_fill_in(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = build_student.build(ROOT, tmp_path / "student", ["00", "09"])
    assert [path.stem for path in made] == ["00_replicability", "09_cartpole"]
    assert list((tmp_path / "student").glob("replicable_rl-*.whl"))
    # The records that chapter 9 names, where it looks for them, and no others.
    results = tmp_path / "student" / "book" / "results"
    assert [path.name for path in results.iterdir()] == ["cartpole"]
    notebook = nbformat.read(made[0], 4)
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": made[0].parent}}).execute()
    outputs = [cell.outputs for cell in notebook.cells if "raises-exception" in cell.metadata.get("tags", ())]
    assert [out.output_type for output in outputs for out in output] == ["error"]  # the starter; the empty cell is none


def test_the_command_names_what_it_cannot_make(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "01_x.md").write_text("# X\n\n" + TEXT.replace("ex-b\n:class", "ex-c\n:class"))
    monkeypatch.setattr(build_student, "ROOT", tmp_path)
    monkeypatch.setattr(build_student, "make_wheel", lambda root, folder: folder / "x.whl")
    with pytest.raises(SystemExit, match=r"^error: 01_x\.md: exercises and solutions do not go in pairs: ex-b, ex-c$"):
        build_student.main([])


def test_jupyterlab_opens_the_sources_as_notebooks(tmp_path):
    """What make lab sets: Jupyter's server reads the folder's setting, and Jupytext its sources."""
    made = subprocess.run(["make", "--dry-run", "lab", "NAME=03"], cwd=ROOT, capture_output=True, text=True).stdout
    assert f'JUPYTER_CONFIG_PATH="{ROOT}/tools/jupyter"' in made and "jupyterlab notebooks/03_ridge.md\n" in made
    setting = json.loads((ROOT / "tools/jupyter/labconfig/default_setting_overrides.json").read_text(encoding="utf-8"))
    assert setting == {"@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Jupytext Notebook"}}}
    pytest.importorskip("jupyterlab", reason="the extra 'lab' is not installed")
    code = (
        "import pathlib, sys\nfrom jupyterlab_server.settings_utils import _get_overrides, get_settings\n"
        "schemas, empty = str(next(pathlib.Path(sys.argv[1]).glob('**/lab/schemas'))), sys.argv[2]\n"
        "name = '@jupyterlab/docmanager-extension:plugin'\n"
        "overrides, _ = _get_overrides(empty)\n"
        "found, _ = get_settings(empty, schemas, empty, schema_name=name, overrides=overrides)\n"
        "print(found['schema']['properties']['defaultViewers']['default'])"
    )
    share = Path(importlib.util.find_spec("jupyterlab").origin).parents[1]
    share = share / "share" if (share / "share").is_dir() else Path(sys.prefix) / "share"
    environment = os.environ | {"JUPYTER_CONFIG_PATH": str(ROOT / "tools" / "jupyter")}
    command = [sys.executable, "-c", code, str(share), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ran.stdout == "{'markdown': 'Jupytext Notebook'}\n", ran.stderr
