"""The presets of papers beside loops of their own: what a paper prints, written a second time without the library.

Only the inner solver is shared (SciPy's in the first test), so that the two can be compared row by row.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import Bounds, NonlinearConstraint, minimize

import auglag
from auglag.inner import LBFGSB, NewtonCG, SpectralProximalGradient
from auglag.problems import hock_schittkowski as hs
from auglag.prox import Box


class Statement:
    """f, c, their derivatives and all sides of a problem of Hock and Schittkowski, as stacked arrays."""

    def __init__(self, name):
        p = self.p = hs.get(name)
        self.x0 = np.clip(p.x0, p.lower, p.upper)
        self.lower, self.upper = np.asarray(p.lower, float), np.asarray(p.upper, float)
        sizes = [np.atleast_1d(row.fun(self.x0)).size for row in p.rows]
        self.cl = np.concatenate([np.broadcast_to(r.lower, m) for r, m in zip(p.rows, sizes, strict=True)]).astype(
            float
        )
        self.cu = np.concatenate([np.broadcast_to(r.upper, m) for r, m in zip(p.rows, sizes, strict=True)]).astype(
            float
        )
        self.sizes = sizes

    def c(self, x):
        return np.concatenate([np.atleast_1d(row.fun(x)) for row in self.p.rows])

    def jac(self, x):
        return np.vstack([np.atleast_2d(row.jac(x)) for row in self.p.rows])

    def hess(self, x, y):
        total, at = np.array(self.p.hess(x), dtype=float), 0
        for row, m in zip(self.p.rows, self.sizes, strict=True):
            total, at = total + row.hess(x, y[at : at + m]), at + m
        return total

    def solve(self, **options):
        p = self.p
        rows = [NonlinearConstraint(r.fun, r.lower, r.upper, jac=r.jac, hess=r.hess) for r in p.rows]
        bounds = Bounds(p.lower, p.upper)
        return auglag.minimize(p.fun, p.x0, jac=p.grad, hess=p.hess, bounds=bounds, constraints=rows, **options)


class WithSlacks:
    """min f(x) s.t. c(x) - s = 0 over z = (x, s) in a box, a slack for every row that is no equation."""

    def __init__(self, name):
        self.of = of = Statement(name)
        self.n, self.rows = of.x0.size, np.flatnonzero(of.cl != of.cu)
        self.sides = np.where(of.cl == of.cu, of.cl, 0.0)
        self.z0 = np.concatenate([of.x0, np.clip(of.c(of.x0), of.cl, of.cu)[self.rows]])
        self.lower = np.concatenate([of.lower, of.cl[self.rows]])
        self.upper = np.concatenate([of.upper, of.cu[self.rows]])

    def c(self, z):
        c = self.of.c(z[: self.n]) - self.sides
        c[self.rows] -= z[self.n :]
        return c

    def lagrangian(self, z, y, beta):
        """L_beta and its gradient."""
        x, c = z[: self.n], self.c(z)
        w = y + beta * c
        gradient = np.concatenate([self.of.p.grad(x) + self.of.jac(x).T @ w, -w[self.rows]])
        return self.of.p.fun(x) + y @ c + 0.5 * beta * (c @ c), gradient

    def dist(self, z, gradient):
        """dist(-gradient, normal cone of the box at z)."""
        left = np.where(z <= self.lower, np.minimum(gradient, 0.0), gradient)
        return np.linalg.norm(np.where(z >= self.upper, np.maximum(gradient, 0.0), left))


class Enough(Exception):
    pass


def scipys_lbfgsb(problem, z, y, beta, eta):
    """One call of SciPy, ended at the first evaluated point with dist <= eta that is not above the start."""
    calls, found = [], []

    def fun(v):
        v = np.clip(v, problem.lower, problem.upper)
        value, gradient = problem.lagrangian(v, y, beta)
        calls.append(value)
        if problem.dist(v, gradient) <= eta and value <= calls[0] + 1e-13 * max(1.0, abs(calls[0])):
            found.append(v.copy())
            raise Enough
        return value, gradient

    options = {"maxcor": 10, "ftol": 0.0, "gtol": 0.0, "maxiter": 2000, "maxfun": 10**9}
    try:
        bounds = Bounds(problem.lower, problem.upper)
        found.append(minimize(fun, z, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x)
    except Enough:
        pass
    return found[0], len(calls)


def algorithm1(problem, *, eps, adaptive=True, gamma=1.5, tau=0.8, beta=1e-3, y_max=1e9):
    """Algorithm 1 as printed, with eta'_k = 1/k: rows (beta, eta, ||c||, R, gradients)."""
    z, y, rows = problem.z0, np.zeros(problem.of.cl.size), []
    before = np.linalg.norm(problem.c(z))
    for k in range(1, 201):
        eta = min(1 / beta, 1 / k)
        z, calls = scipys_lbfgsb(problem, z, y, beta, eta)
        c = problem.c(z)
        y_hat, norm = y + beta * c, np.linalg.norm(c)
        residual = problem.dist(z, problem.lagrangian(z, y, beta)[1]) + norm
        rows.append((beta, eta, norm, residual, calls))
        if residual <= eps:
            break
        beta, before = (beta if adaptive and norm <= tau * before else gamma * beta), norm
        y = np.clip(y_hat, -y_max, y_max)
    return z[: problem.n], y_hat, np.array(rows)


