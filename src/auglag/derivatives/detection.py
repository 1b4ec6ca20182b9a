"""Which entries of a differenced Jacobian are always zero, learnt from the first ones: later ones cost less.

An entry counts as zero if moving its variable changed no bit of its row. Columns that share no row are then moved
together, which gives the same numbers, bit by bit, for a few evaluations instead of one for every variable. Every such
Jacobian is compared with the change of the functions along one direction in which all variables move, and the
derivatives of a certificate are always made column by column: an entry that was zero by chance costs time, no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from auglag._random import uniform
from auglag._typing import Matrix, Vector
from auglag.derivatives.colouring import colour
from auglag.derivatives.tuning import EPS, TUNING


@final
class Detected:
    """What one run knows of the entries of one Jacobian."""

    def __init__(self) -> None:
        self._seen: NDArray[np.bool_] | None = None  #: entries that were ever other than zero
        self._points: set[bytes] = set()  #: where; no more are kept than are asked for
        self.structure: tuple[Any, NDArray[np.intp]] | None = None  #: the pattern and its groups, where they pay

    def note(self, x: Vector, jac: Matrix) -> None:
        """Learn from a Jacobian that was made column by column."""
        if jac.shape[1] < TUNING.detected_columns:
            return
        enough = len(self._points) >= TUNING.detected_points
        if not enough:
            self._points.add(x.tobytes())
        entries = jac != 0.0
        new = entries if self._seen is None else self._seen | entries
        changed = self._seen is None or bool(np.any(new != self._seen))
        self._seen = new
        if len(self._points) >= TUNING.detected_points and (changed or not enough):
            group = colour(new)
            pays = (group.max(initial=0) + 1) * TUNING.detected_gain <= jac.shape[1]
            self.structure = (sparse.csr_array(new), group) if pays else None

    def holds(
        self, fun: Callable[[Any], Any], x: Vector, value: Vector, jac: Any, lower: Vector, upper: Vector
    ) -> bool:
        """Whether the functions change along a direction as the Jacobian says; False where that cannot be seen."""
        step = TUNING.central_step * np.maximum(1.0, np.abs(x)) * (0.5 + 0.5 * uniform(0, x.size))
        step[uniform(1, x.size) < 0.5] *= -1.0
        inside = (x + step >= lower) & (x + step <= upper)
        moved = np.clip(x + np.where(inside, step, -step), lower, upper)
        error = np.abs(fun(moved) - value - jac @ (moved - x))
        size = abs(jac) @ np.abs(moved - x)
        rounding = TUNING.detected_roundings * EPS * np.maximum(1.0, np.abs(value))
        return bool(np.all(error <= TUNING.detected_mismatch * size + rounding))
