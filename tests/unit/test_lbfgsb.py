"""L-BFGS-B, driven so that our measure ends it and not its own."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from auglag.errors import InputError
from auglag.inner import LBFGSB, InnerStatus, Traits, _setulb, tuning
from auglag.prox import L1, Box, Zero


class Smooth:
    """A subproblem from a function that returns value and gradient; records where it was evaluated."""

    has_hessp = False

    def __init__(self, fun, g=None):
        self.fun, self.g, self.points = fun, g or Zero(), []

    def value(self, x):
        return self.value_and_gradient(x)[0]

    def value_and_gradient(self, x):
        self.points.append(x.copy())
        return self.fun(x)


def rosenbrock(x):
    a, b = x[1:] - x[:-1] ** 2, 1 - x[:-1]
    gradient = np.zeros_like(x)
    gradient[:-1] = -400 * a * x[:-1] - 2 * b
    gradient[1:] += 200 * a
    return 100 * float(a @ a) + float(b @ b), gradient


def quadratic(condition, n=10, offset=0.0):
    scales = np.geomspace(1, condition, n)
    centre = np.linspace(-1, 1, n)
    return lambda x: (offset + 0.5 * float((x - centre) @ (scales * (x - centre))), scales * (x - centre))


def trace(way, fun, x0, box, memory, iterations):
    points = []

    def visit(x):
        points.append(np.array(x))
        value, gradient = fun(x)
        return value, gradient.copy()

    left = [iterations]

    def count():
        left[0] -= 1
        return left[0] > 0

    last = way(visit, x0, box, memory, count)
    return points, last


BOXES = {
    "free": None,
    "box": (np.full(6, -0.5), np.full(6, 0.8)),
    "mixed": (np.array([-np.inf, 0.0, -1.0, -np.inf, -2.0, 0.5]), np.array([np.inf, np.inf, 0.3, 0.4, 2.0, 0.5])),
}


@pytest.mark.skipif(_setulb.SETULB is None, reason="this version of SciPy is driven through its public function only")
@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
@pytest.mark.parametrize("fun", [rosenbrock, quadratic(1e6, 6)], ids=["rosenbrock", "quadratic"])
@pytest.mark.parametrize("memory", [3, 20])
def test_both_ways_of_driving_scipys_routine_visit_the_same_points(fun, box, memory):
    x0 = np.full(6, 0.1) if box is None else np.clip(np.full(6, 0.1), *box)
    direct, end = trace(_setulb.directly, fun, x0, box, memory, 60)
    public, same_end = trace(_setulb.through_minimize, fun, x0, box, memory, 60)
    # The same up to the last bit of a dot product, which depends on where in memory a vector lies.
    for a, b in itertools.islice(zip(direct, public, strict=False), 40):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert min(len(direct), len(public)) > 5
    np.testing.assert_allclose(end, same_end, rtol=1e-6, atol=1e-6)


def test_an_untested_version_of_scipy_is_driven_through_its_public_function(monkeypatch):
    monkeypatch.setattr(_setulb.scipy, "__version__", "9.9.0")
    assert _setulb._routine() is None
    monkeypatch.setattr(_setulb, "SETULB", None)
    found = LBFGSB().solve(Smooth(rosenbrock), np.full(5, -1.0), 1e-8)
    assert found.status is InnerStatus.CONVERGED
    assert found.iterations > 5


@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-9])
@pytest.mark.parametrize("g", [Zero(), Box(-2.0, 0.7)], ids=["free", "box"])
def test_the_two_norm_distance_to_the_subdifferential_is_met(g, tol):
    found = LBFGSB().solve(Smooth(rosenbrock, g), np.full(8, -1.0), tol)
    assert found.status is InnerStatus.CONVERGED
    _, gradient = rosenbrock(found.x)
    at_upper = found.x == 0.7 if isinstance(g, Box) else np.zeros(8, bool)
    measured = np.linalg.norm(np.where(at_upper & (gradient < 0), 0.0, gradient))
    assert measured == pytest.approx(found.residual)
    assert measured <= tol


def test_the_solve_ends_at_the_first_point_that_meets_the_measure():
    subproblem = Smooth(rosenbrock)
    found = LBFGSB().solve(subproblem, np.full(4, -1.0), 1e-3)
    norms = [np.linalg.norm(rosenbrock(x)[1]) for x in subproblem.points]
    assert norms[-1] <= 1e-3 < min(norms[:-1])
    assert (subproblem.points[-1] == found.x).all()


@pytest.mark.parametrize("g", [Zero(), Box(-2.0, 0.7)], ids=["free", "box"])
def test_no_point_is_evaluated_twice(g):
    subproblem = Smooth(rosenbrock, g)
    subproblem.value = lambda x: rosenbrock(x)[0]  # looks ahead are no gradients
    found = LBFGSB().solve(subproblem, np.full(8, -1.0), 1e-4)
    assert found.evaluations == len(subproblem.points)
    assert len({x.tobytes() for x in subproblem.points}) == len(subproblem.points)


def test_gradients_are_counted_as_scipy_counts_them():
    """With SciPy's own test on, the solve is one call of SciPy: same end, same number of gradients."""
    found = LBFGSB(memory=10, ftol=1e-9).solve(Smooth(rosenbrock), np.full(8, -1.0), 1e-14)
    options = {"maxcor": 10, "ftol": 1e-9, "gtol": 0.0, "maxls": tuning.TUNING.lbfgsb_line_search}
    theirs = minimize(rosenbrock, np.full(8, -1.0), jac=True, method="L-BFGS-B", options=options)
    np.testing.assert_allclose(found.x, theirs.x, rtol=1e-9)
    assert found.evaluations == theirs.njev


