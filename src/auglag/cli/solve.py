"""`auglag solve` and `auglag certify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auglag.cli.base import Params, Source, app
from auglag.commands import PROBLEM


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
    from auglag.commands import actions

    code = actions.solve(
        name,
        variant=variant,
        preset=preset,
        tol=tol,
        inner=inner,
        param=param,
        source=source,
        seconds=seconds,
        evaluations=evaluations,
        outer=outer,
        as_json=as_json,
        outer_rows=outer_rows,
        quiet=quiet,
        plot=plot,
        log=log,
        save=save,
        resume=resume,
    )
    raise typer.Exit(code)


@app.command()
def certify(
    name: Annotated[str, typer.Argument(help=PROBLEM)],
    solution: Annotated[Path, typer.Argument(help="JSON with x, and multipliers if there are any: `solve --json`.")],
    tol: Annotated[float, typer.Option(help="Tolerance on the residual R.")] = 1e-6,
    param: Params = None,
    source: Source = "s2mpj",
) -> None:
    """Check a point of any solver: KKT residuals in the units of the problem; exit status 0 if it meets them."""
    from auglag.commands import actions

    raise typer.Exit(actions.certify(name, solution, tol=tol, param=param, source=source))
