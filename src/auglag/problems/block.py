"""One block of constraints: values, Jacobian and Hessian of what the user gave as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from auglag._arrays import real_array
from auglag._typing import Jacobian, Vector
from auglag.derivatives import differences
from auglag.derivatives.detection import Detected
from auglag.derivatives.extrapolation import extrapolated
from auglag.derivatives.noise import Noise, dtype_error
from auglag.errors import InputError
from auglag.problems.jacobians import as_jacobian, columns_times, transposed_product
from auglag.problems.patterns import Pattern
from auglag.problems.workspace import Counts, Workspace

Sides = tuple[Vector, Vector]


Work = Callable[[], Workspace]


@final
@dataclass(slots=True)
class Block:
    """One constraint of the user: lower <= fun(x) <= upper."""

    name: str
    fun: Callable[[Vector], Any]
    lower: Vector
    upper: Vector
    size: int
    scalar: bool  #: the user's function returns a number
    jac: Callable[[Vector], Any] | str  #: a function, or a finite-difference scheme
    hess: Callable[[Vector, Vector], Any] | str | None  #: Hess of v'fun(x), a scheme, or None
    matrix: Jacobian | None  #: the constant Jacobian of a linear constraint
    rel_step: Any
    sparsity: Any  #: (pattern of the Jacobian, group of each column), or None
    work: Work  #: the workspace of the run that asks
    jac_pattern: Pattern = field(default_factory=Pattern)  #: of the last sparse Jacobian, which the next one shares
    hess_pattern: Pattern = field(default_factory=Pattern)  #: of the last sparse Hessian

    def fill(self, out: Vector, x: Vector, counts: Counts) -> None:
        """Put fun(x) in its place."""
        if self.matrix is not None:
            out[:] = self.matrix @ x
            return
        counts.constr_nfev += 1
        raw = self.fun(x.copy())
        if (type(raw) is np.ndarray and raw.dtype == np.float64 and raw.shape == out.shape) or (
            isinstance(raw, float) and self.size == 1
        ):
            out[:] = raw  # users reuse their arrays
            return
        out[:] = self._of_same_length(real_array(raw, f"{self.name}: fun(x)").ravel())

    def _of_same_length(self, value: NDArray[Any]) -> NDArray[Any]:
        if value.size != self.size:
            raise InputError(f"{self.name}: fun(x) must return {self.size} values as it did at x0, got {value.size}")
        return value

    def jacobian(
        self, x: Vector, value: Vector, lower: Vector, upper: Vector, noise: Noise | None = None
    ) -> tuple[Jacobian, Jacobian | None]:
        """The Jacobian at x, differences staying inside [lower, upper], and their estimated error, if any."""
        if self.matrix is not None:
            return self.matrix, None
        if isinstance(self.jac, str):
            lower, upper = np.minimum(lower, x), np.maximum(upper, x)  # x may lie outside in a certificate only
            return self._differenced(x, value, lower, upper, noise)
        self.work().counts.constr_njev += 1
        raw = self.jac(x.copy())
        jac = as_jacobian(raw, self.size, x.size, f"{self.name}: jac(x)", self.jac_pattern.csr)
        relative = dtype_error(raw)
        return jac, relative * abs(jac) if relative and not isinstance(jac, LinearOperator) else None

    def _differenced(
        self, x: Vector, value: Vector, lower: Vector, upper: Vector, noise: Noise | None
    ) -> tuple[Jacobian, Jacobian | None]:
        work = self.work()

        def by(sparsity: Any) -> tuple[Any, Any]:
            sides = (lower, upper, self.rel_step)
            return by_differences(
                self._for_differences, x, value, str(self.jac), work.level, *sides, sparsity, noise, work.unit
            )

        if self.sparsity is not None:
            return by(self.sparsity)
        known: Detected = work.kept.setdefault(("entries", self.name), Detected())
        if known.structure is not None and work.level < 2:
            jac, error = by(known.structure)
            if known.holds(self._for_differences, x, value, jac, lower, upper):
                return jac.toarray(), None if error is None else error.toarray()
        jac, error = by(None)
        known.note(x, jac)
        return jac, error

    def _for_differences(self, x: Any) -> Any:
        work = self.work()
        work.ask_guard()
        work.counts.constr_nfev += 1
        return self._of_same_length(np.asarray(self.fun(x)).reshape(-1))

    def hessp(self, x: Vector, y: Vector, v: Vector, lower: Vector, upper: Vector) -> Vector:
        """Hess(y'fun)(x) v."""
        if self.matrix is not None:
            return np.zeros_like(v)
        return np.asarray(self.hessian(x, y, lower, upper) @ v).ravel()

    def hessian(self, x: Vector, y: Vector, lower: Vector, upper: Vector) -> Jacobian:
        """Hess(y'fun)(x) of a nonlinear constraint, kept for the last x and y."""
        key = x.tobytes() + y.tobytes()
        hessian: Jacobian = self.work().last(("hess", self.name), key, lambda: self._hessian(x, y, lower, upper))
        return hessian

    def _hessian(self, x: Vector, y: Vector, lower: Vector, upper: Vector) -> Jacobian:
        if callable(self.hess):
            self.work().counts.constr_nhev += 1
            what = f"{self.name}: hess(x, v)"
            return as_jacobian(self.hess(x.copy(), y), x.size, x.size, what, self.hess_pattern.csr)
        jac: Any = self.jac  # a function, as `_block` has checked

        def gradient(z: Any) -> Any:
            self.work().counts.constr_njev += 1
            return transposed_product(as_jacobian(jac(z), self.size, x.size, f"{self.name}: jac(x)"), y)

        scheme = str(self.hess)
        return differences.hessian_from_gradient(gradient, x, gradient(x), lower=lower, upper=upper, scheme=scheme)


_HUGE = float(np.finfo(np.float64).max)


def by_differences(
    fun: Callable[[Any], Any],
    x: Vector,
    value: Vector,
    scheme: str,
    level: int,
    lower: Vector,
    upper: Vector,
    rel_step: Any,
    sparsity: Any = None,
    noise: Noise | None = None,
    unit: Vector | None = None,
) -> tuple[Any, Any]:
    """(Jacobian, error estimate or None) by differences of the given level; the complex step is always exact.

    Where values have errors beyond double precision, steps are longer, and there is an estimate at every level. `unit`
    are the sizes of variables that are much smaller than 1, as powers of two: steps are relative to them.
    """
    if unit is not None:
        sides = [np.maximum(np.minimum(side / unit, _HUGE), -_HUGE) for side in (lower, upper)]
        found = by_differences(
            lambda z: fun(z * unit), x / unit, value, scheme, level, sides[0], sides[1], rel_step, sparsity, noise
        )
        jac, error = (None if part is None else columns_times(part, 1.0 / unit) for part in found)
        return jac, error
    where = {"lower": lower, "upper": upper, "sparsity": sparsity}
    if scheme != "cs" and level >= 2:
        return extrapolated(fun, x, value, noise=noise, **where)
    if scheme == "2-point" and level == 1:
        scheme, rel_step = "3-point", None
    if noise is None or scheme == "cs":
        return differences.jacobian(fun, x, value, scheme=scheme, rel_step=rel_step, **where), None
    return differences.noisy_jacobian(fun, x, value, noise, scheme=scheme, rel_step=rel_step, **where)
