"""Scalars for TensorBoard: R, violation, objective, beta, multipliers and T."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from auglag.errors import InputError


@final
class TensorBoard:
    """A callback for `fit` (rank 0 calls it), or called with the `scalars()` of a loop of one's own and a step.

    `writer` is a `torch.utils.tensorboard.SummaryWriter`, or anything with its `add_scalar(tag, value, step)`.
    """

    def __init__(self, writer: Any, prefix: str = "auglag") -> None:
        if not callable(getattr(writer, "add_scalar", None)):
            raise InputError(f"writer must have add_scalar(tag, value, step), got {type(writer).__name__}")
        self.writer, self.prefix, self.tests = writer, prefix, 0

    def __call__(self, row: Mapping[str, Any], step: int | None = None) -> None:
        """Write a row of `fit`'s trace, or the scalars of a loop of one's own."""
        self.tests += 1
        at = self.tests if step is None else step
        for name, value in row.items():
            if name == "multipliers":
                for i, y in enumerate(value):
                    self._add(f"multiplier/{i}", y, at)
            elif name.startswith(("multiplier/", "value/", "penalty/")):
                self._add(name, value, at)
            elif name in _TAGS:
                self._add(_TAGS[name], value, at)

    def _add(self, tag: str, value: float, step: int) -> None:
        self.writer.add_scalar(f"{self.prefix}/{tag}", float(value), step)


_TAGS = {"residual": "R", "steps": "T"} | {name: name for name in ("violation", "objective", "beta", "T", "epochs")}
