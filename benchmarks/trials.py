"""Eight trials together (`auglag.stochastic.trials`) beside the same ones one by one, JAX functions, one run.

    python benchmarks/trials.py

Logistic loss of the positives subject to that of the negatives, 3000 x 57, double precision. Times are of one run each
and hold what a user waits for: compilation (done once together, in every trial one by one) and full-batch tests, which
are made trial by trial either way.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import numpy as np

from auglag.stochastic import SGD, SVRG, FixedEpochs, Method, StochasticProblem, jax_problem, minimize, trials

jax.config.update("jax_enable_x64", True)
SEEDS = range(8)
METHODS: tuple[Method, ...] = (SGD(batch=16), SGD(batch=128), SVRG(batch=16))


def problem(rows: int = 3000, n: int = 57) -> StochasticProblem:
    """Two classes of Gaussian rows."""
    rng = np.random.default_rng(0)
    t = np.where(np.arange(rows) % 2, 1.0, -1.0)
    A = rng.standard_normal((rows, n)) + 0.1 * t[:, None]
    return jax_problem(
        n,
        lambda x, b: 2.0 * jnp.mean((b[1] > 0) * jnp.logaddexp(0.0, -b[0] @ x)),
        constraints=lambda x, b: jnp.array([2.0 * jnp.mean((b[1] < 0) * jnp.logaddexp(0.0, b[0] @ x))]),
        lower=[-np.inf],
        upper=[0.5],
        data=(A, t),
    )


def seconds(p: StochasticProblem, method: Method, steps: int, together: bool) -> float:
    """Wall-clock time of all trials: two subproblems of so many steps each."""
    options: Any = {"method": method, "epochs": FixedEpochs(steps, unit="iterations"), "tol": 1e-12, "max_outer": 2}
    options |= {"max_epochs": None}
    started = time.perf_counter()
    if together:
        trials(p, seeds=SEEDS, **options)
    else:
        for seed in SEEDS:
            minimize(p, seed=seed, **options)
    return time.perf_counter() - started


def main() -> None:
    """Print the table."""
    p = problem()
    minimize(p, method="lbfgs", max_outer=1)  # the compiled full-batch functions belong to the problem
    print(f"{'method':<8} {'batch':>5} {'steps':>6} {'together':>9} {'one by one':>10} {'ratio':>6}")
    for method in METHODS:
        for steps in (256, 2048):
            both = [seconds(p, method, steps, together) for together in (True, False)]
            print(
                f"{method.name:<8} {method.batch!s:>5} {2 * steps:>6} {both[0]:>9.2f} {both[1]:>10.2f} "
                f"{both[1] / both[0]:>6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
