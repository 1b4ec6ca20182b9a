"""Runs on many machines through Dask: each task runs in an isolated process on a Dask worker; records come back here.

A Dask worker that dies takes no record with it: its tasks go to another one, and a run is kept once, whoever did it.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable
from typing import Any

from auglag.bench.isolated import RunError, Worker
from auglag.bench.record import Record
from auglag.bench.runner import Watch, before, collect, stored, unfinished
from auglag.bench.spec import Run
from auglag.bench.store import Store
from auglag.parallel import ClusterError, on_cluster

_LOCAL = threading.local()
_WORKERS: list[Worker] = []


def run_on_cluster(
    runs: Iterable[Run], store: Store, *, address: str, watch: Watch | None = None, timeout: float = 30.0
) -> list[Record]:
    """As `run_all`, on the workers of the Dask scheduler at `address` (tcp://host:port). They need auglag[bench]."""
    runs = list(runs)
    pending = unfinished(runs, store)
    if pending:
        items = {run.key: run.as_dict() for run in pending}
        answers = on_cluster(perform, items, address=address, timeout=timeout)
        records = (Record.from_dict(answer) for _, answer in answers)
        try:
            collect(records, pending, before(runs, pending), store, watch)
        except ClusterError as error:
            raise RunError(str(error)) from error
    return stored(runs, store)


def perform(run: dict[str, Any]) -> dict[str, Any]:
    """What a Dask worker does; it keeps one isolated process for each of its threads."""
    worker = getattr(_LOCAL, "worker", None)
    if worker is None:
        worker = _LOCAL.worker = Worker()
        _WORKERS.append(worker)
    return worker.run(Run.from_dict(run)).as_dict()


@atexit.register
def _end() -> None:
    for worker in _WORKERS:
        worker.kill()
