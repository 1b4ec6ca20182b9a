"""Words for the result of a training run: what to try."""

from __future__ import annotations

import math

from auglag.algorithm.status import Status
from auglag.certificate import Certificate
from auglag.stochastic.reporting import longer
from auglag.torch.tuning import TUNING


def advice(
    status: Status, limit: str, checkpoint: object, tol: float, check: Certificate, violations: list[float], stuck: str
) -> tuple[str, ...]:
    """What to try, for an end that is not success.

    `violations` are those of the full-batch tests, in order; `stuck` is a violated constraint with a gradient of zeros.
    """
    finite = [v for v in (*violations, check.violation) if math.isfinite(v)]
    if status is Status.SOLVED:
        return ()
    tips: tuple[str, ...] = ()
    if stuck:
        tips = (
            f"another way to compute {stuck!r}, or another start: it is violated and its gradient is zero, so that no "
            "step can change it (it is constant, its graph is cut, or it is flat there).",
        )
    tips += longer(status, limit, checkpoint, "with the model as it is now and y0=result.multipliers")
    most = check.violation >= 0.5 * check.residual  # else something else comes first, unless many tests say the same
    if check.violation > tol and finite and not falling(finite) and (most or len(finite) >= TUNING.telling_tests):
        worst = next(iter(check.row_violations), None)
        which = "" if worst is None else f", above all that of {worst!r}"
        course = f"in the second half of {len(finite)} full-batch tests the violation fell little or not at all"
        if len(violations) < 2:
            course = "the violation is most of the residual, and so few full-batch tests do not tell whether it falls"
        tips += (f"whether the bounds can be attained{which}: {course}, and the least of all was {min(finite):.3g}.",)
    return tips


def falling(violations: list[float]) -> bool:
    """Whether the violation was clearly smaller in the second half of these tests than in the first."""
    half = len(violations) // 2
    return half > 0 and min(violations[half:]) <= TUNING.fallen * min(violations[:half])
