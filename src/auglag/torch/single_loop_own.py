"""The single loop in a training loop of your own: `SingleLoop`.

al = SingleLoop(model, {"false alarms": at_most(0.1)}, optimizer=optimizer, data=loader)     # 1
for batch in loader:
    optimizer.zero_grad()
    al.loss(loss, values).backward()          # 2, instead of loss.backward()
    optimizer.step()
    al.step()                                 # 3
al.settle()                                   # 4: the mean of the last iterates, into the model
al.certificate(evaluate, loader)              # 5: R over all rows
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, final

import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data.sampler import SequentialSampler

from auglag._names import suggesting
from auglag._typing import Vector
from auglag.algorithm.history import History, Iteration
from auglag.algorithm.rules import PenaltyRule
from auglag.certificate import Certificate
from auglag.errors import InputError, integer_or_none
from auglag.report import logger
from auglag.single_loop.engine import EngineState
from auglag.single_loop.steps import least_fall
from auglag.torch.certify import certify_point
from auglag.torch.constraints import Constraint, Layout
from auglag.torch.distributed import Team, mean_over_processes
from auglag.torch.functions import Functions
from auglag.torch.group_terms import apply_terms, terms_of
from auglag.torch.metric import Metric, OptimizerMetric
from auglag.torch.own_loop import OwnLoop
from auglag.torch.single_loop import Core, CoreState
from auglag.torch.tuning import TUNING
from auglag.torch.variables import Variables

Tensor = Any


@suggesting
@final
class SingleLoop(OwnLoop):
    """Multipliers and penalties that move with every step of a loop that belongs to the user.

    `constraints` maps names to `at_most(bound)`, `at_least(bound)`, `equal(value)`, `between(lower, upper)`; their
    values come through `loss`. `optimizer` is SGD, Adam, AdamW, NAdam, RMSprop or Adagrad (another one with `metric`);
    its rate and schedule are the user's, `annealing(t)` is a factor that suits. `data` is the loader, or else
    `per_pass` the number of steps in which every row is seen once (None: a stream without end): the values of the
    constraints are averaged over at most a pass. Rows must come in random order. Terms under the key "prox" of the
    optimiser's groups are applied by `step`.
    """

    format = 6

    def __init__(
        self,
        model: Any,
        constraints: Mapping[str, Constraint],
        *,
        optimizer: Any,
        data: Any = None,
        per_pass: int | None = None,
        steps: int | None = None,
        metric: Metric | None = None,
        rule: PenaltyRule | None = None,
        y0: Any = None,
    ) -> None:
        super().__init__(model, constraints, optimizer)
        self.rule, self._y0 = rule, y0
        self.per_pass, self.horizon = _per_pass(data, per_pass), integer_or_none(steps, "steps")
        self._given = metric
        if metric is None:
            OptimizerMetric(optimizer, Variables(self.model.named_parameters()))  # an unknown one is named now
        if hasattr(model, "_orig_mod") or hasattr(self.model, "_orig_mod"):  # compiled: graphs are used twice
            torch._functorch.config.donated_buffer = False
        self._core: Core | None = None
        self._metric: Metric | None = metric
        self._clear()

    def _clear(self) -> None:
        self._count = 0  #: batches since the last step, the sum of their values, and of the rows of their Jacobians
        self._objectives: list[Tensor] = []
        self._total: Tensor = None
        self._found: Tensor = None
        self._w: Tensor = None  #: the weights they had
        self._rows: list[int] = []

    # --------------------------------------------------------------------------------------------- where it stands

    @property
    def multipliers(self) -> Vector:
        """y; L = f + y'c."""
        return self._numbers("y")

    @property
    def penalties(self) -> Vector:
        """beta, one per constraint value."""
        return self._numbers("beta")

    @property
    def tracked(self) -> Vector:
        """The values of the constraints at the present point, from the batches of the last pass."""
        return self._numbers("tracked")

    @property
    def steps(self) -> int:
        """Steps so far."""
        engine = None if self._core is None else self._core.engine
        return 0 if engine is None else engine.state.steps

    @property
    def history(self) -> History:
        """The virtual outer iterations, one per pass: the tracked violation, and the factor of the penalties."""
        engine = None if self._core is None else self._core.engine
        return History(math.nan, math.inf) if engine is None else engine.state.history

    def _numbers(self, what: str) -> Vector:
        engine = None if self._core is None else self._core.engine
        if engine is None:
            return np.zeros(0)
        found = engine.state.y if what == "y" else engine.tracked if what == "tracked" else engine.state.beta
        return np.zeros(0) if found is None else np.array(found.tolist())

    def annealing(self, t: int) -> float:
        """1 at step 0, falling linearly to 0 at `steps`: for `lr_scheduler.LambdaLR(optimizer, al.annealing)`."""
        if self.horizon is None:
            raise InputError("SingleLoop.annealing needs steps=, the number of steps of the training, got None")
        return least_fall(1.0 - t / self.horizon)

    # ---------------------------------------------------------------------------------------------- inside the loop

    def loss(self, objective: Tensor, constraints: Any) -> Tensor:
        """f + w'c of a batch with weights w from the batches before; `constraints` by name or as one vector."""
        functions = self._ready()
        if self._seen.forgotten(self._count):
            self._clear()
            raise self._seen.error()
        f = functions.scalar(objective)
        c = functions.checked(functions.layout.flatten(constraints))
        if c is None:
            return f
        core = self._begin(functions)
        if self._w is None:
            self._w, self._rows = core.weights(), core.rows_wanted()
        if self._rows:
            found = core.jacobian(c, self._rows)
            self._found = found if self._found is None else self._found + found
        here = c.detach().to(functions.variables.wide)
        self._total = here if self._total is None else self._total + here
        self._objectives.append(f.detach())
        self._count += 1
        return self._seen.watched(torch.dot(self._w, c.to(self._w.dtype)) + f)

    def _before_step(self) -> None:
        """A step that would make the parameters NaN is refused; then its batches are forgotten."""
        if self._count and self._functions is not None:
            try:
                self._functions.require_finite(self._objectives, self._total, self.steps + 1)
            except InputError:
                self._clear()
                raise

    @property
    def waiting(self) -> bool:
        """Whether `loss` was called since the last step."""
        return self._count > 0

    def step(self) -> None:
        """After every step of the optimiser: values, penalties and multipliers follow."""
        if self.waiting:
            self._seen.check_made(self._ready().variables.params)
        self._seen.count = 0
        apply_terms(self.optimizer)
        if self.constraints and not self.waiting:
            raise self._seen.no_loss()
        if self._core is None or self._metric is None or not self._count:
            return
        core, metric, n = self._core, self._metric, self._count
        c = mean_over_processes(self._total / n)
        here = core.entries.here()
        if self.steps % (1 if here.device.type == "cpu" else TUNING.look_every) == 0:
            self._check_model(core, c, here)
        found = None if self._found is None else mean_over_processes(self._found / n)
        core.stepped(metric, c, found, self._rows, here=here)
        self._check_horizon()
        if core.engine is not None and core.engine.state.steps == core.engine.pass_steps:
            core.check()
        self._clear()

    def _check_horizon(self) -> None:
        """More steps than `annealing` was told of are made at a rate of almost nothing."""
        if self.horizon is not None and self.steps == self.horizon + 1:
            logger.warn(
                f"steps={self.horizon} is the number of the optimiser's steps in all the training, not of epochs, and "
                f"step {self.steps} was made: annealing(t) stays at its end, where next to nothing is learned. Give "
                "steps=epochs * len(loader)"
            )

    def _check_model(self, core: Core, c: Tensor, here: Tensor) -> None:
        """A batch with NaN has made the parameters NaN: it is named, and the model put at its average before that."""
        if math.isfinite(float(here.sum())):
            return
        names = core.layout.names()
        broken = [name for name, v in zip(names, c.tolist(), strict=True) if not math.isfinite(v)]
        what = f"constraint {broken[0]!r}" if broken else "the objective, or its gradient,"
        average = core.state.average
        usable = bool(torch.isfinite(average).all())
        if usable:
            core.variables.write(average)
        where = "the model is now at the average of its last iterates" if usable else "a saved state goes on before it"
        raise InputError(
            f"{what} must be finite on every batch: after step {self.steps + 1} the parameters are NaN or inf; {where}"
        )

    def settle(self) -> None:
        """Put the mean of the last iterates into the model: it has less noise than any of them."""
        if self._core is not None and terms_of(self.optimizer, self._ready().variables).empty:
            self._ready().variables.write(self._core.state.average)

    def certificate(self, evaluate: Callable[[Any, Any], Any], data: Any, multipliers: Any = None) -> Certificate:
        """R and its parts over all rows, streamed, for the model as it is; `evaluate` returns (loss, values).

        Without `multipliers`, those of the loop or, where R is smaller with them, these fitted to the gradient.
        """
        full, functions = self._full(evaluate, data), self._ready()
        x = functions.variables.read()
        full.values(x)
        y = functions.layout.multipliers(multipliers if multipliers is not None else self._y0)
        if multipliers is None and self._core is not None:
            y = self.multipliers
        terms = terms_of(self.optimizer, functions.variables)
        check = certify_point(full, terms, x, y)
        if multipliers is not None or self._core is None or self._core.state.jacobian is None:
            return check
        values, gradient = full.at(x, lambda c: y)
        other = certify_point(full, terms, x, self._core.fitted(gradient, y, values.c))
        return min(check, other, key=lambda found: found.residual)

    def scalars(self) -> dict[str, float]:
        """What to plot: the tracked values, multipliers and penalties by name, and the factor of the paper's rule."""
        core = self._core
        if core is None or core.engine is None or self._functions is None or core.engine.state.beta is None:
            return {}
        layout = self._functions.layout
        found = {"beta": core.engine.state.factor}
        for what, numbers in (("multiplier", self.multipliers), ("value", self.tracked), ("penalty", self.penalties)):
            found |= {f"{what}/{name}": v for name, v in zip(layout.names(), numbers.tolist(), strict=True)}
        outside = self.tracked - np.clip(self.tracked, layout.lower, layout.upper)
        return found | {"violation": float(np.linalg.norm(outside))}

    # ------------------------------------------------------------------------------------------------ what is behind it

    def _core_of(self, layout: Layout) -> Core:
        variables, y = self._ready().variables, layout.multipliers(self._y0)
        team = Team(variables.device)
        return Core(variables, layout, team, pass_steps=self.per_pass, y=y, penalty=self.rule)

    def _begin(self, functions: Functions) -> Core:
        """The first batch tells how many constraints there are."""
        if self._core is None:
            self._core = self._core_of(functions.layout)
            if self._metric is None:
                self._metric = OptimizerMetric(self.optimizer, functions.variables)
        return self._core

    # ---------------------------------------------------------------------------------------------------- save, resume

    def _state_now(self) -> dict[str, Any]:
        return {
            "core": None if self._core is None else asdict(self._core.state),
            "rates": [getattr(self._metric, "highest", 0.0), getattr(self._metric, "first", 0.0)],
        }

    def _read(self, state: dict[str, Any], layout: Layout) -> Callable[[], None]:
        variables, core = self._ready().variables, None
        highest, first = state["rates"]
        if state["core"] is not None:
            core = self._core_of(layout)
            saved = _copied(state["core"], variables.device)
            if saved["engine"] is not None:
                history = saved["engine"]["history"]
                history["iterations"] = [Iteration(**it) for it in history["iterations"]]
                saved["engine"] = EngineState(**saved["engine"] | {"history": History(**history)})
            core.restore(CoreState(**saved))

        def take_up() -> None:
            self._clear()
            self._core, self._metric = core, self._given
            if core is not None and self._given is None:  # an optimiser that was restored has other groups
                self._metric = OptimizerMetric(self.optimizer, variables)
                self._metric.highest, self._metric.first = highest, first

        return take_up


