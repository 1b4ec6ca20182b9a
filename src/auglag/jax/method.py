"""The arguments that choose the method, the same for one instance and for a batch; and the programs made from them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, final

from auglag._names import nearest
from auglag.errors import InputError, OptionError, integer_or_none
from auglag.jax.program import Program
from auglag.jax.rules import Rules
from auglag.jax.state import Options, Sides
from auglag.jax.statement import Statement
from auglag.jax.tuning import TUNING
from auglag.strategy.settings import resolve

INNER = ("auto", "newton", "lbfgs")


@final
@dataclass(frozen=True, slots=True)
class Method:
    """Rules and options, hashable."""

    rules: Rules
    options: Options


def method(
    statement: Statement,
    *,
    tol: float,
    variant: str | None,
    penalty: Any,
    dual: Any,
    tolerance: Any,
    inner: str,
    accelerate: bool,
    scaling: bool,
    max_outer: int,
    max_steps: int | None,
    record: int,
) -> Method:
    """Check the arguments and put them together."""
    if inner not in INNER:
        hint = nearest(inner, INNER) if isinstance(inner, str) else ""
        raise OptionError(
            f"inner must be one of {INNER}, got {inner!r}{hint}; auglag.jax.minimize takes any inner solver"
        )
    for name, flag in (("accelerate", accelerate), ("scaling", scaling)):
        if not isinstance(flag, bool):
            raise InputError(f"{name} must be True or False, got {flag!r}")
    for name, count, lowest in (("max_outer", max_outer, 1), ("max_steps", max_steps, 1), ("record", record, 0)):
        integer_or_none(count, name, lowest)
    settings = resolve(variant=variant, penalty=penalty, dual=dual, tolerance=tolerance)
    n = statement.functions.n
    memory = TUNING.memory if inner == "lbfgs" or (inner == "auto" and n > TUNING.newton_variables) else 0
    steps = TUNING.memory_steps if memory else TUNING.newton_steps
    options = Options(
        tol=tol,
        negligible=settings.negligible,
        accelerate=accelerate,
        scaling=scaling,
        max_outer=int(max_outer),
        max_steps=int(max_steps) if max_steps is not None else steps,
        largest_penalty=settings.largest_penalty,
        memory=memory,
        record=int(record),
    )
    return Method(Rules(settings.penalty, settings.dual, settings.tolerance), options)


@final
class Programs:
    """The last programs, so that the same functions and settings are not traced and compiled again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Any, make: Any) -> Any:
        """What `make` returned for this key; kept if the key can be hashed."""
        try:
            found = self._kept.pop(key, None)
        except TypeError:
            return make()
        if found is None:
            found = make()
        self._kept[key] = found
        while len(self._kept) > TUNING.programs_kept:
            self._kept.popitem(last=False)
        return found


PROGRAMS = Programs()


def key_of(fun: Any, statement: Statement, p: Any, axes: Any, chosen: Method) -> Any:
    """What a program depends on."""
    rows = tuple((row.fun, row.shape.tree, row.shape.shapes) for row in statement.rows)
    return fun, rows, statement.x.tree, statement.x.shapes, p, axes, chosen.rules, chosen.options, str(statement.dtype)


def sides_of(statement: Statement) -> Sides:
    """Bounds and sides of the rows."""
    return Sides(statement.lower, statement.upper, statement.cl, statement.cu)


def program(statement: Statement, p: Any, axes: Any, chosen: Method) -> Program:
    """The program; p holds the shapes of one instance's parameters."""
    return Program(statement.functions, p, axes, chosen.rules, chosen.options, statement.dtype)
