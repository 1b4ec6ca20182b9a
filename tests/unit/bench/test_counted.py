import numpy as np
import pytest

from auglag.bench.counted import GRACE, CountedProblem, LimitReached
from auglag.bench.spec import Limits
from auglag.errors import InputError
from auglag.problems import cutest


@pytest.fixture
def problem():
    return CountedProblem(cutest.load("HS71"), Limits(gradients=5))


def test_functions_at_one_point_count_once(problem):
    x = problem.x0
    problem.f(x), problem.c(x), problem.grad(x), problem.jac(x), problem.hess(x, np.ones(2)), problem.f(x)
    assert (problem.values, problem.gradients, problem.hessians) == (1, 1, 1)
    problem.f(x + 1), problem.grad(x + 1), problem.c(x)
    assert (problem.values, problem.gradients) == (3, 2)


def test_every_hessian_product_counts(problem):
    for _ in range(3):
        problem.hessp(problem.x0, np.ones(2), np.ones(4))
    assert (problem.hessians, problem.products) == (0, 3)


def test_the_last_point_of_a_solver_without_derivatives_is_one_of_its_values(problem):
    problem.f(problem.x0 + 1)
    assert (problem.last_x == problem.x0 + 1).all()
    problem.grad(problem.x0 + 2), problem.f(problem.x0 + 3)
    assert (problem.last_x == problem.x0 + 2).all()


def test_values_are_those_of_the_problem(problem):
    inner, x, y = problem.inner, problem.x0 + 0.1, np.array([0.3, -2.0])
    assert problem.f(x) == inner.f(x)
    assert (problem.jac(x).toarray() == inner.jac(x).toarray()).all()
    assert np.allclose(problem.weighted_hess(x, 2.0, y).toarray(), 2 * inner.hess(x, y / 2).toarray())
    only = inner.hess(x, y).toarray() - inner.hess(x, 0 * y).toarray()
    assert np.allclose(problem.weighted_hess(x, 0.0, y).toarray(), only)


def test_after_the_limit_a_solver_may_look_at_its_best_point_but_not_go_on(problem):
    x = problem.x0
    for k in range(5):
        problem.grad(x + k)
    with pytest.raises(LimitReached, match="5 gradients"):
        problem.grad(x - 1)
    for k in range(GRACE):
        problem.grad(x - 2 - k)
    with pytest.raises(LimitReached):
        problem.grad(x - 100)
    assert (problem.last_x == x - 2 - (GRACE - 1)).all()


def test_the_certificate_of_a_solver_that_keeps_the_limit_itself_is_counted_apart(problem):
    problem.keeps_limit = True
    for k in range(6):
        problem.grad(problem.x0 + k)
    assert (problem.gradients, problem.late, problem.exhausted) == (5, 1, "")
    for k in range(GRACE - 1):
        problem.grad(problem.x0 - 1 - k)
    with pytest.raises(LimitReached):  # no more than that, whatever the solver says of itself
        problem.grad(problem.x0 - 100)


def test_cpu_seconds_are_a_limit_too():
    problem = CountedProblem(cutest.load("HS71"), Limits(seconds=1e-9))
    with pytest.raises(LimitReached, match="CPU seconds"):
        problem.f(problem.x0)


def test_hessians_can_be_hidden(problem):
    assert problem.has_hessp
    problem.hide_hessians = True
    assert not problem.has_hessp


@pytest.mark.parametrize("field", ["gradients", "seconds", "wall", "memory"])
def test_limits_must_be_positive(field):
    with pytest.raises(InputError, match=rf"Limits\.{field} must be positive and finite, got -1"):
        Limits(**{field: -1})
