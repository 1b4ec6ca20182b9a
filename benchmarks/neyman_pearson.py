"""Passes over the data until R <= 1e-2, 1e-3, 1e-6 on the Neyman-Pearson problem: the default method beside its rivals.

    python benchmarks/neyman_pearson.py [--trials 20] [--first-seed 5000] [--output FILE]

Every trial has its own split and starting point, at four values of chat. A pass is one evaluation of every row; all
full-batch tests, the evaluation at x0 and rows whose curvature is formed are counted. R is measured on the full batch.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numba import njit
from scipy.optimize import minimize as scipy_minimize

from auglag.certificate import certificate
from auglag.datasets import load_spambase
from auglag.stochastic import FullBatchProblem, StochasticProblem, minimize, neyman_pearson

CHATS, LEVELS, PASSES = (0.6, 0.7, 0.8, 0.9), (1e-2, 1e-3, 1e-6), 2000.0
Trace = list[tuple[float, float]]  #: (passes, R)


def residual(problem: StochasticProblem, x: np.ndarray) -> float:
    """R of a bare x with the multiplier that makes it look best."""
    at = problem.evaluate(x)
    view = FullBatchProblem.from_evaluation(problem, at)
    fitted = max(0.0, -float(at.jac[0] @ at.grad) / float(at.jac[0] @ at.jac[0]))
    return min(certificate(view, x, np.array([y])).residual for y in (0.0, fitted))


def ours(**options: object) -> Callable[[StochasticProblem, np.ndarray, int], Trace]:
    def run(problem: StochasticProblem, x0: np.ndarray, seed: int) -> Trace:
        result = minimize(problem, x0, tol=1e-6, seed=seed, max_epochs=PASSES, **options)
        return [(row["epochs"], row["residual"]) for row in result.trace]

    return run


def slsqp(problem: StochasticProblem, x0: np.ndarray, seed: int) -> Trace:
    """SciPy's SLSQP; every new point is one pass."""
    trace: Trace = []
    known: dict[bytes, object] = {}

    def at(x: np.ndarray) -> object:
        key = x.tobytes()
        if key not in known:
            known.clear()
            known[key] = problem.evaluate(x)
            trace.append((len(trace) + 1.0, residual(problem, x)))
        return known[key]

    upper = problem.upper[0]
    constraint = {"type": "ineq", "fun": lambda x: upper - at(x).c[0], "jac": lambda x: -at(x).jac[0]}
    scipy_minimize(
        lambda x: at(x).f, x0, jac=lambda x: at(x).grad, constraints=constraint, method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 600},
    )  # fmt: skip
    return trace


@njit(fastmath=True, error_model="numpy")
def ascent_steps(plus, minus, first, second, x, y, chat, rate, dual, decay, t, total):
    """Steps x <- x - a_t D, y <- max(0, y + dual c) in place, one sample for both; returns y."""
    g = np.empty_like(x)
    for step in range(first.shape[0]):
        batch, c = first.shape[1], 0.0
        g[:] = 0.0
        for e in range(batch):
            a, b = plus[first[step, e]], minus[second[step, e]]
            z, w = 0.0, 0.0
            for j in range(x.size):
                z += a[j] * x[j]
                w += b[j] * x[j]
            p, q = -1.0 / (1.0 + np.exp(z)) / batch, y / (1.0 + np.exp(-w)) / batch
            c += max(w, 0.0) + np.log1p(np.exp(-abs(w)))
            for j in range(x.size):
                g[j] += p * a[j] + q * b[j]
        alpha = rate / np.sqrt(1.0 + decay * (t + step)) if decay >= 0.0 else rate * max(0.0, 1.0 + decay * (t + step))
        for j in range(x.size):
            x[j] -= alpha * g[j]
            total[j] += x[j]
        y = max(0.0, y + dual * (c / batch - chat))
    return y


def descent_ascent(rate: float, dual: float, decay: float) -> Callable[[StochasticProblem, np.ndarray, int], Trace]:
    """Stochastic gradient descent in x and ascent in y on the plain Lagrangian, the last half averaged."""

    def run(problem: StochasticProblem, x0: np.ndarray, seed: int) -> Trace:
        (plus, minus), rng = [block.A for block in problem.linear], np.random.default_rng(seed)
        rows, batch, x, y, chat = problem.rows, 128, x0.copy(), 0.0, problem.upper[0]
        total, t, trace = np.zeros_like(x), 0, []
        for mark in [int(rows * PASSES / 2**i / (2 * batch)) for i in range(8, -1, -1)]:  # doubling amounts of work
            total[:], count = 0.0, mark - t
            for start in range(0, count, 500):
                shape = (min(500, count - start), batch)
                first, second = rng.integers(0, len(plus), shape), rng.integers(0, len(minus), shape)
                y = ascent_steps(plus, minus, first, second, x, y, chat, rate, dual, decay, t + start, total)
            t = mark  # the average since the mark before is that of the last half
            trace.append((2 * batch * t / rows + len(trace) + 1, residual(problem, total / count)))
        return trace

    return run


