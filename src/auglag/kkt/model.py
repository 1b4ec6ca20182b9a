"""The problem of one step: a quadratic, plus penalties for leaving intervals, on a box."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._norms import finite
from auglag._typing import Vector
from auglag.kkt.hessian import Hessian
from auglag.kkt.linear import Analyses

Side = NDArray[np.int8]


@final
@dataclass(frozen=True, slots=True)
class Model:
    """min over d of  g'd + d'Hd/2 + beta/2 dist^2(t + J d, [cl, cu])  subject to  lower <= d <= upper.

    With t = c(x) + y/beta this is the augmented Lagrangian in which f and c alone are replaced by their expansions:
    which rows are active is decided inside the model, at no cost in evaluations. H and J are both dense or both sparse
    (csc and csr). H may be indefinite.
    """

    hessian: Hessian
    gradient: Vector
    jacobian: Any
    t: Vector
    beta: float
    cl: Vector
    cu: Vector
    lower: Vector
    upper: Vector
    equal: NDArray[np.bool_]  #: rows with cl = cu, which are always active
    #: What linear solvers know of the pattern of [[H, J'], [J, 0]]; models of one pattern share it.
    layout: Analyses = field(default_factory=Analyses)

    @property
    def n(self) -> int:
        """Number of variables."""
        return self.gradient.size

    @property
    def m(self) -> int:
        """Number of rows."""
        return self.t.size

    @property
    def is_sparse(self) -> bool:
        """Whether the matrices are sparse."""
        return not isinstance(self.jacobian, np.ndarray)

    @property
    def finite(self) -> bool:
        """Whether all entries are."""
        entries = self.jacobian.data if self.is_sparse else self.jacobian
        return self.hessian.finite() and finite(entries) and finite(self.gradient) and finite(self.t)


@final
@dataclass(frozen=True, slots=True)
class Sets:
    """Which side holds each row and each variable: -1 lower, 1 upper, 0 none."""

    rows: Side
    variables: Side

    @staticmethod
    def none(n: int, m: int) -> Sets:
        """Nothing active."""
        return Sets(np.zeros(m, np.int8), np.zeros(n, np.int8))


@final
@dataclass(frozen=True, slots=True)
class Step:
    """A solution of the model: the step, the multipliers beta (t + J d - clip) of the rows, and the active sets."""

    d: Vector
    w: Vector
    sets: Sets
    shift: float  #: the multiple of the identity that was added to H
    hessian: Hessian  #: to which it was added: H, corrected where that is not convex on the sets
    #: With the smallest shift, and the Hessian as it is or corrected once, for the sets of the step alone.
    plain: bool = True
    cycled: bool = False  #: found by interior points, since active sets cycled
