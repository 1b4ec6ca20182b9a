"""The end of a run: steps on the sides that are active, as it seems (`on_sides`), tried near a solution."""

from __future__ import annotations

import numpy as np

from auglag.model.device.records import Facts, Iterate, Local
from auglag.model.device.state import Run
from auglag.model.device.tuning import TUNING


def landed(run: Run, it: Iterate, at: Local, facts: Facts) -> bool:
    """Whether Newton steps on the sides that are active, as it seems, lead to a point that meets the tolerances."""
    t, sides, d = TUNING, run.on_sides, run.d
    near = facts.error <= t.worth_a_look * run.scaled_tol
    if run.is_elastic or run.previous is None or not near or facts.residual > run.next_landing:
        return False
    left, run.next_landing = facts.residual, t.landing_again * facts.residual
    active = sides.active(d, run.previous, it)
    for count in range(t.steps_on_sides):
        for shift in (0.0, run.last_shift) if run.last_shift else (0.0,):
            values, springs, right = sides.system(d, it, at, active, shift)
            if run.factor(values) == (run.program.n, run.program.m):
                break
        else:
            return False
        solution = run.solve(right.both[0])
        for _ in range(t.side_refinements):
            solution = solution + run.solve(sides.error(d, values, right, solution))
        it, at, numbers = sides.landed(d, it, springs, active, right, solution)
        facts, before = Facts(*np.asarray(numbers).tolist()), left
        left = facts.residual
        run.times.log.append(f"on sides, step {count + 1}: residual {before:.1e} to {left:.1e}")
        if run.met(it, facts) and run.solved(it, facts):
            return True
        if not left <= t.side_step_leaves * before:
            return False
    return False
