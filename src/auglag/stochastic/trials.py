"""Several seeds of one problem: `auglag.stochastic.trials`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from auglag.algorithm.rules import DualRule, PenaltyRule, ToleranceRule
from auglag.algorithm.status import Status
from auglag.errors import InputError
from auglag.log import JsonLog
from auglag.stochastic.curvature import FullBatchSolver, GaussNewton
from auglag.stochastic.fused import Backend
from auglag.stochastic.methods import Method
from auglag.stochastic.minimize import choose, minimize
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.result import StochasticResult
from auglag.stochastic.settings import resolve
from auglag.stochastic.together import Gathering


def trials(
    problem: StochasticProblem,
    x0: Any = None,
    *,
    seeds: Iterable[int],
    method: str | Method | GaussNewton | FullBatchSolver = "auto",
    variant: str | None = None,
    preset: str | None = None,
    epochs: Any = None,
    tol: float = 1e-3,
    max_epochs: float | None = 1000.0,
    max_gradients: int | None = None,
    max_seconds: float | None = None,
    max_outer: int | None = 10_000,
    y0: Any = None,
    penalty: PenaltyRule | None = None,
    dual: DualRule | None = None,
    tolerance: ToleranceRule | None = None,
    slacks: str | None = None,
    backend: str = "auto",
    test_rows: int = 20_000,
    callback: Callable[[dict[str, Any]], Any] | None = None,
    check_derivatives: bool | str = "first",
    check_means: bool = True,
) -> list[StochasticResult]:
    """Run `minimize` once for every seed; the results are the same as one by one, up to rounding.

    Sampled methods ("sgd", "pstorm", "svrg") on JAX functions with data run together: the inner loops of all trials
    are one compiled `vmap` of the scan. Everything else (other blocks, other methods, `backend="numpy"`, functions that
    cannot be vmapped) runs one after another.

    The parameters that are not listed are those of `auglag.stochastic.minimize`; `progress`, `checkpoint`, `resume` and
    a `JsonLog` are for single runs.

    Parameters
    ----------
    problem : StochasticProblem
        The problem of all trials.
    seeds : iterable of int
        One trial each.
    callback : callable
        As in `minimize`; the row also has the "seed". Returning True stops that trial alone.
    max_seconds : float
        For each trial; trials that run together share the clock.

    Returns
    -------
    list of StochasticResult
        In the order of the seeds. An exception in one trial ends all and is raised. An interrupt ends all with the best
        point each has; trials that had not begun are then left out.

    Examples
    --------
    >>> import numpy as np
    >>> from auglag.stochastic import StochasticProblem, trials
    >>> problem = StochasticProblem.from_functions(
    ...     1,
    ...     lambda x, s: 0.5 * np.mean((x - s) ** 2),
    ...     lambda x, s: np.mean(x - s, axis=0),
    ...     data=np.linspace(0.0, 2.0, 101)[:, None],
    ... )
    >>> [result.x.round(2).tolist() for result in trials(problem, [0.0], seeds=range(2))]
    [[1.0], [1.0]]
    """
    wanted = _seeds(seeds)
    if not isinstance(problem, StochasticProblem):
        raise InputError(f"problem must be a StochasticProblem, got {type(problem).__name__}")
    if isinstance(callback, JsonLog):
        raise InputError("callback must be a function, got a JsonLog, which holds one run: use minimize(seed=...)")
    gathering = Gathering()

    def solve(engine: str | Backend, seed: int) -> StochasticResult:
        def watched(entry: dict[str, Any]) -> Any:
            if gathering.interrupted:
                raise KeyboardInterrupt
            return callback({**entry, "seed": seed}) if callback is not None else None

        try:
            return minimize(
                problem, x0, method=method, variant=variant, preset=preset, epochs=epochs, tol=tol, seed=seed,
                max_epochs=max_epochs, max_gradients=max_gradients, max_seconds=max_seconds, max_outer=max_outer, y0=y0,
                penalty=penalty, dual=dual, tolerance=tolerance, slacks=slacks, backend=engine, test_rows=test_rows,
                callback=watched, check_derivatives=check_derivatives, check_means=check_means,
            )  # fmt: skip
        except Exception as error:
            error.add_note(f"in the trial with seed {seed}")
            raise

    chosen = choose(problem) if method == "auto" and preset is None else method
    if len(wanted) > 1 and isinstance(resolve(chosen, preset=preset).method, Method):
        shared = Backend(backend, problem, gathering.compiled)
        if shared.kind == "jax":
            return gathering.run([partial(solve, shared, seed) for seed in wanted])
    results: list[StochasticResult] = []
    for seed in wanted:
        results.append(solve(backend, seed))
        if results[-1].status is Status.INTERRUPTED:
            break
    return results


def _seeds(seeds: Any) -> list[int]:
    try:
        wanted = list(seeds)
    except TypeError:
        raise InputError(f"seeds must be a sequence of integers such as range(8), got {seeds!r:.60}") from None
    if not wanted:
        raise InputError("seeds must have at least one entry, got none")
    return wanted
