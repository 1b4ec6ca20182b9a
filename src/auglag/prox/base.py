"""The contract of a prox term: the convex, possibly nonsmooth function g."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import InputError


class ProxTerm(ABC):
    """A proper closed convex function g: R^n -> R + {inf} with a cheap proximal operator.

    A term is immutable and knows nothing of the problem it is used in. To add one: subclass `ProxTerm` (or
    `SeparableTerm` when g is a sum of functions of one coordinate each), implement the abstract methods and add an
    instance to the list in `tests/contract/test_prox.py`; the contract tests do the rest. What ties the methods
    together, with no reference implementation needed::

        p = term.prox(x, step)
        term.subdiff_distance(p, (x - p) / step) == 0      # p = prox(x)  <=>  (x - p) / step in dg(p)
    """

    #: NumPy's numbers leave `number * term` to the term.
    __array_ufunc__ = None

    #: Whether `subdiff_distance` is the exact distance; False for a user's term that only has value and prox.
    exact: bool = True

    @abstractmethod
    def value(self, x: Vector) -> float:
        """g(x), +inf outside the domain (up to a rounding tolerance of a few units in the last place)."""

    @abstractmethod
    def prox(self, x: Vector, step: float) -> Vector:
        """The minimiser u of g(u) + ||u - x||^2 / (2 step). Always a new array, always in the domain."""

    @abstractmethod
    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """The element of the subdifferential dg(x) nearest to v in the 2-norm, for x in the domain."""

    def domain(self) -> ProxTerm:
        """The indicator function of dom g, whose prox is the projection on it; here `Zero()`: g is finite everywhere.

        A term that is infinite somewhere has to override this.
        """
        return Zero()

    def subdiff_distance(self, x: Vector, v: Vector) -> float:
        """dist(v, dg(x)), the 2-norm distance of v to the subdifferential at x."""
        return float(np.linalg.norm(v - self.project_subdiff(x, v)))

    def box(self, n: int) -> tuple[Vector, Vector] | None:
        """(lower, upper) if g is the indicator of a box in R^n (possibly all of R^n), else None."""
        return None

    def check(self, n: int) -> None:
        """Raise `InputError` if the term cannot act on n variables."""
        return

    def __mul__(self, factor: float) -> ProxTerm:
        """factor * g(x), for a factor > 0: `Scaled`."""
        from auglag.prox.algebra import product

        return product(self, factor)

    __rmul__ = __mul__

    def __add__(self, other: ProxTerm) -> ProxTerm:
        """g(x) + h(x), where the prox of the sum is known: of a separable g and bounds, of L1 and SquaredL2, ..."""
        from auglag.prox.algebra import total

        return total(self, other)


class Indicator(ProxTerm):
    """g(x) = 0 on a closed convex set and +inf off it: the prox is the projection on the set."""

    @final
    def domain(self) -> Indicator:
        return self


class SeparableTerm(ProxTerm):
    """g(x) = sum_i g_i(x_i): the subdifferential is a product of intervals, and bounds can be added to it."""

    @abstractmethod
    def subdiff_interval(self, x: Vector) -> tuple[Vector, Vector]:
        """(lo, hi) with dg(x) = [lo_1, hi_1] x ... x [lo_n, hi_n]; entries may be infinite."""

    @abstractmethod
    def restrict(self, index: NDArray[np.intp]) -> SeparableTerm:
        """The term that acts on the coordinates `index` alone."""

    @final
    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """The element of dg(x) nearest to v: a clip to the intervals."""
        lo, hi = self.subdiff_interval(x)
        return np.minimum(np.maximum(v, lo), hi)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Zero(SeparableTerm):
    """g(x) = 0: no nonsmooth term, and no bounds."""

    def value(self, x: Vector) -> float:
        return 0.0

    def prox(self, x: Vector, step: float) -> Vector:
        return x.copy()

    def subdiff_interval(self, x: Vector) -> tuple[Vector, Vector]:
        zeros = np.zeros(x.size)
        return zeros, zeros

    def subdiff_distance(self, x: Vector, v: Vector) -> float:
        return math.sqrt(v @ v)

    def restrict(self, index: NDArray[np.intp]) -> Zero:
        return self

    def box(self, n: int) -> tuple[Vector, Vector]:
        return np.full(n, -np.inf), np.full(n, np.inf)


def require_length(term: ProxTerm, field: str, value: Weights, n: int) -> None:
    """Raise unless a field of `term`, a number or one per coordinate, fits n variables."""
    if np.ndim(value) and np.size(value) != n:
        have = np.size(value)
        raise InputError(f"{type(term).__name__}.{field} must have {n} entries, one per variable, got {have}")


Weights = float | Sequence[float] | Vector
