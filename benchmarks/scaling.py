"""Time and memory against n on sparse families, beside IPOPT: `python benchmarks/scaling.py [largest n]` (1e5).

`--first` hides the Hessians from both: auglag then learns the curvature, IPOPT has its limited memory. Writes
scaling_first.md and .csv. `--family chain` measures families whose names begin so, `--resume` keeps the rows that the
csv has and measures what is missing; without it, rows that are measured take the place of those that were there.

A pendulum swung up by a bounded torque (trapezoidal rule; two bounds), a minimal surface over an obstacle, a Rosenbrock
chain with constraints. CasADi (`pip install casadi`, which brings IPOPT) provides functions and derivatives to both
solvers. Each run is a process of its own, so that its peak memory is its own. Times are CPU seconds of the solve, user
functions included, the derivation of the functions not. A run that takes longer or more memory than it may is said to
have done so, and larger ones of its family are left out. Writes benchmarks/results/scaling.md and scaling.csv.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
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
SIZES = (10**2, 10**3, 10**4, 10**5, 10**6)
LIMIT = 180  #: CPU seconds that one process may take, derivation of the functions included
MEMORY = 10  #: GiB of addresses that one process may take
FIELDS = (
    *("family", "size", "solver", "n", "m", "seconds", "f", "solved", "status", "iterations"),
    *("functions", "factors", "mib", "failure"),
)
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
        "status": stats["return_status"],
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
        "status": res.status.name,
        "iterations": int(res.njev),
        "functions": functions.seconds,
        "factors": factors.seconds,
    }


def one(family, size, solver, first):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY << 30, MEMORY << 30))
    built = FAMILIES[family](size)
    row = (by_ipopt if solver == "ipopt" else by_auglag)(*built, first)
    row |= {"mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "n": built[3].size, "m": built[6].size}
    print(json.dumps(row))


def spent(pid):
    """CPU seconds of a running process. A limit of the system's would make the clock in that process coarse."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(family, size, solver, first):
    """The row of a run in a process of its own; with "failure" if it did not come to its end."""
    command = [sys.executable, __file__, "--one", family, str(size), solver, *(["--first"] if first else [])]
    row = {"family": family, "size": size, "solver": solver}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while True:
            try:
                out, errors = process.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                if spent(process.pid) > LIMIT:
                    process.kill()
                    return row | {"failure": f"over {LIMIT} s"}
    if process.returncode == 0:
        return row | json.loads(out.splitlines()[-1])
    if "bad_alloc" in errors or "MemoryError" in errors:
        return row | {"failure": f"over {MEMORY} GiB"}
    print(errors[-2000:], file=sys.stderr)
    return row | {"failure": "failed"}


def cell(row):
    if row is None or row.get("failure"):
        return f"{row['failure'] if row else ''} | |"
    return f"{row['seconds']:.2f}{'' if row['solved'] else ' (not solved)'} | {row['iterations']} | {row['mib']:.0f}"


def slope(rows):
    """The exponent p of time ~ n^p, from n = 1000 on."""
    points = [(row["n"], row["seconds"]) for row in rows if row["n"] > 500 and row["solved"]]
    if len(points) < 2:
        return float("nan")
    n, seconds = np.log(np.array(points)).T
    return float(np.polyfit(n, seconds, 1)[0])


def table(rows):
    lines = [
        "| family | n | m | auglag: CPU s | gradients | MiB | IPOPT: CPU s | iterations | MiB | time ratio | same f |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        for size in SIZES:
            ours, theirs = (rows.get((family, size, solver)) for solver in SOLVERS)
            ended = [row for row in (ours, theirs) if row and not row.get("failure")]
            if not ended:
                continue
            ratio, same = "", ""
            if len(ended) == 2 and all(row["solved"] for row in ended):
                ratio = f"{ours['seconds'] / theirs['seconds']:.2f}"
                gap = (ours["f"] - theirs["f"]) / max(1.0, abs(theirs["f"]))
                same = "yes" if abs(gap) <= 1e-4 else "ours is lower" if gap < 0 else "ours is higher"
            sizes = f"{ended[0]['n']} | {ended[0]['m']}"
            lines.append(f"| {family} | {sizes} | {cell(ours)} | {cell(theirs)} | {ratio} | {same} |")
    lines += [
        "",
        "| family | slope of auglag's time | of IPOPT's | at the largest n: functions, factors, rest |",
        "|---|---|---|---|",
    ]
    for family in FAMILIES:
        own, theirs = (
            [rows[key] for size in SIZES if (key := (family, size, solver)) in rows and not rows[key].get("failure")]
            for solver in SOLVERS
        )
        where = ""
        if own:
            last = own[-1]
            rest = last["seconds"] - last["functions"] - last["factors"]
            where = ", ".join(
                f"{100 * part / last['seconds']:.0f} %" for part in (last["functions"], last["factors"], rest)
            )
        lines.append(f"| {family} | {slope(own):.2f} | {slope(theirs):.2f} | {where} |")
    return lines


def read(path):
    """The rows of a csv by family, size and solver."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        for name in ("seconds", "f", "functions", "factors", "mib"):
            row[name] = float(row[name]) if row[name] else None
        for name in ("size", "n", "m", "iterations"):
            row[name] = int(row[name]) if row[name] else None
        row["solved"] = row["solved"] == "True"
    return {(row["family"], row["size"], row["solver"]): row for row in rows}


def write(rows, first):
    name = "scaling_first" if first else "scaling"
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        keys = ((family, size, solver) for family in FAMILIES for size in SIZES for solver in SOLVERS)
        writer.writerows(rows[key] for key in keys if key in rows)
    lines = [
        f"# Time and memory against n{', first derivatives only' if first else ''}",
        "",
        f"Redo with `python benchmarks/scaling.py{' --first' if first else ''}`.",
        "Default settings of both; IPOPT 3.14 with MUMPS, from CasADi,",
        "tol 1e-8. CPU seconds of one process, one thread; MiB is its peak, functions and their derivation included.",
        f"A process may take {LIMIT} CPU seconds, derivation included, and {MEMORY} GiB of addresses;",
        "one that takes more is said to have done so, and larger ones of its family are left out. IPOPT may end",
        "before, not solved, where it gets no more memory. Blank cells and sizes that are missing were not measured.",
        "Slopes are from n = 1000 on, over the runs that were solved.",
        "",
        *table(rows),
    ]
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description="Time and memory against n, beside IPOPT.")
    parser.add_argument("largest", type=int, nargs="?", default=10**5)
    parser.add_argument("--first", action="store_true", help="first derivatives only")
    parser.add_argument("--family", default="", help="families whose names begin so")
    parser.add_argument("--resume", action="store_true", help="keep rows that were measured")
    parser.add_argument("--one", nargs=3, metavar=("FAMILY", "SIZE", "SOLVER"), help="one run, in this process")
    given = parser.parse_args()
    if given.one:
        one(given.one[0], int(given.one[1]), given.one[2], given.first)
        return
    rows = read(RESULTS / f"scaling{'_first' if given.first else ''}.csv")
    for family in (name for name in FAMILIES if name.startswith(given.family)):
        failed = set()
        for size in (size for size in SIZES if size <= given.largest):
            for solver in (solver for solver in SOLVERS if solver not in failed):
                key = family, size, solver
                if not (given.resume and key in rows):
                    rows[key] = measured(*key, given.first)
                    write(rows, given.first)
                    print({name: value for name, value in rows[key].items() if value is not None}, flush=True)
                if rows[key].get("failure"):
                    failed.add(solver)


if __name__ == "__main__":
    main()
