"""`auglag bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auglag.cli.base import Cluster, Gradients, Memory, Redo, Seconds, Solvers, Source, Workers, app, out
from auglag.cli.runs import run, runs_of
from auglag.cli.runs import solver as understood
from auglag.errors import InputError


@app.command()
def bench(
    problem: Annotated[
        list[str] | None, typer.Argument(help="Names of problems, or files as in solve; all of the paper's if none.")
    ] = None,
    solver: Solvers = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the store, tables and plots.")] = Path(
        "bench-output"
    ),
    every: Annotated[int, typer.Option(help="Take every so-many-th problem only.")] = 1,
    max_size: Annotated[int, typer.Option(help="Problems with n + m below this.")] = 1000,
    gradients: Gradients = 20_000,
    seconds: Seconds = 20.0,
    memory: Memory = 4096.0,
    workers: Workers = 0,
    cluster: Cluster = "",
    source: Source = "s2mpj",
    redo: Redo = False,
    listing: Annotated[bool, typer.Option("--list", help="List the solvers and which of them can run here.")] = False,
) -> None:
    """Compare solvers on CUTEst problems: solved-at table, profiles, report. Interrupted, it resumes."""
    from auglag.bench import baselines, summary
    from auglag.bench.spec import Limits
    from auglag.bench.store import Store
    from auglag.problems import cutest

    if listing:
        for name, reason in baselines.available().items():
            print(f"{name:22} {reason or baselines.get(name).version()}")
        return
    if every < 1:
        raise InputError(f"--every must be at least 1, got {every}")
    names = problem or cutest.select(max_size=max_size)[::every]
    limits = Limits(gradients=gradients, seconds=seconds, wall=10 * seconds + 60, memory=memory)
    choices = [understood(text) for text in dict.fromkeys(solver or ["auglag"])]
    runs = runs_of(names, source, choices, limits)
    output.mkdir(parents=True, exist_ok=True)
    with Store(output / "records.sqlite") as store:
        records = run(runs, store, workers, cluster, redo)
    for line in summary.write(records, output, title="Solvers on CUTEst" if problem is None else "Solvers"):
        out.print(line, markup=False)
