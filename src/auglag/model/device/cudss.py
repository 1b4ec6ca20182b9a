"""cuDSS, NVIDIA's sparse direct solver, by ctypes on the device pointers of JAX arrays.

Names and numbers are those of `cudss.h` of version 0.7 (package `nvidia-cudss-cu13` or `-cu12`). Matrices are
symmetric, stored as the upper triangle in CSR, factorised as L D L' without pivoting. JAX and cuDSS use streams of
their own, so that the device is synchronised before and after every phase.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp

from auglag.errors import AuglagError, MissingExtra
from auglag.model.structure import Pattern

# cudssConfigParam_t
REFINEMENTS, PIVOTING, HOST_THREADS, BATCH_SIZE, BATCH_INDEX, DETERMINISTIC = 6, 8, 15, 19, 20, 25
# cudssDataParam_t
FILL, PIVOTS_CHANGED, INERTIA = 1, 2, 3
# cudssPhase_t
ANALYSIS, FACTOR, REFACTOR, SOLVE = 3, 4, 8, 0x3F0
# cudaDataType_t, cudssMatrixType_t, cudssMatrixViewType_t, cudssPivotType_t
INT32, FLOAT64, SYMMETRIC, UPPER, NO_PIVOTING = 10, 1, 1, 2, 2

#: cudssStatus_t
STATUS = {
    1: "not initialised",
    2: "out of memory",
    3: "an invalid value",
    4: "not supported",
    5: "execution failed",
    6: "an internal error",
}

INSTALL = "pip install 'auglag[gpu]' (nvidia-cudss-cu13 beside jax[cuda13])"


class CuDSSError(AuglagError, RuntimeError):
    """A call of cuDSS failed; the message names it."""


@final
class Library:
    """The shared libraries of cuDSS and of the CUDA runtime, and one handle."""

    _loaded: Library | None = None

    def __init__(self, solver: Any, runtime: Any, threads: Path | None = None) -> None:
        self.functions, self._runtime = solver, runtime
        self.handle = ctypes.c_void_p()
        self.call("cudssCreate", ctypes.byref(self.handle))
        self.threaded = False
        if threads is not None:
            self.threaded = self.functions.cudssSetThreadingLayer(self.handle, str(threads).encode()) == 0

    @classmethod
    def load(cls) -> Library:
        """The library, loaded once; `MissingExtra` where it is not installed."""
        if cls._loaded is None:
            folders = _folders()
            for name in ("libcublasLt.so.13", "libcublas.so.13", "libcublasLt.so.12", "libcublas.so.12"):
                with contextlib.suppress(MissingExtra):  # cuDSS finds it by itself where pip put both
                    _open(name, [folder / name for folder in folders], [])
            solver = _open("cuDSS", [folder / "libcudss.so.0" for folder in folders], ["libcudss.so.0"])
            names = ["libcudart.so.13", "libcudart.so.12", "libcudart.so"]
            runtime = _open("the CUDA runtime", [folder / name for name in names for folder in folders], names)
            layers = [folder / "libcudss_mtlayer_gomp.so.0" for folder in folders]
            cls._loaded = cls(solver, runtime, next((layer for layer in layers if layer.exists()), None))
        return cls._loaded

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of cuDSS; `CuDSSError` (`MemoryError` where memory is short) unless it succeeds."""
        status = getattr(self.functions, name)(*arguments)
        if status == 2:
            raise MemoryError(f"{name}: the GPU is out of memory")
        if status:
            raise CuDSSError(f"{name} failed: {STATUS.get(status, status)}")

    def synchronise(self) -> None:
        """Wait for the device."""
        status = self._runtime.cudaDeviceSynchronize()
        if status == 2:  # cudaErrorMemoryAllocation
            raise MemoryError("the GPU is out of memory")
        if status:
            raise CuDSSError(f"cudaDeviceSynchronize failed: error {status}")


def _folders() -> list[Path]:
    """Where pip puts NVIDIA's libraries; AUGLAG_CUDSS names a folder that is looked into first."""
    import importlib.util

    found = [Path(os.environ["AUGLAG_CUDSS"])] if os.environ.get("AUGLAG_CUDSS") else []
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        found += sorted(Path(place).glob("*/lib"), reverse=True)
    return found


def _open(what: str, paths: list[Path], names: list[str]) -> Any:
    reason: Exception | str = "not found"
    for path in [*(str(path) for path in paths if path.exists()), *names]:
        try:
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            reason = error
    raise MissingExtra(f"device='gpu' needs {what}: {INSTALL}; {reason}")


