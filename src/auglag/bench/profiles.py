"""Performance profiles and data profiles: pure functions of records.

A solver is a record's title, a problem its instance (name, parameters, seed). Two records of one solver on one problem
are an error: which of them counts is not for a profile to decide. A solver without a record on a problem has failed
there (`Profile.missing` says where), and a problem that nobody solves stays in the denominator.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from auglag._typing import Vector
from auglag.bench.record import TOLERANCES, Record
from auglag.errors import InputError

Cost = Callable[[Record], float]
Solved = Callable[[Record], bool]
Grid = dict[str, dict[str, Record]]
Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

#: The paper's ratio of a run that failed; its profiles are shown for 1 <= alpha < 100.
FAILURE_RATIO = 100.0


# ------------------------------------------------------------------------------------------------- costs and predicates


def gradients(record: Record) -> float:
    """Points at which grad f or the Jacobian was asked for, as the harness counts them: the cost for all solvers."""
    return float(record.gradients)


def subproblem_gradients(record: Record) -> float:
    """Gradients of the augmented Lagrangian that the inner solver asked for (`Record.subproblem_gradients`)."""
    return float(record.subproblem_gradients)


def cpu(record: Record) -> float:
    """CPU seconds of the solver; give `floor=` the resolution you trust, such as 0.01."""
    return record.cpu


def judged(tolerance: float) -> Solved:
    """Solved is what the judge accepts at this tolerance, one of `TOLERANCES`."""
    if tolerance not in TOLERANCES:
        raise InputError(f"tolerance must be one of {TOLERANCES}, got {tolerance!r}")
    return lambda record: record.solved(tolerance)


def residual_below(eps: float) -> Solved:
    """Solved is the paper's own test: R with the solver's multipliers is at most eps. Without multipliers it is not.

    In the last iteration of a history, too: with explicit slacks R of the loop contains them, R of the point does not,
    and Algorithm 1 ends by the first. A run whose gradients, counted as by `subproblem_gradients`, are beyond its limit
    has not made it in time.
    """
    if not 0.0 < eps < math.inf:
        raise InputError(f"eps must be positive and finite, got {eps!r}")

    def solved(record: Record) -> bool:
        last = record.last_residual
        in_time = subproblem_gradients(record) <= record.run.limits.gradients
        return record.residual <= eps and (last is None or last <= eps) and in_time

    return solved


# ------------------------------------------------------------------------------------------------------------ the grid


def instance(record: Record) -> str:
    """The name of the problem with its parameters and its seed, where it has them."""
    run = record.run
    name = run.problem
    if run.params:
        name += f"({json.dumps(run.params)[1:-1] if isinstance(run.params, list | tuple | dict) else run.params})"
    return f"{name} #{run.seed}" if run.seed else name


def grid(records: Iterable[Record]) -> Grid:
    """Solver -> problem -> record, solvers in the order of their first record."""
    table: Grid = {}
    for record in records:
        column = table.setdefault(record.title, {})
        name = instance(record)
        if name in column:
            raise InputError(
                f"records must hold one run of each solver on each problem, got two of {record.title!r} on {name}: "
                "select one setting, or give runs with different options different labels"
            )
        column[name] = record
    return table


def axes(table: Grid, solvers: Sequence[str] | None, problems: Iterable[str] | None) -> tuple[list[str], list[str]]:
    """The solvers and the problems to be looked at: those asked for, else all that have a record, problems sorted."""
    names = list(table) if solvers is None else list(solvers)
    for name in names:
        if name not in table:
            raise InputError(f"solvers must be titles of records, one of {sorted(table)}, got {name!r}")
    if len(set(names)) != len(names):
        raise InputError(f"solvers must be different, got {names!r}")
    asked = {name for column in table.values() for name in column} if problems is None else set(problems)
    if not names or not asked:
        raise InputError("records must hold at least one run of at least one solver, got none")
    return names, sorted(asked)


def _cost(record: Record, cost: Cost, floor: float) -> float:
    value = float(cost(record))
    if not 0.0 <= value < math.inf:
        raise InputError(f"cost must be finite and not negative where a run is solved, got {value!r} for {record.run}")
    return max(value, floor)


def checked_floor(floor: float) -> float:
    """The least cost that tells runs apart, as a positive number."""
    if not 0.0 < floor < math.inf:
        raise InputError(f"floor must be positive and finite, got {floor!r}")
    return float(floor)


# ------------------------------------------------------------------------------------------------------------ profiles


@final
@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One step function for each solver: the fraction of all problems whose position is at most alpha.

    `positions[i, j]` is the smallest alpha at which problem i counts for solver j. A failure is infinite, or `limit`
    where that is finite; the domain is start <= alpha < limit, so a failure counts nowhere in it.
    """

    solvers: tuple[str, ...]
    problems: tuple[str, ...]
    positions: Floats
    solved: Booleans  #: whether solver j solved problem i, same shape
    start: float  #: 1 for performance ratios, 0 for data profiles
    limit: float  #: 100 in the paper's form, else infinite
    missing: tuple[tuple[str, str], ...]  #: (solver, problem) without a record, counted as failures

    def value(self, solver: str, alpha: float) -> float:
        """The fraction of the problems at alpha."""
        if not self.start <= alpha < self.limit and not (alpha == math.inf == self.limit):
            raise InputError(f"alpha must lie in [{self.start:g}, {self.limit:g}), got {alpha!r}")
        j = self._index(solver)
        return float(np.mean(self.solved[:, j] & (self.positions[:, j] <= alpha)))

    def curve(self, solver: str) -> tuple[Vector, Vector]:
        """Where the solver's step function jumps, and its value from there on; the first point is at `start`."""
        j = self._index(solver)
        at = self.positions[self.solved[:, j], j]
        jumps, counts = np.unique(at[at < self.limit], return_counts=True)
        values = np.cumsum(counts) / len(self.problems)
        if not jumps.size or jumps[0] > self.start:
            jumps, values = np.insert(jumps, 0, self.start), np.insert(values, 0, 0.0)
        return jumps, values

    def solved_fraction(self, solver: str) -> float:
        """The fraction that the solver solves at whatever cost: the uncapped profile's value at infinity."""
        return float(np.mean(self.solved[:, self._index(solver)]))

    def _index(self, solver: str) -> int:
        if solver not in self.solvers:
            raise InputError(f"solver must be one of {list(self.solvers)}, got {solver!r}")
        return self.solvers.index(solver)


