"""Fine-tuning that does not forget.

A network has learnt the digits 0 to 7; then it is trained on the digits 8 and 9, of which it knew nothing. Plain
fine-tuning learns them and forgets the rest; a weight on the old digits would have to be tuned. Here the mean loss of
every old digit may be 0.05 at most, eight constraints in all, and the multipliers say what each of them costs. The data
are scikit-learn's, 1797 pictures of 8 x 8 pixels; every third one is held out.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from auglag.torch import TrainingResult, at_most, fit

OLD, BOUND, DECAY, STEPS = 8, 0.05, 2e-3, 150  #: old digits, bound on their losses, weight decay, steps of Adam


def data() -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """(training rows, held-out rows), each pictures and digits."""
    X, y = load_digits(return_X_y=True)
    pictures, digits = torch.tensor(X / 16.0), torch.tensor(y)
    held = torch.arange(len(y)) % 3 == 0
    return (pictures[~held], digits[~held]), (pictures[held], digits[held])


def train(model: torch.nn.Module, X: torch.Tensor, y: torch.Tensor) -> torch.nn.Module:
    """Plain training: Adam on all rows given."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=DECAY)
    for _ in range(STEPS):
        optimizer.zero_grad()
        cross_entropy(model(X), y).backward()
        optimizer.step()
    return model


def tuned(model: torch.nn.Module, X: torch.Tensor, y: torch.Tensor) -> TrainingResult:
    """The loss of the new digits and a weight decay, subject to bounds on those of the old ones."""
    share = torch.bincount(y, minlength=10) / len(y)

    def by_digit(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, dict]:
        losses = cross_entropy(model(batch[0]), batch[1], reduction="none")
        members = torch.nn.functional.one_hot(batch[1], 10).double()
        means = losses @ members / len(losses) / share
        size = sum((p * p).sum() for p in model.parameters())
        return means[OLD:].mean() + 0.5 * DECAY * size, {"old digits": means[:OLD]}

    sides = {"old digits": at_most([BOUND] * OLD)}
    return fit(model, by_digit, sides, (X, y), method="single-loop", tol=5e-3, max_epochs=1000, seed=0)


def recalls(model: torch.nn.Module, X: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        right = (model(X).argmax(1) == y).double()
    return np.array([float(right[y == digit].mean()) for digit in range(10)])


def draw(found: dict[str, np.ndarray], result: TrainingResult, path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained", width_ratios=[2, 1])
    for i, ((name, recall), colour) in enumerate(zip(found.items(), ("0.7", "#D55E00", "#0072B2"), strict=True)):
        axes[0].bar(np.arange(10) + 0.27 * (i - 1), 100 * recall, 0.25, color=colour, label=name)
    axes[0].set(xlabel="digit", ylabel="recognised, % (held out)", xticks=range(10), ylim=(0, 119))
    axes[0].legend(frameon=False, ncols=3, loc="upper center")
    axes[1].bar(range(OLD), np.atleast_1d(result.multipliers["old digits"]), color="#0072B2")
    axes[1].set(xlabel="old digit", ylabel="multiplier", title="what the bound of each old digit costs")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[TrainingResult]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    (X, y), held = data()
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10)).double()
    train(model, X[y < OLD], y[y < OLD])
    found = {"before": recalls(model, *held)}
    found["plain fine-tuning"] = recalls(train(copy.deepcopy(model), X[y >= OLD], y[y >= OLD]), *held)
    result = tuned(model, X, y)
    found["constrained"] = recalls(model, *held)
    for name, recall in found.items():
        print(f"{name}: {100 * recall[:OLD].mean():.1f} % of old digits, {100 * recall[OLD:].mean():.1f} % of new ones")
    print(f"objective {result.fun:.4f}, R = {result.certificate.residual:.0e}, {result.epochs:.0f} passes")
    draw(found, result, output / "fine_tuning.png")
    return [result]


if __name__ == "__main__":
    main()
