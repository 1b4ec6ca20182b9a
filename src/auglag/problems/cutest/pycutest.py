"""CUTEst problems through pycutest, where that is installed.

Written to pycutest's documented interface and tested against a small imitation of it, NOT run against pycutest itself
(which needs CUTEst's Fortran, a SIF decoder and a compiler).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.errors import InputError, MissingExtra
from auglag.problems.base import AbstractProblem, LinearRows
from auglag.problems.cutest.problem import Evaluation, bounds, linear_rows


@final
class PycutestProblem(AbstractProblem):
    """A problem of pycutest; `raw` is its object. Fixed variables are kept (`drop_fixed_variables=False`)."""

    has_hessp = has_hess = repeatable = True
    backend = "pycutest"
    backend_reason = "asked for"

    def __init__(self, raw: Any) -> None:
        self.raw, self.name = raw, str(raw.name)
        n, m = int(raw.n), int(raw.m or 0)
        super().__init__(
            np.asarray(raw.x0, dtype=float).ravel().copy(),
            lower=bounds(raw.bl, n, -np.inf),
            upper=bounds(raw.bu, n, np.inf),
            cl=bounds(raw.cl if m else None, m, -np.inf),
            cu=bounds(raw.cu if m else None, m, np.inf),
        )
        self.linear_rows = np.asarray(raw.is_linear_cons, dtype=bool) if m else np.zeros(0, dtype=bool)

    @classmethod
    def load(cls, name: str, params: Any = None) -> PycutestProblem:
        """Import (and the first time decode and compile) a problem; `params` are SIF parameters by name."""
        if params is not None and not isinstance(params, Mapping):
            raise InputError(f"cutest.load: params of pycutest must be a mapping of SIF parameters, got {params!r:.80}")
        try:
            package: Any = importlib.import_module("pycutest")
        except ImportError as error:
            raise MissingExtra(
                f'source="pycutest" needs pycutest and CUTEst ({error}): see https://jfowkes.github.io/pycutest; '
                'source="s2mpj" needs neither'
            ) from None
        sif = None if params is None else dict(params)
        return cls(package.import_problem(name, sifParams=sif, drop_fixed_variables=False))

    def evaluate(self, x: Vector) -> Evaluation:
        """f, gradient, c and J at once; not counted."""
        f, grad = self.raw.obj(x, gradient=True)
        c, jac = self.raw.scons(x, gradient=True) if self.m else (np.zeros(0), sparse.csr_array((0, self.n)))
        return Evaluation(float(f), np.asarray(grad, dtype=float), np.asarray(c, dtype=float), sparse.csr_array(jac))

    def linear(self) -> LinearRows | None:
        return linear_rows(self.linear_rows, self.evaluate, self.n)

    def f(self, x: Vector) -> float:
        self.counts.nfev += 1
        return float(self.raw.obj(x))

    def grad(self, x: Vector) -> Vector:
        self.counts.njev += 1
        return np.asarray(self.raw.obj(x, gradient=True)[1], dtype=float)

    def c(self, x: Vector) -> Vector:
        if not self.m:
            return np.zeros(0)
        self.counts.constr_nfev += 1
        return np.asarray(self.raw.cons(x), dtype=float)

    def jac(self, x: Vector) -> Any:
        """Their Jacobian, a csr_array; pycutest's pattern may leave out entries that are zero at x."""
        if not self.m:
            return sparse.csr_array((0, self.n))
        self.counts.constr_njev += 1
        return sparse.csr_array(self.raw.scons(x, gradient=True)[1])

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        self.count_hessian()
        return np.asarray(self.raw.hprod(v, x, y) if self.m else self.raw.hprod(v, x), dtype=float)

    def hess(self, x: Vector, y: Vector) -> Any:
        self.count_hessian()
        return sparse.csr_array(self.raw.sphess(x, y) if self.m else self.raw.sphess(x))
