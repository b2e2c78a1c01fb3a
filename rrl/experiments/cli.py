"""The command line: ``rrl run``, ``rrl status``, ``rrl show``, and the commands of other modules."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from concurrent.futures import BrokenExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from .._extras import missing
from . import _certify, _export, _show
from ._listing import plain
from ._own import Study, parse_setting, plan, print_results, print_table, run_study
from .records import is_record_name, unit_key
from .store import RunStore
from .workers import dask_executor, keep_freed_memory, usable_cores

if TYPE_CHECKING:
    from typing import Any

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
EXAMPLES = """\
examples, each with its own --help:
  rrl certify --rho .1 -- python train.py --data-seed {data_seed} --shared-seed {shared_seed} --out {out}.npz
  rrl run my_study.py --set bin_width=.1,.3 --pairs 50
  rrl export my_study.csv --experiment my_study.py
"""
STUDY = """\
a study of your own is a file such as my_study.py, with all settings by name and a default:
  def run(shared_seed, rng, bin_width=0.1):  # in pairs: returns integer codes; data come from rng
  def run(n=100, seed=0):                    # single: returns a dict of results
Then: rrl run my_study.py --set bin_width=.1,.3 --pairs 50; rrl export my_study.csv --experiment my_study.py
"""
#: Where records lie that are not the book's.
OWN = Path("rrl-results")
OWN_STUDY = "a study of your own, a file that ends in .py"
#: What each option of ``rrl run`` is for, its default, and the experiments (None: own studies) that take it.
MEANT = {
    "set": (OWN_STUDY, [], {None}),
    "pairs": (OWN_STUDY, None, {None}),
    "seed": (OWN_STUDY, None, {None}),
    "study": ("the book's experiments", "figure", EXPERIMENTS.keys()),
    "scale": ("the book's experiments", "quick", EXPERIMENTS.keys()),
    "data": ("cartpole", "auto", {"cartpole"}),
    "log": ("minatar and atari", 0, {"minatar", "atari"}),
    "dask": ("cartpole, minatar and studies of your own", None, {None, "cartpole", "minatar"}),
}
#: Experiments that the book shows at full scale only: quick records are for trying a command.
TRIED = ("cartpole", "minatar")


def default_folder(experiment: Any, scale: str = "full") -> Any:
    """The records that the book shows, in a checkout; ``rrl-results`` in the working folder elsewhere, and for trying.

    The book's notebooks run again when records are added to its own.
    """
    book = Path(__file__).parents[2] / "book"
    kept = book.is_dir() and not (scale == "quick" and experiment in TRIED)
    return (book / "results" if kept else OWN) / experiment


def _folders(experiment, args):
    """Where records of an experiment may lie."""
    folders = [args.folder] if args.folder else [default_folder(experiment, scale) for scale in ("full", "quick")]
    return list(dict.fromkeys(folders))


def _own_folders():
    """Folders of records below that of own studies."""
    return sorted({path.parent for path in OWN.rglob("*.json") if is_record_name(path)})


def _places(args):
    """Where records of any experiment or study may lie."""
    known = [folder for experiment in EXPERIMENTS for folder in _folders(experiment, args)]
    return dict.fromkeys(known if args.folder else known + _own_folders())


def _module(experiment):
    return import_module(MODULES[experiment])


def _scale(experiment, scale):
    return SCALES.get(experiment, {}).get(scale, scale)


def _planned(experiment, scale, study, args):
    module = _module(experiment)
    if experiment == "cartpole":
        return module.units(scale, study, data=module.load(args.data))
    return module.units(_scale(experiment, scale), study)


def _refuse_others(args):
    """Refuse options that would be without effect."""
    for name, (words, default, takers) in MEANT.items():
        value = getattr(args, name)
        if value != default and (args.experiment if args.experiment in EXPERIMENTS else None) not in takers:
            shown = ", ".join(setting for setting, _ in value) if name == "set" else repr(value)
            raise ValueError(f"--{name} is for {words}, got {shown} for {args.experiment}")
    if (args.experiment, args.scale) == ("atari", "quick") and args.study in ("precision", "all"):
        raise ValueError(f"--study {args.study} of atari is for --scale full, got --scale quick")


def _run(args):
    _refuse_others(args)
    if args.experiment not in EXPERIMENTS:
        _run_own(args)
        return
    folder = args.folder or default_folder(args.experiment, args.scale)
    status = RunStore(folder).status(_planned(args.experiment, args.scale, args.study, args))
    if args.resume and not status["done"]:
        raise ValueError(f"nothing to resume: {folder} has no record of this plan")
    what = f"{args.experiment}, {args.scale}, study {args.study}"
    print(f"{what}: {status['done']} of {status['planned']} records are there", flush=True)
    together = (args.experiment, args.scale) == ("atari", "quick")
    options = {"folder": folder, "jobs": args.jobs or (1 if together else usable_cores())}
    keep_freed_memory()
    if args.experiment == "cartpole":
        options |= {"study": args.study, "source": args.data}
    else:
        options |= {"study": args.study, "log_every": args.log}
    with contextlib.ExitStack() as stack:
        if args.dask is not None:
            options["executor"] = stack.enter_context(dask_executor(args.dask))
        records = _module(args.experiment).main(_scale(args.experiment, args.scale), **options)
    if args.experiment == "cartpole" and args.study == "figure":
        from .cartpole.results import gather, table

        print_table(table(gather(records)))
    print(f"Records: {folder}")


def _run_own(args):
    study = Study(args.experiment)
    if study.name in EXPERIMENTS:
        raise ValueError(f"{args.experiment} has the name of an experiment of the book: give it another one")
    units = plan(study, args.set, args.pairs, args.seed)
    store = RunStore(args.folder or OWN / study.name)
    known = [record["unit"] for record in store.records(study.name)]
    done = store.status(units)["done"]
    earlier = sum(unit.get("source") != study.source for unit in known)
    if args.resume and not done:
        raise ValueError(f"nothing to resume: {store.folder} has no record of this plan")
    more = f", and {earlier} of other versions of the file" if earlier else ""
    print(f"{study.name}: {done} of {len(units)} records are there{more}", flush=True)
    options: dict = {"jobs": args.jobs or usable_cores()}
    with contextlib.ExitStack() as stack:
        if args.dask is not None:
            options["executor"] = stack.enter_context(dask_executor(args.dask))
        try:
            records = run_study(study, store, units, **options)
        except BaseException:
            if study.in_pairs and (there := [record for unit in units if (record := store.load(unit))]):
                print_results(study, there, units)
            raise
    print_results(study, records)
    print(f"Records: {plain(store.folder)}")


def _status(args):
    known = {}
    for experiment in EXPERIMENTS:
        folders = _folders(experiment, args)
        # Every record is read: a damaged one is said, whether it is planned or not.
        for folder in set(folders) - known.keys():
            known[folder] = {unit_key(record["unit"]) for record in RunStore(folder).records()}
        for scale in ("quick", "full"):
            try:
                studies = ("figure",) if _scale(experiment, scale) == "reduced" else ("figure", "all")
                plans = {s: {unit_key(u) for u in _planned(experiment, scale, s, args)} for s in studies}
            except (ImportError, ValueError, OSError) as error:
                print(f"{experiment:<10} {scale:<6} {plain(error)}")
                continue
            recorded = set().union(*known.values())
            *_, plan = plans.values()
            words = f"{len(plan & recorded)} of {len(plan)} records"
            if plans["figure"] != plan:
                words += f", figure {len(plans['figure'] & recorded)} of {len(plans['figure'])}"
            places = [plain(folder) for folder in folders if known[folder] & plan]
            print(f"{experiment:<10} {scale:<6} {words}" + (f", in {' and '.join(places)}" if places else ""))
    for folder in () if args.folder else _own_folders():
        if folder not in known:
            name = folder.parent.name if folder.name == "pairs" else folder.name  # those of rrl certify
            print(f"{plain(name):<17} {len(RunStore(folder).records())} records, in {plain(folder)}")


def _experiment(text):
    """The name of one of the book's experiments, or the file of an own study."""
    if text not in EXPERIMENTS and not text.endswith(".py"):
        raise argparse.ArgumentTypeError(f"give {', '.join(EXPERIMENTS)} or a file that ends in .py, not {text!r}")
    return os.path.expanduser(text)


