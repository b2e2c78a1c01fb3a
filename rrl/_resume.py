"""Measurements that go on from where they were: what a record of theirs is named by."""

import contextlib
import datetime
import functools
import hashlib
import inspect
import os
import types

__all__ = ["Records", "identity"]


def _source(item):
    with contextlib.suppress(OSError, TypeError):
        if item.__name__ != "<lambda>":  # several may stand in one line
            return inspect.getsource(item)
    return _compiled(item.__code__) if hasattr(item, "__code__") else item.__qualname__


def _compiled(code):
    inner = [_compiled(part) if isinstance(part, types.CodeType) else repr(part) for part in code.co_consts]
    return [code.co_code.hex(), code.co_names, inner]


def _parts(item):
    """What makes a function what it is: source, defaults, what it closes over; of other objects, their state."""
    if isinstance(item, functools.partial):
        return ["partial", _parts(item.func), _parts(item.args), _parts(item.keywords)]
    if isinstance(item, types.MethodType):
        return ["method", _source(item.__func__), _parts(item.__self__)]
    if isinstance(item, types.FunctionType):
        closed = [cell.cell_contents for cell in item.__closure__ or ()]
        return ["function", _source(item), _parts(item.__defaults__), _parts(item.__kwdefaults__), _parts(closed)]
    if isinstance(item, types.ModuleType | types.BuiltinFunctionType):
        return ["name", item.__name__]
    if isinstance(item, type):
        return ["class", item.__qualname__, _source(item)]
    if isinstance(item, list | tuple):
        return [_parts(part) for part in item]
    if isinstance(item, dict):
        return [[_parts(key), _parts(value)] for key, value in item.items()]
    import joblib

    source = _source(type(item)) if callable(item) else ""
    return [source, joblib.hash(item)]


def identity(item):
    """Name and digest of a function: of its source, its defaults and what it closes over, not of what it calls.

    Raises
    ------
    ValueError
        If it holds something that cannot be told from others.
    """
    try:
        parts = _parts(item)
    except Exception as error:
        raise ValueError(
            f"store= must know {item!r} again, and it holds something that cannot be pickled ({error}): "
            "pass a function of a module, or functools.partial of one"
        ) from error
    name = getattr(item, "__qualname__", None) or type(item).__qualname__
    return {"name": name, "sha256": hashlib.sha256(repr(parts).encode()).hexdigest()}


class Records:
    """Results of a measurement in a run store, named by its unit and by what each belongs to; nothing without a store.

    Parameters
    ----------
    store : path, RunStore or None
    unit : callable
        Gives the unit that all have in common; called if there is a store.
    """

    def __init__(self, store, unit):
        self.store = store
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
        return record and record["result"]

    def save(self, result, seconds, **which):
        """Put a result on record."""
        if self.store:
            now = datetime.datetime.now(datetime.UTC)
            started = (now - datetime.timedelta(seconds=seconds)).isoformat(timespec="seconds")
            self.store.write(
                self.unit | which, result, {**self.origin, "started": started, "seconds": round(seconds, 3)}
            )
