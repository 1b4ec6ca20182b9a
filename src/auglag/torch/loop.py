"""The method in a training loop of your own: `AugmentedLagrangian`.

al = AugmentedLagrangian(model, {"false alarms": at_most(0.1)}, optimizer=optimizer)
for batch in loader:
    optimizer.zero_grad()
    al.loss(loss, values).backward()          # instead of loss.backward()
    optimizer.step()
    al.step()
    if al.due:
        al.test(evaluate, loader)             # and the outer update, if the subproblem may be accepted
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, final

import numpy as np
import torch

from auglag._names import suggesting
from auglag._typing import Vector
from auglag.algorithm.history import History, Iteration
from auglag.algorithm.outer import Algorithm1, Ask
from auglag.algorithm.rules import Adaptive, DualRule, Full, PenaltyRule, PowerLaw, ToleranceRule
from auglag.certificate import Certificate
from auglag.errors import InputError, require_positive
from auglag.inner.base import InnerResult, InnerStatus
from auglag.report import logger
from auglag.stochastic.algorithm2 import InnerState
from auglag.stochastic.controllers import AdaptiveEpochs, Controller
from auglag.stochastic.stage import tested_row
from auglag.stochastic.tuning import TUNING as COMMON
from auglag.torch.certify import certify_point
from auglag.torch.constraints import Constraint, Layout, without_derivatives
from auglag.torch.distributed import mean_over_processes
from auglag.torch.full_batch import Values
from auglag.torch.functions import Functions
from auglag.torch.group_terms import apply_terms, terms_of
from auglag.torch.lagrangian import Subproblem, Test, remainder, smooth_value
from auglag.torch.own_loop import OwnLoop
from auglag.torch.prox import ProxMap
from auglag.torch.tuning import TUNING

Tensor = Any
#: A violation below this many tol raises no penalty, as in the settings of `fit`.
NEGLIGIBLE = 0.01


@final
@dataclass(slots=True)
class LoopState:
    """All that evolves in a loop of the user's own: `state_dict` has it field by field."""

    y: Vector = field(default_factory=lambda: np.zeros(0))  #: y_k
    beta: float = math.nan  #: beta_k
    eta: float = math.nan  #: eta_k
    history: History | None = None  #: None before the first test
    trace: list[dict[str, Any]] = field(default_factory=list)
    done: bool = False
    steps: int = 0  #: of the optimiser, in all
    since: int = 0  #: of them, since the last test
    inner: InnerState = field(default_factory=InnerState)  #: where Algorithm 2 stands
    start_value: float = math.inf  #: L_beta + g at x_k; infinite before it is known
    s: Tensor = None  #: slacks, where the parameters are
    c: Tensor = None  #: of the last step, or of the last test
    total: Tensor = None  #: of the c of the batches since the last step
    count: int = 0  #: of these batches

    @staticmethod
    def of(saved: Mapping[str, Any], kind: Mapping[str, Any]) -> LoopState:
        """From the dictionary that `dataclasses.asdict` made of one, with tensors of this kind."""
        history, tensors = saved["history"], {name: saved[name] for name in ("s", "c", "total")}
        if history is not None:
            history = History(**history | {"iterations": [Iteration(**it) for it in history["iterations"]]})
        changed = {
            "y": np.array(saved["y"], dtype=np.float64),
            "history": history,
            "trace": [dict(row) for row in saved["trace"]],
            "inner": InnerState(**saved["inner"]),
            **{name: None if t is None else t.clone().to(**kind) for name, t in tensors.items()},
        }
        return LoopState(**{**saved, **changed})


