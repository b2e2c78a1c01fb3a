"""How a measurement stands, while it runs: one line that renews itself on a terminal, a line now and then elsewhere."""

import contextlib
import sys
import time

__all__ = ["teller"]

#: Seconds between two lines: on a terminal, and in a log.
EVERY = (0.2, 30.0)


@contextlib.contextmanager
def teller(show, stream=None):
    """A function ``tell(words, *arguments)`` that says ``words(*arguments)`` when it is time to say something.

    Parameters
    ----------
    show : bool
        False for one that says nothing.
    stream : text file, optional
        Standard error by default.
    """
    stream = stream or sys.stderr
    terminal = stream.isatty()
    every, width = EVERY[0 if terminal else 1], 0
    said = -float("inf")

    def tell(words, *arguments):
        nonlocal said, width
        if not show or time.monotonic() - said < every:
            return
        said, line = time.monotonic(), words(*arguments)
        if terminal:
            stream.write("\r" + line.ljust(width))
            width = len(line)
        else:
            stream.write(f"{line}\n")
        stream.flush()

    try:
        yield tell
    finally:
        if width:
            stream.write("\n")
            stream.flush()
