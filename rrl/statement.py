"""What one prints of a measurement: a replicability statement, for machines in JSON and for a paper in LaTeX."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import __version__
from ._files import write_durably

if TYPE_CHECKING:
    import os
    from typing import Any

__all__ = ["ReplicabilityStatement"]

#: Characters that LaTeX reads as orders; -- and quotes would become other signs.
ORDERS = {
    **{sign: rf"\{sign}" for sign in "#$%&_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "'": r"\textquotesingle{}",
    '"': r"\char34{}",
    "-": "-{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "`": r"\textasciigrave{}",
}

#: What the two runs of a pair had; a program may leave its data seed unused.
GIVEN = "shared one random seed and were given independent data seeds"
DREW = "shared one random seed and drew their data independently"
#: What was done with pairs of which a run crashed.
COUNTED = {"differ": "count as pairs that differ", "stop": "none counts: the first ends the measurement"}


def _latex(text):
    """Text that LaTeX prints as it is, without a package."""
    return "".join(ORDERS.get(sign, sign if sign.isprintable() else " ") for sign in f"{text}")


def _crashes(found):
    """How many pairs crashed, and how they were counted."""
    n = found["n_crashed"]
    if not n:
        return "No run crashed."
    if found["crashed_pairs"] == COUNTED["stop"]:
        return "A run of the pair after these crashed, which ended the measurement and counts neither way."
    pairs = (
        "one of them, which counts as a pair that differs"
        if n == 1
        else f"{n} of them, which count as pairs that differ"
    )
    return f"A run crashed in {pairs}."


def _share(p, up):
    """A limit, rounded to the side on which it holds."""
    return f"{(np.ceil if up else np.floor)(p * 1000 - (1e-9 if up else -1e-9)) / 1000:.3f}"


@dataclass(frozen=True)
class ReplicabilityStatement:
    r"""What was run and compared, how often it differed, and what follows.

    Made by :meth:`rrl.certify.Certificate.statement`, and by ``rrl certify``.

    Attributes
    ----------
    content : dict
        All of it, as plain JSON: the verdict with its limits, the seeds of every pair and the first
        entries that differ, versions, notes.

    Examples
    --------
    >>> from rrl import certify_replicability, hypergrid_round
    >>> def mean_of_coins(shared_seed, rng):
    ...     return hypergrid_round(rng.binomial(10**6, 0.3) / 10**6, 0.1, shared_seed=shared_seed).codes
    >>> statement = certify_replicability(mean_of_coins, rho=0.1, seed=0).statement("the mean of a million coins")
    >>> print(statement)
    replicable: the mean of a million coins
    1 of 64 pairs differ in integer codes; rho in [0.000, 0.100] (each limit alone), asked for 0.1 at confidence 0.95
    >>> statement.to_latex().splitlines()[1]
    '\\paragraph{Replicability.}'
    """

    content: dict

    @classmethod
    def of(cls, certificate: Any, subject: Any, compared: Any, details: Any) -> Any:
        """The statement of a certificate."""
        pairs = [pair.to_dict() | {"differs": pair.differs} for pair in certificate.pairs]
        # Of a program nobody sees what it draws.
        pairs = [{name: value for name, value in pair.items() if (name, value) != ("drew", None)} for pair in pairs]
        given = any(pair.data_seeds for pair in certificate.pairs)
        recorded = certificate.recorded
        names = ("verdict", "rho", "confidence", "n_pairs", "n_disagree", "lower", "upper", "seed", "interrupted")
        content = {
            "statement": "rho-replicability (arXiv 2509.08660, Definition 2.2): Pr[two runs differ] <= rho",
            "subject": subject,
            "compared": compared,
            **{name: getattr(certificate, name) for name in names},
            "limits": "each at the confidence, at all numbers of pairs together",
            "n_crashed": certificate.n_crashed,
            "crashed_pairs": COUNTED[certificate.crash],
            "data": GIVEN if given else DREW,
            "withheld": certificate.withheld,
            "attempt": certificate.attempt,
            "from_records": {
                "n_pairs": len(recorded),
                "first": min(recorded, default=""),
                "last": max(recorded, default=""),
            },
            "notes": list(certificate.notes),
            **details,
            "versions": {"rrl": __version__, "python": platform.python_version(), "numpy": np.__version__},
            "platform": f"{platform.system()} {platform.machine()}",
            "pairs": pairs,
        }
        return cls(json.loads(json.dumps(content)))

    def __str__(self):
        found = self.content
        lines = [
            f"{found['verdict']}: {found['subject']}",
            f"{found['n_disagree']} of {found['n_pairs']} pairs differ in {found['compared']}; rho in "
            f"[{_share(found['lower'], False)}, {_share(found['upper'], True)}] (each limit alone), "
            f"asked for {found['rho']:g} at confidence {found['confidence']:g}",
        ]
        return "\n".join(lines + [f"note: {note}" for note in found["notes"]])

    def to_json(self) -> Any:
        """The content as JSON text."""
        return json.dumps(self.content, indent=2, ensure_ascii=False) + "\n"

    def to_latex(self) -> Any:
        """A paragraph for a paper, which needs no package of LaTeX."""
        found = self.content
        percent = f"{100 * found['confidence']:g}\\,\\%"
        claims = {
            "replicable": rf"It is therefore ${found['rho']:g}$-replicable at confidence {percent}: ",
            "not replicable": rf"It is therefore not ${found['rho']:g}$-replicable, at confidence {percent}: ",
            "undecided": rf"This does not settle whether it is ${found['rho']:g}$-replicable at confidence {percent}"
            + (f", because {found['withheld']}: " if found["withheld"] else ": "),
        }
        versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
        lines = [
            "% Replicability statement; all seeds and pairs are in the JSON file of the same name.",
            r"\paragraph{Replicability.}",
            rf"We ran {{\ttfamily {_latex(found['subject'])}}} in {found['n_pairs']} pairs of runs.",
            f"The two runs of a pair {found['data']}.",
            rf"We compared {_latex(found['compared'])}: "
            rf"{found['n_disagree']} of the {found['n_pairs']} pairs differed. {_crashes(found)}",
            claims[found["verdict"]] + rf"the probability $\rho$ that two runs differ lies in "
            rf"$[{_share(found['lower'], False)}, {_share(found['upper'], True)}]$ "
            r"(each limit alone has this confidence, at every number of pairs).",
            *(rf"Note: {_latex(note)}." for note in found["notes"]),
            rf"(Seed {found['seed']}; {_latex(versions)}; {_latex(found['platform'])}.)",
        ]
        return "\n".join(lines) + "\n"

    def write(self, stem: str | os.PathLike) -> Any:
        """Write ``stem.json`` and ``stem.tex``, each whole or not at all.

        Parameters
        ----------
        stem : path

        Returns
        -------
        list of Path
        """
        stem = Path(stem)
        stem.parent.mkdir(parents=True, exist_ok=True)
        paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("json", "tex")]
        for path, text in zip(paths, (self.to_json(), self.to_latex()), strict=True):
            write_durably(path, text.encode())
        return paths
