"""`auglag paper`: the experiments of the paper."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from auglag.cli.base import Cluster, Output, Quick, Redo, Workers, err, out, paper
from auglag.cli.progress import Counted, Course, kept
from auglag.cli.runs import run
from auglag.log.schema import clock

Every = Annotated[int, typer.Option(min=0, help="Only every so many-th problem by size; 0: those of the experiment.")]


def _experiment(what: str, text: str) -> None:
    """A command of the deterministic section; all of them take the same options."""

    @paper.command(what, help=text)
    def command(
        quick: Quick = False,
        output: Output = Path("paper-output"),
        workers: Workers = 0,
        cluster: Cluster = "",
        redo: Redo = False,
        every: Every = 0,
    ) -> None:
        _deterministic(what, quick, output, workers, cluster, redo, every=every)


_experiment(
    "fig1", "Figure 1: performance profiles of the four variants in four settings, with the table and a report."
)
_experiment("table2", "Table 2: where Always-Full fails and Adaptive-Full does not; gradients and last penalties.")
_experiment("variants", "Always-Full against Adaptive-Full under every reading of what the paper leaves open.")


def _deterministic(
    what: str,
    quick: bool,
    output: Path,
    workers: int,
    cluster: str,
    redo: bool,
    course: Course | None = None,
    every: int = 0,
) -> None:
    from auglag.bench.store import Store
    from auglag.paper import deterministic, figure1

    output.mkdir(parents=True, exist_ok=True)
    names = deterministic.problems(quick=quick, what=what, every=every)
    limits = deterministic.QUICK_LIMITS if quick else deterministic.LIMITS
    runs = figure1.RUNS[what](names, limits)
    started = time.monotonic()
    with Store(output / "deterministic.sqlite") as store:
        records = run(runs, store, workers, cluster, redo, course)
    for line in figure1.WRITE[what](records, output):
        out.print(line, markup=False)
    spent = clock(time.monotonic() - started)
    out.print(f"{len(records)} runs on {len(names)} problems, {spent} in this call.")


# ----------------------------------------------------------------------------------- the paper's stochastic section

ALL = ("fig2", "fig3", "fig4", "fig5", "more", "rivals", "lengths")
Work = Annotated[str, typer.Option(help="Horizontal axis: epochs (passes over the data), gradients or seconds.")]


def _stochastic_experiment(name: str, figures: tuple[str, ...], text: str) -> None:
    """A command of the stochastic section; all of them take the same options."""

    @paper.command(name, help=text)
    def command(
        quick: Quick = False, output: Output = Path("paper-output"), workers: Workers = 0, work: Work = "epochs"
    ) -> None:
        _stochastic(figures, quick, output, workers, work)


_stochastic_experiment("fig2", ("fig2",), "Figure 2: Neyman-Pearson with SGD, the four variants under Algorithm 2.")
_stochastic_experiment("fig3", ("fig3",), "Figure 3: SGD, Algorithm 2 against a fixed number of epochs.")
_stochastic_experiment("fig4", ("fig4",), "Figure 4: PStorm, the four variants under Algorithm 2.")
_stochastic_experiment("fig5", ("fig5",), "Figure 5: PStorm, Algorithm 2 against a fixed number of epochs.")
_stochastic_experiment(
    "stochastic", ALL, "Figures 2-5 together, SVRG and our settings beside them, Stoc-iALM, and one table."
)


@paper.command()
def complexity(quick: Quick = False, output: Output = Path("paper-output"), workers: Workers = 0) -> None:
    """Inner steps against eps, beside the exponents of the theory."""
    _complexity(quick, output, workers)


@paper.command("pstorm")
def pstorm(quick: Quick = False, output: Output = Path("paper-output"), workers: Workers = 0) -> None:
    """Which stepsize and momentum of PStorm agree with what the appendix says: eight candidates."""
    _pstorm(quick, output, workers)


def _pstorm(quick: bool, output: Path, workers: int, course: Course | None = None) -> None:
    from auglag.paper import pstorm_readings as experiment

    folder = output / "stochastic"
    with kept(lambda: f"finished runs are kept in {folder / 'pstorm.jsonl'}"), Counted(course=course) as show:
        table = experiment.run(folder, quick=quick, workers=workers or os.cpu_count() or 1, watch=show)
    out.print(f"Table: {table}", markup=False)


@paper.command("table1")
def table1(quick: Quick = False, output: Output = Path("paper-output"), workers: Workers = 0) -> None:
    """Table 1: methods and rivals, with work to the same R; takes what `complexity` and `stochastic` have measured."""
    _table1(quick, output, workers)


def _table1(quick: bool, output: Path, workers: int, course: Course | None = None) -> None:
    from auglag.paper import table1 as experiment

    with kept(lambda: f"finished runs are kept in {output / 'table1'}"), Counted(course=course) as show:
        table = experiment.run(output, quick=quick, workers=workers or os.cpu_count() or 1, watch=show)
    out.print(f"Table: {table}", markup=False)


@paper.command("report")
def report(quick: Quick = False, output: Output = Path("paper-output")) -> None:
    """One HTML and one PDF file of what the other commands have left: figures, tables, statements and verdicts."""
    from auglag.paper import report as pages

    for path in pages.write(output, quick=quick):
        out.print(f"Report: {path}", markup=False)


def _complexity(quick: bool, output: Path, workers: int, course: Course | None = None) -> None:
    from auglag.paper import complexity as experiment

    folder = output / "complexity"
    with kept(lambda: f"finished runs are kept in {folder}"), Counted(course=course) as show:
        table = experiment.run(folder, quick=quick, workers=workers or os.cpu_count() or 1, watch=show)
    out.print(f"Table: {table}", markup=False)


def _stochastic(
    figures: tuple[str, ...], quick: bool, output: Path, workers: int, work: str, course: Course | None = None
) -> None:
    from auglag.paper import neyman_pearson

    folder, cores = output / "stochastic", workers or os.cpu_count() or 1
    with kept(lambda: f"finished runs are kept in {folder / 'runs.jsonl'}"), Counted(course=course) as show:
        table = neyman_pearson.run(folder, quick=quick, workers=cores, figures=figures, work=work, watch=show)
    out.print(f"Figures: {', '.join(str(folder / f'{name}.png') for name in figures)}", markup=False)
    out.print(f"Table: {table}", markup=False)


# ----------------------------------------------------------------------------------------------------------- everything

#: CPU seconds of one run of a step, measured once: only their ratios matter, and only for the time left.
SECONDS = {"fig1": 0.2, "variants": 0.2, "stochastic": 0.2, "pstorm": 0.2, "complexity": 3.0, "table1": 0.5}


@paper.command("all")
def everything(
    quick: Quick = False,
    output: Output = Path("paper-output"),
    workers: Workers = 0,
    cluster: Cluster = "",
    redo: Redo = False,
    work: Work = "epochs",
) -> None:
    """Every figure and table of the paper, one after the other, then the report. Interrupted, it resumes."""
    output.mkdir(parents=True, exist_ok=True)
    left = _left(quick, output)
    shared = (quick, output, workers)
    steps: dict[str, Callable[[Course | None], None]] = {
        "fig1": lambda course: _deterministic("fig1", *shared, cluster, redo, course),
        "table2": lambda course: _deterministic("table2", *shared, cluster, False),
        "variants": lambda course: _deterministic("variants", *shared, cluster, redo, course),
        "stochastic": lambda course: _stochastic(ALL, *shared, work, course),
        "pstorm": lambda course: _pstorm(*shared, course),
        "complexity": lambda course: _complexity(*shared, course),
        "table1": lambda course: _table1(*shared, course),
    }
    for i, (name, step) in enumerate(steps.items(), 1):
        err.print(f"{name} (step {i} of {len(steps)}), {left.get(name, 0)} runs to do", markup=False)
        later = sum(left[other] * SECONDS[other] for other in list(steps)[i:] if other in left)
        step(Course(SECONDS[name], later) if name in left else None)
    report(quick, output)
    out.print("All of it:", markup=False)
    for path in RESULTS:
        out.print(f"  {output / path}", markup=False)


#: Where to look first.
RESULTS = (
    "report.html", "report.pdf", "figure1.html", "figure1.md", "table2.md", "variants.md", "stochastic/stochastic.md",
    "stochastic/pstorm.md", "complexity/complexity.md", "table1/table1.md",
)  # fmt: skip


def _left(quick: bool, output: Path) -> dict[str, int]:
    """Runs that each step has still to make."""
    from auglag.bench.runner import unfinished
    from auglag.bench.store import Store
    from auglag.paper import complexity as experiment
    from auglag.paper import deterministic, figure1, neyman_pearson, pstorm_readings
    from auglag.paper import table1 as rivals

    names = {what: deterministic.problems(quick=quick, what=what) for what in ("fig1", "variants")}
    limits = deterministic.QUICK_LIMITS if quick else deterministic.LIMITS
    with Store(output / "deterministic.sqlite") as store:
        first = {run.key for run in unfinished(figure1.RUNS["fig1"](names["fig1"], limits), store)}
        second = {run.key for run in unfinished(figure1.RUNS["variants"](names["variants"], limits), store)} - first
    return {
        "fig1": len(first),
        "variants": len(second),
        "stochastic": neyman_pearson.remaining(output / "stochastic", quick=quick, figures=ALL),
        "pstorm": pstorm_readings.remaining(output / "stochastic", quick=quick),
        "complexity": experiment.remaining(output / "complexity", quick=quick),
        "table1": rivals.remaining(output, quick=quick),
    }
