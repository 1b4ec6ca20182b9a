"""Convex quadratic programmes: auglag beside PIQP, ProxQP and OSQP.

    python benchmarks/quadratic.py run quadratic.jsonl       # a line for each run; goes on where it was interrupted
    python benchmarks/quadratic.py table quadratic.jsonl     # writes benchmarks/results/quadratic.md

Problems are CUTEst's at large sizes (through S2MPJ) and families of our own in the spirit of the tests of QP solvers:
CVXQP2 and CVXQP3, which S2MPJ does not have, by their rule; least squares on two and three dimensional grids with and
without bounds (as AUG2D and AUG3D), boundary control (as CONT), a few dense rows over many variables (as BOYD1),
portfolios, lasso, a chain of masses. The rivals get the matrices, auglag the functions and no word on what kind of
problem it is. Each has 10 seconds of CPU a problem, after it has solved a small sparse one, so that imports do not
count; what did not end in time at the first tolerance is not asked again at the second. `pip install piqp proxsuite
osqp` for the rivals; those that are missing are left out.

Points are judged alike, with the solver's own multipliers of the rows: R of `auglag.certify` (stationarity, violation
and complementarity in absolute terms). Solved means that R, a 2-norm, is at most sqrt(n + m) times the tolerance that
was asked for, and at least ten times it: the rivals' tolerances are for max norms.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import fnmatch
import importlib.util
import itertools
import json
import math
import multiprocessing
import resource
import statistics
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

import auglag

TOLERANCES = (1e-6, 1e-9)
SECONDS = 10


class QP:
    """min x'Px/2 + q'x subject to l <= Ax <= u and lb <= x <= ub."""

    def __init__(self, p, q, a, l, u, lb=-np.inf, ub=np.inf):
        self.p, self.a = sparse.csc_matrix(p), sparse.csc_matrix(a)
        for matrix in (self.p, self.a):
            matrix.sum_duplicates()  # and sorted: not every solver sees to that
        self.q, self.l, self.u = (np.asarray(v, dtype=float) for v in (q, l, u))
        self.lb, self.ub = (np.broadcast_to(np.asarray(v, dtype=float), self.q.shape).copy() for v in (lb, ub))


# ------------------------------------------------------------------------------------------------------------ problems


def cutest(name, **params):
    from auglag.problems import cutest

    problem = cutest.load(name, params={key: float(value) for key, value in params.items()})
    zero = np.zeros(problem.n)
    at, h = problem.at(zero), problem.hess(zero, np.zeros(problem.m))
    return QP(h, at.grad, at.jac, problem.cl - at.c, problem.cu - at.c, problem.lower, problem.upper)


def convex(n, m):
    """CVXQP1 to 3 of CUTEst: sums of squares of three variables far apart, m equations of three; 0.1 <= x <= 10."""
    i = np.arange(1, n + 1)
    squares = _triples(n, i, (2, 3), (1.0, 1.0, 1.0))
    a = _triples(n, i[:m], (4, 5), (1.0, 2.0, 3.0))
    right = np.full(m, 6.0)
    return QP(squares.T @ sparse.diags_array(i.astype(float)) @ squares, np.zeros(n), a, right, right, 0.1, 10.0)


def _triples(n, i, steps, factors):
    """A row for each i, with these factors at i and at multiples of it, modulo n."""
    columns = [i - 1, *((step * i - 1) % n for step in steps)]
    parts = (
        sparse.csr_array((np.full(i.size, factor), (np.arange(i.size), column)), shape=(i.size, n))
        for factor, column in zip(factors, columns, strict=True)
    )
    return sum(parts, sparse.csr_array((i.size, n)))


def dense_rows(n, m):
    """Few dense rows over many variables with bounds; curvatures and slopes of six orders of magnitude."""
    rng = np.random.default_rng(n)
    a = rng.uniform(0, 1, (m, n)) * (rng.random((m, n)) < 0.5)
    curvature, slope = 10.0 ** rng.uniform(-3, 3, n), 10.0 ** rng.uniform(-3, 3, n)
    right = 0.1 * a @ np.minimum(slope / curvature, 1.0)
    return QP(sparse.diags_array(curvature), -slope, a, np.full(m, -np.inf), right, 0.0, 1.0)


def grid_control(side, dimensions, bounded=True):
    """Forces on the edges of a grid, least squares, with balances at the nodes; bounds on every second edge."""
    rng = np.random.default_rng(side + dimensions)
    difference = sparse.diags_array([-np.ones(side), np.ones(side)], offsets=[0, 1], shape=(side, side + 1))
    eye, blocks = sparse.eye_array(side), []
    for axis in range(dimensions):
        factors = [difference if k == axis else eye for k in range(dimensions)]
        block = factors[0]
        for factor in factors[1:]:
            block = sparse.kron(block, factor)
        blocks.append(block)
    a = sparse.hstack(blocks)
    n, right = a.shape[1], rng.uniform(-1, 1, a.shape[0])
    upper = np.where(np.arange(n) % 2 * bounded, 0.4 * side, np.inf)
    return QP(sparse.eye_array(n), -rng.uniform(0, 1, n), a, right, right, -upper, upper)


def boundary_control(side):
    """A temperature near a target on a square whose boundary is controlled; 5-point Laplacian, bounds on both."""
    count, h = side * side, 1.0 / (side + 1)
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    laplacian = sparse.kron(line, sparse.eye_array(side)) + sparse.kron(sparse.eye_array(side), line)
    i, j = np.divmod(np.arange(count), side)
    rim = np.flatnonzero((i == 0) | (j == 0) | (i == side - 1) | (j == side - 1))
    controls = sparse.csr_array((np.ones(rim.size), (rim, np.arange(rim.size))), shape=(count, rim.size))
    target = np.sin(3 * np.pi * (i + 1) * h) * (j + 1) * h
    p = sparse.block_diag([h * h * sparse.eye_array(count), 1e-2 * h * sparse.eye_array(rim.size)])
    q = np.concatenate([-h * h * target, np.zeros(rim.size)])
    lower = np.concatenate([np.full(count, -np.inf), np.full(rim.size, -0.5)])
    upper = np.concatenate([np.full(count, 0.35), np.full(rim.size, 0.8)])
    return QP(p, q, sparse.hstack([laplacian, -controls]), np.zeros(count), np.zeros(count), lower, upper)


def portfolio(assets, factors):
    rng = np.random.default_rng(assets)
    loadings = sparse.random_array((assets, factors), density=0.5, rng=rng, data_sampler=rng.standard_normal)
    p = sparse.block_diag([sparse.diags_array(rng.uniform(0, math.sqrt(factors), assets)), sparse.eye_array(factors)])
    a = sparse.block_array([[np.ones((1, assets)), None], [loadings.T, -sparse.eye_array(factors)]])
    right = np.concatenate([[1.0], np.zeros(factors)])
    lower = np.concatenate([np.zeros(assets), np.full(factors, -np.inf)])
    return QP(p, np.concatenate([-rng.standard_normal(assets), np.zeros(factors)]), a, right, right, lower)


def lasso(rows, columns):
    rng = np.random.default_rng(rows)
    data = sparse.random_array((rows, columns), density=0.05, rng=rng, data_sampler=rng.standard_normal)
    y = data @ (rng.standard_normal(columns) * (rng.random(columns) < 0.1)) + 0.1 * rng.standard_normal(rows)
    weight = 0.2 * np.abs(data.T @ y).max()
    eye, blank = sparse.eye_array(columns), sparse.csr_array((columns, rows))
    a = sparse.block_array([[data, -sparse.eye_array(rows), None], [eye, blank, -eye], [eye, blank, eye]])
    p = sparse.block_diag([sparse.csr_array((columns, columns)), sparse.eye_array(rows), 0.0 * eye])
    q = np.concatenate([np.zeros(columns + rows), np.full(columns, weight)])
    lower = np.concatenate([y, np.full(columns, -np.inf), np.zeros(columns)])
    return QP(p, q, a, lower, np.concatenate([y, np.zeros(columns), np.full(columns, np.inf)]))


def masses(steps, count=6):
    """A chain of masses between springs is brought to rest: linear control with bounds on states and forces."""
    rng, h = np.random.default_rng(steps), 0.2
    springs = sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(count, count))
    eye = sparse.eye_array(count)
    move = sparse.block_array([[eye + h * h * springs, h * eye], [h * springs, eye]])
    push = sparse.vstack([h * h * eye, h * eye])
    states = sparse.kron(sparse.eye_array(steps + 1), sparse.eye_array(2 * count)) - sparse.kron(
        sparse.eye_array(steps + 1, k=-1), move
    )
    forces = sparse.vstack([sparse.csr_array((2 * count, steps * count)), sparse.kron(sparse.eye_array(steps), -push)])
    right = np.zeros((steps + 1) * 2 * count)
    right[: 2 * count] = rng.uniform(-1, 1, 2 * count)
    n_states, n_forces = right.size, steps * count
    p = sparse.diags_array(np.concatenate([np.ones(n_states), np.full(n_forces, 0.1)]))
    bound = np.concatenate([np.full(n_states, 4.0), np.full(n_forces, 0.5)])
    return QP(p, np.zeros(n_states + n_forces), sparse.hstack([states, forces]), right, right, -bound, bound)


#: CUTEst's convex quadratic and linear programmes with about 2,000 variables and rows or more; some of fixed size.
SIZES = {
    "YAO": {"P": 10000},
    "CVXQP1": {"N": 1000},
    "DTOC3": {"N": 5000},
    "HUESTIS": {"K": 10000},
    "HUESmMOD": {"K": 10000},
    "MOSARQP1": {"N": 2500, "M": 700},
    "MOSARQP2": {"N": 900, "M": 600},
    "QPBAND": {"N": 10000},
    "READING2": {"N": 5000},
    "BIGGSB1": {"N": 10000},
    "CHENHARK": {"N": 5000, "NFREE": 2500, "NDEGEN": 500},
    "PENTDI": {"N": 5000},
    "DEGDIAG": {"N": 10000},
    "DEGTRID": {"N": 10000},
    "JNLBRNG1": {"PT": 100, "PY": 100},
    "JNLBRNGB": {"PT": 100, "PY": 100},
    "OBSTCLAE": {"PX": 100, "PY": 100},
    "OBSTCLBM": {"PX": 100, "PY": 100},
    "TORSION1": {"Q": 37},
    "TORSIOND": {"Q": 37},
    "NOBNDTOR": {"Q": 37},
    "RDW2D51F": {"N": 32},
    "RDW2D52B": {"N": 32},
    "SIPOW1": {},
    "SIPOW3": {},
    "OET1": {},
    "OET3": {},
    **{f"LISWET{k}": {"N": 10000} for k in range(1, 13)},
}

PROBLEMS = {
    "CVXQP2 1,000": (convex, 1000, 250),
    "CVXQP3 1,000": (convex, 1000, 750),
    "grid 2d 30": (grid_control, 30, 2),
    "grid 2d 100": (grid_control, 100, 2),
    "grid 2d 100 free": (grid_control, 100, 2, False),
    "grid 3d 8": (grid_control, 8, 3),
    "grid 3d 15": (grid_control, 15, 3),
    "grid 3d 15 free": (grid_control, 15, 3, False),
    "boundary 30": (boundary_control, 30),
    "boundary 100": (boundary_control, 100),
    "dense rows 1,000": (dense_rows, 1000, 18),
    "dense rows 50,000": (dense_rows, 50000, 18),
    "portfolio 2,000": (portfolio, 2000, 20),
    "portfolio 10,000": (portfolio, 10000, 100),
    "lasso 500": (lasso, 500, 250),
    "lasso 2,000": (lasso, 2000, 1000),
    "masses 50": (masses, 50),
    "masses 1,000": (masses, 1000),
    **{name: (cutest, name, sizes) for name, sizes in SIZES.items()},
    "CVXQP1 10,000": (convex, 10000, 5000),
    "CVXQP2 10,000": (convex, 10000, 2500),
    "CVXQP3 10,000": (convex, 10000, 7500),
}


def problem_of(name):
    make, *given = PROBLEMS[name]
    options = given.pop() if isinstance(given[-1], dict) else {}
    return make(*given, **options)


# ------------------------------------------------------------------------------------------------------------- solvers


def with_auglag(qp, tol):
    p = qp.p.tocsr()
    start = np.clip(np.zeros(qp.q.size), qp.lb, qp.ub)
    rows = LinearConstraint(qp.a.tocsr(), qp.l, qp.u)
    result = auglag.minimize(
        lambda x: float(0.5 * x @ (p @ x) + qp.q @ x), start, jac=lambda x: p @ x + qp.q, hess=lambda x: p,
        bounds=Bounds(qp.lb, qp.ub), constraints=rows, tol=tol,
    )  # fmt: skip
    return result.x, result.multipliers[0]


def with_piqp(qp, tol):
    import piqp

    equal, a = qp.l == qp.u, qp.a.tocsr()
    solver = piqp.SparseSolver()
    solver.settings.eps_abs, solver.settings.eps_rel, solver.settings.max_iter = tol, 0.0, 1000
    rest = ~equal
    solver.setup(
        qp.p, qp.q, a[equal].tocsc(), qp.l[equal], a[rest].tocsc(), qp.l[rest], qp.u[rest], qp.lb, qp.ub
    )  # fmt: skip
    solver.solve()
    y, found = np.zeros(qp.l.size), solver.result
    y[equal], y[rest] = found.y, found.z_u - found.z_l
    return found.x, y


def with_proxqp(qp, tol):
    import proxsuite

    equal, a = qp.l == qp.u, qp.a.tocsr()
    bounded = np.isfinite(qp.lb) | np.isfinite(qp.ub)
    rows = sparse.vstack([a[~equal], sparse.eye_array(qp.q.size).tocsr()[bounded]]).tocsc()
    low, high = (
        np.clip(np.concatenate([r[~equal], b[bounded]]), -1e20, 1e20) for r, b in ((qp.l, qp.lb), (qp.u, qp.ub))
    )
    solver = proxsuite.proxqp.sparse.QP(qp.q.size, int(equal.sum()), rows.shape[0])
    solver.settings.eps_abs, solver.settings.eps_rel, solver.settings.max_iter = tol, 0.0, 100000
    solver.init(qp.p, qp.q, a[equal].tocsc(), qp.l[equal], sparse.csc_matrix(rows), low, high)
    solver.solve()
    y, found = np.zeros(qp.l.size), solver.results
    y[equal], y[~equal] = found.y, found.z[: int((~equal).sum())]
    return found.x, y


def with_osqp(qp, tol):
    import osqp

    rows = sparse.vstack([qp.a, sparse.eye_array(qp.q.size)]).tocsc()
    solver = osqp.OSQP()
    solver.setup(
        sparse.triu(qp.p).tocsc(), qp.q, sparse.csc_matrix(rows), np.append(qp.l, qp.lb), np.append(qp.u, qp.ub),
        eps_abs=tol, eps_rel=0.0, max_iter=10**7, polishing=True, verbose=False, time_limit=float(SECONDS),
    )  # fmt: skip
    found = solver.solve()
    return found.x, found.y[: qp.l.size]


SOLVERS = {"auglag": with_auglag, "PIQP": with_piqp, "ProxQP": with_proxqp, "OSQP": with_osqp}
MODULES = {"PIQP": "piqp", "ProxQP": "proxsuite", "OSQP": "osqp"}


def installed():
    return [name for name in SOLVERS if name not in MODULES or importlib.util.find_spec(MODULES[name])]


# ------------------------------------------------------------------------------------------------------------- judging


def judged(qp, x, y):
    """(objective, R) of a point with multipliers of the rows; what is beyond the bounds counts as violation."""
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return math.nan, math.inf
    p, inside = qp.p.tocsr(), np.clip(x, qp.lb, qp.ub)
    check = auglag.certify(
        lambda z: float(0.5 * z @ (p @ z) + qp.q @ z), inside, [y], jac=lambda z: p @ z + qp.q,
        bounds=Bounds(qp.lb, qp.ub), constraints=LinearConstraint(qp.a.tocsr(), qp.l, qp.u),
    )  # fmt: skip
    return float(0.5 * x @ (p @ x) + qp.q @ x), float(check.residual + np.max(np.abs(x - inside)))


def one(qp, solver, tol, pipe):
    warnings.simplefilter("ignore")
    SOLVERS[solver](masses(20), tol)
    start = time.process_time()
    limit = math.ceil(start) + SECONDS + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    x, y = SOLVERS[solver](qp, tol)
    seconds = time.process_time() - start
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    objective, residual = judged(qp, x, y)
    pipe.send({"seconds": seconds, "fun": objective, "residual": residual})


def in_child(qp, solver, tol):
    """What `one` sends; nothing where it ran out of time."""
    context = multiprocessing.get_context("fork")  # the problem is made once
    near, far = context.Pipe(duplex=False)
    process = context.Process(target=one, args=(qp, solver, tol, far))
    process.start()
    far.close()
    try:
        return near.recv()
    except EOFError:
        return {}
    finally:
        process.join()


def run(path, only):
    done, qp = {(r["problem"], r["solver"], r["tol"]): r for r in read(path)}, {}
    with open(path, "a") as file:
        for name, solver, tol in itertools.product(PROBLEMS, installed(), TOLERANCES):
            if (name, solver, tol) in done or not fnmatch.fnmatch(f"{solver}/{name}", only):
                continue
            if name not in qp:
                qp = {name: problem_of(name)}
            first = done.get((name, solver, TOLERANCES[0]))
            late = first is not None and not first.get("seconds", math.inf) <= SECONDS
            line = {"problem": name, "solver": solver, "tol": tol, "n": qp[name].q.size, "m": qp[name].l.size}
            line |= {} if late else in_child(qp[name], solver, tol)
            done[name, solver, tol] = line
            print(line, flush=True)
            file.write(json.dumps(line) + "\n")
            file.flush()


def read(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()] if Path(path).exists() else []


# --------------------------------------------------------------------------------------------------------------- table


def solved(row, tol):
    """R is a 2-norm, tolerances of QP solvers are for max norms."""
    allowed = tol * max(10.0, math.sqrt(row["n"] + row["m"]))
    return row.get("seconds", math.inf) <= SECONDS and row.get("residual", math.inf) <= allowed


def mean(values, shift=0.1):
    """The shifted geometric mean."""
    return math.exp(statistics.mean(math.log(v + shift) for v in values)) - shift


def table(path):
    rows = {(r["problem"], r["solver"], r["tol"]): r for r in read(path)}
    solvers = [s for s in SOLVERS if any(key[1] == s for key in rows)]
    run_by = {s: [n for n in PROBLEMS if all((n, s, t) in rows for t in TOLERANCES)] for s in solvers}
    names = run_by["auglag"]
    whole = [s for s in solvers if run_by[s] == names]
    common = [n for n in names if all(n in run_by[s] for s in solvers)]
    lines = [
        "# Convex quadratic programmes",
        "",
        "Redo with `python benchmarks/quadratic.py run quadratic.jsonl`, then `table quadratic.jsonl`. CPU seconds,",
        f"one thread, {SECONDS} s a problem; solved: R of `auglag.certify` with the solver's multipliers, a 2-norm in",
        "absolute terms, is at most sqrt(n + m) times the tolerance asked for, since QP solvers stop by max norms. Of",
        "a multiplier and the gap to its side R takes the smaller one, where they stop by the product: at degenerate",
        "solutions R asks for more. Means are shifted geometric (0.1 s), failures count as the limit. The rivals get",
        "matrices; auglag gets Python functions, checks derivatives, and certifies.",
        "",
        *_summary(rows, whole, names),
    ]
    if common != names:
        lines += [f"The {len(common)} problems that were run with all:", "", *_summary(rows, solvers, common)]
    lines += [
        f"Seconds at {TOLERANCES[0]:g} and {TOLERANCES[1]:g}; in brackets where the point is not that good; - means",
        "out of time, an empty cell that it was not run.",
        "",
    ]
    lines += ["| problem | n | m | " + " | ".join(solvers) + " |", "|---" * (3 + len(solvers)) + "|"]
    for n in names:
        sizes = next(r for key, r in rows.items() if key[0] == n and "n" in r)
        cells = [" / ".join(_cell(rows[n, s, t], t) for t in TOLERANCES) if n in run_by[s] else "" for s in solvers]
        lines.append(f"| {n} | {sizes['n']} | {sizes['m']} | " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    print(text)
    (Path(__file__).parent / "results" / "quadratic.md").write_text(text)


def _summary(rows, solvers, names):
    """Solved counts and mean times of these solvers on these problems."""
    lines = [
        "| solver | " + " | ".join(f"solved at {t:g} | mean s" for t in TOLERANCES) + " |",
        "|---" * (1 + 2 * len(TOLERANCES)) + "|",
    ]
    for s in solvers:
        cells = []
        for t in TOLERANCES:
            good = [solved(rows[n, s, t], t) for n in names]
            times = [rows[n, s, t]["seconds"] if ok else SECONDS for n, ok in zip(names, good, strict=True)]
            cells += [f"{sum(good)} of {len(names)}", f"{mean(times):.2f}"]
        lines.append(f"| {s} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _cell(row, tol):
    if "seconds" not in row:
        return "-"
    text = f"{row['seconds']:.2f}"
    return text if solved(row, tol) else f"({text})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("path")
    parser.add_argument("--only", default="*", help="run these: a pattern for solver/problem")
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments.path, arguments.only)
    else:
        table(arguments.path)


if __name__ == "__main__":
    main()
