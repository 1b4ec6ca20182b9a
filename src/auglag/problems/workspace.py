"""What belongs to one run on a problem: calls counted, points known, limits, accuracy of differences."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, final

from auglag._typing import Vector
from auglag.derivatives.noise import Precision


@dataclass(slots=True)
class Counts:
    """True calls of the user's functions, finite differences included."""

    nfev: int = 0
    njev: int = 0
    nhev: int = 0
    constr_nfev: int = 0
    constr_njev: int = 0
    constr_nhev: int = 0

    def copy(self) -> Counts:
        """A snapshot."""
        return Counts(*self._values())

    def since(self, earlier: Counts) -> Counts:
        """The calls made after the snapshot `earlier`."""
        return Counts(*map(operator.sub, self._values(), earlier._values()))

    def plus(self, other: Counts) -> Counts:
        """The sum of two counts."""
        return Counts(*map(operator.add, self._values(), other._values()))

    def add(self, other: Counts) -> None:
        """Count these calls, too."""
        for name, value in other.as_dict().items():
            setattr(self, name, getattr(self, name) + value)

    def as_dict(self) -> dict[str, int]:
        """Field name -> count."""
        return dict(zip(self.__slots__, self._values(), strict=True))

    def _values(self) -> tuple[int, ...]:
        return self.nfev, self.njev, self.nhev, self.constr_nfev, self.constr_njev, self.constr_nhev


@final
@dataclass(slots=True)
class Workspace:
    """What belongs to one run on a problem and not to the problem, so that runs in several threads do not meet."""

    counts: Counts = field(default_factory=Counts)
    guard: Callable[[], None] | None = None  #: called before each new point; raises to end a run
    points: dict[bytes, Any] = field(default_factory=dict)  #: x.tobytes() -> the last points, oldest first
    level: int = 0  #: accuracy of finite differences: 0 as asked for, 1 central, 2 extrapolated
    sizes: Vector | None = None  #: of the variables, at the start of the run (`units.typical`)
    unit: Vector | None = None  #: sizes that are far below 1, as powers of two: finite differences take steps like that
    ended: list[Counts] = field(default_factory=list)  #: of runs that ended, to be added when `counts` is asked for
    kept: dict[Any, Any] = field(default_factory=dict)  #: what a source keeps of its last evaluation, by its own keys
    precision: Precision | None = None  #: of the values of f and c; None: nobody asked

    def ask_guard(self) -> None:
        """Let a limit end the run."""
        if self.guard is not None:
            self.guard()

    def last(self, name: Any, key: bytes, make: Callable[[], Any]) -> Any:
        """What was made under this name for the same key the last time, else what `make` makes now."""
        known = self.kept.get(name)
        if known is None or known[0] != key:
            known = self.kept[name] = (key, make())
        return known[1]


#: id of a problem -> the workspace of the innermost run on it. Every thread has a value of its own.
WORKSPACES: ContextVar[Mapping[int, Workspace]] = ContextVar("workspaces", default=MappingProxyType({}))


@final
class Running:
    """A run on a problem, with a workspace of its own (`AbstractProblem.running`).

    A class: `contextmanager` writes to exceptions that pass through it.
    """

    def __init__(self, problem: Any) -> None:
        self._problem = problem

    def __enter__(self) -> None:
        self._outer = outer = self._problem.workspace
        self._before = outer.counts.copy()  # what the run itself counts is the difference
        points = {key: point.copy() for key, point in list(outer.points.items())}
        self._own = Workspace(self._before.copy(), None, points, outer.level)
        self._token = WORKSPACES.set({**WORKSPACES.get(), id(self._problem): self._own})

    def __exit__(self, *_: object) -> None:
        WORKSPACES.reset(self._token)
        self._outer.ended.append(self._own.counts.since(self._before))
