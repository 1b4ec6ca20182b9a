"""Problems of CUTEst written in JAX, stated as in the collection, so that evaluations can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

INF = np.inf


@dataclass(frozen=True)
class Stated:
    """fun, starting point, rows with their sides, and bounds."""

    fun: Any
    x0: list[float]
    rows: Any
    lb: list[float]
    ub: list[float]
    bounds: list[tuple[float, float]] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def constraints(self) -> list[Any]:
        return [(self.rows, np.array(self.lb), np.array(self.ub))]


def _rows(*functions: Any) -> Any:
    return lambda x: jnp.stack([f(x) for f in functions])


PROBLEMS: dict[str, Stated] = {
    "HS6": Stated(lambda x: (1 - x[0]) ** 2, [-1.2, 1.0], _rows(lambda x: 10 * (x[1] - x[0] ** 2)), [0], [0]),
    "HS7": Stated(
        lambda x: jnp.log(1 + x[0] ** 2) - x[1], [2.0, 2.0],
        _rows(lambda x: (1 + x[0] ** 2) ** 2 + x[1] ** 2 - 4), [0], [0],
    ),
    "HS10": Stated(
        lambda x: x[0] - x[1], [-10.0, 10.0],
        _rows(lambda x: -3 * x[0] ** 2 + 2 * x[0] * x[1] - x[1] ** 2 + 1), [0], [INF],
    ),
    "HS12": Stated(
        lambda x: 0.5 * x[0] ** 2 + x[1] ** 2 - x[0] * x[1] - 7 * x[0] - 7 * x[1], [0.0, 0.0],
        _rows(lambda x: 25 - 4 * x[0] ** 2 - x[1] ** 2), [0], [INF],
    ),
    "HS14": Stated(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2, [2.0, 2.0],
        _rows(lambda x: -0.25 * x[0] ** 2 - x[1] ** 2 + 1, lambda x: x[0] - 2 * x[1] + 1), [0, 0], [INF, 0],
    ),
    "HS22": Stated(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2, [2.0, 2.0],
        _rows(lambda x: -x[0] - x[1] + 2, lambda x: -x[0] ** 2 + x[1]), [0, 0], [INF, INF],
    ),
    "HS26": Stated(
        lambda x: (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4, [-2.6, 2.0, 2.0],
        _rows(lambda x: (1 + x[1] ** 2) * x[0] + x[2] ** 4 - 3), [0], [0],
    ),
    "HS28": Stated(
        lambda x: (x[0] + x[1]) ** 2 + (x[1] + x[2]) ** 2, [-4.0, 1.0, 1.0],
        _rows(lambda x: x[0] + 2 * x[1] + 3 * x[2] - 1), [0], [0],
    ),
    "HS35": Stated(
        lambda x: 9 - 8 * x[0] - 6 * x[1] - 4 * x[2] + 2 * x[0] ** 2 + 2 * x[1] ** 2 + x[2] ** 2
        + 2 * x[0] * x[1] + 2 * x[0] * x[2], [0.5, 0.5, 0.5],
        _rows(lambda x: -x[0] - x[1] - 2 * x[2] + 3), [0], [INF], [(0, INF)] * 3,
    ),
    "HS39": Stated(
        lambda x: -x[0], [2.0, 2.0, 2.0, 2.0],
        _rows(lambda x: x[1] - x[0] ** 3 - x[2] ** 2, lambda x: x[0] ** 2 - x[1] - x[3] ** 2), [0, 0], [0, 0],
    ),
    "HS40": Stated(
        lambda x: -x[0] * x[1] * x[2] * x[3], [0.8, 0.8, 0.8, 0.8],
        _rows(lambda x: x[0] ** 3 + x[1] ** 2 - 1, lambda x: x[0] ** 2 * x[3] - x[2], lambda x: x[3] ** 2 - x[1]),
        [0, 0, 0], [0, 0, 0],
    ),
    "HS43": Stated(
        lambda x: x[0] ** 2 + x[1] ** 2 + 2 * x[2] ** 2 + x[3] ** 2 - 5 * x[0] - 5 * x[1] - 21 * x[2] + 7 * x[3],
        [0.0, 0.0, 0.0, 0.0],
        _rows(
            lambda x: -x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - x[3] ** 2 - x[0] + x[1] - x[2] + x[3] + 8,
            lambda x: -x[0] ** 2 - 2 * x[1] ** 2 - x[2] ** 2 - 2 * x[3] ** 2 + x[0] + x[3] + 10,
            lambda x: -2 * x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - 2 * x[0] + x[1] + x[3] + 5,
        ),
        [0, 0, 0], [INF, INF, INF],
    ),
    "HS71": Stated(
        lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2], [1.0, 5.0, 5.0, 1.0],
        _rows(lambda x: x[0] * x[1] * x[2] * x[3] - 25, lambda x: x @ x - 40), [0, 0], [INF, 0], [(1, 5)] * 4,
    ),
    "BYRDSPHR": Stated(
        lambda x: -x[0] - x[1] - x[2], [5.0, 0.0001, -0.0001],
        _rows(lambda x: x @ x - 9, lambda x: (x[0] - 1) ** 2 + x[1] ** 2 + x[2] ** 2 - 9), [0, 0], [0, 0],
    ),
}  # fmt: skip
