"""Many problems of one structure at once: each slot of a batch runs the device loop on one parameter set.

What a slot does is in `slots`. A slot whose problem has ended takes on the next one, so that the batch stays full and
nothing is compiled or analysed again; what a slot cannot solve is left to the loop for single problems.
"""

from __future__ import annotations

import time
from typing import Any, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np

from auglag.algorithm.status import Status
from auglag.errors import integer_or_none
from auglag.model.device.condensed import Condensation
from auglag.model.device.linear import Sparse, chosen
from auglag.model.device.program import Program
from auglag.model.device.slots import RUNNING, Finished, Slot, State
from auglag.model.device.tuning import TUNING
from auglag.model.structure import Pattern


class Solver(Protocol):
    """Factorises and solves a whole batch."""

    def factor(self, values: Any, running: Any) -> Any: ...
    def solve(self, right: Any) -> Any: ...


@final
class OneByOne:
    """A batch by a solver of single matrices for every slot: for the CPU."""

    def __init__(self, pattern: Pattern, size: int, name: str | None) -> None:
        self._solvers: list[Sparse] = [chosen(pattern, "cpu", name) for _ in range(size)]
        self._known = [False] * size

    def factor(self, values: Any, running: Any) -> None:
        each = zip(self._solvers, np.asarray(values), running, strict=True)
        self._known = [runs and s.factor(v) is not None for s, v, runs in each]

    def solve(self, right: Any) -> Any:
        right = np.asarray(right)
        rows = [
            np.asarray(s.solve(b)) if known else np.full_like(b, np.nan)
            for s, b, known in zip(self._solvers, right, self._known, strict=True)
        ]
        return jnp.asarray(np.stack(rows))


@final
class Flat:
    """cuDSS's uniform batch, whose members lie one after the other, of matrices without rows of inequalities."""

    def __init__(self, program: Program, size: int, *, deterministic: bool) -> None:
        from auglag.model.device.cudss import CuDSS

        c = Condensation(program.pattern, program.n + program.rows)
        self._solver, self._maps = CuDSS(c.pattern, batch=size, deterministic=deterministic), c.maps
        several, many = jax.vmap(c.right, in_axes=(None, None, 0)), jax.vmap(c.whole, in_axes=(None, None, 0, 0))
        self._smaller = program.jit(jax.vmap(c.values, in_axes=(None, 0)))
        self._right = program.jit(jax.vmap(several, in_axes=(None, 0, 0)))
        self._whole = program.jit(jax.vmap(many, in_axes=(None, 0, 0, 0)))

    def factor(self, values: Any, running: Any) -> None:
        del running  # all members are factorised by one call
        self._values = values
        self._known = self._solver.factor(self._smaller(self._maps, values).reshape(-1)) is not None

    def solve(self, right: Any) -> Any:
        if not self._known:
            return jnp.full_like(right, jnp.nan)
        smaller = self._right(self._maps, self._values, right)
        solution = self._solver.solve(smaller.reshape(-1)).reshape(smaller.shape)
        return self._whole(self._maps, self._values, right, solution)


def slots_for(device: Any, wanted: int | None) -> int:
    """How many problems a batch on this device solves at a time."""
    wanted = integer_or_none(wanted, "slots")
    return wanted or (TUNING.batch_slots_cpu if device.platform == "cpu" else TUNING.batch_slots)


