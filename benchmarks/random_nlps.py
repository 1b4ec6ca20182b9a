"""Random nonconvex sparse problems with exact Hessians beside IPOPT.

    python benchmarks/random_nlps.py runs.jsonl                       # every kind, three seeds, n = 1000; goes on
    python benchmarks/random_nlps.py runs.jsonl --sizes 10000 --kinds scaled thin --seeds 5
    python benchmarks/random_nlps.py runs.jsonl --table               # as Markdown

A kind is what makes a problem hard. Each problem is made around a point that satisfies all rows, from a seed. CasADi's
functions serve both solvers: auglag at tol = 1e-6, certified in the user's units, IPOPT with MUMPS at 1e-8. Times are
CPU seconds of the solve, functions included, their derivation not.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy import sparse

LIMIT = 30.0  #: CPU seconds of a run
KINDS = {
    "plain": "sums of sines, squares and logarithms of three variables each; products in the rows; some bounds",
    "indefinite": "an indefinite quadratic form over a box, linear and bilinear rows",
    "column": "one variable in every row, two in every tenth",
    "row": "two rows that contain all variables",
    "dependent": "every tenth row said twice, once in other units, once as a sum of three others",
    "rows": "plain, rows multiplied by 1e-6 to 1e8",
    "variables": "plain, variables measured in units of 1e-4 to 1e4",
    "thin": "inequalities with 1e-7 between their sides, variables with 1e-6 between theirs",
    "complementary": "pairs of variables >= 0 whose product is <= 0",
    "degenerate": "more active inequalities at the solution than variables in them",
    "curved": "a chain of narrow curved valleys, Rosenbrock's, under rows",
    "infeasible": "plain, with one pair of rows that contradict each other",
    "unbounded": "plain, with one variable along which f falls without end",
}


class Draft:
    """A problem that is being made, around a point that satisfies all rows."""

    def __init__(self, kind, n, seed):
        import casadi as ca

        self.ca, self.rng = ca, np.random.default_rng([seed, n, list(KINDS).index(kind)])
        self.n, self.m = n, n // 2
        self.z = ca.MX.sym("x", n)
        self.units = 10.0 ** self.rng.uniform(-4, 4, n) if kind == "variables" else np.ones(n)
        self.x = self.z / ca.DM(self.units)
        self.point = self.rng.uniform(-1.0, 1.0, n)
        self.low, self.high = np.full(n, -np.inf), np.full(n, np.inf)
        self.rows, self.sides = [], []
        self.used = n - 1 if kind == "unbounded" else n  #: variables in the sums below

    def forms(self, count, *, far=0.0):
        """Linear forms of three variables that are neighbours, and of some that are far away."""
        column = np.linspace(0, self.used - 1, count)[:, None] + self.rng.integers(0, 12, (count, 3))
        column = column.astype(int) % self.used
        away = self.rng.random(count) < far
        column[away, 0] = self.rng.integers(0, self.used, int(away.sum()))
        values, row = self.rng.normal(size=(count, 3)), np.repeat(np.arange(count), 3)
        return self.ca.mtimes(self.matrix(row, column.ravel(), values.ravel(), (count, self.n)), self.x)

    def matrix(self, row, column, values, shape):
        """Sparse, sums of what is given."""
        whole = sparse.csc_array((values, (row, column)), shape=shape)
        whole.sum_duplicates()
        pattern = self.ca.Sparsity(*shape, whole.indptr.tolist(), whole.indices.tolist())
        return self.ca.DM(pattern, whole.data)

    def vector(self, low, high, n):
        """n random numbers."""
        return self.ca.DM(self.rng.uniform(low, high, n))

    def at_point(self, expression):
        """The value at the point."""
        return self.ca.Function("e", [self.z], [expression])(self.point * self.units).full().ravel()

    def add(self, expression, lower, upper):
        """Rows with these sides."""
        count = expression.numel()
        self.rows.append(expression)
        self.sides.append([np.broadcast_to(side, count) for side in (lower, upper)])

    def bound(self, where):
        """Bounds around the point."""
        self.low[where] = self.point[where] - self.rng.uniform(0.0, 2.0, self.n)[where]
        self.high[where] = self.point[where] + self.rng.uniform(0.0, 2.0, self.n)[where]


def objective(d, kind):
    """f of a kind."""
    ca, x = d.ca, d.x
    if kind == "indefinite":
        return 0.5 * ca.dot(d.vector(-2.0, 2.0, d.n) * x, x) + ca.dot(d.forms(d.n), d.forms(d.n))
    if kind == "curved":
        return ca.sum1(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    f = ca.sum1(ca.sin(d.forms(d.n))) + ca.sum1(ca.log(1 + (d.forms(d.n) - 1.0) ** 2))
    if kind == "unbounded":
        f -= x[-1] * (1.0 + x[-1] ** 2)
    return f + 0.5 * ca.dot(d.vector(0.01, 1.0, d.used), x[: d.used] ** 2)


def common_rows(d, kind):
    """Linear forms, products and sines; 60 % equations, the others with one side or two."""
    ca, rng, m = d.ca, d.rng, d.m
    c = d.forms(m, far=0.01) + d.forms(m) * d.forms(m)
    if kind != "indefinite":
        c += ca.sin(d.forms(m))
    if kind == "column":
        c += d.x[0] * ca.DM(rng.normal(size=m)) + d.x[1] ** 2 * ca.DM((np.arange(m) % 10 == 0).astype(float))
    value = d.at_point(c)
    equal = rng.random(m) < (0.2 if kind in ("complementary", "thin") else 0.6)
    lower = np.where(equal, value, np.where(rng.random(m) < 0.3, value - rng.uniform(0.0, 1.0, m), -np.inf))
    upper = np.where(equal, value, np.where(rng.random(m) < 0.7, value + rng.uniform(0.0, 1.0, m), value + 100.0))
    if kind == "thin":
        thin = rng.random(m) < 0.3
        lower, upper = np.where(thin, value - 5e-8, lower), np.where(thin, value + 5e-8, upper)
    if kind == "rows":
        factor = 10.0 ** rng.uniform(-6, 8, m)
        c, lower, upper = ca.DM(factor) * c, factor * lower, factor * upper
    d.add(c, lower, upper)
    return equal


def hardened(d, kind, equal):
    """What makes the kind hard."""
    ca, rng, x, n = d.ca, d.rng, d.x, d.n
    c, (lower, upper) = d.rows[0], d.sides[0]
    if kind == "row":
        for e in (ca.sumsqr(x) / n, ca.dot(ca.DM(rng.normal(size=n)), x) / n**0.5):
            d.add(e, d.at_point(e) - 0.1, d.at_point(e))
    if kind == "dependent":
        tenth, k = np.arange(0, d.m, 10), d.m // 10
        d.add(1e3 * c[tenth.tolist()], 1e3 * lower[tenth], 1e3 * upper[tenth])
        members = rng.permutation(np.flatnonzero(equal))[: 3 * k]
        e = ca.mtimes(d.matrix(np.arange(members.size) // 3, members, np.ones(members.size), (k, d.m)), c)
        d.add(e, d.at_point(e), d.at_point(e))
    if kind == "thin":
        narrow = rng.random(n) < 0.1
        d.low, d.high = np.where(narrow, d.point - 5e-7, d.low), np.where(narrow, d.point + 5e-7, d.high)
    if kind == "complementary":
        first = rng.permutation(n // 2)[: n // 8] * 2
        second = first + 1
        for k in (first, second):
            d.low[k], d.high[k] = 0.0, np.inf
        d.add(x[first.tolist()] * x[second.tolist()], -np.inf, 0.0)
    if kind == "degenerate":
        pairs = rng.permutation(n - 1)[: n // 5]
        one, two = x[pairs.tolist()] - ca.DM(d.point[pairs]), x[(pairs + 1).tolist()] - ca.DM(d.point[pairs + 1])
        for a, b in ((1.0, 1.0), (2.0, 2.0), (1.0, -1.0), (-1.0, 0.5)):
            d.add(a * one + b * two + one**2, -np.inf, 0.0)
    if kind == "infeasible":
        one, two = n // 3, n // 3 + 1
        d.low[[one, two]], d.high[[one, two]] = -np.inf, np.inf
        d.add(x[one] ** 2 + x[two] ** 2, -np.inf, 1.0)
        d.add(x[one] * x[two], 2.0, np.inf)


def random(kind, n, seed):
    """CasADi's dictionary, the start and the sides of variables and rows."""
    d = Draft(kind, n, seed)
    if kind == "complementary":
        d.point = np.maximum(d.point, 0.0) * (d.rng.random(n) < 0.5)
    f = objective(d, kind)
    d.bound(d.rng.random(n) < (1.0 if kind == "indefinite" else 0.5))
    if kind == "unbounded":
        d.low[-1], d.high[-1] = -np.inf, np.inf
    hardened(d, kind, common_rows(d, kind))
    lbg, ubg = (np.concatenate(side) for side in zip(*d.sides, strict=True))
    start = np.clip(d.rng.uniform(-1.0, 1.0, n), d.low, d.high)
    data = [start * d.units, d.low * d.units, d.high * d.units, lbg, ubg]
    return {"x": d.z, "f": f, "g": d.ca.vertcat(*d.rows)}, *data


