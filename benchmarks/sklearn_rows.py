"""CPU seconds and passes of the solvers of `auglag.sklearn` against the number of rows.

    python benchmarks/sklearn_rows.py [--rows 10000 100000 1000000] [--features 50] [--seeds 3]
        [--solvers deterministic single-loop] [--output FILE]

Two Gaussian classes; the second group of rows has a shifted feature that goes with the class. Times are of `fit`, with
its checks of the input and the standardisation, the median over the seeds; scikit-learn's logistic regression without
any constraint stands beside them.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from auglag.sklearn import FairLogisticRegression, NeymanPearsonClassifier

SOLVERS = ("deterministic", "single-loop", "stochastic")


def data(rows: int, features: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(X, y, groups): feature k separates the classes by about k^-3/4."""
    rng = np.random.default_rng(seed)
    y = rng.random(rows) < 0.3
    X = rng.standard_normal((rows, features))
    X[y] += 1.2 * rng.standard_normal(features) * np.arange(1, features + 1) ** -0.75
    groups = rng.random(rows) < np.where(y, 0.6, 0.4)
    X[groups, 1] += 0.5
    return X, y, groups


def models(solver: str) -> dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], Any]]:
    common: dict[str, Any] = {"solver": solver, "random_state": 0}
    return {
        "Neyman-Pearson": lambda X, y, s: NeymanPearsonClassifier(0.15, **common).fit(X, y),
        "Neyman-Pearson, l1": lambda X, y, s: NeymanPearsonClassifier(0.15, l1=1e-3, **common).fit(X, y),
        "demographic parity": lambda X, y, s: FairLogisticRegression(0.05, **common).fit(X, y, sensitive_features=s),
    }


def measured(fit: Callable[..., Any], given: tuple[np.ndarray, ...]) -> tuple[float, float]:
    """(CPU seconds, passes)."""
    began = time.process_time()
    model = fit(*given)
    return time.process_time() - began, float(np.max(model.n_iter_))


def kinds(solvers: Sequence[str]) -> dict[tuple[str, str], Callable[..., Any]]:
    """(model, solver with its tolerance) -> how to fit it."""
    found: dict[tuple[str, str], Callable[..., Any]] = {
        ("no constraint", "scikit-learn"): lambda X, y, s: LogisticRegression().fit(X, y)
    }
    for solver in solvers:
        tol = "1e-2" if solver == "stochastic" else "1e-5"
        found |= {(name, f"{solver}, {tol}"): fit for name, fit in models(solver).items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=SOLVERS[:2])
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    cells: dict[tuple[str, str], list[str]] = {key: [] for key in kinds(options.solvers)}
    for fit in kinds(options.solvers).values():  # compiles what is compiled
        fit(*data(2000, 5, 0))
    for rows in options.rows:
        found: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in cells}
        for seed in range(options.seeds):
            given = data(rows, options.features, seed)
            for key, fit in kinds(options.solvers).items():
                found[key].append(measured(fit, given))
                print(rows, seed, *key, *found[key][-1], flush=True)
        for key, numbers in found.items():
            seconds, passes = np.median(numbers, axis=0)
            cells[key].append(f"{seconds:.2f} ({passes:.0f})")
    titles = " | ".join(f"{rows:,} rows" for rows in options.rows)
    lines = [f"CPU seconds (passes), medians of {options.seeds} seeds, {options.features} features", ""]
    lines += [f"| model | solver, tol | {titles} |", "|---" * (2 + len(options.rows)) + "|"]
    lines += [f"| {name} | {solver} | {' | '.join(row)} |" for (name, solver), row in sorted(cells.items())]
    print("\n".join(lines))
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
