"""Calls through scipy.optimize.minimize and with its arguments; callbacks as SciPy has them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds

import auglag
from auglag import Budget, Status, minimize
from helpers.hs14 import EQ, EQ_HESS, INEQ, START, assert_hs14, fun, grad

# --------------------------------------------------------------------------------------------- scipy.optimize.minimize


def through_scipy(*args, **kwargs):
    return scipy.optimize.minimize(*args, method=auglag.scipy_method, **kwargs)


def test_scipy_takes_the_method_with_everything_it_passes():
    res = through_scipy(
        lambda x, a, b: (x[0] - a) ** 2 + (x[1] - b) ** 2,
        START,
        args=(2.0, 1.0),
        jac=lambda x, a, b: np.array([2 * (x[0] - a), 2 * (x[1] - b)]),
        hess=lambda x, a, b: 2 * np.eye(2),
        bounds=Bounds(-10, 10),
        constraints=[EQ, INEQ],
        tol=1e-8,
        callback=lambda xk: None,
        options={"maxiter": 50, "maxfev": 5000, "disp": False, "variant": "always-full", "slacks": "explicit"},
    )
    assert isinstance(res, auglag.Result)
    assert_hs14(res)
    assert res.tol == 1e-8
    assert "Always" in res.variant


@pytest.mark.parametrize("jac", [None, True, False, "2-point", "3-point", "cs", grad])
def test_scipy_passes_every_kind_of_jac(jac):
    objective = (lambda x: (fun(x), grad(x))) if jac is True else fun
    assert_hs14(through_scipy(objective, START, jac=jac, constraints=[EQ, INEQ]))


@pytest.mark.parametrize("bounds", [[(-5, 5), (None, 9)], Bounds([-5, -np.inf], [5, 9]), None])
def test_scipy_passes_every_kind_of_bounds(bounds):
    assert_hs14(through_scipy(fun, START, bounds=bounds, constraints=[EQ, INEQ]))


def test_scipy_passes_hessp():
    res = through_scipy(
        fun, START, jac=grad, hessp=lambda x, p: 2 * p, constraints=EQ_HESS, options={"inner": "newton-cg"}
    )
    assert res.success
    assert res.nhev > 0


def test_scipy_with_default_tolerance_and_without_constraints():
    res = through_scipy(fun, START)
    assert res.success
    assert res.tol == 1e-6
    np.testing.assert_allclose(res.x, [2, 1], atol=1e-6)


def test_scipy_passes_both_callback_signatures():
    points, results = [], []

    def intermediate(intermediate_result):
        results.append(intermediate_result)

    plain = through_scipy(fun, START, constraints=[EQ, INEQ], callback=points.append)
    assert_hs14(plain)
    assert len(points) >= plain.nit
    assert not any(np.array_equal(a, b) for a, b in pairwise(points))  # no point is shown twice
    assert all(isinstance(x, np.ndarray) and x.shape == (2,) for x in points)
    full = through_scipy(fun, START, constraints=[EQ, INEQ], callback=intermediate)
    assert [r.nit for r in results if r.kind == "outer"] == list(range(1, full.nit + 1))
    assert all(isinstance(r, scipy.optimize.OptimizeResult) for r in results)
    assert {tuple(r.x) for r in results} == {tuple(x) for x in points}


def test_scipy_options_limit_the_run():
    options = {"maxiter": 1, "acceleration": False}
    assert through_scipy(fun, START, constraints=[EQ, INEQ], options=options).status is Status.ITERATION_LIMIT
    res = through_scipy(fun, START, constraints=[EQ, INEQ], options={"maxfev": 10})
    assert res.status is Status.EVALUATION_LIMIT


def test_scipy_options_print_on_demand(capsys):
    through_scipy(fun, START, constraints=[EQ, INEQ], options={"disp": True})
    assert "violation" in capsys.readouterr().out


def test_unknown_scipy_options_raise_with_a_hint():
    with pytest.raises(auglag.OptionError, match=r"no option 'maxitr'; did you mean 'maxiter'\?"):
        through_scipy(fun, START, options={"maxitr": 5})
    with pytest.raises(auglag.OptionError, match=r"no option 'gtol': write tol="):
        through_scipy(fun, START, options={"gtol": 1e-5})
    with pytest.raises(auglag.OptionError, match=r"no option 'variants'; did you mean 'variant'\?"):
        through_scipy(fun, START, options={"variants": "adaptive-full"})


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ({"options": {"maxiter": 5}}, r"no argument 'options': pass each option as a keyword, maxiter=5 as budget="),
        ({"method": "SLSQP"}, r"no argument 'method': there is one method"),
        ({"maxiter": 5}, r"no argument 'maxiter': write budget=Budget\(outer="),
        ({"disp": True}, r"no argument 'disp': write progress=True"),
    ],
)
def test_arguments_of_scipy_that_do_not_exist_here_are_translated(argument, hint):
    with pytest.raises(auglag.OptionError, match=hint):
        minimize(fun, START, **argument)


def test_tol_none_and_callbacks_of_trust_constr_work_as_in_scipy():
    seen = []

    def callback(xk, state):
        if state.kind == "outer":
            seen.append((xk.copy(), state.nit))
        return len(seen) == 3

    res = minimize(fun, START, constraints=[EQ, INEQ], tol=None, callback=callback, acceleration=False)
    assert res.status is auglag.Status.STOPPED
    assert [nit for _, nit in seen] == [1, 2, 3]
    assert minimize(fun, START, constraints=[EQ, INEQ], tol=None).tol == 1e-6


def test_a_scipy_result_warm_starts_by_its_point_alone_and_can_be_certified_whole():
    from scipy.optimize import minimize as scipy_minimize

    slsqp = scipy_minimize(fun, START, jac=grad, constraints=[EQ, INEQ], method="SLSQP", options={"ftol": 1e-14})
    assert auglag.certify(fun, slsqp, jac=grad, constraints=[EQ, INEQ]).meets(1e-5)
    res = minimize(fun, warm_start=slsqp, jac=grad, constraints=[EQ, INEQ])
    assert res.success
    with pytest.warns(UserWarning, match="pass -multipliers"):
        auglag.certify(fun, res.x, [-y for y in res.multipliers], jac=grad, constraints=[EQ, INEQ])


def test_certify_without_derivatives_confirms_what_minimize_certified():
    denied = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, b, c = rng.standard_normal((4, 4)), rng.standard_normal(4), rng.standard_normal(4)

        def objective(x, a=a, b=b):
            return np.exp(0.3 * np.sin(a @ x).sum()) + (x - b) @ (x - b)

        con = {"type": "eq", "fun": lambda x, c=c: c @ x + 0.1 * x @ x - 1}
        res = minimize(objective, np.zeros(4), constraints=con)
        denied += res.success and not auglag.certify(objective, res.x, constraints=con).meets(1e-6)
    assert denied == 0


def test_a_result_shows_its_methods_and_prints_in_a_screen():
    res = minimize(fun, START, constraints=[EQ, INEQ])
    assert {"explain", "multipliers_as", "violations", "x", "certificate"} <= set(dir(res))
    assert len(str(res)) < 4000
    assert max(map(len, str(res).splitlines())) < 300


def test_comparisons_instead_of_differences_are_refused():
    with pytest.raises(auglag.InputError, match="got booleans: return a difference, not a comparison"):
        minimize(fun, START, constraints={"type": "ineq", "fun": lambda x: x @ x < 1.5})


def test_a_prox_that_is_not_the_prox_of_its_value_is_refused():
    class Forgetful:
        def value(self, x):
            return np.abs(x).sum()

        def prox(self, x, step):
            return np.sign(x) * np.maximum(np.abs(x) - 1.0, 0.0)  # the step is missing

    with pytest.raises(auglag.InputError, match="does prox use its step"):
        minimize(fun, START, g=Forgetful(), constraints=[EQ])


def test_a_gradient_that_is_wrong_away_from_x0_is_found_when_the_run_is_stuck():
    res = minimize(
        lambda x: np.sum((x - 1) ** 2),
        [1.0, 3.0],
        jac=lambda x: np.array([3 * (x[0] - 1), 2 * (x[1] - 1)]),
        constraints={"type": "ineq", "fun": lambda x: 1.5 - x @ x, "jac": lambda x: -2 * x},
        inner="lbfgsb",  # by models the run ends where the wrong gradient meets the conditions
    )
    assert not res.success
    assert "entry 0 of the gradient" in res.explain()


def test_a_budget_beside_maxiter_is_a_conflict():
    with pytest.raises(auglag.InputError, match=r"options\['budget'\] already limits the run"):
        through_scipy(fun, START, options={"maxiter": 5, "budget": Budget(outer=3)})


# ------------------------------------------------------------------------------------------------------------ callbacks


def test_the_callback_sees_each_accepted_iteration_once_with_its_numbers():
    rows = []

    def callback(intermediate_result):
        if intermediate_result.kind == "outer":
            rows.append(intermediate_result)

    res = minimize(fun, START, jac=grad, constraints=[EQ, INEQ], callback=callback)
    assert len(rows) == res.nit
    for row, history in zip(rows, res.history, strict=True):
        assert row.fun == pytest.approx(fun(row.x))
        assert row.residual == history["residual"]
        assert row.penalty == history["beta"]
        assert row.multipliers.shape == (2,)
        check = auglag.certify(fun, row.x, row.multipliers, jac=grad, constraints=[EQ, INEQ])
        assert check.residual <= history["residual"] * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("options", [{}, {"acceleration": False}, {"inner": "lbfgsb"}, {"inner": "panoc"}], ids=str)
def test_listening_changes_neither_steps_nor_evaluations(options):
    alone = minimize(fun, START, constraints=[EQ, INEQ], **options)
    rows = []

    def callback(intermediate_result):
        rows.append(intermediate_result)

    heard = minimize(fun, START, constraints=[EQ, INEQ], callback=callback, **options)
    assert heard.x.tobytes() == alone.x.tobytes()
    assert (heard.nfev, heard.njev, heard.constr_nfev, heard.nit) == (
        alone.nfev,
        alone.njev,
        alone.constr_nfev,
        alone.nit,
    )
    assert heard.steps == alone.steps
    assert [row.kind for row in rows] == [step.kind for step in alone.steps]
    for row in rows:
        assert row.fun == pytest.approx(fun(row.x))
        assert row.multipliers.shape == (2,)


def test_a_callback_that_writes_into_its_point_does_no_harm():
    def vandal(xk):
        xk[:] = np.nan

    assert_hs14(minimize(fun, START, jac=grad, constraints=[EQ, INEQ], callback=vandal))


def test_a_list_as_args_of_a_constraint_is_unpacked_as_in_slsqp():
    con = {"type": "eq", "fun": lambda x, a, b: a * x[0] + b * x[1] - 1, "args": [1.0, 2.0]}
    ours = through_scipy(fun, START, constraints=con)
    slsqp = scipy.optimize.minimize(fun, START, constraints=con, method="SLSQP")
    np.testing.assert_allclose(ours.x, slsqp.x, atol=1e-5)


@pytest.mark.parametrize("maxiter", [100, 100.0, np.float64(100), np.int64(100)])
def test_whole_numbers_of_any_type_limit_the_run(maxiter):
    assert_hs14(through_scipy(fun, START, constraints=[EQ, INEQ], options={"maxiter": maxiter, "maxfev": 1e4}))


@pytest.mark.parametrize("maxiter", [0, 0.0, 1.5, -1, np.nan, np.inf, "3", True])
def test_other_limits_are_refused(maxiter):
    with pytest.raises(auglag.InputError, match=r"options\['maxiter'\] must be a positive integer"):
        through_scipy(fun, START, options={"maxiter": maxiter})


@pytest.mark.parametrize("truth", [bool, np.bool_, lambda near: np.array(near)])
def test_true_in_any_form_ends_a_run_and_a_count_does_not(truth):
    start, rosen = [-1.2, 1.0], scipy.optimize.rosen
    assert minimize(rosen, start, callback=lambda x: truth(np.linalg.norm(x - 1) < 1)).status is Status.STOPPED
    assert minimize(rosen, start, callback=lambda x: 1).success
