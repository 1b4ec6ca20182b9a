"""The trainable parameters of a model as the variables of a problem."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import torch

from auglag.errors import InputError

Tensor = Any


@final
class Variables:
    """All parameters with `requires_grad`, in order: x is all of them, one after the other.

    Frozen parameters are no variables. Everything follows the parameters' device; x has their widest dtype, at least
    single precision.
    """

    def __init__(self, named: Iterable[tuple[str, Any]]) -> None:
        kept = [(name, p) for name, p in named if p.requires_grad]
        if not kept:
            raise InputError("the model must have at least one parameter with requires_grad, got none")
        self.names, self.params = [name for name, _ in kept], [p for _, p in kept]
        first = self.params[0]
        for name, p in kept:
            if p.device != first.device:
                raise InputError(
                    f"all trainable parameters must be on one device, got {self.names[0]!r} on {first.device} and "
                    f"{name!r} on {p.device}"
                )
            if not p.dtype.is_floating_point:
                raise InputError(f"trainable parameters must be real floating-point, got {name!r} of {p.dtype}")
        self.device = first.device
        dtype = torch.float32
        for p in self.params:
            dtype = torch.promote_types(dtype, p.dtype)
        self.dtype = dtype
        self.sizes = [p.numel() for p in self.params]
        self.n = sum(self.sizes)
        #: Sums over batches are kept in double precision where the device has it.
        self.wide = torch.float32 if self.device.type == "mps" else torch.float64

    @property
    def eps(self) -> float:
        """The rounding unit of the arithmetic that gradients are computed in."""
        return max(float(torch.finfo(p.dtype).eps) for p in self.params)

    def read(self) -> Tensor:
        """x, a copy."""
        return self.flatten([p.detach() for p in self.params])

    def flatten(self, tensors: Iterable[Tensor]) -> Tensor:
        """Tensors shaped like the parameters, as one vector; always a copy."""
        return torch.cat([t.reshape(-1).to(self.dtype) for t in tensors])

    def split(self, x: Tensor) -> list[Tensor]:
        """Views of a vector, shaped like the parameters."""
        return [part.view_as(p) for part, p in zip(torch.split(x, self.sizes), self.params, strict=True)]

    def write(self, x: Tensor) -> None:
        """Put the model at x."""
        with torch.no_grad():
            for p, part in zip(self.params, self.split(x), strict=True):
                p.copy_(part)

    def gradients(self, value: Tensor, *, keep: bool = False) -> list[Tensor]:
        """d value / d parameters, zeros where it does not depend on one. The graph is freed unless it is to be kept."""
        if not value.requires_grad:
            raise InputError(
                "objective and constraints must depend on the model's trainable parameters through differentiable "
                "operations, got values without a graph"
            )
        found = torch.autograd.grad(value, self.params, allow_unused=True, retain_graph=keep)
        return [torch.zeros_like(p) if g is None else g for g, p in zip(found, self.params, strict=True)]
