"""Robust losses: rho and its two derivatives, by z = f^2."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError

if TYPE_CHECKING:
    pass


#: Name -> (rho, rho', rho'') of z = (f / f_scale)^2, as in SciPy.
LOSSES: dict[str, Callable[[Vector], tuple[Vector, Vector, Vector]]] = {
    "linear": lambda z: (z, np.ones_like(z), np.zeros_like(z)),
    "soft_l1": lambda z: (2.0 * (np.sqrt(1.0 + z) - 1.0), (1.0 + z) ** -0.5, -0.5 * (1.0 + z) ** -1.5),
    "huber": lambda z: _huber(z),
    "cauchy": lambda z: (np.log1p(z), 1.0 / (1.0 + z), -1.0 / (1.0 + z) ** 2),
    "arctan": lambda z: (np.arctan(z), 1.0 / (1.0 + z**2), -2.0 * z / (1.0 + z**2) ** 2),
}


def _huber(z: Vector) -> tuple[Vector, Vector, Vector]:
    inside, far = z <= 1.0, np.maximum(z, 1.0)
    value = np.where(inside, z, 2.0 * np.sqrt(far) - 1.0)
    return value, np.where(inside, 1.0, far**-0.5), np.where(inside, 0.0, -0.5 * far**-1.5)


def loss_of(loss: str | Callable[[Vector], Any]) -> Callable[[Vector], Any]:
    """The loss by its name, or the user's own."""
    if not isinstance(loss, str):
        if not callable(loss):
            raise InputError(f"loss must be one of {', '.join(map(repr, LOSSES))} or callable, got {loss!r:.80}")
        return loss
    if loss not in LOSSES:
        raise InputError(f"loss must be one of {', '.join(map(repr, LOSSES))} or callable, got {loss!r:.80}")
    return LOSSES[loss]
