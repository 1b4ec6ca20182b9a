"""Variants and presets of the stochastic method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, final

from auglag.algorithm.history import History
from auglag.algorithm.rules import Adaptive, Always, DualRule, Full, PenaltyRule, PowerLaw, Short, ToleranceRule
from auglag.errors import InputError, OptionError, require_positive
from auglag.stochastic.controllers import AdaptiveEpochs, Controller, FixedEpochs
from auglag.stochastic.curvature import FullBatchSolver, GaussNewton
from auglag.stochastic.methods import METHODS, SGD, SVRG, Method, PStorm
from auglag.stochastic.single_loop import SingleLoop
from auglag.stochastic.steps import ConstantStep, InverseSqrt
from auglag.strategy.settings import VARIANTS

#: What `method=` may be by name, beside "auto".
NAMES = (*METHODS, "single-loop", "gauss-newton", "lbfgs")


@final
@dataclass(frozen=True, slots=True)
class Tracking(ToleranceRule):
    """eta'_{k+1} = min(ratio eta'_k, max(follow R_k, floor)): never much more accurate than the outer loop has come."""

    first: float = 0.1
    ratio: float = 0.5
    follow: float = 0.5
    floor: float = 0.0

    def __post_init__(self) -> None:
        require_positive(self.first, "Tracking.first")
        require_positive(self.follow, "Tracking.follow")
        if not 0.0 < self.ratio <= 1.0:
            raise InputError(f"Tracking.ratio must lie in (0, 1], got {self.ratio}")

    def next(self, history: History) -> float:
        eta = self.first
        for it in history.iterations:
            eta = min(self.ratio * eta, max(self.follow * it.residual, self.floor))
        return max(eta, 1e-300)


Solver = Method | GaussNewton | FullBatchSolver | SingleLoop


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that defines the method, apart from the problem, the tolerance and the limits."""

    method: Solver
    penalty: PenaltyRule = field(default_factory=lambda: Adaptive(initial=0.1, gamma=3.0, tau=0.5))
    dual: DualRule = field(default_factory=Full)
    tolerance: ToleranceRule | None = None  #: None: `Tracking` down to a fifth of tol
    controller: Controller = field(default_factory=lambda: AdaptiveEpochs(restart=False, exact_slacks=True))
    slacks: str = "explicit"
    largest_penalty: float = 1e20
    negligible: float = 0.01

    def describe(self) -> str:
        """The rules in words."""
        numbers = [
            f"{name}={getattr(self.penalty, name):g}" for name in ("gamma", "tau") if hasattr(self.penalty, name)
        ]
        inner = f", {type(self.controller).__name__}" if isinstance(self.method, Method) else ""
        return (
            f"{type(self.penalty).__name__}({', '.join(numbers)}) penalty, {type(self.dual).__name__} dual step{inner}"
        )


_PAPER = Settings(
    method=SGD(step=InverseSqrt(1.0)),
    penalty=Adaptive(initial=0.1, gamma=1.5, tau=0.8),
    dual=Full(y_max=1e9),
    tolerance=PowerLaw(1.0, 1.0),
    controller=AdaptiveEpochs(initial=1, r=2.0, restart=True, carry=True),
    largest_penalty=1e60,
    negligible=0.0,
)
_FIXED = replace(_PAPER, method=SGD(step=ConstantStep(0.1)), controller=FixedEpochs(100))
#: The paper's experiments; tau and eta'_k = 1/k are our reading, the paper does not print them. `method` is SGD here;
#: minimize(..., preset="paper", method="pstorm") gives the appendix's.
PRESETS: dict[str, Settings] = {
    "paper": _PAPER,
    # The rival of its figures 3 and 5: 100 epochs per subproblem, stepsize 0.1, beta_1 = 1.
    "paper-fixed": replace(_FIXED, penalty=Adaptive(initial=1.0, gamma=1.5, tau=0.8)),
    # Stoc-iALM, Li et al. (2023): beta_k growing every time, short dual steps, PStorm with an enlarged first batch and
    # a postprocessing step; epochs, stepsize, beta_1 and gamma are those of the fixed strategy above.
    "stoc-ialm": replace(
        _FIXED,
        method=PStorm(step=ConstantStep(0.1), first="enlarged", finish=True),
        penalty=Always(initial=1.0, gamma=1.5),
        dual=Short(),
    ),
}

_GENTLE = Settings(SGD(step=InverseSqrt(3.0)), Adaptive(initial=0.1, gamma=1.5, tau=0.8), tolerance=PowerLaw(1.0, 2.0))
#: The best settings we know for each method asked for by name.
DEFAULTS: dict[str, Settings] = {
    "sgd": _GENTLE,
    "pstorm": replace(_GENTLE, method=PStorm(step=InverseSqrt(3.0))),
    "svrg": Settings(method=SVRG()),
    "gauss-newton": Settings(method=GaussNewton(), slacks="closed"),
    "lbfgs": Settings(method=FullBatchSolver(), slacks="closed"),
    "single-loop": Settings(method=SingleLoop(), slacks="closed"),
}


