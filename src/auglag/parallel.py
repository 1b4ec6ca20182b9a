"""The same work on many items at once: in this thread, in threads, in processes or on the workers of a Dask cluster.

Everything is an iterator of (key, answer) pairs in the order in which answers come, so that they can be kept at once.
Leaving the loop early drops what has not begun.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from auglag.errors import AuglagError, MissingExtra

if TYPE_CHECKING:
    from concurrent.futures import Executor

T = TypeVar("T")
#: How often an item whose Dask worker died is handed to another one.
ATTEMPTS = 5


class ClusterError(AuglagError):
    """No Dask scheduler answers, or its workers die again and again under one item."""


def spread(
    work: Callable[[Any], T], items: Mapping[str, Any], *, workers: int = 1, engine: str = "threads"
) -> Iterator[tuple[str, T]]:
    """work(item) for every item. `engine` is "threads", "processes" or the address of a Dask scheduler.

    The first exception of `work` is raised here. Processes are sent `work` and the item pickled.
    """
    if engine not in ("threads", "processes"):
        yield from on_cluster(work, items, address=engine)
    elif workers == 1 and engine == "threads":
        for key, item in items.items():
            yield key, work(item)
    else:
        yield from _in_pool(work, items, workers, engine)


def _in_pool(work: Callable[[Any], T], items: Mapping[str, Any], workers: int, engine: str) -> Iterator[tuple[str, T]]:
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
    from multiprocessing import get_context

    workers = max(1, min(workers, len(items)))
    pool: Executor
    if engine == "threads":
        pool = ThreadPoolExecutor(workers)
    else:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for the processes: they share the cores
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        waiting = {pool.submit(work, item): key for key, item in items.items()}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def on_cluster(
    work: Callable[[Any], T], items: Mapping[str, Any], *, address: str, timeout: float = 30.0
) -> Iterator[tuple[str, T]]:
    """work(item) on the workers of the Dask scheduler at `address` (tcp://host:port).

    An item whose worker dies goes to another one, `ATTEMPTS` times at most.
    """
    try:
        from distributed import Client, KilledWorker
        from distributed import as_completed as completed
    except ImportError:
        raise MissingExtra("work on a cluster needs Dask: pip install 'auglag[cluster]'") from None
    try:
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as silence:
        raise ClusterError(f"no Dask scheduler answers at {address!r}: {silence}") from None
    attempts = dict.fromkeys(items, 0)
    keys: dict[str, str] = {}

    def submit(key: str) -> Any:
        attempts[key] += 1
        future = client.submit(work, items[key], key=f"auglag-{key}-{attempts[key]}", pure=False)
        keys[future.key] = key
        return future

    with client:
        waiting = completed([submit(key) for key in items], loop=client.loop)
        for future in waiting:
            key = keys[future.key]
            error = future.exception() if future.status == "error" else None
            if future.status == "finished":
                yield key, future.result()
            elif isinstance(error, KilledWorker) or future.status in ("cancelled", "lost"):
                if attempts[key] >= ATTEMPTS:
                    raise ClusterError(f"{ATTEMPTS} Dask workers died under {key}") from error
                waiting.add(submit(key))
            elif error is not None:
                raise error
