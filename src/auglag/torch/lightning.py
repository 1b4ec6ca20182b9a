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

from auglag.errors import InputError
from auglag.torch.constraints import Constraint
from auglag.torch.loop import AugmentedLagrangian

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
    training stops when R <= tol. The state goes into Lightning's checkpoints.
    """

    def __init__(
        self,
        constraints: Mapping[str, Constraint],
        evaluate: Callable[[Any, Any], Any],
        *,
        data: Any = None,
        tol: float = 1e-3,
        epochs: Any = None,
    ) -> None:
        super().__init__()
        if not callable(evaluate):
            raise InputError(f"evaluate must be a function of (module, batch), got {type(evaluate).__name__}")
        self.constraints, self.evaluate, self.data = dict(constraints), evaluate, data
        self.tol, self.epochs = tol, epochs
        self.al: AugmentedLagrangian | None = None
        self._saved: dict[str, Any] | None = None
        self._seen = 0  #: steps of the optimiser, as Lightning counts them

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """The module is on its device and has its optimiser now."""
        if len(trainer.optimizers) != 1:
            raise InputError(f"Constrained needs exactly one optimiser, got {len(trainer.optimizers)}")
        self.al = AugmentedLagrangian(
            pl_module, self.constraints, optimizer=trainer.optimizers[0], tol=self.tol, epochs=self.epochs
        )
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
        self.al.step()
        if self.al.due:
            self.al.test(self.evaluate, self.data if self.data is not None else trainer.train_dataloader)
            scalars = {f"auglag/{name}": value for name, value in self.al.scalars().items()}
            if trainer.logger is not None:
                trainer.logger.log_metrics(scalars, step=trainer.global_step)
            trainer.callback_metrics.update({k: _scalar(v) for k, v in scalars.items()})
        if self.al.done:
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        """For Lightning's checkpoints."""
        return {} if self.al is None else self.al.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From Lightning's checkpoints; taken up when the fit starts."""
        self._saved = state_dict or None


def _scalar(value: float) -> Any:
    import torch

    return torch.tensor(value)
