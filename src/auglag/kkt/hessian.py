"""A Hessian as a matrix, dense or sparse, plus a few signed rank-one terms that a sparse matrix could not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._norms import finite
from auglag._typing import Vector


@final
@dataclass(frozen=True, slots=True)
class Hessian:
    """H = matrix + V diag(c) V'. A dense matrix takes the terms in; beside a sparse one they stay apart."""

    matrix: Any
    v: Any = None  #: (n, k) or None
    c: Vector | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is sparse."""
        return not isinstance(self.matrix, np.ndarray)

    def __matmul__(self, d: Vector) -> Vector:
        product = self.matrix.dot(d)
        return np.asarray(product if self.v is None else product + self.v @ (self.c * (self.v.T @ d)))

    def diagonal(self) -> Vector:
        """The diagonal of the whole."""
        diagonal = np.asarray(self.matrix.diagonal())
        return diagonal if self.v is None else diagonal + (self.v * self.v) @ self.c

    def plus(self, v: Any, c: Vector) -> Hessian:
        """H + V diag(c) V'."""
        if not self.is_sparse:
            return Hessian(self.matrix + (v * c) @ v.T)
        if self.v is None or self.c is None:
            return Hessian(self.matrix, v, c)
        return Hessian(self.matrix, np.hstack([self.v, v]), np.concatenate([self.c, c]))

    def on(self, free: NDArray[np.intp]) -> Hessian:
        """The block of some variables."""
        if free.size == self.matrix.shape[0]:
            return self
        if self.is_sparse:
            return Hessian(self.matrix[free][:, free], None if self.v is None else self.v[free], self.c)
        return Hessian(self.matrix.take(free, 0).take(free, 1))

    def toarray(self) -> Any:
        """H as a dense array."""
        full = self.matrix.toarray() if self.is_sparse else self.matrix
        return full if self.v is None else full + (self.v * self.c) @ self.v.T

    def finite(self) -> bool:
        """Whether all entries are."""
        return finite(self.matrix.data if self.is_sparse else self.matrix) and (self.v is None or finite(self.v))
