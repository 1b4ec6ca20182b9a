"""Runs on many machines through Dask: each task runs in an isolated process on a Dask worker; records come back here.

A Dask worker that dies takes no record with it: its tasks go to another one, and a run is kept once, whoever did it.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from auglag.bench.isolated import RunError, Worker
from auglag.bench.record import Record
from auglag.bench.runner import Watch, before, collect, stored, unfinished
from auglag.bench.spec import Run
from auglag.bench.store import Store
from auglag.errors import MissingExtra

#: How often a run whose Dask worker died is handed to another one.
ATTEMPTS = 5
_LOCAL = threading.local()
_WORKERS: list[Worker] = []


def run_on_cluster(
    runs: Iterable[Run], store: Store, *, address: str, watch: Watch | None = None, timeout: float = 30.0
) -> list[Record]:
    """As `run_all`, on the workers of the Dask scheduler at `address` (tcp://host:port). They need auglag[bench]."""
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra("--cluster needs Dask: pip install 'auglag[cluster]'") from None
    runs = list(runs)
    pending = unfinished(runs, store)
    if pending:
        try:
            client = Client(address, timeout=timeout, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise RunError(f"no Dask scheduler answers at {address!r}: {error}") from None
        with client:
            collect(_results(client, pending), pending, before(runs, pending), store, watch)
    return stored(runs, store)


def _results(client: Any, pending: Sequence[Run]) -> Iterator[Record]:
    """Records in the order in which they come."""
    from distributed import KilledWorker, as_completed

    attempts = dict.fromkeys((run.key for run in pending), 0)
    by_key = {run.key: run for run in pending}

    def submit(run: Run) -> Any:
        attempts[run.key] += 1
        return client.submit(perform, run.as_dict(), key=f"auglag-{run.key}-{attempts[run.key]}", pure=False)

    waiting = as_completed([submit(run) for run in pending], loop=client.loop)
    for future in waiting:
        key = future.key.split("-")[1]
        error = future.exception() if future.status == "error" else None
        if future.status == "finished":
            yield Record.from_dict(future.result())
        elif isinstance(error, KilledWorker) or future.status in ("cancelled", "lost"):
            if attempts[key] >= ATTEMPTS:
                run = by_key[key]
                raise RunError(f"{run.solver} on {run.problem}: {ATTEMPTS} Dask workers died under it") from error
            waiting.add(submit(by_key[key]))
        elif error is not None:
            raise error


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
