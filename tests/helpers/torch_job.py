"""A training job for `torchrun`: what each of the processes of tests/integration/test_torch_distributed.py does.

torchrun --nproc-per-node=2 torch_job.py FOLDER
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from auglag.torch import AugmentedLagrangian, Batches, SingleLoop, at_most, fit
from helpers.torch_problems import NeymanPearson, linear, network, rows

X, T = rows()
NP = NeymanPearson(T)
METHODS = ("lbfgs", "sgd", "svrg", "adam", "pstorm", "single-loop")
KILLED: dict[str, Any] = {"method": "sgd", "batch": 64, "tol": 1e-5, "max_epochs": 60, "seed": 2}


def walk(method: str, data: Any = (X, T), **options: Any) -> list[float]:
    """Where `fit` ends, and by what test."""
    model = network()
    options = options if method == "lbfgs" else {"batch": 64, **options}
    result = fit(
        model, NP.objective, {"false alarms": at_most(0.6, NP.false_alarms)}, data, method=method, tol=1e-4,
        max_epochs=25, seed=2, **options,
    )  # fmt: skip
    return [*result.x.tolist(), *result.multipliers.values(), result.certificate.residual, result.epochs]


def stream(rank: int = 0, size: int = 1) -> list[Any]:
    """Batches of 21 rows (the last one of 1); of each a process has its share."""
    batches = [(X[i : i + 21], T[i : i + 21]) for i in range(0, len(X) - 1, 21)]
    return [tuple(t[rank * len(t) // size : (rank + 1) * len(t) // size] for t in batch) for batch in batches]


def batch_norm() -> list[float]:
    """Where a network with running means ends (they are part of it), and the R that is said of it."""
    torch.manual_seed(3 + (torch.distributed.get_rank() if torch.distributed.is_initialized() else 0))
    model = torch.nn.Sequential(
        torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    ).double()
    result = fit(
        model, NP.objective, {"false alarms": at_most(0.6, NP.false_alarms)}, (X, T), method="adam", batch=32,
        tol=1e-4, max_epochs=30, seed=2,
    )  # fmt: skip
    state = [v for t in model.state_dict().values() if t.is_floating_point() for v in t.reshape(-1).tolist()]
    return [*state, *result.multipliers.values(), result.certificate.residual]


def own_loop(steps: int = 60) -> list[float]:
    """A loop of one's own, with DistributedDataParallel where there are several processes."""
    model: Any = linear()
    if torch.distributed.is_initialized():
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    al = AugmentedLagrangian(model, {"false alarms": at_most(0.6)}, optimizer=optimizer)
    pairs = iter(Batches((X, T), 64, seed=3))
    for _ in range(steps):
        first, second = next(pairs)
        optimizer.zero_grad()
        loss, values = NP.both(model, first)
        with torch.no_grad():
            other = NP.both(model.module if hasattr(model, "module") else model, second)[1]
        al.loss(loss, values, other).backward()
        optimizer.step()
        al.step()
        if al.due:
            al.test(NP.both, (X, T))
    return [*(float(v) for p in model.parameters() for v in p.detach().reshape(-1)), *al.multipliers.tolist()]


def own_single_loop(steps: int = 60) -> list[float]:
    """The single loop in a loop of one's own, with DistributedDataParallel where there are several processes."""
    model: Any = linear()
    if torch.distributed.is_initialized():
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    al = SingleLoop(model, {"false alarms": at_most(0.6)}, optimizer=optimizer, per_pass=len(X) // 64)
    batches = iter(Batches((X, T), 64, seed=3))
    for _ in range(steps):
        optimizer.zero_grad()
        al.loss(*NP.both(model, next(batches)[0])).backward()
        optimizer.step()
        al.step()
    al.settle()
    return [*(float(v) for p in model.parameters() for v in p.detach().reshape(-1)), *al.multipliers.tolist()]


def kill(folder: Path) -> None:
    """Rank 1 dies in the middle of the run."""
    calls = 0

    def objective(model: Any, batch: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 100 and torch.distributed.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return NP.objective(model, batch)

    fit(
        network(), objective, {"false alarms": at_most(0.6, NP.false_alarms)}, (X, T), **KILLED,
        checkpoint=folder / "run.npz",
    )  # fmt: skip


def main() -> None:
    """All walks, and then, since starting processes takes long, the run in which one dies."""
    torch.distributed.init_process_group("gloo")
    folder = Path(sys.argv[1])
    found = {method: walk(method) for method in METHODS}
    found["dataset"] = walk("sgd", torch.utils.data.TensorDataset(X, T))
    found["chunks"] = walk("lbfgs", chunk=77)
    found["odd"] = walk("sgd", (X[:-1], T[:-1]), batch=63)
    found["stream"] = walk("sgd", stream(torch.distributed.get_rank(), 2))
    found["batch norm"] = batch_norm()
    found["own loop"] = own_loop()
    found["own single loop"] = own_single_loop()
    (folder / f"{torch.distributed.get_rank()}.json").write_text(json.dumps(found), encoding="utf-8")
    torch.distributed.barrier()
    kill(folder)


if __name__ == "__main__":
    main()
