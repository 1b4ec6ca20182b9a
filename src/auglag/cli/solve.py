"""`auglag solve` and `auglag certify`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from auglag.algorithm.status import Status
from auglag.cli.base import EXIT_CODES, FAILED, PROBLEM, Params, Source, app, err
from auglag.cli.params import numbers
from auglag.errors import InputError
from auglag.log import JsonLog
from auglag.log.schema import plain
from auglag.problems.named import load


@app.command()
def solve(
    name: Annotated[str, typer.Argument(help=PROBLEM)],
    variant: Annotated[str, typer.Option(help="adaptive-full, always-full, adaptive-short, always-short.")] = "",
    preset: Annotated[str, typer.Option(help="default, paper, ialm, ippm, algencan.")] = "default",
    tol: Annotated[float, typer.Option(help="Tolerance on the residual R.")] = 1e-6,
    inner: Annotated[str, typer.Option(help="The inner solver; auto chooses.")] = "",
    param: Params = None,
    source: Source = "s2mpj",
    seconds: Annotated[float | None, typer.Option(help="Wall-clock limit.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Limit on evaluations.")] = None,
    outer: Annotated[int, typer.Option(help="Limit on outer iterations.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
    outer_rows: Annotated[bool, typer.Option("--outer-rows", help="Rows for outer iterations only.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table of iterations.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the iterations into a .png, .svg or .pdf file.")] = None,
    log: Annotated[Path | None, typer.Option(help="Write a line of JSON per iteration, for `auglag watch`.")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the state after every outer iteration.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on from a saved state, bit for bit.")] = None,
) -> None:
    """Solve one problem and show the iterations.

    Exit status: 0 solved, 2 bad usage, 3 infeasible, 4 unbounded, 5 a limit, 6 any other failure, 130 interrupted.
    """
    from auglag.budget import Budget
    from auglag.log import figure
    from auglag.minimize import minimize

    if log is not None and not log.parent.is_dir():
        raise InputError(f"--log must lie in an existing folder, got {str(log)!r}")
    if plot is not None:
        figure.check(plot)
    shown = not (as_json or quiet)
    problem = load(name, source, numbers(param))
    if shown:
        print(f"{problem.name or name}: {problem.n} variables, {problem.m} constraint rows", flush=True)
    result = minimize(
        problem,
        variant=variant or None,
        preset=preset,
        tol=tol,
        inner=inner or None,
        budget=Budget(seconds=seconds, evaluations=evaluations, outer=outer),
        callback=None if log is None else JsonLog(log, append=resume is not None),
        progress="outer" if shown and outer_rows else shown,
        checkpoint=save,
        resume=resume,
    )
    if plot is not None:
        ending = result.status.name.lower().replace("_", " ")
        title = f"{problem.name or name}: {ending}, R = {result.certificate.residual:.1e}"
        figure.write(plot, result.history, title=title, tol=tol)
    if as_json:
        print(json.dumps(plain(_summary(problem, result)), indent=2))
    else:
        words = result.explain().splitlines()
        print("\n".join(words[1:] if shown else words))  # the table ends with the message
        print(f"x = {np.array2string(result.x, threshold=20, max_line_width=120)}")
        for what, path in (("Plot", plot), ("Log", log), ("State", save)):
            if path is not None and path.exists():
                print(f"{what}: {path}")
    if result.status is Status.INTERRUPTED:
        state = f"the state is kept in {save}" if save else "nothing was saved (--save FILE does that)"
        further = f"; to go on, give the same options and --resume {save}" if save else ""
        err.print(f"interrupted: {state}{further}", markup=False)
    raise typer.Exit(EXIT_CODES.get(result.status, FAILED))


@app.command()
def certify(
    name: Annotated[str, typer.Argument(help=PROBLEM)],
    solution: Annotated[Path, typer.Argument(help="JSON with x, and multipliers if there are any: `solve --json`.")],
    tol: Annotated[float, typer.Option(help="Tolerance on the residual R.")] = 1e-6,
    param: Params = None,
    source: Source = "s2mpj",
) -> None:
    """Check a point of any solver: KKT residuals in the units of the problem; exit status 0 if it meets them."""
    from auglag.minimize import certify as check

    try:
        point = json.loads(solution.read_text(encoding="utf-8"))
        x = point["x"]
    except OSError as error:
        raise InputError(f"certify: {solution} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"certify: {solution} must be a JSON object with an entry 'x'") from None
    found = check(load(name, source, numbers(param)), x, point.get("multipliers"))
    print(found)
    raise typer.Exit(0 if found.meets(tol) else FAILED)


def _summary(problem: Any, result: Any) -> dict[str, Any]:
    certificate = result.certificate
    return {
        "problem": problem.name,
        "n": problem.n,
        "m": problem.m,
        "status": result.status.name,
        "success": result.success,
        "message": result.message,
        "objective": result.fun,
        "residual": certificate.residual,
        "violation": certificate.violation,
        "stationarity": certificate.stationarity,
        "penalty": result.penalty,
        "outer": result.nit,
        "inner_iterations": result.nit_inner,
        "inner": result.inner,
        "nfev": result.nfev,
        "njev": result.njev,
        "seconds": result.seconds,
        "x": result.x.tolist(),
        "multipliers": result.y.tolist(),
        "bound_multipliers": result.bound_multipliers.tolist(),
    }
