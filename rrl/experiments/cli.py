"""The command line: ``rrl run``, ``rrl status``, ``rrl show``."""

import argparse
import contextlib
import os
import re
import sys
from concurrent.futures import BrokenExecutor, CancelledError
from importlib import import_module
from pathlib import Path

from .._extras import missing
from .store import RunStore, keep_freed_memory, unit_key

__all__ = ["main"]

EXPERIMENTS = {
    "cartpole": "Figure 1: replicable fitted Q-iteration; full scale takes minutes of two cores",
    "minatar": "quantised PQN on MinAtar, the question of Figure 2 on a laptop",
    "atari": "Figure 2: quantised PQN on MsPacman and Breakout; full scale takes hours of two cores",
}
MODULES = {
    "cartpole": "rrl.experiments.cartpole.study",
    "minatar": "rrl.experiments.games.minatar",
    "atari": "rrl.experiments.games.atari",
}
#: The experiments' own names of the two scales, where they differ.
SCALES = {"atari": {"quick": "reduced", "full": "book"}}


def default_folder(experiment):
    """The records that the book shows, in a checkout; ``rrl-results`` in the working folder elsewhere."""
    book = Path(__file__).parents[2] / "book"
    return (book / "results" if book.is_dir() else Path("rrl-results")) / experiment


def _module(experiment):
    return import_module(MODULES[experiment])


def _scale(experiment, scale):
    return SCALES.get(experiment, {}).get(scale, scale)


def _planned(experiment, scale, args):
    module = _module(experiment)
    if experiment == "cartpole":
        return module.units(scale, getattr(args, "study", "all"), data=module.load(args.data))
    if experiment == "minatar":
        return module.units(scale, getattr(args, "study", "all"))
    return module.units(_scale(experiment, scale), getattr(args, "study", "figure"))


def _run(args):
    if args.experiment != "cartpole" and args.data != "auto":
        raise ValueError(f"--data is cartpole's alone, got {args.data!r} for {args.experiment}")
    folder = args.folder or default_folder(args.experiment)
    status = RunStore(folder).status(_planned(args.experiment, args.scale, args))
    if args.resume and not status["done"]:
        raise ValueError(f"nothing to resume: {folder} has no record of this plan")
    print(f"{args.experiment}, {args.scale}: {status['done']} of {status['planned']} units recorded", flush=True)
    together = (args.experiment, args.scale) == ("atari", "quick")
    jobs = 1 if together else os.cpu_count() or 1
    options = {"folder": folder, "jobs": args.jobs or jobs}
    keep_freed_memory()
    if args.experiment == "cartpole":
        options |= {"study": args.study, "source": args.data}
    else:
        options |= {"study": args.study, "log_every": args.log}
    with contextlib.ExitStack() as stack:
        if args.dask:
            options["executor"] = stack.enter_context(_dask(args))
        records = _module(args.experiment).main(_scale(args.experiment, args.scale), **options)
    if args.experiment == "cartpole" and args.study == "figure":
        _print_table(records)
    print(f"Records: {folder}")


@contextlib.contextmanager
def _dask(args):
    """An executor of the cluster; its loss is an error of the connection."""
    if args.experiment == "atari":
        raise ValueError("--dask is not for atari: its runs train together on one machine")
    try:
        from dask.distributed import Client, KilledWorker
    except ImportError:
        raise missing("cluster", "--dask needs dask") from None
    with Client(args.dask) as client:
        try:
            yield client.get_executor()
        except (CancelledError, KilledWorker) as error:
            raise ConnectionError(
                f"the Dask cluster at {args.dask} lost its scheduler or too many workers; "
                "what is done is kept, and the same command goes on from there"
            ) from error


def _print_table(records):
    from .cartpole.results import gather, table

    rows = table(gather(records))
    print(" ".join(f"{name:>23}" for name in rows[0]))
    for row in rows:
        print(" ".join(f"{'-' if value is None else format(value, '.4g'):>23}" for value in row.values()))


def _status(args):
    for experiment in EXPERIMENTS:
        for scale in ("quick", "full"):
            try:
                units = _planned(experiment, scale, args)
            except (ImportError, ValueError) as error:
                print(f"{experiment:<10} {scale:<6} {error}")
                continue
            status = RunStore(args.folder or default_folder(experiment)).status(units)
            print(f"{experiment:<10} {scale:<6} {status['done']} of {status['planned']} records")


