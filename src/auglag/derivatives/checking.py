"""Is a user-supplied derivative the derivative of the user's function? A cheap answer without false alarms.

One random direction d and two evaluations settle the usual case: (f(x + hd) - f(x - hd)) / 2h against J d. Only a
disagreement is looked into, and four things must hold before it is called an error:

1. no two neighbouring step sizes h in 1e-2, ..., 1e-9 give agreement, and no h below those of item 2 does;
2. at three neighbouring step sizes the same error shows, beyond rounding, and forward and backward differences agree
   with one another better than with J d (so it is neither noise nor truncation nor a kink);
3. the derivative disagrees at a second point close by as well (a kink at x itself, a function constant in steps);
4. there is an entry (i, j) for which 1 and 2 hold along the j-th axis. That entry is named.

No point outside the bounds is ever evaluated; fixed variables are not moved, so their columns are not checked. NumPy is
silenced meanwhile, for the points are our idea and not the user's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from auglag._norms import norm, some
from auglag._typing import Vector
from auglag.derivatives.box import Box
from auglag.derivatives.comparison import Comparison
from auglag.derivatives.tuning import TUNING
from auglag.errors import DerivativeError

#: The errors that are tolerated before a run, and at the point where it ended.
AT_START, AT_END = TUNING.tolerance, TUNING.tolerance_end


class How(TypedDict, total=False):
    """What the checks of first derivatives may be told beside functions, point and bounds."""

    rng: Required[np.random.Generator]
    name: str  #: what the user calls the derivative, "jac" if nothing is said
    of: str  #: and the function, "fun" if nothing is said
    noise: Vector | float  #: the error of its values beyond double precision
    tolerance: float
    least: ArrayLike  #: sizes of the variables are no smaller (`Box.at`)


def check_gradient(
    fun: Callable[[Vector], Any],
    grad: Callable[[Vector], Any],
    x: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    **how: Unpack[How],
) -> None:
    """Raise `DerivativeError` if grad(x) is not the gradient of the real function fun at x.

    Nothing is said where fun or grad is not defined at x.
    """
    entry, row = "entry {j} of the gradient", lambda z: np.reshape(grad(z), (1, -1))
    with np.errstate(all="ignore"):
        _comparison(fun, row, x, lower, upper, how).run(how.get("name", "jac"), "the gradient", _sentence(entry, how))


def check_jacobian(
    fun: Callable[[Vector], Any],
    jac: Callable[[Vector], Any],
    x: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    **how: Unpack[How],
) -> None:
    """Raise `DerivativeError` if jac(x), dense, sparse or a LinearOperator, is not the Jacobian of fun at x."""
    entry = "row {i}, column {j} of the Jacobian"
    with np.errstate(all="ignore"):
        _comparison(fun, jac, x, lower, upper, how).run(how.get("name", "jac"), "the Jacobian", _sentence(entry, how))


def check_sparsity(
    fun: Callable[[Vector], Any],
    jac: Callable[[Vector], Any],
    x: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    **how: Unpack[How],
) -> None:
    """Raise `DerivativeError` if jac(x), differences of fun by a pattern, are wrong because the pattern lacks entries.

    Differences that are wrong for another reason are not the user's mistake, and nothing is said of them.
    """
    name = how.get("name", "jac")
    with np.errstate(all="ignore"):
        check = _comparison(fun, jac, x, lower, upper, how)
        if (found := check.wrong_rows(name, "the Jacobian")) is None:
            return
        for i in found.worst_first()[: TUNING.suspects]:
            if missing := check.missing(found, i):
                columns = ("column " if len(missing) == 1 else "columns ") + " and ".join(str(j) for j, _ in missing)
                slopes = " and ".join(f"{slope:.6g}" for _, slope in missing)
                raise DerivativeError(
                    f"{name}: finite_diff_jac_sparsity has no entry in row {i}, {columns}, but finite differences of "
                    f"fun give {slopes} at x0; pass check_derivatives=False if you are sure"
                )


def _comparison(
    fun: Callable[[Vector], Any],
    jac: Callable[[Vector], Any],
    x: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    how: How,
) -> Comparison:
    box = Box.at(x, lower, upper, how.get("least", 1.0))
    return Comparison(fun, jac, box, how["rng"], how.get("noise", 0.0), how.get("tolerance", AT_START))


def _sentence(entry: str, how: How) -> str:
    return f"{entry} is {{given:.6g}}, but finite differences of {how.get('of', 'fun')}"


def check_hessian_product(
    hessp: Callable[[Vector, Vector], Any],
    grad: Callable[[Vector], Any],
    x: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    name: str = "hessp",
    of: str = "jac",
    rng: np.random.Generator,
) -> None:
    """Raise `DerivativeError` if hessp(x, v) is not the derivative of the gradient grad at x in the direction v."""

    def hessian(z: Vector) -> LinearOperator:
        def product(v: Vector) -> Vector:
            return np.asarray(hessp(z, v.reshape(-1)), dtype=np.float64).reshape(-1)

        return LinearOperator((z.size, z.size), matvec=product, dtype=np.float64)

    check_hessian(hessian, grad, x, lower, upper, name=name, of=of, rng=rng)


def check_hessian(
    hessian: Callable[[Vector], Any],
    grad: Callable[[Vector], Any],
    x: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    name: str = "hess",
    of: str = "jac",
    rng: np.random.Generator | None = None,
) -> None:
    """The same of a matrix hessian(x); the terms of its rows are at hand, which of products can only be estimated."""
    sentence = f"row {{i}}, column {{j}} of the Hessian is {{given:.6g}}, but finite differences of {of}"
    with np.errstate(all="ignore"):
        Comparison(grad, hessian, Box.at(x, lower, upper), rng).run(name, "the Hessian", sentence)


def agrees(
    fun: Callable[[Vector], Any],
    jac: Any,
    x: Vector,
    lower: Vector,
    upper: Vector,
    noise: Vector | float = 0.0,
    tolerance: float = AT_START,
    negligible: float = 0.0,
    least: ArrayLike = 1.0,
) -> bool:
    """The first test alone, two evaluations: whether jac looks like the Jacobian of fun at x. False proves nothing.

    An error of the derivatives up to `negligible` does not matter: where gradients vanish, nothing agrees to digits.
    """
    with np.errstate(all="ignore"):
        check = Comparison(fun, lambda z: jac, Box.at(x, lower, upper, least), None, noise, tolerance)
        if not some(check.box.scale):
            return True
        direction, terms = check.direction(jac, check.box)
        enough = negligible * norm(direction) / tolerance
        return check.agrees(jac, direction, terms + enough, "jac: the Jacobian")
