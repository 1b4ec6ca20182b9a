"""What has happened in a run so far, outer iteration by outer iteration: all that a rule may look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final


@final
@dataclass(frozen=True, slots=True)
class SupNorms:
    """What rules in sup norms look at (`algencan`): largest entries, in the units of the algorithm if not said."""

    objective: float  #: f(x_{k+1})
    progress: float  #: of c(x_{k+1}) - s, s the minimising slack: feasibility and complementarity
    violation: float  #: of the violation, in the user's units
    stationarity: float  #: of P(x - grad L(x, yhat)) - x, P the projection on the bounds
    infeasibility: float  #: the same with the gradient of half the squared violation


@final
@dataclass(frozen=True, slots=True)
class Iteration:
    """One outer iteration k: what was chosen, and what the inner solve found. Norms are 2-norms."""

    k: int
    beta: float
    eta: float
    usable: bool  #: False if the subproblem was unbounded or undefined; then x and y stay
    violation: float  #: ||c(x_{k+1})|| in the units of the algorithm (scaled)
    stationarity: float  #: dist(-grad L_beta(x_{k+1}, y_k), dg(x_{k+1})), scaled
    residual: float  #: R(x_{k+1}, yhat_{k+1}) in the user's units
    user_violation: float  #: the second half of R
    objective: float  #: f(x_{k+1}) + g(x_{k+1}), user's units
    multiplier_norm: float  #: ||yhat_{k+1}||, user's units
    inner_status: str
    inner_iterations: int
    evaluations: int  #: gradients of the augmented Lagrangian in this iteration
    undefined: int = 0  #: among them, points at which a function was not finite
    acceleration_steps: int = 0  #: steps of the acceleration just before this iteration
    attempt: int = 0  #: 0 from x0, then the number of the restart
    sup: SupNorms | None = None  #: for rules in sup norms


@dataclass(slots=True)
class History:
    """The start and all outer iterations so far."""

    objective: float  #: f(x_1), scaled
    violation: float  #: ||c(x_1)||, scaled
    #: A violation (user's units) so far below the tolerance that no penalty need be raised for it: at that size it is
    #: rounding that decides whether it shrinks. 0 for the paper's rule as printed; for rules in sup norms, eps_feas.
    negligible: float = 0.0
    iterations: list[Iteration] = field(default_factory=list)
    optimal: float = 0.0  #: for rules in sup norms, eps_opt: the stationarity that is asked for

    @property
    def k(self) -> int:
        """The number of the iteration to come, from 1."""
        return len(self.iterations) + 1

    @property
    def last(self) -> Iteration:
        """The iteration just finished."""
        if not self.iterations:
            raise IndexError("no iteration yet: a rule has to return its first value when history.iterations is empty")
        return self.iterations[-1]

    @property
    def inner_iterations(self) -> int:
        """Inner iterations so far."""
        return sum(it.inner_iterations for it in self.iterations)

    def violations(self) -> list[float]:
        """||c(x_1)||, then ||c(x_{k+1})|| of the usable iterations."""
        return [self.violation] + [it.violation for it in self.iterations if it.usable]
