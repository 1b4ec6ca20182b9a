"""Time and memory against n on three sparse families, beside IPOPT: `python benchmarks/scaling.py [largest n]`.

A pendulum swung up by a bounded torque (trapezoidal rule), a minimal surface over an obstacle, a Rosenbrock chain with
constraints. CasADi (`pip install casadi`, which brings IPOPT) provides functions and derivatives to both solvers. Each
run is a process of its own, so that its peak memory is its own; times are those of the solve, functions included.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np
from scipy import sparse

SOLVERS = ("auglag", "ipopt")


def pendulum(size):
    """Swing up with |u| <= 5 in 4 seconds; states are angle and speed. n = 3 (N + 1), m = 2 N + 4."""
    import casadi as ca

    steps = max(2, size // 3 - 1)
    q, v, u = ca.SX.sym("q", steps + 1), ca.SX.sym("v", steps + 1), ca.SX.sym("u", steps + 1)
    h = 4.0 / steps
    slope = -9.81 * ca.sin(q) + u
    rows = [
        q[1:] - q[:-1] - h / 2 * (v[1:] + v[:-1]),
        v[1:] - v[:-1] - h / 2 * (slope[1:] + slope[:-1]),
        ca.vertcat(q[0], v[0], q[-1] - np.pi, v[-1]),
    ]
    x, c = ca.vertcat(q, v, u), ca.vertcat(*rows)
    start = np.concatenate([np.linspace(0, np.pi, steps + 1), np.zeros(2 * steps + 2)])
    bound = np.concatenate([np.full(2 * steps + 2, np.inf), np.full(steps + 1, 5.0)])
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


FAMILIES = {"pendulum": pendulum, "surface": surface, "chain": chain}


def by_ipopt(x, f, c, start, lower, upper, cl, cu):
    import casadi as ca

    options = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "tol": 1e-8}}
    solver = ca.nlpsol("s", "ipopt", {"x": x, "f": f, "g": c}, options)
    began = time.perf_counter()
    found = solver(x0=start, lbx=lower, ubx=upper, lbg=cl, ubg=cu)
    stats = solver.stats()
    return time.perf_counter() - began, float(found["f"]), bool(stats["success"]), int(stats["iter_count"])


def by_auglag(x, f, c, start, lower, upper, cl, cu):
    import casadi as ca
    from scipy.optimize import Bounds, NonlinearConstraint

    import auglag

    y = ca.SX.sym("y", c.numel())
    value, gradient = ca.Function("f", [x], [f]), ca.Function("g", [x], [ca.gradient(f, x)])
    rows, jacobian = ca.Function("c", [x], [c]), ca.Function("j", [x], [ca.jacobian(c, x)])
    hess_f = ca.Function("h", [x], [ca.hessian(f, x)[0]])
    hess_c = ca.Function("k", [x, y], [ca.hessian(ca.dot(y, c), x)[0]])

    def matrix(found):
        shape = found.sparsity()
        parts = np.array(found.nonzeros()), np.array(shape.row()), np.array(shape.colind())
        return sparse.csr_array(sparse.csc_array(parts, shape=found.shape))

    con = NonlinearConstraint(
        lambda z: np.asarray(rows(z)).ravel(),
        cl,
        cu,
        jac=lambda z: matrix(jacobian(z)),
        hess=lambda z, v: matrix(hess_c(z, v)),
    )
    began = time.perf_counter()
    res = auglag.minimize(
        lambda z: float(value(z)),
        start,
        jac=lambda z: np.asarray(gradient(z)).ravel(),
        hess=lambda z: matrix(hess_f(z)),
        bounds=Bounds(lower, upper),
        constraints=con,
        check_derivatives=False,
    )
    return time.perf_counter() - began, float(res.fun), bool(res.success), int(res.njev)


def one(family, size, solver):
    seconds, f, solved, iterations = (by_ipopt if solver == "ipopt" else by_auglag)(*FAMILIES[family](size))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "f": f, "solved": solved, "iterations": iterations, "mib": memory}))


def main():
    if len(sys.argv) == 4:
        one(sys.argv[1], int(sys.argv[2]), sys.argv[3])
        return
    largest = int(sys.argv[1]) if len(sys.argv) == 2 else 10**5
    sizes = [size for size in (10**2, 10**3, 10**4, 10**5) if size <= largest]
    print("| family | n | " + " | ".join(f"{s}: s, gradients, MiB" for s in SOLVERS) + " | f equal |")
    print("|---" * (3 + len(SOLVERS)) + "|")
    for family in FAMILIES:
        for size in sizes:
            cells, values = [], []
            for solver in SOLVERS:
                done = subprocess.run(
                    [sys.executable, __file__, family, str(size), solver], capture_output=True, text=True, check=False
                )
                if done.returncode:
                    cells.append("failed")
                    continue
                r = json.loads(done.stdout.splitlines()[-1])
                values.append(r["f"])
                mark = "" if r["solved"] else " not solved"
                cells.append(f"{r['seconds']:.2f}, {r['iterations']}, {r['mib']:.0f}{mark}")
            same = len(values) == 2 and abs(values[0] - values[1]) <= 1e-4 * max(1.0, abs(values[1]))
            print(f"| {family} | {size} | " + " | ".join(cells) + f" | {'yes' if same else 'no'} |", flush=True)


if __name__ == "__main__":
    main()