@pytest.mark.parametrize("offset", [1e6, 1e10])
def test_a_value_whose_changes_drown_in_rounding_does_not_end_the_solve(offset):
    """phi - phi* is 5e-15 at the tolerance, far below the spacing of floats at 1e10: only gradients can tell."""
    found = LBFGSB().solve(Smooth(quadratic(1e3, offset=offset)), np.full(10, 3.0), 1e-7)
    assert found.status is InnerStatus.CONVERGED
    assert found.residual <= 1e-7


def test_a_noisy_function_is_called_stalled_and_the_best_point_is_returned():
    rng = np.random.default_rng(0)

    def noisy(x):
        value, gradient = quadratic(10.0)(x)
        return value + 1e-6 * rng.random(), gradient + 1e-4 * rng.standard_normal(x.size)

    found = LBFGSB().solve(Smooth(noisy), np.full(10, 3.0), 1e-9)
    assert found.status in (InnerStatus.STALLED, InnerStatus.LIMIT)
    assert found.residual < 1e-2


def test_an_undefined_region_is_stepped_back_from():
    def barrier(x):
        if x[0] <= 0:
            return math.nan, np.full(1, math.nan)
        return 10 * x[0] - math.log(x[0]), np.array([10 - 1 / x[0]])

    subproblem = Smooth(barrier)
    found = LBFGSB().solve(subproblem, np.array([5.0]), 1e-8)
    assert found.status is InnerStatus.CONVERGED
    assert found.x[0] == pytest.approx(0.1)
    assert any(x[0] <= 0 for x in subproblem.points)


def test_no_point_outside_the_bounds_is_ever_evaluated():
    box = Box(np.array([-1.0, 0.1, -np.inf, 0.3]), np.array([0.2, 0.1 + 1e-9, 0.7, np.inf]))
    subproblem = Smooth(rosenbrock, box)
    LBFGSB().solve(subproblem, np.array([-1.0, 0.1, 0.0, 5.0]), 1e-9)
    low, high = box.box(4)
    assert all((low <= x).all() and (x <= high).all() for x in subproblem.points)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: (float(x[0] - 3 * x[1]), np.array([1.0, -3.0])),
        lambda x: (-float(x @ x), -2 * x),
        lambda x: (float(1e3 * (x[0] + x[1]) ** 2 - x[0]), np.array([2e3 * (x[0] + x[1]) - 1, 2e3 * (x[0] + x[1])])),
    ],
    ids=["linear", "concave", "a long valley"],
)
def test_a_function_without_lower_bound_is_recognised_within_a_few_hundred_evaluations(fun):
    subproblem = Smooth(fun)
    found = LBFGSB().solve(subproblem, np.array([1.0, 2.0]), 1e-8)
    assert found.status is InnerStatus.UNBOUNDED
    assert len(subproblem.points) < 1000


