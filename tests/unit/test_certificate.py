"""The certificate at points whose residuals are worked out by hand, and the multipliers it finds by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint
from scipy.sparse.linalg import aslinearoperator

import auglag
from auglag import certify
from auglag.certificate import certificate
from auglag.problems.hock_schittkowski import PROBLEMS, KnownProblem
from auglag.prox import L1, L2Norm, Simplex
from helpers import as_problem, flat, relative_error

INF = np.inf

pytestmark = pytest.mark.filterwarnings("ignore:the multipliers look like")


def square(x: np.ndarray) -> float:
    return float(x @ x)


def twice(x: np.ndarray) -> np.ndarray:
    return 2 * x


LINE = LinearConstraint([[1.0, 1.0]], 1.0, 1.0)


# ------------------------------------------------------------ hand-computed points


def test_an_equality_at_its_solution() -> None:
    """min x1^2 + x2^2 subject to x1 + x2 = 1: x = (1/2, 1/2), y = -1."""
    check = certify(square, [0.5, 0.5], [-1.0], jac=twice, constraints=LINE)
    assert check.residual == 0.0
    assert check.meets(1e-300)
    assert check.objective == 0.5


@pytest.mark.parametrize(
    ("x", "y", "stationarity", "violation"),
    [
        ([1.0, 0.0], 0.0, 2.0, 0.0),
        ([1.0, 0.0], -1.0, math.sqrt(2.0), 0.0),  # (2 - 1, 0 - 1)
        ([0.0, 0.0], 0.0, 0.0, 1.0),
        ([3.0, 4.0], 0.0, 10.0, 6.0),
        ([0.5, 0.5], 0.0, math.sqrt(2.0), 0.0),
    ],
)
def test_the_residual_of_an_equality_is_the_papers(
    x: list[float], y: float, stationarity: float, violation: float
) -> None:
    check = certify(square, x, [y], jac=twice, constraints=LINE)
    assert check.stationarity == pytest.approx(stationarity)
    assert check.violation == pytest.approx(violation)
    assert check.complementarity == 0.0
    assert check.residual == pytest.approx(stationarity + violation)


@pytest.mark.parametrize(
    ("x", "y", "stationarity", "complementarity", "violation"),
    [
        (1.0, -2.0, 0.0, 0.0, 0.0),  # the solution of min x^2, x >= 1
        (1.5, -3.0, 0.0, 0.5, 0.0),  # a multiplier at a side half a unit away: the gap is cheaper than |y|
        (3.0, -0.25, math.hypot(5.75, 0.25), 0.0, 0.0),  # |y| is cheaper than the gap of 2
        (1.0, 2.0, math.hypot(4.0, 2.0), 0.0, 0.0),  # the wrong sign: there is no upper side
        (0.0, 0.0, 0.0, 0.0, 1.0),
        (0.5, -1.0, 0.0, 0.0, 0.5),  # violated, and no gap
    ],
)
def test_an_inequality(x: float, y: float, stationarity: float, complementarity: float, violation: float) -> None:
    check = certify(square, [x], [y], jac=twice, constraints=LinearConstraint([[1.0]], 1.0, INF))
    assert check.stationarity == pytest.approx(stationarity)
    assert check.complementarity == pytest.approx(complementarity)
    assert check.violation == pytest.approx(violation)
    assert check.residual == pytest.approx(stationarity + math.hypot(violation, complementarity))


@pytest.mark.parametrize(
    ("x", "y", "stationarity", "complementarity"),
    [
        (1.0, -2.0, 0.0, 0.0),  # the lower side holds
        (1.0, 2.0, 4.0, 1.0),  # pulls towards the upper side, one unit off: cheaper than |y| = 2
        (2.0, 4.0, 8.0, 0.0),  # the upper side: no gap, but the gradient is wrong
        (1.5, 0.0, 3.0, 0.0),
    ],
)
def test_a_row_with_two_sides(x: float, y: float, stationarity: float, complementarity: float) -> None:
    check = certify(square, [x], [y], jac=twice, constraints=LinearConstraint([[1.0]], 1.0, 2.0))
    assert check.stationarity == pytest.approx(stationarity)
    assert check.complementarity == pytest.approx(complementarity)


def test_paying_for_two_multipliers_takes_the_cheaper_sum() -> None:
    """Each row's cheaper payment is not the cheapest sum: 3 + hypot(gaps) against hypot(3, 4) + one gap."""
    rows = LinearConstraint(np.eye(2), [-INF, -INF], [4.0, 5.0])
    # at 0: grad f = (-4, -1) + y = (0, 3): stationarity 3; sizes (4, 4), gaps (4, 5)
    check = certify(lambda x: -4 * x[0] - x[1], [0.0, 0.0], [4.0, 4.0], jac=lambda x: np.array([-4.0, -1.0]),
                    constraints=rows)  # fmt: skip
    all_gaps = 3 + math.hypot(4, 5)
    mixed = math.hypot(3, 4) + 4
    assert check.residual == pytest.approx(min(all_gaps, mixed))


