"""Shared by several test modules: known problems as `auglag` problems."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, NonlinearConstraint

import auglag
from auglag._typing import Vector
from auglag.problems.hock_schittkowski import KnownProblem


def as_problem(p: KnownProblem, *, derivatives: bool = True, hessians: bool = False, copies: int = 1) -> auglag.Problem:
    """The known problem from its functions; with `copies` > 1 every constraint is stated that often."""
    rows = [
        NonlinearConstraint(
            row.fun,
            row.lower,
            row.upper,
            **({"jac": row.jac} if derivatives else {}),
            hess=row.hess if derivatives and hessians else None,
        )
        for _ in range(copies)
        for row in p.rows
    ]
    return auglag.Problem(
        p.fun,
        p.x0,
        jac=p.grad if derivatives else None,
        hess=p.hess if derivatives and hessians else None,
        bounds=Bounds(p.lower, p.upper),
        constraints=rows,
        name=p.name,
    )


def flat(multipliers: object) -> Vector:
    """One vector from one entry per constraint."""
    return np.concatenate([np.zeros(0), *[np.atleast_1d(part) for part in multipliers]])


def relative_error(found: object, known: object) -> float:
    """max |found - known| / max(1, |known|)."""
    found, known = np.asarray(found, dtype=float), np.asarray(known, dtype=float)
    return float(np.max(np.abs(found - known) / np.maximum(1.0, np.abs(known)), initial=0.0))
