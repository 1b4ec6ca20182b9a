"""Figures of an experiment, for print: profiles and solved-at plots.

Needs matplotlib (`pip install 'auglag[plot]'`), which is imported on use and without its global state. Every function
returns a `matplotlib.figure.Figure`; `save` writes it as PDF, SVG and PNG, the same bytes from the same data.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from auglag.bench.labels import EndLabels
from auglag.bench.profiles import FAILURE_RATIO, Profile, instance
from auglag.bench.record import TOLERANCES, Record
from auglag.bench.setting import Setting
from auglag.bench.style import COLOURS, RC, Look, looks
from auglag.bench.tables import solved_at
from auglag.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INSTALL = "pip install 'auglag[plot]'"


def profile_plot(profile: Profile, *, title: str = "", width: float = 5.0) -> Figure:
    """One performance profile on a logarithmic axis from 1 to 100, or to where the last curve ends if uncapped.

    Sizes are inches, as everywhere here.
    """
    with styled():
        figure = sheet(width, _height(profile))
        end = profile.limit if profile.limit < math.inf else _end(profile)
        labels = _performance(figure.add_subplot(title=title), profile, looks(profile.solvers), end)
        return _finished(figure, [labels])


def figure1(panels: Mapping[Setting, Profile]) -> Figure:
    """The paper's Figure 1: one panel for each setting, two in a row, on the same axes."""
    if not panels:
        raise InputError("panels must hold at least one setting, got none")
    rows = math.ceil(len(panels) / 2)
    look = looks([s for profile in panels.values() for s in profile.solvers])
    with styled():
        figure = sheet(7.2, 2.55 * rows)
        labels = []
        for i, (setting, profile) in enumerate(panels.items()):
            axes = figure.add_subplot(rows, min(2, len(panels)), i + 1)
            labels.append(_performance(axes, profile, look, FAILURE_RATIO))
            axes.set_title(f"({chr(97 + i)})  {setting.tex}")
            if i + 2 < len(panels):
                axes.set_xlabel("")
            if i % 2:
                axes.set_ylabel("")
        return _finished(figure, labels)


def panels(profiles: Mapping[str, Profile], *, columns: int = 4) -> Figure:
    """Small panels of performance profiles on the same axes, with one legend."""
    if not profiles:
        raise InputError("profiles must hold at least one panel, got none")
    rows = math.ceil(len(profiles) / columns)
    look = looks([s for profile in profiles.values() for s in profile.solvers])
    with styled():
        figure = sheet(7.2, 1.6 * rows + 0.4)
        for i, (title, profile) in enumerate(profiles.items()):
            axes = figure.add_subplot(rows, columns, i + 1)
            _steps(axes, profile, look, 1.0, FAILURE_RATIO)
            axes.minorticks_off()
            axes.set_title(title, fontsize="x-small")
            axes.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
            axes.set_ylabel("" if i % columns else r"$\rho_s(\alpha)$")
            axes.set_xlabel("" if i + columns < len(profiles) else r"$\alpha$")
        lines = importlib.import_module("matplotlib.lines")
        handles = [lines.Line2D([], [], color=look[s].colour, linestyle=look[s].line, label=s) for s in look]
        figure.legend(handles=handles, ncols=len(look), frameon=False, loc="outside upper center")
        return figure


def data_profile_plot(profile: Profile, *, title: str = "", width: float = 5.0) -> Figure:
    """A data profile: the fraction solved within kappa (n + 1) gradients, on a logarithmic axis."""
    with styled():
        figure = sheet(width, _height(profile))
        axes = figure.add_subplot(title=title)
        found = profile.positions[profile.solved & (profile.positions > 0)]
        low, high = (float(found.min()) / 1.5, float(found.max()) * 1.1) if found.size else (0.1, 10.0)
        labels = _lines(axes, profile, looks(profile.solvers), low, high)
        axes.set_xlabel(r"$\kappa$: gradient evaluations / $(n + 1)$")
        axes.set_ylabel("fraction of problems solved")
        return _finished(figure, [labels])


