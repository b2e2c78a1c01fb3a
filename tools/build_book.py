"""Build the site from the executed notebooks and check its pages; do nothing where nothing changed."""

import argparse
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import build_slides
import check_pages
from kernel_start import end_with_parent
from run_notebooks import fingerprint, hear_stops, one_at_a_time, write_atomic
from sphinx_external_toc.parsing import parse_toc_yaml

ROOT = Path(__file__).resolve().parents[1]


def build(root, browser):
    """Build and check; the site that there is stays where the new one has a fault."""
    chapters = {f"chapters/{path.stem}" for path in (root / "notebooks").glob("[!.]*.md")}
    if unlisted := sorted(chapters - set(parse_toc_yaml(root / "_toc.yml"))):
        sys.exit(f"error: {', '.join(unlisted)}: a notebook, but no entry in _toc.yml")
    site, stamp = root / "_build" / "html", root / "_build" / "book.json"
    sources = ("_config.yml", "_toc.yml", "index.md", "requirements.lock", "book", "rrl", "tools", "slides", "chapters")
    state = fingerprint(root, sources, [browser])
    if (site / "index.html").is_file() and stamp.is_file() and json.loads(stamp.read_text())["inputs"] == state:
        print("The site is up to date: no page, notebook or setting changed")
        return
    # A page that Sphinx does not read again cannot warn again, so each build starts afresh, beside the site there is.
    (root / "_build").mkdir(exist_ok=True)
    for left in (root / "_build").glob("next-*"):
        shutil.rmtree(left, ignore_errors=True)
    beside, started = Path(tempfile.mkdtemp(prefix="next-", dir=root / "_build")), time.monotonic()
    print("Building the site with jupyter-book (a minute or more)", flush=True)
    # Not the script of that name: in a checkout that was moved it calls the interpreter of the old place.
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", ".", "-q"]
    command += ["--path-output", beside.relative_to(root).as_posix(), "-W", "--keep-going", "-n"]
    # In a session of its own it hears no Ctrl-C: `run` ends it, and it prints no trace.
    options = {"env": os.environ | {"PYTHONPATH": str(root)}, "start_new_session": True}
    if os.name == "posix":
        options["preexec_fn"] = functools.partial(end_with_parent, signal.SIGKILL)
    if subprocess.run(command, cwd=root, **options).returncode:
        sys.exit("error: jupyter-book found the problems above; the site before stays as it was")
    made = beside / "_build" / "html"
    try:
        build_slides.build(root, made / "slides", "../")
    except build_slides.SlideError as error:
        sys.exit(f"error: {error}; the site before stays as it was")
    print(f"Checking the pages (site built in {time.monotonic() - started:.0f} s)", flush=True)
    if check_pages.check(made, browser):
        sys.exit(f"error: the pages with faults are in {made.relative_to(root)}; the site before stays")
    stamp.unlink(missing_ok=True)
    if site.exists():
        site.replace(beside / "before")
    made.replace(site)
    write_atomic(stamp, json.dumps({"inputs": state}))
    shutil.rmtree(beside, ignore_errors=True)


if __name__ == "__main__":
    hear_stops()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", choices=["auto", "required", "skip"], default="auto")
    args = parser.parse_args()
    try:
        with one_at_a_time(ROOT):
            build(ROOT, args.browser)
    except KeyboardInterrupt:
        print("stopped; the site before stays as it was", file=sys.stderr)
        sys.exit(130)
