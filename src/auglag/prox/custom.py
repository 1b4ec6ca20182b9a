"""A user's own g, known through its value and its prox alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.prox.base import Indicator, ProxTerm

#: The steps tried, in turn, to bring a point into dom g by the prox of g.
DOMAIN_STEPS = (1e-8, 1e-4, 1.0)


@final
class Custom(ProxTerm):
    """g given by two functions: value(x), +inf (or NaN) off the domain, and prox(x, step).

    Nothing else is known of the subdifferential, so `exact` is False and the distance of v to dg(x) is replaced by
    the prox residual ||x - prox(x + v, 1)||, which is 0 exactly when v is in dg(x) and never exceeds the distance.
    `domain` may be a prox term (the indicator of dom g) or a function x -> the projection of x on dom g. Without it,
    a point where the value is finite is left alone and any other is moved by the prox of g with a small step, which
    lands in dom g, near the projection: prox(x, t) tends to it as t -> 0.
    """

    __slots__ = ("_domain", "_prox", "_value")

    exact = False

    def __init__(
        self,
        value: Callable[[Vector], float],
        prox: Callable[[Vector, float], Vector],
        domain: ProxTerm | Callable[[Vector], Vector] | None = None,
    ) -> None:
        for name, given in (("value", value), ("prox", prox)):
            if not callable(given):
                raise InputError(f"Custom.{name} must be a function, got {given!r}")
        if not (domain is None or isinstance(domain, ProxTerm) or callable(domain)):
            raise InputError(f"Custom.domain must be a prox term, a projection or None, got {domain!r}")
        self._value, self._prox, self._domain = value, prox, domain

    def __repr__(self) -> str:
        return f"Custom(value={self._value!r}, prox={self._prox!r}, domain={self._domain!r})"

    def value(self, x: Vector) -> float:
        """The user's value, NaN taken as +inf."""
        value = float(self._value(x))
        return math.inf if math.isnan(value) else value

    def prox(self, x: Vector, step: float) -> Vector:
        """The user's prox, called with and returned as a copy."""
        return _same_shape("Custom.prox", self._prox(x.copy(), step), x)

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """x + v - p with p = prox(x + v, 1): an element of dg(p), where p = x exactly when v is in dg(x).

        It is not in general the element of dg(x) nearest to v, which cannot be had from value and prox.
        """
        return np.asarray(x + v - self.prox(x + v, 1.0))

    def subdiff_distance(self, x: Vector, v: Vector) -> float:
        """The prox residual ||x - prox(x + v, 1)||."""
        return float(np.linalg.norm(x - self.prox(x + v, 1.0)))

    def domain(self) -> ProxTerm:
        """The user's domain if there is one, else what the small steps of the prox give."""
        if isinstance(self._domain, ProxTerm):
            return self._domain
        return CustomDomain(self, self._domain)


@final
class CustomDomain(Indicator):
    """The indicator of the domain of a `Custom` term; like it, not exact."""

    __slots__ = ("_project", "_term")

    exact = False

    def __init__(self, term: Custom, project: Callable[[Vector], Vector] | None) -> None:
        self._term = term
        self._project = project

    def value(self, x: Vector) -> float:
        return 0.0 if self._term.value(x) < math.inf else math.inf

    def prox(self, x: Vector, step: float) -> Vector:
        """The user's projection; without one x itself if it lies in the domain, else a small prox step from it."""
        if self._project is not None:
            return _same_shape("Custom.domain", self._project(x.copy()), x)
        p = x.copy()
        for small in DOMAIN_STEPS:
            if self.value(p) < math.inf:
                break
            p = self._term.prox(x, small)
        return p

    def project_subdiff(self, x: Vector, v: Vector) -> Vector:
        """x + v - prox(x + v): a normal vector at the projection of x + v."""
        return np.asarray(x + v - self.prox(x + v, 1.0))


def as_term(obj: Any, name: str = "g") -> ProxTerm:
    """A prox term from `obj`: itself if it is one, else `Custom` around its methods value(x) and prox(x, step).

    Parameters
    ----------
    obj : ProxTerm or object
        Anything with the methods `value(x)` and `prox(x, step)`.
    name : str
        What error messages call it.

    Examples
    --------
    >>> from auglag.prox import L1, as_term
    >>> as_term(L1(0.5))
    L1(weight=0.5)
    """
    if isinstance(obj, ProxTerm):
        return obj
    if isinstance(obj, type):
        raise InputError(f"{name} must be an instance of a prox term, got the class {obj.__name__}")
    value, prox = getattr(obj, "value", None), getattr(obj, "prox", None)
    if callable(value) and callable(prox):
        return Custom(value, prox)
    raise InputError(f"{name} must be a prox term or have methods value(x) and prox(x, step), got {obj!r}")


def _same_shape(name: str, result: Any, x: Vector) -> Vector:
    array = np.array(result, dtype=np.float64)
    if array.shape != x.shape:
        raise InputError(f"{name} must return an array of shape {x.shape}, got shape {array.shape}")
    return array


def check_prox(term: ProxTerm, x: Vector) -> None:
    """Raise `InputError` if a user's prox is not the prox of the user's value, as far as a few points can tell.

    p = prox(x, t) exactly when g(z) >= g(p) + (x - p)'(z - p) / t for all z. Both a wrong formula and a forgotten step
    show at two steps and a few z near p and x.
    """
    rng = np.random.default_rng(0)
    for step in (1.0, 0.1):
        start = x + rng.standard_normal(x.size)
        p = term.prox(start, step)
        slope, at_p = (start - p) / step, term.value(p)
        if not math.isfinite(at_p):
            raise InputError(f"g: prox(x, step) must land where value is finite, got value {at_p}")
        around = [p + size * rng.standard_normal(x.size) for size in (1e-2, 1e-1, 1.0)]
        for z in (start, x, 0.0 * x, 0.5 * (start + p), *around):
            gap = term.value(z) - at_p - float(slope @ (z - p))
            size = 1.0 + abs(at_p) + float(np.linalg.norm(slope) * np.linalg.norm(z - p))
            if gap < -1e-6 * size:
                raise InputError(
                    f"g: prox(x, step) must minimise value(u) + ||u - x||^2 / (2 step), got a point that does not for "
                    f"step = {step}; does prox use its step? Pass check_derivatives=False if you are sure"
                )