def solved_at_plot(records: Sequence[Record], *, title: str = "", width: float = 5.0) -> Figure:
    """Problems solved at 1e-3, 1e-6 and 1e-8, one row of three dots for each solver, the best at 1e-6 on top."""
    from matplotlib.ticker import MaxNLocator

    table = solved_at(records)
    rows: list[Any] = sorted(table.rows, key=lambda row: (row[2], row[1]))
    counts: list[tuple[int, ...]] = [row[1:4] for row in rows]
    total = len({instance(r) for r in records})
    markers = ("o", "D", "s")
    with styled():
        figure = sheet(width, 0.9 + 0.26 * len(rows))
        axes = figure.add_subplot()
        for y, row in enumerate(counts):
            axes.plot([min(row), max(row)], [y, y], color="#BBBBBB", linewidth=1.2, zorder=1)
            numbers = "  ".join(str(count) for count in row)  # where dots lie on each other the numbers tell
            beside = axes.get_yaxis_transform()
            axes.text(1.02, y, numbers, transform=beside, va="center", fontsize="x-small", color="#555555")
        for j, (tolerance, marker) in enumerate(zip(TOLERANCES, markers, strict=True)):
            colour = ("#56B4E9", "#0072B2", "#000000")[j]
            power = rf"at $10^{{{round(math.log10(tolerance))}}}$"
            axes.plot(
                [row[j] for row in counts],
                range(len(rows)),
                marker,
                color=colour,
                clip_on=False,
                markersize=4.5,
                label=power,
                zorder=3 - 0.1 * j,
            )
        axes.set_yticks(range(len(rows)), [str(row[0]) for row in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlim(0, total * 1.02)
        axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"problems solved, of {total}")
        axes.set_title(title, loc="left")
        figure.legend(ncols=3, frameon=False, loc="outside upper right", handletextpad=0.2, columnspacing=1.2)
        return figure


def save(figure: Figure, path: str | Path) -> list[Path]:
    """Write PDF, SVG and PNG next to each other; `path` has no suffix. No dates: the same figure, the same bytes."""
    base = Path(path)
    base.parent.mkdir(parents=True, exist_ok=True)
    metadata: dict[str, dict[str, Any]] = {
        "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
        "svg": {"Date": None, "Creator": None},
        "png": {"Software": None},
    }
    written = []
    with styled():
        for kind, content in metadata.items():
            target = base.with_name(f"{base.name}.{kind}")
            figure.savefig(target, format=kind, metadata=content)
            written.append(target)
    return written


# -------------------------------------------------------------------------------------------------------------- drawing


def styled() -> Any:
    """Our settings of matplotlib, as a context: the look of Figure 1."""
    try:
        return importlib.import_module("matplotlib").rc_context(RC)
    except ImportError as error:
        raise MissingExtra(f"plots need matplotlib: {INSTALL}") from error


def sheet(width: float, height: float) -> Figure:
    """A figure that belongs to no window and to no list of figures."""
    page: Figure = importlib.import_module("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    return page


def sample(label: str, look: Look, *, marker: str = "") -> Any:
    """A piece of a line for a legend."""
    line = importlib.import_module("matplotlib.lines").Line2D
    return line([], [], color=look.colour, linestyle=look.line, marker=marker, markersize=2.5, label=label)


def _finished(figure: Figure, labels: Iterable[EndLabels]) -> Figure:
    """The figure, with its labels spread where the layout has put the axes."""
    figure.draw_without_rendering()
    for group in labels:
        group.place()
    return figure


def _performance(axes: Axes, profile: Profile, look: Mapping[str, Look], end: float) -> EndLabels:
    """One panel of performance profiles on 1 <= alpha < end."""
    labels = _lines(axes, profile, look, 1.0, end)
    if end <= 200.0:
        ticks = [t for t in (1, 2, 5, 10, 20, 50, 100, 200) if t <= end]
        axes.set_xticks(ticks, [str(t) for t in ticks])
        axes.minorticks_off()
    axes.set_xlabel(r"performance factor $\alpha$")
    axes.set_ylabel(r"fraction of problems $\rho_s(\alpha)$")
    return labels


def _lines(axes: Axes, profile: Profile, look: Mapping[str, Look], low: float, high: float) -> EndLabels:
    """The step functions on [low, high), logarithmic, each with its name at its end."""
    labels = EndLabels(axes, sampled=len(profile.solvers) > len(COLOURS))
    for solver, last in _steps(axes, profile, look, low, high).items():
        labels.add(solver, last, look[solver])
    return labels


def _steps(axes: Axes, profile: Profile, look: Mapping[str, Look], low: float, high: float) -> dict[str, float]:
    """The step functions on [low, high), logarithmic; where each ends."""
    ends = {}
    for solver in profile.solvers:
        at, values = profile.curve(solver)
        shown = at < high
        x, y = np.maximum(at[shown], low), values[shown]
        style = look[solver]
        axes.step([*x, high], [*y, y[-1]], where="post", color=style.colour, linestyle=style.line)
        ends[solver] = float(y[-1])
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(0.0, 1.02)  # a line at 1 is seen in full
    axes.set_yticks(np.linspace(0.0, 1.0, 6))
    return ends


def _height(profile: Profile) -> float:
    """Inches: room for one label per solver."""
    return max(3.1, 1.0 + 0.16 * len(profile.solvers))


def _end(profile: Profile) -> float:
    """A little beyond the last jump of an uncapped profile."""
    found = profile.positions[profile.solved]
    return max(10.0, 1.3 * float(found.max())) if found.size else 10.0
