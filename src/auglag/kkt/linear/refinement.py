"""What sparse factorisations need around them: iterative refinement, and rank-one terms of the Hessian."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.kkt import tuning
from auglag.kkt.linear.base import Factor, Indices


def refined(b: Vector, solve: Callable[[Vector], Vector], product: Callable[[Vector], Vector]) -> tuple[Vector, float]:
    """The solution by an approximate inverse, refined as long as that helps; and its residual in the max norm."""
    t = tuning.TUNING
    x, residual, error = np.zeros(b.size), b, float(np.max(np.abs(b), initial=0.0))
    target = t.refined_residual * error
    for _ in range(t.refinements):
        trial = x + solve(residual)
        residual = b - product(trial)
        now = float(np.max(np.abs(residual), initial=0.0))
        if not now < error:
            break
        slow = now > t.refinement_slow * error
        x, error = trial, now
        if error <= target or slow:
            break
    return x, error


def refined_roughly(
    b: Vector, solve: Callable[[Vector], Vector], product: Callable[[Vector], Vector], enough: float
) -> tuple[Vector, float]:
    """The solution by an approximate inverse, refined until its residual relative to |b| is `enough` or does not fall;
    and its residual relative to |b| + |x|."""
    size = float(np.max(np.abs(b), initial=0.0))
    best, error, residual, x = b, np.inf, b, np.zeros(b.size)
    for _ in range(tuning.TUNING.refinements):
        x = x + solve(residual)
        residual = b - product(x)
        now = float(np.max(np.abs(residual), initial=0.0))
        if not now < error:
            break
        best, error = x, now
        if now <= enough * size:
            break
    scale = size + float(np.max(np.abs(best), initial=0.0))
    return best, error / scale if scale else 0.0


def accelerated(
    b: Vector, x: Vector, solve: Callable[[Vector], Vector], product: Callable[[Vector], Vector], enough: float
) -> tuple[Vector, float]:
    """The solution x refined by minimal residuals (GCR), with the approximate inverse as preconditioner, until its
    residual is `enough`; and that residual.

    Refinement stalls where the matrix that was factorised is far from K in a few directions. Minimal residuals deal
    with one direction a round (Arioli, Duff, Gratton and Pralet 2007), in memory of two vectors each.
    """
    residual = b - product(x)
    best, error = x, float(np.max(np.abs(residual), initial=0.0))
    steps: list[tuple[Vector, Vector]] = []
    for _ in range(tuning.TUNING.accelerations):
        step = solve(residual)
        image = product(step)
        for known, its in steps:
            part = float(its @ image)
            step, image = step - part * known, image - part * its
        size = float(np.linalg.norm(image))
        if not 0.0 < size < np.inf:
            break
        step, image = step / size, image / size
        steps.append((step, image))
        x = x + float(image @ residual) * step
        residual = b - product(x)
        now = float(np.max(np.abs(residual), initial=0.0))
        if now < error:
            best, error = x, now
        if not enough < now < np.inf:
            break
    return best, error


def probe(size: int) -> Vector:
    """A right side of size one with which factors are tested."""
    return np.asarray(np.cos(np.arange(size, dtype=float)))


class PlainFactor(Factor):
    """The factors of a matrix K beside which there are rank-one terms."""

    __slots__ = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """Rows and columns of K."""

    @abstractmethod
    def columns(self, b: Any) -> Any:
        """K^-1 B for several columns at once."""

    @abstractmethod
    def product(self, x: Vector) -> Vector:
        """K x."""

    @abstractmethod
    def once(self, b: Vector) -> Vector:
        """K^-1 b by the factors as they are, without refinement."""

    @property
    @abstractmethod
    def failed(self) -> bool:
        """Whether there are no factors."""

    @property
    @abstractmethod
    def changed(self) -> bool:
        """Whether the factors are those of a matrix near K instead of K."""

    @abstractmethod
    def magnitudes(self, x: Vector) -> Vector:
        """|K| x."""

    @abstractmethod
    def exchanged(self) -> Callable[[Vector], Vector] | None:
        """Solutions by factors of K with row exchanges; None where there are none, or where they may be too large."""

    def solve(self, b: Vector) -> Vector:
        """Refined; where factors of a changed matrix leave too much, by minimal residuals, then by row exchanges."""
        if self.failed:
            return np.full(b.size, np.nan)
        x, error = refined(b, self.once, self.product)
        t, size = tuning.TUNING, float(np.max(np.abs(b), initial=0.0))
        poor = t.poor_residual * size
        if error <= poor or not self.changed:
            return x
        rounding = float(np.finfo(float).eps * np.max(self.magnitudes(np.abs(x)), initial=0.0))
        if error <= rounding:  # no factors have a better x
            return x
        x, error = accelerated(b, x, self.once, self.product, max(rounding, t.refined_residual * size))
        other = None if error <= max(poor, rounding) else self.exchanged()
        if other is None:
            return x
        better, less = refined(b, other, self.product)
        return better if less < error else x

    def roughly(self, b: Vector, enough: float) -> tuple[Vector, float]:
        return refined_roughly(b, self.once, self.product, enough)


@final
class LowRankFactor(Factor):
    """The factors of K + V diag(c) V', V with zeros for the rows of J, from those of K.

    Both Schur complements of [[K, V], [V', -1/c]] have its inertia but for that of the other corner, which is where the
    number of negative eigenvalues comes from. What cancels between the two parts of a solution, refinement brings back;
    where it cannot, the inertia counts as not known, and solutions are not numbers.
    """

    __slots__ = ("_c", "_n", "_plain", "_small", "_v", "_w")

    def __init__(self, plain: PlainFactor, v: Any, c: Vector) -> None:
        self._plain, self._v, self._c, self._n = plain, v, c, v.shape[0]
        right = np.zeros((plain.size, c.size))
        right[: self._n] = v
        self._w = plain.columns(right)
        corner = -np.diag(1.0 / c) - v.T @ self._w[: self._n]
        self.negative, self._small = None, None
        if not np.isfinite(corner).all():
            return
        values, vectors = np.linalg.eigh(0.5 * (corner + corner.T))
        if (values == 0.0).any():
            return
        self._small = (vectors / values) @ vectors.T
        if not refined(probe(plain.size), self._once, self._product)[1] <= tuning.TUNING.trusted_residual:
            self._small = None  # too much cancels between the two parts
        elif plain.negative is not None:
            self.negative = plain.negative + int(np.count_nonzero(values < 0)) - int(np.count_nonzero(c > 0))

    def trusted(self) -> bool:
        return self._small is not None and self._plain.trusted()

    def solve(self, b: Vector) -> Vector:
        if self._small is None:
            return np.full(b.size, np.nan)
        return refined(b, self._once, self._product)[0]

    def roughly(self, b: Vector, enough: float) -> tuple[Vector, float]:
        if self._small is None:
            return np.full(b.size, np.nan), np.inf
        return refined_roughly(b, self._once, self._product, enough)

    @property
    def fill(self) -> int:
        return self._plain.fill + int(self._w.size)

    def _once(self, b: Vector) -> Vector:
        """Without refinement of its own: that of the whole brings in both parts."""
        x = self._plain.once(b)
        return np.asarray(x + self._w @ (self._small @ (self._v.T @ x[: self._n])))

    def _product(self, x: Vector) -> Vector:
        product = self._plain.product(x)
        product[: self._n] += self._v @ (self._c * (self._v.T @ x[: self._n]))
        return product


@final
class HeldFactor(Factor):
    """The factors of a system on a part of the variables and rows, in the layout of the whole.

    They are those of the whole less the inactive rows, each a negative eigenvalue.
    """

    __slots__ = ("_places", "_whole")

    def __init__(self, whole: PlainFactor, places: Indices, inactive: int) -> None:
        self._whole, self._places = whole, places
        self.negative = None if whole.negative is None else whole.negative - inactive

    def trusted(self) -> bool:
        return self._whole.trusted()

    def solve(self, b: Vector) -> Vector:
        """The part of K^-1 that is wanted, times b."""
        full = np.zeros(self._whole.size)
        full[self._places] = b
        return self._whole.solve(full)[self._places]

    def roughly(self, b: Vector, enough: float) -> tuple[Vector, float]:
        full = np.zeros(self._whole.size)
        full[self._places] = b
        x, error = self._whole.roughly(full, enough)
        return x[self._places], error

    @property
    def fill(self) -> int:
        return self._whole.fill
