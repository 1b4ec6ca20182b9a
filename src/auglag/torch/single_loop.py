"""The single loop over the parameters of a model: the averaged Jacobian, and what it does to steps and values.

`auglag.single_loop.engine` has the formulas. `Core` is called once before and once after every step of an optimiser,
which `fit` or a loop of the user's own makes; nothing leaves the device, but for one number a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch

from auglag._typing import Vector
from auglag.algorithm.rules import PenaltyRule
from auglag.errors import InputError
from auglag.single_loop.engine import Engine, EngineState
from auglag.single_loop.multipliers import fitted
from auglag.single_loop.steps import newest_share
from auglag.torch.constraints import Layout
from auglag.torch.distributed import Team
from auglag.torch.metric import Metric
from auglag.torch.tuning import TUNING
from auglag.torch.variables import Variables

Tensor = Any


@final
@dataclass(slots=True)
class CoreState:
    """All that evolves beside the model and its optimiser."""

    engine: EngineState | None  #: None without constraints
    x: Tensor  #: the parameters after the last step
    average: Tensor  #: of the iterates
    jacobian: Tensor = None  #: the average of those of batches, (m, n)
    matrix: Tensor = None  #: the steps A at the last Jacobian
    flat: Tensor = None  #: constraints that had a value other than zero, and a gradient of zeros, on some batch
    row: int = 0  #: where the rotation through the rows stands
    averaged: int = 0  #: iterates in the average of this round


@final
class Core:
    """Weights for the next batch, and after the step its correction, the drift of c, multipliers and the average."""

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
        self.engine: Engine | None = None
        self.batched = True  #: whether rows of a Jacobian can be had together
        x = variables.read()
        if layout.m:
            kind = {"dtype": variables.wide, "device": variables.device}
            lower, upper, start = (torch.as_tensor(v, **kind) for v in (layout.lower, layout.upper, y))
            exact = torch.as_tensor(layout.exact, device=variables.device) if layout.exact.any() else None
            self.engine = Engine(torch, lower, upper, start, pass_steps=pass_steps, exact=exact, penalty=penalty)
        self.state = CoreState(None if self.engine is None else self.engine.state, x, x.clone())

    def restore(self, state: CoreState) -> None:
        """Go on from a saved state."""
        self.state = state
        if self.engine is not None and state.engine is not None:
            self.engine.state = state.engine

    @property
    def whole(self) -> bool:
        """Whether every Jacobian has all rows."""
        return self.layout.m <= TUNING.jacobian_rows

    # ------------------------------------------------------------------------------------------------- before the step

    def weights(self) -> Tensor:
        """w, in the precision of the parameters."""
        assert self.engine is not None
        return self.engine.weights().to(self.variables.dtype)

    def rows_wanted(self) -> list[int]:
        """The rows of the Jacobian that this step should bring: none, all, or the next ones of a rotation."""
        engine = self.engine
        if engine is None or not engine.wants_jacobian:
            return []
        m, count = self.layout.m, TUNING.jacobian_rows
        if self.whole or self.state.jacobian is None:
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
        found = []
        for start in range(0, len(rows), TUNING.jacobian_rows):
            found += self._some(c, rows[start : start + TUNING.jacobian_rows])
        return torch.cat(found)

    def _some(self, c: Tensor, rows: Sequence[int]) -> list[Tensor]:
        params, dtype = self.variables.params, self.variables.dtype
        options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
        if self.batched and len(rows) > 1:
            unit = torch.zeros(len(rows), c.numel(), dtype=c.dtype, device=c.device)
            unit[torch.arange(len(rows)), list(rows)] = 1.0
            try:
                parts = torch.autograd.grad(c, params, unit, is_grads_batched=True, **options)
                return [torch.cat([p.reshape(len(rows), -1).to(dtype) for p in parts], 1)]
            except RuntimeError:  # an operation whose derivative takes one vector at a time
                self.batched = False
        return [self.variables.flatten(torch.autograd.grad(c[i], params, **options))[None] for i in rows]

    # -------------------------------------------------------------------------------------------------- after the step

    def stepped(
        self, metric: Metric, w: Tensor | None, c: Tensor | None, found: Tensor | None, rows: Sequence[int]
    ) -> tuple[Tensor, bool]:
        """The optimiser moved the model with gradients of weights w; c are the values of its batch, at the x before.

        `found` are the new rows of the Jacobian, if any. Returns the x to which the model is to be put, and whether the
        constraints took part (not before the optimiser's first step).
        """
        state, engine = self.state, self.engine
        x = self.variables.read()
        matrix = metric.matrix() if engine is not None else None
        if engine is None or w is None or c is None or matrix is None:
            return x, False
        engine.used(w.to(self.variables.wide), metric.momentum())
        if found is not None:
            self._calibrate(found, c, rows, matrix / metric.fall(), metric.longest())
        engine.track(c.to(self.variables.wide))
        if state.jacobian is None:
            return x, False
        lead = engine.lead().to(x.dtype)
        return x.addcmul_(matrix, lead @ state.jacobian, value=-1.0), True

    def moved(self, metric: Metric, x: Tensor, *, active: bool) -> None:
        """The model is at x now: values drift along, multipliers follow, and the average takes x in."""
        state, engine = self.state, self.engine
        if engine is not None and active:
            change = state.jacobian @ (x - state.x)
            fall = metric.fall()
            engine.moved(change.to(self.variables.wide), fall)
            if engine.pass_ended:
                engine.outer(fall)
        state.x = x
        state.averaged += 1
        state.average.lerp_(x, newest_share(state.averaged))

    def _calibrate(self, found: Tensor, c: Tensor, rows: Sequence[int], matrix: Tensor, longest: Any) -> None:
        """New rows of the Jacobian join the average, and the penalties follow; c are the values of the batch."""
        state, engine, wide = self.state, self.engine, self.variables.wide
        assert engine is not None
        index = slice(None) if self.whole else torch.as_tensor(list(rows), device=found.device)
        if state.jacobian is None:
            found = torch.nan_to_num(found, 0.0, 0.0, 0.0)
            state.jacobian, state.flat = found.clone(), torch.zeros_like(c, dtype=torch.bool)
        else:
            self._rescale(engine, matrix)
            old = state.jacobian[index]
            found = torch.where(torch.isfinite(found.sum(1, keepdim=True)), found, old)
            if self.whole:
                old.lerp_(found, engine.jacobian_share)
            else:
                state.jacobian[index] = torch.lerp(old, found, engine.jacobian_share)
        state.matrix, J = matrix, state.jacobian
        if longest is not None:
            engine.limit((longest * torch.linalg.vector_norm(J, 1, dim=1)).to(wide))
        if self.whole:
            gram = (found @ (matrix * found).mT).to(wide)
            values = gram.diagonal()
            engine.calibrate(gram)
        else:
            values = ((found * found) @ matrix).to(wide)
            engine.calibrate_rows(index, values, lambda u: (J @ (matrix * (u.to(matrix.dtype) @ J))).to(wide))
        state.flat[index] |= (values == 0.0) & (c[index] != 0.0)

    def _rescale(self, engine: Engine, matrix: Tensor) -> None:
        """The steps have changed since the last Jacobian: so does the average of its Gram matrix."""
        J = self.state.jacobian
        before, now = ((J * J) @ torch.stack([self.state.matrix, matrix], 1)).to(self.variables.wide).unbind(1)
        usual = (before > 0.0) & (now > 0.0)
        engine.rescale(torch.where(usual, now / torch.where(usual, before, 1.0), 1.0))

    def fitted(self, gradient: Tensor, y: Vector, c: Vector) -> Vector:
        """Multipliers near y that fit the gradient of L there, by the averaged Jacobian; c over all rows."""
        J = self.state.jacobian
        numbers = torch.cat([J @ J.mT, (J @ gradient)[None]]).to(self.variables.wide).cpu().numpy()
        return fitted(numbers[:-1], numbers[-1], y, c, self.layout.lower, self.layout.upper)

    def again(self) -> None:
        """A new round: the rate is back, and so is the average's start."""
        self.state.averaged = 0
        if self.engine is not None:
            self.engine.again()

    def check(self) -> None:
        """After a pass: a constraint whose gradient was zero on every batch so far is named.

        Not where the batches that were looked at may have had no row that it is about: its value was zero there, and is
        not everywhere.
        """
        if self.engine is None or self.engine.state.gram is None:
            return
        gram = self.engine.state.gram
        diagonal = gram if gram.ndim == 1 else gram.diagonal()
        constant = self.state.flat | (self.engine.tracked == 0.0)
        zero = ((diagonal == 0.0) & constant).nonzero().reshape(-1).tolist()
        if zero:
            raise InputError(
                f"constraint {self.layout.names()[zero[0]]!r} must change with the parameters, got a gradient of zeros "
                "on every batch of the first pass: it is constant, or its graph is cut"
            )
