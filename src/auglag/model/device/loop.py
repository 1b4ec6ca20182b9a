"""The device loop: interior points with a filter, and the augmented Lagrangian where they find no step.

Steps are those of Waechter and Biegler (2006). Where the line search fails, the elastic form of the same problem goes
on: its constraints can always be satisfied, its penalty follows Algorithm 1 (raised only where the violation did not
shrink), and it ends where the violation has gone, or where it cannot.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import jax
import numpy as np

from auglag.algorithm.status import Status
from auglag.model.device.linear import Sparse
from auglag.model.device.on_sides import OnSides
from auglag.model.device.program import Elastic, Facts, Iterate, Local, Program, Right, Step, soft_number
from auglag.model.device.tuning import TUNING

Watch = Callable[[int, Facts], bool]


@final
@dataclass(slots=True)
class Times:
    """Seconds and counts of a run."""

    evaluation: float = 0.0
    factor: float = 0.0
    solve: float = 0.0
    total: float = 0.0
    met: float = math.nan  #: when the scaled tolerance was met
    factorisations: int = 0
    solves: int = 0
    trials: int = 0
    corrections: int = 0
    elastic: int = 0  #: how often the elastic form was entered
    log: list[str] = field(default_factory=list)


@final
@dataclass(frozen=True, slots=True)
class Ended:
    """Where a run ended, as device arrays, scaled."""

    it: Iterate
    facts: Facts
    status: Status
    steps: int
    times: Times


class System(NamedTuple):
    """Newton's equations at an iterate, as they were factorised."""

    it: Iterate
    at: Local
    values: Any
    right: Right
    shift: float
    soft: float


class Solved(NamedTuple):
    """A solution of Newton's equations, the error that it leaves, and the step that it gives."""

    solution: Any
    error: Any
    step: Iterate
    rows: Any  #: at the longest step
    facts: Step


@final
class _NoStep(Exception):
    """No shift gives a matrix of the right inertia, or the linear system cannot be solved."""


