"""Prox terms that stand in the groups of an optimiser (`{"params": ..., "prox": term}`), as one's own loop has them."""

from __future__ import annotations

from typing import Any

import torch

from auglag.errors import InputError
from auglag.torch.methods import along_gradient
from auglag.torch.prox import ProxMap
from auglag.torch.variables import Variables


def terms_of(optimizer: Any, variables: Variables) -> ProxMap:
    """The terms as the g of the problem; none where there is no optimiser."""
    return ProxMap(variables, [([p for p in g["params"] if p.requires_grad], g["prox"]) for g in _groups(optimizer)])


def apply_terms(optimizer: Any) -> bool:
    """Apply them after a step of the optimiser; whether there are any."""
    groups = _groups(optimizer)
    with torch.no_grad():
        for group in groups:
            term = group["prox"]
            if not term.scale_free and not along_gradient(optimizer):
                raise InputError(
                    "prox terms other than boxes need steps along the gradient: take torch.optim.SGD without "
                    f"momentum, got {type(optimizer).__name__}"
                )
            for p in group["params"]:
                if p.requires_grad:
                    p.copy_(term.prox(p, float(group["lr"])))
    return bool(groups)


def _groups(optimizer: Any) -> list[dict[str, Any]]:
    return [] if optimizer is None else [g for g in optimizer.param_groups if g.get("prox") is not None]
