"""``rrl run FILE.py``: anybody's study on a grid of settings, one record a setting or a pair of runs."""

import argparse
import ast
import contextlib
import functools
import importlib.util
import inspect
import itertools
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import check_integer
from .._files import write_durably
from ..pairs import Pair, notes_of
from ..tradeoff import COLUMNS, scored_pair, summary
from ._listing import plain
from ._versions import source_of
from .provenance import folder_commit
from .records import canonical, record_text

__all__ = ["Study", "parse_setting", "plan", "print_results", "print_table", "run_study"]

#: What a unit says beside its settings.
KEPT = ("experiment", "source", "pair", "measurement_seed")
SHARED = ("shared_seed", "rng")
WORDS = {"true": True, "false": False, "null": None}
PAIRS = 20
#: Imported where they are used.
LIBRARIES = {"joblib", "scipy", "sklearn", "tqdm"}


class Study:
    """A Python file with a function ``run``, whose arguments are the settings.

    Parameters
    ----------
    path : path

    Attributes
    ----------
    name : str
        Of the file, without its ending.
    source : str
        SHA-256 of the file's code; comments and layout do not count.
    in_pairs : bool
        Whether ``run`` takes ``shared_seed`` and ``rng``: then it is run in pairs, as by `rrl.trade_off`.
    """

    def __init__(self, path):
        self.path = Path(path).resolve()
        self.name = self.path.stem
        self.source = source_of(path)
        _check_names(self.path)
        module = self._load()
        self.run: Any = getattr(module, "run", None)
        self.codes, self.score = (getattr(module, name, None) for name in ("codes", "score"))
        self.grid = getattr(module, "grid", {})
        if not callable(self.run):
            raise ValueError(f"{self.path.name} has no function run, whose arguments are the settings")
        self.arguments = inspect.signature(self.run).parameters.values()
        names = {argument.name for argument in self.arguments}
        if len(names & {*SHARED}) == 1:
            raise ValueError(f"run in {self.path.name} takes both of shared_seed and rng, or none, for pairs or single")
        self.in_pairs = names >= {*SHARED}
        self._check()

    def _load(self):
        name, folder = f"rrl_study_{self.name}", str(self.path.parent)
        spec: Any = importlib.util.spec_from_file_location(name, self.path)
        # Modules beside the file are found, and dataclasses find the module that they are of.
        sys.path[:] = [folder, *(place for place in sys.path if place != folder)]
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except ModuleNotFoundError as error:
            raise ImportError(f"{self.path.name} needs {error.name}, which is not installed here") from error
        return module

    def _check(self):
        for argument in self.arguments:
            if argument.kind in (argument.POSITIONAL_ONLY, argument.VAR_POSITIONAL):
                raise ValueError(f"run in {self.path.name} must take its settings by name, not {argument}")
            if argument.name in KEPT or (self.in_pairs and argument.name in COLUMNS):
                raise ValueError(f"a setting may not be called {argument.name}: results or records have that name")
        if not isinstance(self.grid, dict) or not all(isinstance(v, list | tuple | range) for v in self.grid.values()):
            raise ValueError(f"grid in {self.path.name} must give each setting a list, got {self.grid!r}")
        if not self.in_pairs and (self.codes or self.score):
            raise ValueError(f"codes and score in {self.path.name} are for pairs: run must take shared_seed and rng")

    def settings(self, given):
        """All combinations of settings: the values given, else those of ``grid``, else the default."""
        known = {a.name: a.default for a in self.arguments if a.name not in SHARED and a.kind != a.VAR_KEYWORD}
        values = {name: [default] for name, default in known.items() if default is not inspect.Parameter.empty}
        values |= self.grid | given
        if not any(argument.kind == argument.VAR_KEYWORD for argument in self.arguments):
            for name in values:
                if name not in known:
                    raise ValueError(f"{self.path.name} has no setting {name!r}; it has {', '.join(known) or 'none'}")
        for name in known:
            if name not in values:
                raise ValueError(f"{name} has no default: give it values, as in --set {name}=1,2")
        for name, of in values.items():
            if not of:
                raise ValueError(f"grid in {self.path.name} gives {name} no value, got {of!r}")
        columns = [[_as_default(name, v, known.get(name)) for v in of] for name, of in values.items()]
        found = (dict(zip(values, row, strict=True)) for row in itertools.product(*columns))
        return list({record_text(setting): setting for setting in found}.values())


