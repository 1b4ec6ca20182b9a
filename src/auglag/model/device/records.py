"""What the compiled parts of the device loop hand to each other, and to the host."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Iterate(NamedTuple):
    """w = (x, s), multipliers of rows, of lower and upper sides, and the elastic variables."""

    w: Any
    y: Any
    z: Any
    u: Any
    r: Any


class Elastic(NamedTuple):
    """The augmented Lagrangian's multipliers and penalty; `on` is 1.0 or 0.0."""

    on: Any
    yk: Any
    rho: Any

    @classmethod
    def inelastic(cls, m: int) -> Elastic:
        """The form without elastic variables, inside compiled functions."""
        return cls(jnp.zeros(()), jnp.zeros(m), jnp.ones(()))

    @classmethod
    def off(cls, m: int, device: Any) -> Elastic:
        """The same as an argument of them."""
        return cls(np.float64(0.0), jax.device_put(np.zeros(m), device), np.float64(1.0))


class Local(NamedTuple):
    """What an iterate's derivatives are: scaled."""

    gradient: Any  #: of the objective, in w
    c: Any  #: c - s
    jac: Any
    hess: Any
    weights: Any  #: z/gap of both sides


class Facts(NamedTuple):
    """What the host sees of an iterate; in the scaled problem unless said otherwise."""

    f: float  #: in the user's units
    dual: float
    primal: float  #: max norm of c - s + r
    comp_most: float
    comp_least: float
    sum_y: float
    sum_z: float
    violation: float  #: largest of c - s, in the user's units
    theta: float  #: 1-norm of c - s + r
    phi: float  #: the barrier function for `mu`
    elastic: float  #: max norm of r
    mu: float  #: after it was lowered where the barrier problem is solved
    error: float  #: of the problem itself, mu = 0
    residual: float  #: 2-norms in the user's units: stationarity + |(violation, complementarity)|
    barrier_error: float  #: of the barrier problem of the mu given
    value: float  #: phi for mu = 0
    mean: float  #: of gaps times multipliers


class Right(NamedTuple):
    """A right side of Newton's equations. It is affine in mu, and comes with its slope as a second row."""

    mu: Any
    both: Any
    slack: Any  #: the slacks' part, which was eliminated
    rows: Any  #: the residual of the rows

    def made_for(self, mu: Any) -> Right:
        """The same for another mu."""
        change = jnp.array([[mu - self.mu], [0.0]])
        return Right(mu, self.both + change * self.both[1], self.slack + change * self.slack[1], self.rows)


class Step(NamedTuple):
    """A direction and what it promises."""

    longest: float  #: to the sides, primal
    longest_dual: float
    slope: float  #: of phi
    phi: float  #: at the longest step
    theta: float
    move: float  #: largest relative change
    dual_move: float  #: largest change of a multiplier of a row
    accuracy: float  #: residual of the linear system, relative to the right side
    row_error: float  #: residual of its rows, relative to their violation
    mu: float  #: that it was made for