def _line(unit, runs):
    """One line on a record: the short name, the experiment and what tells the unit from others.

    A unit that asks about another run (of `runs`, by key) shows that one's choice and steps.
    """
    words = []
    trained = runs.get(unit.get("run"), unit)
    choice = {"choice": trained["choice"]} if "choice" in trained else {}
    steps = trained.get("settings", {}).get("total_steps")
    for name, value in (unit | choice | ({"steps": steps} if steps else {})).items():
        if isinstance(value, list) and value:
            words.append(f"{name} {value[0]}" + (f" to {value[-1]}" if len(value) > 1 else ""))
        elif name != "experiment" and isinstance(value, str | int) and not re.fullmatch("[0-9a-f]{62,64}", str(value)):
            words.append(str(value) if isinstance(value, str) else f"{name} {value}")
    return f"{unit_key(unit)[:12]}  {unit['experiment']:<13}  {', '.join(words)}"


def _show(args):
    folders = [args.folder] if args.folder else [default_folder(experiment) for experiment in EXPERIMENTS]
    records = [record for folder in folders for record in RunStore(folder).records()]
    if not records:
        raise ValueError(f"there are no records in {', '.join(map(str, folders))}")
    runs = {unit_key(record["unit"]): record["unit"] for record in records}
    if args.key is None:
        print("\n".join(_line(record["unit"], runs) for record in records))
        return
    found = [record for record in records if unit_key(record["unit"]).startswith(args.key)]
    if len(found) != 1:
        lines = "\n".join(_line(record["unit"], runs) for record in found or records)
        raise ValueError(f"{len(found)} records begin with {args.key!r}; there are:\n{lines}")
    for part in ("unit", "provenance", "result"):
        print(part)
        for name, value in found[0][part].items():
            packed = isinstance(value, dict) and "zlib" in value
            print(f"  {name}: {'array ' + str(tuple(value['shape'])) if packed else value}")


def _parser():
    parser = argparse.ArgumentParser(prog="rrl", description="Run and look at the experiments of the book.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="compute what is not yet recorded")
    run.add_argument(
        "experiment", choices=EXPERIMENTS, help="; ".join(f"{name}: {what}" for name, what in EXPERIMENTS.items())
    )
    run.add_argument("--scale", choices=("quick", "full"), default="quick")
    run.add_argument(
        "--jobs", type=int, metavar="N", help="processes (default: 1 for atari's quick scale, else all cores)"
    )
    run.add_argument("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster, in place of own processes")
    run.add_argument("--resume", action="store_true", help="insist that there are records to go on from")
    help_text = (
        "cartpole: a study's name, or all; minatar: figure, choices, steps or all; "
        "atari: figure, and at full scale precision or all"
    )
    run.add_argument("--study", default="figure", help=help_text)
    help_text = "minatar, atari: print a line of JSON on each run every so many iterations"
    run.add_argument("--log", type=int, metavar="N", default=0, help=help_text)
    status = commands.add_parser("status", help="one line an experiment and scale")
    show = commands.add_parser("show", help="print a record, or list them")
    show.add_argument("key", nargs="?", metavar="RUN", help="first letters of a record's name (default: list them)")
    for command in (run, status):
        help_text = "cartpole: auto, d3rlpy, standin or a file (default: %(default)s)"
        command.add_argument("--data", default="auto" if command is run else "standin", help=help_text)
    for command in (run, status, show):
        help_text = (
            "of the records (default: the book's in a clone, elsewhere rrl-results/EXPERIMENT in the working folder)"
        )
        command.add_argument("--folder", type=Path, help=help_text)
    return parser


def main(argv=None):
    """Run the command line.

    Parameters
    ----------
    argv : list of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        Exit status: 0, 1 after an error that is printed, 130 when stopped.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if getattr(args, "jobs", None) is not None and args.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {args.jobs}")
    try:
        {"run": _run, "status": _status, "show": _show}[args.command](args)
    except (ImportError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenExecutor:
        print(
            "error: a worker process was killed, perhaps for want of memory (fewer --jobs need less); "
            "what is done is kept, and the same command goes on from there",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("stopped; what is done is kept, and the same command goes on from there", file=sys.stderr)
        return 130
    return 0
