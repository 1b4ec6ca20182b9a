"""Figures and tables of the stochastic experiments, from records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from scipy import stats

from auglag._typing import Vector
from auglag.bench.style import COLOURS
from auglag.paper.neyman_pearson import Config, Job, Reference

#: Lines differ in their dashes, too, for print in grey.
DASHES = ("-", "--", "-.", ":")
#: A residual that is not finite is drawn and ranked as this.
HUGE = 1e6


@final
@dataclass(frozen=True, slots=True)
class Study:
    """The records of a set of runs."""

    records: Mapping[str, dict[str, Any]]
    chats: Sequence[float]
    trials: int
    passes: float
    work: str
    seconds: float

    def one(self, config: Config, chat: float, trial: int) -> dict[str, Any]:
        """The record of one run."""
        return self.records[Job(config, chat, trial, self.passes).key]

    def reference(self, chat: float, trial: int) -> dict[str, Any]:
        """The optimum of a trial."""
        return self.records[Reference(chat, trial).key]

    def curves(self, config: Config, chat: float, column: str, grid: Vector) -> Vector:
        """One row per trial: the value at the last iterate x_k of Algorithm 1 up to each amount of work.

        Points that failed the tests of Algorithm 2 are no iterates, but the work they cost is counted.
        """
        rows = []
        for trial in range(self.trials):
            trace = self.one(config, chat, trial)["trace"]
            chosen = np.array(trace["iterate"], dtype=bool)
            work = np.array(trace[self.work])[chosen]
            values = np.nan_to_num(np.array(trace[column], dtype=np.float64)[chosen], nan=HUGE, posinf=HUGE)
            if column == "objective":
                values = values / self.reference(chat, trial)["objective"] - 1.0
            at = np.searchsorted(work, grid, side="right") - 1
            rows.append(np.minimum(np.where(at >= 0, values[np.maximum(at, 0)], np.nan), HUGE))
        return np.array(rows)

    def last(self, config: Config, chat: float, column: str) -> Vector:
        """The value at the last test of every trial."""
        return self.curves(config, chat, column, np.array([np.inf]))[:, 0]

    def grid(self, configs: Sequence[Config], chat: float) -> Vector:
        """Work at which curves are drawn: from the first amount that all have reached to the last."""
        traces = [self.one(c, chat, t)["trace"][self.work] for c in configs for t in range(self.trials)]
        low, high = max(max(trace[0] for trace in traces), 1.0), max(trace[-1] for trace in traces)
        return np.geomspace(low, max(high, 2 * low), 160)


AXES = {"epochs": "passes over the data", "gradients": "stochastic gradients", "seconds": "seconds"}
MEASURES = (("residual", "R"), ("violation", "constraint violation"))


def draw(study: Study, name: str, configs: Sequence[Config], output: Path) -> None:
    """One row per chat, R and violation side by side: mean and 95 % band over the trials; PDF and PNG."""
    try:
        import matplotlib
    except ImportError:
        from auglag.errors import InputError

        raise InputError("figures need matplotlib: pip install 'auglag[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    measures = (*MEASURES, ("objective", "objective gap")) if name == "more" else MEASURES
    figure, axes = plt.subplots(
        len(study.chats), len(measures), figsize=(4.3 * len(measures), 2.5 * len(study.chats)), squeeze=False
    )
    for i, chat in enumerate(study.chats):
        grid = study.grid(configs, chat)
        for j, (column, title) in enumerate(measures):
            axis = axes[i, j]
            curves = [study.curves(config, chat, column, grid) for config in configs]
            floor = _floor(axis, curves)
            for config, found, colour, dash in zip(configs, curves, COLOURS, DASHES, strict=False):
                _band(axis, grid, found, floor, colour, dash, _label(name, config))
            axis.set(xscale="log", yscale="log", title=f"{title}, chat = {chat}", xlabel=AXES[study.work])
            axis.grid(alpha=0.3)
            if j == 0:
                axis.set_ylabel("mean of trials")
    axes[0, 0].legend(fontsize=7)
    figure.tight_layout()
    for suffix in ("pdf", "png"):
        figure.savefig(output / f"{name}.{suffix}", dpi=110)
    plt.close(figure)


def _label(name: str, config: Config) -> str:
    return f"{config.method.upper()} (default settings)" if name == "more" else config.label


def _floor(axis: Any, curves: Sequence[Vector]) -> float:
    """Where a log axis shows 0: a dotted line, named as such, below every mean that is positive."""
    means = np.concatenate([np.mean(found, axis=0) for found in curves])
    if (means > 0.0).all() or not (means > 0.0).any():
        return float(np.min(means[means > 0.0], initial=1.0))
    floor = 10.0 ** (np.floor(np.log10(np.min(means[means > 0.0]))) - 0.5)
    axis.axhline(floor, color="#777777", linestyle=":", linewidth=1.0)
    axis.annotate("0", (1.01, floor), xycoords=axis.get_yaxis_transform(), va="center", fontsize=8, color="#777777")
    return float(floor)


def _band(axis: Any, grid: Vector, curves: Vector, floor: float, colour: str, dash: str, label: str) -> None:
    trials = len(curves)
    mean = np.mean(curves, axis=0)
    half = (
        stats.t.ppf(0.975, max(trials - 1, 1)) * np.std(curves, axis=0, ddof=1 if trials > 1 else 0) / np.sqrt(trials)
    )
    axis.plot(grid, np.maximum(mean, floor), dash, color=colour, label=label, linewidth=1.4)
    low = np.maximum(mean - half, np.maximum(0.05 * mean, floor))  # a log axis has no place for 0
    axis.fill_between(grid, low, np.maximum(mean + half, floor), color=colour, alpha=0.18, linewidth=0)


# --------------------------------------------------------------------------------------------------------------- tables


def write(study: Study, figures: Mapping[str, Sequence[Config]], output: Path) -> Path:
    """`stochastic.md`: medians, spreads and paired tests per panel, then the optima and the error rates."""
    lines = [
        "# Neyman-Pearson classification on Spambase",
        "",
        f"{study.trials} trials, {study.passes:g} passes over the training data each (every row evaluation counted, "
        "full-batch tests included); every number is taken at the last iterate x_k.",
        "",
        "R and violation: median over the trials, with the quartiles in brackets. gap: median of f / f* - 1. "
        "p: Wilcoxon signed-rank test of log R against the first row of the panel, paired by trial (two-sided); "
        "'wins' counts the trials in which the first row has the smaller R.",
    ]
    for name, configs in figures.items():
        lines += ["", f"## {name}", ""]
        lines += ["| chat | curve | mean R | R | violation | gap | rank | p | wins |", "|---" * 9 + "|"]
        for chat in study.chats:
            lines += _panel(study, name, configs, chat)
    lines += ["", "## Optima (medians)", "", "| chat | f* | multiplier | constraint | passes of the default method |"]
    lines += ["|---" * 5 + "|"]
    for chat in study.chats:
        found = [study.reference(chat, trial) for trial in range(study.trials)]
        f, y, c, e = (np.median([r[k] for r in found]) for k in ("objective", "multiplier", "constraint", "epochs"))
        lines.append(f"| {chat} | {f:.4f} | {y:.3f} | {c:.4f} | {e:.1f} |")
    lines += _rates(study, figures)
    path = output / "stochastic.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _panel(study: Study, name: str, configs: Sequence[Config], chat: float) -> list[str]:
    finals = [study.last(config, chat, "residual") for config in configs]
    order = np.argsort(np.argsort([np.median(r) for r in finals]))
    lines = []
    for i, (config, residual) in enumerate(zip(configs, finals, strict=True)):
        violation, gap = study.last(config, chat, "violation"), study.last(config, chat, "objective")
        p, wins = ("", "") if i == 0 else _paired(finals[0], residual)
        lines.append(
            f"| {chat} | {_label(name, config)} | {np.mean(residual):.2e} | {_spread(residual)} "
            f"| {_spread(violation)} | {100 * np.median(gap):.1f} % | {order[i] + 1} | {p} | {wins} |"
        )
    return lines


def _paired(first: Vector, other: Vector) -> tuple[str, str]:
    difference = np.log(first) - np.log(other)
    if len(difference) < 5 or not np.any(difference):
        return "", f"{int(np.sum(first < other))}/{len(first)}"
    return f"{stats.wilcoxon(difference).pvalue:.1e}", f"{int(np.sum(first < other))}/{len(first)}"


def _spread(values: Vector) -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.1e} [{low:.1e}, {high:.1e}]"


def _rates(study: Study, figures: Mapping[str, Sequence[Config]]) -> list[str]:
    lines = ["", "## Error rates (means; best point of each run)", ""]
    lines += ["| chat | run | training FN | training FP | test FN | test FP |", "|---|---|---|---|---|---|"]
    kinds = ("training false negatives", "training false positives", "test false negatives", "test false positives")
    configs = dict.fromkeys(
        config for chosen in figures.values() for config in chosen if config.variant == "adaptive-full"
    )
    for chat in study.chats:
        rows = {"optimum": [study.reference(chat, t)["rates"] for t in range(study.trials)]}
        for config in configs:
            rows[config.key] = [study.one(config, chat, t)["rates"] for t in range(study.trials)]
        for name, found in rows.items():
            means = " | ".join(f"{np.mean([rates[kind] for rates in found]):.4f}" for kind in kinds)
            lines.append(f"| {chat} | {name} | {means} |")
    return lines
