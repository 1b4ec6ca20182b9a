"""The lemmas and theorems of the paper, as `auglag.theory` states them, against measured runs of Algorithm 1.

The problems have constants that are known on all of R^n: objectives with bounded gradients, constraints that are linear
or nearly so, g = 0 (so that nu is a least singular value) or a norm.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import NonlinearConstraint

import auglag
from auglag import Adaptive, Always, Full, PowerLaw, ProximalGradient, Short, theory
from auglag._typing import Matrix, Vector
from auglag.algorithm.lagrangian import AugmentedLagrangian
from auglag.inner import SOLVERS, InnerResult, InnerSolver, InnerStatus, Oracle, Traits
from auglag.problems.hock_schittkowski import PROBLEMS
from auglag.prox import L1
from auglag.theory import Constants
from helpers import as_problem
from helpers.random_problems import make_nonsmooth_example

# ------------------------------------------------------------ problems with constants


@dataclass(frozen=True)
class Known:
    """f = sum_i w_i sqrt(1 + (x_i - t_i)^2), c = s(Ax) - b with s(u) = u + bend sin(u), 0 <= bend < 1."""

    w: Vector
    t: Vector
    A: Matrix
    b: Vector
    x0: Vector
    bend: float

    def f(self, x: Vector) -> float:
        return float(self.w @ np.sqrt(1 + (x - self.t) ** 2))

    def grad(self, x: Vector) -> Vector:
        return self.w * (x - self.t) / np.sqrt(1 + (x - self.t) ** 2)

    def c(self, x: Vector) -> Vector:
        return self.A @ x + self.bend * np.sin(self.A @ x) - self.b

    def jac(self, x: Vector) -> Matrix:
        return (1 + self.bend * np.cos(self.A @ x))[:, None] * self.A

    @property
    def f_min(self) -> float:
        return float(self.w.sum())

    def constants(self, ybar_max: float) -> Constants:
        """|s'| lies in [1 - bend, 1 + bend] and |s''| <= bend; rows of A have norm at most ||A||."""
        singular = np.linalg.svd(self.A, compute_uv=False)
        return Constants(
            gradient=float(np.linalg.norm(self.w)),
            jacobian=float((1 + self.bend) * singular[0]),
            nu=float((1 - self.bend) * singular[-1]),
            ybar_max=ybar_max,
            lipschitz_f=float(self.w.max()),
            lipschitz_jacobian=float(self.bend * singular[0] ** 2),
            lipschitz_c=float((1 + self.bend) * singular[0]),
        )

    def problem(self, g: Any = None) -> auglag.Problem:
        return auglag.Problem(
            self.f, self.x0, jac=self.grad, constraints=NonlinearConstraint(self.c, 0.0, 0.0, jac=self.jac), g=g
        )


def known(seed: int, bend: float = 0.0) -> Known:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    m = int(rng.integers(1, n + 1))
    left, _ = np.linalg.qr(rng.standard_normal((m, m)))
    right, _ = np.linalg.qr(rng.standard_normal((n, m)))
    a = left * rng.uniform(0.5, 2.0, m) @ right.T
    return Known(rng.uniform(0.1, 2.0, n), rng.standard_normal(n), a, rng.standard_normal(m),
                 3 * rng.standard_normal(n), bend)  # fmt: skip


class Spy(InnerSolver):
    """Passes every call on and keeps what went in and out. With `constants`, takes steps 1/L_k as the theory does."""

    def __init__(self, inner: InnerSolver, constants: Constants | None = None, big: float = 0.0) -> None:
        self.inner, self.constants, self.big = inner, constants, big
        self.solves: list[Solve] = []

    @property
    def name(self) -> str:
        return self.inner.name

    def refuses(self, traits: Traits) -> str | None:
        return self.inner.refuses(traits)

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        raise NotImplementedError

    def solve(self, subproblem: Any, x: Vector, tol: float, *, limit: int = 10_000) -> InnerResult:
        inner = self.inner
        if self.constants is not None:
            inner = ProximalGradient(lipschitz=theory.lipschitz(self.constants, subproblem.beta, self.big))
        found = inner.solve(subproblem, x, tol, limit=limit)
        self.solves.append(Solve(subproblem, subproblem.g.domain().prox(x, 1.0), tol, found))
        return found


@dataclass(frozen=True)
class Solve:
    subproblem: AugmentedLagrangian
    x: Vector
    tol: float
    found: InnerResult

    def total(self, x: Vector) -> float:
        """L_beta(x, y) + g(x)."""
        return self.subproblem.value(x) + self.subproblem.g.value(x)


