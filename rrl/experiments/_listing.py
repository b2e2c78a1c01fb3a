"""What `rrl status` and `rrl show` say of records, whatever stands in them."""

import re
import shlex

from .provenance import commit_text
from .records import unit_key

__all__ = ["details", "line", "plain"]


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


def line(unit, runs):
    """One line on a record: the short name, the experiment and what tells the unit from others.

    A unit that asks about another run (of `runs`, by key) shows that one's choice and steps.
    """
    words, run = [], unit.get("run")
    trained = runs.get(run, unit) if isinstance(run, str) else unit
    settings = trained.get("settings")
    steps = settings.get("total_steps") if isinstance(settings, dict) else None
    shown = unit | {"choice": trained.get("choice"), "steps": steps or unit.get("steps")}
    for name, value in shown.items():
        if isinstance(value, list) and value:
            words.append(f"{name} {value[0]}" + (f" to {value[-1]}" if len(value) > 1 else ""))
        elif name != "experiment" and _is_name(value):
            words.append(value if isinstance(value, str) else f"{name} {value}")
    return plain(f"{unit_key(unit)[:12]}  {unit['experiment']:<13}  {', '.join(words)}")


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
    """The commit to check out and the command that was given, for a run that should be the same bit for bit."""
    command = origin.get("command")
    if not origin.get("commit") or not isinstance(command, list) or not command:
        return []
    words = [f"{word}" for word in command]
    program = ["rrl"] if words[0] in ("rrl", "__main__.py") else words[:1]
    dirty = ", whose working tree had changes then" if origin.get("dirty") else ""
    return [
        "repeat",
        plain(f"  at commit {commit_text(origin | {'dirty': False}, 40)}{dirty}: {shlex.join(program + words[1:])}"),
    ]
