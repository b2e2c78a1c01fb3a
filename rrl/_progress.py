"""How far a long computation is, on standard error: a bar on a terminal, a line now and then elsewhere."""

import contextlib
import math
import sys
import time

__all__ = ["progress_bar", "teller"]

#: Seconds between two lines.
EVERY = 30.0
#: Seconds between two looks of a line that renews itself.
RENEWED = 0.2


class Lines:
    """What a bar shows, as lines in a log `every` so many seconds; nothing of what is done within them."""

    def __init__(self, total, initial, unit, every):
        self.total, self.done, self.initial, self.unit, self.every = total, initial, initial, unit, every
        self.start = self.said = time.monotonic()

    def update(self, n=1):
        """Count what was done since."""
        self.done += n
        now = time.monotonic()
        last = self.done >= self.total and self.said > self.start
        if now - self.said >= self.every or last:
            self.said = now
            passed, left = now - self.start, self.total - self.done
            rest = f", about {passed * left / (self.done - self.initial):.0f} s left" if left else ""
            line = f"{self.done} of {self.total} {self.unit}s, {passed:.0f} s{rest}"
            print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress_bar(total, *, initial=0, unit="unit", show=True):
    """Something with ``update(n)``: tqdm's bar on a terminal where tqdm is installed, else `Lines`.

    Parameters
    ----------
    total, initial : int
        How much there is to do, and how much of it was done before.
    unit : str
        What is counted.
    show : bool
        False for one that shows nothing.

    Examples
    --------
    >>> from rrl._progress import progress_bar
    >>> with progress_bar(3, unit="game") as bar:
    ...     for _ in range(3):
    ...         bar.update()
    """
    with contextlib.suppress(ImportError):
        if show and sys.stderr.isatty():
            from tqdm import tqdm

            with tqdm(total=total, initial=initial, unit=unit) as bar:
                yield bar
            return
    yield Lines(total, initial, unit, EVERY if show else math.inf)


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
    every, width = RENEWED if terminal else EVERY, 0
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
