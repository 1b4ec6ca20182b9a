"""The first-order inner solvers: proximal gradient, spectral, PANOC, proximal point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from auglag.errors import InputError
from auglag.inner.base import InnerResult, InnerSolver, InnerStatus, Traits
from auglag.inner.first_order import Point
from auglag.inner.lbfgsb import LBFGSB
from auglag.inner.panoc import Panoc
from auglag.inner.proximal_gradient import ProximalGradient, SpectralProximalGradient
from auglag.inner.proximal_point import ProximalPoint
from auglag.inner.qp import QPModel
from auglag.prox import L1, Box, ElasticNet, L2Norm, NonNegative, ProxTerm, Simplex, Zero

Smooth = Callable[[np.ndarray], tuple[float, np.ndarray]]

SOLVERS: list[InnerSolver] = [ProximalGradient(), SpectralProximalGradient(), Panoc(), ProximalPoint()]
#: Without the plain method, which needs more than the iteration limit where the conditioning is bad.
FAST = SOLVERS[1:]


@dataclass
class Problem:
    """A subproblem that remembers where it was evaluated."""

    smooth: Smooth
    g: ProxTerm
    visited: list[np.ndarray] = field(default_factory=list)
    gradients: int = 0
    has_hessp: bool = False

    def value(self, x: np.ndarray) -> float:
        self.visited.append(x.copy())
        return self.smooth(x)[0]

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        self.gradients += 1
        self.visited.append(x.copy())
        return self.smooth(x)

    def hessp(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        raise NotImplementedError


def quadratic(n: int, condition: float, seed: int = 0) -> Smooth:
    """x'Ax/2 - b'x with eigenvalues from 1 to `condition`."""
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    a = (q * np.geomspace(1.0, condition, n)) @ q.T
    b = rng.standard_normal(n) * math.sqrt(condition)
    return lambda x: (float(0.5 * x @ a @ x - b @ x), a @ x - b)


def rosenbrock(x: np.ndarray) -> tuple[float, np.ndarray]:
    return float(rosen(x)), rosen_der(x)


def check(problem: Problem, start: np.ndarray, result: InnerResult, tol: float) -> None:
    """The claims of a converged result, measured again from the functions alone."""
    assert result.status is InnerStatus.CONVERGED
    value, gradient = problem.smooth(result.x)
    assert problem.g.subdiff_distance(result.x, -gradient) <= tol
    assert result.residual <= tol
    first = problem.g.domain().prox(start, 1.0)
    before = problem.smooth(first)[0] + problem.g.value(first)
    assert value + problem.g.value(result.x) <= before + 1e-12 * max(1.0, abs(before))
    assert result.value == pytest.approx(value + problem.g.value(result.x), rel=1e-14, abs=1e-14)
    assert result.evaluations == problem.gradients


def solved(solver: InnerSolver, smooth: Smooth, g: ProxTerm, start: np.ndarray, tol: float) -> InnerResult:
    problem = Problem(smooth, g)
    result = solver.solve(problem, start, tol)
    check(problem, start, result, tol)
    assert all(problem.g.domain().value(x) == 0.0 for x in problem.visited)
    return result


def by_name(solver: object) -> str:
    return solver.name if isinstance(solver, InnerSolver) else type(solver).__name__


TERMS = [Zero(), Box(-0.1, 0.3), L1(5.0), Simplex(), NonNegative(), L2Norm(3.0), ElasticNet(5.0, 30.0)]


@pytest.mark.parametrize("g", TERMS, ids=by_name)
@pytest.mark.parametrize("solver", SOLVERS, ids=by_name)
@pytest.mark.parametrize("condition", [10.0, 100.0])
def test_solves_well_conditioned_quadratics_to_1e_9(solver: InnerSolver, g: ProxTerm, condition: float) -> None:
    solved(solver, quadratic(20, condition), g, np.full(20, 0.05), 1e-9)


@pytest.mark.parametrize("g", TERMS, ids=by_name)
@pytest.mark.parametrize("solver", FAST, ids=by_name)
def test_solves_badly_conditioned_quadratics(solver: InnerSolver, g: ProxTerm) -> None:
    solved(solver, quadratic(20, 1e4), g, np.full(20, 0.05), 1e-6)


@pytest.mark.parametrize("solver", SOLVERS, ids=by_name)
def test_finds_the_known_solution_of_an_orthogonal_lasso(solver: InnerSolver) -> None:
    """min ||Ax - b||^2 / 2 + w ||x||_1 with A'A = diag(h^2): x_i is the soft threshold of (A'b)_i, over h_i^2."""
    rng = np.random.default_rng(3)
    q, _ = np.linalg.qr(rng.standard_normal((40, 15)))
    h = np.linspace(1.0, 3.0, 15)
    a, b, weight = q * h, rng.standard_normal(40) * 3.0, 2.0
    c = a.T @ b
    expected = np.sign(c) * np.maximum(np.abs(c) - weight, 0.0) / h**2
    assert 0 < np.count_nonzero(expected) < 15

    result = solved(
        solver, lambda x: (0.5 * float(np.sum((a @ x - b) ** 2)), a.T @ (a @ x - b)), L1(weight), np.zeros(15), 1e-9
    )

    np.testing.assert_allclose(result.x, expected, rtol=0.0, atol=1e-8)
    np.testing.assert_array_equal(result.x == 0.0, expected == 0.0)


@pytest.mark.parametrize("solver", SOLVERS, ids=by_name)
def test_minimises_rosenbrock_in_a_box_that_cuts_off_the_minimiser(solver: InnerSolver) -> None:
    result = solved(solver, rosenbrock, Box([-1.5, -1.5], [0.8, 2.0]), np.array([-1.2, 1.0]), 1e-6)
    np.testing.assert_allclose(result.x, [0.8, 0.64], atol=1e-5)


@pytest.mark.parametrize("solver", FAST, ids=by_name)
@pytest.mark.parametrize("n", [2, 10])
@pytest.mark.parametrize("g", [Zero(), L1(0.1)], ids=by_name)
def test_minimises_rosenbrock_with_and_without_the_1_norm(solver: InnerSolver, n: int, g: ProxTerm) -> None:
    result = solved(solver, rosenbrock, g, np.tile([-1.2, 1.0], n // 2), 1e-6)
    if isinstance(g, Zero):
        np.testing.assert_allclose(result.x, 1.0, atol=1e-4)


@pytest.mark.parametrize("g", [Zero(), Box(-1.0, 5.0), L1(0.5)], ids=by_name)
@pytest.mark.parametrize("solver", SOLVERS, ids=by_name)
def test_steps_back_where_phi_is_not_defined(solver: InnerSolver, g: ProxTerm) -> None:
    """phi = sum 3 x_i - log x_i, so steep at the start that first steps leave its domain."""

    def smooth(x: np.ndarray) -> tuple[float, np.ndarray]:
        if x.min() <= 0.0:
            return math.nan, np.full_like(x, math.nan)
        return float(np.sum(3.0 * x - np.log(x))), 3.0 - 1.0 / x

    weight = 0.5 if isinstance(g, L1) else 0.0
    result = solved(solver, smooth, g, np.array([4.0, 3.0, 1e-2, 0.2]), 1e-7)
    np.testing.assert_allclose(result.x, 1.0 / (3.0 + weight), atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS, ids=by_name)
def test_shrinks_a_step_that_is_bound_to_leave_the_domain_of_phi(solver: InnerSolver) -> None:
    tried = []

    def smooth(x: np.ndarray) -> tuple[float, np.ndarray]:
        tried.append(float(x[0]))
        return (float(x[0] - math.sqrt(x[0])), 1.0 - 0.5 / np.sqrt(x)) if x[0] > 0.0 else (math.inf, x)

    result = solver.solve(Problem(smooth, Zero()), np.array([100.0]), 1e-6, limit=2000)
    assert result.status is InnerStatus.CONVERGED
    assert result.x[0] == pytest.approx(0.25, abs=1e-5)
    if not isinstance(solver, ProximalPoint):
        assert min(tried) <= 0.0


def test_a_given_lipschitz_constant_yields_only_where_phi_is_not_defined() -> None:
    def smooth(x: np.ndarray) -> tuple[float, np.ndarray]:
        return (float(x[0]), np.ones(1)) if x[0] > 0.0 else (math.inf, np.zeros(1))

    problem = Problem(smooth, Zero())
    result = ProximalGradient(lipschitz=1.0).solve(problem, np.array([2.5]), 1e-6, limit=3)
    np.testing.assert_allclose(np.ravel(problem.visited), [2.5, 1.5, 0.5, -0.5, 0.0, 0.25])
    assert result.status is InnerStatus.LIMIT
    assert result.x[0] == 0.25


@pytest.mark.parametrize(
    "smooth",
    [lambda x: (float(x.sum()), np.ones_like(x)), lambda x: (-float(x @ x), -2.0 * x)],
    ids=["linear", "concave"],
)
@pytest.mark.parametrize("solver", SOLVERS, ids=by_name)
def test_reports_a_subproblem_without_lower_bound(solver: InnerSolver, smooth: Smooth) -> None:
    result = solver.solve(Problem(smooth, Box(-math.inf, 7.0)), -np.ones(4), 1e-6)
    assert result.status is InnerStatus.UNBOUNDED
    assert not result.usable
    assert result.iterations <= 500


@pytest.mark.parametrize("solver", SOLVERS, ids=by_name)
def test_evaluates_nothing_outside_bounds_that_are_hit_from_all_sides(solver: InnerSolver) -> None:
    rng = np.random.default_rng(5)
    lower, upper = -rng.random(12) / 3.0, rng.random(12) / 3.0
    lower[3] = upper[3]
    problem = Problem(quadratic(12, 50.0, seed=2), Box(lower, upper))
    start = 10.0 * rng.standard_normal(12)
    check(problem, start, solver.solve(problem, start, 1e-8), 1e-8)
    seen = np.array(problem.visited)
    assert np.all(seen >= lower)
    assert np.all(seen <= upper)
    assert len(np.unique(seen == upper)) == 2


@pytest.mark.parametrize("solver", [*SOLVERS, ProximalGradient(1e4)], ids=by_name)
def test_says_so_when_the_iteration_limit_is_reached(solver: InnerSolver) -> None:
    problem = Problem(rosenbrock, Zero())
    result = solver.solve(problem, np.array([-1.2, 1.0]), 1e-12, limit=5)
    assert result.status is InnerStatus.LIMIT
    assert result.iterations == 5
    assert result.value <= rosen([-1.2, 1.0])
    assert result.evaluations == problem.gradients


@pytest.mark.parametrize("solver", [*SOLVERS, ProximalGradient(100.0)], ids=by_name)
@pytest.mark.parametrize("g", [Zero(), Box(-0.1, 0.3)], ids=by_name)
def test_stalls_when_the_tolerance_is_below_what_arithmetic_allows(solver: InnerSolver, g: ProxTerm) -> None:
    result = solver.solve(Problem(quadratic(10, 10.0), g), np.zeros(10), 1e-300)
    assert result.status in (InnerStatus.STALLED, InnerStatus.CONVERGED)
    assert result.residual <= 1e-10
    assert result.iterations < 5000


@pytest.mark.parametrize("solver", SOLVERS, ids=by_name)
def test_takes_no_step_from_a_stationary_point(solver: InnerSolver) -> None:
    problem = Problem(lambda x: (0.5 * float(x @ x), x.copy()), L1(1.0))
    result = solver.solve(problem, np.zeros(3), 1e-9)
    assert result.status is InnerStatus.CONVERGED
    assert (result.iterations, problem.gradients) == (0, 1)


@pytest.mark.parametrize("solver", SOLVERS, ids=by_name)
def test_does_not_mind_a_large_constant_in_phi(solver: InnerSolver) -> None:
    """With phi near 1e6 its values resolve no residual below 1e-4; the gradients do."""
    smooth = quadratic(20, 100.0)
    solved(solver, lambda x: (smooth(x)[0] + 1e6, smooth(x)[1]), Box(-0.1, 0.3), np.full(20, 0.05), 1e-8)


def test_the_theory_step_gives_the_decrease_and_the_residual_of_the_lemma() -> None:
    """With a = 1/L: F(x+) <= F(x) - ||G||^2 / (2L) and dist(-grad phi(x+), dg(x+)) <= 2 ||G||, G = L (x - x+)."""
    lipschitz, g = 100.0, L1(5.0)
    smooth = quadratic(20, lipschitz)
    problem = Problem(smooth, g)
    result = ProximalGradient(lipschitz=lipschitz).solve(problem, np.full(20, 0.5), 1e-6, limit=3000)
    assert result.status is InnerStatus.CONVERGED
    assert len(problem.visited) == result.iterations + 1
    for x, after in zip(problem.visited, problem.visited[1:], strict=False):
        value, gradient = smooth(x)
        np.testing.assert_array_equal(after, g.prox(x - gradient / lipschitz, 1.0 / lipschitz))
        mapping = float(np.linalg.norm(lipschitz * (x - after)))
        value_after, gradient_after = smooth(after)
        decrease = value + g.value(x) - value_after - g.value(after)
        assert decrease >= mapping**2 / (2.0 * lipschitz) - 1e-12 * abs(value)
        assert g.subdiff_distance(after, -gradient_after) <= 2.0 * mapping + 1e-12


def test_the_backtracked_step_decreases_the_objective_in_every_iteration() -> None:
    problem = Problem(rosenbrock, L1(0.1))
    values = [
        ProximalGradient().solve(problem, np.array([-1.2, 1.0]), 1e-12, limit=limit).value for limit in range(1, 60)
    ]
    assert np.all(np.diff(values) < 0.0)


def test_the_spectral_method_never_rises_above_the_start() -> None:
    problem = Problem(rosenbrock, Box(-2.0, 2.0))
    start = np.array([-1.2, 1.0])
    for limit in (1, 2, 3, 5, 8, 13, 21, 34):
        assert SpectralProximalGradient().solve(problem, start, 1e-12, limit=limit).value <= rosen(start)


def test_panoc_costs_no_more_than_a_few_gradients_an_iteration() -> None:
    for g in (Zero(), Box(-1.5, 0.8), L1(0.1)):
        result = Panoc().solve(Problem(rosenbrock, g), np.tile([-1.2, 1.0], 5), 1e-8)
        assert result.status is InnerStatus.CONVERGED
        assert result.evaluations <= 150
        assert result.evaluations <= 1.5 * result.iterations + 5


def test_panoc_meets_bounds_and_kinks_exactly() -> None:
    result = solved(Panoc(), quadratic(20, 100.0), Box(-0.1, 0.3), np.zeros(20), 1e-9)
    near = (np.abs(result.x - 0.3) < 1e-6) | (np.abs(result.x + 0.1) < 1e-6)
    assert near.any()
    assert np.all((result.x[near] == 0.3) | (result.x[near] == -0.1))


def test_proximal_point_uses_the_weak_convexity_it_is_given() -> None:
    """phi = cos x + x^2/4 is 1/2-weakly convex."""
    problem = Problem(lambda x: (float(np.sum(np.cos(x) + 0.25 * x**2)), 0.5 * x - np.sin(x)), Zero())
    start = np.array([0.1, -0.3, 2.0])
    result = ProximalPoint(weak_convexity=0.5).solve(problem, start, 1e-8)
    check(problem, start, result, 1e-8)
    np.testing.assert_allclose(np.abs(result.x), 1.895494267, atol=1e-7)


def test_a_change_lost_in_the_values_is_found_from_the_gradients() -> None:
    def point(x: float) -> Point:
        return Point(np.array([x]), 1e6 + 0.5 * x * x, np.array([x]))

    assert point(1e-6).change(point(2e-6)) == pytest.approx(1.5e-12, rel=1e-9)
    assert point(1.0).change(point(3.0)) == pytest.approx(4.0, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Panoc(0), "Panoc.memory must be a positive integer, got 0"),
        (lambda: Panoc(2.5), "Panoc.memory must be a positive integer, got 2.5"),  # type: ignore[arg-type]
        (lambda: SpectralProximalGradient(-1), "SpectralProximalGradient.memory must be a positive integer, got -1"),
        (
            lambda: SpectralProximalGradient(sufficient_decrease=1.0),
            r"SpectralProximalGradient.sufficient_decrease must lie in \(0, 1\), got 1.0",
        ),
        (lambda: ProximalGradient(0.0), "ProximalGradient.lipschitz must be positive and finite, got 0.0"),
        (lambda: ProximalGradient(math.nan), "ProximalGradient.lipschitz must be positive and finite, got nan"),
        (lambda: ProximalPoint(-1.0), "ProximalPoint.weak_convexity must be positive and finite, got -1.0"),
        (lambda: ProximalPoint(fraction=1.0), r"ProximalPoint.fraction must lie in \(0, 1\), got 1.0"),
    ],
)
def test_refuses_options_that_make_no_sense(make: Callable[[], InnerSolver], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_names_and_what_they_accept() -> None:
    assert [solver.name for solver in SOLVERS] == ["proximal-gradient", "spectral", "panoc", "proximal-point"]
    assert all(solver.refuses(Traits(g, 20)) is None for solver in SOLVERS for g in TERMS)


def test_a_solver_by_models_says_that_it_needs_them() -> None:
    with pytest.raises(InputError, match=r"inner='qp' needs a subproblem that has models .*, got Problem; inner='lbf"):
        QPModel().solve(Problem(quadratic(3, 10.0), Box(0.0, 1.0)), np.zeros(3), 1e-8)


def test_a_solver_for_bounds_says_that_it_takes_no_other_term() -> None:
    with pytest.raises(InputError, match="this inner solver handles bounds but not g=L1"):
        LBFGSB().solve(Problem(quadratic(3, 10.0), L1(1.0)), np.ones(3), 1e-8)
