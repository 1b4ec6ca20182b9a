"""Badly conditioned and degenerate families, solved counts beside IPOPT, Uno and SLSQP.

    python benchmarks/degenerate.py                # all families, 25 seeds; writes results/degenerate.md and .csv
    python benchmarks/degenerate.py --seeds 5      # fewer

Every problem is made of quadratics with exact derivatives and has a feasible point with multipliers by construction,
unless the family says otherwise. One judge for all (`auglag.bench.judge`), 10 CPU seconds each, the solvers' tolerances
at 1e-8. Each solver runs in a process of its own.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from auglag.bench import baselines
from auglag.bench.counted import CountedProblem, LimitReached
from auglag.bench.judge import judge
from auglag.bench.record import TOLERANCES
from auglag.bench.spec import Limits
from auglag.problems.base import AbstractProblem

RESULTS = Path(__file__).parent / "results"
SOLVERS = {
    "auglag": ("auglag", {"tol": 1e-8}),
    "auglag, first derivatives": ("auglag", {"tol": 1e-8, "derivatives": 1}),
    "IPOPT": ("ipopt", {"tol": 1e-8}),
    "Uno": ("uno", {"tol": 1e-8}),
    "SLSQP": ("slsqp", {}),
}


class Quadratics(AbstractProblem):
    """min 1/2 x'Qx + q'x subject to cl <= 1/2 x'A_i x + a_i'x <= cu and bounds."""

    def __init__(self, q, linear, a, rows, cl, cu, x0, lower=-np.inf, upper=np.inf):
        n = linear.size
        full = [np.broadcast_to(np.asarray(v, dtype=float), n).copy() for v in (lower, upper)]
        x0 = np.clip(np.asarray(x0, dtype=float), *full)
        super().__init__(x0, lower=full[0], upper=full[1], cl=np.array(cl, dtype=float), cu=np.array(cu, dtype=float))
        self.q, self.slope, self.a, self.rows = q, linear, np.array(a), np.array(rows)
        self.linear_rows = ~np.abs(self.a).any(axis=(1, 2))

    def f(self, x):
        return float(0.5 * x @ self.q @ x + self.slope @ x)

    def grad(self, x):
        return self.q @ x + self.slope

    def c(self, x):
        return 0.5 * np.einsum("ijk,j,k->i", self.a, x, x) + self.rows @ x

    def jac(self, x):
        return sparse.csr_array(self.a @ x + self.rows)

    has_hessp = True
    has_hess = True

    def hess(self, x, y):
        return sparse.csr_array(self.q + np.einsum("i,ijk->jk", y, self.a))

    def hessp(self, x, y, v):
        return self.hess(x, y) @ v


def symmetric(rng, n, low=0.1, high=10.0, negative=0):
    """A random symmetric matrix with eigenvalues spread evenly in the logarithm, some of them negative."""
    vectors = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.geomspace(low, high, n) * np.where(np.arange(n) < negative, -1.0, 1.0)
    return (vectors * values) @ vectors.T


def stationary(rng, n, m, equal, *, curved=0.5, q=None):
    """(Q, q, A, a, cl, cu, solution): rows active at the solution with multipliers, some rows not active."""
    x = rng.standard_normal(n)
    q = symmetric(rng, n) if q is None else q
    a = np.array([symmetric(rng, n, 0.1, 2.0) if rng.random() < curved else np.zeros((n, n)) for _ in range(m)])
    rows = rng.standard_normal((m, n))
    values = 0.5 * np.einsum("ijk,j,k->i", a, x, x) + rows @ x
    active = np.arange(m) < max(equal, m // 2)
    y = np.where(active, np.abs(rng.standard_normal(m)) + 0.1, 0.0)
    y[:equal] *= rng.choice([-1.0, 1.0], equal)
    cu = values + np.where(active, 0.0, 1.0)
    cl = np.where(np.arange(m) < equal, cu, -np.inf)
    linear = -(q @ x + (a @ x + rows).T @ y)
    return q, linear, a, rows, cl, cu, x


def duplicated(rng):
    """Rows stated two or three times, some of the copies multiplied by a number."""
    n, m = int(rng.integers(5, 20)), int(rng.integers(3, 8))
    q, linear, a, rows, cl, cu, x = stationary(rng, n, m, equal=m // 3)
    copies = np.repeat(np.arange(m), rng.integers(1, 4, m))
    factor = np.where(rng.random(copies.size) < 0.5, 1.0, rng.uniform(0.1, 10.0, copies.size))
    arguments = (
        a[copies] * factor[:, None, None],
        rows[copies] * factor[:, None],
        cl[copies] * factor,
        cu[copies] * factor,
    )
    return Quadratics(q, linear, *arguments, x + rng.standard_normal(n))


def redundant(rng):
    """Linear equalities that depend on each other, more of them than variables in some cases; always consistent."""
    n, rank = int(rng.integers(5, 20)), int(rng.integers(2, 5))
    basis, x = rng.standard_normal((rank, n)), rng.standard_normal(n)
    rows = rng.standard_normal((int(rng.integers(rank + 1, 2 * n)), rank)) @ basis
    values = rows @ x
    a = np.zeros((rows.shape[0], n, n))
    return Quadratics(symmetric(rng, n), rng.standard_normal(n), a, rows, values, values, rng.standard_normal(n))


def complementarity(rng):
    """0 <= v, 0 <= w, v'w <= 0 pair by pair or in one row: no point satisfies any constraint qualification."""
    pairs, extra = int(rng.integers(2, 8)), int(rng.integers(1, 5))
    n = 2 * pairs + extra
    single = rng.random() < 0.5
    a = np.zeros((1 if single else pairs, n, n))
    for i in range(pairs):
        a[0 if single else i, i, pairs + i] = a[0 if single else i, pairs + i, i] = 1.0
    rows = np.zeros((a.shape[0], n))
    link = rng.standard_normal((extra, n))
    point = np.concatenate([np.abs(rng.standard_normal(pairs)), np.zeros(pairs), rng.standard_normal(extra)])
    values = np.concatenate([np.zeros(a.shape[0]), link @ point])
    cl = np.concatenate([np.full(a.shape[0], -np.inf), link @ point])
    lower = np.concatenate([np.zeros(2 * pairs), np.full(extra, -10.0)])
    a, rows = np.concatenate([a, np.zeros((extra, n, n))]), np.concatenate([rows, link])
    start = np.abs(rng.standard_normal(n))
    return Quadratics(symmetric(rng, n), rng.standard_normal(n), a, rows, cl, values, start, lower, 10.0)


