"""Progress of long commands: a bar in a terminal, a line now and then in a file; always with the time left."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from auglag.cli.base import INTERRUPTED, err
from auglag.log.schema import clock

if TYPE_CHECKING:
    from auglag.bench.runner import Progress

#: Seconds between two lines in a file.
PAUSE = 10.0


@final
@dataclass(frozen=True, slots=True)
class Course:
    """What comes after this step of a longer command, to tell the time left for all of it."""

    each: float  #: CPU seconds of a run of this step, as measured once
    later: float  #: CPU seconds of all steps after it, as measured once

    def left(self, done: int, seconds: float) -> float:
        """Seconds for the later steps, at the speed at which this one gets on."""
        return self.later * seconds / (self.each * done) if done else 0.0


class Shown:
    """How many of how many runs are done."""

    def __init__(self, total: int, *, before: int = 0, course: Course | None = None) -> None:
        self.total, self.before, self.course = total, before, course
        self.began = self.spoke = time.monotonic()
        self.bar: Bar | None = None
        self.latest = ""

    def __enter__(self) -> Self:
        if self.before:
            err.print(f"{self.before} runs are in the store already, {self.total} to do")
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        elif self.latest:
            err.print(self.latest)

    def show(self, done: int, text: str = "", detail: str = "") -> None:
        """So many are done; `text` says more, `detail` is for a terminal only."""
        seconds = time.monotonic() - self.began
        left = f"{clock(seconds / done * (self.total - done))} left" if done else ""
        if self.course is not None and self.course.later and done:
            left += f" ({clock(seconds / done * (self.total - done) + self.course.left(done, seconds))} for all)"
        words = ", ".join(filter(None, (text, left)))
        self.latest = f"{done} of {self.total} runs, {words}"
        if err.is_terminal:
            self._bar(done, f"{words}  {detail}")
        elif time.monotonic() - self.spoke > PAUSE:
            self.spoke = time.monotonic()
            err.print(self.latest)
            self.latest = ""

    def _bar(self, done: int, text: str) -> None:
        if self.bar is None and self.total:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self.bar = Bar(*columns, console=err)
            self.task = self.bar.add_task("", total=self.total)
            self.bar.start()
        if self.bar is not None:
            self.bar.update(self.task, completed=done, description=text)


@final
class Records(Shown):
    """The runs of a comparison, with what became of them."""

    def __init__(self, total: int, *, before: int = 0, course: Course | None = None) -> None:
        super().__init__(total, before=before, course=course)
        self.claimed = self.solved = 0

    def __call__(self, progress: Progress) -> None:
        """Show the state after one more record."""
        self.claimed += bool(progress.record.claims_success)
        self.solved += progress.record.solved(1e-6)
        text = f"{self.claimed} report success at their tolerance, {self.solved} are solved at 1e-6"
        self.show(progress.done, text, progress.record.run.problem)


@final
class Counted(Shown):
    """Runs that only count."""

    def __init__(self, *, course: Course | None = None) -> None:
        super().__init__(0, course=course)

    def __call__(self, done: int, total: int) -> None:
        """So many of so many; the first call says how many there are."""
        self.total = total
        if done == 0:
            self.began = self.spoke = time.monotonic()
        if total:
            self.show(done)


@contextmanager
def kept(what: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C ends the command with what was kept, the command that goes on from there, and a status of its own."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(f"interrupted: {what()}; to go on: auglag {shlex.join(sys.argv[1:])}", markup=False)
        raise typer.Exit(INTERRUPTED) from None
