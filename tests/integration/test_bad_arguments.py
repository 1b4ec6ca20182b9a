"""Odd arguments of `minimize` and `certify` work, or get an error that names the argument, the demand and the value."""

from __future__ import annotations

import re
from typing import ClassVar

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, NonlinearConstraint

import auglag
from auglag import Budget, CheckpointError, InputError, OptionError, minimize
from auglag.algorithm.rules import PenaltyRule, ToleranceRule
from helpers.line_problem import LINE, SOLUTION, X0, assert_solved, refused, solve, square, square_grad

# ----------------------------------------------------------------------------------------------- arguments of minimize


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("constraint", "constraints"),
        ("bound", "bounds"),
        ("toll", "tol"),
        ("call_back", "callback"),
        ("penalties", "penalty"),
        ("warmstart", "warm_start"),
        ("check_derivative", "check_derivatives"),
        ("presets", "preset"),
        ("inner_solver", "inner"),
    ],
)
def test_an_unknown_argument_gets_the_nearest_name_as_a_hint(name, hint):
    refused(rf"minimize\(\) has no argument '{name}'; did you mean '{hint}'\?", error=OptionError, **{name: 1})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: auglag.Problem(square, X0, constrants=()),
            "Problem() has no argument 'constrants'; did you mean 'constraints'?",
        ),
        (lambda: auglag.certify(square, X0, bound=None), "certify() has no argument 'bound'; did you mean 'bounds'?"),
        (lambda: Budget(second=1.0), "Budget() has no argument 'second'; did you mean 'seconds'?"),
        (lambda: auglag.JsonLog("log", apend=True), "JsonLog() has no argument 'apend'; did you mean 'append'?"),
    ],
)
def test_everything_public_with_keywords_names_the_nearest(make, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        make()


def test_an_unknown_argument_with_no_near_name_gets_the_list():
    refused(r"minimize\(\) has no argument 'zzzzzz'; known: .*bounds.*warm_start", error=OptionError, zzzzzz=1)


@pytest.mark.parametrize("tol", [0, 0.0, -1e-6, np.nan, np.inf, "1e-6", 1e-6j, True])
def test_a_tolerance_that_is_no_positive_number_is_refused(tol):
    refused(rf"tol must be positive and finite, got {re.escape(repr(tol))}", tol=tol)


@pytest.mark.parametrize("tol", [1, 1e-3, np.float64(1e-6), np.float32(1e-4), np.int64(1)])
def test_any_positive_number_is_a_tolerance(tol):
    res = solve(tol=tol)
    assert res.success
    assert res.certificate.residual <= tol


def test_a_tolerance_below_rounding_is_no_false_success():
    res = minimize(lambda x: np.exp(x[0]) + square(x), [0.3, 0.2], constraints=LINE, tol=1e-30)
    assert res.success == (res.certificate.residual <= 1e-30)
    assert res.certificate.residual < 1e-5


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        ({"variant": "adaptive"}, OptionError, r"variant must be one of the known names, got 'adaptive'; did you mean"),
        ({"variant": 3}, OptionError, r"variant must be one of the known names, got 3; known: adaptive-full"),
        (
            {"preset": "papers"},
            OptionError,
            r"preset must be one of the known names, got 'papers'; did you mean 'paper'",
        ),
        ({"preset": 1}, OptionError, r"preset must be one of the known names, got 1; known: "),
        ({"preset": ""}, OptionError, r"preset must be one of the known names, got ''"),
        ({"penalty": "adaptiv"}, OptionError, r"penalty must be .*got 'adaptiv'; did you mean 'adaptive'\?"),
        ({"penalty": 10.0}, InputError, r"penalty must be .*got 10.0"),
        ({"penalty": auglag.Adaptive}, InputError, r"penalty must be .*got the class Adaptive: write Adaptive\(\)"),
        ({"dual": "ful"}, OptionError, r"dual must be .*got 'ful'; did you mean 'full'\?"),
        ({"dual": auglag.Short}, InputError, r"dual must be .*got the class Short"),
        ({"tolerance": 1e-3}, InputError, r"tolerance must be a ToleranceRule object .*got 0.001"),
        ({"inner": "l-bfgs-b"}, OptionError, r"inner must be .*got 'l-bfgs-b'; did you mean 'lbfgsb'\?"),
        ({"inner": auglag.LBFGSB}, OptionError, r"inner must be .*got <class"),
        ({"slacks": "open"}, InputError, r"slacks must be 'closed' or 'explicit', got 'open'"),
        ({"scaling": 1}, InputError, r"scaling must be True or False, got 1"),
        ({"scaling": "yes"}, InputError, r"scaling must be True or False, got 'yes'"),
        ({"restoration": "no"}, InputError, r"restoration must be True or False, got 'no'"),
        ({"budget": 100}, InputError, r"budget must be an auglag.Budget, got 100"),
        ({"budget": {"outer": 3}}, InputError, r"budget must be an auglag.Budget, got \{'outer': 3\}"),
        ({"callback": 3}, InputError, r"callback must be callable, got 3"),
        ({"check_derivatives": "always"}, InputError, r"check_derivatives must be 'first' or False, got 'always'"),
        ({"check_derivatives": None}, InputError, r"check_derivatives must be 'first' or False, got None"),
        ({"progress": "yes"}, InputError, r"progress must be True, False or 'outer', got 'yes'"),
        ({"g": 3}, InputError, r"g must be a prox term or have methods value\(x\) and prox\(x, step\), got 3"),
        ({"g": auglag.prox.L1}, InputError, r"g must be an instance of a prox term, got the class L1"),
        ({"checkpoint": 3}, (InputError, CheckpointError), r"checkpoint must be a path.*got 3"),
        ({"resume": 3}, (InputError, CheckpointError), r"resume must .*got 3"),
        (
            {"checkpoint": "/no/such/folder/run.npz"},
            (InputError, CheckpointError),
            r"checkpoint must .*'?/no/such/folder",
        ),
        ({"jac": None, "finite_diff_rel_step": [1e-6] * 3}, InputError, r"rel_step must be a finite number or one for"),
        ({"jac": None, "finite_diff_rel_step": np.nan}, InputError, r"rel_step must be a finite number or one for"),
    ],
)
def test_a_keyword_of_the_wrong_type_is_named_with_its_value(kwargs, error, match):
    refused(match, error=error, **kwargs)


