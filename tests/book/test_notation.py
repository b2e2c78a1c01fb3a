"""Notation and glossary: every symbol of the chapters is in the table, and links lead both ways."""

import pkgutil
import re
from pathlib import Path

import book_notation
import pytest
import yaml
from book_notation import defined, row_ids
from markdown_it import MarkdownIt
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

ROOT = Path(__file__).parents[2]
CHAPTERS = {path.stem.split("_")[0]: path for path in sorted((ROOT / "notebooks").glob("[!.]*.md"))}

#: What needs no entry: layout, spacing, arithmetic, relations and the functions of every textbook.
ORDINARY = set(
    r"""\frac \dfrac \tfrac \sqrt \left \right \bigl \bigr \Bigl \Bigr \biggl \biggr \big \Big \bigm
    \middle \quad \qquad \textstyle \displaystyle \limits \underbrace \overbrace \binom \not \mathrm
    \text \operatorname \mathbf \mathcal \mathbb \mathsf \cdot \times \circ \pm \mp \le \leq \ge \geq \ne
    \neq \lt \gt \approx \sim \equiv \propto \to \mapsto \ll \gg \in \notin \subset \subseteq \cup \cap
    \setminus \forall \exists \neg \land \lor \Rightarrow \Longrightarrow \iff \infty \dots \ldots \cdots
    \vdots \sum \prod \int \partial \max \min \sup \inf \lim \log \ln \exp \sin \cos \tan \cosh \sinh
    \tanh \arccos \det \bmod \mod \mid \lceil \rceil \lfloor \rfloor \langle \rangle \lVert \rVert \lvert
    \rvert \colon \prime \ast \star \label \begin \end \tag \notag \nonumber \mathop \hspace \phantom""".split()
)
#: Words inside a formula: units, names of functions, environments.
WORDS = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathop|operatorname\*?|begin|end|label|tag|hspace|phantom)\*?\s*\{[^{}]*\}"
)


def symbols(tex):
    """The symbols of a formula, in order: letters and commands that are not ordinary."""
    tokens = re.findall(r"\\[A-Za-z]+|[A-Za-z]", WORDS.sub(" ", tex.replace(r"\\", " ")))
    return [token for token in tokens if token not in ORDINARY]


def formulas(text, first=1):
    """Every formula of a MyST source as (line, tex); code is skipped, captions are not."""
    reader = MarkdownIt().enable("table").use(dollarmath_plugin, double_inline=True)
    for token in reader.use(front_matter_plugin).use(colon_fence_plugin).parse(text):
        line = first + (token.map[0] if token.map else 0)
        if token.type in ("fence", "colon_fence"):
            name, content = token.info.strip(), token.content
            title = name.partition("}")[2]
            if name.startswith("{math}"):
                yield line, re.sub(r"(?m)^:\w+:.*$", "", content)
            elif name.startswith("{code-cell}"):
                caption = re.search(r"(?ms)^(\s*)caption: \|?\n?(.*?)(?=^\1\w+:|^\s{0,3}\w+:|^---)", content)
                if caption:
                    yield from formulas(re.sub(r"(?m)^ +", "", caption[2]), line)
            elif name.startswith("{"):
                yield from formulas(title + "\n" + content, line)
        elif token.type in ("math_block", "math_block_label"):
            yield line, token.content
        elif token.type == "inline":
            for child in token.children:
                if child.type.startswith("math_inline"):
                    yield line, child.content


@pytest.fixture(scope="module")
def notation():
    return book_notation.read_notation(ROOT)


def known_on(page, rows):
    """The symbols that the table explains on a page."""
    known = set()
    for row in rows:
        only = row.get("only")
        if not only or page in ([row["in"]] if only is True else only):
            known.update(defined(row))
    return known


# The reader of formulas


def test_symbols_are_letters_and_commands_without_the_ordinary():
    assert symbols(r"\frac{\hat\bw_h^\top x'}{2}\le\sum_i\alpha_{ij}") == [
        r"\hat",
        r"\bw",
        "h",
        r"\top",
        "x",
        "i",
        r"\alpha",
        "i",
        "j",
    ]
    assert symbols(r"\Pi_{\mathrm{PSD}}(\mathcal T)\text{ for all }\\P") == [r"\Pi", "T", "P"]
    assert symbols(r"\begin{aligned}2&<3\end{aligned}") == []


def test_formulas_are_found_where_a_reader_sees_them():
    text = r"""---
a: $no$
---

# Title $t$

Text $a$ and `$no$` and \$5 and $b
+c$.

$$ d $$ (eq-x)

```{math}
:label: no

e
```

````{admonition} With $f$
:class: dropdown

```{prf:lemma} 1 ($g$)
- item $h$
```
````

:::{note}
$i$
:::

```{code-cell} ipython3
---
mystnb:
  image:
    alt: no $no$
  figure:
    caption: |
      A caption, $j$,
      and $k$.
    name: fig-no
---
print("$no$")
```

```{code-cell} ipython3
---
mystnb:
  figure:
    name: fig-no
    caption: |
      Another, $l$.
  image:
    alt: no $no$
---
```

```console
$ no $
```

| table $m$ |
|-|
"""
    found = list(formulas(text))
    assert [re.sub(r"\s+", "", tex) for _, tex in found] == [*"ta", "b+c", *"defghijklm"]
    lines = {tex.strip(): line for line, tex in found}
    assert text.splitlines()[lines["a"] - 1].startswith("Text")


# The table of this book


