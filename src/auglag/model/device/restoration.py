"""Restoration: from where there is no step, or only short ones, to a point of less violation."""

from __future__ import annotations

import math

import numpy as np

from auglag.model.device.records import Facts, Iterate
from auglag.model.device.state import Run
from auglag.model.device.tuning import TUNING


def repaired(run: Run, it: Iterate, facts: Facts) -> Iterate | None:
    """A point that is less violated and acceptable to the filter; None if there seems to be none."""
    if run.is_elastic or facts.violation <= run.scaled_tol or run.repairs >= TUNING.repairs:
        return None
    run.lengths, kept = [], run.filter.pairs
    run.repairs += 1
    repaired = _restored(run, it, facts)
    if repaired is None:
        run.filter.pairs = kept
    return repaired


def _restored(run: Run, it: Iterate, facts: Facts) -> Iterate | None:
    t, p, d = TUNING, run.program, run.d
    run.filter.remember(facts)
    ref, first, mu = it.w, facts.theta, max(run.mu, facts.primal)
    near, rho = math.sqrt(mu), t.repair_weight / max(facts.primal, t.elastic_ends)
    for count in range(t.repair_steps):
        control = (mu, near, rho)
        at, values, right, numbers = p.repair.system(d, it, ref, control)
        merit, _, most = np.asarray(numbers).tolist()
        if run.factor(values) is None:
            return None
        step, numbers = p.repair.step(d, run.solve(right.both[0]), right, it, at, control)
        length, dual, slope, move = np.asarray(numbers).tolist()
        if not (math.isfinite(slope) and move > t.tiny):
            return None
        for _ in range(t.repair_halvings):
            values = p.repair.trial(d, it, step, length, ref, control, run.mu)
            new, theta, phi = np.asarray(values).tolist()
            noise = t.value_noise * np.finfo(np.float64).eps * abs(merit)
            if new <= merit + t.repair_decrease * length * min(slope, 0.0) + noise:
                break
            length *= 0.5
        else:
            return None
        it = p.moved(d, it, step, (length, dual), mu)
        mu = max(run.mu, min(mu, most))
        if theta <= t.repair_leaves * first and run.filter.accepts(facts, phi, theta, 0.0, 1.0):
            run.times.log.append(f"restored in {count + 1}: theta {first:.1e} to {theta:.1e}")
            return _fresh(run, it)
    return None


def _fresh(run: Run, it: Iterate) -> Iterate:
    """An iterate after restoration: multipliers of sides that are not too large, those of rows by least squares."""
    run.lengths = []
    it = run.program.repair.freshened(it)
    return it._replace(y=run.fitted(it))
