"""Spam with a guarantee: few ham mails in the spam folder, and how many spam mails that lets through.

    python examples/neyman_pearson_sklearn.py [--output DIR]

Trains `NeymanPearsonClassifier` on Spambase for several false-positive rates, each kept to on new mails with 95 %
confidence, and draws the trade-off on mails that no fit has seen, beside logistic regression and its threshold moved
until the training mails look right.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from auglag.bench.style import COLOURS, RC
from auglag.datasets import load_spambase
from auglag.sklearn import NeymanPearsonClassifier

RATES = (0.02, 0.05, 0.1, 0.2)
SPLITS = 10


def rates(scores: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """(false-positive rate, false-negative rate) of score > 0."""
    return float(np.mean(scores[y == 0] > 0.0)), float(np.mean(scores[y == 1] <= 0.0))


def one_split(seed: int, X: np.ndarray, y: np.ndarray) -> dict[str, list[tuple[float, float]]]:
    """For every rate, what the calibrated classifier and the naive threshold make of a held-out half."""
    X, new_X, y, new_y = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)).fit(X, y)
    ham = plain.decision_function(X[y == 0])
    found: dict[str, list[tuple[float, float]]] = {"certified": [], "threshold on the training mails": []}
    for rate in RATES:
        model = NeymanPearsonClassifier(max_fpr=rate, confidence=0.95, random_state=seed).fit(X, y)
        found["certified"].append(rates(model.decision_function(new_X), new_y))
        naive = plain.decision_function(new_X) - np.quantile(ham, 1.0 - rate)
        found["threshold on the training mails"].append(rates(naive, new_y))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=Path("example-output"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    data = load_spambase()

    model = NeymanPearsonClassifier(max_fpr=0.05, confidence=0.95, random_state=0).fit(data.X, data.y)
    kept = model.calibration_
    print(model.result_.message)
    print(
        f"chat {model.chat_:.3f}, multiplier {model.multipliers_[0]:.2f}, {model.n_iter_} passes; the threshold is the "
        f"{kept.rank}th score of {kept.negatives} held-out ham mails: P(rate > 5 %) = {kept.failure_probability:.3f}"
    )

    splits = [one_split(seed, data.X, data.y) for seed in range(SPLITS)]
    with plt.rc_context(RC):
        figure, axis = plt.subplots(figsize=(5.2, 3.6))
        for colour, marker, name in zip(COLOURS, "os", splits[0], strict=False):
            points = 100.0 * np.array([split[name] for split in splits])
            for k, rate in enumerate(RATES):
                above = np.mean(points[:, k, 0] > 100.0 * rate)
                print(
                    f"{name}, at most {rate:.0%}: false positives {points[:, k, 0].mean():.1f} % (above the rate in "
                    f"{above:.0%} of {SPLITS} splits), false negatives {points[:, k, 1].mean():.1f} %"
                )
            axis.plot(points[:, :, 0].ravel(), points[:, :, 1].ravel(), marker, color=colour, ms=3, alpha=0.35, mew=0)
            middle = points.mean(axis=0)
            axis.plot(middle[:, 0], middle[:, 1], marker + "-", color=colour, label=name)
        for rate in RATES:
            axis.axvline(100.0 * rate, color="#888888", linewidth=0.8, linestyle=(0, (2, 2)))
        axis.set(xlabel="ham in the spam folder, % (dashed: the rates asked for)", ylabel="spam let through, %")
        axis.set(xscale="log", xticks=[100 * r for r in RATES], xticklabels=[f"{100 * r:g}" for r in RATES])
        axis.minorticks_off()
        axis.set_ylim(bottom=0.0)
        axis.legend(frameon=False)
        axis.set_title("Spambase, mails that no fit has seen")
        figure.tight_layout()
        figure.savefig(folder / "neyman_pearson.png")
    print(f"wrote {folder / 'neyman_pearson.png'}")


if __name__ == "__main__":
    main()
