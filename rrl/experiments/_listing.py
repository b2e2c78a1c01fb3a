"""What `rrl status` and `rrl show` say of records, whatever stands in them."""

import re
import shlex

from .provenance import commit_text
from .records import record_text, unit_key

__all__ = ["details", "line", "plain", "settings", "told_apart"]


def plain(text):
    r"""Text that cannot steer a terminal: what does not print is spelt out.

    Examples
    --------
    >>> from rrl.experiments._listing import plain
    >>> print(plain(chr(27) + "[2Jred"))
    \x1b[2Jred
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in f"{text}")


def _is_name(value):
    """Whether a value tells a reader something: digests do not."""
    return isinstance(value, str | int | float) and not re.fullmatch("[0-9a-f]{62,64}", f"{value}")


def _flat(value, name=""):
    """Parameters by name, those of tables within tables, too."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else key)
    else:
        yield name, value


def settings(unit):
    """What a unit is made of, in words.

    Examples
    --------
    >>> from rrl.experiments._listing import settings
    >>> settings({"experiment": "demo", "n": 2, "layers": [8, 8], "deep": {"rate": None}, "source": "0" * 64})
    'n 2, layers [8,8], deep.rate null'
    """
    told = [(n, v) for n, v in _flat(unit) if n != "experiment" and (_is_name(v) or not isinstance(v, str))]
    text = ", ".join(f"{n} {v if isinstance(v, str) else record_text(v)}" for n, v in told)
    return plain(text if len(text) <= 300 else f"{text[:297]}...")


def told_apart(units):
    """For each experiment the names of the parameters that its units do not all share."""
    seen = {}
    for unit in units:
        for name, value in _flat(unit):
            seen.setdefault(unit["experiment"], {}).setdefault(name, []).append(record_text(value))
    return {
        experiment: {n for n, values in found.items() if len({*values}) > 1 or len(values) < len(found["experiment"])}
        for experiment, found in seen.items()
    }


def line(unit, runs, shown, version=""):
    """One line on a record: the short name, the experiment and its parameters.

    Of tables within the unit, those entries are said that tell it from others (`shown`, of `told_apart`). A unit
    that asks about another run (of `runs`, by key) says that one's choice and steps.
    """
    words, run, apart = [], unit.get("run"), shown.get(unit["experiment"], ())
    trained = runs.get(run, unit) if isinstance(run, str) else unit
    settings = trained.get("settings")
    steps = settings.get("total_steps") if isinstance(settings, dict) else None
    told = unit | {"choice": trained.get("choice"), "steps": steps or unit.get("steps")}
    for name, value in told.items():
        if isinstance(value, dict):
            found = [(n, v) for n, v in _flat(value, name) if n in apart and n != "settings.total_steps"]
            words += [f"{n.removeprefix('settings.')} {v}" for n, v in found]
        elif isinstance(value, list) and value:
            words.append(f"{name} {_listed(value)}")
        elif name != "experiment" and _is_name(value):
            words.append(value if isinstance(value, str) else f"{name} {value}")
    words += [f"version {version}"] if version else []
    return plain(f"{unit_key(unit)[:12]}  {unit['experiment']:<13}  {', '.join(words)}")


def _listed(value):
    """A list: consecutive integers and long ones by their ends, others whole."""
    text = record_text(value)
    ends = f"{value[0]}" if len(value) == 1 else f"{value[0]} to {value[-1]}"
    if all(isinstance(part, int) for part in value) and value == list(range(value[0], value[0] + len(value))):
        return ends
    return text if len(text) <= 40 else f"{ends} ({len(value)})"


def details(record, path):
    """Lines on one record: where it lies, all that it says, arrays by their shapes, and how to repeat it."""
    lines = [f"record {plain(path)}"]
    for part in ("unit", "provenance", "result"):
        lines.append(part)
        for name, value in record[part].items():
            if isinstance(value, dict) and isinstance(value.get("shape"), list) and "zlib" in value:
                value = f"array {tuple(value['shape'])}"
            lines.append(plain(f"  {name}: {value}"))
    return lines + _repeat(record["provenance"])


def _repeat(origin):
    """The commits to check out and the command that was given, for a run that should be the same bit for bit."""
    command, study = origin.get("command"), origin.get("study")
    if not (origin.get("commit") or study) or not isinstance(command, list) or not command:
        return []
    words = [f"{word}" for word in command]
    program = ["rrl"] if words[0] in ("rrl", "__main__.py") else words[:1]
    dirty = ", whose working tree had changes then" if origin.get("dirty") else ""
    at = commit_text(origin | {"dirty": False}, 40)
    lines = [f"  at {'commit ' if origin.get('commit') else ''}{at}{dirty}: {shlex.join(program + words[1:])}"]
    if study:
        commit = origin.get("study_commit")
        lines.append(f"  with {study}{f' at commit {commit}' if commit else ''}; a copy of it lies beside the record")
    return ["repeat", *map(plain, lines)]
