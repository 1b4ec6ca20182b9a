"""Prox terms for parameters: g acts tensor by tensor, where the parameters are; its prox comes after every step.

What ties the methods of a term together is the same as in `auglag.prox`: p = prox(t, step) holds exactly when
(t - p) / step lies in the subdifferential dg(p).
"""

from __future__ import annotations

import fnmatch
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch

from auglag._arrays import real_array
from auglag.errors import InputError, require_positive
from auglag.torch.variables import Variables

Tensor = Any


class Term(ABC):
    """A convex function of one tensor with a cheap prox. One small class makes another."""

    #: A scaled step (Adam's, say) followed by the prox has the right fixed points: true of boxes, not of norms.
    scale_free: bool = False

    @abstractmethod
    def value(self, t: Tensor) -> Tensor:
        """g(t), a scalar tensor; inf outside the domain."""

    @abstractmethod
    def prox(self, t: Tensor, step: float) -> Tensor:
        """The minimiser u of g(u) + ||u - t||^2 / (2 step)."""

    @abstractmethod
    def excess(self, t: Tensor, v: Tensor) -> Tensor:
        """v less the element of dg(t) nearest to it."""

    def check(self, name: str, t: Tensor) -> None:
        """Raise `InputError` if the term cannot act on a tensor of this shape."""
        return


@final
@dataclass(frozen=True, slots=True)
class L1(Term):
    """weight * sum |t_i|: single weights become zero."""

    weight: float = 1.0

    def __post_init__(self) -> None:
        require_positive(self.weight, "L1.weight")

    def value(self, t: Tensor) -> Tensor:
        return self.weight * t.abs().sum()

    def prox(self, t: Tensor, step: float) -> Tensor:
        return torch.nn.functional.softshrink(t, step * self.weight)

    def excess(self, t: Tensor, v: Tensor) -> Tensor:
        """v - weight sign(t), and what exceeds [-weight, weight] where t = 0."""
        return torch.where(t == 0, torch.nn.functional.softshrink(v, self.weight), v - self.weight * t.sign())


@final
@dataclass(frozen=True, slots=True)
class GroupL2(Term):
    """weight * sum over slices along `dim` of their 2-norms: whole neurons (dim 0) or inputs (dim 1) become zero."""

    weight: float = 1.0
    dim: int = 0

    def __post_init__(self) -> None:
        require_positive(self.weight, "GroupL2.weight")

    def check(self, name: str, t: Tensor) -> None:
        if not -t.ndim <= self.dim < t.ndim:
            raise InputError(f"GroupL2.dim must be a dimension of {name!r}, which has {t.ndim}, got {self.dim}")

    def _norms(self, t: Tensor) -> Tensor:
        others = tuple(d for d in range(t.ndim) if d != self.dim % t.ndim)
        return torch.linalg.vector_norm(t, dim=others, keepdim=True) if others else t.abs()

    def value(self, t: Tensor) -> Tensor:
        return self.weight * self._norms(t).sum()

    def prox(self, t: Tensor, step: float) -> Tensor:
        """Shorten every slice by step * weight; zero if it is not longer."""
        norms = self._norms(t)
        return t * ((norms - step * self.weight).clamp(min=0) / torch.where(norms > 0, norms, 1.0))

    def excess(self, t: Tensor, v: Tensor) -> Tensor:
        """v - weight t / ||t|| slice by slice; what exceeds the ball where a slice is zero."""
        norms = self._norms(t)
        unit = t / torch.where(norms > 0, norms, 1.0)
        return torch.where(norms > 0, v - self.weight * unit, self.prox(v, 1.0))


@final
@dataclass(frozen=True, slots=True)
class NuclearNorm(Term):
    """weight * sum of the singular values of a matrix (a tensor is taken as matrix with its first dimension as rows).

    Singular values below `rank_tol` times the largest count as zero; None takes a few rounding errors.
    """

    weight: float = 1.0
    rank_tol: float | None = None

    def __post_init__(self) -> None:
        require_positive(self.weight, "NuclearNorm.weight")

    def check(self, name: str, t: Tensor) -> None:
        if t.ndim < 2:
            raise InputError(f"NuclearNorm needs a matrix, got {name!r} with {t.ndim} dimension")

    def value(self, t: Tensor) -> Tensor:
        return self.weight * torch.linalg.svdvals(t.reshape(t.shape[0], -1)).sum()

    def prox(self, t: Tensor, step: float) -> Tensor:
        u, sigma, vh = torch.linalg.svd(t.reshape(t.shape[0], -1), full_matrices=False)
        return ((u * (sigma - step * self.weight).clamp(min=0)) @ vh).reshape(t.shape)

    def excess(self, t: Tensor, v: Tensor) -> Tensor:
        """dg(T) = weight U V' + W with U'W = 0, WV = 0 and singular values of W up to weight."""
        matrix, rest = t.reshape(t.shape[0], -1), v.reshape(t.shape[0], -1)
        u, sigma, vh = torch.linalg.svd(matrix, full_matrices=False)
        eps = self.rank_tol if self.rank_tol is not None else 8 * max(matrix.shape) * torch.finfo(t.dtype).eps
        held = (sigma > eps * sigma[0].clamp(min=torch.finfo(t.dtype).tiny)).to(t.dtype)
        u, vh = u * held, vh * held[:, None]
        free = rest - u @ (u.mT @ rest)
        free = free - (free @ vh.mT) @ vh
        left, tau, right = torch.linalg.svd(free, full_matrices=False)
        nearest = self.weight * (u @ vh) + (left * tau.clamp(max=self.weight)) @ right
        return (rest - nearest).reshape(t.shape)