@pytest.mark.parametrize("variant", ["adaptive-full", "always-full"])
@pytest.mark.parametrize("name", ["HS71", "HS14", "HS39", "HS6"])
def test_the_papers_preset_is_algorithm_1_with_scipys_lbfgsb(name, variant):
    x, y, rows = algorithm1(WithSlacks(name), eps=1e-3, adaptive=variant == "adaptive-full")
    result = Statement(name).solve(preset="paper", variant=variant, tol=1e-3, check_derivatives=False)
    ours = np.array(
        [[r[key] for key in ("beta", "eta", "violation", "residual", "evaluations")] for r in result.history]
    )
    assert result.success
    assert len(ours) == len(rows)
    np.testing.assert_allclose(ours[:, :2], rows[:, :2], rtol=1e-12)
    np.testing.assert_allclose(ours[:, 2:4], rows[:, 2:4], rtol=1e-4, atol=1e-7)
    assert abs(ours[:, 4].sum() - rows[:, 4].sum()) <= 0.02 * rows[:, 4].sum()  # a last bit may cost a trial point
    np.testing.assert_allclose(result.x, x, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result.y, y, rtol=1e-4, atol=1e-5)


class Powell:
    """ALGENCAN's subproblem: f + rho/2 dist^2(c + y/rho, [cl, cu]), f and c scaled by sf and sc."""

    has_hessp, projected = True, True

    def __init__(self, of, sf, sc, y, rho):
        self.of, self.sf, self.sc, self.y, self.rho = of, sf, sc, y, rho
        self.cl, self.cu, self.g = sc * of.cl, sc * of.cu, Box(of.lower, of.upper)

    def c(self, x):
        return self.sc * self.of.c(x)

    def weights(self, x):
        t = self.c(x) + self.y / self.rho
        return self.rho * (t - np.clip(t, self.cl, self.cu))

    def value(self, x):
        w = self.weights(x)
        return float(self.sf * self.of.p.fun(x) + (w @ w - self.y @ self.y) / (2 * self.rho))

    def value_and_gradient(self, x):
        w = self.weights(x)
        return self.value(x), self.sf * self.of.p.grad(x) + self.of.jac(x).T @ (self.sc * w)

    def hessp(self, x, v):
        w = self.weights(x)
        active = (w != 0) | (self.cl == self.cu)
        jac = self.sc[:, None] * self.of.jac(x)
        return self.sf * (self.of.hess(x, self.sc * w / self.sf) @ v) + jac.T @ np.where(
            active, self.rho * (jac @ v), 0
        )


def algencan(of, *, eps_feas, eps_opt, solver, most=50):
    """ALGENCAN 3.1.1's main loop without acceleration: rows (rho, eps_k, progress, projected gradient)."""
    x, y, rows = of.x0, np.zeros(of.cl.size), []
    sf = 1 / max(1.0, np.max(np.abs(of.p.grad(x))))
    sc = 1 / np.maximum(1.0, np.max(np.abs(of.jac(x)), axis=1))
    eps = math.sqrt(eps_opt * sf)

    def size(x):
        c = sc * of.c(x)
        outside = c - np.clip(c, sc * of.cl, sc * of.cu)
        rho = 10 * max(1.0, abs(sf * of.p.fun(x))) / max(1.0, 0.5 * outside @ outside)
        return min(max(rho, 1e-8), 1e8), np.max(np.abs(outside / sc))

    last = progress = stationary = math.inf
    for k in range(1, most + 1):
        violation = size(x)[1]
        if k <= 2:
            rho = size(x)[0]
        elif max(progress, violation) > eps_feas and progress > 0.5 * last:
            rho *= 10
        if k > 1 and progress <= math.sqrt(eps_feas) and stationary <= math.sqrt(eps_opt * sf):
            eps = max(eps_opt * sf, min(0.5 * stationary, 0.1 * eps))
        sub = Powell(of, sf, sc, y, rho)
        x = solver.solve(sub, x, eps, limit=10 if k == 1 else 2000).x
        y = np.clip(sub.weights(x), -1e20, 1e20)
        t = sub.c(x) + sub.y / rho
        last, progress = progress, np.max(np.abs(sub.c(x) - np.clip(t, sub.cl, sub.cu)))
        stationary = np.max(np.abs(np.clip(x - sub.value_and_gradient(x)[1], of.lower, of.upper) - x))
        rows.append((rho, eps, progress, stationary))
        if max(progress, size(x)[1]) <= eps_feas and stationary <= eps_opt * sf:
            break
    return x, sc * y / sf, np.array(rows)


