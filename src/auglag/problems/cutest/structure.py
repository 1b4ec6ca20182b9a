"""A problem in S2MPJ's group partially separable form, as arrays of fixed shape.

Row r (an objective group or a constraint) is  F_r( a_r'x - b_r + sum_e w_re phi_e(x_e) ) / s_r  with a group function
F_r, element functions phi_e of few variables x_e, weights w and a scale s. The objective is the sum of its rows, plus
x'Hx/2 where the problem has an H. Rows of the objective come first, then the constraints in S2MPJ's order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from auglag._typing import Matrix, Vector

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ElementType:
    """All used elements that share a function; element i has the variables `variables[i]`.

    Values of elements lie in one array of the whole problem from `value_at` on, gradients (count x size, row by row)
    from `gradient_at` on, Hessians (count x size x size) from `hessian_at` on.
    """

    name: str
    elements: tuple[int, ...]  #: S2MPJ's numbers
    variables: Ints
    parameters: Matrix
    value_at: int
    gradient_at: int
    hessian_at: int

    @property
    def count(self) -> int:
        """How many elements there are."""
        return int(self.variables.shape[0])

    @property
    def size(self) -> int:
        """How many variables each has."""
        return int(self.variables.shape[1])


@dataclass(frozen=True, slots=True)
class GroupType:
    """All rows that share a group function other than the identity."""

    name: str
    rows: Ints
    parameters: Matrix


@dataclass(frozen=True, slots=True)
class Structure:
    """The arrays of a problem; shapes never change after construction, and nothing writes to them."""

    n: int
    objective_rows: int
    m: int
    groups: tuple[int, ...]  #: S2MPJ's number of the group behind each row
    inverse_scale: Vector
    constant: Vector
    element_types: tuple[ElementType, ...]
    group_types: tuple[GroupType, ...]
    values: int  #: length of the array of element values
    gradients: int  #: length of the array of element gradients
    hessians: int  #: length of the array of element Hessians
    weights: Any  #: csr, rows x values
    row: Ints  #: row and column of each entry of the pattern, sorted
    column: Ints
    start: Ints  #: first entry of each row, one more at the end
    linear: Vector  #: the entries of A in the pattern
    scatter: Any  #: csr, entries x gradients: adds weighted element gradients into the pattern
    quadratic: Any  #: csr H, or None

    @property
    def rows(self) -> int:
        """Objective rows and constraints."""
        return self.objective_rows + self.m

    @property
    def entries(self) -> int:
        """Length of the pattern."""
        return self.row.size

    @property
    def linear_rows(self) -> NDArray[np.bool_]:
        """The constraints without elements and group functions."""
        curved = np.diff(self.weights.indptr) > 0
        for group in self.group_types:
            curved[group.rows] = True
        return np.asarray(~curved[self.objective_rows :])

    @property
    def objective_entries(self) -> int:
        """How many entries belong to the rows of the objective."""
        return int(self.start[self.objective_rows])


def extract(raw: Any) -> Structure:
    """Read the structure off an S2MPJ object (its `getglobs` called before)."""
    objective = [int(i) for i in getattr(raw, "objgrps", ())]
    groups = objective + [int(i) for i in getattr(raw, "congrps", ())]
    uses = list(_uses(raw, groups))
    types, values, gradients, hessians = _element_types(raw, sorted({e for _, e, _ in uses}))
    value_of, gradient_of = _places(types)
    rows, n = len(groups), int(raw.n)
    weights = sparse.csr_array(
        ([w for _, _, w in uses], ([r for r, _, _ in uses], [value_of[e] for _, e, _ in uses])), shape=(rows, values)
    )
    a = _linear_part(raw, groups, n)
    touched = [(r, int(v), gradient_of[e][0] + j, w) for r, e, w in uses for j, v in enumerate(gradient_of[e][1])]
    cell = np.concatenate([a.row, np.array([t[0] for t in touched], dtype=np.int64)]).astype(np.int64) * n
    cell += np.concatenate([a.col, np.array([t[1] for t in touched], dtype=np.int64)]).astype(np.int64)
    pattern, place = np.unique(cell, return_inverse=True)
    linear = np.bincount(place[: a.nnz], a.data, pattern.size).astype(np.float64)
    scatter = sparse.csr_array(
        (
            np.array([t[3] for t in touched], dtype=float),
            (place[a.nnz :], np.array([t[2] for t in touched], dtype=int)),
        ),
        shape=(pattern.size, gradients),
    )
    row = (pattern // n).astype(np.int32)
    return Structure(
        n=n,
        objective_rows=len(objective),
        m=rows - len(objective),
        groups=tuple(groups),
        inverse_scale=1.0 / np.array([_scale(raw, g) for g in groups], dtype=float).reshape(rows),
        constant=np.array([_number(_entry(raw, "gconst", g), 0.0) for g in groups], dtype=float).reshape(rows),
        element_types=types,
        group_types=tuple(_group_types(raw, groups)),
        values=values,
        gradients=gradients,
        hessians=hessians,
        weights=weights,
        row=row,
        column=(pattern % n).astype(np.int32),
        start=np.searchsorted(row, np.arange(rows + 1)).astype(np.int32),
        linear=linear,
        scatter=scatter,
        quadratic=sparse.csr_array(raw.H) if hasattr(raw, "H") else None,
    )


def _entry(raw: Any, field: str, index: int) -> Any:
    """`raw.field[index]`; None where the field is missing or too short, as S2MPJ's lists may be."""
    listed = getattr(raw, field, None)
    return listed[index] if listed is not None and index < len(listed) else None