@final
class CuDSS:
    """Matrices of one pattern, or `batch` of them at once (values, right sides and solutions one after the other)."""

    name = "cudss"

    def __init__(
        self, pattern: Pattern, *, batch: int = 1, deterministic: bool = False, library: Library | None = None
    ) -> None:
        self._library = library if library is not None else Library.load()
        self._size, self._batch, self._factored = pattern.shape[0], batch, False
        self._objects: list[tuple[str, ctypes.c_void_p]] = []
        self._config, self._data = self._made("cudssConfig"), self._made("cudssData", self._library.handle)
        self._configure(PIVOTING, NO_PIVOTING)
        self._configure(REFINEMENTS, 0)  # the loop refines, and only where that is needed
        if batch > 1:
            self._configure(BATCH_SIZE, batch)
        self._one_by_one = deterministic  # cuDSS 0.7 solves for several right sides only without that promise
        if deterministic:
            self._configure(DETERMINISTIC, 1)
        if self._library.threaded:
            self._configure(HOST_THREADS, min(16, os.cpu_count() or 1))
        self._starts, self._columns = jnp.asarray(pattern.indptr), jnp.asarray(pattern.indices)
        self._values, self._dense = jnp.ones(pattern.nnz * batch), jnp.zeros(self._size * batch)
        n, entries = ctypes.c_int64(self._size), ctypes.c_int64(pattern.nnz)
        pointers = _pointer(self._starts), ctypes.c_void_p(), _pointer(self._columns), _pointer(self._values)
        self._matrix = self._made(
            "cudssMatrix",
            creator="cudssMatrixCreateCsr",
            arguments=(n, n, entries, *pointers, INT32, FLOAT64, SYMMETRIC, UPPER, 0),
        )
        self._spare: dict[tuple[int, ...], Any] = {}
        self._dense_matrices: dict[int, tuple[ctypes.c_void_p, ctypes.c_void_p]] = {}
        begun = time.perf_counter()
        self._execute(ANALYSIS)
        self.analysis = time.perf_counter() - begun

    def _made(self, kind: str, *before: Any, creator: str = "", arguments: tuple[Any, ...] = ()) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._library.call(creator or f"{kind}Create", *before, ctypes.byref(made), *arguments)
        self._objects.append((kind, made))
        return made

    def _columns_of(self, count: int) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """(solution, right side) with so many columns, one after the other."""
        if count not in self._dense_matrices:
            n = ctypes.c_int64(self._size)
            dense = (n, ctypes.c_int64(count), n, _pointer(self._dense), FLOAT64, 0)
            made = [self._made("cudssMatrix", creator="cudssMatrixCreateDn", arguments=dense) for _ in range(2)]
            self._dense_matrices[count] = (made[0], made[1])
        return self._dense_matrices[count]

    def _configure(self, name: int, value: int) -> None:
        number = ctypes.c_int(value)
        self._library.call("cudssConfigSet", self._config, name, ctypes.byref(number), ctypes.c_size_t(4))

    def _execute(self, phase: int, columns: int = 1) -> None:
        parts = (self._config, self._data, self._matrix, *self._columns_of(columns))
        self._library.call("cudssExecute", self._library.handle, phase, *parts)
        self._library.synchronise()

    def factor(self, values: Any) -> tuple[int, int] | None:
        """As in `Sparse`; for a batch the inertia is not known, and (0, 0) says that the factorisation was made."""
        self._values = values.block_until_ready()
        self._library.call("cudssMatrixSetValues", self._matrix, _pointer(self._values))
        try:
            self._execute(REFACTOR if self._factored else FACTOR)
        except CuDSSError:
            self._factored = False
            return None
        self._factored = True
        if self._batch > 1:
            return 0, 0
        inertia = (ctypes.c_int * 2)()
        self._get(INERTIA, inertia)
        return inertia[0], inertia[1]

    def _get(self, name: int, into: Any) -> None:
        written = ctypes.c_size_t()
        size = ctypes.c_size_t(ctypes.sizeof(into))
        self._library.call(
            "cudssDataGet", self._library.handle, self._data, name, ctypes.byref(into), size, ctypes.byref(written)
        )

    @property
    def fill(self) -> int:
        """How many numbers the factors hold."""
        entries = ctypes.c_int64()
        self._get(FILL, entries)
        return entries.value

    def solve(self, right: Any) -> Any:
        """As in `Sparse`; for a batch right sides are (batch, several, size), flat. The solution is written into a new
        array that nobody else holds yet.
        """
        columns = right.size // (self._size * self._batch)
        if self._one_by_one and columns > 1:
            parts = right.reshape(self._batch, columns, self._size)
            rows = [self.solve(parts[:, k].reshape(-1)).reshape(self._batch, 1, -1) for k in range(columns)]
            return jnp.concatenate(rows, axis=1).reshape(right.shape)
        right = right.block_until_ready()
        solution = self._spare.pop(right.shape, None)
        if solution is None:
            solution = _new(right)
        solution.block_until_ready()
        for matrix, values in zip(self._columns_of(columns), (solution, right), strict=True):
            self._library.call("cudssMatrixSetValues", matrix, _pointer(values))
        self._execute(SOLVE, columns)
        self._spare[right.shape] = _new(right)  # for the next call, made meanwhile
        return solution

    def close(self) -> None:
        """Give the memory of the device back."""
        while self._objects:
            kind, made = self._objects.pop()
            before = (self._library.handle,) if kind == "cudssData" else ()
            self._library.call(f"{kind}Destroy", *before, made)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter may be going down
            self._objects = []


#: An array of the same shape and place. Compiled: one is made at every call, and JAX takes 1 ms for it otherwise.
_new: Any = jax.jit(jnp.zeros_like)


def _pointer(array: Any) -> ctypes.c_void_p:
    """The address of a JAX array's memory on its device."""
    return ctypes.c_void_p(array.block_until_ready().unsafe_buffer_pointer())


__all__ = ["CuDSS", "CuDSSError", "Library"]
