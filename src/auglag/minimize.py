"""The entry points `minimize`, `multistart` and `scipy_method`: arguments as in SciPy, a `Result` back."""

from __future__ import annotations

import inspect
import math
import numbers
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any

from scipy.optimize import Bounds

from auglag._names import nearest
from auglag.algorithm.rules import DualRule, PenaltyRule, ToleranceRule
from auglag.algorithm.status import Status
from auglag.budget import Budget, Meter
from auglag.certificate import Tolerance
from auglag.errors import InputError, OptionError, require_integer, require_positive
from auglag.given import caller, first_point, problem_of, start_of, stated_noise, units_of, warm_penalty
from auglag.inner import InnerSolver
from auglag.kkt.linear import require_solver, using
from auglag.log import JsonLog, headers
from auglag.multistart import Found, Kept, places, require_picklable, solve_all
from auglag.persist.checkpoint import usable_path
from auglag.problems.arguments import check_x0, parse_bounds
from auglag.problems.base import AbstractProblem
from auglag.problems.workspace import Counts
from auglag.report import logger
from auglag.report.progress import Table
from auglag.result import Result
from auglag.strategy import driver
from auglag.strategy.hooks import Hooks
from auglag.strategy.settings import resolve, row_weights
from auglag.strategy.sqp import SQP
from auglag.strategy.task import Task


