"""What stands in a page's head: a description, a preview picture, and icons that need no font file."""

import base64
import io
import logging
import re
from html import escape
from pathlib import Path

from docutils import nodes

PREVIEW = "_static/preview.png"
LONGEST = 200
# Without a question and an answer on top, a page is described by its first paragraph.
SKIPPED = ("scale-banner", "abstract-facts", "statement-head")
RULE = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')
FONT = re.compile(r"url\(\.\./webfonts/(fa-[\w-]+)\.woff2\) format\(\"woff2\"\),url\([^)]*\) format\(\"truetype\"\)")
# The theme loads a script of icons, larger than any page, and the fonts: its style sheet draws them, too.
ICON_FILES = re.compile(r'\s*<(?:script|link)\b[^>]*fontawesome/[^>"]*\.(?:js|woff2)[^>]*>(?:</script>)?')


# Description


def shorten(text, longest=LONGEST):
    """The first sentences of a text that fit, or its first words."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    end = max(text.rfind(mark, 60, longest) for mark in (". ", "? ", ": "))
    return text[: end + 1] if end > 0 else text[: longest - 1].rsplit(" ", 1)[0] + "…"


def describe(doctree):
    """What a page is about: its abstract, or its first paragraph."""
    abstract = next((box for box in doctree.findall(nodes.container) if "abstract" in box["classes"]), None)
    for paragraph in (abstract or doctree).findall(nodes.paragraph):
        if not set(SKIPPED) & set(paragraph["classes"]) and len(paragraph.astext().split()) > 5:
            # Formulas have no place in a line of plain text.
            texts = [t.astext() for t in paragraph.findall(nodes.Text) if not isinstance(t.parent, nodes.math)]
            return shorten("".join(texts))
    return ""


def add_description(app, pagename, templatename, context, doctree):
    """Write the description and the preview of a page into its head."""
    text = describe(doctree) if doctree is not None else ""
    if not text:
        return
    title = re.sub("<[^>]+>", "", context.get("title", ""))
    base = app.config.html_baseurl.rstrip("/")
    picture = f"{base}/{PREVIEW}" if base else context["pathto"](PREVIEW, 1)
    tags = {"og:title": title, "og:description": text, "og:type": "article", "og:image": picture}
    lines = [f'<meta name="description" content="{escape(text)}">']
    lines += [f'<meta property="{key}" content="{escape(value)}">' for key, value in tags.items()]
    context["metatags"] = context.get("metatags", "") + "\n".join(lines) + "\n"


# Icons


def used_codes(rules, texts):
    """Code points of the icons that pages name by class, and style sheets by number."""
    names = {name: int(code, 16) for group, code in RULE.findall(rules) for name in re.findall(r"fa-[\w-]+", group)}
    found = set()
    for text in texts:
        found |= {names[name] for name in re.findall(r"fa-[\w-]+", text) if name in names}
        found |= {int(code, 16) for code in re.findall(r"\\(f[0-9a-f]{3})\b", text)}
    return found


def embedded(font, codes):
    """A part of a font, as the address that holds it."""
    from fontTools import subset

    # It tells of every table that it shortens, and of icons that are in another of the three fonts.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    options = subset.Options(flavor="woff", desubroutinize=True, notdef_outline=True)
    loaded = subset.load_font(str(font), options)
    maker = subset.Subsetter(options)
    maker.populate(unicodes=codes)
    maker.subset(loaded)
    out = io.BytesIO()
    # A time of making would change the file with every build.
    loaded.recalcTimestamp = False
    subset.save_font(loaded, out, options)
    return f'url(data:font/woff;base64,{base64.b64encode(out.getvalue()).decode()}) format("woff")'


def embed_icons(app, exception):
    """Put the used icons into their style sheet: from a file a browser loads no font of a folder above."""
    if exception is not None or app.builder.name != "html":
        return
    out = Path(app.outdir)
    pages = list(out.rglob("*.html"))
    others = [path for path in out.rglob("*.css") if "fontawesome" not in path.as_posix()]
    texts = [path.read_text(encoding="utf-8") for path in [*pages, *others, *out.glob("_static/*.js")]]
    for sheet in out.glob("_static/vendor/fontawesome/*/css/all.min.css"):
        rules, folder = sheet.read_text(encoding="utf-8"), sheet.parents[1] / "webfonts"
        codes = used_codes(rules, texts)
        parts = {name: embedded(folder / f"{name}.ttf", codes) for name in {match[1] for match in FONT.finditer(rules)}}
        for match in set(FONT.finditer(rules)):
            rules = rules.replace(match[0], parts[match[1]])
        sheet.write_text(rules, encoding="utf-8")
    for page, text in zip(pages, texts, strict=False):
        page.write_text(ICON_FILES.sub("", text), encoding="utf-8")


def setup(app):
    """Register everything with Sphinx."""
    app.connect("html-page-context", add_description)
    app.connect("build-finished", embed_icons, priority=600)
