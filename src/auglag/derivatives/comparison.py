"""A Jacobian against finite differences along directions: from two evaluations for all rows to the wrong entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from auglag._typing import Matrix, Vector
from auglag.derivatives.box import Box
from auglag.derivatives.differences import jacobian
from auglag.derivatives.tuning import EPS, TUNING
from auglag.errors import DerivativeError, EvaluationError, note_point

Operator: TypeAlias = Any  # ndarray, csr_array or LinearOperator of shape (m, n)


@final
@dataclass(frozen=True, slots=True)
class Sweep:
    """The errors of J d along one direction for falling step sizes, all of shape (steps, m)."""

    slope: Matrix
    error: Matrix  # slope - J d; central where both sides are defined, else of the one that is
    gap: Matrix  # between the forward and the backward slope
    rounding: Matrix  # what rounding of the values of fun can do to the error

    def verdict(self, norm: Vector, tolerance: float) -> tuple[NDArray[np.bool_], Vector]:
        """Which rows are wrong for sure, and their errors; `norm` is that of the terms of each row of J d."""
        size = np.abs(self.error)
        tolerated = tolerance * np.fmax(norm, np.abs(self.slope))
        # A function that moves in jumps (single precision, rounded output) stands still for small steps.
        still = (self.slope == 0) & (self.gap <= TUNING.rounding_sweep * EPS * size)
        still &= ~still.all(axis=0)
        # One agreement among the larger steps may be an accident of truncation, two are not.
        agrees = size <= tolerated
        twice = (agrees[1:] & agrees[:-1]).any(axis=0)
        sure = np.isfinite(size) & ~still & (size > tolerated) & (size > self.rounding) & (size > self.gap)
        wrong, best, error = np.zeros(norm.shape, dtype=np.bool_), np.full(norm.shape, np.inf), np.zeros(norm.shape)
        for k in range(len(size) - 2):
            window = self.error[k : k + 3]
            spread = np.ptp(window, axis=0) / size[k : k + 3].min(axis=0)
            found = sure[k : k + 3].all(axis=0) & ~twice & ~agrees[k:].any(axis=0) & (spread <= TUNING.steady)
            better = found & (spread < best)
            wrong |= found
            best, error = np.where(better, spread, best), np.where(better, window[1], error)
        return wrong, error


@final
@dataclass(frozen=True, slots=True)
class Wrong:
    """A Jacobian with rows that are wrong along a direction for sure."""

    jac: Operator
    direction: Vector
    rows: NDArray[np.intp]
    error: Vector  #: of J d, relative to the norm of its terms, for every row

    def worst_first(self) -> list[int]:
        """The rows, by falling error."""
        order: list[int] = self.rows[np.argsort(-self.error[self.rows])].tolist()
        return order


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """The check of jac against fun; fun: x -> (m,), jac: x -> (m, n)."""

    fun: Callable[[Vector], Any]
    jac: Callable[[Vector], Any]
    box: Box
    rng: np.random.Generator | None  #: None: the same directions every time
    noise: Vector | float = 0.0  #: errors of the values of fun, beyond those of double precision
    tolerance: float = TUNING.tolerance  #: the error of J d that is tolerated, relative to the norm of its terms

    def run(self, name: str, what: str, sentence: str) -> None:
        """Carry out the steps that the docstring of `checking` lists; raise on an error found for sure."""
        wrong = self.wrong_rows(name, what)
        if wrong is None or (found := self._worst(wrong.jac, wrong.rows, wrong.direction)) is None:
            return
        i, j, given, estimate = found
        relative = abs(given - estimate) / max(abs(given), abs(estimate))
        raise DerivativeError(
            f"{name}: {sentence.format(i=i, j=j, given=given)} give {estimate:.6g} at x0 "
            f"(relative error {relative:.2g}); pass check_derivatives=False if you are sure"
        )

    def wrong_rows(self, name: str, what: str) -> Wrong | None:
        """The first three steps: the rows that are wrong along a direction, here and nearby; None if there are none."""
        box = self.box
        if not box.scale.any():
            return None
        jac = self._operator(box, name, what)
        if jac is None:
            return None
        direction, norm = self.direction(jac, box)
        if self.agrees(jac, direction, norm, f"{name}: {what}"):
            return None
        wrong, error = self._sweep(jac, box, direction).verdict(norm, self.tolerance)
        if wrong.any():
            wrong &= self._wrong_nearby(direction, name, what)
        rows = np.flatnonzero(wrong)
        return Wrong(jac, direction, rows, np.abs(error) / norm) if rows.size else None

    def missing(self, wrong: Wrong, i: int) -> list[tuple[int, float]]:
        """(j, slope) of columns that row i of a sparse Jacobian does not store, but along which the row changes.

        They are searched for by halving. Only some are named, and only so many evaluations are spent on it.
        """
        jac, box = wrong.jac, self.box
        found: list[tuple[int, float]] = []
        movable = box.scale > 0.0
        movable[jac.indices[jac.indptr[i] : jac.indptr[i + 1]]] = False
        parts, left = [np.flatnonzero(movable)], TUNING.suspects * (2 + 2 * int(np.log2(box.x.size)))
        while parts and left and len(found) < TUNING.missing_named:
            left -= 1
            columns, part = parts.pop(), np.zeros(box.x.size)
            part[columns] = wrong.direction[columns]
            if not columns.size:
                continue
            error, rounding, _ = self._quick(jac, part)
            if not abs(error[i]) > rounding[i]:
                continue
            if columns.size > 1:
                parts += np.array_split(columns, 2)
                continue
            sure, slopes = self._sweep(jac, box, part).verdict(np.abs(jac @ part), self.tolerance)
            if sure[i]:
                found.append((int(columns[0]), float(slopes[i] / part[columns[0]])))
        return sorted(found)

    def _value(self, x: Vector, m: int) -> Vector:
        """fun(x), NaN where it is not defined."""
        try:
            return np.array(self.fun(x.copy()), dtype=np.float64).reshape(-1)
        except EvaluationError:
            return np.full(m, np.nan)
        except Exception as error:
            note_point(error, x)
            raise

    def _operator(self, box: Box, name: str, what: str) -> Operator | None:
        try:
            jac: Any = self.jac(box.x.copy())
        except EvaluationError:
            return None
        except Exception as error:
            note_point(error, box.x)
            raise
        if isinstance(jac, LinearOperator):
            matrix: Operator = jac
        elif sparse.issparse(jac):
            matrix = sparse.csr_array(jac, dtype=np.float64)
        else:
            matrix = np.atleast_2d(np.array(jac, dtype=np.float64))
        if len(matrix.shape) != 2 or matrix.shape[1] != box.x.size:
            raise DerivativeError(f"{name}: {what} must have {box.x.size} columns, got shape {np.shape(jac)}")
        return matrix

    def direction(self, jac: Operator, box: Box) -> tuple[Vector, Vector]:
        """A direction in which no row of J d is small by cancellation, and the norm of the terms of each row."""
        candidates = box.directions(TUNING.directions, self.rng)
        products, norms = _terms(jac, candidates)
        k = int(np.fmin.reduce(products / norms, axis=0, initial=1.0).argmax())  # a row without terms tells nothing
        return candidates[:, k], norms[:, k]

    def agrees(self, jac: Operator, direction: Vector, norm: Vector, subject: str) -> bool:
        """The first test; true if all rows agree."""
        error, rounding, m = self._quick(jac, direction)
        if m != norm.size:
            transposed = " (is it transposed?)" if jac.shape[1] == m else ""
            raise DerivativeError(f"{subject} must have {m} rows, got shape {jac.shape}{transposed}")
        return bool(np.count_nonzero(np.abs(error) <= self.tolerance * norm + rounding) == m)

    def _quick(self, jac: Operator, direction: Vector) -> tuple[Vector, Vector, int]:
        """The error of J d from two evaluations, what rounding may do to it, and the number of values of fun."""
        box, h, m = self.box, TUNING.central_step, int(jac.shape[0])
        a, b, distance = box.move(direction, h), box.move(direction, -h), 2 * h
        if box.near is not None and box.room_both_ways(direction) < h:
            distance = TUNING.one_sided_step
            a, b = box.move(direction, distance), box.x
        fa, fb = self._value(a, m), self._value(b, m)
        if fa.size != m or fb.size != m:
            return np.zeros(m), np.zeros(m), fa.size if fa.size != m else fb.size
        error = (fa - fb) / distance - jac @ ((a - b) / distance)
        rounding = EPS * np.maximum(np.abs(fa), np.abs(fb)) + self.noise
        return error, TUNING.rounding_quick * rounding / distance, m

    def _sweep(self, jac: Operator, box: Box, direction: Vector) -> Sweep:
        """Forward and backward differences for all step sizes that fit."""
        m = int(jac.shape[0])
        room = box.room_both_ways(direction)
        both = room >= TUNING.two_sided_room * TUNING.smallest_step
        largest = min(TUNING.largest_step, room if both else box.room(direction))
        h = largest * 10.0 ** -np.arange(1 + np.floor(np.log10(largest / TUNING.smallest_step) + 1e-6))[:, None]
        f0 = self._value(box.x, m)
        sides = []
        for sign in (1, -1) if both else (1,):
            points = [box.move(direction, sign * t) for t in h[:, 0].tolist()]
            values = np.stack([self._value(point, m) for point in points])
            moved = (np.stack(points, axis=1) - box.x[:, None]) / (sign * h[:, 0])
            sides.append(((values - f0) / (sign * h), (jac @ moved).T, values))
        slopes, products, values = (np.stack(part) for part in zip(*sides, strict=True))
        bad = ~np.isfinite(slopes)
        slopes = np.where(bad.all(axis=0), np.nan, np.where(bad, slopes[::-1], slopes))
        products = np.where(bad, products[::-1], products)
        size = np.max(np.abs(values), axis=0, initial=0.0, where=np.isfinite(values))
        rounding = TUNING.rounding_sweep * (EPS * np.maximum(size, np.abs(f0)) + self.noise) / h
        error = slopes - products
        return Sweep(slopes.mean(axis=0), error.mean(axis=0), np.abs(error[0] - error[-1]), rounding)

    def _wrong_nearby(self, direction: Vector, name: str, what: str) -> NDArray[np.bool_]:
        """The rows that are wrong, in the same direction, at the farthest of some points where fun is defined."""
        for distance in TUNING.nearby:
            x = self.box.move(direction, distance)
            box = Box.around(x, self.box.lower, self.box.upper, self.box.scale)
            jac = self._operator(box, name, what)
            if jac is not None and np.isfinite(self._value(x, jac.shape[0])).all():
                return self._sweep(jac, box, direction).verdict(
                    _terms(jac, direction[:, None])[1][:, 0], self.tolerance
                )[0]
        return np.ones(1, dtype=np.bool_)

    def _worst(self, jac: Operator, rows: NDArray[np.intp], direction: Vector) -> tuple[int, int, float, float] | None:
        """(i, j, given entry, estimate) for the entry with the largest error among `rows` that is wrong for sure."""
        box = self.box
        columns = self._suspects(jac, rows, direction)
        given, estimate = _columns(jac, columns)[rows], self._estimate(jac.shape[0], columns)[rows]
        error = np.abs(estimate - given) * box.scale[columns]
        terms = np.maximum(np.abs(estimate), np.abs(given)) * box.scale[columns]
        rank = np.nan_to_num(error / np.linalg.norm(terms, axis=1, keepdims=True), nan=0.0)
        for k in np.argsort(-rank, axis=None)[: TUNING.suspects].tolist():
            row, column = divmod(k, columns.size)
            i, j = int(rows[row]), int(columns[column])
            axis = np.zeros(box.x.size)
            axis[j] = box.scale[j] if box.upper[j] - box.x[j] >= box.x[j] - box.lower[j] else -box.scale[j]
            wrong, errors = self._sweep(jac, box, axis).verdict(np.abs(jac @ axis), self.tolerance)
            if wrong[i]:
                entry = float(given[row, column])
                true = entry + float(errors[i] / axis[j])
                return i, j, entry, true if abs(true) > TUNING.shown_as_zero * abs(entry) else 0.0
        return None

    def _suspects(self, jac: Operator, rows: NDArray[np.intp], direction: Vector) -> NDArray[np.intp]:
        """The variables to look at one by one; of very many, those of the half with the larger error, repeatedly."""
        columns = np.flatnonzero(self.box.scale)
        while columns.size > TUNING.many_variables:
            halves, errors = np.array_split(columns, 2), []
            for half in halves:
                part = np.zeros(direction.size)
                part[half] = direction[half]
                error = np.abs(self._quick(jac, part)[0][rows])
                errors.append(np.max(error, initial=0.0, where=np.isfinite(error)))
            columns = halves[int(np.argmax(errors))]
        return columns

    def _estimate(self, m: int, columns: NDArray[np.intp]) -> Matrix:
        """The columns of the Jacobian by finite differences."""
        box = self.box

        def part(z: Vector) -> Vector:
            point = box.x.copy()
            point[columns] = z
            return self._value(point, m)

        lower, upper = box.lower[columns], box.upper[columns]
        estimate = jacobian(part, box.x[columns], self._value(box.x, m), lower=lower, upper=upper)
        return np.asarray(estimate, dtype=np.float64)


def _terms(jac: Operator, directions: Matrix) -> tuple[Matrix, Matrix]:
    """|J d| and the norms of the terms of its rows, for each column d of `directions`."""
    products = np.abs(np.asarray(jac @ directions))
    if isinstance(jac, LinearOperator):  # its entries are not at hand; the rows' norms can be estimated
        return products, np.broadcast_to(np.sqrt(np.mean(products**2, axis=1, keepdims=True)), products.shape)
    return products, np.sqrt(np.asarray((jac * jac) @ (directions * directions)))


def _columns(jac: Operator, columns: NDArray[np.intp]) -> Matrix:
    if isinstance(jac, LinearOperator):
        return np.stack([jac @ (np.arange(jac.shape[1]) == j).astype(np.float64) for j in columns], axis=1)
    part = jac[:, columns]
    return np.asarray(part if isinstance(part, np.ndarray) else part.toarray())
