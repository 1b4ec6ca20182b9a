"""How a run ends: every end has its status, its words and the best point seen; a killed run goes on bit for bit."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import LinearConstraint, NonlinearConstraint

import auglag
from auglag import Budget, EvaluationError, Status, certify, minimize
from auglag.algorithm.rules import DualRule, PenaltyRule
from auglag.problems import hock_schittkowski as hs


def rosenbrock(x):
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def known(name, exact=True, **kwargs):
    """Arguments of minimize for a Hock-Schittkowski problem."""
    p = hs.get(name)
    cons = [NonlinearConstraint(r.fun, r.lower, r.upper, **({"jac": r.jac} if exact else {})) for r in p.rows]
    bounds = scipy.optimize.Bounds(p.lower, p.upper)
    return {
        "fun": p.fun,
        "x0": p.x0,
        "bounds": bounds,
        "constraints": cons,
        **({"jac": p.grad} if exact else {}),
        **kwargs,
    }


def slowly(name, exact=True, **kwargs):
    """The same, solved by Algorithm 1 alone with a first-order inner solver, which takes a while."""
    return known(name, exact, acceleration=False, inner="lbfgsb", **kwargs)


def assert_best_of_history(res, slack=1e-6):
    """The point returned is not worse than any the run has recorded."""
    seen = [row["residual"] for row in res.history if row["usable"]]
    assert res.certificate.residual <= min(seen, default=math.inf) * (1 + slack) + 1e-12


# --------------------------------------------------------------------------------------------------------- infeasible


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
            assert res.constr_nfev <= limit + 40, f"{res.constr_nfev} calls for a limit of {limit}"
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


# ---------------------------------------------------------------------------------------------------------- unbounded


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


# -------------------------------------------------------------------------------------------------------------- limits


class TestLimits:
    @pytest.mark.parametrize("exact", [True, False])
    @pytest.mark.parametrize("limit", [1, 5, 20, 60])
    def test_evaluations(self, limit, exact):
        args = slowly("HS71", exact)
        res = minimize(**args, budget=Budget(evaluations=limit))
        assert res.status is Status.EVALUATION_LIMIT
        assert not res.success
        point = 1 if exact else 2 * 4 + 1
        assert res.nfev <= limit + 6 * point
        assert res.constr_nfev <= 2 * (limit + 6 * point)
        assert np.isfinite(res.x).all()
        assert "larger Budget" in res.explain()
        assert_best_of_history(res)

    def test_seconds(self):
        def slow(x):
            time.sleep(0.005)
            return rosenbrock(x)

        start = time.perf_counter()
        res = minimize(
            slow, np.full(4, -1.2), constraints={"type": "eq", "fun": lambda x: x @ x - 4}, budget=Budget(seconds=0.3)
        )
        assert res.status is Status.TIME_LIMIT
        assert 0.25 < time.perf_counter() - start < 1.0
        assert res.seconds == pytest.approx(time.perf_counter() - start, abs=0.5)
        assert_best_of_history(res)

    @pytest.mark.parametrize("outer", [1, 2, 3])
    def test_outer_iterations(self, outer):
        res = minimize(**slowly("HS71"), penalty=auglag.Adaptive(initial=0.1), budget=Budget(outer=outer))
        assert res.status is Status.ITERATION_LIMIT
        assert res.nit == outer == len(res.history)
        assert_best_of_history(res)

    def test_inner_iterations_bound_each_subproblem(self):
        res = minimize(**slowly("HS71"), budget=Budget(inner=3))
        assert max(row["inner_iterations"] for row in res.history) <= 3
        assert res.success == res.certificate.meets(1e-6)
        assert_best_of_history(res)

    def test_a_run_cut_short_goes_on_from_where_it_was(self):
        short = minimize(**slowly("HS71"), budget=Budget(outer=2))
        assert not short.success
        rest = minimize(**slowly("HS71"), warm_start=short)
        assert rest.success
        np.testing.assert_allclose(rest.x, hs.get("HS71").x, atol=1e-5)


# ----------------------------------------------------------------------------------------------- callbacks, interrupts


class TestStopped:
    @pytest.mark.parametrize("after", [1, 2, 3])
    @pytest.mark.parametrize("signature", ["xk", "intermediate_result"])
    def test_by_the_callback(self, after, signature):
        calls = []

        def stop():
            calls.append(1)
            if len(calls) == after:
                raise StopIteration

        def plain(xk):
            stop()

        def full(intermediate_result):
            stop()

        callback = plain if signature == "xk" else full
        res = minimize(**slowly("HS71"), penalty=auglag.Adaptive(initial=0.1), callback=callback)
        assert res.status is Status.STOPPED
        assert res.nit == after
        assert res.message.startswith("Stopped by the callback.")
        assert_best_of_history(res)

    def test_by_the_callback_at_a_point_that_is_good_enough_is_success(self):
        def stop(intermediate_result):
            if intermediate_result.residual <= 1e-6:
                raise StopIteration

        res = minimize(**slowly("HS71"), callback=stop)
        assert res.success
        assert res.status is Status.SOLVED

    @pytest.mark.parametrize("inner", ["lbfgsb", "panoc", "spectral", "proximal-gradient", "proximal-point"])
    def test_by_an_interrupt_inside_the_objective(self, inner):
        calls, args = [], known("HS71", acceleration=False)
        fun = args.pop("fun")

        def interrupted(x):
            calls.append(x.copy())
            if len(calls) == 30:
                raise KeyboardInterrupt
            return fun(x)

        res = minimize(interrupted, **args, inner=inner)
        assert res.status is Status.INTERRUPTED
        assert not res.success
        assert res.message.startswith("Interrupted from the keyboard.")
        assert len(calls) <= 32
        assert any((x == res.x).all() for x in calls)
        assert_best_of_history(res)

    @pytest.mark.parametrize("where", ["fun", "con", "jac", "con_jac"])
    @pytest.mark.parametrize("at", [2, 7, 25])
    def test_by_an_interrupt_anywhere_else_in_user_code(self, where, at):
        args = slowly("HS71", check_derivatives=False)
        calls = []

        def wrap(function):
            def wrapped(*x):
                calls.append(1)
                if len(calls) == at:
                    raise KeyboardInterrupt
                return function(*x)

            return wrapped

        if where in ("fun", "jac"):
            args[where] = wrap(args[where])
        else:
            p = hs.get("HS71").rows
            args["constraints"] = [
                NonlinearConstraint(
                    wrap(r.fun) if where == "con" and i == 0 else r.fun,
                    r.lower,
                    r.upper,
                    jac=wrap(r.jac) if where == "con_jac" and i == 0 else r.jac,
                )
                for i, r in enumerate(p)
            ]
        res = minimize(**args)
        assert res.status is Status.INTERRUPTED
        assert np.isfinite(res.x).all()

    def test_by_an_interrupt_in_the_callback(self):
        def callback(xk):
            raise KeyboardInterrupt

        res = minimize(**slowly("HS71"), callback=callback)
        assert res.status is Status.INTERRUPTED
        assert res.nit == 1

    def test_by_a_real_ctrl_c(self, tmp_path):
        code = """
            import signal, time, numpy as np, auglag
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
            def fun(x):
                print("called", flush=True)
                time.sleep(0.02)
                return float(np.sum(100 * (x[1:] - x[:-1]**2)**2 + (1 - x[:-1])**2))
            res = auglag.minimize(fun, np.full(6, -1.0), constraints={"type": "eq", "fun": lambda x: x @ x - 4})
            print("END", res.status.name, np.isfinite(res.x).all(), res.success, flush=True)
        """
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(40):  # well inside the run
            assert process.stdout.readline() == "called\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert out.splitlines()[-1] == "END INTERRUPTED True False", err
        assert process.returncode == 0


# ------------------------------------------------------------------------------------------------------- holes, errors


class TestUndefined:
    @pytest.mark.parametrize("how", ["nan", "inf", "raise"])
    @pytest.mark.parametrize("inner", ["lbfgsb", "panoc", "spectral"])
    def test_a_search_that_steps_outside_the_domain_steps_back(self, how, inner):
        outside = []

        def fun(x):
            if x[0] <= 0:
                outside.append(1)
                if how == "raise":
                    raise EvaluationError("log")
                return math.nan if how == "nan" else math.inf
            return -math.log(x[0]) + 1e3 * x[0] + x[1] ** 2

        def grad(x):
            return np.array([-1 / x[0] + 1e3, 2 * x[1]])

        con = {"type": "eq", "fun": lambda x: x[1] - 2, "jac": lambda x: np.array([0.0, 1.0])}
        res = minimize(fun, [1.0, 0.0], jac=grad, constraints=con, inner=inner, scaling=False)
        assert res.success, res.explain()
        np.testing.assert_allclose(res.x, [1e-3, 2], atol=1e-6)
        assert outside, "the premise: the first step leaves the domain"

    def test_an_evaluation_error_in_a_constraint_steps_back_too(self):
        def con(x):
            if x[0] <= 0:
                raise EvaluationError("sqrt")
            return math.sqrt(x[0]) - 0.01

        res = minimize(lambda x: 100 * x[0], [4.0], constraints={"type": "ineq", "fun": con})
        assert res.success, res.explain()
        assert res.x[0] == pytest.approx(1e-4, abs=1e-6)

    def test_a_run_into_a_singularity_is_not_success(self):
        with np.errstate(all="ignore"):
            res = minimize(lambda x: np.log(x[0]) if x[0] > 0 else np.nan, [1.0])
        assert not res.success
        assert res.status in (Status.UNBOUNDED, Status.NON_FINITE, Status.STUCK)
        assert np.isfinite(res.x).all()
        assert res.x[0] > 0

    def test_a_minimum_that_hides_in_a_hole_is_not_success(self):
        res = minimize(lambda x: np.nan if abs(x[0]) < 0.5 else x[0] ** 2, [2.0])
        assert not res.success
        assert abs(res.x[0]) >= 0.5
        assert np.isfinite(res.fun)

    def test_other_exceptions_propagate_untouched(self):
        class Broken(RuntimeError):
            pass

        calls = []

        def fun(x):
            calls.append(1)
            if len(calls) == 30:
                raise Broken("the mesh generator failed")
            return rosenbrock(x)

        with pytest.raises(Broken, match="the mesh generator failed"):
            minimize(fun, [-1.2, 1.0], constraints={"type": "eq", "fun": lambda x: x @ x - 1})

    def test_after_an_exception_the_same_problem_object_can_be_used_again(self):
        calls = []

        def fun(x):
            calls.append(1)
            if len(calls) == 30:
                raise RuntimeError("once")
            return rosenbrock(x)

        problem = auglag.Problem(fun, [-1.2, 1.0], constraints={"type": "eq", "fun": lambda x: x @ x - 2})
        with pytest.raises(RuntimeError, match="once"):
            minimize(problem, budget=Budget(evaluations=100))
        assert minimize(problem).success  # and the budget of the run that failed is forgotten


# -------------------------------------------------------------------------------------------------- the best point seen


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", ["HS14", "HS26", "HS40", "HS71", "HS78", "HS113"])
def test_the_point_returned_is_never_worse_than_any_seen(name, exact):
    for outer in (1, 2, 3, 5, 8):
        res = minimize(**known(name, exact), budget=Budget(outer=outer))
        # with differences, residuals of the history were measured by the derivatives of their time
        assert_best_of_history(res, slack=1e-6 if exact else 0.5)


def test_rules_that_spoil_the_iterates_do_not_spoil_the_result():
    class Spoiler(PenaltyRule):
        def next(self, history):
            return 1e4 if history.k <= 4 else 1.0

    class Never(DualRule):
        def step(self, history):
            return 0.0

    res = minimize(
        lambda x: x @ x,
        [3.0, -1.0],
        jac=lambda x: 2 * x,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
        penalty=Spoiler(),
        dual=Never(),
        acceleration=False,
        budget=Budget(outer=8),
    )
    residuals = [row["residual"] for row in res.history if row["usable"]]
    assert residuals[-1] > 10 * min(residuals), "the premise: later iterates are worse"
    assert_best_of_history(res)


# ---------------------------------------------------------------------------------------------------------- warm start


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("slacks", ["closed", "explicit"])
@pytest.mark.parametrize("name", ["HS14", "HS26", "HS35", "HS71", "HS113"])
def test_solving_again_from_a_result_takes_no_outer_iteration(name, slacks, exact):
    if name == "HS113" and slacks == "explicit" and not exact:
        pytest.skip("differences with 18 variables stall just above this tolerance")
    first = minimize(**known(name, exact), slacks=slacks)
    assert first.success, first.explain()
    again = minimize(**known(name, exact), slacks=slacks, warm_start=first)
    assert again.success
    assert again.nit == 0
    np.testing.assert_array_equal(again.x, first.x)
    np.testing.assert_allclose(again.y, first.y, rtol=1e-12)
    assert again.penalty == first.penalty
    assert again.nfev < 30 if exact else again.nfev < first.nfev


def test_a_warm_start_of_a_nearby_problem_takes_fewer_steps():
    def solve(shift, **kwargs):
        return minimize(
            lambda x: rosenbrock(x) + shift * x[0],
            [-1.2, 1.0],
            constraints={"type": "ineq", "fun": lambda x: 1.5 - x @ x},
            **kwargs,
        )

    first = solve(0.0)
    cold, warm = solve(0.01), solve(0.01, warm_start=first)
    assert warm.success
    assert warm.nfev < 0.7 * cold.nfev
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-5)


def test_a_warm_start_from_x_multipliers_and_penalty_by_hand():
    p = hs.get("HS71")
    res = minimize(**known("HS71"), warm_start=(p.x, list(p.multipliers), 10.0))
    assert res.success
    assert res.nit == 0
    assert res.penalty == 10.0


# -------------------------------------------------------------------------------------------------------------- explain


def test_the_explanation_of_a_success_has_the_numbers():
    res = minimize(**known("HS71"))
    text = res.explain()
    assert text.startswith("Solved: the certificate meets the tolerance. Residual ")
    assert f"After {res.nit} outer and {res.nit_inner} inner iterations ({res.nfev} calls of fun" in text
    assert "inner solver qp" in text
    assert f"f + g = {res.fun:.10g}" in text
    assert "stationarity" in text
    assert "Try:" not in text
    assert "Most violated" not in text
    assert res.diagnose() == text


def test_the_explanation_of_a_limit_says_how_far_it_came_and_what_to_try():
    res = minimize(**slowly("HS71"), budget=Budget(outer=1))
    text = res.explain()
    assert "Iteration limit reached" in text
    assert "> tol 1e-06" in text
    assert "Try: a larger Budget, going on with warm_start=result." in text
    assert res.advice


def test_the_message_of_an_undefined_start_names_what_is_undefined():
    cons = [
        {"type": "eq", "fun": lambda x: x[0], "name": "fine"},
        {"type": "eq", "fun": lambda x: np.nan * x[0], "name": "broken"},
    ]
    res = minimize(lambda x: x @ x, [1.0], constraints=cons)
    assert res.status is Status.NON_FINITE
    assert "broken is not finite" in res.message
    assert "fine is" not in res.message
    assert "an x0 at which fun and all constraints are finite" in res.explain()


@pytest.mark.parametrize("status", Status)
def test_every_status_carries_a_message_that_is_a_sentence(status):
    assert status.message[0].isupper()
    assert status.message.endswith(".")
    assert isinstance(status, int)


# -------------------------------------------------------------------------------------------------------------- certify


class TestCertify:
    @pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
    @pytest.mark.parametrize("name", ["HS14", "HS35", "HS43", "HS71", "HS76"])
    def test_solutions_of_other_solvers_pass(self, name, method):
        args = known(name)
        options = (
            {"ftol": 1e-14, "maxiter": 500} if method == "SLSQP" else {"gtol": 1e-10, "xtol": 1e-13, "maxiter": 3000}
        )
        p = hs.get(name)
        if method == "trust-constr":
            args["constraints"] = [NonlinearConstraint(r.fun, r.lower, r.upper, jac=r.jac, hess=r.hess) for r in p.rows]
            args["hess"] = p.hess
        found = scipy.optimize.minimize(**args, method=method, options=options)
        args.pop("hess", None)
        x = args.pop("x0") * 0 + found.x
        check = certify(args.pop("fun"), x, **args)
        assert check.meets(1e-3), str(check)
        np.testing.assert_allclose(x, p.x, atol=1e-3)

    @pytest.mark.parametrize("name", ["HS14", "HS26", "HS43", "HS71", "HS76", "HS113"])
    @pytest.mark.parametrize("exact", [True, False])
    def test_known_solutions_pass_with_their_multipliers_and_with_none(self, name, exact):
        p, args = hs.get(name), known(name, exact)
        args.pop("x0")
        fun = args.pop("fun")
        tol = 1e-8 if exact else 1e-4
        given, fitted = certify(fun, p.x, list(p.multipliers), **args), certify(fun, p.x, **args)
        for check in (given, fitted):
            assert check.meets(tol), str(check)
            assert check.objective == pytest.approx(p.f, rel=1e-9, abs=1e-9)
        if p.unique:
            np.testing.assert_allclose(fitted.multipliers, np.concatenate(p.multipliers), atol=1e-4)
            np.testing.assert_allclose(fitted.bound_multipliers, p.bound_multipliers, atol=1e-4)

    def test_a_point_that_is_feasible_but_not_stationary_fails_by_stationarity(self):
        check = certify(lambda x: x @ x, [0.9, 0.1], constraints={"type": "eq", "fun": lambda x: x.sum() - 1})
        assert not check.meets(1e-2)
        assert check.worst[0] == "stationarity"
        assert check.violation == pytest.approx(0.0, abs=1e-12)
        assert check.stationarity == pytest.approx(0.8 * 2**0.5, abs=1e-5)  # half the gap of (1.8, 0.2), twice

    def test_a_point_that_violates_a_constraint_fails_by_its_name(self):
        cons = [
            {"type": "eq", "fun": lambda x: x[0] - 1, "name": "one"},
            {"type": "ineq", "fun": lambda x: x[1] - 7, "name": "seven"},
        ]
        check = certify(lambda x: 0 * x[0], [1.0, 2.0], constraints=cons)
        assert check.worst == ("seven", pytest.approx(5.0))
        assert check.row_violations == {"seven": pytest.approx(5.0)}
        assert check.violation == pytest.approx(5.0)
        assert not check.meets(1.0)
        assert check.meets(6.0)
        assert "seven" in str(check)

    @pytest.mark.filterwarnings("ignore:the multipliers look like")
    def test_wrong_multipliers_fail_where_right_ones_pass(self):
        p, args = hs.get("HS71"), known("HS71")
        args.pop("x0")
        fun = args.pop("fun")
        for factor in (-1.0, 0.0, 1.1):
            assert not certify(fun, p.x, [factor * y for y in p.multipliers], **args).meets(1e-2)

    def test_a_multiplier_of_the_wrong_sign_fails(self):
        # x = 2 maximises x^2 on x <= 2; its multiplier for the minimum would have to be negative
        check = certify(lambda x: x[0] ** 2, [2.0], [-4.0], constraints=NonlinearConstraint(lambda x: x, -np.inf, 2))
        assert not check.meets(1.0)
        assert not certify(lambda x: x[0] ** 2, [2.0], constraints=NonlinearConstraint(lambda x: x, -np.inf, 2)).meets(
            1
        )

    def test_a_multiplier_at_a_side_that_is_not_touched_is_paid_for(self):
        con = NonlinearConstraint(lambda x: x, -np.inf, 5)
        check = certify(lambda x: -3 * x[0], [2.0], [3.0], constraints=con)
        assert check.residual >= 3.0 - 1e-6
        assert check.worst[0] in ("complementarity", "stationarity")

    def test_a_solution_on_bounds_passes_and_a_wrong_side_fails(self):
        def tilted(x):
            return x[0] - 2 * x[1]

        assert certify(tilted, [0.0, 1.0], bounds=[(0, 1)] * 2).meets(1e-6)
        check = certify(tilted, [1.0, 0.0], bounds=[(0, 1)] * 2)
        assert not check.meets(0.1)
        np.testing.assert_allclose(
            certify(tilted, [0.0, 1.0], bounds=[(0, 1)] * 2).bound_multipliers, [-1, 2], atol=1e-6
        )

    def test_a_nonsmooth_term_counts(self):
        g = auglag.prox.L1(1.0)
        assert certify(lambda x: 0.5 * x[0] ** 2 - 0.5 * x[0], [0.0], g=g).meets(1e-6)
        check = certify(lambda x: 0.5 * x[0] ** 2 - 2 * x[0], [0.0], g=g)
        assert check.stationarity == pytest.approx(1.0, abs=1e-6)

    def test_success_is_the_certificate_and_nothing_else(self):
        for name in ("HS14", "HS43", "HS71"):
            for outer in (1, 3, None):
                args = known(name)
                res = minimize(**args, budget=Budget(outer=outer))
                args.pop("x0")
                check = certify(args.pop("fun"), res.x, res.y, **args)
                assert check.residual == pytest.approx(res.certificate.residual, rel=1e-6, abs=1e-14)
                assert res.success == check.meets(res.tol) == (res.status is Status.SOLVED)


# --------------------------------------------------------------------------------------------------- checkpoint, resume

X0 = [-1.2, 1.0, 0.5, 0.8]


def rosenbrock_grad(x):
    g = np.zeros_like(x)
    g[:-1] = -400 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
    g[1:] += 200 * (x[1:] - x[:-1] ** 2)
    return g


class Slow(PenaltyRule):
    """A user's rule without a repr of its own."""

    def next(self, history):
        return 2.0 * history.k