def shared_size(count: int) -> int:
    """The next of two sizes in every octave: numbers that are near each other share what is compiled for them."""
    step = 1 << max(0, count.bit_length() - 2)
    return -(-count // step) * step


@final
class Batch:
    """The compiled parts for `slots` problems at once."""

    def __init__(
        self, program: Program, slots: int, solver: Solver, *, tol: float, scaled_tol: float, steps: int | None = None
    ) -> None:
        self.program, self.slots, self.solver = program, slots, solver
        slot = Slot(program, tol=tol, scaled_tol=scaled_tol, steps=steps or TUNING.batch_steps)
        many = (None, 0)
        jit = program.jit
        self._fresh = jit(jax.vmap(slot.begin, in_axes=(*many, None, None, None)), static_argnums=4)
        self._first = jit(jax.vmap(slot.before, in_axes=(*many, 0)))
        self._second = jit(jax.vmap(slot.after, in_axes=(*many, 0, 0, 0, 0, 0, 0)))
        self._refill, self._put = jit(self._refilled), jit(self._written)
        self._accuracy = jit(jax.vmap(slot.residual, in_axes=(None, 0, 0, 0)))
        self._store = jit(jax.vmap(slot.kept, in_axes=(None, 0, 0)))

    def run(self, d: dict[str, Any], par: Any, x: Any, y: Any) -> tuple[Finished, float]:
        """Solve for every row of `par` from x (and multipliers y, if given)."""
        begun = time.perf_counter()
        d = {**d, "units": self.program.ones(self.program.m)}  # all rows are regularised alike, as far from solutions
        total, warm = par.shape[0], y is not None
        room = shared_size(total)  # what is compiled for arrays over all problems depends on it
        par = jnp.asarray(np.pad(par, ((0, room - total), (0, 0)), mode="edge"))
        y = jnp.zeros(self.program.m) if y is None else y
        place = np.minimum(np.arange(self.slots), total - 1)
        waiting = min(self.slots, total)
        here = par[place]
        state = self._fresh(d, here, x, y, warm)
        if total < self.slots:  # copies of the last problem, which nobody asks for
            idle = np.arange(self.slots) >= total
            state = state._replace(status=jnp.where(idle, int(Status.STOPPED), state.status))
            place = np.where(idle, total, place)
        done = self._empty(room)
        while True:
            state, at, values, right, facts = self._first(d, here, state)
            running = np.asarray(state.status) == RUNNING
            new = ~running & (place < total)
            taken = np.zeros(self.slots, dtype=bool)
            if new.any():
                done = self._put(done, jnp.asarray(np.where(new, place, room)), self._store(d, state, facts))
                place = np.where(new, total, place)
                count = min(int(new.sum()), total - waiting)
                slots = np.flatnonzero(new)[:count]
                place[slots] = np.arange(waiting, waiting + count)
                waiting += count
                taken[slots] = True
            if (place >= total).all():
                break
            self.solver.factor(values, running)
            solution = self._refined(d, values, right.both, running)
            state = self._second(d, here, state, at, values, right, facts, solution)
            if taken.any():  # they begin with the next round: evaluating all slots again would cost more
                here = par[np.minimum(place, total - 1)]
                state = self._refill(jnp.asarray(taken), self._fresh(d, here, x, y, warm), state)
        return Finished(*(np.array(part)[:total] for part in done)), time.perf_counter() - begun

    def _refined(self, d: dict[str, Any], values: Any, right: Any, running: Any) -> Any:
        """The solutions of all slots, refined once where too many of them are not accurate."""
        solution = self.solver.solve(right)
        error, accuracy = self._accuracy(d, values, right, solution)
        rough = running & (np.asarray(accuracy) > TUNING.batch_accurate)
        if rough.sum() > TUNING.batch_refined * running.sum():
            solution = solution + self.solver.solve(error)
        return solution

    def _empty(self, total: int) -> Finished:
        n, m = self.program.n, self.program.m
        number = jnp.full(total, jnp.nan)
        whole = jnp.zeros(total, dtype=int)
        return Finished(
            jnp.zeros((total, n)), jnp.zeros((total, m)), jnp.zeros((total, n)), number, number, number, whole, whole
        )

    @staticmethod
    def _written(done: Finished, place: Any, new: Finished) -> Finished:
        return Finished(*(old.at[place].set(part, mode="drop") for old, part in zip(done, new, strict=True)))

    @staticmethod
    def _refilled(taken: Any, fresh: State, old: State) -> State:
        def chosen(a: Any, b: Any) -> Any:
            return jnp.where(taken.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

        mixed: State = jax.tree_util.tree_map(chosen, fresh, old)
        return mixed
