"""Two trainings that were added last, when everything about the single loop was fixed: nothing was chosen on them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy, max_pool2d, smooth_l1_loss

from trainings.tasks import Maker, Task


class Recurrent(torch.nn.Module):
    """A plain recurrent network over 10 values, its forecast of the next one, and the threshold of the shortfall."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.into, self.over = torch.nn.Linear(1, width), torch.nn.Linear(width, width)
        self.out, self.threshold = torch.nn.Linear(width, 1), torch.nn.Parameter(torch.zeros(()))

    def forward(self, series: Any) -> Any:
        h = torch.tanh(self.into(series[:, :1]))
        for k in range(1, series.shape[1]):
            h = torch.tanh(self.into(series[:, k : k + 1]) + self.over(h))
        return self.out(h).squeeze(-1)


def forecasts(task: Task, rng: np.random.Generator) -> None:
    """Forecasts of oscillations with shocks: the mean error; expected shortfall of the worst tenth at most 0.4.

    The shortfall is that of forecasts that are too low, by Rockafellar and Uryasev (2000), with their threshold among
    the parameters: threshold + mean of (error - threshold)_+ / 0.1.
    """
    n, length = 2000, 10
    phase, speed = rng.uniform(0, 2 * np.pi, n), rng.uniform(0.2, 0.9, n)
    clean = np.sin(phase[:, None] + speed[:, None] * np.arange(length + 1))
    noise = 0.15 * rng.standard_normal((n, length + 1)) * np.where(rng.random((n, length + 1)) < 0.05, 6.0, 1.0)
    series = clean + noise
    task.rows_of(series[:, :length], series[:, length])
    task.sides(-math.inf, 0.4, 1)
    task.model = Recurrent(12)

    def both(model: Any, batch: Any) -> tuple[Any, Any]:
        X, t = batch
        low = t - model(X)
        shortfall = model.threshold + (low - model.threshold).clamp_min(0.0).mean() / 0.1
        return smooth_l1_loss(low, torch.zeros_like(low)), shortfall.reshape(1)

    task.both = both


class Convolutional(torch.nn.Module):
    """Two convolutions and a linear layer on images of 8 x 8."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.Conv2d(8, 16, 3, padding=1)
        self.last = torch.nn.Linear(64, 10)

    def forward(self, X: Any) -> Any:
        h = max_pool2d(torch.relu(self.first(X.reshape(-1, 1, 8, 8))), 2)
        return self.last(max_pool2d(torch.relu(self.second(h)), 2).flatten(1))


def convolutions(task: Task, rng: np.random.Generator) -> None:
    """Digits with wrong labels, convolutions: the mean probability of every true class at least 0.8.

    And the norms of the three layers, whose product bounds the Lipschitz constant, are at most 3, 6 and 5 (exact).
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    rows = rng.permutation(len(data.target))[:1440]
    X, y = data.data[rows] / 16.0, data.target[rows]
    wrong = (rng.random(len(y)) < 0.5) & (y >= 6)
    task.rows_of(X, np.where(wrong, rng.integers(0, 10, len(y)), y), y)
    task.sides([0.8] * 10 + [-math.inf] * 3, [math.inf] * 10 + [3.0, 6.0, 5.0], 13)
    task.exact = np.array([False] * 10 + [True] * 3)
    task.known(Convolutional(), np.bincount(y, minlength=10) / len(y))

    def both(model: Any, batch: Any) -> tuple[Any, Any]:
        X, seen, true = batch
        h = model(X)
        right = torch.softmax(h, 1).gather(1, true[:, None]).squeeze(1)
        norms = [(layer.weight**2).sum().sqrt() for layer in (model.first, model.second, model.last)]
        means = h.new_zeros(10).index_add(0, true, right) / (len(X) * model.share)
        return cross_entropy(h, seen), torch.cat([means, torch.stack(norms)])

    task.both = both


LAST: dict[str, Maker] = {"forecasts, worst tenth": forecasts, "digits, convolutions": convolutions}
