"""Values and derivatives of CUTEst problems agree with S2MPJ's own evaluation, with and without a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from auglag.problems import cutest
from auglag.problems.cutest import hessian, kernels, native
from auglag.problems.cutest.language import Untranslatable
from auglag.problems.cutest.s2mpj import raw_problem
from helpers.s2mpj import BACKENDS, distance, needs_s2mpj

pytestmark = needs_s2mpj

#: About one in twelve of the paper's set, all sizes; benchmarks/cutest_evaluation.py goes over the whole.
SAMPLE = (
    # small ones in the order of their size, then some with many elements
    *("BURKEHAN", "HS18", "HS62", "HIMMELP4", "HS70", "BT13", "HS42", "HS23", "HS51", "EIGENBCO", "HS44NEW"),
    *("HS100MOD", "LUKVLE11", "LUKVLE2", "LUKVLI10", "HS108", "ERRINBAR", "ORTHRDS2", "BLOCKQP3", "NCVXQP5"),
    *("HAGER3", "LISWET12", "ACOPP14", "HS24", "HS99", "DTOC1ND"),
    # functions that need care: external code, conditions on data, erf, group parameters, a quadratic term, weights
    *("HS67", "HS85", "HS88", "HS68", "HS59", "HUBFIT", "CORE1", "EQC", "QC", "NASH", "LUKVLE3", "CONCON", "STREGNE"),
    *("GPP", "TARGUS", "MIFFLIN2"),
)
#: Unconstrained or with bounds only: outside the paper's set, and they load as well.
OTHERS = ("ROSENBR", "HS1", "HS38", "BOX3", "BROWNDEN")
TOLERANCE = 1e-10


def points(x0: Any, rng: np.random.Generator) -> list[Any]:
    n = x0.size
    near = x0 + 0.1 * rng.standard_normal(n) * (1.0 + np.abs(x0))
    return [x0, near, np.abs(x0) + 0.5 + rng.random(n)]


@pytest.mark.parametrize("name", SAMPLE)
def test_values_and_derivatives_are_those_of_s2mpj(name: str) -> None:
    raw, rng = raw_problem(name), np.random.default_rng(len(name))
    problems = [cutest.S2mpjProblem(raw, compiled=wish) for wish in (None, False)]
    assert "in Python" not in problems[0].backend_reason
    compared = 0
    for x in points(problems[0].x0, rng):
        y, v = rng.standard_normal(problems[0].m), rng.standard_normal(problems[0].n)
        with np.errstate(all="ignore"):
            (f, g), (c, jac), product = raw.fgx(x), raw.cJx(x), raw.LHxyv(x, y, v)
        if not (np.isfinite(f) and np.isfinite(c).all()):
            continue
        compared += 1
        for problem in problems:
            found = problem.evaluate(x)
            assert distance(found.f, f) <= TOLERANCE
            assert distance(found.grad, g) <= TOLERANCE
            assert distance(found.c, c) <= TOLERANCE
            assert distance(found.jac.toarray(), jac.toarray()) <= TOLERANCE
            assert distance(problem.hessp(x, y, v), product) <= TOLERANCE
            assert distance(problem.hess(x, y) @ v, product) <= TOLERANCE
    assert compared > 0


@pytest.mark.parametrize("compiled", BACKENDS)
@pytest.mark.parametrize("name", OTHERS)
def test_problems_without_constraints_agree_too(name: str, compiled: bool) -> None:
    raw = raw_problem(name)
    problem = cutest.S2mpjProblem(raw, compiled=compiled)
    v = np.linspace(-1.0, 1.0, problem.n)
    f, g = raw.fgx(problem.x0)
    found = problem.evaluate(problem.x0)
    assert problem.m == 0
    assert found.jac.shape == (0, problem.n)
    assert distance(found.f, f) <= TOLERANCE
    assert distance(found.grad, g) <= TOLERANCE
    assert distance(problem.hessp(problem.x0, np.zeros(0), v), raw.fHxv(problem.x0, v)) <= TOLERANCE
    assert distance(problem.hess(problem.x0, np.zeros(0)) @ v, raw.fHxv(problem.x0, v)) <= TOLERANCE


@pytest.mark.parametrize("compiled", BACKENDS)
@pytest.mark.parametrize("name", ["BOOTH", "ARTIF"])
def test_a_problem_without_an_objective_has_objective_zero(name: str, compiled: bool) -> None:
    problem = cutest.load(name, compiled=compiled)
    assert problem.f(problem.x0) == 0.0
    assert not problem.grad(problem.x0).any()
    assert distance(problem.c(problem.x0), raw_problem(name).cx(problem.x0)) <= TOLERANCE


@pytest.mark.parametrize("compiled", BACKENDS)
@pytest.mark.parametrize("name", ["WATER", "LAUNCH", "DITTERT", "HS112", "HIMMELBJ", "HS68"])
def test_where_a_function_is_not_defined_nothing_is_raised_and_the_value_is_not_finite(
    name: str, compiled: bool
) -> None:
    problem = cutest.load(name, compiled=compiled)
    x = np.full(problem.n, -1.0)  # a logarithm, a root or a quotient is not defined here, except in HS68
    found = problem.evaluate(x)
    finite = np.isfinite(found.f) and np.isfinite(found.c).all()
    assert finite == (name == "HS68")
    assert problem.hessp(x, np.ones(problem.m), np.ones(problem.n)).shape == (problem.n,)
    assert problem.hess(x, np.ones(problem.m)).shape == (problem.n, problem.n)


@pytest.mark.parametrize("compiled", BACKENDS)
@pytest.mark.parametrize("name", ["HS71", "DITTERT", "NASH", "ORTHRDS2"])
def test_patterns_are_the_same_at_every_point(name: str, compiled: bool) -> None:
    problem, rng = cutest.load(name, compiled=compiled), np.random.default_rng(0)
    for make in (problem.jac, lambda x: problem.hess(x, np.ones(problem.m))):
        first = make(problem.x0)
        for x in (np.zeros(problem.n), rng.standard_normal(problem.n)):
            other = make(x)
            assert np.array_equal(first.indices, other.indices)
            assert np.array_equal(first.indptr, other.indptr)


@pytest.mark.parametrize("compiled", BACKENDS)
def test_the_hessian_is_symmetric_and_its_columns_are_products(compiled: bool) -> None:
    problem = cutest.load("HS71", compiled=compiled)
    y = np.array([0.5, -2.0])
    hess = problem.hess(problem.x0, y).toarray()
    columns = np.array([problem.hessp(problem.x0, y, e) for e in np.eye(4)])
    assert np.allclose(hess, hess.T, rtol=1e-14)
    assert np.allclose(hess, columns, rtol=1e-14)


@pytest.mark.parametrize("compiled", BACKENDS)
def test_the_product_follows_x_and_is_not_disturbed_by_values_in_between(compiled: bool) -> None:
    problem = cutest.load("HS71", compiled=compiled)
    y, v, there = np.ones(2), np.ones(4), problem.x0 + 1.0
    here = problem.hessp(problem.x0, y, v)
    assert not np.allclose(problem.hessp(there, y, v), here)
    problem.evaluate(there)
    assert np.array_equal(problem.hessp(problem.x0, y, v), here)


@pytest.mark.parametrize("compiled", BACKENDS)
def test_results_are_not_overwritten_by_later_calls(compiled: bool) -> None:
    problem = cutest.load("HS71", compiled=compiled)
    first = problem.evaluate(problem.x0)
    kept = [np.copy(part) for part in (first.grad, first.c, first.jac.data)]
    problem.evaluate(problem.x0 + 1.0)
    assert all(np.array_equal(a, b) for a, b in zip(kept, (first.grad, first.c, first.jac.data), strict=True))


def refuse(raw: Any, name: str, inputs: int) -> Any:
    raise Untranslatable(name)


def test_a_type_that_cannot_be_translated_is_evaluated_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HS6", "HS71"):
        expected = cutest.load(name)
        x, y, v = expected.x0 + 0.25, np.ones(expected.m), np.arange(1.0, expected.n + 1)
        with monkeypatch.context() as patch:
            patch.setattr(native, "translate", refuse)
            patch.setattr(kernels, "translate", refuse)
            for compiled in (None, False):
                problem = cutest.load(name, compiled=compiled)
                if problem.backend == "c":
                    assert "in Python" in problem.backend_reason
                assert distance(problem.evaluate(x).grad, expected.evaluate(x).grad) <= TOLERANCE
                assert distance(problem.c(x), expected.c(x)) <= TOLERANCE
                assert distance(problem.hessp(x, y, v), expected.hessp(x, y, v)) <= TOLERANCE


@pytest.mark.parametrize("name", ["HS105", "AIRPORT", "LUKVLE3", "GPP", "HS71"])
def test_hessians_are_the_same_to_the_last_bit_where_pairs_are_too_many_to_be_kept(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for most in (hessian.KEPT_PAIRS, 0):
        monkeypatch.setattr(hessian, "KEPT_PAIRS", most)
        problem = cutest.load(name)
        found.append(problem.hess(problem.x0, np.linspace(-1.0, 2.0, problem.m)))
    kept, multiplied = found
    assert np.array_equal(kept.indices, multiplied.indices)
    assert np.array_equal(kept.data, multiplied.data)
