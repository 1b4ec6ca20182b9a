"""The steps of a run, of every kind: what is kept of each, and how the kinds are called."""

from __future__ import annotations

from typing import Final, NamedTuple, final

INNER: Final = "inner"  #: an iteration of an inner solver on a subproblem
NEWTON: Final = "newton"  #: a step of Newton's method on the KKT conditions
INTERIOR: Final = "interior"  #: a step of interior points
OUTER: Final = "outer"  #: an outer iteration: a row of the history
KINDS = (INNER, NEWTON, INTERIOR, OUTER)


@final
class Step(NamedTuple):
    """One accepted step."""

    kind: str  #: one of `KINDS`
    attempt: int  #: 0 from x0, then the number of the restart
    k: int  #: the outer iteration that it is a part of
    #: What the method itself measures: of an outer iteration R; of Newton's method and interior points the largest KKT
    #: error; of an inner iteration the stationarity of the subproblem, in the user's units.
    residual: float