def by_ipopt(nlp, x0, lbx, ubx, lbg, ubg, limit):
    import casadi as ca

    options = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "tol": 1e-8, "max_cpu_time": limit}}
    solver = ca.nlpsol("s", "ipopt", nlp, options)
    began = time.process_time()
    found = solver(x0=x0, lbx=lbx, ubx=ubx, lbg=lbg, ubg=ubg)
    seconds, stats = time.process_time() - began, solver.stats()
    return {"seconds": seconds, "f": float(found["f"]), "steps": stats["iter_count"], "end": stats["return_status"]}


def by_auglag(nlp, x0, lbx, ubx, lbg, ubg, limit):
    import auglag
    from auglag.casadi import CasadiProblem

    problem = CasadiProblem(nlp, x0=x0, lbx=lbx, ubx=ubx, lbg=lbg, ubg=ubg)
    began = time.process_time()
    found = auglag.minimize(problem, tol=1e-6, budget=auglag.Budget(seconds=limit))
    seconds = time.process_time() - began
    return {
        "seconds": seconds,
        "f": float(found.fun),
        "steps": int(found.nit_inner),
        "end": found.status.name,
        "residual": found.certificate.residual,
    }


SOLVERS = {"auglag": by_auglag, "ipopt": by_ipopt}


def record(path, kinds, sizes, seeds, solvers, limit):
    """Runs that are not yet there, each line as soon as it is known."""
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["kind"], row["n"], row["seed"], row["solver"]) for row in known}
    for n in sizes:
        for kind in kinds:
            for seed in range(seeds):
                wanted = [s for s in solvers if (kind, n, seed, s) not in done]
                made = random(kind, n, seed) if wanted else None
                for solver in wanted:
                    row = {"kind": kind, "n": n, "seed": seed, "solver": solver, "m": int(made[0]["g"].numel())}
                    row |= SOLVERS[solver](*made, limit)
                    with path.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    print(row, flush=True)


