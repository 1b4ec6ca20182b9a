"""Names at the ends of lines, moved apart so that none covers another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import numpy as np

from auglag.bench.style import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

#: Points.
SIZE = 8.0


@final
class EndLabels:
    """The names to the right of one plot, each tied to its line by a thin one.

    `sampled` draws a piece of the line before each name: for plots with so many lines that colours repeat.
    """

    def __init__(self, axes: Axes, *, sampled: bool) -> None:
        self.axes, self.sampled = axes, sampled
        self.texts: list[Text] = []
        self._wanted: list[float] = []
        self._leaders: list[Line2D] = []
        self._samples: list[Line2D] = []

    def add(self, name: str, y: float, look: Look) -> None:
        """Name the line that ends at the right edge at height y."""
        axes, across = self.axes, self.axes.get_yaxis_transform()
        self._wanted.append(y)
        self._leaders += axes.plot([1.0, 1.03], [y, y], color=look.ink, linewidth=0.6, transform=across, clip_on=False)
        if self.sampled:
            self._samples += axes.plot(
                [1.04, 1.115], [y, y], color=look.colour, linestyle=look.line, transform=across, clip_on=False
            )
        x = 1.13 if self.sampled else 1.04
        text = axes.text(x, y, name, color=look.ink, fontsize=SIZE, va="center", transform=across, parse_math=False)
        self.texts.append(text)

    def place(self) -> None:
        """Move the names apart; the layout has to be final."""
        points = self.axes.get_window_extent().height * 72.0 / self.axes.figure.dpi
        low, high = self.axes.get_ylim()
        gap = 1.12 * SIZE / points * (high - low)
        heights = spread(self._wanted, gap, low, high - 0.4 * gap)  # the top of a name must not leave the page
        for text, leader, wanted, y in zip(self.texts, self._leaders, self._wanted, heights, strict=True):
            text.set_y(y)
            leader.set_ydata([wanted, y])
        for sample, y in zip(self._samples, heights, strict=False):  # none, or one for each
            sample.set_ydata([y, y])


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions nearest to those wanted (least squares), in their order, at least `gap` apart within [low, high].

    Where there is no room the gap is made smaller. Equal wishes keep the order in which they come.
    """
    number = len(wanted)
    if number == 0:
        return []
    gap = min(gap, (high - low) / max(number - 1, 1))
    order = sorted(range(number), key=lambda i: wanted[i])
    # Shifted by i * gap the demand is "not decreasing": isotonic regression, by pooling neighbours that violate it.
    pools: list[tuple[float, int]] = []
    for rank, i in enumerate(order):
        mean, size = wanted[i] - rank * gap, 1
        while pools and pools[-1][0] > mean:
            other, more = pools.pop()
            mean, size = (mean * size + other * more) / (size + more), size + more
        pools.append((mean, size))
    flat = [mean for mean, size in pools for _ in range(size)]
    shifted = np.clip(flat, low, high - (number - 1) * gap)
    placed = [0.0] * number
    for rank, i in enumerate(order):
        placed[i] = float(shifted[rank]) + rank * gap
    return placed
