"""What a problem is: the contract every source of problems fulfils, and its last-points cache."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from auglag._norms import finite, norm, some
from auglag._typing import Jacobian, Vector
from auglag.derivatives.noise import Precision
from auglag.errors import EvaluationError, note_point
from auglag.problems.jacobians import product, transposed_product
from auglag.problems.tuning import TUNING
from auglag.problems.workspace import WORKSPACES, Counts, Running, Workspace
from auglag.prox.base import ProxTerm


@final
@dataclass(frozen=True, slots=True)
class Group:
    """A run of consecutive rows of c that the user stated as one constraint."""

    name: str
    start: int
    stop: int
    scalar: bool = False  #: the user's function returns a number, so its multiplier is one too


@final
@dataclass(frozen=True, slots=True)
class LinearRows:
    """Rows of c that are known to be linear: c[rows] = matrix x + constant."""

    rows: NDArray[np.intp]
    matrix: Any  #: dense or sparse
    constant: Vector

    @classmethod
    def among(cls, rows: NDArray[np.bool_], c: Vector, jac: Any) -> LinearRows | None:
        """The rows so marked, from c and the Jacobian at x = 0; None where there are none."""
        index = np.flatnonzero(rows & np.isfinite(c))
        matrix = sparse.csr_array(jac)[index]
        return cls(index, matrix, c[index]) if index.size and np.isfinite(matrix.data).all() else None


class AbstractProblem(ABC):
    """min f(x) + g(x) subject to lower <= x <= upper and cl <= c(x) <= cu (rows with cl = cu are equalities).

    A source of problems (user functions, CUTEst, JAX, an .nl file) subclasses this and implements `f`, `grad`, `c` and
    `jac`; what it knows beyond that (products, Hessians) by overriding the rest. Values may be NaN or infinite, or an
    `EvaluationError` may be raised, where a function is not defined. Solvers look at a problem through `at(x)`.

    One problem may be solved in several threads at once, if `f`, `grad`, `c` and `jac` may be called so: each run has
    its own cache of points, counts, limits and accuracy of differences (`running`).
    """

    name: str = ""
    #: Whether the same x gives the same values for sure: no code of a user is called, so nothing is hidden in it.
    repeatable: bool = False

    def __init__(
        self,
        x0: Vector,
        *,
        lower: Vector,
        upper: Vector,
        cl: Vector,
        cu: Vector,
        groups: tuple[Group, ...] | None = None,
        g: ProxTerm | None = None,
    ) -> None:
        self.x0, self.lower, self.upper, self.cl, self.cu, self.g = x0, lower, upper, cl, cu, g
        self.groups = groups if groups is not None else (Group("c", 0, cl.size),) if cl.size else ()
        self._outside_runs = Workspace()

    @property
    def n(self) -> int:
        """Number of variables."""
        return self.x0.size

    @property
    def m(self) -> int:
        """Number of constraint rows."""
        return self.cl.size

    @cached_property
    def largest_sides(self) -> Vector:
        """The larger of the two sides of every row in size; 0 where both are infinite."""
        low, high = (np.where(np.isfinite(side), np.abs(side), 0.0) for side in (self.cl, self.cu))
        return np.asarray(np.maximum(low, high))

    @cached_property
    def inequality(self) -> Vector:
        """1 for rows whose sides differ, 0 for equations; numbers, since products with booleans are slow."""
        return np.asarray(self.cl != self.cu, dtype=np.float64)

    @property
    def workspace(self) -> Workspace:
        """That of the run which asks; one of the problem's own outside of runs."""
        return WORKSPACES.get().get(id(self), self._outside_runs)

    @property
    def counts(self) -> Counts:
        """Calls made by the run which asks; outside of runs, by all that have ended and in between."""
        work = self.workspace
        while work.ended:
            work.counts.add(work.ended.pop())
        return work.counts

    @final
    def running(self) -> Running:
        """A run: until it ends, what this thread does has a workspace of its own.

        It begins with what is known of the problem outside of runs, and leaves nothing behind but its counts: so the
        calls that a run makes do not depend on runs before it or beside it.
        """
        return Running(self)

    @abstractmethod
    def f(self, x: Vector) -> float:
        """The smooth objective."""

    @abstractmethod
    def grad(self, x: Vector) -> Vector:
        """Its gradient, shape (n,)."""

    @abstractmethod
    def c(self, x: Vector) -> Vector:
        """The constraint functions, shape (m,)."""

    @abstractmethod
    def jac(self, x: Vector) -> Jacobian:
        """Their Jacobian, shape (m, n): dense, sparse or a LinearOperator."""

    @property
    def differenced(self) -> bool:
        """Whether first derivatives are finite differences, so that residuals have their errors."""
        return False

    @property
    def has_hessp(self) -> bool:
        """Whether `hessp` is available for f and every constraint."""
        return False

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        """The Hessian of f + y'c at x times v."""
        raise NotImplementedError(f"{type(self).__name__} has no second derivatives")

    @property
    def has_hess(self) -> bool:
        """Whether `hess` is available: the Hessian of the Lagrangian as a matrix."""
        return False

    def hess(self, x: Vector, y: Vector) -> Any:
        """The Hessian of f + y'c at x, dense or sparse, both triangles."""
        raise NotImplementedError(f"{type(self).__name__} has no Hessian matrix")

    @property
    def partly_curved(self) -> bool:
        """Whether there is a `known_curvature`."""
        return False

    def known_curvature(self, x: Vector) -> Any:
        """The part of Hess f(x) that first derivatives tell, dense or sparse, as J'J of least squares; None: none.

        Where there is no Hessian, only the rest of it is learnt.
        """
        return None

    def linear(self) -> LinearRows | None:
        """The rows known to be linear, as a matrix; None where none are. No evaluation is counted for it."""
        return None

    def check_derivatives(self, x: Vector) -> None:
        """Raise `DerivativeError` if a derivative the user supplied is wrong; sources of known quality do nothing."""
        return

    @property
    def precision(self) -> Precision:
        """What is known of the errors of f and c; `precision.c` are those of the rows, 0 in double precision."""
        return self.workspace.precision or Precision.full(self.m)

    @property
    def errors_stated(self) -> bool:
        """Whether the user has stated the errors of f and c."""
        known = self.workspace.precision
        return known is not None and known.stated

    @property
    def coarse(self) -> bool:
        """Whether f or c is known to have errors beyond those of double precision."""
        known = self.workspace.precision
        return known is not None and known.coarse

    def learn_precision(self, x: Vector, *, far: bool = False) -> bool:
        """Estimate the errors of f and c at x from a few values; True if some are beyond those of double precision.

        Sources of known quality have no others. `far`: come back to x from afar, too, for functions that remember.
        """
        return False

    def wrong_derivatives(self, x: Vector, negligible: float) -> str:
        """Which derivative the user supplied is wrong at x by more than `negligible`; "" where none is for sure."""
        return ""

    def refine(self, level: int) -> bool:
        """Take derivatives of this accuracy from here on; True if that changed anything.

        Exact derivatives have no levels. Finite differences: 0 as asked for, 1 central, 2 extrapolated.
        """
        return False

    def afresh(self, known: Point) -> Point:
        """The same x, of which nothing is known but finite differences: the rest is evaluated when it is asked for."""
        point = Point(self, known.x)
        if self.differenced:
            point._grad, point._jac = known._grad, known._jac
            point._grad_error, point._jac_error = known._grad_error, known._jac_error
        return point

    @final
    def compare(self, known: Point, fresh: Point) -> None:
        """Two evaluations at one x: values that differ have errors of at least that size."""
        rows = fresh.c - known.c  # first: values of c must not depend on what f saw last
        if fresh.f == known.f and not some(rows):
            return
        difference = np.abs(np.append(fresh.f - known.f, rows))
        if difference.any() and np.isfinite(difference).all():
            sizes = np.abs(np.append(known.f, known.c))
            precision = self.precision
            scale = np.maximum(precision.scale, sizes) if precision.coarse else np.maximum(sizes, 1.0)
            stated = precision.stated and bool((difference <= precision.noise).all())
            self.workspace.precision = Precision(precision.noise, scale, stated, True).at_least(difference)

    # The four below let a source fill several parts of a point by one call of the user's code.

    def fill_f(self, point: Point) -> None:
        """Set `point._f` (and whatever else comes for free)."""
        point._f = self.f(point.x)

    def fill_grad(self, point: Point) -> None:
        """Set `point._grad`."""
        point._grad = self.grad(point.x)

    def fill_c(self, point: Point) -> None:
        """Set `point._c`."""
        point._c = self.c(point.x)

    def fill_jac(self, point: Point) -> None:
        """Set `point._jac`."""
        point._jac = self.jac(point.x)

    def vjp(self, point: Point, w: Vector) -> Vector:
        """J(x)'w."""
        return transposed_product(point.jac, w)

    def row_name(self, i: int) -> str:
        """The name of row i, for messages: `pressure` or `pressure[3]`."""
        for group in self.groups:
            if group.start <= i < group.stop:
                return group.name if group.stop - group.start == 1 else f"{group.name}[{i - group.start}]"
        return f"c[{i}]"

    def variable_name(self, j: int) -> str:
        """The name of variable j, for messages."""
        return f"x[{j}]"

    @final
    def seen_at(self, x: Vector) -> Point | None:
        """The point x if its f and c are known; looking at it changes nothing."""
        point: Point | None = self.workspace.points.get(x.tobytes())
        return None if point is None or point._f is None or (point._c is None and self.m) else point

    @final
    def at(self, x: Vector) -> Point:
        """The point x with its values, each computed once, when first asked for."""
        key, work = x.tobytes(), self.workspace
        points: dict[bytes, Point] = work.points
        point = points.pop(key, None)
        if point is None:
            work.ask_guard()
            point = Point(self, x.copy())
            if len(points) >= TUNING.cached_points:
                points.pop(next(iter(points)), None)  # the one not used for longest
        points[key] = point
        return point

    @final
    def count_hessian(self) -> None:
        """One more Hessian of the Lagrangian, or one product with it, where f and c come together."""
        counts = self.counts
        counts.nhev += 1
        counts.constr_nhev += self.m > 0

    @final
    def forget(self, x: Vector) -> None:
        """Take a point out of the cache."""
        self.workspace.points.pop(x.tobytes(), None)

    @final
    def measure_in(self, sizes: Vector, unit: Vector | None) -> None:
        """What is known about the sizes of the variables, from here on; finite differences follow."""
        work = self.workspace
        work.sizes = sizes
        small = None if unit is None or (unit >= 1.0).all() else np.minimum(unit, 1.0)
        if self.differenced and not (small is None and work.unit is None):
            for point in work.points.values():
                point.forget_derivatives()
        work.unit = small

    @final
    def recall(self, point: Point) -> None:
        """As `remember`, unless the same x is known anyway."""
        self.workspace.points.setdefault(point.x.tobytes(), point)

    @final
    def remember(self, point: Point) -> None:
        """Put a point of this problem, with what is known there, back into the cache."""
        self.workspace.points[point.x.tobytes()] = point