def performance_profile(
    records: Iterable[Record],
    *,
    cost: Cost = gradients,
    solved: Solved | None = None,
    solvers: Sequence[str] | None = None,
    problems: Iterable[str] | None = None,
    floor: float = 1.0,
    failure_ratio: float = math.inf,
) -> Profile:
    """The profile of Dolan and More: positions are cost ratios to the cheapest solver that solves the problem.

    `failure_ratio` infinite is the uncapped form, `FAILURE_RATIO` the paper's (the same curves on 1 <= alpha < 100).
    `solved` is the judge at 1e-6 if not given. Costs below `floor` count as `floor`, so that a run at no cost has a
    ratio; a solver that asks for no gradients at all has no meaningful cost in gradients.
    """
    if not failure_ratio > 1.0:
        raise InputError(f"failure_ratio must be above 1, got {failure_ratio!r}")
    table = grid(records)
    names, rows = axes(table, solvers, problems)
    costs, ok, missing = costs_of(table, names, rows, cost, solved or judged(1e-6), checked_floor(floor))
    best = costs.min(axis=1, keepdims=True)
    positions = np.full_like(costs, failure_ratio)
    np.divide(costs, best, out=positions, where=ok)
    return Profile(tuple(names), tuple(rows), positions, ok, 1.0, failure_ratio, missing)


def data_profile(
    records: Iterable[Record],
    *,
    cost: Cost = gradients,
    solved: Solved | None = None,
    solvers: Sequence[str] | None = None,
    problems: Iterable[str] | None = None,
) -> Profile:
    """The fraction of the problems solved within kappa (n + 1) gradients; positions are kappa.

    The unit, kappa = 1, is n + 1 gradients. More and Wild count values in units of n + 1 of them, the price of one
    gradient by differences; here derivatives are given, and the unit only makes problems of different size comparable.
    """
    table = grid(records)
    names, rows = axes(table, solvers, problems)
    costs, ok, missing = costs_of(table, names, rows, cost, solved or judged(1e-6), 0.0)
    sizes = np.array([max((table[s][p].n for s in table if p in table[s]), default=0) for p in rows], dtype=float)
    if np.any((sizes <= 0) & ok.any(axis=1)):
        raise InputError(f"records of solved problems must have n > 0, got 0 for {rows[int(np.argmin(sizes))]}")
    positions = np.full_like(costs, math.inf)
    np.divide(costs, sizes[:, None] + 1.0, out=positions, where=ok)
    return Profile(tuple(names), tuple(rows), positions, ok, 0.0, math.inf, missing)


def costs_of(
    table: Grid, names: list[str], rows: list[str], cost: Cost, solved: Solved, floor: float
) -> tuple[Floats, Booleans, tuple[tuple[str, str], ...]]:
    """Costs (infinite where not solved), which are solved, and which are missing."""
    costs = np.full((len(rows), len(names)), math.inf)
    missing = []
    for j, name in enumerate(names):
        for i, problem in enumerate(rows):
            record = table[name].get(problem)
            if record is None:
                missing.append((name, problem))
            elif solved(record):
                costs[i, j] = _cost(record, cost, floor)
    return costs, np.isfinite(costs), tuple(missing)
