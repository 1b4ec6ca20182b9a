"""The runs of an experiment, kept in a file with one JSON object a line: what is there is not run again."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

Record = dict[str, Any]
#: Told after every run: how many are done, of how many.
Watch = Callable[[int, int], None]


class Runnable(Protocol):
    """One run of an experiment; worker processes are sent it pickled."""

    @property
    def key(self) -> str:
        """What makes it this run."""

    def run(self) -> Record:
        """Make the run; the record has its key as "key"."""

    def whole(self, record: Record) -> bool:
        """Whether a record with this key has all that `run` records now: one of an earlier version may not."""


def load(path: Path) -> dict[str, Record]:
    """The records of a file, by key; a line cut off by a kill is dropped."""
    found: dict[str, Record] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[record["key"]] = record
    return found


def unfinished(jobs: Iterable[Runnable], records: Mapping[str, Record]) -> list[Runnable]:
    """The runs that have no record yet, or one that is not whole; each once."""
    found = {job.key: job for job in jobs}
    return [job for key, job in found.items() if key not in records or not job.whole(records[key])]


def complete(jobs: Iterable[Runnable], path: Path, workers: int, watch: Watch | None = None) -> dict[str, Record]:
    """Make the runs that `path` has no whole record of, add a line to it for each, and return all records.

    A run that is made again has two lines; the last one counts.
    """
    records = load(path)
    todo = unfinished(jobs, records)
    if watch is not None:
        watch(0, len(todo))
    if not todo:
        return records
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" if torn else "")  # an earlier call was killed while it wrote
        for done, record in enumerate(_results(todo, workers), 1):
            file.write(json.dumps(record) + "\n")
            file.flush()
            records[record["key"]] = record
            if watch is not None:
                watch(done, len(todo))
    return records


def publish(columns: Sequence[str], rows: Iterable[Sequence[Any]], path: Path) -> Path:
    """A compressed table with one row for each run; the same rows give the same bytes, so that it can be compared."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    return path


def _results(todo: list[Runnable], workers: int) -> Iterator[Record]:
    """The records in the order in which they come."""
    if workers <= 1:
        yield from map(_run, todo)
        return
    first, *rest = todo
    yield first.run()  # compiles the kernels once, into the cache that the workers read
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        for future in as_completed([pool.submit(_run, job) for job in rest]):
            yield future.result()
    finally:  # interrupted, it does not wait for all that was to come
        pool.shutdown(cancel_futures=True)


def _run(job: Runnable) -> Record:
    return job.run()