def trials(count: int, first: int) -> Iterator[tuple[float, StochasticProblem, np.ndarray, int]]:
    data = load_spambase()
    for chat in CHATS:
        for seed in range(first, first + count):
            problem = neyman_pearson(data.X, data.y, chat=chat, seed=seed)
            yield chat, problem, np.random.default_rng(seed + 1).standard_normal(57), seed


def passes_to(trace: Trace) -> list[float]:
    return [next((passes for passes, R in trace if level >= R), math.inf) for level in LEVELS]


def words(values: np.ndarray) -> str:
    return " / ".join("no" if math.isinf(v) else f"{v:.1f}" for v in values)


def tuned_descent_ascent(first: int) -> tuple[str, Callable]:
    """The best of 24 settings by the median R after all passes, on its own splits; decay 1/sqrt(1 + t/t0) or linear."""
    best, horizon = None, PASSES * 3681 / 256
    decays = (
        (0.0, "constant"),
        (1e-3, "1/sqrt(1 + t/1000)"),
        (1e-2, "1/sqrt(1 + t/100)"),
        (-1 / horizon, "linear to 0"),
    )
    for rate in (1.0, 3.0, 10.0):
        for dual in (0.001, 0.01):
            for decay, name in decays:
                run = descent_ascent(rate, dual, decay)
                last = np.median([run(p, x0, seed)[-1][1] for _, p, x0, seed in trials(2, first + 900)])
                if best is None or last < best[0]:
                    best = (last, f"rate {rate:g}, {name}, dual {dual:g}", run)
    return best[1], best[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=5000)
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args()
    setting, ascent = tuned_descent_ascent(options.first_seed)
    methods = {
        "**default (sampled steps, then screened Gauss-Newton)**": ours(),
        "Gauss-Newton alone": ours(method="gauss-newton"),
        "L-BFGS-B, full batch, slack eliminated": ours(method="lbfgs"),
        "SLSQP (SciPy)": slsqp,
        "SVRG, default settings": ours(method="svrg"),
        "SGD, default settings": ours(method="sgd"),
        "PStorm, default settings": ours(method="pstorm"),
        "SGD, the paper's settings": ours(preset="paper", method="sgd"),
        "PStorm, the paper's settings": ours(preset="paper", method="pstorm"),
        f"descent-ascent, tuned ({setting}), tail average": ascent,
    }
    lines = [
        f"{4 * options.trials} runs each ({options.trials} splits and starting points, seed {options.first_seed} on; "
        f"four chat); at most {PASSES:g} passes. Passes until R <= 1e-2 / 1e-3 / 1e-6, at the first full-batch test "
        "that shows it. Descent-ascent is tested at doubling amounts of work only, on the average since the test "
        "before: its passes may be up to twice too many. Its setting is the best of 24 on other splits.",
        "",
        "| method | median | worst | reached | lowest R of the run, median | CPU s per run |",
        "|---|---|---|---|---|---|",
    ]
    details = ["", "R <= 1e-3 reached, by chat:", "", "| method | " + " | ".join(map(str, CHATS)) + " |"]
    details += ["|---" * 5 + "|"]
    for name, run in methods.items():
        found, last, chats, began = [], [], [], time.process_time()
        for chat, problem, x0, seed in trials(options.trials, options.first_seed):
            trace = run(problem, x0, seed)
            found.append(passes_to(trace))
            last.append(min(R for _, R in trace))
            chats.append(chat)
        hits, each = np.array(found), (time.process_time() - began) / len(found)
        reached = " / ".join(str(int(np.isfinite(hits[:, i]).sum())) for i in range(3))
        middle = np.sort(hits, axis=0)[(len(hits) - 1) // 2]
        lines.append(
            f"| {name} | {words(middle)} | {words(hits.max(axis=0))} | {reached} | {np.median(last):.1e} | {each:.2f} |"
        )
        per = [f"{int(np.isfinite(hits[np.array(chats) == c, 1]).sum())}/{options.trials}" for c in CHATS]
        details.append(f"| {name} | " + " | ".join(per) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join([*lines, *details])
    print(text)
    if options.output is not None:
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
