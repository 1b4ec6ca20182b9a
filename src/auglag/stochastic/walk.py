"""Steps of the single loop with NumPy, wherever batches come from: the blocks of a run, or rows as they arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._typing import Matrix, Vector
from auglag.errors import InputError
from auglag.prox import Box, Zero
from auglag.prox.base import ProxTerm
from auglag.single_loop.engine import Engine, EngineState
from auglag.single_loop.limit import strain
from auglag.single_loop.steps import ScaledState, ScaledSteps, newest_share
from auglag.stochastic.single_loop import SingleLoop


@final
@dataclass(slots=True)
class WalkState:
    """All that evolves from step to step."""

    x: Vector
    average: Vector  #: of the last points, before the prox
    engine: EngineState | None  #: None without constraints
    moments: ScaledState
    jacobian: Matrix | None = None  #: averaged
    newest: Matrix | None = None  #: rows of the last batches that had them
    jacobians: Any = 0  #: in the average, for every constraint
    flat: Any = False  #: constraints that had a value other than zero, and a gradient of zeros, on some batch
    length: float = 1.0  #: of the prox, averaged like the points
    done: int = 0


@final
class Walk:
    """Moves x, the weights and the multipliers by one batch at a time.

    `exact` marks constraints without noise; `pass_steps` is None where rows have no end; `saved` is where an earlier
    walk stood.
    """

    def __init__(
        self,
        method: SingleLoop,
        x: Vector,
        y: Vector,
        lower: Vector,
        upper: Vector,
        *,
        g: ProxTerm,
        names: Sequence[str],
        pass_steps: int | None,
        exact: Any = None,
        saved: WalkState | None = None,
    ) -> None:
        self.rate, self.g, self.names, self.endless = method.rate, g, names, pass_steps is None
        self.boxed = isinstance(g, Zero | Box)
        shared = [] if self.boxed else [slice(0, x.size)]
        self.steps = ScaledSteps(np, x, method.rate, shared, adapt=method.adapt)
        self.engine: Engine | None = None
        if y.size:
            self.engine = Engine(np, lower, upper, y, exact=exact, pass_steps=pass_steps, penalty=method.rule)
        if saved is None:
            state = None if self.engine is None else self.engine.state
            saved = WalkState(x.copy(), x.copy(), state, self.steps.state)
        elif self.engine is not None and saved.engine is not None:
            self.engine.state = saved.engine
        self.state, self.steps.state = saved, saved.moments

    @property
    def settled(self) -> Vector:
        """The prox of the mean of the last points: sides and zeros are kept, and the noise of a single step is not."""
        return np.asarray(self.g.prox(self.state.average, self.state.length))

    def weights(self) -> Vector:
        """w, for the gradient grad f + J'w of the next batch."""
        return np.zeros(0) if self.engine is None else np.asarray(self.engine.weights())

    def wants_jacobian(self) -> bool:
        """Whether the next batch should bring its Jacobian."""
        return self.engine is not None and self.engine.wants_jacobian()

    def move(self, gradient: Vector, c: Vector, jacobian: Matrix | None, fall: float, known: Any = slice(None)) -> None:
        """One step, by grad f + J'w and c of a batch at x, at `fall` of the rate; nothing moves if they are not finite.

        `known` are the constraints that the batch has rows of.
        """
        state, steps, engine = self.state, self.steps, self.engine
        self._require_finite(gradient, c[known])
        steps.factor = fall
        x = state.x
        point = steps.take(x, gradient)
        length = 1.0 if self.boxed else float(steps.matrix()[0])
        after = self.g.prox(point, length)
        if engine is not None:
            if jacobian is not None:
                self._calibrate(engine, jacobian, c, known)
            engine.track(c)
            engine.moved(state.jacobian @ (after - x), steps.fall(), steps.coast())
            if engine.pass_ended:
                engine.outer(steps.fall())
        state.x, state.done = after, state.done + 1
        share = newest_share(state.done, endless=self.endless)
        state.average = state.average + share * (point - state.average)
        state.length += share * (length - state.length)

    def _calibrate(self, engine: Engine, found: Matrix, c: Vector, known: Any) -> None:
        """The Jacobian of a batch joins the average, and the penalties follow; c are the values of the batch."""
        state, matrix = self.state, self.steps.matrix() / self.steps.fall()
        J = np.zeros_like(found) if state.jacobian is None else state.jacobian.copy()
        visits = np.zeros(len(found), dtype=np.intp) + state.jacobians
        share = np.array([engine.newest(count) for count in visits[known].tolist()])
        if engine.exact is not None:  # these rows have no noise
            share = np.where(engine.exact[known], 1.0, share)
        J[known] += share[:, None] * (found[known] - J[known])
        visits[known] += 1
        state.jacobian, state.jacobians = J, visits
        state.flat = state.flat | (~found.any(axis=1) & (c != 0.0))
        engine.calibrate((J * J) @ matrix, lambda u: J @ (matrix * (u @ J)))
        before = found if state.newest is None else state.newest
        noise = (found - before)[known]
        state.newest = before.copy()
        state.newest[known] = found[known]

        def strained(e: Vector) -> Any:  # two batches have twice the noise of one
            return strain(matrix @ (e @ noise) ** 2 / 2.0, matrix @ (e @ J[known]) ** 2, engine.state.steps)

        engine.limit(np.sum(self.steps.longest() ** 2 / matrix), strained, known)

    def _require_finite(self, gradient: Vector, c: Vector) -> None:
        if np.isfinite(gradient).all() and np.isfinite(c).all():
            return
        bad = np.flatnonzero(~np.isfinite(c))
        what = f"constraint {self.names[bad[0]]!r}" if bad.size else "objective, constraints and gradients"
        raise InputError(
            f"{what} must be finite on every batch, got NaN or inf at step {self.state.done + 1} of the single loop "
            f"(rate {self.rate:g})"
        )

    def require_change(self) -> None:
        """After a pass: a constraint whose gradient was zero on every batch is named.

        Not where the batches that were looked at may have had no row that it is about: its value was zero there, and
        something else on others.
        """
        if self.engine is None or self.engine.state.diagonal is None:
            return
        constant = self.state.flat | (self.engine.state.variance == 0.0)
        zero = np.flatnonzero((self.engine.state.diagonal == 0.0) & constant)
        if zero.size:
            raise InputError(
                f"constraint {self.names[zero[0]]!r} must change with x, got a gradient of zeros on every "
                "batch of the first pass"
            )
