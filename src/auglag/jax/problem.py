"""A problem stated in JAX for the NumPy side: compiled evaluations, derivatives by automatic differentiation."""

from __future__ import annotations

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import LinearOperator

from auglag._typing import Jacobian, Vector
from auglag.errors import InputError
from auglag.jax.statement import Statement, flat_x, state
from auglag.jax.structure import arrays_of, require_dtype
from auglag.jax.tuning import TUNING
from auglag.problems.arguments import check_term
from auglag.problems.base import AbstractProblem, Group, Point
from auglag.prox import as_term


@final
class JaxProblem(AbstractProblem):
    """min f(x) + g(x) subject to bounds and constraints, from JAX functions of pytrees.

    Arguments are those of `auglag.jax.solve`, and g, a prox term on the flat vector of all variables. The object goes
    to `auglag.minimize` and `auglag.certify` as it is. Gradients, Jacobians (products of them, if they are large) and
    Hessian products are compiled; nothing is differenced. `tree(x)` brings a flat vector into the structure of x0.
    """

    repeatable = True  # what JAX compiles is pure

    def __init__(
        self,
        fun: Any,
        x0: Any,
        args: Any = (),
        *,
        constraints: Any = (),
        bounds: Any = None,
        g: Any = None,
        name: str = "",
    ) -> None:
        dtype = require_dtype(None)
        self.args = jax.tree_util.tree_map(jnp.asarray, arrays_of(args))
        self.statement: Statement = state(fun, x0, self.args, constraints, bounds, dtype)
        s = self.statement
        start = np.array(flat_x(x0, s.x, dtype))
        if not np.isfinite(start).all():
            j = int(np.flatnonzero(~np.isfinite(start))[0])
            raise InputError(f"x0 must be finite, got {start[j]} in entry {j}")
        lower, upper, cl, cu = (np.array(side, dtype=np.float64) for side in (s.lower, s.upper, s.cl, s.cu))
        term = None if g is None else as_term(g)
        if term is not None:
            check_term(term, lower, upper, start.size)
        super().__init__(
            np.clip(start, lower, upper), lower=lower, upper=upper, cl=cl, cu=cu, groups=_groups(s), g=term
        )
        self.name = name
        functions, p = s.functions, self.args
        one = np.ones(())
        self._value_and_grad = jax.jit(lambda x: jax.value_and_grad(functions.objective)(x, p))
        self._value = jax.jit(lambda x: functions.objective(x, p))
        self._rows = jax.jit(lambda x: functions.rows(x, p))
        jacobian = jax.jacfwd if functions.n < functions.m else jax.jacrev
        self._jacobian = jax.jit(lambda x: jacobian(functions.rows)(x, p))
        self._product = jax.jit(lambda x, v: jax.jvp(lambda z: functions.rows(z, p), (x,), (v,))[1])
        self._transposed = jax.jit(lambda x, w: jax.vjp(lambda z: functions.rows(z, p), x)[1](w)[0])
        self._hessian_product = jax.jit(
            lambda x, y, v: jax.jvp(lambda z: functions.gradient(z, p, one, y), (x,), (v,))[1]
        )

    def tree(self, x: Vector) -> Any:
        """A flat vector in the structure of x0."""
        return self.statement.x.tree_of(np.asarray(x))

    def f(self, x: Vector) -> float:
        """The objective."""
        self.counts.nfev += 1
        return float(self._value(x))

    def grad(self, x: Vector) -> Vector:
        """Its gradient."""
        self.counts.njev += 1
        return np.asarray(self._value_and_grad(x)[1])

    def fill_f(self, point: Point) -> None:
        """f, and its gradient with it: reverse mode has both in one pass."""
        self.counts.nfev += 1
        self.counts.njev += 1
        value, gradient = self._value_and_grad(point.x)
        point._f, point._grad = float(value), np.array(gradient)

    def fill_grad(self, point: Point) -> None:
        """The gradient alone, where f was set by hand."""
        self.counts.njev += 1
        point._grad = np.array(self._value_and_grad(point.x)[1])

    def c(self, x: Vector) -> Vector:
        """All constraint functions, stacked in the user's order."""
        if not self.m:
            return np.zeros(0)
        self.counts.constr_nfev += 1
        return np.array(self._rows(x))

    def jac(self, x: Vector) -> Jacobian:
        """Their Jacobian: an array, or an operator where that would be too large."""
        if not self.m:
            return np.zeros((0, self.n))
        self.counts.constr_njev += 1
        if self.n * self.m <= TUNING.largest_jacobian:
            return np.array(self._jacobian(x))
        at = jnp.asarray(x)
        return LinearOperator(
            (self.m, self.n),
            matvec=lambda v: np.asarray(self._product(at, v.ravel())),
            rmatvec=lambda w: np.asarray(self._transposed(at, w.ravel())),
            dtype=np.float64,
        )

    @property
    def has_hessp(self) -> bool:
        """Always: Hessian products come by forward over reverse mode."""
        return True

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        """Hess(f + y'c)(x) v."""
        self.count_hessian()
        return np.asarray(self._hessian_product(x, y, v))


def _groups(s: Statement) -> tuple[Group, ...]:
    groups, start = [], 0
    for row in s.rows:
        groups.append(Group(row.name, start, start + row.shape.size, row.shape.shapes == ((),)))
        start += row.shape.size
    return tuple(groups)
