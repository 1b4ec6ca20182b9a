"""`auglag paper`: the experiments of the paper."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from auglag.cli.base import Cluster, Output, Quick, Redo, Workers, out, paper
from auglag.cli.runs import run


@paper.command()
def fig1(
    quick: Quick = False,
    output: Output = Path("paper-output"),
    workers: Workers = 0,
    cluster: Cluster = "",
    redo: Redo = False,
) -> None:
    """Figure 1: performance profiles of the four variants in four settings, with the table and a report."""
    _deterministic("fig1", quick, output, workers, cluster, redo)


@paper.command()
def table2(
    quick: Quick = False,
    output: Output = Path("paper-output"),
    workers: Workers = 0,
    cluster: Cluster = "",
    redo: Redo = False,
) -> None:
    """Table 2: where Always-Full fails and Adaptive-Full does not; gradients and last penalties."""
    _deterministic("table2", quick, output, workers, cluster, redo)


@paper.command()
def ablation(
    quick: Quick = False,
    output: Output = Path("paper-output"),
    workers: Workers = 0,
    cluster: Cluster = "",
    redo: Redo = False,
) -> None:
    """What the paper leaves open: inner tolerances eta'_k, and SciPy's own stopping test inside L-BFGS-B."""
    _deterministic("ablation", quick, output, workers, cluster, redo)


def _deterministic(what: str, quick: bool, output: Path, workers: int, cluster: str, redo: bool) -> None:
    from auglag.bench.store import Store
    from auglag.paper import deterministic, figure1

    output.mkdir(parents=True, exist_ok=True)
    names = deterministic.problems(quick=quick)
    limits = deterministic.QUICK_LIMITS if quick else deterministic.LIMITS
    runs = figure1.RUNS[what](names, limits)
    started = time.monotonic()
    with Store(output / "deterministic.sqlite") as store:
        records = run(runs, store, workers, cluster, redo)
    for line in figure1.WRITE[what](records, output):
        out.print(line, markup=False)
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    out.print(f"{len(records)} runs on {len(names)} problems, {minutes}:{seconds:02d} in this call.")


# ----------------------------------------------------------------------------------- the paper's stochastic section

Work = Annotated[str, typer.Option(help="Horizontal axis: epochs (passes over the data), gradients or seconds.")]


@paper.command()
def fig2(
    quick: Quick = False, output: Output = Path("paper-output"), workers: Workers = 0, work: Work = "epochs"
) -> None:
    """Figure 2: Neyman-Pearson with SGD, the four variants under Algorithm 2."""
    _stochastic(("fig2",), quick, output, workers, work)


@paper.command()
def fig3(
    quick: Quick = False, output: Output = Path("paper-output"), workers: Workers = 0, work: Work = "epochs"
) -> None:
    """Figure 3: SGD, Algorithm 2 against a fixed number of epochs."""
    _stochastic(("fig3",), quick, output, workers, work)


@paper.command()
def fig4(
    quick: Quick = False, output: Output = Path("paper-output"), workers: Workers = 0, work: Work = "epochs"
) -> None:
    """Figure 4: PStorm, the four variants under Algorithm 2."""
    _stochastic(("fig4",), quick, output, workers, work)


@paper.command()
def fig5(
    quick: Quick = False, output: Output = Path("paper-output"), workers: Workers = 0, work: Work = "epochs"
) -> None:
    """Figure 5: PStorm, Algorithm 2 against a fixed number of epochs."""
    _stochastic(("fig5",), quick, output, workers, work)


@paper.command()
def stochastic(
    quick: Quick = False, output: Output = Path("paper-output"), workers: Workers = 0, work: Work = "epochs"
) -> None:
    """Figures 2-5 together, with SVRG and our settings beside them, and one table."""
    _stochastic(("fig2", "fig3", "fig4", "fig5", "more"), quick, output, workers, work)


@paper.command()
def complexity(quick: Quick = False, output: Output = Path("paper-output"), workers: Workers = 0) -> None:
    """Inner steps against eps, beside the exponents of the theory."""
    from auglag.paper import complexity as experiment

    out.print(
        str(experiment.run(output / "complexity", quick=quick, workers=workers or os.cpu_count() or 1)), markup=False
    )


def _stochastic(figures: tuple[str, ...], quick: bool, output: Path, workers: int, work: str) -> None:
    from auglag.paper import neyman_pearson

    folder = output / "stochastic"
    table = neyman_pearson.run(folder, quick=quick, workers=workers or os.cpu_count() or 1, figures=figures, work=work)
    out.print(str(table), markup=False)