def cone(rng):
    """|B v|^2 <= t^2, t >= 0, with the solution at the apex, where the row's gradient is 0."""
    n = int(rng.integers(3, 15))
    b = rng.standard_normal((n, n)) + 2 * np.eye(n)
    a = np.zeros((1, n + 1, n + 1))
    a[0, :n, :n], a[0, n, n] = 2 * b.T @ b, -2.0
    q = np.zeros((n + 1, n + 1))
    q[:n, :n] = symmetric(rng, n)
    linear = np.append(np.zeros(n), 1.0)
    lower = np.append(np.full(n, -np.inf), 0.0)
    start = np.append(rng.standard_normal(n), abs(rng.standard_normal()) + 1.0)
    return Quadratics(q, linear, a, np.zeros((1, n + 1)), [-np.inf], [0.0], start, lower)


def vertex(rng):
    """Far more rows than variables active at the solution, which therefore has many multipliers."""
    n = int(rng.integers(3, 12))
    m = int(rng.integers(2 * n, 5 * n))
    x = rng.standard_normal(n)
    a = np.array([symmetric(rng, n, 0.1, 1.0) if i % 2 else np.zeros((n, n)) for i in range(m)])
    rows = rng.standard_normal((m, n))
    values = 0.5 * np.einsum("ijk,j,k->i", a, x, x) + rows @ x
    y = np.where(rng.random(m) < 0.5, np.abs(rng.standard_normal(m)), 0.0)
    q = symmetric(rng, n)
    linear = -(q @ x + (a @ x + rows).T @ y)
    return Quadratics(q, linear, a, rows, np.full(m, -np.inf), values, x + rng.standard_normal(n))


