"""Time per training step of auglag.torch beside a bare PyTorch SGD loop on the same model and batches.

    python benchmarks/torch_step.py [--gpu] [--out FOLDER] [--rounds 9] [--quick]

The model is a network with three hidden layers (10.5 million parameters; on a CPU 0.4 million, and with --large both);
the task is classification with a bound on the loss of one class. Measured in turn, round by round, in one process:

    bare          zero_grad, forward, cross-entropy, backward, torch.optim.SGD.step
    own loop      the same with AugmentedLagrangian: constraint from the same logits, weights from the step before
    two batches   the same with the weights from a second, independent batch (one more forward pass, no gradients)
    single loop   SingleLoop with 1, 10 or 100 constraints on groups of rows (a row of the Jacobian every tenth step)
    fit           one D(x, y, z) and step of method="sgd" inside fit, which draws two batches for every step

and a full-batch test beside a pass of the bare loop over the same rows. Ratios are medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
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

CLASSES = 10
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

    def __init__(self, model: Any, data: Any, batch: int) -> None:
        self.model, self.data, self.batch = model, data, batch
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
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
    al = SingleLoop(case.model, {"groups": at_most(0.5)}, optimizer=case.optimizer, per_pass=64)

    def step() -> None:
        X, t = case.next()
        case.optimizer.zero_grad()
        losses = torch.nn.functional.cross_entropy(case.model(X), t, reduction="none")
        group = torch.arange(len(losses), device=losses.device) % m
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


def measure(device: torch.device, width: int, batch: int, rows: int, steps: int, rounds: int) -> dict[str, Any]:
    inputs = 1024
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(rows, inputs, generator=generator).to(device)
    t = torch.randint(CLASSES, (rows,), generator=generator).to(device)
    cases = {
        name: Case(network(inputs, width, device), (X, t), batch)
        for name in ("bare", "own", "two", "fit", "test", "1", "10", "100")
    }
    ways = {
        "bare": bare(cases["bare"]),
        "own loop": own_loop(cases["own"], second=False),
        "two batches": own_loop(cases["two"], second=True),
        "fit": in_fit(cases["fit"]),
        **{f"single loop, {m}": single_loop(cases[str(m)], m) for m in (1, 10, 100)},
    }
    full, prox = full_batch(cases["test"])
    times: dict[str, list[float]] = {name: [] for name in (*ways, "test")}
    for step in ways.values():
        timed(step, max(3, steps // 4), device)
    for _ in range(rounds):
        for name, step in ways.items():
            times[name].append(timed(step, steps, device))

        def test() -> None:
            x = full.variables.read()
            y = full.values(x).c * 0.0
            Subproblem(full, prox, y, 1.0).test(x)

        times["test"].append(timed(test, 1, device) / (rows / batch))
    parameters = sum(p.numel() for p in cases["bare"].model.parameters())
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(times[name], times["bare"], strict=True)) for name in medians
    }
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "CPU",
        "kind": device.type,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "parameters": parameters,
        "batch": batch,
        "rows": rows,
        "milliseconds": {name: 1e3 * value for name, value in medians.items()},
        "ratio": ratios,
    }


LABELS = {
    "bare": "bare PyTorch SGD",
    "own loop": "AugmentedLagrangian, weights from the step before",
    "two batches": "AugmentedLagrangian, second batch for the weights",
    "fit": "fit, method='sgd' (two batches)",
    **{f"single loop, {m}": f"SingleLoop, {m} constraint values" for m in (1, 10, 100)},
    "test": "full-batch test, per batch of its rows",
}


def table(results: list[dict[str, Any]]) -> str:
    lines = ["# Time per step beside a bare PyTorch SGD loop", ""]
    for r in results:
        lines += [
            f"{r['kind']} ({r['device']}), PyTorch {r['torch']}, {r['threads']} thread(s); "
            f"{r['parameters'] / 1e6:.1f} million parameters, batches of {r['batch']}, {r['rows']} rows.",
            "",
            "| step | ms | ratio to bare |",
            "|---|---|---|",
        ]
        lines += [f"| {LABELS[n]} | {ms:.3f} | {r['ratio'][n]:.2f} |" for n, ms in r["milliseconds"].items()]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="measure on the CUDA device, too")
    parser.add_argument("--large", action="store_true", help="10.5 million parameters on the CPU, too")
    parser.add_argument("--quick", action="store_true", help="few steps: does it run?")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    if options.gpu and not torch.cuda.is_available():
        parser.error("--gpu needs a CUDA device")
    rounds, factor = (2, 0.1) if options.quick else (options.rounds, 1.0)
    results = [measure(torch.device("cpu"), 256, 128, 2048, max(3, int(30 * factor)), rounds)]
    if options.large:
        results.append(measure(torch.device("cpu"), 2048, 128, 1024, max(3, int(5 * factor)), rounds))
    if options.gpu:
        for batch in (128, 1024):
            results.append(measure(torch.device("cuda"), 2048, batch, 16384, max(3, int(200 * factor)), rounds))
    options.out.mkdir(parents=True, exist_ok=True)
    name = "torch_step_gpu" if options.gpu else "torch_step_cpu"
    (options.out / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (options.out / f"{name}.md").write_text(table(results), encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
