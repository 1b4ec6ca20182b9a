"""Norms and other finite functions: g is defined everywhere, so the domain of every term here is `Zero()`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.prox._simplex import project_l1_ball, project_simplex, threshold
from auglag.prox._validate import (
    EPS,
    Index,
    compact,
    entries,
    index_array,
    nonnegative,
    numbers,
    require_disjoint,
    scalar,
    store,
)
from auglag.prox.base import ProxTerm, SeparableTerm, Weights, require_length

# `noise`, a field of some terms here, in `structured` and in `sets`, is the absolute rounding error to expect in an
# entry of x on top of a few units in its last place. `Translated` sets it: x - offset is only as accurate as x is.


@final
@dataclass(frozen=True, slots=True, eq=False)
class L1(SeparableTerm):
    """g(x) = sum_i weight_i |x_i|; one weight for all coordinates or one for each."""

    weight: Weights = 1.0

    def __post_init__(self) -> None:
        store(self, weight=compact(nonnegative("L1.weight", self.weight)))

    def value(self, x: Vector) -> float:
        return float(np.sum(numbers(self.weight) * np.abs(x)))

    def prox(self, x: Vector, step: float) -> Vector:
        """Soft thresholding: each entry moves towards 0 by step * weight_i, and stops there."""
        return soft_threshold(x, step * numbers(self.weight))

    def subdiff_interval(self, x: Vector) -> tuple[Vector, Vector]:
        """weight_i sign(x_i), or [-weight_i, weight_i] where x_i = 0."""
        weight = numbers(self.weight)
        return np.where(x > 0.0, weight, -weight), np.where(x < 0.0, -weight, weight)

    def restrict(self, index: NDArray[np.intp]) -> L1:
        return L1(entries(self.weight, index))

    def check(self, n: int) -> None:
        require_length(self, "weight", self.weight, n)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SquaredL2(SeparableTerm):
    """g(x) = weight / 2 * ||x||^2."""

    weight: float = 1.0

    def __post_init__(self) -> None:
        store(self, weight=scalar("SquaredL2.weight", self.weight, positive=False))

    def value(self, x: Vector) -> float:
        return 0.5 * self.weight * float(x @ x)

    def prox(self, x: Vector, step: float) -> Vector:
        return np.asarray(x / (1.0 + step * self.weight))

    def subdiff_interval(self, x: Vector) -> tuple[Vector, Vector]:
        gradient = self.weight * x
        return gradient, gradient

    def restrict(self, index: NDArray[np.intp]) -> SquaredL2:
        return self


@final
@dataclass(frozen=True, slots=True, eq=False)
class ElasticNet(SeparableTerm):
    """g(x) = l1 * ||x||_1 + l2 / 2 * ||x||^2."""

    l1: float = 1.0
    l2: float = 1.0

    def __post_init__(self) -> None:
        store(self, l1=scalar("ElasticNet.l1", self.l1, positive=False))
        store(self, l2=scalar("ElasticNet.l2", self.l2, positive=False))

    def value(self, x: Vector) -> float:
        return self.l1 * float(np.sum(np.abs(x))) + 0.5 * self.l2 * float(x @ x)

    def prox(self, x: Vector, step: float) -> Vector:
        """Soft thresholding by step * l1, then division by 1 + step * l2."""
        return soft_threshold(x, step * self.l1) / (1.0 + step * self.l2)

    def subdiff_interval(self, x: Vector) -> tuple[Vector, Vector]:
        """l2 x_i + l1 sign(x_i), or [-l1, l1] where x_i = 0."""
        smooth = self.l2 * x
        return smooth + np.where(x > 0.0, self.l1, -self.l1), smooth + np.where(x < 0.0, -self.l1, self.l1)

    def restrict(self, index: NDArray[np.intp]) -> ElasticNet:
        return self


@final
@dataclass(frozen=True, slots=True, eq=False)
class L2Norm(ProxTerm):
    """g(x) = weight * ||x||, the 2-norm, not squared."""

    weight: float = 1.0

    def __post_init__(self) -> None:
        store(self, weight=scalar("L2Norm.weight", self.weight, positive=False))

    def value(self, x: Vector) -> float:
        return self.weight * float(np.linalg.norm(x))

    def prox(self, x: Vector, step: float) -> Vector:
        """Shorten x by step * weight; 0 if it is not longer than that."""
        norm = float(np.linalg.norm(x))
        return x * (max(0.0, norm - step * self.weight) / norm) if norm > 0.0 else np.zeros_like(x)

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """weight * x / ||x||; at 0 the ball of radius weight."""
        norm = float(np.linalg.norm(x))
        if norm > 0.0:
            return np.asarray(self.weight * (x / norm))
        length = float(np.linalg.norm(v))
        return v * (self.weight / length) if length > self.weight else v.copy()


@final
@dataclass(frozen=True, slots=True, eq=False)
class GroupL2(ProxTerm):
    """g(x) = sum_k weight_k ||x_{G_k}||: the group lasso, with disjoint groups; other coordinates are free.

    `groups` holds an array of indices for each group; one weight for all groups or one for each. The usual factor
    sqrt(size of the group) is not applied: put it in the weights.
    """

    groups: Sequence[Sequence[int] | Index]
    weight: Weights = 1.0
    _order: Index = field(init=False, repr=False)  #: the groups, one after the other
    _starts: Index = field(init=False, repr=False)  #: where each begins
    _sizes: Index = field(init=False, repr=False)

    def __post_init__(self) -> None:
        groups = tuple(index_array(f"GroupL2.groups[{k}]", group) for k, group in enumerate(self.groups))
        if not groups:
            raise InputError("GroupL2.groups must have at least one group, got none")
        require_disjoint("GroupL2.groups", groups)
        weight = nonnegative("GroupL2.weight", self.weight)
        if weight.ndim and weight.size != len(groups):
            raise InputError(f"GroupL2.weight must have {len(groups)} entries, one per group, got {weight.size}")
        sizes = np.array([group.size for group in groups], dtype=np.intp)
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.intp)
        store(self, groups=groups, weight=compact(weight))
        store(self, _order=np.concatenate(groups), _starts=starts, _sizes=sizes)

    def _norms(self, x: Vector) -> Vector:
        """||x_{G_k}|| for every k, safe from underflow."""
        size = np.abs(x[self._order])
        largest = np.maximum.reduceat(size, self._starts)
        unit = size / np.repeat(np.where(largest > 0.0, largest, 1.0), self._sizes)
        return np.asarray(largest * np.sqrt(np.add.reduceat(unit * unit, self._starts)))

    def value(self, x: Vector) -> float:
        return float(np.sum(numbers(self.weight) * self._norms(x)))

    def prox(self, x: Vector, step: float) -> Vector:
        """Shorten every group by step * weight_k; 0 if it is not longer than that."""
        norms = self._norms(x)
        factor = np.maximum(norms - step * numbers(self.weight), 0.0) / np.where(norms > 0.0, norms, 1.0)
        p = x.copy()
        p[self._order] *= np.repeat(factor, self._sizes)
        return p

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """weight_k x_G / ||x_G|| in each group, the ball of radius weight_k where x_G = 0, and 0 elsewhere."""
        norms, lengths, weight = self._norms(x), self._norms(v), numbers(self.weight)
        reach = np.maximum(lengths, weight)
        shrink = weight / np.where(reach > 0.0, reach, 1.0)
        unit = x[self._order] / np.repeat(np.where(norms > 0.0, norms, 1.0), self._sizes)
        s = np.zeros_like(v)
        s[self._order] = np.where(
            np.repeat(norms > 0.0, self._sizes),
            np.repeat(np.broadcast_to(weight, norms.shape), self._sizes) * unit,
            np.repeat(shrink, self._sizes) * v[self._order],
        )
        return s

    def check(self, n: int) -> None:
        largest = int(self._order.max())
        if largest >= n:
            raise InputError(f"GroupL2.groups must have indices below {n}, the number of variables, got {largest}")


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinfNorm(ProxTerm):
    """g(x) = weight * max_i |x_i|."""

    weight: float = 1.0
    noise: float = field(default=0.0, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        store(self, weight=scalar("LinfNorm.weight", self.weight, positive=False))

    def value(self, x: Vector) -> float:
        return self.weight * float(np.max(np.abs(x), initial=0.0))

    def prox(self, x: Vector, step: float) -> Vector:
        """Clip x to [-tau, tau], where what is cut off has the 1-norm step * weight."""
        size, cut = np.abs(x), step * self.weight
        if size.sum() <= cut:
            return np.zeros_like(x)
        if cut == 0.0:
            return x.copy()
        tau = max(0.0, float(size.max()) + threshold(size, cut))
        return np.clip(x, -tau, tau)

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """weight times convex combinations of sign(x_i) e_i over the largest |x_i|; at 0 the l1 ball."""
        size = np.abs(x)
        largest = float(np.max(size, initial=0.0))
        if largest <= self.noise:
            return project_l1_ball(v, self.weight)
        tied = size >= largest * (1.0 - 4.0 * EPS) - 2.0 * self.noise
        sign = np.sign(x[tied])
        s = np.zeros_like(v)
        s[tied] = sign * project_simplex(sign * v[tied], self.weight)
        return s


def soft_threshold(x: Vector, by: float | Vector) -> Vector:
    """sign(x) * max(|x| - by, 0), without negative zeros."""
    return np.copysign(np.maximum(np.abs(x) - by, 0.0), x) + 0.0