def test_bounds_carry_what_is_left_of_the_gradient() -> None:
    """f = x1 - 2 x2 + x3 on [0, 1]^3 at (0, 1, 1/2)."""
    slope = np.array([1.0, -2.0, 1.0])
    check = certify(lambda x: slope @ x, [0.0, 1.0, 0.5], jac=lambda x: slope, bounds=Bounds([0] * 3, [1] * 3))
    # the third is half a unit from its lower bound: the gap is cheaper than the gradient
    np.testing.assert_array_equal(check.bound_multipliers, [-1.0, 2.0, -1.0])
    assert check.stationarity == 0.0
    assert check.complementarity == 0.5


def test_a_bound_far_away_carries_nothing() -> None:
    check = certify(lambda x: x[0], [5.0], jac=lambda x: np.ones(1), bounds=[(0, 10)])
    assert check.stationarity == 1.0
    assert check.complementarity == 0.0
    np.testing.assert_array_equal(check.bound_multipliers, [0.0])


def test_a_point_outside_its_bounds_is_a_violation() -> None:
    check = certify(lambda x: 0.0 * x[0], [3.0, -4.0], jac=lambda x: np.zeros(2), bounds=[(0, 0), (0, 9)])
    assert check.violation == 5.0
    assert check.worst == ("bounds", 5.0)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([0.0, 2.0], 0.0),  # (0.5, -1) + (x - a) with a = (0.5, 3): kink absorbs 0.5, slope 1 meets -1
        ([0.0, 2.5], 0.5),
        ([0.1, 2.0], abs(0.1 - 0.5 + 1.0)),
        ([-0.1, 2.0], abs(-0.1 - 0.5 - 1.0)),
    ],
)
def test_the_l1_norm(x: list[float], expected: float) -> None:
    """min ||x - (0.5, 3)||^2 / 2 + ||x||_1 has its solution at (0, 2)."""
    a = np.array([0.5, 3.0])
    check = certify(lambda x: 0.5 * (x - a) @ (x - a), x, jac=lambda x: x - a, g=L1(1.0))
    assert check.stationarity == pytest.approx(expected, abs=1e-15)
    assert check.exact


def test_the_l1_norm_with_bounds_shares_the_gradient_between_kink_and_bound() -> None:
    """f = 3 x with |x| and x >= 0 at 0: -3 = -1 from the kink and -2 from the bound."""
    check = certify(lambda x: 3 * x[0], [0.0], jac=lambda x: np.array([3.0]), g=L1(1.0), bounds=[(0, None)])
    np.testing.assert_allclose(check.bound_multipliers, [-2.0])
    assert check.residual == 0.0


def test_the_l2_norm_at_and_off_zero() -> None:
    slope = np.array([3.0, 4.0])

    def at(x: list[float], weight: float) -> float:
        return certify(lambda x: slope @ x, x, jac=lambda x: slope, g=L2Norm(weight)).stationarity

    assert at([0.0, 0.0], 5.0) == 0.0
    assert at([0.0, 0.0], 2.0) == pytest.approx(3.0)
    assert at([-3.0, -4.0], 5.0) == pytest.approx(0.0, abs=1e-14)
    assert at([3.0, 4.0], 5.0) == pytest.approx(10.0)


def test_the_simplex() -> None:
    slope = np.array([1.0, 2.0, 3.0])

    def at(x: list[float]) -> float:
        return certify(lambda x: slope @ x, x, jac=lambda x: slope, g=Simplex()).stationarity

    assert at([1.0, 0.0, 0.0]) == pytest.approx(0.0, abs=1e-14)
    assert at([0.0, 0.0, 1.0]) == pytest.approx(math.sqrt(2.0))  # all three move: (1, 2, 3) less its mean
    assert at([0.5, 0.5, 0.0]) == pytest.approx(math.sqrt(0.5))


