"""IPOPT's C interface: its signatures, and where wheels keep the library."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

INT, REAL, BOOL = ctypes.c_int, ctypes.c_double, ctypes.c_bool
REALS, INTS, POINTER = ctypes.POINTER(REAL), ctypes.POINTER(INT), ctypes.c_void_p
EVAL_F = ctypes.CFUNCTYPE(BOOL, INT, REALS, BOOL, REALS, POINTER)  #: f, and with n results grad f
EVAL_G = ctypes.CFUNCTYPE(BOOL, INT, REALS, BOOL, INT, REALS, POINTER)
EVAL_JAC = ctypes.CFUNCTYPE(BOOL, INT, REALS, BOOL, INT, INT, INTS, INTS, REALS, POINTER)
EVAL_H = ctypes.CFUNCTYPE(BOOL, INT, REALS, BOOL, REAL, INT, REALS, BOOL, INT, INTS, INTS, REALS, POINTER)
ITERATION = ctypes.CFUNCTYPE(BOOL, INT, INT, *[REAL] * 8, INT, POINTER)

#: Names of the library on Linux, macOS and Windows.
NAMES = ("libipopt.so.3", "libipopt.so", "libipopt.3.dylib", "libipopt.dylib", "libipopt-3.dll")


@final
@dataclass(frozen=True, slots=True)
class Library:
    """One build of IPOPT."""

    functions: Any  #: the C functions
    version: str
    wheel: str  #: the distribution it is from, with its version

    @property
    def tells_iterates(self) -> bool:
        """Whether the current iterate can be asked for during a solve (since 3.14)."""
        return hasattr(self.functions, "GetIpoptCurrentIterate")


@functools.cache
def from_casadi() -> Library:
    """The library in the CasADi wheel, 3.14; nothing of CasADi itself is loaded."""
    folder = _package("casadi")
    path = next((folder / name for name in NAMES if (folder / name).exists()), None)
    if path is None:
        raise RuntimeError(f"no IPOPT library in {folder}; looked for {', '.join(NAMES)}")
    return _open(path, "casadi")


@functools.cache
def from_ipyopt() -> Library:
    """The library in the ipyopt wheel, 3.12; only the library is used."""
    folder = _package("ipyopt").parent / "ipyopt.libs"
    importlib.import_module("ipyopt")  # loads the libraries this one needs, which it would not find by itself
    path = next(folder.glob("libipopt*"), None)
    if path is None:
        raise RuntimeError(f"no IPOPT library in {folder}")
    return _open(path, "ipyopt")


def _package(name: str) -> Path:
    """The folder of a package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"the package {name} is not installed")
    return Path(spec.origin).parent


def _open(path: Path, distribution: str) -> Library:
    functions: Any = ctypes.CDLL(str(path))
    sides: list[Any] = [INT, REALS, REALS, INT, REALS, REALS, INT, INT, INT]
    functions.CreateIpoptProblem.restype = POINTER
    functions.CreateIpoptProblem.argtypes = [*sides, EVAL_F, EVAL_G, EVAL_F, EVAL_JAC, EVAL_H]
    functions.FreeIpoptProblem.restype = None
    functions.FreeIpoptProblem.argtypes = [POINTER]
    for kind, value in (("Str", ctypes.c_char_p), ("Int", INT), ("Num", REAL)):
        add = getattr(functions, f"AddIpopt{kind}Option")
        add.restype, add.argtypes = BOOL, [POINTER, ctypes.c_char_p, value]
    functions.SetIntermediateCallback.restype = BOOL
    functions.SetIntermediateCallback.argtypes = [POINTER, ITERATION]
    functions.IpoptSolve.restype = INT
    functions.IpoptSolve.argtypes = [POINTER, REALS, REALS, REALS, REALS, REALS, REALS, POINTER]
    if hasattr(functions, "GetIpoptCurrentIterate"):
        functions.GetIpoptCurrentIterate.restype = BOOL
        functions.GetIpoptCurrentIterate.argtypes = [POINTER, BOOL, INT, REALS, REALS, REALS, INT, REALS, REALS]
    wheel = f"{distribution} {importlib.metadata.version(distribution)}"
    return Library(functions, _version(functions, path), wheel)


def _version(functions: Any, path: Path) -> str:
    """As the library says; one before 3.14.18 cannot be asked, but has it in the text of its banner."""
    if hasattr(functions, "GetIpoptVersion"):
        numbers = INT(), INT(), INT()
        functions.GetIpoptVersion(*(ctypes.byref(number) for number in numbers))
        return ".".join(str(number.value) for number in numbers)
    found = re.search(rb"Ipopt version (\d+\.\d+\.\d+)", path.read_bytes())
    return found.group(1).decode() if found else "unknown"
