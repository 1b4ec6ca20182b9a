"""A model from a `.nl` file as a problem of auglag, with exact first and second derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.problems.base import AbstractProblem, LinearRows, Point
from auglag.problems.jacobians import FixedPattern, vector
from auglag.problems.nl.expressions import Form
from auglag.problems.nl.gradients import FillError, SparseGradients
from auglag.problems.nl.reader import Model, read
from auglag.problems.nl.second_order import KEPT, LARGEST, SecondOrder
from auglag.problems.nl.source import NlError, NlInfeasible
from auglag.problems.nl.tape import Tape

#: Names in `.col` and `.row` files beside a model are read up to this size.
LARGEST_NAMES = 100_000_000

#: Names of rows and of variables.
Names: TypeAlias = tuple[tuple[str, ...] | None, tuple[str, ...] | None]


@final
@dataclass(slots=True, eq=False)
class _Evaluated:
    """What is known at one x."""

    x: Vector
    v: Vector
    p: Vector | None = None
    rows: Vector | None = None
    q: Vector | None = None
    arguments: Any = None
    weighted: tuple[bytes, Vector] | None = None
    hessian: tuple[Vector, Any] | None = None


@final
class NlProblem(AbstractProblem):
    """The problem in a `.nl` file. A maximisation is the minimisation of -f, and `maximise` says so.

    Rows and variables keep the order of the file. Integer variables are relaxed; `integer_variables` lists them. The
    Jacobian and the Hessian of the Lagrangian are csr_arrays whose patterns never change.
    """

    repeatable = True

    def __init__(self, model: Model, *, objective: int | None = 0, name: str = "", names: Names = (None, None)) -> None:
        _require_possible(model, name)
        self.name, self.header = name, model.header
        self.maximise = objective is not None and model.maximise[objective]
        self.objective = objective  #: which of the file's objectives, from 0; None: none
        self.integer_variables = np.array(model.header.integer_variables(), dtype=np.intp)
        self.row_names, self.variable_names = names
        super().__init__(model.x0, lower=model.lower, upper=model.upper, cl=model.cl, cu=model.cu)
        self.y0 = model.y0 if self.maximise else -model.y0  #: the file's multipliers, L = f + y'c
        self._linear = _linear_rows(model)
        self._tape = Tape(*_with_roots(model, objective))
        try:
            self._first = SparseGradients(self._tape, np.zeros(0, dtype=np.intp), self._tape.roots)
        except FillError as error:
            raise NlError(f"{name}: {error}") from None
        self._second: SecondOrder | FillError | None = None
        self._lay_out()

    def _lay_out(self) -> None:
        """Where the Jacobian and the gradient lie among the entries of the gradients of the roots, which come last."""
        start, column = self._first.start, self._first.column
        first = start.size - 2 - self.m
        self._jac_part = slice(start[first], start[first + self.m])
        self._jac_column = column[self._jac_part]
        self._jac_row = np.repeat(np.arange(self.m), np.diff(start[first : first + self.m + 1]))
        indptr = (start[first : first + self.m + 1] - start[first]).astype(np.int32)
        self._jac_pattern = FixedPattern(self._jac_column.astype(np.int32), indptr, (self.m, self.n))
        self._grad_part = slice(start[-2], start[-1])
        self._grad_column = column[self._grad_part]

    def row_name(self, i: int) -> str:
        """The modeller's name of row i where a .row file tells it."""
        return self.row_names[i] if self.row_names is not None else f"c[{i}]"

    def variable_name(self, j: int) -> str:
        """The modeller's name of variable j where a .col file tells it."""
        return self.variable_names[j] if self.variable_names is not None else f"x[{j}]"

    def linear(self) -> LinearRows | None:
        """The rows whose nonlinear part is a number."""
        return self._linear

    # --------------------------------------------------------------------------------------------------------- values

    def f(self, x: Vector) -> float:
        """The objective to minimise; 0 where the file has none."""
        self.counts.nfev += 1
        return float(self._at(x).v[self._tape.roots[-1]])

    def c(self, x: Vector) -> Vector:
        self.counts.constr_nfev += 1
        return np.asarray(self._at(x).v[self._tape.roots[:-1]])

    def grad(self, x: Vector) -> Vector:
        self.counts.njev += 1
        gradient = np.zeros(self.n)
        gradient[self._grad_column] = self._rows(x)[self._grad_part]
        return gradient

    def jac(self, x: Vector) -> Any:
        self.counts.constr_njev += 1
        return self._jac_pattern.matrix(self._rows(x)[self._jac_part].copy())

    def vjp(self, point: Point, w: Vector) -> Vector:
        if not self.m:
            return np.zeros(self.n)
        entries: Any = point.jac
        return np.asarray(np.bincount(self._jac_column, entries.data * w[self._jac_row], self.n), dtype=float)

    # ---------------------------------------------------------------------------------------------- second derivatives

    @property
    def has_hessp(self) -> bool:
        """True, unless gradients of arguments inside expressions would be too many to keep."""
        if self._second is None:
            try:
                self._second = SecondOrder(self._tape)
            except FillError as error:
                self._second = error
        return isinstance(self._second, SecondOrder)

    @property
    def has_hess(self) -> bool:
        """Whether `hess` is within reach: a dense Hessian of many variables is not, though its products are."""
        return self.has_hessp and self._second_order().products <= LARGEST

    def hessp(self, x: Vector, y: Vector, v: Vector) -> Vector:
        second, at, weights = self._weighted(x, y)
        v = vector(v, self.n, "v")
        with np.errstate(all="ignore"):
            if second.products <= KEPT:  # further products at this point cost next to nothing then
                return np.asarray(self._assembled(second, at, weights) @ v)
            return second.product(at.arguments, weights, v)

    def hess(self, x: Vector, y: Vector) -> Any:
        second, at, weights = self._weighted(x, y)
        with np.errstate(all="ignore"):
            kept = self._assembled(second, at, weights)
        return second.pattern.matrix(kept.data.copy())

    def _assembled(self, second: SecondOrder, at: _Evaluated, weights: Vector) -> Any:
        if at.hessian is None or at.hessian[0] is not weights:
            at.hessian = (weights, second.assemble(at.arguments, weights))
        return at.hessian[1]

    def _second_order(self) -> SecondOrder:
        if not self.has_hessp:
            raise InputError(f"{self.name} has no second derivatives: {self._second}")
        assert isinstance(self._second, SecondOrder)
        return self._second

    def _weighted(self, x: Vector, y: Vector) -> tuple[SecondOrder, _Evaluated, Vector]:
        """The second-order part at (x, y), kept until another point is asked for."""
        second, at = self._second_order(), self._at(x)
        self.count_hessian()
        y = vector(y, self.m, "y")
        with np.errstate(all="ignore"):
            if at.p is None:
                at.p = self._tape.partials(at.v)
            if at.q is None:
                at.q, at.arguments = self._tape.second_partials(at.v), second.matrix(at.p)
            key = y.tobytes()
            if at.weighted is None or at.weighted[0] != key:
                at.weighted = (key, second.weights(at.p, at.q, np.append(y, 1.0)))
        return second, at, at.weighted[1]

    # --------------------------------------------------------------------------------------------------------- caching

    def _at(self, x: Vector) -> _Evaluated:
        x, kept = vector(x, self.n, "x"), self.workspace.kept
        last: _Evaluated | None = kept.get("last")
        if last is None or not np.array_equal(x, last.x):
            with np.errstate(all="ignore"):
                last = kept["last"] = _Evaluated(x.copy(), self._tape.values(x))
        return last

    def _rows(self, x: Vector) -> Vector:
        at = self._at(x)
        if at.rows is None:
            with np.errstate(all="ignore"):
                if at.p is None:
                    at.p = self._tape.partials(at.v)
                at.rows = self._first.rows(at.p)
        return at.rows


