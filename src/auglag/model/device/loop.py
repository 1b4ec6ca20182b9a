"""The device loop: interior points with a filter, and the augmented Lagrangian where they find no step.

Steps are those of Waechter and Biegler (2006). Where the line search fails, the elastic form of the same problem goes
on: its constraints can always be satisfied, its penalty follows Algorithm 1 (raised only where the violation did not
shrink), and it ends where the violation has gone, or where it cannot.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from auglag.algorithm.status import Status
from auglag.model.device.elastic import enter, harder, infeasible, outer
from auglag.model.device.landing import landed
from auglag.model.device.records import Facts, Iterate, Local
from auglag.model.device.restoration import repaired
from auglag.model.device.search import search, softly
from auglag.model.device.state import NoStep, Run, Times
from auglag.model.device.tuning import TUNING


@final
@dataclass(frozen=True, slots=True)
class Ended:
    """Where a run ended, as device arrays, scaled."""

    it: Iterate
    facts: Facts
    status: Status
    steps: int
    times: Times


def start(run: Run, x: Any, y: Any = None) -> Iterate:
    """The first iterate: inside the sides, with multipliers by least squares unless they are given."""
    t, d, p = TUNING, run.d, run.program
    warm = y is not None
    run.mu = t.warm_mu if warm else t.first_mu
    control = np.array([t.warm_push if warm else t.push, run.mu, float(warm)])
    given = (np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64) if warm else np.zeros(p.m))
    it: Iterate = p.begin(d, *jax.device_put(given, p.device), control)
    run.origin = None if warm or float(d["first_side"]) <= 1.0 else given[0]
    return it if warm else it._replace(y=run.fitted(it))


def _begun_again(run: Run) -> Iterate | None:
    """The start with multipliers of sides of 1, where with larger ones the first steps are all short; once."""
    x, run.origin = run.origin, None
    if x is None or run.repairs or run.is_elastic:
        return None
    one = jax.device_put(np.float64(1.0), run.program.device)
    run.near, run.far = {**run.near, "first_side": one}, {**run.far, "first_side": one}
    run.d, run.free, run.free_points = run.far, False, []
    run.restart()
    run.times.log.append("begun again, with smaller multipliers of sides")
    return start(run, x)


def go(run: Run, it: Iterate) -> Ended:
    """Steps until the tolerances are met or there is no step. Ctrl-C ends the run at its last iterate."""
    run.begun = time.perf_counter()
    run.count, run.now, run.best = 0, (it, None), None
    facts: Any
    status = Status.INTERRUPTED
    try:
        status = _steps(run, it)
    except KeyboardInterrupt:
        if run.now[1] is None:
            raise
    run.times.total = run.elapsed()
    it, facts = run.now if run.best is None else run.best
    return Ended(it, facts, status, run.count, run.times)


def _steps(run: Run, it: Iterate) -> Status:
    step, lengths = run.zero, (0.0, 0.0)
    while True:
        it, at, values, right, facts = run.advance(it, step, lengths)
        run.now = (it, facts)
        near = facts.theta <= run.filter.small_theta < math.inf
        if near:
            run.origin = None
        step, lengths = run.zero, (0.0, 0.0)
        status = _verdict(run, facts)
        if status is not None:
            return status
        if landed(run, it, at, facts):
            return Status.SOLVED
        if outer(run, facts, it) or _sharpened(run, facts) or _settled(run, facts):
            continue
        _follow(run, facts)
        run.count += 1
        try:
            found = search(run, it, at, values, right, facts)
        except NoStep:
            found = None
        if found is None and run.free:
            run.fix(facts.mean)
            continue
        found = found or softly(run, it, facts)
        other = None
        if found is None or _jammed(run, found[1][0], facts):
            if run.conflict:
                return Status.INFEASIBLE
            other = _begun_again(run) or repaired(run, it, facts)
        if other is None and found is not None:
            step, lengths = found
            run.trail.leave(it, facts.mean)
            run.d = run.near if near else run.far
            continue
        run.trail.clear()
        other = other or _otherwise(run, it, at, facts)
        if other is None:
            return Status.INFEASIBLE if infeasible(run, facts) else Status.STUCK
        it = other


def _verdict(run: Run, facts: Facts) -> Status | None:
    t, count = TUNING, run.count
    if run.watch is not None and run.watch(count, facts):
        return Status.STOPPED
    if not all(map(math.isfinite, (facts.f, facts.dual, facts.primal, facts.phi))):
        return Status.NON_FINITE
    if run.met(*run.now):
        if run.solved(*run.now):
            return Status.SOLVED
        slow = run.mu <= t.least_mu and facts.residual > t.extra_leaves * run.last_residual
        again = run.sharpened_at == count  # the same iterate, with another mu
        run.last_residual = facts.residual
        if count - run.met_at >= t.extra_steps or (slow and not again):
            return Status.SOLVED  # the certificate has the last word
    elif run.met_at >= 0 and count - run.met_at >= t.extra_steps:
        return Status.SOLVED  # at an iterate before this one, see `best`
    if run.hopeless:
        return Status.INFEASIBLE
    if run.falls(*run.now):
        return Status.UNBOUNDED
    if count >= run.steps:
        return Status.ITERATION_LIMIT
    if run.elapsed() >= run.seconds:
        return Status.TIME_LIMIT
    return None


def _jammed(run: Run, length: float, facts: Facts) -> bool:
    """Whether the last steps were all cut short by sides: the way to the constraints leads along them."""
    t = TUNING
    run.lengths = [*run.lengths[1 - t.jammed_steps :], length]
    may = not run.is_elastic and run.repairs < t.repairs and facts.theta > run.scaled_tol
    return may and len(run.lengths) == t.jammed_steps and max(run.lengths) < t.jammed_length


def _otherwise(run: Run, it: Iterate, at: Local, facts: Facts) -> Iterate | None:
    """An iterate to go on from where there is neither step nor restoration: of the elastic form; None if none."""
    if run.is_elastic:
        return it if harder(run) else None
    return enter(run, it, at, facts)


def _sharpened(run: Run, facts: Facts) -> bool:
    """Lower mu where only the residual in the user's units is still too large; True if it was."""
    t = TUNING
    if run.met_at < 0 or facts.error > run.scaled_tol or run.sharpened_at == run.count:
        return False
    run.mu = run.least_mu = max(t.least_mu, t.lower_mu * facts.mu)
    run.sharpened_at = run.count
    run.filter.clear()
    return True


def _follow(run: Run, facts: Facts) -> None:
    """What a new mu, or the first iterate, means for the filter."""
    if facts.mu != run.mu:
        run.mu = facts.mu
        run.filter.clear()
    run.filter.begin(facts.theta)


def _settled(run: Run, facts: Facts) -> bool:
    """Choose the mode; True where it is now the fixed one, with another mu."""
    if run.is_elastic or run.met_at >= 0:
        return run.free and run.fix(facts.mean)
    margin, least = TUNING.less_violation, run.scaled_tol
    less = margin * min(1.0, facts.error)
    progress = all(
        facts.primal <= max(least, (1.0 - margin) * rows) or facts.value <= value - less * abs(value)
        for value, rows in run.free_points
    )
    if not progress:
        return run.free and run.fix(TUNING.fixed_mu * facts.mean)
    run.free = True
    run.free_points.append((facts.value, facts.primal))
    return False
