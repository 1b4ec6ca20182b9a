"""Driving SciPy's L-BFGS-B routine: directly where its entry point is one we tested, else through `minimize`.

SciPy's `minimize` spends 25 microseconds around every evaluation and 150 around every call, which is most of the time
of a small problem. The routine underneath works by reverse communication; calling it ourselves gives the same iterates
without that. It is private to SciPy, so it is used only with versions of SciPy on which the tests of this project
compared the two ways bit by bit; any other version takes the public way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from scipy.optimize import Bounds, minimize

from auglag._typing import Vector
from auglag.inner import tuning

Visit = Callable[[Vector], tuple[float, Vector]]
Box = tuple[Vector, Vector] | None
Count = Callable[[], bool]

#: (major, minor) of the SciPy versions whose routine has the calling sequence used below.
TESTED = ((1, 15), (1, 16), (1, 17))
_EVALUATE, _NEW_ITERATE = 3, 1  # the routine's requests


def _routine() -> Any:
    version = tuple(int(part) for part in scipy.__version__.split(".")[:2])
    if version not in TESTED:
        return None
    try:
        from scipy.optimize import _lbfgsb
    except ImportError:
        return None
    return getattr(_lbfgsb, "setulb", None)


SETULB = _routine()


def drive(
    visit: Visit, x: Vector, box: Box, memory: int, count: Count, ftol: float = 0.0, searches: int | None = None
) -> Vector:
    """Run L-BFGS-B from x without its own tests (`ftol` = 0); `count()` says after each iteration whether to go on.

    Returns the last iterate when the routine gives up: a failed line search, no decrease left in floating point, or a
    relative decrease of at most `ftol` in one iteration. `searches` is the most evaluations of a line search.
    """
    searches = tuning.TUNING.lbfgsb_line_search if searches is None else searches
    if SETULB is not None:
        return directly(visit, x, box, memory, count, ftol, searches)
    return through_minimize(visit, x, box, memory, count, ftol, searches)


def directly(
    visit: Visit, x: Vector, box: Box, memory: int, count: Count, ftol: float = 0.0, searches: int = 20
) -> Vector:
    """Reverse communication with the routine of SciPy."""
    n, m = x.size, memory
    lower, upper, kinds = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int32)
    if box is not None:
        has_lower, has_upper = np.isfinite(box[0]), np.isfinite(box[1])
        lower, upper = np.where(has_lower, box[0], 0.0), np.where(has_upper, box[1], 0.0)
        kinds[:] = np.where(has_lower, np.where(has_upper, 2, 1), np.where(has_upper, 3, 0))
    value: float | Vector = np.array(0.0)
    x, gradient = x.copy(), np.zeros(n)
    work, index = np.zeros(2 * m * n + 5 * n + 11 * m * m + 8 * m), np.zeros(3 * n, dtype=np.int32)
    task, line_task = np.zeros(2, dtype=np.int32), np.zeros(2, dtype=np.int32)
    flags, integers, reals = np.zeros(4, dtype=np.int32), np.zeros(44, dtype=np.int32), np.zeros(29)
    factor = ftol / np.finfo(float).eps  # the routine takes it in units of the rounding error
    while True:
        # fmt: off
        SETULB(m, x, lower, upper, kinds, value, gradient, factor, 0.0, work, index, task, flags, integers, reals,
               searches, line_task)
        # fmt: on
        if task[0] == _EVALUATE:
            value, gradient = visit(x)
        elif task[0] != _NEW_ITERATE or not count():
            return x


def through_minimize(
    visit: Visit, x: Vector, box: Box, memory: int, count: Count, ftol: float = 0.0, searches: int = 20
) -> Vector:
    """The same through `scipy.optimize.minimize`."""

    def callback(xk: Vector) -> None:
        if not count():
            raise StopIteration

    options = {"maxcor": memory, "ftol": ftol, "gtol": 0.0, "maxiter": 10**9, "maxfun": 10**9, "maxls": searches}
    bounds = None if box is None else Bounds(*box)
    done = minimize(visit, x, jac=True, method="L-BFGS-B", bounds=bounds, callback=callback, options=options)
    return np.asarray(done.x)
