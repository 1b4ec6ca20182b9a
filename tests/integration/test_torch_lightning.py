# ruff: noqa: E402 (without PyTorch the imports below fail: the line above them skips)
"""The Lightning callback and TensorBoard's scalars."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what Lightning's own imports have to say
    lightning = pytest.importorskip("lightning", reason="needs Lightning: pip install lightning")
    from auglag.torch.lightning import Constrained

from auglag import InputError
from auglag.torch import AdaptiveEpochs, TensorBoard, at_most, fit
from helpers.torch_problems import NeymanPearson, linear, rows

pytestmark = pytest.mark.filterwarnings("ignore")
X, T = rows(200)
NP = NeymanPearson(T)


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = linear()

    def forward(self, X: Any) -> Any:
        return self.model(X)

    def training_step(self, batch: Any, index: int) -> Any:
        loss, values = NP.both(self, batch)
        return self.al.loss(loss, values)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.2)

    def train_dataloader(self) -> Any:
        dataset = torch.utils.data.TensorDataset(X, T)
        generator = torch.Generator().manual_seed(0)
        return torch.utils.data.DataLoader(dataset, batch_size=50, shuffle=True, generator=generator)


def train(folder: Path, epochs: int, **options: Any) -> tuple[Any, Constrained, Any]:
    callback = Constrained({"false alarms": at_most(0.6)}, NP.both, tol=0.1, epochs=AdaptiveEpochs(16, restart=False))
    module = Module()
    resume = options.pop("resume", None)
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[callback], enable_progress_bar=False, logger=False,
        enable_model_summary=False, default_root_dir=folder, enable_checkpointing=False, **options,
    )  # fmt: skip
    trainer.fit(module, ckpt_path=resume)
    return module, callback, trainer


def test_it_trains_until_r_is_small_and_resumes(tmp_path: Path) -> None:
    _, callback, trainer = train(tmp_path, 400)
    assert callback.al is not None
    assert callback.al.done
    assert trainer.current_epoch < 400
    assert callback.al.certificate(NP.both, (X, T)).residual <= 0.11
    assert {"auglag/residual", "auglag/beta", "auglag/multiplier/false alarms"} <= trainer.callback_metrics.keys()
    # Saved, loaded into new objects, and gone on with from there.
    _, first, trainer = train(tmp_path, 6)
    trainer.save_checkpoint(tmp_path / "six.ckpt")
    _, second, _ = train(tmp_path, 7, resume=tmp_path / "six.ckpt")
    assert first.al is not None
    assert second.al is not None
    assert second.al.trace[: len(first.al.trace)] == first.al.trace
    assert second.al.steps == first.al.steps + 4


def test_the_single_loop_moves_with_every_step_and_resumes(tmp_path: Path) -> None:
    def single(epochs: int, **options: Any) -> tuple[Constrained, Any]:
        callback = Constrained({"false alarms": at_most(0.6)}, NP.both, method="single-loop")
        trainer = lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", callbacks=[callback], enable_progress_bar=False, logger=False,
            enable_model_summary=False, default_root_dir=tmp_path, enable_checkpointing=False,
        )  # fmt: skip
        trainer.fit(Module(), ckpt_path=options.get("resume"))
        return callback, trainer

    callback, trainer = single(40)
    assert callback.al is not None
    assert callback.al.steps == 160
    assert callback.al.per_pass == 4  # known only when Lightning has set up its loader
    assert callback.al.certificate(NP.both, (X, T)).violation < 0.05
    assert {"auglag/violation", "auglag/beta", "auglag/multiplier/false alarms"} <= trainer.callback_metrics.keys()
    trainer.save_checkpoint(tmp_path / "forty.ckpt")
    more, _ = single(41, resume=tmp_path / "forty.ckpt")
    assert more.al is not None
    assert more.al.steps == 164
    with pytest.raises(InputError, match="method must be 'double-loop' or 'single-loop'"):
        Constrained({"false alarms": at_most(0.6)}, NP.both, method="triple-loop")


def test_a_module_that_forgets_the_constraints_is_warned_once(tmp_path: Path) -> None:
    class Plain(Module):
        def training_step(self, batch: Any, index: int) -> Any:
            return NP.both(self, batch)[0]

    callback = Constrained({"false alarms": at_most(0.6)}, NP.both)
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", callbacks=[callback], enable_progress_bar=False, logger=False,
        enable_model_summary=False, default_root_dir=tmp_path, enable_checkpointing=False,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="the constraints had no effect: return it from training_step") as seen:
        trainer.fit(Plain())
    assert sum("had no effect" in str(warning.message) for warning in seen) == 1
    assert callback.al is not None
    assert callback.al.steps == 0


def test_accumulated_batches_are_one_step(tmp_path: Path) -> None:
    _, callback, trainer = train(tmp_path, 3, accumulate_grad_batches=2)
    assert callback.al is not None
    assert callback.al.steps == trainer.global_step == 6


def test_tensorboard_gets_every_scalar() -> None:
    class Writer:
        def __init__(self) -> None:
            self.seen: dict[str, list[tuple[int, float]]] = {}

        def add_scalar(self, tag: str, value: float, step: int) -> None:
            self.seen.setdefault(tag, []).append((step, value))

    writer = Writer()
    result = fit(
        linear(), NP.objective, {"false alarms": at_most(0.6, NP.false_alarms)}, (X, T), tol=1e-4,
        callback=TensorBoard(writer),
    )  # fmt: skip
    tags = {f"auglag/{name}" for name in ("R", "violation", "objective", "beta", "T", "epochs", "multiplier/0")}
    assert writer.seen.keys() == tags
    assert [value for _, value in writer.seen["auglag/R"]] == [row["residual"] for row in result.trace]
    assert [step for step, _ in writer.seen["auglag/R"]] == list(range(1, len(result.trace) + 1))
    with pytest.raises(InputError, match="writer must have add_scalar"):
        TensorBoard(print)


def test_a_real_event_file_is_written(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard", reason="needs tensorboard: pip install tensorboard")
    with tensorboard.SummaryWriter(tmp_path) as writer:
        fit(linear(), NP.objective, {}, (X, T), tol=1e-3, callback=TensorBoard(writer))
    assert any(path.stat().st_size > 100 for path in tmp_path.glob("events.out.tfevents*"))
