"""Execute the book's notebooks: notebooks/*.md -> jupytext -> papermill -> tidy -> chapters/*.ipynb.

A notebook runs again when its source, the package, the lock file, the recorded results or its
parameters changed. An earlier good output survives a failed run, but a failed run never counts as done.
With --try, a changed notebook runs into _build/tried/ instead, and goes on past assertions that fail.
"""

import argparse
import ast
import contextlib
import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path

import kernel_start
from figure_origins import figure_origins

ROOT = Path(__file__).resolve().parents[1]
KERNEL = "rrl-book"
TRIED = "_build/tried"
TIME_LIMITS = {"quick": 600, "full": 48 * 3600}


class NotebookError(Exception):
    """A notebook that cannot run or did not run, said in words for the person at the terminal."""


def plain(name, value):
    """Turn a parameter into JSON types, or say which one cannot be turned."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return [plain(name, item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(name, item) for key, item in value.items()}
    raise TypeError(f"parameter {name} is {value!r} of type {type(value).__name__}, which JSON cannot hold")


def fingerprint(root, paths, facts=()):
    """SHA-256 of files, of their places below `root`, and of further facts."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for path in sorted(paths):
        digest.update(f"\n{path.relative_to(root).as_posix()}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def files_under(*places):
    """Every file at or below the places, without caches and hidden files."""
    found = []
    for place in places:
        below = place.rglob("*") if place.is_dir() else [place]
        found += [path for path in below if path.is_file() and "__pycache__" not in path.parts and path.name[0] != "."]
    return found


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
    """Write beside, then rename, so that a reader never meets half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read_source(source):
    """Read a MyST source as a notebook and return it with the defaults of its parameters cell."""
    import jupytext

    text = source.read_text(encoding="utf-8")
    notebook = jupytext.reads(text, fmt="md:myst")
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise NotebookError(f"{source.name}: needs exactly one cell tagged `parameters`, found {len(tagged)}")
    filters = notebook.metadata.get("jupytext", {}).keys() & {"cell_metadata_filter", "notebook_metadata_filter"}
    if filters:
        raise NotebookError(f"{source.name}: remove {', '.join(sorted(filters))}: such filters drop cell tags")
    again = jupytext.reads(jupytext.writes(notebook, fmt="md:myst"), fmt="md:myst")
    before, after = ([cell.metadata.get("tags", []) for cell in nb.cells] for nb in (notebook, again))
    if before != after:
        raise NotebookError(f"{source.name}: cell tags are lost between Markdown and notebook")
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{index}"  # jupytext makes them at random
    defaults = {}
    for node in ast.parse(tagged[0].source).body:
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Name):
                try:
                    defaults[target.id] = ast.literal_eval(node.value)
                except ValueError:
                    defaults[target.id] = ...
    if "scale" not in defaults:
        raise NotebookError(f'{source.name}: the parameters cell must set scale = "quick"')
    return notebook, defaults


def prepare(root, source, parameters, commit="", trying=False):
    """Check one notebook before anything runs and return its job."""
    parameters = {name: plain(name, value) for name, value in parameters.items()}
    notebook, defaults = read_source(source)
    unknown = parameters.keys() - defaults.keys()
    if unknown:
        raise NotebookError(
            f"{source.name}: unknown parameter {', '.join(sorted(unknown))}; it has {', '.join(sorted(defaults))}"
        )
    # Not book/*.yml: the claim map is checked against what the notebooks find, and they do not read it.
    tools = (root / "tools" / f"{name}.py" for name in ("run_notebooks", "kernel_start", "figure_origins"))
    inputs = [source, *tools, root / "requirements.lock"]
    inputs = files_under(*inputs, root / "rrl", root / "book" / "results")
    place = root / (TRIED if trying else "chapters")
    return {
        "name": source.stem,
        "root": root,
        "trying": trying,
        "source": source,
        "output": place / f"{source.stem}.ipynb",
        "record": place / ".runs" / f"{source.stem}.json",
        "notebook": notebook,
        "parameters": {name: value for name, value in (defaults | parameters).items() if value is not ...},
        "overrides": {name: value for name, value in parameters.items() if defaults[name] != value},
        "scale": parameters.get("scale", defaults["scale"]),
        "commit": commit,
        "inputs": fingerprint(root, inputs, [parameters, platform.python_version()]),
    }


def is_done(job):
    """Tell whether the output on disk is what this job would make."""
    try:
        record = json.loads(job["record"].read_text(encoding="utf-8"))
        found = hashlib.sha256(job["output"].read_bytes()).hexdigest()
    except (OSError, ValueError):
        return False
    return record.get("state") == "done" and record.get("inputs") == job["inputs"] and record.get("output") == found


def tidy(notebook):
    """Drop what papermill adds and what differs from run to run."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": notebook.metadata.get("language_info", {"name": "python"}),
    }
    for cell in notebook.cells:
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if not cell.metadata.get("tags"):
            cell.metadata.pop("tags", None)
    return notebook


