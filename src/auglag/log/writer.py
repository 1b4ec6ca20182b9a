"""Writing a log: every line goes out as soon as it is known, so that the file can be watched."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
import scipy

from auglag._names import suggesting
from auglag._typing import Vector
from auglag._version import __version__
from auglag.algorithm.history import Iteration
from auglag.errors import InputError
from auglag.log.schema import FIELDS, FORMAT, VERSION, plain
from auglag.report import logger

#: The end of a run holds x and y up to this size.
LONGEST = 1000
#: Seconds that steps may wait for each other.
PAUSE = 0.1
R = TypeVar("R")


@suggesting
@final
class JsonLog:
    """A log of runs in the file `path`: pass it as `callback=`, or call `start`, `iteration`, `end` in your own loop.

    `append` keeps what is in the file, as a resumed run needs it. `callback` is called as well, as if it had
    been given itself. Up to `multipliers` rows each line has their multipliers. `steps=False` leaves out the steps
    between outer iterations; with them, lines are written ten times a second at most. A line that cannot be
    written (the disk is full) is a warning, and the last one; the run goes on. A symbolic link, which could lead to any
    file, is refused.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        append: bool = False,
        callback: Callable[..., Any] | None = None,
        multipliers: int = 50,
        steps: bool = True,
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InputError(f"JsonLog.path must be a path, got {path!r:.80}")
        if not isinstance(multipliers, int) or multipliers < 0:
            raise InputError(f"JsonLog.multipliers must be a whole number, got {multipliers!r}")
        if not isinstance(steps, bool):
            raise InputError(f"JsonLog.steps must be True or False, got {steps!r:.80}")
        self.steps = steps
        self._waiting: list[tuple[Any, ...]] = []
        self._written = 0.0
        self.path, self.append, self.callback, self.multipliers = Path(path), append, callback, multipliers
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise InputError(f"JsonLog.path must name a file in an existing folder, got {str(self.path)!r}")
        self._going = False

    # ------------------------------------------------------------------------------------------------- for any loop

    def start(
        self,
        *,
        n: int,
        m: int,
        tol: float,
        problem: str = "",
        rows: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        resumed: bool = False,
    ) -> None:
        """Begin the file, and say what is being solved, and how."""
        self._open()
        versions = {"auglag": __version__, "python": platform.python_version()}
        versions |= {"numpy": np.__version__, "scipy": scipy.__version__}
        self._write(
            "start",
            format=FORMAT,
            version=VERSION,
            time=_now(),
            problem=problem,
            n=n,
            m=m,
            rows=list(rows) if m <= self.multipliers else [],
            tol=tol,
            options=dict(options or {}),
            resumed=resumed,
            versions=versions,
            pid=os.getpid(),
            host=platform.node(),
        )

    def iteration(
        self,
        k: int,
        *,
        seconds: float,
        objective: float,
        residual: float,
        violation: float,
        beta: float,
        multipliers: Any = (),
        eta: float = math.nan,
        attempt: int = 0,
        usable: bool = True,
        inner_status: str = "",
        inner_iterations: int = 0,
        evaluations: int = 0,
        work: Mapping[str, float] | None = None,
    ) -> None:
        """One outer iteration."""
        y = np.asarray(multipliers, dtype=float).ravel()
        self._write(
            "iteration",
            k=k,
            attempt=attempt,
            seconds=seconds,
            objective=objective,
            residual=residual,
            violation=violation,
            stationarity=max(residual - violation, 0.0),
            beta=beta,
            eta=eta,
            multiplier_norm=float(np.linalg.norm(y)),
            multipliers=y if y.size <= self.multipliers else None,
            usable=usable,
            inner_status=inner_status,
            inner_iterations=inner_iterations,
            evaluations=evaluations,
            work=dict(work or {}),
        )

    def step(
        self,
        kind: str,
        *,
        step: int,
        k: int,
        attempt: int = 0,
        seconds: float,
        objective: float,
        residual: float,
        violation: float,
        beta: float = math.nan,
    ) -> None:
        """One accepted step of this kind. It is written with the next line, or after a tenth of a second."""
        if not self.steps:
            return
        self._waiting.append((kind, step, k, attempt, seconds, objective, residual, violation, beta))
        if seconds - self._written > PAUSE:
            self._written = seconds
            self._flush()

    def end(
        self,
        *,
        status: str,
        success: bool,
        message: str,
        seconds: float = math.nan,
        objective: float = math.nan,
        residual: float = math.nan,
        violation: float = math.nan,
        stationarity: float = math.nan,
        penalty: float = math.nan,
        nit: int | None = None,
        nit_inner: int | None = None,
        advice: Sequence[str] = (),
        work: Mapping[str, float] | None = None,
        x: Any = None,
        multipliers: Any = None,
    ) -> None:
        """How it ended: the last line."""
        self._write(
            "end",
            time=_now(),
            status=status,
            success=success,
            message=message,
            advice=list(advice),
            objective=objective,
            residual=residual,
            violation=violation,
            stationarity=stationarity,
            penalty=penalty,
            nit=nit,
            nit_inner=nit_inner,
            seconds=seconds,
            work=dict(work or {}),
            x=None if x is None or np.size(x) > LONGEST else x,
            multipliers=None if multipliers is None or np.size(multipliers) > LONGEST else multipliers,
        )
        self._going = False

    # ------------------------------------------------------------------------------------------- for the library's runs

    def around(self, solve: Callable[[], R], header: Mapping[str, Any] | None) -> R:
        """The result of `solve`, after a start (None: `solve` writes it) and before an end, whatever it is."""
        if header is not None:
            self.start(**header)
        try:
            result = solve()
        except BaseException as error:
            self.end(status="EXCEPTION", success=False, message=f"{type(error).__name__}: {error}")
            raise
        try:
            self.result(result)
        except KeyboardInterrupt:  # the result is there, and must not be lost
            self.result(result)
        return result

    def outer(self, it: Iteration, y: Vector, seconds: float, work: Mapping[str, float]) -> None:
        """One outer iteration, from the row of the history."""
        same = ("objective", "residual", "beta", "eta", "attempt", "usable", "inner_status", "inner_iterations")
        self.iteration(
            it.k,
            seconds=seconds,
            violation=it.user_violation,
            multipliers=y,
            evaluations=it.evaluations,
            work=work,
            **{name: getattr(it, name) for name in same},
        )

    def test(self, row: Mapping[str, Any]) -> None:
        """One full-batch test, from the row of the trace."""
        same = ("k", "p", "steps", "seconds", "objective", "residual", "violation")
        self._write(
            "test",
            **{name: row[name] for name in same},
            stationarity=row["dist"],
            accepted=row["accepted"],
            work={"epochs": row["epochs"], "gradients": row["gradients"]},
        )

    def result(self, result: Any) -> None:
        """The end, from a `Result` or a `StochasticResult`."""
        check = result.certificate
        names = ("nfev", "njev", "nhev", "constr_nfev", "constr_njev", "constr_nhev", "epochs", "gradients", "tests")
        self.end(
            status=result.status.name,
            success=bool(result.success),
            message=result.message,
            seconds=result.seconds,
            objective=result.fun,
            residual=check.residual,
            violation=check.violation,
            stationarity=check.stationarity,
            penalty=result.penalty,
            nit=result.nit,
            nit_inner=result.nit_inner,
            advice=result.get("advice", ()),
            work={name: result[name] for name in names if name in result},
            x=None if hasattr(result.x, "numel") and result.x.numel() > LONGEST else np.asarray(_on_host(result.x)),
            multipliers=check.multipliers if hasattr(check, "multipliers") else result.multipliers,
        )

    # ------------------------------------------------------------------------------------------------------- the file

    def _open(self) -> None:
        """Begin: an empty file, or one whose last line is whole."""
        try:
            torn = self.append and self.path.exists() and self.path.read_bytes()[-1:] not in (b"", b"\n")
            with open(self.path, "a" if self.append else "w", encoding="utf-8", opener=_no_link) as file:
                file.write("\n" if torn else "")  # the run before was killed while it wrote
        except OSError as error:
            raise InputError(f"JsonLog.path must be writable, got {str(self.path)!r} ({error.strerror})") from None
        self._going, self._written, self._waiting = True, 0.0, []

    def _write(self, event: str, **content: Any) -> None:
        """One line, at once. The file is opened for each: a run that ends in any way leaves nothing open."""
        assert FIELDS[event].keys() == {"event", *content}
        self._append([*self._steps(), _line({"event": event, **content})])

    def _flush(self) -> None:
        """Write the steps that wait."""
        self._append(self._steps())

    def _steps(self) -> list[str]:
        names, waiting = list(FIELDS["step"]), self._waiting
        self._waiting = []
        return [_line(dict(zip(names, ("step", *values), strict=True))) for values in waiting]

    def _append(self, lines: Sequence[str]) -> None:
        """These lines, at once."""
        if not self._going:
            return
        try:
            with open(self.path, "a", encoding="utf-8", opener=_no_link) as file:
                file.write("".join(lines))
        except OSError as error:
            self._going = False
            logger.warn(f"the log {self.path} ends here: {error.strerror}")


def _line(content: Mapping[str, Any]) -> str:
    return json.dumps(plain(dict(content)), separators=(",", ":"), allow_nan=False) + "\n"


def _no_link(path: str, flags: int) -> int:
    """Open the file itself: a symbolic link is refused."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _on_host(x: Any) -> Any:
    """A tensor, wherever it lies, as something NumPy takes."""
    return x.detach().cpu() if hasattr(x, "detach") else x


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
