"""The residuals as a problem's objective: values, Jacobian and cost, remembered for the last points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse

from auglag._arrays import real_array
from auglag._typing import Jacobian, Vector
from auglag.derivatives import differences
from auglag.derivatives.colouring import colour
from auglag.errors import InputError
from auglag.problems.jacobians import as_jacobian, dense, transposed_product

if TYPE_CHECKING:
    pass


@final
class Residuals:
    """The residuals, their Jacobian and their loss; the last points are kept, since cost and gradient share them."""

    def __init__(
        self,
        fun: Callable[[Vector], Any],
        jac: Any,
        loss: Callable[[Vector], Any],
        scale: float,
        box: tuple[Vector, Vector],
        sparsity: Any,
        step: Any,
    ) -> None:
        if isinstance(jac, str) and jac not in differences.SCHEMES:
            raise InputError(f"jac must be callable or one of {differences.SCHEMES}, got {jac!r:.80}")
        self._fun, self._jac, self._loss, self.scale, self._box = fun, jac, loss, scale, box
        self._scheme = {"2-point": "3-point"}.get(jac, jac) if isinstance(jac, str) else None
        pattern = None if sparsity is None else sparse.csr_array(sparsity)
        self._sparsity = None if pattern is None else (pattern, colour(pattern))
        self._step = step
        self.nfev = self.njev = 0
        self._size: int | None = None
        self._values: dict[bytes, Vector] = {}
        self._jacobians: dict[bytes, Jacobian] = {}

    def values(self, x: Vector) -> Vector:
        """fun(x) as a vector."""
        key = x.tobytes()
        known = self._values.get(key)
        if known is None:
            self.nfev += 1
            known = np.atleast_1d(real_array(self._fun(x.copy()), "fun(x)")).ravel().copy()
            self._size = known.size if self._size is None else self._size
            if known.size == 0:
                raise InputError("fun(x) must return at least one residual, got an empty array")
            if known.size != self._size:
                raise InputError(f"fun(x) must return {self._size} residuals as it did first, got {known.size}")
            _keep(self._values, key, known)
        return known

    def jacobian(self, x: Vector) -> Jacobian:
        """Its Jacobian."""
        key = x.tobytes()
        known = self._jacobians.get(key)
        if known is None:
            f = self.values(x)
            self.njev += 1
            known = self._differences(x, f) if self._scheme else self._given(x, f)
            _keep(self._jacobians, key, known)
        return known

    def _given(self, x: Vector, f: Vector) -> Jacobian:
        raw = self._jac(x.copy())
        return as_jacobian(sparse.csr_array(raw) if sparse.issparse(raw) else raw, f.size, x.size, "jac(x)")

    def _differences(self, x: Vector, f: Vector) -> Any:
        def fun(z: Any) -> Any:
            self.nfev += 1
            return np.atleast_1d(np.asarray(self._fun(z))).ravel()

        if self._sparsity is not None and self._sparsity[0].shape != (f.size, x.size):
            raise InputError(f"jac_sparsity must have shape ({f.size}, {x.size}), got {self._sparsity[0].shape}")
        lower, upper = np.minimum(self._box[0], x), np.maximum(self._box[1], x)
        return differences.jacobian(
            fun, x, f, lower=lower, upper=upper, scheme=str(self._scheme), rel_step=self._step, sparsity=self._sparsity
        )

    def rho(self, f: Vector) -> tuple[Vector, Vector, Vector]:
        """(rho, rho', rho'') by f^2, in the units of f^2."""
        value, first, second = self._loss((f / self.scale) ** 2)
        return self.scale**2 * np.asarray(value), np.asarray(first), np.asarray(second) / self.scale**2

    def cost(self, x: Vector) -> float:
        """1/2 sum rho."""
        return 0.5 * float(self.rho(self.values(x))[0].sum())

    def gradient(self, x: Vector) -> Vector:
        """J'(rho' f)."""
        f = self.values(x)
        return transposed_product(self.jacobian(x), self.rho(f)[1] * f)

    def gauss_newton(self, x: Vector) -> Any:
        """J' diag(rho' + 2 rho'' f^2) J, weights at least 0 (Triggs et al. 2000, "Bundle adjustment", section 4.3)."""
        f, jac = self.values(x), self.jacobian(x)
        _, first, second = self.rho(f)
        weights = np.maximum(first + 2.0 * second * f**2, 0.0)
        if sparse.issparse(jac):
            return sparse.csr_array(jac.T @ sparse.diags_array(weights) @ jac)
        matrix = dense(jac)
        return matrix.T @ (weights[:, None] * matrix)


def _keep(known: dict[bytes, Any], key: bytes, value: Any) -> None:
    """Put it at the end of a few: cost, gradient and curvature are asked for one after the other."""
    known[key] = value
    while len(known) > 4:
        known.pop(next(iter(known)), None)
