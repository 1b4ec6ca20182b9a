"""Problems whose values are remembered point by point, and whose Jacobians are counted."""

from __future__ import annotations

from abc import abstractmethod
from typing import final

from auglag._typing import Jacobian, Vector
from auglag.problems.base import AbstractProblem, Point


class PointwiseProblem(AbstractProblem):
    """A problem that says how the values of a point are filled in, several at once where they come together."""

    @final
    def f(self, x: Vector) -> float:
        return self.at(x).f

    @final
    def grad(self, x: Vector) -> Vector:
        return self.at(x).grad

    @final
    def c(self, x: Vector) -> Vector:
        return self.at(x).c

    @final
    def jac(self, x: Vector) -> Jacobian:
        return self.at(x).jac

    @abstractmethod
    def fill_f(self, point: Point) -> None:
        """Set `point._f`."""

    @abstractmethod
    def fill_grad(self, point: Point) -> None:
        """Set `point._grad`."""

    @abstractmethod
    def fill_c(self, point: Point) -> None:
        """Set `point._c`."""

    @abstractmethod
    def fill_jac(self, point: Point) -> None:
        """Set `point._jac`."""
