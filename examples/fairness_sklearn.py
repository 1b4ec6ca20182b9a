"""What a fairer model costs: accuracy against the gap between groups, for four ways to say "fair".

    python examples/fairness_sklearn.py [--output DIR]

Scikit-learn's diabetes data (442 patients; does the disease progress faster than the median?), groups by sex, which the
model itself is not told; and generated applicants in three groups. The curves are drawn by fitting
`FairLogisticRegression` at bounds from loose to 0, each fit started from the last (`warm_start`).
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from auglag.bench.style import RC, looks
from auglag.sklearn import FairLogisticRegression, demographic_parity_gap, equalized_odds_gap

BOUNDS = (0.5, 0.2, 0.15, 0.1, 0.06, 0.03, 0.0)
MODELS = {
    "demographic parity": {"constraint": "demographic_parity"},
    "demographic parity, sharpness 3": {"constraint": "demographic_parity", "sharpness": 3.0},
    "equalised odds": {"constraint": "equalized_odds"},
    "equalised odds, sharpness 3": {"constraint": "equalized_odds", "sharpness": 3.0},
}
Data = tuple[np.ndarray, np.ndarray, np.ndarray]


def diabetes() -> Data:
    data = load_diabetes()
    slow_or_fast = (data.target > np.median(data.target)).astype(int)
    return np.delete(data.data, 1, axis=1), slow_or_fast, np.where(data.data[:, 1] > 0.0, "one sex", "the other")


def applicants(n: int = 3000) -> Data:
    """Three groups that differ in two features and, for equal features, in the outcome."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, n)
    X = rng.standard_normal((n, 6))
    X[:, 0] += 0.5 * group
    X[:, 1] -= 0.3 * group
    y = X @ [1.2, -0.8, 0.6, 0.4, 0.0, 0.0] + 0.2 * group + rng.logistic(size=n) > 0.8
    return X, y.astype(int), np.array(["a", "b", "c"])[group]


def curve(data: Data, options: dict[str, object]) -> np.ndarray:
    """(demographic-parity gap, equalised-odds gap, accuracy) for every bound, each row judged by a fit without it."""
    X, y, s = data
    decided = np.zeros((len(BOUNDS), len(y)), dtype=int)
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    for train, test in folds.split(X, [f"{a}{b}" for a, b in zip(y, s, strict=True)]):
        model = FairLogisticRegression(warm_start=True, tol=1e-4, max_iter=2000, **options)
        for k, bound in enumerate(BOUNDS):
            model.set_params(bound=bound).fit(X[train], y[train], sensitive_features=s[train])
            decided[k, test] = model.predict(X[test])
    parity = [demographic_parity_gap(row, sensitive_features=s) for row in decided]
    odds = [equalized_odds_gap(y, row, sensitive_features=s) for row in decided]
    return np.column_stack([parity, odds, np.mean(decided == y, axis=1)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=Path("example-output"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("error", ConvergenceWarning)

    X, y, s = diabetes()
    model = FairLogisticRegression(0.05).fit(X, y, sensitive_features=s)
    print(model.result_.message)
    print(f"gaps {model.gaps_}, multipliers {model.multipliers_}, {model.n_iter_} passes")

    sets = {"diabetes by sex": diabetes(), "applicants, three groups": applicants()}
    with plt.rc_context(RC):
        figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.4))
        look = looks(list(MODELS))
        for axis, (name, data) in zip(axes, sets.items(), strict=True):
            for label, options in MODELS.items():
                table = curve(data, options)
                column = 0 if options["constraint"] == "demographic_parity" else 1
                print(f"{name}, {label}: gap of decisions and accuracy, bounds {BOUNDS[0]} to {BOUNDS[-1]}")
                print("   " + ", ".join(f"{row[column]:.3f}/{row[2]:.3f}" for row in table))
                axis.plot(
                    table[:, column], table[:, 2], "o", ms=3, color=look[label].colour, linestyle=look[label].line,
                    label=label,
                )  # fmt: skip
            axis.set(xlabel="gap of decisions between groups, held out", ylabel="accuracy, held out", title=name)
            axis.set_xlim(left=0.0)
        axes[1].legend(frameon=False, fontsize=7)
        figure.tight_layout()
        figure.savefig(folder / "fairness.png")
    print(f"wrote {folder / 'fairness.png'}")


if __name__ == "__main__":
    main()
