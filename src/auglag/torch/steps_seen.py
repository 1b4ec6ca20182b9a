"""Steps of the optimiser in a user's own loop: what is looked at before one, and whether a line was forgotten."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, final

import torch

from auglag.errors import InputError


@final
class StepsSeen:
    """Counts the optimiser's steps since `al.step()`. Batches without a step between them are accumulation."""

    def __init__(self, optimizer: Any, before: Callable[[], None]) -> None:
        self._versions: list[int] = []  #: of the parameters, at the last `al.step()`
        self.again()
        look = weakref.WeakMethod(before)
        register = getattr(optimizer, "register_step_post_hook", None)
        self.known = register is not None
        if register is not None:  # else it is no optimiser of PyTorch, and nothing is known of its steps
            this = weakref.ref(self)  # an optimiser may live longer

            def stepped(*_: Any) -> None:
                if (seen := this()) is not None:
                    seen.count += 1

            def steps(*_: Any) -> None:
                if (found := look()) is not None:
                    found()

            register(stepped)
            optimizer.register_step_pre_hook(steps)

    def again(self) -> None:
        """From here on."""
        self.count = 0
        self._given, self._used = 0, False  #: losses with a graph since the last step; whether any was differentiated

    def watched(self, loss: Any) -> Any:
        """The loss that `al.loss` returns; whether a gradient of it, or of what is made of it, is taken is noted."""
        if loss.requires_grad:
            self._given += 1
            loss.register_hook(self._differentiated)
        return loss

    def _differentiated(self, _: Any) -> None:
        self._used = True

    def forgotten(self, waiting: int) -> bool:
        """Whether a step was made since the `waiting` batches that `al.step()` has not seen; then counts anew."""
        found = waiting > 0 and self.count > 0
        if found or not waiting:  # steps on losses of another kind are none of its business
            self.count = 0
        return found

    def check_made(self, params: Sequence[Any]) -> None:
        """Raise if no step was made since the last `al.step()`, by the optimiser or by hand.

        Gradients that are not finite are no mistake: a GradScaler leaves such a step out.
        """
        versions = [p._version for p in params]
        still, self._versions = versions == self._versions, versions
        unused, self._given, self._used = bool(self._given) and not self._used, 0, False
        if unused and self.count:
            raise InputError(
                "al.loss(...) must be what is differentiated, got a step of the optimiser without any gradient of it, "
                "which knows nothing of the constraints: write al.loss(loss, values).backward(), not loss.backward()"
            )
        if not (self.known and still and not self.count):
            return
        gradients = [p.grad for p in params if p.grad is not None]
        if any(bool(g.any()) for g in gradients) and all(bool(torch.isfinite(g).all()) for g in gradients):
            raise InputError(
                "optimizer.step() must come before every al.step(), got none since the last one: the parameters stand "
                "still. Write it on the line before al.step() (where gradients accumulate, both after the last batch)"
            )

    @staticmethod
    def error() -> InputError:
        """What to say."""
        return InputError(
            "al.step() must follow every optimizer.step(), got al.loss(...) after one without it: multipliers and "
            "penalties would stand still. Write al.step() on the line after optimizer.step()"
        )

    @staticmethod
    def no_loss() -> InputError:
        """What to say where a step was made on another loss."""
        return InputError(
            "al.step() must follow a step on al.loss(...), got one without al.loss(...) before it, which knows nothing "
            "of the constraints: write al.loss(loss, values).backward(), and no al.step() after steps on other losses"
        )
