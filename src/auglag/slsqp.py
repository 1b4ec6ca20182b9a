"""auglag for code that calls `scipy.optimize.minimize(method="SLSQP")` and cannot be changed."""

from __future__ import annotations

import importlib
from typing import Any, final

from auglag.minimize import scipy_method
from auglag.result import Result

_NAME = "_minimize_slsqp"


@final
class instead_of_slsqp:
    """In a `with` block, SciPy's method "SLSQP" is auglag, whoever calls it: statsmodels, BoTorch, one's own old code.

        with auglag.instead_of_slsqp(tol=1e-8):
            result = library.fit(...)

    `options` are those of `auglag.scipy_method`. Of what the code asks of SLSQP, `maxiter` and `disp` are kept to;
    `ftol` is not, as auglag tests the KKT residual (`tol`) instead. A function inside SciPy is replaced for that time,
    which other threads see, too.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options

    def __enter__(self) -> None:
        self._module: Any = importlib.import_module("scipy.optimize._minimize")
        self._theirs = getattr(self._module, _NAME)
        setattr(self._module, _NAME, self._solve)

    def __exit__(self, *error: object) -> None:
        setattr(self._module, _NAME, self._theirs)

    def _solve(
        self,
        fun: Any,
        x0: Any,
        args: Any = (),
        jac: Any = None,
        bounds: Any = None,
        constraints: Any = (),
        *,
        callback: Any = None,
        maxiter: Any = None,
        disp: bool = False,
        finite_diff_rel_step: Any = None,
        **_: Any,
    ) -> Result:
        given = {"callback": callback, "maxiter": maxiter, "disp": disp, "finite_diff_rel_step": finite_diff_rel_step}
        return scipy_method(fun, x0, args, jac=jac, bounds=bounds, constraints=constraints, **(given | self._options))
