"""No false success: whatever the problem, a claim of the solver passes a check that shares no code with it.

Thousands of small problems, feasible, infeasible, unbounded, with holes of NaN, redundant rows, bad scaling and
nonsmooth terms, solved with random settings. Every claimed success is checked by `helpers.random_problems.residual`.
AUGLAG_RANDOM_PROBLEMS=4 in the environment takes four times as many of each family.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, linprog

import auglag
from auglag import Status
from helpers import flat
from helpers.random_problems import FAMILIES, INF, Array, Case, Function, residual

TOL = 1e-6

SETTINGS: list[dict[str, Any]] = [
    {"slacks": "explicit"},
    {"variant": "always-full"},
    {"variant": "adaptive-short"},
    {"variant": "always-short"},
    {"inner": "panoc"},
    {"inner": "spectral"},
    {"inner": "panoc", "slacks": "explicit"},
    {"scaling": False},
    {"restoration": False},
    {"preset": "algencan"},
    {"dual": auglag.Full(y_max=1e3, ball="l2")},
    {"preset": "paper"},
]


@dataclass(frozen=True)
class Plan:
    """How many problems of a family, what each may cost, and the least share that has to be answered rightly."""

    count: int
    evaluations: int
    solved: float  #: least share of SOLVED (feasible, bounded) or of the right verdict (others)
    false_infeasible: float = 0.0  #: most, where the feasible set is not convex and infeasibility can be local


#: Measured (SOLVED, or the right verdict), over all settings: convex_qp 99 %, qcqp 97 %, polynomial 97 %, redundant
#: 98 %, nan_holes 80 %, badly_scaled 75 %, infeasible 91 %, unbounded 39 % (the others end at a limit),
#: nonsmooth 100 %. With the default settings and more evaluations nearly all but nan_holes and badly_scaled: 99-100 %.
PLANS = {
    "convex_qp": Plan(200, 3000, 0.97),
    "qcqp": Plan(200, 3000, 0.94, false_infeasible=0.03),
    "polynomial": Plan(200, 3000, 0.93, false_infeasible=0.03),
    "redundant": Plan(120, 2000, 0.93),
    "nan_holes": Plan(80, 2000, 0.60),
    "badly_scaled": Plan(60, 1500, 0.55, false_infeasible=0.03),
    "infeasible": Plan(70, 2000, 0.80),
    "unbounded": Plan(30, 800, 0.15),
    "nonsmooth": Plan(200, 3000, 0.93),
}
#: Families are cut into parts that run side by side.
PARTS = 2
#: Times as many problems as the plans say.
TIMES = int(os.environ.get("AUGLAG_RANDOM_PROBLEMS", "1"))


def choose_settings(rng: np.random.Generator, case: Case) -> dict[str, Any]:
    """The default half of the time."""
    if rng.random() < 0.5:
        return {}
    options = SETTINGS[rng.integers(len(SETTINGS))]
    if case.g is not None and options.get("preset") == "paper":
        return {"slacks": "explicit"}  # the preset's L-BFGS-B takes bounds only
    return options


def make(family: str, number: int) -> tuple[Case, dict[str, Any]]:
    rng = np.random.default_rng([zlib.crc32(family.encode()), number])
    case = FAMILIES[family](rng)
    return case, choose_settings(rng, case)


def check(case: Case, result: auglag.Result, where: str, tol: float = TOL) -> None:
    """Everything that must hold whatever happened."""
    assert (result.x >= case.lower).all(), where
    assert (result.x <= case.upper).all(), where
    assert result.success == (result.status is Status.SOLVED), where
    if result.success:
        measured = residual(case, result.x, flat(result.multipliers), result.bound_multipliers)
        assert measured <= tol * (1 + 1e-6) + 1e-14, f"{where}: false success, {measured} against {result.explain()}"
        assert case.feasible, f"{where}: success on an infeasible problem"
        assert case.bounded, f"{where}: success on an unbounded problem"
        value = case.f.value(result.x) + (case.g.value(result.x) if case.g else 0.0)
        np.testing.assert_allclose(result.fun, value, rtol=1e-12, atol=1e-12)
    if result.status is Status.INFEASIBLE:
        check_infeasible(case, result.x, where)
    if result.status is Status.UNBOUNDED:
        assert not case.bounded, f"{where}: called unbounded, {result.explain()}"


def check_infeasible(case: Case, x: Array, where: str) -> None:
    """Local infeasibility: the violation is not small, and no first-order step of the size of x lessens all of it.

    min t over steps d with |d_j| <= max(1, |x_j|) and cl - t v <= c + J d <= cu + t v, v the violations: 1 (up to
    tolerances) where any weighted norm of the violation is stationary.
    """
    c, jac = case.c(x), case.jac(x)
    v = np.abs(c - np.clip(c, case.cl, case.cu))
    assert np.linalg.norm(v) > TOL, f"{where}: called infeasible at a feasible point"
    if case.g is not None:
        return
    scale = np.maximum(1.0, np.abs(x))
    low, high = np.maximum(-1.0, (case.lower - x) / scale), np.minimum(1.0, (case.upper - x) / scale)
    unit = np.maximum(np.abs(jac * scale).max(axis=1), v) + 1e-300  # rows in comparable units
    a = (jac * scale) / unit[:, None]
    above, below = np.isfinite(case.cu), np.isfinite(case.cl)
    matrix = np.vstack([np.column_stack([a, -v / unit])[above], np.column_stack([-a, -v / unit])[below]])
    sides = np.concatenate([((case.cu - c) / unit)[above], ((c - case.cl) / unit)[below]])
    bounds = [*zip(np.minimum(low, 0.0), np.maximum(high, 0.0), strict=True), (0.0, 1.0)]
    found = linprog(np.eye(case.n + 1)[-1], A_ub=matrix, b_ub=sides, bounds=bounds, method="highs")
    assert found.status != 0 or found.fun >= 0.9, f"{where}: called infeasible, yet a step leaves {found.fun:.3g} of it"


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", PLANS)
def test_every_claim_is_true(family: str, part: int, record_property: Any) -> None:
    plan, ends = PLANS[family], Counter[str]()
    for number in range(part, TIMES * plan.count, PARTS):
        case, options = make(family, number)
        budget = auglag.Budget(outer=60, inner=400, evaluations=plan.evaluations)
        result = case.solve(tol=TOL, budget=budget, **options)
        check(case, result, f"{family} {number} {options}")
        ends[result.status.name] += 1
    total = ends.total()
    share = {name: count / total for name, count in sorted(ends.items())}
    record_property(f"{family}", str(share))
    print(f"{family}: " + ", ".join(f"{name} {value:.1%}" for name, value in share.items()))
    right = {"infeasible": Status.INFEASIBLE, "unbounded": Status.UNBOUNDED}.get(family, Status.SOLVED)
    assert share.get(right.name, 0.0) >= plan.solved, share
    if family != "infeasible":
        assert share.get("INFEASIBLE", 0.0) <= plan.false_infeasible, share


@pytest.mark.parametrize("family", ["convex_qp", "qcqp", "polynomial"])
def test_claims_made_with_differences_are_true_to_the_accuracy_of_differences(family: str) -> None:
    for number in range(60):
        case, _ = make(family, 10_000 + number)
        result = case.solve(tol=TOL, derivatives=False, budget=auglag.Budget(evaluations=6000))
        gradient = case.f.gradient(result.x) + flat(result.multipliers) @ case.jac(result.x)
        scale = 1.0 + np.linalg.norm(case.f.gradient(result.x)) + np.linalg.norm(flat(result.multipliers))
        # A fixed variable cannot be varied, so that its derivatives and its multiplier are not to be had.
        result.bound_multipliers = np.where(case.lower == case.upper, -gradient, result.bound_multipliers)
        check(case, result, f"{family} {number}", tol=TOL + 1e-7 * float(scale))


@pytest.mark.parametrize("family", ["convex_qp", "qcqp", "polynomial", "nan_holes", "infeasible"])
@pytest.mark.parametrize("options", [{}, {"inner": "newton-cg", "slacks": "explicit"}], ids=["auto", "newton-cg"])
def test_claims_made_with_second_derivatives_are_true(family: str, options: dict[str, Any]) -> None:
    solved = 0
    for number in range(25 if family == "infeasible" else 60):
        case, _ = make(family, 30_000 + number)
        budget = auglag.Budget(outer=60, inner=300, evaluations=2000)
        result = case.solve(tol=TOL, hessians=True, budget=budget, **options)
        check(case, result, f"{family} {number} {options}")
        solved += result.success
    assert solved >= {"infeasible": 0, "nan_holes": 35}.get(family, 54)


@pytest.mark.parametrize("family", ["convex_qp", "qcqp", "polynomial", "nonsmooth"])
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_claims_are_true_at_other_tolerances(family: str, tol: float) -> None:
    for number in range(25):
        case, options = make(family, 20_000 + number)
        result = case.solve(tol=tol, budget=auglag.Budget(outer=60, inner=400, evaluations=3000), **options)
        check(case, result, f"{family} {number} {options}", tol=tol)


def test_convex_problems_are_never_called_infeasible_whatever_their_units() -> None:
    """Rows are linear and some point satisfies them, so that no local infeasibility exists."""
    wrong = []
    for number in range(60 * TIMES):
        rng = np.random.default_rng([7, number])
        case = FAMILIES["convex_qp"](rng)
        case = case.scaled(1.0, 10.0 ** rng.uniform(-6, 6, len(case.rows)), 10.0 ** rng.uniform(-6, 6, case.n))
        result = case.solve(tol=TOL, budget=auglag.Budget(outer=60, inner=300, evaluations=800))
        if result.status is Status.INFEASIBLE:
            wrong.append(number)
    assert not wrong, f"called infeasible: {wrong}"


def test_a_variable_that_cannot_move_does_not_make_the_others_look_idle() -> None:
    """x1 is fixed and has a column of 1e8; x2 = 1e4 satisfies the row, and is far away in units of that column."""
    result = auglag.minimize(
        lambda x: 1e-8 * x[1] ** 2,
        [0.0, 0.0],
        jac=lambda x: np.array([0.0, 2e-8 * x[1]]),
        bounds=[(0.0, 0.0), (None, None)],
        constraints=LinearConstraint([[1e8, 1e-2]], 100.0, 100.0),
    )
    assert result.status is not Status.INFEASIBLE, result.explain()


# ---------------------------------------------------------------------- small integers, which hypothesis can shrink

ENTRY = st.integers(-3, 3).map(float)


@st.composite
def integer_problem(draw: st.DrawFn) -> Case:
    """A quadratic objective and linear rows with small integer data; anything may happen."""
    n, m = draw(st.integers(1, 3)), draw(st.integers(0, 4))

    def vector(size: int) -> Array:
        return np.array(draw(st.lists(ENTRY, min_size=size, max_size=size)))

    factor = vector(n * n).reshape(n, n)
    sign = draw(st.sampled_from([1.0, 1.0, 0.0, -1.0]))
    rows = [Function(np.zeros((n, n)), vector(n)) for _ in range(m)]
    kinds = draw(st.lists(st.sampled_from(["equal", "upper", "lower", "both"]), min_size=m, max_size=m))
    low, width = vector(m), np.abs(vector(m))
    cl = np.array([-INF if kind == "upper" else v for kind, v in zip(kinds, low, strict=True)])
    cu = np.array(
        [
            INF if kind == "lower" else v + (0.0 if kind == "equal" else w)
            for kind, v, w in zip(kinds, low, width, strict=True)
        ]
    )
    lower, size = vector(n), np.abs(vector(n))
    open_below = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    open_above = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    return Case(
        Function(sign * factor.T @ factor, vector(n)),
        tuple(rows),
        cl,
        cu,
        np.where(open_below, -INF, lower),
        np.where(open_above, INF, lower + size),
        vector(n),
        bounded=sign > 0,
    )


def linear_program(case: Case, objective: Array) -> Any:
    a = np.array([row.b for row in case.rows]).reshape(-1, case.n)
    above, below = np.isfinite(case.cu), np.isfinite(case.cl)
    inequalities = np.vstack([a[above], -a[below]])
    sides = np.concatenate([case.cu[above], -case.cl[below]])
    bounds = list(zip(case.lower, case.upper, strict=True))
    return linprog(objective, A_ub=inequalities, b_ub=sides, bounds=bounds, method="highs")


@settings(max_examples=150 * TIMES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=integer_problem(), options=st.sampled_from([{}, {}, {}, *SETTINGS]))
def test_claims_on_integer_quadratic_programs_are_true(case: Case, options: dict[str, Any]) -> None:
    feasible = linear_program(case, np.zeros(case.n)).status == 0
    case = replace(case, feasible=feasible, bounded=True)
    result = case.solve(tol=TOL, budget=auglag.Budget(outer=60, inner=400, evaluations=1500), **options)
    if result.status is Status.UNBOUNDED:
        # Whether a quadratic that is not convex falls for ever is not easily told; look at the sure cases only.
        eigenvalues = np.linalg.eigvalsh(case.f.Q)
        assert not feasible or eigenvalues.min() < 1e-9, result.explain()
        boxed = np.isfinite(case.lower).all() and np.isfinite(case.upper).all()
        assert not boxed, result.explain()
        case = replace(case, bounded=False)
    check(case, result, f"{case} {options}")
    if result.status is Status.INFEASIBLE:
        assert not feasible, result.explain()
