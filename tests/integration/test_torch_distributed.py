# ruff: noqa: E402 (without PyTorch the imports below fail: the line above them skips)
"""Two real processes, started with torchrun: they walk the path of one, and the death of one is no disaster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")
if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("needs torch.distributed with gloo", allow_module_level=True)

from auglag.torch import WorkerLost, at_most, fit
from auglag.torch.distributed import Team
from helpers import torch_job
from helpers.torch_problems import network

JOB = Path(torch_job.__file__)


class Job(NamedTuple):
    folder: Path
    code: int
    errors: str


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Two processes that walk all paths, write down where they ended, and then lose one of them in a last run."""
    folder = tmp_path_factory.mktemp("job")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["--monitor-interval=5", str(JOB), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    return Job(folder, done.returncode, done.stderr)


def assert_certified(found: list[float]) -> None:
    """The R of two processes is that of the one model which both hold, its running means included."""
    model = torch.nn.Sequential(
        torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    ).double()
    *numbers, y, residual = found
    state = {key: t for key, t in model.state_dict().items() if t.is_floating_point()}
    parts = torch.split(torch.tensor(numbers, dtype=torch.float64), [t.numel() for t in state.values()])
    for t, part in zip(state.values(), parts, strict=True):
        t.copy_(part.view_as(t))
    model.eval()
    loss, values = torch_job.NP.both(model, (torch_job.X, torch_job.T))
    c = values["false alarms"]
    gradients = torch.autograd.grad(loss + y * c, list(model.parameters()))
    dist = float(torch.cat([g.reshape(-1) for g in gradients]).norm())
    assert y > 0.0
    assert dist <= residual * (1 + 1e-9)
    assert residual == pytest.approx(dist + abs(float(c.detach()) - 0.6), rel=1e-6)


def test_two_processes_with_half_the_batch_each_walk_the_path_of_one(job: Job) -> None:
    files = [job.folder / f"{rank}.json" for rank in (0, 1)]
    assert all(path.exists() for path in files), job.errors[-3000:]
    first, second = (json.loads(path.read_text()) for path in files)
    assert first == second  # all processes hold the same model, bit for bit
    for method in torch_job.METHODS:
        assert first[method] == pytest.approx(torch_job.walk(method), rel=1e-6, abs=1e-8), method
    assert first["dataset"] == first["sgd"]
    assert first["chunks"][:-1] == pytest.approx(torch_job.walk("lbfgs", chunk=77)[:-1], rel=1e-4, abs=1e-6)
    odd = torch_job.walk("sgd", (torch_job.X[:-1], torch_job.T[:-1]), batch=63)
    assert first["odd"] == pytest.approx(odd, rel=1e-6, abs=1e-8)
    # A stream's batches have the size they like; the share of a process in them may be uneven.
    # (One process alone looks at some rows before, which the last entry counts.)
    assert first["stream"][:-1] == pytest.approx(torch_job.walk("sgd", torch_job.stream())[:-1], rel=1e-6, abs=1e-8)
    assert_certified(first["batch norm"])
    assert first["own loop"] == pytest.approx(torch_job.own_loop(), rel=1e-6, abs=1e-9)
    assert first["own single loop"] == pytest.approx(torch_job.own_single_loop(), rel=1e-6, abs=1e-9)


def test_a_killed_worker_ends_the_job_with_a_clear_error_and_a_checkpoint_that_resumes(job: Job) -> None:
    assert job.code != 0
    assert "WorkerLost: rank 0 of 2 lost touch with another process" in job.errors
    assert "goes on from the last test" in job.errors
    constraints = {"false alarms": at_most(0.6, torch_job.NP.false_alarms)}
    data = torch_job.X, torch_job.T
    whole = fit(network(), torch_job.NP.objective, constraints, data, **torch_job.KILLED)
    resumed = fit(
        network(seed=5), torch_job.NP.objective, constraints, data, **torch_job.KILLED, resume=job.folder / "run.npz"
    )
    assert resumed.x.tolist() == pytest.approx(whole.x.tolist(), rel=1e-6, abs=1e-8)
    assert resumed.epochs == whole.epochs
    assert len(resumed.trace) == len(whole.trace)


def test_a_lost_worker_is_named_without_a_checkpoint_too() -> None:
    team = Team(torch.device("cpu"))
    team.size = 2

    def broken() -> None:
        raise RuntimeError("Connection closed by peer\nmore")

    with pytest.raises(WorkerLost, match=r"Connection closed by peer.*no checkpoint was asked for"):
        team._guarded(broken)
