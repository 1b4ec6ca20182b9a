"""What a run aims at by what it has done: inner tolerances, the stopping test, when infeasibility is suspected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auglag.algorithm.rules import Constant, Geometric, ToleranceRule
from auglag.algorithm.stopping import EXTRA, MORE, Stopping
from auglag.inner.qp import QPModel
from auglag.strategy.accelerator import AIM

if TYPE_CHECKING:
    from auglag.strategy.run import Run

#: A run turns to restoration at most this often.
RESTORATIONS = 2


def stopping(run: Run) -> Stopping:
    """The test after every iteration."""
    constrained = run.problem.m > 0
    extra = MORE if run.by_models() else EXTRA
    largest = run.settings.largest_penalty
    return Stopping(run.tol, run.budget, constrained, aim(run), largest, extra, suspicion(run))


def tolerance(run: Run) -> ToleranceRule:
    """The rule given, or a geometric sequence that ends where the stopping test is sure to be met."""
    assert run.form is not None
    target = 0.5 * aim(run) * (run.tol * min(1.0, run.form.scaling.sf))
    if run.problem.m == 0:
        return Constant(target)
    if run.settings.tolerance is not None:
        return run.settings.tolerance
    return Geometric(first=max(0.1, target), ratio=0.1, floor=target)


def aim(run: Run) -> float:
    """The fraction of tol that the loop aims at."""
    if not run.problem.m:  # the inner tolerance is the tolerance; Newton's last steps cost little
        return AIM if isinstance(run.inner, QPModel) else 1.0
    return min(run.settings.aim, AIM) if run.by_models() else run.settings.aim


def suspicion(run: Run) -> int | None:
    """Penalty increases in vain that call for a feasibility check; twice as many after the first, then no more."""
    if not run.settings.restoration or run.restorations >= RESTORATIONS:
        return None
    return 4 if run.restorations == 0 else 8
