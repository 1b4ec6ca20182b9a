"""auglag itself, with every rule the experiments vary as an option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from auglag._version import __version__
from auglag.algorithm.rules import Adaptive, Always, PenaltyRule, PowerLaw
from auglag.bench.baselines.base import Answer, Baseline
from auglag.bench.counted import CountedProblem
from auglag.budget import Budget
from auglag.inner import LBFGSB
from auglag.minimize import minimize
from auglag.strategy.settings import PRESETS, resolve

#: Columns of the history that are kept.
COLUMNS = ("k", "beta", "eta", "violation", "stationarity", "residual", "objective", "evaluations")


@final
class Auglag(Baseline):
    """`auglag.minimize` with a preset, a variant and, if given, gamma, tau, beta_1, eta'_k = 1/k^power and `ftol`.

    A named variant is run without acceleration, as in `minimize`.
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
        "ftol": None,
        "inner": None,
        "restarts": None,
        "outer": 1000,
        "inner_limit": 20_000,
    }

    def solve(self, problem: CountedProblem, options: Mapping[str, Any], seed: int) -> Answer:
        """Run it; a budget that ends the run still gives the best point."""
        problem.hide_hessians = options["derivatives"] < 2
        power, inner = options["eta_power"], options["inner"]
        result = minimize(
            problem,
            preset=options["preset"],
            tol=options["tol"],
            penalty=_penalty(options),
            dual=None if options["variant"] is None else options["variant"].split("-")[1],
            tolerance=None if power is None else PowerLaw(1.0, power),
            inner=LBFGSB(memory=10, ftol=options["ftol"]) if options["ftol"] is not None else inner,
            budget=Budget(outer=options["outer"], inner=options["inner_limit"]),
            acceleration=None if options["variant"] is None else False,
            restarts=options["restarts"],
            check_derivatives=False,
        )
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
        resolve(variant=options["variant"], preset=options["preset"], inner=options["inner"])
        _penalty(options)

    def version(self) -> str:
        return f"auglag {__version__}"


def _penalty(options: Mapping[str, Any]) -> PenaltyRule | None:
    """The preset's rule with what the options change; None where they change nothing."""
    if all(options[name] is None for name in ("variant", "gamma", "tau", "beta")):
        return None
    base = PRESETS[options["preset"]].penalty
    assert isinstance(base, Adaptive | Always)
    gamma = base.gamma if options["gamma"] is None else options["gamma"]
    initial = base.initial if options["beta"] is None else options["beta"]
    if (options["variant"] or "").startswith("always"):
        return Always(initial=initial, gamma=gamma)
    tau = options["tau"] if options["tau"] is not None else base.tau if isinstance(base, Adaptive) else Adaptive().tau
    return Adaptive(initial=initial, gamma=gamma, tau=tau)
