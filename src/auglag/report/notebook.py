"""A result in a notebook: a table, and a small plot of its convergence as SVG that needs nothing else."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from auglag.report.summary import brief

#: Multipliers that are listed; the rest is counted.
LISTED = 12
#: Pixels of the plot, and of the margins on its left, top, right and bottom.
SIZE, MARGIN = (420, 170), (54, 12, 12, 30)
#: What is drawn: (column of the history, how it is called, colour). The colours are Okabe and Ito's.
CURVES = (("residual", "residual R", "#0072B2"), ("user_violation", "violation", "#D55E00"))
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
        f"{_table(rows)}{_multipliers(multipliers)}{convergence(result['history'], result['tol'])}</div>"
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


def convergence(history: Sequence[Mapping[str, Any]], tol: float) -> str:
    """Residual and violation of every outer iteration on a logarithmic axis, with tol as a dashed line."""
    drawn = [(name, colour, _positive(history, column)) for column, name, colour in CURVES]
    drawn = [curve for curve in drawn if any(value is not None for value in curve[2])]
    if not drawn:
        return ""
    values = [value for _, _, curve in drawn for value in curve if value is not None]
    low, high = math.floor(math.log10(min(*values, tol))), math.ceil(math.log10(max(*values, tol)))
    axes = _Axes(len(history), low, max(high, low + 1))
    parts = [axes.frame(), axes.level(tol)]
    for i, (name, colour, curve) in enumerate(drawn):
        parts.append(axes.curve(curve, colour))
        parts.append(f'<text x="{MARGIN[0] + 8 + 90 * i}" y="{SIZE[1] - 4}" fill="{colour}">{_text(name)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE[0]}" height="{SIZE[1]}" role="img" '
        f'aria-label="convergence" font-family="sans-serif" font-size="11">{"".join(parts)}</svg>'
    )


def _positive(history: Sequence[Mapping[str, Any]], column: str) -> list[float | None]:
    """The values of a column that a logarithmic axis has a place for."""
    values = [row.get(column) for row in history]
    return [v if isinstance(v, float) and 0.0 < v < math.inf else None for v in values]


class _Axes:
    """Outer iterations to the right, decades upwards."""

    def __init__(self, count: int, low: int, high: int) -> None:
        self.count, self.low, self.high = count, low, high

    def x(self, i: int) -> float:
        width = SIZE[0] - MARGIN[0] - MARGIN[2]
        return round(MARGIN[0] + width * (i + 0.5) / self.count, 1)

    def y(self, value: float) -> float:
        height = SIZE[1] - MARGIN[1] - MARGIN[3]
        return round(MARGIN[1] + height * (self.high - math.log10(value)) / (self.high - self.low), 1)

    def frame(self) -> str:
        """The left and the lower axis, with a few powers of ten and the number of iterations."""
        left, bottom, right = MARGIN[0], SIZE[1] - MARGIN[3], SIZE[0] - MARGIN[2]
        every = max(1, math.ceil((self.high - self.low) / 5))
        marks = "".join(
            f'<text x="{left - 6}" y="{self.y(10.0**k) + 4}" text-anchor="end" fill="#555">1e{k:+03d}</text>'
            f'<line x1="{left}" x2="{right}" y1="{self.y(10.0**k)}" y2="{self.y(10.0**k)}" stroke="#ddd"/>'
            for k in range(self.low, self.high + 1, every)
        )
        label = f'<text x="{right}" y="{bottom + 14}" text-anchor="end" fill="#555">outer iteration {self.count}</text>'
        axes = f'<path d="M{left} {MARGIN[1]}V{bottom}H{right}" fill="none" stroke="#555"/>'
        return marks + axes + label

    def level(self, tol: float) -> str:
        """The tolerance."""
        y, right = self.y(tol), SIZE[0] - MARGIN[2]
        line = f'<line x1="{MARGIN[0]}" x2="{right}" y1="{y}" y2="{y}" stroke="#555" stroke-dasharray="4 3"/>'
        return line + f'<text x="{right}" y="{y - 3}" text-anchor="end" fill="#555">tol</text>'

    def curve(self, values: Sequence[float | None], colour: str) -> str:
        """A line through the known values, with a dot at each."""
        points = [(self.x(i), self.y(v)) for i, v in enumerate(values) if v is not None]
        line = " ".join(f"{x},{y}" for x, y in points)
        dots = "".join(f'<circle cx="{x}" cy="{y}" r="2.2" fill="{colour}"/>' for x, y in points[:500])
        return f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>{dots}'