@final
@dataclass(frozen=True, slots=True)
class Box(Term):
    """lower <= t_i <= upper."""

    lower: float = 0.0
    upper: float = float("inf")
    scale_free = True

    def __post_init__(self) -> None:
        for name, side in (("lower", self.lower), ("upper", self.upper)):
            if real_array(side, f"Box.{name}").ndim:
                raise InputError(f"Box.{name} must be a number, got {side!r:.80}")
        if not self.lower <= self.upper:
            raise InputError(f"Box.lower must not exceed upper, got {self.lower} and {self.upper}")

    def value(self, t: Tensor) -> Tensor:
        inside = ((t >= self.lower) & (t <= self.upper)).all()
        return torch.where(inside, 0.0, torch.inf)

    def prox(self, t: Tensor, step: float) -> Tensor:
        return t.clamp(self.lower, self.upper)

    def excess(self, t: Tensor, v: Tensor) -> Tensor:
        """v less the normal cone: what points out of the box at a side is no excess."""
        pushed = ((t <= self.lower) & (v < 0)) | ((t >= self.upper) & (v > 0))
        return torch.where(pushed, 0.0, v)


@final
class ProxMap:
    """Which term acts on which parameters of a model: the g of the problem."""

    def __init__(self, variables: Variables, groups: Sequence[tuple[Any, Term]]) -> None:
        self.variables = variables
        self.terms: list[Term | None] = [None] * len(variables.params)
        if not (isinstance(groups, list | tuple) and all(isinstance(g, list | tuple) and len(g) == 2 for g in groups)):
            raise InputError(f"prox must be a list of pairs (parameters, term), got {groups!r:.60}")
        for where, term in groups:
            if not isinstance(term, Term):
                raise InputError(f"prox must hold pairs (parameters, term), got {term!r:.60} as a term")
            for i in self._find(where):
                if self.terms[i] is not None:
                    raise InputError(f"parameter {variables.names[i]!r} must have one prox term, got two")
                term.check(variables.names[i], variables.params[i])
                self.terms[i] = term
        self.empty = all(term is None for term in self.terms)
        self.scale_free = all(term is None or term.scale_free for term in self.terms)

    def _find(self, where: Any) -> list[int]:
        if isinstance(where, str):
            found = [i for i, name in enumerate(self.variables.names) if fnmatch.fnmatchcase(name, where)]
        else:
            wanted = {id(p) for p in ([where] if isinstance(where, torch.Tensor) else where)}
            found = [i for i, p in enumerate(self.variables.params) if id(p) in wanted]
        if not found:
            raise InputError(
                f"prox must name trainable parameters of the model, got {where!r:.80}; there are "
                f"{', '.join(self.variables.names)[:200]}"
            )
        return found

    def apply_(self, tensors: Sequence[Tensor], step: float) -> None:
        """The prox of step * g, in place, on tensors shaped like the parameters."""
        with torch.no_grad():
            for t, term in zip(tensors, self.terms, strict=True):
                if term is not None:
                    t.copy_(term.prox(t, step))

    def prox(self, x: Tensor, step: float) -> Tensor:
        """The prox of step * g at the vector x."""
        found = x.clone()
        self.apply_(self.variables.split(found), step)
        return found

    def into_domain(self, x: Tensor) -> Tensor:
        """x, moved into boxes where it lies outside; norms leave it alone."""
        if math.isfinite(self.value(x)):
            return x
        found = x.clone()
        for t, term in zip(self.variables.split(found), self.terms, strict=True):
            if term is not None and term.scale_free:
                t.copy_(term.prox(t, 1.0))
        if not math.isfinite(self.value(found)):
            raise InputError("prox terms must be finite at the start, got inf")
        return found

    def value(self, x: Tensor) -> float:
        """g(x)."""
        if self.empty:
            return 0.0
        parts = zip(self.variables.split(x), self.terms, strict=True)
        return float(sum(term.value(t) for t, term in parts if term is not None))

    def distance(self, x: Tensor, gradient: Tensor) -> float:
        """dist(-gradient, dg(x)), 2-norm."""
        if self.empty:
            return float(torch.linalg.vector_norm(gradient))
        squares = torch.zeros((), dtype=self.variables.wide, device=x.device)
        split = self.variables.split
        for t, v, term in zip(split(x), split(gradient), self.terms, strict=True):
            rest = -v if term is None else term.excess(t, -v)
            squares += rest.to(squares.dtype).square().sum()
        return float(squares.sqrt())
