"""CUTEst evaluated by auglag and by S2MPJ itself: equal to rounding, and how much faster.

    python benchmarks/cutest_evaluation.py                    # the 472 problems, C backend
    python benchmarks/cutest_evaluation.py --backend numpy --csv numpy.csv
    python benchmarks/cutest_evaluation.py --sample 20        # every 24th problem

Each problem is compared at x0 and at --points random points: f, gradient, c, J (S2MPJ's fgx and cJx), and one product
with the Hessian of the Lagrangian (LHxyv) and one with `hess`; errors are |a - b| / (1 + |b|), entry by entry. Points
at which S2MPJ raises, or its f or c is not finite, are counted, and at how many of them ours is finite. Times are the
best of several batches of `problem.evaluate` (f, gradient, c and J, the matrix included) at two points in turn, so
that nothing is remembered, against the best of S2MPJ's fgx + cJx at x0. The exit status is 1 if an error exceeds 1e-10.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from auglag.problems import cutest
from auglag.problems.cutest.s2mpj import raw_problem


@dataclass
class Row:
    name: str
    n: int
    m: int
    backend: str = ""
    error_first: float = 0.0  #: the largest of f, gradient, c and J
    error_second: float = 0.0  #: the largest of Hessian product and Hessian
    compared: int = 0
    not_finite: int = 0  #: points where S2MPJ's f or c is not finite
    raised: int = 0  #: points where S2MPJ raises
    disagree: int = 0  #: of those points, how many at which ours is finite
    derivatives_not_finite: int = 0  #: f and c finite, but a derivative of S2MPJ's is not: that one is not compared
    build_ms: float = 0.0
    s2mpj_us: float = 0.0
    ours_us: float = 0.0
    product_us: float = 0.0
    s2mpj_product_us: float = 0.0

    @property
    def speedup(self) -> float:
        return self.s2mpj_us / self.ours_us


def error(ours: object, theirs: object) -> float:
    a, b = np.asarray(ours, dtype=float).ravel(), np.asarray(theirs, dtype=float).ravel()
    return float(np.max(np.abs(a - b) / (1.0 + np.abs(b)), initial=0.0))


def best_time(call: Callable[[], object], budget: float) -> float:
    """Seconds for one call: the best of batches that together take about `budget`."""
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    number = max(1, int(budget / 5 / max(once, 1e-7)))
    best = once
    until = time.perf_counter() + budget
    while time.perf_counter() < until:
        start = time.perf_counter()
        for _ in range(number):
            call()
        best = min(best, (time.perf_counter() - start) / number)
    return best


def points_of(problem: cutest.S2mpjProblem, number: int, rng: np.random.Generator) -> list[np.ndarray]:
    x0, n = problem.x0, problem.n
    moved = [
        lambda: x0 + 0.1 * rng.standard_normal(n) * (1.0 + np.abs(x0)),
        lambda: np.abs(x0) + 0.5 + rng.random(n),
        lambda: 3.0 * rng.standard_normal(n),
        lambda: -x0 - 0.3 * rng.random(n),
    ]
    return [x0] + [moved[i % len(moved)]() for i in range(number)]


def compare(problem: cutest.S2mpjProblem, raw: object, row: Row, number: int, rng: np.random.Generator) -> None:
    for x in points_of(problem, number, rng):
        ours = problem.evaluate(x)
        finite = bool(np.isfinite(ours.f) and np.isfinite(ours.c).all())
        y, v = rng.standard_normal(problem.m), rng.standard_normal(problem.n)
        try:
            f, g = raw.fgx(x)
            c, jac = raw.cJx(x)
            product = raw.LHxyv(x, y, v)
        except Exception:
            row.raised += 1
            row.disagree += finite
            continue
        if not (np.isfinite(f) and np.isfinite(c).all()):
            row.not_finite += 1
            row.disagree += finite
            continue
        row.compared += 1
        first = ((ours.f, f), (ours.grad, g), (ours.c, c), (ours.jac.toarray(), jac.toarray()))
        second = ((problem.hessp(x, y, v), product), (problem.hess(x, y) @ v, product))
        row.error_first = max(row.error_first, *(error(a, b) for a, b in first if np.isfinite(b).all()))
        row.error_second = max(row.error_second, *(error(a, b) for a, b in second if np.isfinite(b).all()), 0.0)
        row.derivatives_not_finite += not all(np.isfinite(b).all() for _, b in (*first, *second))


def measure(problem: cutest.S2mpjProblem, raw: object, row: Row, budget: float, rng: np.random.Generator) -> None:
    x = problem.x0.copy()
    near = [x, x.copy()]
    near[1][0] = np.nextafter(x[0], np.inf)
    turn = [0]

    def ours() -> None:
        turn[0] ^= 1
        problem.evaluate(near[turn[0]])

    y, v = rng.standard_normal(problem.m), rng.standard_normal(problem.n)
    try:
        row.s2mpj_us = 1e6 * best_time(lambda: (raw.fgx(x), raw.cJx(x)), budget)
        row.s2mpj_product_us = 1e6 * best_time(lambda: raw.LHxyv(x, y, v), budget / 5)
    except Exception:
        row.s2mpj_us = row.s2mpj_product_us = np.nan
    row.ours_us = 1e6 * best_time(ours, budget)
    row.product_us = 1e6 * best_time(lambda: problem.hessp(x, y, v), budget / 5)


def report(rows: list[Row], wall: float) -> None:
    timed = [row for row in rows if row.s2mpj_us > 0.0]
    speed = np.array([row.speedup for row in timed])
    ours = np.array([row.ours_us for row in timed])
    print(f"{len(rows)} problems in {wall:.0f} s, backend {sorted({row.backend for row in rows})}")
    print(
        f"points compared: {sum(row.compared for row in rows)}; S2MPJ not finite: {sum(r.not_finite for r in rows)}, ",
        end="",
    )
    print(f"raises: {sum(r.raised for r in rows)} (ours finite at {sum(r.disagree for r in rows)} of these)", end="; ")
    print(f"a derivative not finite: {sum(r.derivatives_not_finite for r in rows)}")
    for what in ("error_first", "error_second"):
        worst = max(rows, key=lambda row: getattr(row, what))
        above = [row.name for row in rows if not getattr(row, what) <= 1e-10]
        print(f"largest {what}: {getattr(worst, what):.1e} ({worst.name}); above 1e-10: {above}")
    print(f"speed-up, f + gradient + c + J: geometric mean {np.exp(np.log(speed).mean()):.0f}", end="; quantiles ")
    print(" ".join(f"{q:.0%} {np.quantile(speed, q):.4g}" for q in (0, 0.05, 0.25, 0.5, 0.75, 1)))
    print(
        "slowest beside S2MPJ: "
        + ", ".join(f"{r.name} {r.speedup:.3g}" for r in sorted(timed, key=lambda r: r.speedup)[:8])
    )
    print(
        f"one evaluation: median {np.median(ours):.3g} us, mean {ours.mean():.3g}, worst {ours.max():.4g}",
        end="; S2MPJ: ",
    )
    theirs = np.array([row.s2mpj_us for row in timed])
    print(f"median {np.median(theirs):.4g} us, mean {theirs.mean():.4g}, worst {theirs.max():.4g}")
    product = np.array([row.s2mpj_product_us / row.product_us for row in timed])
    print(f"Hessian product at a known x: geometric mean {np.exp(np.log(product).mean()):.0f} times S2MPJ's LHxyv")
    build = [row.build_ms for row in rows]
    print(f"building, without S2MPJ's construction: median {np.median(build):.3g} ms, worst {max(build):.4g} ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("c", "numpy"), default="c")
    parser.add_argument("--sample", type=int, metavar="N", help="about N problems, evenly over the table")
    parser.add_argument("--points", type=int, default=2, help="random points beside x0")
    parser.add_argument("--budget", type=float, default=0.05, help="seconds for each time measured")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, help="one line for each problem")
    parser.add_argument("names", nargs="*", help="problems (default: the paper's filter)")
    args = parser.parse_args()
    names = args.names or cutest.select()
    if args.sample:
        names = names[:: max(1, len(names) // args.sample)]
    rows, start = [], time.perf_counter()
    with np.errstate(all="ignore"):
        for i, name in enumerate(names):
            rng = np.random.default_rng([args.seed, i])
            raw = raw_problem(name)
            begun = time.perf_counter()
            problem = cutest.S2mpjProblem(raw, compiled=args.backend == "c")
            row = Row(name, problem.n, problem.m, problem.backend, build_ms=1e3 * (time.perf_counter() - begun))
            compare(problem, raw, row, args.points, rng)
            measure(problem, raw, row, args.budget, rng)
            rows.append(row)
            if sys.stderr.isatty():
                print(f"\r{i + 1}/{len(names)} {name:12}", end="", file=sys.stderr)
    report(rows, time.perf_counter() - start)
    if args.csv:
        with args.csv.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow([*(field.name for field in fields(Row)), "speedup"])
            writer.writerows([*asdict(row).values(), row.speedup] for row in rows)
    wrong = [row.name for row in rows if not max(row.error_first, row.error_second) <= 1e-10]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