def load(path: str | Path, *, objective: int | None = 0) -> NlProblem:
    """The problem in a `.nl` file, text or binary; `objective` counts from 0, and None asks for a feasible point only.

    Parameters
    ----------
    path : path
        The file.
    objective : int
        Which of the objectives, from 0; None asks for a feasible point only.

    Examples
    --------
    A file as a modelling language writes it: minimise (x - 1)^2, one variable, no rows.

    >>> import auglag, pathlib, tempfile
    >>> from auglag.problems import nl
    >>> lines = ["g3 0 1 0", " 1 0 1 0 0", " 0 1", " 0 0", " 0 1 0"]
    >>> lines += [" 0 0 0 1", " 0 0 0 0 0", " 0 1", " 0 0", " 0 0 0 0 0"]
    >>> lines += ["O0 0", "o5", "o1", "v0", "n1", "n2", "b", "3", "k0", "G0 1", "0 0", ""]
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.nl")
    >>> _ = path.write_text(chr(10).join(lines))
    >>> auglag.minimize(nl.load(path)).x.round(6).tolist()
    [1.0]

    Raises `NlError` for a file that cannot be read, and `NlInfeasible` where two sides of a bound exclude each other.
    A file without objectives has f = 0. Names come from the `.row` and `.col` files beside it, where there are some.
    """
    path = Path(path)
    model = read(path)
    count = model.header.objectives
    if objective is not None and not 0 <= objective < max(count, 1):
        raise InputError(f"objective must be None or from 0 to {max(count, 1) - 1}, got {objective}")
    names = _names(path.with_suffix(".row"), model.header.constraints), _names(path.with_suffix(".col"), model.x0.size)
    return NlProblem(model, objective=objective if count else None, name=path.stem, names=names)


