"""Put a first cell into each executed notebook that installs the package where a notebook is opened on Colab.

Standard library only: the workflow calls it in a bare checkout. Binder installs from environment.yml instead.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTALL = """\
# On Colab only: fetch the book and install the package (a few minutes).
import sys

if "google.colab" in sys.modules:
    !git clone --quiet --depth 1 {url} /content/rrl
    %cd /content/rrl/notebooks
    %pip install --quiet "/content/rrl[experiments,book]\""""


def add_cell(text, url):
    """Return a notebook's text with the installing cell in front; one that has it stays as it is."""
    notebook = json.loads(text)
    cell = {"cell_type": "code", "execution_count": None, "id": "install", "metadata": {}, "outputs": []}
    cell["source"] = INSTALL.format(url=url)
    if notebook["cells"][0].get("id") != "install":
        notebook["cells"].insert(0, cell)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main(arguments, folder=ROOT / "chapters"):
    """Change the notebooks in place; return the exit status."""
    paths = sorted(folder.glob("*.ipynb"))
    if len(arguments) != 1 or not arguments[0].startswith("https://") or not paths:
        print("error: give the address of the repository, and run the notebooks first", file=sys.stderr)
        return 1
    for path in paths:
        path.write_text(add_cell(path.read_text(encoding="utf-8"), arguments[0]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
