"""Norms that look at x as a matrix or a signal; finite everywhere like those in `norms`, where `noise` is explained."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import final

import numpy as np

from auglag._typing import Matrix, Vector
from auglag.errors import InputError, require_integer
from auglag.prox._tv import tv_prox
from auglag.prox._validate import EPS, scalar, store
from auglag.prox.base import ProxTerm


@final
@dataclass(frozen=True, slots=True, eq=False)
class NuclearNorm(ProxTerm):
    """g(x) = weight * sum of the singular values of X, where X is x reshaped to `shape` in C order."""

    shape: tuple[int, int]
    weight: float = 1.0
    noise: float = field(default=0.0, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        shape = tuple(self.shape)
        if len(shape) != 2:
            raise InputError(f"NuclearNorm.shape must be two positive integers, got {self.shape!r}")
        store(self, shape=tuple(require_integer(k, "NuclearNorm.shape") for k in shape))
        store(self, weight=scalar("NuclearNorm.weight", self.weight, positive=False))

    def value(self, x: Vector) -> float:
        """weight * sum_i sigma_i(X), NaN if x has entries that are not finite."""
        if not np.isfinite(x).all():
            return math.nan
        return self.weight * float(np.sum(np.linalg.svd(x.reshape(self.shape), compute_uv=False)))

    def prox(self, x: Vector, step: float) -> Vector:
        """Soft thresholding of the singular values by step * weight."""
        u, sigma, vt = np.linalg.svd(x.reshape(self.shape), full_matrices=False)
        return _flat((u * np.maximum(sigma - step * self.weight, 0.0)) @ vt)

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """weight * U V' + W, with X = U S V' of rank r, U'W = 0, WV = 0 and singular values of W <= weight."""
        u, sigma, vt = np.linalg.svd(x.reshape(self.shape), full_matrices=False)
        size = max(self.shape)
        rank = int(np.count_nonzero(sigma > 4.0 * EPS * size * sigma[0] + size * self.noise))
        u, vt = u[:, :rank], vt[:rank]
        rest = v.reshape(self.shape)
        rest = rest - u @ (u.T @ rest)
        rest = rest - (rest @ vt.T) @ vt
        left, tau, right = np.linalg.svd(rest, full_matrices=False)
        return _flat(self.weight * (u @ vt) + (left * np.minimum(tau, self.weight)) @ right)

    def check(self, n: int) -> None:
        if math.prod(self.shape) != n:
            raise InputError(f"NuclearNorm.shape must have the product {n}, the number of variables, got {self.shape}")


@final
@dataclass(frozen=True, slots=True, eq=False)
class TotalVariation1D(ProxTerm):
    """g(x) = weight * sum_i |x_{i+1} - x_i|. The prox is exact and takes O(n) (Python) operations."""

    weight: float = 1.0
    noise: float = field(default=0.0, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        store(self, weight=scalar("TotalVariation1D.weight", self.weight, positive=False))

    def value(self, x: Vector) -> float:
        return self.weight * float(np.sum(np.abs(np.diff(x))))

    def prox(self, x: Vector, step: float) -> Vector:
        return tv_prox(x, step * self.weight)

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """Elements are s_i = weight * (z_{i-1} - z_i) with z_i = sign(x_{i+1} - x_i), or in [-1, 1] at a tie.

        Fixing z at the jumps leaves one problem for each constant piece of x, the dual of the prox of total variation
        on that piece: v - s there is the prox of v less the contributions of the two ends.
        """
        jump = np.diff(x)
        tied = np.abs(jump) <= 4.0 * EPS * np.maximum(np.abs(x[1:]), np.abs(x[:-1])) + 2.0 * self.noise
        z = np.where(tied, 0.0, self.weight * np.sign(jump))
        residual = v.copy()
        residual[1:] -= z
        residual[:-1] += z
        ends = np.concatenate(([0], np.flatnonzero(~tied) + 1, [x.size]))
        for begin, end in itertools.pairwise(ends):
            if end - begin > 1:
                residual[begin:end] = tv_prox(residual[begin:end], self.weight)
        return np.asarray(v - residual)


def _flat(matrix: Matrix) -> Vector:
    return np.ascontiguousarray(matrix).reshape(-1)
