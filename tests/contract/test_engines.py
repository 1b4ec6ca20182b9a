"""One Algorithm 1: NumPy, stochastic, PyTorch and JAX runs have the same beta_k, eta_k, ||c(x_{k+1})||, y_{k+1}.

Every problem is written once, with arithmetic that NumPy, PyTorch and JAX arrays all have. Subproblems are solved
nearly exactly, and everything that is not in the paper (scaling, presolve, acceleration, restarts, restoration) is off.
Then beta and eta must be equal, number for number, and violations and multipliers equal up to the inner accuracy. Some
first penalties are so small that a subproblem has no lower bound: x and y stay, the iteration counts, beta is raised.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402
from scipy.optimize import NonlinearConstraint  # noqa: E402

import auglag  # noqa: E402
import auglag.jax  # noqa: E402
import auglag.stochastic  # noqa: E402
import auglag.torch  # noqa: E402
from auglag import Adaptive, Always, DualRule, FromScale, Full, History, PenaltyRule, PowerLaw, Short  # noqa: E402
from auglag.algorithm import formulas  # noqa: E402
from auglag.inner import LBFGSB  # noqa: E402
from auglag.prox import Zero  # noqa: E402

#: Far below what the runs reach: they end by their number of outer iterations, not in the middle of a subproblem.
TOL = 1e-12
#: Inner tolerances eta'_k = 1e-8 / k: nearly exact, and a different number in every iteration.
TOLERANCE = PowerLaw(1e-8, 1.0)
#: Iterations are compared as long as the violation is clearly above the inner accuracy: below, rounding decides whether
#: it shrank enough.
SMALLEST = 1e-5


@dataclass(frozen=True)
class Problem:
    """min f(x) subject to lower <= rows(x) <= upper, and the rules of the run."""

    f: Callable[[Any], Any]
    rows: Callable[[Any], tuple[Any, ...]]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    x0: tuple[float, ...]
    penalty: PenaltyRule = field(default_factory=lambda: Adaptive(1.0, 4.0, 0.25))
    dual: DualRule = field(default_factory=Full)
    outer: int = 6  #: iterations to run
    failures: int = 0  #: subproblems without a lower bound among them
    compared: int = 4  #: iterations that must at least be compared
    tolerance: PowerLaw = TOLERANCE


INF = math.inf
S = 300.0  #: the unit of x in some problems, so that steps of length 1 soon come to where a value counts as unbounded
PROBLEMS = {
    "a line on a circle": Problem(
        lambda x: x[0] + x[1], lambda x: (x[0] ** 2 + x[1] ** 2,), (2.0,), (2.0,), (-1.5, -0.3)
    ),
    "a curved valley": Problem(
        lambda x: (1 - x[0]) ** 2 + 0.1 * x[1] ** 2, lambda x: (x[1] - x[0] ** 2,), (0.5,), (0.5,), (-0.4, 1.0),
        Always(0.5, 3.0),
    ),
    "an ellipse and a line": Problem(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2,
        lambda x: (1 - 0.25 * x[0] ** 2 - x[1] ** 2, x[0] - 2 * x[1] + 1), (0.0, 0.0), (INF, 0.0), (2.0, 2.0),
        Adaptive(0.3, 2.0, 0.5),
    ),
    "one linear equation, short dual steps": Problem(
        lambda x: (x[0] + x[1]) ** 2 + (x[1] + x[2]) ** 2 + x[0] ** 2, lambda x: (x[0] + 2 * x[1] + 3 * x[2],),
        (1.0,), (1.0,), (-4.0, 1.0, 1.0), Adaptive(0.2, 3.0, 0.6), Short(),
    ),
    "one linear inequality": Problem(
        lambda x: 2 * x[0] ** 2 + 2 * x[1] ** 2 + x[2] ** 2 + 2 * x[0] * x[1] + 2 * x[0] * x[2] - 8 * x[0]
        - 6 * x[1] - 4 * x[2], lambda x: (x[0] + x[1] + 2 * x[2],), (-INF,), (3.0,), (0.5, 0.5, 0.5),
        Always(0.1, 2.0),
    ),
    "three inequalities, one of them idle": Problem(
        lambda x: x[0] ** 2 + x[1] ** 2 + 2 * x[2] ** 2 + x[3] ** 2 - 5 * x[0] - 5 * x[1] - 21 * x[2] + 7 * x[3],
        lambda x: (
            x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + x[3] ** 2 + x[0] - x[1] + x[2] - x[3],
            x[0] ** 2 + 2 * x[1] ** 2 + x[2] ** 2 + 2 * x[3] ** 2 - x[0] - x[3],
            2 * x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + 2 * x[0] - x[1] - x[3],
        ),
        (-INF, -INF, -INF), (8.0, 10.0, 5.0), (0.0, 0.0, 0.0, 0.0), Adaptive(0.1, 2.0, 0.25),
    ),
    "inequalities with short dual steps": Problem(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2, lambda x: (x[0] + x[1], x[1] - x[0] ** 2), (-INF, 0.0),
        (2.0, INF), (2.0, 2.0), Always(0.5, 2.0), Short(),
    ),
    "three equations": Problem(
        lambda x: -x[0] * x[1] * x[2] * x[3],
        lambda x: (x[0] ** 3 + x[1] ** 2, x[0] ** 2 * x[3] - x[2], x[3] ** 2 - x[1]), (1.0, 0.0, 0.0),
        (1.0, 0.0, 0.0), (0.8, 0.8, 0.8, 0.8), Adaptive(1.0, 3.0, 0.1), failures=1,
    ),
    "a strip with both sides, the first penalty from the scale": Problem(
        lambda x: (x[0] - 3) ** 2 + (x[1] + 2) ** 2, lambda x: (x[0] + x[1], x[0] - x[1]), (-1.0, -2.0), (0.5, 2.0),
        (0.0, 0.0), Adaptive(FromScale(0.1, 0.01, 10.0), 2.0, 0.3),
    ),
    "multipliers kept in a box": Problem(
        lambda x: x[0] + 3 * x[1], lambda x: (x[0] ** 2 + x[1] ** 2, x[0] - x[1]), (2.0, -INF), (2.0, 1.0),
        (-1.5, -0.3), Adaptive(1.0, 2.0, 0.25), Full(y_max=0.5),
    ),
    "multipliers kept in a growing ball": Problem(
        lambda x: (x[0] - 3) ** 2 + (x[1] + 2) ** 2, lambda x: (x[0] + x[1], x[0] - x[1]), (0.0, 0.0), (0.0, 0.0),
        (1.0, 0.0), Always(0.5, 2.0), Full(y_max=0.4, ball="l2", growing=True),
    ),
    "a product, unbounded for the first penalty": Problem(
        lambda x: -(S * x[0]) * (S * x[1]), lambda x: (S * x[0] + S * x[1],), (2.0,), (2.0,), (1 / S, 0.7 / S),
        Adaptive(0.1, 10.0, 0.25), failures=1,
    ),
    "a product, unbounded for two penalties that gamma = 3 raises": Problem(
        lambda x: -(S * x[0]) * (S * x[1]), lambda x: (S * x[0] + S * x[1],), (2.0,), (2.0,), (1 / S, 0.7 / S),
        Adaptive(0.01, 3.0, 0.25), outer=7, failures=2,
    ),
    "a saddle on a line, unbounded at first": Problem(
        lambda x: -((S * x[0]) ** 2) + (S * x[1]) ** 2, lambda x: (S * (x[0] + 0.1 * x[1]), S * x[1]), (1.0, -INF),
        (1.0, -0.5), (0.3 / S, 0.2 / S), Always(0.4, 5.0), Short(), failures=1,
    ),
    "a quartic, unbounded at first": Problem(
        lambda x: -0.25 * x[0] ** 4 + (x[1] - 1) ** 2, lambda x: (x[0] ** 2 + 0.1 * x[1],), (-INF,), (4.0,),
        (1.0, 0.0), Adaptive(0.1, 10.0, 0.25), failures=1, compared=3,
    ),
    "a stiff penalty, whose reciprocal is the inner tolerance": Problem(
        lambda x: 100 * (x[0] - 1) ** 2 + 200 * x[1] ** 2, lambda x: (x[0] + x[1],), (3.0,), (3.0,), (0.5, 0.2),
        Always(2e4, 2.0), outer=3, compared=2, tolerance=PowerLaw(1e-3, 1.0),
    ),
    "infeasible: two parallel lines": Problem(
        lambda x: (x[0] - 1) ** 2 + x[1] ** 2, lambda x: (x[0] + x[1], x[0] + x[1]), (1.0, 3.0), (1.0, 3.0),
        (0.5, 0.2), Adaptive(0.5, 3.0, 0.5), outer=4,
    ),
    "infeasible: a sphere of negative radius": Problem(
        lambda x: x[0] + x[0] ** 2 + x[1] ** 2, lambda x: (x[0] ** 2 + x[1] ** 2,), (-INF,), (-1.0,), (0.5, 0.2),
        Always(0.5, 3.0), Short(), outer=4,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One outer iteration."""

    beta: float
    eta: float
    usable: bool
    violation: float
    y: Any  #: the multipliers for the next subproblem