@pytest.mark.parametrize(
    "kwargs", [{"penalty": "always"}, {"dual": "short"}, {"penalty": auglag.Adaptive(), "dual": auglag.Full()}]
)
def test_a_variant_beside_a_rule_of_its_own_is_a_conflict(kwargs):
    refused(r"variant already names the penalty and the dual rule", variant="adaptive-full", **kwargs)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: auglag.Adaptive(tau=1.5), r"Adaptive.tau must lie in \(0, 1\), got 1.5"),
        (lambda: auglag.Adaptive(tau=np.nan), r"Adaptive.tau must lie in \(0, 1\), got nan"),
        (lambda: auglag.Adaptive(gamma=1), r"Adaptive.gamma must be finite and greater than 1, got 1"),
        (lambda: auglag.Adaptive(initial=0), r"Adaptive.initial must be positive and finite, got 0"),
        (lambda: auglag.Adaptive(initial="big"), r"Adaptive.initial must be .*got '?big"),
        (lambda: auglag.Always(gamma=np.inf), r"Always.gamma must be finite and greater than 1, got inf"),
        (lambda: auglag.Always(initial=-1), r"Always.initial must be positive and finite, got -1"),
        (lambda: auglag.FromScale(lowest=2, highest=1), r"FromScale.highest must be finite and at least lowest, got 1"),
        (lambda: auglag.Full(y_max=0), r"Full.y_max must be positive and finite, got 0"),
        (lambda: auglag.Full(ball="l1"), r"Full.ball must be 'box' or 'l2', got 'l1'"),
        (lambda: auglag.Geometric(ratio=1), r"Geometric.ratio must lie in \(0, 1\), got 1"),
        (lambda: auglag.PowerLaw(power=0), r"PowerLaw.power must be positive and finite, got 0"),
        (lambda: auglag.LBFGSB(memory=0), r"LBFGSB.memory must be a positive integer, got 0"),
        (lambda: auglag.NewtonCG(max_cg=1.5), r"NewtonCG.max_cg must be a positive integer, got 1.5"),
        (lambda: Budget(seconds=0), r"Budget.seconds must be positive or None, got 0"),
        (lambda: Budget(seconds=-1.0), r"Budget.seconds must be positive or None, got -1.0"),
        (lambda: Budget(seconds=np.nan), r"Budget.seconds must be positive or None, got nan"),
        (lambda: Budget(seconds="a minute"), r"Budget.seconds must be .*got 'a minute'"),
        (lambda: Budget(evaluations=0), r"Budget.evaluations must be a positive integer or None, got 0"),
        (lambda: Budget(evaluations=1e3), r"Budget.evaluations must be a positive integer or None, got 1000.0"),
        (lambda: Budget(outer=-1), r"Budget.outer must be a positive integer or None, got -1"),
        (lambda: Budget(outer=True), r"Budget.outer must be a positive integer or None, got True"),
        (lambda: Budget(inner="many"), r"Budget.inner must be a positive integer or None, got 'many'"),
    ],
)
def test_rules_solvers_and_budgets_are_checked_when_they_are_made(make, match):
    with pytest.raises(InputError, match=match):
        make()