@dataclass
class Measured:
    """One run of Algorithm 1 and everything the lemmas speak of."""

    example: Known
    eps: float
    gamma: float
    tau: float | None
    y_max: float
    beta_1: float
    seed: int = 0
    always: bool = False
    short: bool = False
    inner: InnerSolver = field(default_factory=lambda: SOLVERS["lbfgsb"])
    theory_steps: bool = False

    def __post_init__(self) -> None:
        m = self.example.b.size
        self.constants = self.example.constants(math.sqrt(m) * self.y_max)
        self.violation_1 = float(np.linalg.norm(self.example.c(self.example.x0)))
        self.big = theory.c_big(self.constants, self.beta_1, self.violation_1)
        self.spy = Spy(self.inner, self.constants if self.theory_steps else None, self.big)
        tau = self.tau or 0.5
        # the preset has no scaling, no restoration, and the stopping test and the penalty rule exactly as printed
        self.result = auglag.minimize(
            self.example.problem(),
            tol=self.eps,
            preset="paper",
            penalty=Always(self.beta_1, self.gamma) if self.always else Adaptive(self.beta_1, self.gamma, tau),
            dual=Short() if self.short else Full(y_max=self.y_max),
            tolerance=PowerLaw(1.0, 1.0),
            inner=self.spy,
            slacks="closed",
            budget=auglag.Budget(outer=2000, inner=2_000_000),
        )
        self.rows = self.result.history
        self.n_eps = theory.n_of_eps([row["eta"] for row in self.rows], self.eps)

    @property
    def consecutive(self) -> int:
        return theory.consecutive_bound(self.eps, self.n_eps, self.big, self.tau or 0.5)


def measured(seed: int, bend: float, **more: Any) -> Measured:
    rng = np.random.default_rng([seed, 1])
    choices: dict[str, Any] = {
        "eps": float(10.0 ** rng.uniform(-5, -1)),
        "gamma": float(rng.choice([1.5, 2.0, 10.0])),
        "tau": float(rng.choice([0.25, 0.5, 0.8])),
        "y_max": float(rng.choice([0.05, 1.0, 20.0])),
        "beta_1": float(rng.choice([1e-3, 0.1, 1.0])),
    }
    return Measured(known(seed, bend), **{**choices, **more})


RUNS = pytest.mark.parametrize(
    ("seed", "bend"), [(seed, bend) for seed in range(8) for bend in (0.0, 0.5)], ids=lambda v: str(v)
)


# ------------------------------------------------------------ the outer loop's own bounds


@RUNS
def test_the_example_has_the_constants_claimed(seed: int, bend: float) -> None:
    example = known(seed, bend)
    constants = example.constants(1.0)
    rng = np.random.default_rng(seed)
    for _ in range(300):
        x, v = (10.0 ** rng.uniform(-2, 2) * rng.standard_normal(example.x0.size) for _ in range(2))
        step = float(np.linalg.norm(x - v))
        assert np.linalg.norm(example.grad(x)) <= constants.gradient
        assert np.linalg.norm(example.jac(x), 2) <= constants.jacobian * (1 + 1e-12)
        assert np.linalg.norm(example.grad(x) - example.grad(v)) <= constants.lipschitz_f * step * (1 + 1e-12)
        assert np.linalg.norm(example.c(x) - example.c(v)) <= constants.lipschitz_c * step * (1 + 1e-12)
        difference = float(np.linalg.norm(example.jac(x) - example.jac(v), 2))
        assert difference <= constants.lipschitz_jacobian * step * (1 + 1e-12) + 1e-12
        c = example.c(x)
        assert np.linalg.norm(example.jac(x).T @ c) >= constants.nu * np.linalg.norm(c) * (1 - 1e-12)
        assert example.f(x) >= example.f_min


