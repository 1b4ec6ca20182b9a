"""The numbers of sensitivities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from auglag._constants import Constants


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Tuning(Constants):
    """The numbers, in the order in which they are met."""

    #: Largest condition number of the scaled KKT matrix whose solutions are shown: 1e12 leaves them four digits.
    condition: float = 1e12
    #: Largest KKT matrix that is taken apart by its eigenvalues, which costs about a second.
    dense: int = 1000
    #: Sweeps of scaling by the square roots of the largest entries (Ruiz 2001: a few bring all rows near 1).
    sweeps: int = 4
    #: Rounding errors of a gradient, in units of the precision times the sum of its terms. A few operations each.
    rounding: float = 10.0
    #: Tolerance of the quadratic problem behind a one-sided derivative: below the errors of its data.
    quadratic: float = 1e-9
    #: A result belongs to p if the residual of problem(p) there is at most this many times its own (or its `tol`):
    #: derivatives by differences are not the same digit by digit, and ten leaves them the last one.
    residual: float = 10.0


TUNING = Tuning()
