"""Element and group functions evaluated in Python: all of a type at once, one by one, or by S2MPJ itself."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.problems.cutest.language import Untranslatable
from auglag.problems.cutest.python_source import Kernel, scalar_kernel, vector_kernel
from auglag.problems.cutest.structure import ElementType, GroupType, Structure
from auglag.problems.cutest.translation import translate

#: Up to this many elements of a type, one Python call each is faster than NumPy calls for all.
FEW = 6
#: What Python raises where NumPy gives NaN or an infinity: 1.0/0.0, log(-1.0), (-1.0)**0.5, a name without a value.
_UNDEFINED = (ArithmeticError, ValueError, TypeError, NameError)


@final
class ElementKernel:
    """Fills the places of one element type."""

    def __init__(self, raw: Any, kind: ElementType, scalar: Kernel | None, vector: Kernel | None) -> None:
        self.name = kind.name
        self._scalar, self._vector = scalar, vector
        self._original, self._raw, self._kind = getattr(raw, kind.name), raw, kind
        self._rows = np.ascontiguousarray(kind.variables.T)
        self._columns = [_one_if_equal(column) for column in kind.parameters.T]
        numbers = zip(kind.elements, kind.variables.tolist(), kind.parameters.tolist(), strict=True)
        self._elements = list(numbers)
        self._value = slice(kind.value_at, kind.value_at + kind.count)
        self._gradient = slice(kind.gradient_at, kind.gradient_at + kind.count * kind.size)
        self._hessian = slice(kind.hessian_at, kind.hessian_at + kind.count * kind.size**2)

    def fill(self, level: int, x: Vector, fe: Vector, ge: Vector, he: Vector) -> None:
        """Write values, gradients (level 2 and 3) and Hessians (level 3) of the elements at x."""
        if self._vector is None:
            self._one_by_one(level, x, fe, ge, he)
            return
        found = self._vector(level, list(x[self._rows]), self._columns)
        fe[self._value] = found[0]
        shape = (self._kind.count, -1)
        if level > 1:
            gradients = ge[self._gradient].reshape(shape).T
            for j, column in enumerate(found[1]):
                gradients[j] = column
        if level > 2:
            hessians = he[self._hessian].reshape(shape).T
            for j, column in enumerate(found[2]):
                hessians[j] = column

    def _one_by_one(self, level: int, x: Vector, fe: Vector, ge: Vector, he: Vector) -> None:
        values: list[float] = []
        gradients: list[float] = []
        hessians: list[float] = []
        numbers, kernel = x.tolist(), self._scalar
        for element, variables, parameters in self._elements:
            try:
                if kernel is None:
                    raise ValueError
                found = kernel(level, [numbers[v] for v in variables], parameters)
                value = float(found[0])
                if level > 1 and complex in map(type, found[1]):
                    raise ValueError
            except _UNDEFINED:
                value, *found_there = self._by_s2mpj(level, x[variables], element)
                found = (value, *found_there)
            values.append(value)
            if level > 1:
                gradients += found[1]
            if level > 2:
                hessians += found[2]
        fe[self._value] = values
        if level > 1:
            ge[self._gradient] = gradients
        if level > 2:
            he[self._hessian] = hessians

    def _by_s2mpj(self, level: int, variables: Vector, element: int) -> tuple[Any, ...]:
        """What S2MPJ's own function returns, flat; NaN where it raises."""
        size = self._kind.size
        try:
            with np.errstate(all="ignore"):
                found = self._original(self._raw, level, variables.reshape(-1, 1), element)
            parts = [np.asarray(part, dtype=float).ravel().tolist() for part in (found if level > 1 else (found,))]
            return (parts[0][0], *parts[1:])
        except _UNDEFINED:
            return (np.nan, [np.nan] * size, [np.nan] * size**2)[:level]


