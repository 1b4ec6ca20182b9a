"""Losses of generalised linear models: a smooth function of the margin z = a'x and of the row's target t.

Every loss has a number (`code`), by which the compiled kernels know it; `kernels.py` repeats the formulas, and a
test holds the two together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError, OptionError


def sigmoid(z: Vector) -> Vector:
    """1 / (1 + exp(-z)) without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * z))


def softplus(z: Vector) -> Vector:
    """log(1 + exp(z)) without overflow."""
    return np.asarray(np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z))))


class Loss(ABC):
    """l(z, t), with its first derivative by z and a nonnegative curvature."""

    code: ClassVar[int]
    name: ClassVar[str]
    signs: ClassVar[bool] = False  #: whether targets have to be 1 or -1

    @abstractmethod
    def value(self, z: Vector, t: Vector) -> Vector:
        """l(z, t), entry by entry."""

    @abstractmethod
    def slope(self, z: Vector, t: Vector) -> Vector:
        """dl/dz."""

    @abstractmethod
    def curvature(self, z: Vector, t: Vector) -> Vector:
        """A curvature >= 0 for Gauss-Newton models."""

    def check(self, t: Vector) -> None:
        """Raise `InputError` for targets that the loss is not made for."""
        bad = t[np.abs(t) != 1.0]
        if self.signs and bad.size:
            raise InputError(f"the targets of the {self.name} loss must be 1 or -1, got {bad[0]}")


@final
@dataclass(frozen=True, slots=True)
class Logistic(Loss):
    """log(1 + exp(-t z)), t = 1 or -1: the surrogate of the paper's Neyman-Pearson problem."""

    code: ClassVar[int] = 0
    name: ClassVar[str] = "logistic"
    signs: ClassVar[bool] = True

    def value(self, z: Vector, t: Vector) -> Vector:
        return softplus(-t * z)

    def slope(self, z: Vector, t: Vector) -> Vector:
        return -t * sigmoid(-t * z)

    def curvature(self, z: Vector, t: Vector) -> Vector:
        q = sigmoid(z)
        return q * (1.0 - q)


@final
@dataclass(frozen=True, slots=True)
class Squared(Loss):
    """(z - t)^2 / 2."""

    code: ClassVar[int] = 1
    name: ClassVar[str] = "squared"

    def value(self, z: Vector, t: Vector) -> Vector:
        return 0.5 * (z - t) ** 2

    def slope(self, z: Vector, t: Vector) -> Vector:
        return z - t

    def curvature(self, z: Vector, t: Vector) -> Vector:
        return np.ones_like(z)


@final
@dataclass(frozen=True, slots=True)
class Sigmoid(Loss):
    """1 / (1 + exp(t z)), t = 1 or -1: a nonconvex, bounded surrogate of the 0-1 loss."""

    code: ClassVar[int] = 2
    name: ClassVar[str] = "sigmoid"
    signs: ClassVar[bool] = True

    def value(self, z: Vector, t: Vector) -> Vector:
        return sigmoid(-t * z)

    def slope(self, z: Vector, t: Vector) -> Vector:
        q = sigmoid(-t * z)
        return -t * q * (1.0 - q)

    def curvature(self, z: Vector, t: Vector) -> Vector:
        """q (1 - q) |1 - 2 q|: the second derivative with its sign taken off, so that models stay convex."""
        q = sigmoid(-t * z)
        return np.asarray(q * (1.0 - q) * np.abs(1.0 - 2.0 * q))


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Logistic(), Squared(), Sigmoid())}


def as_loss(loss: Any) -> Loss:
    """A loss by name, or the object itself."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    raise OptionError(f"loss must be one of {sorted(LOSSES)} or a Loss object, got {loss!r:.80}")
