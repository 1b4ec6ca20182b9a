"""Are the derivatives of a stochastic problem those of its functions? Looked at on some rows, at x0."""

from __future__ import annotations

import numpy as np

from auglag._typing import Vector
from auglag.derivatives.checking import check_gradient, check_jacobian
from auglag.stochastic.blocks import FunctionBlock
from auglag.stochastic.data import batch_rows
from auglag.stochastic.full_batch import FullBatchProblem
from auglag.stochastic.problem import StochasticProblem
from auglag.stochastic.tuning import TUNING


def check_derivatives(problem: StochasticProblem, x: Vector, rng: np.random.Generator) -> int:
    """Raise `DerivativeError` if a derivative the user supplied is wrong; how many row evaluations that took.

    Functions that several blocks share are looked at once. One row at one point is one evaluation, whatever is
    evaluated there, as everywhere in the count of passes.
    """
    box, spent = FullBatchProblem(problem, x), 0
    seen: set[tuple[int, ...]] = set()
    for block in problem.blocks:
        if not isinstance(block, FunctionBlock):
            continue
        known = tuple(map(id, block.functions))
        if known not in seen:
            seen.add(known)
            spent += _check(block, x, (box.lower, box.upper), rng)
    return spent


def _check(block: FunctionBlock, x: Vector, bounds: tuple[Vector, Vector], rng: np.random.Generator) -> int:
    batch = None
    if block.rows is None:
        batch = block.draw(rng, TUNING.derivative_rows)
    elif not block.exact:
        batch = block.take(np.unique(np.linspace(0, block.rows - 1, TUNING.derivative_rows).astype(np.int64)))
    points: set[bytes] = set()

    def values(z: Vector) -> tuple[float, Vector]:
        points.add(z.tobytes())
        return block.values(z, batch)

    _, gradient, _, vjp, jacobian = block.functions
    if gradient is not None:
        check_gradient(
            lambda z: values(z)[0],
            lambda z: block.objective_gradient(z, batch),
            x,
            *bounds,
            name="gradient",
            of="objective",
            rng=rng,
        )
    if jacobian is not None:
        check_jacobian(
            lambda z: values(z)[1],
            lambda z: block.jacobian(z, batch),
            x,
            *bounds,
            name="jacobian",
            of="constraints",
            rng=rng,
        )
    if vjp is not None:
        w = rng.choice((-1.0, 1.0), block.m) * rng.uniform(0.5, 1.5, block.m)
        check_gradient(
            lambda z: w @ values(z)[1],
            lambda z: block.product(z, batch, w),
            x,
            *bounds,
            name="vjp",
            of="w'constraints, for a random w,",
            rng=rng,
        )
    return (len(points) + 1) * (0 if block.exact else batch_rows(batch, TUNING.derivative_rows))
