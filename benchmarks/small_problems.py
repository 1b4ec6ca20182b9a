"""CPU time of a whole call on small problems: HS71 and all Hock-Schittkowski problems, auglag beside SLSQP and IPOPT.

Redo with: python benchmarks/small_problems.py (writes benchmarks/results/small_problems.md; a few minutes)
           python benchmarks/small_problems.py --only HS71 HS14 (prints only)
Every solver gets the same Python functions. Solvers take turns, so that all see the same load of the machine; of a
solver's runs on a problem the fastest counts. A call is all of it: arguments, set-up, solve, result. Points are judged
by the same certificate (`auglag.certify`, R <= 1e-6); means are over the problems that a solver and SLSQP both solve.
IPOPT is the one of the ipyopt wheel (3.12, MUMPS), whose interface is a C extension.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.optimize as so

import auglag
from auglag.problems.hock_schittkowski import PROBLEMS

TOL = 1e-6
BASE = "SciPy's SLSQP"


def rows_of(known, order):
    extra = [{"jac": row.jac} | ({"hess": row.hess} if order == 2 else {}) for row in known.rows]
    return [so.NonlinearConstraint(r.fun, r.lower, r.upper, **e) for r, e in zip(known.rows, extra, strict=True)]


def ours(known, order):
    rows, bounds = rows_of(known, order), so.Bounds(known.lower, known.upper)
    second = {"hess": known.hess} if order == 2 else {}
    return lambda: (
        auglag.minimize(known.fun, known.x0, jac=known.grad, bounds=bounds, constraints=rows, tol=TOL, **second).x
    )


def slsqp(known):
    """Constraints as dictionaries, SLSQP's own form; finite sides only."""
    constraints = []
    for row in known.rows:
        low, high = np.broadcast_arrays(np.atleast_1d(row.lower), np.atleast_1d(row.upper))
        equal = (low == high).all()
        if equal:
            constraints.append({"type": "eq", "fun": lambda x, r=row: r.fun(x) - r.lower, "jac": row.jac})
            continue
        if np.isfinite(low).all():
            constraints.append({"type": "ineq", "fun": lambda x, r=row: r.fun(x) - r.lower, "jac": row.jac})
        if np.isfinite(high).all():
            constraints.append(
                {"type": "ineq", "fun": lambda x, r=row: r.upper - r.fun(x), "jac": lambda x, r=row: -_array(r.jac(x))}
            )
    x0, bounds = np.clip(known.x0, known.lower, known.upper), so.Bounds(known.lower, known.upper)
    options = {"maxiter": 1000, "ftol": 1e-12}
    return lambda: (
        so.minimize(
            known.fun, x0, jac=known.grad, bounds=bounds, constraints=constraints, method="SLSQP", options=options
        ).x
    )


def _array(value):
    return np.asarray(value, dtype=float)


def ipopt(known, order):
    import ipyopt

    n = known.x0.size
    lower, upper = np.broadcast_to(known.lower, (n,)).astype(float), np.broadcast_to(known.upper, (n,)).astype(float)
    sizes = [np.size(row.fun(known.x0)) for row in known.rows]
    m = sum(sizes)
    pairs = list(zip(known.rows, sizes, strict=True))
    sides = [
        np.concatenate([np.zeros(0)] + [np.broadcast_to(getattr(row, side), (size,)) for row, size in pairs])
        for side in ("lower", "upper")
    ]
    below = [(i, j) for i in range(n) for j in range(i + 1)]
    i, j = (np.array(part) for part in zip(*below, strict=True))

    def g(x, out):
        out[:] = np.concatenate([np.zeros(0)] + [np.atleast_1d(row.fun(x)).ravel() for row in known.rows])

    def grad(x, out):
        out[:] = known.grad(x)

    def jac(x, out):
        out[:] = np.concatenate([np.zeros(0)] + [_array(row.jac(x)).ravel() for row in known.rows])

    def hess(x, lagrange, factor, out):
        total, first = factor * _array(known.hess(x)), 0
        for row, size in zip(known.rows, sizes, strict=True):
            if row.hess is not None:
                total = total + _array(row.hess(x, lagrange[first : first + size]))
            first += size
        out[:] = total[i, j]

    dense = (np.repeat(np.arange(m), n), np.tile(np.arange(n), m))
    options = {"print_level": 0, "sb": "yes", "tol": 1e-8, "max_iter": 1000}
    options["hessian_approximation"] = "exact" if order == 2 else "limited-memory"

    def run():
        solver = ipyopt.Problem(
            n, lower, upper, m, *sides, dense, (i, j), known.fun, grad, g, jac, *([hess] if order == 2 else []),
            ipopt_options=options,
        )  # fmt: skip
        return solver.solve(np.clip(known.x0, lower, upper))[0]

    return run


