"""Indicator functions of closed convex sets (boxes are in `boxes`): g(x) = 0 on the set and +inf off it.

The prox is the projection, and the subdifferential at a point of the set is its normal cone. Rounding: `value` and
the tests "is x on the boundary" allow a few units in the last place of the data, so that a projected point always lies
in the set, and on its boundary if it was projected from outside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from auglag._typing import Matrix, Vector
from auglag.errors import InputError
from auglag.prox._simplex import level, project_l1_ball, project_simplex
from auglag.prox._validate import EPS, ULPS, compact, finite, numbers, scalar, store
from auglag.prox.base import Indicator, Weights, require_length

INF = math.inf


@final
@dataclass(frozen=True, slots=True, eq=False)
class L1Ball(Indicator):
    """The set ||x||_1 <= radius."""

    radius: float = 1.0
    noise: float = field(default=0.0, kw_only=True, repr=False)  #: see `norms`

    def __post_init__(self) -> None:
        store(self, radius=scalar("L1Ball.radius", self.radius, positive=True))

    def value(self, x: Vector) -> float:
        return 0.0 if np.abs(x).sum() <= self.radius * (1.0 + ULPS) + x.size * self.noise else INF

    def prox(self, x: Vector, step: float) -> Vector:
        """The nearest point of the ball: soft thresholding by the level that gives the 1-norm `radius`."""
        return project_l1_ball(x, self.radius)

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """On the sphere t * sign(x_i), or [-t, t] where x_i = 0, for any t >= 0; inside {0}."""
        size = np.abs(x)
        if size.sum() < self.radius * (1.0 - ULPS) - x.size * self.noise:
            return np.zeros_like(v)
        zero = size <= self.noise
        if zero.all():  # noise hides the whole ball
            return v.copy()
        sign = np.sign(x[~zero])
        t = max(0.0, level(sign * v[~zero], np.abs(v[zero])))
        s = np.clip(v, -t, t)
        s[~zero] = sign * t
        return s


@final
@dataclass(frozen=True, slots=True, eq=False)
class L2Ball(Indicator):
    """The set ||x - center|| <= radius in the 2-norm."""

    radius: float = 1.0
    center: Weights = 0.0

    def __post_init__(self) -> None:
        store(self, radius=scalar("L2Ball.radius", self.radius, positive=True))
        store(self, center=compact(finite("L2Ball.center", self.center)))

    def _offset(self, x: Vector) -> tuple[Vector, float, float]:
        """x - center, its norm, and the rounding error of that norm."""
        center = numbers(self.center)
        away = x - center
        scale = float(np.linalg.norm(np.broadcast_to(center, x.shape)))
        return away, float(np.linalg.norm(away)), ULPS * (self.radius + scale)

    def value(self, x: Vector) -> float:
        _, norm, tol = self._offset(x)
        return 0.0 if norm <= self.radius + tol else INF

    def prox(self, x: Vector, step: float) -> Vector:
        away, norm, _ = self._offset(x)
        return x.copy() if norm <= self.radius else numbers(self.center) + away * (self.radius / norm)

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """On the sphere the ray t * (x - center), t >= 0; inside {0}."""
        away, norm, tol = self._offset(x)
        if norm == 0.0 or norm < self.radius - tol:
            return np.zeros_like(v)
        normal = away / norm
        return np.asarray(max(0.0, float(v @ normal)) * normal)

    def check(self, n: int) -> None:
        require_length(self, "center", self.center, n)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Simplex(Indicator):
    """The set x >= 0, sum x = total."""

    total: float = 1.0
    noise: float = field(default=0.0, kw_only=True, repr=False)  #: see `norms`

    def __post_init__(self) -> None:
        store(self, total=scalar("Simplex.total", self.total, positive=True))

    def value(self, x: Vector) -> float:
        tol = ULPS * self.total
        inside = abs(float(x.sum()) - self.total) <= tol + x.size * self.noise and (x >= -tol - self.noise).all()
        return 0.0 if inside else INF

    def prox(self, x: Vector, step: float) -> Vector:
        return project_simplex(x, self.total)

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """Vectors with s_i = t where x_i > 0 and s_i <= t where x_i = 0, for any t."""
        positive = x > self.noise
        if not positive.any():  # noise hides the whole simplex
            return v.copy()
        t = level(v[positive], v[~positive])
        return np.where(positive, t, np.minimum(v, t))


@final
@dataclass(frozen=True, slots=True, eq=False)
class HalfSpace(Indicator):
    """The set a'x <= b, with a not 0."""

    a: ArrayLike
    b: float
    _normal: Vector = field(init=False, repr=False)  #: a / ||a||
    _level: float = field(init=False, repr=False)  #: b / ||a||

    def __post_init__(self) -> None:
        a, b = finite("HalfSpace.a", self.a), finite("HalfSpace.b", self.b)
        if b.ndim:
            raise InputError(f"HalfSpace.b must be a number, got an array of shape {b.shape}")
        largest = float(np.max(np.abs(a), initial=0.0))
        if a.ndim != 1 or not largest > 0.0:
            raise InputError(f"HalfSpace.a must be a vector other than 0, got {self.a!r}")
        norm = largest * float(np.linalg.norm(a / largest))
        store(self, a=a, b=float(b), _normal=a / norm, _level=float(b) / norm)

    def _excess(self, x: Vector) -> tuple[float, float]:
        """The signed distance to the boundary, positive outside, and its rounding error."""
        size = abs(self._level) + float(np.abs(self._normal) @ np.abs(x))
        return float(self._normal @ x) - self._level, ULPS * size

    def value(self, x: Vector) -> float:
        excess, tol = self._excess(x)
        return 0.0 if excess <= tol else INF

    def prox(self, x: Vector, step: float) -> Vector:
        excess, _ = self._excess(x)
        if excess <= 0.0:
            return x.copy()
        p = x - excess * self._normal
        # Once more: the first step is only as accurate as x, which may be much larger than p.
        return np.asarray(p - self._excess(p)[0] * self._normal)

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """On the boundary the ray t * a, t >= 0; inside {0}."""
        excess, tol = self._excess(x)
        if excess < -tol:
            return np.zeros_like(v)
        return np.asarray(max(0.0, float(v @ self._normal)) * self._normal)

    def check(self, n: int) -> None:
        require_length(self, "a", self._normal, n)


