"""Runs ended from outside: budgets, callbacks and interrupts, with the best point seen."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint

import auglag
from auglag import Budget, Status, minimize
from auglag.problems import hock_schittkowski as hs
from helpers.runs import assert_best_of_history, known, rosenbrock, slowly

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
        began = []

        def slow(x):
            began.append(time.perf_counter())
            time.sleep(0.005)
            return rosenbrock(x)

        start = time.perf_counter()
        res = minimize(
            slow, np.full(4, -1.2), constraints={"type": "eq", "fun": lambda x: x @ x - 4}, budget=Budget(seconds=0.3)
        )
        assert res.status is Status.TIME_LIMIT
        assert 0.3 <= res.seconds <= time.perf_counter() - start
        # What is begun is ended, and the certificate's gradient is one of 2n calls: no more than this, however fast.
        assert sum(moment > start + 0.3 for moment in began) <= 6 * (2 * 4 + 1)
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
    @pytest.mark.parametrize("after", [1, 2, 3, 20])
    @pytest.mark.parametrize("signature", ["xk", "intermediate_result"])
    def test_by_the_callback_at_the_point_that_it_saw(self, after, signature):
        seen = []

        def stop(x):
            seen.append(x.copy())
            if len(seen) == after:
                raise StopIteration

        def plain(xk):
            stop(xk)

        def full(intermediate_result):
            stop(intermediate_result.x)

        callback = plain if signature == "xk" else full
        res = minimize(**slowly("HS71"), penalty=auglag.Adaptive(initial=0.1), callback=callback)
        assert res.status is Status.STOPPED
        assert len(seen) == after
        np.testing.assert_array_equal(res.x, seen[-1])
        assert res.message.startswith("Stopped by the callback.")

    @pytest.mark.parametrize("after", [1, 2, 3])
    def test_by_the_callback_after_an_outer_iteration(self, after):
        def stop(intermediate_result):
            return intermediate_result.kind == "outer" and intermediate_result.nit == after

        res = minimize(**slowly("HS71"), penalty=auglag.Adaptive(initial=0.1), callback=stop)
        assert res.status is Status.STOPPED
        assert res.nit == after
        assert res.steps[-1].kind == "outer"

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