def solvers(known):
    found = {"auglag": ours(known, 1), "auglag with Hessians": ours(known, 2), BASE: slsqp(known)}
    if importlib.util.find_spec("ipyopt"):
        found |= {"IPOPT, limited memory": ipopt(known, 1), "IPOPT with Hessians": ipopt(known, 2)}
    return found


def solved(known, x):
    inside = np.clip(x, known.lower, known.upper)
    rows, bounds = rows_of(known, 1), so.Bounds(known.lower, known.upper)
    return bool(auglag.certify(known.fun, inside, jac=known.grad, bounds=bounds, constraints=rows).meets(TOL))


def measure(known, repeats):
    """solver -> (fastest CPU seconds, whether its point is certified)."""
    times, points = {}, {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        runs = solvers(known)
        for _ in range(repeats):
            for name, run in runs.items():
                start = time.thread_time()
                try:
                    points[name] = run()
                except Exception:
                    points[name] = np.full(known.x0.size, np.nan)
                times.setdefault(name, []).append(time.thread_time() - start)
        good = {name: np.isfinite(x).all() and solved(known, x) for name, x in points.items()}
    return {name: (min(times[name]), good[name]) for name in times}


def import_seconds():
    """CPU seconds of `import auglag`, of the first use of `auglag.minimize` after it, and of SciPy and Python alone.

    In new processes, all of which but the first find the bytecode of the first, as where packages are installed.
    """
    code = "import time, {}; first = time.process_time(); {}; print(first, time.process_time() - first)"
    ours, scipy = code.format("auglag", "auglag.minimize"), code.format("numpy", "import scipy.optimize")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        options = {"env": environment, "capture_output": True, "text": True, "check": True}

        def fastest(program):
            runs = [subprocess.run([sys.executable, "-c", program], **options).stdout.split() for _ in range(6)]
            return [min(float(run[k]) for run in runs[1:]) for k in (0, 1)]

        return [*fastest(ours), sum(fastest(scipy))]


def load_of_machine():
    """A sentence on what ran beside: times under load are longer, ratios less so."""
    load, cores = os.getloadavg()[1], os.cpu_count()
    busy = f"Other work ran on the machine: a load of {load:.1f} on {cores} cores."
    return busy if load > cores else "Little else ran on the machine."


def report(found):
    names = list(next(iter(found.values())))
    lines = [
        "# CPU time of a call on small problems",
        "",
        "Redo with `python benchmarks/small_problems.py`. Milliseconds of CPU time, the fastest run of each solver,",
        "taken in turns; means are geometric, over the problems that the solver and SLSQP both solve.",
        "",
        "| solver | HS71 | ratio to SLSQP | solved | mean of a call | of SLSQP on the same | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in names:
        both = [r for r in found.values() if r[name][1] and r[BASE][1]]
        mean, base = (statistics.geometric_mean(1e3 * r[key][0] for r in both) for key in (name, BASE))
        count = sum(r[name][1] for r in found.values())
        one = found["HS71"] if "HS71" in found else both[0]
        lines.append(
            f"| {name} | {1e3 * one[name][0]:.2f} | {one[name][0] / one[BASE][0]:.1f} | {count} of {len(found)} "
            f"| {mean:.2f} | {base:.2f} | {mean / base:.1f} |"
        )
    seconds = import_seconds()
    lines += [
        "",
        load_of_machine(),
        "",
        f"`import auglag` takes {seconds[0]:.2f} s of CPU (Python's own start included), the first use of "
        f"`auglag.minimize` {seconds[1]:.2f} s more; Python with NumPy and `scipy.optimize` alone takes "
        f"{seconds[2]:.2f} s.",
    ]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="names of problems; then nothing is written")
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    chosen = {name: known for name, known in PROBLEMS.items() if not arguments.only or name in arguments.only}
    lines = report({name: measure(known, arguments.repeats) for name, known in chosen.items()})
    print("\n".join(lines))
    if not arguments.only:
        (Path(__file__).parent / "results" / "small_problems.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