def case(name, style):
    """Arguments of minimize for one of the runs to be killed."""
    cons = [{"type": "eq", "fun": lambda x: x @ x - 4}, {"type": "ineq", "fun": lambda x: x[0] * x[1] - 0.1}]
    if style == "exact":
        cons[0]["jac"] = lambda x: 2 * x
        cons[1]["jac"] = lambda x: np.array([x[1], x[0], 0.0, 0.0])
    return {"fun": rosenbrock, "x0": X0, "jac": rosenbrock_grad if style == "exact" else None, "constraints": cons} | {
        "default": {},
        "alone": {"acceleration": False, "inner": "qp"},
        "first-order": {"inner": "lbfgsb"},
        "explicit": {"slacks": "explicit"},
        "short": {"variant": "adaptive-short", "tol": 1e-4},
        "paper": {"preset": "paper", "tol": 1e-4},
        "panoc": {"inner": "panoc", "g": auglag.prox.L1(0.01)},
        "bounds": {"bounds": [(-3, 1.2)] * 4},
        "own rule": {"penalty": Slow()},
        "infeasible": {"constraints": [*cons, {"type": "eq", "fun": lambda x: x @ x - 5}]},
    }[name]


def facts(res):
    """All of a result that must not depend on whether the run was killed, to the last bit."""
    return {
        "status": res.status.name,
        "nit": [res.nit, res.nit_inner],
        "history": [{k: v.hex() if isinstance(v, float) else v for k, v in row.items()} for row in res.history],
        "x": [v.hex() for v in res.x],
        "y": [v.hex() for v in res.y],
        "z": [v.hex() for v in res.bound_multipliers],
        "fun": res.fun.hex(),
        "penalty": res.penalty.hex(),
        "counts": [res.nfev, res.njev, res.constr_nfev, res.constr_njev],
    }