def _check_names(path):
    """Refuse files that every process would take for a module of Python or of a library, their folder coming first."""
    for file in [path, *sorted(path.parent.glob("*.py")), *sorted(path.parent.glob("*/__init__.py"))]:
        name = file.parent.name if file.name == "__init__.py" else file.stem
        module = None if name.startswith("__") else sys.modules.get(name)
        place = getattr(module, "__file__", None)
        if name in LIBRARIES - sys.modules.keys() or (module and not (place and file.samefile(place))):
            shown = file.relative_to(path.parent)
            raise ValueError(f"{shown} has the name of a module that rrl or Python imports: give it another one")


def _as_default(name, value: Any, default):
    """A value as a record holds it, of the kind of the default: 1 for 1.0 would be another unit."""
    value = canonical(value, name)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(default, bool):
        fits = isinstance(value, bool)
    elif isinstance(default, int | float):
        fits = number or value is None
        if isinstance(default, float):
            value = float(value) if isinstance(value, int) and number else value
        elif isinstance(value, float) and value.is_integer():
            value = int(value)
    else:
        fits = True
    if not fits:
        raise ValueError(f"{name} is {default!r} by default, not {value!r}")
    return value


def parse_setting(text):
    """Read ``name=value,value``: numbers, text and lists as Python writes them, words, and ranges of integers ``0..9``.

    Examples
    --------
    >>> from rrl.experiments._own import parse_setting
    >>> parse_setting("bin_width=.1,.3"), parse_setting("seed=0..3"), parse_setting("layers=[8, 8],[16]")
    (('bin_width', [0.1, 0.3]), ('seed', [0, 1, 2, 3]), ('layers', [[8, 8], [16]]))
    >>> parse_setting("grid=lattice,None")
    ('grid', ['lattice', None])
    """
    name, equals, values = text.partition("=")
    if not equals or not name.isidentifier() or not values.strip():
        raise argparse.ArgumentTypeError(f"write NAME=VALUE or NAME=VALUE,VALUE, not {text!r}")
    with contextlib.suppress(ValueError, SyntaxError):
        return name, list(ast.literal_eval(f"[{values}]"))
    try:
        return name, [value for part in values.split(",") for value in _values(part.strip())]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error} in {text!r}: write lists and texts as Python does") from None


def _values(part):
    first, dots, last = part.partition("..")
    if dots:
        with contextlib.suppress(ValueError):
            ends = int(first), int(last)
            if ends[0] > ends[1]:
                raise argparse.ArgumentTypeError(f"{part} holds no number: write {ends[1]}..{ends[0]}")
            return range(ends[0], ends[1] + 1)
    with contextlib.suppress(ValueError, SyntaxError):
        return [ast.literal_eval(part)]
    if not re.fullmatch(r"[^\s\[\](){}'\"]+", part):
        raise ValueError(f"{part!r} is no value")
    return [WORDS.get(part, part)]


def plan(study, given, n_pairs, seed):
    """The units of a study; pairs come in turn, so that what is there early says something of every setting."""
    names = [name for name, _ in given]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"--set {name} is given twice: write its values with commas")
    settings = study.settings(dict(given))
    common = {"experiment": study.name, "source": study.source}
    if not study.in_pairs:
        if n_pairs is not None:
            raise ValueError(f"--pairs is for a run that takes shared_seed and rng; that of {study.path.name} does not")
        if seed is not None:
            raise ValueError(
                f"--seed is for a run that takes shared_seed and rng; that of {study.path.name} does not: "
                f"write --set with the name of its own seed, as --set seed={seed}"
            )
        return [common | setting for setting in settings]
    check_integer(1, pairs=PAIRS if n_pairs is None else n_pairs)
    seed = 0 if seed is None else seed
    check_integer(0, seed=seed)
    pairs = range(PAIRS if n_pairs is None else n_pairs)
    return [common | setting | {"pair": k, "measurement_seed": seed} for k in pairs for setting in settings]


@functools.cache
def _loaded(path, source):
    study = Study(path)
    if study.source != source:
        raise ValueError(f"{study.path.name} was changed while it ran: run it again")
    return study


