"""Measured numbers of gradients against eps, beside the exponents of the paper's complexity theorems.

The problem meets the assumptions: f is a mean of sigmoid losses, smooth and nonconvex; the constraints
(q_j'x)^2 / 2 = 1/2, j = 1, 2, 3, have a nonconvex feasible set on which the Jacobian has full rank; g is the indicator
of a box. Where constraints are stochastic, every sample has its own multiple of (q_j'x)^2, with mean 1. One stochastic
gradient is D(x, y, z) of one row for f, and two independent rows for each constraint.

Everything runs with `preset="paper"`: Algorithm 1 with proximal gradient, or with Algorithm 2 (restarts from x_k as
printed) and SGD or PStorm. eta'_k = 1/k does not depend on eps, so that one run down to the least eps has the runs to
all larger ones inside it: the work for eps is that until the first iterate with R <= eps on the exact functions.

Theory, up to logarithms (`auglag.theory.exponents`): proximal gradient eps^-3; stochastic proximal gradient eps^-6
(deterministic constraints) and eps^-7; PStorm eps^-4 and eps^-5. These are worst cases, with constants that are not
small: a slope above the bound between two values of eps does not contradict them, one that stays would.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from auglag import theory
from auglag._typing import Matrix, Vector
from auglag.paper.jobs import Record, Watch, complete, load, publish, unfinished

N, ROWS, ROWS_OF_C = 10, 2000, 3
#: Trials: each has its own data, start and seed.
TRIALS = 10
#: A sampled run ends after so many stochastic gradients.
LIMIT = 4_000_000
#: A deterministic one after so many gradients.
DETERMINISTIC_LIMIT = 100_000
QUICK_LIMIT = 100_000


@final
@dataclass(frozen=True, slots=True)
class Way:
    """One curve: an inner method, and whether the constraints are sampled, too."""

    name: str
    method: str  #: as `auglag.theory.exponents` calls it
    noisy_constraint: bool
    levels: tuple[float, ...]  #: eps, falling

    @property
    def bound(self) -> float:
        """The exponent of 1/eps in the theory."""
        return theory.exponents(self.method, stochastic_constraints=self.noisy_constraint)[1]

    @property
    def sampled(self) -> bool:
        """Whether work is counted in stochastic gradients; if not, in proximal gradient iterations on all rows."""
        return self.method != "pg"


def _levels(first: float, decades: float, per_decade: int = 4) -> tuple[float, ...]:
    """Falling from `first`, as round numbers of three digits."""
    count = round(decades * per_decade)
    return tuple(float(f"{first * 10 ** (-i / per_decade):.3g}") for i in range(count + 1))


#: Levels in half a decade and in a whole one, both ends included.
HALF, DECADE = 3, 5
_SAMPLED = _levels(1.78, 1.75)
WAYS = {
    way.name: way
    for way in (
        Way("proximal gradient", "pg", False, _levels(1.78, 2.5)),
        Way("SGD, deterministic c", "spg", False, _SAMPLED),
        Way("SGD, stochastic c", "spg", True, _SAMPLED),
        Way("PStorm, deterministic c", "pstorm", False, _SAMPLED),
        Way("PStorm, stochastic c", "pstorm", True, _SAMPLED),
    )
}


@final
@dataclass(frozen=True, slots=True)
class Job:
    """One method, one trial: a run down to the least eps."""

    name: str
    trial: int
    limit: int

    @property
    def key(self) -> str:
        return f"{self.name}/{self.trial}/{self.limit}"

    def run(self) -> Record:
        return measure(self)

    def whole(self, record: Record) -> bool:
        return record.get("eps") == list(WAYS[self.name].levels)


def problem_of(trial: int, *, noisy_constraint: bool) -> Any:
    """min mean_i sigmoid(-t_i a_i'x) s.t. mean_i s_ij^2 (q_j'x)^2 / 2 = 1/2, |x| <= 3, mean_i s_ij^2 = 1."""
    from auglag import prox
    from auglag.stochastic import LinearBlock, StochasticProblem

    rng = np.random.default_rng(trial)
    rows, weights = rng.standard_normal((ROWS, N)), rng.standard_normal(N)
    target = np.where(rows @ weights + 1.5 * rng.standard_normal(ROWS) > 0.0, 1.0, -1.0)
    directions = np.linalg.qr(rng.standard_normal((N, ROWS_OF_C)))[0].T
    blocks = [LinearBlock(rows, target, loss="sigmoid", objective=1.0, constraints=np.zeros(ROWS_OF_C))]
    for j, q in enumerate(directions):
        size = 1.0 + 0.25 * rng.standard_normal(ROWS if noisy_constraint else 1)
        size /= np.sqrt(np.mean(size**2))
        blocks.append(LinearBlock(np.outer(size, q), 0.0, loss="squared", constraints=np.eye(ROWS_OF_C)[j]))
    half = np.full(ROWS_OF_C, 0.5)
    return StochasticProblem(blocks, lower=half, upper=half, g=prox.Box(-3.0, 3.0))


def start(trial: int) -> Vector:
    """x_1 of a trial."""
    return np.random.default_rng(10_000 + trial).uniform(-3.0, 3.0, N)


def measure(job: Job) -> Record:
    """For every eps the gradients until R <= eps, None if the limit came first; and full evaluations until then."""
    way = WAYS[job.name]
    problem = problem_of(job.trial, noisy_constraint=way.noisy_constraint)
    course = _sampled(job, way, problem) if way.sampled else _deterministic(job, way, problem)
    work, full, residual = (np.array(column) for column in zip(*course, strict=True))
    first = [np.flatnonzero(residual <= eps) for eps in way.levels]
    return {
        "key": job.key,
        "eps": list(way.levels),
        "steps": [int(work[at[0]]) if at.size else None for at in first],
        "full": [int(full[at[0]]) if at.size else None for at in first],
    }


def _sampled(job: Job, way: Way, problem: Any) -> list[tuple[float, float, float]]:
    """(stochastic gradients, full-batch evaluations, R) at every iterate x_k."""
    from auglag.stochastic import SGD, InverseSqrt, PStorm, minimize

    method = (SGD if way.method == "spg" else PStorm)(step=InverseSqrt(1.0), batch=1)
    found = minimize(
        problem, start(job.trial), preset="paper", method=method, tol=way.levels[-1], seed=job.trial, max_epochs=None,
        max_gradients=job.limit,
    )  # fmt: skip
    rows = enumerate(found.trace, 1)
    return [(r["gradients"], i, r["residual"]) for i, r in rows if r["k"] == 0 or (r["accepted"] and r["p"] > 0)]


def _deterministic(job: Job, way: Way, problem: Any) -> list[tuple[float, float, float]]:
    """(proximal gradient iterations, gradients, R) at every iterate x_k."""
    import auglag
    from auglag.stochastic import FullBatchProblem

    found = auglag.minimize(
        FullBatchProblem(problem, start(job.trial)), preset="paper", inner="proximal-gradient", tol=way.levels[-1],
        budget=auglag.Budget(gradients=job.limit, inner=None, outer=20_000),
    )  # fmt: skip
    counts = np.cumsum([(row["inner_iterations"], row["evaluations"]) for row in found.history], axis=0)
    return [(i, g, row["residual"]) for (i, g), row in zip(counts, found.history, strict=True)]


def run(output: Path, *, quick: bool = False, workers: int = 2, watch: Watch | None = None) -> Path:
    """Measure, fit, draw, write `complexity.md`; finished runs in `output`/complexity.jsonl are kept.

    `watch` is told how many of how many are done.
    """
    from auglag.paper import complexity_report as report

    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    records = complete(_jobs(quick), output / "complexity.jsonl", workers, watch)
    found = fits(records, quick=quick)
    publish(("method", "trial", "eps", "work", "full_evaluations"), _rows(found), output / "complexity-runs.csv.gz")
    return report.write(found, _limit(quick), output)


def _rows(found: Mapping[str, Fit]) -> Iterator[tuple[str | int | float | None, ...]]:
    """Every trial at every eps, nothing where the limit came first: `work` is what is plotted, as a median."""
    for name, fit in found.items():
        for (trial, j), work in np.ndenumerate(fit.steps):
            counts = (int(work), int(fit.full[trial, j])) if math.isfinite(work) else (None, None)
            yield name, trial, float(fit.eps[j]), *counts


def remaining(output: Path, *, quick: bool = False) -> int:
    """How many runs `run` has still to make."""
    return len(unfinished(_jobs(quick), load(Path(output) / "complexity.jsonl")))


def _limit(quick: bool) -> int:
    return QUICK_LIMIT if quick else LIMIT


def _jobs(quick: bool) -> list[Job]:
    trials = range(3 if quick else TRIALS)
    return [
        Job(way.name, trial, _limit(quick) if way.sampled else DETERMINISTIC_LIMIT)
        for way in WAYS.values()
        for trial in trials
    ]


# ------------------------------------------------------------------------------------------------------------- fitting


@final
@dataclass(frozen=True, slots=True)
class Slope:
    """A slope of log(median work) against log(1/eps), with a 95 % bootstrap interval over the trials.

    Drawn trials are treated as all are: levels without work take no part; if one is not reached the slope is infinite.
    """

    first: float  #: from this eps
    last: float  #: to this one
    value: float
    low: float
    high: float


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """The work of one curve, and its slopes over all levels of eps and over half-decades."""

    way: Way
    eps: Vector
    steps: Matrix  #: (trials, eps), inf where the limit came first
    full: Matrix  #: full evaluations until then; inf likewise
    used: slice  #: the levels that take part: more than half of the trials worked until there, and got there
    whole: Slope
    last: Slope  #: over the last decade of the levels used, or all of them where they span less
    local: tuple[Slope, ...]

    def quantiles(self, *shares: float) -> list[Vector]:
        """Of the work over the trials, on the levels used; a trial that did not get there counts as inf."""
        return [quantile(self.steps[:, self.used], share) for share in shares]


def quantile(values: Matrix | Vector, share: float) -> Any:
    """Of every column; for 0.5 the ordinary median. Infinite values may take part, of which NumPy's own makes NaN."""
    ordered, place = np.sort(values, axis=0), share * len(values)
    return (ordered[math.ceil(place) - 1] + ordered[math.floor(place)]) / 2.0


