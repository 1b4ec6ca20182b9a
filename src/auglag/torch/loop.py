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
from dataclasses import asdict
from typing import Any, final

import numpy as np
import torch

from auglag._typing import Vector
from auglag.algorithm.rules import Adaptive, DualRule, Full, History, Iteration, PenaltyRule, PowerLaw, ToleranceRule
from auglag.certificate import Certificate
from auglag.errors import CheckpointError, InputError, require_positive
from auglag.stochastic.algorithm2 import InnerState
from auglag.stochastic.controllers import AdaptiveEpochs, Controller
from auglag.stochastic.full_batch import Ledger
from auglag.stochastic.lagrangian import ROUNDING
from auglag.strategy.old_outer import checked
from auglag.torch.certify import certify_point
from auglag.torch.constraints import Constraint
from auglag.torch.data import as_source
from auglag.torch.distributed import Team
from auglag.torch.fit import unwrapped
from auglag.torch.full_batch import FullBatch, Values
from auglag.torch.functions import Functions
from auglag.torch.lagrangian import Subproblem, Test, remainder, smooth_value
from auglag.torch.methods import along_gradient
from auglag.torch.prox import ProxMap
from auglag.torch.run import start_multipliers
from auglag.torch.variables import Variables

Tensor = Any
FORMAT = 1
#: Slacks follow a running mean of what minimises L_beta batch by batch: a gradient step of this size / beta.
SLACK_RATE = 0.1


