"""What the library does, digit by digit: recorded before a change of the code, and compared after it.

    python benchmarks/behaviour.py record before.jsonl            # every set; goes on where it was interrupted
    python benchmarks/behaviour.py record before.jsonl --sets hs stochastic
    python benchmarks/behaviour.py compare before.jsonl after.jsonl

A record has one line per run: the status, the objective, digests of the bits of x and of the multipliers, and every
count. Limits are evaluations and passes over the data, never seconds, so that two runs of the same code on the same
machine give the same file, but for the CPU seconds of each run. `compare` names each run that differs and what differs
in it, exits with 1 if any does, and adds the seconds up.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import hashlib
import json
import math
import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from degenerate import FAMILIES, problem_of
from scipy.optimize import Bounds, NonlinearConstraint

import auglag
from auglag import stochastic
from auglag.bench.counted import CountedProblem
from auglag.bench.spec import Limits
from auglag.problems import cutest, hock_schittkowski

#: Gradients per run: enough for all but a handful of the problems, and few enough for those.
GRADIENTS = 600
COUNTS = ("nit", "nit_inner", "nfev", "njev", "nhev", "constr_nfev", "constr_njev", "constr_nhev")


def digest(*arrays):
    """The bits of arrays in sixteen letters."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(np.asarray(array, dtype=np.float64)).tobytes())
    return found.hexdigest()[:16]


def line_of(result):
    """The line of a run of `minimize`."""
    return {
        "status": result.status.name,
        "fun": result.fun,
        "x": digest(result.x),
        "y": digest(result.y),
        "residual": result.certificate.residual,
        "penalty": result.penalty,
        "message": result.message,
        **{name: int(result[name]) for name in COUNTS},
    }


def quietly(function, *args, **options):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


def solved(problem, *, hide_hessians=False, **options):
    """One run of `minimize` on a problem with counted evaluations."""
    counted = CountedProblem(problem, Limits(gradients=GRADIENTS, seconds=1e9))
    counted.hide_hessians = hide_hessians
    result = quietly(auglag.minimize, counted, tol=1e-8, check_derivatives=False, **options)
    return {**line_of(result), "gradients": counted.gradients}


def known(problem, *, order=2, **options):
    """One run on a problem of Hock and Schittkowski with derivatives up to an order, the rest by differences."""
    given = [{}, {"jac": problem.grad}, {"jac": problem.grad, "hess": problem.hess}][order]
    rows = []
    for row in problem.rows:
        extra = [{}, {"jac": row.jac}, {"jac": row.jac, "hess": row.hess}][order]
        rows.append(NonlinearConstraint(row.fun, row.lower, row.upper, **extra))
    bounds, budget = Bounds(problem.lower, problem.upper), auglag.Budget(evaluations=3000)
    options = {**given, "bounds": bounds, "constraints": rows, "budget": budget, **options}
    return line_of(quietly(auglag.minimize, problem.fun, problem.x0, **options))


def cutest_problems(**options):
    for name in cutest.select():
        yield name, lambda name=name: solved(cutest.load(name), **options)


def hs_problems():
    runs = [{"order": 2}, {"order": 1}, {"order": 0}, {"inner": "panoc"}, {"slacks": "explicit"}]
    runs += [{"variant": v} for v in ("adaptive-full", "always-full", "adaptive-short", "always-short")]
    runs += [{"preset": p} for p in ("paper", "ialm", "ippm", "algencan")]
    for problem in hock_schittkowski.PROBLEMS.values():
        for options in runs:
            label = " ".join(f"{key}={value}" for key, value in options.items())
            yield f"{problem.name} {label}", lambda p=problem, o=options: known(p, **o)


def degenerate_problems():
    for family in FAMILIES:
        for seed in range(6):
            yield f"{family} {seed}", lambda f=family, s=seed: solved(problem_of(f, s))


def trained(result):
    """The line of a stochastic or a PyTorch run."""
    return {
        "status": result.status.name,
        "fun": float(result.fun),
        "x": digest(np.asarray(result.x)),
        "y": digest(*[np.atleast_1d(v) for v in _multipliers(result)]),
        "trace": digest([[row["residual"], row["violation"], row["objective"]] for row in result.trace]),
        "epochs": result.epochs,
        "gradients": result.gradients,
        "tests": result.tests,
        "nit": result.nit,
        "nit_inner": result.nit_inner,
    }


def _multipliers(result):
    return result.multipliers.values() if isinstance(result.multipliers, dict) else [result.multipliers]


def two_classes(seed, rows=300, n=6):
    """A Neyman-Pearson problem with an intercept, so that its constraint is active."""
    rng = np.random.default_rng(seed)
    plus = np.hstack([rng.standard_normal((rows, n - 1)) + 0.7, np.ones((rows, 1))])
    minus = np.hstack([rng.standard_normal((rows + 50, n - 1)) - 0.4, np.ones((rows + 50, 1))])
    blocks = [
        stochastic.LinearBlock(plus, 1.0, objective=1.0, constraints=[0.0]),
        stochastic.LinearBlock(minus, -1.0, constraints=[1.0]),
    ]
    return stochastic.StochasticProblem(blocks, lower=[-np.inf], upper=[0.55])


