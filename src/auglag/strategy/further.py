"""Whether another attempt follows one that ended, and which: the plan beyond one start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.status import Status
from auglag.strategy.tuning import Start, Tuning


@final
@dataclass(frozen=True, slots=True)
class Aftermath:
    """How things stand when an attempt has ended."""

    status: Status  #: how it ended
    residual: float  #: of the best point so far
    feasible: bool  #: whether x0 satisfies the constraints
    nearly: bool = False  #: whether the tolerance is nearly met
    limited: bool = False  #: whether it is met as far as rounding allows
    constrained: bool = True  #: whether there are any
    repeats: int = 0  #: starts elsewhere that ended where an earlier attempt did
    widened: bool = False  #: whether feasible points were looked for far away
    proved: bool = False  #: whether it is proved that there are none
    unusual: bool = False  #: whether variables, f or rows have sizes that the first attempt did not care for


def next_attempt(attempt: int, restarts: int, a: Aftermath, t: Tuning) -> int | None:
    """The number of the attempt to make next; None if there is none."""
    last = min(restarts, t.most_restarts)
    if a.limited or a.proved:
        return None
    if a.repeats >= (t.repeated_infeasible if a.status is Status.INFEASIBLE and a.widened else t.repeated_ends):
        return None
    return next((k for k in range(attempt + 1, last + 1) if _calls_for(a, t.start_of(k, last), t)), None)


@final
@dataclass(frozen=True, slots=True)
class End:
    """Where an attempt without a solution ended."""

    x: Vector  #: in the user's variables
    violation: float  #: there, in the user's units
    violated: bool  #: by much more than tol
    endless: bool  #: most of its subproblems had no lower bound
    infeasible: bool = False  #: restoration found no feasible point, from several starts

    def same_as(self, other: End, t: Tuning) -> bool:
        """Whether two attempts ended alike, so that a third one is likely to."""
        if self.infeasible and other.infeasible:
            return True
        if self.endless or other.endless:
            return self.endless and other.endless
        if self.violated and other.violated:
            larger = max(self.violation, other.violation)
            if abs(self.violation - other.violation) <= t.same_violation * larger:
                return True
        size = np.maximum(1.0, np.maximum(np.abs(self.x), np.abs(other.x)))
        return bool((np.abs(self.x - other.x) <= t.same_end * size).all())


def repeated(ends: Sequence[End], t: Tuning) -> bool:
    """Whether the last attempt ended where an earlier one did."""
    return any(ends[-1].same_as(end, t) for end in ends[:-1])


def _calls_for(a: Aftermath, start: Start | None, t: Tuning) -> bool:
    """Whether a start may lead to a solution.

    After INFEASIBLE only a start at another place may: the violation is stationary here. The best point may if it is
    near a solution. Where the tolerance is nearly met, or without constraints, nothing else may, and once is enough:
    other starts lead to other minima. The least violated point near a feasible x0 is x0 itself, which was tried. Other
    units help only where those of the user are unusual, and not with the last digits.
    """
    if start is not None and start.units:
        return a.unusual and not a.nearly
    if a.status is Status.INFEASIBLE:
        return start is not None and start.spread > 0.0
    near = a.residual <= t.near_residual
    if start is not None and start.near:
        return near
    if a.nearly or not a.constrained:
        return False
    return near if start is None else bool(start.spread) or not (a.feasible and start.feasible)
