"""Runs in parallel on this machine: every worker process has a thread here that feeds it; one thread writes."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

from auglag.bench import baselines
from auglag.bench.environment import build
from auglag.bench.isolated import Stopped, Worker, require_psutil
from auglag.bench.record import Record
from auglag.bench.spec import Run
from auglag.bench.store import Store
from auglag.errors import InputError


@final
@dataclass(frozen=True, slots=True)
class Progress:
    """Where a batch of runs stands, after each record."""

    done: int  #: finished in this call
    total: int  #: to be done in this call
    before: int  #: found in the store
    seconds: float
    record: Record

    @property
    def left(self) -> float:
        """Seconds until the end, if it goes on like this."""
        return self.seconds / self.done * (self.total - self.done)


Watch = Callable[[Progress], None]
T = TypeVar("T")


def run_all(runs: Iterable[Run], store: Store, *, workers: int = 1, watch: Watch | None = None) -> list[Record]:
    """Do every run that is not in the store yet; the records of all of them, in the order of `runs`.

    Interrupted by anything, even a kill, it goes on where it was when called again. Raises before anything is run if a
    solver is missing or an option is unknown.
    """
    runs = list(runs)
    if workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    pending = unfinished(runs, store)
    if pending:
        require_psutil()
        collect(_Local(pending, workers), pending, before(runs, pending), store, watch)
    return stored(runs, store)


def unfinished(runs: Sequence[Run], store: Store) -> list[Run]:
    """The runs that are not in the store, each once, those of one problem in a row; checked before they start."""
    done = store.keys()
    pending = list({run.key: run for run in runs if run.key not in done}.values())
    for solver, options in {(run.solver, tuple(sorted(run.options))) for run in pending}:
        reason = baselines.get(solver).unavailable()
        if reason:
            raise InputError(f"solver {solver!r} cannot run here: {reason}")
        baselines.complete(solver, dict.fromkeys(options))
    for run in {(run.solver, json.dumps(dict(run.options), sort_keys=True)): run for run in pending}.values():
        baselines.get(run.solver).check(baselines.complete(run.solver, run.options))
    first = {run.problem: k for k, run in reversed(list(enumerate(pending)))}
    return sorted(pending, key=lambda run: first[run.problem])


def outdated(records: Iterable[Record]) -> list[Record]:
    """Records of another version of their solver than the one that is here, or of another source of auglag."""
    versions: dict[str, str] = {}

    def current(record: Record) -> bool:
        solver = record.run.solver
        if solver not in versions:
            versions[solver] = baselines.get(solver).version()
        seen = record.environment
        if "solver" not in seen:
            return True  # killed before it could say
        return seen["solver"] == versions[solver] and (solver != "auglag" or seen.get("build") == build())

    return [record for record in records if not current(record)]


def before(runs: Sequence[Run], pending: Sequence[Run]) -> int:
    """How many different runs were found done."""
    return len({run.key for run in runs}) - len(pending)


def stored(runs: Sequence[Run], store: Store) -> list[Record]:
    """The records of these runs, under the labels they have here."""
    labels = {run.key: run for run in runs}
    found = {record.run.key: record for record in store.records(labels)}
    return [_relabelled(found[run.key], run) for run in runs if run.key in found]


def _relabelled(record: Record, run: Run) -> Record:
    return record if record.run.label == run.label else replace(record, run=run)


def collect(source: Iterable[Record], pending: Sequence[Run], found: int, store: Store, watch: Watch | None) -> None:
    """Write each record as it comes."""
    started = time.monotonic()
    for done, record in enumerate(source, 1):
        store.add(record, time.time())  # another process may have done the same run: it is kept once
        if watch is not None:
            watch(Progress(done, len(pending), found, time.monotonic() - started, record))


@final
class _Local:
    """Iterating starts the workers and gives the records as they come; leaving the loop, however, ends them all."""

    def __init__(self, pending: Sequence[Run], workers: int) -> None:
        self._tasks: queue.SimpleQueue[Run] = queue.SimpleQueue()
        for run in pending:
            self._tasks.put(run)
        self._results: queue.Queue[Record | BaseException] = queue.Queue()
        self._workers = [Worker() for _ in range(min(workers, len(pending)))]
        self._expected = len(pending)

    def __iter__(self) -> Iterator[Record]:
        threads = [threading.Thread(target=self._feed, args=(worker,), daemon=True) for worker in self._workers]
        for thread in threads:
            thread.start()
        try:
            failure = None
            for _ in range(self._expected):
                result = self._results.get() if failure is None else _ready(self._results)
                if result is None:
                    break
                if isinstance(result, BaseException):
                    failure = failure or result
                else:
                    yield result
            if failure is not None:
                raise failure
        finally:
            for worker in self._workers:
                worker.stop()
            while _ready(self._tasks) is not None:
                pass  # nobody is to begin another one
            for thread in threads:
                thread.join()
            for worker in self._workers:
                worker.kill()

    def _feed(self, worker: Worker) -> None:
        try:
            while (run := _ready(self._tasks)) is not None:
                self._results.put(worker.run(run))
        except Stopped:
            return
        except BaseException as error:  # handed to the caller's thread
            self._results.put(error)


def _ready(items: queue.SimpleQueue[T] | queue.Queue[T]) -> T | None:
    """What can be had without waiting; None where there is nothing."""
    try:
        return items.get_nowait()
    except queue.Empty:
        return None
