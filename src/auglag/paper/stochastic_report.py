"""Figures and tables of the stochastic experiments, from records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import stats

from auglag._typing import Vector
from auglag.bench import plots
from auglag.bench.style import Look, looks
from auglag.paper.neyman_pearson import Config, Job, Reference, beyond

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A residual that is not finite is drawn and ranked as this.
HUGE = 1e6
#: 0 is compared as this, where logarithms are.
TINY = 1e-300


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

        Points that failed the tests of Algorithm 2 are no iterates, but the work they cost is counted. Nor is x_k once
        more, with the multipliers of a subproblem for which no work was left.
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

    def lowest(self, config: Config, chat: float) -> tuple[Vector, Vector]:
        """The smallest R of every trial's full-batch tests, and the work after which it was reached."""
        found = []
        for trial in range(self.trials):
            trace = self.one(config, chat, trial)["trace"]
            values = np.nan_to_num(np.array(trace["residual"], dtype=np.float64), nan=HUGE, posinf=HUGE)
            found.append((np.min(values), trace[self.work][int(np.argmin(values))]))
        low, work = np.array(found).T
        return low, work

    def rises(self, config: Config, chat: float) -> Vector:
        """By how many decades R rises in all between the iterates of every trial: how much it oscillates."""
        found = []
        for trial in range(self.trials):
            trace = self.one(config, chat, trial)["trace"]
            chosen = np.array(trace["iterate"], dtype=bool)
            values = np.nan_to_num(np.array(trace["residual"], dtype=np.float64)[chosen], nan=HUGE, posinf=HUGE)
            found.append(np.sum(np.maximum(np.diff(np.log10(np.clip(values, TINY, HUGE))), 0.0)))
        return np.array(found)

    def last(self, config: Config, chat: float, column: str) -> Vector:
        """The value at the last test of every trial."""
        return self.curves(config, chat, column, np.array([np.inf]))[:, 0]

    def grid(self, configs: Sequence[Config], chat: float) -> Vector:
        """Work at which curves are drawn: from the first amount that all have reached to the last."""
        traces = [self.one(c, chat, t)["trace"][self.work] for c in configs for t in range(self.trials)]
        low, high = max(max(trace[0] for trace in traces), 1.0), max(trace[-1] for trace in traces)
        return np.geomspace(low, max(high, 2 * low), 160)


AXES = {"epochs": "passes over the data", "gradients": "stochastic gradients", "seconds": "seconds"}
#: The paper's two, and the violation without the slack: see `auglag.paper.neyman_pearson`.
MEASURES = (("residual", "$R$"), ("c_norm", r"$\|c(x, s)\|$"), ("violation", r"$(c(x) - \hat c)_+$"))
METHODS = {"sgd": "SGD", "pstorm": "PStorm", "svrg": "SVRG"}


def draw(study: Study, name: str, configs: Sequence[Config], output: Path) -> None:
    """One row per chat, R and violations side by side: mean and 95 % band over the trials; PDF, SVG and PNG."""
    plots.save(figure(study, name, configs), output / name)


def figure(study: Study, name: str, configs: Sequence[Config]) -> Figure:
    """The figure in the look of Figure 1: panels with letters, one legend, one label for each axis."""
    measures = (*MEASURES, ("objective", r"gap $f/f^\ast - 1$")) if name == "more" else MEASURES
    labels = [_label(name, config) for config in configs]
    look = looks(labels)
    with plots.styled():
        page = plots.sheet(2.4 * len(measures), 0.5 + 1.7 * len(study.chats))
        for i, chat in enumerate(study.chats):
            grid = study.grid(configs, chat)
            for j, (column, title) in enumerate(measures):
                at = i * len(measures) + j
                axes = page.add_subplot(len(study.chats), len(measures), at + 1)
                curves = [study.curves(config, chat, column, grid) for config in configs]
                floor = _floor(axes, curves)
                for label, found in zip(labels, curves, strict=True):
                    _band(axes, grid, found, floor, look[label])
                axes.set(xscale="log", yscale="log")
                axes.set_title(rf"({chr(97 + at)})  {title}, $\hat c = {chat}$", fontsize=8.5)
        page.supxlabel(AXES[study.work], fontsize=9.0)
        page.supylabel(f"mean of {study.trials} trials", fontsize=9.0)
        lines = [plots.sample(label, look[label]) for label in labels]
        page.legend(
            handles=lines, ncols=min(len(lines), 4), frameon=False, loc="outside upper center", columnspacing=1.4
        )
        return page