def minimize(
    fun: Callable[..., Any] | AbstractProblem | None,
    x0: Any = None,
    args: Any = (),
    *,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    g: Any = None,
    tol: float | tuple[float, float] | Tolerance | None = 1e-6,
    variant: str | None = None,
    preset: str | None = None,
    penalty: PenaltyRule | str | None = None,
    dual: DualRule | str | None = None,
    tolerance: ToleranceRule | None = None,
    inner: InnerSolver | str | None = None,
    slacks: str | None = None,
    scaling: bool | None = None,
    x_scale: Any = None,
    presolve: bool | None = None,
    penalty_weights: Any = None,
    restoration: bool | None = None,
    acceleration: SQP | bool | None = None,
    linear_solver: str = "auto",
    restarts: int | None = None,
    gives_up: bool | None = None,
    starts: Any = None,
    budget: Budget | None = None,
    warm_start: Any = None,
    callback: Callable[..., Any] | JsonLog | None = None,
    progress: bool | str = False,
    check_derivatives: bool | str = "first",
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    finite_diff_rel_step: Any = None,
    noise: Any = None,
    **unknown: Any,
) -> Result:
    """Minimise f(x) + g(x) subject to constraints and bounds by the adaptive augmented Lagrangian method.

    Parameters
    ----------
    fun : callable, None or problem
        The objective `fun(x, *args)`; None for a feasibility problem; or a problem object (an `auglag.Problem` or any
        other source), and then x0, bounds, constraints, g and derivatives come from it.
    x0 : array_like
        The starting point; it is moved into the bounds if it lies outside. It may be left out if `fun` is a problem
        object or `warm_start` is given.
    args : tuple
        Further arguments of fun, jac, hess and hessp.
    jac : callable, bool or str
        The gradient, `jac(x, *args)`. True: fun returns value and gradient together. A scheme: finite differences,
        "2-point", "3-point" or "cs" (complex steps). None: "2-point". Real differences stay inside the bounds, become
        central near the solution, and are extrapolated for the certificate.
    hess : callable
        The Hessian of fun, `hess(x, *args)`, dense or sparse. Second derivatives are used if all functions have them.
    hessp : callable
        Products with the Hessian, `hessp(x, p, *args)`, for inner="newton-cg".
    bounds : Bounds or sequence of pairs
        Lower and upper bounds of every variable, as in SciPy; None in a pair means that there is none. No function is
        ever evaluated outside of them. Equal bounds fix a variable.
    constraints : dict, NonlinearConstraint, LinearConstraint or list of these
        As in SciPy. A dictionary has "type" ("eq": fun(x) = 0, "ineq": fun(x) >= 0), "fun" and, if you like, "jac",
        "args" and a "name", which messages and results use.
    g : prox term
        A convex term added to fun: `auglag.prox.L1(0.1)`, ..., or any object with `value(x)` and `prox(x, step)`.
    tol : float, pair or Tolerance
        Success means certificate.residual <= tol, in the user's units, and certificate.scale_free, which no change of
        units changes, at most 0.1 sqrt(tol). A pair states both: `tol=(1e-6, 1e-4)`; `(1e-6, inf)` asks for the first
        alone.
    variant : str
        "adaptive-full" (the paper's Algorithm 1), "always-full", "adaptive-short" or "always-short". If a variant is
        given, the run is this variant alone: without acceleration, restarts and presolve, so that variants can be
        compared. The default is "adaptive-full" with all three.
    preset : str
        "default", "paper" (the settings of the paper's experiments), or a rival: "ialm", "ippm", "algencan".
    penalty : str or PenaltyRule
        How the penalty grows, instead of the preset's rule: "adaptive", "always", or an object such as
        `Adaptive(initial=10.0)`.
    dual : str or DualRule
        The step of the multipliers, instead of the preset's rule: "full", "short", or an object such as
        `Full(y_max=1e6)`.
    tolerance : ToleranceRule
        How exactly subproblems are solved, instead of the preset's rule: `Geometric()`, `PowerLaw()`, `Constant()`.
    inner : str or InnerSolver
        What solves the subproblems: "auto", "qp", "lbfgsb", "newton-cg", "panoc", "spectral", "proximal-gradient",
        "proximal-point", or an object such as `Panoc()`.
    slacks : str
        "closed" (inequality slacks minimised out, the default) or "explicit" (slacks are variables).
    scaling : bool
        Whether f and c are scaled by their gradients at x0. The default is True, but for presets that do not.
    restoration : bool
        Whether the run looks for a feasible point when the violation does not fall, and reports INFEASIBLE if there
        seems to be none. The default is True, but for presets that do not.
    x_scale : number or array_like
        The size of the variables, as in `scipy.optimize.least_squares`: the run measures x in these units (rounded to
        powers of two). None: variables get units of their size, judged from x0, bounds and first derivatives at x0,
        where one is below 1e-6 or above 1e6 (1e-3 or 1e3 after a first attempt without a solution), unless `scaling` is
        off or g is given. 1: none do.
    presolve : bool
        Whether rows known to be linear (`LinearConstraint`, ...) that are empty, multiples of others, or bounds of one
        variable are taken off before the run; results, multipliers and logs have all rows. Rows that exclude each other
        end the run at once as INFEASIBLE. The default is True; False if `variant` or another preset is given.
    penalty_weights : array_like
        A positive weight per constraint row: the penalty of row i is beta times it. For rows that matter more, or whose
        units scaling cannot know; multipliers and the certificate stay in the user's units.
    acceleration : bool or SQP
        Whether Newton's method on the KKT conditions is tried between the iterations of Algorithm 1; inner="auto" then
        takes "qp" where it can. False: Algorithm 1 alone, and inner="auto" takes another solver.
    linear_solver : str
        What factorises large sparse matrices: "qdldl" (`pip install 'auglag[sparse]'`), "pardiso" (`pip install
        pypardiso`), "superlu" and "full" (in SciPy, always there; "full" is LAPACK on the whole array). "auto" takes
        qdldl where it is installed, Pardiso where that is and qdldl's factors turn out to be large, "full" where they
        turn out to be nearly full, else SuperLU.
    restarts : int
        The most other starts that are tried if no solution is found from x0 (default 7; with inner="qp" only): the
        best point so far if it is near a solution, x0 in units of the variables' sizes where these are unusual, the
        least violated point near x0, a larger penalty, points around x0, and the best point again. No more are tried
        after two that end where an earlier attempt did (one, if the problem seems infeasible). 0: x0 only. `history`
        has the attempt of every row, `message` names the start. Unless it is 0, a solution with negative curvature is
        left for a better one: see `result.second_order`.
    gives_up : bool
        Whether a run with constraints ends as STUCK or UNBOUNDED when it gets nowhere. False: only the tolerance, the
        budget and the largest penalty (PENALTY_LIMIT) end it, as in Algorithm 1; the default of `preset="paper"`.
        Without constraints it changes nothing: the one subproblem there is has failed then, and would fail again.
    starts : int or array_like
        Solve from so many starting points (or from these), one after the other, and return the best certified result;
        its `starts` lists the different points. `auglag.multistart` does this in parallel, too, and can be resumed.
    budget : Budget
        Limits; see `auglag.Budget`. With `starts`, those of each start.
    warm_start : Result, mapping or tuple
        Start from (x, multipliers, penalty) of an earlier result. Solving the same problem again takes 0 iterations.
    callback : callable
        Called after every accepted step as `callback(intermediate_result)` (a parameter of that name), `callback(xk)`
        or `callback(xk, intermediate_result)`; raise StopIteration, or return True, to end the run with that point.
        `intermediate_result.kind` is "inner", "newton", "interior", or "outer" after an outer iteration. A
        `JsonLog("run.jsonl")` writes a line for each, which `auglag watch` shows as the run goes.
    progress : bool or "outer"
        Print a table: a line for every step and every outer iteration, or for outer iterations only.
    check_derivatives : "first" (or True) or False
        Compare user-supplied derivatives with differences along one random direction at x0 and, before success is
        claimed, at the last point. At x0 a wrong derivative raises `DerivativeError`, which names the entry (a warning
        where errors of the functions explain the mismatch); at the last point the run ends as WRONG_DERIVATIVES.
        Of differences by a `finite_diff_jac_sparsity` it is checked that the pattern lacks no entry.
    checkpoint : path
        A file to which the state is saved at the start and after every outer iteration.
    resume : path
        Go on from a saved state, bit for bit. Budgets count what was spent before, too. Everything else must be the
        same; of the functions the values at the start must.
    finite_diff_rel_step : float or array
        Relative step of the finite differences of fun, as in SciPy.
    noise : float or mapping
        The absolute errors of the values of fun and of the constraints, in their units: a number for all, or
        {"fun": 1e-6, "constraints": 1e-3} (a number, or one for each row; 0 where left out). Such errors are estimated
        where it is left out. Difference steps are chosen by them, and nothing is asked for that they do not allow: a
        point whose residual is no larger than they make it ends as PRECISION_LIMIT, or as SOLVED if they were stated
        here.

    Returns
    -------
    Result
        A SciPy `OptimizeResult`; see `auglag.result.SCHEMA`. Multipliers have the sign L = f + y'c + z'x.

    Examples
    --------
    The point of the unit disc that is nearest to (2, 1):

    >>> import auglag
    >>> disc = {"type": "ineq", "fun": lambda x: 1 - x @ x, "name": "disc"}
    >>> result = auglag.minimize(lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2, [0.0, 0.0], constraints=disc)
    >>> result.success, result.x.round(4).tolist()
    (True, [0.8944, 0.4472])
    """
    runs: list[driver.Run] = []
    try:
        require_options(unknown, "minimize()")
        if starts is not None:
            return multistart(**{name: value for name, value in locals().items() if name in _ARGUMENTS})
        tolerance_pair = Tolerance.of(tol)
        if not (isinstance(progress, bool) or progress == "outer"):
            raise InputError(f"progress must be True, False or 'outer', got {progress!r}")
        linear_solver = require_solver(linear_solver)
        settings = resolve(
            variant=variant,
            preset=preset,
            penalty=penalty,
            dual=dual,
            tolerance=tolerance,
            inner=inner,
            slacks=slacks,
            scaling=scaling,
            presolve=presolve,
            restoration=restoration,
            restarts=restarts,
            acceleration=acceleration,
            gives_up=gives_up,
        )
        if budget is not None and not isinstance(budget, Budget):
            raise InputError(f"budget must be an auglag.Budget, got {budget!r:.80}")
        if check_derivatives not in ("first", True, False):
            raise InputError(f"check_derivatives must be 'first' or False, got {check_derivatives!r}")
        checkpoint, resume = usable_path(checkpoint, "checkpoint"), usable_path(resume, "resume")
        given = {"jac": jac, "hess": hess, "hessp": hessp, "bounds": bounds, "g": g}
        problem = problem_of(fun, first_point(fun, x0, warm_start), args, given, constraints, finite_diff_rel_step)
        if penalty_weights is not None:
            settings = replace(settings, weights=row_weights(penalty_weights, problem.m))
        errors = stated_noise(noise, problem.m)
        start = start_of(problem, x0, warm_start)
        stream = logger.output(progress)
        table = None if stream is None else Table(stream)
        steps = table.step if table is not None and progress != "outer" else None
        log, callback = (callback, callback.callback) if isinstance(callback, JsonLog) else (None, callback)
        hooks = Hooks(caller(callback), table, table.end if table else None, checkpoint, resume, log, steps=steps)
        if start.beta is not None:
            settings = replace(settings, penalty=warm_penalty(settings.penalty, start.beta))
        limits = _BUDGET if budget is None else budget

        def carry_out() -> Result:
            with problem.running(), using(linear_solver):
                problem.workspace.precision = errors
                before = problem.counts.copy() if problem is fun else Counts()  # making the problem is part of the run
                meter = Meter(problem.counts, limits, before)
                task = Task(
                    problem,
                    settings,
                    start,
                    tolerance_pair.residual,
                    limits,
                    hooks,
                    meter,
                    scale_free=tolerance_pair.scale_free,
                    x_scale=units_of(x_scale, problem),
                    check_derivatives=bool(check_derivatives),
                )
                runs.append(driver.Run.of(task))
                if log is None:
                    return driver.solve(runs[0])
                header = headers.deterministic(problem, settings, limits, tol=task.tol, resumed=resume is not None)
                return log.around(lambda: driver.solve(runs[0]), header)

        return copy_context().run(carry_out)  # what a run sets for itself is gone after it, wherever Ctrl-C strikes
    except KeyboardInterrupt as error:
        if runs and runs[0].results:  # after the result was there, it must not be lost
            return runs[0].results[0]
        if isinstance(error, _Twice) or (runs and runs[0].begun):
            raise
        return _interrupted(fun, first_point(fun, x0, warm_start), bounds, tol)


