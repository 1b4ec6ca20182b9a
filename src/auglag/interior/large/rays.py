"""Why a quadratic programme has no solution: no point satisfies its rows, or it falls without end along a ray.

Each of the two is told by the solution of another programme, which always has one. The least squares of the rows leave
residuals r, and r'(c + J x - s) >= |r|^2 for every point within the sides: a proof, by the lemma of Farkas, that no
point satisfies the rows. The projection of -g onto the directions in which neither rows nor sides nor H ever stop a
point is not zero if and only if there is one in which the objective falls (Moreau 1962).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.large.quadratic import PrimalDual, Programme, Quadratic, Units
from auglag.interior.large.sides import Sides
from auglag.kkt import Hessian
from auglag.kkt.linear import Analyses
from auglag.kkt.sides import QUIET, largest


@final
@dataclass(frozen=True, slots=True)
class Ray:
    """Points x + t d, t > 0, along which the objective falls without end."""

    x: Vector
    d: Vector


def solved(programme: Programme) -> PrimalDual | None:
    """The solution of one of the programmes of this module."""
    t = tuning.TUNING
    found = programme.run(t.ray_target, lambda at: True)
    return found if programme.least <= t.ray_error else None


@QUIET
def least_squares(problem: Quadratic, sides: Sides, start: Vector, analyses: Analyses) -> PrimalDual | None:
    """The variables and slacks with the least squares of the rows, measured in units that suit them."""
    blank = Hessian(sparse.csc_array(0.0 * problem.h.matrix))
    squares = replace(problem, h=blank, g=np.zeros(sides.n))
    ones = PrimalDual(start, np.zeros(sides.m), np.ones(sides.at_low.size), np.ones(sides.at_high.size))
    return solved(Programme(squares, sides, analyses, ones, give=1.0))


@QUIET
def proves(problem: Quadratic, sides: Sides, at: PrimalDual) -> bool:
    """Whether the multipliers of least squares prove that no point within reach satisfies the rows.

    y'(c + J x - s) is positive at all of them then. Where a side bounds a variable, rounding errors of J'y are counted
    up to there, else up to the end of the reach.
    """
    rows = sides.equations(at.v, problem.c + problem.j @ at.v[: sides.n])
    slope = np.concatenate([problem.j.T @ at.y, -at.y[sides.rows]])
    reach = tuning.TUNING.ray_reach * np.maximum(1.0, np.abs(at.v))
    p, q = sides.gaps(at.v)
    down, up = reach.copy(), reach
    down[sides.at_low], up[sides.at_high] = np.minimum(p, down[sides.at_low]), np.minimum(q, up[sides.at_high])
    return float(at.y @ rows) > float(np.maximum(slope, 0.0) @ down) + float(np.maximum(-slope, 0.0) @ up)


@QUIET
def falling(problem: Quadratic, sides: Sides) -> Vector | None:
    """A direction of x in which the programme falls without end from every point that satisfies the rows, if any."""
    units = Units.of(problem)
    scaled = problem.in_units(units)
    free = ~sides.both[: sides.n]
    g = np.where(free, scaled.g, 0.0)
    columns = sparse.diags_array(free.astype(float))
    h = sparse.csr_array(columns @ scaled.h.matrix)
    h = h[np.flatnonzero(np.diff(h.indptr))]
    j = sparse.csr_array(sparse.vstack([scaled.j, h]) @ columns)
    cone = sides.directions(j.shape[0])
    projection = Quadratic(Hessian(sparse.csc_array(sparse.eye_array(cone.n))), j, g, np.zeros(cone.m))
    inside = cone.spread(1.0, -1.0)
    ones = PrimalDual(inside, np.zeros(cone.m), np.ones(cone.at_low.size), np.ones(cone.at_high.size))
    found = solved(Programme(projection, cone, Analyses(), ones))
    if found is None:
        return None
    d = np.where(free, found.v[: cone.n], 0.0)
    size = largest(d)
    falls = size > tuning.TUNING.ray_least * largest(g) and float(g @ d) < 0.0
    return units.x * d / size if falls else None
