"""The end of a run: steps on the sides that are active, as it seems (`on_sides`), tried near a solution."""

from __future__ import annotations

import math

import numpy as np

from auglag.model.device.on_sides import Active
from auglag.model.device.records import Facts, Iterate, Local
from auglag.model.device.state import Run
from auglag.model.device.tuning import TUNING


def landed(run: Run, it: Iterate, at: Local, facts: Facts) -> bool:
    """Whether Newton steps on the sides that are active, as it seems, lead to a point that meets the tolerances."""
    t, sides, d = TUNING, run.on_sides, run.d
    if run.is_elastic or facts.error > t.worth_a_look * run.scaled_tol or facts.residual > run.next_landing:
        return False
    before = run.trail.before(facts.mean)
    if before is None:
        return False
    left = facts.residual
    run.next_landing = t.landing_again * left
    candidates, fewest = [sides.active(d, before, it)], math.inf
    for count in range(t.steps_on_sides):
        if not candidates:
            break
        tried = candidates.pop(0)
        found = _step(run, it, at, tried)
        if found is None:
            continue
        there, local, active, facts, changed = found
        run.times.log.append(
            f"on sides, step {count + 1}: residual {left:.1e} to {facts.residual:.1e}, {changed} sides change"
        )
        if run.met(there, facts) and run.solved(there, facts):
            return True
        if facts.residual <= t.side_step_leaves * left:
            it, at, left = there, local, facts.residual
            candidates, fewest = [active, tried] if changed else [tried], math.inf
        elif 0 < changed < fewest:
            candidates, fewest = [active], changed  # from the same iterate: ever fewer sides are wrong
    return False


def _step(run: Run, it: Iterate, at: Local, active: Active) -> tuple[Iterate, Local, Active, Facts, int] | None:
    """Newton's step on some sides: where it leads, and the sides that seem active there; None if to no minimum."""
    t, sides, d = TUNING, run.on_sides, run.d
    for shift in (0.0, run.last_shift) if run.last_shift else (0.0,):
        values, springs, right = sides.system(d, it, at, active, shift)
        if run.factor(values) == (run.program.n, run.program.m):
            break
    else:
        return None
    solution, least = run.solve(right.both[0]), math.inf
    for _ in range(t.side_refinements):
        error, size = sides.error(d, values, right, solution)
        before, least = least, float(size)
        if not least < t.refinement_leaves * before:
            break
        solution = run.program.plus(solution, run.solve(error))
    there, local, active, numbers, changed = sides.landed(d, it, springs, active, right, solution)
    return there, local, active, Facts(*np.asarray(numbers).tolist()), int(changed)