@final
class Loop:
    """One run."""

    def __init__(
        self,
        program: Program,
        on_sides: OnSides,
        data: dict[str, Any],
        linear: Sparse,
        *,
        tol: float,
        scaled_tol: float,
        steps: int,
        seconds: float = math.inf,
        watch: Watch | None = None,
    ) -> None:
        self.program, self.on_sides, self.linear, self.watch = program, on_sides, linear, watch
        self.near = data  #: the data for iterates near the rows
        self.far = {**data, "units": program.ones(program.m)}  #: and for others: all rows are regularised alike
        self.d = self.far
        self.tol, self.scaled_tol, self.steps, self.seconds = tol, scaled_tol, steps, seconds
        self.times = Times()
        self.least_mu = scaled_tol / TUNING.last_mu
        self.never_free, self.free, self.fraction = False, False, TUNING.to_sides
        self.free_points: list[tuple[float, float]] = []
        self.mu, self.shift, self.last_shift = TUNING.first_mu, 0.0, 0.0
        self.soft_factor, self.stiff = 1.0, False  #: whether regularisation could not be taken out of the last step
        self.prox = 0.0  #: on the diagonal of variables, where factorisations break down without it
        self.refused: tuple[Iterate, tuple[float, float]] | None = None  #: a step that the filter did not take
        self.soft_steps = 0  #: steps in a row that were taken in spite of the filter
        self.filter: list[tuple[float, float]] = []
        self.lengths: list[float] = []
        self.repairs, self.hopeless = 0, False
        self.largest_theta = self.small_theta = math.inf
        self.entries, self.elastic_before = 0, math.inf
        self.met_at = self.sharpened_at = -1
        self.last_residual = math.inf
        self.elastic, self.is_elastic = Elastic.off(program.m, program.device), False
        self.rho = TUNING.first_penalty
        self.zero = program.still()
        self.count, self.begun = 0, 0.0
        self.now: tuple[Iterate, Any] = (self.zero, None)
        self.best: tuple[Iterate, Any] | None = None  #: of least residual among those that meet the scaled tolerance
        self.origin: Any = None  #: the start, while it may be gone back to
        self.previous: Iterate | None = None  #: the iterate before the last step
        self.next_landing = math.inf  #: the residual with which steps on sides are tried next

    # -------------------------------------------------------------------------------------------------- the start

    def start(self, x: Any, y: Any = None) -> Iterate:
        """The first iterate: inside the sides, with multipliers by least squares unless they are given."""
        t, d, p = TUNING, self.d, self.program
        warm = self.never_free = y is not None
        self.mu = t.warm_mu if warm else t.first_mu
        control = np.array([t.warm_push if warm else t.push, self.mu, float(warm)])
        given = (np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64) if warm else np.zeros(p.m))
        it: Iterate = p.begin(d, *jax.device_put(given, p.device), control)
        self.origin = None if warm or float(d["first_side"]) <= 1.0 else given[0]
        return it if warm else it._replace(y=self._fitted(it))

    def _begun_again(self) -> Iterate | None:
        """The start with multipliers of sides of 1, where with larger ones the first steps are all short; once."""
        x, self.origin = self.origin, None
        if x is None or self.repairs or self.is_elastic:
            return None
        one = self.program.ones(1)[0]
        self.near, self.far = {**self.near, "first_side": one}, {**self.far, "first_side": one}
        self.d, self.free, self.free_points = self.far, False, []
        self._restart()
        self.times.log.append("begun again, with smaller multipliers of sides")
        return self.start(x)

    def _fitted(self, it: Iterate) -> Any:
        """Multipliers by least squares; zero where they are large or cannot be found."""
        zero = self.zero.y
        if not self.program.m:
            return zero
        values, right = self.program.least_squares(self.d, it)
        return zero if self._factor(values) is None else self.program.fitted(self._solve(right))

    # -------------------------------------------------------------------------------------------------- the loop

    def run(self, it: Iterate) -> Ended:
        """Steps until the tolerances are met or there is no step. Ctrl-C ends the run at its last iterate."""
        self.begun = time.perf_counter()
        self.count, self.now, self.best = 0, (it, None), None
        facts: Any
        status = Status.INTERRUPTED
        try:
            status = self._steps(it)
        except KeyboardInterrupt:
            if self.now[1] is None:
                raise
        self.times.total = self._elapsed()
        it, facts = self.now if self.best is None else self.best
        return Ended(it, facts, status, self.count, self.times)

    def _elapsed(self) -> float:
        return time.perf_counter() - self.begun

    def _steps(self, it: Iterate) -> Status:
        step, lengths = self.zero, (0.0, 0.0)
        while True:
            it, at, values, right, facts = self._advance(it, step, lengths)
            self.now = (it, facts)
            near = facts.theta <= self.small_theta < math.inf
            step, lengths = self.zero, (0.0, 0.0)
            status = self._verdict(facts)
            if status is not None:
                return status
            if self._landed(it, at, facts):
                return Status.SOLVED
            if self._outer(facts, it) or self._sharpened(facts) or self._settled(facts):
                continue
            self._follow(facts)
            self.count += 1
            try:
                found = self._search(it, at, values, right, facts)
            except _NoStep:
                found = None
            if found is None and self.free:
                self._fix(facts.mean)
                continue
            found = found or self._softly(it, facts)
            other = None
            if found is None or self._jammed(found[1][0], facts):
                other = self._begun_again() or self._repaired(it, facts)
            if other is None and found is not None:
                step, lengths = found
                self.previous = it
                self.d = self.near if near else self.far
                continue
            self.previous = None
            other = other or self._otherwise(it, at, facts)
            if other is None:
                return Status.INFEASIBLE if self._infeasible(facts) else Status.STUCK
            it = other

    def _softly(self, it: Iterate, facts: Facts) -> tuple[Iterate, tuple[float, float]] | None:
        """The step that the filter refused, where it makes the error of the barrier problem smaller; None if not.

        IPOPT's soft restoration: near a solution a filter refuses good steps whose barrier value is rounding error.
        """
        t, refused, self.refused = TUNING, self.refused, None
        if refused is None or self.soft_steps >= t.soft_steps:
            return None
        self.soft_steps += 1
        after: Facts = self._advance(it, *refused)[-1]
        if not after.barrier_error <= t.soft_step_leaves * facts.barrier_error:
            return None
        self._remember(facts)
        self.times.log.append(f"taken, error {facts.barrier_error:.1e} to {after.barrier_error:.1e}")
        return refused

    def _infeasible(self, facts: Facts) -> bool:
        """Whether the elastic form ended with a violation that no penalty made smaller."""
        return self.is_elastic and facts.elastic > math.sqrt(self.scaled_tol)

    def _advance(self, it: Iterate, step: Iterate, lengths: Any) -> Any:
        begun = time.perf_counter()
        least = self.mu if self.free else self.least_mu  # in the free mode the predictor chooses
        control = np.array([self.mu, least, self.shift, self.soft_factor, self.prox])
        *out, facts = self.program.advance(self.d, it, step, np.array(lengths), self.elastic, control)
        numbers = Facts(*np.asarray(facts).tolist())
        self.times.evaluation += time.perf_counter() - begun
        return (*out, numbers)

    def _verdict(self, facts: Facts) -> Status | None:
        t, count = TUNING, self.count
        if self.watch is not None and self.watch(count, facts):
            return Status.STOPPED
        if not all(map(math.isfinite, (facts.f, facts.dual, facts.primal, facts.phi))):
            return Status.NON_FINITE
        if self._met(*self.now):
            if facts.residual <= self.tol:
                return Status.SOLVED
            slow = self.mu <= t.least_mu and facts.residual > t.extra_leaves * self.last_residual
            again = self.sharpened_at == count  # the same iterate, with another mu
            self.last_residual = facts.residual
            if count - self.met_at >= t.extra_steps or (slow and not again):
                return Status.SOLVED  # the certificate has the last word
        elif self.met_at >= 0 and count - self.met_at >= t.extra_steps:
            return Status.SOLVED  # at an iterate before this one, see `best`
        if self.hopeless:
            return Status.INFEASIBLE
        if count >= self.steps:
            return Status.ITERATION_LIMIT
        if self._elapsed() >= self.seconds:
            return Status.TIME_LIMIT
        return None

    def _met(self, it: Iterate, facts: Facts) -> bool:
        """Whether an iterate meets the scaled tolerance; the best of these is kept."""
        feasible = not self.is_elastic or facts.elastic <= self.scaled_tol
        if not (facts.error <= self.scaled_tol and facts.violation <= self.tol and feasible):
            return False
        if self.met_at < 0:
            self.met_at, self.times.met = self.count, self._elapsed()
        if self.best is None or facts.residual < self.best[1].residual:
            self.best = (it, facts)
        return True

    def _landed(self, it: Iterate, at: Local, facts: Facts) -> bool:
        """Whether Newton steps on the sides that are active, as it seems, lead to a point that meets the tolerances."""
        t, sides, d = TUNING, self.on_sides, self.d
        near = facts.error <= t.worth_a_look * self.scaled_tol
        if self.is_elastic or self.previous is None or not near or facts.residual > self.next_landing:
            return False
        left, self.next_landing = facts.residual, t.landing_again * facts.residual
        active = sides.active(d, self.previous, it)
        for count in range(t.steps_on_sides):
            for shift in (0.0, self.last_shift) if self.last_shift else (0.0,):
                values, springs, right = sides.system(d, it, at, active, shift)
                if self._factor(values) == (self.program.n, self.program.m):
                    break
            else:
                return False
            solution = self._solve(right.both[0])
            for _ in range(t.side_refinements):
                solution = solution + self._solve(sides.error(d, values, right, solution))
            it, at, numbers = sides.landed(d, it, springs, active, right, solution)
            facts, before = Facts(*np.asarray(numbers).tolist()), left
            left = facts.residual
            self.times.log.append(f"on sides, step {count + 1}: residual {before:.1e} to {left:.1e}")
            if self._met(it, facts) and left <= self.tol:
                return True
            if not left <= t.side_step_leaves * before:
                return False
        return False

    def _jammed(self, length: float, facts: Facts) -> bool:
        """Whether the last steps were all cut short by sides: the way to the constraints leads along them."""
        t = TUNING
        self.lengths = [*self.lengths[1 - t.jammed_steps :], length]
        may = not self.is_elastic and self.repairs < t.repairs and facts.theta > self.scaled_tol
        return may and len(self.lengths) == t.jammed_steps and max(self.lengths) < t.jammed_length

    def _otherwise(self, it: Iterate, at: Local, facts: Facts) -> Iterate | None:
        """An iterate to go on from where there is neither step nor restoration: of the elastic form; None if none."""
        if self.is_elastic:
            return it if self._harder() else None
        return self.entered if self._enter(it, at, facts) else None

    def _repaired(self, it: Iterate, facts: Facts) -> Iterate | None:
        """A point that is less violated and acceptable to the filter; None if there seems to be none."""
        if self.is_elastic or facts.violation <= self.scaled_tol or self.repairs >= TUNING.repairs:
            return None
        self.lengths, kept = [], self.filter
        self.repairs += 1
        repaired = self._restored(it, facts)
        if repaired is None:
            self.filter = kept
        return repaired

    def _restored(self, it: Iterate, facts: Facts) -> Iterate | None:
        t, p, d = TUNING, self.program, self.d
        self._remember(facts)
        ref, first, mu = it.w, facts.theta, max(self.mu, facts.primal)
        near, rho = math.sqrt(mu), t.repair_weight / max(facts.primal, t.elastic_ends)
        for count in range(t.repair_steps):
            control = (mu, near, rho)
            at, values, right, numbers = p.repair(d, it, ref, control)
            merit, _, most = np.asarray(numbers).tolist()
            if self._factor(values) is None:
                return None
            step, numbers = p.repair_step(d, self._solve(right.both[0]), right, it, at, control)
            length, dual, slope, move = np.asarray(numbers).tolist()
            if not (math.isfinite(slope) and move > t.tiny):
                return None
            for _ in range(t.repair_halvings):
                values = p.repair_trial(d, it, step, length, ref, control, self.mu)
                new, theta, phi = np.asarray(values).tolist()
                noise = t.value_noise * np.finfo(np.float64).eps * abs(merit)
                if new <= merit + t.repair_decrease * length * min(slope, 0.0) + noise:
                    break
                length *= 0.5
            else:
                return None
            it = p.moved(d, it, step, (length, dual), mu)
            mu = max(self.mu, min(mu, most))
            if theta <= t.repair_leaves * first and self._accepts(facts, phi, theta, 0.0, 1.0):
                self.times.log.append(f"restored in {count + 1}: theta {first:.1e} to {theta:.1e}")
                return self._fresh(it)
        return None

    def _fresh(self, it: Iterate) -> Iterate:
        """An iterate after restoration: multipliers of sides that are not too large, those of rows by least squares."""
        self.lengths = []
        it = self.program.freshened(it)
        return it._replace(y=self._fitted(it))

    def _sharpened(self, facts: Facts) -> bool:
        """Lower mu where only the residual in the user's units is still too large; True if it was."""
        t = TUNING
        if self.met_at < 0 or facts.error > self.scaled_tol or self.sharpened_at == self.count:
            return False
        self.mu = self.least_mu = max(t.least_mu, t.lower_mu * facts.mu)
        self.filter, self.sharpened_at = [], self.count
        return True

    def _follow(self, facts: Facts) -> None:
        """What a new mu, or the first iterate, means for the filter."""
        t = TUNING
        if facts.mu != self.mu:
            self.mu, self.filter = facts.mu, []
        if self.largest_theta == math.inf:
            self.largest_theta = t.largest_violation * max(1.0, facts.theta)
            self.small_theta = t.small_violation * max(1.0, facts.theta)

    def _settled(self, facts: Facts) -> bool:
        """Choose the mode; True where it is now the fixed one, with another mu."""
        if self.never_free or self.is_elastic or self.met_at >= 0:
            return self.free and self._fix(facts.mean)
        margin, least = TUNING.less_violation, self.scaled_tol
        less = margin * min(1.0, facts.error)
        progress = all(
            facts.primal <= max(least, (1.0 - margin) * rows) or facts.value <= value - less * abs(value)
            for value, rows in self.free_points
        )
        if not progress:
            return self.free and self._fix(TUNING.fixed_mu * facts.mean)
        self.free = True
        self.free_points.append((facts.value, facts.primal))
        return False

    def _fix(self, mu: float) -> bool:
        """Solve a barrier problem for a given mu next."""
        self.free, self.mu, self.filter = False, max(self.least_mu, mu), []
        return True

    # -------------------------------------------------------------------------------------------------- Newton's step

    def _factor(self, values: Any) -> tuple[int, int] | None:
        begun = time.perf_counter()
        inertia = self.linear.factor(values)
        self.times.factor += time.perf_counter() - begun
        self.times.factorisations += 1
        return inertia

    def _solve(self, right: Any) -> Any:
        begun = time.perf_counter()
        solution = self.linear.solve(right)
        self.times.solve += time.perf_counter() - begun
        self.times.solves += 1
        return solution

    def _post(self, solution: Any, system: System) -> Solved:
        it, at, values, right, shift, _ = system
        control = np.array([self.mu, shift, self.fraction])  # one array: numbers would travel one by one
        step, error, rows, facts = self.program.post(self.d, solution, values, right, it, at, self.elastic, control)
        return Solved(solution, error, step, rows, Step(*np.asarray(facts).tolist()))

    def _predicted(self, system: System, facts: Facts) -> tuple[Solved, System]:
        """The solution for the mu that the predictor allows, and the system with its right side."""
        t, (it, at, values, right, shift, _) = TUNING, system
        least = max(self.least_mu, min(facts.mean, t.free_guard * facts.primal))
        control = np.array([shift, max(facts.mean, t.least_mu), least, self.fraction])
        both = self._solve(right.both)
        solution, right, out = self.program.predicted(self.d, both, values, right, it, at, self.elastic, control)
        step, error, rows, numbers = out
        found = Solved(solution, error, step, rows, Step(*np.asarray(numbers).tolist()))
        self.mu, self.filter = found.facts.mu, []
        return found, system._replace(right=right)

    def _refined(self, system: System, facts: Facts) -> Solved:
        """The solution after iterative refinement."""
        t = TUNING
        self.fraction = max(t.to_sides, 1.0 - (facts.error if self.free else self.mu))
        if self.free:
            found, system = self._predicted(system, facts)
        else:
            found = self._post(self._solve(system.right.both[0]), system)
        least, best = self._error(found), found
        for _ in range(t.refinements):
            if least <= 1.0 or not math.isfinite(least):
                break
            found = self._post(found.solution + self._solve(found.error), system)
            before, now = least, self._error(found)
            if now < least:
                least, best = now, found
            if not now <= t.refinement_leaves * before:
                break
        return self._without_softness(best, system, facts)

    @staticmethod
    def _error(found: Solved) -> float:
        """The error of a solution, relative to what is asked for."""
        return max(found.facts.accuracy / TUNING.accurate, found.facts.row_error / TUNING.rows_accurate)

    def _usable(self, found: Solved) -> bool:
        """Whether a solution makes a step."""
        return self._error(found) <= TUNING.usable

    def _without_softness(self, found: Solved, system: System, facts: Facts) -> Solved:
        """The solution of the system without regularisation, where that makes a difference.

        A full step leaves the violation soft times the change of the multipliers. Where multipliers have a long way to
        go, a run with it converges as slowly as a method of multipliers whose penalty is too small.
        """
        t, p, d, new, soft = TUNING, self.program, self.d, found.facts, system.soft
        violation, dual = max(facts.primal, t.rows_matter), max(facts.dual, t.rows_matter)
        much = soft * new.dual_move > t.rows_accurate * violation or self.prox * new.move > t.rows_accurate * dual
        self.stiff = False
        if self.is_elastic or not much or not self._usable(found):
            return found
        solution, basis, least = found.solution, p.no_basis, math.inf
        error = p.unregularised(d, found.error, solution, (soft, self.prox))
        control = np.array([soft, self.prox, dual**-2, violation**-2])
        for count in range(t.krylov):
            solution, error, basis, left = p.minimal_residual(
                d, system.values, solution, error, self._solve(error), basis, count, control
            )
            left = float(np.max(np.asarray(left) / (dual, violation)))
            if not left < least or left <= t.rows_accurate:
                break
            least = left
        self.stiff = left > t.rows_accurate
        self.times.log.append(f"regularisation taken out in {count + 1}, {left:.0e} is left")
        sharp = self._post(solution, system)
        return sharp._replace(facts=sharp.facts._replace(accuracy=new.accuracy, row_error=new.row_error))

    def _newton(self, it: Iterate, at: Local, values: Any, right: Right, facts: Facts) -> tuple[Solved, System]:
        """Factorise, with shifts until the inertia is that of a minimum, and solve."""
        t, p = TUNING, self.program
        shift, soft, factor = self.shift, soft_number(self.mu) * self.soft_factor, self.soft_factor
        softened = 0
        while True:
            inertia = self._factor(values)
            if inertia == (p.n, p.m):
                system = System(it, at, values, right, shift, soft)
                found = self._refined(system, facts)
                self.soft_factor = self._next_softness(factor, found)
                if self._usable(found):
                    self.last_shift = shift or self.last_shift
                    self.shift = shift / t.shift_fall if shift > t.standing_shift else 0.0
                    return found, system
            if (inertia is None or inertia == (p.n, p.m)) and softened < t.softenings:
                softened += 1
                soft *= t.soft_growth
                self.prox = max(t.first_prox, min(t.largest_prox, t.soft_growth * self.prox))
                values = p.assemble(self.d, at, shift, soft, self.elastic, self.prox)
                continue
            if shift == 0.0:
                shift = max(t.least_shift, self.last_shift / t.shift_fall) if self.last_shift else t.first_shift
            else:
                shift *= t.shift_growth if self.last_shift else t.shift_growth_first
            if shift > t.largest_shift:
                raise _NoStep
            values = p.assemble(self.d, at, shift, soft, self.elastic, self.prox)
            rows = at.c + self.elastic.on * it.r
            right = p.right(self.d, it, at, rows, self.mu, shift, self.elastic)

    def _next_softness(self, factor: float, found: Solved) -> float:
        """More regularisation where a system was solved badly, less where it was in the way of a good solution."""
        t = TUNING
        if not self._error(found) <= 1.0:
            return min(t.soft_factor_most, factor * t.soft_growth)
        if self.stiff and found.facts.accuracy <= t.very_accurate:
            return max(t.soft_factor_least, factor / t.soft_growth)
        return max(1.0, factor / t.soft_fall) if factor > 1.0 else factor

    # -------------------------------------------------------------------------------------------------- the search

    def _search(
        self, it: Iterate, at: Local, values: Any, right: Right, facts: Facts
    ) -> tuple[Iterate, tuple[float, float]] | None:
        """A step and its lengths that the filter takes; None if there is none."""
        t = TUNING
        found, system = self._newton(it, at, values, right, facts)
        step, new, shift = found.step, found.facts, system.shift
        if self.mu != facts.mu:
            facts = facts._replace(phi=facts.value + self.mu / facts.mu * (facts.phi - facts.value), mu=self.mu)
        note = f"{'free' if self.free else 'fixed'} mu {self.mu:.0e} shift {shift:.0e} accuracy {new.accuracy:.0e}"
        length = new.longest
        kind = "tiny" if new.move < t.tiny else self._accepts(facts, new.phi, new.theta, new.slope, length)
        if not kind and new.theta >= facts.theta:
            corrected, kind = self._corrected(found, system, facts)
            step, new = corrected.step, corrected.facts
            length = new.longest
        trials = 0
        while not kind and trials < t.trials and length > t.least_length:
            length, trials = 0.5 * length, trials + 1
            phi, theta, _ = self.program.trial(self.d, it, step, length, self.mu, self.elastic)
            kind = self._accepts(facts, float(phi), float(theta), new.slope, length)
        self.times.trials += trials
        noise = new.phi - facts.phi <= t.noisy * max(1.0, abs(facts.phi))
        if not kind and noise and facts.theta < t.noisy and new.theta <= max(t.noisy_violation, 10.0 * facts.theta):
            self.filter, length, kind = [], new.longest, "noise"
        self.times.log.append(f"{note} length {length:.1e} trials {trials} {kind or 'none'}")
        if kind == "violation":
            self._remember(facts)
        if not kind:
            change = (
                f"theta {facts.theta:.1e} to {new.theta:.1e}, phi {new.phi - facts.phi:+.1e}, slope {new.slope:.1e}"
            )
            self.times.log.append(f"refused: {change}, error {facts.barrier_error:.1e}, dual move {new.dual_move:.1e}")
            self.refused = (step, (new.longest, new.longest_dual))
            return None
        self.soft_steps = 0
        return step, (length, new.longest_dual)

    def _accepts(self, old: Facts, phi: float, theta: float, slope: float, length: float) -> str:
        """Why the filter takes a point; "" if it does not."""
        t = TUNING
        if not (math.isfinite(phi) and math.isfinite(theta)) or theta > self.largest_theta:
            return ""
        if any(theta >= known and phi >= value for known, value in self.filter):
            return ""
        noise = t.value_noise * np.finfo(np.float64).eps * abs(old.phi)
        must_fall = slope < 0 and length * (-slope) ** t.power_value > old.theta**t.power_violation
        if old.theta <= self.small_theta and must_fall:
            return "value" if phi - old.phi - noise <= t.decrease * length * slope else ""
        less = theta <= (1.0 - t.less_violation) * old.theta or phi - old.phi - noise <= -t.less_value * old.theta
        return "violation" if less else ""

    def _remember(self, facts: Facts) -> None:
        t = TUNING
        pair = ((1.0 - t.less_violation) * facts.theta, facts.phi - t.less_value * facts.theta)
        self.filter = [known for known in self.filter if known[0] < pair[0] or known[1] < pair[1]]
        self.filter.append(pair)

    def _corrected(self, found: Solved, system: System, facts: Facts) -> tuple[Solved, str]:
        """A second-order correction that the filter takes, and why; the step as it was and "" if there is none."""
        t, p, (it, at, *_) = TUNING, self.program, system
        total, last = at.c + self.elastic.on * it.r, found
        for _ in range(t.corrections):
            total = last.facts.longest * total + last.rows
            right = p.right(self.d, it, at, total, self.mu, system.shift, self.elastic)
            theta = last.facts.theta
            last = self._post(self._solve(right.both[0]), system._replace(right=right))
            self.times.corrections += 1
            kind = self._accepts(facts, last.facts.phi, last.facts.theta, found.facts.slope, last.facts.longest)
            if kind:
                return last, kind
            if not last.facts.theta <= t.correction_leaves * theta:
                break
        return found, ""

    # ---------------------------------------------------------------------------------------------- the elastic form

    def _enter(self, it: Iterate, at: Local, facts: Facts) -> bool:
        """Go on with the elastic form, from rows that are satisfied by r; False if that was done too often."""
        t = TUNING
        if self.is_elastic or self.entries >= t.elastic_entries or not self.program.m:
            return False
        self.entries += 1
        self.times.elastic += 1
        near = max(facts.violation, self.scaled_tol)
        self.mu = max(self.mu, min(t.elastic_mu, near))
        first = min(t.largest_first_penalty, max(t.first_penalty, 1.0 / near))
        self.rho = first if self.entries == 1 else min(t.largest_penalty, max(first, self.rho * t.penalty_growth))
        self.entered, yk, left = self.program.enter(it, at, self.rho)
        self.elastic, self.is_elastic = Elastic(np.float64(1.0), yk, np.float64(self.rho)), True
        self.elastic_before = float(left)
        self._restart()
        self.times.log.append(f"elastic, penalty {self.rho:.0e}, violation {self.elastic_before:.1e}")
        return True

    def _restart(self) -> None:
        self.filter, self.largest_theta, self.small_theta = [], math.inf, math.inf
        self.lengths = []
        self.shift, self.last_shift, self.soft_factor = 0.0, 0.0, 1.0
        self.soft_steps = 0

    def _outer(self, facts: Facts, it: Iterate) -> bool:
        """Lines 4 to 6 of Algorithm 1 where a barrier problem of the elastic form is solved; True if it changed."""
        t = TUNING
        if not self.is_elastic or (facts.mu == self.mu and facts.barrier_error > t.solved_barrier * self.mu):
            return False
        left = facts.elastic
        if left <= t.elastic_ends and self.entries < t.elastic_entries:
            self.elastic, self.is_elastic = self.elastic._replace(on=np.float64(0.0)), False
            self.mu = facts.mu
            self._restart()
            self.times.log.append(f"elastic ends, {left:.1e}")
            return True
        if left > max(t.elastic_shrinks * self.elastic_before, self.scaled_tol):
            if not self._harder():
                self.hopeless = True
                return False
        else:
            self.elastic = self.elastic._replace(yk=it.y)
        self.elastic_before = left
        self.mu = facts.mu
        self._restart()
        return True

    def _harder(self) -> bool:
        """A larger penalty; False if it is the largest."""
        t = TUNING
        if self.rho >= t.largest_penalty:
            return False
        self.rho *= t.penalty_growth
        self.elastic = self.elastic._replace(rho=np.float64(self.rho))
        self._restart()
        self.times.log.append(f"penalty {self.rho:.0e}")
        return True
