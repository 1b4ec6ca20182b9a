"""How a problem is scaled: factors of f, of every row and of every variable, from the slopes at the start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._norms import largest, some
from auglag._typing import Vector
from auglag.algorithm import formulas
from auglag.errors import attempted
from auglag.problems import units
from auglag.problems.base import Point
from auglag.problems.jacobians import columns_times, row_norms
from auglag.problems.tuning import TUNING


@final
@dataclass(frozen=True, slots=True)
class Scaling:
    """sf multiplies f + g, sc[i] multiplies row i of c, x_j = sx[j] z_j. Multipliers: y_user = y * sc / sf."""

    sf: float
    sc: Vector
    sx: Vector | None = None  #: powers of two; None: all are 1

    @staticmethod
    def none(m: int) -> Scaling:
        """All factors 1."""
        return Scaling(1.0, np.ones(m))

    def same_as(self, other: Scaling) -> bool:
        """Whether all factors are the same."""
        one, two = (np.ones(1) if scaling.sx is None else scaling.sx for scaling in (self, other))
        return self.sf == other.sf and np.array_equal(self.sc, other.sc) and np.array_equal(one, two)

    @staticmethod
    def from_gradients(
        point: Point,
        sx: Vector | None = None,
        *,
        closely: bool = False,
        at_most: float = formulas.LARGEST_GRADIENT,
        enlarge: bool = True,
    ) -> Scaling:
        """Factors that bring the gradients of f and of every row at `point`, in the units sx, to a max norm of at most
        `at_most`; and, to `enlarge`, f and rows that are very small, gradient and value, up to a size of 1 (`closely`:
        and merely small)."""
        problem = point.problem
        steepest = largest(point.grad if sx is None else point.grad * sx)
        rows = row_norms(columns_times(point.jac, sx)) if problem.m else np.zeros(0)
        sf, sc = (formulas.scale_factor(np, slopes, at_most) for slopes in (steepest, rows))
        if not enlarge:
            return Scaling(float(sf), np.asarray(sc), sx)
        values = units.row_values(problem, point.c) if problem.m else rows
        least = TUNING.least_size_closely if closely else TUNING.least_size
        flat = (rows == 0.0) & (values > 0.0) & np.isfinite(values) & (problem.g is None)
        if some(
            flat
        ):  # no gradient tells the unit of such a row (as of x^2 <= 1e-4 at 0), the distance to its side does
            sc = np.where(flat, 1.0 / np.clip(values, 1.0 / TUNING.largest_scale, 1.0 / formulas.SMALLEST_SCALE), sc)
            values = np.where(flat, 1.0, values)
        of_f, of_rows = max(steepest, abs(point.f)), np.maximum(rows, values)
        if not (_small(of_f, least) or some(_small(of_rows, least))):
            return Scaling(float(sf), np.asarray(sc), sx)
        away_f, away_rows = _slopes_away(point, sx)
        of_f = away_f if away_f > TUNING.accident * of_f else of_f
        of_rows = np.where(away_rows > TUNING.accident * of_rows, away_rows, of_rows)
        return Scaling(float(sf * _enlarged(of_f, least)), sc * _enlarged(of_rows, least), sx)


def _slopes_away(point: Point, sx: Vector | None) -> tuple[float, Vector]:
    """The sizes of the gradients of f and of the rows a typical step away, 0 where they are not defined.

    At a stationary point of f its gradient and its value may both be rounding errors, which say nothing of its units.
    """
    problem = point.problem
    step = units.typical(point, closely=True)
    step = np.where(np.isfinite(step), step, np.maximum(1.0, np.abs(point.x)))
    away = problem.at(np.clip(point.x + step, problem.lower, problem.upper))
    with np.errstate(all="ignore"):
        known = attempted(lambda: (away.grad, away.jac if problem.m else None))
        if known is None:
            return 0.0, np.zeros(problem.m)
        grad, jac = known
        slope = largest(grad if sx is None else grad * sx)
        rows = np.zeros(0) if jac is None else row_norms(columns_times(jac, sx))
    return slope if math.isfinite(slope) else 0.0, np.nan_to_num(rows, nan=0.0, posinf=0.0)


def _small(size: Any, least: float) -> Any:
    """Which sizes are below `least`, but not zero."""
    return (size > 0.0) & (size < least)


def _enlarged(size: Any, least: float) -> Any:
    """The factor that makes a size below `least` 1; 1 where it is not below, 0 or not a number."""
    small = _small(size, least)
    if not some(small):
        return np.ones_like(size)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.minimum(1.0 / np.asarray(size), TUNING.largest_scale)
    return np.where(small, factor, 1.0)