@suggesting
@final
class AugmentedLagrangian(OwnLoop):
    """Multipliers, penalty and Algorithm 2's bookkeeping beside a loop that belongs to the user.

    `constraints` maps names to `at_most(bound)`, `at_least(bound)`, `equal(value)`, `between(lower, upper)`; their
    values come through `loss`. Terms under the key "prox" of the optimiser's parameter groups are applied by `step`.
    `epochs` is `AdaptiveEpochs` (Algorithm 2: T steps, a test, T <- r T if it fails) with T in steps.
    """

    format = 2

    def __init__(
        self,
        model: Any,
        constraints: Mapping[str, Constraint],
        *,
        optimizer: Any = None,
        tol: float = 1e-3,
        penalty: PenaltyRule | None = None,
        dual: DualRule | None = None,
        tolerance: ToleranceRule | None = None,
        epochs: Controller | None = None,
        y0: Any = None,
    ) -> None:
        super().__init__(model, constraints, optimizer)
        self.tol = require_positive(tol, "tol")
        self.rules = Algorithm1(
            penalty if penalty is not None else Adaptive(initial=0.1, gamma=1.5, tau=0.8),
            dual if dual is not None else Full(),
            tolerance if tolerance is not None else PowerLaw(1.0, 2.0),
        )
        self.controller = epochs if epochs is not None else AdaptiveEpochs(initial=32, restart=False)
        self._y0 = y0
        self._state = LoopState()
        self._objectives: list[Tensor] = []  #: of the batches since the last step
        self._y: Tensor = None  #: multipliers and sides where the parameters are
        self._lower: Tensor = None
        self._upper: Tensor = None
        self._shift: Tensor = None  #: y / beta
        self._slack = True  #: whether any constraint is an inequality

    # --------------------------------------------------------------------------------------------- where it stands

    @property
    def multipliers(self) -> Vector:
        """y_k."""
        return self._state.y

    @property
    def beta(self) -> float:
        """The penalty."""
        return self._state.beta

    @property
    def eta(self) -> float:
        """The tolerance for dist of this subproblem."""
        return self._state.eta

    @property
    def history(self) -> History | None:
        """The outer iterations; None before the first test."""
        return self._state.history

    @property
    def trace(self) -> list[dict[str, Any]]:
        """A row per test."""
        return self._state.trace

    @property
    def done(self) -> bool:
        """Whether R <= tol at the last test."""
        return self._state.done

    @property
    def steps(self) -> int:
        """Of the optimiser, in all."""
        return self._state.steps

    # ---------------------------------------------------------------------------------------------- inside the loop

    def loss(self, objective: Tensor, constraints: Any, second: Any = None) -> Tensor:
        """f + w'c of a batch with fixed weights w = y + beta r: its gradient is D, the estimate for L_beta.

        `constraints` are the values on this batch, by name or as one vector. The weights must not come from the batch
        whose gradient they weigh, or D is biased: `second` takes the values on an independent batch (no graph is
        needed); without it, those of the batches of the last step serve, which are independent and a step old.
        """
        functions, state = self._ready(), self._state
        if self._seen.forgotten(state.count):
            state.count = 0
            raise self._seen.error()
        f = functions.scalar(objective)
        c = functions.checked(functions.layout.flatten(constraints))
        if c is None:
            return f
        if torch.is_grad_enabled() and not c.requires_grad and bool(c.any()):  # a constant 0 may be an empty class
            raise without_derivatives("constraints")
        wide = functions.variables.dtype
        c = c.to(wide)
        here = c.detach()
        if self._y is None:
            self._begin(functions, here)
        if second is not None:
            found: Tensor = functions.layout.flatten(second)
            here = other = mean_over_processes(found.detach().to(wide))
        else:
            other = here if state.c is None else state.c
        if not state.count:
            self._objectives.clear()
        self._objectives.append(f.detach())
        state.total = here if not state.count else state.total + here
        state.count += 1
        w = torch.add(self._y, other - state.s, alpha=state.beta)
        return self._seen.watched(torch.dot(w, c) + f)

    def _before_step(self) -> None:
        """A step that would make the parameters NaN is refused; then its batches are forgotten."""
        state = self._state
        if state.count and self._functions is not None:
            try:
                self._functions.require_finite(self._objectives, state.total, state.steps + 1)
            except InputError:
                state.count = 0
                raise

    @property
    def waiting(self) -> bool:
        """Whether `loss` was called since the last step."""
        return self._state.count > 0

    def step(self) -> None:
        """After every step of the optimiser, or of your own on the parameters: prox terms, slacks, counting."""
        if self.optimizer is not None:
            apply_terms(self.optimizer)
        if self.constraints and self._seen.count and not self.waiting:
            raise self._seen.no_loss()
        if self.waiting:
            self._seen.check_made(self._ready().variables.params)
        state, self._seen.count = self._state, 0
        state.steps += 1
        state.since += 1
        self._check_tested()
        if not state.count:
            return
        c = mean_over_processes(state.total if state.count == 1 else state.total / state.count)
        # A batch that overflowed (its step is skipped by a GradScaler) must not spoil the weights of all later ones.
        state.c = torch.where(torch.isfinite(c), c, state.s if state.c is None else state.c)
        state.count = 0
        if self._slack:
            state.s = torch.lerp(state.s, state.c + self._shift, TUNING.slack_rate).clamp_(self._lower, self._upper)

    def _check_tested(self) -> None:
        """Without tests there are no outer updates: multipliers and penalty stay as they began."""
        state, first = self._state, self.controller.first(None, 1)
        if self.constraints and state.history is None and state.since == TUNING.forgotten_tests * first:
            logger.warn(
                f"{state.since} steps were made without a call of al.test, although al.due is true: multipliers and "
                "penalty stand still until then. Write `if al.due: al.test(evaluate, loader)` after al.step()"
            )

    @property
    def due(self) -> bool:
        """Whether T steps were made since the last test (or none was made yet)."""
        state = self._state
        return not state.done and (state.history is None or state.since >= state.inner.steps)

    @property
    def T(self) -> int:
        """Steps until the next test, counted from the last one."""
        return self._state.inner.steps

    @property
    def annealing(self) -> float:
        """1 right after a test, falling linearly to 0.01 at the next: a factor for learning rates, if you like."""
        return 1.0 - TUNING.annealed * min(1.0, self._state.since / max(1, self._state.inner.steps))

    def test(self, evaluate: Callable[[Any, Any], Any], data: Any) -> dict[str, Any]:
        """A full-batch test, streamed through `data`; if the subproblem may be accepted, the outer update too.

        `evaluate(model, batch)` returns (loss, values of the constraints). What comes back is a row like those of
        `fit`'s trace: residual, violation, objective, accepted, beta, multipliers, T.
        """
        full, variables = self._full(evaluate, data), self._ready().variables
        prox, x = terms_of(self.optimizer, variables), variables.read()
        values = full.values(x)
        if not values.finite:
            names = full.functions.layout.names()
            broken = [f"constraint {name!r}" for name, v in zip(names, values.c, strict=True) if not math.isfinite(v)]
            what = broken[0] if broken and math.isfinite(values.f) else "loss"
            raise InputError(f"{what} must be finite over all rows, got NaN or inf after step {self._state.steps}")
        history = self._state.history if self._state.history is not None else self._first(values)
        test = Subproblem(full, prox, self._state.y, self._state.beta).test(x)
        if full.team.alone:  # of many processes, one may have no rows that a constraint looks at
            full.functions.layout.require_graphs()
        return self._judge(test, prox, history)

    def certificate(self, evaluate: Callable[[Any, Any], Any], data: Any) -> Certificate:
        """The certificate of the model as it is, with yhat of the last test or, after more steps, of where it is."""
        full, state, x = self._full(evaluate, data), self._state, self._ready().variables.read()
        values, y = full.values(x), state.y
        if state.trace and not state.since:
            y = np.array(state.trace[-1]["multipliers"], dtype=np.float64)
        elif state.history is not None:
            y = y + state.beta * remainder(values.c, y, state.beta, full.functions.layout)
        return certify_point(full, terms_of(self.optimizer, self._ready().variables), x, y)

    def scalars(self) -> dict[str, float]:
        """What to plot: R, violation, objective, beta, T and the multipliers by name, as of the last test."""
        if not self.trace or self._functions is None:
            return {}
        row = self.trace[-1]
        found = {key: float(row[key]) for key in ("residual", "violation", "objective", "beta", "T")}
        names = self._functions.layout.names()
        found |= {f"multiplier/{name}": y for name, y in zip(names, row["multipliers"], strict=True)}
        return found

    # ------------------------------------------------------------------------------------------------ what is behind it

    def _begin(self, functions: Functions, c: Tensor) -> None:
        """The first batch tells how many constraints there are."""
        state = self._state
        if not state.y.size:
            state.y = functions.layout.multipliers(self._y0)
        if state.history is None:
            state.beta = self.rules.ask(History(1.0, 1.0)).beta
        self._to_device(functions)
        start = mean_over_processes(c) + self._shift
        state.s = torch.where(torch.isfinite(start), start, 0.0).clamp(self._lower, self._upper)

    def _to_device(self, functions: Functions) -> None:
        layout, kind = functions.layout, _kind(functions)
        self._y = torch.as_tensor(self._state.y, **kind)
        self._lower, self._upper = torch.as_tensor(layout.lower, **kind), torch.as_tensor(layout.upper, **kind)
        self._slack = bool(np.any(layout.lower != layout.upper))
        self._shift = self._y / self._state.beta

    def _first(self, values: Values) -> History:
        """The first test: where Algorithm 1 starts."""
        layout, state = self._ready().layout, self._state
        if not state.y.size:
            state.y = layout.multipliers(self._y0)
        outside = values.c - np.clip(values.c, layout.lower, layout.upper)
        state.history = History(values.f, float(np.linalg.norm(outside)), NEGLIGIBLE * self.tol)
        self._ask(state.history)
        return state.history

    def _ask(self, history: History) -> None:
        """beta_k, eta_k and T_{k,1} of the subproblem to come."""
        state, asked = self._state, self.rules.ask(history)
        state.beta, state.eta, state.start_value = asked.beta, asked.eta, math.inf
        state.inner = InnerState(carried=state.inner.steps or None)
        state.inner.steps = self.controller.first(state.inner.carried, 1)

    def _judge(self, test: Test, prox: ProxMap, history: History) -> dict[str, Any]:
        """Algorithm 2, line 3, and if both tests are met lines 4 to 6 of Algorithm 1."""
        state, asked = self._state, Ask(history.k, self._state.beta, self._state.eta)
        made, state.since = state.since, 0
        state.inner.iterations += made
        first = math.isinf(state.start_value)  # the very first test: x_1 is here, and nothing was tried yet
        if first:
            state.start_value = test.value
        enough = test.value <= state.start_value + COMMON.rounding * max(1.0, abs(state.start_value))
        accepted = bool(test.dist <= asked.eta and enough)
        state.done = bool(test.residual <= self.tol)
        if accepted:
            count = state.inner.iterations
            found = InnerResult(test.v, test.value, test.dist, count, count, InnerStatus.CONVERGED)
            row = tested_row(asked, found, test.c, test.y_hat, test)
            state.y = self.rules.tell(history, row, state.y, test.c)
            self._ask(history)
            r = remainder(test.values.c, state.y, state.beta, self._ready().layout)
            state.start_value = smooth_value(test.values.f, r, state.y, state.beta) + prox.value(test.v)
        elif not first:
            state.inner.p, state.inner.steps = state.inner.p + 1, self.controller.next(state.inner.steps)
        self._after(test)
        entry = {
            "k": asked.k, "p": state.inner.p, "steps": made, "T": state.inner.steps, "residual": test.residual,
            "dist": test.dist, "c_norm": test.c_norm, "violation": test.violation, "objective": test.objective,
            "accepted": accepted, "beta": asked.beta, "multipliers": test.y_hat.tolist(),
        }  # fmt: skip
        state.trace.append(entry)
        return entry

    def _after(self, test: Test) -> None:
        """Slacks at their minimisers for the full batch, and the multipliers where the loop needs them."""
        if not self._state.y.size:
            return
        functions = self._ready()
        self._to_device(functions)
        self._state.c = torch.as_tensor(test.values.c, **_kind(functions))
        self._state.s = (self._state.c + self._shift).clamp(self._lower, self._upper)

    # ---------------------------------------------------------------------------------------------------- save, resume

    def _state_now(self) -> dict[str, Any]:
        return {"state": asdict(self._state) | {"y": self._state.y.tolist()}}

    def _read(self, state: dict[str, Any], layout: Layout) -> Callable[[], None]:
        functions = self._ready()
        found = LoopState.of(state["state"], _kind(functions))

        def take_up() -> None:
            self._state = found
            if found.s is not None:
                self._to_device(functions)

        return take_up


def _kind(functions: Functions) -> dict[str, Any]:
    """What tensors beside the parameters are like."""
    return {"dtype": functions.variables.dtype, "device": functions.variables.device}