def after(k, action):
    """A callback that acts at its k-th call; k <= 0 means never."""
    calls = []

    def callback(xk):
        calls.append(1)
        if len(calls) == k:
            action()

    return callback


def child(name, style, path, kill_after, resume):
    """What the processes to be killed, and those that go on from there, run."""
    callback = after(int(kill_after), lambda: os.kill(os.getpid(), signal.SIGKILL))
    res = minimize(**case(name, style), callback=callback, checkpoint=path, resume=path if resume == "yes" else None)
    print(json.dumps(facts(res)))


def execute(*args):
    here = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {here!r}); import test_ends; test_ends.child(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    )


def assert_same(got, expected):
    for field, value in expected.items():
        assert got[field] == value, field


@pytest.mark.parametrize(
    ("name", "style", "kill_after"),
    [("default", "exact", 1), ("alone", "exact", 3), ("first-order", "differences", 5), ("own rule", "exact", 1)],
)
def test_a_killed_run_goes_on_in_a_new_process_bit_for_bit(tmp_path, name, style, kill_after):
    path = tmp_path / "state.npz"
    killed = execute(name, style, path, kill_after, "no")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert killed.stdout == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.npz"]
    resumed = execute(name, style, path, 0, "yes")
    assert resumed.returncode == 0, resumed.stderr
    expected = execute(name, style, tmp_path / "other.npz", 0, "no")
    assert_same(json.loads(resumed.stdout), json.loads(expected.stdout))


