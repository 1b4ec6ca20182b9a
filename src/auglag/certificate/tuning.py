"""The numbers of the certificate and of the best point of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Tuning:
    """All of them were chosen by trial."""

    #: A row or variable this near to a side (relative to max(1, |side|)) may carry a multiplier of that side's sign.
    #: The first is what solvers usually reach; where R is then too large the others are tried, in this order.
    activity: tuple[float, ...] = (1e-6, 1e-8, 1e-4, 1e-2)
    #: Violated rows that a certificate names, the worst ones: more would only fill the memory.
    most_named: int = 1000
    #: Up to so many columns the least-squares problem is solved by an active-set method, which is exact but takes time
    #: of the order of columns^3; beyond, by an interior one (both are `scipy.optimize.lsq_linear`'s).
    exact_columns: int = 150
    #: Tolerance of that solver on the relative change of its objective: near rounding error.
    least_squares_tol: float = 1e-14
    #: With a g that is not separable, y and the subgradient are improved in turn: so many times at most, ...
    alternations: int = 50
    #: ... and until y changes by no more than this, relative to max(1, |y|).
    alternations_end: float = 1e-12
    #: Multipliers are fitted to the best point of a run at its end only while their matrix has at most this many
    #: entries: beyond, the fit takes longer than a step of the method.
    largest_fit: int = 100_000
    #: Without rows, residuals above this multiple of tol say less than the objective: at a kink they say nothing.
    nearly: float = 1e3
    #: Fitted multipliers take the place of the run's own where R is at most this part of theirs.
    fitted_better: float = 0.5


TUNING = Tuning()
