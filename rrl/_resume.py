"""Measurements that go on from where they were: what a record of theirs is named by."""

import contextlib
import datetime
import functools
import hashlib
import inspect
import os
import sys
import threading
import types
from pathlib import Path

__all__ = ["Records", "identity"]

#: Of these one is as good as another.
LOCKS = (type(threading.Lock()), type(threading.RLock()))
#: Attributes of a class that count by their value; others count by the line that makes them.
DATA = (bool, int, float, str, bytes, tuple, list, dict, type(None))


def _source(item):
    with contextlib.suppress(OSError, TypeError):
        if item.__name__ != "<lambda>":  # several may stand in one line
            return inspect.getsource(getattr(item, "__code__", item))  # not of what a decorator says that it wraps
    return _compiled(item.__code__) if hasattr(item, "__code__") else item.__qualname__


def _compiled(code):
    return [code.co_code.hex(), code.co_names, code.co_varnames, code.co_flags, [*map(_constant, code.co_consts)]]


def _constant(value):
    if isinstance(value, types.CodeType):
        return _compiled(value)
    if isinstance(value, tuple):
        return [*map(_constant, value)]
    # The order of a set of texts is another one in every process.
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


def _names(code):
    """Names that a function's code looks up, functions within it included."""
    inner = (_names(part) for part in code.co_consts if isinstance(part, types.CodeType))
    return set(code.co_names).union(*inner)


def _home(function):
    """The module whose parts are taken apart: where the code stands, unless that is an installed module's wrapper."""
    place = function.__globals__.get("__name__")
    if place in (None, function.__module__):
        return function.__module__
    file = getattr(sys.modules.get(place), "__file__", None) or ""
    installed = place.partition(".")[0] in sys.stdlib_module_names or {"site-packages", "dist-packages"} & {
        *Path(file).parts
    }
    return function.__module__ if installed else place


def _of_its_module(function, seen):
    """The values that a function's names have in its module; what comes from elsewhere counts by its name."""
    found, home = [], _home(function)
    if function.__globals__.get("__name__") not in (None, home):
        return found
    for name in sorted(_names(function.__code__) & function.__globals__.keys()):
        value = function.__globals__[name]
        module = getattr(value, "__module__", None)
        elsewhere = isinstance(value, type | types.FunctionType) and module != home
        try:
            found.append([name, [module, value.__qualname__] if elsewhere else _parts(value, seen, home)])
        except Exception as error:
            raise TypeError(f"{name} of its module: {error}") from error
    return found


def _again(item, seen):
    """Where a function or class was taken apart before; None, and its place is kept, at the first time."""
    if id(item) in seen:
        return ["again", seen[id(item)]]
    seen[id(item)] = len(seen)
    return None


def _functions(part):
    """The functions of a part of a class: of a method, static or not, cached or not, or of a property."""
    if isinstance(part, types.FunctionType):
        return [part]
    inner = (getattr(part, name, None) for name in ("__func__", "__wrapped__", "func", "fget", "fset", "fdel"))
    return [function for function in inner if isinstance(function, types.FunctionType)]


def _class_parts(item, seen):
    """A class: its source, and of its own module its bases, its methods, the classes within it and its plain data."""
    if again := _again(item, seen):
        return again
    found = []
    for name, part in vars(item).items():
        try:
            found += [_parts(function, seen) for function in _functions(part) if function.__module__ == item.__module__]
            if isinstance(part, type) and part.__module__ == item.__module__:
                found.append(_class_parts(part, seen))
            elif isinstance(part, DATA) and not name.startswith("__"):
                found.append([name, _parts(part, seen, item.__module__)])
        except Exception as error:
            raise TypeError(f"{name} of {item.__qualname__}: {error}") from error
    bases = [_class_parts(base, seen) for base in item.__bases__ if base.__module__ == item.__module__]
    return ["class", item.__qualname__, _source(item), bases, found]


