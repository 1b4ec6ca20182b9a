"""auglag inside other packages: their problems, solved by auglag and by the solver that they use otherwise.

    python benchmarks/clients.py --output benchmarks/results/clients.md

Each case builds its problem twice, with auglag and with the usual solver (IPOPT through CasADi, or SLSQP), and compares
the objectives; `solved` is what the package itself reports as success. Packages that are not installed are left out,
and named. `--suites` also runs CVXPY's own nonlinear tests (minutes), with auglag in IPOPT's place.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["OPENMDAO_REPORTS"] = "0"
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np

import auglag
from helpers import frameworks

#: An objective, and whether the package says that it is a solution.
End = tuple[float, bool]


@dataclass(frozen=True)
class Case:
    name: str
    ours: Callable[[], End]
    theirs: Callable[[], End]


def pyomo() -> Iterator[Case]:
    import pyomo.environ as pyo

    import auglag.pyomo
    from auglag.problems.nl import load
    from helpers.pyomo_models import MODELS, ipopt

    for name, case in MODELS.items():
        if case.ends != "optimal":
            continue

        def ours(build: Any = case.build) -> End:
            found = auglag.pyomo.Auglag().solve(build(), raise_exception_on_nonoptimal_result=False)
            return found.incumbent_objective or 0.0, found.solution_status.name == "optimal"

        def theirs(build: Any = case.build) -> End:
            model: pyo.ConcreteModel = build()
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "model.nl")
                model.write(str(path))
                found = ipopt(path, maximise=load(path).maximise)
            return found.objective, found.status == "Solve_Succeeded"

        yield Case(name, ours, theirs)


def casadi() -> Iterator[Case]:
    import casadi

    import auglag.casadi

    def opti(size: int) -> Any:
        """A hanging chain of given length between two points."""
        problem = casadi.Opti()
        x, y = problem.variable(size), problem.variable(size)
        problem.minimize(casadi.sum1(y))
        problem.subject_to((x[1:] - x[:-1]) ** 2 + (y[1:] - y[:-1]) ** 2 <= (2.5 / (size - 1)) ** 2)
        for end in (x[0] == 0, y[0] == 1, x[-1] == 2, y[-1] == 1):
            problem.subject_to(end)
        problem.set_initial(x, np.linspace(0, 2, size))
        problem.set_initial(y, 1.0)
        return problem

    for size in (10, 40):

        def ours(size: int = size) -> End:
            problem = opti(size)
            found = auglag.casadi.solve(problem, error_on_fail=False)
            return found.value(problem.f), found.stats()["success"]

        def theirs(size: int = size) -> End:
            problem = opti(size)
            problem.solver("ipopt", frameworks.QUIET)
            found = problem.solve()
            return found.value(problem.f), found.stats()["success"]

        yield Case(f"Opti: chain of {size}", ours, theirs)


def rockit() -> Iterator[Case]:
    import auglag.casadi

    for build in (frameworks.parcel, frameworks.oscillator):

        def ours(build: Any = build) -> End:
            ocp = build()[0]
            with auglag.casadi.opti_solver(error_on_fail=False):
                found = ocp.solve()
            return float(found.value(ocp.objective)), found.stats["success"]

        def theirs(build: Any = build) -> End:
            ocp = build()[0]
            found = ocp.solve()
            return float(found.value(ocp.objective)), found.stats["success"]

        yield Case(build.__name__, ours, theirs)


def do_mpc() -> Iterator[Case]:
    import auglag.casadi

    def closed_loop(replace: bool) -> End:
        mpc, state, cost, solved = frameworks.controller(), np.array([[1.0], [0.0]]), 0.0, True
        if replace:
            mpc.S = auglag.casadi.nlpsol("S", mpc.nlp)
        for _ in range(10):
            u = mpc.make_step(state)
            state = state + 0.2 * np.array([state[1], u[0] - 0.1 * np.sin(state[0])])
            cost += float(state[0, 0] ** 2 + 0.1 * state[1, 0] ** 2)
            solved = solved and mpc.solver_stats["success"]
        return cost, solved

    yield Case("10 steps of control: cost", lambda: closed_loop(True), lambda: closed_loop(False))


def openmdao() -> Iterator[Case]:
    problems = (
        (frameworks.sellar, "obj"),
        (frameworks.beam, "compliance_comp.compliance"),
        (frameworks.paraboloid, "f"),
    )
    yield from (_driven(build.__name__, build, objective) for build, objective in problems)


def dymos() -> Iterator[Case]:
    for grid in ("Radau", "GaussLobatto"):
        for segments in (5, 15):

            def build(driver: Any, grid: str = grid, segments: int = segments) -> Any:
                return frameworks.brachistochrone(driver, grid, segments)

            yield _driven(f"brachistochrone, {grid}, {segments} segments", build, "traj.phase0.timeseries.time")


def _driven(name: str, build: Callable[[Any], Any], objective: str) -> Case:
    import openmdao.api as om

    import auglag.openmdao

    def run(driver: Any) -> End:
        problem = build(driver)
        success = problem.run_driver().success
        return float(np.ravel(problem.get_val(objective))[-1]), success

    return Case(
        name,
        lambda: run(auglag.openmdao.AuglagDriver()),
        lambda: run(om.ScipyOptimizeDriver(optimizer="SLSQP", disp=False, tol=1e-9, maxiter=500)),
    )


def botorch() -> Iterator[Case]:
    import torch
    from botorch.exceptions import OptimizationWarning
    from botorch.optim import optimize_acqf

    for seed in range(3):

        def best(seed: int = seed, **options: Any) -> End:
            arguments = frameworks.acquisition(seed)
            torch.manual_seed(1)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                value = float(optimize_acqf(**arguments, **options)[1])
            return -value, not any(issubclass(warning.category, OptimizationWarning) for warning in caught)

        yield Case(f"acquisition {seed}", lambda best=best: best(options={"method": auglag.scipy_method}), best)


def optimagic() -> Iterator[Case]:
    import optimagic

    from auglag.optimagic import Auglag

    def run(algorithm: Any) -> End:
        found = optimagic.minimize(
            lambda x: (1 - x["a"]) ** 2 + 100 * (x["b"] - x["a"] ** 2) ** 2,
            params={"a": -1.0, "b": 1.0},
            algorithm=algorithm,
            constraints=optimagic.NonlinearConstraint(func=lambda x: x["a"] ** 2 + x["b"] ** 2, upper_bound=1.5),
        )
        return float(found.fun), bool(found.success)

    yield Case("Rosenbrock in a disc", lambda: run(Auglag()), lambda: run("scipy_slsqp"))


#: Name of the distribution -> cases, and the rival's name.
CLIENTS: dict[str, tuple[Callable[[], Iterator[Case]], str]] = {
    "pyomo": (pyomo, "IPOPT"),
    "casadi": (casadi, "IPOPT"),
    "rockit-meco": (rockit, "IPOPT"),
    "do-mpc": (do_mpc, "IPOPT"),
    "openmdao": (openmdao, "SLSQP"),
    "dymos": (dymos, "SLSQP"),
    "botorch": (botorch, "SLSQP"),
    "optimagic": (optimagic, "SLSQP"),
}

SUITE = """
import sys, pytest
import auglag.cvxpy
from cvxpy.reductions.solvers import defines
defines.SOLVER_MAP_NLP["IPOPT"] = defines.SOLVER_MAP_NLP["AUGLAG"]
defines.INSTALLED_SOLVERS.append("IPOPT")
named = "not UNO and not KNITRO and not COPT"
sys.exit(pytest.main(["-q", "-W", "ignore", "-p", "no:cacheprovider", "--tb=no", "-k", named, "-o", "markers=knitro",
                      "-o", "addopts=", "-rf", "--ignore-glob=*stress*", "--pyargs", "cvxpy.tests.nlp_tests"]))