@RUNS
@pytest.mark.parametrize("always", [False, True], ids=["adaptive", "always"])
def test_violations_penalties_and_iterations_respect_the_lemmas(seed: int, bend: float, always: bool) -> None:
    run = measured(seed, bend, always=always)
    upper = theory.beta_upper(run.constants, run.eps)
    assert run.result.success, run.result.explain()
    for row in run.rows:
        assert row["inner_status"] == "CONVERGED"
        assert row["stationarity"] <= row["eta"] <= 1.0 / row["beta"]
        assert row["violation"] <= theory.violation_bound(run.constants, row["beta"])  # Lemma grad_upperbound (i)
        assert row["violation"] <= run.big  # (ii)
    for row in run.rows[:-1]:
        assert row["beta"] < upper  # Lemma beta_upperbound: at a beta_k above it the run ends
    assert run.rows[-1]["beta"] <= max(run.gamma * upper, run.beta_1)
    if not always:
        bound = theory.outer_bound(run.constants, eps=run.eps, beta_1=run.beta_1, violation_1=run.violation_1,
                                   gamma=run.gamma, tau=run.tau or 0.5, n_eps=run.n_eps)  # fmt: skip
        assert len(run.rows) <= bound


@RUNS
def test_enough_successes_in_a_row_end_the_run(seed: int, bend: float) -> None:
    """Theorem "Outer-loop Complexity" (i), and the rule that counts them."""
    run = measured(seed, bend)
    row_violations = [run.violation_1] + [row["violation"] for row in run.rows]
    streak = longest = 0
    for before, now in itertools.pairwise(row_violations):
        streak = streak + 1 if now <= (run.tau or 0.5) * before else 0
        longest = max(longest, streak)
    assert longest <= run.consecutive
    for (before, now), row, following in zip(itertools.pairwise(row_violations), run.rows, run.rows[1:], strict=False):
        factor = 1.0 if now <= (run.tau or 0.5) * before else run.gamma
        assert following["beta"] == factor * row["beta"]


@pytest.mark.parametrize("seed", range(6))
def test_starting_above_beta_upper_takes_one_iteration(seed: int) -> None:
    run = measured(seed, 0.0)
    beta_1 = 1.0001 * theory.beta_upper(run.constants, run.eps)
    again = measured(seed, 0.0, eps=run.eps, beta_1=beta_1)
    assert again.result.success
    assert again.result.nit == 1


def test_short_steps_respect_the_violation_bound_with_their_own_ybar() -> None:
    """||y_k|| is then bounded by the sum of the steps, not by a projection."""
    for seed in range(6):
        run = measured(seed, 0.0, short=True)
        ybar = max(float(np.linalg.norm(solve.subproblem.y)) for solve in run.spy.solves)
        assert ybar <= 2.5 * run.violation_1
        constants = replace(run.constants, ybar_max=ybar)
        assert all(row["violation"] <= theory.violation_bound(constants, row["beta"]) for row in run.rows)


# ------------------------------------------------------------ the subproblems


