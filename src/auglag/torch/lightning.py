"""A callback for Lightning: steps, tests, outer updates, scalars, checkpoints.

    class Model(lightning.LightningModule):
        def training_step(self, batch, index):
            loss, values = self.evaluate(batch)
            return self.al.loss(loss, values)      # self.al is set by the callback

    trainer = lightning.Trainer(callbacks=[Constrained({"false alarms": at_most(0.1)}, evaluate)])

`evaluate(module, batch)` returns (loss, values of the constraints), as in `AugmentedLagrangian.test`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import torch

from auglag.errors import InputError
from auglag.report import logger
from auglag.torch.constraints import Constraint, Layout
from auglag.torch.loop import AugmentedLagrangian
from auglag.torch.single_loop_own import SingleLoop

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError as error:
        raise ImportError("auglag.torch.lightning needs Lightning: pip install lightning") from error


@final
class Constrained(Callback):
    """Runs `AugmentedLagrangian` inside a Lightning training: the module uses `self.al.loss(loss, values)`.

    Tests stream through `data`, by default the trainer's training dataloader. Scalars are logged under "auglag/", and
    training stops when R <= tol. The state goes into Lightning's checkpoints. With method="single-loop", `SingleLoop`
    takes its place: multipliers move with every step, there are no tests, and training ends as the trainer says, at the
    average of the last iterates.
    """

    def __init__(
        self,
        constraints: Mapping[str, Constraint],
        evaluate: Callable[[Any, Any], Any],
        *,
        data: Any = None,
        tol: float = 1e-3,
        epochs: Any = None,
        method: str = "double-loop",
    ) -> None:
        super().__init__()
        if method not in ("double-loop", "single-loop"):
            raise InputError(f"method must be 'double-loop' or 'single-loop', got {method!r}")
        if not callable(evaluate):
            raise InputError(f"evaluate must be a function of (module, batch), got {type(evaluate).__name__}")
        self.constraints, self.evaluate, self.data = Layout(constraints).constraints, evaluate, data
        self.tol, self.epochs, self.method = tol, epochs, method
        self.al: AugmentedLagrangian | SingleLoop | None = None
        self._saved: dict[str, Any] | None = None
        self._seen = 0  #: steps of the optimiser, as Lightning counts them

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """The module is on its device and has its optimiser now."""
        if len(trainer.optimizers) != 1:
            raise InputError(f"Constrained needs exactly one optimiser, got {len(trainer.optimizers)}")
        if self.method == "double-loop":
            optimizer = trainer.optimizers[0]
            al = AugmentedLagrangian(pl_module, self.constraints, optimizer=optimizer, tol=self.tol, epochs=self.epochs)
            self._hand_over(trainer, pl_module, al)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Only now is it known how many steps make a pass."""
        if self.method == "single-loop":
            al = SingleLoop(
                pl_module,
                self.constraints,
                optimizer=trainer.optimizers[0],
                data=trainer.train_dataloader,
                per_pass=_steps_per_pass(trainer),
            )
            self._hand_over(trainer, pl_module, al)

    def _hand_over(self, trainer: Any, pl_module: Any, al: AugmentedLagrangian | SingleLoop) -> None:
        self.al = al
        # Kept out of the module's own attributes, which would make a cycle of modules of it.
        object.__setattr__(pl_module, "al", self.al)
        self._seen = trainer.global_step
        if self._saved is not None:
            self.al.load_state_dict(self._saved)
            self._saved = None

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After a step of the optimiser (not after every batch, where gradients accumulate)."""
        if self.al is None or trainer.global_step == self._seen:
            return
        self._seen = trainer.global_step
        if self.constraints and not self.al.waiting:
            return  # a step on another loss, as in a warm-up
        self.al.step()
        if isinstance(self.al, SingleLoop):
            if self.al.steps and self.al.steps % (self.al.per_pass or trainer.log_every_n_steps) == 0:
                self._log(trainer, self.al)
            return
        if self.al.due:
            self.al.test(self.evaluate, self.data if self.data is not None else trainer.train_dataloader)
            self._log(trainer, self.al)
        if self.al.done:
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """An epoch without any constrained step is probably a mistake."""
        if self.al is not None and not self.al.steps and trainer.current_epoch == 0:
            logger.warn(
                "no step of the first epoch was made on self.al.loss(loss, values), so the constraints had no effect: "
                "return it from training_step"
            )

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """A single loop ends at the average of its last iterates."""
        if isinstance(self.al, SingleLoop):
            self.al.settle()

    @staticmethod
    def _log(trainer: Any, al: AugmentedLagrangian | SingleLoop) -> None:
        scalars = {f"auglag/{name}": value for name, value in al.scalars().items()}
        if trainer.logger is not None:
            trainer.logger.log_metrics(scalars, step=trainer.global_step)
        trainer.callback_metrics.update({name: torch.tensor(value) for name, value in scalars.items()})

    def state_dict(self) -> dict[str, Any]:
        return {} if self.al is None else self.al.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From Lightning's checkpoints; taken up when the fit starts."""
        self._saved = state_dict or None


def _steps_per_pass(trainer: Any) -> int | None:
    """Steps of the optimiser in which every row is seen once; None if not known."""
    batches = trainer.num_training_batches
    if not (isinstance(batches, int) and batches >= 1):
        return None
    return max(1, batches // int(trainer.accumulate_grad_batches))
