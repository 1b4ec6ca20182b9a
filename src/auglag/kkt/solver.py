"""The model solved: active sets from the last step, an interior-point method where they cycle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auglag.kkt.active_set import active_set
from auglag.kkt.convexity import diagonal_size, flipped
from auglag.kkt.interior import interior_point
from auglag.kkt.model import Model, Sets, Step

#: A little convexity for free, relative to the Hessian: it decides between directions in which nothing changes.
PROX = 1e-9


def solve(model: Model, sets: Sets, *, prox: float = PROX, floor: float = 1.0, last: float = 0.0) -> Step | None:
    """The step, or None if no curvature or precision could be found in which there is one.

    The sets of the step before usually are right or almost so: one to three factorisations. Interior points do not
    cycle, and their sets are polished by the active-set method. The tiny multiple of the identity is relative to the
    Hessian's size but kept within sensible limits: huge multipliers make huge Hessians. `last` is the shift of the step
    before; where this model needs one, it begins not far below.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # what is not finite is not taken
        step = None
        if not model.m:  # nothing but H says how far to go, and its smallest eigenvalues may be smaller than this
            step = _solve(model, sets, 0.0, floor, 0.25 * last)
        return step if step is not None else _solve(model, sets, prox, floor, 0.25 * last)


def _solve(model: Model, sets: Sets, prox: float, floor: float, hint: float) -> Step | None:
    shift = prox * min(100.0, max(1e-3, diagonal_size(model.hessian)))
    step, _ = active_set(model, sets, shift, floor=floor, hint=hint)
    if step is not None:
        return step if step.plain else _uncorrected(model, step, shift, floor)
    found = interior_point(model, shift, hint=hint)
    if found is None:
        return None
    rough, convex = found
    exact, _ = active_set(convex, rough.sets, rough.shift, floor=floor, sweeps=4)
    if exact is not None:
        return _uncorrected(model, exact, shift, floor)
    return rough if np.isfinite(rough.d).all() and np.isfinite(rough.w).all() else None


def _uncorrected(model: Model, step: Step, shift: float, floor: float) -> Step:
    """The step on the sets of this one, with the Hessian corrected for them alone.

    Sets met on the way may ask for a correction that the last ones do not need: with it Newton's method would creep.
    """
    free, active = np.flatnonzero(step.sets.variables == 0), np.flatnonzero(step.sets.rows)
    mended = flipped(model.hessian, model.jacobian, model.beta, free, active, floor)
    if mended is not None:
        model = replace(model, hessian=mended)
    plain, _ = active_set(model, step.sets, shift, sweeps=4, correct=False)
    return step if plain is None else plain
