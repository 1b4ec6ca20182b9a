"""`certify`: right points pass, wrong points, multipliers and signs fail, and success is its verdict."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import NonlinearConstraint

import auglag
from auglag import Budget, Status, certify, minimize
from auglag.problems import hock_schittkowski as hs
from helpers.runs import known


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


def test_what_is_left_of_an_error_at_zero_is_no_unit_of_the_variables():
    # A point as solvers return it for a solution at the origin, where f is 1.
    rows = [{"type": "ineq", "fun": lambda x: x[1] ** 2 - x[0]}, {"type": "ineq", "fun": lambda x: x[0] ** 2 - x[1]}]
    check = auglag.certify(
        lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2,
        [1.3e-8, -6.5e-11],
        bounds=[(-2, 0.5), (None, 1)],
        constraints=rows,
    )
    assert check.meets(1e-6)


def test_small_variables_are_still_judged_in_their_own_units():
    # Lengths in metres where nanometres would be natural; the second point is twice as long as the solution.
    def fun(x):
        return 1e9 * (x[0] + 1e-18 / x[0])

    assert auglag.certify(fun, [1e-9], jac=lambda x: 1e9 * (1 - 1e-18 / x**2)).meets(1e-6)
    scaled = auglag.certify(lambda x: 1e-9 * fun(x), [2e-9], jac=lambda x: 1 - 1e-18 / x**2)
    assert scaled.scale_free > 0.1
