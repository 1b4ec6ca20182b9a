"""Evaluation by a compiled library."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, final

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.problems.cutest import compilation
from auglag.problems.cutest.c_source import library_source
from auglag.problems.cutest.evaluation import Evaluator, SecondOrder, Values
from auglag.problems.cutest.kernels import element_kernel, group_kernel
from auglag.problems.cutest.language import Function, Untranslatable
from auglag.problems.cutest.structure import Structure
from auglag.problems.cutest.translation import translate

_SIZES = ("n", "rows", "objective_rows", "entries", "objective_entries", "values")  #: fields of `Structure`
_INTS = (*_SIZES, "types", "quadratic")
_POINTERS = (
    *("Ap", "Ai", "Ax", "Wp", "Wi", "Wx", "Sp", "Si", "Sx", "linear", "constant", "inverse_scale", "start", "column"),
    *("Hp", "Hi", "Hx", "fe", "ge", "he", "inner", "jacobian", "fa", "ga", "ha", "out", "count", "size"),
    *("variables", "parameters", "width", "group_count", "group_rows", "group_parameters", "group_width"),
    "element_weight",
)


class _Data(ctypes.Structure):
    """The struct `Data` of kernel.c."""

    _fields_ = [(name, ctypes.c_int) for name in _INTS] + [(name, ctypes.c_void_p) for name in _POINTERS]


@final
class NativeEvaluator(Evaluator):
    """A problem's functions in C. Types that could not be translated are evaluated in Python (`in_python`)."""

    backend = "c"

    def __init__(self, raw: Any, structure: Structure) -> None:
        s = structure
        elements = [_translated(raw, t.name, t.size) for t in s.element_types]
        groups = [_translated(raw, t.name, 0) for t in s.group_types]
        self._library = compilation.load(library_source(elements, groups))
        self._elements = [element_kernel(raw, t) for t, f in zip(s.element_types, elements, strict=True) if f is None]
        self._groups = [group_kernel(raw, s, t) for t, f in zip(s.group_types, groups, strict=True) if f is None]
        self.in_python = (*(k.name for k in self._elements), *(k.name for k in self._groups))
        self._structure = s
        self._lock = threading.Lock()
        self._kept: list[Any] = []  # arrays that the struct points to
        self._data = self._fill()
        self._address = ctypes.c_void_p(ctypes.addressof(self._data))
        self._evaluate, self._first, self._second = self._library.evaluate, ctypes.c_int(2), ctypes.c_int(3)
        self._state = b""  # the x at which the buffers hold second derivatives
        self._ends = (1 + s.n, 1 + s.n + s.m)
        self._product = np.zeros(s.n)
        self._product_at = ctypes.c_void_p(self._product.ctypes.data)

    def values(self, x: Vector, key: bytes) -> Values:
        with self._lock:
            self._state = b""
            if self.in_python:
                self._by_parts(x, key, 2)
            else:
                self._evaluate(self._address, key, self._first)
            out = self._out.copy()
        a, b = self._ends
        return out.item(0), out[1:a], out[a:b], out[b:]

    def product(self, x: Vector, y: Vector, v: Vector) -> Vector:
        with self._lock:
            self._to_second_order(x)
            self._library.hessian_product(self._address, y.tobytes(), v.tobytes(), self._product_at)
            return self._product.copy()

    def second_order(self, x: Vector) -> SecondOrder:
        with self._lock:
            self._to_second_order(x)
            return SecondOrder(self._he.copy(), self._jacobian.copy(), self._ga.copy(), self._ha.copy())

    def _to_second_order(self, x: Vector) -> None:
        data = x.tobytes()
        if data != self._state:
            self._state = b""
            if self.in_python:
                self._by_parts(x, data, 3)
            else:
                self._evaluate(self._address, data, self._second)
            self._state = data

    def _by_parts(self, x: Vector, data: bytes, level: int) -> None:
        nargout = ctypes.c_int(level)
        self._library.element_values(self._address, data, nargout)
        for element in self._elements:
            element.fill(level, x, self._fe, self._ge, self._he)
        self._library.gather(self._address, data, nargout)
        self._library.group_values(self._address, nargout)
        for group in self._groups:
            group.fill(level, self._inner, self._fa, self._ga, self._ha)
        self._library.finish(self._address, data, nargout)

    def _fill(self) -> _Data:
        s, keep = self._structure, self._keep
        linear = sparse.csr_array((s.linear, s.column, s.start), shape=(s.rows, s.n), copy=True)
        linear.eliminate_zeros()
        sizes = [getattr(s, name) for name in _SIZES]
        data = _Data(*sizes, len(s.element_types), int(s.quadratic is not None))
        matrices = [("A", linear), ("W", s.weights), ("S", s.scatter)]
        for letter, matrix in [*matrices, ("H", s.quadratic)] if s.quadratic is not None else matrices:
            setattr(data, f"{letter}p", keep(matrix.indptr, np.int32))
            setattr(data, f"{letter}i", keep(matrix.indices, np.int32))
            setattr(data, f"{letter}x", keep(matrix.data, np.float64))
        for name in ("linear", "constant", "inverse_scale"):
            setattr(data, name, keep(getattr(s, name), np.float64))
        data.start, data.column = keep(s.start, np.int32), keep(s.column, np.int32)
        buffers = {"fe": s.values, "ge": s.gradients, "he": s.hessians, "inner": s.rows, "jacobian": s.entries}
        buffers |= {"fa": s.rows, "ga": s.rows, "ha": s.rows, "element_weight": s.values}
        buffers["out"] = 1 + s.n + s.m + s.entries - s.objective_entries
        for name, size in buffers.items():
            buffer = np.zeros(max(size, 1))
            setattr(self, f"_{name}", buffer[:size])
            setattr(data, name, keep(buffer, np.float64))
        e, g = s.element_types, s.group_types
        data.count = keep([t.count for t in e], np.int32)
        data.size = keep([t.size for t in e], np.int32)
        data.width = keep([t.parameters.shape[1] for t in e], np.int32)
        data.variables = keep([keep(t.variables, np.int32) for t in e], np.uintp)
        data.parameters = keep([keep(t.parameters, np.float64) for t in e], np.uintp)
        data.group_count = keep([t.rows.size for t in g], np.int32)
        data.group_rows = keep([keep(t.rows, np.int32) for t in g], np.uintp)
        data.group_width = keep([t.parameters.shape[1] for t in g], np.int32)
        data.group_parameters = keep([keep(t.parameters, np.float64) for t in g], np.uintp)
        return data

    def _keep(self, array: Any, dtype: Any) -> int:
        kept = np.ascontiguousarray(array, dtype=dtype)
        if kept.size == 0:
            kept = np.zeros(1, dtype)
        self._kept.append(kept)
        return int(kept.ctypes.data)

    # The buffers, made in _fill.
    _fe: Vector
    _ge: Vector
    _he: Vector
    _inner: Vector
    _jacobian: Vector
    _fa: Vector
    _ga: Vector
    _ha: Vector
    _out: Vector


def _translated(raw: Any, name: str, inputs: int) -> Function | None:
    try:
        return translate(raw, name, inputs)
    except Untranslatable:
        return None
