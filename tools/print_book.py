"""Print the whole book to _build/book.pdf: one HTML page, printed by Chromium, without TeX."""

import shutil
import subprocess
import sys
from pathlib import Path

from check_pages import CHROMIUM_FLAGS, find_chromium, served
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
FOOTER = "<div style='width:100%;font-size:8px;text-align:center'><span class='pageNumber'></span></div>"


def main():
    """Build one page and print it; return the exit status."""
    chromium = find_chromium()
    if chromium is None:
        print("error: printing needs Chromium; install it (Debian, Ubuntu: apt install chromium)", file=sys.stderr)
        return 1
    builder = [str(Path(sys.executable).with_name("jupyter-book")), "build", ".", "--builder", "singlehtml"]
    if subprocess.run([*builder, "--path-output", "_build/print", "-W", "--keep-going"], cwd=ROOT).returncode:
        return 1
    site = ROOT / "_build" / "print" / "_build" / "singlehtml"
    # The builder writes the addresses on its page as if it lay at the top.
    shutil.copy(site / "chapters" / "00_replicability.html", site / "book.html")
    target = ROOT / "_build" / "book.pdf"
    beside = target.with_suffix(".part")
    with served(site) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS, chromium_sandbox=False)
        tab = browser.new_page()
        tab.goto(f"{origin}book.html", wait_until="load", timeout=120_000)
        tab.evaluate("() => window.MathJax?.startup?.promise")
        tab.evaluate("() => document.querySelectorAll('details').forEach(box => { box.open = true })")
        margins = dict.fromkeys(("top", "bottom", "left", "right"), "16mm")
        tab.pdf(
            path=beside,
            format="A4",
            margin=margins,
            display_header_footer=True,
            header_template="<i></i>",
            footer_template=FOOTER,
        )
        browser.close()
    beside.replace(target)
    print(f"==> Done: {target.relative_to(ROOT)} ({target.stat().st_size / 2**20:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
