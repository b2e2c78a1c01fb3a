"""Copy the start page's figure to book/_static/two-laboratories.svg, for the README.

Run `make notebook NAME=00` first, then `.venv/bin/python tools/readme_picture.py`.
"""

import json
import sys
from pathlib import Path

from run_notebooks import ROOT, write_atomic

NOTEBOOK = ROOT / "chapters" / "00_replicability.ipynb"
PICTURE = ROOT / "book" / "_static" / "two-laboratories.svg"


def figures(notebook):
    """Every SVG that the notebook's cells show, in order."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return ["".join(found) for output in outputs if (found := output.get("data", {}).get("image/svg+xml"))]


def main(source=NOTEBOOK, target=PICTURE):
    """Write the picture; return the exit status."""
    if not Path(source).is_file():
        print(f"error: {Path(source).name} is missing; run `make notebook NAME=00` first", file=sys.stderr)
        return 1
    found = figures(json.loads(Path(source).read_text(encoding="utf-8")))
    if len(found) != 1:
        print(f"error: {Path(source).name} shows {len(found)} SVG figures, expected one", file=sys.stderr)
        return 1
    lines = [line.rstrip() for line in found[0].splitlines()]
    write_atomic(Path(target), "\n".join(lines) + "\n")
    print(f"==> Done: {Path(target).name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