@pytest.mark.parametrize("page", CHAPTERS)
def test_every_symbol_of_a_chapter_is_in_the_table(page, notation):
    known, unknown = known_on(page, notation["symbols"]), {}
    for line, tex in formulas(CHAPTERS[page].read_text(encoding="utf-8")):
        for symbol in symbols(tex):
            if symbol not in known:
                unknown.setdefault(symbol, f"line {line}, in {' '.join(tex.split())[:60]}")
    places = "\n".join(f"  {symbol}: {place}" for symbol, place in unknown.items())
    hint = f"add a row to book/notation.yml (for a letter of this page alone: in: '{page}', only: true)"
    assert not unknown, f"{CHAPTERS[page].name} uses symbols without an entry; {hint}\n{places}"


def test_every_row_is_used_where_it_says_and_names_what_rrl_has(notation):
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "rrl").rglob("*.py"))
    for row in notation["symbols"]:
        assert row["tex"] and row["means"], row
        text = CHAPTERS[row["in"]].read_text(encoding="utf-8")
        used = {symbol for _, tex in formulas(text) for symbol in symbols(tex)}
        assert used.intersection(defined(row) or symbols(row["tex"])), row
        if "." in row.get("rrl", ""):
            assert pkgutil.resolve_name(f"rrl.{row['rrl']}"), row
        else:
            assert re.search(rf"\b{row.get('rrl', 'def')}\b", sources), row
    ids = row_ids(notation["symbols"])
    assert len(set(ids)) == len(ids)


def test_every_term_has_a_meaning_and_forms_of_its_own(notation):
    forms = []
    for entry in notation["terms"]:
        assert len(entry["means"]) > 20 and entry["in"] in CHAPTERS, entry
        forms += [form.lower() for form in (entry["term"], *entry.get("also", ()))]
    assert len(set(forms)) == len(forms)


def test_terms_that_the_book_lives_on_are_there(notation):
    terms = {entry["term"] for entry in notation["terms"]}
    assert terms >= {
        "replicable",
        "list-replicable",
        "shared randomness",
        "bin",
        "core set",
        "spanner",
        "core-set constant",
        "leverage",
        "modal share",
        "pairwise share",
        "fingerprint",
    }


# In Sphinx


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """Build a book of two chapters; give the notation page and both chapters."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    rows = {
        "symbols": [
            {"tex": r"\rho", "means": "share of $x$", "rrl": "rho", "in": "01"},
            {"tex": r"\phi(s,a)", "means": "features", "in": "02"},
            {"tex": "u", "means": "of one page", "in": "02", "only": True},
        ],
        "terms": [
            {"term": "replicable", "also": ["replicability"], "means": "Equal, except with $\\rho$.", "in": "01"},
            {"term": "code", "forms": ["codes"], "means": "The number of a cell.", "in": "02"},
        ],
    }
    chapters = {
        "01_a": "# Replicability $\\rho$\n\nSome code, [replicable](https://a.example), `codes`, **Replicability** "
        "at $\\rho$, again replicable at $\\rho$, $u$ and $\\phi$, non-replicable.\n",
        "02_b": "# B\n\n- The codes, a decoded $u$.\n",
    }
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\nbook/notation\nchapters/01_a\nchapters/02_b\n```\n")
    for name, text in chapters.items():
        for folder in ("chapters", "notebooks"):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f"{name}.md").write_text(text)
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "notation.yml").write_text(yaml.safe_dump(rows))
    (tmp_path / "book" / "notation.md").write_text(
        "# Notation\n\n```{rrl-notation} symbols\n```\n\n```{rrl-notation} terms\n```\n"
    )
    monkeypatch.setattr(book_notation, "ROOT", tmp_path)
    options = {"extensions": ["myst_parser", "book_notation"], "myst_enable_extensions": ["dollarmath"]}
    options["exclude_patterns"] = ["notebooks"]
    warnings = open(tmp_path / "warnings", "w+", encoding="utf-8")
    with warnings, patch_docutils(tmp_path), docutils_namespace():
        out = tmp_path.parent / f"{tmp_path.name}-out"
        Sphinx(tmp_path, None, out, out, "html", options, None, warnings, freshenv=True).build()
        warnings.seek(0)
        assert warnings.read() == ""
    names = ("book/notation", "chapters/01_a", "chapters/02_b")
    return [(out / f"{name}.html").read_text(encoding="utf-8") for name in names]


def first_uses(html):
    """Targets and texts of the links that were made."""
    links = re.findall(r'<a class="first-use[^"]*" href="\.\./book/notation\.html#([^"]*)"[^>]*>(.*?)</a>', html)
    return [(name, re.sub(r"<[^>]*>|\\[()]", "", text)) for name, text in links]


def test_links_made_of_a_formula_have_a_name(pages):
    titles = re.findall(r'<a class="first-use[^"]*"[^>]*#symbol-[^>]* title="([^"]*)"', pages[1])
    assert len(titles) == 2 and titles[0] == "share of x"
    said = book_notation.spoken(r"stage, $0,\dots,H-1$ of {prf:ref}`x`, $\varepsilon$")
    assert said == "stage, 0,…,H-1 of x, epsilon"


def test_first_uses_lead_to_the_page_and_headings_links_and_code_stay(pages):
    assert first_uses(pages[1]) == [
        ("term-replicable", "Replicability"),
        ("symbol-rho", r"\rho"),
        ("symbol-phi-s-a", r"\phi"),
    ]
    assert first_uses(pages[2]) == [("term-code", "codes"), ("symbol-u", "u")]


def test_the_table_and_the_glossary_lead_to_the_pages(pages):
    assert 'id="symbol-rho"' in pages[0] and 'id="term-replicable"' in pages[0]
    assert pages[0].count('href="../chapters/01_a.html"') >= 2
    assert (
        '<a class="reference internal" href="../chapters/02_b.html"><span class="doc">chapter 2</span></a>' in pages[0]
    )
    assert "</a> only</p>" in pages[0]