def test_a_budget_without_limits_is_a_budget():
    assert_solved(solve(budget=Budget(seconds=None, evaluations=None, outer=None, inner=None)))


@pytest.mark.parametrize("beta", [0.0, -1.0, np.nan, np.inf, None, "ten"])
def test_a_users_rule_with_a_senseless_penalty_is_named(beta):
    class Senseless(PenaltyRule):
        def next(self, history):
            return beta

    refused(r"Senseless.*must.*positive.*got", penalty=Senseless())


@pytest.mark.parametrize("eta", [-1.0, np.nan])
def test_a_users_tolerance_rule_with_a_senseless_value_is_named(eta):
    class Senseless(ToleranceRule):
        def next(self, history):
            return eta

    refused(r"Senseless.*must.*positive.*got", tolerance=Senseless())


# ---------------------------------------------------------------------------------------------- g, bounds, inner solver


@pytest.mark.parametrize(
    "g", [auglag.prox.L2Ball(), auglag.prox.Simplex(), auglag.prox.GroupL2([[0, 1]], 1.0), auglag.prox.LinfNorm()]
)
def test_bounds_beside_a_term_that_is_not_separable_are_refused_with_the_reason(g):
    refused(
        rf"bounds and g={type(g).__name__} cannot be combined: .* only when g is separable", g=g, bounds=[(0, 1)] * 2
    )


def test_bounds_beside_a_separable_term_combine():
    res = minimize(lambda x: square(x - [2, -0.1]), X0, g=auglag.prox.L1(1.0), bounds=[(None, 1.2), (None, None)])
    assert_solved(res, [1.2, 0.0])
    np.testing.assert_allclose(res.bound_multipliers, [0.6, 0.0], atol=1e-5)


def test_bounds_and_a_term_that_have_no_point_in_common_are_refused():
    refused(r"(?s)(bounds|Box|lower|upper).*", g=auglag.prox.NonNegative(), bounds=[(-2, -1), (0, 1)])


