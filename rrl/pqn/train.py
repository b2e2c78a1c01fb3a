"""A training from its checkpoint, if there is one, to its end or to a deadline."""

from __future__ import annotations

import math
import os
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from rrl._progress import progress_bar
from rrl.pqn.files import DamagedFile
from rrl.pqn.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Trainer", "train"]


def train(
    trainer: Trainer,
    *,
    checkpoint: str | os.PathLike | None = None,
    every: float = 120.0,
    deadline: float = math.inf,
    after: Callable[..., Any] | None = None,
    progress: bool = False,
    session: dict | None = None,
) -> bool:
    """Run a trainer to its end, or to a deadline.

    Parameters
    ----------
    trainer : Trainer
    checkpoint : path, optional
        Loaded first if it exists, otherwise written before the work; then written as `every` asks and at the end.
        A damaged one is renamed ``*.corrupt``, with a line on standard error, and the training begins anew.
        Where it can no longer be written a line says so, and the training goes on.
    every : float
        Seconds that checkpoints are at most apart, if no iteration takes longer than the one before it.
    deadline : float
        Monotonic time (`time.monotonic`) after which no iteration is begun.
    after : callable, optional
        Called with the trainer after each iteration.
    progress : bool
        Show on standard error how far it is: a bar on a terminal, elsewhere a line every half minute.
    session : dict, optional
        What to keep in ``trainer.sessions``, and so in checkpoints, of this stretch: when, where, with which code.

    Returns
    -------
    bool
        Whether all iterations are done.

    Raises
    ------
    OSError
        If no checkpoint can be written, before any work, or the one that is there not be read.
    ValueError
        If that is of other runs, see `Trainer.load`.
    """
    begun = bool(checkpoint) and _go_on(trainer, Path(checkpoint))
    if session is not None:
        trainer.sessions.append({"iteration": trainer.iteration, **session})
    if checkpoint and not begun:
        try:
            trainer.save(checkpoint)
        except OSError as error:
            raise OSError(error.errno, f"cannot write the checkpoint {checkpoint}: {error.strerror}") from error
    total, saved = trainer.config.n_iterations, time.monotonic()
    with progress_bar(total, initial=trainer.iteration, unit="iteration", show=progress) as bar:
        while trainer.iteration < total and time.monotonic() < deadline:
            began = time.monotonic()
            trainer.iterate()
            bar.update()
            if after:
                after(trainer)
            now = time.monotonic()
            # Another iteration as long as this one would end too late.
            if checkpoint and now - saved + (now - began) > every:
                _save(trainer, checkpoint)
                saved = now
    if checkpoint:
        _save(trainer, checkpoint)
    return trainer.iteration >= total


def _save(trainer, checkpoint):
    """Write a checkpoint where that is possible: a full disk ends no training."""
    try:
        trainer.save(checkpoint)
    except OSError as error:
        print(f"cannot write the checkpoint {checkpoint}: {error.strerror}; training goes on", file=sys.stderr)


def _go_on(trainer, checkpoint):
    """Load a checkpoint if there is one, and say whether; set it aside if it is damaged."""
    try:
        trainer.load(checkpoint)
        return True
    except FileNotFoundError:
        return False  # none yet, or another writer has finished these runs
    except DamagedFile as error:
        aside = checkpoint.with_suffix(f".{uuid.uuid4().hex[:8]}.corrupt")
        os.replace(checkpoint, aside)
        print(f"{error}; it is now {aside.name}, and its training begins anew", file=sys.stderr)
        return False