def multistart(
    fun: Callable[..., Any] | AbstractProblem | None,
    x0: Any = None,
    args: Any = (),
    *,
    starts: Any = 20,
    seed: int = 0,
    workers: int = 1,
    engine: str = "threads",
    store: str | os.PathLike[str] | None = None,
    distinct: float = 1e-4,
    progress: bool = False,
    **options: Any,
) -> Result:
    """Solve from several starting points, and return the best result; its `starts` lists the different points found.

    Best is the lowest certified objective; if nothing is certified, the lowest among points as good as the functions
    allow (PRECISION_LIMIT), what they violate priced by their multipliers; else the smallest residual. Ctrl-C returns
    the best so far, or the first start if nothing is known yet. The same arguments give the same result, however many
    workers there are.

    Parameters
    ----------
    fun : callable, None or problem
        The objective, as in `auglag.minimize`.
    x0 : array_like
        The first start. It may be left out if `starts` has the points, or if `fun` is a problem object.
    args : tuple
        Further arguments of fun.
    starts : int, array_like or iterable
        A number k: x0 and k - 1 points of a Latin hypercube, between the bounds of a variable where both are finite,
        else around x0 with a standard deviation of 3 max(1, |x0|). Or the points themselves: an array with one in each
        row, or a generator of points that ends (x0 may then be left out).
    seed : int
        Of the Latin hypercube.
    workers : int
        How many runs at once.
    engine : str
        Where: "threads" (for functions that release Python's lock, such as simulations in other programs), "processes"
        (functions must be defined at the top level of a module) or the address of a Dask scheduler, "tcp://host:port"
        (any function; `workers` does not count).
    store : path
        A file that keeps the finished starts. The same call goes on from there after an interruption. A file of other
        starts, another tol, other bounds or other functions is refused: f and c are called at the first three starts,
        and must be what they were, up to their errors.
    distinct : float
        Points are the same if they differ by at most this part of the size of every variable (the range of the starts,
        or the largest entry among all points found if that is more) and of the size of f: the largest certified |f|, or
        the median of the changes of f from the starts and around the points if that is more.
    progress : bool
        Print a line after each start.
    **options : dict
        Any other argument of `auglag.minimize`, which is called for every start. A budget is that of each start.
        `checkpoint`, `resume`, `warm_start` and a `JsonLog` belong to single runs and are refused.

    Returns
    -------
    Result
        Of the best start. `result.starts` is a tuple of `Found` (x, fun, status, residual, start, count), best first.

    Examples
    --------
    >>> import auglag
    >>> result = auglag.multistart(lambda x: (x[0] ** 2 - 1) ** 2 + 0.1 * x[0], [0.9], bounds=[(-2, 2)], starts=5)
    >>> [round(float(found.x[0]), 3) for found in result.starts]  # two minima, the lower one first
    [-1.012, 0.987]
    """
    first = x0
    stop, done = threading.Event(), dict[int, Found]()
    try:
        first = first_point(fun, x0, None)
        _require_starts_allow(options, workers, engine)
        require_positive(distinct, "distinct")
        if first is None and isinstance(starts, Iterable):
            starts = list(starts)
            first = starts[0] if starts else None
        first = check_x0(first)
        lower, upper = (
            (fun.lower, fun.upper)
            if isinstance(fun, AbstractProblem)
            else parse_bounds(options.get("bounds"), first.size)
        )
        points = places(starts, first, lower, upper, seed)
        if engine == "processes":
            require_picklable({"fun": fun, "args": args, **options})
        path, kept = usable_path(store, "store"), None
        if path is not None:
            given = {name: options.get(name) for name in ("jac", "hess", "hessp", "bounds", "g")}
            rel_step = options.get("finite_diff_rel_step")
            problem = problem_of(fun, first, args, given, options.get("constraints", ()), rel_step)
            kept = Kept(path, points, problem, options.get("tol"))
        if engine == "threads" and workers > 1 and options.get("callback") is None:
            options["callback"] = lambda xk: stop.is_set()  # so that runs in other threads end soon after Ctrl-C
        return solve_all(
            partial(minimize, fun, args=args, **options),
            points,
            done=done,
            workers=workers,
            engine=engine,
            store=kept,
            closeness=distinct,
            say=print if progress else None,
        )
    except KeyboardInterrupt:
        if done:
            raise _Twice from None
        return _interrupted(fun, first_point(fun, first, None), options.get("bounds"), options.get("tol", 1e-6))
    finally:
        stop.set()