def test_a_term_for_another_number_of_variables_is_refused():
    refused(r"L1\.\w+ must have 2 entries, one per variable, got 3", g=auglag.prox.L1([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("inner", ["lbfgsb", "newton-cg", auglag.LBFGSB(memory=5)])
def test_an_inner_solver_that_cannot_take_g_refuses_and_names_one_that_can(inner):
    refused(r"handles bounds but not g=L1; inner='panoc' handles any prox term", g=auglag.prox.L1(), inner=inner)


def test_newton_refuses_without_second_derivatives_and_with_kinks():
    refused(r"inner='newton-cg' needs hess or hessp for fun and hess for every nonlinear constraint", inner="newton-cg")
    refused(
        r"inner='newton-cg' needs a twice differentiable subproblem.*slacks='explicit'",
        inner="newton-cg",
        hess=lambda x: 2 * np.eye(2),
        constraints=LinearConstraint([[1, 1]], 1, np.inf),
    )


def test_a_prox_of_the_wrong_shape_is_named():
    class Bent:
        def value(self, x):
            return 0.0

        def prox(self, x, step):
            return np.zeros(3)

    refused(r"Custom.prox must return an array of shape \(2,\), got shape \(3,\)", g=Bent())


@pytest.mark.parametrize(
    ("hess", "args", "message"),
    [
        (lambda z: 2 * np.eye(2), (), r"signature hess\(x, v\), .* got the arguments \(z\)"),
        (lambda z, v: 2 * np.eye(2), (1.0,), r"signature hess\(x, v, \*args\), .* got the arguments \(z, v\)"),
    ],
)
def test_the_hessian_of_a_constraint_without_weights_is_refused_with_the_signature(hess, args, message):
    circle = {"type": "eq", "fun": lambda x, *a: x @ x - 1, "jac": lambda x, *a: 2 * x, "hess": hess, "args": args}
    refused(rf"constraints\[0\]\['hess'\] must have the {message}", constraints=circle)
    if not args:
        row = NonlinearConstraint(circle["fun"], 1, 1, jac=circle["jac"], hess=hess)
        refused(rf"constraints\[0\]\.hess must have the {message}", constraints=row)


@pytest.mark.parametrize("hess", [lambda x, v: v[0] * 2 * np.eye(2), lambda *both: both[1][0] * 2 * np.eye(2)])
def test_the_hessian_of_a_constraint_may_name_its_arguments_as_it_likes(hess):
    circle = {"type": "ineq", "fun": lambda x: 1 - x @ x, "jac": lambda x: -2 * x, "hess": lambda *z: -hess(*z)}
    assert minimize(square, X0, jac=square_grad, constraints=circle).success


# ---------------------------------------------------------------------------------------------------- problem objects


def test_a_problem_object_takes_no_second_statement_beside_it():
    problem = auglag.Problem(square, X0, constraints=LINE)
    for name, value in {
        "jac": square_grad,
        "hess": lambda x: np.eye(2),
        "hessp": lambda x, p: p,
        "bounds": [(0, 1)] * 2,
        "constraints": LINE,
        "g": auglag.prox.L1(),
    }.items():
        with pytest.raises(InputError, match=rf"{name} must not be given beside a problem object"):
            minimize(problem, **{name: value})


@pytest.mark.parametrize(("name", "value"), [("args", (1.0,)), ("finite_diff_rel_step", 1e-3)])
def test_what_a_problem_object_cannot_take_is_not_silently_ignored(name, value):
    problem = auglag.Problem(square, X0, constraints=LINE)
    with pytest.raises(InputError, match=rf"{name} must not be given beside a problem object"):
        minimize(problem, **{name: value})


@pytest.mark.parametrize("x0", [range(3, 5), np.array([3.0, 4.0]), [3, 4], (3.0, 4.0)])
def test_a_start_beside_a_problem_object_is_used(x0):
    seen = []
    problem = auglag.Problem(lambda x: seen.append(x) or square(x), X0, constraints=LINE)
    seen.clear()
    assert_solved(minimize(problem, x0))
    np.testing.assert_array_equal(seen[0], [3, 4])


def test_a_start_of_the_wrong_length_beside_a_problem_object_is_refused():
    with pytest.raises(InputError, match=r"x0 must have 2 entries, got 3"):
        minimize(auglag.Problem(square, X0, constraints=LINE), [1, 2, 3])


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"fun_and_con": 3}, r"fun_and_con must be callable, got 3"),
        ({"fun_and_con": lambda x: 3.0}, r"fun_and_con\(x\) must return \(f, c\), got float"),
        ({"fun_and_con": lambda x: ([1, 2], 0)}, r"fun_and_con\(x\)\[0\] must return a number, got an array of shape"),
        ({"fun_and_con": lambda x: (1, 1j)}, r"fun_and_con\(x\)\[1\] must be real, got complex"),
        ({"fun_and_con": lambda x: (1, x), "fun": square}, r"fun_and_con replaces fun and constraints"),
        ({"fun_and_con": lambda x: (1, x), "constraints": LINE}, r"fun_and_con replaces fun and constraints"),
        ({"fun_and_con": lambda x: (1, x), "con_lower": [1, 2, 3]}, r"con_lower.* must be a number or have 2 entries"),
        ({"fun_and_con": lambda x: (1, x), "con_lower": 2.0}, r"con_lower.*lb must be at most ub.*got 2.0 > 0.0"),
        ({"fun_and_con": lambda x: (1, x), "jac": lambda x: x}, r"jac\(x\) must return \(grad f, Jacobian of c\), got"),
        (
            {"fun_and_con": lambda x: (1, x), "jac": lambda x: (x, np.ones((3, 2)))},
            r"jac\(x\)\[1\] must have shape \(2, 2\), got \(3, 2\)",
        ),
    ],
)
def test_a_bad_simulation_is_named(kwargs, match):
    with pytest.raises(InputError, match=match):
        minimize(auglag.Problem(x0=X0, **kwargs))


# ---------------------------------------------------------------------------------------------------------- warm start


