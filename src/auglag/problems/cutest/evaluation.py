"""What both ways of evaluating a problem have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

from auglag._typing import Vector

#: f, its gradient, c, and the entries of the Jacobian in the order of the fixed pattern.
Values: TypeAlias = tuple[float, Vector, Vector, Vector]


@dataclass(frozen=True, slots=True)
class SecondOrder:
    """What the Hessian of the Lagrangian is made of at one x.

    `hessians` are those of the elements, flat; `rows` the gradients of the arguments of the group functions, in the
    pattern of the structure; `first` and `second` the derivatives of the group functions.
    """

    hessians: Vector
    rows: Vector
    first: Vector
    second: Vector


class Evaluator(ABC):
    """Evaluates a `Structure`. Results are fresh arrays; calls from several threads wait for each other."""

    backend: str

    @abstractmethod
    def values(self, x: Vector, key: bytes) -> Values:
        """f, gradient, c and J at x; `key` is `x.tobytes()`."""

    @abstractmethod
    def product(self, x: Vector, y: Vector, v: Vector) -> Vector:
        """Hess(f + y'c)(x) v."""

    @abstractmethod
    def second_order(self, x: Vector) -> SecondOrder:
        """The parts of the Hessian at x."""