def fill_in(notebook):
    """Put the notebook's own values into its text, where the site would put them: for reading it by itself."""
    values = {}
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        name = output.get("metadata", {}).get("scrapbook", {}).get("name")
        text = next((text for kind, text in output.get("data", {}).items() if kind.endswith("text/plain")), None)
        with contextlib.suppress(ValueError, SyntaxError, TypeError):
            values[name] = ast.literal_eval(text)

    def value(match):
        return format(values[match[1]], match[2] or "") if match[1] in values else match[0]

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\{glue:text\}`([^`:]+):?([^`]*)`", value, cell.source)


def explain(job, error):
    """A short account of a failed run: the place in the source, the error, the last lines of the trace."""
    from papermill.exceptions import PapermillExecutionError

    if not isinstance(error, PapermillExecutionError):
        what = str(error).strip() or repr(error)
        return f"{type(error).__name__}: {what.splitlines()[0]}"
    lines = error.source.strip().splitlines()
    text = job["source"].read_text(encoding="utf-8")
    place = text.find(error.source.strip())
    where = f"{job['source'].name}:{text.count(chr(10), 0, place) + 1}" if place >= 0 else job["source"].name
    trace = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback)).splitlines()
    trace = [line for line in trace if re.match(r"Cell |File |-+> ", line)][-12:]
    shown = "\n".join(f"    | {line}" for line in lines[:6] + ["..."] * (len(lines) > 6))
    return f"{where}: {error.ename}: {error.evalue}\n{shown}\n" + "\n".join(f"    {line}" for line in trace)


def run(job, time_limit, folder):
    """Execute one job; return the seconds it took, what went wrong or None, and the outputs on stderr."""
    import nbformat
    import papermill
    from traitlets.config import Config

    config = Config()
    if os.name == "posix":
        # Sockets in files: two kernels that start at once can pick the same free port.
        config.KernelManager.transport = "ipc"
        config.KernelManager.ip = str(Path(folder) / job["name"])

    journal = Path(folder) / f"{job['name']}.journal"
    os.environ[kernel_start.JOURNAL] = str(journal)
    started = time.monotonic()
    record = {"state": "running"} | {key: job[key] for key in ("scale", "parameters", "overrides", "commit", "inputs")}
    write_atomic(job["record"], json.dumps(record))
    try:
        notebook = papermill.execute_notebook(
            job["notebook"],
            None,
            parameters=job["overrides"],
            kernel_name=KERNEL,
            language="python",
            progress_bar=False,
            start_timeout=120,
            execution_timeout=time_limit,
            config=config,
            cwd=job["source"].parent,
        )
        if job["trying"]:
            fill_in(notebook)
        text = nbformat.writes(tidy(notebook)) + "\n"
        write_atomic(job["output"], text)
        error, state = None, "done"
        record["output"] = hashlib.sha256(text.encode()).hexdigest()
        lines = journal.read_text(encoding="utf-8").splitlines() if journal.is_file() else []
        record["figures"] = figure_origins(notebook, [json.loads(line) for line in lines], job["root"])
        record["warnings"] = sum(
            output.get("name") == "stderr" for cell in notebook.cells for output in cell.get("outputs", [])
        )
    except Exception as caught:
        error, state = explain(job, caught), "failed"
    seconds = round(time.monotonic() - started, 1)
    record |= {"state": state, "seconds": seconds, "finished": datetime.now(UTC).isoformat(timespec="seconds")}
    record["python"] = platform.python_version()
    write_atomic(job["record"], json.dumps(record, indent=1) + "\n")
    return seconds, error, record.get("warnings", 0)


