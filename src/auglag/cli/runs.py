"""Solvers and runs of a comparison: read from options, made with progress, kept when interrupted."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from auglag.cli.base import INTERRUPTED, err
from auglag.errors import InputError

if TYPE_CHECKING:
    from auglag.bench.record import Record
    from auglag.bench.runner import Progress
    from auglag.bench.spec import Run
    from auglag.bench.store import Store


def solver(text: str) -> tuple[str, dict[str, Any], str]:
    """(name, options, label) from NAME or NAME:OPTION=VALUE,..."""
    from auglag.bench import baselines

    name, colon, rest = text.rpartition(":") if "=" in text else (text, "", "")
    if colon and not name:
        raise InputError(f"--solver must be NAME or NAME:OPTION=VALUE,..., got {text!r}")
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"--solver {name}: options must be OPTION=VALUE, got {part!r}")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    baselines.get(name).check(baselines.complete(name, options))
    return name, options, text


def installed(choices: Sequence[tuple[str, dict[str, Any], str]]) -> list[tuple[str, dict[str, Any], str]]:
    """The solvers that can run here; the others are skipped with the reason, but not all of them."""
    from auglag.bench import baselines

    found = []
    for choice in choices:
        reason = baselines.get(choice[0]).unavailable()
        if reason:
            err.print(f"skipped: {reason}", markup=False)
        else:
            found.append(choice)
    if not found:
        raise InputError("none of the solvers asked for can run here")
    return found


def run(runs: Sequence[Run], store: Store, workers: int, cluster: str, redo: bool = False) -> list[Record]:
    """Run them here or there, with progress; records of other versions are named, or done again."""
    from auglag.bench.cluster import run_on_cluster
    from auglag.bench.runner import outdated, run_all, stored, unfinished

    old = outdated(stored(runs, store))
    if old and redo:
        store.remove(record.run.key for record in old)
    elif old:
        err.print(
            f"{len(old)} records in the store were made by another version of their solver; --redo does them again"
        )
    count = len(unfinished(runs, store))
    try:
        with _Show(count, len({run.key for run in runs}) - count) as show:
            if cluster:
                return run_on_cluster(runs, store, address=cluster, watch=show)
            return run_all(runs, store, workers=workers or os.cpu_count() or 1, watch=show)
    except KeyboardInterrupt:
        err.print("interrupted; what was finished is kept, the same command goes on from there")
        raise typer.Exit(INTERRUPTED) from None


class _Show:
    """Progress: a bar in a terminal, a line now and then in a file."""

    def __init__(self, total: int, before: int) -> None:
        self.total, self.before, self.claimed, self.solved = total, before, 0, 0
        self.bar: Bar | None = None
        self.spoke = time.monotonic()
        self.latest = ""

    def __enter__(self) -> _Show:
        if self.before:
            err.print(f"{self.before} runs are in the store already, {self.total} to do")
        if self.total and err.is_terminal:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self.bar = Bar(*columns, console=err)
            self.task = self.bar.add_task("", total=self.total)
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        elif self.latest:
            err.print(self.latest)

    def __call__(self, progress: Progress) -> None:
        """Show the state after one more record."""
        self.claimed += bool(progress.record.claims_success)
        self.solved += progress.record.solved(1e-6)
        minutes, seconds = divmod(round(progress.left), 60)
        left = f"{minutes}:{seconds:02d} left"
        text = f"{self.claimed} report success at their tolerance, {self.solved} are solved at 1e-6, {left}"
        self.latest = f"{progress.done} of {progress.total} runs, {text}"
        if self.bar is not None:
            self.bar.update(self.task, completed=progress.done, description=f"{text}  {progress.record.run.problem}")
        elif time.monotonic() - self.spoke > 10:
            self.spoke = time.monotonic()
            err.print(self.latest)
            self.latest = ""
