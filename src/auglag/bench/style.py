"""How plots of experiments look: colours for every eye, line styles, type for print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, final

#: Okabe and Ito's colours, told apart by every kind of colour vision; without the yellow, too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#7F7F7F")

Dashes = tuple[float, ...]
#: Line styles as dash patterns in points, so that print in grey still tells lines apart.
DASHES: tuple[Dashes, ...] = ((), (5, 1.6), (1.2, 1.4), (6, 1.6, 1.2, 1.6), (3, 1.2), (8, 1.6, 1.2, 1.6, 1.2, 1.6))

#: The paper's variants look the same in every figure, whatever else is drawn.
KNOWN = {"Adaptive-Full": 0, "Always-Full": 1, "Adaptive-Short": 2, "Always-Short": 3}

#: Settings of matplotlib: a serif type that it brings along, thin rules, the same file from the same data.
RC: dict[str, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "lines.dash_capstyle": "butt",
    "xtick.direction": "out",
    "ytick.direction": "out",
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "auglag",
}


@final
@dataclass(frozen=True, slots=True)
class Look:
    """The colour and the dashes of one solver, in every plot of a figure."""

    colour: str
    dashes: Dashes

    @property
    def line(self) -> tuple[float, Any]:
        """matplotlib's `linestyle`."""
        return (0.0, self.dashes or None)

    @property
    def ink(self) -> str:
        """The colour, darkened where small type in it would be pale on white."""
        parts = [int(self.colour[i : i + 2], 16) for i in (1, 3, 5)]
        weight = 0.299 * parts[0] + 0.587 * parts[1] + 0.114 * parts[2]
        factor = min(1.0, 115.0 / max(weight, 1.0))
        return "#" + "".join(f"{round(part * factor):02X}" for part in parts)


def looks(solvers: Sequence[str]) -> dict[str, Look]:
    """A look for each solver: the paper's variants always the same, others in their order, no two alike up to 48."""
    taken = {KNOWN[name] for name in solvers if name in KNOWN}
    free = (i for i in count() if i not in taken)
    chosen = {name: KNOWN[name] if name in KNOWN else next(free) for name in dict.fromkeys(solvers)}
    rounds = {name: divmod(i, len(COLOURS)) for name, i in chosen.items()}
    # Neighbours differ in both; with every round of the colours the dashes move on by one.
    return {name: Look(COLOURS[j], DASHES[(j + i) % len(DASHES)]) for name, (i, j) in rounds.items()}
