"""The report as a PDF of matplotlib's: text and tables set in pages, figures as they are."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from auglag.bench import plots
from auglag.paper.claims import Claim
from auglag.paper.written import Block, Grid, Heading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A4 across, in inches; the margin; characters of a line of text.
WIDTH, HEIGHT, MARGIN, LINE = 11.69, 8.27, 0.6, 145
#: The type of words; of tables: at most, at least, and the part of it that a character is wide. Points.
SIZE, LARGEST, SMALLEST, PITCH = 10.0, 7.0, 3.6, 0.602
WORDS, TYPEWRITER = ("STIXGeneral", "DejaVu Serif"), ("DejaVu Sans Mono",)  # STIX has no superscript minus
#: Columns wider than this are broken into several lines.
COLUMN = 46


def write(
    file: IO[bytes],
    title: str,
    note: str,
    sections: Sequence[Any],
    said: Callable[[Any], Sequence[Claim]],
    found: Callable[[Any], Sequence[Block]],
    drawn: Mapping[str, Figure | None],
) -> None:
    """All pages: a section begins on a new one, with the paper's statements, and then has its figures and tables."""
    from matplotlib.backends.backend_pdf import PdfPages

    with plots.styled(), PdfPages(file, metadata={"CreationDate": None, "Title": title}) as pages:
        everything = [claim for section in sections for claim in said(section)]
        for page in _pages(title, [*_words(note), *_verdicts(dict.fromkeys(everything))]):
            pages.savefig(page)
        for section in sections:
            lines = list(_verdicts(said(section)))
            missing = [name for name in section.figures if drawn[name] is None]
            lines += [line for name in missing for line in _words(f"{name}: not all of its runs were made.")]
            for block in found(section):
                lines += _lines(block)
            figures = [figure for figure in (drawn[name] for name in section.figures) if figure is not None]
            for page in _pages(section.title, lines):
                pages.savefig(page)
            for figure in figures:
                pages.savefig(figure)


Line = tuple[str, float, tuple[str, ...]]  #: the text, its size and its faces


def _pages(title: str, lines: Sequence[Line]) -> Iterator[Figure]:
    """The lines in pages, each with the title on top."""
    left = list(lines)
    while True:
        page = plots.sheet(WIDTH, HEIGHT)
        page.set_layout_engine("none")
        page.text(MARGIN / WIDTH, 1.0 - MARGIN / HEIGHT, title, fontsize=13.0, va="top")
        y = HEIGHT - MARGIN - 0.42
        while left and y > MARGIN:
            text, size, faces = left.pop(0)
            page.text(MARGIN / WIDTH, y / HEIGHT, text, fontsize=size, family=list(faces), va="top", parse_math=False)
            y -= 1.32 * size / 72.0
        yield page
        if not left:
            return


def _words(text: str, indent: str = "") -> Iterator[Line]:
    for line in textwrap.wrap(text, LINE - len(indent)) or [""]:
        yield indent + line, SIZE, WORDS


def _verdicts(claims: Iterable[Claim]) -> Iterator[Line]:
    for claim in claims:
        yield from _words(f"{claim.where}. The paper: {claim.statement}")
        yield from _words(f"{claim.verdict.upper()}. {claim.why}", "      ")
        yield f"    {claim.command}", LARGEST, TYPEWRITER
        yield "", LARGEST, WORDS


def _lines(block: Block) -> Iterator[Line]:
    if isinstance(block, Grid):
        yield from _grid(block)
    elif isinstance(block, Heading):
        yield from _words(block.text.upper())
    elif block.code:
        yield from ((f"    {line}", LARGEST, TYPEWRITER) for line in block.text.splitlines())
    else:
        yield from _words(block.text)
    yield "", LARGEST, WORDS


def _grid(grid: Grid) -> Iterator[Line]:
    """Columns of equal width, in type small enough for the widest line; long cells in several lines."""
    rows = [[textwrap.wrap(cell, COLUMN) or [""] for cell in row] for row in (grid.head, *grid.rows)]
    widths = [max(len(line) for row in rows for line in row[j]) for j in range(len(grid.head))]
    total = sum(widths) + 2 * (len(widths) - 1)
    size = max(SMALLEST, min(LARGEST, (WIDTH - 2 * MARGIN) * 72.0 / (PITCH * total)))
    for number, row in enumerate(rows):
        for i in range(max(len(cell) for cell in row)):
            cells = [cell[i] if i < len(cell) else "" for cell in row]
            line = "  ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True))
            yield line.rstrip(), size, TYPEWRITER
        if number == 0:
            yield "  ".join("-" * width for width in widths), size, TYPEWRITER
