"""``rrl show``: one record whole, or a line on each."""

import sys
from difflib import get_close_matches
from pathlib import Path

from ._listing import details, line, plain, told_apart
from ._versions import add_option, present, version_of
from .records import unit_key
from .store import RunStore

__all__ = ["add"]

#: Records that are told where a name fits none or several.
MOST_TOLD = 5


def add(commands, folders):
    """Add the command to a parser's subcommands, and return it; ``folders(args)`` says where records may lie."""
    show = commands.add_parser("show", help="print a record, or list them")
    help_text = "first letters of a record's name, or an experiment or FILE.py whose records to list (default: all)"
    show.add_argument("key", nargs="?", metavar="RUN", help=help_text)
    add_option(show)
    show.set_defaults(do=_show, where=folders)
    return show


def _show(args):
    found = {folder: RunStore(folder).records() for folder in args.where(args)}
    if not any(found.values()):
        raise ValueError(f"there are no records in {', '.join(map(str, found))}")
    # A record that lies in two folders is one.
    records = {unit_key(r["unit"]): (r, RunStore(f).path(r["unit"])) for f, own in found.items() for r in own}
    experiments = {record["unit"]["experiment"] for record, _ in records.values()}
    if args.key is None or args.key.endswith(".py") or args.key in experiments:
        _list(args, found, [record for record, _ in records.values()])
        return
    runs = {key: record["unit"] for key, (record, _) in records.items()}
    shown = told_apart(runs.values())
    named = [key for key in records if key.startswith(args.key)]
    if not named:
        raise ValueError(f"no record begins with {args.key!r}{_close(args.key, records)}; rrl show lists all")
    if len(named) > 1:
        lines = "\n".join(line(runs[key], runs, shown) for key in named[:MOST_TOLD])
        more = f"\nand {len(named) - MOST_TOLD} more; rrl show lists all" if len(named) > MOST_TOLD else ""
        raise ValueError(f"{len(named)} records begin with {args.key!r}; there are:\n{lines}{more}")
    print("\n".join(details(*records[named[0]])))


def _list(args, found, records):
    """A line on each record, those of a study's earlier versions only if they are asked for."""
    runs = {unit_key(record["unit"]): record["unit"] for record in records}
    file = args.key if args.key and args.key.endswith(".py") else None
    if args.key:
        name = Path(file).stem if file else args.key
        records = [record for record in records if record["unit"]["experiment"] == name]
    kept, words = (records, []) if args.all_versions else present(records, file)
    if not kept:
        raise ValueError("; ".join([f"there are no records of {args.key}", *words]))
    listed = {unit_key(record["unit"]) for record in kept}
    shown = told_apart(record["unit"] for record in kept)
    for folder, own in found.items():
        own = [record for record in own if unit_key(record["unit"]) in listed]
        if own and not args.folder:
            print(f"{plain(folder)}:")
        for record in own:
            print(line(record["unit"], runs, shown, version_of(record) if args.all_versions else ""))
    print(*map(plain, words), sep="\n", end="\n" * bool(words), file=sys.stderr, flush=True)


def _close(key, names):
    """Names of records that begin nearly so."""
    near = get_close_matches(key.lower(), {name[: len(key)] for name in names}, MOST_TOLD)
    found = [name[:12] for start in near for name in names if name.startswith(start)]
    return f", but close are {', '.join(found[:MOST_TOLD])}" if found else ""
