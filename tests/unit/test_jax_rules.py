"""The rules of a batch say what the rules of one run say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402

import auglag  # noqa: E402
from auglag import Adaptive, Always, Constant, FromScale, Full, Geometric, History, Iteration, PowerLaw, Short  # noqa: E402
from auglag.algorithm import formulas  # noqa: E402
from auglag.jax import vectors  # noqa: E402
from auglag.jax.rules import Rules  # noqa: E402


def iteration(k: int, beta: float, violation: float) -> Iteration:
    return Iteration(k, beta, 1.0, True, violation, 0.0, 1.0, violation, 0.0, 0.0, "CONVERGED", 1, 1)


HISTORIES = [(0.3, 5.0, [1.0, 0.2, 0.19]), (7.0, 0.5, [2.0]), (-400.0, 30.0, [3.0, 3.0]), (1.0, 1e-3, [1e-3, 0.0])]


@pytest.mark.parametrize(
    "penalty", [Adaptive(), Always(), Adaptive(1e-3, 1.5, 0.8), Adaptive(FromScale(2.0, 0.5, 9.0))]
)
def test_penalties(penalty):
    rules = Rules(penalty, Full(), None)
    objective, first = np.array([h[0] for h in HISTORIES]), np.array([h[1] for h in HISTORIES])
    expected = [penalty.next(History(f, c)) for f, c, _ in HISTORIES]
    np.testing.assert_allclose(rules.first_beta(jnp.asarray(objective), jnp.asarray(first)), expected, rtol=1e-15)
    for f, c, violations in HISTORIES:
        history = History(f, c)
        for k, violation in enumerate(violations, 1):
            before = history.violations()[-1]
            beta = penalty.next(history)
            history.iterations.append(iteration(k, beta, violation))
            grow = rules.raises(jnp.asarray(before), jnp.asarray(violation), jnp.asarray(False))
            assert penalty.next(history) == (rules.gamma * beta if bool(grow) else beta)


@pytest.mark.parametrize("dual", [Full(), Full(2.0), Full(1.5, ball="l2"), Full(0.5, growing=True), Short()])
def test_dual_steps(dual):
    rules = Rules(Adaptive(), dual, None)
    y, c = np.array([0.5, -1.0, 3.0]), np.array([0.3, -0.4, 0.0])
    history = History(1.0, 2.0, 0.0, [iteration(3, 4.0, float(np.linalg.norm(c)))])
    expected = dual.project(y + dual.step(history) * c, history)
    now = jnp.asarray([history.last.violation])
    found = rules.next_y(
        jnp.asarray(y)[:, None], jnp.asarray(c)[:, None], jnp.asarray([4.0]), jnp.asarray([2.0]), now, jnp.asarray([3])
    )
    np.testing.assert_allclose(np.asarray(found)[:, 0], expected, rtol=1e-14)


@pytest.mark.parametrize("tolerance", [Geometric(0.2, 0.3, 1e-4), PowerLaw(2.0, 1.5), Constant(0.03)])
def test_inner_tolerances(tolerance):
    rules = Rules(Adaptive(), Full(), tolerance)
    history = History(1.0, 1.0)
    for k in range(1, 12):
        beta = 2.0**k
        eta = rules.eta(jnp.asarray([k]), jnp.asarray([beta]), jnp.asarray([1e-9]))
        assert float(eta[0]) == pytest.approx(min(1.0 / beta, tolerance.next(history)), rel=1e-14)
        history.iterations.append(iteration(k, beta, 1.0))


@pytest.mark.parametrize("layout", ["numpy", "array", "rows"])
def test_slack_estimate_and_remainder_belong_together_in_every_layout(layout):
    rng = np.random.default_rng(3)
    c, y = rng.standard_normal((2, 6, 5))
    cl = np.array([-np.inf, -0.3, 0.2, -np.inf, -1.0, 0.0])[:, None]
    cu = np.array([0.1, np.inf, 0.2, np.inf, 0.5, 0.0])[:, None]
    beta = rng.uniform(0.1, 5.0, 5)
    xp = np if layout == "numpy" else vectors
    turn = {"numpy": np.asarray, "array": jnp.asarray, "rows": lambda a: vectors.as_rows(jnp.asarray(a))}[layout]
    w = formulas.estimate(xp, turn(c), turn(cl), turn(cu), turn(y), beta)
    r = formulas.remainder(xp, turn(c), turn(cl), turn(cu), w, turn(y) / (-beta))
    s = formulas.slack(xp, turn(c), turn(cl), turn(cu), turn(y), beta)
    w, r, s = (np.stack(v.entries) if layout == "rows" else np.asarray(v) for v in (w, r, s))
    np.testing.assert_allclose(r, c - s, atol=1e-14)
    np.testing.assert_allclose(w, y + beta * r, atol=1e-14)
    f = rng.standard_normal(5)
    value = formulas.lagrangian(f, (w * w).sum(0), (y * y).sum(0), beta)
    np.testing.assert_allclose(value, f + (y * r).sum(0) + 0.5 * beta * (r * r).sum(0), rtol=1e-12)


@pytest.mark.parametrize(("gamma", "factor"), [(10.0, 10.0), (20.0, 20.0), (3.0, 27.0), (math.sqrt(10.0), 10.0)])
def test_a_subproblem_without_a_lower_bound_raises_beta_at_least_tenfold(gamma, factor):
    failed = Iteration(1, 0.5, 1.0, False, 9.0, 0.0, 1.0, 9.0, 0.0, 0.0, "UNBOUNDED", 1, 1)
    assert Adaptive(gamma=gamma).next(History(1.0, 1.0, 0.0, [failed])) == pytest.approx(0.5 * factor)
    assert Rules(Always(gamma=gamma), Full(), None).failure_factor == pytest.approx(factor)


def test_a_rule_that_cannot_be_compiled_is_refused_by_name():
    @dataclass(frozen=True)
    class Mine(auglag.PenaltyRule):
        def next(self, history):
            return 1.0

    with pytest.raises(
        auglag.InputError, match=r"penalty must be a rule that auglag.jax can compile .*got Mine; auglag"
    ):
        Rules(Mine(), Full(), None)
