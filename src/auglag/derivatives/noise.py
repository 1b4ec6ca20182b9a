"""How many digits of a function's values are right? An estimate from a few values along a random line.

Seven values at a tiny distance from one another say it, by More and Wild's difference table ("Estimating computational
noise", SIAM J. Sci. Comput. 33, 2011): the k-th differences of a smooth function fall quickly with k, those of noise
grow as sqrt((2k)! / k!^2), and their signs change. A function that stands still over this distance has rounded values
(single precision, printed digits, whole numbers), takes them from a grid of x, or is constant there. Values farther
away decide: those of a rounded function are whole multiples of one number apart, those on a grid jump.

What rounding in double precision explains is not called noise: such a function has noise 0 here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Matrix, Vector
from auglag.derivatives.tuning import EPS, TUNING
from auglag.errors import attempted

Values = Callable[[Vector], Vector]


@final
@dataclass(frozen=True, slots=True)
class Precision:
    """The errors of f (entry 0) and of the rows of c (the others), in the user's units."""

    noise: Vector  #: absolute error of each value; 0: rounded to double precision, nothing worse
    scale: Vector  #: the size of each function, or of its change over max(1, |x|), if that is larger
    stated: bool = False  #: the user said so
    unsteady: bool = False  #: two calls with the same x returned different values

    @staticmethod
    def full(m: int) -> Precision:
        """Double precision."""
        return Precision(np.zeros(1 + m), np.ones(1 + m))

    @property
    def coarse(self) -> bool:
        """Whether any value has an error beyond double precision."""
        return bool(self.noise.any())

    @property
    def f(self) -> float:
        """The error of f."""
        return float(self.noise[0])

    @property
    def c(self) -> Vector:
        """The errors of the rows."""
        return self.noise[1:]

    def rows(self, keep: Any) -> Precision:
        """The same with these rows of c only."""
        index = np.concatenate([[0], 1 + np.asarray(keep, dtype=np.intp)])
        return Precision(self.noise[index], self.scale[index], self.stated, self.unsteady)

    def at_least(self, noise: Vector) -> Precision:
        """With errors that are no smaller than these."""
        found = np.where(noise > TUNING.full_precision * EPS * self.scale, noise, 0.0)
        return Precision(np.maximum(self.noise, found), self.scale, self.stated, self.unsteady)

    def part(self, first: int, last: int) -> Noise | None:
        """That of the entries `first` to `last` - 1; None in double precision."""
        noise = self.noise[first:last]
        return Noise(noise, float(np.max(noise / self.scale[first:last]))) if noise.any() else None


@final
@dataclass(frozen=True, slots=True)
class Noise:
    """What finite differences have to know of the errors of the values that they are made of."""

    values: Vector  #: absolute, one for each value
    relative: float  #: the largest, relative to the size of its function

    def step(self, power: float, least: float) -> float:
        """The step, relative to max(1, |x_j|), that balances noise and truncation."""
        return max(least, min(TUNING.noise_longest, float(self.relative**power)))


_DOUBLE = np.dtype(np.float64)


def dtype_error(value: Any) -> float:
    """The relative rounding error of the type in which a value came: 0 for double precision and whole numbers."""
    dtype = getattr(value, "dtype", None)
    if dtype is _DOUBLE or not isinstance(dtype, np.dtype) or dtype.kind != "f" or dtype.itemsize >= 8:
        return 0.0
    return float(np.finfo(dtype).eps) / 2


def estimate_scale(fun: Values, noise: Vector, x: Vector, f0: Vector, lower: Vector, upper: Vector) -> Precision:
    """Errors that are known, with the scales that belong to them: one evaluation."""
    line = line_inside(x, lower, upper, np.random.default_rng(0))
    with np.errstate(all="ignore"):
        far = TUNING.noise_slope
        slope = np.abs(_probed(fun, np.clip(x + far * line, lower, upper), far, f0.size) - f0) / far
    return Precision(noise, _scale(f0, slope, noise))


