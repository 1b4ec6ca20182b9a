"""Where a round of sampled steps ends: the multipliers with the smallest R, in as few passes as that takes.

One pass has the values, the gradient of f and that of L with the last weights, and where the model is small enough for
its rows to cost little beside that, the Jacobian: then R is known for any multipliers. Else a second pass looks at
those that the first one and the averaged Jacobian suggest.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.certificate import settle_rows
from auglag.single_loop.multipliers import fitted, rows_to_fit
from auglag.single_loop.tuning import TUNING as SINGLE
from auglag.torch.full_batch import FullBatch, Gradients
from auglag.torch.lagrangian import Subproblem, Test
from auglag.torch.prox import ProxMap
from auglag.torch.single_loop import Core
from auglag.torch.tuning import TUNING

Tensor = Any
#: Weights less their shift are zero up to so many of their rounding errors.
SHIFT_ROUNDINGS = 8.0 * float(np.finfo(float).eps)


def tests_at_end(full: FullBatch, prox: ProxMap, core: Core, x: Tensor, w: Vector, beta: Vector) -> list[Test]:
    """Tests of x with several multipliers, zeros first; w and beta are those of the last step."""
    m = w.size
    affordable = m * full.variables.n <= TUNING.jacobian_numbers
    found = full.together(x, [np.zeros(m), w][: 1 + bool(m)], jacobian=affordable)
    values = found.values
    tests = [_test(full, prox, x, found, y, g) for y, g in zip((0.0 * w, w), found.of, strict=False)]
    if not m or not (values.finite and core.state.jacobian is not None):
        return tests
    shifted = Subproblem(full, prox, w, beta).tested(x, values, found.of[1]).y_hat
    shifted[abs(shifted) <= SHIFT_ROUNDINGS * abs(w)] = 0.0  # at sides that c does not touch
    if found.jacobian is not None:
        J, plain = found.jacobian, found.of[0]
        # Those of sides that c touches, or is beyond; and near the others.
        others = [shifted, _fitted(full, J, plain, shifted, np.flatnonzero(shifted), values.c)]
        others.append(_fitted(full, J, plain, w, rows_to_fit(w), values.c))
        gradients = [plain + _weights(y, J) @ J for y in others]
    else:
        others = [shifted, core.fitted(found.of[1], w, values.c)]
        gradients = full.together(x, others).of
    return tests + [_test(full, prox, x, found, y, g) for y, g in zip(others, gradients, strict=True)]


def _test(full: FullBatch, prox: ProxMap, x: Tensor, found: Gradients, y: Vector, gradient: Tensor) -> Test:
    """The test of y itself, with the split of R that its certificate will have.

    A multiplier at a side that c does not touch counts with its size or with the gap: one that is but a rounding error
    would have the whole gap otherwise.
    """
    layout, values = full.functions.layout, found.values
    test = Subproblem(full, prox, y, SINGLE.no_penalty + 0.0 * y).tested(x, values, gradient)
    if not (values.finite and math.isfinite(test.dist) and test.c_norm > 0.0):
        return test
    dist, rest = settle_rows(test.dist, test.violation, values.c, y, layout.lower, layout.upper)
    return replace(test, dist=dist, c=test.c * (math.hypot(test.violation, rest) / test.c_norm))


def _fitted(full: FullBatch, J: Tensor, plain: Tensor, y: Vector, few: NDArray[np.intp], c: Vector) -> Vector:
    """Multipliers of the rows `few` near y, zero in all others, that fit the gradient `plain` of f; J over all rows."""
    layout, result = full.functions.layout, np.zeros_like(y)
    rows = J.to(full.variables.wide)[torch.as_tensor(few, device=J.device)]
    near = _weights(y[few], rows) @ rows
    numbers = torch.cat([rows @ rows.mT, (rows @ (plain.to(rows.dtype) + near))[None]]).cpu().numpy()
    result[few] = fitted(numbers[:-1], numbers[-1], y[few], c[few], layout.lower[few], layout.upper[few])
    return result


def _weights(y: Vector, J: Tensor) -> Tensor:
    return torch.as_tensor(y, dtype=J.dtype, device=J.device)