def test_a_users_own_term_is_measured_by_its_prox_residual_and_says_so() -> None:
    class Mine:
        def value(self, x: np.ndarray) -> float:
            return float(np.abs(x).sum())

        def prox(self, x: np.ndarray, step: float) -> np.ndarray:
            return np.sign(x) * np.maximum(np.abs(x) - step, 0.0)

    check = certify(lambda x: 0.5 * x[0], [0.0], jac=lambda x: np.array([0.5]), g=Mine())
    assert check.stationarity == pytest.approx(0.0, abs=1e-12)
    assert not check.exact
    assert "estimated by the prox residual" in str(check)


# ------------------------------------------------------------ what it names


def test_the_worst_rows_are_named_and_ordered() -> None:
    rows = [
        {"type": "eq", "fun": lambda x: x[0] - 3.0, "name": "pressure"},
        {"type": "ineq", "fun": lambda x: np.array([x[0] + 1.0, x[0] - 5.0]), "name": "flow"},
    ]
    check = certify(square, [0.0], [0.0, 0.0, 0.0], constraints=rows)
    assert list(check.row_violations.items()) == [("flow[1]", 5.0), ("pressure", 3.0)]
    assert check.worst == ("flow[1]", 5.0)
    assert "flow[1]" in str(check)


def test_the_relative_residual_divides_only_the_stationarity() -> None:
    check = certify(lambda x: 100 * x[0], [0.0], [0.0], jac=lambda x: np.array([100.0]),
                    constraints=LinearConstraint([[0.0]], 2.0, 2.0))  # fmt: skip
    assert check.residual == 102.0
    assert check.relative_residual == 3.0


@pytest.mark.parametrize("tol", [0.0, -1.0, math.nan, math.inf])
def test_meets_wants_a_tolerance(tol: float) -> None:
    with pytest.raises(auglag.InputError, match=r"tol must be .*positive"):
        certify(square, [0.0]).meets(tol)


@pytest.mark.parametrize("hole", ["f", "grad", "c", "jac"])
def test_nothing_is_certified_where_anything_is_not_finite(hole: str) -> None:
    def spoilt(name: str, value: object) -> object:
        return value * np.nan if name == hole else value

    row = NonlinearConstraint(lambda x: spoilt("c", x), 0.0, 0.0, jac=lambda x: spoilt("jac", np.eye(1)), hess=None)
    p = auglag.Problem(lambda x: spoilt("f", 0.0), [0.0], jac=lambda x: spoilt("grad", np.zeros(1)), constraints=row)
    assert not certificate(p, np.zeros(1), np.zeros(1)).meets(1e300)
    if hole != "jac":
        assert not certificate(p, np.zeros(1)).meets(1e300)


# ------------------------------------------------------------ least-squares multipliers

REGULAR = [p for p in PROBLEMS.values() if p.unique]


@pytest.mark.parametrize("p", REGULAR, ids=lambda p: p.name)
def test_multipliers_of_known_solutions_are_recovered(p: KnownProblem) -> None:
    check = certificate(as_problem(p), p.x)
    scale = max(1.0, float(np.linalg.norm(p.grad(p.x))), float(np.abs(flat(p.multipliers)).max(initial=0.0)))
    assert check.residual <= 1e-9 * scale
    assert relative_error(check.multipliers, flat(p.multipliers)) <= 1e-6
    assert relative_error(check.bound_multipliers, p.bound_multipliers) <= 1e-6


@pytest.mark.parametrize("p", [p for p in PROBLEMS.values() if not p.unique], ids=lambda p: p.name)
def test_multipliers_are_found_where_they_are_not_unique(p: KnownProblem) -> None:
    check = certificate(as_problem(p), p.x)
    scale = max(1.0, float(np.linalg.norm(p.grad(p.x))))
    assert check.residual <= 1e-7 * scale


@pytest.mark.parametrize("name", ["HS7", "HS10", "HS39", "HS71", "HS76", "HS43"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "operator"])
def test_the_storage_of_the_jacobian_makes_no_difference(name: str, kind: str) -> None:
    p = PROBLEMS[name]
    wrap = {"dense": np.asarray, "sparse": sparse.csr_array, "operator": aslinearoperator}[kind]
    rows = [
        NonlinearConstraint(row.fun, row.lower, row.upper, jac=lambda x, row=row: wrap(row.jac(x))) for row in p.rows
    ]
    check = certify(p.fun, p.x, jac=p.grad, bounds=Bounds(p.lower, p.upper), constraints=rows)
    assert check.residual <= 1e-6
    assert relative_error(check.multipliers, flat(p.multipliers)) <= 1e-5


def test_duplicated_rows_share_a_multiplier() -> None:
    check = certify(square, [0.5, 0.5], jac=twice, constraints=[LINE, LINE])
    assert check.residual <= 1e-14
    assert check.multipliers.sum() == pytest.approx(-1.0)


