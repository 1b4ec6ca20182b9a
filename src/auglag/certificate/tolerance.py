"""What success asks for: a bound on R, in the user's units, and one on the scale-free test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

from auglag.certificate.tuning import TUNING
from auglag.errors import InputError, require_positive


@final
@dataclass(frozen=True, slots=True)
class Tolerance:
    """R <= residual in the user's units, and scale_free <= scale_free (see `Certificate`).

    The default of the second is 0.1 sqrt(residual), 1e-4 for 1e-6: near a minimum the objective depends on the square
    of the distance, so a relative gradient of sqrt(tol) leaves a relative error of f of about tol. For a residual above
    1e-4 it is 10 times the residual. With `scale_free=math.inf` only R counts.
    """

    residual: float = 1e-6
    scale_free: float = math.nan  #: NaN: the larger of 0.1 sqrt(residual) and 10 residual

    def __post_init__(self) -> None:
        object.__setattr__(self, "residual", require_positive(self.residual, "tol"))
        if isinstance(self.scale_free, float) and math.isnan(self.scale_free):
            least = TUNING.scale_free_least * self.residual
            object.__setattr__(self, "scale_free", max(TUNING.scale_free * math.sqrt(self.residual), least))
        elif self.scale_free != math.inf:
            object.__setattr__(
                self, "scale_free", require_positive(self.scale_free, "tol[1], the scale-free tolerance,")
            )

    @classmethod
    def of(cls, tol: Any) -> Tolerance:
        """From a number, a pair or a tolerance; None: the default."""
        if isinstance(tol, Tolerance):
            return tol
        if isinstance(tol, tuple | list):
            if len(tol) != 2:
                raise InputError(f"tol must be a number or a pair (of R, of the scale-free test), got {tol!r:.80}")
            return cls(*tol)
        return cls() if tol is None else _by_residual(tol) if type(tol) is float else cls(tol)


@lru_cache(maxsize=64)
def _by_residual(tol: float) -> Tolerance:
    """The usual case, which a run asks for again and again."""
    return Tolerance(tol)
