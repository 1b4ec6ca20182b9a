"""Variants and presets: names for combinations of the rules."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from auglag._names import nearest
from auglag.algorithm.algencan import AlgencanPenalty, AlgencanTolerance
from auglag.algorithm.formulas import LARGEST_GRADIENT, LARGEST_PENALTY
from auglag.algorithm.rules import Adaptive, Always, DualRule, Full, PenaltyRule, PowerLaw, Short, ToleranceRule
from auglag.errors import InputError, OptionError, require_integer
from auglag.inner import LBFGSB, SOLVERS, FirstOf, InnerSolver, NewtonCG, Panoc
from auglag.problems.standard_form import require_slacks
from auglag.strategy.sqp import SQP

VARIANTS = ("adaptive-full", "always-full", "adaptive-short", "always-short")


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that defines the method, apart from the problem, the tolerance and the budget."""

    penalty: PenaltyRule = field(default_factory=Adaptive)
    dual: DualRule = field(default_factory=Full)
    tolerance: ToleranceRule | None = None  #: None: geometric, down to a fraction of tol
    inner: InnerSolver | str = "auto"
    slacks: str = "closed"
    scaling: bool = True
    presolve: bool = True  #: rows that are empty, bounds, or multiples of others are taken off during the run
    weights: tuple[float, ...] = ()  #: the penalty of row i is beta times its weight; empty: 1 for all
    acceleration: SQP | None = field(default_factory=SQP)  #: None: Algorithm 1 alone
    units: bool = True  #: sizes of variables, f and rows that are unusual are looked for, and with scaling get units
    restoration: bool = True  #: look for a feasible point when the violation does not fall
    gives_up: bool = True  #: end a run with constraints that gets nowhere, or whose objective seems to have no bound
    restarts: int = 7  #: most other starts, with acceleration, if no solution is found from x0
    largest_penalty: float = LARGEST_PENALTY
    largest_gradient: float = LARGEST_GRADIENT  #: to which scaling brings larger gradients of f and of rows
    first_limit: int | None = None  #: most inner iterations of the first subproblem
    sup_norms: bool = False  #: inner tolerance and stopping test entry by entry, as in ALGENCAN (`algorithm.algencan`)
    negligible: float = 0.01  #: a violation below negligible * tol does not raise the penalty
    aim: float = 0.1  #: the loop aims at aim * tol, so that x and y are accurate too, but succeeds at tol

    def describe(self) -> str:
        """The rules in words."""
        numbers = [
            f"{name}={getattr(self.penalty, name):g}" for name in ("gamma", "tau") if hasattr(self.penalty, name)
        ]
        return f"{type(self.penalty).__name__}({', '.join(numbers)}) penalty, {type(self.dual).__name__} dual step"


#: Nothing beside the loop that a paper prints: explicit slacks, since its constraints are equations.
_BARE: dict[str, Any] = {
    "slacks": "explicit",
    "scaling": False,
    "presolve": False,
    "acceleration": None,
    "units": False,
    "restoration": False,
    "gives_up": False,
    "restarts": 0,
    "largest_penalty": 1e60,
    "negligible": 0.0,
    "aim": 1.0,
}

PRESETS: dict[str, Settings] = {
    "default": Settings(),
    # The paper's experiments: explicit slacks, SciPy's L-BFGS-B as it is (but ended by line 3 alone), beta_1 = 1e-3,
    # gamma = 1.5, tau = 0.8, multipliers capped at 1e9, no scaling. eta'_k = 1/k is our reading (it is not printed).
    "paper": Settings(
        penalty=Adaptive(initial=1e-3, gamma=1.5, tau=0.8, leap=1.0),
        dual=Full(y_max=1e9),
        tolerance=PowerLaw(1.0, 1.0),
        inner=LBFGSB.plain(memory=10),
        **_BARE,
    ),
    # iALM, Sahin et al. (2019): beta_k = 2^(k-1), eta_k = 1/beta_k, short dual steps, a first-order inner solver.
    "ialm": Settings(
        penalty=Always(initial=1.0, gamma=2.0, leap=1.0),
        dual=Short(),
        tolerance=PowerLaw(1.0, 0.5),
        inner="spectral",
        **_BARE,
    ),
    # iPPM, Li et al. (2021): beta_k = 0.01 * 3^k, short dual steps, inexact proximal point inside.
    "ippm": Settings(
        penalty=Always(initial=0.01, gamma=3.0, leap=1.0),
        dual=Short(),
        tolerance=PowerLaw(1.0, 1.0),
        inner="proximal-point",
        **_BARE,
    ),
    # ALGENCAN 3.1.1 (Birgin and Martinez 2014, 2020) without its acceleration: its penalty, inner tolerances, scaling
    # (gradients at most 1) and tests, multipliers within 1e20, the first subproblem cut short. GENCAN, whose steps are
    # truncated Newton's in the faces of the box, is replaced by "newton-cg" where second derivatives are given, else by
    # L-BFGS-B.
    "algencan": Settings(
        penalty=AlgencanPenalty(),
        dual=Full(y_max=1e20),
        tolerance=AlgencanTolerance(),
        inner=FirstOf((NewtonCG(kinks=True), LBFGSB(), Panoc())),
        presolve=False,
        acceleration=None,
        units=False,
        restoration=False,
        gives_up=False,
        restarts=0,
        largest_gradient=1.0,
        first_limit=10,
        sup_norms=True,
        aim=1.0,
    ),
}