def _path(text):
    """A folder or file; shells leave the ~ of --folder=~/results to us."""
    return Path(os.path.expanduser(text))


def _data(text):
    return str(_path(text))


def _parser():
    parser = argparse.ArgumentParser(
        prog="rrl",
        description="Certify any program, run studies of your own and the book's experiments, export their records.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rrl {__version__}")
    parser.add_argument("--traceback", action="store_true", help="after an error, also show where it was raised")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help="run a study of your own or an experiment of the book: what is not yet recorded",
        epilog=STUDY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [f"{name}: {what}" for name, what in EXPERIMENTS.items()]
    help_text = "; ".join(["FILE.py: a study of your own, see below", *names])
    run.add_argument("experiment", type=_experiment, help=help_text)
    help_text = "FILE.py: values of a setting, as in --set bin_width=.1,.3 or --set seed=0..9 (may be given again)"
    run.add_argument("--set", type=parse_setting, action="append", default=[], metavar="NAME=VALUES", help=help_text)
    help_text = "FILE.py with run(shared_seed, rng, ...): pairs of runs at each setting (default: 20)"
    run.add_argument("--pairs", type=int, metavar="N", help=help_text)
    run.add_argument("--seed", type=int, metavar="N", help="FILE.py in pairs: of the pairs (default: 0)")
    run.add_argument("--scale", choices=("quick", "full"), default="quick")
    run.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="processes (default: 1 for atari's quick scale, else all cores that may be used)",
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
    show = _show.add(commands, _places)
    for command in (run, status):
        help_text = "cartpole: auto, d3rlpy, standin or a file (default: %(default)s)"
        command.add_argument("--data", type=_data, default="auto" if command is run else "standin", help=help_text)
    for command in (run, status, show):
        default = (
            "rrl-results/EXPERIMENT in the working folder; in a clone the book's own for full scale"
            if command is run
            else "rrl-results/EXPERIMENT in the working folder, and the book's own in a clone"
        )
        command.add_argument("--folder", type=_path, help=f"of the records (default: {default})")
    for command, do in ((run, _run), (status, _status)):
        command.set_defaults(do=do)
    _certify.add(commands)
    _export.add(commands, _places)
    return parser


