"""The single loop over the parameters of a model: the averaged Jacobian, and what it says about steps and values.

`auglag.single_loop.engine` has the formulas. `Core` is asked for weights before and told of every step of an optimiser,
which `fit` or a loop of the user's own makes; nothing leaves the device, but for one number a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch

from auglag._typing import Vector
from auglag.algorithm.rules import PenaltyRule
from auglag.errors import InputError
from auglag.single_loop.engine import Engine, EngineState
from auglag.single_loop.limit import strain
from auglag.single_loop.multipliers import fitted, rows_to_fit
from auglag.single_loop.steps import newest_share
from auglag.torch.constraints import Layout
from auglag.torch.distributed import Team
from auglag.torch.entries import Entries
from auglag.torch.metric import Metric
from auglag.torch.tuning import TUNING
from auglag.torch.variables import Variables

Tensor = Any


@final
@dataclass(slots=True)
class CoreState:
    """All that evolves beside the model and its optimiser."""

    engine: EngineState | None  #: None without constraints
    here: Tensor  #: the sampled entries of the parameters after the last step
    average: Tensor  #: of the iterates
    jacobian: Tensor = None  #: the average of those of batches at these entries, (m, entries)
    flat: Tensor = None  #: constraints that had a value other than zero, and a gradient of zeros, on some batch
    newest: Tensor = None  #: rows of the last batches that had them
    visits: list[int] = field(default_factory=list)  #: rows of Jacobians so far, for each constraint
    row: int = 0  #: where the rotation through the rows stands
    steps: int = 0  #: of this round
    averaged: int = 0  #: iterates of this round in the average


@final
class Core:
    """Weights for the next batch, and after the step the drift of c, penalties, multipliers and the average."""

    def __init__(
        self,
        variables: Variables,
        layout: Layout,
        team: Team,
        *,
        pass_steps: int | None,
        y: Any = None,
        penalty: PenaltyRule | None = None,
    ) -> None:
        self.variables, self.layout, self.team = variables, layout, team
        self.entries = Entries(variables, layout.m)
        #: What costs as much as a good part of a step is done so many times less often: Jacobians, averages.
        self.pause = 1 if variables.n <= TUNING.jacobian_numbers else TUNING.pause
        self.endless = pass_steps is None
        self.engine: Engine | None = None
        self.batched = True  #: whether rows of a Jacobian can be had together
        if layout.m:
            kind = {"dtype": variables.wide, "device": variables.device}
            lower, upper, start = (torch.as_tensor(v, **kind) for v in (layout.lower, layout.upper, y))
            exact = torch.as_tensor(layout.exact, device=variables.device) if layout.exact.any() else None
            self.engine = Engine(torch, lower, upper, start, pass_steps=pass_steps, exact=exact, penalty=penalty)
        engine = None if self.engine is None else self.engine.state
        self.state = CoreState(engine, self.entries.here(), variables.read(), visits=[0] * layout.m)

    def restore(self, state: CoreState) -> None:
        """Go on from a saved state."""
        self.state = state
        if self.engine is not None and state.engine is not None:
            self.engine.state = state.engine

    # ------------------------------------------------------------------------------------------------- before the step

    def weights(self) -> Tensor:
        """w, in the precision of the parameters."""
        assert self.engine is not None
        return self.engine.weights().to(self.variables.dtype)

    def rows_wanted(self) -> list[int]:
        """The rows of the Jacobian that this step should bring: none, all, or the next ones of a rotation."""
        engine = self.engine
        if engine is None or not engine.wants_jacobian(self.pause):
            return []
        m, count = self.layout.m, max(1, TUNING.jacobian_numbers // self.variables.n)
        if m <= count or self.state.jacobian is None:
            return list(range(m))
        first, self.state.row = self.state.row, (self.state.row + count) % m
        return [(first + i) % m for i in range(count)]

    def jacobian(self, c: Tensor, rows: Sequence[int]) -> Tensor:
        """These rows of dc/dx on the batch, whose graph is kept; the mean over all processes is yet to be taken."""
        if not c.requires_grad:
            raise InputError(
                "constraints must depend on the parameters by operations with derivatives, got values without any: "
                "detached, made under no_grad, or a decision such as score > 0, which needs a smooth stand-in"
            )
        together = max(1, TUNING.jacobian_memory // self.variables.n)
        return torch.cat([self._some(c, rows[i : i + together]) for i in range(0, len(rows), together)])

    def _some(self, c: Tensor, rows: Sequence[int]) -> Tensor:
        params = self.variables.params
        options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
        if self.batched and len(rows) > 1:
            unit = torch.zeros(len(rows), c.numel(), dtype=c.dtype, device=c.device)
            unit[torch.arange(len(rows)), list(rows)] = 1.0
            try:
                parts = torch.autograd.grad(c, params, unit, is_grads_batched=True, **options)
                return self.entries.rows(parts, len(rows))
            except RuntimeError:  # an operation whose derivative takes one vector at a time
                self.batched = False
        return torch.stack([self.entries.take(torch.autograd.grad(c[i], params, **options)) for i in rows])

    # -------------------------------------------------------------------------------------------------- after the step

    def stepped(
        self,
        metric: Metric,
        c: Tensor | None,
        found: Tensor | None,
        rows: Sequence[int],
        *,
        here: Tensor = None,
        own: Tensor = None,
    ) -> None:
        """The model has moved; c are the values of its batch at the x before, `found` the new rows of the Jacobian.

        `here` are its entries now, and `own` those of the objective's own gradient on this batch, if they are known.
        Values drift along, penalties and multipliers follow, and the average takes the new point in.
        """
        state, engine, wide = self.state, self.engine, self.variables.wide
        if engine is not None and c is not None:
            if found is not None:
                self._calibrate(engine, metric, c, found, rows)
                if own is not None and state.jacobian is not None:
                    self._bound(engine, metric, own)
            engine.track(c.to(wide))
            before, state.here = state.here, self.entries.here() if here is None else here
            if state.jacobian is not None:
                fall = metric.fall()
                change = state.jacobian @ self.entries.weighted(state.here - before)
                engine.moved(change.to(wide), fall, metric.coast())
                if engine.pass_ended:
                    engine.outer(fall)
        if state.steps % self.pause == 0:
            self._average()
        state.steps += 1

    def _average(self) -> None:
        state, dtype = self.state, self.variables.dtype
        state.averaged += 1
        with torch.no_grad():
            points = [p if p.dtype == dtype else p.to(dtype) for p in self.variables.params]
            share = newest_share(state.averaged, endless=self.endless)
            torch._foreach_lerp_(self.variables.split(state.average), points, share)

    def _calibrate(self, engine: Engine, metric: Metric, c: Tensor, found: Tensor, rows: Sequence[int]) -> None:
        """New rows of the Jacobian join the average, and penalties follow; not before the optimiser's first step."""
        matrix = metric.matrix(self.entries)
        if matrix is None:
            return
        state, wide = self.state, self.variables.wide
        if state.jacobian is None:
            state.jacobian = torch.nan_to_num(found, 0.0, 0.0, 0.0)
            state.flat, state.newest = torch.zeros_like(c, dtype=torch.bool), state.jacobian.clone()
        else:
            self._join(engine, found, rows)
        for i in rows:
            state.visits[i] += 1
        J, weighted = state.jacobian, self.entries.weighted(matrix / metric.fall())
        index = torch.as_tensor(list(rows), device=found.device)
        diagonal = ((J * J) @ weighted).to(wide)
        engine.calibrate(diagonal, lambda u: (J @ (weighted * (u.to(J.dtype) @ J))).to(wide))
        longest, noise = metric.longest(), torch.nan_to_num(found - state.newest[index], 0.0, 0.0, 0.0)
        if longest is not None:

            def strained(e: Tensor) -> Tensor:  # two batches have twice the noise of one
                e = e.to(J.dtype)
                both = (weighted * (e @ noise) ** 2).sum() / 2.0, (weighted * (e @ J[index]) ** 2).sum()
                return strain(*both, engine.state.steps).to(wide)

            power = longest * longest * self.entries.weighted(metric.fall() / matrix).sum()
            engine.limit(power.to(wide), strained, index)
        state.newest[index] = torch.where(torch.isfinite(found), found, state.newest[index])
        state.flat[index] |= (found == 0.0).all(1) & (c[index] != 0.0)

    def _bound(self, engine: Engine, metric: Metric, own: Tensor) -> None:
        """No multipliers that pull many times harder than the objective does."""
        weighted = self.entries.weighted(metric.matrix(self.entries))
        pull = engine.state.y.to(own.dtype) @ self.state.jacobian
        engine.bound(*(torch.sqrt((weighted * v * v).sum()).to(self.variables.wide) for v in (own, pull)))

    def _join(self, engine: Engine, found: Tensor, rows: Sequence[int]) -> None:
        """Averages of rows take these in, rows without noise as they are; one that is not finite is left out."""
        J, visits, exact = self.state.jacobian, self.state.visits, self.layout.exact
        whole = len(rows) == len(visits)
        index = slice(None) if whole else torch.as_tensor(list(rows), device=found.device)
        newest = [1.0 if exact[i] else engine.newest(visits[i]) for i in rows]
        shares = torch.tensor(newest, dtype=J.dtype).to(J.device)[:, None]
        old = J[index]
        J[index] = torch.where(torch.isfinite(found.sum(1, keepdim=True)), old + shares * (found - old), old)

    def fitted(self, gradient: Tensor, y: Vector, c: Vector) -> Vector:
        """Multipliers near y that fit the gradient of L there, by the averaged Jacobian; c over all rows."""
        few, layout, entries = rows_to_fit(y), self.layout, self.entries
        J = self.state.jacobian if few.size == y.size else self.state.jacobian[torch.as_tensor(few)]
        slope = J @ entries.weighted(entries.take(self.variables.split(gradient)))
        numbers = torch.cat([entries.weighted(J) @ J.mT, slope[None]]).to(self.variables.wide).cpu().numpy()
        found = y.copy()
        found[few] = fitted(numbers[:-1], numbers[-1], y[few], c[few], layout.lower[few], layout.upper[few])
        return found

    def again(self) -> None:
        """A new round from where the model is: the rate is back, and so is the average's start."""
        self.state.steps, self.state.averaged, self.state.here = 0, 0, self.entries.here()
        if self.engine is not None:
            self.engine.again()

    def check(self) -> None:
        """After a pass: a constraint whose gradient was zero on every batch so far is named.

        Not where the batches that were looked at may have had no row that it is about: its value was zero there, and
        something else on others.
        """
        if self.engine is None or self.engine.state.diagonal is None:
            return
        constant = self.state.flat | (self.engine.state.variance == 0.0)
        zero = ((self.engine.state.diagonal == 0.0) & constant).nonzero().reshape(-1).tolist()
        if zero:
            raise InputError(
                f"constraint {self.layout.names()[zero[0]]!r} must change with the parameters, got a gradient of zeros "
                "on every batch of the first pass: it is constant, or its graph is cut"
            )
