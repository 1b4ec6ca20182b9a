"""What a subproblem offers to solvers that work on models of it rather than on values and gradients alone."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from auglag._typing import Vector
from auglag.inner.base import Traits
from auglag.kkt import Curvature, Memory, Model


class HasTraits(Protocol):
    """What the subproblems of a run have in common."""

    @property
    def traits(self) -> Traits:
        """What a solver may want to know of them."""


@runtime_checkable
class ModelledSubproblem(Protocol):
    """An augmented Lagrangian that can be expanded around a point with its kinks kept (`auglag.kkt.Model`)."""

    memory: Memory  #: what one step hands to the next, over subproblems

    @property
    def form(self) -> HasTraits:
        """The problem that the subproblems belong to."""

    def multipliers(self, x: Vector) -> Vector:
        """The multipliers of the rows that the subproblem itself estimates at x."""

    def error(self, x: Vector) -> float:
        """What errors of the functions beyond those of double precision make of the value at x."""

    def model(self, x: Vector, w: Vector, curvature: Curvature, radius: float) -> Model | None:
        """The model around x with the Hessian at multipliers w, for steps with entries of at most `radius`.

        None where a derivative is not finite.
        """

    def corrected(self, model: Model, trial: Vector, d: Vector) -> Model:
        """The model for the second-order correction of the step d that led to `trial`."""
