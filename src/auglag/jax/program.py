"""The compiled program of one problem: start, step until done, all with the batch as the last axis."""

from __future__ import annotations

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from auglag.jax.certificate import Residuals, residuals
from auglag.jax.evaluation import ByArrays, ByNumbers, Evaluation, Functions, written
from auglag.jax.lockstep import Lockstep
from auglag.jax.rules import Rules
from auglag.jax.state import RUNNING, Options, Sides, State
from auglag.jax.vectors import Array, Rows, as_array, as_rows


@final
class Program:
    """Algorithm 1 for a batch of instances of one problem.

    `axes` says for every leaf of the parameters p whether it has the batch as its last axis or is shared. Sides are
    NumPy vectors that all instances share, or arrays with the batch last.
    """

    def __init__(self, functions: Functions, p: Any, axes: Any, rules: Rules, options: Options, dtype: Any) -> None:
        self.functions, self.axes, self.rules, self.options, self.dtype = functions, axes, rules, options, dtype
        self.written = None if options.memory else written(functions, p, dtype)

    @property
    def unrolled(self) -> bool:
        """Whether the problem is written out number by number."""
        return self.written is not None

    def _lockstep(self, p: Any, sides: Sides, batch: int) -> Lockstep:
        evaluation: Evaluation
        if self.written is not None:
            evaluation = ByNumbers(self.written, p, self.axes, batch, self.dtype)
        else:
            evaluation = ByArrays(self.functions, p, self.axes, batch, self.dtype)
        own = Sides(*[self._side(side) for side in sides])
        return Lockstep(evaluation, own, self.rules, self.options, self.functions.m, self.dtype)

    def _side(self, side: Any) -> Any:
        """Sides shared by all instances (one axis) stay constants; others (two axes) have the batch last."""
        if self.written is None:
            array = jnp.asarray(side, self.dtype)
            return array if array.ndim == 2 else array[:, None]
        if isinstance(side, np.ndarray) and side.ndim == 1:
            return Rows([float(entry) for entry in side])
        return as_rows(jnp.asarray(side, self.dtype))

    def begin(self, x: Array, y: Array, beta: Array | None, p: Any, sides: Sides) -> State:
        """The state at the start; x (n, batch), y (m, batch)."""
        batch = x.shape[-1]
        vector = as_rows if self.written is not None else jnp.asarray
        return self._lockstep(p, sides, batch).begin(vector(x), vector(y), beta, batch, self.dtype)

    def run(self, state: State, p: Any, sides: Sides, steps: Array | int, few: Array | int) -> State:
        """Step while more than `few` instances are running, at most `steps` times."""
        lockstep = self._lockstep(p, sides, state.beta.shape[-1])

        def going(carry: tuple[Array, State]) -> Array:
            done, state = carry
            return (done < steps) & (jnp.sum(state.status == RUNNING) > few)

        def body(carry: tuple[Array, State]) -> tuple[Array, State]:
            return carry[0] + 1, lockstep.step(carry[1])

        final: State = jax.lax.while_loop(going, body, (jnp.asarray(0, jnp.int32), state))[1]
        return final

    def certify(self, x: Array, y: Array, p: Any, sides: Sides) -> Residuals:
        """The certificate of every instance, from x and y alone."""

        def one(x: Array, y: Array, p: Any, sides: Sides) -> Residuals:
            return residuals(self.functions, x, y, p, *sides)

        last = jax.tree_util.tree_map(lambda mapped: -1 if mapped else None, self.axes)
        shared = Sides(*[None if side.ndim == 1 else -1 for side in sides])
        mapped = jax.vmap(one, in_axes=(-1, -1, last, shared), out_axes=-1, axis_size=x.shape[-1])
        check: Residuals = mapped(x, y, p, sides)
        return check

    def solution(self, state: State) -> tuple[Array, Array]:
        """x (n, batch) and the multipliers (m, batch) in the user's units."""
        batch = state.beta.shape[-1]
        x, y = as_array(state.x, batch, self.dtype), as_array(state.y, batch, self.dtype)
        if state.sf is not None and self.functions.m:
            y = y * as_array(state.sc, batch, self.dtype) / state.sf
        return x, y
