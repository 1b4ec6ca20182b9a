"""Figure and tables of the complexity study, from its fits alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from auglag.bench import plots
from auglag.bench.rendering import Cell, Table
from auglag.bench.style import Look, looks
from auglag.bench.summary import write_tables
from auglag.paper.complexity import Fit, Slope, quantile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Gradients against eps"


def write(fits: Mapping[str, Fit], limit: int, output: Path) -> Path:
    """`complexity.md` with its tables, and the figure as PDF, SVG and PNG."""
    plots.save(figure(fits), output / "complexity")
    path = output / "complexity.md"
    write_tables(path, TITLE, tables(fits), _text(fits, limit))
    return path


# -------------------------------------------------------------------------------------------------------------- figure


def figure(fits: Mapping[str, Fit]) -> Figure:
    """Work against 1/eps in one panel for each unit and kind of constraint, and the local slopes beside the bounds."""
    look = looks(list(fits))
    groups = [
        ("proximal gradient", "iterations on all rows", [f for f in fits.values() if not f.way.sampled]),
        ("deterministic constraints", "stochastic gradients", _sampled(fits, noisy=False)),
        ("stochastic constraints", "stochastic gradients", _sampled(fits, noisy=True)),
    ]
    with plots.styled():
        page = plots.sheet(7.2, 5.4)
        for i, (title, unit, chosen) in enumerate(groups):
            axes = page.add_subplot(2, 2, i + 1, title=f"({chr(97 + i)})  {title}", ylabel=unit)
            for fit in chosen:
                _work(axes, fit, look[fit.way.name])
            axes.set(xscale="log", yscale="log", xlabel=r"$1/\varepsilon$")
        axes = page.add_subplot(2, 2, 4, title="(d)  slopes over half-decades, and the bounds", ylabel="slope")
        for fit in fits.values():
            _slopes(axes, fit, look[fit.way.name])
        axes.set(xscale="log", xlabel=r"$1/\varepsilon$", ylim=(0.0, None))
        lines = [plots.sample(name, look[name], marker="o") for name in fits]
        page.legend(handles=lines, ncols=3, frameon=False, loc="outside upper center", columnspacing=1.4)
        return page


def _sampled(fits: Mapping[str, Fit], *, noisy: bool) -> list[Fit]:
    return [fit for fit in fits.values() if fit.way.sampled and fit.way.noisy_constraint == noisy]


def _work(axes: Any, fit: Fit, look: Look) -> None:
    """The median, with the quartiles as a band."""
    x, (low, middle, high) = 1.0 / fit.eps[fit.used], fit.quantiles(0.25, 0.5, 0.75)
    if not len(x):
        return
    axes.plot(x, middle, color=look.colour, linestyle=look.line, marker="o", markersize=2.5)
    # A quarter of the trials may have no work at all, for which a log axis has no place: below 1 is below its edge.
    top = np.where(np.isfinite(high), high, np.max(fit.steps, where=np.isfinite(fit.steps), initial=1.0))
    axes.fill_between(x, np.maximum(low, 0.5), top, color=look.colour, alpha=0.18, linewidth=0)


def _slopes(axes: Any, fit: Fit, look: Look) -> None:
    shown = [s for s in fit.local if math.isfinite(s.value)]
    if not shown:
        return
    x = [1.0 / math.sqrt(s.first * s.last) for s in shown]
    axes.plot(x, [s.value for s in shown], color=look.colour, linestyle=look.line, marker="o", markersize=2.5)
    ends = [[s.low for s in shown], [min(s.high, 2 * s.value) for s in shown]]
    axes.fill_between(x, *ends, color=look.colour, alpha=0.12, linewidth=0)
    axes.axhline(fit.way.bound, color=look.colour, linewidth=0.7, linestyle=look.line)
    axes.annotate(
        f"{fit.way.bound:g}", (1.01, fit.way.bound), xycoords=axes.get_yaxis_transform(), va="center", fontsize=7.5,
        color=look.ink,
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- tables


def tables(fits: Mapping[str, Fit]) -> list[Table]:
    """Slopes over the whole range, the work at every eps, and the slopes over half-decades."""
    return [_overall(fits), _by_eps(fits), _local(fits)]


def _overall(fits: Mapping[str, Fit]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for name, fit in fits.items():
        s = fit.whole
        decades = math.log10(s.first / s.last) if s.first > 0 else math.nan
        lines.append((name, _power(fit.way.bound), f"{s.value:.2f}", _interval(s), f"{s.first:g} to {s.last:g}",
                      f"{decades:.2f}", f"{fit.last.value:.2f}", _interval(fit.last)))  # fmt: skip
    columns = ("method", "bound", "measured slope", "95 % interval", "eps", "decades", "last decade", "its interval")
    return Table("Slopes of log(median work) against log(1/eps)", columns, tuple(lines))


def _by_eps(fits: Mapping[str, Fit]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for name, fit in fits.items():
        for j, eps in enumerate(fit.eps):
            reached = int(np.isfinite(fit.steps[:, j]).sum())
            low, middle, high = (float(quantile(fit.steps[:, j], share)) for share in (0.25, 0.5, 0.75))
            full = float(quantile(fit.full[:, j], 0.5))
            trials = f"{reached}/{len(fit.steps)}"
            lines.append((name, float(eps), trials, _exact(middle), f"[{_exact(low)}, {_exact(high)}]", _exact(full)))
    columns = ("method", "eps", "trials with R <= eps", "median work", "quartiles", "median full evaluations")
    notes = (
        "Work: iterations on all rows for proximal gradient (full evaluations: gradients, those of the search for L "
        "included), stochastic gradients for the others (full evaluations: tests of Algorithm 2).",
    )
    return Table("Work until R <= eps", columns, tuple(lines), notes, digits=3)


def _local(fits: Mapping[str, Fit]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for name, fit in fits.items():
        for s in fit.local:
            lines.append((name, f"{s.first:g} to {s.last:g}", f"{s.value:.2f}", _interval(s), f"{fit.way.bound:g}",
                          _judged(s, fit.way.bound)))  # fmt: skip
    columns = ("method", "eps", "slope", "95 % interval", "bound", "")
    return Table("Slopes over half-decades", columns, tuple(lines))


def _judged(s: Slope, bound: float) -> str:
    if s.value <= bound:
        return ""
    return "above the bound" if s.low > bound else "above, the interval reaches below"


def above(fits: Mapping[str, Fit], slopes: Callable[[Fit], Iterable[Slope]]) -> str:
    """Where a slope exceeds its bound, in words."""
    found = [
        f"{name} from eps = {s.first:g} to {s.last:g} ({s.value:.2f} against {fit.way.bound:g}, {_interval(s)})"
        for name, fit in fits.items()
        for s in slopes(fit)
        if s.value > fit.way.bound
    ]
    return f"slopes are above the bound here: {'; '.join(found)}" if found else "no slope is above its bound"


_HOW = (
    'Every run has `preset="paper"`; Algorithm 2 restarts from x_k as printed, PStorm has the stepsize 1/sqrt(T), too. '
    "Medians and quartiles over the trials; a trial that does not reach an eps counts as infinite work. A slope is "
    "fitted over the levels of eps that more than half of the trials reach, and for which more than half need work "
    "(that of a start with R <= eps is 0, and shown as 0), with a 95 % bootstrap interval over the trials. Every "
    "trial: [complexity-runs.csv.gz](complexity-runs.csv.gz), whose column `work` is what is plotted.\n"
)


def _text(fits: Mapping[str, Fit], limit: int) -> str:
    trials = max(len(fit.steps) for fit in fits.values())
    return "\n".join([
        "    auglag paper complexity --output paper-output\n",
        f"{trials} trials, each with its own data, start and seed, of at most {limit:,} stochastic gradients. {_HOW}",
        f"Over the whole range {above(fits, lambda fit: [fit.whole])}. Over the last decade "
        f"{above(fits, lambda fit: [fit.last])}. Over half-decades {above(fits, lambda fit: fit.local)}.\n",
        "![Gradients against eps](complexity.png)\n",
    ])  # fmt: skip


def _interval(s: Slope) -> str:
    high = "open" if math.isinf(s.high) else f"{s.high:.2f}"
    return f"[{s.low:.2f}, {high}]"


def _power(bound: float) -> str:
    return f"eps^-{bound:g}"


def _exact(value: float) -> str:
    return f"{value:.10g}" if math.isfinite(value) else "limit"  # a median may be half of an odd number
