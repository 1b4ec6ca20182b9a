"""Finite-difference derivatives whose every evaluation lies inside the bounds.

A column of the Jacobian comes from two nodes x + d1 e_j and x + d2 e_j (3-point), from one (2-point), or from one
imaginary step (cs). The slopes are divided by the distances between the floating-point numbers that were really used,
so the rounding of x + h costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from auglag._arrays import real_array
from auglag._norms import finite, some
from auglag._random import LONGEST
from auglag._typing import Matrix, Vector
from auglag.derivatives.colouring import structure
from auglag.derivatives.noise import Noise
from auglag.derivatives.tuning import TUNING
from auglag.errors import EvaluationError, InputError, note_point

SCHEMES = ("2-point", "3-point", "cs")

#: A structure (nonzero or stored entries), or the pair (structure, group of each column) to colour only once.
Sparsity: TypeAlias = Any
Mask: TypeAlias = NDArray[np.bool_]

_HUGE = float(np.finfo(np.float64).max)
_RELATIVE = {"2-point": TUNING.forward_step, "3-point": TUNING.central_step, "cs": TUNING.complex_step}


def steps(
    x: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    scheme: str,
    rel_step: ArrayLike | None = None,
    stretch: float = 1.0,
) -> tuple[Vector, Mask]:
    """Signed steps h, and which columns are one-sided (3-point only: nodes x+h and x+2h instead of x+h and x-h).

    Every node lies in [lower, upper] in floating point. The step is rel * sign(x) * max(1, |x|) with rel = eps^(1/2)
    (2-point, cs) or eps^(1/3) (3-point); a given `rel_step` means rel_step * sign(x) * |x|, as in SciPy. If neither
    side has room for it, the larger side is used with a smaller step; `stretch` multiplies the default step. h is 0
    for a fixed variable, and for one whose room does not hold the floating-point numbers that the scheme needs.
    """
    x, lower, upper = (np.asarray(part, dtype=np.float64) for part in (x, lower, upper))
    if rel_step is None and x.shape == lower.shape == upper.shape == (x.size,) and x.size <= LONGEST:
        return _shared_steps(x.tobytes(), lower.tobytes(), upper.tobytes(), scheme, stretch)
    return _steps(x, lower, upper, scheme, rel_step, stretch)


@lru_cache(maxsize=4)
def _shared_steps(x: bytes, lower: bytes, upper: bytes, scheme: str, stretch: float) -> tuple[Vector, Mask]:
    """The usual steps at one x are the same for f and for every constraint: they are made once, for small x."""
    at, low, high = (np.frombuffer(part) for part in (x, lower, upper))
    h, one_sided = _steps(at, low, high, scheme, None, stretch)
    h.flags.writeable = one_sided.flags.writeable = False
    return h, one_sided


def _steps(
    x: Vector, lower: Vector, upper: Vector, scheme: str, rel_step: ArrayLike | None, stretch: float
) -> tuple[Vector, Mask]:
    lower, upper = np.maximum(lower, -_HUGE), np.minimum(upper, _HUGE)
    _require_inside(x, lower, upper)
    h = _wished(x, scheme, rel_step, stretch)
    one_sided = np.zeros(x.shape, dtype=np.bool_)
    if scheme == "cs":
        return np.where(lower == upper, 0.0, h), one_sided
    with np.errstate(over="ignore"):
        below, above = x - lower, upper - x
    size, larger = np.abs(h), np.maximum(below, above)
    inward = np.where(above >= below, 1.0, -1.0)
    factor = np.ones(x.shape)  # of the second node, x + factor * h
    if scheme == "2-point":
        ahead, behind = np.where(h > 0, above, below), np.where(h > 0, below, above)
        h = np.where(ahead >= size, h, np.where(behind >= size, -h, inward * larger))
    else:
        central, aside = np.minimum(size, np.minimum(below, above)), np.minimum(size, larger / 2)
        one_sided = central < aside / 2  # at aside/2 both have the same rounding error
        h = np.where(one_sided, inward * aside, central)
        factor = np.where(one_sided, 2.0, -1.0)
    return _settle(x, h, factor, lower, upper), one_sided


def _require_inside(x: Vector, lower: Vector, upper: Vector) -> None:
    outside = ~((lower <= x) & (x <= upper))
    if outside.any():
        j = int(np.argmax(outside))
        low, high = np.broadcast_to(lower, x.shape)[j], np.broadcast_to(upper, x.shape)[j]
        raise InputError(f"x must lie within its bounds, got x[{j}] = {x[j]} outside [{low}, {high}]")


def _wished(x: Vector, scheme: str, rel_step: ArrayLike | None, stretch: float) -> Vector:
    """The steps before any bound is looked at."""
    if scheme not in SCHEMES:
        raise InputError(f"scheme must be one of {', '.join(map(repr, SCHEMES))}, got {scheme!r}")
    sign = np.where(x >= 0, 1.0, -1.0)
    default: Vector = stretch * _RELATIVE[scheme] * sign * np.maximum(1.0, np.abs(x))
    if rel_step is None:
        return default
    relative = real_array(rel_step, "rel_step")
    if relative.shape not in ((), x.shape) or not np.isfinite(relative).all():
        raise InputError(f"rel_step must be a finite number or one for each of the {x.size} variables, got {rel_step}")
    with np.errstate(over="ignore", invalid="ignore"):
        h = relative * sign * np.abs(x)
        return np.where(((x + h) - x == 0) | ~np.isfinite(h), default, h)


def _settle(x: Vector, h: Vector, factor: Vector, lower: Vector, upper: Vector) -> Vector:
    """Round h so that x + h is exact, and draw in by single roundings the nodes that a rounding pushed outside."""

    def inside(h: Vector) -> Mask:
        near, far = x + h, x + factor * h
        return (lower <= near) & (near <= upper) & (lower <= far) & (far <= upper)

    with np.errstate(over="ignore"):
        exact = (x + h) - x
        good = inside(exact)
        h = np.where(good, exact, h)
        for _ in range(8):
            if good.all():
                break
            good = inside(h)
            h = np.where(good, h, np.nextafter(h, 0.0))
        near, far = x + h, x + factor * h
        usable = inside(h) & (near != x) & ((far != near) | (factor == 1.0))
    return np.where(usable, h, 0.0)


@final
@dataclass(frozen=True, slots=True)
class _Guarded:
    """The user's function with an undefined point as NaN, and a fresh array of the right length as value."""

    fun: Callable[[Any], Any]
    size: int
    scheme: str

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        try:
            value = self.fun(x)
        except EvaluationError:
            return np.full(self.size, np.nan)
        except Exception as error:
            if self.scheme == "cs" and isinstance(error, TypeError | np.exceptions.ComplexWarning):
                raise InputError(f"{self._demand}; it raised {type(error).__name__}: {error}") from error
            note_point(error, x)
            raise
        if self.scheme == "cs" and not np.iscomplexobj(value):
            raise InputError(f"{self._demand}; it returned {np.asarray(value).dtype} values")
        array = np.array(value, dtype=np.complex128 if self.scheme == "cs" else np.float64).reshape(-1)
        if array.size != self.size:
            raise InputError(f"fun must return {self.size} values as it did at x, got {array.size}")
        return array

    @property
    def _demand(self) -> str:
        return "scheme 'cs' demands a function that accepts complex x and returns complex values"


