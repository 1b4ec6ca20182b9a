"""What a stochastic run returns."""

from __future__ import annotations

import math
from typing import Any, final

from scipy.optimize import OptimizeResult

from auglag.result import DocumentedResult

#: What every run on data says of its course, with NumPy or PyTorch.
COURSE: dict[str, str] = {
    "epochs": "row evaluations / rows: passes over the data, full-batch tests and curvature included",
    "gradients": "stochastic gradients D(x, y, z)",
    "tests": "full-batch evaluations",
    "nit": "outer iterations",
    "nit_inner": "iterations of the method, all subproblems together",
    "penalty": "beta of the last subproblem",
    "history": "a list of dicts, one row per outer iteration",
    "trace": "a list of dicts, one row per full-batch test",
    "seconds": "wall-clock time",
    "seed": "what makes the run again",
    "tol": "the tolerance asked for",
    "method": "the name of the method",
    "variant": "the rules in words",
    "advice": "what to try, as a tuple of sentences (empty on success)",
}
#: Field -> what it holds. `StochasticResult` has exactly these.
SCHEMA: dict[str, str] = {
    "x": "the best point found, shape (n,)",
    "fun": "f(x) + g(x) over all rows (an estimate, if estimated)",
    "success": "True only if certificate.meets(tol); for sampled data, if the upper end of R's interval does",
    "status": "an auglag.Status",
    "message": "the status in words, with the numbers that matter",
    "multipliers": "y, one per constraint; L = f + y'c",
    "certificate": "a Certificate over all rows, or an EstimatedCertificate with intervals for sampled data",
    "estimated": "whether the certificate is an estimate",
    "holdout": "the same on held-out data, or None; a check of generalisation, not of optimality",
    "rates": "figures of merit of the problem (for Neyman-Pearson: error rates on training and held-out data)",
    **COURSE,
}


@final
class StochasticResult(DocumentedResult):
    """A SciPy `OptimizeResult` with exactly the fields of `SCHEMA`, which are:"""

    schema = SCHEMA

    def __repr__(self) -> str:
        short = dict(self)
        short["history"] = f"{len(self.history)} rows, one per outer iteration"
        short["trace"] = f"{len(self.trace)} rows, one per full-batch test"
        short["certificate"] = str(self.certificate)
        short["rates"] = ", ".join(f"{name} {value:.4f}" for name, value in self.rates.items())
        if self.holdout is not None:
            short["holdout"] = str(self.holdout)
        return str(OptimizeResult(short))

    __str__ = __repr__

    def explain(self) -> str:
        """In words: what happened, how good the point is, and what to try."""
        violated = {} if self.estimated else self.certificate.row_violations
        lines = told(self, constrained=self.multipliers.size > 0, violated=violated)
        if self.holdout is not None:
            lines.append(f"On held-out data: {self.holdout}.")
        if self.rates:
            lines.append(", ".join(f"{name} {value:.4f}" for name, value in self.rates.items()) + ".")
        lines += [f"Try: {advice}" for advice in self.advice]
        return "\n".join(lines)

    diagnose = explain


def told(result: Any, *, constrained: bool, violated: dict[str, float]) -> list[str]:
    """What happened in a run on samples, how good its point is, and which constraints are violated most."""
    rules = f", {result.variant}" if constrained else ""
    if constrained and math.isfinite(result.penalty):  # without a subproblem there is none
        rules += f", last penalty {result.penalty:.3g}"
    sampled = f", {result.gradients} stochastic gradients" if result.gradients else ""
    counted, passes = "", f"{result.epochs:.1f} passes over the data"
    if result.nit or result.nit_inner:
        counted = f"{result.nit} outer and {result.nit_inner} inner iterations in "
    lines = [
        result.message,
        f"After {counted}{passes} ({result.tests} full-batch evaluations among them{sampled}), "
        f"method {result.method}{rules}.",
        f"At the returned point f + g = {result.fun:.10g}, {result.certificate}.",
    ]
    if violated and (not result.success or result.certificate.violation > result.tol):
        worst = ", ".join(f"{name} by {size:.3g}" for name, size in list(violated.items())[:3])
        lines.append(f"Most violated: {worst}.")
    return lines
