"""The interior-point loop for large sparse problems: one factorisation of a quasi-definite matrix a step.

Two ways to choose the barrier parameter. In the free mode every step has its own: Mehrotra's predictor says how far mu
can fall, his corrector is added where it makes steps longer. In the fixed mode a barrier problem is solved for one mu
after another (Waechter and Biegler 2006). A run begins in the free mode, changes to the fixed one where that makes no
progress, and goes back once a barrier problem is solved.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.inner.qp import curvature_for
from auglag.interior import tuning
from auglag.interior.directions import Equations, Newton
from auglag.interior.filter import Filter, Test
from auglag.interior.limited_memory import LimitedMemory
from auglag.interior.newton import Direction
from auglag.interior.onto_sides import Gaps, OntoSides
from auglag.interior.quadratic import Iterate, Programme, Quadratic
from auglag.interior.return_to_rows import return_to_rows
from auglag.interior.sides import Sides, reach
from auglag.interior.values import Values
from auglag.kkt import Hessian, Memory, Sets
from auglag.kkt.sides import QUIET, largest
from auglag.problems.jacobians import transposed_product
from auglag.problems.standard_form import StandardForm


@final
@dataclass(slots=True)
class Errors:
    """The residuals of the optimality conditions, scaled down where multipliers are large (WB (5))."""

    dual: float
    rows: float
    sides: float  #: complementarity
    mean: float  #: of gap times multiplier

    @property
    def worst(self) -> float:
        """The largest of the three."""
        return max(self.dual, self.rows, self.sides)


@final
class Large:
    """The state of one run."""

    def __init__(self, form: StandardForm, memory: Memory, x: Vector, y: Vector, target: float, seen: Any) -> None:
        self.form, self.memory, self.target, self.seen = form, memory, target, seen
        self.follow = getattr(seen, "step", lambda *point: None)  #: told of every iterate
        self.sides = sides = Sides(form)
        self.curvature = curvature_for(form.traits)
        self.equations = Equations(sides, memory.layout)
        self.t = t = tuning.TUNING
        self.count = self.tiny = self.restorations = self.finishing = 0
        self.next_fall, self.fallen_at = math.inf, 0  #: the error to be reached next, and when it last was
        self.least = math.inf  #: error so far, in the free mode
        self.nearest = math.inf  #: the least error so far
        self.first = form.error(x, y)
        self.best: tuple[Vector, Vector, float, Sets] = (x, y, self.first, Sets.none(sides.n, sides.m))
        warm = bool(y.any()) and self.first < t.first_mu
        self.mu = min(t.first_mu, max(t.warm_mu * self.first, t.least_first_mu)) if warm else t.first_mu
        self.last_mu = min(t.last_mu, t.last_mu_large * target)
        self.mu = self.mu if sides.count else self.last_mu
        push = min(t.push, self.mu)
        v = sides.inside(np.concatenate([x, np.zeros(sides.rows.size)]), push)
        v[sides.n :] = form.at(v[: sides.n]).c[sides.rows]
        self.at = Values(sides, sides.inside(v, push))
        self.y = y
        if warm:
            self.z, self.u = self.mu / self.at.p, self.mu / self.at.q
        else:
            self.z, self.u = np.minimum(1.0, t.first_product / self.at.p), np.minimum(1.0, t.first_product / self.at.q)
        self._derive()
        self.learnt = None if self.curvature.exact else LimitedMemory(sides.n)
        if not warm and sides.m:
            self.equations.remember(self._hessian())
            self.y = self.equations.least_squares(self.gradient, self.j, self.z, self.u)
        #: Only the fixed mode: near a solution, with rough curvature, and without sides, where mu means nothing.
        self.never_free = warm or t.fixed_only or self.learnt is not None or not sides.count
        self.fixed = self.never_free
        self.before: tuple[Hessian, Any, Vector]  #: H, J and the gradient of the step before
        self.free_points: list[tuple[float, float]] = []
        self.filter = Filter(t.largest_violation * max(1.0, self.at.theta))
        self.lengths: deque[float] = deque(maxlen=t.jammed_steps)  #: of the last steps
        self.damping, self.shortened = 0.0, 0  #: a proximal term; the last steps that line searches made short
        self.before_step: Gaps | None = None  #: of the iterate before
        self.tried: tuple[OntoSides, float] | None = None  #: the last steps on sides, and the error before them
        self.small = t.small_violation * max(1.0, self.at.theta)

    @property
    def x(self) -> Vector:
        """The variables of the problem."""
        return self.at.v[: self.sides.n]

    def _derive(self) -> None:
        """First derivatives at the iterate."""
        self.gradient: Vector = self.at.point.grad
        self.j: Any = self.curvature.jacobian(self.at.point)

    def _hessian(self) -> Hessian:
        """Of the Lagrangian: the user's, or what was learnt."""
        if self.learnt is not None:
            known = self.at.point.known_curvature()
            return self.learnt.hessian() if known is None else Hessian(sparse.csc_array(known))
        return self.curvature.hessian(self.at.point, self.x, self.y, self.memory)

    def _lagrangian(self) -> Vector:
        """The gradient of f + y'(c - s) in v."""
        sides = self.sides
        out = np.empty(sides.size)
        out[: sides.n] = self.gradient
        if sides.m:
            out[: sides.n] += transposed_product(self.j, self.y)
        out[sides.n :] = -self.y[sides.rows]
        return out

    def errors(self, lagrangian: Vector, mu: float) -> Errors:
        """The residuals for this mu."""
        sides, at, large = self.sides, self.at, self.t.large_multipliers
        total = float(self.z.sum() + self.u.sum())
        scale_dual = max(large, (total + float(np.abs(self.y).sum())) / max(1, sides.m + sides.count)) / large
        scale_sides = max(large, total / max(1, sides.count)) / large
        low, high = at.p * self.z, at.q * self.u
        comp = max(_span(low, mu), _span(high, mu))
        mean = float(low.sum() + high.sum()) / max(1, sides.count)
        dual = largest(lagrangian - sides.spread(self.z, -self.u))
        return Errors(dual / scale_dual, largest(at.rows), comp / scale_sides, mean)

    # ------------------------------------------------------------------------------------------------------ one step

    def step(self) -> bool:
        """One step; False where the run is over."""
        sides, at, t = self.sides, self.at, self.t
        lagrangian = self._lagrangian()
        errors = self.errors(lagrangian, 0.0)
        if not (at.finite and math.isfinite(errors.worst)) or self._diverges():
            return False
        if self._done(errors):
            return False
        self._choose_mode(errors, lagrangian)
        self.count += 1
        if self._jammed() and self._restore():
            return True
        h = self._hessian()
        if not h.finite():
            return False
        if self.count == 2 and self._constant(h) and self._programme(h):
            return True
        self.before = (h, self.j, self.gradient)
        weights = sides.spread(self.z / at.p, self.u / at.q) + self.damping
        soft = self._soft(self.mu if self.fixed else errors.mean)
        central = lagrangian + sides.slope(at.p, at.q, 0.0 if not self.fixed else self.mu)
        made = self.equations.newton(h, self.j, weights, soft, (central, at.rows), far=self.nearest > t.close)
        if made is None:
            return False
        newton, (dv, dy) = made
        if self.fixed:
            directions = [self._completed(dv, dy, self.mu)]
        else:
            directions = self._predicted(newton, lagrangian, dv, dy, errors)
        if not directions or not directions[0].finite():
            return False
        fraction = max(t.to_sides, 1.0 - (self.mu if self.fixed else errors.worst))
        if largest(directions[0].v / np.maximum(1.0, np.abs(at.v))) < t.tiny:
            self.tiny += 1
            self.mu = max(self.last_mu, t.mu_factor * self.mu)
            return self.tiny < t.tiny_steps
        for direction in directions:
            if self._search(newton, lagrangian, direction, fraction, corrections=direction is directions[-1]):
                return True
        return self._stuck(errors)

    def _soft(self, mu: float) -> Vector | float:
        """The diagonal of the rows, in units of their own once they are nearly satisfied."""
        t = self.t
        soft = min(max(t.soft_of_mu * mu, t.soft_least), t.soft_largest)
        return soft * self.sides.row_units if self.at.theta <= self.small else soft

    def _constant(self, h: Hessian) -> bool:
        """Whether derivatives are what they were at the step before: the problem is quadratic, as it seems.

        Without second derivatives only linear objectives can be told.
        """
        old_h, old_j, old_gradient = self.before
        if self.learnt is not None:
            return np.array_equal(self.gradient, old_gradient) and _equal(self.j, old_j)
        return _equal(h.matrix, old_h.matrix) and _equal(self.j, old_j)

    def _programme(self, h: Hessian) -> bool:
        """Solve the quadratic programme; whether its solution is where the run goes on."""
        at, sides = self.at, self.sides
        if self.learnt is not None:
            h = Hessian(sparse.csc_array((sides.n, sides.n)))
        model = Quadratic.through(h, self.j, self.x, self.gradient, at.point.c)
        solver = Programme(model, sides, self.memory.layout, Iterate(at.v, self.y, self.z, self.u))
        found = solver.run(self.target, self._arrived)
        values = None if found is None else Values(sides, sides.inside(found.v, self.t.tiny))
        if found is None or values is None or not values.finite:
            return False
        self.at, self.y, self.z, self.u = values, found.y, found.z, found.u
        self.fixed, self.mu = True, max(self.last_mu, solver.mean)
        self.filter.clear()
        self._derive()
        return True

    def _arrived(self, it: Iterate) -> bool:
        """Whether an iterate of the quadratic programme meets the target."""
        return self.form.error(it.v[: self.sides.n], it.y) <= self.target

    def _completed(self, dv: Vector, dy: Vector, mu: float, low: Any = 0.0, high: Any = 0.0) -> Direction:
        """With the steps of the sides' multipliers that belong to dv; `low` and `high` are second-order terms."""
        sides, at = self.sides, self.at
        dz = (mu - low - self.z * dv[sides.at_low]) / at.p - self.z
        du = (mu - high + self.u * dv[sides.at_high]) / at.q - self.u
        return Direction(dv, dy, dz, du)

    @QUIET
    def _predicted(self, newton: Newton, lagrangian: Vector, dv: Vector, dy: Vector, errors: Errors) -> list[Direction]:
        """The steps for the mu that the predictor (dv, dy) allows: with the corrector where that is longer, without."""
        sides, at, t = self.sides, self.at, self.t
        affine = self._completed(dv, dy, 0.0)
        a, b = sides.longest(at.p, at.q, dv, 1.0), min(reach(self.z, affine.z, 1.0), reach(self.u, affine.u, 1.0))
        after = float((at.p + a * dv[sides.at_low]) @ (self.z + b * affine.z))
        after += float((at.q - a * dv[sides.at_high]) @ (self.u + b * affine.u))
        ratio = after / max(1, sides.count) / errors.mean if errors.mean > 0.0 else 1.0
        sigma = min(1.0, max(ratio**3, t.least_centring))
        self.mu = max(sigma * errors.mean, self.last_mu, min(errors.mean, t.free_guard * errors.rows))
        self.filter.clear()
        central = lagrangian + sides.slope(at.p, at.q, self.mu)
        plain = self._completed(*newton.solve(central, at.rows), self.mu)
        if newton.shift:
            return [plain]
        low, high = dv[sides.at_low] * affine.z, -dv[sides.at_high] * affine.u
        corrected = central + sides.spread(low / at.p, -high / at.q)
        other = self._completed(*newton.solve(corrected, at.rows), self.mu, low, high)
        longer = newton.error <= t.poorly_refined and self._lengths(other) > self._lengths(plain)
        return [other, plain] if longer and other.finite() else [plain]

    def _lengths(self, d: Direction) -> float:
        """The sum of the longest primal and dual step lengths."""
        to = self.t.to_sides
        primal = self.sides.longest(self.at.p, self.at.q, d.v, to)
        return primal + min(reach(self.z, d.z, to), reach(self.u, d.u, to))

    # ------------------------------------------------------------------------------------------------------------- mu

    def _choose_mode(self, errors: Errors, lagrangian: Vector) -> None:
        """In the free mode: is there progress? In the fixed mode: on to the next barrier problem, or free again."""
        t = self.t
        if not self.never_free and self._progress(errors):
            self.fixed = False
            self.free_points.append((self.at.f, errors.rows))
            if errors.worst <= self._solved(self.last_mu) and self.last_mu > t.least_mu:
                self.last_mu *= t.last_mu_factor
            return
        if not self.fixed:
            self.fixed = True
            self.mu = max(self.last_mu, t.fixed_mu * errors.mean)
            self.filter.clear()
        while True:
            now = self.errors(lagrangian, self.mu)
            if now.worst > self._solved(self.mu):
                return
            if self.mu <= self.last_mu:
                if self.last_mu <= t.least_mu:
                    return
                self.last_mu *= t.last_mu_factor
            self.mu = max(self.last_mu, min(t.mu_factor * self.mu, self.mu**t.mu_power))
            self.filter.clear()

    def _solved(self, mu: float) -> float:
        """The error up to which a barrier problem counts as solved.

        Not below the target, which the caller does not find met: where gaps and multipliers go to zero together, both
        are about sqrt(mu), and mu has to fall further.
        """
        return max(self.t.solved_barrier * mu, self._rounding(), self.target if mu <= self.last_mu else 0.0)

    def _rounding(self) -> float:
        """What rounding errors make of the residuals."""
        return self.t.multiplier_noise * float(np.finfo(float).eps) * max(1.0, largest(self.y))

    def _progress(self, errors: Errors) -> bool:
        """Whether the point is better than every one of the free mode in f or in violation, and, close to a solution,
        its error not much larger than the least so far."""
        margin, least = self.t.less_violation, self.least
        self.least = min(least, errors.worst)
        if least <= self.t.close and errors.worst > self.t.much_worse * least:
            return False
        less = margin * min(1.0, errors.worst)
        return all(
            errors.rows <= (1.0 - margin) * rows or self.at.f <= f - less * abs(f) or errors.rows <= self.target
            for f, rows in self.free_points
        )

    # ---------------------------------------------------------------------------------------------------- line search

    def _search(self, newton: Newton, lagrangian: Vector, d: Direction, fraction: float, *, corrections: bool) -> bool:
        """The first acceptable step length along d, from the longest down; whether there was one.

        Waechter and Biegler (2006), sections 2.3 and 2.4. Without `corrections` only the longest step is tried.
        """
        sides, at = self.sides, self.at
        phi = at.f + sides.barrier(at.v, self.mu)
        slope = sides.slope(at.p, at.q, self.mu)
        slope[: sides.n] += self.gradient
        descent = float(slope @ d.v)
        test = Test(self.filter, at.theta, phi, descent, self.small)
        length = sides.longest(at.p, at.q, d.v, fraction)
        shortest = test.shortest()
        trial = 0
        while length >= shortest or trial == 0:
            values = Values(sides, at.v + length * d.v)
            if values.finite and test.accepts(values.theta, values.f + sides.barrier(values.v, self.mu), length):
                self._damp(0.5**trial)
                self._move(values, d, length, fraction, test, newton.shift)
                return True
            if not corrections:
                return False
            if trial == 0 and values.finite and values.theta >= at.theta and sides.m:
                found = self._corrected(newton, lagrangian, values, length, fraction, test)
                if found is not None:
                    self._damp(1.0)
                    self._move(*found, fraction, test, newton.shift)
                    return True
            length *= 0.5
            trial += 1
        return False

    def _corrected(
        self, newton: Newton, lagrangian: Vector, values: Values, length: float, fraction: float, test: Test
    ) -> tuple[Values, Direction, float] | None:
        """Second-order corrections: steps that take back the violation that the full step left."""
        sides, at, t = self.sides, self.at, self.t
        central = lagrangian + sides.slope(at.p, at.q, self.mu)
        right, last = length * at.rows + values.rows, values.theta
        for _ in range(t.corrections):
            dv, dy = newton.solve(central, right)
            if not np.isfinite(dv).all():
                return None
            a = sides.longest(at.p, at.q, dv, fraction)
            values = Values(sides, at.v + a * dv)
            if not values.finite:
                return None
            if test.accepts(values.theta, values.f + sides.barrier(values.v, self.mu), length):
                return values, self._completed(dv, dy, self.mu), a
            if values.theta > t.correction_leaves * last:
                return None
            last, right = values.theta, a * right + values.rows
        return None

    def _move(self, values: Values, d: Direction, length: float, fraction: float, test: Test, shift: float) -> None:
        """Take the step."""
        if not test.lowered:
            self.filter.add(test.theta, test.phi)
        a = min(reach(self.z, d.z, fraction), reach(self.u, d.u, fraction))
        self.before_step = self._gaps()
        before, self.at, self.y = self.at, values, self.y + length * d.y
        z, u = self.z + a * d.z, self.u + a * d.u
        factor, mu = self.t.side_multiplier_factor, self.mu
        self.z = np.clip(z, mu / (factor * values.p), factor * mu / values.p)
        self.u = np.clip(u, mu / (factor * values.q), factor * mu / values.q)
        self.tiny = 0
        self.lengths.append(length)
        gradient, j = self.gradient, self.j
        self._derive()
        if self.learnt is not None:
            n = self.sides.n
            change = self.gradient - gradient
            if self.sides.m:
                change = change + transposed_product(self.j, self.y) - transposed_product(j, self.y)
            self.learnt.learn(values.v[:n] - before.v[:n], change)
        if shift and self.sides.m and self.nearest > self.t.close:
            self._fit()

    def _fit(self) -> None:
        """Multipliers by least squares after a step of a shifted system, where they fit much better.

        Those of such a step balance the shift, too, as if it were a force: where it is large they may be far off,
        and the next Hessian with them.
        """
        sides, fitted = self.sides, self.equations.least_squares(self.gradient, self.j, self.z, self.u)
        before, known = largest(self._lagrangian() - sides.spread(self.z, -self.u)), self.y
        self.y = fitted
        if not largest(self._lagrangian() - sides.spread(self.z, -self.u)) <= self.t.fits_better * before:
            self.y = known

    def _damp(self, left: float) -> None:
        """After a line search that leaves this part of a step: a larger proximal term for the next ones, or a smaller.

        In flat curved valleys Newton's steps are many times too long, and what a line search leaves of them leads
        nowhere. As in the method of Levenberg and Marquardt. Where rows are violated a restoration is what helps.
        """
        t = self.t
        short = left < t.jammed_length and self.at.theta <= self.target
        self.shortened = self.shortened + 1 if short else 0
        if short and (self.damping or self.shortened == t.jammed_steps):
            self.damping = max(t.first_shift, t.shift_growth * self.damping)
        elif not short:
            self.damping = self.damping / t.shift_fall if self.damping > t.standing_prox else 0.0

    # ------------------------------------------------------------------------------------------------- ends and stops

    def _stuck(self, errors: Errors) -> bool:
        """No step was accepted: the fixed mode, then restoration; False if neither helps."""
        if not self.fixed:
            self.fixed = True
            self.mu = max(self.last_mu, errors.mean)
            self.filter.clear()
            return True
        return self._restore()

    def _jammed(self) -> bool:
        """Whether the last steps were all short, although rows are violated: the way to them leads along sides."""
        t, lengths = self.t, self.lengths
        short = len(lengths) == t.jammed_steps and max(lengths) < t.jammed_length
        return short and self.restorations < t.most_restorations and self.at.theta > self.target

    def _restore(self) -> bool:
        """On from a point that is less violated; False if there is none."""
        t = self.t
        self.filter.add(self.at.theta, self.at.f + self.sides.barrier(self.at.v, self.mu))
        if self.at.theta <= t.restore_above * self.target or not self.sides.m:
            return False
        found = return_to_rows(
            self.sides, self.equations, self.curvature, self.at, self.z, self.u, self.filter, self.mu
        )
        self.restorations += 1
        self.lengths.clear()
        if found is None:
            return False
        self.at, self.z, self.u = found
        if max(largest(self.z), largest(self.u)) > t.largest_side_multiplier:
            self.z, self.u = np.ones_like(self.z), np.ones_like(self.u)
        self._derive()
        self.y = self.equations.least_squares(self.gradient, self.j, self.z, self.u)
        return True

    def _diverges(self) -> bool:
        far = self.t.diverging
        return self.at.f < -far * max(1.0, abs(self.first)) or largest(self.x) > far

    def _done(self, errors: Errors) -> bool:
        """Whether the target is met in the eyes of the caller."""
        self.follow(self.x, self.y, errors.worst)
        self.nearest = min(self.nearest, errors.worst)
        if errors.worst <= self.next_fall:
            self.next_fall, self.fallen_at = self.t.slow_factor * errors.worst, self.count
        nearest = self.next_fall / self.t.slow_factor
        if nearest <= self.t.close and self.count - self.fallen_at > self.t.slow_steps_large:
            return True  # no longer Newton's method: there are no multipliers, as it seems
        if max(errors.rows, errors.sides) > self.t.worth_a_look * self.target:
            return False  # the dual residual has the multipliers of sides in it, which the caller does not see
        error = self.form.error(self.x, self.y)
        if error < self.best[2]:
            self.best = (self.x.copy(), self.y, error, self.sides.sets(self.at.v, self.z, self.u))
        if error <= self.target and self.seen(self.x, self.y, error):
            return True
        if self._on_sides(error):
            return True
        if not self._rounded() and (
            self.learnt is not None or errors.worst > max(self.t.handed_over, self._rounding())
        ):
            return False
        self.finishing += 1
        self.last_mu = max(self.t.least_mu, self.t.last_mu_factor * self.last_mu)
        return self.finishing > self.t.finishing_steps

    def _rounded(self) -> bool:
        """Whether the best error is near the target, and no larger than rounding makes that of the gradient."""
        t, best = self.t, self.best[2]
        if best > t.nearly * self.target:
            return False
        terms = np.abs(self.gradient) + (transposed_product(abs(self.j), np.abs(self.y)) if self.sides.m else 0.0)
        return bool(best <= t.multiplier_noise * np.finfo(float).eps * np.linalg.norm(terms))

    def _on_sides(self, error: float) -> bool:
        """Whether Newton steps on the sides that are active, as it seems, lead to a point that meets the target."""
        if self.learnt is not None or self.before_step is None:
            return False
        onto = OntoSides(self.equations, self.before_step, self._gaps())
        if self.tried is not None and onto.same(self.tried[0]) and error > self.t.slow_factor * self.tried[1]:
            return False
        self.tried, at, y = (onto, error), self.at, self.y
        for _ in range(self.t.steps_on_sides):
            found = onto.step(self.curvature, self.memory, at, y)
            if found is None:
                return False
            v, y = found
            x, before = self.sides.into_box(v[: self.sides.n]), error
            at, error = Values(self.sides, v), self.form.error(x, y)
            if error < self.best[2]:
                self.best = (x, y, error, onto.sets())
            if error <= self.target and self.seen(x, y, error):
                return True
            if not error <= self.t.slow_factor * before:
                return False
        return False

    def _gaps(self) -> Gaps:
        return self.at.p, self.at.q, self.z, self.u

    def show(self) -> None:
        """Tell the caller of the iterate, if its values are known."""
        with contextlib.suppress(Exception):
            self.seen(self.x.copy(), self.y, self.form.error(self.x, self.y))

    def arrival(self) -> tuple[Vector, Vector, float, Sets]:
        """The best point."""
        error = self.form.error(self.x, self.y)
        if error < self.best[2]:
            self.best = (self.x.copy(), self.y, error, self.sides.sets(self.at.v, self.z, self.u))
        return self.best


def _equal(one: Any, other: Any) -> bool:
    """Whether two sparse matrices are the same to the last bit; a pattern that is only the same in order is not."""
    same = one.data.size == other.data.size and np.array_equal(one.data, other.data)
    return bool(same and np.array_equal(one.indices, other.indices) and np.array_equal(one.indptr, other.indptr))


def _span(products: Vector, mu: float) -> float:
    """The largest |product - mu|."""
    if not products.size:
        return 0.0
    return max(float(products.max()) - mu, mu - float(products.min()))
