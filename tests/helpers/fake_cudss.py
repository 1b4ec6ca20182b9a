"""A small imitation of cuDSS and of the CUDA runtime, on the memory of the CPU.

It has the C interface's names, argument orders, opaque objects and status codes, keeps the rules that the real library
has (objects are created before they are used and destroyed once, phases come in order, values are read when a phase is
executed), and factorises without pivoting, so that the inertia is that of the signs of D.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

SUCCESS, OUT_OF_MEMORY, INVALID, NOT_SUPPORTED, FAILED = 0, 2, 3, 4, 5


def _array(address: int, count: int, kind: Any) -> np.ndarray:
    return np.ctypeslib.as_array((kind * count).from_address(address))


def _number(value: Any) -> int:
    return int(getattr(value, "value", value) or 0)


class FakeCuDSS:
    """The functions of libcudss that are used, as methods."""

    def __init__(self, *, memory: int | None = None) -> None:
        self.objects: dict[int, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.memory = memory  #: largest matrix that fits, for tests of what happens when none does
        self._next = 1

    def _new(self, where: Any, kind: str, **fields: Any) -> int:
        where._obj.value = self._next
        self.objects[self._next] = {"kind": kind, **fields}
        self._next += 1
        return SUCCESS

    def _get(self, handle: Any, kind: str) -> dict[str, Any]:
        found = self.objects[_number(handle)]
        assert found["kind"] == kind, f"{kind} expected, got {found['kind']}"
        return found

    def cudssCreate(self, where: Any) -> int:
        return self._new(where, "handle")

    def cudssSetThreadingLayer(self, handle: Any, name: bytes) -> int:
        self._get(handle, "handle")
        return SUCCESS if name else INVALID

    def cudssConfigCreate(self, where: Any) -> int:
        return self._new(where, "config", values={})

    def cudssConfigSet(self, config: Any, name: int, value: Any, size: Any) -> int:
        assert _number(size) == ctypes.sizeof(value._obj)
        self._get(config, "config")["values"][name] = value._obj.value
        return SUCCESS

    def cudssDataCreate(self, handle: Any, where: Any) -> int:
        self._get(handle, "handle")
        return self._new(where, "data", phase=0, factors=None)

    def cudssMatrixCreateCsr(self, where: Any, rows: Any, columns: Any, entries: Any, *rest: Any) -> int:
        starts, ends, indices, values, index_type, value_type, kind, view, base = rest
        assert _number(rows) == _number(columns)
        assert not _number(ends)
        assert (index_type, value_type, kind, view, base) == (10, 1, 1, 2, 0), "int32, double, symmetric, upper, from 0"
        n = _number(rows)
        if self.memory is not None and n > self.memory:
            return OUT_OF_MEMORY
        start = _array(_number(starts), n + 1, ctypes.c_int32).copy()
        assert start[-1] == _number(entries)
        index = _array(_number(indices), int(start[-1]), ctypes.c_int32).copy()
        return self._new(where, "matrix", n=n, start=start, index=index, values=_number(values))

    def cudssMatrixCreateDn(
        self, where: Any, rows: Any, columns: Any, ld: Any, values: Any, kind: int, layout: int
    ) -> int:
        assert (_number(ld), kind, layout) == (_number(rows), 1, 0)
        return self._new(where, "matrix", n=_number(rows), columns=_number(columns), values=_number(values))

    def cudssMatrixSetValues(self, matrix: Any, values: Any) -> int:
        self._get(matrix, "matrix")["values"] = _number(values)
        return SUCCESS

    def cudssConfigDestroy(self, config: Any) -> int:
        return self._destroyed(config, "config")

    def cudssDataDestroy(self, handle: Any, data: Any) -> int:
        self._get(handle, "handle")
        return self._destroyed(data, "data")

    def cudssMatrixDestroy(self, matrix: Any) -> int:
        return self._destroyed(matrix, "matrix")

    def _destroyed(self, handle: Any, kind: str) -> int:
        self._get(handle, kind)
        del self.objects[_number(handle)]
        return SUCCESS

    def cudssExecute(self, handle: Any, phase: int, config: Any, data: Any, matrix: Any, x: Any, b: Any) -> int:
        self._get(handle, "handle")
        settings, state = self._get(config, "config")["values"], self._get(data, "data")
        a = self._get(matrix, "matrix")
        batch = settings.get(19, 1)
        self.calls.append({3: "analysis", 4: "factor", 8: "refactor", 0x3F0: "solve"}[phase])
        if phase == 3:
            state["phase"] = 3
        elif phase in (4, 8):
            assert settings[8] == 2, "pivoting must be off"
            if state["phase"] < (3 if phase == 4 else 4):
                return INVALID
            entries = a["start"][-1]
            values = _array(a["values"], int(entries) * batch, ctypes.c_double).reshape(batch, -1)
            state["factors"] = [_ldl(a, row) for row in values]
            state["phase"] = 4
            if any(d is None for _, d in state["factors"]):
                return FAILED
        else:
            if state["phase"] < 4:
                return INVALID
            columns = self._get(b, "matrix")["columns"]
            assert self._get(x, "matrix")["columns"] == columns
            if settings.get(25) and columns > 1:
                return NOT_SUPPORTED  # deterministic, as in cuDSS 0.7.1
            shape = (batch, columns, a["n"])
            size = batch * columns * a["n"]
            right = _array(self._get(b, "matrix")["values"], size, ctypes.c_double).reshape(shape)
            left = _array(self._get(x, "matrix")["values"], size, ctypes.c_double).reshape(shape)
            for (lower, d), target, source in zip(state["factors"], left, right, strict=True):
                target[:] = np.linalg.solve(lower.T, np.linalg.solve(lower, source.T) / d[:, None]).T
        return SUCCESS

    def cudssDataGet(self, handle: Any, data: Any, name: int, into: Any, size: Any, written: Any) -> int:
        state = self._get(data, "data")
        lower, d = state["factors"][0]
        if name == 3:
            assert _number(size) == 8
            into._obj[0], into._obj[1] = int((d > 0).sum()), int((d < 0).sum())
        elif name == 1:
            into._obj.value = int((lower != 0).sum())
        else:
            return INVALID
        written._obj.value = _number(size)
        return SUCCESS


class FakeRuntime:
    """The one function of the CUDA runtime that is used."""

    def __init__(self, status: int = 0) -> None:
        self.status = status

    def cudaDeviceSynchronize(self) -> int:
        return self.status


def _ldl(a: dict[str, Any], values: np.ndarray) -> tuple[Any, Any]:
    """Dense L and D of the symmetric matrix whose upper triangle this is; D is None where a pivot is zero."""
    n = a["n"]
    full = np.zeros((n, n))
    for i in range(n):
        part = slice(a["start"][i], a["start"][i + 1])
        full[i, a["index"][part]] = values[part]
        full[a["index"][part], i] = values[part]
    lower, d = np.eye(n), np.zeros(n)
    for j in range(n):
        d[j] = full[j, j] - lower[j, :j] ** 2 @ d[:j]
        if d[j] == 0.0:
            return None, None
        lower[j + 1 :, j] = (full[j + 1 :, j] - lower[j + 1 :, :j] @ (lower[j, :j] * d[:j])) / d[j]
    return lower, d