@dataclass(frozen=True)
class Recorded(DualRule):
    """A dual rule that does what `rule` does, and keeps what it sees: y after every usable iteration, the history."""

    rule: DualRule
    m: int
    seen: list[Any] = field(default_factory=list, repr=False, compare=False)

    def step(self, history: History) -> float:
        return self.rule.step(history)

    def project(self, y: Any, history: History) -> Any:
        kept = self.rule.project(y, history)
        self.seen.append((list(history.iterations), np.array(kept)))
        return kept

    def sequence(self) -> list[Row]:
        """All iterations up to the last usable one."""
        after = {rows[-1].k: y for rows, y in self.seen}
        y, found = np.zeros(self.m), []
        for it in self.seen[-1][0]:
            y = after.get(it.k, y)
            found.append(Row(it.beta, it.eta, it.usable, it.violation, y))
        return found


# ---------------------------------------------------------------------------------------------------------- the engines


class Derivatives:
    """f, grad f, c and J of a problem as NumPy functions, by JAX's differentiation."""

    def __init__(self, p: Problem) -> None:
        def rows(x: Any) -> Any:
            return jnp.stack(p.rows(x))

        compiled = {"f": p.f, "grad": jax.grad(p.f), "c": rows, "jac": jax.jacrev(rows)}
        for name, function in compiled.items():
            setattr(self, name, _on_numpy(jax.jit(function)))


