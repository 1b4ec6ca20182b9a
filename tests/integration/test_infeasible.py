"""Problems without a feasible point: the status, the constraints named, the point of least violation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import LinearConstraint

import auglag
from auglag import Budget, Status, minimize
from helpers.runs import rosenbrock


class TestInfeasible:
    def test_two_discs_apart_give_the_status_the_name_and_the_point_of_least_violation(self):
        cons = [
            {"type": "ineq", "fun": lambda x: 1 - (x[0] + 2) ** 2 - x[1] ** 2, "name": "left"},
            {"type": "ineq", "fun": lambda x: 1 - (x[0] - 2) ** 2 - x[1] ** 2, "name": "right"},
        ]
        res = minimize(lambda x: x[1] ** 2 + x[0], [0.3, 1.0], constraints=cons)
        assert res.status is Status.INFEASIBLE
        assert not res.success
        np.testing.assert_allclose(res.x, [0, 0], atol=1e-4)
        assert res.violations == {"left": pytest.approx(3.0, abs=1e-3), "right": pytest.approx(3.0, abs=1e-3)}
        assert res.message.startswith(Status.INFEASIBLE.message)
        assert "left by 3" in res.message
        assert res.maxcv == pytest.approx(3.0, abs=1e-3)

    def test_an_equality_without_a_solution_is_infeasible(self):
        res = minimize(
            lambda x: x[0], [3.0], constraints={"type": "eq", "fun": lambda x: x[0] ** 2 + 1, "name": "sphere"}
        )
        assert res.status is Status.INFEASIBLE
        assert res.x[0] == pytest.approx(0.0, abs=1e-4)
        assert "sphere by 1" in res.message

    def test_constraints_against_bounds_are_infeasible(self):
        res = minimize(
            lambda x: x @ x,
            [0.5, 0.5],
            bounds=[(0, 1), (0, 1)],
            constraints=LinearConstraint([[1.0, 1.0]], 3.0, np.inf),
        )
        assert res.status is Status.INFEASIBLE
        np.testing.assert_allclose(res.x, [1, 1], atol=1e-6)
        assert res.violations == {"constraints[0]": pytest.approx(1.0, abs=1e-6)}

    @pytest.mark.parametrize("variant", auglag.VARIANTS)
    @pytest.mark.parametrize("slacks", ["closed", "explicit"])
    def test_every_variant_recognises_a_contradiction(self, variant, slacks):
        cons = [LinearConstraint([[1.0, 1.0]], 1.0, 1.0), LinearConstraint([[1.0, 1.0]], -np.inf, 0.0)]
        res = minimize(
            lambda x: x @ x, [1.0, 2.0], jac=lambda x: 2 * x, constraints=cons, variant=variant, slacks=slacks
        )
        assert res.status is Status.INFEASIBLE
        assert res.x.sum() == pytest.approx(0.5, abs=1e-4)

    def test_an_unbounded_objective_does_not_hide_infeasibility(self):
        cons = [{"type": "eq", "fun": lambda x: x[0] ** 2 + x[1] ** 2 + 1}]
        res = minimize(lambda x: -x[0] - x[1], [1.0, 1.0], constraints=cons)
        assert res.status is Status.INFEASIBLE

    def test_the_explanation_names_the_constraints_and_what_to_try(self):
        cons = [
            {"type": "eq", "fun": lambda x: x[0] - 1, "name": "one"},
            {"type": "eq", "fun": lambda x: x[0] - 2, "name": "two"},
        ]
        text = minimize(lambda x: x @ x, [0.0], constraints=cons).explain()
        assert "Locally infeasible" in text
        assert "Most violated: " in text
        assert "one by 0.5" in text
        assert "two by 0.5" in text
        assert "Try: " in text
        assert "another starting point" in text

    def test_a_feasible_problem_with_a_stationary_infeasible_point_nearby_is_not_called_infeasible_from_elsewhere(self):
        # ||c|| has a stationary point at 0, but is 0 at +-1
        res = minimize(lambda x: x[0], [0.2], constraints={"type": "eq", "fun": lambda x: x[0] ** 2 - 1})
        assert res.success
        assert abs(res.x[0]) == pytest.approx(1.0, abs=1e-6)

    def test_a_budget_binds_while_infeasibility_is_being_checked(self):
        cons = [{"type": "eq", "fun": lambda x: np.array([x[0] ** 2 + 1, rosenbrock(x) + 1])}]

        def solve(**kwargs):
            return minimize(lambda x: x @ x, [3.0, -2.0, 1.0], constraints=cons, **kwargs)

        full = solve()
        assert full.status is Status.INFEASIBLE
        for limit in range(20, full.constr_nfev, max(1, (full.constr_nfev - 20) // 12)):
            res = solve(budget=Budget(evaluations=limit))
            # a gradient by differences costs 2n calls, and the certificate at the end a few more
            assert res.constr_nfev <= limit + 80, f"{res.constr_nfev} calls for a limit of {limit}"
            assert not res.success

    def test_an_interrupt_while_infeasibility_is_being_checked_ends_the_run(self):
        calls = []

        def con(x):
            calls.append(1)
            if len(calls) in interrupts:
                raise KeyboardInterrupt
            return np.array([x[0] ** 2 + 1, rosenbrock(x) + 1])

        def solve():
            calls.clear()
            return minimize(lambda x: x @ x, [3.0, -2.0, 1.0], constraints=[{"type": "eq", "fun": con}])

        interrupts = set()
        assert solve().status is Status.INFEASIBLE
        total = len(calls)
        for at in range(total // 10, total - 40, total // 10):
            interrupts = {at}
            res = solve()
            assert res.status is Status.INTERRUPTED, f"interrupted at call {at} of {total}: {res.message}"
            assert len(calls) <= at + 40


# -------------------------------------------------------------------------------------------------------- units of rows


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("other", ["same", 1.0])
def test_lines_that_exclude_each_other_do_so_in_any_units(unit, other):
    second = unit if other == "same" else other
    rows = [
        {"type": "ineq", "fun": lambda x: unit * (x[0] - 4)},
        {"type": "ineq", "fun": lambda x: second * (1 - x[0])},
    ]
    assert minimize(lambda x: x[0], [0.0], constraints=rows).status is Status.INFEASIBLE
    rows[1] = {"type": "ineq", "fun": lambda x: second * (5 - x[0])}
    result = minimize(lambda x: x[0], [0.0], constraints=rows)
    assert result.success
    assert result.x[0] == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("unit", [1e-3, 1e-8])
def test_a_disc_and_a_line_apart_are_apart_in_any_units(unit):
    disc = {"type": "ineq", "fun": lambda x: unit * (1 - x @ x)}
    line = {"type": "ineq", "fun": lambda x: unit * (x[0] + x[1] - 3)}
    assert minimize(lambda x: x @ x, [3.0, 1.0], constraints=[disc, line]).status is Status.INFEASIBLE
    wider = {"type": "ineq", "fun": lambda x: unit * (9 - x @ x)}
    assert minimize(lambda x: x @ x, [3.0, 1.0], constraints=[wider, line]).success


@pytest.mark.parametrize("unit", [1e-7, 1e-11])
def test_linear_rows_in_small_units(unit):
    apart = LinearConstraint(unit * np.array([[1.0, 1.0], [1.0, 1.000001]]), [3 * unit, -np.inf], [np.inf, unit])
    assert minimize(lambda x: x @ x, [0.0, 0.0], bounds=[(0, 5)] * 2, constraints=apart).status is Status.INFEASIBLE
