"""When Algorithm 1 ends: line 4 of the paper, and the ways in which it cannot go on."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import final

from auglag.algorithm import algencan, formulas
from auglag.algorithm.history import History
from auglag.algorithm.status import Status
from auglag.budget import Budget
from auglag.inner.base import InnerStatus


@final
@dataclass(frozen=True, slots=True)
class Stopping:
    """The stopping test R(x_{k+1}, yhat_{k+1}) <= tol in the user's units, and everything else that ends a run."""

    tol: float
    budget: Budget
    constrained: bool
    aim: float = 1.0
    largest_penalty: float = formulas.LARGEST_PENALTY
    by_newton: bool = False  #: the inner solver's last steps are Newton's, so that going on from tol costs little
    #: Iterations in a row without less violation, though the penalty grew, that call for a feasibility check.
    suspicion: int | None = formulas.VAIN_INCREASES
    #: With constraints, whether a run that gets nowhere, or whose subproblems have no lower bound, ends before a limit.
    #: Without them it always does: there is one subproblem, and what could not be done in it will not be done again.
    gives_up: bool = True
    sup_norms: bool = False  #: ALGENCAN's tests, entry by entry, instead of R <= tol

    def __call__(self, history: History, status: InnerStatus, limit: str = "") -> Status | None:
        """None to go on. INFEASIBLE, and UNBOUNDED with constraints, are suspicions for the caller to confirm."""
        last = history.last
        if self.solved(history):
            return Status.SOLVED
        if self.sup_norms and algencan.infeasible(history):
            return Status.INFEASIBLE
        if status is InnerStatus.BUDGET:
            return Status.TIME_LIMIT if limit == "seconds" else Status.EVALUATION_LIMIT
        if status is InnerStatus.INTERRUPTED:
            return Status.INTERRUPTED
        if status is InnerStatus.UNDEFINED:
            return Status.NON_FINITE
        gives_up = self.gives_up or not self.constrained
        hopeless = not self.constrained or last.beta >= formulas.UNBOUNDED_PENALTY
        if gives_up and hopeless and status is InnerStatus.EDGE:
            return Status.NON_FINITE
        if gives_up and status is InnerStatus.UNBOUNDED and self._looks_unbounded(history):
            return Status.UNBOUNDED
        if self.suspicion is not None and self._looks_infeasible(history, self.suspicion):
            return Status.INFEASIBLE
        if last.k >= self.budget.outer_limit:
            return Status.ITERATION_LIMIT
        if gives_up and self._stuck(history):
            return Status.STUCK
        return Status.PENALTY_LIMIT if last.beta > self.largest_penalty else None

    def solved(self, history: History) -> bool:
        """R <= aim * tol; or R <= tol, when another iteration cannot be expected to do better."""
        last = history.last
        if self.sup_norms:
            return algencan.solved(history)
        if not (last.usable and last.residual <= self.tol):
            return False
        if last.residual <= self.aim * self.tol:
            return True
        if last.inner_status != InnerStatus.CONVERGED.name and not self._halved(history):
            return True
        extra = formulas.EXTRA_BY_NEWTON if self.by_newton else formulas.EXTRA
        return sum(it.residual <= self.tol for it in history.iterations if it.usable) > extra

    def _halved(self, history: History) -> bool:
        """Whether the last steps are Newton's and the residual still fell by half: then rounding is not reached yet."""
        before = [it.residual for it in history.iterations[:-1] if it.usable]
        return self.by_newton and bool(before) and history.last.residual <= 0.5 * min(before)

    def _looks_unbounded(self, history: History) -> bool:
        """Without constraints at once; with them, every few subproblems in a row that had no lower bound."""
        if not self.constrained or history.last.beta >= formulas.UNBOUNDED_PENALTY:
            return True
        in_a_row = 0
        for it in reversed(history.iterations):
            if it.inner_status != InnerStatus.UNBOUNDED.name:
                break
            in_a_row += 1
        return in_a_row % formulas.UNBOUNDED_IN_A_ROW == 0

    def _looks_infeasible(self, history: History, times: int) -> bool:
        """The violation, which is not small, did not fall for `times` iterations, though the penalty grew."""
        if not (history.last.usable and formulas.clearly_violated(history.last.user_violation, self.tol)):
            return False
        violations, betas = history.violations(), [it.beta for it in history.iterations if it.usable]
        if len(betas) <= times or betas[-1] <= betas[-1 - times]:
            return False
        recent = violations[-1 - times :]
        return all(formulas.hardly_less(now, before) for before, now in itertools.pairwise(recent))

    def _stuck(self, history: History) -> bool:
        """No better residual for a while, although the inner solver tried and failed every time."""
        usable = [it for it in history.iterations if it.usable]
        if not self.constrained and usable:  # the same subproblem again is worth while after an acceleration only
            times = 2 if self.by_newton else 1
            if len(usable) > times and not any(it.inner_iterations + it.acceleration_steps for it in usable[-times:]):
                return True  # nothing moved, and nothing will
            return [it.inner_status for it in usable[-times:]] == times * [InnerStatus.STALLED.name]
        last = formulas.STUCK_AFTER
        if len(usable) <= last:
            return False
        recent = usable[-last:]
        before = min(it.residual for it in usable[:-last])
        no_better = bool(formulas.hardly_less(min(it.residual for it in recent), before))
        return no_better and all(it.inner_status != InnerStatus.CONVERGED.name for it in recent)
