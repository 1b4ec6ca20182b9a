"""Ways in which a certificate could be fooled, each of which once worked or might have."""

from __future__ import annotations

import numpy as np
import pytest

import auglag
from auglag import Budget, Status


@pytest.mark.parametrize(
    ("fun", "grad", "x0", "bounds", "optimum"),
    [
        (lambda x: np.log(x[0] / 1e-8) ** 2, lambda x: 2 * np.log(x / 1e-8) / x, 9e-7, (1e-12, 1e-6), 1e-8),
        (lambda x: 1e12 * (x[0] - 1e-7) ** 2, lambda x: 2e12 * (x - 1e-7), 9e-7, (0, 1), 1e-7),
    ],
    ids=["a capacitance in farads", "a steep parabola"],
)
def test_a_bound_closer_than_the_tolerance_excuses_no_gradient(fun, grad, x0, bounds, optimum):
    assert not auglag.certify(fun, [x0], jac=grad, bounds=[bounds]).meets(1e-6)
    res = auglag.minimize(fun, [x0], jac=grad, bounds=[bounds])
    assert res.success
    assert res.x[0] == pytest.approx(optimum, rel=1e-4)


def test_a_point_a_hair_off_its_bound_is_still_judged_fairly():
    """As interior points leave it: the price of the gap is small where moving to the bound changes little."""
    assert auglag.certify(lambda x: 2 * x[0], [1e-9], jac=lambda x: np.array([2.0]), bounds=[(0, 1)]).meets(1e-6)


@pytest.mark.parametrize("energy", [3.0, 7.0, 9.0, 11.0])
def test_differences_of_small_variables_do_not_certify_a_biased_point(energy):
    """x log x with x down to 1.7e-5: the usual steps of 6e-6 and 2e-4 are not small there."""
    shift = np.array([0.0, energy])

    def entropy(x):
        return np.sum(x * (shift + np.log(x)))

    bounds, total = [(1e-8, 1)] * 2, {"type": "eq", "fun": lambda x: x.sum() - 1}
    res = auglag.minimize(entropy, [0.5, 0.5], bounds=bounds, constraints=total)
    exact = {**total, "jac": lambda x: np.ones(2)}
    true = auglag.certify(
        entropy, res.x, res.multipliers, jac=lambda x: shift + np.log(x) + 1, bounds=bounds, constraints=exact
    )
    assert res.success
    assert true.residual <= 1.1e-6
    np.testing.assert_allclose(res.x, np.exp(-shift) / np.exp(-shift).sum(), rtol=1e-4)


def test_derivatives_that_are_not_known_well_enough_are_not_certified():
    row = {"type": "eq", "fun": lambda x: x[0] - x[1]}
    res = auglag.minimize(lambda x: 1e9 + np.sum((x - 1) ** 2), [3.0, 2.0], constraints=row)
    assert not res.success
    assert res.certificate.derivative_error > 1e-6
    np.testing.assert_allclose(res.x, 1.0, atol=1e-2)


@pytest.mark.parametrize("what", ["gradient", "constraint", "Jacobian"])
@pytest.mark.parametrize("inner", ["lbfgsb", "panoc"])
def test_functions_that_return_the_same_buffer_every_time_change_nothing(what, inner):
    def solve(reuse):
        buffers = {"gradient": np.zeros(3), "constraint": np.zeros(2), "Jacobian": np.zeros((2, 3))}

        def out(name, value):
            if reuse and name == what:
                buffers[name][...] = value
                return buffers[name]
            return np.array(value)

        rows = {
            "type": "eq",
            "fun": lambda x: out("constraint", [x @ x - 3, x[0] * x[1] - x[2]]),
            "jac": lambda x: out("Jacobian", [2 * x, [x[1], x[0], -1.0]]),
        }
        return auglag.minimize(
            lambda x: np.sum((x - [2, 0, 1]) ** 4),
            [1.0, 0.5, 1.0],
            jac=lambda x: out("gradient", 4 * (x - [2, 0, 1]) ** 3),
            constraints=rows,
            inner=inner,
        )

    plain, buffered = solve(False), solve(True)
    assert (plain.x == buffered.x).all()
    assert plain.certificate.residual == buffered.certificate.residual


