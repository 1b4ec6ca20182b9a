"""Solvers under test, one file each. To add one: write the file, add its class to `_CLASSES`."""

from __future__ import annotations

import functools
import hashlib
import importlib
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auglag._names import nearest
from auglag.bench.baselines.alpaqa import Alpaqa
from auglag.bench.baselines.auglag import Auglag
from auglag.bench.baselines.base import Answer, Baseline
from auglag.bench.baselines.cobyqa import Cobyqa
from auglag.bench.baselines.ipopt import Ipopt, IpoptLimitedMemory, OldIpopt
from auglag.bench.baselines.nlopt import NloptAuglag
from auglag.bench.baselines.scipy_slsqp import Slsqp
from auglag.bench.baselines.trust_constr import TrustConstr, TrustConstrBarrier
from auglag.bench.baselines.uno import Uno
from auglag.errors import InputError, OptionError

__all__ = ["BASELINES", "Answer", "Baseline", "available", "complete", "get"]

_CLASSES: tuple[type[Baseline], ...] = (
    *(Auglag, Slsqp, TrustConstr, TrustConstrBarrier, Cobyqa),
    *(Ipopt, IpoptLimitedMemory, OldIpopt, NloptAuglag, Uno, Alpaqa),
)

#: Name -> solver.
BASELINES: dict[str, Baseline] = {cls.name: cls() for cls in _CLASSES}


def get(name: str) -> Baseline:
    """The solver of this name; `file.py:Class` and `package.module:Class` name a `Baseline` of your own."""
    if ":" in name:
        return _own(name)
    if name.endswith(".py"):
        raise InputError(f"solver: name the class, too, as in {name}:MySolver")
    if name not in BASELINES:
        raise OptionError(f"solver must be one of the known names, got {name!r}{nearest(name, BASELINES)}")
    return BASELINES[name]


@functools.cache
def _own(name: str) -> Baseline:
    """A user's class, from a file or an importable module."""
    where, _, attribute = name.rpartition(":")
    if where.endswith(".py"):
        if not Path(where).is_file():
            raise InputError(f"solver: there is no file {where!r}")
        found = runpy.run_path(where).get(attribute)
    else:
        try:
            found = getattr(importlib.import_module(where), attribute, None)
        except ImportError as error:
            raise InputError(f"solver: module {where!r} cannot be imported: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Baseline)):
        raise InputError(f"solver: {attribute!r} of {where!r} must be a class derived from Baseline, got {found!r}")
    made = found()
    if where.endswith(".py") and not made.requires:
        content = hashlib.sha256(Path(where).read_bytes()).hexdigest()[:12]
        made.version = lambda: f"{Path(where).name} {content}"  # type: ignore[method-assign]
    return made


def complete(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run of this solver, with its defaults filled in."""
    defaults = get(name).defaults
    for option in options:
        if option not in defaults:
            raise InputError(f"solver {name!r} has no option {option!r}{nearest(option, defaults)}")
    return {**defaults, **options}


def available() -> dict[str, str]:
    """Name -> empty if the solver can run here, else the reason why not."""
    return {name: baseline.unavailable() for name, baseline in BASELINES.items()}
