"""One training run: start, Algorithm 1 with its inner loop, checkpoint, certificate, result."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.rules import History, Iteration, ToleranceRule
from auglag.algorithm.status import Status
from auglag.algorithm.stopping import Stopping
from auglag.budget import Budget
from auglag.errors import CheckpointError, InputError, StoppedByCallback
from auglag.inner.base import InnerResult, InnerStatus
from auglag.log import JsonLog, headers
from auglag.result import row
from auglag.stochastic.full_batch import Ledger, Limits
from auglag.stochastic.run import Caps
from auglag.strategy.old_checkpoint import require_same
from auglag.strategy.old_outer import augmented_lagrangian
from auglag.torch import storage
from auglag.torch.certify import certify_point
from auglag.torch.data import Source
from auglag.torch.distributed import Team
from auglag.torch.full_batch import FullBatch, Values
from auglag.torch.full_batch_methods import LBFGS
from auglag.torch.functions import Functions
from auglag.torch.lagrangian import Stage, Subproblem, Test
from auglag.torch.methods import Optimizer
from auglag.torch.prox import ProxMap
from auglag.torch.result import TrainingResult
from auglag.torch.sampled import SampledInner
from auglag.torch.settings import WARM_UP_BATCH, Following, Settings, adam

Tensor = Any
WHY = ("", "epochs", "gradients", "seconds")
#: Sampled steps before full batches: at most so many calls, each of which shrinks dist by this factor, down to this.
WARM_UP_CALLS, WARM_UP_GAIN, WARM_UP_ENOUGH = 5, 0.7, 0.1


class InnerLoop(Protocol):
    """An inner loop with its state: what the outer loop calls, and what a checkpoint saves."""

    saves: bool

    def solve(self, subproblem: Subproblem, x: Tensor, tol: float, *, limit: int) -> InnerResult:
        """As in `outer.Inner`."""
        ...

    def set_iteration(self, k: int) -> None:
        """Say which outer iteration comes next."""
        ...

    def begin_level(self) -> None:
        """The problem changes: forget what belongs to the old one."""
        ...

    def save(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """The state of a checkpoint."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Hooks:
    """What the caller wants to see or save."""

    callback: Callable[[dict[str, Any]], Any] | None = None
    table: Callable[[dict[str, Any]], None] | None = None
    say: Callable[[str], None] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    resume: str | os.PathLike[str] | None = None
    log: JsonLog | None = None  #: of rank 0


