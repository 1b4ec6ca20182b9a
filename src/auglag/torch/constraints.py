"""Constraints by name: a function of (model, batch), and the sides its mean over the data has to keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from auglag._arrays import real_array
from auglag._typing import Vector
from auglag.errors import InputError

Tensor = Any
Function = Callable[[Any, Any], Any]


@final
@dataclass(frozen=True, slots=True)
class Constraint:
    """lower <= E function(model, batch) <= upper, entry by entry; lower = upper makes an equality.

    Sides are numbers or one number per entry of what the function returns. Without a function the values come from
    elsewhere: from the objective, which then returns (loss, values), or from the user's own loop. `exact` says that
    they do not depend on the batch (norms of weights, equations at fixed points): the single loop trusts the last one.
    """

    lower: Any
    upper: Any
    function: Function | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        low, high = (_sides(f"Constraint.{name}", getattr(self, name)) for name in ("lower", "upper"))
        if not bool(np.all(low <= high)):
            raise InputError(f"Constraint.lower must not exceed upper, got {self.lower!r:.60} and {self.upper!r:.60}")
        if bool(np.any((low == np.inf) | (high == -np.inf))):
            raise InputError("Constraint.lower must be below inf and upper above -inf, or no value can keep them")
        if self.function is not None and not callable(self.function):
            raise InputError(f"a constraint's function must be callable, got {type(self.function).__name__}")


def at_most(bound: Any, function: Function | None = None, *, exact: bool = False) -> Constraint:
    """E function(model, batch) <= bound.

    Parameters
    ----------
    bound : float or array_like
        The upper side.
    function : callable
        `function(model, batch)`, a number or a vector: a mean over the batch. None: `objective` returns the values.
    exact : bool
        Whether the function does not depend on the batch, such as a norm of the weights.

    Examples
    --------
    >>> from auglag.torch import at_most
    >>> at_most(0.1, lambda model, batch: model(batch).mean()).upper
    0.1
    """
    return Constraint(-np.inf, bound, function, exact)


def at_least(bound: Any, function: Function | None = None, *, exact: bool = False) -> Constraint:
    """E function(model, batch) >= bound.

    Parameters
    ----------
    bound : float or array_like
        The lower side.
    function : callable
        `function(model, batch)`, a number or a vector: a mean over the batch. None: `objective` returns the values.
    exact : bool
        Whether the function does not depend on the batch, such as a norm of the weights.

    Examples
    --------
    >>> from auglag.torch import at_least
    >>> at_least(0.9, lambda model, batch: model(batch).mean()).lower
    0.9
    """
    return Constraint(bound, np.inf, function, exact)


def equal(value: Any, function: Function | None = None, *, exact: bool = False) -> Constraint:
    """E function(model, batch) = value.

    Parameters
    ----------
    value : float or array_like
        Both sides.
    function : callable
        `function(model, batch)`, a number or a vector: a mean over the batch. None: `objective` returns the values.
    exact : bool
        Whether the function does not depend on the batch, such as a norm of the weights.

    Examples
    --------
    >>> from auglag.torch import equal
    >>> equal(2.0, lambda model, batch: model(batch).mean()).lower
    2.0
    """
    return Constraint(value, value, function, exact)


def between(lower: Any, upper: Any, function: Function | None = None, *, exact: bool = False) -> Constraint:
    """lower <= E function(model, batch) <= upper.

    Parameters
    ----------
    lower : float or array_like
        The lower side.
    upper : float or array_like
        The upper side.
    function : callable
        `function(model, batch)`, a number or a vector: a mean over the batch. None: `objective` returns the values.
    exact : bool
        Whether the function does not depend on the batch, such as a norm of the weights.

    Examples
    --------
    >>> from auglag.torch import between
    >>> between(-1.0, 1.0, lambda model, batch: model(batch).mean()).upper
    1.0
    """
    return Constraint(lower, upper, function, exact)


def without_derivatives(what: str) -> InputError:
    """The error for values that no step can change."""
    return InputError(
        f"{what} must depend on the parameters by operations with derivatives, got values without any: detached, made "
        "under no_grad, or a decision such as score > 0, which needs a smooth stand-in"
    )


def _sides(what: str, value: Any) -> Vector:
    if callable(value):
        raise InputError(
            f"{what} must be numbers, got {value!r:.60}: at_most, at_least, equal and between take the numbers first, "
            "as in at_most(0.5, function)"
        )
    array = real_array(value.tolist() if isinstance(value, torch.Tensor) else value, what)
    if array.ndim > 1:
        raise InputError(f"{what} must be a number or a vector, got shape {array.shape}")
    if np.isnan(array).any():
        raise InputError(f"{what} must not be NaN, got {value!r:.80}")
    return array


@final
class Layout:
    """Where each named constraint lies in the vector c, once the lengths are known; and its sides."""

    def __init__(self, constraints: Mapping[str, Constraint]) -> None:
        if not isinstance(constraints, Mapping):
            raise InputError(
                "constraints must be a dictionary name -> at_most(...), at_least(...), equal(...) or between(...), "
                f"got {type(constraints).__name__}"
            )
        for name, constraint in constraints.items():
            if not isinstance(name, str):
                raise InputError(f"the name of a constraint must be a string, got {name!r:.60}")
            if not isinstance(constraint, Constraint):
                raise InputError(
                    f"constraint {name!r} must be at_most(bound, function), at_least(...), equal(...) or "
                    f"between(...), got {constraint!r:.60}"
                )
        self.constraints = dict(constraints)
        self.sizes: dict[str, int] | None = None
        self.scalar: dict[str, bool] = {}
        self.differentiable: set[str] = set()  #: those that had a graph when gradients were asked for
        self.lower, self.upper = np.zeros(0), np.zeros(0)
        self.exact = np.zeros(0, dtype=bool)  #: entries that do not depend on the batch

    @property
    def m(self) -> int:
        """The length of c."""
        return self.lower.size

    def flatten(self, values: Any) -> Tensor | None:
        """The values of all constraints, by name (or as one vector), as one vector; None if there are none."""
        if not self.constraints:
            return None
        if not isinstance(values, Mapping):
            values = self._split(values)
        if values.keys() != self.constraints.keys():
            missing, extra = self.constraints.keys() - values.keys(), values.keys() - self.constraints.keys()
            raise InputError(
                f"constraint values must have exactly the names of the constraints: missing {sorted(missing)}, "
                f"unknown {sorted(extra)}"
            )
        vectors = [_vector(name, values[name]) for name in self.constraints]
        self.differentiable.update(n for n, v in zip(self.constraints, vectors, strict=True) if v.requires_grad)
        sizes = dict(zip(self.constraints, (v.numel() for v in vectors), strict=True))
        if self.sizes is None:
            self.scalar = {name: not getattr(values[name], "ndim", 0) for name in self.constraints}
            self.settle(sizes)
        elif sizes != self.sizes:
            name = next(name for name in sizes if sizes[name] != self.sizes[name])
            raise InputError(
                f"constraint {name!r} must return {self.sizes[name]} numbers for every batch, got {sizes[name]}: its "
                "function returns means over the rows of a batch, not a number for each row"
            )
        devices = {v.device for v in vectors}
        if len(devices) > 1:
            raise InputError(f"all constraints must return values on one device, got {sorted(map(str, devices))}")
        return vectors[0] if len(vectors) == 1 else torch.cat(vectors)

    def require_graphs(self) -> None:
        """Raise `InputError` if gradients were asked for, and a constraint had none on any batch."""
        without = [name for name in self.constraints if name not in self.differentiable]
        if without:
            raise without_derivatives(f"constraint {without[0]!r}")

    def _split(self, values: Any) -> dict[str, Any]:
        if len(self.constraints) == 1:
            return {next(iter(self.constraints)): values}
        if not isinstance(values, torch.Tensor):
            raise InputError(f"constraint values must be a tensor or a dictionary, got {type(values).__name__}")
        if values.ndim != 1:
            raise InputError(f"constraint values must be a vector, got shape {tuple(values.shape)}")
        sizes = self.sizes
        if sizes is None:
            sizes = {name: max(_count(con.lower), _count(con.upper)) for name, con in self.constraints.items()}
        if sum(sizes.values()) != values.numel():
            raise InputError(f"constraint values must be {sum(sizes.values())} numbers, got {values.numel()}")
        return dict(zip(sizes, torch.split(values, list(sizes.values())), strict=True))

    def settle(self, sizes: dict[str, int]) -> None:
        """The lengths are known: lay out the sides."""
        lower: list[Vector] = []
        upper: list[Vector] = []
        for name, constraint in self.constraints.items():
            for side, where in ((constraint.lower, lower), (constraint.upper, upper)):
                array = _sides(f"the sides of constraint {name!r}", side)
                if array.size not in (1, sizes[name]):
                    raise InputError(
                        f"constraint {name!r} must have one number per side, or one per entry, {sizes[name]}, "
                        f"got {array.size}"
                    )
                where.append(np.broadcast_to(array.reshape(-1), (sizes[name],)))
        self.sizes = sizes
        self.lower, self.upper = np.concatenate(lower), np.concatenate(upper)
        self.exact = np.repeat([con.exact for con in self.constraints.values()], list(sizes.values()))

    def multipliers(self, y0: Any) -> Vector:
        """y_1 from a vector, a dictionary by name, or nothing (0)."""
        if y0 is None:
            return np.zeros(self.m)
        if isinstance(y0, dict):
            if y0.keys() != self.constraints.keys():
                raise InputError(f"y0 must name all constraints, {sorted(self.constraints)}, got {sorted(y0)}")
            y0 = np.concatenate([np.atleast_1d(real_array(y0[name], f"y0[{name!r}]")) for name in self.constraints])
        y = np.atleast_1d(real_array(y0, "y0")).copy()
        if y.shape != (self.m,) or not np.isfinite(y).all():
            raise InputError(f"y0 must be {self.m} finite numbers, one per constraint value, got shape {y.shape}")
        return y

    def names(self) -> list[str]:
        """One name per entry of c."""
        found = []
        for name, size in (self.sizes or {}).items():
            found += [name] if self.scalar[name] else [f"{name}[{i}]" for i in range(size)]
        return found

    def by_name(self, y: Vector) -> dict[str, Any]:
        """A vector like c by name: a float where the constraint is a number, else an array."""
        found: dict[str, Any] = {}
        start = 0
        for name, size in (self.sizes or {}).items():
            found[name] = float(y[start]) if self.scalar[name] else y[start : start + size].copy()
            start += size
        return found


def _count(side: Any) -> int:
    return int(_sides("a side", side).size)


def _vector(name: str, value: Any) -> Tensor:
    if not isinstance(value, torch.Tensor):
        raise InputError(f"constraint {name!r} must return a tensor, got {type(value).__name__}")
    if value.ndim > 1:
        raise InputError(
            f"constraint {name!r} must return a number or a vector, the mean over the batch, "
            f"got shape {tuple(value.shape)}"
        )
    if not value.dtype.is_floating_point:
        raise InputError(f"constraint {name!r} must return floating-point values, got {value.dtype}")
    if value.numel() == 0:
        raise InputError(f"constraint {name!r} must return at least one number, got an empty vector")
    return value.reshape(-1)
