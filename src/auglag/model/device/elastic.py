"""The elastic form, which is Algorithm 1: entered where there is neither step nor restoration."""

from __future__ import annotations

import math

import numpy as np

from auglag.model.device.records import Elastic, Facts, Iterate, Local
from auglag.model.device.state import Run
from auglag.model.device.tuning import TUNING


def enter(run: Run, it: Iterate, at: Local, facts: Facts) -> Iterate | None:
    """Go on with the elastic form, from rows that are satisfied by r; None if that was done too often."""
    t = TUNING
    if run.is_elastic or run.entries >= t.elastic_entries or not run.program.m:
        return None
    run.entries += 1
    run.times.elastic += 1
    near = max(facts.violation, run.scaled_tol)
    run.mu = max(run.mu, min(t.elastic_mu, near))
    first = min(t.largest_first_penalty, max(t.first_penalty, 1.0 / near))
    run.rho = first if run.entries == 1 else min(t.largest_penalty, max(first, run.rho * t.penalty_growth))
    entered, yk, left = run.program.enter(it, at, run.rho)
    run.elastic, run.is_elastic = Elastic(np.float64(1.0), yk, np.float64(run.rho)), True
    run.elastic_before = float(left)
    run.restart()
    run.times.log.append(f"elastic, penalty {run.rho:.0e}, violation {run.elastic_before:.1e}")
    return entered  # type: ignore[no-any-return]


def outer(run: Run, facts: Facts, it: Iterate) -> bool:
    """Lines 4 to 6 of Algorithm 1 where a barrier problem of the elastic form is solved; True if it changed."""
    t = TUNING
    if not run.is_elastic or (facts.mu == run.mu and facts.barrier_error > t.solved_barrier * run.mu):
        return False
    left = facts.elastic
    if left <= t.elastic_ends and run.entries < t.elastic_entries:
        run.elastic, run.is_elastic = run.elastic._replace(on=np.float64(0.0)), False
        run.mu = facts.mu
        run.restart()
        run.times.log.append(f"elastic ends, {left:.1e}")
        return True
    if left > max(t.elastic_shrinks * run.elastic_before, run.scaled_tol):
        if not harder(run):
            run.hopeless = True
            return False
    else:
        run.elastic = run.elastic._replace(yk=it.y)
    run.elastic_before = left
    run.mu = facts.mu
    run.restart()
    return True


def harder(run: Run) -> bool:
    """A larger penalty; False if it is the largest."""
    t = TUNING
    if run.rho >= t.largest_penalty:
        return False
    run.rho *= t.penalty_growth
    run.elastic = run.elastic._replace(rho=np.float64(run.rho))
    run.restart()
    run.times.log.append(f"penalty {run.rho:.0e}")
    return True


def infeasible(run: Run, facts: Facts) -> bool:
    """Whether the elastic form ended with a violation that no penalty made smaller."""
    return run.is_elastic and facts.elastic > math.sqrt(run.scaled_tol)
