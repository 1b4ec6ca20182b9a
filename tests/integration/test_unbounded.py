"""Problems without a lower bound, and subproblems without one of problems that have one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint

import auglag
from auglag import Status, minimize


class TestUnbounded:
    @pytest.mark.parametrize("jac", [None, "exact"])
    def test_a_line_without_constraints(self, jac):
        res = minimize(lambda x: x[0], [1.0], jac=(lambda x: np.ones(1)) if jac else None)
        assert res.status is Status.UNBOUNDED
        assert not res.success
        assert res.message.startswith(Status.UNBOUNDED.message)
        assert np.isfinite(res.x).all()
        assert "sign of fun" in res.explain()

    def test_a_valley_without_end(self):
        res = minimize(lambda x: -x[0] + x[1] ** 2, [0.0, 1.0], bounds=[(0, None), (None, None)])
        assert res.status is Status.UNBOUNDED

    def test_along_a_constraint(self):
        res = minimize(lambda x: -x[0] - x[1], [1.0, 1.0], constraints={"type": "eq", "fun": lambda x: x[0] - x[1]})
        assert res.status is Status.UNBOUNDED
        assert np.isfinite(res.x).all()

    def test_not_where_a_row_far_away_stops_the_fall(self):
        """Subproblems fall below every bound long before x comes near to 1e9."""
        far = NonlinearConstraint(lambda x: x, -1e9, 1e9, jac=lambda x: np.eye(1), hess=lambda x, v: np.zeros((1, 1)))
        res = minimize(
            lambda x: -(x[0] ** 2),
            [1.0],
            jac=lambda x: -2 * x,
            hess=lambda x: np.array([[-2.0]]),
            constraints=far,
            restarts=0,
        )
        assert res.status is not Status.UNBOUNDED
        assert not res.success or abs(res.x[0]) == pytest.approx(1e9)

    def test_a_concave_parabola_within_a_halfspace(self):
        res = minimize(lambda x: -(x[0] ** 2), [1.0], constraints={"type": "ineq", "fun": lambda x: x[0] - 0.5})
        assert res.status is Status.UNBOUNDED

    @pytest.mark.parametrize("slacks", ["closed", "explicit"])
    @pytest.mark.parametrize("variant", auglag.VARIANTS)
    @pytest.mark.parametrize("beta", [1e-4, 1e-2, 1.0])
    def test_a_subproblem_unbounded_at_a_small_penalty_is_answered_by_a_larger_one(self, beta, variant, slacks):
        kind, step = variant.split("-")
        penalty = auglag.Adaptive(initial=beta) if kind == "adaptive" else auglag.Always(initial=beta)
        seen = []
        res = minimize(
            lambda x: seen.append(np.abs(x).max()) or -(x[0] ** 2) - x[1],
            [0.5, 0.5],
            constraints=[
                {"type": "ineq", "fun": lambda x: 2 - x[0], "jac": lambda x: np.array([-1.0, 0.0])},
                {"type": "ineq", "fun": lambda x: x[0] + 2, "jac": lambda x: np.array([1.0, 0.0])},
                {"type": "eq", "fun": lambda x: x[1] - 1, "jac": lambda x: np.array([0.0, 1.0])},
            ],
            penalty=penalty,
            dual=step,
            slacks=slacks,
            acceleration=False,
        )
        assert res.success, res.explain()
        np.testing.assert_allclose([abs(res.x[0]), res.x[1]], [2.0, 1.0], atol=1e-5)
        assert np.isfinite(seen).all()
        unusable = [row for row in res.history if not row["usable"]]
        if beta < 1.0:
            assert unusable, "the premise: such a subproblem has no lower bound"
        assert all(abs(row["objective"]) < 1e8 for row in res.history if row["usable"])

    def test_a_square_within_a_disc_is_solved_from_a_tiny_penalty(self):
        res = minimize(
            lambda x: -(x[0] ** 2),
            [0.5],
            constraints={"type": "ineq", "fun": lambda x: 4 - x[0] ** 2},
            penalty=auglag.Adaptive(initial=1e-3),
        )
        assert res.success, res.explain()
        assert abs(res.x[0]) == pytest.approx(2.0, abs=1e-6)
        assert res.multipliers[0] == pytest.approx(-1.0, abs=1e-5)

    def test_an_objective_that_returns_minus_infinity_is_unbounded_and_not_solved(self):
        res = minimize(lambda x: -np.inf if x[0] > 10 else -x[0], [0.0])
        assert res.status in (Status.UNBOUNDED, Status.NON_FINITE)
        assert not res.success


@pytest.mark.parametrize("limits", ["bounds", "rows"])
def test_a_saddle_point_with_an_endless_way_down_is_unbounded_however_its_limits_are_stated(limits):
    rows = {"type": "ineq", "fun": lambda x: 3 - x, "jac": lambda x: -np.eye(2)}
    stated = {"bounds": [(None, 3)] * 2} if limits == "bounds" else {"constraints": rows}
    result = minimize(lambda x: x[0] * x[1], [1.0, 1.0], jac=lambda x: x[::-1], **stated)
    assert result.status is Status.UNBOUNDED
    assert result.fun < -1e9