def stochastic_runs():
    methods = ("auto", "sgd", "pstorm", "svrg", "gauss-newton", "lbfgs")
    for seed in range(3):
        for method in methods:
            for variant in (None, "always-short"):
                if method == "auto" and variant is not None:
                    continue
                options = {"method": method, "seed": seed, "tol": 1e-6, "max_epochs": 60, "variant": variant}
                yield (
                    f"{method} {variant} {seed}",
                    lambda o=options: trained(stochastic.minimize(two_classes(o["seed"]), np.linspace(-1, 1, 6), **o)),
                )
        for preset in ("paper", "paper-fixed", "stoc-ialm"):
            options = {"preset": preset, "seed": seed, "tol": 1e-3, "max_epochs": 300}
            yield (
                f"{preset} {seed}",
                lambda o=options: trained(stochastic.minimize(two_classes(o["seed"]), np.linspace(-1, 1, 6), **o)),
            )


def torch_runs():
    import torch

    from auglag.torch import AugmentedLagrangian, at_most, fit

    def rows(seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(400, 5, generator=generator, dtype=torch.float64)
        noise = torch.randn(400, generator=generator, dtype=torch.float64)
        return x, (x.sum(1) + 1.5 * noise > 0.3).to(torch.float64)

    def objective(model, batch):
        return (torch.nn.functional.softplus(-model(batch[0]).squeeze(-1)) * batch[1]).mean()

    def alarms(model, batch):
        return (torch.nn.functional.softplus(model(batch[0]).squeeze(-1)) * (1 - batch[1])).mean()

    def model_of(seed):
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()

    def fitted(seed, method):
        limits = {"false alarms": at_most(0.25, alarms)}
        return trained(
            fit(model_of(seed), objective, limits, rows(seed), method=method, seed=seed, tol=1e-5, max_epochs=40)
        )

    def own_loop(seed):
        model, data = model_of(seed), rows(seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
        al = AugmentedLagrangian(model, {"false alarms": at_most(0.25)}, optimizer=optimizer, tol=1e-6)
        generator = torch.Generator().manual_seed(seed)

        def both(model, batch):
            return objective(model, batch), {"false alarms": alarms(model, batch)}

        for _ in range(1500):
            index = torch.randint(400, (50,), generator=generator)
            loss, values = both(model, (data[0][index], data[1][index]))
            optimizer.zero_grad()
            al.loss(loss, values).backward()
            optimizer.step()
            al.step()
            if al.due:
                al.test(both, data)
        return {
            "x": digest(*[p.detach().numpy() for p in model.parameters()]),
            "y": digest(al.multipliers),
            "trace": digest([[row["residual"], row["beta"], row["objective"]] for row in al.trace]),
            "beta": al.beta,
            "T": al.T,
        }

    for seed in range(3):
        for method in ("auto", "sgd", "pstorm", "svrg", "adam", "lbfgs"):
            yield f"fit {method} {seed}", lambda s=seed, m=method: fitted(s, m)
        yield f"own loop {seed}", lambda s=seed: own_loop(s)


SETS = {
    "hs": hs_problems,
    "stochastic": stochastic_runs,
    "torch": torch_runs,
    "degenerate": degenerate_problems,
    "cutest": cutest_problems,
    "cutest-first": lambda: cutest_problems(hide_hessians=True),
    "cutest-one-start": lambda: cutest_problems(restarts=0),
}


def read(path):
    """name -> line."""
    if not Path(path).exists():
        return {}
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return {line.pop("name"): line for line in lines}


def record(path, sets, every):
    done = read(path)
    with open(path, "a") as file:
        for kind in sets:
            for index, (name, run) in enumerate(SETS[kind]()):
                name = f"{kind}: {name}"
                if name in done or index % every:
                    continue
                start = time.process_time()
                try:
                    line = run()
                except Exception as error:
                    line = {"error": f"{type(error).__name__}: {error}"[:200]}
                line["cpu"] = round(time.process_time() - start, 4)
                file.write(json.dumps({"name": name, **line}) + "\n")
                file.flush()
            print(kind, "recorded", file=sys.stderr, flush=True)


def compare(before, after):
    old, new = read(before), read(after)
    common = [name for name in old if name in new]
    seconds = [[record[name].pop("cpu", math.nan) for name in common] for record in (old, new)]
    different = [name for name in common if old[name] != new[name]]
    for name in different:
        keys = [k for k in {**old[name], **new[name]} if old[name].get(k) != new[name].get(k)]
        print(f"{name}: " + "; ".join(f"{k} {old[name].get(k)} -> {new[name].get(k)}" for k in keys))
    print(f"{len(common)} runs compared, {len(different)} differ")
    both = [(a, b) for a, b in zip(*seconds, strict=True) if a > 0.0 and b > 0.0]
    if both:
        mean = statistics.geometric_mean(b / a for a, b in both)
        print(f"CPU seconds {sum(a for a, _ in both):.1f} -> {sum(b for _, b in both):.1f}, mean ratio {mean:.2f}")
    return bool(different) or not common


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record")
    recorder.add_argument("path")
    recorder.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    recorder.add_argument("--every", type=int, default=1, help="only every so many-th run of a set")
    comparer = commands.add_parser("compare")
    comparer.add_argument("before")
    comparer.add_argument("after")
    arguments = parser.parse_args()
    if arguments.command == "record":
        record(arguments.path, arguments.sets, arguments.every)
        return 0
    return int(compare(arguments.before, arguments.after))


if __name__ == "__main__":
    sys.exit(main())