@final
@dataclass(frozen=True, slots=True)
class _Stencil:
    """The nodes around x and the slopes that follow from the values there."""

    x: Vector
    lower: Vector
    upper: Vector
    scheme: str
    h: Vector
    one_sided: Mask
    ends: list[NDArray[Any]]  #: every variable at its first node, and at the second, where there are two

    @staticmethod
    def around(
        x: Vector, lower: Vector, upper: Vector, scheme: str, rel_step: ArrayLike | None, stretch: float
    ) -> _Stencil:
        """That of a scheme, inside the bounds."""
        h, one_sided = steps(x, lower, upper, scheme, rel_step, stretch)
        ends = [x + 1j * h if scheme == "cs" else x + h]
        if scheme == "3-point":
            ends.append(x + np.where(one_sided, 2.0, -1.0) * h)
        return _Stencil(x, lower, upper, scheme, h, one_sided, ends)

    def values(self, fun: _Guarded, columns: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """The values at the first and at the second node, `columns` moved together; the same where there is one."""
        found = []
        for end in self.ends:
            point = self.x.astype(end.dtype)
            point[columns] = end[columns]
            found.append(fun(point))
        return found[0], found[-1]

    def slope(self, f0: Vector, first: NDArray[Any], second: NDArray[Any], columns: Any) -> Vector:
        """The derivative along `columns` (broadcast against the values)."""
        if self.scheme == "cs":
            return np.where(np.isfinite(first), first.imag / self.h[columns], np.nan)
        one_sided, (d1, *rest) = self.one_sided[columns], [end[columns] - self.x[columns] for end in self.ends]
        with np.errstate(over="ignore", invalid="ignore"):
            if not rest:
                return np.asarray((first - f0) / d1)
            slopes = np.asarray((first - second) / (d1 - rest[0]))
            return np.where(one_sided, _parabola(f0, first, second, d1, *rest), slopes) if some(one_sided) else slopes

    def repair(self, fun: _Guarded, f0: Vector, j: int, column: Vector) -> Vector:
        """Fill the non-finite entries of column j from other nodes: both sides, either side, one node only."""
        if self.scheme == "cs":
            return column
        h = float(self.h[j])
        known: dict[float, Vector] = {}
        pairs = [(h, -h), (h, 2 * h), (-h, -2 * h)] if self.scheme == "3-point" else []
        for nodes in [*pairs, (h,), (-h,)]:
            if np.isfinite(column).all():
                break
            wished = self.x[j] + np.array(nodes)
            ends = np.clip(wished, self.lower[j], self.upper[j])
            offsets = (ends - self.x[j]).tolist()
            if not all(offsets) or (len(nodes) == 2 and (ends != wished).any()):
                continue  # a node on x says nothing; a pair cut by a bound loses its spacing
            for d, end in zip(offsets, ends.tolist(), strict=True):
                if d not in known:
                    point = self.x.copy()
                    point[j] = end
                    known[d] = fun(point)
            values = [known[d] for d in offsets]
            with np.errstate(over="ignore", invalid="ignore"):
                other = _parabola(f0, *values, *offsets) if len(nodes) == 2 else (values[0] - f0) / offsets[0]
            column = np.where(np.isfinite(column), column, other)
        return column


def _parabola(f0: Vector, f1: Vector, f2: Vector, d1: Any, d2: Any) -> Vector:
    """The slope at 0 of the parabola through (0, f0), (d1, f1), (d2, f2)."""
    return np.asarray(((f1 - f0) / d1 * d2 - (f2 - f0) / d2 * d1) / (d2 - d1))


def jacobian(
    fun: Callable[[Any], Any],
    x: ArrayLike,
    f0: ArrayLike,
    *,
    lower: ArrayLike,
    upper: ArrayLike,
    scheme: str = "3-point",
    rel_step: ArrayLike | None = None,
    sparsity: Sparsity = None,
    stretch: float = 1.0,
) -> Matrix | sparse.csr_array:
    """The Jacobian (m, n) of fun at x, where f0 = fun(x); a `csr_array` of the given structure with `sparsity`.

    Columns of fixed variables are 0. Where fun is NaN, infinite or raises `EvaluationError` at a node, other nodes
    inside the bounds are tried for that column; an entry that stays undefined is NaN or infinite.
    """
    x, f0 = np.array(x, dtype=np.float64), np.array(f0, dtype=np.float64).reshape(-1)
    sides = [np.asarray(side, dtype=np.float64) for side in (lower, upper)]
    lower, upper = (side if side.shape == x.shape else np.broadcast_to(side, x.shape) for side in sides)
    stencil = _Stencil.around(x, lower, upper, scheme, rel_step, stretch)
    guarded = _Guarded(fun, f0.size, scheme)
    return _dense(stencil, guarded, f0) if sparsity is None else _coloured(stencil, guarded, f0, sparsity)


def noisy_jacobian(
    fun: Callable[[Any], Any],
    x: Vector,
    f0: Vector,
    noise: Noise,
    *,
    lower: Vector,
    upper: Vector,
    scheme: str,
    rel_step: ArrayLike | None = None,
    sparsity: Sparsity = None,
) -> tuple[Matrix | sparse.csr_array, Matrix | sparse.csr_array]:
    """(Jacobian, estimate of the absolute error of its entries) of a function whose values have these errors.

    Steps balance noise and truncation, unless they are given.
    """
    forward, t = scheme == "2-point", TUNING
    step = noise.step(t.noise_forward if forward else t.noise_central, _RELATIVE[scheme])
    stretch = step / _RELATIVE[scheme]
    jac: Any = jacobian(
        fun, x, f0, lower=lower, upper=upper, scheme=scheme, rel_step=rel_step, sparsity=sparsity, stretch=stretch
    )
    h = np.abs(steps(x, lower, upper, scheme, rel_step, stretch)[0])
    times = t.noise_errors[0 if forward else 1]
    per_step = np.divide(times, h, out=np.zeros(h.size), where=h > 0.0)
    if isinstance(jac, np.ndarray):
        return jac, noise.values[:, None] * per_step
    rows = np.repeat(np.arange(jac.shape[0]), np.diff(jac.indptr))
    return jac, sparse.csr_array((noise.values[rows] * per_step[jac.indices], jac.indices, jac.indptr), jac.shape)


def _dense(stencil: _Stencil, fun: _Guarded, f0: Vector) -> Matrix:
    jac = np.zeros((f0.size, stencil.x.size))
    free = np.flatnonzero(stencil.h)
    if not jac.size or not free.size:
        return jac
    values = [stencil.values(fun, j) for j in free]
    first, second = (np.array(node).T for node in zip(*values, strict=True))
    jac[:, free] = stencil.slope(f0[:, None], first, second, free)
    for j in [] if finite(jac) else np.flatnonzero(~np.isfinite(jac).all(axis=0)).tolist():
        jac[:, j] = stencil.repair(fun, f0, j, jac[:, j])
    return jac


def _coloured(stencil: _Stencil, fun: _Guarded, f0: Vector, sparsity: Sparsity) -> sparse.csr_array:
    """One evaluation (two for 3-point) moves all columns of a group; each row sees at most one of them."""
    pattern, group = structure(sparsity, (f0.size, stencil.x.size))
    rows = np.repeat(np.arange(f0.size), np.diff(pattern.indptr))
    cols, data = pattern.indices, np.zeros(pattern.nnz)
    moving = np.flatnonzero(stencil.h[cols])
    moving = moving[np.argsort(group[cols[moving]], kind="stable")]
    cuts = np.flatnonzero(np.diff(group[cols[moving]])) + 1
    members = np.split(moving, cuts) if moving.size else []  # the entries of each group
    for entries in members:
        first, second = stencil.values(fun, np.unique(cols[entries]))
        i, j = rows[entries], cols[entries]
        data[entries] = stencil.slope(f0[i], first[i], second[i], j)
        for k in np.unique(j[~np.isfinite(data[entries])]).tolist():
            own = entries[j == k]
            # Another column of the group may be the cause: evaluate this one alone.
            alone = stencil.slope(f0, *stencil.values(fun, k), k)
            data[own] = stencil.repair(fun, f0, k, alone)[rows[own]]
    return sparse.csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)


def hessian_from_gradient(
    grad: Callable[[Any], Any],
    x: ArrayLike,
    g0: ArrayLike,
    *,
    lower: ArrayLike,
    upper: ArrayLike,
    scheme: str = "3-point",
    rel_step: ArrayLike | None = None,
    blind: NDArray[np.bool_] | None = None,
) -> Matrix:
    """The symmetric Hessian from differences of the gradient.

    Rows and columns of fixed variables are 0. An entry that only one triangle could give is taken from there; `blind`
    says along which variables `grad` knows nothing.
    """
    raw = np.asarray(jacobian(grad, x, g0, lower=lower, upper=upper, scheme=scheme, rel_step=rel_step))
    if blind is not None:
        raw[blind] = np.nan
    free = steps(x, lower, upper, scheme, rel_step)[0] != 0
    return np.where(free[:, None] & free, _merge(raw, raw.T), 0.0)


def _merge(a: Vector, b: Vector) -> Vector:
    """The mean where both are finite, else the finite one."""
    return np.where(np.isfinite(a), np.where(np.isfinite(b), a / 2 + b / 2, a), b)
