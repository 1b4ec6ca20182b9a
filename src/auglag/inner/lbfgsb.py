"""L-BFGS-B, SciPy's, driven so that our measure ends it and not its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError, require_integer
from auglag.inner import tuning
from auglag.inner._setulb import drive
from auglag.inner.base import InnerSolver, InnerStatus, Oracle, Traits

#: The default of `maxls` in SciPy.
SCIPY_LINE_SEARCH = 20


@final
@dataclass(frozen=True, slots=True)
class LBFGSB(InnerSolver):
    """Limited-memory BFGS with bounds (Byrd, Lu, Nocedal, Zhu), as implemented in SciPy.

    SciPy's own tests (`gtol`, an infinity norm of a projected gradient; `ftol`, a relative decrease) are switched off.
    Every evaluated point is measured in the 2-norm distance to the subdifferential, and the solve ends at the first
    that meets it. When SciPy gives up (abnormal line search, or no decrease left in floating point), it is started
    again with an empty memory from the best point, on values that are free of cancellation: near a reference point r,
    phi(x) - phi(r) is taken as (grad phi(r) + grad phi(x))'(x - r)/2, exact for quadratics, so gradients far below
    sqrt(eps) can still be reduced.

    With `ftol` > 0 (SciPy's default is 2.2e-9) its test of the relative decrease is on, and ends the solve where it
    fires, whether the tolerance is met or not.

    `restarts`, `snap` and `look_ahead` say whether it is started again; whether variables that hang just off a bound
    they are pushed against are moved onto it, when SciPy has given up; and whether every 20 iterations a look far ahead
    tells a subproblem without a lower bound. `line_search` is the most evaluations of one line search (None: 30).
    `LBFGSB.plain()` has all of it as in SciPy: one call, whose last iterate is handed back. `max_norm` measures the
    largest entry of the projected gradient, as SciPy's `gtol` does, and not the 2-norm of the distance.
    """

    name: ClassVar[str] = "lbfgsb"
    memory: int = 20
    ftol: float = 0.0
    restarts: bool = True
    snap: bool = True
    look_ahead: bool = True
    line_search: int | None = None
    max_norm: bool = False

    @staticmethod
    def plain(memory: int = 10, ftol: float = 0.0) -> LBFGSB:
        """SciPy's L-BFGS-B as it is; only that the measure of Algorithm 1 ends it, and `ftol` where it is not 0."""
        return LBFGSB(memory, ftol, restarts=False, snap=False, look_ahead=False, line_search=SCIPY_LINE_SEARCH)

    def __post_init__(self) -> None:
        require_integer(self.memory, "LBFGSB.memory")
        if not 0.0 <= self.ftol < 1.0:
            raise InputError(f"LBFGSB.ftol must lie in [0, 1), got {self.ftol!r}")
        if self.line_search is not None:
            require_integer(self.line_search, "LBFGSB.line_search")
        for name in ("restarts", "snap", "look_ahead", "max_norm"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"LBFGSB.{name} must be True or False, got {getattr(self, name)!r}")

    def refuses(self, traits: Traits) -> str | None:
        if not traits.is_box:
            return f"inner='lbfgsb' handles bounds but not g={traits.term}; inner='panoc' handles any prox term"
        return None

    def run(self, oracle: Oracle, x: Vector, value: float, gradient: Vector, limit: int) -> InnerStatus:
        """Run SciPy's L-BFGS-B, again and again where it stops too early."""
        oracle.projected |= self.max_norm
        box, t = oracle.bounds(), tuning.TUNING
        bounded = np.isfinite(box[0]).any() or np.isfinite(box[1]).any()
        search = _Search(oracle, box if bounded else None)
        search.start(x, value, gradient, exact=True)

        def count() -> bool:
            oracle.iterations += 1
            search.iterate = search.visited
            if self.look_ahead and oracle.iterations % t.lbfgsb_probe_every == 0:
                search.probe()
            return oracle.iterations < limit

        failures = 0
        while oracle.iterations < limit:
            residual, lowest, before = search.best_residual, search.lowest, oracle.iterations
            last = drive(search.visit, search.x, search.box, self.memory, count, self.ftol, self.line_search)
            oracle.iterations = max(oracle.iterations, before + 1)
            if self.snap:
                search.snap(last)
            if not self.restarts:
                search.hand_back()
            if (self.ftol or not self.restarts) and oracle.iterations < limit:
                return InnerStatus.STALLED
            progress = search.best_residual < t.lbfgsb_less * residual or search.lowest < lowest - oracle.noise
            failures = 0 if progress else failures + 1
            if failures >= t.lbfgsb_patience:
                return InnerStatus.STALLED
            search.restart(exact=progress and search.exact)
        return InnerStatus.LIMIT


@final
class _Search:
    """phi as SciPy sees it: measured at every point, defined everywhere, and optionally free of cancellation."""

    def __init__(self, oracle: Oracle, box: tuple[Vector, Vector] | None) -> None:
        self.oracle, self.box = oracle, box
        self.best_residual = self.lowest = math.inf
        self.probed: Vector | None = None

    def probe(self) -> None:
        """Look ahead along the way come since the last look."""
        x = self.low[0]
        if self.probed is not None and (x != self.probed).any():
            self.oracle.probe(self.probed, x)
        self.probed = x

    def start(self, x: Vector, value: float, gradient: Vector, *, exact: bool) -> None:
        """Begin a run at x; `exact` uses the values of phi as they are, else the trapezoidal ones relative to x."""
        self.x, self.value, self.gradient, self.exact = x, value, gradient, exact
        self.begun = False  #: SciPy has asked for its start
        self.visited = self.iterate = (x, value, gradient)  #: where SciPy asked last, and its last iterate
        self.base = (x, 0.0 if not exact else value, gradient)  # the lowest point of this run: the line search's base
        self._note(x, value, gradient, self.oracle.g.subdiff_distance(x, -gradient))

    def _note(self, x: Vector, value: float, gradient: Vector, residual: float) -> None:
        if residual < self.best_residual:
            self.best_residual = residual
            self.best = (x, value, gradient)
        if value < self.lowest:
            self.lowest = value
            self.low = (x, value, gradient)

    def restart(self, *, exact: bool) -> None:
        """Begin again from the best point so far, with an empty memory."""
        near_lowest = self.best[1] <= self.lowest + self.oracle.noise
        x, value, gradient = self.best if near_lowest else self.low
        self.start(x, value, gradient, exact=exact)

    def visit(self, z: Vector) -> tuple[float, Vector]:
        """Value and gradient for SciPy. What it asks for first is its start, where both are known."""
        if self.box is not None:
            z = np.minimum(np.maximum(z, self.box[0]), self.box[1])  # SciPy may leave the box by a rounding error
        else:
            z = z.copy()
        begun, self.begun = self.begun, True
        if not begun and np.array_equal(z, self.x):
            return (self.value if self.exact else 0.0), self.gradient
        value, gradient = self.oracle.visit(z)
        if value == math.inf:
            return self._mirror(z)
        self.visited = (z, value, gradient)
        self._note(z, value, gradient, self.oracle.consider(z, value, gradient))
        if not self.exact:
            step = z - self.x
            value = 0.5 * float(self.gradient @ step + gradient @ step)
        if value < self.base[1]:
            self.base = (z, value, gradient)
        return value, gradient

    def _mirror(self, z: Vector) -> tuple[float, Vector]:
        """A stand-in where phi is not defined: the linear model at the base, mirrored, so that the search steps back.

        With value base + |slope| and the opposite slope, the quadratic interpolation of the line search answers with
        about a quarter of the step.
        """
        x, value, gradient = self.base
        slope = float(gradient @ (z - x))
        above = tuning.TUNING.lbfgsb_above * max(1.0, abs(value))
        return value + abs(slope) + above, -gradient if slope < 0 else gradient

    def hand_back(self) -> None:
        """The last iterate is what the solve returns, as SciPy does, and not the most stationary point."""
        x, value, gradient = self.iterate
        self.oracle.best = self.oracle.lowest = (x, value, self.oracle.g.subdiff_distance(x, -gradient))

    def snap(self, x: Vector) -> None:
        """Try x with the variables that hang just off a bound they are pushed against moved onto it."""
        if self.box is None:
            return
        lower, upper = self.box
        x = np.clip(x, lower, upper)
        known = (gradient for z, _, gradient in (self.iterate, self.visited) if np.array_equal(z, x))
        gradient = next(known, None)
        if gradient is None:
            gradient = self.oracle.visit(x)[1]
        near = tuning.TUNING.lbfgsb_snap * np.maximum(1.0, np.abs(x))
        snapped = np.where((gradient > 0) & (x - lower <= near), lower, x)
        snapped = np.where((gradient < 0) & (upper - x <= near), upper, snapped)
        if (snapped != x).any():
            value, gradient = self.oracle.visit(snapped)
            if value < math.inf:
                self._note(snapped, value, gradient, self.oracle.consider(snapped, value, gradient))