def _on_numpy(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: np.array(function(x))


def numpy_engine(p: Problem) -> list[Row]:
    d, dual = Derivatives(p), Recorded(p.dual, len(p.lower))
    auglag.minimize(
        lambda x: float(d.f(x)), np.array(p.x0), jac=d.grad, tol=TOL, penalty=p.penalty, dual=dual,
        constraints=NonlinearConstraint(d.c, np.array(p.lower), np.array(p.upper), jac=d.jac),
        tolerance=p.tolerance, inner="lbfgsb", scaling=False, presolve=False, restoration=False, acceleration=False,
        restarts=0, budget=auglag.Budget(outer=p.outer),
    )  # fmt: skip
    return dual.sequence()


def stochastic_engine(p: Problem) -> list[Row]:
    d, dual = Derivatives(p), Recorded(p.dual, len(p.lower))
    problem = auglag.stochastic.StochasticProblem.from_functions(
        len(p.x0), lambda x, _: float(d.f(x)), lambda x, _: d.grad(x), constraints=lambda x, _: d.c(x),
        jacobian=lambda x, _: d.jac(x), lower=p.lower, upper=p.upper, data=np.zeros((1, 1)),
    )  # fmt: skip
    auglag.stochastic.minimize(
        problem, np.array(p.x0), method="lbfgs", slacks="closed", tol=TOL, penalty=p.penalty, dual=dual,
        tolerance=p.tolerance, max_outer=p.outer, max_epochs=None,
    )  # fmt: skip
    return dual.sequence()


class Point(torch.nn.Module):
    """x as the parameter of a model without data."""

    def __init__(self, x0: Any) -> None:
        super().__init__()
        self.x = torch.nn.Parameter(torch.tensor(x0, dtype=torch.float64))


def torch_functions(p: Problem) -> tuple[Callable[..., Any], dict[str, Any]]:
    sides = zip(p.lower, p.upper, strict=True)
    constraints = {f"row {i}": auglag.torch.between(low, high) for i, (low, high) in enumerate(sides)}

    def evaluate(model: Any, batch: Any) -> tuple[Any, dict[str, Any]]:
        return p.f(model.x), dict(zip(constraints, p.rows(model.x), strict=True))

    return evaluate, constraints


def torch_engine(p: Problem) -> list[Row]:
    (evaluate, constraints), dual = torch_functions(p), Recorded(p.dual, len(p.lower))
    auglag.torch.fit(
        Point(p.x0), evaluate, constraints, torch.zeros(1, 1), method="lbfgs", tol=TOL, penalty=p.penalty, dual=dual,
        tolerance=p.tolerance, max_outer=p.outer, max_epochs=None,
    )  # fmt: skip
    return dual.sequence()


class Subproblem:
    """L_beta(., y) with the slacks minimised out, for an inner solver of `auglag.inner`."""

    g, has_hessp = Zero(), False

    def __init__(self, p: Problem, d: Any, y: Any, beta: float) -> None:
        self.p, self.d, self.y, self.beta = p, d, y, beta

    def value(self, x: Any) -> float:
        return self.value_and_gradient(x)[0]

    def value_and_gradient(self, x: Any) -> tuple[float, Any]:
        c = self.d.c(x)
        r = c - formulas.slack(np, c, np.array(self.p.lower), np.array(self.p.upper), self.y, self.beta)
        value = float(self.d.f(x) + self.y @ r + 0.5 * self.beta * (r @ r))
        return value, self.d.grad(x) + (self.y + self.beta * r) @ self.d.jac(x)


def own_loop_engine(p: Problem) -> list[Row]:
    """PyTorch's `AugmentedLagrangian` beside a loop of the user, here one that sets x to the inner solver's result."""
    if p.failures:
        pytest.skip("a loop of one's own hands over points: it cannot say that a subproblem has no lower bound")
    (evaluate, constraints), dual = torch_functions(p), Recorded(p.dual, len(p.lower))
    model, d = Point(p.x0), Derivatives(p)
    al = auglag.torch.AugmentedLagrangian(
        model, constraints, tol=TOL, penalty=p.penalty, dual=dual, tolerance=p.tolerance
    )
    al.test(evaluate, torch.zeros(1, 1))  # where it starts
    for _ in range(p.outer):
        subproblem = Subproblem(p, d, al.multipliers, al.beta)
        found = LBFGSB().solve(subproblem, model.x.detach().numpy().copy(), 0.5 * al.eta, limit=10**6)
        with torch.no_grad():
            model.x.copy_(torch.as_tensor(found.x))
        al.step()
        row = al.test(evaluate, torch.zeros(1, 1))
        assert row["accepted"], f"dist {row['dist']} against eta {al.eta}"
    return dual.sequence()


def jax_engine(p: Problem) -> list[Row]:
    found = auglag.jax.solve(
        p.f, np.array(p.x0), constraints=[(lambda x: jnp.stack(p.rows(x)), np.array(p.lower), np.array(p.upper))],
        tol=TOL, penalty=p.penalty, dual=p.dual, tolerance=p.tolerance, accelerate=False, scaling=False,
        max_outer=p.outer, record=p.outer,
    )  # fmt: skip
    rows = [
        Row(float(beta), float(eta), not math.isnan(violation), float(violation), np.array(y))
        for beta, eta, violation, y in zip(
            *(np.asarray(part) for part in (found.record.beta, found.record.eta, found.record.violation)),
            np.asarray(found.record.y), strict=True,
        )
    ]  # fmt: skip
    return [row for row in rows if not math.isnan(row.beta)]


ENGINES = {
    "stochastic": stochastic_engine,
    "torch": torch_engine,
    "torch, own loop": own_loop_engine,
    "jax": jax_engine,
}
_REFERENCES: dict[str, list[Row]] = {}


def reference(name: str) -> list[Row]:
    """NumPy's iterations, as far as they are to be compared."""
    if name not in _REFERENCES:
        rows = numpy_engine(PROBLEMS[name])
        small = [i for i, row in enumerate(rows) if row.usable and row.violation < SMALLEST]
        _REFERENCES[name] = rows[: small[0]] if small else rows
    return _REFERENCES[name]


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_numpy_loop_runs_what_the_problem_promises(name):
    rows, p = reference(name), PROBLEMS[name]
    assert len(rows) >= p.compared
    assert sum(not row.usable for row in rows) == p.failures
    assert len({row.beta for row in rows}) > 1
    for before, row in itertools.pairwise(rows):
        if not before.usable:
            assert row.beta == before.beta * formulas.failure_factor(p.penalty.gamma)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_engine_goes_the_way_of_the_numpy_loop(name, engine):
    expected, found = reference(name), ENGINES[engine](PROBLEMS[name])
    assert len(found) >= len(expected)
    found = found[: len(expected)]
    assert [row.usable for row in found] == [row.usable for row in expected]
    assert [row.beta for row in found] == [row.beta for row in expected]
    assert [row.eta for row in found] == [row.eta for row in expected]
    for ours, theirs in zip(found, expected, strict=True):
        if theirs.usable:
            assert ours.violation == pytest.approx(theirs.violation, rel=1e-4, abs=1e-7)
        np.testing.assert_allclose(ours.y, theirs.y, rtol=1e-5, atol=1e-6)
