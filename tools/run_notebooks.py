"""Execute the book's notebooks: notebooks/*.md -> jupytext -> papermill -> tidy -> chapters/*.ipynb.

A notebook runs again when its source, the package, the lock file, the recorded results or its
parameters changed; of the results, those folders count that the source names. An earlier good output survives a
failed run, but a failed run never counts as done.
With --try, a changed notebook runs into _build/tried/ instead, and goes on past assertions that fail.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import logging
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path

import kernel_start

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # The package of this checkout, wherever the installed one lies.
from figure_origins import figure_origins  # noqa: E402
from notebook_texts import NotebookError, explain, fill_in, read_source, tidy  # noqa: E402

from rrl._files import write_durably  # noqa: E402
from rrl.experiments.records import canonical  # noqa: E402

TOOLS = ("run_notebooks", "notebook_texts", "kernel_start", "figure_origins")
TRIED = "_build/tried"
RESULTS = "book/results"
LARGEST = 20 * 2**20
TIME_LIMITS = {"quick": 600, "full": 48 * 3600}


def fingerprint(root, names, facts=()):
    """SHA-256 of files and folders below `root`, without caches and hidden files, and of further facts."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for path in sorted({path for name in names for path in (root / name, *(root / name).rglob("*"))}):
        if path.is_file() and "__pycache__" not in path.parts and path.name[0] != ".":
            place = f"\n{path.relative_to(root).as_posix()}\n".encode()
            digest.update(place + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def find_commit(root):
    """Commit of the sources that notebooks read, with a plus where they differ from it; None outside git."""

    def git(*words):
        command = ["git", "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "notebooks", "rrl", "book/results", "requirements.lock")
        return git("rev-parse", "--short=10", "HEAD") + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return None


def write_atomic(path, text):
    """Write a whole text or none, in a folder that need not be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, text.encode())


def prepare(root, source, parameters, commit="", trying=False):
    """Check one notebook before anything runs and return its job."""
    parameters = {name: canonical(value, f"parameter {name}", "keep") for name, value in parameters.items()}
    notebook, defaults = read_source(source)
    if unknown := parameters.keys() - defaults.keys():
        known = ", ".join(sorted(defaults))
        raise NotebookError(f"{source.name}: unknown parameter {', '.join(sorted(unknown))}; it has {known}")
    for name, value in parameters.items():
        default = defaults[name]
        if isinstance(value, str) and isinstance(default, bool | int | float | list | tuple | dict):
            raise NotebookError(f"{source.name}: parameter {name} is {default!r} by default, not a word: {value!r}")
    # Not book/*.yml: the claim map is checked against what the notebooks find, and they do not read it.
    results = set(re.findall(rf"{RESULTS}(?:/[\w-]+)?", source.read_text(encoding="utf-8")))
    names = [f"notebooks/{source.name}", "requirements.lock", "rrl", *results, *(f"tools/{name}.py" for name in TOOLS)]
    place = root / (TRIED if trying else "chapters")
    return {
        "name": source.stem,
        "root": root,
        "trying": trying,
        "source": source,
        "results": results,
        "output": place / f"{source.stem}.ipynb",
        "record": place / ".runs" / f"{source.stem}.json",
        "notebook": notebook,
        "parameters": {name: value for name, value in (defaults | parameters).items() if value is not ...},
        "overrides": {name: value for name, value in parameters.items() if defaults[name] != value},
        "scale": parameters.get("scale", defaults["scale"]),
        "commit": commit,
        "inputs": fingerprint(root, names, [parameters, platform.python_version()]),
    }


def read_record(path):
    """Read the record of a run; empty where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def is_written(path, digest):
    """Tell whether a file is what the runner wrote."""
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def is_done(job):
    """Tell whether the output on disk is what this job would make."""
    record = read_record(job["record"])
    same = (record.get("state"), record.get("inputs")) == ("done", job["inputs"])
    return same and is_written(job["output"], record.get("output"))


def read_journal(job, path):
    """Read what the kernel wrote; refuse a kernel that ran another package, or none of ours."""
    if not path.is_file():
        raise NotebookError("the kernel kept no journal: its start failed")
    first, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    own = job["root"] / "rrl"
    if (own / "__init__.py").is_file() and not Path(first["package"] or "/").is_relative_to(own):
        raise NotebookError(f"the kernel imported rrl from {first['package']}, not from {own}")
    named = tuple(f"{place}/" for place in job["results"])
    for file in sorted({file for line in lines for file in line.get("files", ())}):
        if file.startswith(f"{RESULTS}/") and not file.startswith(named):
            said = "its source does not name that folder: name it, or changes go unseen"
            raise NotebookError(f"reads {file}, but {said}")
    return lines


def keep_changed(path, digest):
    """Move an output that is not what the runner wrote out of the way; return what there is to say of it."""
    if not os.path.lexists(path) or is_written(path, digest):
        return []
    names = (path.with_name(f"{path.name}.bak{number or ''}") for number in itertools.count())
    kept = path.rename(next(name for name in names if not os.path.lexists(name)))
    return [f"{path.name} was changed since it was made: kept as {kept.name}"]


def run(job, time_limit, folder):
    """Execute one job; return the seconds it took, what went wrong or None, and what there is to say of it."""
    import nbformat
    import papermill
    from traitlets.config import Config

    config, begun, said, started = Config(), [], [], time.monotonic()
    if os.name == "posix":
        # Sockets in files: two kernels that start at once can pick the same free port.
        config.KernelManager.transport = "ipc"
        config.KernelManager.ip = str(Path(folder) / job["name"])
    journal = Path(folder) / f"{job['name']}.journal"
    record = {"state": "running"} | {key: job[key] for key in ("scale", "parameters", "overrides", "commit", "inputs")}
    before = read_record(job["record"]).get("output")
    try:
        write_atomic(job["record"], json.dumps(record | {"output": before}))
        notebook = papermill.execute_notebook(
            job["notebook"],
            None,
            parameters=job["overrides"],
            kernel_name="python3",
            language="python",
            kernel_manager_class=make_kernel(folder, job, journal),
            progress_bar=False,
            start_timeout=120,
            execution_timeout=time_limit,
            config=config,
            on_cell_start=lambda cell, cell_index: begun.append(cell.source),
            resources={"metadata": {"path": str(job["source"].parent)}},
        )
        begun.clear()
        lines = read_journal(job, journal)
        if job["trying"]:
            fill_in(notebook)
        text = nbformat.writes(tidy(notebook)) + "\n"
        warnings = [o.text for cell in notebook.cells for o in cell.get("outputs", ()) if o.get("name") == "stderr"]
        if len(text) > LARGEST:
            raise NotebookError(f"its outputs take {len(text) / 2**20:.0f} MB, more than {LARGEST / 2**20:.0f}")
        record["figures"] = figure_origins(notebook, lines, job["root"])
        said += [] if job["trying"] else keep_changed(job["output"], before)
        write_atomic(job["output"], text)
        error, state, before = None, "done", hashlib.sha256(text.encode()).hexdigest()
        said += [f"{len(warnings)} output{'s' * (len(warnings) > 1)} on stderr"] * bool(warnings)
        said += [line for line in "".join(warnings).splitlines() if line.startswith(kernel_start.TOLD)]
    except Exception as caught:
        error, state = explain(job["source"], caught, begun[-1] if begun else None), "failed"
    seconds = round(time.monotonic() - started, 1)
    record |= {"state": state, "seconds": seconds, "finished": datetime.now(UTC).isoformat(timespec="seconds")}
    record |= {"python": platform.python_version(), "output": before}
    write_atomic(job["record"], json.dumps(record, indent=1) + "\n")
    return seconds, error, said


def make_kernel(folder, job, journal):
    """Make the manager of a kernel that is this very interpreter, whatever else is called python3.

    Start-up files and settings of the person's own, progress bars and idle threads have no place in a book, nor has
    a package of another folder.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(job["root"]), os.environ.get("PYTHONPATH")])),
        "PYTHONHASHSEED": "0",
        # Where a font cache can be written, and no settings of the person's own are read.
        "MPLCONFIGDIR": str(job["root"] / "_build" / "matplotlib"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "IPYTHONDIR": str(folder),
        "TQDM_DISABLE": "1",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    # An empty variable is as good as none: assertions are checked, warnings and start-up files are not the person's.
    environment |= dict.fromkeys(["PYTHONOPTIMIZE", "PYTHONSTARTUP", "PYTHONWARNINGS", "PYTHONDEVMODE"], "")
    environment = {key: value.replace("$", "$$") for key, value in environment.items()}
    # The tools are on the path of one import only, so that no notebook finds them.
    tools, told = str(Path(__file__).resolve().parent), (str(journal), str(job["root"]), job["trying"])
    start = f"import sys; sys.path.insert(0, {tools!r}); import kernel_start; sys.path.remove({tools!r})"
    start += f"; kernel_start.start{told!r}; del sys, kernel_start"
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--IPKernelApp.log_level=50"]
    command.append(f"--IPKernelApp.exec_lines={start}")
    spec = KernelSpec(argv=command, display_name="Python 3", language="python", env=environment)
    return type("Kernel", (AsyncKernelManager,), {"kernel_spec": spec})


def hear_stops():
    """Let SIGTERM, SIGHUP and the end of the make that started this program stop it as Ctrl-C does."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores the second
            signal.signal(number, signal.default_int_handler)
    if "MAKELEVEL" in os.environ:
        kernel_start.end_with_parent(signal.SIGTERM)


def one_at_a_time(root):
    """Take the lock of a folder's builds, until the block ends; wait where another process holds it."""
    from filelock import FileLock, Timeout

    lock = FileLock(root / "_build" / ".lock")
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        print("Waiting for another build in this folder to end", flush=True)
        return lock.acquire()


def run_all(jobs, workers, time_limit):
    """Execute jobs in parallel, with a line of progress each; return the failures."""
    failures, pool = {}, ThreadPoolExecutor(workers)
    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # what it says of dead kernels is said below
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        waiting = {pool.submit(run, job, time_limit, folder): job["name"] for job in jobs}
        for count, future in enumerate(as_completed(waiting), 1):
            seconds, error, said = future.result()
            name, state = waiting[future], "FAILED after" if error else "done in"
            print(f"  [{count}/{len(jobs)}] {name}: {state} {seconds} s", *said, sep="\n      ", flush=True)
            if error:
                failures[name] = error
        pool.shutdown()
    return failures


def choose(root, only):
    """Sources whose names begin with one of the given words; all of them where none is given."""
    sources = sorted((root / "notebooks").glob("[!.]*.md"))
    names = ", ".join(source.stem for source in sources) or "none"
    for word in only:
        if not any(source.stem.startswith(word) for source in sources):
            raise NotebookError(f"no notebook begins with {word!r}; there are: {names}")
    return [source for source in sources if not only or source.stem.startswith(tuple(only))]


def parse_parameter(text):
    """Read NAME=VALUE, where VALUE is JSON, a constant of Python, or else a plain word."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"write NAME=VALUE, not {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, {"None": None, "True": True, "False": False}.get(value, value)


def seen_from(folder, value):
    """Write the path of a file that exists here as a notebook finds it; leave other values as they are."""
    named = isinstance(value, str) and re.search(r"[./\\]", value) and not os.path.isabs(value)
    return Path(os.path.relpath(value, folder)).as_posix() if named and os.path.exists(value) else value


def drop_stale(root, known):
    """Delete the outputs and records of notebooks that are no more; what no run made is left alone."""
    for record in (root / "chapters" / ".runs").glob("*.json"):
        if record.stem not in known:
            output = root / "chapters" / f"{record.stem}.ipynb"
            for line in keep_changed(output, read_record(record).get("output")):
                print(f"  {line}", flush=True)
            output.unlink(missing_ok=True)
            record.unlink()


def run_chosen(root, args):
    """Run what the command line asks for; return the failures by name."""
    jobs, failures = [], {}
    given = {name: seen_from(root / "notebooks", value) for name, value in args.parameter}
    commit = find_commit(root)
    for source in choose(root, args.only):
        try:
            jobs.append(prepare(root, source, {"scale": args.scale} | given, commit, args.trying))
        except NotebookError as error:
            failures[source.stem] = str(error)
    if not args.trying:
        drop_stale(root, {source.stem for source in choose(root, [])})
    todo = [job for job in jobs if args.force or args.trying or not is_done(job)]
    print(f"Notebooks at scale {args.scale}: {len(todo)} to run, {len(jobs) - len(todo)} unchanged", flush=True)
    return failures | run_all(todo, args.jobs, args.time_limit or TIME_LIMITS[args.scale])


def main(argv=None, root=ROOT):
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Execute the book's notebooks through papermill.")
    parser.add_argument("only", nargs="*", metavar="NAME", help="first letters of a notebook's name (default: all)")
    parser.add_argument("--scale", choices=["quick", "full"], default="quick")
    parser.add_argument("-p", "--parameter", action="append", default=[], type=parse_parameter, metavar="NAME=VALUE")
    parser.add_argument("-j", "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="notebooks at a time")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="for each cell")
    parser.add_argument("--force", action="store_true", help="run even what is unchanged")
    parser.add_argument("--try", action="store_true", dest="trying", help=f"run into {TRIED}/, past failed assertions")
    args = parser.parse_args(argv)
    if args.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {args.jobs}")
    try:
        # A try writes nothing that a build reads.
        with contextlib.nullcontext() if args.trying else one_at_a_time(root):
            failures = run_chosen(root, args)
    except NotebookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if args.trying:
        print(f"Tried notebooks: {TRIED}/", flush=True)
    for name, error in failures.items():
        print(f"\nerror: notebook {name} failed\n  {error}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    hear_stops()
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; finished notebooks are kept, and the next run goes on from there", file=sys.stderr, flush=True)
        # Threads cannot be stopped, and kernels hear no Ctrl-C; they end at once where this process does.
        os._exit(130)
