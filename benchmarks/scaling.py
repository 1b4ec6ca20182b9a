"""Time and memory against n on sparse families, beside IPOPT: `python benchmarks/scaling.py [largest n]`.

`python benchmarks/scaling.py --first [largest n]` (1e4 unless given) hides the Hessians from both: auglag then learns
the curvature, IPOPT has its limited memory. Writes scaling_first.md and .csv.

A pendulum swung up by a bounded torque (trapezoidal rule; two bounds), a minimal surface over an obstacle, a Rosenbrock
chain with constraints. CasADi (`pip install casadi`, which brings IPOPT) provides functions and derivatives to both
solvers. Each run is a process of its own, so that its peak memory is its own. Times are CPU seconds of the solve, user
functions included, the derivation of the functions not. Writes benchmarks/results/scaling.md and scaling.csv.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import csv
import json
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

SOLVERS = ("auglag", "ipopt")
FIRST = "--first"
SIZES = (10**2, 10**3, 10**4, 10**5)
LIMIT = 900  #: seconds that one run may take
RESULTS = Path(__file__).parent / "results"


def pendulum(size, seconds=4.0, torque=5.0):
    """Swing up with a bounded torque that is constant between grid points. n = 3 N + 2, m = 2 N + 4."""
    import casadi as ca

    steps = max(2, (size - 2) // 3)
    q, v, u = ca.SX.sym("q", steps + 1), ca.SX.sym("v", steps + 1), ca.SX.sym("u", steps)
    h = seconds / steps
    rows = [
        q[1:] - q[:-1] - h / 2 * (v[1:] + v[:-1]),
        v[1:] - v[:-1] - h * u + 9.81 * h / 2 * (ca.sin(q[1:]) + ca.sin(q[:-1])),
        ca.vertcat(q[0], v[0], q[-1] - np.pi, v[-1]),
    ]
    x, c = ca.vertcat(q, v, u), ca.vertcat(*rows)
    start = np.concatenate([np.linspace(0, np.pi, steps + 1), np.zeros(2 * steps + 1)])
    bound = np.concatenate([np.full(2 * steps + 2, np.inf), np.full(steps, torque)])
    return x, h * ca.sumsqr(u), c, start, -bound, bound, np.zeros(c.numel()), np.zeros(c.numel())


def surface(size):
    """The least area over a square with a tent below it, heights of the inner grid as variables; no rows, bounds only.

    One row, the mean height, is fixed so that there is a constraint.
    """
    import casadi as ca

    side = max(3, int(size**0.5))
    z = ca.SX.sym("z", side, side)
    grid = np.linspace(0, 1, side + 2)
    full = ca.SX.zeros(side + 2, side + 2)
    full[1:-1, 1:-1] = z
    dx, dy = (full[1:, :-1] - full[:-1, :-1]) * (side + 1), (full[:-1, 1:] - full[:-1, :-1]) * (side + 1)
    area = ca.sum1(ca.sum2(ca.sqrt(1 + dx**2 + dy**2))) / (side + 1) ** 2
    a, b = np.meshgrid(grid[1:-1], grid[1:-1])
    tent = np.maximum(0.0, 0.5 - 2 * np.maximum(np.abs(a - 0.5), np.abs(b - 0.5))).ravel()
    x = ca.reshape(z, side * side, 1)
    mean = ca.sum1(x) / side**2
    return x, area, mean, tent + 0.1, tent, np.full(tent.size, np.inf), np.array([0.0]), np.array([1.0])


def chain(size):
    """Rosenbrock's function on a chain with a nonlinear equality for every pair of neighbours but one."""
    import casadi as ca

    x = ca.SX.sym("x", size)
    f = ca.sumsqr(10 * (x[1:] - x[:-1] ** 2)) + ca.sumsqr(1 - x[:-1])
    i = np.arange(0, size - 2, 2)
    c = 3 * x[i + 1] ** 3 + 2 * x[i + 2] - 5 + ca.sin(x[i + 1] - x[i + 2]) * ca.sin(x[i + 1] + x[i + 2])
    start = np.where(np.arange(size) % 2 == 0, -1.2, 1.0)
    free = np.full(size, np.inf)
    return x, f, c, start, -free, free, np.zeros(i.size), np.zeros(i.size)


FAMILIES = {
    "pendulum, 4 s, torque 5": pendulum,
    "pendulum, 3 s, torque 10": partial(pendulum, seconds=3.0, torque=10.0),
    "surface": surface,
    "chain": chain,
}


def by_ipopt(x, f, c, start, lower, upper, cl, cu, first):
    import casadi as ca

    options = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "tol": 1e-8}}
    if first:
        options["ipopt"] |= {"hessian_approximation": "limited-memory"}
    solver = ca.nlpsol("s", "ipopt", {"x": x, "f": f, "g": c}, options)
    began = time.process_time()
    found = solver(x0=start, lbx=lower, ubx=upper, lbg=cl, ubg=cu)
    seconds = time.process_time() - began
    stats = solver.stats()
    functions = sum(stats[key] for key in stats if key.startswith("t_proc_nlp_"))
    return {
        "seconds": seconds,
        "f": float(found["f"]),
        "solved": bool(stats["success"]),
        "iterations": int(stats["iter_count"]),
        "functions": functions,
    }


