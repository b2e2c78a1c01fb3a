"""The README keeps its promises: its example runs and prints what it says, its commands and links exist."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.M | re.S)


def test_example_prints_what_the_readme_shows():
    (example,), (shown,) = blocks("python"), blocks("text")
    ran = subprocess.run([sys.executable, "-W", "error", "-c", example], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == shown


def test_a_type_checker_finds_no_fault_in_the_example(tmp_path):
    pytest.importorskip("basedpyright")
    (example,) = blocks("python")
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    settings = {"include": [str(tmp_path)], "typeCheckingMode": "basic", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "-p", str(tmp_path), "--pythonpath", sys.executable]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and "0 errors, 0 warnings" in ran.stdout, ran.stdout


def test_the_two_commands_come_first():
    before = TEXT[: TEXT.index("\n## ")]
    commands = re.findall(r"^make (\w+)", before, flags=re.M)
    assert commands == ["book", "test"]


def test_every_make_target_exists():
    targets = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(blocks("console") + re.findall(r"`([^`\n]+)`", TEXT))))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"book", "test", "notebook", "serve"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.M), target


def test_every_notebook_named_exists():
    names = re.findall(r"NAME=(\w+)", TEXT) + re.findall(r"chapters/(\w+)\.ipynb", TEXT)
    assert names
    for name in names:
        assert len(list((ROOT / "notebooks").glob(f"{name}*.md"))) == 1, name


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)\s]+)\)", TEXT))
def test_links_lead_to_files(target):
    assert target.startswith("https://") or (ROOT / target).is_file()


def test_the_picture_has_an_alternative_text_and_its_own_background():
    alternatives = re.findall(r"!\[([^\]]*)\]\((\S+)\)", TEXT)
    assert len(alternatives) == 1
    text, path = alternatives[0]
    assert len(text) > 40
    picture = (ROOT / path).read_text(encoding="utf-8")
    # An opaque white first patch: readable on a dark page too.
    assert re.search(r'<g id="patch_1">\s*<path [^>]*style="fill: #ffffff"', picture)


def test_extras_named_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    sentence = re.search(r"the extras (.*?) bring", TEXT).group(1)
    assert set(re.findall(r"`(\w+)`", sentence)) == set(extras)


def test_every_path_that_contributing_names_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/.])(?:rrl|tests|tools|notebooks|book)/[\w/.-]*", text))
    examples = {"notebooks/NN_name.md"}
    assert examples < named and len(named) > 30
    assert [path for path in sorted(named - examples) if not (ROOT / path).exists()] == []
