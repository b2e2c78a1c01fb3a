"""What stands in a page's head: a description, a preview picture, and icons that need no font file."""

import base64
import logging
import re
import textwrap
from functools import cache
from pathlib import Path

from book_nodes import fill
from docutils import nodes

PREVIEW = "_static/preview.png"
LONGEST = 200
RULE = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')
FONT = re.compile(r"url\(\.\./webfonts/(fa-[\w-]+)\.woff2\) format\(\"woff2\"\),url\([^)]*\) format\(\"truetype\"\)")
# The theme loads a script of icons, larger than any page, and the fonts: its style sheet draws them, too.
ICON_FILES = re.compile(r'\s*<(?:script|link)\b[^>]*fontawesome/[^>"]*\.(?:js|woff2)[^>]*>(?:</script>)?')


def describe(doctree):
    """What a page is about, as the beginning of its abstract, or of its first paragraph."""
    abstract = next((box for box in doctree.findall(nodes.container) if "abstract" in box["classes"]), doctree)
    for paragraph in abstract.findall(nodes.paragraph):
        # Formulas have no place in a line of plain text.
        texts = [text.astext() for text in paragraph.findall(nodes.Text) if not isinstance(text.parent, nodes.math)]
        if len(paragraph.astext().split()) > 5:
            return textwrap.shorten("".join(texts), LONGEST, placeholder="…")
    return ""


def add_description(app, pagename, templatename, context, doctree):
    """Write the description and the preview of a page into its head."""
    text = describe(doctree) if doctree is not None else ""
    if text:
        base = app.config.html_baseurl.rstrip("/")
        picture = f"{base}/{PREVIEW}" if base else context["pathto"](PREVIEW, 1)
        context["metatags"] += fill("head.html", title=context["title"], description=text, picture=picture)


def used_codes(rules, texts):
    """Code points of the icons that pages name by class, and style sheets by number or as they are."""
    names = {name: int(code, 16) for group, code in RULE.findall(rules) for name in re.findall(r"fa-[\w-]+", group)}
    text = "\n".join(texts)
    by_class = {names[name] for name in re.findall(r"fa-[\w-]+", text) if name in names}
    as_they_are = {ord(icon) for icon in re.findall("[\ue000-\uf8ff]", text)}
    return by_class | as_they_are | {int(code, 16) for code in re.findall(r"\\(f[0-9a-f]{3})\b", text)}


@cache
def embedded(font, codes):
    """A part of a font, as the address that holds it."""
    from fontTools import subset

    # It tells of every table that it shortens, and of icons that are in another of the three fonts.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    options = subset.Options(flavor="woff", desubroutinize=True, notdef_outline=True)
    loaded, maker, part = subset.load_font(str(font), options), subset.Subsetter(options), font.with_suffix(".woff")
    maker.populate(unicodes=codes)
    maker.subset(loaded)
    subset.save_font(loaded, part, options)
    return f'url(data:font/woff;base64,{base64.b64encode(part.read_bytes()).decode()}) format("woff")'


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
        codes = frozenset(used_codes(rules, texts))
        rules = FONT.sub(lambda match: embedded(folder / f"{match[1]}.ttf", codes), rules)  # noqa: B023
        sheet.write_text(rules, encoding="utf-8")
    for page, text in zip(pages, texts, strict=False):
        page.write_text(ICON_FILES.sub("", text), encoding="utf-8")


def setup(app):
    app.connect("html-page-context", add_description)
    app.connect("build-finished", embed_icons, priority=600)