@final
class AugmentedLagrangian:
    """Multipliers, penalty and Algorithm 2's bookkeeping beside a loop that belongs to the user.

    `constraints` maps names to `at_most(bound)`, `at_least(bound)`, `equal(value)`, `between(lower, upper)`; their
    values come through `loss`. Terms under the key "prox" of the optimiser's parameter groups are applied by `step`.
    `epochs` is `AdaptiveEpochs` (Algorithm 2: T steps, a test, T <- r T if it fails) with T in steps.
    """

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
        self.model, self.optimizer = unwrapped(model), optimizer
        self.tol = require_positive(tol, "tol")
        self.penalty = penalty if penalty is not None else Adaptive(initial=0.1, gamma=1.5, tau=0.8)
        self.dual = dual if dual is not None else Full()
        self.tolerance = tolerance if tolerance is not None else PowerLaw(1.0, 2.0)
        self.controller = epochs if epochs is not None else AdaptiveEpochs(initial=32, restart=False)
        self.constraints = dict(constraints)
        self._y0 = y0
        self.history: History | None = None  #: None before the first test
        self.trace: list[dict[str, Any]] = []
        self.beta, self.eta = math.nan, math.nan
        self.multipliers: Vector = np.zeros(0)  #: y_k
        self.done = False  #: R <= tol at the last test
        self.steps = 0  #: of the optimiser, in all
        self._state = InnerState()
        self._since = 0  #: steps since the last test
        self._start_value = math.inf
        self._attached: dict[str, Any] = {}
        self._variables: Variables | None = None
        self._functions: Functions | None = None
        self._y: Tensor = None  #: multipliers, slacks, sides, the c of the last step: where the parameters are
        self._s: Tensor = None
        self._c: Tensor = None
        self._lower: Tensor = None
        self._upper: Tensor = None
        self._shift: Tensor = None  #: y / beta
        self._slack = True  #: whether any constraint is an inequality
        self._sum: Tensor = None  #: of the c of the batches since the last step
        self._count = 0

    # ---------------------------------------------------------------------------------------------- inside the loop

    def loss(self, objective: Tensor, constraints: Any, second: Any = None) -> Tensor:
        """f + w'c of a batch with fixed weights w = y + beta r: its gradient is D, the estimate for L_beta.

        `constraints` are the values on this batch, by name or as one vector. The weights must not come from the batch
        whose gradient they weigh, or D is biased: `second` takes the values on an independent batch (no graph is
        needed); without it, those of the batches of the last step serve, which are independent and a step old.
        """
        functions = self._ready()
        f = functions.scalar(objective)
        c = functions.checked(functions.layout.flatten(constraints))
        if c is None:
            return f
        wide = self._tensor_kind["dtype"]
        c = c.to(wide)
        here = c.detach()
        if self._y is None:
            self._begin(here)
        if second is not None:
            found: Tensor = functions.layout.flatten(second)
            here = other = self._mean_(found.detach().to(wide))
        else:
            other = here if self._c is None else self._c
        self._sum = here if not self._count else self._sum + here
        self._count += 1
        w = torch.add(self._y, other - self._s, alpha=self.beta)
        return torch.dot(w, c) + f

    def step(self) -> None:
        """After every step of the optimiser: prox terms, slacks, counting."""
        if self.optimizer is not None:
            self._prox()
        self.steps += 1
        self._since += 1
        if not self._count:
            return
        c = self._mean_(self._sum if self._count == 1 else self._sum / self._count)
        # A batch that overflowed (its step is skipped by a GradScaler) must not spoil the weights of all later ones.
        self._c = torch.where(torch.isfinite(c), c, self._s if self._c is None else self._c)
        self._count = 0
        if self._slack:
            self._s = torch.lerp(self._s, self._c + self._shift, SLACK_RATE).clamp_(self._lower, self._upper)

    @property
    def due(self) -> bool:
        """Whether T steps were made since the last test (or none was made yet)."""
        return not self.done and (self.history is None or self._since >= self._state.steps)

    @property
    def T(self) -> int:
        """Steps until the next test, counted from the last one."""
        return self._state.steps

    @property
    def annealing(self) -> float:
        """1 right after a test, falling linearly to 0.01 at the next: a factor for learning rates, if you like."""
        return 1.0 - 0.99 * min(1.0, self._since / max(1, self._state.steps))

    def test(self, evaluate: Callable[[Any, Any], Any], data: Any) -> dict[str, Any]:
        """A full-batch test, streamed through `data`; if the subproblem may be accepted, the outer update too.

        `evaluate(model, batch)` returns (loss, values of the constraints). What comes back is a row like those of
        `fit`'s trace: residual, violation, objective, accepted, beta, multipliers, T.
        """
        functions = self._ready()
        assert self._variables is not None
        functions.objective, functions.together = evaluate, bool(self.constraints)
        team, prox = Team(self._variables.device), self._terms()
        full = FullBatch(self._variables, functions, as_source(data, team, None), team, Ledger())
        x = self._variables.read()
        values = full.values(x)
        if not values.finite:
            raise InputError(f"loss and constraints must be finite over all rows, got {values.f} and {values.c}")
        if self.history is None:
            self._first(values)
        test = Subproblem(full, prox, self.multipliers, self.beta).test(x)
        return self._judge(test, prox)

    def certificate(self, evaluate: Callable[[Any, Any], Any], data: Any) -> Certificate:
        """The certificate of the model as it is, with yhat of the last test or, after more steps, of where it is."""
        functions = self._ready()
        assert self._variables is not None
        functions.objective, functions.together = evaluate, bool(self.constraints)
        team = Team(self._variables.device)
        full = FullBatch(self._variables, functions, as_source(data, team, None), team, Ledger())
        x = self._variables.read()
        values = full.values(x)
        y = self.multipliers
        if self.trace and not self._since:
            y = np.array(self.trace[-1]["multipliers"], dtype=np.float64)
        elif self.history is not None:
            y = y + self.beta * remainder(values.c, y, self.beta, functions.layout)
        return certify_point(full, self._terms(), x, y)

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

    def _ready(self) -> Functions:
        """Parameters are looked up at first use: until then a model may move to its device."""
        if self._functions is None:
            self._variables = Variables(self.model.named_parameters())
            self._tensor_kind = {"dtype": self._variables.dtype, "device": self._variables.device}
            bare = {name: Constraint(con.lower, con.upper) for name, con in self.constraints.items()}
            self._functions = Functions(self.model, _none, bare, self._variables)
        return self._functions

    def _begin(self, c: Tensor) -> None:
        """The first batch tells how many constraints there are."""
        assert self._functions is not None
        layout = self._functions.layout
        if not self.multipliers.size:
            self.multipliers = start_multipliers(layout, self._y0)
        if self.history is None:
            self.beta = checked(self.penalty.next(History(1.0, 1.0)), self.penalty)
        self._to_device()
        start = self._mean_(c) + self._shift
        self._s = torch.where(torch.isfinite(start), start, 0.0).clamp(self._lower, self._upper)

    def _to_device(self) -> None:
        assert self._functions is not None
        layout = self._functions.layout
        self._y = torch.as_tensor(self.multipliers, **self._tensor_kind)
        self._lower = torch.as_tensor(layout.lower, **self._tensor_kind)
        self._upper = torch.as_tensor(layout.upper, **self._tensor_kind)
        self._slack = bool(np.any(layout.lower != layout.upper))
        self._shift = self._y / self.beta

    def _mean_(self, c: Tensor) -> Tensor:
        """The mean over all processes."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return c
        team = Team(c.device)
        return c if team.alone else team.sum_(c.clone()).div_(team.size)

    def _terms(self) -> ProxMap:
        assert self._variables is not None
        groups = [] if self.optimizer is None else self.optimizer.param_groups
        return ProxMap(
            self._variables,
            [([p for p in g["params"] if p.requires_grad], g["prox"]) for g in groups if g.get("prox") is not None],
        )

    def _prox(self) -> None:
        with torch.no_grad():
            for group in self.optimizer.param_groups:
                term = group.get("prox")
                if term is None:
                    continue
                if not term.scale_free and not along_gradient(self.optimizer):
                    raise InputError(
                        "prox terms other than boxes need steps along the gradient: take torch.optim.SGD without "
                        f"momentum, got {type(self.optimizer).__name__}"
                    )
                for p in group["params"]:
                    if p.requires_grad:
                        p.copy_(term.prox(p, float(group["lr"])))

    def _first(self, values: Values) -> None:
        """The first test: where Algorithm 1 starts."""
        assert self._functions is not None
        layout = self._functions.layout
        if not self.multipliers.size:
            self.multipliers = start_multipliers(layout, self._y0)
        outside = values.c - np.clip(values.c, layout.lower, layout.upper)
        self.history = History(values.f, float(np.linalg.norm(outside)), 0.01 * self.tol)
        self._choose()

    def _choose(self) -> None:
        """beta_k and eta_k (lines 5 and 2 of Algorithm 1), and T_{k,1}."""
        assert self.history is not None
        self.beta = checked(self.penalty.next(self.history), self.penalty)
        self.eta = min(1.0 / self.beta, checked(self.tolerance.next(self.history), self.tolerance))
        self._state = InnerState(carried=self._state.steps or None)
        self._state.steps = self.controller.first(self._state.carried, 1)
        self._start_value = math.inf

    def _judge(self, test: Test, prox: ProxMap) -> dict[str, Any]:
        """Algorithm 2, line 3, and if both tests are met lines 4 to 6 of Algorithm 1."""
        assert self.history is not None
        k, beta = self.history.k, self.beta
        made, self._since = self._since, 0
        self._state.iterations += made
        first = math.isinf(self._start_value)  # the very first test: x_1 is here, and nothing was tried yet
        if first:
            self._start_value = test.value
        enough = test.value <= self._start_value + ROUNDING * max(1.0, abs(self._start_value))
        accepted = bool(test.dist <= self.eta and enough)
        self.done = bool(test.residual <= self.tol)
        if accepted:
            violation = float(np.linalg.norm(test.c))
            self.history.iterations.append(
                Iteration(
                    k, beta, self.eta, True, violation, test.dist, test.residual, violation, test.objective,
                    float(np.linalg.norm(test.y_hat)), "CONVERGED", self._state.iterations, self._state.iterations,
                )
            )  # fmt: skip
            y = self.multipliers + self.dual.step(self.history) * test.c
            self.multipliers = self.dual.project(y, self.history)
            self._choose()
            r = remainder(test.values.c, self.multipliers, self.beta, self._ready().layout)
            g = prox.value(test.v)
            self._start_value = smooth_value(test.values.f, r, self.multipliers, self.beta) + g
        elif not first:
            self._state.p, self._state.steps = self._state.p + 1, self.controller.next(self._state.steps)
        self._after(test)
        row = {
            "k": k, "p": self._state.p, "steps": made, "T": self._state.steps, "residual": test.residual,
            "dist": test.dist, "violation": test.violation, "objective": test.objective, "accepted": accepted,
            "beta": beta, "multipliers": test.y_hat.tolist(),
        }  # fmt: skip
        self.trace.append(row)
        return row

    def _after(self, test: Test) -> None:
        """Slacks at their minimisers for the full batch, and the multipliers where the loop needs them."""
        if not self.multipliers.size:
            return
        self._to_device()
        c = torch.as_tensor(test.values.c, **self._tensor_kind)
        self._s = (c + self._shift).clamp(self._lower, self._upper)
        self._c = c

    # ---------------------------------------------------------------------------------------------------- save, resume

    def attach(self, **things: Any) -> None:
        """Let things go along in `state_dict`: models, optimisers, schedulers, scalers, `Batches`, generators."""
        for name, thing in things.items():
            if not (isinstance(thing, torch.Generator) or hasattr(thing, "load_state_dict")):
                raise InputError(f"attach({name}=...) takes a Generator or what has a state_dict, got {thing!r:.60}")
            self._attached[name] = thing

    def state_dict(self) -> dict[str, Any]:
        """All that evolves, with what was attached and the states of PyTorch's own generators."""
        history = self.history
        layout = None if self._functions is None else self._functions.layout
        return {
            "format": FORMAT,
            "names": list(self.constraints),
            "sizes": None if layout is None else layout.sizes,
            "scalar": {} if layout is None else layout.scalar,
            "beta": self.beta,
            "eta": self.eta,
            "multipliers": self.multipliers.tolist(),
            "start": None if history is None else [history.objective, history.violation, history.negligible],
            "iterations": [] if history is None else [asdict(it) for it in history.iterations],
            "trace": [dict(row) for row in self.trace],
            "done": self.done,
            "steps": self.steps,
            "since": self._since,
            "inner": [self._state.p, self._state.steps, self._state.carried, self._state.iterations],
            "start_value": self._start_value,
            "tensors": [None if t is None else t.clone() for t in (self._s, self._c, self._sum)],
            "count": self._count,
            "attached": {
                name: thing.get_state() if isinstance(thing, torch.Generator) else thing.state_dict()
                for name, thing in self._attached.items()
            },
            "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state, bit for bit."""
        if state.get("format") != FORMAT:
            raise CheckpointError(f"the state must have format {FORMAT}, got {state.get('format')!r}")
        if state["names"] != list(self.constraints):
            raise CheckpointError(f"the state belongs to constraints {state['names']}, got {list(self.constraints)}")
        missing = state["attached"].keys() ^ self._attached.keys()
        if missing:
            raise CheckpointError(f"the same things must be attached as when saving; different: {sorted(missing)}")
        functions = self._ready()
        if state["sizes"] is not None:
            functions.layout.scalar = dict(state["scalar"])
            functions.layout.settle(dict(state["sizes"]))
        self.beta, self.eta, self.done = state["beta"], state["eta"], state["done"]
        self.multipliers = np.array(state["multipliers"], dtype=np.float64)
        self.history = None
        if state["start"] is not None:
            objective, violation, negligible = state["start"]
            rows = [Iteration(**it) for it in state["iterations"]]
            self.history = History(objective, violation, negligible, rows)
        self.trace = [dict(row) for row in state["trace"]]
        self.steps, self._since, self._start_value = state["steps"], state["since"], state["start_value"]
        p, steps, carried, iterations = state["inner"]
        self._state = InnerState(p, steps, carried, None, iterations)
        kind = self._tensor_kind
        self._s, self._c, self._sum = (None if t is None else t.clone().to(**kind) for t in state["tensors"])
        self._count = state["count"]
        if self._s is not None:
            self._to_device()
        for name, thing in self._attached.items():
            saved = state["attached"][name]
            if isinstance(thing, torch.Generator):
                thing.set_state(saved)
            else:
                thing.load_state_dict(saved)
        torch.set_rng_state(state["rng"])
        if state["cuda_rng"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda_rng"])


def _none(model: Any, batch: Any) -> Any:
    raise InputError("test(evaluate, data) was not called with an evaluate function")