def table(path):
    """Kinds and sizes as rows: ends, steps, seconds and the difference of the objectives."""
    runs = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        runs.setdefault((row["kind"], row["n"], row["seed"]), {})[row["solver"]] = row
    text = [
        "| kind | n | seed | auglag: status | steps | seconds | ipopt: status | steps | seconds | f, relative |",
        "|---|--:|--:|---|--:|--:|---|--:|--:|--:|",
    ]
    for (kind, n, seed), found in sorted(runs.items(), key=lambda item: (list(KINDS).index(item[0][0]), *item[0][1:])):
        cells = [f"{r['end']} | {r['steps']} | {r['seconds']:.2f}" if r else "| |" for r in map(found.get, SOLVERS)]
        gap = ""
        if len(found) == len(SOLVERS):
            ours, theirs = (found[s]["f"] for s in SOLVERS)
            gap = f"{(ours - theirs) / max(1.0, abs(theirs)):.1e}"
        text.append(f"| {kind} | {n} | {seed} | {' | '.join(cells)} | {gap} |")
    return "\n".join(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=list(SOLVERS), default=None)
    parser.add_argument("--limit", type=float, default=LIMIT, help="CPU seconds of a run")
    parser.add_argument("--table", action="store_true")
    a = parser.parse_args()
    if a.table:
        print(table(a.path))
    else:
        record(a.path, a.kinds, a.sizes, a.seeds, [a.only] if a.only else list(SOLVERS), a.limit)