def _label(name: str, config: Config) -> str:
    if name == "lengths":
        return {"adaptive": "Algorithm 2, T = 1", "fixed": "fixed, 100 epochs"}.get(config.inner, config.label)
    return f"{METHODS[config.method]} (default settings)" if name == "more" else config.label


def _floor(axis: Any, curves: Sequence[Vector]) -> float:
    """Where a log axis shows 0: a dotted line, named as such, below every mean that is positive."""
    means = np.concatenate([np.mean(found, axis=0) for found in curves])
    if (means > 0.0).all() or not (means > 0.0).any():
        return float(np.min(means[means > 0.0], initial=1.0))
    floor = 10.0 ** (np.floor(np.log10(np.min(means[means > 0.0]))) - 0.5)
    axis.axhline(floor, color="#777777", linestyle=":", linewidth=1.0)
    axis.annotate("0", (1.01, floor), xycoords=axis.get_yaxis_transform(), va="center", fontsize=8, color="#777777")
    return float(floor)


def _band(axis: Any, grid: Vector, curves: Vector, floor: float, look: Look) -> None:
    trials = len(curves)
    mean = np.mean(curves, axis=0)
    half = (
        stats.t.ppf(0.975, max(trials - 1, 1)) * np.std(curves, axis=0, ddof=1 if trials > 1 else 0) / np.sqrt(trials)
    )
    axis.plot(grid, np.maximum(mean, floor), color=look.colour, linestyle=look.line)
    low = np.maximum(mean - half, np.maximum(0.05 * mean, floor))  # a log axis has no place for 0
    axis.fill_between(grid, low, np.maximum(mean + half, floor), color=look.colour, alpha=0.18, linewidth=0)


# --------------------------------------------------------------------------------------------------------------- tables


def write(study: Study, figures: Mapping[str, Sequence[Config]], output: Path) -> Path:
    """`stochastic.md`: medians, spreads and paired tests per panel, then the optima and the error rates."""
    pairs = [(chat, trial) for chat in study.chats for trial in range(study.trials)]
    jobs = (Job(config, *pair, study.passes) for configs in figures.values() for config in configs for pair in pairs)
    traces = [study.records[job.key]["trace"] for job in jobs]
    lines = [
        "# Neyman-Pearson classification on Spambase",
        "",
        f"{study.trials} trials of {beyond(study.passes, traces)}. Every row evaluation counts, those of full-batch "
        "tests included; every number is taken at the last iterate x_k.",
        "",
        "c(x, s): the constraint violation |c(x) - chat + s| with the slack s of the run, the second term of R. "
        "(c - chat)_+: the violation of the inequality itself, without slack. Each, and R, as the mean over the trials "
        "and the median with the quartiles in brackets. gap: median of f / f* - 1. Ranks: by the median R, and by the "
        "mean c(x, s). p: Wilcoxon signed-rank test of log R, and of log c(x, s), against the first row of the "
        "panel, paired by trial (two-sided); 'wins' counts the trials in which the first row has the smaller one.",
    ]
    for name, configs in figures.items():
        lines += ["", f"## {name}", ""]
        lines += [
            "| chat | curve | mean R | R | mean c(x, s) | c(x, s) | mean (c - chat)_+ | (c - chat)_+ | gap "
            "| rank R | p | wins | rank c(x, s) | p | wins |",
            "|---" * 15 + "|",
        ]
        for chat in study.chats:
            lines += _panel(study, name, configs, chat)
    lines += ["", "## Optima (medians)", "", "| chat | f* | multiplier | constraint | passes of the default method |"]
    lines += ["|---" * 5 + "|"]
    for chat in study.chats:
        found = [study.reference(chat, trial) for trial in range(study.trials)]
        f, y, c, e = (np.median([r[k] for r in found]) for k in ("objective", "multiplier", "constraint", "epochs"))
        lines.append(f"| {chat} | {f:.4f} | {y:.3f} | {c:.4f} | {e:.1f} |")
    lines += _course(study, figures)
    lines += _lowest(study, figures)
    lines += _oscillations(study, figures)
    lines += _rates(study, figures)
    path = output / "stochastic.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _panel(study: Study, name: str, configs: Sequence[Config], chat: float) -> list[str]:
    finals = [study.last(config, chat, "residual") for config in configs]
    norms = [study.last(config, chat, "c_norm") for config in configs]
    order = np.argsort(np.argsort([np.median(r) for r in finals]))
    order_c = np.argsort(np.argsort([np.mean(c) for c in norms]))
    lines = []
    for i, (config, residual) in enumerate(zip(configs, finals, strict=True)):
        violation, gap = study.last(config, chat, "violation"), study.last(config, chat, "objective")
        p, wins = ("", "") if i == 0 else _paired(finals[0], residual)
        p_c, wins_c = ("", "") if i == 0 else _paired(norms[0], norms[i])
        measured = " | ".join(f"{np.mean(v):.2e} | {_spread(v)}" for v in (residual, norms[i], violation))
        lines.append(
            f"| {chat} | {_label(name, config)} | {measured} | {100 * np.median(gap):.1f} % "
            f"| {order[i] + 1} | {p} | {wins} | {order_c[i] + 1} | {p_c} | {wins_c} |"
        )
    return lines


