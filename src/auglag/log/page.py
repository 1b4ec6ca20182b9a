"""The page that shows a run: alone in a file, or served as the run goes. It asks for nothing from outside."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from auglag.log.reader import LogReader
from auglag.report.pages import filled


def snapshot(
    reader: LogReader, *, generation: int = -1, iterations: int = 0, tests: int = 0, course: int = 0
) -> dict[str, Any]:
    """What is new to someone who knows so many rows of a generation; everything, if that is not the current one."""
    run = reader.run
    same = generation == reader.generation
    words = ""
    if run is None:
        words = f"There is no run in {reader.path} yet."
    elif reader.state == "gone":
        words = "The process ended without writing how: it was killed, or it crashed. These are its last rows."
    return {
        "generation": reader.generation,
        "state": reader.state,
        "words": words,
        "bad": reader.bad,
        "start": None if run is None else run.start,
        "end": None if run is None else run.end,
        "iterations": [] if run is None else run.iterations[iterations if same else 0 :],
        "course": [] if run is None else run.course[course if same else 0 :],
        "tests": [] if run is None else run.tests[tests if same else 0 :],
    }


def page(data: dict[str, Any] | None, *, title: str = "auglag watch") -> str:
    """The page, with a snapshot inside it, or with None, which makes it ask its server."""
    return filled("auglag.log", "watch", data, {"title": html.escape(title)})


def write(path: Path, reader: LogReader) -> None:
    """The run so far as one file."""
    title = "auglag watch" if reader.run is None else reader.run.name
    path.write_text(page(snapshot(reader), title=title), encoding="utf-8", newline="\n")
