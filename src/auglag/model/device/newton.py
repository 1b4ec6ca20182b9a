"""Newton's step: factorise, with shifts and regularisation as they are needed, solve, and refine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from auglag.model.device.records import Facts, Iterate, Local, Right, Step
from auglag.model.device.state import NoStep, Run, Solved, System
from auglag.model.device.tuning import TUNING


def newton_step(run: Run, it: Iterate, at: Local, values: Any, right: Right, facts: Facts) -> tuple[Solved, System]:
    """Factorise, with shifts until the inertia is that of a minimum, and solve."""
    t, p = TUNING, run.program
    shift, whole, factor = run.shift, _soft(run.mu) * run.soft_factor, run.soft_factor
    part, *parts = run.firmness.order(shifted=shift > 0.0)
    softened, soft, grew = 0, part * whole, False
    while True:
        inertia = run.factor(values)
        if inertia == (p.n, p.m):
            system = System(it, at, values, right, shift, soft)
            found = _refined(run, system, facts)
            run.soft_factor = _next_softness(factor, _error(found, _asked(facts)))
            if _usable(found):
                run.firmness.worked(part, run.left if found.facts.accuracy <= t.very_accurate else 0.0)
                run.last_shift = shift or run.last_shift
                fall = 1.0 if grew else t.shift_fall
                run.shift = shift / fall if shift > t.standing_shift else 0.0
                return found, system
        broke = part == 1.0 and (inertia is None or inertia == (p.n, p.m))
        if broke and softened < t.softenings:
            softened += 1
            soft *= t.soft_growth
            run.prox = max(t.first_prox, min(t.largest_prox, t.soft_growth * run.prox))
            values = p.assemble(run.d, at, shift, soft, run.elastic, run.prox)
            continue
        if parts and not softened:
            part, *parts = parts
            soft = part * whole
            values = p.assemble(run.d, at, shift, soft, run.elastic, run.prox)
            continue
        if part < 1.0:
            part, soft = 1.0, whole
        if shift == 0.0:
            run.firmness.failed()
            shift = max(t.least_shift, run.last_shift / t.shift_fall) if run.last_shift else t.first_shift
        else:
            shift *= t.shift_growth if run.last_shift else t.shift_growth_first
            grew = True
        if shift > t.largest_shift:
            raise NoStep
        values = p.assemble(run.d, at, shift, soft, run.elastic, run.prox)
        right = p.right(run.d, it, at, run.rows(it, at), run.mu, shift, run.elastic)


def _next_softness(factor: float, error: float) -> float:
    """More regularisation where a system was solved badly, less again where it was not."""
    t = TUNING
    if not error <= 1.0:
        return min(t.soft_factor_most, factor * t.soft_growth)
    return max(1.0, factor / t.soft_fall)


def _refined(run: Run, system: System, facts: Facts) -> Solved:
    """The solution after iterative refinement."""
    t = TUNING
    run.fraction = max(t.to_sides, 1.0 - (facts.error if run.free else run.mu))
    if run.free:
        found, system = _predicted(run, system, facts)
    else:
        found = post(run, run.solve(system.right.both[0]), system)
    asked = _asked(facts)
    least, best = _error(found, asked), found
    for _ in range(t.refinements):
        if least <= 1.0 or not math.isfinite(least):
            break
        found = post(run, run.program.plus(found.solution, run.solve(found.error)), system)
        before, now = least, _error(found, asked)
        if now < least:
            least, best = now, found
        if not now <= t.refinement_leaves * before:
            break
    return _without_softness(run, best, system, facts)


def _predicted(run: Run, system: System, facts: Facts) -> tuple[Solved, System]:
    """The solution for the mu that the predictor allows, and the system with its right side."""
    t, (it, at, values, right, shift, _) = TUNING, system
    least = max(run.least_mu, min(facts.mean, t.free_guard * facts.primal))
    control = np.array([shift, max(facts.mean, t.least_mu), least, run.fraction])
    both = run.solve(right.both)
    solution, right, out = run.program.predicted(run.d, both, values, right, it, at, run.elastic, control)
    step, error, rows, numbers = out
    found = Solved(solution, error, step, rows, Step(*np.asarray(numbers).tolist()))
    run.mu = found.facts.mu
    run.filter.clear()
    return found, system._replace(right=right)


def _without_softness(run: Run, found: Solved, system: System, facts: Facts) -> Solved:
    """The solution of the system without regularisation, where that makes a difference.

    A full step leaves the violation soft times the change of the multipliers. Where multipliers have a long way to
    go, a run with it converges as slowly as a method of multipliers whose penalty is too small.
    """
    t, p, d, new, soft = TUNING, run.program, run.d, found.facts, system.soft
    violation, dual = max(facts.primal, t.rows_matter), max(facts.dual, t.rows_matter)
    much = soft * new.dual_move > t.rows_accurate * violation or run.prox * new.move > t.rows_accurate * dual
    run.left = 0.0
    if run.is_elastic or not much or not _usable(found):
        return found
    solution, basis, least = found.solution, p.no_basis, math.inf
    error = p.unregularised(d, found.error, solution, (soft, run.prox))
    control = np.array([soft, run.prox, dual**-2, violation**-2])
    for count in range(t.krylov):
        solution, error, basis, left = p.minimal_residual(
            d, system.values, solution, error, run.solve(error), basis, count, control
        )
        left = float(np.max(np.asarray(left) / (dual, violation)))
        if not left < least or left <= t.rows_accurate:
            break
        least = left
    run.left = left
    run.times.log.append(f"regularisation taken out in {count + 1}, {left:.0e} is left")
    sharp = post(run, solution, system)
    return sharp._replace(facts=sharp.facts._replace(accuracy=new.accuracy, row_error=new.row_error))


def post(run: Run, solution: Any, system: System) -> Solved:
    """The step that belongs to a solution, and what the solution leaves."""
    it, at, values, right, shift, _ = system
    control = np.array([run.mu, shift, run.fraction])  # one array: numbers would travel one by one
    step, error, rows, facts = run.program.post(run.d, solution, values, right, it, at, run.elastic, control)
    return Solved(solution, error, step, rows, Step(*np.asarray(facts).tolist()))


def _asked(facts: Facts) -> float:
    """How accurate a solution is to be at an iterate."""
    return TUNING.accurate_far if facts.error > TUNING.far else TUNING.accurate


def _error(found: Solved, asked: float = TUNING.accurate) -> float:
    """The error of a solution, relative to what is asked for."""
    return max(found.facts.accuracy / asked, found.facts.row_error / TUNING.rows_accurate)


def _usable(found: Solved) -> bool:
    """Whether a solution makes a step."""
    return _error(found) <= TUNING.usable


def _soft(mu: float) -> float:
    """The dual regularisation that belongs to mu, as `equations.soft_of`, on the host."""
    return min(max(TUNING.soft_mu * mu, TUNING.soft_least), TUNING.soft_most)