@final
class GroupKernel:
    """Fills the rows of one group type."""

    def __init__(
        self, raw: Any, structure: Structure, kind: GroupType, scalar: Kernel | None, vector: Kernel | None
    ) -> None:
        self.name = kind.name
        self._scalar, self._vector = scalar, vector
        self._original, self._raw, self._rows = getattr(raw, kind.name), raw, kind.rows
        self._columns = [_one_if_equal(column) for column in kind.parameters.T]
        self._groups = [(structure.groups[r], p) for r, p in zip(kind.rows, kind.parameters.tolist(), strict=True)]

    def fill(self, level: int, inner: Vector, fa: Vector, ga: Vector, ha: Vector) -> None:
        """Write values and derivatives of the group functions at the arguments `inner`."""
        rows = self._rows
        if self._vector is not None:
            found = self._vector(level, inner[rows], self._columns)
            for target, part in zip((fa, ga, ha)[:level], found, strict=True):
                target[rows] = part
            return
        parts: tuple[list[float], ...] = ([], [], [])
        for argument, (group, parameters) in zip(inner[rows].tolist(), self._groups, strict=True):
            try:
                if self._scalar is None:
                    raise ValueError
                found = tuple(float(part) for part in self._scalar(level, argument, parameters))
            except _UNDEFINED:
                found = self._by_s2mpj(level, argument, group)
            for part, value in zip(parts[:level], found, strict=True):
                part.append(value)
        for target, part in zip((fa, ga, ha)[:level], parts[:level], strict=True):
            target[rows] = part

    def _by_s2mpj(self, level: int, argument: float, group: int) -> tuple[float, ...]:
        try:
            with np.errstate(all="ignore"):
                found = self._original(self._raw, level, np.float64(argument), group)
            return tuple(float(np.asarray(part).item()) for part in (found if level > 1 else (found,)))
        except _UNDEFINED:
            return (np.nan,) * level


def element_kernel(raw: Any, kind: ElementType, *, trial: Vector | None = None) -> ElementKernel:
    """The fastest kernel that can be had; with `trial`, a point x, all elements at once are tried there."""
    scalar, vector = _kernels(raw, kind.name, kind.size, kind.count if trial is not None else 0)
    made = ElementKernel(raw, kind, scalar, vector)
    if vector is not None and trial is not None:
        fe, ge, he = (
            np.zeros(place + kind.count * kind.size**power)
            for power, place in enumerate((kind.value_at, kind.gradient_at, kind.hessian_at))
        )
        try:
            made.fill(3, trial, fe, ge, he)
        except (*_UNDEFINED, IndexError):  # operations on Python numbers that NumPy would not mind
            return ElementKernel(raw, kind, scalar, None)
    return made


def group_kernel(raw: Any, structure: Structure, kind: GroupType, *, trial: bool = False) -> GroupKernel:
    """The fastest kernel that can be had."""
    scalar, vector = _kernels(raw, kind.name, 0, kind.rows.size if trial else 0)
    made = GroupKernel(raw, structure, kind, scalar, vector)
    if vector is not None:
        fa, ga, ha = np.zeros((3, structure.rows))
        try:
            made.fill(3, np.full(structure.rows, 0.5), fa, ga, ha)
        except (*_UNDEFINED, IndexError):
            return GroupKernel(raw, structure, kind, scalar, None)
    return made


def _kernels(raw: Any, name: str, inputs: int, count: int) -> tuple[Kernel | None, Kernel | None]:
    try:
        function = translate(raw, name, inputs)
        scalar = scalar_kernel(function)
    except Untranslatable:
        return None, None
    if count <= FEW:
        return scalar, None
    try:
        return scalar, vector_kernel(function)
    except Untranslatable:
        return scalar, None


def _one_if_equal(column: Vector) -> Any:
    """A parameter that is the same for all elements as a number, which is cheaper."""
    return float(column[0]) if column.size and (column == column[0]).all() else np.ascontiguousarray(column)