def fits(records: Mapping[str, Record], *, quick: bool = False) -> dict[str, Fit]:
    """The fit of every curve."""
    jobs = _jobs(quick)
    return {name: _fit(way, [records[job.key] for job in jobs if job.name == name]) for name, way in WAYS.items()}


def _fit(way: Way, found: Iterable[Record]) -> Fit:
    records = list(found)
    steps, full = (np.array([_numbers(record[name]) for record in records]) for name in ("steps", "full"))
    eps, used = np.array(way.levels), _used(steps)
    x, work = eps[used], steps[:, used]
    local = [_slope(x[i : i + HALF], work[:, i : i + HALF]) for i in range(len(x) - HALF + 1)]
    return Fit(way, eps, steps, full, used, _slope(x, work), _slope(x[-DECADE:], work[:, -DECADE:]), tuple(local))


def _used(steps: Matrix) -> slice:
    """Work of 0 has no logarithm, and infinite work no slope: the levels between those where the median is either."""
    worked, reached = (int(np.sum(2 * np.sum(there, axis=0) > len(steps))) for there in (steps > 0, np.isfinite(steps)))
    return slice(steps.shape[1] - worked, reached)


def _numbers(column: Iterable[float | None]) -> list[float]:
    return [math.inf if value is None else float(value) for value in column]


def _slope(eps: Vector, steps: Matrix) -> Slope:
    if len(eps) < 2:
        return Slope(math.nan, math.nan, math.nan, math.nan, math.nan)
    x = np.log(1.0 / eps)

    def of(rows: Matrix) -> float:
        at = _used(rows)
        if at.stop < len(x) or at.stop - at.start < 2:
            return math.inf
        return float(np.polyfit(x[at], np.log(quantile(rows[:, at], 0.5)), 1)[0])

    rng = np.random.default_rng(0)
    drawn = np.array([of(steps[rng.integers(0, len(steps), len(steps))]) for _ in range(1000)])
    low, high = (float(quantile(drawn, share)) for share in (0.025, 0.975))
    return Slope(float(eps[0]), float(eps[-1]), of(steps), low, high)
