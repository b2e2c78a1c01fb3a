"""``rrl certify``: whether any program is replicable, settled from the command line."""

import argparse
import contextlib
import hashlib
import re
import signal
import sys
from pathlib import Path

from .._checks import check_integer, check_measurement, check_probability
from .._running import Program, command_text
from ..pairs import RunFailed
from ..programs import certify_program
from ._listing import plain
from .provenance import folder_commit
from .records import record_text
from .store import RunStore

__all__ = ["add", "split"]

#: Exit statuses; 2 is that of a command line that cannot be understood.
STATUS = {"replicable": 0, "not replicable": 1, "undecided": 3}
FAILED, STOPPED = 4, 130
DESCRIPTION = """\
Run PROGRAM in pairs that share {shared_seed} and have a {data_seed} each, compare exactly what they publish at {out}
(or on standard output), and stop as soon as it is settled whether two runs differ with probability at most RHO.
"""
EPILOG = """\
example:
  rrl certify --rho .1 -- python train.py --data-seed {data_seed} --shared-seed {shared_seed} --out {out}.npz

Seeds are integers from 0 to 2^31 - 1. Arrays of .npz, .npy and .safetensors and entries of .json are compared as
integers, booleans and text; floats there are refused, since they differ by the machine. Other files, standard output,
and with --bytes all files are compared bit by bit. Every pair is put on record: the same command goes on from there,
after Ctrl-C, a crash or a kill. Records belong to the command and the files that it names; after a change of what
the program itself opens (imports, inner scripts), add --again. It ends with a statement in JSON and LaTeX.

Nobody sees what a program draws: one that ignores {data_seed} agrees with itself and may be called replicable. A note
says so where no two runs of a pair differed. If all runs publish the same, nothing is claimed.

A run that crashes, takes too long or publishes nothing that can be compared ends the measurement: its pair is not
decided, and the same command runs it again. With --crash differ every such pair counts as one that differs, which can
only raise the limit on rho. None is left out: runs may crash just where they would differ.

exit status: 0 replicable, 1 not replicable, 2 a wrong command line, 3 undecided after --max-pairs or for want of
evidence that the seeds are used, 4 a run failed, 130 stopped.
"""


