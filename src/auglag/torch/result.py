"""What a training run returns."""

from __future__ import annotations

from typing import final

from scipy.optimize import OptimizeResult

from auglag.result import DocumentedResult
from auglag.stochastic.result import COURSE, told

#: Field -> what it holds. `TrainingResult` has exactly these.
SCHEMA: dict[str, str] = {
    "x": "the accepted point: all trainable parameters as one tensor, where the model was left",
    "fun": "f(x) + g(x) over all rows",
    "success": "True only if certificate.meets(tol)",
    "status": "an auglag.Status",
    "message": "the status in words, with the numbers that matter",
    "multipliers": "by name: a float for a constraint that is a number, else an array; L = f + y'c",
    "constraints": "the values of the constraints over all rows, by name",
    "certificate": "a Certificate over all rows",
    **COURSE,
}


@final
class TrainingResult(DocumentedResult):
    """A SciPy `OptimizeResult` with exactly the fields of `SCHEMA`, which are:"""

    schema = SCHEMA

    def __repr__(self) -> str:
        short = dict(self)
        short["x"] = f"{self.x.numel()} parameters on {self.x.device}"
        short["history"] = f"{len(self.history)} rows, one per outer iteration"
        short["trace"] = f"{len(self.trace)} rows, one per full-batch test"
        short["certificate"] = str(self.certificate)
        return str(OptimizeResult(short))

    __str__ = __repr__

    def explain(self) -> str:
        """In words: what happened, how good the point is, which constraints are violated most, and what to try."""
        lines = told(self, constrained=bool(self.multipliers), violated=self.certificate.row_violations)
        return "\n".join([*lines, *(f"Try: {advice}" for advice in self.advice)])

    diagnose = explain
