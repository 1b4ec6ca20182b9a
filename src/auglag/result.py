"""What a run returns: a SciPy `OptimizeResult` with a schema."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from scipy.optimize import OptimizeResult

from auglag._names import nearest
from auglag._typing import Vector
from auglag.algorithm.history import Iteration
from auglag.certificate import Certificate
from auglag.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Field -> what it holds. `Result` has exactly these.
SCHEMA: dict[str, str] = {
    "x": "the best point found, shape (n,)",
    "fun": "f(x) + g(x)",
    "success": "True only if certificate.meets(tol)",
    "status": "a Status",
    "message": "the status in words, with the numbers that matter",
    "nit": "outer iterations",
    "nit_inner": "inner iterations, all subproblems together, and the steps that a limit cut short",
    "nfev": "calls of fun, finite differences included",
    "njev": "calls of jac",
    "nhev": "calls of hess or hessp",
    "constr_nfev": "calls of the constraint functions (all constraints of a point count as one call each)",
    "constr_njev": "calls of the constraints' Jacobians",
    "constr_nhev": "calls of the constraints' Hessians",
    "jac": "grad f(x)",
    "maxcv": "largest violation of a constraint or bound (max norm)",
    "multipliers": "one entry per constraint, in the user's order and shape; L = f + y'c + z'x",
    "names": "the names of the constraints, in the order of `multipliers`",
    "bound_multipliers": "z: > 0 where the upper bound is active, < 0 where the lower one is",
    "certificate": "a Certificate of (x, multipliers) on the original problem",
    "second_order": "whether x is a minimum: 'minimum', 'probable minimum', 'saddle left', 'saddle', 'degenerate' or "
    "'not checked'",
    "penalty": "beta of the last subproblem (of the scaled problem, where scaling is on)",
    "history": "a list of dicts, one row per outer iteration",
    "steps": "every accepted step and outer iteration: a tuple of `Step` (kind, attempt, k, residual). Of more than "
    "20,000 some are left out; after a resume those before it are",
    "seconds": "wall-clock time",
    "tol": "the tolerance asked for",
    "inner": "the name of the inner solver",
    "variant": "the rules in words",
    "advice": "what to try, as a tuple of sentences (empty on success)",
    "starts": "the different points that several starts found, best first, each a `Found`; () for a single start",
}


#: What is looked for in results, and where it is.
_ELSEWHERE = {
    "sensitivity": "a result does not know how its problem depends on parameters; write auglag.sensitivity(problem, p, "
    "result), where problem(p) returns the problem for the parameters p"
}


class DocumentedResult(OptimizeResult):
    """A SciPy `OptimizeResult` with exactly the fields of a schema, which its documentation lists."""

    schema: ClassVar[Mapping[str, str]]  #: field -> what it holds

    def __init_subclass__(cls) -> None:
        cls.__doc__ = f"{cls.__doc__}\n\n" + "\n".join(f"    {name}: {text}" for name, text in cls.schema.items())

    def __init__(self, **values: Any) -> None:
        missing, extra = self.schema.keys() - values.keys(), values.keys() - self.schema.keys()
        if missing or extra:
            name = type(self).__name__
            raise InputError(f"{name} takes exactly its schema: missing {sorted(missing)}, unknown {sorted(extra)}")
        super().__init__(**values)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name.startswith("_"):
            raise AttributeError(name)
        hint = f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else nearest(name, dir(self))
        raise AttributeError(f"{type(self).__name__} has no {name!r}{hint}")


@final
class Result(DocumentedResult):
    """A SciPy `OptimizeResult` with exactly the fields of `SCHEMA`, which are:"""

    schema = SCHEMA

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in vars(type(self)) if not name.startswith("_"))})

    def __repr__(self) -> str:
        """What matters most, the status by its name, in a screen."""
        from auglag.report.summary import summary

        return summary(self, self.multipliers_by_name)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows: status, certificate, multipliers by name, a plot of the convergence."""
        from auglag.report.notebook import page

        return page(self, self.multipliers_by_name)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """The residual of every step; violation, penalty and inner work of every outer iteration: a matplotlib figure.

        With `path`, ending in .png, .svg or .pdf, it is written there, too. Needs `pip install 'auglag[plot]'`.
        """
        from auglag.log import figure

        ending = self.status.name.lower().replace("_", " ")
        title = f"{ending}, R = {self.certificate.residual:.1e}"
        return figure.drawn(self.history, title=title, tol=self.tol, path=path, steps=self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Everything in the result as JSON takes it: see `auglag.persist.results`, whose `from_dict` is the inverse."""
        from auglag.persist.results import to_dict

        return to_dict(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a file, as JSON; `auglag.load_result(path)` gives it back as it is."""
        from auglag.persist.results import save_result

        save_result(self, path)

    @property
    def multipliers_by_name(self) -> dict[str, Any]:
        """The multipliers with the names of their constraints."""
        return dict(zip(self.names, self.multipliers, strict=True))

    @property
    def y(self) -> Vector:
        """All multipliers as one flat vector, in the order of the rows."""
        certificate: Certificate = self.certificate
        return certificate.multipliers

    @property
    def violations(self) -> dict[str, float]:
        """Violated constraints by name, worst first."""
        certificate: Certificate = self.certificate
        return certificate.row_violations

    def multipliers_as(self, convention: str) -> list[Any]:
        """The multipliers in another convention's sign.

        "auglag", "trust-constr", "ipopt" and "casadi": L = f + y'c, so y > 0 at an active upper side. "slsqp": the
        multiplier of fun(x) >= 0 is nonnegative, -y. "ampl" and "pyomo": the derivative of the optimal value by the
        right-hand side, -y.
        """
        signs = {"auglag": 1, "trust-constr": 1, "ipopt": 1, "casadi": 1, "slsqp": -1, "ampl": -1, "pyomo": -1}
        if convention not in signs:
            raise InputError(f"convention must be one of {sorted(signs)}, got {convention!r}")
        sign = signs[convention]
        return [sign * np.asarray(y) if np.ndim(y) else sign * y for y in self.multipliers]

    def explain(self) -> str:
        """In words: what happened, how good the point is, and what to try."""
        certificate: Certificate = self.certificate
        constrained = certificate.multipliers.size > 0
        constraints = f", {self.constr_nfev} of the constraints" if constrained else ""
        method = f", {self.variant}, last penalty {self.penalty:.3g}" if constrained else ""
        lines = [
            self.message,
            f"After {self.nit} outer and {self.nit_inner} inner iterations ({_calls(self.nfev, 'fun')}{constraints}), "
            f"inner solver {self.inner}{method}.",
            f"At the returned point f + g = {self.fun:.10g}, {certificate}.",
        ]
        if self.success:
            lines.append(f"Second order: {self.second_order}.")
        if self.violations:
            worst = list(self.violations.items())[:3]
            if not self.success or certificate.violation > self.tol:
                lines.append("Most violated: " + ", ".join(f"{name} by {size:.3g}" for name, size in worst) + ".")
        lines += [f"Try: {advice}" for advice in self.advice]
        return "\n".join(lines)

    diagnose = explain


def _calls(count: int, what: str) -> str:
    return f"{count} call of {what}" if count == 1 else f"{count} calls of {what}"


_ROW = tuple(field.name for field in fields(Iteration) if field.name != "sup")


def row(iteration: Iteration) -> dict[str, Any]:
    """One row of `Result.history`."""
    return {name: getattr(iteration, name) for name in _ROW}
