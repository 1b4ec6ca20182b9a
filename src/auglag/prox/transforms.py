"""A term multiplied by a positive number (`Scaled`) or moved to another origin (`Translated`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import final, overload

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.prox._validate import EPS, Index, compact, entries, finite, numbers, same_length, scalar, store
from auglag.prox.base import ProxTerm, SeparableTerm, Weights, Zero
from auglag.prox.boxes import Box
from auglag.prox.custom import as_term
from auglag.prox.norms import LinfNorm
from auglag.prox.sets import AffineSet, HalfSpace, L1Ball, L2Ball, Simplex
from auglag.prox.structured import NuclearNorm, TotalVariation1D
from auglag.prox.sums import BlockSum, BlockSumSeparable, Bounded, SeparableSum


@overload
def Scaled(term: SeparableTerm, factor: float) -> SeparableTerm: ...
@overload
def Scaled(term: ProxTerm, factor: float) -> ProxTerm: ...
def Scaled(term: ProxTerm, factor: float) -> ProxTerm:
    """factor * g(x) with factor > 0; separable if g is.

    Parameters
    ----------
    term : ProxTerm
        The term g.
    factor : float
        Greater than 0.

    Examples
    --------
    >>> import numpy as np
    >>> from auglag.prox import LinfNorm, Scaled
    >>> float(Scaled(LinfNorm(), 3.0).value(np.array([1.0, -2.0])))
    6.0
    """
    term = as_term(term, "Scaled.term")
    factor = scalar("Scaled.factor", factor, positive=True)
    return ScaledSeparable(term, factor) if isinstance(term, SeparableTerm) else ScaledTerm(term, factor)


@dataclass(frozen=True, slots=True, eq=False)
class _Scaled(ProxTerm):
    """What the two kinds of scaled terms share."""

    term: ProxTerm
    factor: float
    exact: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        store(self, exact=self.term.exact)

    def value(self, x: Vector) -> float:
        return self.factor * self.term.value(x)

    def prox(self, x: Vector, step: float) -> Vector:
        return self.term.prox(x, step * self.factor)

    def domain(self) -> ProxTerm:
        return self.term.domain()

    def check(self, n: int) -> None:
        self.term.check(n)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScaledTerm(_Scaled):
    """factor * g(x) for a g that is not separable; made by `Scaled`."""

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        return self.factor * self.term.project_subdiff(x, v / self.factor)

    def subdiff_distance(self, x: Vector, v: Vector) -> float:
        return self.factor * self.term.subdiff_distance(x, v / self.factor)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScaledSeparable(_Scaled, SeparableTerm):
    """factor * g(x) for a separable g; made by `Scaled`."""

    term: SeparableTerm

    def subdiff_interval(self, x: Vector) -> tuple[Vector, Vector]:
        lo, hi = self.term.subdiff_interval(x)
        return self.factor * lo, self.factor * hi

    def restrict(self, index: NDArray[np.intp]) -> ScaledSeparable:
        return ScaledSeparable(self.term.restrict(index), self.factor)

    def box(self, n: int) -> tuple[Vector, Vector] | None:
        """The box of g: a factor does not change an indicator."""
        return self.term.box(n)


@overload
def Translated(term: SeparableTerm, offset: Weights) -> SeparableTerm: ...
@overload
def Translated(term: ProxTerm, offset: Weights) -> ProxTerm: ...
def Translated(term: ProxTerm, offset: Weights) -> ProxTerm:
    """g(x - offset); separable if g is.

    Computing x - offset loses the digits that tell whether x is on a boundary. So sets and composite terms are moved
    by moving their data (the result is then a term of the same kind), and the terms that look for ties or a sphere
    are told how accurate their argument is.

    Parameters
    ----------
    term : ProxTerm
        The term g.
    offset : float or array_like
        What is taken off x.

    Examples
    --------
    >>> import numpy as np
    >>> from auglag.prox import L1, Translated
    >>> float(Translated(L1(), [1.0, 2.0]).value(np.array([1.0, 5.0])))  # |1 - 1| + |5 - 2|
    3.0
    """
    term = as_term(term, "Translated.term")
    by = finite("Translated.offset", offset)
    match term:
        case Zero():
            return term
        case Box():
            return _moved_box(term, by)
        case L2Ball():
            return L2Ball(term.radius, _moved("L2Ball.center", term.center, by))
        case HalfSpace():
            return HalfSpace(term.a, term.b + float(_fitted(np.asarray(term.a), by) @ np.asarray(term.a)))
        case AffineSet():
            rows = np.asarray(term.A)
            return AffineSet(rows, np.asarray(term.b) + rows @ _fitted(rows[0], by))
        case Bounded():
            return Bounded(Translated(term.term, by), _moved_box(term.bounds, by))
        case ScaledTerm() | ScaledSeparable():
            return Scaled(Translated(term.term, by), term.factor)
        case TranslatedTerm() | TranslatedSeparable():
            return Translated(term.term, _moved("Translated.offset", term.offset, by))
        case BlockSum() | BlockSumSeparable():
            return SeparableSum([(index, Translated(part, _part(by, index))) for index, part in term.blocks])
        case LinfNorm() | NuclearNorm() | TotalVariation1D() | L1Ball() | Simplex():
            noise = term.noise + 4.0 * EPS * float(np.max(np.abs(by), initial=0.0))
            return TranslatedTerm(replace(term, noise=noise), compact(by))
        case SeparableTerm():
            return TranslatedSeparable(term, compact(by))
        case _:
            return TranslatedTerm(term, compact(by))


@dataclass(frozen=True, slots=True, eq=False)
class _Translated(ProxTerm):
    """What the two kinds of translated terms share."""

    term: ProxTerm
    offset: Weights
    exact: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        store(self, exact=self.term.exact)

    def value(self, x: Vector) -> float:
        return self.term.value(x - self.offset)

    def prox(self, x: Vector, step: float) -> Vector:
        return self.term.prox(x - self.offset, step) + self.offset

    def domain(self) -> ProxTerm:
        own = self.term.domain()
        return self if own is self.term else Translated(own, self.offset)

    def check(self, n: int) -> None:
        if np.ndim(self.offset) and np.size(self.offset) != n:
            have = np.size(self.offset)
            raise InputError(f"Translated.offset must have {n} entries, one per variable, got {have}")
        self.term.check(n)


@final
@dataclass(frozen=True, slots=True, eq=False)
class TranslatedTerm(_Translated):
    """g(x - offset) for a g that is not separable; made by `Translated`."""

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        return self.term.project_subdiff(x - self.offset, v)

    def subdiff_distance(self, x: Vector, v: Vector) -> float:
        return self.term.subdiff_distance(x - self.offset, v)


@final
@dataclass(frozen=True, slots=True, eq=False)
class TranslatedSeparable(_Translated, SeparableTerm):
    """g(x - offset) for a separable g; made by `Translated`."""

    term: SeparableTerm

    def subdiff_interval(self, x: Vector) -> tuple[Vector, Vector]:
        return self.term.subdiff_interval(x - self.offset)

    def restrict(self, index: NDArray[np.intp]) -> TranslatedSeparable:
        return TranslatedSeparable(self.term.restrict(index), entries(self.offset, index))

    def box(self, n: int) -> tuple[Vector, Vector] | None:
        own = self.term.box(n)
        return None if own is None else (own[0] + self.offset, own[1] + self.offset)


def _moved(name: str, value: Weights, by: Vector) -> Vector:
    """value + by, where each is a number or a vector."""
    same_length("Translated.offset", by, name, numbers(value))
    return np.asarray(numbers(value) + by)


def _moved_box(box: Box, by: Vector) -> Box:
    return Box(_moved("Box.lower", box.lower, by), _moved("Box.upper", box.upper, by))


def _fitted(like: Vector, by: Vector) -> Vector:
    """`by` in the length of `like`."""
    same_length("Translated.offset", by, "the term", like)
    return np.broadcast_to(by, like.shape)


def _part(by: Vector, index: Index) -> Weights:
    """The entries of an offset that belong to a block."""
    if by.ndim and index.max() >= by.size:
        raise InputError(f"Translated.offset must have an entry for index {index.max()}, got {by.size} entries")
    return entries(by, index)