def vanishing(rng):
    """Rows and their squares: (a'x - b) = 0 and (a'x - b)^2 <= 0, whose gradients vanish at every feasible point."""
    n, m = int(rng.integers(4, 15)), int(rng.integers(1, 4))
    x, rows = rng.standard_normal(n), rng.standard_normal((m, n))
    b = rows @ x
    squares = 2 * rows[:, :, None] * rows[:, None, :]
    a = np.concatenate([np.zeros((m, n, n)), squares])
    linear = np.concatenate([rows, -2 * b[:, None] * rows])
    cl, cu = np.concatenate([b, np.full(m, -np.inf)]), np.concatenate([b, -(b**2)])
    return Quadratics(symmetric(rng, n), rng.standard_normal(n), a, linear, cl, cu, x + rng.standard_normal(n))


def scaled(rng):
    """Rows multiplied by factors between 1e-6 and 1e6, variables by factors between 1e-3 and 1e3."""
    n, m = int(rng.integers(5, 30)), int(rng.integers(3, 15))
    q, linear, a, rows, cl, cu, x = stationary(rng, n, m, equal=m // 3)
    r, v = 10.0 ** rng.uniform(-6, 6, m), 10.0 ** rng.uniform(-3, 3, n)
    a = a * r[:, None, None] * v[:, None] * v
    start = (x + rng.standard_normal(n)) / v
    return Quadratics(q * v[:, None] * v, linear * v, a, rows * r[:, None] * v, cl * r, cu * r, start)


def conditioned(rng):
    """Objectives of condition 1e12 with two directions of negative curvature, inside bounds."""
    n, m = int(rng.integers(5, 30)), int(rng.integers(3, 10))
    q = symmetric(rng, n, 1e-6, 1e6, negative=2)
    q, linear, a, rows, cl, cu, x = stationary(rng, n, m, equal=m // 2, q=q)
    return Quadratics(q, linear, a, rows, cl, cu, x + rng.standard_normal(n), x - 5.0, x + 5.0)


def spheres(rng):
    """Spheres through one point, twice each, from a start at which their linearisations contradict each other."""
    n, m = int(rng.integers(4, 20)), int(rng.integers(2, 4))
    x, centres = rng.standard_normal(n), 3 * rng.standard_normal((m, n))
    a = np.repeat(np.array([2 * np.eye(n)] * m), 2, axis=0)
    rows = np.repeat(-2 * centres, 2, axis=0)
    values = 0.5 * np.einsum("ijk,j,k->i", a, x, x) + rows @ x
    return Quadratics(
        symmetric(rng, n, negative=1), rng.standard_normal(n), a, rows, values, values, centres.mean(axis=0)
    )


def nonconvex(rng):
    """Complementarity with an objective that has negative curvature, rows v_i w_i = 0."""
    pairs = int(rng.integers(3, 10))
    n = 2 * pairs
    a = np.zeros((pairs, n, n))
    for i in range(pairs):
        a[i, i, pairs + i] = a[i, pairs + i, i] = 1.0
    q = symmetric(rng, n, negative=n // 3)
    start = np.abs(rng.standard_normal(n))
    zero = np.zeros(pairs)
    return Quadratics(q, rng.standard_normal(n), a, np.zeros((pairs, n)), zero, zero, start, 0.0, 5.0)


FAMILIES = {
    "duplicated rows": duplicated,
    "dependent equalities": redundant,
    "complementarity": complementarity,
    "complementarity, not convex": nonconvex,
    "apex of a cone": cone,
    "vertices with many multipliers": vertex,
    "vanishing gradients": vanishing,
    "scaled rows and variables": scaled,
    "condition 1e12, not convex": conditioned,
    "spheres stated twice": spheres,
}


def problem_of(family, seed):
    made = FAMILIES[family](np.random.default_rng([seed, *family.encode()]))
    made.name = f"{family} {seed}"
    return made


def solve_all(title, seeds):
    """One line of JSON per problem."""
    solver, options = SOLVERS[title]
    baseline, options = baselines.get(solver), baselines.complete(solver, options)
    for family in FAMILIES:
        for seed in range(seeds):
            problem = problem_of(family, seed)
            counted = CountedProblem(problem, Limits(seconds=10.0))
            began, x, y = time.process_time(), None, None
            try:
                with np.errstate(all="ignore"):
                    answer = baseline.solve(counted, options, 0)
                x, y = np.asarray(answer.x, dtype=float), answer.y
            except LimitReached:
                pass
            except Exception as error:  # a solver that raises has not solved
                print(error, file=sys.stderr)
            seconds = time.process_time() - began
            verdict = judge(problem, counted.last_x if x is None else x, None if y is None else np.asarray(y))
            print(
                json.dumps(
                    {
                        "family": family,
                        "seed": seed,
                        "solver": title,
                        "n": problem.n,
                        "m": problem.m,
                        "f": verdict.objective,
                        "violation": verdict.violation,
                        "stationarity": list(verdict.stationarity),
                        "gradients": counted.gradients,
                        "cpu": seconds,
                    }
                ),
                flush=True,
            )


def solved(row, eps):
    return row["violation"] <= eps and row["stationarity"][TOLERANCES.index(eps)] <= eps


def table(rows, seeds):
    lines = ["| family | " + " | ".join(SOLVERS) + " |", "|---" * (1 + len(SOLVERS)) + "|"]
    for family in (*FAMILIES, "all"):
        cells = []
        for title in SOLVERS:
            own = [row for row in rows if row["solver"] == title and family in (row["family"], "all")]
            cells.append(" / ".join(str(sum(solved(row, eps) for row in own)) for eps in TOLERANCES))
        lines.append(f"| {family} ({seeds * (len(FAMILIES) if family == 'all' else 1)}) | " + " | ".join(cells) + " |")
    cells = []
    for title in SOLVERS:
        gradients = [row["gradients"] for row in rows if row["solver"] == title and solved(row, 1e-6)]
        cells.append(f"{statistics.median(gradients):.0f}" if gradients else "")
    lines.append("| median gradients where solved at 1e-6 | " + " | ".join(cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--solver", choices=list(SOLVERS), help="run only this one, and print JSON")
    arguments = parser.parse_args()
    if arguments.solver:
        solve_all(arguments.solver, arguments.seeds)
        return
    rows = []
    for title in SOLVERS:
        command = [sys.executable, __file__, "--solver", title, "--seeds", str(arguments.seeds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        rows += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        print(title, "exit status", done.returncode, flush=True)
    lines = [
        "# Degenerate and badly conditioned families",
        "",
        "Solved at 1e-3 / 1e-6 / 1e-8, by one judge. Redo with `python benchmarks/degenerate.py`, which says what",
        "the families are.",
        "",
        *table(rows, arguments.seeds),
    ]
    (RESULTS / "degenerate.md").write_text("\n".join(lines) + "\n")
    with (RESULTS / "degenerate.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        names = ("family", "seed", "solver", "n", "m", "f", "violation", "gradients", "cpu")
        writer.writerow((*names, *(f"stationarity at {eps:g}" for eps in TOLERANCES)))
        for row in rows:
            writer.writerow((*(row[name] for name in names), *row["stationarity"]))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
