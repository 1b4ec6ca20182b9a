"""The rows as the solver sees them: standardised, with a column of ones; and the way back to the user's units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Matrix, Vector


@final
@dataclass(frozen=True, slots=True)
class Design:
    """a = ((features - mean) / scale, 1); the variables are x = (weights, intercept)."""

    mean: Vector
    scale: Vector
    used: NDArray[np.bool_]  #: features that the model may use
    intercept: bool

    @classmethod
    def of(cls, X: Matrix, *, standardize: bool, intercept: bool, used: NDArray[np.bool_]) -> Design:
        """From the mean and deviation of the rows; without an intercept nothing is centred, only scaled."""
        d = X.shape[1]
        mean, scale = np.zeros(d), np.ones(d)
        if standardize:
            size = np.abs(X).max(axis=0, initial=0.0)
            size = np.where(size > 0.0, size, 1.0)  # divided by first, so that no square overflows
            deviation = (X / size).std(axis=0)
            # A feature that is constant up to rounding has no scale of its own.
            scale = np.where(deviation > 1e-12, size * deviation, 1.0)
            mean = X.mean(axis=0) if intercept else mean
        return cls(mean, scale, used, intercept)

    @property
    def features(self) -> int:
        """Weights among the variables."""
        return int(np.sum(self.used))

    @property
    def n(self) -> int:
        """Variables."""
        return self.features + int(self.intercept)

    def rows(self, X: Matrix) -> Matrix:
        """The rows a."""
        A = ((X - self.mean) / self.scale)[:, self.used]
        return np.ascontiguousarray(np.hstack([A, np.ones((len(A), 1))]) if self.intercept else A)

    def to_user(self, x: Vector) -> tuple[Vector, float]:
        """(coefficients, intercept) for features in the user's units."""
        coef = np.zeros(self.used.size)
        coef[self.used] = x[: self.features] / self.scale[self.used]
        return coef, (float(x[-1]) if self.intercept else 0.0) - float(self.mean @ coef)

    def from_user(self, coef: Vector, intercept: float) -> Vector:
        """The variables x of given coefficients."""
        weights = (coef * self.scale)[self.used]
        return np.append(weights, intercept + float(self.mean @ coef)) if self.intercept else weights