def _closed(function):
    """What a function closes over; a cell may be empty still."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield "empty"


def _parts(item, seen, home=None):
    """What makes a function what it is: source, defaults, what it closes over and uses; of other objects, their state.

    `seen` are the functions and classes so far, by their `id`, each taken apart once: they may call each other; `home`
    is the module whose classes are taken apart: that of the function.
    """
    if isinstance(item, functools.partial):
        return ["partial", *(_parts(part, seen, home) for part in (item.func, item.args, item.keywords))]
    if isinstance(item, types.MethodType):
        home = _home(item.__func__)
        return ["method", _parts(item.__func__, seen, home), _parts(item.__self__, seen, home)]
    if isinstance(item, types.FunctionType):
        if again := _again(item, seen):
            return again
        home = _home(item)
        held = [_parts(part, seen, home) for part in (item.__defaults__, item.__kwdefaults__, [*_closed(item)])]
        return ["function", _source(item), *held, _of_its_module(item, seen)]
    if isinstance(item, functools._lru_cache_wrapper):
        return ["cached", _parts(item.__wrapped__, seen, home)]
    if isinstance(item, types.ModuleType):
        return ["name", item.__name__]
    if isinstance(item, types.BuiltinFunctionType):
        of = item.__self__
        return ["name", item.__name__, None if isinstance(of, types.ModuleType) else _parts(of, seen, home)]
    if isinstance(item, LOCKS):
        return ["name", type(item).__qualname__]
    if isinstance(item, type):
        return _class_parts(item, seen) if item.__module__ == home else ["class", item.__qualname__, _source(item)]
    if isinstance(item, list | tuple):
        return [_parts(part, seen, home) for part in item]
    if isinstance(item, dict):
        return [[_parts(key, seen, home), _parts(value, seen, home)] for key, value in item.items()]
    import joblib

    call = getattr(type(item), "__call__", None)  # noqa: B004
    called = isinstance(call, types.FunctionType)
    if type(item).__module__ == home or (called and home is None):
        source = _class_parts(type(item), seen)
    else:
        source = [_source(type(item)), _parts(call, seen, home)] if called else []
    # Pickles know the functions that it holds by their names alone.
    state = getattr(item, "__dict__", {}).values()
    held = [_parts(part, seen, home) for part in state if isinstance(part, types.FunctionType | functools.partial)]
    return [source, held, joblib.hash(item)]


def identity(item):
    """Name and digest of a function: of its source, its defaults, what it closes over and what it uses of its module.

    What it calls of other modules counts by name alone.

    Raises
    ------
    ValueError
        If it holds something that cannot be told from others.
    """
    try:
        parts = repr(_parts(item, {}))
    except Exception as error:
        raise ValueError(
            f"store= must know {item!r} again, and it holds something that cannot be pickled ({error}): "
            "pass a function that makes such things when it runs, or no store"
        ) from error
    name = getattr(item, "__qualname__", None) or type(item).__qualname__
    return {"name": name, "sha256": hashlib.sha256(parts.encode()).hexdigest()}


class Records:
    """Results of a measurement in a run store, named by its unit and by what each belongs to; nothing without a store.

    Parameters
    ----------
    store : path, RunStore or None
    unit : callable
        Gives the unit that all have in common; called if there is a store.
    """

    def __init__(self, store, unit):
        self.store, self.started = store, {}
        if store is None:
            return
        from .experiments.provenance import provenance
        from .experiments.store import RunStore

        if isinstance(store, str | os.PathLike):
            self.store = RunStore(store)
        elif not isinstance(store, RunStore):
            raise TypeError(f"store must be a folder or a RunStore, got {store!r}")
        self.unit = unit()
        # Once for all of them: git is asked, which takes longer than many a run.
        self.origin = provenance()

    def load(self, **which):
        """The result on record, or None."""
        record = self.store.load(self.unit | which) if self.store else None
        if record:
            self.started[which.get("pair")] = record["provenance"].get("started", "")
        return record and record["result"]

    def newest(self, before=False):
        """The newest attempt at the measurement that has a record, from 0; the one to come after it if it is before."""
        units = [record["unit"] for record in self.store.records()]
        there = [unit.get("attempt", 0) for unit in units if unit | self.unit == unit]
        return max(there) + bool(before) if there else 0

    def take(self, attempt):
        """Load and save the records of this attempt."""
        if attempt:
            self.unit = self.unit | {"attempt": attempt}

    def save(self, result, seconds, **which):
        """Put a result on record."""
        if self.store:
            now = datetime.datetime.now(datetime.UTC)
            started = (now - datetime.timedelta(seconds=seconds)).isoformat(timespec="seconds")
            self.store.write(
                self.unit | which, result, {**self.origin, "started": started, "seconds": round(seconds, 3)}
            )
