"""Time outside the user's functions per gradient evaluation: auglag beside SciPy's L-BFGS-B and SLSQP, in one run.

Redo with: python benchmarks/overhead.py
Every solver gets the same objective and bounds (and, for SLSQP and auglag, the same constraints); the clock inside the
user's functions is subtracted. Reported: microseconds per gradient evaluation, and the ratio to SciPy's L-BFGS-B.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # threads on tiny matrices measure the scheduler, not the solver

import json
import statistics
import sys
import time

import numpy as np
import scipy.optimize as so

import auglag


class Clocked:
    """A function that adds up the time spent in it."""

    def __init__(self, function, clock):
        self.function, self.clock = function, clock

    def __call__(self, x):
        start = time.thread_time()
        value = self.function(x)
        self.clock["seconds"] += time.thread_time() - start
        self.clock["calls"] += 1
        return value


def cost_of_clock(calls=20000):
    """Seconds that one clocked call adds outside what the clock sees."""
    clock = {"seconds": 0.0, "calls": 0}
    bare, clocked = (lambda x: x), Clocked(lambda x: x, clock)
    times = []
    for function in (bare, clocked):
        start = time.thread_time()
        for _ in range(calls):
            function(0.0)
        times.append(time.thread_time() - start)
    return max(0.0, (times[1] - clock["seconds"] - times[0]) / calls)


def chained_rosenbrock(n):
    def value_and_gradient(x):
        a, b = x[1:] - x[:-1] ** 2, 1 - x[:-1]
        grad = np.zeros_like(x)
        grad[:-1] = -400 * a * x[:-1] - 2 * b
        grad[1:] += 200 * a
        return 100 * float(a @ a) + float(b @ b), grad

    return value_and_gradient


def cases():
    for n in (2, 10, 50, 200):
        fun = chained_rosenbrock(n)
        yield f"Rosenbrock n={n}, bounds", fun, np.full(n, -1.0), [(-2.0, 2.0)] * n, ()
        half = max(1, n // 2)
        con = {
            "type": "ineq",
            "fun": lambda x, half=half: 1.5 * half - x[:half] @ x[:half],
            "jac": lambda x, half=half: np.concatenate([-2 * x[:half], np.zeros(x.size - half)]),
        }
        yield f"Rosenbrock n={n}, bounds, 1 inequality", fun, np.full(n, -0.5), [(-2.0, 2.0)] * n, con


def timed(solve, clock, clock_cost):
    clock["seconds"], clock["calls"] = 0.0, 0
    start = time.thread_time()
    result = solve()
    total = time.thread_time() - start
    return (total - clock["seconds"] - clock_cost * clock["calls"]) / result.njev * 1e6, result.njev


def measure(repeats=9):
    rows, clock_cost = [], cost_of_clock()
    for name, fun, x0, bounds, constraints in cases():
        clock = {"seconds": 0.0, "calls": 0}
        objective = Clocked(fun, clock)
        cons = ()
        if constraints:
            cons = {**constraints, "fun": Clocked(constraints["fun"], clock), "jac": Clocked(constraints["jac"], clock)}
        solvers = {
            "auglag": lambda o=objective, c=cons, x=x0, b=bounds: auglag.minimize(
                o, x, jac=True, bounds=b, constraints=c, inner="lbfgsb"
            ),
            "L-BFGS-B": lambda o=objective, x=x0, b=bounds: so.minimize(o, x, jac=True, bounds=b, method="L-BFGS-B"),
            "SLSQP": lambda o=objective, c=cons, x=x0, b=bounds: so.minimize(
                o, x, jac=True, bounds=b, constraints=c, method="SLSQP", options={"maxiter": 1000}
            ),
        }
        samples = {key: [] for key in solvers}
        counts = {}
        for _ in range(repeats):
            for key, solve in solvers.items():
                micro, counts[key] = timed(solve, clock, clock_cost)
                samples[key].append(micro)
        medians = {key: statistics.median(values) for key, values in samples.items()}
        rows.append({"case": name, **medians, "gradients": counts, "ratio": medians["auglag"] / medians["L-BFGS-B"]})
    return rows


def main():
    rows = measure()
    print(
        f"{'overhead per gradient, microseconds':<42} {'auglag':>8} {'L-BFGS-B':>9} {'SLSQP':>8} {'ratio':>6}"
        "  gradients"
    )
    for row in rows:
        counts = "/".join(str(row["gradients"][key]) for key in ("auglag", "L-BFGS-B", "SLSQP"))
        print(
            f"{row['case']:<42} {row['auglag']:>8.1f} {row['L-BFGS-B']:>9.1f} {row['SLSQP']:>8.1f} "
            f"{row['ratio']:>6.2f}  {counts}"
        )
    overall = statistics.geometric_mean(row["ratio"] for row in rows)
    print(f"ratio {overall:.2f}  (geometric mean of auglag over SciPy's L-BFGS-B; target at most 1.5)")
    if "--json" in sys.argv:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