def _with_roots(model: Model, objective: int | None) -> tuple[Any, list[int]]:
    """The graph with a linear node for each row and, last, one for the objective to minimise."""
    builder = model.builder
    rows = list(zip(model.rows, model.row_entries, strict=True))
    if objective is None:
        rows.append((0.0, ([], [])))
    else:
        value, (columns, coefficients) = model.objectives[objective], model.objective_entries[objective]
        if model.maximise[objective]:
            value, coefficients = builder.scaled(value, -1.0), [-c for c in coefficients]
        rows.append((value, (columns, coefficients)))
    roots = []
    for value, (columns, coefficients) in rows:
        kept = [(j, a) for j, a in zip(columns, coefficients, strict=True) if a != 0.0]
        linear = Form([j for j, _ in kept], [a for _, a in kept])
        root = builder.plus(linear, value)
        assert isinstance(root, Form)
        roots.append(builder.graph.linear(root))
    return builder.graph, roots


def _linear_rows(model: Model) -> LinearRows | None:
    """The rows that consist of linear entries and a number."""
    found = [(i, value) for i, value in enumerate(model.rows) if isinstance(value, float)]
    if not found:
        return None
    entries = [model.row_entries[i] for i, _ in found]
    starts = np.concatenate([[0], np.cumsum([len(columns) for columns, _ in entries])])
    columns = np.array([j for columns, _ in entries for j in columns], dtype=np.intp)
    data = np.array([a for _, coefficients in entries for a in coefficients], dtype=float)
    matrix = sparse.csr_array((data, columns, starts), shape=(len(found), model.x0.size))
    return LinearRows(np.array([i for i, _ in found], dtype=np.intp), matrix, np.array([value for _, value in found]))


def _require_possible(model: Model, name: str) -> None:
    for lower, upper, what in ((model.lower, model.upper, "variable"), (model.cl, model.cu, "constraint")):
        crossed = np.flatnonzero(lower > upper)
        if crossed.size:
            i = crossed[0]
            raise NlInfeasible(
                f"{name}: the lower side of {what} {i} must not exceed the upper, got {lower[i]} > {upper[i]}"
            )


def _names(path: Path, count: int) -> tuple[str, ...] | None:
    """The lines of a file of names, if it has enough of them."""
    try:
        if path.stat().st_size > LARGEST_NAMES:
            return None
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError):
        return None
    return tuple(lines[:count]) if len(lines) >= count else None