def _require_starts_allow(options: Mapping[str, Any], workers: Any, engine: Any) -> None:
    """Raise if an option is unknown or belongs to single runs, or if the work cannot be spread so."""
    if unknown := [name for name in options if name not in _ARGUMENTS]:
        raise OptionError(f"multistart() has no argument {unknown[0]!r}{nearest(unknown[0], _ARGUMENTS)}")
    for name in ("checkpoint", "resume", "warm_start"):
        if options.get(name) is not None:
            raise InputError(f"{name} belongs to a single run and must not be given with several starts")
    if isinstance(options.get("callback"), JsonLog):
        raise InputError("a JsonLog as callback belongs to a single run and must not be given with several starts")
    require_integer(workers, "workers")
    if engine not in ("threads", "processes") and "://" not in str(engine):
        raise InputError(f"engine must be 'threads', 'processes' or a Dask scheduler's address, got {engine!r}")


def scipy_method(
    fun: Any,
    x0: Any,
    args: Any = (),
    *,
    tol: float | tuple[float, float] | Tolerance | None = None,
    maxiter: Any = None,
    maxfev: Any = None,
    disp: bool = False,
    **options: Any,
) -> Result:
    """`scipy.optimize.minimize(..., method=auglag.scipy_method)`.

    Parameters
    ----------
    fun : callable
        The objective.
    x0 : array_like
        The starting point.
    args : tuple
        Further arguments of fun.
    tol : float
        As in `auglag.minimize`; None means 1e-6.
    maxiter : int
        The most outer iterations.
    maxfev : int
        The most evaluations.
    disp : bool
        Print the table of the run.
    **options : dict
        What SciPy passes on (jac, hess, hessp, bounds, constraints, callback), and any argument of `auglag.minimize`
        that is given in `options=`.

    Returns
    -------
    Result
        As of `auglag.minimize`.

    Examples
    --------
    >>> import auglag
    >>> from scipy.optimize import minimize, rosen
    >>> disc = {"type": "ineq", "fun": lambda x: 1 - x @ x}
    >>> result = minimize(rosen, [0.0, 0.0], constraints=disc, method=auglag.scipy_method, options={"maxiter": 50})
    >>> result.success, result.x.round(4).tolist()
    (True, [0.7864, 0.6177])
    """
    options = {name: value for name, value in options.items() if value is not None}
    require_options(options, "auglag.scipy_method", what="option")
    if maxiter is not None or maxfev is not None:
        if "budget" in options:
            raise InputError("options['budget'] already limits the run; leave out maxiter and maxfev")
        for name, value in (("maxiter", maxiter), ("maxfev", maxfev)):
            whole = not isinstance(value, bool) and isinstance(value, numbers.Real) and value == value // 1
            if value is not None and not (whole and value >= 1):
                raise InputError(f"options[{name!r}] must be a positive integer, got {value!r}")
        outer, evaluations = (None if value is None else int(value) for value in (maxiter or 200, maxfev))
        options["budget"] = Budget(outer=outer, evaluations=evaluations)
    if disp:
        options.setdefault("progress", True)
    return minimize(fun, x0, args, tol=1e-6 if tol is None else tol, **options)