def compute(path, unit):
    """The result of a unit; runs in a worker."""
    study, settings = _loaded(path, unit["source"]), {k: v for k, v in unit.items() if k not in KEPT}
    if study.in_pairs:
        parts = (study.run, study.score, study.codes)
        found = scored_pair(*parts, unit["measurement_seed"], settings, unit["pair"])
        scores = {f"score_{which}": score for which, score in enumerate(found["scores"], 1)}
        return {"differs": Pair.from_dict(found["pair"]).differs, **scores, "pair": found["pair"]}
    result = study.run(**settings)
    if not isinstance(result, dict):
        raise TypeError(f"run must return a dict of results, as {{'score': 0.5}}, got {result!r:.80}")
    return _with_words(result)


def _with_words(value):
    """Results with infinities and NaN as words, which JSON has no numbers for: a run that diverged is seen."""
    if isinstance(value, dict):
        return {key: _with_words(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_with_words(part) for part in value]
    return f"{value}" if isinstance(value, float | np.floating) and not np.isfinite(value) else value


def run_study(study, store, units, **options):
    """Do the units that have no record, beside a copy of the code that they name; return all records."""
    store.folder.mkdir(parents=True, exist_ok=True)
    write_durably(store.folder / f"{study.name}-{study.source[:12]}.py", study.path.read_bytes())
    commit = folder_commit(study.path.parent)
    origin = {"study": study.path.name} | ({"study_commit": commit} if commit else {})
    return store.run(units, functools.partial(compute, str(study.path)), origin=origin, **options)


def missing_pairs(records, planned=None):
    """A sentence for each setting of which pairs have no record: what is shown is of the others alone.

    Without a plan, a pair is known to be missing where a later one is there.
    """
    there, wanted, names = {}, {}, {}

    def of(unit):
        key = record_text({name: value for name, value in unit.items() if name != "pair"})
        names[key] = _settings(unit)
        return key, unit["pair"]

    for key, pair in [of(record["unit"]) for record in records if "pair" in record["unit"]]:
        there.setdefault(key, set()).add(pair)
        wanted.setdefault(key, set()).update(range(pair + 1))
    for key, pair in map(of, planned or ()):
        wanted.setdefault(key, set()).add(pair)
    return [
        f"at {names[key]}, {len(lost)} of {'' if planned else 'at least '}{len(pairs)} pairs have no record: "
        "all numbers are of the others, and where runs crashed these need not be like them"
        for key, pairs in wanted.items()
        if (lost := pairs - there.get(key, set()))
    ]


def print_results(study, records, planned=None):
    """A table of what came out: one row a setting."""
    if not study.in_pairs:
        print_table([_settings(record["unit"]) | _scalars(record["result"]) for record in records])
        return
    groups, rows, notes = {}, [], []
    for record in records:
        groups.setdefault(record_text(_settings(record["unit"])), []).append(record)
    for of in groups.values():
        setting, pairs = _settings(of[0]["unit"]), [Pair.from_dict(record["result"]["pair"]) for record in of]
        scores = [[v for k, v in record["result"].items() if k.startswith("score_")] for record in of]
        found = summary(pairs, scores)
        shown = {f"{name} (95%)": _with_limits(found, name) for name in ("rho", "score") if name in found}
        rows.append(setting | {"pairs": found["n_pairs"], "differ": found["n_disagree"]} | shown)
        notes += [f"note: at {setting}, {note}" for note in notes_of(pairs)]
    notes += [f"note: {words}" for words in missing_pairs(records, planned)]
    print_table(rows)
    print(*map(plain, notes), sep="\n", end="\n" if notes else "")


def _with_limits(found, name):
    if np.isnan(found[f"{name}_low"]):
        return f"{found[name]:.3g}"
    value, low, high = (f"{found[f'{name}{end}']:.3g}" for end in ("", "_low", "_high"))
    return f"{value} [{low}, {high}]"


def _settings(unit):
    return {name: value for name, value in unit.items() if name not in KEPT}


def _scalars(result):
    return {k: v for k, v in result.items() if v is None or isinstance(v, bool | int | float | str)}


def print_table(rows):
    """Print rows that are dicts, a column a name."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names] + [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(len(plain(row[i])) for row in cells) for i in range(len(names))]
    for row in cells:
        print("  ".join(plain(cell).rjust(width) for cell, width in zip(row, widths)))


def _cell(value):
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else f"{value}"[:32]
