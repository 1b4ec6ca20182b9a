"""The rules of Algorithm 1 for many instances: the objects of `algorithm.rules`, the arithmetic of `formulas`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp

from auglag.algorithm import formulas
from auglag.algorithm.rules import (
    Adaptive,
    Always,
    Constant,
    DualRule,
    FromScale,
    Full,
    Geometric,
    PenaltyRule,
    PowerLaw,
    Short,
    ToleranceRule,
    first_penalty,
)
from auglag.errors import InputError
from auglag.jax import vectors
from auglag.jax.vectors import Array, Vector, norm


@final
@dataclass(frozen=True, slots=True)
class Rules:
    """Penalty, dual step and inner tolerance, applied to arrays over the batch."""

    penalty: PenaltyRule
    dual: DualRule
    tolerance: ToleranceRule | None  #: None: geometric, down to a fraction of the tolerance

    def __post_init__(self) -> None:
        known = {
            "penalty": (Adaptive, Always),
            "dual": (Full, Short),
            "tolerance": (Geometric, PowerLaw, Constant, type(None)),
        }
        for name, classes in known.items():
            rule = getattr(self, name)
            if not isinstance(rule, classes):
                names = ", ".join(c.__name__ for c in classes if c is not type(None))
                raise InputError(
                    f"{name} must be a rule that auglag.jax can compile ({names}), got {type(rule).__name__}; "
                    "auglag.jax.minimize takes any"
                )
        initial = getattr(self.penalty, "initial", None)
        if not isinstance(initial, FromScale | float | int):
            raise InputError(f"penalty.initial must be a number or FromScale, got {type(initial).__name__}")

    def first_beta(self, objective: Array, violation: Array) -> Array:
        """beta_1."""
        assert isinstance(self.penalty, Adaptive | Always)
        initial = self.penalty.initial
        if isinstance(initial, FromScale):
            return formulas.from_scale(jnp, objective, violation, initial.factor, initial.lowest, initial.highest)
        return jnp.full_like(violation, first_penalty(initial, None))  # type: ignore[arg-type]

    def raises(self, before: Array, now: Array, negligible: Array) -> Array:
        """Whether beta_{k+1} = gamma beta_k, from the violations before and now; `negligible` ones never raise it."""
        if isinstance(self.penalty, Always):
            return jnp.ones_like(negligible)
        assert isinstance(self.penalty, Adaptive)
        return ~(formulas.shrank_enough(before, now, self.penalty.tau) | negligible)

    @property
    def gamma(self) -> float:
        """The factor of the penalty."""
        assert isinstance(self.penalty, Adaptive | Always)
        return self.penalty.gamma

    @property
    def failure_factor(self) -> float:
        """The factor of the penalty after a subproblem without a lower bound."""
        assert isinstance(self.penalty, Adaptive | Always)
        return formulas.failure_factor(self.gamma, self.penalty.leap)

    def next_y(self, y: Vector, c: Vector, beta: Array, first: Array, now: Array, k: Array) -> Vector:
        """The projection of y + step * c (line 6)."""
        if isinstance(self.dual, Short):
            return y + c * formulas.short_step(jnp, first, now, k)
        return self.project(y + c * beta, k)

    def project(self, y: Vector, k: Array) -> Vector:
        """y in the box or ball of the dual rule."""
        if not isinstance(self.dual, Full):
            return y
        radius: Any = self.dual.y_max * (k if self.dual.growing else 1.0)
        if self.dual.ball == "box":
            return formulas.in_box(vectors, y, radius)
        return y * formulas.ball_factor(jnp, norm(y, jnp.zeros(())), radius)

    def eta(self, k: Array, beta: Array, target: Array) -> Array:
        """eta_k = min(1/beta_k, eta'_k); `target` is where the default sequence ends."""
        number = k.astype(beta.dtype)
        if self.tolerance is None:
            first = jnp.maximum(formulas.FIRST_TOLERANCE, target)
            sequence = formulas.geometric(jnp, number, first, formulas.TOLERANCE_RATIO, target)
        elif isinstance(self.tolerance, Geometric):
            rule = self.tolerance
            sequence = formulas.geometric(jnp, number, rule.first, rule.ratio, rule.floor)
        elif isinstance(self.tolerance, PowerLaw):
            sequence = formulas.power_law(number, self.tolerance.scale, self.tolerance.power)
        else:
            assert isinstance(self.tolerance, Constant)
            sequence = jnp.full_like(beta, self.tolerance.value)
        return formulas.inner_tolerance(jnp, beta, sequence)