@final
class Point:
    """One x and what is known there. Parts are evaluated lazily; NaN marks what is not defined."""

    __slots__ = (
        "_c",
        "_f",
        "_grad",
        "_grad_error",
        "_jac",
        "_jac_error",
        "measured",
        "problem",
        "source",
        "typical",
        "x",
    )

    def __init__(self, problem: AbstractProblem, x: Vector) -> None:
        self.problem = problem
        self.x = x
        self._f: float | None = None
        self._grad: Vector | None = None
        self._c: Vector | None = None
        self._jac: Any = None
        self._grad_error: Vector | None = None  # estimates of the errors of finite differences; None: not estimated
        self._jac_error: Any = None
        self.source: Point | None = None  # the point that values are taken from, where another problem lies behind
        self.measured: Any = None  # the last certificate made of these values, and what else it was made of
        self.typical: Vector | None = None  # the sizes of the variables as these values tell them (`units.typical`)

    def copy(self) -> Point:
        """The same values, for another run."""
        twin = Point(self.problem, self.x)
        twin._f, twin._grad, twin._c, twin._jac = self._f, self._grad, self._c, self._jac
        twin._grad_error, twin._jac_error = self._grad_error, self._jac_error
        return twin

    def same_as(self, other: Point) -> bool:
        """Whether values and derivatives are the same, bit by bit; of matrices that are no arrays it is not known."""
        pairs = [(self.c, other.c), (self.grad, other.grad)]
        pairs += [(self.jac, other.jac)] if self.problem.m else []
        errors = self._grad_error is other._grad_error and self._jac_error is other._jac_error
        same = all(isinstance(a, np.ndarray) and not some(a != b) for a, b in pairs)
        return same and errors and self.f == other.f

    def filled(self, fill: Callable[[Point], None]) -> bool:
        """Whether `fill` found the values defined here."""
        try:
            fill(self)
        except EvaluationError:
            return False
        except Exception as error:
            note_point(error, self.x)
            raise
        return True

    @property
    def f(self) -> float:
        """f(x), NaN where not defined."""
        if self._f is None and not self.filled(self.problem.fill_f):
            self._f = math.nan
        assert self._f is not None
        return self._f

    @property
    def grad(self) -> Vector:
        """The gradient of f, NaN where not defined."""
        if self._grad is None and not self.filled(self.problem.fill_grad):
            self._grad = np.full(self.problem.n, math.nan)
        assert self._grad is not None
        return self._grad

    @property
    def c(self) -> Vector:
        """c(x), NaN where not defined."""
        if self._c is None and not self.filled(self.problem.fill_c):
            self._c = np.full(self.problem.m, math.nan)
        assert self._c is not None
        return self._c

    @property
    def jac(self) -> Jacobian:
        """The Jacobian of c, NaN where not defined."""
        if self._jac is None and not self.filled(self.problem.fill_jac):
            self._jac = np.full((self.problem.m, self.problem.n), math.nan)
        jac: Jacobian = self._jac
        return jac

    def vjp(self, w: Vector) -> Vector:
        """J(x)'w."""
        return self.problem.vjp(self, w)

    def jvp(self, v: Vector) -> Vector:
        """J(x) v."""
        return product(self.jac, v) if self.problem.m else np.zeros(0)

    def hessp(self, w: Vector, v: Vector) -> Vector:
        """Hess(f + w'c)(x) v."""
        try:
            return self.problem.hessp(self.x, w, v)
        except Exception as error:
            note_point(error, self.x)
            raise

    def hess(self, w: Vector) -> Any:
        """Hess(f + w'c)(x)."""
        try:
            return self.problem.hess(self.x, w)
        except Exception as error:
            note_point(error, self.x)
            raise

    def known_curvature(self) -> Any:
        """See `AbstractProblem.known_curvature`."""
        return self.problem.known_curvature(self.x)

    def lagrangian_gradient(self, w: Vector) -> Vector:
        """grad f(x) + J(x)'w."""
        return self.grad + self.problem.vjp(self, w) if w.size else self.grad

    def derivative_error(self, w: Vector) -> float:
        """An estimate of the error of grad f + J'w by finite differences; 0 where there is none, or no estimate."""
        if self._grad_error is None and self._jac_error is None:
            return 0.0
        return norm(self.gradient_errors(w))

    @property
    def has_errors(self) -> bool:
        """Whether errors of values or derivatives are known here."""
        return self.problem.coarse or self._grad_error is not None or self._jac_error is not None

    def gradient_errors(self, w: Vector) -> Vector:
        """The same, entry by entry."""
        error = self._grad_error if self._grad_error is not None else np.zeros(self.problem.n)
        if self._jac_error is not None and w.size:
            with np.errstate(invalid="ignore"):
                error = error + transposed_product(abs(self._jac_error), np.abs(w))
        return error

    def value_error(self, w: Vector) -> float:
        """What the errors of c may do to the violation and the complementarity; 0 in double precision."""
        problem = self.problem
        if not problem.coarse:
            return 0.0
        noise = problem.precision.c
        slack = np.minimum(self.c - problem.cl, problem.cu - self.c)
        counts = (problem.cl == problem.cu) | (w != 0.0) | (slack <= noise)
        return norm(noise[counts])

    def accuracy(self, w: Vector) -> float:
        """What errors of values and derivatives beyond those of double precision make of R; 0 where there are none."""
        problem = self.problem
        if not problem.coarse:
            return 0.0 if problem.differenced else self.derivative_error(w)
        _ = self.grad, self.jac if problem.m else None  # their errors are known only after them
        return self.derivative_error(w) + self.value_error(w)

    def forget_derivatives(self) -> None:
        """Keep the values only."""
        self._grad = self._jac = self._grad_error = self._jac_error = self.measured = self.typical = None
        if self.source is not None:
            self.source.forget_derivatives()

    def give_up(self) -> None:
        """Take what is not known yet as undefined: nothing is evaluated here any more."""
        self.measured = None
        n, m = self.problem.n, self.problem.m
        self._f = math.nan if self._f is None else self._f
        self._grad = np.full(n, math.nan) if self._grad is None else self._grad
        self._c = np.full(m, math.nan) if self._c is None else self._c
        self._jac = np.full((m, n), math.nan) if self._jac is None else self._jac
        if self.source is not None:
            self.source.give_up()

    def finite(self) -> bool:
        """Whether f and c are finite here."""
        return math.isfinite(self.f) and finite(self.c)
