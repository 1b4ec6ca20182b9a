"""Solved counts and gradient evaluations on the Hock-Schittkowski problems of the package, auglag beside SciPy.

Redo with: python benchmarks/hock_schittkowski.py
Every point is judged by the same certificate (`auglag.certify` with the best multipliers, R <= 1e-6 in the problem's
units), whatever the solver says of itself. Counts are exact; seconds are of this run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import time
import warnings

import numpy as np
import scipy.optimize as so

import auglag
from auglag.problems.hock_schittkowski import PROBLEMS

TOL = 1e-6


def pieces(known, derivatives):
    rows = []
    for row in known.rows:
        extra = {"jac": row.jac} if derivatives else {}
        rows.append(so.NonlinearConstraint(row.fun, row.lower, row.upper, **extra))
    return rows, so.Bounds(known.lower, known.upper)


def ours(known, derivatives=True, **options):
    rows, bounds = pieces(known, derivatives)
    result = auglag.minimize(
        known.fun,
        known.x0,
        jac=known.grad if derivatives else None,
        bounds=bounds,
        constraints=rows,
        tol=TOL,
        **options,
    )
    return result.x, result.njev or result.nfev, result.success


def scipys(method, known, options):
    rows, bounds = pieces(known, True)
    count = {"n": 0}

    def gradient(x):
        count["n"] += 1
        return known.grad(x)

    x0 = np.clip(known.x0, known.lower, known.upper)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = so.minimize(
            known.fun, x0, jac=gradient, bounds=bounds, constraints=rows, method=method, options=options
        )
    return result.x, count["n"], bool(result.success)


SOLVERS = {
    "auglag, default": lambda known: ours(known),
    "auglag, always-full": lambda known: ours(known, variant="always-full"),
    "auglag, adaptive-short": lambda known: ours(known, variant="adaptive-short"),
    "auglag, always-short": lambda known: ours(known, variant="always-short"),
    "auglag, preset paper": lambda known: ours(known, preset="paper"),
    "auglag, inner panoc": lambda known: ours(known, inner="panoc"),
    "SciPy SLSQP": lambda known: scipys("SLSQP", known, {"maxiter": 1000, "ftol": 1e-12}),
    "SciPy trust-constr": lambda known: scipys("trust-constr", known, {"maxiter": 2000, "gtol": 1e-8}),
    "auglag, no derivatives": lambda known: ours(known, derivatives=False),
}


def judged(known, x):
    rows, bounds = pieces(known, True)
    inside = np.clip(x, known.lower, known.upper)
    return auglag.certify(known.fun, inside, jac=known.grad, bounds=bounds, constraints=rows).meets(TOL)


def main():
    print(f"{len(PROBLEMS)} problems, judged at R <= {TOL:g}")
    print(
        "| solver | certified | claims success without a certificate | median gradients | seconds |\n"
        "|---|---|---|---|---|"
    )
    for name, solve in SOLVERS.items():
        solved, false_claims, counts, started = 0, [], [], time.perf_counter()
        for problem, known in PROBLEMS.items():
            x, gradients, claim = solve(known)
            good = bool(np.isfinite(x).all()) and judged(known, x)
            solved += good
            counts += [gradients] if good else []
            if claim and not good:
                false_claims.append(problem)
        unit = " (function calls)" if name.endswith("no derivatives") else ""
        seconds = time.perf_counter() - started
        print(
            f"| {name} | {solved} | {len(false_claims)} | {statistics.median(counts):g}{unit} | {seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
