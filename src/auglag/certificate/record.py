"""What a certificate says: the residuals of one point, and whether they meet a tolerance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from auglag._norms import norm
from auglag._typing import Vector
from auglag.certificate.tolerance import Tolerance
from auglag.certificate.tuning import TUNING


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """The residuals at one (x, y), L = f + y'c + z'x; 2-norms unless said otherwise.

    residual = stationarity + ||(violation, complementarity)||, which for equality constraints is the paper's
    R(x, y) = dist(-grad L(x, y), dg(x)) + ||c(x)||. An inequality is an equality c - s = 0 with a slack s between its
    sides. A multiplier at a side that c(x) does not touch counts either with its size, as stationarity in s, or with
    the gap, as complementarity; one at a bound that x does not touch with its size or with gap * max(1, size). Of all
    these splits the one with the smallest residual is reported.

    scale_free is the largest of these, with X_j, F and C_i the sizes of x_j, f and row i (`_sizes`): what a step of the
    size of x_j still promises, |v_j| X_j / F, v = -(grad f + J'y) less dg, or the gap to the bound that stops it,
    gap_j / X_j, if that is less; violations v_i / C_i; for multipliers at a side that row i does not touch gap_i / C_i
    or |y_i| C_i / F, whichever is less. Other units of x, f or c do not change it.
    """

    x: Vector
    multipliers: Vector  #: y, one per row
    bound_multipliers: Vector  #: z: > 0 where the upper bound holds x, < 0 where the lower one does
    objective: float  #: f(x) + g(x)
    stationarity: float  #: dist(-(grad f + J'y + z), dg(x))
    violation: float  #: distance of c(x) to [cl, cu] and of x to its bounds
    complementarity: float
    row_violations: dict[str, float]  #: by name, only rows that are violated, worst first (a thousand at most)
    gradient_norm: float  #: ||grad f(x)||, to judge the scale of the stationarity
    exact: bool  #: False if g is a user's term, whose subdifferential distance is only estimated by a prox residual
    differenced: bool  #: derivatives are finite differences, with their errors
    derivative_error: float  #: what these errors may do to the stationarity; an estimate, 0 for exact derivatives
    value_error: float = 0.0  #: what errors of c beyond those of double precision may do to the violation; an estimate
    objective_error: float = 0.0  #: the error of f beyond those of double precision; an estimate
    rounding: float = 0.0  #: what double precision makes of R: one rounding error of every term in it, and of x
    scale_free: float = math.nan  #: the same conditions, relative to the sizes of x, f and c; NaN: not measured
    unexplained: float = 0.0  #: scale_free after the errors of values and derivatives were taken off
    scale_free_error: float = 0.0  #: what these errors may do to scale_free; an estimate
    #: F of scale_free; where a run led to x, what f has fallen by since its start, if that is more. NaN: not measured
    objective_size: float = math.nan

    @property
    def residual(self) -> float:
        """R: the number that `tol` is compared with."""
        return self.stationarity + math.hypot(self.violation, self.complementarity)

    @property
    def accuracy(self) -> float:
        """How well R is known: what the errors of the functions and of their derivatives make of it; an estimate."""
        return self.derivative_error + self.value_error

    @property
    def relative_residual(self) -> float:
        """R with the stationarity divided by max(1, ||grad f||)."""
        return self.stationarity / max(1.0, self.gradient_norm) + math.hypot(self.violation, self.complementarity)

    @property
    def worst(self) -> tuple[str, float]:
        """What spoils the residual most: a constraint's name, 'bounds', 'stationarity' or 'complementarity'."""
        parts = {"stationarity": self.stationarity, "complementarity": self.complementarity, **self.row_violations}
        name = max(parts, key=lambda key: parts[key] if not math.isnan(parts[key]) else math.inf)
        return name, parts[name]

    def meets(self, tol: Tolerance | float | tuple[float, float]) -> bool:
        """Whether R <= tol and scale_free is at most its own tolerance, by default 0.1 sqrt(tol).

        False if anything is not finite, or not known that accurately.
        """
        tol = Tolerance.of(tol)
        known = math.isfinite(self.objective) and not self._doubtful(tol)
        return known and self.residual <= tol.residual and not self.scale_free > tol.scale_free

    def limited(
        self, tolerance: Tolerance | float | tuple[float, float], *, rounding: bool = True, rough: float = TUNING.rough
    ) -> bool:
        """Whether the functions are not accurate enough for `tol`, and R is no larger than their errors make it.

        An error of f excuses a violation v that changes the objective, by |y| v, no more than that.
        With `rounding`, those of double precision excuse R as well, if the scale-free test is met. However large the
        errors are, scale_free must be at most `rough`.
        """
        both = Tolerance.of(tolerance)
        tol, times = both.residual, TUNING.reached
        if rounding and self.rounding_limits(both):
            return True
        enough = self.residual <= max(tol, times * self.accuracy)
        enough = enough and self.violation <= max(tol, times * self._excused_violation)
        enough = enough and not self.unexplained > both.scale_free and not self.scale_free > max(both.scale_free, rough)
        return math.isfinite(self.objective) and self._doubtful(both) and self.accuracy < math.inf and enough

    def _doubtful(self, tol: Tolerance) -> bool:
        """Whether errors of the functions may be what meets the tolerance."""
        return not (self.accuracy <= tol.residual and self.scale_free_error <= tol.scale_free)

    @property
    def _excused_violation(self) -> float:
        weight = max(1.0, norm(self.multipliers))
        return max(self.value_error, self.objective_error / weight)

    def weighed(self, tol: float) -> float:
        """R, for runs whose functions have errors: at most max(tol, accuracy) only if the violation is excused, too.

        Where the errors are below `tol` it is R.
        """
        if not self.accuracy > tol:
            return self.residual
        return max(self.residual, self.violation * self.accuracy / max(tol, self._excused_violation))

    def rounding_limits(self, tol: Tolerance) -> bool:
        """Whether R is above `tol` by no more than rounding errors explain, and the scale-free test is met."""
        explained = self.rounding_reach < math.inf and self.residual <= self.rounding_reach
        return explained and tol.residual < self.residual and self.scale_free <= tol.scale_free

    @property
    def rounding_reach(self) -> float:
        """The R that rounding errors, and those of the functions, may explain."""
        return TUNING.reached * max(self.rounding, self.accuracy)

    def __str__(self) -> str:
        name, size = self.worst
        relative = "" if math.isnan(self.scale_free) else f"; scale-free {self.scale_free:.3e}"
        note = "" if self.exact else " (stationarity estimated by the prox residual)"
        if self.differenced:
            note += f" (derivatives by finite differences, error about {self.derivative_error:.1e})"
        return (
            f"residual {self.residual:.3e} = stationarity {self.stationarity:.3e} + norm of (violation "
            f"{self.violation:.3e}, complementarity {self.complementarity:.3e}); worst: {name} {size:.3e}"
            f"{relative}{note}"
        )
