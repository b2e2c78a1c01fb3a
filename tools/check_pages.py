"""Check the built site: links, anchors, alternative texts, external requests, strange scripts, formulas, script errors.

The first half reads the HTML; the second opens every page in headless Chromium, where one is installed.
"""

import contextlib
import functools
import http.server
import re
import shutil
import threading
from urllib.parse import unquote, urljoin, urlsplit

SITE = "http://site.invalid/"
# A value of a notebook that was not put in its place: MyST leaves the role as it stands, inside a formula for one.
RAW_GLUE = re.compile(r"\{glue:\w*\}?\S{0,40}|glue:text\S{0,40}")
# The owner of the repository that Jupyter Book's settings name where a book names none.
STRANGER = "executablebooks/"
FETCHED_RELS = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch", "manifest"}
# Where a page's text stands; it ends where its last part ends, whatever closes and opens before.
TEXT = "[self::article or self::section]"
SCRIPTS = f"//script[(ancestor::* | preceding::*){TEXT} and (ancestor::* | following::*){TEXT}]"
THEME_HANDLERS = ("toggleFullScreen()", "window.print()")
# MathJax marks what it cannot parse, and sets commands that it does not know in red.
FORMULA_FAULTS = "merror[data-mjx-error], mjx-assistive-mml mtext[mathcolor=red]"
FIND_FAULTS = """async faults => {
  await window.MathJax?.startup?.promise;
  const plain = document.querySelector('.math') && !document.querySelector('mjx-container');
  const wrong = [...document.querySelectorAll(faults)].map(box => box.dataset.mjxError || box.textContent);
  const told = [...new Set(wrong)].map(text => `formula error: ${text}`);
  return plain ? [...told, 'the formulas were not typeset'] : told;
}"""
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUMS += ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
CHROMIUM_FLAGS = ["--disable-gpu", "--disable-quic"]


def read_page(text):
    """Read HTML as a tree, and end tags of what was not open; one of a paragraph, Docutils writes around blocks."""
    import lxml.html

    parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True)
    tree = lxml.html.document_fromstring(text.encode(), parser)
    ends = [error.message.split()[-1] for error in parser.error_log if error.type_name == "ERR_TAG_NAME_MISMATCH"]
    return tree, [tag for tag in ends if tag != "p"]


def words_of(tree):
    """What of a page is read or typeset."""
    return "".join(tree.xpath("//text()[not(parent::script or parent::style)]"))


def fetches_of(tree):
    """Addresses that a browser fetches without being asked, as the page has them."""
    links = [link.get("href") for link in tree.xpath("//link[@href]") if FETCHED_RELS & {*link.get("rel", "").split()}]
    sets = [part.split()[0] for given in tree.xpath("//@srcset") for part in given.split(",") if part.split()]
    return [*links, *sets, *tree.xpath("//@src | //@poster | //@data")]


def style_fetches(css):
    """Addresses that a style sheet fetches."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    found = re.findall(r"""url\(\s*['"]?([^'")]+)""", css) + re.findall(r"""@import\s+['"]([^'"]+)""", css)
    return [address.strip() for address in found]


def is_external(address):
    """Tell whether fetching the address leaves the site."""
    parts = urlsplit(address.strip())
    return bool(parts.netloc) or parts.scheme in ("http", "https", "ftp", "ws", "wss")


def has_no_alternative(image):
    """Tell whether an image lacks a written alternative text; Sphinx puts the file path where none is given."""
    if image.get("role") == "presentation" or image.get("aria-hidden") == "true":
        return False
    text = image.get("alt", "").strip()
    name = unquote(image.get("src", "")).rsplit("/", 1)[-1]
    return not text or (bool(name) and name in text) or bool(re.fullmatch(r"\S+\.(svg|png|jpe?g|gif|webp)", text, re.I))


def strange_scripts(tree, here):
    """Scripts in a page's text but files of `_static` and data, and attributes that run one, wherever they are."""
    for script in tree.xpath(SCRIPTS):
        own = urljoin(here, script.get("src", "")).startswith(f"{SITE}_static/")
        if not (own if "src" in script.attrib else script.get("type") == "application/json"):
            yield script.text or script.get("src")
    for value in tree.xpath("//@*[starts-with(name(), 'on') or name() = 'srcdoc' or contains(., ':')]"):
        leads = re.sub(r"[\0-\x20]", "", value).lower().startswith("javascript:")
        if leads or value.attrname == "srcdoc" or (value.attrname.startswith("on") and value not in THEME_HANDLERS):
            yield f"{value.attrname}={value}"


def find_pages(site):
    """Names of the site's own pages."""
    names = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]
    return [name for name in names if not name.startswith("_static/")]


def check_files(site, names):
    """Check the named pages and every style sheet; return the faults."""
    pages = {name: read_page((site / name).read_text(encoding="utf-8")) for name in names}
    ids = {name: set(tree.xpath("//@id | //@name")) for name, (tree, _) in pages.items()}
    faults = [] if pages else [f"no page found in {site}"]
    for name, (tree, ends) in pages.items():
        here, fetches, links = urljoin(SITE, name), fetches_of(tree), tree.xpath("//a/@href | //area/@href")
        for address in links + fetches:
            parts = urlsplit(urljoin(here, address))
            if is_external(address) or parts.scheme != "http":
                continue
            path = unquote(parts.path).lstrip("/") or "index.html"
            path += "index.html" if path.endswith("/") else ""
            anchor = unquote(parts.fragment)
            if not (site / path).is_file():
                faults.append(f"{name}: broken link {address}")
            elif anchor and path in pages and anchor not in ids[path] and anchor != "top":
                faults.append(f"{name}: link to a missing anchor {address}")
        styles = tree.xpath("//style/text() | //@style")
        fetches += [address for style in styles for address in style_fetches(style)]
        faults += [f"{name}: external request {address}" for address in fetches if is_external(address)]
        faults += [f"{name}: leads to another book: {address}" for address in links if STRANGER in address]
        faults += [f"{name}: raw text {text}" for text in RAW_GLUE.findall(words_of(tree))]
        faults += [f"{name}: a script in the text: {told[:80]}" for told in strange_scripts(tree, here)]
        faults += [f"{name}: an end without a beginning: {tag}" for tag in ends]
        for image in filter(has_no_alternative, tree.iter("img")):
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

    faults, name = [], ""

    def report(what):
        faults.append(f"{name}: {what}")

    with served(site) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS, chromium_sandbox=False)
        tab, own = browser.new_page(), (origin, "data:", "blob:")
        tab.on("request", lambda request: request.url.startswith(own) or report(f"external request {request.url}"))
        tab.route(lambda address: not address.startswith(own), lambda route: route.abort())
        tab.on("pageerror", lambda error: report(f"script error: {error.message.splitlines()[0]}"))
        tab.on("console", lambda message: message.type == "error" and report(f"console error: {message.text}"))
        tab.on("response", lambda answer: answer.status >= 400 and report(f"{answer.status} for {answer.url}"))
        for name in (name for name in names if not is_redirect(site / name)):
            try:
                tab.goto(origin + name, wait_until="networkidle", timeout=60_000)
                for fault in tab.evaluate(FIND_FAULTS, FORMULA_FAULTS):
                    report(fault)
            except Error as error:
                report(str(error).splitlines()[0])
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
