"""`0.1 * L1()` and `L1(0.1) + NonNegative()`: terms multiplied and added, where the prox of the result is known."""

from __future__ import annotations

import numbers
from typing import Any, cast

import numpy as np

from auglag.errors import InputError
from auglag.prox.base import ProxTerm, SeparableTerm, Zero
from auglag.prox.boxes import Box
from auglag.prox.norms import L1, ElasticNet, SquaredL2
from auglag.prox.sums import Bounded, add_bounds
from auglag.prox.transforms import Scaled


def product(term: ProxTerm, factor: Any) -> ProxTerm:
    """factor * g(x): a term of the same class where that has a weight, an indicator as it is."""
    if isinstance(factor, bool) or not isinstance(factor, numbers.Real):
        return cast(ProxTerm, NotImplemented)  # Python asks the other factor then
    match term:
        case L1():
            return L1(_positive(factor) * np.asarray(term.weight))
        case SquaredL2():
            return SquaredL2(_positive(factor) * term.weight)
        case ElasticNet():
            return ElasticNet(_positive(factor) * term.l1, _positive(factor) * term.l2)
        case Bounded():
            return add_bounds(product(term.term, factor), term.bounds.lower, term.bounds.upper)
        case Box() | Zero():
            _positive(factor)
            return term
        case _:
            return Scaled(term, _positive(factor))


def _positive(factor: Any) -> float:
    if not 0.0 < factor < np.inf:
        raise InputError(f"a term must be multiplied by a positive number, got {factor!r}")
    return float(factor)


def total(one: ProxTerm, two: Any) -> ProxTerm:
    """g(x) + h(x). Bounds can be added to any separable term; sums of L1 and SquaredL2 have a prox of their own."""
    if not isinstance(two, ProxTerm):
        return cast(ProxTerm, NotImplemented)
    match one, two:
        case (Zero(), _):
            return two
        case (_, Zero()):
            return one
        case (SeparableTerm(), Box()):
            return add_bounds(one, two.lower, two.upper)
        case (Box(), SeparableTerm()):
            return add_bounds(two, one.lower, one.upper)
        case (Bounded(), SeparableTerm()):
            return add_bounds(total(one.term, two), one.bounds.lower, one.bounds.upper)
        case (SeparableTerm(), Bounded()):
            return add_bounds(total(one, two.term), two.bounds.lower, two.bounds.upper)
        case (L1(), L1()):
            return L1(np.asarray(one.weight) + np.asarray(two.weight))
        case (SquaredL2(), SquaredL2()):
            return SquaredL2(one.weight + two.weight)
        case _:
            l1, l2 = _net(one), _net(two)
            if l1 is not None and l2 is not None:
                return ElasticNet(l1[0] + l2[0], l1[1] + l2[1])
    raise InputError(
        f"{type(one).__name__} + {type(two).__name__} has no prox that is known here; state one of the two as a "
        "constraint, or put the smooth one into fun. Bounds can be added to any separable term, L1 and SquaredL2 to "
        "each other, and terms on different variables are a SeparableSum"
    )


def _net(term: ProxTerm) -> tuple[float, float] | None:
    """(l1, l2) of a term that is a case of the elastic net, with one weight for all variables."""
    match term:
        case L1() if not np.ndim(term.weight):
            return float(np.asarray(term.weight)), 0.0
        case SquaredL2():
            return 0.0, term.weight
        case ElasticNet():
            return term.l1, term.l2
    return None