class Clock:
    """CPU seconds spent in a function."""

    def __init__(self):
        self.seconds = 0.0

    def timed(self, function):
        def call(*arguments, **options):
            began = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds += time.process_time() - began

        return call


def by_auglag(x, f, c, start, lower, upper, cl, cu, first):
    import auglag
    from auglag.bench.counted import CountedProblem
    from auglag.bench.spec import Limits
    from auglag.casadi import CasadiProblem
    from auglag.kkt.linear import static, superlu

    problem = CasadiProblem({"x": x, "f": f, "g": c}, x0=start, lbx=lower, ubx=upper, lbg=cl, ubg=cu)
    functions, factors = Clock(), Clock()
    for name in ("f", "grad", "c", "jac", "hess"):
        setattr(problem, name, functions.timed(getattr(problem, name)))
    superlu.splu = factors.timed(superlu.splu)
    static.StaticFactor._factorise = factors.timed(static.StaticFactor._factorise)
    if first:
        problem = CountedProblem(problem, Limits(gradients=10**6, seconds=LIMIT, wall=LIMIT))
        problem.hide_hessians = True
    began = time.process_time()
    res = auglag.minimize(problem)
    return {
        "seconds": time.process_time() - began,
        "f": float(res.fun),
        "solved": bool(res.success),
        "iterations": int(res.njev),
        "functions": functions.seconds,
        "factors": factors.seconds,
    }


def one(family, size, solver, first):
    built = FAMILIES[family](size)
    row = (by_ipopt if solver == "ipopt" else by_auglag)(*built, first)
    row |= {"mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "n": built[3].size, "m": built[6].size}
    print(json.dumps(row))


def measured(family, size, solver, first):
    command = [sys.executable, __file__, family, str(size), solver, *([FIRST] if first else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None
    return None if done.returncode else json.loads(done.stdout.splitlines()[-1])


def cell(row):
    if row is None:
        return "failed | |"
    return f"{row['seconds']:.2f}{'' if row['solved'] else ' (not solved)'} | {row['iterations']} | {row['mib']:.0f}"


def slope(rows):
    """The exponent p of time ~ n^p, from n = 1000 on."""
    points = [(row["n"], row["seconds"]) for row in rows if row is not None and row["n"] > 500]
    if len(points) < 2:
        return float("nan")
    n, seconds = np.log(np.array(points)).T
    return float(np.polyfit(n, seconds, 1)[0])


def table(results):
    lines = [
        "| family | n | m | auglag: CPU s | gradients | MiB | IPOPT: CPU s | iterations | MiB | time ratio | same f |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (family, _), rows in results.items():
        ours, theirs = (rows[solver] for solver in SOLVERS)
        known = ours or theirs
        if known is None:
            continue
        ratio, same = "", ""
        if ours and theirs:
            ratio = f"{ours['seconds'] / theirs['seconds']:.2f}"
            gap = (ours["f"] - theirs["f"]) / max(1.0, abs(theirs["f"]))
            same = "yes" if abs(gap) <= 1e-4 else "ours is lower" if gap < 0 else "ours is higher"
        lines.append(f"| {family} | {known['n']} | {known['m']} | {cell(ours)} | {cell(theirs)} | {ratio} | {same} |")
    lines += [
        "",
        "| family | slope of auglag's time | of IPOPT's | at the largest n: functions, factors, rest |",
        "|---|---|---|---|",
    ]
    for family in FAMILIES:
        own = {solver: [rows[solver] for (name, _), rows in results.items() if name == family] for solver in SOLVERS}
        last = next((row for row in reversed(own["auglag"]) if row is not None), None)
        where = ""
        if last is not None:
            rest = last["seconds"] - last["functions"] - last["factors"]
            where = ", ".join(
                f"{100 * part / last['seconds']:.0f} %" for part in (last["functions"], last["factors"], rest)
            )
        lines.append(f"| {family} | {slope(own['auglag']):.2f} | {slope(own['ipopt']):.2f} | {where} |")
    return lines


def main():
    first = FIRST in sys.argv
    given = [argument for argument in sys.argv[1:] if argument != FIRST]
    if len(given) == 3:
        one(given[0], int(given[1]), given[2], first)
        return
    largest = int(given[0]) if given else 10**4 if first else SIZES[-1]
    results = {}
    for family in FAMILIES:
        for size in SIZES:
            if size <= largest:
                results[family, size] = {solver: measured(family, size, solver, first) for solver in SOLVERS}
                print(family, size, results[family, size], flush=True)
    lines = [
        f"# Time and memory against n{', first derivatives only' if first else ''}",
        "",
        f"Redo with `python benchmarks/scaling.py{' ' + FIRST if first else ''}`.",
        "Default settings of both; IPOPT 3.14 with MUMPS, from CasADi,",
        "tol 1e-8. CPU seconds of one process, one thread; MiB is its peak, functions and their derivation included.",
        "Slopes are from n = 1000 on.",
        "",
        *table(results),
    ]
    name = "scaling_first" if first else "scaling"
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")
    fields = ("family", "solver", "n", "m", "seconds", "f", "solved", "iterations", "functions", "factors", "mib")
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        for (family, _), rows in results.items():
            writer.writerows({"family": family, "solver": s, **row} for s, row in rows.items() if row is not None)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