def estimate(
    fun: Values,
    x: Vector,
    f0: Vector,
    lower: Vector,
    upper: Vector,
    rng: np.random.Generator,
    relative: Vector,
    *,
    moving: NDArray[np.bool_] | None = None,
) -> Precision:
    """The precision of the values f0 = fun(x), NaN where not defined; `relative`: rounding errors of their types.

    `relative` may be filled in by fun. Six evaluations where all is well. They lie inside the bounds, on one side of x:
    a kink at x itself is not seen. On suspicion, `moving` says which values have a derivative that is not 0. Then x is
    evaluated again after a point at some distance: a simulation that begins where it last ended returns another value,
    if it is not converged. Errors may be smooth over tiny distances: wider tables show them. And a whole number that
    should move and never does is a rounded one.
    """
    line = line_inside(x, lower, upper, rng)
    t = TUNING.noise_spacing
    if not line.any():
        return Precision(np.zeros(f0.size), np.ones(f0.size))

    def at(distance: float) -> Vector:
        return _probed(fun, np.clip(x + distance * line, lower, upper), distance, f0.size)

    def table(spacing: float) -> Matrix:
        return np.stack([f0, *[at(k * spacing) for k in range(1, TUNING.noise_points)]])

    with np.errstate(all="ignore"):
        values = table(t)
        moved = np.abs(np.diff(values, axis=0))
        still = (moved == 0.0).sum(axis=0) >= TUNING.noise_points / 2
        noise = np.where(still, 0.0, _table_noise(values))
        spread = np.ptp(values, axis=0)
        sizes = np.maximum(np.max(np.abs(values), axis=0), spread / t)
        rounding = TUNING.full_precision * EPS * sizes
        noise = np.where(np.isfinite(noise) & (noise > rounding), TUNING.noise_spread * noise, 0.0)
        if (wild := (noise > 0.0) & (spread > TUNING.noise_wild * np.max(np.abs(values), axis=0))).any():
            # Noise is the same over a smaller distance, a function that merely changes fast is smooth there.
            nearer = TUNING.noise_spread * _table_noise(table(TUNING.noise_nearer))
            noise = np.where(wild, np.where(nearer > rounding, np.minimum(noise, nearer), 0.0), noise)
        if still.any():
            noise = np.maximum(noise, _steps(at, table, f0, still & np.isfinite(spread)))
        if moving is not None:
            at(TUNING.noise_far)
            again = np.abs(at(0.0) - f0)
            wider = [TUNING.noise_spread * _table_noise(table(spacing)) for spacing in TUNING.noise_doubt]
            for other in (again, *wider):
                noise = np.maximum(noise, np.where(other > rounding, other, 0.0))
            whole = still & moving & (noise == 0.0) & (f0 == np.round(f0)) & (at(TUNING.noise_wider[-1]) == f0)
            noise = np.where(whole, 0.5, noise)
        if not (noise.any() or relative.any()):
            return Precision(noise, np.maximum(np.where(np.isfinite(sizes), sizes, 1.0), 1e-300))
        slope = np.abs(at(TUNING.noise_slope) - f0) / TUNING.noise_slope
    scale = _scale(f0, slope, noise)
    return Precision(np.maximum(noise, relative * scale), scale)


def _probed(fun: Values, x: Vector, distance: float, size: int) -> Vector:
    """fun(x); points at some distance are our idea: where the user's function fails there, nothing is known."""
    if distance < TUNING.noise_slope:
        return fun(x)
    values = attempted(lambda: fun(x))
    return np.full(size, np.nan) if values is None else values


def _scale(f0: Vector, slope: Vector, noise: Vector) -> Vector:
    sizes = np.maximum(np.abs(f0), np.where(np.isfinite(slope), slope, 0.0))
    return np.maximum(np.where(np.isfinite(sizes), sizes, 1.0), np.maximum(noise, 1e-300))


