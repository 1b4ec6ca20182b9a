"""`auglag compare`: two or more solvers, or sets of options, on the same problems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auglag.cli.base import Cluster, Gradients, Memory, Redo, Seconds, Solvers, Source, Workers, app, out
from auglag.cli.runs import run, runs_of
from auglag.cli.runs import solver as understood
from auglag.errors import InputError


@app.command()
def compare(
    problem: Annotated[
        list[str] | None, typer.Argument(help="Problems, as in solve; with --store, those of its problems to look at.")
    ] = None,
    solver: Solvers = None,
    store: Annotated[
        list[Path] | None, typer.Option("--store", help="Finished records instead of runs: a store, or its folder.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option("--label", help="With --store: these solvers only.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for tables and plots.")] = Path(
        "compare-output"
    ),
    gradients: Gradients = 20_000,
    seconds: Seconds = 20.0,
    memory: Memory = 4096.0,
    workers: Workers = 0,
    cluster: Cluster = "",
    source: Source = "s2mpj",
    redo: Redo = False,
) -> None:
    """Compare solvers or options problem by problem, in pairs and by profiles.

    `auglag compare HS71 model.nl -s auglag -s ipopt` runs them; `auglag compare --store old --store new` takes records
    of `auglag bench`. Interrupted, it resumes.
    """
    from auglag.bench import summary
    from auglag.bench.gathering import gather
    from auglag.bench.spec import Limits
    from auglag.bench.store import Store

    if store and solver:
        raise InputError("--solver makes runs and --store takes finished ones: give either")
    if not store and label:
        raise InputError("--label chooses among the records of --store, which is missing")
    if not store and not problem:
        raise InputError("name the problems to compare on, or a --store of finished records")
    if not store and len(set(solver or ())) < 2:
        raise InputError(f"--solver must be given at least twice, got {', '.join(solver or ()) or 'none'}")
    if store:
        records = gather(store, labels=label or (), problems=problem or ())
        output.mkdir(parents=True, exist_ok=True)
    else:
        limits = Limits(gradients=gradients, seconds=seconds, wall=10 * seconds + 60, memory=memory)
        choices = [understood(text) for text in dict.fromkeys(solver or ())]
        runs = runs_of(problem or (), source, choices, limits)
        output.mkdir(parents=True, exist_ok=True)
        with Store(output / "records.sqlite") as kept:
            records = run(runs, kept, workers, cluster, redo)
    titles = list(dict.fromkeys(record.title for record in records))
    if len(titles) < 2:
        raise InputError(f"a comparison needs records of two solvers at least, found {', '.join(titles) or 'none'}")
    for line in summary.compare(records, output, title="Comparison: " + ", ".join(titles[:6])):
        out.print(line, markup=False)
