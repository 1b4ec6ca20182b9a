"""Blocks that are generalised linear models: the mean of a loss of a'x over the rows a of a matrix."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from auglag._arrays import real_array
from auglag._typing import Matrix, Vector
from auglag.errors import InputError
from auglag.stochastic.blocks import Block, Part
from auglag.stochastic.data import Index, chunks, release, take_rows
from auglag.stochastic.losses import Loss, as_loss


@final
class LinearBlock(Block):
    """v(x) = mean_i loss(a_i'x, t_i), which enters f with the factor `objective` and row j of c with `constraints[j]`.

    `A` may be float64 or float32, an array or a `numpy.memmap`; sums over all rows are always taken in float64. The
    compiled kernels and the screened Gauss-Newton method work on blocks of this kind.
    """

    rows: int
    has_curvature = True

    def __init__(
        self,
        A: Any,
        target: Any = 1.0,
        *,
        loss: Loss | str = "logistic",
        objective: float = 0.0,
        constraints: Any = (),
        check: bool = True,
    ) -> None:
        if not isinstance(A, np.ndarray) or A.dtype not in (np.float64, np.float32):
            A = real_array(A, "A")
        if A.ndim != 2 or A.shape[0] == 0 or A.shape[1] == 0:
            raise InputError(f"A must be a matrix with at least one row and one column, got shape {A.shape}")
        self.A: Any = A
        self.rows, self.n = A.shape
        self.t = np.broadcast_to(real_array(target, "target"), (self.rows,))
        self.loss = as_loss(loss)
        self.loss.check(self.t[:1] if self.t.strides == (0,) else self.t)
        self.factor = float(objective)
        self.factors = np.atleast_1d(real_array(constraints, "constraints"))
        self.m = self.factors.size
        self.in_objective, self.in_constraints = self.factor != 0.0, bool((self.factors != 0.0).any())
        self._squares = np.zeros(0)  #: ||a_i||^2 of every row; empty before the first evaluation
        if check:
            self._require_finite()

    def _require_finite(self) -> None:
        for where, (rows,) in chunks((self.A,), self.rows):
            bad = ~np.isfinite(rows).all(axis=1)
            if bad.any():
                row = int(np.argmax(bad))
                column = int(np.argmax(~np.isfinite(rows[row])))
                raise InputError(
                    f"A must be finite, got {rows[row, column]} in row {where.start + row}, column {column} "
                    "(fill in or drop missing features first)"
                )

    def take(self, index: Index | slice) -> tuple[Matrix, Vector]:
        rows = np.asarray(take_rows(self.A, index), dtype=np.float64)
        one = self.t.strides == (0,)  # all rows have the same target, and may be fewer than a batch
        return rows, np.broadcast_to(self.t[:1], len(rows)) if one else take_rows(self.t, index)

    def weight(self, w: Vector) -> float:
        """The factor of this block's mean in f + w'c."""
        return self.factor + float(self.factors @ w) if self.m else self.factor

    def values(self, x: Vector, batch: Any) -> tuple[float, Vector]:
        rows, t = batch
        v = float(self.loss.value(rows @ x, t).sum() / len(rows))
        return self.factor * v, self.factors * v

    def gradient(self, x: Vector, batch: Any, w: Vector) -> Vector:
        """(objective + constraints'w) times the mean of the slope times the row."""
        rows, t = batch
        return np.asarray(self.weight(w) / len(rows) * (self.loss.slope(rows @ x, t) @ rows))

    def part(self, x: Vector, batch: Any) -> Part:
        rows, t = batch
        z = rows @ x
        v, g = float(np.mean(self.loss.value(z, t))), self.loss.slope(z, t) @ rows / len(rows)
        return Part(self.factor * v, self.factor * g, self.factors * v, np.outer(self.factors, g), v, g, z)

    def evaluate(self, x: Vector) -> Part:
        v, g, z = 0.0, np.zeros(self.n), np.empty(self.rows)
        squares = None if self._squares.size else np.empty(self.rows)
        for where, (rows,) in chunks((self.A,), self.rows):
            part = np.asarray(rows, dtype=np.float64)
            z[where] = part @ x
            v += float(np.sum(self.loss.value(z[where], self.t[where])))
            g += self.loss.slope(z[where], self.t[where]) @ part
            if squares is not None:  # the rows are at hand: later they would cost a pass of their own
                squares[where] = np.einsum("ij,ij->i", part, part)
        if squares is not None:
            self._squares = squares
        v, g = v / self.rows, g / self.rows
        return Part(self.factor * v, self.factor * g, self.factors * v, np.outer(self.factors, g), v, g, z)

    def subset(self, index: Index) -> LinearBlock:
        """The block of these rows, in memory; rows on disk are read in their order there."""
        order = np.argsort(index, kind="stable")
        part = np.empty((len(index), self.n), dtype=self.A.dtype)
        step = 1 << 13  # the pages between the rows of a step are mapped too
        for start in range(0, len(index), step):
            some = order[start : start + step]
            part[some] = self.A[index[some]]
            release(self.A)
        target = self.t[: len(index)] if self.t.strides == (0,) else self.t[index]
        return LinearBlock(part, target, loss=self.loss, objective=self.factor, constraints=self.factors, check=False)

    def squares(self) -> Vector:
        """||a_i||^2 of every row; known after the first evaluation, so that no pass over the rows goes uncounted."""
        if not self._squares.size:
            self.evaluate(np.zeros(self.n))
        return self._squares
