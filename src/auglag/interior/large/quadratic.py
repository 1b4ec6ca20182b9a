"""Convex quadratic and linear programmes, in the middle of a run: a predictor-corrector method to the end.

Where two iterates have the same Hessian and the same Jacobian to the last bit, the problem is taken to be

    min g'x + x'Hx/2   subject to   low <= (x, s) <= high,   c + J x - s = 0,

and solved without evaluating anything more: Mehrotra's predictor and corrector (1992, SIAM J. Optim. 2), Gondzio's
further correctors (1996, Comput. Optim. Appl. 6), different step lengths for variables and multipliers, no line search.
Rows and variables keep small proximal terms, as in the other loops. Whether the guess was right, the caller sees from
the true functions at the point that is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.large.directions import Newton
from auglag.interior.large.sides import Sides, reach
from auglag.interior.newton import Direction
from auglag.kkt import Hessian, linear
from auglag.kkt.linear import Analyses
from auglag.kkt.sides import QUIET, largest
from auglag.problems.jacobians import columns_times, equilibrating, row_norms
from auglag.problems.units import power_of_two


@final
@dataclass(frozen=True, slots=True)
class Quadratic:
    """f and c as they are known: g + H x is the gradient of f, c + J x the rows."""

    h: Hessian
    j: Any
    g: Vector
    c: Vector

    @staticmethod
    def through(h: Hessian, j: Any, x: Vector, gradient: Vector, c: Vector) -> Quadratic:
        """With these derivatives and values at x."""
        return Quadratic(h, j, gradient - h @ x, c - j @ x)

    def in_units(self, units: Units) -> Quadratic:
        """The same with every quantity measured in these units."""
        f, x, rows = units.f, units.x, units.rows
        h = sparse.csc_array(f * columns_times(columns_times(self.h.matrix, x).T, x))
        j = sparse.csr_array(sparse.diags_array(rows) @ columns_times(self.j, x))
        return Quadratic(Hessian(h), j, f * x * self.g, rows * self.c)


@final
@dataclass(frozen=True, slots=True)
class Units:
    """Factors, all powers of two: f and the rows are multiplied by theirs, the variables divided."""

    f: float
    x: Vector
    rows: Vector

    @staticmethod
    def of(problem: Quadratic) -> Units:
        """Such that rows and columns of [[H, J'], [J, 0]] have a largest entry near 1, and so has g."""
        h = abs(problem.h.matrix)
        rows, x = map(power_of_two, equilibrating(problem.j, h))
        size = max(largest(x * problem.g), largest(row_norms(columns_times(h.T, x)) * x))
        return Units(float(power_of_two(np.array([1.0 / size if size > 0.0 else 1.0]))[0]), x, rows)

    def of_v(self, sides: Sides) -> Vector:
        """The units of x and of the slacks."""
        return np.concatenate([self.x, 1.0 / self.rows[sides.rows]])


@final
@dataclass(frozen=True, slots=True)
class PrimalDual:
    """v = (x, slacks), multipliers of rows, of lower and of upper sides."""

    v: Vector
    y: Vector
    z: Vector
    u: Vector

    def in_units(self, units: Units, sides: Sides) -> PrimalDual:
        """Measured in these units."""
        v = units.of_v(sides)
        z, u = units.f * v[sides.at_low] * self.z, units.f * v[sides.at_high] * self.u
        return PrimalDual(self.v / v, units.f * self.y / units.rows, z, u)

    def from_units(self, units: Units, sides: Sides) -> PrimalDual:
        """Back from these units."""
        v = units.of_v(sides)
        z, u = self.z / (units.f * v[sides.at_low]), self.u / (units.f * v[sides.at_high])
        return PrimalDual(v * self.v, self.y * units.rows / units.f, z, u)

    def moved(self, d: Direction, primal: float, dual: float) -> PrimalDual:
        """After a step of these lengths."""
        return PrimalDual(self.v + primal * d.v, self.y + dual * d.y, self.z + dual * d.z, self.u + dual * d.u)


@final
class Programme:
    """The state of one solve."""

    def __init__(
        self, problem: Quadratic, sides: Sides, analyses: Analyses, start: PrimalDual, *, give: float = 0.0
    ) -> None:
        """`give`: how much a row may be left by a multiplier of 1, both in units of the row; with 1 and no objective
        the programme is that of least squares."""
        self._give = give
        self.arrived = False  #: the last run ended at a solution
        self.least = math.inf  #: the least error so far, in units of the programme
        self.units = units = Units.of(problem)
        self.original, self.it = sides, start.in_units(units, sides)
        self.problem, self.sides = problem.in_units(units), sides.in_units(units.of_v(sides), units.rows)
        self._analyses, self._solver = analyses, linear.chosen(self.problem.h, analyses)
        self._system = linear.system(self.problem.h, self.problem.j, analyses)
        self._soft = tuning.TUNING.quadratic_soft
        self._measure()
        if self.error > tuning.TUNING.quadratic_off_centre * max(1.0, self.mean):
            self._centre()

    @QUIET
    def run(self, target: float, arrived: Callable[[PrimalDual], bool]) -> PrimalDual | None:
        """The best iterate, as soon as `arrived` accepts one; None where the method makes nothing better.

        `arrived` is asked where the residuals are near the target.
        """
        t = tuning.TUNING
        best, least, idle = None, self.error, 0
        for _ in range(t.quadratic_steps):
            if not self._step():
                break
            self._measure()
            idle = 0 if self.error < t.idle_less * least else idle + 1
            if self.error < least:
                best, least = self.it, self.error
                self.least = least
            if self.error <= t.worth_a_look * target and arrived(self._found(self.it)):
                self.arrived = True
                return self._found(self.it)
            if idle > t.quadratic_idle or not self.error <= t.diverging or self.mean <= t.least_mu**2:
                break
        return None if best is None else self._found(best)

    def _centre(self) -> None:
        """Begin at some distance from all sides instead, products of gaps and multipliers all as large as errors are.

        What one step of another method leaves, in other units, may be so close to sides that steps lead nowhere.
        """
        sides, it = self.sides, self.it
        v = sides.inside(0.0 * it.v, tuning.TUNING.quadratic_push)
        self.it = it = PrimalDual(v, 0.0 * it.y, 0.0 * it.z, 0.0 * it.u)
        self._measure()
        size = max(1.0, self.error)
        self.it = replace(it, z=size / np.maximum(1.0, self.p), u=size / np.maximum(1.0, self.q))
        self._measure()

    def _found(self, it: PrimalDual) -> PrimalDual:
        return it.from_units(self.units, self.original)

    def _measure(self) -> None:
        """The residuals at the iterate."""
        sides, it, problem = self.sides, self.it, self.problem
        x = it.v[: sides.n]
        self.p, self.q = sides.gaps(it.v)
        self.lagrangian = np.empty(sides.size)
        self.lagrangian[: sides.n] = problem.g + problem.h @ x + problem.j.T @ it.y
        self.lagrangian[sides.n :] = -it.y[sides.rows]
        self.rows = sides.equations(it.v, problem.c + problem.j @ x) - self._give * it.y
        low, high = self.p * it.z, self.q * it.u
        self.mean = float(low.sum() + high.sum()) / max(1, sides.count)
        dual = largest(self.lagrangian - sides.spread(it.z, -it.u))
        self.error = max(dual, largest(self.rows), largest(low), largest(high))

    def _step(self) -> bool:
        """One step; False where there is none: the matrix is not that of a convex problem."""
        made = self._predictor()
        if made is None:
            return False
        newton, affine = made
        sides, it = self.sides, self.it
        mu, low, high = self._centred(affine)
        direction, lengths = self._corrected(newton, mu, low, high)
        for _ in range(tuning.TUNING.quadratic_correctors):
            low, high = self._towards_centre(direction, lengths, mu, low, high)
            other, longer = self._corrected(newton, mu, low, high)
            if sum(longer) < sum(lengths) + tuning.TUNING.corrector_gain or not other.finite():
                break
            direction, lengths = other, longer
        if not direction.finite():
            return False
        fraction = max(tuning.TUNING.to_sides, 1.0 - self.mean)
        primal = sides.longest(self.p, self.q, direction.v, fraction)
        dual = min(reach(it.z, direction.z, fraction), reach(it.u, direction.u, fraction))
        self.it = it.moved(direction, primal, dual)
        return True

    def _predictor(self) -> tuple[Newton, Direction] | None:
        """The factors and the step for mu = 0.

        Of factors with the wrong inertia or a poor solution rounding errors are the first suspect: the diagonal of the
        rows grows, and stays so.
        """
        sides, t = self.sides, tuning.TUNING
        diagonal = sides.spread(self.it.z / self.p, self.it.u / self.q) + t.quadratic_prox
        self._choose_again()
        while self._soft <= t.quadratic_soft_largest:
            second = np.full(sides.m, self._soft + self._give)
            second[sides.rows] += 1.0 / diagonal[sides.n :]
            factor = self._system.factor(diagonal[: sides.n], second, 0.0)
            if factor.negative == sides.m:
                newton = Newton(sides, factor, diagonal[sides.n :], 0.0, enough=t.quadratic_refined)
                dv, dy = newton.solve(self.lagrangian, self.rows)
                if newton.error <= t.poorly_refined:
                    return newton, self._completed(dv, dy, 0.0, 0.0, 0.0)
            self._soft *= t.quadratic_soft_growth
        return None

    def _choose_again(self) -> None:
        """Another linear solver, where the factors of the last step turned out to be too large for this one."""
        solver = linear.chosen(self.problem.h, self._analyses)
        if solver is not self._solver:
            self._solver = solver
            self._system = linear.system(self.problem.h, self.problem.j, self._analyses)

    def _completed(self, dv: Vector, dy: Vector, mu: float, low: Any, high: Any) -> Direction:
        """With the steps of the sides' multipliers; `low` and `high` are what the products are to change by besides."""
        it, sides = self.it, self.sides
        dz = (mu - low - it.z * dv[sides.at_low]) / self.p - it.z
        du = (mu - high + it.u * dv[sides.at_high]) / self.q - it.u
        return Direction(dv, dy, dz, du)

    def _lengths(self, d: Direction) -> tuple[float, float]:
        """The longest steps of variables and of multipliers that stay inside."""
        primal = self.sides.longest(self.p, self.q, d.v, 1.0)
        return primal, min(reach(self.it.z, d.z, 1.0), reach(self.it.u, d.u, 1.0))

    def _products(self, d: Direction, primal: float, dual: float) -> tuple[Vector, Vector]:
        """Gap times multiplier after a step of these lengths."""
        it, sides = self.it, self.sides
        low = (self.p + primal * d.v[sides.at_low]) * (it.z + dual * d.z)
        return low, (self.q - primal * d.v[sides.at_high]) * (it.u + dual * d.u)

    def _centred(self, affine: Direction) -> tuple[float, Vector, Vector]:
        """(mu, second-order terms of the products): Mehrotra's choice after the predictor."""
        sides = self.sides
        low, high = self._products(affine, *self._lengths(affine))
        after = float(low.sum() + high.sum()) / max(1, sides.count)
        sigma = min(1.0, (after / self.mean) ** 3) if self.mean > 0.0 else 0.0
        return sigma * self.mean, affine.v[sides.at_low] * affine.z, -affine.v[sides.at_high] * affine.u

    def _corrected(self, newton: Newton, mu: float, low: Vector, high: Vector) -> tuple[Direction, tuple[float, float]]:
        """The step for this mu and these terms, and how far it goes."""
        central = self.lagrangian + self.sides.spread((low - mu) / self.p, (mu - high) / self.q)
        direction = self._completed(*newton.solve(central, self.rows), mu, low, high)
        return direction, self._lengths(direction)

    def _towards_centre(
        self, d: Direction, lengths: tuple[float, float], mu: float, low: Vector, high: Vector
    ) -> tuple[Vector, Vector]:
        """The terms less what brings products that a longer step would leave far from mu back to it."""
        t = tuning.TUNING
        farther = [min(1.0, length + t.corrector_longer) for length in lengths]
        changes = []
        for products in self._products(d, *farther):
            wanted = np.clip(products, t.corrector_low * mu, t.corrector_high * mu) - products
            changes.append(np.maximum(wanted, -t.corrector_high * mu))
        return low - changes[0], high - changes[1]


def unchanged(one: Any, other: Any) -> bool:
    """Whether two sparse matrices are the same to the last bit; a pattern that is only the same in order is not."""
    same = one.data.size == other.data.size and np.array_equal(one.data, other.data)
    return bool(same and np.array_equal(one.indices, other.indices) and np.array_equal(one.indptr, other.indptr))


def _root(norms: Vector) -> Vector:
    """The square roots; 1 for rows without entries."""
    return np.asarray(np.sqrt(np.where(norms > 0.0, norms, 1.0)))