@final
class Run:
    """The state of one run."""

    def __init__(
        self,
        functions: Functions,
        source: Source,
        prox: ProxMap,
        settings: Settings,
        team: Team,
        *,
        tol: float,
        seed: int,
        caps: Caps,
        hooks: Hooks,
        y0: Any,
        inner: Callable[[Run], InnerLoop],
    ) -> None:
        self.functions, self.source, self.prox, self.settings, self.team = functions, source, prox, settings, team
        self.tol, self.seed, self.caps, self.hooks = tol, seed, caps, hooks
        self.ledger, self.limits = Ledger(), Limits()
        self.logged = False
        self.full = FullBatch(functions.variables, functions, source, team, self.ledger)
        self.stage = Stage(self.full, prox)
        self.started, self.seconds_before = time.monotonic(), 0.0
        self.history, self.trace = History(math.nan, math.nan), list[dict[str, Any]]()
        self.best: Test | None = None
        self.best_x: Tensor = None
        self.best_y, self.best_residual = np.zeros(0), math.inf
        self.best_buffers: list[Tensor] = []  #: what batch norm had seen when the best point was tested
        self.y0 = y0
        self.x: Tensor = None
        self.y: Vector = np.zeros(0)
        self.values: Values | None = None  #: at x
        self.inner_values: Values | None = None  #: at the point inside the subproblem
        self.inner: InnerLoop = inner(self)

    @property
    def seconds(self) -> float:
        """Wall-clock time, that before a resume included."""
        return self.seconds_before + time.monotonic() - self.started

    def exhausted(self) -> str:
        """Which limit is reached, or ''; the same in every process."""
        why = WHY.index(self.limits.reached(self.ledger))
        if self.limits.deadline < math.inf:
            why = round(self.team.agree([why])[0])
        return WHY[why]

    # ------------------------------------------------------------------------------------------------------ the course

    def solve(self) -> TrainingResult:
        """From the start to the result; the model is left at the best point, or as it was if anything raises."""
        variables, model = self.functions.variables, self.functions.model
        before = variables.read()
        buffers = [(b, b.detach().clone()) for b in model.buffers()]
        gradients = [p.grad for p in variables.params]
        try:
            try:
                status = self._solve(before)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
            except StoppedByCallback:
                status = Status.STOPPED
            return self._finish(status)
        except BaseException:
            variables.write(before)
            for buffer, old in buffers:
                buffer.copy_(old)
            raise
        finally:
            for p, g in zip(variables.params, gradients, strict=True):
                p.grad = g

    def _solve(self, x: Tensor) -> Status:
        if self.hooks.resume is not None:
            self._resume()
        else:
            self._begin(x)
        tolerance: ToleranceRule = self.settings.tolerance or Following(floor=0.2 * self.tol)
        m = self.functions.layout.m
        stopping = Stopping(
            self.tol, Budget(outer=self.caps.outer), m > 0, largest_penalty=self.settings.largest_penalty,
            suspicion=None,
        )  # fmt: skip
        if self.history.iterations:
            verdict = stopping(self.history, InnerStatus[self.history.last.inner_status], "")
            if verdict is not None:
                return verdict
        elif self.best_residual <= self.tol:
            return Status.SOLVED
        self.inner.set_iteration(self.history.k)
        stage, inner = _untyped(self.stage), _untyped(self.inner)
        outcome = augmented_lagrangian(
            stage,
            self.x,
            self.y,
            self.history,
            penalty=self.settings.penalty,
            dual=self.settings.dual,
            tolerance=tolerance,
            inner=inner,
            stop=lambda history, found: stopping(history, found.status, found.limit),
            watch=self._watch,
            inner_limit=10**9,
        )
        return outcome.status

    def _begin(self, x: Tensor) -> None:
        """x_1 in the domain of g, and the first test."""
        x = self.team.from_first_(x.clone())
        if not self.prox.empty:
            x = _into_domain(self.prox, x)
        first = self.full.values(x)
        if not first.finite:
            what = "objective" if not math.isfinite(first.f) else "constraints"
            got = first.f if what == "objective" else dict(self.functions.layout.by_name(first.c))
            raise InputError(f"{what} must be finite at the start, over all rows, got {got}")
        self.set_limits()
        layout = self.functions.layout
        self.x, self.y, self.values = x, start_multipliers(layout, self.y0), first
        self.best_x, self.best_y = x, self.y
        outside = first.c - np.clip(first.c, layout.lower, layout.upper)
        violation = float(np.linalg.norm(outside))
        self.history = History(first.f, violation, self.settings.negligible * self.tol)
        beta = self.settings.penalty.next(self.history)
        test = self.stage.subproblem(self.y, beta).test(x)
        if not math.isfinite(test.dist):
            raise InputError("gradients of objective and constraints must be finite at the start, got NaN or inf")
        constant = [name for name in layout.constraints if name not in layout.differentiable]
        if constant and self.team.alone:  # of many processes, one may have no rows that a constraint looks at
            raise InputError(
                f"constraint {constant[0]!r} must depend on the parameters by operations with derivatives, got values "
                "without any: detached, made under no_grad, or a decision such as score > 0, which needs a smooth "
                "stand-in"
            )
        self.tested(test, p=0, steps=0, accepted=False, k=0)
        if isinstance(self.settings.method, LBFGS) and self.settings.method.warm_up and self.best_residual > self.tol:
            self._warm_up(test)

    def _warm_up(self, start: Test) -> None:
        """A better x_1: sampled Adam on the first subproblem for 1, 2, 4, ... passes, while every call helps much."""
        assert self.stage.current is not None
        method = Optimizer(adam, batch=WARM_UP_BATCH, label="adam")
        calls = SampledInner(
            method, self.settings.controller, self.source, self.ledger, self.seed, self.exhausted, self
        )
        steps, best, last = (self.full.rows or 1) // (2 * WARM_UP_BATCH), start, start
        for p in range(WARM_UP_CALLS):
            if self.exhausted():
                break
            test = calls.one(self.stage.current, last, steps, p)
            self.tested(test, p=p + 1, steps=steps, accepted=False, k=0)
            if test.value < best.value:
                best = test
            if not test.dist <= WARM_UP_GAIN * last.dist or test.dist <= WARM_UP_ENOUGH:
                break
            last, steps = test, 2 * steps
        self.x, self.values = best.v, best.values

    def set_limits(self) -> None:
        """Limits, once the number of rows is known."""
        rows = self.full.rows or 1
        caps = self.caps
        self.limits.rows = math.inf if caps.epochs is None else caps.epochs * rows
        self.limits.gradients = math.inf if caps.gradients is None else caps.gradients
        if caps.seconds is not None:
            self.limits.deadline = self.started + caps.seconds - self.seconds_before

    # ------------------------------------------------------------------------------------------- what the loops call

    def tested(self, test: Test, *, p: int, steps: int, accepted: bool, k: int | None = None) -> bool:
        """Keep the best point, record, save, show; True if R <= tol."""
        if test.residual < self.best_residual:
            self.best_residual, self.best_x, self.best_y = test.residual, test.v, test.y_hat
            self.best_buffers = [b.detach().clone() for b in self.functions.model.buffers()]
        subproblem = self.stage.current
        entry = {
            "k": self.history.k if k is None else k,
            "p": p,
            "steps": steps,
            "epochs": self.ledger.rows / (self.full.rows or 1),
            "gradients": self.ledger.gradients,
            "seconds": self.seconds,
            "residual": test.residual,
            "dist": test.dist,
            "violation": test.violation,
            "objective": test.objective,
            "accepted": bool(accepted),
            "beta": math.nan if subproblem is None else subproblem.beta,
            "multipliers": test.y_hat.tolist(),
        }
        self.trace.append(entry)
        done = bool(test.residual <= self.tol)
        self.inner_values = test.values
        if self.inner.saves and not accepted and not done and k is None:
            self._save()
        stop = False
        if self.team.rank == 0:
            if self.hooks.table is not None:
                self.hooks.table(entry)
            if self.hooks.log is not None:
                self._log().test(entry)
            if self.hooks.callback is not None:
                try:
                    stop = self.hooks.callback(dict(entry)) is True
                except StopIteration:
                    stop = True
        if self.hooks.callback is not None and self.team.agree([float(stop)])[0]:
            raise StoppedByCallback
        return done

    def _watch(self, history: History, x: Tensor, y: Vector, y_hat: Vector) -> None:
        last = self.stage.last
        assert last is not None
        self.y = y
        if x is last.v:
            self.values = last.values
        self.x = x
        if history.last.inner_iterations == 0 and history.last.usable:
            # Known values, new multipliers: no test was made, but R is another one.
            self.tested(last, p=0, steps=0, accepted=True, k=history.last.k)
        if self.hooks.log is not None and self.team.rank == 0:
            work = {"epochs": self.ledger.rows / (self.full.rows or 1), "gradients": self.ledger.gradients}
            self._log().outer(history.last, y_hat, self.seconds, work)
        self.inner.set_iteration(history.k)
        if history.last.inner_status not in ("BUDGET", "INTERRUPTED"):  # else it is gone on with after resuming
            self._save()

    def _log(self) -> JsonLog:
        """The log, with its first line: only now are the lengths of all constraints known."""
        assert self.hooks.log is not None
        if not self.logged:
            self.logged = True
            functions = self.functions
            header = headers.training(
                type(functions.model).__name__,
                functions.variables.n,
                functions.layout.sizes or {},
                self.settings,
                self.caps,
                tol=self.tol,
                seed=self.seed,
                data_rows=self.full.rows,
                resumed=self.hooks.resume is not None,
            )
            self.hooks.log.start(**header)
        return self.hooks.log

    # ------------------------------------------------------------------------------------------------- save and resume

    def _fingerprint(self) -> dict[str, Any]:
        layout = self.functions.layout
        return {
            "n": self.functions.variables.n,
            "dtype": str(self.functions.variables.dtype),
            "rows": self.full.rows,
            "tol": self.tol,
            "seed": self.seed,
            "settings": re.sub(r" at 0x[0-9a-f]+", "", repr(self.settings)),
            "constraints": [[name, repr((con.lower, con.upper))] for name, con in layout.constraints.items()],
        }

    def _save(self) -> None:
        if self.hooks.checkpoint is None or self.team.rank:
            return
        assert self.values is not None
        layout = self.functions.layout
        inner = self.inner.save()
        state = {
            "fingerprint": self._fingerprint(),
            "sizes": layout.sizes,
            "scalar": layout.scalar,
            "x": self.x,
            "y": self.y,
            "values": [self.values.f, self.values.c],
            "inner_values": None if self.inner_values is None else [self.inner_values.f, self.inner_values.c],
            "start": [self.history.objective, self.history.violation, self.history.negligible],
            "iterations": [asdict(it) for it in self.history.iterations],
            "trace": self.trace,
            "best_x": self.best_x,
            "best_y": self.best_y,
            "best_residual": self.best_residual,
            "ledger": self.ledger.as_dict(),
            "seconds": self.seconds,
            "inner": inner,
            "buffers": [b.detach() for b in self.functions.model.buffers()],
            "best_buffers": self.best_buffers,
        }
        storage.save(self.hooks.checkpoint, state)

    def _resume(self) -> None:
        assert self.hooks.resume is not None
        if not self.source.resumable:
            raise CheckpointError("a run on a stream of batches cannot be resumed: where it stood cannot be known")
        saved = storage.load(self.hooks.resume, self.functions.variables.device)
        self.full.rows = self.source.rows
        require_same(saved["fingerprint"], self._fingerprint(), self.hooks.resume)
        layout = self.functions.layout
        layout.scalar = saved["scalar"]
        if saved["sizes"] is not None:
            layout.settle(saved["sizes"])
        for buffer, old in zip(self.functions.model.buffers(), saved["buffers"], strict=True):
            buffer.copy_(old)
        self.x, self.y = saved["x"], saved["y"]
        self.values = Values(self.x, *saved["values"])
        self.full.remember(self.values)
        objective, violation, negligible = saved["start"]
        iterations = [Iteration(**it) for it in saved["iterations"]]
        self.history = History(objective, violation, negligible, iterations)
        self.trace = saved["trace"]
        self.best_x, self.best_y, self.best_residual = saved["best_x"], saved["best_y"], saved["best_residual"]
        self.best_buffers = saved.get("best_buffers", [])
        self.inner.load(saved["inner"])
        inside = saved["inner"].get("v")
        if inside is not None:  # the interrupted run had tested both points: not counted again
            self.inner_values = Values(inside, *saved["inner_values"])
            self.full.remember(self.inner_values)
            self.full.free |= {id(self.x), id(inside)}
        for name, value in saved["ledger"].items():
            setattr(self.ledger, name, value)
        self.seconds_before = saved["seconds"]
        self.set_limits()

    # --------------------------------------------------------------------------------------------------------- the end

    def _finish(self, status: Status) -> TrainingResult:
        if self.best_x is None:  # interrupted before the first test
            raise KeyboardInterrupt
        self.functions.variables.write(self.best_x)
        x = self.functions.variables.read()  # as parameters of half precision hold it
        for buffer, old in zip(self.functions.model.buffers(), self.best_buffers, strict=False):
            buffer.copy_(old)
        check = certify_point(self.full, self.prox, x, self.best_y)
        success = check.meets(self.tol)
        status = status.certified(success)
        relation = "<=" if check.residual <= self.tol else ">"
        text = f"{status.message} Residual {check.residual:.2e} {relation} tol {self.tol:.0e}; "
        text += f"violation {check.violation:.2e}."
        if check.residual <= self.tol < check.derivative_error:
            text += f" Rounding in {self.functions.variables.dtype} may hide {check.derivative_error:.0e}: use double."
        if self.hooks.say is not None and self.team.rank == 0:
            self.hooks.say(text)
        self.functions.variables.write(x)
        iterations, layout = self.history.iterations, self.functions.layout
        return TrainingResult(
            x=x,
            fun=check.objective,
            success=success,
            status=status,
            message=text,
            multipliers=layout.by_name(self.best_y),
            constraints=layout.by_name(self.full.values(x).c),
            certificate=check,
            epochs=self.ledger.rows / (self.full.rows or 1),
            gradients=self.ledger.gradients,
            tests=self.ledger.tests,
            nit=len(iterations),
            nit_inner=self.history.inner_iterations,
            penalty=iterations[-1].beta if iterations else math.nan,
            history=[row(it) for it in iterations],
            trace=self.trace,
            seconds=self.seconds,
            seed=self.seed,
            tol=self.tol,
            method=self.settings.method.name,
            variant=self.settings.describe(),
        )


