"""Time and memory of a training step of auglag.torch beside a bare PyTorch loop on the same model and batches.

    python benchmarks/torch_step.py [--gpu] [--out FOLDER] [--rounds 30] [--quick]

The model is a network with three hidden layers (0.4 million parameters on a CPU, with --large 10.5 as well; 10.5
and 102.8 million on a GPU); the task is classification with a bound on the loss of one class. Measured in turn, round
by round, in one process:

    bare          zero_grad, forward, cross-entropy, backward, the optimiser's step; with SGD and with Adam
    single loop   SingleLoop with 1, 10, 100 or 1,000 constraints on groups of rows (a row of the Jacobian every tenth
                  step), with SGD and with Adam; computing the values of the constraints is part of the step
    own loop      AugmentedLagrangian with SGD: constraint from the same logits, weights from the step before
    two batches   the same with the weights from a second, independent batch (one more forward pass, no gradients)
    fit           one D(x, y, z) and step of method="sgd" inside fit, which draws two batches for every step

and a full-batch test beside a pass of the bare loop over the same rows. Times are those of the fastest round of each,
so that little of what else the machine does is in them; ratios are to the bare loop with the same optimiser. On a GPU
the memory is what PyTorch has allocated at most, the first Jacobian included.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from auglag.stochastic.limits import Ledger
from auglag.torch import AdaptiveEpochs, AugmentedLagrangian, SingleLoop, at_most
from auglag.torch.data import as_source
from auglag.torch.distributed import Team
from auglag.torch.full_batch import FullBatch
from auglag.torch.functions import Functions
from auglag.torch.lagrangian import Subproblem
from auglag.torch.oracle import Oracle
from auglag.torch.prox import ProxMap
from auglag.torch.variables import Variables

CLASSES, CONSTRAINTS = 10, (1, 10, 100, 1000)
OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda params: torch.optim.SGD(params, lr=1e-3),
    "Adam": lambda params: torch.optim.Adam(params, lr=1e-4),
}
INPUTS, TEST = 1024, "full-batch test, per batch of its rows"
LIMIT = {"class 0": at_most(0.5)}


def network(inputs: int, width: int, device: torch.device) -> Any:
    torch.manual_seed(0)
    layers: list[Any] = []
    for a, b in ((inputs, width), (width, width), (width, width)):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, CLASSES)).to(device)


def both(model: Any, batch: Any) -> tuple[Any, Any]:
    """Cross-entropy over all rows, and over the rows of class 0 as a mean over all rows."""
    X, t = batch
    losses = torch.nn.functional.cross_entropy(model(X), t, reduction="none")
    return losses.mean(), (losses * (t == 0)).mean() * CLASSES


class Case:
    """One way to step, on a model of its own."""

    def __init__(self, model: Any, data: Any, batch: int, optimizer: str = "SGD") -> None:
        self.model, self.data, self.batch = model, data, batch
        self.optimizer = OPTIMIZERS[optimizer](model.parameters())
        self.device = data[0].device
        self.position = 0

    def next(self) -> Any:
        rows = len(self.data[1])
        start = self.position
        self.position = (start + self.batch) % (rows - self.batch + 1)
        return self.data[0][start : start + self.batch], self.data[1][start : start + self.batch]


def bare(case: Case) -> Callable[[], None]:
    def step() -> None:
        X, t = case.next()
        case.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(case.model(X), t).backward()
        case.optimizer.step()

    return step


def own_loop(case: Case, second: bool) -> Callable[[], None]:
    al = AugmentedLagrangian(case.model, LIMIT, optimizer=case.optimizer, epochs=AdaptiveEpochs(10**9))

    def step() -> None:
        other = None
        if second:
            with torch.no_grad():
                other = both(case.model, case.next())[1]
        loss, values = both(case.model, case.next())
        case.optimizer.zero_grad()
        al.loss(loss, values, other).backward()
        case.optimizer.step()
        al.step()

    return step


def single_loop(case: Case, m: int) -> Callable[[], None]:
    al = SingleLoop(case.model, {"groups": at_most(3.0)}, optimizer=case.optimizer, per_pass=64)

    def step() -> None:
        first = case.position
        X, t = case.next()
        case.optimizer.zero_grad()
        losses = torch.nn.functional.cross_entropy(case.model(X), t, reduction="none")
        group = torch.arange(first, first + len(losses), device=losses.device) % m
        values = losses.new_zeros(m).index_add(0, group, losses) * (m / len(losses))
        al.loss(losses.mean(), values).backward()
        case.optimizer.step()
        al.step()

    return step


def full_batch(case: Case) -> tuple[FullBatch, ProxMap]:
    variables = Variables(case.model.named_parameters())
    team = Team(variables.device)
    functions = Functions(case.model, both, LIMIT, variables)
    source = as_source(case.data, team, case.batch)
    return FullBatch(variables, functions, source, team, Ledger()), ProxMap(variables, ())


def in_fit(case: Case) -> Callable[[], None]:
    full, prox = full_batch(case)
    x = full.variables.read()
    y = full.values(x).c * 0.0
    subproblem = Subproblem(full, prox, y, 1.0)
    oracle = Oracle(subproblem, full.source, full.ledger, case.batch, 0, lambda: "")
    oracle.begin(subproblem.test(x))
    samples = oracle.samples(10**7)

    def step() -> None:
        oracle.step_(*oracle.estimate(next(samples)), 1e-3)

    return step


def timed(step: Callable[[], None], steps: int, device: torch.device) -> float:
    """Seconds per step: of the processor's time, or of the clock on the wall for a GPU."""
    clock = time.process_time
    if device.type == "cuda":
        clock = time.perf_counter
        torch.cuda.synchronize(device)
    started = clock()
    for _ in range(steps):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (clock() - started) / steps


