"""d3rlpy's own CartPole file: where it lies and how it is fetched."""

import http.client
import os
import queue
import threading
import time
import urllib.request
from importlib.util import find_spec

from ..._extras import missing
from .files import LARGEST

# As in d3rlpy 2.8.0, whose import takes seconds: a test compares them.
CARTPOLE_URL = "https://www.dropbox.com/s/uep0lzlhxpi79pd/cartpole_v1.1.0.h5?dl=1"
CARTPOLE_PATH = "d3rlpy_data/cartpole_replay_v1.1.0.h5"

CONNECT_SECONDS = 5.0
DOWNLOAD_SECONDS = 60.0


def fetch(url, target, check):
    """Download `url` to `target`, which appears only when it is whole and `check` accepts it.

    Parameters
    ----------
    url : str
    target : Path
    check : callable
        Called with the path of the finished download; raises ValueError if it is not the file.

    Raises
    ------
    OSError
        If there is no network, no answer in time, or the answer is not the file.
    ImportError
        If h5py is missing, without which the file would be of no use.
    """
    if find_spec("h5py") is None:
        raise missing("experiments", "d3rlpy's CartPole file needs h5py")
    if os.environ.get("RRL_OFFLINE"):
        raise OSError("the environment variable RRL_OFFLINE forbids the download")
    deadline = time.monotonic() + DOWNLOAD_SECONDS
    with _connect(url) as answer:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                _copy(answer, file, deadline)
            check(part)
            part.replace(target)
        except http.client.HTTPException as error:
            raise OSError(f"the download broke off: {error!r}") from error
        except ValueError as error:
            raise OSError(f"the host sent something else: {error}") from error
        finally:
            part.unlink(missing_ok=True)


def _connect(url):
    """Open `url`, giving up in time even where the name look-up hangs."""
    answers = queue.SimpleQueue()

    def ask():
        try:
            answers.put(urllib.request.urlopen(url, timeout=CONNECT_SECONDS))
        except (OSError, http.client.HTTPException) as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=CONNECT_SECONDS + 1)
    except queue.Empty:
        raise OSError(f"no answer within {CONNECT_SECONDS + 1:g} seconds") from None
    if isinstance(answer, Exception):
        raise OSError(f"no network or no such file ({answer})") from answer
    return answer


def _copy(answer, file, deadline):
    """Copy an answer's body; refuse one that is too long, slower than the deadline or too short."""
    size = 0
    expected = answer.headers.get("Content-Length")
    while block := answer.read(1 << 16):
        size += file.write(block)
        if size > LARGEST:
            raise OSError(f"the host sent more than {LARGEST} bytes, which no CartPole file has")
        if time.monotonic() > deadline:
            raise OSError(f"only {size} bytes came within {DOWNLOAD_SECONDS:g} seconds")
    if expected is not None and str(size) != expected.strip():
        raise OSError(f"the download broke off: expected {expected} bytes, found {size}")