"""


def end(run: Callable[[], End]) -> End:
    """What a run ends with; an exception is no solution."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run()
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return math.nan, False


def table(names: list[str]) -> tuple[list[str], list[str]]:
    """Lines of the summary, and of all cases."""
    summary, every = [], []
    for name in names:
        make, rival = CLIENTS[name]
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            summary.append(f"| {name} | not installed | | | | |")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = list(make())
        ours, theirs = zip(*[(end(case.ours), end(case.theirs)) for case in cases], strict=True)
        gaps = [(a - b) / max(1.0, abs(b)) for (a, _), (b, _) in zip(ours, theirs, strict=True)]
        worst = max((gap for gap in gaps if math.isfinite(gap)), default=math.nan, key=abs)
        summary.append(
            f"| {name} | {version} | {len(cases)} | {sum(o for _, o in ours)} | {sum(o for _, o in theirs)} ({rival}) "
            f"| {worst:+.0e} |"
        )
        for case, (f, solved), (g, also), gap in zip(cases, ours, theirs, gaps, strict=True):
            every.append(f"| {name} | {case.name} | {_shown(f, solved)} | {_shown(g, also)} | {gap:+.0e} |")
        print(summary[-1], flush=True)
    return summary, every


def _shown(value: float, solved: bool) -> str:
    return f"{value:.8g}" if solved else f"{value:.8g}, no success"


def suite() -> tuple[int, list[str]]:
    """How many of CVXPY's own nonlinear tests pass, and the names of those that fail."""
    ran = subprocess.run([sys.executable, "-c", SUITE], capture_output=True, text=True, check=False)
    dots = "".join(re.findall(r"^([.FsxE]+) +\[", ran.stdout, re.MULTILINE))
    return dots.count("."), re.findall(r"^FAILED \S*::(\S+)", ran.stdout, re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"packages (all): {', '.join(CLIENTS)}")
    parser.add_argument("--suites", action="store_true", help="CVXPY's own tests, too")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    output = None if options.output is None else options.output.resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # some packages leave files behind
        summary, every = table(options.names or list(CLIENTS))
    lines = [
        "# auglag inside other packages",
        "",
        "`python benchmarks/clients.py --suites`: the same problems with auglag (tol = 1e-6) and with the solver that",
        "the package uses otherwise. Solved is what the package reports; the difference is that of the objectives,",
        "relative to max(1, |f|), the largest of all cases (negative: auglag's is lower, worse for a maximum).",
        "",
        "| package | version | cases | solved by auglag | by the other | largest difference |",
        "|---|---|---|---|---|---|",
        *summary,
    ]
    if options.suites:
        version = importlib.metadata.version("cvxpy")
        passed, failed = suite()
        but = f" (not {', '.join(failed)})" if failed else ""
        count = f"{passed} of {passed + len(failed)} pass{but}"
        lines += ["", f"CVXPY {version}'s own nonlinear tests, with auglag in IPOPT's place: {count}."]
    lines += ["", "| package | case | auglag | other | difference |", "|---|---|---|---|---|", *every]
    text = "\n".join(lines) + "\n"
    print(text)
    if output is not None:
        output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
