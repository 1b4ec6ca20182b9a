"""A run as a figure for print: residual, violation, penalty and inner work of every outer iteration.

Needs matplotlib (`pip install 'auglag[plot]'`), which is imported on use and without its global state.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auglag.algorithm.trail import INNER, INTERIOR, NEWTON, OUTER, Step
from auglag.bench.style import COLOURS, RC
from auglag.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: What a figure may be written as.
SUFFIXES = (".png", ".svg", ".pdf")
INSTALL = "a plot needs matplotlib: pip install 'auglag[plot]'"


def check(path: Path, name: str = "--plot") -> None:
    """Raise, before anything is solved, if no figure could be written there."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{name} must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise InputError(f"{name} must lie in an existing folder, got {str(path)!r}")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra(INSTALL)


def write(path: Path, rows: Sequence[Mapping[str, Any]], *, title: str, tol: float) -> None:
    """Draw the rows (of a log, or of `Result.history`) into a PNG, SVG or PDF; the same rows give the same bytes."""
    check(path)
    drawn(rows, title=title, tol=tol, path=path)


def drawn(
    rows: Sequence[Mapping[str, Any]],
    *,
    title: str,
    tol: float,
    path: str | os.PathLike[str] | None = None,
    steps: Sequence[Step] = (),
) -> Figure:
    """The rows as a figure, which is written to a file where `path` is given; with `steps`, the residual of each."""
    if path is not None:
        check(Path(path), "path")
    elif importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra(INSTALL)
    with importlib.import_module("matplotlib").rc_context(RC):
        figure = _draw(rows, title, tol, steps)
        if path is not None:
            nothing = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}
            figure.savefig(path, metadata=nothing[Path(path).suffix.lower()])
    return figure


def _draw(rows: Sequence[Mapping[str, Any]], title: str, tol: float, steps: Sequence[Step]) -> Figure:
    figure: Figure = importlib.import_module("matplotlib.figure").Figure(figsize=(7.2, 4.6), layout="constrained")
    figure.suptitle(title, fontsize=10, parse_math=False)
    if not rows:
        if any(step.kind != OUTER for step in steps):
            axes = figure.subplots()
            _steps(axes, steps)
            _tolerance(axes, tol)
            axes.set_xlabel("step")
        else:
            text = "no iteration: the start already meets the tolerance, or nothing ran"
            figure.text(0.5, 0.45, text, ha="center", color="black")
        return figure
    residual, violation, penalty, work = figure.subplots(2, 2, sharex=not steps).ravel()
    at = list(range(1, len(rows) + 1))
    if steps:
        _steps(residual, steps)
    else:
        _line(residual, at, _column(rows, "residual"), COLOURS[0], "residual $R$")
    _tolerance(residual, tol)
    shown = "user_violation" if "user_violation" in rows[0] else "violation"
    _line(violation, at, _column(rows, shown), COLOURS[1], "constraint violation")
    _line(penalty, at, _column(rows, "beta"), COLOURS[2], r"penalty $\beta$")
    _bars(work, at, rows)
    for axes in (violation, penalty, work) if steps else (residual, violation, penalty, work):
        for i, row in enumerate(rows):
            if row.get("attempt") and row.get("k") == 1:
                axes.axvline(i + 0.5, color="#AAAAAA", linewidth=0.8, linestyle=":")
        axes.set_xlim(0.5, len(rows) + 0.5)
        axes.xaxis.set_major_locator(importlib.import_module("matplotlib.ticker").MaxNLocator(integer=True))
    for axes in (penalty, work):
        axes.set_xlabel("outer iteration")
    return figure


def _tolerance(axes: Axes, tol: float) -> None:
    axes.axhline(tol, color="#555555", linewidth=0.8, linestyle="--")
    axes.annotate(
        "tol", (1.0, tol), xycoords=("axes fraction", "data"), fontsize=8, va="bottom", ha="right", color="#555555"
    )


def _steps(axes: Axes, steps: Sequence[Step]) -> None:
    """What every step measures, a colour for each kind; outer iterations as larger dots."""
    axes.set_title("residual of every step")
    axes.set_yscale("log")
    looks = {INNER: (COLOURS[0], 2.0), NEWTON: (COLOURS[2], 2.0), INTERIOR: (COLOURS[3], 2.0), OUTER: (COLOURS[4], 4.0)}
    for kind, (colour, size) in looks.items():
        found = [(i + 1, s.residual) for i, s in enumerate(steps) if s.kind == kind and 0.0 < s.residual < math.inf]
        if found:
            axes.plot(*zip(*found, strict=True), "o", color=colour, markersize=size, label=kind)
    axes.minorticks_off()
    if axes.lines:
        axes.legend(frameon=False, fontsize=8, loc="best")


def _line(axes: Axes, at: Sequence[int], values: Sequence[float], colour: str, title: str) -> None:
    """Positive values on a logarithmic axis; zeros, which have no place there, as marks at the bottom."""
    axes.set_title(title)
    drawn = [value if value > 0 and math.isfinite(value) else math.nan for value in values]
    if any(value > 0 for value in drawn):
        axes.set_yscale("log")
        axes.plot(at, drawn, color=colour, marker="o", markersize=3)
        low, high = axes.get_ylim()
        if high < 1e2 * low:  # whole decades, so that ticks are powers of ten
            axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
        axes.minorticks_off()
    zeros = [i for i, value in zip(at, values, strict=True) if value == 0]
    if zeros:
        axes.plot(
            zeros, [0.02] * len(zeros), "v", color=colour, markersize=4, transform=axes.get_xaxis_transform(),
            clip_on=False,
        )  # fmt: skip
        axes.annotate("0", (zeros[0], 0.05), xycoords=("data", "axes fraction"), fontsize=8, ha="center", color=colour)


def _bars(axes: Axes, at: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("inner work")
    wide = 0.8 if len(rows) <= 60 else 1.0
    axes.bar(at, _column(rows, "evaluations"), width=wide, color="#BBD9EE", label="gradients")
    axes.bar(at, _column(rows, "inner_iterations"), width=0.5 * wide, color=COLOURS[0], label="inner iterations")
    axes.legend(frameon=False, fontsize=8, loc="best")


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """The numbers of a column; NaN where there is none."""
    values = [row.get(name) for row in rows]
    return [float(value) if isinstance(value, int | float) else math.nan for value in values]
