"""The user's objective and constraints on one batch, checked."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import torch

from auglag.errors import InputError, note_place
from auglag.torch.constraints import Constraint, Layout
from auglag.torch.data import move, rows_of, tensors_of
from auglag.torch.variables import Variables

Tensor = Any


@final
class Functions:
    """f(model, batch), a number, and c(model, batch), a vector; both means over the batch."""

    def __init__(
        self,
        model: Any,
        objective: Callable[[Any, Any], Any],
        constraints: Mapping[str, Constraint],
        variables: Variables,
        autocast: Any = None,
    ) -> None:
        if not callable(objective):
            raise InputError(f"objective must be a function of (model, batch), got {type(objective).__name__}")
        self.model, self.objective, self.variables, self.autocast = model, objective, variables, autocast
        self.in_steps = False  #: set while sampled steps are taken: only those run under autocast
        self.layout = Layout(constraints)
        given = [name for name, constraint in self.layout.constraints.items() if constraint.function is not None]
        if given and len(given) < len(self.layout.constraints):
            missing = sorted(self.layout.constraints.keys() - set(given))
            raise InputError(
                f"either all constraints must have a function or none (then objective returns (loss, values)), got "
                f"none for {missing}"
            )
        self.together = bool(self.layout.constraints) and not given

    def both(self, batch: Any) -> tuple[Tensor, Tensor | None]:
        """(f, c) on the batch, with their graph; c is None without constraints."""
        batch = move(batch, self.variables.device)
        with self._cast(), self._noted(batch):
            found = self.objective(self.model, batch)
            if self.together:
                found, values = self._pair(found)
            else:
                values = self._values(batch)
        return self.scalar(found), self.checked(self.layout.flatten(values))

    def constraints(self, batch: Any) -> Tensor:
        """c on the batch alone."""
        batch = move(batch, self.variables.device)
        with self._cast(), self._noted(batch):
            values = self._pair(self.objective(self.model, batch))[1] if self.together else self._values(batch)
        return self.checked(self.layout.flatten(values))

    def _values(self, batch: Any) -> dict[str, Any]:
        functions = {name: constraint.function for name, constraint in self.layout.constraints.items()}
        return {name: function(self.model, batch) for name, function in functions.items() if function is not None}

    def _cast(self) -> Any:
        if self.autocast is None or not self.in_steps:
            return contextlib.nullcontext()
        return torch.autocast(self.variables.device.type, dtype=self.autocast)

    @contextlib.contextmanager
    def _noted(self, batch: Any) -> Iterator[None]:
        """An exception of the user's functions gets a note that says on which rows, and in what."""
        try:
            yield
        except Exception as error:
            rows, part = rows_of(batch), "a sampled step" if self.in_steps else "a full-batch test"
            note_place(error, f"of the model on a batch of {rows} rows, in {part}")
            kinds = {t.dtype for t in tensors_of(batch) if t.is_floating_point()} - {self.variables.params[0].dtype}
            if isinstance(error, RuntimeError) and "dtype" in str(error) and kinds:
                own = self.variables.params[0].dtype
                error.add_note(f"the parameters are {own}, the rows {kinds.pop()}: give them .to({own})")
            raise

    def _pair(self, found: Any) -> tuple[Any, Any]:
        if not (isinstance(found, tuple) and len(found) == 2):
            raise InputError(
                "objective must return (loss, values of the constraints), because the constraints have no functions of "
                f"their own, got {type(found).__name__}"
            )
        return found

    def scalar(self, value: Any) -> Tensor:
        """The objective's value, if it is one number on the right device."""
        if not isinstance(value, torch.Tensor):
            raise InputError(f"objective must return a tensor, got {type(value).__name__}")
        if value.numel() != 1:
            raise InputError(f"objective must return a number, the mean over the batch, got shape {tuple(value.shape)}")
        if torch.is_grad_enabled() and not value.requires_grad and bool(value != 0.0):
            raise InputError(
                "objective must depend on the parameters by operations with derivatives, got a value without any: "
                "detached, made under no_grad, or a constant. To keep constraints alone, return torch.zeros(())"
            )
        return self.checked(value.reshape(()))

    def checked(self, value: Any) -> Any:
        """The value, if it is on the parameters' device."""
        if value is not None and value.device != self.variables.device:
            raise InputError(
                f"objective and constraints must return values on the parameters' device, {self.variables.device}, "
                f"got one on {value.device}"
            )
        return value

    def require_finite(self, objectives: Sequence[Tensor], c: Tensor, step: int) -> None:
        """Raise `InputError` if the batches of this step had NaN or inf, which now would reach the parameters.

        Only on a CPU: to look at a number on a GPU takes longer than the step.
        """
        if self.variables.device.type != "cpu" or math.isfinite(float(c.sum()) + sum(map(float, objectives))):
            return
        numbers = zip(self.layout.names(), c.tolist(), strict=True)
        broken = [f"constraint {name!r}" for name, v in numbers if not math.isfinite(v)]
        what = broken[0] if broken and all(math.isfinite(float(f)) for f in objectives) else "objective"
        raise InputError(
            f"{what} must be finite on every batch, got NaN or inf in step {step}; the model is as it was before that "
            "step. To leave such batches out, do not call optimizer.step() for them"
        )

    @contextlib.contextmanager
    def stepping(self) -> Iterator[None]:
        """Inside, functions are evaluated as a training step does: in the model's own mode, under autocast."""
        self.in_steps = True
        try:
            yield
        finally:
            self.in_steps = False

    @contextlib.contextmanager
    def testing(self) -> Iterator[None]:
        """Inside, the model is in eval mode: tests are functions of x, and change no running means."""
        modes = [(module, module.training) for module in self.model.modules()]
        self.model.eval()
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode
