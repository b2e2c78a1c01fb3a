"""Check the built site: links, anchors, alternative texts, external requests, strange scripts, formulas, script errors.

The first half reads the HTML; the second opens every page in headless Chromium, where one is installed.
"""

import contextlib
import functools
import http.server
import re
import shutil
import threading
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin, urlsplit

SITE = "http://site.invalid/"
# A value of a notebook that was not put in its place: MyST leaves the role as it stands, inside a formula for one.
RAW_GLUE = re.compile(r"\{glue:\w*\}?\S{0,40}|glue:text\S{0,40}")
# The owner of the repository that Jupyter Book's settings name where a book names none.
STRANGER = "executablebooks/"
# Attributes from which a browser fetches something without being asked.
FETCHED = ("src", "srcset", "poster", "data")
FETCHED_RELS = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch", "manifest"}
# Where a page's text stands, and so what records and notebooks say: no script but ours, and none in an attribute.
TEXT = ("article", "section")
THEME_HANDLERS = ("toggleFullScreen()", "window.print()")
# MathJax marks what it cannot parse, and sets commands that it does not know in red.
FORMULA_FAULTS = "merror[data-mjx-error], mjx-assistive-mml mtext[mathcolor=red]"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUMS += ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
CHROMIUM_FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Page(HTMLParser):
    """What the checks need to know of one page: its ids, links, fetches, images, styles, scripts and words."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.fetches, self.images, self.styles = set(), [], [], [], []
        self.words, self.handlers, self.scripts, self._all_scripts, self._inside = [], [], [], None, None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Collect what one tag says."""
        values = {key: value or "" for key, value in attrs}
        self.ids.update(values[key] for key in ("id", "name") if values.get(key))
        if tag in ("a", "area") and values.get("href"):
            self.links.append(values["href"])
        if tag == "link" and FETCHED_RELS & set(values.get("rel", "").lower().split()):
            self.fetches.append(values.get("href", ""))
        for key in FETCHED:
            parts = values.get(key, "").split(",") if key == "srcset" else [values.get(key, "")]
            self.fetches += [part.split()[0] for part in parts if part.split()]
        if tag == "img":
            self.images.append(values)
        if values.get("style"):
            self.styles.append(values["style"])
        for key, value in attrs:  # each: of two with one name, browsers take the first
            leads = re.sub(r"[\0-\x20]", "", value or "").lower().startswith("javascript:")
            if leads or key == "srcdoc" or (key.startswith("on") and value not in THEME_HANDLERS):
                self.handlers.append(f"{key}={value}")
        if tag in TEXT and self._all_scripts is None:
            self._all_scripts = []
        if tag == "script" and self._all_scripts is not None:
            self._all_scripts.append([values, ""])
        self._inside = tag

    handle_startendtag = handle_starttag

    def handle_data(self, data):
        """Keep style sheets and scripts written into the page, and the words that are read or typeset."""
        if self._inside == "style":
            self.styles.append(data)
        elif self._inside != "script":
            self.words.append(data)
        elif self._all_scripts:
            self._all_scripts[-1][1] += data

    def handle_endtag(self, tag):
        """Leave a style sheet or a script; the text ends where its last part ends, whatever closed before."""
        self._inside = None
        if tag in TEXT:
            self.scripts = list(self._all_scripts or ())


def style_fetches(css):
    """Addresses that a style sheet fetches."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    found = re.findall(r"""url\(\s*['"]?([^'")]+)""", css) + re.findall(r"""@import\s+['"]([^'"]+)""", css)
    return [address.strip() for address in found]


def is_external(address):
    """Tell whether fetching the address leaves the site."""
    parts = urlsplit(address.strip())
    return bool(parts.netloc) or parts.scheme in ("http", "https", "ftp", "ws", "wss")


def is_own(script, here):
    """Tell whether a script in a page's text is ours: a file of `_static`, or data."""
    values, _ = script
    if "src" in values:
        return urljoin(here, values["src"]).startswith(f"{SITE}_static/")
    return values.get("type") == "application/json"


def has_no_alternative(image):
    """Tell whether an image lacks a written alternative text; Sphinx puts the file path where none is given."""
    if image.get("role") == "presentation" or image.get("aria-hidden") == "true":
        return False
    text = image.get("alt", "").strip()
    name = unquote(image.get("src", "")).rsplit("/", 1)[-1]
    return not text or (bool(name) and name in text) or bool(re.fullmatch(r"\S+\.(svg|png|jpe?g|gif|webp)", text, re.I))


def find_pages(site):
    """Names of the site's own pages."""
    names = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]
    return [name for name in names if not name.startswith("_static/")]


