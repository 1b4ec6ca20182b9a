"""`auglag bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auglag.cli.base import Cluster, Redo, Workers, app, out
from auglag.cli.runs import installed, run
from auglag.cli.runs import solver as understood
from auglag.errors import InputError


@app.command()
def bench(
    problem: Annotated[list[str] | None, typer.Argument(help="Names of problems; all of the paper's if none.")] = None,
    solver: Annotated[
        list[str] | None,
        typer.Option("--solver", "-s", help="NAME, file.py:Class, or either with :OPTION=VALUE,...; see --list."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the store, tables and plots.")] = Path(
        "bench-output"
    ),
    every: Annotated[int, typer.Option(help="Take every so-many-th problem only.")] = 1,
    max_size: Annotated[int, typer.Option(help="Problems with n + m below this.")] = 1000,
    gradients: Annotated[int, typer.Option(help="Limit on gradients of one run.")] = 20_000,
    seconds: Annotated[float, typer.Option(help="Limit on CPU seconds of one run.")] = 20.0,
    memory: Annotated[float, typer.Option(help="Limit on the memory of one run, MiB.")] = 4096.0,
    workers: Workers = 0,
    cluster: Cluster = "",
    source: Annotated[str, typer.Option(help="s2mpj or pycutest.")] = "s2mpj",
    redo: Redo = False,
    listing: Annotated[bool, typer.Option("--list", help="List the solvers and which of them can run here.")] = False,
) -> None:
    """Compare solvers on CUTEst problems: solved-at table, profiles, report. Interrupted, it resumes."""
    from auglag.bench import baselines, summary
    from auglag.bench.spec import Limits, Run
    from auglag.bench.store import Store
    from auglag.problems import cutest
    from auglag.problems.cutest.catalogue import problem_file

    if listing:
        for name, reason in baselines.available().items():
            print(f"{name:22} {reason or baselines.get(name).version()}")
        return
    if every < 1:
        raise InputError(f"--every must be at least 1, got {every}")
    names = list(dict.fromkeys(problem or cutest.select(max_size=max_size)[::every]))
    for name in problem or ():
        if source == "s2mpj":
            problem_file(name)
    limits = Limits(gradients=gradients, seconds=seconds, wall=10 * seconds + 60, memory=memory)
    choices = [understood(text) for text in dict.fromkeys(solver or ["auglag"])]
    runs = [
        Run(name, chosen, options, limits, source=source, label=label)
        for name in names
        for chosen, options, label in installed(choices)
    ]
    output.mkdir(parents=True, exist_ok=True)
    with Store(output / "records.sqlite") as store:
        records = run(runs, store, workers, cluster, redo)
    for line in summary.write(records, output, title="Solvers on CUTEst"):
        out.print(line, markup=False)