def test_a_function_that_falls_into_a_singularity_does_not_take_forever():
    def pit(x):
        return (math.log(x[0]), np.array([1 / x[0]])) if x[0] > 0 else (math.nan, np.full(1, math.nan))

    subproblem = Smooth(pit)
    found = LBFGSB().solve(subproblem, np.array([1.0]), 1e-8)
    assert found.status in (InnerStatus.UNBOUNDED, InnerStatus.EDGE)
    assert not found.usable
    assert len(subproblem.points) < 500


def test_the_iteration_limit_is_kept_and_said():
    found = LBFGSB().solve(Smooth(rosenbrock), np.full(8, -1.0), 1e-9, limit=5)
    assert found.status is InnerStatus.LIMIT
    assert found.iterations == 5
    assert found.value < rosenbrock(np.full(8, -1.0))[0]


def test_a_nonsmooth_term_is_refused_with_the_name_of_a_solver_that_takes_it():
    assert "panoc" in LBFGSB().refuses(Traits(L1(1.0), 3))
    assert LBFGSB().refuses(Traits(Box(0.0, 1.0), 3)) is None


def test_as_it_is_in_scipy_the_last_iterate_is_handed_back():
    """No restart, no snapping: where SciPy ends, the solve ends, even if an earlier point was more stationary."""
    fun = quadratic(1e6, offset=1e6)
    x0 = np.full(10, 3.0)
    found = LBFGSB.plain().solve(Smooth(fun), x0, 1e-9)
    options = {"maxcor": 10, "ftol": 0.0, "gtol": 0.0, "maxiter": 10**6, "maxfun": 10**6}
    theirs = minimize(fun, x0, jac=True, method="L-BFGS-B", options=options)
    assert found.status is InnerStatus.STALLED
    np.testing.assert_allclose(found.x, theirs.x, rtol=1e-6)
    assert abs(found.evaluations - theirs.njev) <= 0.1 * theirs.njev
    assert LBFGSB().solve(Smooth(fun), x0, 1e-9).residual < found.residual


def test_with_the_max_norm_the_solve_ends_earlier():
    by_entry = LBFGSB(max_norm=True).solve(Smooth(rosenbrock), np.full(30, -1.0), 1e-3)
    by_norm = LBFGSB().solve(Smooth(rosenbrock), np.full(30, -1.0), 1e-3)
    _, gradient = rosenbrock(by_entry.x)
    assert np.max(np.abs(gradient)) <= 1e-3
    assert by_entry.residual == pytest.approx(np.linalg.norm(gradient))
    assert by_entry.evaluations <= by_norm.evaluations


@pytest.mark.parametrize("name", ["restarts", "snap", "look_ahead", "max_norm"])
def test_switches_must_be_true_or_false(name):
    with pytest.raises(InputError, match=rf"LBFGSB\.{name} must be True or False, got 1"):
        LBFGSB(**{name: 1})


@pytest.mark.parametrize("memory", [0, -1, 2.5, None])
def test_memory_must_be_a_positive_integer(memory):
    with pytest.raises(InputError, match=r"LBFGSB\.memory must be a positive integer, got"):
        LBFGSB(memory=memory)


def test_an_iteration_limit_is_a_limit_on_evaluations_too():
    rng = np.random.default_rng(0)

    def hopeless(x):  # the gradient points anywhere: every line search fails after its thirty trials
        return float(rng.random()), rng.standard_normal(x.size)

    subproblem = Smooth(hopeless)
    found = LBFGSB().solve(subproblem, np.zeros(5), 1e-12, limit=20)
    assert found.status in (InnerStatus.LIMIT, InnerStatus.STALLED)
    assert len(subproblem.points) <= 5 * 20 + 101
