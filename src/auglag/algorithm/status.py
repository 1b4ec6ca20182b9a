"""Why a run ended."""

from __future__ import annotations

from enum import IntEnum
from typing import final


@final
class Status(IntEnum):
    """Why a run ended. 0 is the only success; every member carries its message."""

    message: str

    def __new__(cls, value: int, message: str) -> Status:
        member = int.__new__(cls, value)
        member._value_ = value
        member.message = message
        return member

    SOLVED = 0, "Solved: the certificate meets the tolerance."
    INFEASIBLE = 1, "Locally infeasible: the violation is stationary and not small, from several starting points."
    UNBOUNDED = 2, "Unbounded: the objective falls without limit while the violation does not grow."
    ITERATION_LIMIT = 3, "Iteration limit reached before the tolerance."
    EVALUATION_LIMIT = 4, "Evaluation limit reached before the tolerance."
    TIME_LIMIT = 5, "Time limit reached before the tolerance."
    STOPPED = 6, "Stopped by the callback."
    INTERRUPTED = 7, "Interrupted from the keyboard."
    NON_FINITE = 8, "A function is not finite (NaN or infinite), or not defined, where the method has to go."
    STUCK = 9, "Stuck: the inner solver can make no further progress at this precision."
    UNCERTIFIED = 10, "The stopping test was met but the certificate, recomputed on the original problem, was not."
    PRECISION_LIMIT = 11, "Solved to the accuracy of the functions, which is not enough for the tolerance."
    WRONG_DERIVATIVES = 12, "The derivatives given are not those of the functions at the point where the run ended."
    PENALTY_LIMIT = 13, "Penalty limit: beta grew beyond the largest that is allowed before the tolerance was reached."

    @property
    def no_further(self) -> bool:
        """Whether the method itself could not go on, with all functions defined and budget left."""
        return self in (Status.STUCK, Status.PENALTY_LIMIT)

    def certified(self, success: bool, *, limited: bool = False) -> Status:
        """The status once the certificate has been seen: solved if that holds, and only then.

        `limited`: the residual is no larger than the errors of the functions make it.
        """
        if success:
            return Status.SOLVED
        cut_short = (Status.EVALUATION_LIMIT, Status.TIME_LIMIT, Status.STOPPED, Status.INTERRUPTED)
        if limited and self not in cut_short:
            return Status.PRECISION_LIMIT
        return Status.UNCERTIFIED if self is Status.SOLVED else self