@final
@dataclass(frozen=True, slots=True, eq=False)
class AffineSet(Indicator):
    """The set Ax = b, for a dense A. Dependent rows are allowed if they are consistent.

    Rows are scaled to length 1 and the set is kept as {x: Vx = d} with orthonormal rows V (from an SVD at
    construction), so the projection is x - V'(Vx - d).
    """

    A: ArrayLike
    b: ArrayLike
    _rows: Matrix = field(init=False, repr=False)  #: V
    _level: Vector = field(init=False, repr=False)  #: d

    def __post_init__(self) -> None:
        A, b = finite("AffineSet.A", self.A, ndim=2), np.atleast_1d(finite("AffineSet.b", self.b))
        if not A.size or b.size != A.shape[0]:
            raise InputError(f"AffineSet.b must have one entry for each row of AffineSet.A, got {b.size} for {A.shape}")
        norms = np.linalg.norm(A, axis=1)
        scale = np.where(norms > 0.0, norms, 1.0)
        rhs = b / scale
        u, sigma, vt = np.linalg.svd(A / scale[:, None], full_matrices=False)
        rank = int(np.count_nonzero(sigma > 4.0 * EPS * max(A.shape) * sigma[0]))
        level = (u[:, :rank].T @ rhs) / sigma[:rank]
        gap = float(np.max(np.abs((u[:, :rank] * sigma[:rank]) @ level - rhs)))
        if not gap <= 1e-10 * (float(np.max(np.abs(rhs))) + float(np.linalg.norm(level))):
            raise InputError(f"AffineSet.b must make Ax = b consistent, got a least-squares residual of {gap:.3g}")
        store(self, A=A, b=b, _rows=vt[:rank], _level=level)

    def value(self, x: Vector) -> float:
        scale = float(np.linalg.norm(x)) + float(np.linalg.norm(self._level)) + 1e-150  # where squares underflow
        tol = ULPS * max(1.0, math.sqrt(self._level.size)) * scale
        return 0.0 if np.linalg.norm(self._rows @ x - self._level) <= tol else INF

    def prox(self, x: Vector, step: float) -> Vector:
        """The nearest point of the set; projected twice, since the first time is only as accurate as x."""
        p = x - self._rows.T @ (self._rows @ x - self._level)
        return np.asarray(p - self._rows.T @ (self._rows @ p - self._level))

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """The row space of A."""
        return np.asarray(self._rows.T @ (self._rows @ v))

    def check(self, n: int) -> None:
        columns = self._rows.shape[1]
        if columns != n:
            raise InputError(f"AffineSet.A must have {n} columns, one per variable, got {columns}")
