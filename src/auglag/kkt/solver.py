"""The model solved: active sets from the last step, an interior-point method where they cycle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auglag.kkt import tuning
from auglag.kkt.active_set import active_set
from auglag.kkt.convexity import diagonal_size, flipped
from auglag.kkt.interior import interior_point
from auglag.kkt.model import Model, Sets, Step


def solve(model: Model, sets: Sets, *, prox: float | None = None, last: float = 0.0, cycles: int = 0) -> Step | None:
    """The step, or None if no curvature or precision could be found in which there is one.

    The sets of the step before usually are right or almost so: one to three factorisations. Interior points do not
    cycle, and their sets are polished by the active-set method. `prox` times the Hessian's size is added to its
    diagonal (None: `Tuning.prox`). `last` is the shift of the step before; where this model needs one, it begins not
    far below. `cycles` counts the models before this one, in a row, whose sets cycled: after some, interior points come
    first.
    """
    t = tuning.TUNING
    prox = t.prox if prox is None else prox
    hint = t.shift_again * last
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # what is not finite is not taken
        step = None
        if not model.m:  # nothing but H says how far to go, and its smallest eigenvalues may be smaller than prox
            step = _solve(model, sets, 0.0, hint, cycles)
        return step if step is not None else _solve(model, sets, prox, hint, cycles)


def again(model: Model, step: Step) -> Step | None:
    """The step of a model that differs in t alone from the one this step belongs to, if its sets are about the same."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        convex = replace(model, hessian=step.hessian)
        return active_set(convex, step.sets, step.shift, sweeps=tuning.TUNING.sweeps_polish, correct=False)


def _solve(model: Model, sets: Sets, prox: float, hint: float, cycles: int) -> Step | None:
    t = tuning.TUNING
    shift = prox * min(t.prox_largest_size, max(t.prox_least_size, diagonal_size(model.hessian)))
    if cycles < t.cycles or cycles % t.cycles_period == 0:
        step = active_set(model, sets, shift, hint=hint)
        if step is not None:
            return step if step.plain else _uncorrected(model, step, shift)
    found = interior_point(model, shift, hint=hint)
    if found is None:
        return None
    rough, convex = found
    exact = active_set(convex, rough.sets, rough.shift, sweeps=t.sweeps_polish)
    if exact is not None:
        changed = not exact.plain or exact.shift != shift or convex.hessian is not model.hessian
        return replace(_uncorrected(model, exact, shift) if changed else exact, cycled=True)
    return rough if np.isfinite(rough.d).all() and np.isfinite(rough.w).all() else None


def _uncorrected(model: Model, step: Step, shift: float) -> Step:
    """The step on the sets of this one, with the Hessian corrected for them alone.

    Sets met on the way may ask for a correction that the last ones do not need: with it Newton's method would be slow.
    """
    (free,), (active,) = (step.sets.variables == 0).nonzero(), step.sets.rows.nonzero()
    convex = flipped(model.hessian, model.jacobian, model.beta, free, active)
    if convex is not None:
        model = replace(model, hessian=convex)
    plain = active_set(model, step.sets, shift, sweeps=tuning.TUNING.sweeps_polish, correct=False)
    return step if plain is None else plain