def check_files(site, names):
    """Check the named pages and every style sheet; return the faults."""
    pages = {name: Page((site / name).read_text(encoding="utf-8")) for name in names}
    faults = [] if pages else [f"no page found in {site}"]
    for name, page in pages.items():
        here = urljoin(SITE, name)
        for address in page.links + [fetch for fetch in page.fetches if not is_external(fetch)]:
            parts = urlsplit(urljoin(here, address))
            if is_external(address) or parts.scheme != "http":
                continue
            path = unquote(parts.path).lstrip("/") or "index.html"
            path += "index.html" if path.endswith("/") else ""
            anchor = unquote(parts.fragment)
            if not (site / path).is_file():
                faults.append(f"{name}: broken link {address}")
            elif anchor and path in pages and anchor not in pages[path].ids and anchor != "top":
                faults.append(f"{name}: link to a missing anchor {address}")
        fetched = page.fetches + [address for style in page.styles for address in style_fetches(style)]
        faults += [f"{name}: external request {address}" for address in fetched if is_external(address)]
        faults += [f"{name}: leads to another book: {address}" for address in page.links if STRANGER in address]
        faults += [f"{name}: raw text {text}" for text in RAW_GLUE.findall("".join(page.words))]
        scripts = [source or values.get("src") for values, source in page.scripts if not is_own((values, source), here)]
        faults += [f"{name}: a script in the text: {told[:80]}" for told in [*scripts, *page.handlers]]
        for image in filter(has_no_alternative, page.images):
            told = f"{image.get('src', '')[:80]} (alt={image.get('alt')!r})"
            faults.append(f"{name}: image without a written alternative text: {told}")
    for path in sorted(site.rglob("*.css")):
        for address in style_fetches(path.read_text(encoding="utf-8", errors="replace")):
            if is_external(address):
                faults.append(f"{path.relative_to(site).as_posix()}: external request {address}")
    return faults


@contextlib.contextmanager
def served(site):
    """Serve a folder on a free local port while the block runs; yield its address."""
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *told: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def find_chromium():
    """Path of an installed Chromium, or None."""
    return next(filter(None, map(shutil.which, CHROMIUMS)), None)


def is_redirect(path):
    """Tell whether a page only leads on to another, as the site's index does."""
    return 'http-equiv="refresh"' in path.read_text(encoding="utf-8")[:1000].lower()


def check_in_browser(site, chromium, names):
    """Open the named pages in headless Chromium; return the faults."""
    from playwright.sync_api import Error, sync_playwright

    faults = []
    with served(site) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS, chromium_sandbox=False)
        tab = browser.new_context().new_page()
        name = ""

        def report(what):
            faults.append(f"{name}: {what}")

        def guard(route):
            address = route.request.url
            if address.startswith((origin, "data:", "blob:")):
                return route.continue_()
            report(f"external request {address}")
            return route.abort()

        tab.route("**/*", guard)
        tab.on("pageerror", lambda error: report(f"script error: {error.message.splitlines()[0]}"))
        tab.on("console", lambda message: message.type == "error" and report(f"console error: {message.text}"))
        tab.on("response", lambda answer: answer.status >= 400 and report(f"{answer.status} for {answer.url}"))
        for name in names:
            if is_redirect(site / name):
                continue
            try:
                tab.goto(origin + name, wait_until="load", timeout=60_000)
                tab.evaluate("() => window.MathJax?.startup?.promise")
                broken = tab.eval_on_selector_all(
                    FORMULA_FAULTS, "all => all.map(e => e.dataset.mjxError || e.textContent)"
                )
                plain = tab.evaluate(
                    "() => document.querySelectorAll('.math').length > 0 && !document.querySelector('mjx-container')"
                )
            except Error as error:
                report(str(error).splitlines()[0])
                continue
            faults += [f"{name}: formula error: {text}" for text in dict.fromkeys(broken)]
            if plain:
                report("the formulas were not typeset")
        browser.close()
    return faults


def check(site, browser="auto"):
    """Check a site and print what was found; return the number of faults."""
    names = find_pages(site)
    faults = check_files(site, names)
    chromium = find_chromium() if browser != "skip" else None
    if chromium:
        faults += check_in_browser(site, chromium, names)
    elif browser == "required":
        faults.append("no Chromium found, and the browser checks are required")
    else:
        print("  note: browser checks skipped (no Chromium used): formulas and scripts were not looked at")
    faults = list(dict.fromkeys(faults))
    for text in faults:
        print(f"  fault: {text}")
    print(f"Page checks: {len(faults)} faults in {len(names)} pages" + (f", opened in {chromium}" if chromium else ""))
    return len(faults)
