"""Every class has its recall.

A network learns the ten digits from pictures of which half the digits are rare: one in twelve of theirs is kept. Plain
training does well on the mean and badly on the rare digits. The usual remedy is a weight for every class, by its number
of rows, whether or not the class is hard. Here ten constraints ask that the mean probability of the right answer be at
least 0.85 in every class; nothing is said of how to get there, and the multipliers show which classes cost something.
Held out, the constraints do as well as the weights. The data are scikit-learn's, 1797 pictures of 8 x 8 pixels; every
third one is held out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy, one_hot

from auglag.torch import TrainingResult, at_least, fit

RARE, KEPT, RECALL, DECAY = (1, 3, 5, 8, 9), 12, 0.85, 1e-2  #: rare digits, one in so many, the bound, weight decay
Rows = tuple[torch.Tensor, torch.Tensor]


def data() -> tuple[Rows, Rows]:
    """Rows for training, and rows held out."""
    X, y = load_digits(return_X_y=True)
    held = np.arange(len(y)) % 3 == 0
    kept = ~held
    for digit in RARE:
        own = np.flatnonzero(kept & (y == digit))
        kept[np.setdiff1d(own, own[::KEPT])] = False
    pictures, digits = torch.tensor(X / 16.0), torch.tensor(y)
    return (pictures[kept], digits[kept]), (pictures[held], digits[held])


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 24), torch.nn.Tanh(), torch.nn.Linear(24, 10)).double()


def trained(rows: Rows, *, by_class: bool, recall: float | None = None) -> tuple[torch.nn.Module, TrainingResult]:
    """The mean loss, of all rows or of all classes, and a weight decay; subject to a recall of every class."""
    share, model = torch.bincount(rows[1], minlength=10) / len(rows[1]), network()

    def objective(model: torch.nn.Module, batch: Rows) -> torch.Tensor:
        losses = cross_entropy(model(batch[0]), batch[1], reduction="none")
        weights = 0.1 / share[batch[1]] if by_class else torch.ones(())
        return (weights * losses).mean() + 0.5 * DECAY * sum((p * p).sum() for p in model.parameters())

    def recalls(model: torch.nn.Module, batch: Rows) -> torch.Tensor:
        """The mean probability of the right answer in every class: means over all rows, divided by its share."""
        right = torch.softmax(model(batch[0]), 1) * one_hot(batch[1], 10)
        return right.mean(0) / share

    sides = {} if recall is None else {"recall": at_least([recall] * 10, recalls)}
    result = fit(model, objective, sides, rows, tol=5e-3, max_epochs=1000, seed=0)
    return model, result


def recognised(model: torch.nn.Module, rows: Rows) -> np.ndarray:
    """The share of right answers in every class."""
    with torch.no_grad():
        right = (model(rows[0]).argmax(1) == rows[1]).double()
    return np.array([float(right[rows[1] == digit].mean()) for digit in range(10)])


def draw(found: dict[str, np.ndarray], multipliers: np.ndarray, path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained", width_ratios=[2, 1])
    for i, ((name, share), colour) in enumerate(zip(found.items(), ("0.7", "#D55E00", "#0072B2"), strict=True)):
        axes[0].bar(np.arange(10) + 0.27 * (i - 1), 100 * share, 0.25, color=colour, label=name)
    names = [f"{digit}\nrare" if digit in RARE else str(digit) for digit in range(10)]
    axes[0].set(xlabel="digit", ylabel="recognised, % (held out)", xticks=range(10), xticklabels=names, ylim=(0, 119))
    axes[0].legend(frameon=False, ncols=3, loc="upper center")
    axes[1].bar(range(10), multipliers, color="#0072B2")
    axes[1].set(xlabel="digit", ylabel="multiplier", title="what the recall of each digit costs", xticks=range(10))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[TrainingResult]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    rows, held = data()
    runs = {
        "plain": trained(rows, by_class=False),
        "weights by class": trained(rows, by_class=True),
        "constrained": trained(rows, by_class=False, recall=RECALL),
    }
    found = {name: recognised(model, held) for name, (model, _) in runs.items()}
    for name, share in found.items():
        result = runs[name][1]
        print(
            f"{name}: {100 * share.mean():.1f} % recognised, {100 * share.min():.1f} % of the worst digit; "
            f"R = {result.certificate.residual:.0e} after {result.epochs:.0f} passes"
        )
    multipliers = -np.atleast_1d(runs["constrained"][1].multipliers["recall"])
    print("digits whose recall costs something:", *np.flatnonzero(multipliers > 1e-3))
    draw(found, multipliers, output / "rare_classes.png")
    return [result for _, result in runs.values()]


if __name__ == "__main__":
    main()