def _into_domain(prox: ProxMap, x: Tensor) -> Tensor:
    """x, moved into boxes where it lies outside; norms leave it alone."""
    if math.isfinite(prox.value(x)):
        return x
    found = x.clone()
    for t, term in zip(prox.variables.split(found), prox.terms, strict=True):
        if term is not None and term.scale_free:
            t.copy_(term.prox(t, 1.0))
    if not math.isfinite(prox.value(found)):
        raise InputError("prox terms must be finite at the start, got inf")
    return found


def start_multipliers(layout: Any, y0: Any) -> Vector:
    """y_1 from a vector, a dictionary by name, or nothing (0)."""
    if y0 is None:
        return np.zeros(layout.m)
    if isinstance(y0, dict):
        if y0.keys() != layout.constraints.keys():
            raise InputError(f"y0 must name all constraints, {sorted(layout.constraints)}, got {sorted(y0)}")
        y0 = np.concatenate([np.atleast_1d(np.asarray(y0[name], dtype=np.float64)) for name in layout.constraints])
    y = np.atleast_1d(np.array(y0, dtype=np.float64))
    if y.shape != (layout.m,) or not np.isfinite(y).all():
        raise InputError(f"y0 must be {layout.m} finite numbers, one per constraint value, got shape {y.shape}")
    return y


def _untyped(thing: Any) -> Any:
    """The outer loop never looks inside x, which is a tensor here and a NumPy vector in its annotations."""
    return thing