@pytest.mark.parametrize(
    ("warm", "match"),
    [
        (5, r"warm_start must be a Result, a mapping with x, multipliers and penalty, or a tuple of .*three, got int"),
        ([0.5, 0.5], r"warm_start must be a Result, a mapping .* got list"),
        ((np.zeros(2),), r"warm_start must be a Result, a mapping .* got tuple"),
        ({"multipliers": [1.0]}, r"warm_start must have an 'x', got the keys \['multipliers'\]"),
        ({"x": [1.0, 2.0, 3.0]}, r"warm_start: x must have 2 entries, got 3"),
        ({"x": [1.0, np.nan]}, r"(x0|warm_start: x) must be finite, got nan in entry 1"),
        (
            {"x": [1.0, 2.0], "multipliers": [1.0, 2.0]},
            r"warm_start: multipliers must have 1 entries, one per constraint row, got 2",
        ),
        ({"x": [1.0, 2.0], "multipliers": [np.nan]}, r"warm_start: multipliers must be finite, got NaN"),
        ({"x": [1.0, 2.0], "multipliers": ["a"]}, r"warm_start: multipliers must be an array of numbers, got 'a'"),
        ({"x": [1.0, 2.0], "penalty": 0}, r"warm_start: penalty must be positive and finite, got 0"),
        ({"x": [1.0, 2.0], "penalty": np.nan}, r"warm_start: penalty must be positive and finite, got nan"),
        ({"x": [1.0, 2.0], "penalty": "big"}, r"warm_start: penalty must be .*got '?big"),
    ],
)
def test_a_warm_start_of_the_wrong_kind_or_shape_is_named(warm, match):
    refused(match, warm_start=warm)


def test_a_warm_start_from_another_solvers_result_works():
    from scipy.optimize import minimize as scipy_minimize

    other = scipy_minimize(square, X0, constraints=LINE, method="SLSQP")
    assert_solved(solve(warm_start={"x": other.x}))
    assert_solved(solve(warm_start=(other.x, None, None)))


# ------------------------------------------------------------------------------------------------------------- certify


class TestCertify:
    arguments: ClassVar = {"jac": square_grad, "constraints": LINE}

    @pytest.mark.parametrize(
        ("x", "match"),
        [
            (None, r"^x must be given"),
            ([], r"^x must have at least one entry"),
            ([0.5, np.nan], r"^x must be finite, got nan in entry 1"),
            ([[0.5, 0.5]], r"^x must be a vector"),
        ],
    )
    def test_a_bad_point_is_named_x(self, x, match):
        with pytest.raises(InputError, match=match):
            auglag.certify(square, x, **self.arguments)

    def test_a_point_of_the_wrong_length_for_a_problem_object_is_named_x(self):
        with pytest.raises(InputError, match=r"^x must have 2 entries, got 3"):
            auglag.certify(auglag.Problem(square, X0, **self.arguments), [1, 2, 3])

    def test_multipliers_of_the_wrong_length_are_named(self):
        with pytest.raises(InputError, match=r"multipliers must have 1 entries, one per constraint row, got 3"):
            auglag.certify(square, SOLUTION, [1, 2, 3], **self.arguments)

    @pytest.mark.parametrize("tol", [0, -1, np.nan, np.inf])
    def test_meets_takes_positive_tolerances_only(self, tol):
        with pytest.raises(InputError, match=r"tol must be positive and finite, got"):
            auglag.certify(square, SOLUTION, **self.arguments).meets(tol)

    def test_a_point_with_an_infinite_jacobian_is_judged_and_not_crashed_on(self):
        con = {
            "type": "ineq",
            "fun": lambda x: np.sqrt(x[0]),
            "jac": lambda x: np.array([np.inf if x[0] == 0 else 0.5 / np.sqrt(x[0]), 0.0]),
        }
        assert not auglag.certify(square, [0.0, 0.5], jac=square_grad, constraints=con).meets(1e-6)

    def test_a_point_where_the_objective_is_nan_meets_nothing(self):
        assert not auglag.certify(lambda x: np.nan, SOLUTION, jac=square_grad, constraints=LINE).meets(1e6)

    @pytest.mark.parametrize("jac", [square_grad, None, "3-point"])
    def test_a_point_outside_the_bounds_is_judged_by_how_far(self, jac):
        check = auglag.certify(square, [-1.0, 0.5], jac=jac, bounds=[(0, 1), (0, 1)])
        assert check.violation == pytest.approx(1.0)
        assert check.row_violations == {"bounds": pytest.approx(1.0)}
        assert not check.meets(0.5)