def _copied(nest: Any, device: Any) -> Any:
    """The same nest with tensors of its own, on the device."""
    if isinstance(nest, torch.Tensor):
        return nest.clone().to(device)
    if isinstance(nest, dict):
        return {key: _copied(value, device) for key, value in nest.items()}
    return [_copied(value, device) for value in nest] if isinstance(nest, list) else nest


def _per_pass(data: Any, per_pass: int | None) -> int | None:
    """Steps of a pass; a loader in fixed order is refused."""
    per_pass = integer_or_none(per_pass, "per_pass")
    if torch.is_tensor(data) or (isinstance(data, tuple) and all(map(torch.is_tensor, data))):
        raise InputError(
            "data must be the DataLoader that the training goes through, whose length is the number of steps of a pass "
            f"(or give per_pass=), got the rows themselves, a {type(data).__name__}"
        )
    if isinstance(data, DataLoader) and isinstance(
        getattr(data.batch_sampler, "sampler", data.sampler), SequentialSampler
    ):
        raise InputError(
            "data must be a loader that shuffles (shuffle=True): values of constraints are averaged over batches, "
            "which have to be samples of all rows; got one with SequentialSampler"
        )
    if per_pass is None and data is not None:
        try:
            return max(1, len(data))
        except TypeError:
            return None
    return per_pass
