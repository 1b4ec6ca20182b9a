"""Making S2MPJ's own problem objects, from which everything else is read."""

from __future__ import annotations

import numbers
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from auglag.errors import InputError
from auglag.problems.cutest import growing
from auglag.problems.cutest.bytecode import compiled
from auglag.problems.cutest.catalogue import problem_file, s2mpj_folder

#: What may be given as `params`: values by name (N=10), in the problem's order, or a single one.
Params = Mapping[str, float] | Sequence[float] | float | None


def raw_problem(name: str, params: Params = None) -> Any:
    """An object of S2MPJ's class `name`, its global parameters set."""
    path = problem_file(name)
    name = path.stem
    arguments = _arguments(name, path, params)
    with warnings.catch_warnings(action="ignore"):  # of others' code, for its authors
        if "s2mpjlib" not in sys.modules:  # the problems' files import it by this name
            _module("s2mpjlib", s2mpj_folder() / "src" / "s2mpjlib.py")
        key = f"auglag.problems.cutest._s2mpj.{name}"
        module = sys.modules.get(key) or _module(key, path)
        raw = getattr(module, name)(*arguments)
        raw.getglobs()  # S2MPJ does so at each evaluation, but the values never change
    return raw


def _module(key: str, path: Path) -> ModuleType:
    """The file as a module, with `growing` in the place of two functions of NumPy."""
    text = path.read_text(encoding="utf-8", errors="replace")
    module = ModuleType(key)
    module.__dict__.update(__file__=str(path), growing=growing)
    sys.modules[key] = module
    try:
        code = re.sub(r"\bnp\.(append|union1d)\(", r"growing.\1(", text)
        exec(compiled(code, str(path)), module.__dict__)  # a file of the installed package
    except BaseException:
        del sys.modules[key]
        raise
    return module


def parameters(name: str) -> dict[str, float]:
    """The parameters a problem can be made with, in order, with their defaults.

    Parameters
    ----------
    name : str
        As in CUTEst.

    Examples
    --------
    >>> from auglag.problems import cutest
    >>> cutest.parameters("HANGING")
    {'NX': 3.0, 'NY': 3.0}
    """
    found = _parameters(problem_file(name))
    return {key: default for key, (_, default) in sorted(found.items(), key=lambda item: item[1][0])}


def _parameters(path: Path) -> dict[str, tuple[int, float]]:
    text = path.read_text(encoding="utf-8", errors="replace")
    given = re.findall(r"v_\['([^']+)'\]\s*=\s*(?:int|float)\(args\[(\d+)\]\)", text)
    found = {}
    for key, place in given:
        default = re.search(rf"v_\['{re.escape(key)}'\]\s*=\s*(?:int|float)\(([^()]+)\);\s*#\s*SIF file default", text)
        found[key] = (int(place), float(default.group(1)) if default else float("nan"))
    return found


def _arguments(name: str, path: Path, params: Params) -> list[float]:
    if params is None:
        return []
    known = _parameters(path)
    if not isinstance(params, Mapping):
        values: list[Any] = [params] if isinstance(params, numbers.Real) else list(cast("Sequence[float]", params))
        if len(values) > len(known):
            raise InputError(
                f"cutest.load: {name} takes {len(known)} parameters ({', '.join(known)}), got {len(values)} in params"
            )
        return values
    for key in params:
        if key not in known:
            raise InputError(f"cutest.load: {name} has no parameter {key!r}; it has {', '.join(known) or 'none'}")
    last = max((known[key][0] for key in params), default=-1)
    places = {place: params.get(key, default) for key, (place, default) in known.items()}
    return [places[i] for i in range(last + 1)]