def kernel_environment(folder, root=ROOT, trying=False):
    """Register this very interpreter as the kernel, whatever else is called python3; return what workers need.

    Start-up files of the person's own IPython, progress bars and idle threads have no place in a book.
    The one start-up file there is begins the journal of `kernel_start`.
    """
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--IPKernelApp.log_level=50"],
        "display_name": "Python 3",
        "language": "python",
    }
    write_atomic(Path(folder) / "kernels" / KERNEL / "kernel.json", json.dumps(spec))
    tools = str(Path(__file__).resolve().parent)
    start = f"import sys\nsys.path.insert(0, {tools!r})\nimport kernel_start\ndel sys.path[0]\n"
    start += f"kernel_start.start({str(root)!r}, {trying!r})\ndel sys, kernel_start\n"
    write_atomic(Path(folder) / "profile_default" / "startup" / "start.py", start)
    paths = os.pathsep.join(filter(None, [folder, os.environ.get("JUPYTER_PATH")]))
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    return {
        "JUPYTER_PATH": paths,
        "IPYTHONDIR": folder,
        "TQDM_DISABLE": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": threads,
    }


def start_worker(environment):
    """Set variables in a worker only; leave Ctrl-C to this process, and end with it."""
    os.environ.update(environment)
    if parent_process():
        from rrl.experiments.store import end_with_parent

        end_with_parent()
    if os.name == "posix":
        os.setpgrp()
        # Ignoring it forgets a Ctrl-C that waited while this worker started; the main process has its own.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def interrupts_held():
    """Hold Ctrl-C back while the block runs: a worker that it meets while starting would print its trace."""
    if os.name != "posix":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def kill_workers():
    """End the workers and their kernels at once; a kernel has a session of its own and hears no Ctrl-C."""
    import psutil

    for worker in active_children():
        with contextlib.suppress(psutil.NoSuchProcess):
            kernels = psutil.Process(worker.pid).children(recursive=True)
            worker.kill()
            for kernel in kernels:
                with contextlib.suppress(psutil.NoSuchProcess):
                    kernel.kill()


def run_all(jobs, workers, time_limit, root=ROOT, trying=False):
    """Execute jobs in parallel, with a line of progress each; return the failures."""
    failures = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        settings = {"initializer": start_worker, "initargs": (kernel_environment(folder, root, trying),)}
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), **settings)
        try:
            with interrupts_held():
                waiting = {pool.submit(run, job, time_limit, folder): job for job in jobs}
            for count, future in enumerate(as_completed(waiting), 1):
                job = waiting[future]
                seconds, error, warnings = future.result()
                note = f", {warnings} outputs on stderr" if warnings else ""
                state = f"FAILED after {seconds} s" if error else f"done in {seconds} s{note}"
                print(f"  [{count}/{len(jobs)}] {job['name']}: {state}", flush=True)
                if error:
                    failures[job["name"]] = error
        except KeyboardInterrupt:
            kill_workers()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
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
    """Read NAME=VALUE, where VALUE is JSON or else a plain word."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"write NAME=VALUE, not {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


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
        sources = choose(root, args.only)
        given, commit = {"scale": args.scale} | dict(args.parameter), find_commit(root)
        jobs = [prepare(root, source, given, commit, args.trying) for source in sources]
    except (NotebookError, TypeError, SyntaxError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    known = {source.stem for source in choose(root, [])}
    for stale in [*(root / "chapters").glob("*.ipynb"), *(root / "chapters").glob(".runs/*.json")]:
        if stale.stem not in known:
            stale.unlink()
    todo = [job for job in jobs if args.force or args.trying or not is_done(job)]
    print(f"Notebooks at scale {args.scale}: {len(todo)} to run, {len(jobs) - len(todo)} unchanged", flush=True)
    limit = args.time_limit or TIME_LIMITS[args.scale]
    failures = run_all(todo, args.jobs, limit, root, args.trying) if todo else {}
    if args.trying:
        print(f"Tried notebooks: {TRIED}/", flush=True)
    for name, error in failures.items():
        print(f"\nerror: notebook {name} failed\n  {error}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; finished notebooks are kept, and the next run goes on from there", file=sys.stderr)
        sys.exit(130)
