"""What `Model.solve` returns: values and multipliers by name and shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.status import Status
from auglag.certificate import Certificate
from auglag.errors import InputError
from auglag.model.device.solve import Found
from auglag.model.handles import Handle, Rows, named
from auglag.problems.base import AbstractProblem
from auglag.result import Result


@final
@dataclass(frozen=True)
class Solution:
    """One solve. `solution["th"]` or `solution[th]` are values, `solution[rows]` multipliers, in the shape of the name.

    Multipliers have the sign L = f + y'c + z'x, and `success` follows from the certificate alone, as everywhere.
    """

    x: Vector  #: all variables, flat
    y: Vector  #: all multipliers of rows, flat
    z: Vector  #: all multipliers of bounds: > 0 at an upper bound, < 0 at a lower one
    fun: float
    status: Status
    message: str
    certificate: Certificate
    iterations: int  #: outer iterations of `auglag.minimize`, or interior-point steps on a device
    seconds: float
    handles: Mapping[str, Handle] = field(repr=False)
    result: Result | None = field(default=None, repr=False)  #: of `auglag.minimize`; None after a run on a device
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)  #: of a run on a device: times and counts

    @classmethod
    def of_result(cls, result: Result, handles: Mapping[str, Handle]) -> Solution:
        """What `auglag.minimize` found."""
        return cls(
            x=result.x,
            y=result.y,
            z=result.bound_multipliers,
            fun=result.fun,
            status=result.status,
            message=result.message,
            certificate=result.certificate,
            iterations=result.nit,
            seconds=result.seconds,
            handles=handles,
            result=result,
        )

    @classmethod
    def of_device(cls, found: Found, handles: Mapping[str, Handle]) -> Solution:
        """What a run on a device found."""
        check = found.certificate
        return cls(
            x=found.x,
            y=found.y,
            z=check.bound_multipliers,
            fun=check.objective,
            status=found.status,
            message=_message(found),
            certificate=check,
            iterations=found.steps,
            seconds=found.seconds,
            handles=handles,
            details=found.details,
        )

    @property
    def success(self) -> bool:
        """Whether the certificate meets the tolerance."""
        return self.status is Status.SOLVED

    def __str__(self) -> str:
        """How the run ended and what can be asked for by name: the arrays of a large model are no summary."""
        variables = ", ".join(f"{name} {np.shape(value)}" for name, value in self.values.items())
        rows = ", ".join(f"{name} {np.shape(value)}" for name, value in self.multipliers.items())
        lines = {
            "status": f"{self.status.name} ({self.status.value})",
            "message": self.message,
            "fun": f"{self.fun:.12g}",
            "variables": variables,
            "rows": rows or "none",
            "certificate": str(self.certificate),
            "iterations": f"{self.iterations} in {self.seconds:.3g} s",
        }
        return "\n".join(f"{key:>11}: {value}" for key, value in lines.items())

    def explain(self) -> str:
        """In words: what happened, how good the point is, and what to try.

        After a run on a device: status and residuals, steps, seconds and rows that are violated.
        """
        if self.result is not None:
            return self.result.explain()
        facts = self.details
        lines = [
            self.message,
            f"After {self.iterations} interior-point steps on device {facts['device']!r} in {self.seconds:.3g} s, of "
            f"which preparation took {facts['preparation']:.3g} s; {facts['factorisations']} factorisations by "
            f"{facts['linear solver']}, size {facts['size']}; {facts['restorations']} restorations.",
            f"At the returned point f = {self.fun:.10g}; the error as IPOPT scales it is {facts['error']:.3e}.",
        ]
        if not self.success:
            worst = list(self.certificate.row_violations.items())[:3]
            if worst:
                lines.append("Most violated: " + ", ".join(f"{name} by {size:.3g}" for name, size in worst) + ".")
            lines.append("Try: other start values (set), or solve() without a device: it tries several.")
        return "\n".join(lines)

    def __getitem__(self, key: Any) -> Any:
        key = named(self.handles, key)
        source = self.y if isinstance(key, Rows) else self.x
        return source[np.asarray(key)]

    @property
    def values(self) -> dict[str, Any]:
        """Name of variables -> their values."""
        return {name: self[name] for name, handle in self.handles.items() if not isinstance(handle, Rows)}

    @property
    def multipliers(self) -> dict[str, Any]:
        """Name of rows -> their multipliers."""
        return {name: self[name] for name, handle in self.handles.items() if isinstance(handle, Rows)}

    @property
    def bound_multipliers(self) -> dict[str, Any]:
        """Name of variables -> multipliers of their bounds."""
        found = {name: handle for name, handle in self.handles.items() if not isinstance(handle, Rows)}
        return {name: self.z[np.asarray(handle)] for name, handle in found.items()}


def _message(found: Found) -> str:
    check = found.certificate
    if found.details["conflict"]:
        return f"Infeasible: no x satisfies all constraints. {found.details['conflict']}"
    if found.status is Status.INFEASIBLE:
        worst = ", ".join(f"{name} by {size:.3g}" for name, size in list(check.row_violations.items())[:3])
        text = "Locally infeasible: the violation is stationary and not small, from this start."
        return f"{text} Most violated: {worst}."
    return f"{found.status.message} {check}"


def begun_from(warm_start: Any, problem: AbstractProblem) -> tuple[Vector, Vector] | None:
    """The start of a run on a device or of a batch that goes on from an earlier solution; None for none."""
    if warm_start is None:
        return None
    if not isinstance(warm_start, Solution):
        raise InputError(
            f"warm_start on a device or of a batch must be a Solution of this model, got {warm_start!r:.60}"
        )
    if (warm_start.x.size, warm_start.y.size) != (problem.n, problem.m):
        raise InputError(
            f"warm_start must be a Solution of this model, which has {problem.n} variables and {problem.m} rows, "
            f"got {warm_start.x.size} and {warm_start.y.size}"
        )
    return warm_start.x, warm_start.y
