"""What `Model.solve_batch` returns, and the way to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.algorithm.status import Status
from auglag.certificate import Tolerance
from auglag.model.device import batch as device_batch
from auglag.model.device.linear import require_device
from auglag.model.device.program import Program
from auglag.model.device.solve import Prepared, prepared
from auglag.model.device.solve import solve as solve_one
from auglag.model.handles import Handle, Rows, named
from auglag.model.precision import double
from auglag.model.problem import ModelProblem
from auglag.report.spread import counted, spreads


@final
@dataclass(frozen=True, repr=False)
class BatchSolution:
    """Solutions of one model for many parameter sets; the batch is the first axis of every array.

    `batch["th"]` are values, `batch[rows]` multipliers, in the shape of the name. Residuals are in the user's units,
    and `status` is SOLVED only where the residual meets the tolerance.
    """

    x: Vector  #: (batch, n)
    y: Vector  #: (batch, m)
    z: Vector  #: multipliers of bounds, (batch, n)
    fun: Vector
    status: NDArray[np.intp]  #: numbers of `auglag.Status`
    residual: Vector  #: stationarity + |(violation, complementarity)|
    violation: Vector  #: largest violation of a row
    steps: NDArray[np.intp]
    alone: NDArray[np.bool_]  #: which ones were solved one by one, because they did not end in the batch
    seconds: float
    handles: Mapping[str, Handle]

    def __repr__(self) -> str:
        """How many members ended how, the spread of what matters, and what can be asked for by name."""
        size, alone = len(self.status), int(np.sum(self.alone))
        lines = [f"BatchSolution of {size} members in {self.seconds:.3g} s: {counted(self.status)}"]
        lines += spreads({name: getattr(self, name) for name in ("fun", "residual", "violation", "steps")})
        names = ", ".join(f"{name} {(size, *handle.shape)}" for name, handle in self.handles.items())
        return "\n".join([*lines, f"  {'alone':>9}: {alone}", f"  {'names':>9}: {names}"])

    @property
    def success(self) -> NDArray[np.bool_]:
        """Where the residual meets the tolerance."""
        return np.asarray(self.status == int(Status.SOLVED))

    def __getitem__(self, key: Any) -> Any:
        key = named(self.handles, key)
        source = self.y if isinstance(key, Rows) else self.x
        return source[:, np.asarray(key)]

    def messages(self) -> dict[str, int]:
        """Status in words -> how many ended so."""
        numbers, counts = np.unique(self.status, return_counts=True)
        words = {int(status): status.message for status in Status}
        return {words[int(k)]: int(c) for k, c in zip(numbers, counts, strict=True)}


@final
class Batches:
    """Compiled batches, kept from one call to the next."""

    def __init__(self) -> None:
        self._known: tuple[Any, device_batch.Batch] | None = None

    def of(
        self, program: Program, count: int, most: int, options: tuple[Any, ...], linear_solver: str | None
    ) -> device_batch.Batch:
        """A batch for so many problems, at most so many at a time; the one of before where it is at least half full."""
        tol, scaled_tol, deterministic = options
        key, wanted = (id(program), options, linear_solver), min(count, most)
        known = self._known
        if known is None or known[0] != key or not wanted <= known[1].slots <= min(most, 2 * wanted):
            slots = min(most, device_batch.shared_size(count))
            solver: device_batch.Solver
            if program.device.platform == "cpu":
                solver = device_batch.OneByOne(program.pattern, slots, linear_solver)
            else:
                solver = device_batch.Flat(program, slots, deterministic=deterministic)
            made = device_batch.Batch(program, slots, solver, tol=tol, scaled_tol=scaled_tol)
            self._known = known = (key, made)
        return known[1]


def solve(
    problem: ModelProblem,
    par: Vector,
    handles: Mapping[str, Handle],
    before: Prepared | None,
    batches: Batches,
    *,
    device: str,
    start: tuple[Vector, Vector] | None,
    tol: Any = 1e-6,
    scaled_tol: float = 1e-8,
    slots: int | None = None,
    linear_solver: str | None = None,
    deterministic: bool = False,
) -> tuple[BatchSolution, Prepared]:
    """Solve the problem for every row of `par`, the values of all its parameters."""
    residual = Tolerance.of(tol).residual
    begun = time.perf_counter()
    place = require_device(device)
    most = device_batch.slots_for(place, slots)
    with double(), jax.default_device(place):
        ready = prepared(problem, before, place, linear_solver, deterministic=deterministic)
        problem.data = ready.program.elsewhere
        options = (residual, scaled_tol, deterministic)
        batch = batches.of(ready.program, len(par), most, options, linear_solver)
        data = ready.program.data(problem)
        x, y = (problem.x0, None) if start is None else start
        x = jnp.asarray(np.where(ready.program.fixed, problem.lower, x))
        found, _ = batch.run(data, par, x, None if y is None else jnp.asarray(y))
    lower, upper = problem.lower, problem.upper
    found.x[:] = np.clip(np.where(ready.program.fixed, lower, found.x), lower, upper)
    left = np.flatnonzero(found.status != int(Status.SOLVED))
    for k in left:
        problem.par = par[k]
        problem.workspace.points.clear()
        one, ready = solve_one(
            problem,
            ready,
            device=device,
            tol=tol,
            scaled_tol=scaled_tol,
            linear_solver=linear_solver,
            deterministic=deterministic,
        )
        check = one.certificate
        found.x[k], found.y[k], found.z[k] = one.x, one.y, check.bound_multipliers
        found.f[k], found.residual[k], found.violation[k] = check.objective, check.residual, check.violation
        found.steps[k], found.status[k] = one.steps, int(one.status)
    alone = np.zeros(len(par), dtype=bool)
    alone[left] = True
    seconds = time.perf_counter() - begun
    numbers = (found.f, found.status.astype(np.intp), found.residual, found.violation, found.steps.astype(np.intp))
    return BatchSolution(found.x, found.y, found.z, *numbers, alone, seconds, handles), ready
