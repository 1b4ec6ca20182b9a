"""The interior-point loop for large sparse problems: one factorisation of a quasi-definite matrix a step.

Two ways to choose the barrier parameter. In the free mode every step has its own: Mehrotra's predictor says how far mu
can fall, his corrector is added where it makes steps longer. In the fixed mode, and where Hessians need shifts, a
barrier problem is solved for one mu after another (Waechter and Biegler 2006). Restoration goes on where the line
search finds no step.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.inner.qp import curvature_for
from auglag.interior import tuning
from auglag.interior.filter import Filter
from auglag.interior.large.damping import Damping
from auglag.interior.large.directions import Equations
from auglag.interior.large.ends import Ends, Seen
from auglag.interior.large.iterate import Iterate, Residuals
from auglag.interior.large.limited_memory import LimitedMemory
from auglag.interior.large.mu import Mu
from auglag.interior.large.predictor import predicted
from auglag.interior.large.quadratic import PrimalDual, Programme, Quadratic, unchanged
from auglag.interior.large.rays import Ray, falling, least_squares, proves
from auglag.interior.large.return_to_rows import Blocked, return_to_rows
from auglag.interior.large.search import Found, Search
from auglag.interior.large.sides import Sides
from auglag.interior.large.start import Start
from auglag.interior.large.values import Values
from auglag.kkt import Hessian, Memory, Sets
from auglag.kkt.sides import largest
from auglag.problems.jacobians import transposed_product
from auglag.problems.standard_form import StandardForm


@final
class Large:
    """The state of one run."""

    def __init__(
        self, form: StandardForm, memory: Memory, x: Vector, y: Vector, target: float, seen: Seen, *, safe: bool = False
    ) -> None:
        """`safe`: only the fixed mode."""
        self.form, self.memory, self.target, self.t = form, memory, target, tuning.TUNING
        self.sides = sides = Sides(form)
        self.curvature = curvature_for(form.traits)
        self.equations = Equations(sides, memory.layout)
        self.learnt = None if self.curvature.exact else LimitedMemory(sides.n)
        self.ends = Ends(form, x, y, target, seen, exact=self.learnt is None)
        self.damping = Damping(safe=safe)
        self.count = self.tiny = self.restorations = 0
        self.blocked: Vector | None = None  #: where a restoration ended: at a stationary point of the violation
        self.proved = False  #: and multipliers of constant rows prove that no point satisfies them
        self.ray: Ray | None = None  #: along which a quadratic programme falls without end
        self.constants: tuple[Hessian, Any, Vector]  #: H, J and the gradient of the step before
        start = Start.of(sides, x, y, self.ends.first)
        self.it = Iterate(sides, self.curvature, start.at, y, start.z, start.u)
        if not start.warm and sides.m:
            self.equations.remember(self._hessian())
            self.it = self.it.with_multipliers(self._fitted())
        theta = max(1.0, start.at.theta)
        self.small = self.t.small_violation * theta
        #: Only the fixed mode: near a solution, with rough curvature, and without sides, where mu means nothing.
        free = not (safe or start.warm or self.learnt is not None or not sides.count)
        self.ends.free = free
        known = Filter(self.t.largest_violation * theta)
        self.mu = Mu(start.mu, target, known, sides=bool(sides.count), free=free)

    # ------------------------------------------------------------------------------------------------------ one step

    def step(self) -> bool:
        """One step; False where the run is over."""
        it, mu = self.it, self.mu
        lagrangian = it.lagrangian()
        residuals = it.residuals(lagrangian, 0.0)
        if not (it.at.finite and math.isfinite(residuals.worst)) or self.ends.diverges(it):
            return False
        if self.ends.done(it, residuals, self.count, mu, (self.equations, self.curvature, self.memory)):
            return False
        far = self.ends.nearest > self.t.close
        mu.choose_mode(it, residuals, lagrangian, shifted=far and self.equations.shifted)
        self.count += 1
        if self.damping.jammed():
            if self.sides.count and not self.sides.m:
                return False  # a subproblem of Algorithm 1 is the problem itself, and its solver keeps to the sides
            if self._violated() and (self._restore() or self.blocked is not None):
                return self.blocked is None
        h = self._hessian()
        if not h.finite():
            return False
        if self.count == 2 and self._constant(h):
            going = self._programme(h)
            if going or self.blocked is not None or self.ray is not None:
                return going
        self.constants = (h, it.j, it.gradient)
        return self._newton(h, lagrangian, residuals)

    def _newton(self, h: Hessian, lagrangian: Vector, residuals: Residuals) -> bool:
        """Newton's step on the barrier problem, as far as the line search follows it; restoration where it does not."""
        it, mu, t, sides = self.it, self.mu, self.t, self.sides
        weights = sides.spread(it.z / it.at.p, it.u / it.at.q) + self.damping.weight
        soft = np.maximum(self._soft(mu.value if mu.fixed else residuals.mean), self.damping.rows)
        central = lagrangian + sides.slope(it.at.p, it.at.q, mu.value if mu.fixed else 0.0)
        far = self.ends.nearest > t.close
        sharp = not self.damping.rows
        made = self.equations.newton(h, it.j, weights, soft, (central, it.at.rows), far=far, sharp=sharp)
        if made is None:
            return False
        newton, step = made
        if mu.fixed:
            directions = [it.completed(*step, mu.value)]
        else:
            directions = predicted(newton, it, lagrangian, step, residuals, mu)
        if not directions[0].finite():
            return False
        self.equations.after(directions[0].v, lagrangian - sides.spread(it.z, -it.u))
        if largest(directions[0].v / np.maximum(1.0, np.abs(it.at.v))) < t.tiny:
            self.tiny += 1
            mu.value = max(mu.last, t.mu_factor * mu.value)
            return self.tiny < t.tiny_steps
        fraction = max(t.to_sides, 1.0 - (mu.value if mu.fixed else residuals.worst))
        search = Search(it, mu.filter, mu.value, fraction, self.small)
        for direction in directions:
            found = search.run(newton, lagrangian, direction, corrections=direction is directions[-1])
            if found is not None:
                self._move(found, fraction, fit=bool(newton.shift) and far)
                return True
        return self._stuck(residuals)

    def _hessian(self) -> Hessian:
        """Of the Lagrangian: the user's, or what was learnt."""
        it = self.it
        if self.learnt is not None:
            known = it.at.point.known_curvature()
            return self.learnt.hessian() if known is None else Hessian(sparse.csc_array(known))
        return self.curvature.hessian(it.at.point, it.x, it.y, self.memory)

    def _soft(self, mu: float) -> Vector | float:
        """The diagonal of the rows, in units of their own once they are nearly satisfied."""
        t = self.t
        soft = min(max(t.soft_of_mu * mu, t.soft_least), t.soft_largest)
        return soft * self.sides.row_units if self.it.at.theta <= self.small else soft

    def _move(self, found: Found, fraction: float, *, fit: bool) -> None:
        """Take the step; `fit`: fit multipliers to where it leads."""
        before = self.it
        self.damping.after(found.length, found.left, violated=before.at.theta > self.target)
        self.ends.leaves(before)
        self.tiny = 0
        self.it = it = self._at(found.at, *found.multipliers(before, fraction, self.mu.value))
        if self.learnt is not None:
            change = it.gradient - before.gradient
            if self.sides.m:
                change = change + transposed_product(it.j, it.y) - transposed_product(before.j, it.y)
            self.learnt.learn(it.x - before.x, change)
        if fit and self.sides.m:
            self._fit()

    def _at(self, at: Values, y: Vector, z: Vector, u: Vector) -> Iterate:
        return Iterate(self.sides, self.curvature, at, y, z, u)

    def _fitted(self) -> Vector:
        """Multipliers of the rows by least squares."""
        it = self.it
        return self.equations.least_squares(it.gradient, it.j, it.z, it.u)

    def _fit(self) -> None:
        """Multipliers by least squares after a step of a shifted system, where they fit much better.

        Those of such a step balance the shift, too, as if it were a force: where it is large they may be far off,
        and the next Hessian with them.
        """
        fitted = self.it.with_multipliers(self._fitted())
        if fitted.dual() <= self.t.fits_better * self.it.dual():
            self.it = fitted

    # ------------------------------------------------------------------------------------------ quadratic programmes

    def _constant(self, h: Hessian) -> bool:
        """Whether derivatives are what they were at the step before: the problem is quadratic, as it seems.

        Without second derivatives only linear objectives can be told.
        """
        old_h, old_j, old_gradient = self.constants
        if not unchanged(self.it.j, old_j):
            return False
        if self.learnt is not None:
            return np.array_equal(self.it.gradient, old_gradient)
        return unchanged(h.matrix, old_h.matrix)

    def _programme(self, h: Hessian) -> bool:
        """Solve the quadratic programme; whether its solution is where the run goes on."""
        it, sides = self.it, self.sides
        if self.learnt is not None:
            h = Hessian(sparse.csc_array((sides.n, sides.n)))
        model = Quadratic.through(h, it.j, it.x, it.gradient, it.at.point.c)
        solver = Programme(model, sides, self.memory.layout, PrimalDual(it.at.v, it.y, it.z, it.u))
        found = solver.run(self.target, lambda at: self.form.error(at.v[: sides.n], at.y) <= self.target)
        if not solver.arrived and solver.least > self.t.ray_least and self._without_solution(model):
            return False
        values = None if found is None else Values(sides, sides.inside(found.v, self.t.tiny))
        if found is None or values is None or not values.finite:
            return False
        self.it = self._at(values, found.y, found.z, found.u)
        self.mu.fix(solver.mean)
        return True

    def _without_solution(self, model: Quadratic) -> bool:
        """Whether the programme has none: no point satisfies its rows, or it falls without end."""
        sides, x = self.sides, self.it.x
        if sides.m:
            found = least_squares(model, sides, self.it.at.v, self.memory.layout)
            if found is None:
                return False
            x = found.v[: sides.n]
            if largest(sides.equations(found.v, model.c + model.j @ x)) > self.target:
                self.proved = proves(model, sides, found)
                self.blocked = x if self.proved else None
                return self.proved
        d = falling(model, sides)
        self.ray = None if d is None else Ray(x, d)
        return d is not None

    # --------------------------------------------------------------------------------------------------- restoration

    def _stuck(self, residuals: Residuals) -> bool:
        """No step was accepted: the fixed mode, then restoration; False if neither helps."""
        if not self.mu.fixed:
            self.mu.fix(residuals.mean)
            return True
        return self._restore()

    def _violated(self) -> bool:
        """Whether rows are violated, and restorations not yet many: a way to them that leads along sides is jammed."""
        return self.it.at.theta > self.target and self.restorations < self.t.most_restorations

    def _restore(self) -> bool:
        """On from a point that is less violated; False if there is none."""
        t, it, mu, sides = self.t, self.it, self.mu, self.sides
        mu.filter.add(it.at.theta, it.at.f + sides.barrier(it.at.v, mu.value))
        if it.at.theta <= t.restore_above * self.target or not sides.m:
            return False
        self.restorations += 1
        try:
            found = return_to_rows(sides, self.equations, self.curvature, it.at, it.z, it.u, mu.filter, mu.value)
        except Blocked as end:
            self.blocked = end.v[: sides.n]
            return False
        self.damping.moved()
        if found is None:
            return False
        at, z, u = found
        if max(largest(z), largest(u)) > t.largest_side_multiplier:
            z, u = np.ones_like(z), np.ones_like(u)
        self.it = self._at(at, it.y, z, u)
        self.it = self.it.with_multipliers(self._fitted())
        return True

    # ---------------------------------------------------------------------------------------------------------- ends

    def show(self) -> None:
        """Tell the caller of the iterate, if its values are known."""
        it = self.it
        with contextlib.suppress(Exception):
            self.ends.seen(it.x.copy(), it.y, self.form.error(it.x, it.y))

    def arrival(self) -> tuple[Vector, Vector, float, Sets]:
        """The best point."""
        self.ends.note(self.it)
        return self.ends.best
