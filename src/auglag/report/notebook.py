"""A result in a notebook: a table, and a small plot of its convergence as SVG that needs nothing else."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from auglag.algorithm.trail import Step
from auglag.report.summary import brief

#: Multipliers that are listed; the rest is counted.
LISTED = 12
#: Pixels of the plot, and of the margins on its left, top, right and bottom.
SIZE, MARGIN = (420, 170), (54, 12, 12, 30)
#: What is drawn: kind of step -> (how it is called, colour). The colours are Okabe and Ito's.
CURVES = {
    "inner": ("inner", "#0072B2"),
    "newton": ("Newton", "#009E73"),
    "interior": ("interior points", "#CC79A7"),
    "outer": ("residual R", "#000000"),
}
#: Dots of one curve at most.
DOTS = 400
SOLVED, FAILED = "#009E73", "#D55E00"


def page(result: Mapping[str, Any], multipliers: Mapping[str, Any]) -> str:
    """The result as HTML: status, point, certificate, multipliers by name, convergence."""
    status, check = result["status"], result["certificate"]
    colour = SOLVED if result["success"] else FAILED
    rows = [
        ("f + g", f"{result['fun']:.12g}"),
        ("x", brief(result["x"])),
        ("residual R", f"{check.residual:.2e} (tol {result['tol']:.0e})"),
        ("stationarity, violation, complementarity", ", ".join(f"{part:.2e}" for part in _parts(check))),
        ("scale-free", f"{check.scale_free:.2e}"),
        ("worst", f"{check.worst[0]}: {check.worst[1]:.2e}"),
        ("second order", str(result["second_order"])),
        ("iterations", f"{result['nit']} outer, {result['nit_inner']} inner; {result['seconds']:.3g} s"),
        *[("try", advice) for advice in result["advice"]],
    ]
    return (
        f'<div><p><b style="color:{colour}">{status.name}</b> {_text(result["message"])}</p>'
        f"{_table(rows)}{_multipliers(multipliers)}{convergence(result['steps'], result['tol'])}</div>"
    )


def _parts(check: Any) -> tuple[float, float, float]:
    return check.stationarity, check.violation, check.complementarity


def _multipliers(values: Mapping[str, Any]) -> str:
    if not values:
        return ""
    rows = [(name, brief(value)) for name, value in list(values.items())[:LISTED]]
    if len(values) > LISTED:
        rows.append(("...", f"{len(values)} constraints"))
    return f"<p><b>Multipliers</b> (L = f + y'c)</p>{_table(rows)}"


def _table(rows: Sequence[tuple[str, str]]) -> str:
    style = "text-align:left;padding:1px 8px;vertical-align:top"
    cells = [f'<tr><th style="{style}">{_text(a)}</th><td style="{style}">{_text(b)}</td></tr>' for a, b in rows]
    return f'<table style="font-size:90%">{"".join(cells)}</table>'


def _text(words: Any) -> str:
    return html.escape(str(words))


# ----------------------------------------------------------------------------------------------------------- the plot


def convergence(steps: Sequence[Step], tol: float) -> str:
    """What each step measures (`Step.residual`) on a logarithmic axis, a colour for each kind; tol as a dashed line."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for i, step in enumerate(steps):
        if 0.0 < step.residual < math.inf:
            curves.setdefault(step.kind, []).append((i, step.residual))
    if not curves:
        return ""
    values = [value for curve in curves.values() for _, value in curve]
    low, high = math.floor(math.log10(min(*values, tol))), math.ceil(math.log10(max(*values, tol)))
    axes = _Axes(len(steps), low, max(high, low + 1))
    parts, at = [axes.frame(), axes.level(tol)], MARGIN[0]
    for kind, (name, colour) in CURVES.items():
        if kind in curves:
            parts.append(axes.curve(curves[kind], colour, joined=kind != "outer"))
            parts.append(f'<text x="{at}" y="{SIZE[1] - 4}" fill="{colour}">{_text(name)}</text>')
            at += 12 + 6 * len(name)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE[0]}" height="{SIZE[1]}" role="img" '
        f'aria-label="convergence" font-family="sans-serif" font-size="11">{"".join(parts)}</svg>'
    )


class _Axes:
    """Steps to the right, decades upwards."""

    def __init__(self, count: int, low: int, high: int) -> None:
        self.count, self.low, self.high = count, low, high

    def x(self, i: int) -> float:
        width = SIZE[0] - MARGIN[0] - MARGIN[2]
        return round(MARGIN[0] + width * (i + 0.5) / self.count, 1)

    def y(self, value: float) -> float:
        height = SIZE[1] - MARGIN[1] - MARGIN[3]
        return round(MARGIN[1] + height * (self.high - math.log10(value)) / (self.high - self.low), 1)

    def frame(self) -> str:
        """The left and the lower axis, with a few powers of ten and the number of steps."""
        left, bottom, right = MARGIN[0], SIZE[1] - MARGIN[3], SIZE[0] - MARGIN[2]
        every = max(1, math.ceil((self.high - self.low) / 5))
        marks = "".join(
            f'<text x="{left - 6}" y="{self.y(10.0**k) + 4}" text-anchor="end" fill="#555">1e{k:+03d}</text>'
            f'<line x1="{left}" x2="{right}" y1="{self.y(10.0**k)}" y2="{self.y(10.0**k)}" stroke="#ddd"/>'
            for k in range(self.low, self.high + 1, every)
        )
        label = f'<text x="{right}" y="{bottom + 14}" text-anchor="end" fill="#555">{self.count} steps</text>'
        axes = f'<path d="M{left} {MARGIN[1]}V{bottom}H{right}" fill="none" stroke="#555"/>'
        return marks + axes + label

    def level(self, tol: float) -> str:
        """The tolerance."""
        y, right = self.y(tol), SIZE[0] - MARGIN[2]
        line = f'<line x1="{MARGIN[0]}" x2="{right}" y1="{y}" y2="{y}" stroke="#555" stroke-dasharray="4 3"/>'
        return line + f'<text x="{right}" y="{y - 3}" text-anchor="end" fill="#555">tol</text>'

    def curve(self, values: Sequence[tuple[int, float]], colour: str, *, joined: bool) -> str:
        """A dot for each value, and lines between those of steps in a row."""
        every = max(1, len(values) // DOTS)
        shown = [*values[::every], *([values[-1]] if (len(values) - 1) % every else [])]
        points = [(i, self.x(i), self.y(v)) for i, v in shown]
        path = ""
        for k, (i, x, y) in enumerate(points):
            near = joined and k and i - points[k - 1][0] <= every
            path += f"{'L' if near else 'M'}{x} {y}"
        line = f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>' if joined else ""
        size = 2.0 if joined else 3.4
        return line + "".join(f'<circle cx="{x}" cy="{y}" r="{size}" fill="{colour}"/>' for _, x, y in points)