def add(commands):
    """Add the command to a parser's subcommands."""
    certify = commands.add_parser(
        "certify",
        help="settle whether a program, in any language, is replicable",
        usage="rrl certify --rho RHO [options] -- PROGRAM [words with {data_seed}, {shared_seed} and {out}]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = certify.add_argument
    option("--rho", type=float, required=True, help="largest probability that two runs differ, in (0, 1)")
    option("--delta", type=float, default=0.05, help="probability of a false claim (default: %(default)s)")
    option("--jobs", type=int, metavar="N", default=1, help="runs at a time (default: %(default)s)")
    option("--seed", type=int, default=0, help="of the measurement (default: %(default)s)")
    option("--max-pairs", type=int, metavar="N", default=10_000, help="give up after so many (default: %(default)s)")
    option("--time-limit", type=float, metavar="S", help="seconds after which a run has failed (default: none)")
    option(
        "--crash",
        choices=("stop", "differ"),
        default="stop",
        help="what a run that fails does: end the measurement, or count its pair as one that differs (default: stop)",
    )
    option("--key", action="append", default=[], help="compare this array or JSON entry only (may be given again)")
    option("--bytes", action="store_true", help="compare files bit by bit, whatever they hold")
    option(
        "--allow-constant",
        action="store_true",
        help="claim replicability even if every run publishes the same, whatever its seeds",
    )
    option("--again", action="store_true", help="run all pairs anew; earlier records stay where they are")
    option("--folder", type=Path, help="of the records and the statement (default: rrl-results/certify/NAME)")
    option("--quiet", action="store_true", help="no progress on standard error")
    certify.set_defaults(do=certify_main, refuse=certify.error, failed=FAILED)


def split(argv):
    """The words before and after ``--``: what stands behind it is the program's, options and all."""
    command = next((word for word in argv if not word.startswith("-")), None)  # options of rrl itself take no value
    at = argv.index("--") if "--" in argv else len(argv)
    if command != "certify" or {"-h", "--help"} & {*argv[:at]}:
        return argv, []
    if at >= len(argv) - 1:
        print("rrl certify: error: give the program after --, as in", file=sys.stderr)
        print("\n".join(EPILOG.splitlines()[1:2]), file=sys.stderr)
        raise SystemExit(2)
    return argv[:at], argv[at + 1 :]


def default_folder(program, seed):
    """A folder of this program's own: the name of its first file, and a digest of all that tells it from others."""
    words = [*program.files(), *program.command]
    name = re.sub(r"\W+", "-", Path(words[0]).stem)
    digest = hashlib.sha256(record_text(program.unit() | {"seed": seed}).encode()).hexdigest()
    return Path("rrl-results") / "certify" / f"{name}-{digest[:8]}"


def certify_main(args):
    """Certify the program, print what came out, write the statement; the exit status."""
    program = Program(tuple(args.program), tuple(args.key), args.bytes, args.time_limit)
    subject = command_text(args.program)
    try:
        check_probability(rho=args.rho, delta=args.delta)
        check_measurement(1 - args.delta, args.seed, max_pairs=args.max_pairs)
        check_integer(1, jobs=args.jobs)
        program.check()
        folder = args.folder or default_folder(program, args.seed)
        if not args.quiet:
            own = program.unit() | {"seed": args.seed}
            units = [record["unit"] for record in RunStore(folder / "pairs").records()]
            units = [unit for unit in units if unit | own == unit]
            last = max((unit.get("attempt", 0) for unit in units), default=0)
            units = [unit for unit in units if unit.get("attempt", 0) == last and not args.again]
            done = sum("crash" not in unit for unit in units)
            there = f", {done} pair{'s are' if done > 1 else ' is'} there" if done else ""
            if failed := len(units) - done:
                there += f", {failed} failure{'s' * (failed > 1)}"
            print(f"{plain(subject)}\nrecords in {plain(folder)}{there}", file=sys.stderr, flush=True)
        with stopped_like_ctrl_c():
            found, failure = _settle(args, folder)
    except ValueError as error:
        args.refuse(plain(error))
    if found is not None:
        for pair in [pair for pair in found.pairs if pair.differs][:3]:
            print(plain(f"pair {pair.index} differs: {'; '.join(pair.first)}"))
            for data_seed in pair.data_seeds:
                print(plain(f"  {command_text(program.words(pair.shared_seed, data_seed))}"))
        statement = found.statement(subject, compared=program.compared(), **_origin(program, failure))
        print("\n".join(map(plain, str(statement).splitlines())))
        if found.recorded:
            print(_from_records(found))
        print(f"statement: {' and '.join(plain(path) for path in statement.write(folder / 'statement'))}")  # pyright: ignore[reportOperatorIssue]
    if failure is not None:
        print("\n".join(["error:", *(plain(line) for line in f"{failure}".splitlines())]), file=sys.stderr)
        print(_next(failure), file=sys.stderr)
        return FAILED
    if found is None or found.interrupted:
        print("stopped; what is done is kept, and the same command goes on from there", file=sys.stderr)
        return STOPPED
    return STATUS[found.verdict]


def _settle(args, folder):
    """The certificate, or that of the pairs before a failure, and the failure."""
    try:
        found = certify_program(
            args.program,
            rho=args.rho,
            confidence=1 - args.delta,
            max_pairs=args.max_pairs,
            seed=args.seed,
            jobs=args.jobs,
            time_limit=args.time_limit,
            keys=args.key,
            as_bytes=args.bytes,
            allow_constant=args.allow_constant,
            progress=not args.quiet,
            store=folder / "pairs",
            crash=args.crash,
            again=args.again,
        )
    except RunFailed as error:
        return error.certificate, error
    except KeyboardInterrupt:
        return None, None
    return found, None


def _from_records(found):
    """How much was not run now, and what nobody has checked."""
    days = list(dict.fromkeys(moment[:10] for moment in found.recorded))
    n = len(found.recorded)
    return (
        f"{n} of {found.n_pairs} pairs {'is' if n == 1 else 'are'} from records of "
        f"{' to '.join(dict.fromkeys([days[0], days[-1]]))}; what the program itself opens (imports, inner scripts) is "
        "not checked:\n--again runs all pairs anew"
    )


def _next(failure):
    """What the next call does after a failure, and what else there is to do."""
    if not failure.crashes:
        return "its pair is not decided; the same command runs it again and goes on from there"
    if failure.unreadable:
        return (
            "its pair is not decided: the program ran well, and what it publishes cannot be compared.\n"
            "Change that, or what is compared: --key, --bytes"
        )
    if failure.crashes == 1:
        return (
            "its pair is not decided; the same command runs it again, with the same seeds, and goes on if it then "
            "works.\n--crash differ goes on anyway and counts every such pair as one that differs"
        )
    return (
        f"its pair is not decided; it failed {failure.crashes} times with these seeds, so the same command is likely "
        "to stop here again.\nMend the program: if a file that the command names changes, all pairs are run anew; "
        "after any other change, add --again.\nOr count every such pair as one that differs: --crash differ"
    )


@contextlib.contextmanager
def stopped_like_ctrl_c():
    """Let what ends a job elsewhere (a scheduler, a closed terminal) end it as Ctrl-C does."""

    def stop(*_):
        raise KeyboardInterrupt

    before = {name: signal.signal(name, stop) for name in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _origin(program, failure):
    """What was run, for the statement."""
    found = {"command": list(program.command), "files_sha256": program.files()}
    if program.time_limit is not None:  # a run that takes longer has failed
        found["time_limit_seconds"] = program.time_limit
    # The program and its settings are likely to be here.
    if commit := folder_commit("."):
        found["commit_of_working_folder"] = commit
    return found | ({} if failure is None else {"failed": f"{failure}"})
