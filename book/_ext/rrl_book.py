"""The book's own Sphinx glue: the paper's numbers in references, the repository, no network; it sets up the others."""

import os
import re

from book_pages import item_name
from docutils import nodes
from sphinx_proof.domain import ProofDomain

import rrl

# Holds the sources and the executed notebooks, which the main branch does not keep; the book's workflow makes it.
EXECUTED = "executed"
LAUNCH = {"binderhub_url": "https://mybinder.org", "colab_url": "https://colab.research.google.com"}
LAUNCH["notebook_interface"] = "jupyterlab"


class PaperProofDomain(ProofDomain):
    """Write references to numbered items of the paper with the paper's number, kept in their labels."""

    def resolve_xref(self, env, fromdocname, builder, typ, target, node, contnode):
        reference = super().resolve_xref(env, fromdocname, builder, typ, target, node, contnode)
        entry = getattr(env, "proof_list", {}).get(target)
        if reference is not None and entry and entry["nonumber"] and target in node.rawsource:
            reference.children = [nodes.Text(item_name(target, entry["realtype"]))]
        return reference


def resolve_public_name(app, env, node, contnode):
    """Let chapters write `rrl.hypergrid_round` for what is documented under the module that defines it."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target.startswith("rrl."):
        return None
    found, names, parts, domain = rrl, [], target.split(".")[1:], env.get_domain("py")
    for depth, part in enumerate(parts):
        found = getattr(found, part, None)
        home = getattr(found, "__module__", None) or ""
        # A package documents what it takes from its own modules.
        while home.startswith("rrl"):
            names.append(".".join([home, found.__qualname__, *parts[depth + 1 :]]))
            home = home.rpartition(".")[0]
    full = next((name for name in names if name in domain.objects and name != target), None)
    return full and domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], full, node, contnode)


def skip_generated(app, what, name, obj, skip, options):
    """Leave out what Python and scikit-learn add: fields of named tuples, methods that route metadata."""
    routing = re.fullmatch(r"set_\w+_request|get_metadata_routing", name)
    return True if routing or type(obj).__name__ == "_tuplegetter" else None


def quote_fitted_names(app, what, name, obj, options, lines):
    """Set names such as coef_ as code; reStructuredText would take them for links."""
    fitted = re.compile(r"(?<![\w`.])([A-Za-z]\w*_)(?![\w`{(])")
    # The line of an attribute is its name already.
    lines[:] = [line if line.lstrip().startswith(".. ") else fitted.sub(r"``\1``", line) for line in lines]


def repository_url():
    """Where the sources live, as the Makefile asks git, when it is a web address of a known place; or nothing."""
    url = os.environ.get("BOOK_REPOSITORY", "")
    url = re.sub(r"^(?:ssh://)?git@([^:/]+)[:/]", r"https://\1/", url).removesuffix(".git").rstrip("/")
    return url if re.match(r"https://(?:[^/@]*\.)?(?:github|gitlab)\.[^/@]+/[^/]+/[^/]+$", url) else None


def set_repository(app, config):
    """Where there is a repository, give pages an edit button, to the notebook's source, and chapters launch buttons."""
    config.html_context["default_mode"] = "auto"
    url = repository_url()
    if url is None:
        # Without this, Jupyter Book's own repository stands behind the buttons.
        config.html_theme_options["repository_url"] = ""
        return
    config.html_theme_options |= {
        "repository_url": url,
        "repository_branch": EXECUTED,
        "use_repository_button": True,
        "use_edit_page_button": True,
    }
    if url.startswith("https://github.com/"):
        config.html_theme_options["launch_buttons"] = LAUNCH
    page = "{{ file_name | replace('chapters/', 'notebooks/') | replace('.ipynb', '.md') }}"
    config.html_context |= {
        "edit_page_url_template": f"{url}/edit/{os.environ.get('BOOK_BRANCH', 'main')}/{page}",
        "edit_page_provider_name": "GitLab" if "gitlab" in url else "GitHub",
    }


def remove_thebe(app, config):
    """Take out sphinx_thebe, whose script fails without its network library."""
    for event in app.events.listeners.values():
        event[:] = [listener for listener in event if not listener.handler.__module__.startswith("sphinx_thebe")]
    app.registry.css_files[:] = [asset for asset in app.registry.css_files if "thebe" not in asset[0]]


def setup(app):
    app.add_domain(PaperProofDomain, override=True)
    app.connect("config-inited", set_repository)
    app.connect("config-inited", remove_thebe)
    app.connect("autodoc-skip-member", skip_generated)
    app.connect("autodoc-process-docstring", quote_fitted_names, priority=900)
    app.connect("missing-reference", resolve_public_name)
    for name in "api claims notation pages teaching records reading front bibliography cards head".split():
        app.setup_extension(f"book_{name}")