def measure(
    device: torch.device, width: int, batch: int, rows: int, steps: int, rounds: int, *, double: bool = True
) -> dict[str, Any]:
    """All ways of one size; `double` says whether the double loop is among them."""
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(rows, INPUTS, generator=generator).to(device)
    t = torch.randint(CLASSES, (rows,), generator=generator).to(device)

    def case(optimizer: str = "SGD") -> Case:
        return Case(network(INPUTS, width, device), (X, t), batch, optimizer)

    ways: dict[str, tuple[str, Callable[[], Callable[[], None]]]] = {}
    for kind in OPTIMIZERS:
        ways[f"bare {kind}"] = kind, lambda kind=kind: bare(case(kind))
        for m in CONSTRAINTS:
            ways[f"SingleLoop, {kind}, m = {m}"] = kind, lambda kind=kind, m=m: single_loop(case(kind), m)
    if double:
        ways["AugmentedLagrangian, SGD"] = "SGD", lambda: own_loop(case(), second=False)
        ways["AugmentedLagrangian, SGD, second batch for the weights"] = "SGD", lambda: own_loop(case(), second=True)
        ways["fit, method='sgd' (two batches)"] = "SGD", lambda: in_fit(case())
    stepping, memory = {}, {}
    for name, (_, make) in ways.items():
        stepping[name], memory[name] = prepared(make, max(12, steps // 4), device)
    times: dict[str, list[float]] = {name: [] for name in ways}
    kinds = {name: kind for name, (kind, _) in ways.items()}
    if double:
        full, prox = full_batch(case())
        times[TEST], kinds[TEST] = [], "SGD"

    def test() -> None:
        x = full.variables.read()
        Subproblem(full, prox, full.values(x).c * 0.0, 1.0).test(x)

    for _ in range(rounds):
        for name, step in stepping.items():
            times[name].append(timed(step, steps, device))
        if double:
            times[TEST].append(timed(test, 1, device) / (rows / batch))
    fastest = {name: min(values) for name, values in times.items()}
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "CPU",
        "kind": device.type,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "parameters": sum(p.numel() for p in network(INPUTS, width, device).parameters()),
        "batch": batch,
        "rows": rows,
        "milliseconds": {name: 1e3 * value for name, value in fastest.items()},
        "ratio": {name: value / fastest[f"bare {kinds[name]}"] for name, value in fastest.items()},
        "memory": memory,
    }


def prepared(make: Callable[[], Callable[[], None]], steps: int, device: torch.device) -> tuple[Any, float | None]:
    """A way after its first steps, and the bytes that these took at most (on a GPU)."""
    if device.type != "cuda":
        step = make()
        timed(step, steps, device)
        return step, None
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    step = make()
    timed(step, steps, device)
    return step, float(torch.cuda.max_memory_allocated(device) - before)


def table(results: list[dict[str, Any]]) -> str:
    lines = ["# Time per step beside a bare PyTorch loop", "", "`python benchmarks/torch_step.py`, with its notes.", ""]
    for r in results:
        memory = any(v is not None for v in r["memory"].values())
        lines += [
            f"{r['kind']} ({r['device']}), PyTorch {r['torch']}, {r['threads']} thread(s); "
            f"{r['parameters'] / 1e6:.1f} million parameters, batches of {r['batch']}, {r['rows']} rows.",
            "",
            "| step | ms | ratio to bare |" + (" memory, MB |" if memory else ""),
            "|---|---|---|" + ("---|" if memory else ""),
        ]
        for name, ms in r["milliseconds"].items():
            taken = r["memory"].get(name)
            last = f" {taken / 1e6:,.0f} |" if taken is not None else " |" if memory else ""
            lines.append(f"| {name} | {ms:.3f} | {r['ratio'][name]:.2f} |{last}")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="measure on the CUDA device, too")
    parser.add_argument("--large", action="store_true", help="10.5 million parameters on the CPU, too")
    parser.add_argument("--quick", action="store_true", help="few steps: does it run?")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    if options.gpu and not torch.cuda.is_available():
        parser.error("--gpu needs a CUDA device")
    rounds, factor = (2, 0.1) if options.quick else (options.rounds, 1.0)
    results = [measure(torch.device("cpu"), 256, 128, 2048, max(3, int(20 * factor)), rounds)]
    if options.large:
        results.append(measure(torch.device("cpu"), 2048, 128, 1024, max(3, int(5 * factor)), rounds))
    if options.gpu:
        for batch in (128, 1024):
            results.append(measure(torch.device("cuda"), 2048, batch, 16384, max(3, int(200 * factor)), rounds))
            big = max(3, int(60 * factor))
            results.append(measure(torch.device("cuda"), 6912, batch, 16384, big, rounds, double=False))
    options.out.mkdir(parents=True, exist_ok=True)
    name = "torch_step_gpu" if options.gpu else "torch_step_cpu"
    (options.out / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (options.out / f"{name}.md").write_text(table(results), encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