@pytest.mark.parametrize("name", ["HS71", "HS6", "HS39", "HS43", "HS77", "HS14", "HS100"])
def test_the_algencan_preset_is_algencans_outer_loop(name):
    of, tol = Statement(name), 1e-6
    eps_feas, eps_opt = 0.5 * tol / math.sqrt(of.cl.size), 0.5 * tol / math.sqrt(of.x0.size)
    x, y, rows = algencan(of, eps_feas=eps_feas, eps_opt=eps_opt, solver=NewtonCG(kinks=True))
    result = of.solve(preset="algencan", tol=tol)
    assert result.success
    assert result.inner == "newton-cg"
    assert not any(row["acceleration_steps"] for row in result.history)
    np.testing.assert_allclose([row["beta"] for row in result.history], rows[:, 0], rtol=1e-6)
    # Half of a stationarity that is far below its tolerance is half of a rounding error, which processors differ in.
    np.testing.assert_allclose([row["eta"] for row in result.history], rows[:, 1], rtol=1e-3, atol=0.5 * eps_opt)
    np.testing.assert_allclose(result.x, x, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(result.y, y, rtol=1e-5, atol=1e-7)


def test_without_second_derivatives_the_algencan_preset_takes_lbfgsb():
    of = Statement("HS71")
    rows = [NonlinearConstraint(r.fun, r.lower, r.upper, jac=r.jac) for r in of.p.rows]
    bounds = Bounds(of.p.lower, of.p.upper)
    result = auglag.minimize(of.p.fun, of.p.x0, jac=of.p.grad, bounds=bounds, constraints=rows, preset="algencan")
    assert result.success
    assert result.inner == "lbfgsb"
    _, _, found = algencan(of, eps_feas=0.5e-6 / math.sqrt(2), eps_opt=0.25e-6, solver=LBFGSB())
    np.testing.assert_allclose([row["beta"] for row in result.history], found[:, 0], rtol=1e-6)


class Smooth:
    """L_beta(., y) with the box for g, for the library's inner solvers."""

    has_hessp = False

    def __init__(self, problem, y, beta):
        self.problem, self.y, self.beta, self.g = problem, y, beta, Box(problem.lower, problem.upper)

    def value(self, z):
        return self.value_and_gradient(z)[0]

    def value_and_gradient(self, z):
        return self.problem.lagrangian(z, self.y, self.beta)


@pytest.mark.parametrize("name", ["HS7", "HS10", "HS28"])
def test_the_ialm_preset_is_the_loop_of_sahin_et_al(name):
    """beta_k = 2^(k-1), eps_k = 1/beta_k, short dual steps; the inner solver is ours."""
    problem, eps = WithSlacks(name), 1e-3
    z, y, rows = problem.z0, np.zeros(problem.of.cl.size), []
    first = np.linalg.norm(problem.c(z))
    for k in range(1, 60):
        beta = 2.0 ** (k - 1)
        found = SpectralProximalGradient().solve(Smooth(problem, y, beta), z, 1 / beta, limit=2000)
        z, c = found.x, problem.c(found.x)
        norm = np.linalg.norm(c)
        rows.append((beta, 1 / beta, norm))
        if found.residual + norm <= eps:
            break
        y = y + min(first * math.log(2) ** 2 / (norm * (k + 1) * math.log(k + 2) ** 2), 1.0) * c
    result = problem.of.solve(preset="ialm", tol=eps)
    ours = np.array([[r[key] for key in ("beta", "eta", "violation")] for r in result.history])
    assert result.success
    assert len(ours) == len(rows)
    np.testing.assert_allclose(ours, rows, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(result.x, z[: problem.n], rtol=1e-6, atol=1e-8)
