"""The versions of a study's file: which records are of the present one, and which of those before it."""

import ast
import hashlib
from pathlib import Path

__all__ = ["add_option", "present", "source_of", "version_of"]


def add_option(command):
    """Give a command the option that takes the records of all versions."""
    help_text = "also records of other versions of a study's file than the newest, told apart by their version"
    command.add_argument("--all-versions", action="store_true", help=help_text)


def source_of(path):
    """SHA-256 of the code of a study's file; comments and layout do not count."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise OSError(f"cannot read {path}: {error.strerror}") from error
    return hashlib.sha256(ast.unparse(ast.parse(text, Path(path).name)).encode()).hexdigest()


def version_of(record):
    """The first letters of the code's digest, as in the name of its copy beside the records; nothing for no study."""
    return f"{record['unit'].get('source', '')}"[:12] if record["provenance"].get("study") else ""


def present(records, file=None):
    """Records without those of earlier versions, and words on what was left out.

    Parameters
    ----------
    records : list of dict
    file : path, optional
        Of the study, whose present version is taken; else that of which a record is newest.

    Examples
    --------
    >>> from rrl.experiments._versions import present
    >>> def record(source, started):
    ...     origin = {"study": "it.py", "started": started}
    ...     return {"unit": {"experiment": "it", "source": source}, "provenance": origin}
    >>> kept, words = present([record("a", "2026-01-02"), record("b", "2026-01-01")])
    >>> [found["unit"]["source"] for found in kept], words
    (['a'], ['left out: 1 record of another version of it; --all-versions adds it'])
    """
    newest, others = {}, {}
    for record in records:
        name, began = record["unit"]["experiment"], f"{record['provenance'].get('started', '')}"
        if version := version_of(record):
            newest[name] = max(newest.get(name, ("", "")), (began, version))
    if file is not None:
        newest[Path(file).stem] = ("", source_of(file)[:12])
    kept = []
    for record in records:
        name, version = record["unit"]["experiment"], version_of(record)
        if version and version != newest[name][1]:
            others.setdefault(name, []).append(version)
        else:
            kept.append(record)
    return kept, [_left_out(name, versions) for name, versions in others.items()]


def _left_out(name, versions):
    n, several = len(versions), len({*versions})
    which = "another version" if several == 1 else f"{several} other versions"
    return f"left out: {n} record{'s' * (n > 1)} of {which} of {name}; --all-versions adds {'them' if n > 1 else 'it'}"
