"""The sampled part of `fit(method="single-loop")`: rounds of steps on batches, without a full-batch test inside."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import torch

from auglag._names import suggesting
from auglag._typing import Vector
from auglag.algorithm.history import Iteration
from auglag.algorithm.rules import PenaltyRule
from auglag.errors import InputError, integer_or_none, require_positive
from auglag.single_loop.schedule import Round, batch_rows, round_of
from auglag.single_loop.steps import RATE, ScaledState
from auglag.stochastic.limits import Ledger
from auglag.torch.data import Source, rows_of
from auglag.torch.full_batch import FullBatch
from auglag.torch.metric import ScaledMetric, prox_, scaled_steps
from auglag.torch.prox import ProxMap
from auglag.torch.sampled import seed_for, seeded
from auglag.torch.single_loop import Core, CoreState
from auglag.torch.single_loop_safe import Safe
from auglag.torch.tuning import TUNING

Tensor = Any


@suggesting
@final
@dataclass(frozen=True, slots=True)
class SingleLoopMethod:
    """method="single-loop" of `fit`: multipliers and penalties move with every step, then full batches to `tol`.

    `rate` is that of the scaled steps at the start, in units of the parameters. With `adapt` it grows while gradients
    point where the last steps went and shrinks where they point back, by a factor of 3 at most; and it falls linearly
    to zero over a round.
    `batch` None: chosen so that a round of one pass has about 250 steps. `full` says whether full-batch L-BFGS follows
    (None: where a pass is affordable, the model has no dropout or batch norm in training mode, and at least 15 passes
    are allowed); without it, rounds of sampled steps follow each other, each twice as long. `rule` moves the common
    factor of the penalties once per pass (None: the paper's, gamma = 1.5, tau = 0.8). `average`: a round ends at a
    mean of its last iterates (not where there are prox terms).
    """

    name: ClassVar[str] = "single-loop"
    rate: float = RATE
    adapt: bool = True
    batch: int | None = None
    full: bool | None = None
    rule: PenaltyRule | None = None
    average: bool = True

    def __post_init__(self) -> None:
        require_positive(self.rate, "SingleLoopMethod.rate")
        integer_or_none(self.batch, "SingleLoopMethod.batch")


@final
@dataclass(slots=True)
class SampledState:
    """Where the sampled part stands, between two passes."""

    round: Round
    x: Tensor  #: the parameters after the last step, None once it is over
    core: CoreState | None
    moments: ScaledState | None
    done: int = 0  #: steps of this round
    passes: int = 0  #: orders drawn so far: part of the seed
    rounds: int = 0  #: that are over
    rows: int = 0  #: that steps have evaluated
    safe: Safe | None = None  #: where the loop goes back to
    finished: bool = False
    residual: float = math.inf  #: R before the full batches that follow
    virtual: list[Iteration] = field(default_factory=list)  #: outer iterations, one per pass


@final
class Sampled:
    """Takes the steps. The model stands where the last step left it; `end` puts it at the point of the round."""

    def __init__(
        self,
        method: SingleLoopMethod,
        full: FullBatch,
        source: Source,
        prox: ProxMap,
        ledger: Ledger,
        seed: int,
        exhausted: Callable[[], str],
        save: Callable[[], None],
    ) -> None:
        self.method, self.full, self.source, self.prox = method, full, source, prox
        self.ledger, self.seed, self.exhausted, self.save = ledger, seed, exhausted, save
        self.functions, self.variables, self.team = full.functions, full.variables, full.team
        self.steps = scaled_steps(self.variables, prox, method.rate, method.adapt)
        self.metric = ScaledMetric(self.steps)

    def begin(self, passes: float, y: Vector) -> SampledState:
        """The state before the first step."""
        this = self.round(passes)
        self.core = Core(
            self.variables, self.functions.layout, self.team, pass_steps=this.pass_steps, y=y, penalty=self.method.rule
        )
        x = self.variables.read()
        self.state = SampledState(this, x, self.core.state, self.steps.state, safe=Safe(x, y))
        return self.state

    def restore(self, state: SampledState) -> None:
        """Go on from a saved state."""
        self.begin(state.round.passes, self.functions.layout.multipliers(None))
        assert state.core is not None
        assert state.moments is not None
        self.state, self.steps.state = state, state.moments
        assert state.safe is not None
        self.steps.first = self.method.rate * state.safe.rate
        self.core.restore(state.core)
        self.variables.write(state.x)

    def round(self, passes: float) -> Round:
        """A round of so many passes."""
        rows = self.full.rows or 1
        if not self.source.sized:  # batches have the size they like
            size = rows_of(next(iter(self.source.chunks()))) * self.team.size
            return round_of(passes, rows, min(size, rows))
        batch = self.method.batch or batch_rows(rows, passes, self.team.size)
        return round_of(passes, rows, min(batch, rows))

    def again(self, passes: float) -> None:
        """Another round from where the last one ended."""
        state, this = self.state, self.round(passes)
        state.round, state.done, state.rounds = this, 0, state.rounds + 1
        state.x = self.variables.read()
        self.core.again()

    def run(self) -> str:
        """Steps until the round is over or a limit is reached, which is named."""
        state, why = self.state, ""
        while state.done < state.round.steps and not why:
            seed = seed_for(self.seed, 0, state.passes)
            with seeded(seed, self.variables.device), self.functions.stepping():
                why = self._pass(seed)
            if state.passes == 0 and state.done >= state.round.pass_steps:  # a part of a pass lacks rows
                self.core.check()
            state.passes += 1
            if not why:
                self._look_back()
            if not why and state.done < state.round.steps:
                self.save()
        return why

    def _pass(self, seed: int) -> str:
        state, bad = self.state, torch.zeros((), dtype=torch.bool, device=self.variables.device)
        every = 1 if self.variables.device.type == "cpu" else TUNING.look_every
        began = state.done
        for batch in self.source.shuffled(seed, state.round.batch):
            if (state.done - began) % every == 0:
                why = self.exhausted()
                if why:
                    return why
            bad = bad | self._step(batch)
            state.done += 1
            last = state.done >= state.round.steps
            if ((state.done - began) % every == 0 or last) and bool(bad):
                if not self._finite_again(batch):
                    self._name(batch, every)
                self._go_back()
                bad = torch.zeros_like(bad)
            if last:
                break
        if bool(bad):
            self._go_back()
        if state.done == began:
            raise InputError("data must yield at least one batch, got none")
        return ""

    def _step(self, batch: Any) -> Tensor:
        """One step of the optimiser, with what belongs to it; whether a value was not finite."""
        core, alone = self.core, self.team.alone
        self.before = self.state.x
        self.steps.factor = self.state.round.fall(self.state.done)
        share = 1.0 if alone else self._share(batch)
        f, c = self.functions.both(batch)
        value, found, own = f.detach(), None, None
        rows = core.rows_wanted()
        if c is not None:
            w = core.weights()
            if rows:
                found = self.team.sum_(share * core.jacobian(c, rows))
            f = f + torch.dot(w, c.to(w.dtype))
        gradient = self.variables.flatten(self.variables.gradients(f * share))
        self.team.sum_(gradient)
        if found is not None and len(rows) == len(core.state.visits):
            own = core.entries.take(self.variables.split(gradient)) - w.to(found.dtype) @ found
        values = None if c is None else self.team.sum_(share * c.detach().to(self.variables.wide))
        self._count(batch)
        assert self.state.safe is not None
        self.state.safe.add(value)
        x = self.steps.take(self.before, gradient)
        if not self.prox.empty:
            prox_(self.steps, self.prox, x)
        self.state.x = x
        self.variables.write(x)
        core.stepped(self.metric, values, found, rows, own=own)
        bad = ~torch.isfinite(gradient).all()
        return bad if values is None else bad | ~torch.isfinite(values).all()

    def _look_back(self) -> None:
        """After a pass: whether it only did harm, and where to go back to if a later one does."""
        safe, engine = self.state.safe, self.core.engine
        if safe is None or engine is None or engine.state.beta is None:
            return
        mean, spread, violation = self.team.agree([*safe.values(), float(engine.violation())])
        if safe.harmed(mean, violation):
            self._go_back()
        else:
            safe.reach(
                self.state.x, self.functions.layout.multipliers(engine.state.y.tolist()), mean, spread, violation
            )

    def _finite_again(self, batch: Any) -> bool:
        """Whether this batch has values where the loop would go back to: if not, the data are to blame."""
        safe = self.state.safe
        if safe is None or safe.rate <= TUNING.least_retreat:
            return False
        self.variables.write(safe.x)
        with torch.no_grad():
            f, c = self.functions.both(batch)
        total = f.sum() if c is None else f.sum() + c.sum()
        return bool(torch.isfinite(self.team.sum_(total.to(self.variables.wide))))

    def _go_back(self) -> None:
        """To the last point that was no harm, with its multipliers and a smaller rate; the rest is learnt again."""
        state, safe = self.state, self.state.safe
        assert safe is not None
        if safe.rate <= TUNING.least_retreat:
            self._name(None, TUNING.look_every)
        safe.retreat()
        history = None if self.core.engine is None else self.core.engine.state.history
        self.variables.write(safe.x)
        self.core = Core(
            self.variables, self.functions.layout, self.team, pass_steps=state.round.pass_steps, y=safe.y,
            penalty=self.method.rule,
        )  # fmt: skip
        if self.core.engine is not None and history is not None:
            self.core.engine.state.history = history
        self.steps.first = self.method.rate * safe.rate
        self.steps.forget()
        state.x, state.core, state.moments = safe.x, self.core.state, self.steps.state

    def _share(self, batch: Any) -> float:
        """This process's part of the mean over the batch."""
        own = rows_of(batch)
        if self.source.sized:
            return own / self.state.round.batch
        return own / float(self.team.sum_(torch.tensor([float(own)], device=self.variables.device)))

    def _count(self, batch: Any) -> None:
        rows = self.state.round.batch if self.source.sized or not self.team.alone else rows_of(batch)
        self.ledger.rows += rows
        self.state.rows += rows
        self.ledger.gradients += 1

    def _name(self, batch: Any, every: int) -> None:
        """What was not finite, and where."""
        at = f"step {self.state.done}" if every == 1 else f"one of the {every} steps before step {self.state.done}"
        what = "objective and constraints"
        if batch is not None:
            self.variables.write(self.before)
            with torch.no_grad():
                f, c = self.functions.both(batch)
            names = [] if c is None else self.functions.layout.names()
            broken = [] if c is None else [n for n, ok in zip(names, torch.isfinite(c).tolist(), strict=True) if not ok]
            what = f"constraint {broken[0]!r}" if broken else "objective" if not bool(torch.isfinite(f)) else what
        raise InputError(
            f"{what} and gradients must be finite on every batch, got NaN or inf at {at} of the single loop "
            f"(pass {self.state.passes + 1}, rate {self.method.rate:g}); the model is left as it was"
        )

    def end(self) -> Tensor:
        """The point of the round: the average of its last iterates, where means make sense."""
        average = self.method.average and self.prox.empty
        x = self.core.state.average if average else self.state.x
        self.variables.write(x)
        return self.variables.read()

    def penalties(self) -> tuple[Vector, Vector]:
        """(weights, beta), one per constraint, on the host."""
        engine = self.core.engine
        if engine is None or engine.state.beta is None:
            nothing = self.functions.layout.multipliers(None)
            return nothing, nothing + 1.0
        numbers = torch.stack([engine.weights(), engine.state.beta]).tolist()
        first, second = self.team.agree(numbers[0]), self.team.agree(numbers[1])
        return self.functions.layout.multipliers(first), self.functions.layout.multipliers(second)

    def scales(self) -> Tensor:
        """The step matrix at its full rate: the first metric of full batches."""
        return self.steps.scales() * self.steps.state.rate

    def finish(self) -> None:
        """No step follows: what only steps need is dropped."""
        if self.core.engine is not None:
            self.state.virtual = self.core.engine.state.history.iterations
        self.state.x, self.state.core, self.state.moments, self.state.safe = None, None, None, None
        self.state.finished = True
