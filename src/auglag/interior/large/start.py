"""Where a run begins: inside all sides, with first multipliers and the first mu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from auglag._typing import Vector
from auglag.interior import tuning
from auglag.interior.large.sides import Sides
from auglag.interior.large.values import Values


@final
@dataclass(frozen=True, slots=True)
class Start:
    """The first point, the multipliers of its sides and the first mu."""

    at: Values
    z: Vector
    u: Vector
    mu: float
    warm: bool  #: (x, y) seems to be near a solution

    @staticmethod
    def of(sides: Sides, x: Vector, y: Vector, error: float) -> Start:
        """From (x, y), where the error is `error`."""
        t = tuning.TUNING
        warm = bool(y.any()) and error < t.first_mu
        mu = min(t.first_mu, max(t.warm_mu * error, t.least_first_mu)) if warm else t.first_mu
        push = min(t.push, mu)
        v = sides.inside(np.concatenate([x, np.zeros(sides.rows.size)]), push)
        v[sides.n :] = sides.form.at(v[: sides.n]).c[sides.rows]
        at = Values(sides, sides.inside(v, push))
        if warm:
            return Start(at, mu / at.p, mu / at.q, mu, warm)
        return Start(at, np.minimum(1.0, t.first_product / at.p), np.minimum(1.0, t.first_product / at.q), mu, warm)
