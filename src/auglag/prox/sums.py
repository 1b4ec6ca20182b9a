"""Sums of terms: over disjoint blocks of coordinates (`SeparableSum`), and of a term and bounds (`add_bounds`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final, overload

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.prox._validate import Index, index_array, require_disjoint, show, store
from auglag.prox.base import ProxTerm, SeparableTerm, Weights, Zero
from auglag.prox.boxes import INF, Box
from auglag.prox.custom import as_term

Selector: TypeAlias = slice | Sequence[int] | Index


@overload
def SeparableSum(blocks: Sequence[tuple[Selector, SeparableTerm]]) -> SeparableTerm: ...
@overload
def SeparableSum(blocks: Sequence[tuple[Selector, ProxTerm]]) -> ProxTerm: ...
def SeparableSum(blocks: Sequence[tuple[Selector, ProxTerm]]) -> ProxTerm:
    """g(x) = sum_k g_k(x[index_k]) for pairs (index_k, g_k) with disjoint indices; other coordinates are free.

    Parameters
    ----------
    blocks : sequence of (index, ProxTerm)
        An index is an array or a slice with an explicit stop. The result is separable if every g_k is.

    Examples
    --------
    >>> import numpy as np
    >>> from auglag.prox import L1, SeparableSum, Simplex
    >>> g = SeparableSum([(slice(0, 2), L1()), (slice(2, 4), Simplex())])
    >>> float(g.value(np.array([1.0, -2.0, 0.5, 0.5])))
    3.0
    """
    parsed: list[tuple[Index, ProxTerm]] = []
    for k, block in enumerate(blocks):
        name = f"SeparableSum.blocks[{k}]"
        try:
            selector, term = block
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} must be a pair (index, term), got {block!r}") from error
        index, term = index_array(name, selector), as_term(term, name)
        term.check(index.size)
        parsed.append((index, term))
    if not parsed:
        raise InputError("SeparableSum.blocks must have at least one block, got none")
    require_disjoint("SeparableSum.blocks", [index for index, _ in parsed])
    separable = [(index, term) for index, term in parsed if isinstance(term, SeparableTerm)]
    return BlockSumSeparable(tuple(separable)) if len(separable) == len(parsed) else BlockSum(tuple(parsed))


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks(ProxTerm):
    """What the two kinds of sums over blocks share."""

    blocks: tuple[tuple[Index, ProxTerm], ...]
    exact: bool = field(init=False, repr=False)
    _parts: tuple[tuple[slice | Index, ProxTerm], ...] = field(init=False, repr=False)  #: slices where possible

    def __post_init__(self) -> None:
        store(self, exact=all(term.exact for _, term in self.blocks))
        store(self, _parts=tuple((_fast(index), term) for index, term in self.blocks))

    def value(self, x: Vector) -> float:
        return math.fsum(term.value(x[part]) for part, term in self._parts)

    def prox(self, x: Vector, step: float) -> Vector:
        p = x.copy()
        for part, term in self._parts:
            p[part] = term.prox(x[part], step)
        return p

    def subdiff_distance(self, x: Vector, v: Vector) -> float:
        free, total = v.copy(), 0.0
        for part, term in self._parts:
            total += term.subdiff_distance(x[part], v[part]) ** 2
            free[part] = 0.0
        return math.sqrt(total + float(free @ free))

    def domain(self) -> ProxTerm:
        domains = [(index, term.domain()) for index, term in self.blocks]
        return Zero() if all(isinstance(domain, Zero) for _, domain in domains) else SeparableSum(domains)

    @property
    def extent(self) -> int:
        """The least number of variables it may act on."""
        return 1 + max(int(index.max()) for index, _ in self.blocks)

    def check(self, n: int) -> None:
        last = self.extent - 1
        if last >= n:
            raise InputError(f"SeparableSum.blocks must have indices below {n}, the number of variables, got {last}")


@final
@dataclass(frozen=True, slots=True, eq=False)
class BlockSum(_Blocks):
    """A sum over blocks of which one at least is not separable; made by `SeparableSum`."""

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        s = np.zeros_like(v)
        for part, term in self._parts:
            s[part] = term.project_subdiff(x[part], v[part])
        return s


@final
@dataclass(frozen=True, slots=True, eq=False)
class BlockSumSeparable(_Blocks, SeparableTerm):
    """A sum over blocks of separable terms; made by `SeparableSum`."""

    blocks: tuple[tuple[Index, SeparableTerm], ...]
    _parts: tuple[tuple[slice | Index, SeparableTerm], ...] = field(init=False, repr=False)

    def subdiff_interval(self, x: Vector) -> tuple[Vector, Vector]:
        lo, hi = np.zeros_like(x), np.zeros_like(x)
        for part, term in self._parts:
            lo[part], hi[part] = term.subdiff_interval(x[part])
        return lo, hi

    def restrict(self, index: NDArray[np.intp]) -> SeparableTerm:
        wanted = np.asarray(index, dtype=np.intp)
        found = []
        for whole, term in self.blocks:
            place = np.full(max(int(whole.max()), int(np.max(wanted, initial=0))) + 1, -1, dtype=np.intp)
            place[whole] = np.arange(whole.size)
            inside = place[wanted]
            if np.any(inside >= 0):
                found.append((np.flatnonzero(inside >= 0), term.restrict(inside[inside >= 0])))
        return BlockSumSeparable(tuple(found)) if found else Zero()

    def box(self, n: int) -> tuple[Vector, Vector] | None:
        self.check(n)
        lower, upper = np.full(n, -INF), np.full(n, INF)
        for index, term in self.blocks:
            bounds = term.box(index.size)
            if bounds is None:
                return None
            lower[index], upper[index] = bounds
        return lower, upper


def _fast(index: Index) -> slice | Index:
    """A slice for consecutive indices: it selects without copying."""
    consecutive = np.array_equal(index, np.arange(index[0], index[0] + index.size))
    return slice(int(index[0]), int(index[0]) + index.size) if consecutive else index


@final
@dataclass(frozen=True, slots=True, eq=False)
class Bounded(SeparableTerm):
    """g(x) + the indicator of a box, for a separable g; made by `add_bounds`."""

    term: SeparableTerm
    bounds: Box

    def value(self, x: Vector) -> float:
        return self.term.value(x) if self.bounds.value(x) == 0.0 else INF

    def prox(self, x: Vector, step: float) -> Vector:
        """The prox of g, clipped: in one variable, a convex function is least nearest to its free minimiser."""
        return self.bounds.prox(self.term.prox(x, step), step)

    def subdiff_interval(self, x: Vector) -> tuple[Vector, Vector]:
        """The intervals of g, extended to -inf at lower bounds and to inf at upper ones."""
        lo, hi = self.term.subdiff_interval(x)
        down, up = self.bounds.subdiff_interval(x)
        return lo + down, hi + up

    def restrict(self, index: NDArray[np.intp]) -> Bounded:
        return Bounded(self.term.restrict(index), self.bounds.restrict(index))

    def domain(self) -> ProxTerm:
        return add_bounds(self.term.domain(), self.bounds.lower, self.bounds.upper)

    def box(self, n: int) -> tuple[Vector, Vector] | None:
        own = self.term.box(n)
        if own is None:
            return None
        lower, upper = self.bounds.box(n)
        return np.maximum(own[0], lower), np.minimum(own[1], upper)

    def check(self, n: int) -> None:
        self.term.check(n)
        self.bounds.check(n)


def add_bounds(term: ProxTerm, lower: Weights = -INF, upper: Weights = INF) -> SeparableTerm:
    """g plus lower <= x <= upper, for a separable g: then, and in general only then, the prox is the clipped prox.

    Parameters
    ----------
    term : ProxTerm
        A separable term.
    lower : float or array_like
        The lower bounds.
    upper : float or array_like
        The upper bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from auglag.prox import L1, add_bounds
    >>> add_bounds(L1(), upper=0.5).prox(np.array([3.0, 1.2]), 1.0).round(4).tolist()
    [0.5, 0.2]
    """
    if not isinstance(term, SeparableTerm):
        raise InputError(
            "add_bounds.term must be separable (a sum of functions of one coordinate each), because otherwise the prox "
            f"of term plus bounds is not the prox of term, clipped; got {term!r}"
        )
    bounds = Box(lower, upper)
    match term:
        case Zero():
            return bounds
        case Box():
            _require_overlap(term, bounds)
            return _intersect(term, bounds)
        case Bounded():
            _require_overlap(term, bounds)
            return Bounded(term.term, _intersect(term.bounds, bounds))
        case _:
            _require_overlap(term, bounds)
            return Bounded(term, bounds)


def _intersect(one: Box, two: Box) -> Box:
    lowers, uppers = (np.asarray(one.lower), np.asarray(two.lower)), (np.asarray(one.upper), np.asarray(two.upper))
    return Box(np.maximum(*lowers), np.minimum(*uppers))


def _require_overlap(term: SeparableTerm, bounds: Box) -> None:
    """Raise if the bounds do not fit the length of the term, or miss its domain."""
    domain = term.domain()
    n = max(_least_length(bounds), _least_length(term), _least_length(domain))
    if n == 1:  # weights, one for each variable, say how many there are if nothing else does
        n = np.size(getattr(term, "weight", 1.0))
    for part in (bounds, term, domain):
        part.check(n)
    own, (lower, upper) = domain.box(n), bounds.box(n)
    if own is None:
        return
    empty = np.maximum(own[0], lower) > np.minimum(own[1], upper)
    if np.any(empty):
        i = int(np.argmax(empty))
        raise InputError(
            f"add_bounds.lower and .upper must meet the domain of the term, got [{show(lower[i])}, {show(upper[i])}] "
            f"against [{show(own[0][i])}, {show(own[1][i])}] at index {i}"
        )


def _least_length(term: ProxTerm) -> int:
    """The least n on which the term may act, as far as it shows."""
    match term:
        case Box():
            return max(np.size(term.lower), np.size(term.upper))
        case Bounded():
            return max(_least_length(term.term), _least_length(term.bounds))
        case BlockSumSeparable():
            return term.extent
        case _:
            return 1