def resolve(
    *,
    variant: str | None = None,
    preset: str | None = None,
    penalty: PenaltyRule | str | None = None,
    dual: DualRule | str | None = None,
    tolerance: ToleranceRule | None = None,
    inner: InnerSolver | str | None = None,
    slacks: str | None = None,
    scaling: bool | None = None,
    presolve: bool | None = None,
    restoration: bool | None = None,
    acceleration: SQP | bool | None = None,
    restarts: int | None = None,
    gives_up: bool | None = None,
) -> Settings:
    """The settings of a preset, changed by what was given.

    A variant keeps the preset's gamma, tau and beta_1, and is run without acceleration and presolve unless asked for.
    """
    settings = PRESETS[_known("default" if preset is None else preset, PRESETS, "preset")]
    if variant is not None:
        if penalty is not None or dual is not None:
            raise InputError("variant already names the penalty and the dual rule; give either variant or penalty/dual")
        kind, step = _known(variant, VARIANTS, "variant").split("-")
        penalty, dual = kind, step
        acceleration = False if acceleration is None else acceleration  # with it, all variants behave alike
        presolve = False if presolve is None else presolve
    changes: dict[str, Any] = {}
    if penalty is not None:
        changes["penalty"] = _penalty(penalty, settings.penalty)
    if dual is not None:
        changes["dual"] = _dual(dual, settings.dual)
    if tolerance is not None:
        if not isinstance(tolerance, ToleranceRule):
            raise InputError(
                f"tolerance must be a ToleranceRule object such as Geometric() (the inner tolerances; the tolerance of "
                f"the result is tol), got {tolerance!r:.80}"
            )
        changes["tolerance"] = tolerance
    if inner is not None:
        changes["inner"] = inner if isinstance(inner, InnerSolver) else _known(inner, ("auto", *SOLVERS), "inner")
    if slacks is not None:
        require_slacks(slacks)
        changes["slacks"] = slacks
    flags = {"scaling": scaling, "presolve": presolve, "restoration": restoration, "gives_up": gives_up}
    for name, flag in flags.items():
        if flag is not None:
            if not isinstance(flag, bool):
                raise InputError(f"{name} must be True or False, got {flag!r}")
            changes[name] = flag
    if restarts is not None:
        require_integer(restarts, "restarts", 0)
        changes["restarts"] = restarts
    if acceleration is not None:
        if not isinstance(acceleration, SQP | bool):
            raise InputError(f"acceleration must be True, False or an SQP object, got {acceleration!r:.80}")
        changes["acceleration"] = SQP() if acceleration is True else acceleration or None
    return replace(settings, **changes) if changes else settings


def row_weights(weights: Any, m: int) -> tuple[float, ...]:
    """The weights of the rows' penalties, checked."""
    if weights is None:
        return ()
    values = np.asarray(weights, dtype=float)
    if values.shape != (m,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise InputError(f"penalty_weights must be {m} positive numbers, one per constraint row, got {weights!r:.80}")
    return tuple(values.tolist())


def _known(name: Any, known: Any, what: str) -> str:
    if not isinstance(name, str) or name not in known:
        hint = nearest(name, known) if isinstance(name, str) else f"; known: {', '.join(sorted(known))}"
        raise OptionError(f"{what} must be one of the known names, got {name!r}{hint}")
    return name


def _penalty(penalty: PenaltyRule | str, base: PenaltyRule) -> PenaltyRule:
    if isinstance(penalty, PenaltyRule):
        return penalty
    _named(penalty, "penalty", "'adaptive', 'always' or a PenaltyRule object such as Adaptive(initial=10.0)")
    kind = _known(penalty, ("adaptive", "always"), "penalty")
    assert isinstance(base, Adaptive | Always | AlgencanPenalty)
    if kind == "adaptive" and not isinstance(base, Always):
        return base
    leap = 1.0 if isinstance(base, AlgencanPenalty) else base.leap
    rule = Always if kind == "always" else Adaptive
    return rule(initial=base.initial, gamma=base.gamma, leap=leap)


def _dual(dual: DualRule | str, base: DualRule) -> DualRule:
    if isinstance(dual, DualRule):
        return dual
    _named(dual, "dual", "'full', 'short' or a DualRule object such as Full()")
    kind = _known(dual, ("full", "short"), "dual")
    if kind == "short":
        return Short()
    return base if isinstance(base, Full) else Full()


def _named(value: Any, what: str, demand: str) -> None:
    """Raise unless a rule that is no object was at least given by name."""
    if not isinstance(value, str):
        written = f"the class {value.__name__}: write {value.__name__}()" if isinstance(value, type) else repr(value)
        raise InputError(f"{what} must be {demand}, got {written:.80}")
