"""How a gap of a row or a bound is split into stationarity and complementarity, whichever way makes R smallest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from auglag._norms import finite, norm, some
from auglag._typing import Vector
from auglag.certificate.parts import row_gaps
from auglag.problems.base import AbstractProblem
from auglag.prox import SeparableTerm


@dataclass(frozen=True, slots=True)
class Split:
    """One way to count multipliers at sides that are not touched: as stationarity, or as complementarity."""

    stationarity: float
    complementarity: float
    z: Vector

    def residual(self, violation: float) -> float:
        return self.stationarity + math.hypot(violation, self.complementarity)


def settle_rows(
    stationarity: float, violation: float, c: Vector, y: Vector, cl: Vector, cu: Vector
) -> tuple[float, float]:
    """(stationarity, complementarity) of a point without bounds: the split with the smallest residual."""
    splits = _for_rows([Split(stationarity, 0.0, np.zeros(0))], *row_gaps(cl, cu, c, y))
    best = min(splits, key=lambda split: split.residual(violation))
    return best.stationarity, best.complementarity


def settled(problem: AbstractProblem, x: Vector, slope: Vector, size: Vector, gap: Vector, violation: float) -> Split:
    """The split with the smallest residual."""
    splits = _for_rows(_for_bounds(problem, x, -slope), size, gap)
    return min(splits, key=lambda split: split.residual(violation))


def _for_rows(bounds: list[Split], size: Vector, gap: Vector) -> list[Split]:
    """All rows count with their gap, as in Algorithm 1 with its slacks; or each with the smaller of gap_i and |y_i|."""
    if not some(gap):
        return bounds
    dropped = size < gap
    every, freed, left = norm(gap), norm(np.where(dropped, size, 0.0)), norm(np.where(dropped, 0.0, gap))
    splits = []
    for split in bounds:
        off, z = split.complementarity, split.z
        splits.append(Split(split.stationarity, math.hypot(off, every), z))
        splits.append(Split(math.hypot(split.stationarity, freed), math.hypot(off, left), z))
    return splits


def _for_bounds(problem: AbstractProblem, x: Vector, v: Vector) -> list[Split]:
    """v = -grad L less dg and bound multipliers z: only at bounds that x touches (the paper's distance), or near them.

    A multiplier z at a bound that x does not quite touch costs gap * max(1, |z|), which bounds what moving x there
    could still change: a gap below the tolerance excuses no gradient by itself, whatever the units of x are.
    """
    g, excess = problem.g, v  # what dg cannot absorb and a bound must
    if g is not None and not isinstance(g, SeparableTerm):  # no bounds beside such a g
        return [Split(g.subdiff_distance(x, v), 0.0, np.zeros(x.size))]
    if not finite(v):
        return [Split(math.nan, 0.0, np.zeros(x.size))]
    if g is not None:
        excess = v - v.clip(*g.subdiff_interval(x))
    gap = np.where(excess > 0, problem.upper - x, x - problem.lower)
    size = np.abs(excess)
    price = np.maximum(gap, 0.0) * np.maximum(1.0, size)
    touched, near = np.where(gap <= 0.0, excess, 0.0), price < size
    z = np.where(near, excess, 0.0)
    return [Split(norm(excess - touched), 0.0, touched), Split(norm(excess - z), norm(np.where(near, price, 0.0)), z)]
