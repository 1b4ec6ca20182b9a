"""What the caller of a run wants to see and save while it goes on, and how a run that is cut short ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from auglag.algorithm.status import Status
from auglag.errors import OutOfBudget, StoppedByCallback
from auglag.log import JsonLog


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

    def call(self, *seen: Any) -> None:
        """Call the callback; raises `StoppedByCallback` if that is to be the end."""
        if self.callback is None:
            return
        try:
            stop = self.callback(*seen)
        except StopIteration:
            stop = True
        if stop is True:
            raise StoppedByCallback


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
