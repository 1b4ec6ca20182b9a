"""What every first-order solver needs to compare values of phi that differ by little more than round-off."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from auglag._typing import Vector
from auglag.inner import tuning
from auglag.inner.base import Oracle


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A point of dom g with phi and grad phi there; the value is +inf where phi is not defined."""

    x: Vector
    value: float
    gradient: Vector

    @property
    def noise(self) -> float:
        """The round-off in `value`."""
        return tuning.TUNING.round_off * max(1.0, abs(self.value))

    @property
    def doubt(self) -> float:
        """The size of the differences of values that may be more round-off than `noise` allows for."""
        return tuning.TUNING.doubt * max(1.0, abs(self.value))

    def change(self, there: Point) -> float:
        """phi(there) - phi(here), to the accuracy that values and gradients together allow.

        Where the trapezoidal rule (grad phi(here) + grad phi(there))'d / 2 agrees with the difference of the values up
        to what may be round-off it replaces it: it has no cancellation, so that descent can be told from ascent down
        to residuals far below the square root of the machine precision.
        """
        raw = there.value - self.value
        smooth = 0.5 * float((self.gradient + there.gradient) @ (there.x - self.x))
        return smooth if abs(raw - smooth) <= self.doubt else raw

    def curvature(self, there: Point) -> float:
        """The smallest L with phi(there) <= phi(here) + grad phi(here)'d + L/2 ||d||^2."""
        d = there.x - self.x
        return 2.0 * (self.change(there) - float(self.gradient @ d)) / max(float(d @ d), 1e-300)


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """The curvature of phi met from one point to another, and what was evaluated to find it."""

    curvature: float  #: +inf where phi is not defined
    value: float
    there: Point | None  #: if the gradient was asked for


def visit(oracle: Oracle, x: Vector) -> Point:
    """Evaluate phi and its gradient at x."""
    value, gradient = oracle.visit(x)
    return Point(x, value, gradient)


def try_bound(oracle: Oracle, here: Point, x: Vector, lipschitz: float) -> Trial:
    """Whether phi(x) <= phi(here) + grad phi(here)'d + L/2 ||d||^2: it is if the curvature returned is at most L.

    From the value of phi alone, round-off taken in favour of the bound; where that fails by no more than values can
    tell, the gradient at x decides.
    """
    value = oracle.value(x)
    d = x - here.x
    square = max(float(d @ d), 1e-300)
    excess = value - here.value - float(here.gradient @ d) - 0.5 * lipschitz * square
    if here.noise < excess <= here.doubt:
        there = visit(oracle, x)
        return Trial(here.curvature(there) if there.value < math.inf else math.inf, there.value, there)
    return Trial(lipschitz + 2.0 * (excess - here.noise) / square, value, None)


def initial_lipschitz(oracle: Oracle, here: Point) -> float:
    """A first estimate of the Lipschitz constant of grad phi near x, from values of phi alone.

    The modulus of the second difference of phi along the projected steepest descent direction, over a short length. Not
    below a small multiple of ||grad phi|| / max(1, ||x||), so that the first step is not far beyond the scale of x;
    usually an underestimate, which backtracking then corrects.
    """
    t = tuning.TUNING
    scale, slope = max(1.0, float(np.linalg.norm(here.x))), float(np.linalg.norm(here.gradient))
    least = max(t.lipschitz_least * slope / scale, 1e-300)
    length = t.lipschitz_length * scale
    for _ in range(t.lipschitz_trials):
        u = oracle.g.domain().prox(here.x - (length / max(slope, 1e-300)) * here.gradient, 1.0)
        d = u - here.x
        if not d.any():
            break
        value = oracle.value(u)
        if value < math.inf:
            return max(abs(2.0 * (value - here.value - float(here.gradient @ d)) / max(float(d @ d), 1e-300)), least)
        length *= t.lipschitz_shorter
    return max(slope / scale, least)


def raised(lipschitz: float, curvature: float) -> float:
    """The next L to try when the curvature met on a step was above L."""
    t = tuning.TUNING
    if curvature == math.inf:
        return t.raise_undefined * lipschitz
    return min(max(t.raise_least * lipschitz, t.raise_margin * curvature), t.raise_most * lipschitz)


class Progress:
    """Notices that a solve has come to rest: neither a smaller residual nor a lower value for many iterations.

    A solve that has, or that has no step, begins again from its point with a new estimate of L, unless nothing has
    improved since it last did.
    """

    def __init__(self, oracle: Oracle, patience: int | None = None) -> None:
        self.oracle = oracle
        self.patience = tuning.TUNING.rest_patience if patience is None else patience
        self.residual = math.inf
        self.value = math.inf
        self.idle = 0  #: iterations since the last improvement
        self.improved = False  #: since the start, or since the solve began again

    def at_rest(self) -> bool:
        """To be called once an iteration."""
        best, lowest = self.oracle.best, self.oracle.lowest
        residual = best[2] if best else math.inf
        value = lowest[1] if lowest else math.inf
        if residual < tuning.TUNING.rest_less * self.residual or value < self.value - self.oracle.noise:
            self.residual, self.value, self.idle = min(residual, self.residual), min(value, self.value), 0
            self.improved = True
        else:
            self.idle += 1
        return self.resting

    @property
    def resting(self) -> bool:
        """What the last call found."""
        return self.idle >= self.patience

    def begins_again(self) -> bool:
        """Whether to begin again: False if nothing has improved since the last time. Counts anew from here on."""
        again = self.improved
        self.idle, self.improved = 0, False
        return again