def test_more_rows_than_variables() -> None:
    rows = LinearConstraint([[1.0], [2.0], [-1.0], [1.0]], [1.0, 2.0, -INF, -INF], [INF, INF, -1.0, 7.0])
    check = certify(square, [1.0], jac=twice, constraints=rows)
    assert check.residual <= 1e-14
    assert check.multipliers[3] == pytest.approx(0.0, abs=1e-14)
    assert check.multipliers[0] <= 0.0
    assert check.multipliers[2] >= 0.0


def test_a_zero_row_does_no_harm() -> None:
    check = certify(square, [0.0], jac=twice, constraints=LinearConstraint([[0.0]], 0.0, 0.0))
    assert check.residual == 0.0


def test_an_inactive_row_gets_no_free_multiplier() -> None:
    """x = 3 is not stationary for min x^2, and the row x >= 1 cannot make it so."""
    check = certify(square, [3.0], jac=twice, constraints=LinearConstraint([[1.0]], 1.0, INF))
    assert check.residual > 1.0


def test_signs_are_respected() -> None:
    """max x^2 at x = 1 with x >= 1: the row would have to pull the wrong way."""
    check = certify(
        lambda x: -(x[0] ** 2), [1.0], jac=lambda x: -2 * x, constraints=LinearConstraint([[1.0]], 1.0, INF)
    )
    assert check.residual == pytest.approx(2.0)
    check = certify(
        lambda x: -(x[0] ** 2), [1.0], jac=lambda x: -2 * x, constraints=LinearConstraint([[1.0]], -INF, 1.0)
    )
    assert check.residual == pytest.approx(0.0, abs=1e-14)
    assert check.multipliers == pytest.approx([2.0])


def test_multipliers_beside_a_kink() -> None:
    """min x1 + |x1| + |x2| with x1 + x2 = 0 at 0: grad + J'y = (1 + y, y) must lie in [-1, 1]^2."""
    check = certify(lambda x: x[0], [0.0, 0.0], jac=lambda x: np.array([1.0, 0.0]), g=L1(1.0),
                    constraints=LinearConstraint([[1.0, 1.0]], 0.0, 0.0))  # fmt: skip
    assert check.residual <= 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_multipliers_beside_a_norm_that_is_not_separable(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = 5, 2
    a, x, y = rng.standard_normal((m, n)), rng.standard_normal(n), rng.standard_normal(m)
    slope = -(a.T @ y) - x / np.linalg.norm(x)  # so that (x, y) is a KKT point of slope'x + ||x||, a x = b
    check = certify(lambda x: slope @ x, x, jac=lambda x: slope, g=L2Norm(1.0),
                    constraints=LinearConstraint(a, a @ x, a @ x))  # fmt: skip
    assert check.residual <= 1e-10
    np.testing.assert_allclose(check.multipliers, y, atol=1e-9)
    at_zero = -(a.T @ y) + 0.5 * rng.standard_normal(n) / 5
    check = certify(lambda x: at_zero @ x, np.zeros(n), jac=lambda x: at_zero, g=L2Norm(1.0),
                    constraints=LinearConstraint(a, 0.0, 0.0))  # fmt: skip
    assert check.residual <= 1e-10


UNBOUNDED_EQUALITIES = [
    p
    for p in PROBLEMS.values()
    if p.rows
    and all(np.all(np.asarray(row.lower) == row.upper) for row in p.rows)
    and not (np.isfinite(p.lower).any() or np.isfinite(p.upper).any())
]


@pytest.mark.parametrize("p", UNBOUNDED_EQUALITIES, ids=lambda p: p.name)
def test_the_best_multipliers_beat_any_others(p: KnownProblem) -> None:
    rng = np.random.default_rng(0)
    problem = as_problem(p)
    x = p.x + 0.1 * rng.standard_normal(p.x.size)
    best = certificate(problem, x)
    for _ in range(50):
        y = best.multipliers + 10.0 ** rng.uniform(-4, 2) * rng.standard_normal(best.multipliers.size)
        assert certificate(problem, x, y).residual >= best.residual * (1 - 1e-9)


def test_what_was_not_measured_is_not_printed() -> None:
    problem = as_problem(PROBLEMS["HS71"])
    x = np.array([1.0, 4.743, 3.8211, 1.3794])
    assert "scale-free" in str(certificate(problem, x))
    unmeasured = str(certificate(problem, x, scale_free=False))
    assert "scale-free" not in unmeasured
    assert "nan" not in unmeasured