@RUNS
def test_gradients_of_the_subproblems_have_the_lipschitz_constant_claimed(seed: int, bend: float) -> None:
    """Lemma "Lipschitz". Its proof bounds ||c(x)|| by c_big, so that it speaks of points where that holds."""
    run = measured(seed, bend)
    rng = np.random.default_rng(seed)
    for solve in run.spy.solves[:: max(1, len(run.spy.solves) // 6)]:
        constant = theory.lipschitz(run.constants, solve.subproblem.beta, run.big)
        for _ in range(100):
            x = solve.x + 10.0 ** rng.uniform(-3, 1) * rng.standard_normal(solve.x.size)
            v = x + 10.0 ** rng.uniform(-4, 0) * rng.standard_normal(solve.x.size)
            if np.linalg.norm(run.example.c(x)) > run.big:
                continue
            (_, at_x), (_, at_v) = solve.subproblem.value_and_gradient(x), solve.subproblem.value_and_gradient(v)
            assert np.linalg.norm(at_x - at_v) <= constant * np.linalg.norm(x - v) * (1 + 1e-9)


@RUNS
def test_subproblems_are_bounded_below_and_start_below_the_bound_above(seed: int, bend: float) -> None:
    """Lemmas "Llowerbound" and "Lupperbound"; the latter with the number of iterations at one beta, N-hat + 1."""
    run = measured(seed, bend)
    least = theory.subproblem_lower_bound(run.example.f_min, 0.0, run.constants, run.beta_1)
    first = run.spy.solves[0]
    growth = theory.merit_growth(run.constants, run.beta_1, run.gamma)
    most = first.total(first.x) + growth * run.consecutive
    rng = np.random.default_rng(seed)
    for solve in run.spy.solves:
        assert solve.found.value >= least
        assert solve.total(solve.x) <= most * (1 + 1e-12)
        x = solve.x + 10.0 ** rng.uniform(-3, 1) * rng.standard_normal(solve.x.size)
        assert solve.total(x) >= least


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bend", [0.0, 0.3])
def test_proximal_gradient_steps_of_the_theory_stay_within_their_bound(seed: int, bend: float) -> None:
    """Theorem "Overall Complexity": with steps 1/L_k, dist <= eta_k after at most 8 L_k gap / eta_k^2 of them."""
    run = measured(seed, bend, eps=0.05, gamma=2.0, y_max=1.0, beta_1=0.1, theory_steps=True)
    assert run.result.success, run.result.explain()
    least = theory.subproblem_lower_bound(run.example.f_min, 0.0, run.constants, run.beta_1)
    growth = theory.merit_growth(run.constants, run.beta_1, run.gamma) * run.consecutive
    first = run.spy.solves[0].total(run.spy.solves[0].x)
    for solve in run.spy.solves:
        constant = theory.lipschitz(run.constants, solve.subproblem.beta, run.big)
        tight = theory.inner_bound(constant, solve.total(solve.x) - least, solve.tol)
        assert solve.found.status is InnerStatus.CONVERGED
        assert solve.found.iterations <= tight
        assert tight <= theory.inner_bound(constant, first - least + growth, solve.tol)


# ------------------------------------------------------------ proximal gradient steps, any phi and g


@pytest.mark.parametrize("seed", range(30))
def test_the_gradient_mapping_bounds_the_residual_after_the_step(seed: int) -> None:
    """Lemma "proximal_grad" (i), (ii) with z = x, and (iii), for nonconvex phi = x'Qx/2 + sum cos(x) and g = L1."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    q = rng.standard_normal((n, n))
    q = q + q.T
    constant = float(np.linalg.norm(q, 2)) + 1.0
    g = L1(float(rng.uniform(0.0, 2.0)))

    def phi(x: Vector) -> float:
        return float(0.5 * x @ q @ x + np.cos(x).sum())

    def gradient(x: Vector) -> Vector:
        return q @ x - np.sin(x)

    for _ in range(50):
        x = 10.0 ** rng.uniform(-2, 1) * rng.standard_normal(n)
        step = float(rng.uniform(0.01, 1.0)) / constant
        psi = g.prox(x - step * gradient(x), step)
        mapping = (x - psi) / step
        size = float(np.linalg.norm(mapping))
        assert g.subdiff_distance(psi, mapping - gradient(x)) <= 1e-9 * (1 + size)
        residual = g.subdiff_distance(psi, -gradient(psi))
        assert residual <= theory.gradient_mapping_bound(size, step, constant) * (1 + 1e-9) + 1e-9
        assert phi(psi) + g.value(psi) <= phi(x) + g.value(x) - 0.5 * step * size**2 + 1e-9 * (1 + size**2)
    assert theory.gradient_mapping_bound(3.0, 1.0 / constant, constant) == pytest.approx(6.0)


# ------------------------------------------------------------ the monotone condition

EXAMPLES = {
    "HS7": {},
    "HS8": {},
    "HS10": {},
    "HS14": {},
    "HS24": {},
    "HS40": {},
    "HS53": {},
    "HS78": {},
    "HS43": {"slacks": "explicit"},
    "HS71": {"slacks": "explicit"},
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("example", [*EXAMPLES, "nonsmooth"])
def test_every_accepted_inner_solve_is_monotone_and_meets_its_tolerance(name: str, example: str) -> None:
    """L_beta_k(x_{k+1}, y_k) + g(x_{k+1}) <= L_beta_k(x_k, y_k) + g(x_k), up to rounding, whatever the status."""
    spy = Spy(SOLVERS[name])
    budget = auglag.Budget(inner=500, outer=12)
    try:
        if example == "nonsmooth":
            auglag.minimize(make_nonsmooth_example(), inner=spy, budget=budget)
        else:
            problem = as_problem(PROBLEMS[example], hessians=True)
            auglag.minimize(problem, inner=spy, budget=budget, **EXAMPLES[example])
    except auglag.InputError as refusal:
        pytest.skip(str(refusal))
    assert spy.solves
    for solve in spy.solves:
        if not solve.found.usable:
            continue
        start, end = solve.total(solve.x), solve.total(solve.found.x)
        assert end <= start + 1e-12 * max(1.0, abs(start))
        assert solve.found.value == pytest.approx(end, rel=1e-12, abs=1e-12)
        _, gradient = solve.subproblem.value_and_gradient(solve.found.x)
        measured = solve.subproblem.g.subdiff_distance(solve.found.x, -gradient)
        assert solve.found.residual == pytest.approx(measured, rel=1e-9, abs=1e-13)
        if solve.found.status is InnerStatus.CONVERGED:
            assert measured <= solve.tol


# ------------------------------------------------------------ the formulas

POSITIVE = st.floats(1e-3, 1e3)
CONSTANTS = st.builds(
    Constants,
    gradient=st.floats(0.0, 1e3),
    jacobian=st.floats(0.0, 1e3),
    nu=POSITIVE,
    ybar_max=st.floats(0.0, 1e3),
    lipschitz_f=st.floats(0.0, 1e3),
    lipschitz_jacobian=st.floats(0.0, 1e3),
    lipschitz_c=st.floats(0.0, 1e3),
)
EPS = st.floats(1e-8, 1.0)


@given(constants=CONSTANTS, eps=EPS)
def test_beta_upper_is_the_positive_root(constants: Constants, eps: float) -> None:
    beta = theory.beta_upper(constants, eps)
    left = 1.0 / beta + theory.violation_bound(constants, beta)
    assert left == pytest.approx(eps, rel=1e-9)  # 1/beta + (pull + 1/beta) / (nu beta) = eps
    assert 1.0 / (2 * beta) + theory.violation_bound(constants, 2 * beta) <= eps


@given(
    constants=CONSTANTS,
    eps=EPS,
    factor=st.floats(1.0, 10.0),
    field_name=st.sampled_from(["gradient", "jacobian", "ybar_max"]),
)
def test_bounds_grow_with_what_pulls(constants: Constants, eps: float, factor: float, field_name: str) -> None:
    larger = replace(constants, **{field_name: factor * getattr(constants, field_name)})
    assert theory.beta_upper(larger, eps) >= theory.beta_upper(constants, eps) * (1 - 1e-12)
    assert theory.violation_bound(larger, 2.0) >= theory.violation_bound(constants, 2.0)
    assert theory.merit_growth(larger, 1.0, 2.0) >= theory.merit_growth(constants, 1.0, 2.0) * (1 - 1e-12)
    assert theory.lipschitz(larger, 2.0, 1.0) >= theory.lipschitz(constants, 2.0, 1.0)


@given(constants=CONSTANTS, eps=EPS, beta=POSITIVE, violation=st.floats(0.0, 1e3))
def test_monotone_in_their_arguments(constants: Constants, eps: float, beta: float, violation: float) -> None:
    assert theory.violation_bound(constants, 2 * beta) <= theory.violation_bound(constants, beta)
    assert theory.beta_upper(constants, eps / 2) >= theory.beta_upper(constants, eps)
    assert theory.c_big(constants, beta, violation) >= violation
    assert theory.c_big(constants, beta, violation) >= theory.violation_bound(constants, 3 * beta)
    assert theory.lipschitz(constants, 2 * beta, 1.0) >= theory.lipschitz(constants, beta, 1.0)
    assert theory.subproblem_lower_bound(1.0, 2.0, constants, beta) <= 3.0
    assert theory.inner_bound(2.0, 3.0, 0.5) == 192  # 8 * 2 * 3 / 0.25


@given(
    constants=CONSTANTS,
    eps=EPS,
    gamma=st.floats(1.01, 100.0),
    tau=st.floats(0.01, 0.99),
    n_eps=st.integers(1, 1000),
    beta_1=POSITIVE,
)
def test_the_printed_outer_bound_is_never_above_the_counted_one(
    constants: Constants, eps: float, gamma: float, tau: float, n_eps: int, beta_1: float
) -> None:
    arguments: dict[str, Any] = {
        "eps": eps,
        "beta_1": beta_1,
        "violation_1": 1.0,
        "gamma": gamma,
        "tau": tau,
        "n_eps": n_eps,
    }
    counted, printed = theory.outer_bound(constants, **arguments), theory.paper_outer_bound(constants, **arguments)
    assert 0 <= printed <= counted
    assert counted >= n_eps
    run = theory.consecutive_bound(eps, n_eps, theory.c_big(constants, beta_1, 1.0), tau)
    assert run >= n_eps
    assert tau**run * theory.c_big(constants, beta_1, 1.0) <= eps / 2 * (1 + 1e-9)


def test_formulas_by_hand() -> None:
    """lambda_f' = 2, lambda_J' = 3, nu = 1/2, ybar = 4: pull = 14; L_f = 1, L_J = 2, L_c = 3."""
    constants = Constants(2.0, 3.0, 0.5, 4.0, 1.0, 2.0, 3.0)
    assert constants.pull == 14.0
    assert theory.violation_bound(constants, 2.0) == pytest.approx(14.5)  # (14 + 1/2) / (1/2 * 2)
    assert theory.c_big(constants, 2.0, 20.0) == 20.0
    assert theory.c_big(constants, 2.0, 1.0) == pytest.approx(14.5)
    assert theory.beta_upper(constants, 1.0) == pytest.approx(14.5 + math.sqrt(2 + 14.5**2))
    assert theory.lipschitz(constants, 2.0, 5.0) == pytest.approx(1 + 8 + 20 + 18)
    assert theory.subproblem_lower_bound(1.0, 0.5, constants, 2.0) == pytest.approx(1.5 - 4.0)
    # C_L = (4 nu ybar + gamma P) P / (2 beta_1 nu^2 (1 - 1/gamma)), P = 14 + 1/2, gamma = 2, beta_1 = 2
    assert theory.merit_growth(constants, 2.0, 2.0) == pytest.approx((8 + 29) * 14.5 / (2 * 2 * 0.25 * 0.5))
    assert theory.consecutive_bound(0.5, 1, 4.0, 0.5) == 4  # log 16 / log 2
    assert theory.consecutive_bound(0.5, 9, 4.0, 0.5) == 9
    upper = theory.beta_upper(constants, 0.5)  # 29 + sqrt(4 + 4 * 14.5^2)... > 1
    raises = math.ceil(math.log2(upper))
    arguments: dict[str, Any] = {"eps": 0.5, "beta_1": 1.0, "violation_1": 4.0, "gamma": 2.0, "tau": 0.5, "n_eps": 1}
    run = theory.consecutive_bound(0.5, 1, theory.c_big(constants, 1.0, 4.0), 0.5)
    assert theory.outer_bound(constants, **arguments) == (raises + 1) * run
    assert theory.paper_outer_bound(constants, **arguments) == (run - 1) * raises


def test_n_of_eps_is_the_first_iteration_from_which_the_tolerance_stays_small() -> None:
    assert theory.n_of_eps([1.0, 0.5, 0.1, 0.05], 0.4) == 3
    assert theory.n_of_eps([0.1, 1.0, 0.1], 0.4) == 3
    assert theory.n_of_eps([0.1, 0.1], 0.4) == 1
    assert theory.n_of_eps([1.0, 1.0], 0.4) == 3


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["gradient", "jacobian", "nu", "ybar_max", "lipschitz_f", "lipschitz_c"])
def test_constants_must_make_sense(name: str, value: float) -> None:
    with pytest.raises(auglag.InputError, match=rf"Constants\.{name} must be nonnegative and finite, got"):
        Constants(**{"gradient": 1.0, "jacobian": 1.0, "nu": 1.0, "ybar_max": 1.0, name: value})


def test_arguments_must_make_sense() -> None:
    constants = Constants(1.0, 1.0, 1.0, 1.0)
    with pytest.raises(auglag.InputError, match=r"Constants\.nu must be positive, got 0\.0"):
        Constants(1.0, 1.0, 0.0, 1.0)
    with pytest.raises(auglag.InputError, match="eps must be positive and finite, got 0"):
        theory.beta_upper(constants, 0.0)
    with pytest.raises(auglag.InputError, match="beta must be positive and finite, got nan"):
        theory.violation_bound(constants, math.nan)
    with pytest.raises(auglag.InputError, match=r"tau must lie in \(0, 1\), got 1"):
        theory.consecutive_bound(0.1, 1, 1.0, 1.0)
    with pytest.raises(auglag.InputError, match="gamma must be finite and greater than 1, got 1"):
        theory.outer_bound(constants, eps=0.1, beta_1=1.0, violation_1=1.0, gamma=1.0, tau=0.5, n_eps=1)
    with pytest.raises(auglag.InputError, match="beta_1 must be positive and finite"):
        theory.merit_growth(constants, 0.0, 2.0)
    with pytest.raises(auglag.InputError, match="beta_1 must be positive and finite"):
        theory.subproblem_lower_bound(0.0, 0.0, constants, 0.0)
    with pytest.raises(auglag.InputError, match="gamma must be finite and greater than 1, got 1"):
        theory.merit_growth(constants, 1.0, 1.0)
    with pytest.raises(auglag.InputError, match="gamma must be finite and greater than 1, got 1"):
        theory.paper_outer_bound(constants, eps=0.1, beta_1=1.0, violation_1=1.0, gamma=1.0, tau=0.5, n_eps=1)
