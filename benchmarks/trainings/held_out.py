"""Trainings that nothing was chosen on: four more tasks in the shape of `tasks.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.nn.functional import softplus

from trainings.tasks import TASKS, Maker, Task, digits_wrongly_labelled


def softmax(task: Task, rng: np.random.Generator) -> None:
    """Convex: a linear model for digits with wrong labels, more weight decay, looser bounds."""
    digits_wrongly_labelled(task, rng, torch.nn.Linear(64, 10), 0.9, 1e-2)


def tumours(task: Task, rng: np.random.Generator) -> None:
    """Breast cancer, a network of ReLUs: missed tumours, false alarms at most 0.1, norm of all weights at most 6."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    rows = rng.permutation(len(data.target))[:500]
    X, t = data.data[rows], (data.target[rows] == 0).astype(float)
    task.rows_of((X - X.mean(0)) / X.std(0), t)
    task.sides(-math.inf, [0.1, 6.0], 2)
    task.exact = np.array([False, True])
    task.known(torch.nn.Sequential(torch.nn.Linear(30, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)), t.mean())

    def both(model: Any, batch: Any) -> tuple[Any, Any]:
        X, t = batch
        z, share = model(X).squeeze(-1), model.share
        plus, minus = (softplus(-z) * t).mean() / share, (softplus(z) * (1 - t)).mean() / (1 - share)
        return plus, torch.stack([minus, sum((p * p).sum() for p in model.parameters()).sqrt()])

    task.both = both


def shared_layer(task: Task, rng: np.random.Generator) -> None:
    """Two labels through one hidden layer: the loss of the first, that of the second at most 0.4. Generated data."""
    X = rng.standard_normal((5000, 15))
    a = X[:, :5].sum(1) + X[:, 5] * X[:, 6] + rng.standard_normal(5000) > 0
    b = X[:, 3:8].sum(1) - X[:, 0] * X[:, 1] + rng.standard_normal(5000) > 0
    task.rows_of(X, a.astype(float), b.astype(float))
    task.sides(-math.inf, 0.4, 1)
    task.model = torch.nn.Sequential(torch.nn.Linear(15, 12), torch.nn.GELU(), torch.nn.Linear(12, 2))

    def both(model: Any, batch: Any) -> tuple[Any, Any]:
        X, a, b = batch
        z = model(X)
        decay = 1e-3 * sum((p * p).sum() for p in model.parameters())
        return bce(z[:, 0], a) + decay, bce(z[:, 1], b).reshape(1)

    task.both = both


def wide(task: Task, rng: np.random.Generator) -> None:
    """A larger model, 85,000 parameters on 20,000 rows: mean scores of 8 groups within 0.02 of that of all."""
    g = rng.integers(0, 8, 20_000)
    X = rng.standard_normal((20_000, 64)) + 0.25 * rng.standard_normal((8, 64))[g]
    t = X[:, :8].sum(1) + X[:, 8] * X[:, 9] + X[:, 10] * X[:, 11] + rng.standard_normal(20_000) > 0
    task.rows_of(X, t.astype(float), g)
    task.sides(-0.02, 0.02, 8)
    task.known(
        torch.nn.Sequential(
            torch.nn.Linear(64, 256),
            torch.nn.ReLU(),
            torch.nn.Linear(256, 256),
            torch.nn.ReLU(),
            torch.nn.Linear(256, 1),
        ),
        np.bincount(g, minlength=8) / len(g),
    )

    def both(model: Any, batch: Any) -> tuple[Any, Any]:
        X, t, g = batch
        z = model(X).squeeze(-1)
        score = torch.sigmoid(z)
        f = bce(z, t) + 1e-4 * sum((p * p).sum() for p in model.parameters())
        return f, z.new_zeros(8).index_add(0, g, score) / (len(X) * model.share) - score.mean()

    task.both = both


HELD_OUT: dict[str, Maker] = {
    "digits, softmax": softmax,
    "tumours, ReLU": tumours,
    "two labels": shared_layer,
    "a wide network": wide,
}
TASKS.update(HELD_OUT)
