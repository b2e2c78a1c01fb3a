"""Verdicts that the book's pages record about the paper's numbered items, for the claim map."""

from __future__ import annotations

import numpy as np

__all__ = ["KINDS", "STATUSES", "verdict"]

#: Every status that an item of the paper can have.
STATUSES = (
    "holds as printed",
    "holds corrected",
    "refuted",
    "illustrated",
    "measured at reduced scale",
    "cannot tell",
)
#: Every kind of erratum, the heaviest fault first; in a clarification nothing printed is false.
KINDS = ("statement", "algorithm", "proof step", "constant", "notation", "misprint", "clarification")


def verdict(printed: bool, corrected: bool = False, *, holding: str = "holds as printed") -> str:
    """Say what a page's checks make of one numbered item of the paper.

    Parameters
    ----------
    printed : bool
        Whether the item as printed passed the checks.
    corrected : bool, default=False
        Whether a corrected version passed them.
    holding : {"holds as printed", "illustrated", "measured at reduced scale"}
        What passing means: a definition is illustrated, an experiment measured.

    Returns
    -------
    str
        One of `STATUSES`; "refuted" if neither version passed.

    Raises
    ------
    TypeError
        If `printed` or `corrected` is not the outcome of a check, True or False.
    ValueError
        If `holding` is no status of an item that passed.

    Examples
    --------
    >>> from rrl.book.claims import verdict
    >>> verdict(printed=2 < 1, corrected=1 < 2)
    'holds corrected'
    """
    for name, value in (("printed", printed), ("corrected", corrected)):
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be True or False, got {value!r}")
    if holding not in STATUSES or holding in ("holds corrected", "refuted"):
        raise ValueError(f"holding must be a status of an item that passed, got {holding!r}")
    if printed:
        return holding
    return "holds corrected" if corrected else "refuted"
