"""What the caller of a run wants to see and save while it goes on, and how a run that is cut short ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

import numpy as np

from auglag.algorithm.status import Status
from auglag.errors import InputError, OutOfBudget, StoppedByCallback
from auglag.log import JsonLog
from auglag.persist import checkpoint
from auglag.report import logger

R = TypeVar("R")


@final
@dataclass(frozen=True, slots=True)
class Hooks:
    """Callback, table, checkpoint files and log of a run of `minimize`, `stochastic.minimize` or `torch.fit`."""

    callback: Callable[..., Any] | None = None  #: returns True, or raises StopIteration, to stop the run
    table: Callable[..., None] | None = None  #: prints a row of the progress table
    say: Callable[[str], None] | None = None  #: prints a sentence, such as how the run ended
    checkpoint: str | os.PathLike[str] | None = None  #: the file that the state is saved to
    resume: str | os.PathLike[str] | None = None  #: the file of a state to go on from
    log: JsonLog | None = None
    steps: Callable[..., None] | None = None  #: prints a row for a step between two rows of the table
    failed: list[OSError] = field(default_factory=list)  #: why the state could not be saved, the first time

    def __post_init__(self) -> None:
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback must be callable, got {self.callback!r:.80}")

    @property
    def sees_steps(self) -> bool:
        """Whether anybody looks at single steps."""
        return self.callback is not None or self.steps is not None or self.log is not None

    def call(self, *seen: Any) -> None:
        """Call the callback; raises `StoppedByCallback` if that is to be the end."""
        if self.callback is None:
            return
        try:
            stop = self.callback(*seen)
        except StopIteration:
            stop = True
        if says_stop(stop):
            raise StoppedByCallback

    def save(self, kind: str, fingerprint: Mapping[str, Any], state: Any) -> None:
        """The state to the checkpoint, where one is wanted.

        Where it cannot be written (the disk is full, the folder is gone), the run goes on, with one warning; later
        states are tried again.
        """
        if self.checkpoint is None:
            return
        try:
            checkpoint.save(self.checkpoint, kind, fingerprint, state)
        except OSError as error:
            if not self.failed:
                self.failed.append(error)
                text = f"the checkpoint {self.checkpoint} could not be written, and the run goes on: {error.strerror}"
                logger.warn(text)


def says_stop(answer: Any) -> bool:
    """Whether what a callback returned is True: Python's, or that of an array library (NumPy, JAX, torch).

    Nothing else ends a run: what a callback returns by the way, such as a count, is no answer.
    """
    if isinstance(answer, bool | np.bool_):
        return bool(answer)
    truth = str(getattr(answer, "dtype", "")).rpartition(".")[2] == "bool" and getattr(answer, "shape", None) == ()
    return truth and bool(answer)


_interruptions = [0]


def note_interruption() -> None:
    """Ctrl-C struck after a solution was found, which is returned as such."""
    _interruptions[0] += 1


def interruptions() -> int:
    """How often that happened in this process: several runs in a row end with the first one to which it happens."""
    return _interruptions[0]


def result_of_run(course: Callable[[], Status], finish: Callable[[Status], R]) -> R:
    """What `finish` makes of the end of `course`, whatever cuts that short.

    Ctrl-C at any moment ends a run as INTERRUPTED, also while its result is made ready. While that of a run that was
    interrupted is made ready, one more Ctrl-C passes.
    """
    try:
        status = status_of(course)
        if status is not Status.INTERRUPTED:
            return finish(status)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return finish(status)


def give_best(error: Exception, make: Callable[[], Any]) -> None:
    """Hang the result so far on an exception of user code as `best`: what `make` returns, with the status STOPPED.

    None stands for no result. Nothing that goes wrong here, nor Ctrl-C, may hide the exception, which ends the run.
    """
    with contextlib.suppress(Exception, KeyboardInterrupt):
        result = make()
        if result is not None:
            cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            result.message = result.message.replace(Status.STOPPED.message, f"Stopped by an exception ({cause}).")
            error.best = result  # type: ignore[attr-defined]


def status_of(course: Callable[[], Status]) -> Status:
    """How a run ends, if a limit, Ctrl-C or the callback may cut it short."""
    try:
        return course()
    except OutOfBudget as signal:
        return Status.TIME_LIMIT if signal.limit == "seconds" else Status.EVALUATION_LIMIT
    except KeyboardInterrupt:
        return Status.INTERRUPTED
    except StoppedByCallback:
        return Status.STOPPED
