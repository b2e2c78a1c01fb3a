"""``rrl export``: records as a table for other tools, one row a record."""

import csv
import io
import json
import os
import sys
from collections import Counter
from pathlib import Path

from .._files import write_durably
from ._listing import plain
from ._own import missing_pairs
from ._versions import add_option, present, version_of
from .records import unit_key
from .store import RunStore

__all__ = ["add", "rows"]

KINDS = (".csv", ".parquet")


def add(commands, folders):
    """Add the command to a parser's subcommands; ``folders(args)`` says where records lie if no folder is named."""
    export = commands.add_parser("export", help="write records as a table: CSV or Parquet")
    export.add_argument("table", metavar="TABLE", help="a .csv or .parquet file; - for CSV on standard output")
    help_text = "only records of this experiment, or of the present version of this study FILE.py (default: all)"
    export.add_argument("--experiment", metavar="NAME", help=help_text)
    add_option(export)
    help_text = "of the records; may be given again (default: those that rrl show lists)"
    export.add_argument("--folder", type=Path, action="append", dest="folders", metavar="FOLDER", help=help_text)
    export.set_defaults(do=_export, folder=None, where=folders)


def _flat(name, value):
    """Columns of a value: dicts are taken apart, lists become JSON, packed arrays are left to Python."""
    if isinstance(value, dict):
        if "zlib" in value and "shape" in value:
            return
        for key, part in value.items():
            yield from _flat(f"{name}.{key}" if name else key, part)
    else:
        yield name, json.dumps(value) if isinstance(value, list) else value


def rows(records, versions=False):
    """One flat dict a record: the unit's parameters, then ``result.*`` and ``provenance.*``.

    With `versions`, a column tells the versions of a study's file apart.

    Examples
    --------
    >>> from rrl.experiments._export import rows
    >>> unit = {"experiment": "demo", "seed": 1}
    >>> rows([{"unit": unit, "result": {"score": 0.5, "codes": [1, 2]}, "provenance": {"versions": {"rrl": "0.2.0"}}}])
    [{'record': 'c9506e1000a0', 'experiment': 'demo', 'seed': 1, 'result.score': 0.5, 'result.codes': '[1, 2]',
      'provenance.versions.rrl': '0.2.0'}]
    """
    found = []
    for record in records:
        parts = [("", record["unit"]), ("result", record["result"]), ("provenance", record["provenance"])]
        columns = [column for name, part in parts for column in _flat(name, part)]
        version = {"version": version_of(record)} if versions else {}
        found.append({"record": unit_key(record["unit"])[:12], **version, **dict(columns)})
    return found


def _export(args):
    kind = ".csv" if args.table == "-" else Path(args.table).suffix.lower()
    if kind not in KINDS:
        raise ValueError(f"TABLE must end in {' or '.join(KINDS)}, got {args.table!r}")
    places = args.folders or args.where(args)
    file = args.experiment if args.experiment and args.experiment.endswith(".py") else None
    name = Path(file).stem if file else args.experiment
    records = {unit_key(r["unit"]): r for place in places for r in RunStore(place).records(name)}
    kept, words = (list(records.values()), []) if args.all_versions else present(list(records.values()), file)
    if not kept:
        of = f" of {args.experiment}" if args.experiment else ""
        others = sorted({r["unit"]["experiment"] for place in places for r in RunStore(place).records()} - {name})
        more = [f"there are records of {', '.join(map(plain, others))}"] if others else []
        where = ", ".join(map(str, places))
        raise ValueError("; ".join([f"there are no records{of} in {where}", *more, *words]))
    words += [f"note: {text}" for text in missing_pairs(kept)]
    print(*map(plain, words), sep="\n", end="\n" * bool(words), file=sys.stderr)
    table = rows(kept, args.all_versions)
    data = _csv(table) if kind == ".csv" else _parquet(table)
    if args.table == "-":
        sys.stdout.write(data.decode())
        return
    path = Path(os.path.expanduser(args.table))
    write_durably(path, data)
    columns = len({name for row in table for name in row})
    several = Counter(record["unit"]["experiment"] for record in kept)
    of = f" ({', '.join(f'{n} of {plain(name)}' for name, n in several.items())})" if len(several) > 1 else ""
    print(f"{len(table)} records{of}, {columns} columns: {plain(path)}")


def _csv(table):
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in table for name in row)))
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue().encode()


def _parquet(table):
    try:
        import pandas

        frame = pandas.DataFrame(table)
        for name in frame:
            if len({type(value) for value in frame[name].dropna()} - {bool, int, float}) > 1:
                frame[name] = frame[name].map(lambda value: value if value is None else f"{value}")
        return frame.to_parquet(index=False)
    except ImportError as error:
        text = "Parquet needs pandas and pyarrow: pip install pandas pyarrow; CSV needs neither"
        raise ImportError(text) from error