def line_inside(x: Vector, lower: Vector, upper: Vector, rng: np.random.Generator) -> Vector:
    """A random direction with entries of the size max(1, |x|), where the bounds leave so much room to one side."""
    draws = rng.random((2, x.size))
    with np.errstate(over="ignore", invalid="ignore"):
        below, above = x - lower, upper - x
    size = np.maximum(1.0, np.abs(x)) * (0.5 + 0.5 * draws[0])
    roomy = np.minimum(below, above) >= size
    sign = np.where(roomy, np.where(draws[1] < 0.5, -1.0, 1.0), np.where(above >= below, 1.0, -1.0))
    return np.asarray(sign * np.minimum(size, np.maximum(below, above)))


def _table_noise(values: Matrix) -> Vector:
    """The noise of each column by the difference table, 0 where no three levels agree."""
    levels, signs = [], []
    table = values
    for k in range(1, len(values)):
        table = np.diff(table, axis=0)
        gamma = math.factorial(k) ** 2 / math.factorial(2 * k)
        levels.append(np.sqrt(gamma * np.mean(table**2, axis=0)))
        signs.append((table > 0).any(axis=0) & (table < 0).any(axis=0))
    found = np.zeros(values.shape[1])
    for k in range(len(levels) - 3, -1, -1):  # the last level has one difference, and no change of sign
        three = np.stack(levels[k : k + 3])
        agree = three.max(axis=0) <= TUNING.noise_agreement * three.min(axis=0)
        found = np.where(agree & signs[k] & signs[min(k + 1, len(signs) - 2)], levels[k], found)
    return found


def _steps(
    at: Callable[[float], Vector], table: Callable[[float], Matrix], f0: Vector, still: NDArray[np.bool_]
) -> Vector:
    """Half the distance between neighbouring values of functions that move in steps; 0 for other ones."""
    noise = np.zeros(f0.size)
    for distance in TUNING.noise_wider:
        moves = still & (at(distance) != f0)
        if not moves.any():
            continue
        values = table(distance / (TUNING.noise_points - 1) if distance >= 1.0 else distance)
        for i in np.flatnonzero(moves & np.isfinite(values).all(axis=0)):
            noise[i] = 0.5 * _unit(np.abs(np.diff(values[:, i])), float(np.max(np.abs(values[:, i]))))
        least = TUNING.noise_unit * EPS * np.max(np.abs(values), axis=0)
        if (far := moves & (noise == 0.0) & (np.abs(values[-1] - f0) > least)).any():
            noise = np.maximum(noise, _jumps(at, table, f0, np.where(far, least, np.inf), distance))
        still = still & ~moves
    return noise


def _jumps(
    at: Callable[[float], Vector], table: Callable[[float], Matrix], f0: Vector, least: Vector, distance: float
) -> Vector:
    """The errors of functions that stand still up to some point before `distance` and jump there; 0 for other ones.

    Bisection finds the point: however near to it, the change of a jump stays above `least`.
    """
    low, high = 0.0, distance
    value = at(high)
    for _ in range(TUNING.noise_halvings):
        if not (np.abs(value - f0) > least).any():
            return np.zeros(f0.size)
        middle = 0.5 * (low + high)
        there = at(middle)
        if (np.abs(there - f0) > least).any():
            high, value = middle, there
        else:
            low = middle
    jump = np.abs(value - f0)
    second = np.max(np.abs(np.diff(table(high), 2, axis=0)), axis=0)
    return np.where((jump > least) & np.isfinite(second), np.maximum(0.5 * jump, 0.25 * second), 0.0)


def _unit(differences: Vector, size: float) -> float:
    """The number of which all differences are whole multiples, by Euclid's algorithm; 0 where rounding hides it."""
    unit = 0.0
    for other in differences.tolist():
        while other > TUNING.noise_zero * EPS * size:
            unit, other = other, math.fmod(unit, other) if unit else 0.0
            if unit - other <= TUNING.noise_zero * EPS * size:  # a multiple but for rounding
                other = 0.0
    return unit if unit > TUNING.noise_unit * EPS * size else 0.0
