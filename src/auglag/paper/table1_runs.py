"""The runs that stand behind Table 1: with known constants, over all data, and beside Stoc-iALM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from auglag.paper import complexity
from auglag.paper.complexity import problem_of, start
from auglag.paper.jobs import Record, Runnable

#: The accuracy asked for on the Hock-Schittkowski problems, that of the paper's Table 2.
HS_EPS = 1e-3


#: Every so many of them are run, in their order.
HS_EVERY = 3


#: R to which work is compared on the other two problems.
FULL_EPS = (1e-1, 1e-2, 1e-3)


SAMPLED_EPS = (0.317, 0.1, 0.0317)


PASSES_EPS = (1e-1, 3e-2, 1e-2)


#: Trials on the problem of complexity, as many as there.
TRIALS = complexity.TRIALS


#: Limits of one run: gradients of augmented Lagrangians on the Hock-Schittkowski problems, in full batch (the slowest
#: trial of proximal gradient takes 18,572 to R <= 1e-2), and outer iterations.
HS_GRADIENTS, FULL_GRADIENTS, OUTER = 5_000, 30_000, 20_000


#: How the deterministic methods are called.
DETERMINISTIC: dict[str, dict[str, Any]] = {
    "iALM": {"preset": "ialm"},
    "iPPM": {"preset": "ippm"},
    "ALGENCAN": {"preset": "algencan"},
    "proposed, proximal gradient": {"preset": "paper", "inner": "proximal-gradient"},
    "proposed, L-BFGS-B": {"preset": "paper"},
    "auglag, default": {},
    "auglag, no second-order check": {"restarts": 0},
}


@final
@dataclass(frozen=True, slots=True)
class Known:
    """A deterministic method on one Hock-Schittkowski problem."""

    way: str
    problem: str

    @property
    def key(self) -> str:
        return f"hs/{self.way}/{self.problem}"

    def run(self) -> Record:
        from scipy.optimize import Bounds, NonlinearConstraint

        import auglag
        from auglag.problems.hock_schittkowski import get

        known = get(self.problem)
        rows = [NonlinearConstraint(row.fun, row.lower, row.upper, jac=row.jac) for row in known.rows]
        found = auglag.minimize(
            known.fun, known.x0, jac=known.grad, bounds=Bounds(known.lower, known.upper), constraints=rows, tol=HS_EPS,
            budget=auglag.Budget(gradients=HS_GRADIENTS, inner=None, outer=OUTER), **DETERMINISTIC[self.way],
        )  # fmt: skip
        return {
            "key": self.key,
            "gradients": found.njev if found.success else None,
            "residual": float(f"{found.certificate.residual:.6g}"),
        }

    def whole(self, record: Record) -> bool:
        return "residual" in record


@final
@dataclass(frozen=True, slots=True)
class FullBatch:
    """A deterministic method on the problem of complexity, with all its rows."""

    way: str
    trial: int
    eps: float
    limit: int

    @property
    def key(self) -> str:
        return f"full/{self.way}/{self.trial}/{self.eps:g}/{self.limit}"

    def run(self) -> Record:
        import auglag
        from auglag.stochastic import FullBatchProblem

        problem = FullBatchProblem(problem_of(self.trial, noisy_constraint=False), start(self.trial))
        budget = auglag.Budget(gradients=self.limit, inner=None, outer=OUTER)
        found = auglag.minimize(problem, tol=self.eps, budget=budget, **DETERMINISTIC[self.way])
        return {"key": self.key, "gradients": found.njev if found.success else None}

    def whole(self, record: Record) -> bool:
        return "gradients" in record


@final
@dataclass(frozen=True, slots=True)
class StocIALM:
    """Stoc-iALM on the problem of complexity with stochastic constraints."""

    trial: int
    limit: int

    @property
    def key(self) -> str:
        return f"stoc-ialm/{self.trial}/{self.limit}"

    def run(self) -> Record:
        from dataclasses import replace

        from auglag.stochastic import PRESETS, PStorm, minimize

        method = PRESETS["stoc-ialm"].method
        assert isinstance(method, PStorm)
        problem = problem_of(self.trial, noisy_constraint=True)
        found = minimize(
            problem, start(self.trial), preset="stoc-ialm", method=replace(method, batch=1), tol=SAMPLED_EPS[-1],
            seed=self.trial, max_epochs=None, max_gradients=self.limit,
        )  # fmt: skip
        rows = [row for row in found.trace if row["k"] > 0 and row["p"] > 0]
        first = [next((row["gradients"] for row in rows if row["residual"] <= eps), None) for eps in SAMPLED_EPS]
        return {"key": self.key, "eps": list(SAMPLED_EPS), "gradients": first}

    def whole(self, record: Record) -> bool:
        return record.get("eps") == list(SAMPLED_EPS)


def all_jobs(quick: bool) -> list[Runnable]:
    """Every run of the experiment."""
    from auglag.problems.hock_schittkowski import PROBLEMS

    trials, limit, full = (
        (2, complexity.QUICK_LIMIT, HS_GRADIENTS) if quick else (TRIALS, complexity.LIMIT, FULL_GRADIENTS)
    )
    names = list(PROBLEMS)[:: 8 if quick else HS_EVERY]
    jobs: list[Runnable] = [Known(way, name) for way in DETERMINISTIC for name in names]
    jobs += [FullBatch(way, t, eps, full) for way in DETERMINISTIC for t in range(trials) for eps in FULL_EPS]
    return [*jobs, *(StocIALM(trial, limit) for trial in range(trials))]