def _words(error):
    """What an error says, and of which unit."""
    expected = isinstance(error, ImportError | ValueError | OSError)
    text = f"{error}" if expected else f"{type(error).__name__}: {error}"
    if isinstance(error, ModuleNotFoundError) and not f"{error.name}".startswith("rrl"):
        text = f"{missing('experiments', f'this needs {error.name}')}"
    notes = getattr(error, "__notes__", [])
    if summary := getattr(error, "summary", None):
        text, notes = summary, []
    if not expected:
        text += "\nwhat is done is kept; rrl --traceback ... shows where it was raised"
    return "\n".join(plain(part) for part in [*text.splitlines(), *notes])


def main(argv: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : list of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        Exit status: 0, 1 after an error that is printed, 130 when stopped, 141 when nobody reads what is printed;
        of ``rrl certify``, as its help says.
    """
    parser = _parser()
    argv, program = _certify.split(list(sys.argv[1:] if argv is None else argv))
    args = parser.parse_args(argv)
    args.program = program
    if getattr(args, "jobs", None) is not None and args.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {args.jobs}")
    try:
        status = args.do(args)
        sys.stdout.flush()
        return status or 0
    except BrokenPipeError:
        # As in `rrl show | head`; what is left to print has nowhere to go at the interpreter's end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
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
    except Exception as error:
        print(f"error: {_words(error)}", file=sys.stderr)
        if args.traceback:
            traceback.print_exception(error)
        return getattr(args, "failed", 1)
