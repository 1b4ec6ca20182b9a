"""The front door of the stochastic half: `auglag.stochastic.minimize`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from auglag._arrays import real_array
from auglag._names import nearest
from auglag._typing import Vector
from auglag.algorithm.rules import DualRule, PenaltyRule, ToleranceRule
from auglag.errors import InputError, OptionError, require_integer, require_positive
from auglag.log import JsonLog
from auglag.persist.checkpoint import usable_path
from auglag.prox import SquaredL2, Zero
from auglag.report import logger
from auglag.stochastic.context import Context, structured
from auglag.stochastic.curvature import FullBatchSolver, GaussNewton
from auglag.stochastic.derivatives import check_derivatives as compare
from auglag.stochastic.fused import Backend
from auglag.stochastic.limits import Limits
from auglag.stochastic.means import check_means as compare_means
from auglag.stochastic.methods import Method
from auglag.stochastic.nested import Start, worthwhile
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.progress import Table
from auglag.stochastic.result import StochasticResult
from auglag.stochastic.run import Run
from auglag.stochastic.settings import Settings, resolve
from auglag.stochastic.single_loop import SingleLoop
from auglag.strategy.hooks import Hooks


def minimize(
    problem: StochasticProblem,
    x0: Any = None,
    *,
    method: str | Method | GaussNewton | FullBatchSolver | SingleLoop = "auto",
    variant: str | None = None,
    preset: str | None = None,
    epochs: Any = None,
    tol: float = 1e-3,
    seed: int = 0,
    max_epochs: float | None = 1000.0,
    max_gradients: int | None = None,
    max_seconds: float | None = None,
    max_outer: int | None = 10_000,
    y0: Any = None,
    penalty: PenaltyRule | None = None,
    dual: DualRule | None = None,
    tolerance: ToleranceRule | None = None,
    slacks: str | None = None,
    backend: str | Backend = "auto",
    test_rows: int = 20_000,
    callback: Callable[[dict[str, Any]], Any] | JsonLog | None = None,
    progress: bool = False,
    check_derivatives: bool | str = "first",
    check_means: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    **unknown: Any,
) -> StochasticResult:
    """Minimise f(x) + g(x) subject to lower <= c(x) <= upper, where f and c are means over data or expectations.

    Parameters
    ----------
    problem : StochasticProblem
        See `StochasticProblem.from_functions`, `LinearBlock` and `neyman_pearson`.
    x0 : array_like
        The start; by default the problem's, else 0.
    method : str or object
        "auto" takes the method with the fewest passes over the data that the problem allows: "gauss-newton" for known
        structure and up to 1500 variables (should that get stuck, "lbfgs" begins again at x0), "lbfgs" for more
        variables or no structure (both evaluate full batches, and start on samples where there are many more rows than
        variables; Gauss-Newton on linear blocks otherwise with two passes of sampled steps, unless `y0` is given or a
        few batches cannot tell x0 from a solution), "lbfgs" on larger and larger samples for samplers, "pstorm" for
        iterators of batches. "sgd", "pstorm", "svrg" are sampled methods under Algorithm 2; "single-loop" begins with
        sampled steps in which multipliers move too, and then goes on with full batches; an object such as
        `SGD(step=InverseSqrt(3.0), batch=64)`, or one of your own class, does as well.
    variant : str
        "adaptive-full" (Algorithm 1, the default), "always-full", "adaptive-short", "always-short".
    preset : str
        "paper" (the settings of the paper's experiments), "paper-fixed", "stoc-ialm" (Li et al. 2023).
    epochs : AdaptiveEpochs or FixedEpochs
        How long a sampled method runs on each subproblem: Algorithm 2, or so many epochs. (For the passes of the whole
        run see `max_epochs`.)
    tol : float
        Success means certificate.residual <= tol; for a sampler, that the upper end of R's interval is. The default,
        1e-3, is larger than that of `auglag.minimize` (1e-6): means over data are seldom known better than that.
    seed : int
        All randomness of the run follows from it.
    max_epochs : float
        The most passes over the data; every row evaluation counts, full-batch tests too; for samplers in units of
        `test_rows`. At a limit the best certified point is returned; the full-batch tests that end the run may lie a
        pass or two beyond it.
    max_gradients : int
        The most stochastic gradients.
    max_seconds : float
        The most seconds, by the clock on the wall.
    max_outer : int
        The most outer iterations.
    y0 : array_like
        Multipliers to start from (0). With method="auto" no sampled steps come first then: they would lead away.
    penalty : PenaltyRule
        How the penalty grows, instead of the method's rule, as in `auglag.minimize`.
    dual : DualRule
        The step of the multipliers, instead of the method's rule, as in `auglag.minimize`.
    tolerance : ToleranceRule
        How exactly subproblems are solved, instead of the method's rule, as in `auglag.minimize`.
    slacks : str
        "explicit" (variables of the subproblem, as in the paper) or "closed" (minimised out).
    backend : str
        "auto" uses compiled inner loops where there are any: numba's for linear models if it is installed, JAX's for
        JAX functions. "numba" and "jax" insist, "numpy" does without. All give the same iterates up to rounding.
    test_rows : int
        Rows of the fixed sample on which a run with samplers is tested; its certificate rests on a fresh one, four
        times as large. "lbfgs" begins with this sample, and takes larger ones where the certificate fails.
    callback : callable
        Called with the row of the trace after every full-batch test; return True or raise StopIteration to stop. A
        `JsonLog("run.jsonl")` writes a line per test and per outer iteration, which `auglag watch` shows.
    progress : bool
        Print a line per full-batch test.
    check_derivatives : "first" (or True) or False
        Compare the `gradient`, `vjp` and `jacobian` given with differences of `objective` and `constraints`, on 256
        rows along one random direction at x0; a wrong one raises `DerivativeError` and names the entry. The rows are
        counted. Linear blocks and JAX functions need no check.
    check_means : bool
        Compare `objective` and `constraints` on some rows near x0 with the mean of their values on two parts of these
        rows. Sums, and constraints that are ratios of means, raise `InputError`, because the chunks and samples of a
        test would make another problem of them; an objective that depends on the batch otherwise is a warning.
    checkpoint : path
        A file to which the state is saved after every test.
    resume : path
        Go on from a saved state, bit for bit.

    Returns
    -------
    StochasticResult
        With `x`, `certificate.residual` (R), `holdout`, `epochs`, `trace` and what else its docstring lists.

    Examples
    --------
    A spam filter that finds as much spam as it can while the loss on good mail is at most 0.5:

    >>> from auglag.datasets import load_spambase
    >>> from auglag.stochastic import minimize, neyman_pearson
    >>> data = load_spambase()
    >>> result = minimize(neyman_pearson(data.X, data.y, chat=0.5))
    >>> result.success
    True
    """
    if unknown:
        name = next(iter(unknown))
        hint = f": {TRANSLATIONS[name]}" if name in TRANSLATIONS else nearest(name, _ARGUMENTS)
        raise OptionError(f"stochastic.minimize() has no argument {name!r}{hint}")
    if not isinstance(problem, StochasticProblem):
        raise InputError(f"problem must be a StochasticProblem, got {type(problem).__name__}")
    require_positive(tol, "tol")
    require_integer(seed, "seed", 0)
    require_integer(test_rows, "test_rows", 100)
    if check_derivatives not in ("first", True, False):
        raise InputError(f"check_derivatives must be 'first' or False, got {check_derivatives!r}")
    limits = Limits.of(max_epochs=max_epochs, max_gradients=max_gradients, max_seconds=max_seconds, max_outer=max_outer)
    chosen = choose(problem) if method == "auto" and preset is None else method
    settings = resolve(
        chosen,
        variant=variant,
        preset=preset,
        epochs=epochs,
        penalty=penalty,
        dual=dual,
        tolerance=tolerance,
        slacks=slacks,
    )
    _refuse(problem, settings)
    checkpoint = usable_path(checkpoint, "checkpoint")
    stream = logger.output(progress)
    table = None if stream is None else Table(stream)
    log, callback = (callback, callback.callback) if isinstance(callback, JsonLog) else (None, callback)
    hooks = Hooks(callback, table, table.end if table is not None else None, checkpoint, resume, log)
    sampled = isinstance(settings.method, Method)
    nested = not isinstance(settings.method, Method) and worthwhile(problem, settings.method.nested)
    start = method == "auto" and chosen == "gauss-newton" and problem.linear is not None and y0 is None and not nested
    context = Context(
        problem=problem, settings=settings, start=Start(_start(problem, x0), _multipliers(problem, y0)), tol=float(tol),
        seed=int(seed), limits=limits, hooks=hooks,
        backend=backend if isinstance(backend, Backend) else Backend(backend if sampled else "numpy", problem),
        test_rows=int(test_rows),
        nested=nested, sampled=start,
        rescue=method == "auto" and isinstance(settings.method, GaussNewton),
    )  # fmt: skip

    def solve() -> StochasticResult:
        run = Run(context)
        if check_derivatives and resume is None:
            run.state.ledger.rows += compare(problem, context.start.x, context.rng("derivatives"))
        if check_means and resume is None:
            steps = sampled or isinstance(settings.method, SingleLoop)
            run.state.ledger.rows += compare_means(problem, context.start.x, context.rng("means"), sampled=steps)
        return run.solve()

    return solve() if log is None else log.around(solve, context.header())


_ARGUMENTS = tuple(name for name in inspect.signature(minimize).parameters if name != "unknown")
#: Arguments of other libraries, and what to write instead.
TRANSLATIONS = {
    "options": "pass each option as a keyword",
    "maxiter": "write max_outer=..., or max_epochs=... for passes over the data",
    "max_iter": "write max_outer=..., or max_epochs=... for passes over the data",
    "n_epochs": "write max_epochs=...",
    "num_epochs": "write max_epochs=...",
    "verbose": "write progress=True",
    "disp": "write progress=True",
    "random_state": "write seed=...",
    "rng": "write seed=...",
    "budget": "write max_epochs=..., max_gradients=..., max_seconds=... or max_outer=...",
    "inner": "write method=...",
    "batch": "write method=SGD(batch=...), or another method's",
    "batch_size": "write method=SGD(batch=...), or another method's",
    "lr": "write method=SGD(step=ConstantStep(...)), or another step rule",
    "learning_rate": "write method=SGD(step=ConstantStep(...)), or another step rule",
    "step": "write method=SGD(step=ConstantStep(...)), or another step rule",
    "warm_start": "write x0=result.x, y0=result.multipliers",
    "constraints": "they are part of the problem",
    "bounds": "they are part of the problem: g=auglag.prox.Box(...)",
}


def choose(problem: StochasticProblem) -> str:
    """The name of the method with the fewest passes that the problem allows."""
    if not problem.finite_data:
        return "pstorm" if _iterated(problem) else "lbfgs"
    return "gauss-newton" if structured(problem) else "lbfgs"


def _refuse(problem: StochasticProblem, settings: Settings) -> None:
    method = settings.method
    if not problem.finite_data and isinstance(method, GaussNewton):
        raise InputError("method='gauss-newton' needs data with an end; a sampler takes 'lbfgs', 'sgd' or 'pstorm'")
    if isinstance(method, GaussNewton):
        if not all(block.has_curvature for block in problem.blocks):
            raise InputError("method='gauss-newton' needs the curvature of every block; method='lbfgs' does not")
        if not isinstance(problem.g, Zero | SquaredL2):
            raise InputError(
                f"method='gauss-newton' needs g = 0 or SquaredL2, got {problem.g!r:.60}; 'lbfgs' takes any g"
            )
    if isinstance(method, FullBatchSolver | SingleLoop) and _iterated(problem):
        raise InputError(
            f"method={method.name!r} needs data= or sampler=; an iterator of batches takes 'sgd' or 'pstorm'"
        )


def _iterated(problem: StochasticProblem) -> bool:
    """Whether a block has an iterator of batches, which gives no larger ones when asked."""
    return any(getattr(block, "batches", None) is not None for block in problem.blocks)


def _start(problem: StochasticProblem, x0: Any) -> Vector:
    start = x0 if x0 is not None else problem.x0 if problem.x0 is not None else np.zeros(problem.n)
    x = real_array(start, "x0").copy()
    if x.shape != (problem.n,):
        raise InputError(f"x0 must have {problem.n} entries, one per variable, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise InputError("x0 must be finite, got NaN or inf")
    return problem.g.domain().prox(x, 1.0)


def _multipliers(problem: StochasticProblem, y0: Any) -> Vector:
    y = np.zeros(problem.m) if y0 is None else np.atleast_1d(real_array(y0, "y0")).copy()
    if y.shape != (problem.m,) or not np.isfinite(y).all():
        raise InputError(f"y0 must be {problem.m} finite numbers, one per constraint, got shape {y.shape}")
    return y