class Died(Exception):
    pass


def die():
    raise Died


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("default", "exact"),
        ("default", "differences"),
        ("alone", "exact"),
        ("alone", "differences"),
        ("first-order", "exact"),
        ("explicit", "exact"),
        ("short", "exact"),
        ("paper", "exact"),
        ("panoc", "exact"),
        ("bounds", "differences"),
        ("infeasible", "exact"),
    ],
)
@pytest.mark.parametrize("when", ["first", "third", "last but one", "last"])
def test_a_run_that_died_goes_on_bit_for_bit(tmp_path, name, style, when):
    expected = minimize(**case(name, style), check_derivatives=False)
    assert expected.status is (Status.INFEASIBLE if name == "infeasible" else Status.SOLVED)
    k = {"first": 1, "third": min(3, expected.nit), "last but one": max(1, expected.nit - 1), "last": expected.nit}[
        when
    ]
    path = tmp_path / "state.npz"
    with pytest.raises(Died):
        minimize(**case(name, style), check_derivatives=False, checkpoint=path, callback=after(k, die))
    got, wanted = facts(minimize(**case(name, style), check_derivatives=False, resume=path)), facts(expected)
    got.pop("counts")
    wanted.pop("counts")
    assert_same(got, wanted)


@pytest.mark.parametrize("style", ["exact", "differences"])
@pytest.mark.parametrize(("name", "k"), [("default", 1), ("alone", 3), ("first-order", 3)])
def test_a_resumed_run_reports_the_calls_of_the_whole_run(tmp_path, name, k, style):
    expected = minimize(**case(name, style), check_derivatives=False)
    path = tmp_path / "state.npz"
    with pytest.raises(Died):
        minimize(**case(name, style), check_derivatives=False, checkpoint=path, callback=after(k, die))
    resumed = minimize(**case(name, style), check_derivatives=False, resume=path)
    assert facts(resumed)["counts"] == facts(expected)["counts"]


