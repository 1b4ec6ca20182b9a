"""What a training run returns."""

from __future__ import annotations

from typing import final

from scipy.optimize import OptimizeResult

from auglag.result import DocumentedResult
from auglag.stochastic.result import COURSE

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
        """In words: what happened, how good the point is, and which constraints are violated most."""
        rules = f", {self.variant}, last penalty {self.penalty:.3g}" if self.multipliers else ""
        sampled = f", {self.gradients} stochastic gradients" if self.gradients else ""
        lines = [
            self.message,
            f"After {self.nit} outer and {self.nit_inner} inner iterations ({self.epochs:.1f} passes over the data, "
            f"{self.tests} full-batch evaluations among them{sampled}), method {self.method}{rules}.",
            f"At the returned point f + g = {self.fun:.10g}, {self.certificate}.",
        ]
        violated = self.certificate.row_violations
        if violated and (not self.success or self.certificate.violation > self.tol):
            worst = ", ".join(f"{name} by {size:.3g}" for name, size in list(violated.items())[:3])
            lines.append(f"Most violated: {worst}.")
        return "\n".join(lines)

    diagnose = explain