# ---------------------------------------------------------------------------------------------------------- arguments

_ARGUMENTS = tuple(name for name in inspect.signature(minimize).parameters if name != "unknown")
#: What a run may spend where nothing is said.
_BUDGET = Budget()
#: What `scipy_method` takes in SciPy's `options`.
_OPTIONS = ("maxiter", "maxfev", "disp", *_ARGUMENTS[_ARGUMENTS.index("g") :])
#: Arguments of SciPy and others, and what to write instead.
TRANSLATIONS = {
    "options": "pass each option as a keyword, maxiter=5 as budget=Budget(outer=5), disp=True as progress=True; a "
    "dictionary works with scipy.optimize.minimize(..., method=auglag.scipy_method, options=...)",
    "method": "there is one method; its parts are chosen by variant=, preset= and inner=",
    "maxiter": "write budget=Budget(outer=...)",
    "max_iter": "write budget=Budget(outer=...)",
    "maxfev": "write budget=Budget(evaluations=...)",
    "maxfun": "write budget=Budget(evaluations=...)",
    "disp": "write progress=True",
    "verbose": "write progress=True",
    "ftol": "write tol=...; it bounds the KKT residual",
    "gtol": "write tol=...; it bounds the KKT residual",
    "xtol": "write tol=...; it bounds the KKT residual",
    "tau": "write penalty=Adaptive(tau=...)",
    "gamma": "write penalty=Adaptive(gamma=...)",
    "beta": "write penalty=Adaptive(initial=...)",
}