def test_a_limit_is_not_overrun_by_differences_or_the_certificate():
    calls = []

    def slow(x):
        calls.append(1)
        return np.sum(x**4) + x.sum()

    con = {"type": "eq", "fun": lambda x: x @ x - 3}
    res = auglag.minimize(slow, np.ones(30), constraints=con, budget=Budget(evaluations=40))
    assert res.status is Status.EVALUATION_LIMIT
    assert len(calls) <= 40 + 2 * 30
    assert res.nfev == len(calls)


def test_no_least_squares_fit_is_started_when_a_limit_has_been_reached(monkeypatch):
    def never(*args, **options):
        raise AssertionError("a fit of multipliers after the limit")

    monkeypatch.setattr(auglag.certificate.multipliers.Fit, "least_squares", never)
    a = np.random.default_rng(0).standard_normal((80, 40))
    rows = {"type": "ineq", "fun": lambda x: a @ x + 1, "jac": lambda x: a}
    budget = Budget(evaluations=10)
    res = auglag.minimize(lambda x: -x.sum(), np.zeros(40), jac=lambda x: -np.ones(40), constraints=rows, budget=budget)
    assert res.status is Status.EVALUATION_LIMIT


@pytest.mark.parametrize(
    ("fun", "grad", "options", "x"),
    [
        (lambda x: -x[0], lambda x: np.array([-1.0]), {"bounds": [(0, 1e12)]}, 1e12),
        (lambda x: (x[0] - 1e6) ** 2 - 1e12, lambda x: 2 * (x - 1e6), {"scaling": False}, 1e6),
        (lambda x: 1e12 * (x[0] ** 4 - 2 * x[0] ** 2), lambda x: 1e12 * (4 * x**3 - 4 * x), {"tol": 1e2}, 1.0),
    ],
    ids=["a finite box", "a parabola", "a double well"],
)
@pytest.mark.parametrize("constrained", [False, True])
def test_a_low_minimum_is_not_called_unbounded(fun, grad, options, x, constrained):
    start = 1e-10 if x == 1.0 else 0.0
    if constrained:  # a second variable, held at 0 by a row
        bounds = [*options["bounds"], (None, None)] if "bounds" in options else None
        res = auglag.minimize(
            lambda z: fun(z[:1]),
            [start, 0.5],
            jac=lambda z: np.append(grad(z[:1]), 0.0),
            constraints={"type": "eq", "fun": lambda z: z[1], "jac": lambda z: np.array([0.0, 1.0])},
            **{**options, "bounds": bounds},
        )
    else:
        res = auglag.minimize(fun, [start], jac=grad, **options)
    assert res.status is not Status.UNBOUNDED
    assert res.success
    assert res.x[0] == pytest.approx(x, rel=1e-3)


def test_multipliers_that_are_rounding_errors_do_not_spoil_a_solution():
    """f and c are 0 at the solution, and so are its multipliers; those of the run are some 1e-161."""
    pytest.importorskip("jax")
    from auglag.model import Model

    m = Model()
    x = m.var((270, 2), name="x", start=np.tile([-3.0, 0.0], (270, 1)))
    m.constraint(lambda v: (1e3 * (v[1] - v[0] ** 3), 1e-3 * (v[0] - 20)), x[:, 0], x[:, 1])
    m.objective(lambda v: 1e-3 * (v[0] - v[1]) ** 2, x[:-1, 0], x[1:, 0])
    solution = m.solve()
    assert solution.success
    np.testing.assert_allclose(solution["x"], np.tile([20.0, 8000.0], (270, 1)))