def test_a_run_killed_twice_goes_on_bit_for_bit(tmp_path):
    args = {
        "fun": rosenbrock,
        "x0": [-1.2, 1.0, 0.5],
        "constraints": {"type": "eq", "fun": lambda x: x @ x - 4},
        "acceleration": False,
    }

    expected = minimize(**args)
    path = tmp_path / "state.npz"
    with pytest.raises(Died):
        minimize(**args, checkpoint=path, callback=after(1, die))
    with pytest.raises(Died):
        minimize(**args, checkpoint=path, resume=path, callback=after(2, die))
    res = minimize(**args, resume=path)
    assert res.x.tobytes() == expected.x.tobytes()
    assert res.y.tobytes() == expected.y.tobytes()
    assert res.history == expected.history


def test_a_limited_run_can_be_resumed_with_a_larger_budget(tmp_path):
    path = tmp_path / "state.npz"
    expected = minimize(**slowly("HS71"))
    minimize(**slowly("HS71"), checkpoint=path, budget=Budget(outer=2))
    res = minimize(**slowly("HS71"), resume=path)
    assert res.success
    assert res.x.tobytes() == expected.x.tobytes()
    assert res.history == expected.history


def test_time_already_spent_counts_after_a_resume(tmp_path):
    path = tmp_path / "state.npz"

    def slow(x):
        time.sleep(0.002)
        return rosenbrock(x)

    args = {"fun": slow, "x0": np.full(3, -1.2), "constraints": {"type": "eq", "fun": lambda x: x @ x - 4}}
    args["acceleration"] = False
    first = minimize(**args, checkpoint=path, budget=Budget(outer=2))
    res = minimize(**args, resume=path, budget=Budget(outer=3))
    assert res.seconds > first.seconds


def test_a_checkpoint_is_a_plain_archive_without_pickle(tmp_path):
    path = tmp_path / "state.npz"
    minimize(**slowly("HS71"), checkpoint=path)
    with np.load(path, allow_pickle=False) as data:
        meta = json.loads(str(data["meta"]))
        assert {"x", "y", "best_x", "best_y"} <= set(data.files)
    assert len(meta["iterations"]) > 1
    assert b"pickle" not in path.read_bytes()


def test_reading_a_checkpoint_never_runs_what_a_pickle_says(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    path = tmp_path / "state.npz"
    np.savez(path, meta=np.array([Bomb()], dtype=object))
    with pytest.raises(auglag.CheckpointError, match="is not a usable checkpoint"):
        minimize(**known("HS71"), resume=path)
    assert not (tmp_path / "exploded").exists()
