"""The markdown files of the experiments, read back: headings, paragraphs and pipe tables, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph, or a block of code."""

    text: str
    code: bool = False


@final
@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the second level or below."""

    text: str


@final
@dataclass(frozen=True, slots=True)
class Grid:
    """A pipe table: its head, and its rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block = Words | Heading | Grid


def blocks(path: Path, part: str = "", *, grids: int | None = None) -> list[Block]:
    """What `path` holds; only what stands below the heading `part`, if given, and at most so many tables."""
    found = list(_parsed(path.read_text(encoding="utf-8")))
    if part:
        at = next((i for i, block in enumerate(found) if block == Heading(part)), None)
        if at is None:
            return []
        end = next((i for i in range(at + 1, len(found)) if isinstance(found[i], Heading)), len(found))
        found = found[at + 1 : end]
    if grids is not None:
        seen = [i for i, block in enumerate(found) if isinstance(block, Grid)]
        found = found[: seen[grids - 1] + 1] if len(seen) >= grids else found
    return found


def _parsed(text: str) -> Iterator[Block]:
    for chunk in re.split(r"\n\s*\n", text.strip("\n")):
        lines = chunk.splitlines()
        if chunk.startswith("# ") or chunk.startswith("!["):
            continue
        if chunk.startswith("#"):
            yield Heading(plain(chunk.lstrip("#").strip()))
        elif lines and all(line.startswith("|") for line in lines) and len(lines) >= 2:
            head, _, *rows = (_cells(line) for line in lines)
            yield Grid(head, tuple(rows))
        elif all(line.startswith("    ") for line in lines):
            yield Words("\n".join(line[4:] for line in lines), code=True)
        else:
            yield Words(plain(" ".join(line.strip() for line in lines)))


def _cells(line: str) -> tuple[str, ...]:
    inside = line.strip().removeprefix("|").removesuffix("|")
    return tuple(plain(cell.strip()) for cell in re.split(r"(?<!\\)\|", inside))


def plain(text: str) -> str:
    """Without the marks of markdown: emphasis, links, escapes."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(?<!\\)(\*\*|`)", "", text)
    return re.sub(r"\\([\\|<>*_`])", r"\1", text)
