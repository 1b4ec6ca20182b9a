"""auglag itself, with every rule the experiments vary as an option."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

from auglag._typing import Vector
from auglag._version import __version__
from auglag.algorithm.algencan import AlgencanPenalty
from auglag.algorithm.history import History
from auglag.algorithm.rules import Adaptive, Always, DualRule, Geometric, PenaltyRule, PowerLaw, Short, ToleranceRule
from auglag.algorithm.status import Status
from auglag.bench.baselines.base import Answer, Baseline
from auglag.bench.counted import CountedProblem
from auglag.budget import Budget
from auglag.inner import LBFGSB, InnerSolver
from auglag.minimize import minimize
from auglag.strategy.settings import PRESETS, resolve

#: Columns of the history that are kept.
COLUMNS = ("k", "beta", "eta", "violation", "stationarity", "residual", "objective", "evaluations")


@final
class Auglag(Baseline):
    """`auglag.minimize` with a preset, a variant and, if given, gamma, tau, beta_1, eta'_k = 1/k^power and slacks.

    A named variant is run without acceleration, as in `minimize`, and the limit of the run on gradients is one on
    gradients of augmented Lagrangians, too. `memory`, `ftol`, `max_norm` and `plain` change the L-BFGS-B of the preset:
    the number of pairs, SciPy's test of the relative decrease, its norm, and whether it is SciPy's as it is
    (`LBFGSB.plain`). With `eta_ratio` eta'_k = eta_ratio^k; with `dual_waits` the multipliers are updated only after
    iterations in which the violation did not shrink enough.
    `derivatives`: 2 hands Hessians over, 1 hides them.
    """

    name = "auglag"
    requires = ()
    derivatives = 2
    defaults: Mapping[str, Any] = {
        "tol": 1e-8,
        "derivatives": 2,
        "preset": "default",
        "variant": None,
        "gamma": None,
        "tau": None,
        "beta": None,
        "eta_power": None,
        "eta_ratio": None,
        "dual_waits": False,
        "ftol": None,
        "memory": None,
        "max_norm": None,
        "plain": None,
        "inner": None,
        "slacks": None,
        "gives_up": None,
        "restarts": None,
        "outer": 1000,
        "inner_limit": 20_000,
    }

    def solve(self, problem: CountedProblem, options: Mapping[str, Any], seed: int) -> Answer:
        """Run it; a budget that ends the run still gives the best point."""
        problem.hide_hessians = options["derivatives"] < 2
        variant = options["variant"]
        gradients = None if variant is None else problem.limits.gradients
        problem.keeps_limit = gradients is not None
        result = minimize(
            problem,
            preset=options["preset"],
            tol=options["tol"],
            penalty=_penalty(options),
            dual=_dual(options),
            tolerance=_tolerance(options),
            inner=_inner(options),
            slacks=options["slacks"],
            budget=Budget(outer=options["outer"], inner=options["inner_limit"], gradients=gradients),
            acceleration=None if variant is None else False,
            restarts=options["restarts"],
            gives_up=options["gives_up"],
            check_derivatives=False,
        )
        if result.status is Status.EVALUATION_LIMIT and not problem.exhausted:
            problem.exhausted = f"{gradients} gradients of augmented Lagrangians"
        return Answer(
            x=result.x,
            claims_success=result.success,
            message=f"{result.status.name}: {result.message}",
            y=result.y,
            extra={
                "status": result.status.name,
                "beta": result.penalty,
                "outer": result.nit,
                "inner": result.nit_inner,
                "solver": result.inner,
            },
            history=[{name: float(row[name]) for name in COLUMNS} for row in result.history],
        )

    def check(self, options: Mapping[str, Any]) -> None:
        resolve(variant=options["variant"], preset=options["preset"], inner=_inner(options), slacks=options["slacks"])
        _penalty(options)

    def version(self) -> str:
        return f"auglag {__version__}"


def _inner(options: Mapping[str, Any]) -> InnerSolver | str | None:
    """The inner solver asked for; None: the preset's."""
    changes = {name: options[name] for name in ("memory", "ftol", "max_norm") if options[name] is not None}
    if not changes and options["plain"] is None:
        inner: str | None = options["inner"]
        return inner
    preset = PRESETS[options["preset"]].inner
    base = preset if isinstance(preset, LBFGSB) else LBFGSB()
    if options["plain"] is not None:
        base = LBFGSB.plain(base.memory, base.ftol) if options["plain"] else LBFGSB(base.memory, base.ftol)
    return replace(base, **changes)


def _tolerance(options: Mapping[str, Any]) -> ToleranceRule | None:
    power, ratio = options["eta_power"], options["eta_ratio"]
    if ratio is not None:
        return Geometric(first=ratio, ratio=ratio)
    return None if power is None else PowerLaw(1.0, power)


def _dual(options: Mapping[str, Any]) -> DualRule | str | None:
    if options["variant"] is None:
        return None
    kind: str = options["variant"].split("-")[1]
    if not (options["dual_waits"] and options["variant"].startswith("adaptive")):
        return kind
    rule = PRESETS[options["preset"]].dual if kind == "full" else Short()
    return Waits(rule, options["tau"] or Adaptive().tau)


@final
@dataclass(frozen=True, slots=True)
class Waits(DualRule):
    """A dual rule whose step is made only where the violation did not shrink by the factor tau.

    So the paper's list of variants describes the adaptive ones; its Algorithm 1 makes the step in every iteration.
    """

    rule: DualRule
    tau: float

    def step(self, history: History) -> float:
        """The rule's step, or 0."""
        before, now = history.violations()[-2:]
        return 0.0 if now <= self.tau * before else self.rule.step(history)

    def project(self, y: Vector, history: History) -> Vector:
        """The rule's projection."""
        return self.rule.project(y, history)


def _penalty(options: Mapping[str, Any]) -> PenaltyRule | None:
    """The preset's rule with what the options change; None where they change nothing."""
    if all(options[name] is None for name in ("variant", "gamma", "tau", "beta")):
        return None
    base = PRESETS[options["preset"]].penalty
    if isinstance(base, AlgencanPenalty):
        base = Adaptive(initial=base.initial, gamma=base.gamma, tau=base.tau, leap=1.0)
    assert isinstance(base, Adaptive | Always)
    gamma = base.gamma if options["gamma"] is None else options["gamma"]
    initial = base.initial if options["beta"] is None else options["beta"]
    if (options["variant"] or "").startswith("always"):
        return Always(initial=initial, gamma=gamma, leap=base.leap)
    tau = options["tau"] if options["tau"] is not None else base.tau if isinstance(base, Adaptive) else Adaptive().tau
    return Adaptive(initial=initial, gamma=gamma, tau=tau, leap=base.leap)
