"""The rows as the solver sees them: standardised, with a column of ones; and the way back to the user's units.

Behind the weights and the intercept there may be `levels`, variables that are no part of the model (`gaps.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Matrix, Vector

#: Rows that are standardised or summed at a time: copies of all of them would cost more than the sums.
SLICE = 1 << 14


@final
@dataclass(frozen=True, slots=True)
class Design:
    """a = ((features - mean) / scale, 1, 0, ...); the variables are x = (weights, intercept, levels)."""

    mean: Vector
    scale: Vector
    used: NDArray[np.bool_]  #: features that the model may use
    intercept: bool
    levels: int = 0

    @classmethod
    def of(cls, X: Matrix, *, standardize: bool, intercept: bool, used: NDArray[np.bool_], levels: int = 0) -> Design:
        """From the mean and deviation of the rows; without an intercept nothing is centred, only scaled."""
        d = X.shape[1]
        mean, scale = np.zeros(d), np.ones(d)
        if standardize:
            size = np.maximum(X.max(axis=0, initial=0.0), -X.min(axis=0, initial=0.0))
            size = np.where(size > 0.0, size, 1.0)  # divided by first, so that no square overflows
            moments = FeatureMoments()
            for start in range(0, len(X), SLICE):
                moments.add(X[start : start + SLICE] / size)
            deviation = moments.deviation
            # A feature that is constant up to rounding has no scale of its own.
            scale = np.where(deviation > 1e-12, size * deviation, 1.0)
            mean = size * moments.mean if intercept else mean
        return cls(mean, scale, used, intercept, levels)

    @property
    def features(self) -> int:
        """Weights among the variables."""
        return int(np.sum(self.used))

    @property
    def model(self) -> int:
        """Variables of the model: weights and intercept."""
        return self.features + int(self.intercept)

    @property
    def n(self) -> int:
        """Variables."""
        return self.model + self.levels

    def rows(self, X: Matrix) -> Matrix:
        """The rows a, in an array of their own: written once, since there may be very many."""
        A = np.empty((len(X), self.n))
        part = A[:, : self.features]
        np.subtract(X if self.used.all() else X[:, self.used], self.mean[self.used], out=part)
        part /= self.scale[self.used]
        A[:, self.features : self.model] = 1.0
        A[:, self.model :] = 0.0
        return A

    def to_user(self, x: Vector) -> tuple[Vector, float]:
        """(coefficients, intercept) for features in the user's units."""
        coef = np.zeros(self.used.size)
        coef[self.used] = x[: self.features] / self.scale[self.used]
        return coef, (float(x[self.features]) if self.intercept else 0.0) - float(self.mean @ coef)

    def from_user(self, coef: Vector, intercept: float, levels: Vector | None = None) -> Vector:
        """The variables x of given coefficients and levels (0 if there are not as many)."""
        x = np.zeros(self.n)
        x[: self.features] = (coef * self.scale)[self.used]
        if self.intercept:
            x[self.features] = intercept + float(self.mean @ coef)
        if levels is not None and levels.size == self.levels:
            x[self.model :] = levels
        return x


@final
@dataclass(slots=True)
class FeatureMoments:
    """Mean and spread of the features of all rows seen so far (Chan, Golub and LeVeque 1983)."""

    count: int = 0
    mean: Vector | float = 0.0
    squares: Vector | float = 0.0  #: sums of squared deviations from the mean

    def add(self, X: Matrix) -> None:
        """More rows."""
        total, mean = self.count + len(X), X.mean(axis=0)
        shift = mean - self.mean
        self.squares = self.squares + ((X - mean) ** 2).sum(axis=0) + shift**2 * (self.count * len(X) / total)
        self.mean, self.count = self.mean + shift * (len(X) / total), total

    @property
    def deviation(self) -> Vector:
        """The standard deviation of every feature."""
        return np.sqrt(np.asarray(self.squares, dtype=np.float64) / self.count)

    def design(self, *, standardize: bool, intercept: bool, used: NDArray[np.bool_]) -> Design:
        """As `Design.of` all these rows."""
        mean, scale = np.zeros(used.size), np.ones(used.size)
        if standardize:
            deviation = self.deviation
            scale = np.where(deviation > 1e-12 * (np.abs(self.mean) + deviation), deviation, 1.0)
            scale = np.where(np.isfinite(scale) & (scale > 0.0), scale, 1.0)
            mean = np.asarray(self.mean) if intercept else mean
        return Design(mean, scale, used, intercept)
