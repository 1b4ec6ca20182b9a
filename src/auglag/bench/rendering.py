"""A table of plain cells, and its rendering as markdown, plain text and HTML."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import final

from auglag.errors import InputError

Cell = str | int | float | bool | None


@final
@dataclass(frozen=True, slots=True)
class Table:
    """Named columns, rows of cells, and notes that say what was counted. Numbers are rounded only when shown."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    digits: int = 4  #: significant digits of floats

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError(f"Table.rows must have {len(self.columns)} cells each, got {row!r:.200}")

    def markdown(self) -> str:
        """A pipe table with its title above and its notes below."""
        body = [[_escaped(text) for text in row] for row in self._cells()]
        head = [_escaped(name) for name in self.columns]
        widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        widths = [max(3, width) for width in widths]
        rules = ["-" * (w - right) + ":" * right for w, right in zip(widths, self._right(), strict=True)]
        lines = [f"**{self.title}**", ""] if self.title else []
        lines += ["| " + " | ".join(self._aligned(row, widths)) + " |" for row in (head, rules, *body)]
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines) + "\n"

    def text(self) -> str:
        """Columns of equal width for a terminal."""
        body = self._cells()
        widths = [max(map(len, column)) for column in zip(self.columns, *body, strict=True)]
        lines = [self.title, ""] if self.title else []
        for row in (list(self.columns), ["-" * w for w in widths], *body):
            lines.append("  ".join(self._aligned(row, widths)).rstrip())
        return "\n".join([*lines, *self.notes]) + "\n"

    def html(self) -> str:
        """A `<table>` with everything escaped; numbers have the class `n`."""
        right = self._right()

        def row(cells: list[str], tag: str) -> str:
            pairs = zip(cells, right, strict=True)
            return "".join(f"<{tag}{' class=n' if r else ''}>{html.escape(text)}</{tag}>" for text, r in pairs)

        body = "".join(f"<tr>{row(cells, 'td')}</tr>\n" for cells in self._cells())
        caption = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in self.notes)
        head = f"<thead><tr>{row(list(self.columns), 'th')}</tr></thead>"
        return f"<div class=wide><table>{caption}{head}\n<tbody>{body}</tbody></table></div>{notes}"

    def _cells(self) -> list[list[str]]:
        return [[shown(cell, self.digits) for cell in row] for row in self.rows]

    def _right(self) -> list[bool]:
        """Columns of numbers are aligned to the right."""
        return [
            all(cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool)) for cell in column)
            for column in ([row[j] for row in self.rows] for j in range(len(self.columns)))
        ]

    def _aligned(self, row: list[str], widths: list[int]) -> list[str]:
        pairs = zip(row, widths, self._right(), strict=True)
        return [text.rjust(width) if right else text.ljust(width) for text, width, right in pairs]


def shown(cell: Cell, digits: int = 4) -> str:
    """A cell as text: nothing as a dash, truth as yes or no, large and small floats as 3.414e22."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        mantissa, mark, exponent = f"{cell:.{digits}g}".partition("e")
        return f"{mantissa}e{int(exponent)}" if mark else mantissa
    return str(cell)


def _escaped(text: str) -> str:
    """Text that cannot end a cell or become markup."""
    for special in "\\|<>*_`":
        text = text.replace(special, "\\" + special)
    return text.replace("\n", " ")