def _paired(first: Vector, other: Vector, *, logs: bool = True) -> tuple[str, str]:
    """p and wins of the first, in ratios (`logs`) or in differences."""
    difference = np.log(np.maximum(first, TINY)) - np.log(np.maximum(other, TINY)) if logs else first - other
    if len(difference) < 5 or not np.any(difference):
        return "", f"{int(np.sum(first < other))}/{len(first)}"
    return f"{stats.wilcoxon(difference).pvalue:.1e}", f"{int(np.sum(first < other))}/{len(first)}"


def _spread(values: Vector) -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.1e} [{low:.1e}, {high:.1e}]"


def _course(study: Study, figures: Mapping[str, Sequence[Config]]) -> list[str]:
    """The violation before the end: which curve is lowest depends on when one looks."""
    shares = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 1.0])
    lines = ["", f"## Mean c(x, s) at the last iterate after a share of the {AXES[study.work]}", ""]
    lines += ["| chat | run | " + " | ".join(f"{100 * share:g} %" for share in shares) + " |"]
    lines += ["|---" * (len(shares) + 2) + "|"]
    configs = dict.fromkeys(config for chosen in figures.values() for config in chosen)
    for chat in study.chats:
        top = study.grid(list(configs), chat)[-1]
        for config in configs:
            means = np.mean(study.curves(config, chat, "c_norm", shares * top), axis=0)
            lines.append(f"| {chat} | {config.key} | " + " | ".join(f"{mean:.2e}" for mean in means) + " |")
    return lines


def _lowest(study: Study, figures: Mapping[str, Sequence[Config]]) -> list[str]:
    lines = ["", "## Lowest R of a run, over all its full-batch tests (medians)", ""]
    lines += ["p and wins as above, against Algorithm 2 with the same method and variant.", ""]
    lines += [f"| chat | run | lowest R | {AXES[study.work]} until then | p | wins |", "|---" * 6 + "|"]
    configs = dict.fromkeys(config for chosen in figures.values() for config in chosen)
    for chat in study.chats:
        for config in configs:
            low, work = study.lowest(config, chat)
            rival = replace(config, inner="adaptive")
            p, wins = _paired(study.lowest(rival, chat)[0], low) if rival in configs and rival != config else ("", "")
            lines.append(f"| {chat} | {config.key} | {_spread(low)} | {np.median(work):.3g} | {p} | {wins} |")
    return lines


def _oscillations(study: Study, figures: Mapping[str, Sequence[Config]]) -> list[str]:
    lines = ["", "## Oscillation: decades by which R rises in all between the iterates x_k of a run (medians)", ""]
    lines += ["p and wins as above, in differences, against the first row of the panel.", ""]
    lines += ["| figure | chat | curve | rises of log10 R | p | wins |", "|---" * 6 + "|"]
    for name, configs in figures.items():
        for chat in study.chats:
            rises = [study.rises(config, chat) for config in configs]
            for i, config in enumerate(configs):
                p, wins = ("", "") if i == 0 else _paired(rises[0], rises[i], logs=False)
                lines.append(f"| {name} | {chat} | {_label(name, config)} | {_spread(rises[i])} | {p} | {wins} |")
    return lines


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
