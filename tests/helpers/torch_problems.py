"""Small training problems with known answers, for the tests of `auglag.torch`."""

from __future__ import annotations

from typing import Any

import torch


def rows(n: int = 400, features: int = 5, *, seed: int = 0, dtype: Any = None) -> tuple[Any, Any]:
    """A classification problem (X, t), t in {0, 1}, with overlapping classes."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, features, generator=generator, dtype=torch.float64)
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    t = (X.sum(1) + 1.5 * noise > 0.3).to(torch.float64)
    return X.to(dtype or torch.float64), t.to(dtype or torch.float64)


class NeymanPearson:
    """min mean loss over positives subject to mean loss over negatives <= chat, as means over all rows."""

    def __init__(self, t: Any) -> None:
        self.share = float(t.mean())

    def objective(self, model: Any, batch: Any) -> Any:
        X, t = batch
        return (torch.nn.functional.softplus(-model(X).squeeze(-1)) * t).mean() / self.share

    def false_alarms(self, model: Any, batch: Any) -> Any:
        X, t = batch
        return (torch.nn.functional.softplus(model(X).squeeze(-1)) * (1 - t)).mean() / (1 - self.share)

    def both(self, model: Any, batch: Any) -> tuple[Any, dict[str, Any]]:
        return self.objective(model, batch), {"false alarms": self.false_alarms(model, batch)}


def linear(features: int = 5, *, seed: int = 0, dtype: Any = None) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Linear(features, 1).to(dtype or torch.float64)


def network(features: int = 5, *, seed: int = 0, dtype: Any = None) -> Any:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(features, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    return model.to(dtype or torch.float64)


class Vector(torch.nn.Module):
    """A model that is nothing but a vector."""

    def __init__(self, start: list[float]) -> None:
        super().__init__()
        self.x = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
