"""A known problem stated in other units."""

from __future__ import annotations

import numpy as np

from auglag.problems.base import AbstractProblem
from auglag.problems.hs.model import KnownProblem


class Rescaled(AbstractProblem):
    """x' = dx x, f' = df f, c' = dc c."""

    def __init__(self, known: KnownProblem, dx, df: float, dc, *, hessians: bool = True) -> None:
        self.known, self.dx, self.df, self.dc, self.hessians = known, dx, df, dc, hessians
        lower = np.concatenate([np.zeros(0), *[np.broadcast_to(r.lower, _size(r, known)) for r in known.rows]])
        upper = np.concatenate([np.zeros(0), *[np.broadcast_to(r.upper, _size(r, known)) for r in known.rows]])
        bounds = {"lower": known.lower * dx, "upper": known.upper * dx}
        super().__init__(np.clip(known.x0, known.lower, known.upper) * dx, **bounds, cl=lower * dc, cu=upper * dc)

    @classmethod
    def of(cls, known: KnownProblem) -> Rescaled:
        return cls(known, np.ones(known.x0.size), 1.0, np.ones(sum(_size(row, known) for row in known.rows)))

    @classmethod
    def randomly(cls, known: KnownProblem, rng, *, hessians: bool = True, least: int = -8) -> Rescaled:
        """Powers of ten from 1e-8 to 1e8 for every variable, f and every row."""
        rows = sum(_size(row, known) for row in known.rows)
        powers = rng.integers(least, 9, known.x0.size + 1 + rows)
        factors = 10.0**powers
        n = known.x0.size
        return cls(known, factors[:n], float(factors[n]), factors[n + 1 :], hessians=hessians)

    def f(self, x):
        self.counts.nfev += 1
        return self.df * float(self.known.fun(x / self.dx))

    def grad(self, x):
        self.counts.njev += 1
        return self.df * self.known.grad(x / self.dx) / self.dx

    def c(self, x):
        return self.dc * np.concatenate([np.zeros(0), *[np.atleast_1d(r.fun(x / self.dx)) for r in self.known.rows]])

    def jac(self, x):
        n = self.n
        rows = [np.asarray(r.jac(x / self.dx)).reshape(-1, n) for r in self.known.rows]
        return self.dc[:, None] * np.vstack([np.zeros((0, n)), *rows]) / self.dx

    @property
    def has_hess(self) -> bool:
        return self.hessians

    has_hessp = has_hess

    def hess(self, x, y):
        z, start = x / self.dx, 0
        hessian = self.df * self.known.hess(z)
        for row in self.known.rows:
            stop = start + _size(row, self.known)
            hessian = hessian + row.hess(z, (y * self.dc)[start:stop])
            start = stop
        return hessian / np.outer(self.dx, self.dx)

    def hessp(self, x, y, v):
        return self.hess(x, y) @ v


def _size(row, known: KnownProblem) -> int:
    return np.atleast_1d(row.fun(known.x)).size
