"""A problem by its name: an AMPL file, an object of a Python file, or a problem of CUTEst."""

from __future__ import annotations

import hashlib
import runpy
import sys
from pathlib import Path
from typing import Any

from auglag._names import nearest
from auglag.errors import InputError, MissingExtra
from auglag.problems.base import AbstractProblem


def is_file(name: str) -> bool:
    """Whether the name is that of a file, and not of a problem of CUTEst."""
    return name.endswith(".nl") or ".py:" in name


def load(name: str, source: str = "s2mpj", params: Any = None) -> AbstractProblem:
    """A problem from a .nl file, from `file.py:object`, or of CUTEst (which alone has a source and parameters).

    Without the extra `cutest`, the problems of Hock and Schittkowski are those that the package has itself.
    """
    if name.endswith(".nl"):
        from auglag.problems import nl

        return nl.load(name)
    if ".py:" in name:
        return _from_file(name)
    if name.endswith(".py"):
        raise InputError(f"{name} must be followed by the name of an object in it, as in {name}:problem")
    from auglag.problems import cutest

    get: Any = cutest.load
    try:
        problem: AbstractProblem = get(name, source=source, params=params)
    except MissingExtra as error:
        from auglag.problems.hock_schittkowski import PROBLEMS

        own = PROBLEMS.get(name.upper())
        if own is None:
            near = nearest(name, PROBLEMS).partition("; known")[0]
            raise MissingExtra(
                f"{name!r} is no problem of the package itself{near}. If it is one of CUTEst: {error}"
            ) from None
        if params:
            raise
        return own.problem()
    return problem


def fingerprint(name: str) -> str:
    """A short digest of the content of the file that is named; raises if it is no problem."""
    load(name)
    file = name if name.endswith(".nl") else name.rpartition(":")[0]
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]


def _from_file(name: str) -> AbstractProblem:
    """The object of a Python file: a problem, or a function without arguments that returns one."""
    file, _, attribute = name.rpartition(":")
    if not Path(file).is_file():
        raise InputError(f"there is no file {file!r}")
    folder = str(Path(file).resolve().parent)
    if folder not in sys.path:  # a file may import its neighbours, as under `python file.py`, also when it is called
        sys.path.insert(0, folder)
    content = runpy.run_path(file)
    if attribute not in content:
        raise InputError(f"{file} has no {attribute!r}{nearest(attribute, [k for k in content if k[0] != '_'])}")
    found = content[attribute]
    if callable(found) and not isinstance(found, AbstractProblem):
        found = found()
    if not isinstance(found, AbstractProblem):
        raise InputError(f"{name} must be an auglag.Problem or a function that returns one, got {found!r:.80}")
    return found
