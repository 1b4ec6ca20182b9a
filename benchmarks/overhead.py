"""Time outside the user's functions: auglag beside SciPy's L-BFGS-B and SLSQP, and the default beside IPOPT.

Redo with: python benchmarks/overhead.py (writes benchmarks/results/overhead.md)
First the first-order inner solver: every solver gets the same objective and bounds (and, for SLSQP and auglag, the same
constraints); the clock inside the user's functions is subtracted. Reported: microseconds per gradient evaluation, and
the ratio to SciPy's L-BFGS-B. Then the default with Hessians beside IPOPT, both with functions of CasADi (if that is
installed): microseconds per iteration and per solve, the time inside the functions subtracted from both.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # threads on tiny matrices measure the scheduler, not the solver

import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import scipy.optimize as so
from small_problems import load_of_machine

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


def small_models():
    """(name, x, f, g, x0, lbx, ubx, lbg, ubg) with CasADi's symbols."""
    import casadi as ca

    x = ca.SX.sym("x", 4)
    rows = ca.vertcat(x[0] * x[1] * x[2] * x[3], ca.sumsqr(x))
    yield "HS71", x, x[0] * x[3] * ca.sum1(x[:3]) + x[2], rows, [1, 5, 5, 1], 1, 5, [25, 40], [np.inf, 40]
    x = ca.SX.sym("x", 2)
    yield (
        "HS14",
        x,
        (x[0] - 2) ** 2 + (x[1] - 1) ** 2,
        ca.vertcat(x[0] - 2 * x[1], x[0] ** 2 / 4 + x[1] ** 2),
        [2, 2],
        (-np.inf),
        np.inf,
        [-1, -np.inf],
        [-1, 1],
    )
    for n in (5, 20, 80):
        x = ca.SX.sym("x", n)
        f = 100 * ca.sumsqr(x[1:] - x[:-1] ** 2) + ca.sumsqr(1 - x[:-1])
        yield f"Rosenbrock on a ball, n={n}", x, f, ca.sumsqr(x), [-0.5] * n, -2, 2, [-np.inf], [0.5 * n]
        pairs = x[1:] * x[:-1]
        yield f"products at most 1, n={n}", x, ca.sumsqr(x - 2), pairs, [0.5] * n, 0, 3, -np.inf, 1
        h = 1.0 / n
        u, q = x[: n // 2], ca.vertcat(0, x[n // 2 :])
        steps = q[1:] - q[: n - n // 2] - h * (ca.sin(q[: n - n // 2]) + u[0])
        yield f"a chain of equations, n={n}", x, ca.sumsqr(u) + ca.sumsqr(q - 1), steps, [0.1] * n, -5, 5, 0, 0


def beside_ipopt(repeats=9):
    """Rows of microseconds outside the functions, per iteration and per solve."""
    import casadi as ca

    from auglag.casadi import CasadiProblem

    rows = []
    for name, x, f, g, x0, lbx, ubx, lbg, ubg in small_models():
        options = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes"}}
        ipopt = ca.nlpsol("s", "ipopt", {"x": x, "f": f, "g": g}, options)
        bounds = {"x0": x0, "lbx": lbx, "ubx": ubx, "lbg": lbg, "ubg": ubg}
        problem, clock = CasadiProblem({"x": x, "f": f, "g": g}, **bounds), {"seconds": 0.0, "calls": 0}
        for part in ("f", "grad", "c", "jac", "hess"):
            setattr(problem, part, _clocked(getattr(problem, part), clock))
        ours, theirs = [], []
        for _ in range(repeats):
            clock["seconds"] = 0.0
            start = time.process_time()
            res = auglag.minimize(problem)
            ours.append(time.process_time() - start - clock["seconds"])
            start = time.process_time()
            ipopt(**bounds)
            stats = ipopt.stats()
            inside = sum(stats[key] for key in stats if key.startswith("t_proc_nlp_"))
            theirs.append(time.process_time() - start - inside)
        our, their = 1e6 * statistics.median(ours), 1e6 * statistics.median(theirs)
        steps = max(1, res.nhev), max(1, int(stats["iter_count"]))
        solved = res.success, bool(stats["success"])
        rows.append((name, our / steps[0], their / steps[1], our, their, steps, solved))
    return rows


def _clocked(function, clock):
    def call(*arguments):
        start = time.process_time()
        value = function(*arguments)
        clock["seconds"] += time.process_time() - start
        return value

    return call


def report(rows, against_ipopt):
    lines = [
        "# Time outside the user's functions",
        "",
        f"Redo with `python benchmarks/overhead.py`. Microseconds of CPU time, medians. {load_of_machine()}",
        "",
        "## First-order inner solver, per gradient",
        "",
        "| case | auglag | SciPy's L-BFGS-B | SciPy's SLSQP | ratio to L-BFGS-B | gradients of the three |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        counts = "/".join(str(row["gradients"][key]) for key in ("auglag", "L-BFGS-B", "SLSQP"))
        numbers = f"{row['auglag']:.1f} | {row['L-BFGS-B']:.1f} | {row['SLSQP']:.1f} | {row['ratio']:.2f}"
        lines.append(f"| {row['case']} | {numbers} | {counts} |")
    overall = statistics.geometric_mean(row["ratio"] for row in rows)
    lines += ["", f"ratio {overall:.2f} (geometric mean of auglag over SciPy's L-BFGS-B; target at most 1.5)"]
    if against_ipopt:
        lines += [
            "",
            "## The default with Hessians beside IPOPT 3.14",
            "",
            "| problem | auglag: an iteration | a solve | iterations "
            "| IPOPT: an iteration | a solve | iterations | ratio |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for name, our, their, all_of_ours, all_of_theirs, steps, solved in against_ipopt:
            marks = ["" if ok else " (not solved)" for ok in solved]
            lines.append(
                f"| {name} | {our:.0f} | {all_of_ours:.0f} | {steps[0]}{marks[0]} | {their:.0f} | {all_of_theirs:.0f} "
                f"| {steps[1]}{marks[1]} | {our / their:.1f} |"
            )
        ratios = [row[1] / row[2] for row in against_ipopt], [row[3] / row[4] for row in against_ipopt]
        means = [statistics.geometric_mean(part) for part in ratios]
        lines += [
            "",
            f"ratio {means[0]:.1f} per iteration, {means[1]:.1f} per solve (geometric means)",
            "",
            "An iteration of auglag is one Hessian and one quadratic programme solved to the end, which takes as many",
            "factorisations as its active sets change: 63 in all for the products with n = 80, where the",
            "Hessian is indefinite and the sets cycle twice. IPOPT factorises once or twice an iteration.",
        ]
    return lines


def main():
    rows = measure()
    against_ipopt = beside_ipopt() if importlib.util.find_spec("casadi") else []
    lines = report(rows, against_ipopt)
    print("\n".join(lines))
    if "--json" in sys.argv:
        print(json.dumps(rows))
    else:
        (Path(__file__).parent / "results" / "overhead.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
