"""Trials that run together: every run has a thread, one of them runs at a time, and their scans become one `vmap`.

A trial runs until it asks for a scan (all steps of a draw) and then waits. When every trial waits, the scans with equal
shapes are executed at once, by the caller's thread, and each trial goes on with its part.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag.algorithm.status import Status
from auglag.stochastic.result import StochasticResult

#: Arguments of the scans that all trials of a problem share.
SHARED = ("data", "prox", "box")


class Abandoned(BaseException):
    """Ends a trial whose result nobody waits for; not an `Exception`, so that no run takes it for one of its own."""


@final
class Scan:
    """One scan as a program for one trial and as a program for several."""

    def __init__(self, scan: Callable[..., Any]) -> None:
        import jax

        self._tree = jax.tree
        self._shared = [name in SHARED for name in inspect.signature(scan).parameters]
        self.alone = jax.jit(scan)
        self._vmapped = jax.jit(jax.vmap(scan, in_axes=[None if shared else 0 for shared in self._shared]))

    def key(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """What has to be equal for calls to be made together."""
        own = [arg for arg, shared in zip(args, self._shared, strict=True) if not shared]
        return id(self), *((np.shape(leaf), np.result_type(leaf)) for leaf in self._tree.leaves(own))

    def together(self, calls: list[tuple[Any, ...]], size: int) -> list[Any]:
        """The answers to these calls, filled up to `size` with copies of the first."""
        calls, count = calls + [calls[0]] * (size - len(calls)), len(calls)
        stacked = [
            column[0] if shared else self._tree.map(lambda *leaves: np.stack(leaves), *column)
            for column, shared in zip(zip(*calls, strict=True), self._shared, strict=True)
        ]
        found = self._tree.map(np.asarray, self._vmapped(*stacked))
        return [self._tree.map(lambda a, i=i: a[i], found) for i in range(count)]


@final
@dataclass(frozen=True, slots=True)
class Request:
    """A scan that a trial waits for."""

    scan: Scan
    args: tuple[Any, ...]


@final
class Trial:
    """One run in a thread of its own. `state`: "idle" may run, "running", "asking" for a scan, "ended".

    The caller may be interrupted at any point and call `advance` again: nothing is lost.
    """

    def __init__(self, solve: Callable[[], StochasticResult]) -> None:
        self._solve = solve
        self.state = "idle"
        self.request: Request | None = None  #: while it is "asking"
        self.result: StochasticResult | None = None
        self.error: BaseException | None = None
        self._answer: Any = None
        self._turn = threading.Condition()
        settings = _jax_settings()  # JAX's, unlike NumPy's, are no context variables
        # A daemon: a user's function that never returns must not keep the interpreter alive.
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._work, settings), name="auglag trial", daemon=True
        )
        self._thread.start()

    # ------------------------------------------------------------------------------------------- in the trial's thread

    def _work(self, settings: Callable[[], Any]) -> None:
        _TRIAL.set(self)
        try:
            self._wait()
            with settings():
                self.result = self._solve()
        except BaseException as error:  # handed to the caller, who raises it
            self.error = error
        with self._turn:
            self.state = "ended"
            self._turn.notify_all()

    def ask(self, scan: Scan, args: tuple[Any, ...]) -> Any:
        """Wait for the answer, or for the exception that the caller has instead."""
        with self._turn:
            if self.state != "running":
                raise Abandoned
            self.request, self.state = Request(scan, args), "asking"
            self._turn.notify_all()
        return self._wait()

    def _wait(self) -> Any:
        with self._turn:
            while self.state != "running":
                self._turn.wait()
            answer, self._answer = self._answer, None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    # ------------------------------------------------------------------------------------------ in the caller's thread

    def advance(self) -> None:
        """Let it run until it asks or ends."""
        with self._turn:
            if self.state == "idle":
                self.state = "running"
            self._turn.notify_all()
            while self.state == "running":
                self._turn.wait()

    def answer(self, answer: Any) -> None:
        """What it asked for."""
        with self._turn:
            self._answer, self.request, self.state = answer, None, "idle"

    def abandon(self) -> None:
        """End it now, or at its next request if it is in the middle of something."""
        with self._turn:
            if self.state == "running":
                self.state = "abandoned"
                return
        if self.state != "ended":
            self.answer(Abandoned())
            self.advance()


_TRIAL: contextvars.ContextVar[Trial] = contextvars.ContextVar("auglag trial")


@final
class Gathering:
    """Runs trials to their ends, with the scans of those that wait executed together."""

    def __init__(self) -> None:
        self.interrupted = False
        self._vmaps = True

    @staticmethod
    def compiled(scan: Callable[..., Any]) -> Callable[..., Any]:
        """In place of `jax.jit`: a call asks for the scan."""
        program = Scan(scan)
        return lambda *args: _TRIAL.get().ask(program, args)

    def run(self, solves: list[Callable[[], StochasticResult]]) -> list[StochasticResult]:
        """The results; the first exception of a trial is raised, and ends the others.

        An interrupt ends all trials with the best point each has; a second one is raised.
        """
        trials = [Trial(solve) for solve in solves]
        try:
            while any(trial.state != "ended" for trial in trials):
                try:
                    self._round(trials)
                except KeyboardInterrupt:
                    if self.interrupted:
                        raise
                    self.interrupted = True
        finally:
            for trial in trials:
                trial.abandon()
        return [trial.result for trial in trials if trial.result is not None]

    def _round(self, trials: list[Trial]) -> None:
        for trial in trials:
            trial.advance()
            if trial.error is not None:
                raise trial.error
            self.interrupted |= trial.result is not None and trial.result.status is Status.INTERRUPTED
        groups: dict[Any, list[tuple[Trial, Request]]] = {}
        for trial in trials:
            if trial.request is not None and self.interrupted:
                trial.answer(KeyboardInterrupt())
            elif trial.request is not None:
                groups.setdefault(trial.request.scan.key(trial.request.args), []).append((trial, trial.request))
        for group in groups.values():
            self._execute(group, len(trials))

    def _execute(self, group: list[tuple[Trial, Request]], most: int) -> None:
        if len(group) > 1 and self._vmaps:
            try:
                found = group[0][1].scan.together([request.args for _, request in group], _size(len(group), most))
            except Exception:  # no vmap rule, no memory, one trial's own error: one by one they are told apart
                self._vmaps = False
            else:
                for (trial, _), answer in zip(group, found, strict=True):
                    trial.answer(answer)
                return
        for trial, request in group:
            try:
                trial.answer(request.scan.alone(*request.args))
            except Exception as error:
                trial.answer(error)


def _size(count: int, most: int) -> int:
    """The smallest of most, most / 2, most / 4, ... that holds `count`: few sizes, because each is compiled."""
    while (half := (most + 1) // 2) >= count and half < most:
        most = half
    return most


def _jax_settings() -> Callable[[], Any]:
    """Those of the caller's thread that decide on numbers, for another thread to enter."""
    import jax

    x64, device, precision = (
        getattr(jax.config, f"jax_{name}") for name in ("enable_x64", "default_device", "default_matmul_precision")
    )
    double = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64

    @contextlib.contextmanager
    def entered() -> Iterator[None]:
        with double(x64), jax.default_device(device), jax.default_matmul_precision(precision):
            yield

    return entered