def _number(value: Any, default: float) -> float:
    return default if value is None else float(np.asarray(value).item())


def _scale(raw: Any, group: int) -> float:
    scale = _number(_entry(raw, "gscale", group), 1.0)
    return scale if abs(scale) > 1e-15 else 1.0  # S2MPJ's own rule


def _uses(raw: Any, groups: list[int]) -> Iterable[tuple[int, int, float]]:
    """(row, element, weight) for each use of an element."""
    for r, group in enumerate(groups):
        elements = _entry(raw, "grelt", group)
        weights = _entry(raw, "grelw", group)
        for k, element in enumerate(elements if elements is not None else ()):
            yield r, int(element), 1.0 if weights is None else _number(weights[k], 1.0)


def _element_types(raw: Any, used: list[int]) -> tuple[tuple[ElementType, ...], int, int, int]:
    members: dict[tuple[str, int], list[int]] = {}
    for e in used:
        members.setdefault((str(raw.elftype[e]), len(raw.elvar[e])), []).append(e)
    types, values, gradients, hessians = [], 0, 0, 0
    for (name, size), elements in members.items():
        variables = np.array([[int(v) for v in raw.elvar[e]] for e in elements], dtype=np.int32)
        table = _parameter_table([_entry(raw, "elpar", e) for e in elements])
        types.append(ElementType(name, tuple(elements), variables, table, values, gradients, hessians))
        values += len(elements)
        gradients += len(elements) * size
        hessians += len(elements) * size**2
    return tuple(types), values, gradients, hessians


def _group_types(raw: Any, groups: list[int]) -> Iterable[GroupType]:
    members: dict[str, list[int]] = {}
    for r, group in enumerate(groups):
        name = _entry(raw, "grftype", group)
        if name is not None and name != "TRIVIAL":
            members.setdefault(str(name), []).append(r)
    for name, rows in members.items():
        table = _parameter_table([_entry(raw, "grpar", groups[r]) for r in rows])
        yield GroupType(name, np.array(rows, dtype=np.int32), table)


def _parameter_table(lists: list[Any]) -> Matrix:
    """Parameters as a matrix; NaN where one is missing, so that its use shows."""
    width = max((len(given) for given in lists if given is not None), default=0)
    table = np.full((len(lists), width), np.nan)
    for i, given in enumerate(lists):
        for j, value in enumerate(given if given is not None else ()):
            table[i, j] = _number(value, np.nan)
    return table


def _places(types: tuple[ElementType, ...]) -> tuple[dict[int, int], dict[int, tuple[int, Ints]]]:
    """Element -> place of its value, and -> place of its gradient with its variables."""
    value_of, gradient_of = {}, {}
    for kind in types:
        for i, e in enumerate(kind.elements):
            value_of[e] = kind.value_at + i
            gradient_of[e] = (kind.gradient_at + i * kind.size, kind.variables[i])
    return value_of, gradient_of


def _linear_part(raw: Any, groups: list[int], n: int) -> Any:
    """The rows of A that are in use, as coo; A may be missing, or have fewer rows and columns than there are."""
    if not hasattr(raw, "A"):
        return sparse.coo_array((len(groups), n))
    a = sparse.csr_array(raw.A)
    have = [(r, g) for r, g in enumerate(groups) if g < a.shape[0]]
    part = sparse.coo_array(a[[g for _, g in have], :]) if have else sparse.coo_array((0, n))
    rows = np.array([r for r, _ in have], dtype=np.int64)
    return sparse.coo_array((part.data.astype(float), (rows[part.row], part.col)), shape=(len(groups), n))
