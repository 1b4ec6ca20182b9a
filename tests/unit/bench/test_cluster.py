"""A real Dask cluster on this machine: a scheduler and two workers, each a process of its own; one is killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from auglag.bench.cluster import run_on_cluster
from auglag.bench.isolated import RunError
from auglag.bench.spec import Run
from auglag.bench.store import Store

pytest.importorskip("distributed")
pytest.importorskip("psutil")
SOLVER = f"{Path(__file__).parents[2] / 'helpers' / 'solvers.py'}:Still"


@pytest.fixture
def cluster(tmp_path):
    """(address, the two worker processes); without nannies, so that a killed worker stays dead."""
    info = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
    dask = [sys.executable, "-m"]
    scheduler = [*dask, "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    processes = [subprocess.Popen([*scheduler, "--scheduler-file", str(info)], **quiet)]
    deadline = time.monotonic() + 60
    while not (info.exists() and info.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    address = json.loads(info.read_text())["address"]
    worker = [*dask, "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    workers = [subprocess.Popen([*worker, "--local-directory", str(tmp_path / f"w{k}")], **quiet) for k in range(2)]
    yield address, workers
    for process in [*workers, *processes]:
        process.kill()
        process.wait()


def test_a_dask_worker_killed_in_the_middle_loses_nothing_and_doubles_nothing(cluster, tmp_path):
    address, workers = cluster
    runs = [Run("HS71", SOLVER, {"seconds": 0.15}, seed=k) for k in range(24)]
    seen = []

    def watch(progress):
        seen.append(progress.record.run.seed)
        if len(seen) == 6:
            workers[0].send_signal(signal.SIGKILL)

    with Store(tmp_path / "s.sqlite") as store:
        records = run_on_cluster(runs, store, address=address, watch=watch)
        assert len(store) == 24
    assert workers[0].wait() == -signal.SIGKILL
    assert workers[1].poll() is None
    assert [record.run.seed for record in records] == list(range(24))
    assert sorted(seen) == list(range(24))
    with Store(tmp_path / "s.sqlite") as store:  # everything is there: the cluster is not even asked
        assert len(run_on_cluster(runs, store, address="tcp://127.0.0.1:1", timeout=1.0)) == 24


def test_no_scheduler_is_said_plainly(tmp_path):
    with Store(tmp_path / "s.sqlite") as store, pytest.raises(RunError, match="no Dask scheduler answers at 'tcp"):
        run_on_cluster([Run("HS71", SOLVER)], store, address="tcp://127.0.0.1:1", timeout=1.0)
    assert threading.active_count() < 50