def require_options(names: Iterable[str], where: str, others: Iterable[str] = (), *, what: str = "argument") -> None:
    """Raise if a name is none of the arguments of `minimize` nor of `others`; say what to write instead."""
    known = {*(_OPTIONS if what == "option" else _ARGUMENTS), *others}
    for name in names:
        if name not in known and name not in _ARGUMENTS:  # SciPy passes those on that are no options
            hint = f": {TRANSLATIONS[name]}" if name in TRANSLATIONS else nearest(name, known)
            raise OptionError(f"{where} has no {what} {name!r}{hint}")


class _Twice(KeyboardInterrupt):
    """One more Ctrl-C, while the result of runs that were interrupted was made ready."""


def _interrupted(fun: Any, x0: Any, bounds: Any, tol: Any) -> Result:
    """The result of a run that Ctrl-C ended before anything is known: x0 (inside the bounds), all else NaN."""
    box = Bounds(fun.lower, fun.upper) if isinstance(fun, AbstractProblem) else bounds
    result = minimize(lambda x: math.nan, x0, bounds=box, tol=tol, restarts=0, check_derivatives=False)
    result.status, result.nfev, result.njev, result.advice = Status.INTERRUPTED, 0, 0, ()
    result.message = f"{Status.INTERRUPTED.message} Nothing is known yet but x0."
    return result