def resolve(
    method: Any,
    *,
    variant: str | None = None,
    preset: str | None = None,
    epochs: Any = None,
    penalty: PenaltyRule | None = None,
    dual: DualRule | None = None,
    tolerance: ToleranceRule | None = None,
    slacks: str | None = None,
) -> Settings:
    """The settings of a method or preset, changed by what was given."""
    settings = _base(method, preset)
    changes: dict[str, Any] = {}
    if variant is not None:
        if penalty is not None or dual is not None:
            raise InputError("variant already names the penalty and the dual rule; give either variant or penalty/dual")
        changes |= _variant(variant, settings)
    changes |= given_rules(penalty, dual, tolerance)
    if epochs is not None:
        changes["controller"] = controller_for(epochs)
        if not isinstance(settings.method, Method):
            raise InputError(f"epochs is for sampled methods; {settings.method.name!r} tests every iteration")
    if slacks is not None:
        if slacks not in ("explicit", "closed"):
            raise InputError(f"slacks must be 'explicit' or 'closed', got {slacks!r}")
        changes["slacks"] = slacks
    settings = replace(settings, **changes)
    if settings.slacks == "closed" and isinstance(settings.method, Method):
        raise InputError("slacks='closed' makes sampled gradients biased; sampled methods need slacks='explicit'")
    return settings


def given_rules(penalty: Any, dual: Any, tolerance: Any) -> dict[str, Any]:
    """Those of the three rules that were given, by name, if they are rules."""
    rules = (("penalty", penalty, PenaltyRule), ("dual", dual, DualRule), ("tolerance", tolerance, ToleranceRule))
    for name, value, kind in rules:
        if value is not None and not isinstance(value, kind):
            raise InputError(f"{name} must be a {kind.__name__} object, got {value!r:.80}")
    return {name: value for name, value, _ in rules if value is not None}


def _base(method: Any, preset: str | None) -> Settings:
    if preset is not None:
        if preset not in PRESETS:
            raise OptionError(f"preset must be one of {sorted(PRESETS)}, got {preset!r}{_hint(preset, PRESETS)}")
        settings = PRESETS[preset]
        if method in (None, "auto") or (isinstance(method, str) and method == settings.method.name):
            return settings
        if isinstance(method, str) and method in METHODS:
            changed, base = METHODS[method], settings.method
            assert isinstance(changed, SGD | PStorm | SVRG)
            assert isinstance(base, SGD | PStorm | SVRG)
            return replace(settings, method=replace(changed, step=base.step, batch=base.batch))
        return replace(settings, method=_object(method), slacks="explicit")
    if isinstance(method, str):
        if method not in DEFAULTS:
            raise OptionError(
                f"method must be one of {('auto', *NAMES)} or an object, got {method!r}{_hint(method, NAMES)}"
            )
        return DEFAULTS[method]
    found = _object(method)
    known = DEFAULTS.get(found.name, DEFAULTS["sgd"])
    if isinstance(found, Method) and not isinstance(known.method, Method):
        known = DEFAULTS["sgd"]  # a method of the user's own that bears the name of a full-batch one
    return replace(known, method=found)


def _hint(name: object, known: Iterable[str]) -> str:
    """Near names, where there are any."""
    near = get_close_matches(str(name).lower(), list(known), n=2, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def _object(method: Any) -> Solver:
    if isinstance(method, Solver):
        return method
    written = f"the class {method.__name__}: write {method.__name__}()" if isinstance(method, type) else repr(method)
    raise InputError(f"method must be a name or a Method object, got {written:.80}")


def _variant(variant: str, settings: Settings) -> dict[str, Any]:
    if variant not in VARIANTS:
        raise OptionError(f"variant must be one of {VARIANTS}, got {variant!r}{_hint(variant, VARIANTS)}")
    kind, step = variant.split("-")
    base = settings.penalty
    assert isinstance(base, Adaptive | Always)
    penalty: PenaltyRule = Always(initial=base.initial, gamma=base.gamma)
    if kind == "adaptive":
        penalty = base if isinstance(base, Adaptive) else Adaptive(initial=base.initial, gamma=base.gamma, tau=0.8)
    dual: DualRule = Short() if step == "short" else settings.dual if isinstance(settings.dual, Full) else Full()
    return {"penalty": penalty, "dual": dual}


def controller_for(epochs: Any) -> Controller:
    """The controller that `epochs=` asks for."""
    if isinstance(epochs, Controller):
        return epochs
    raise InputError(
        "epochs must be AdaptiveEpochs(...) or FixedEpochs(n), the length of each subproblem (passes of the whole run "
        f"are max_epochs=), got {epochs!r:.80}"
    )
