"""`auglag report`: an HTML file from a store of records, or from the log of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auglag.cli.base import app, out
from auglag.errors import InputError

if TYPE_CHECKING:
    from auglag.bench.record import Record


@app.command()
def report(
    source: Annotated[
        Path, typer.Argument(help="A store of `bench`, `compare` or `paper` or its folder, or the log of a run.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; by default beside the source.")
    ] = None,
    title: Annotated[str, typer.Option(help="Its title.")] = "",
) -> None:
    """One HTML file that needs nothing else: every run of a store to look into, or one run iteration by iteration."""
    if not source.exists():
        raise InputError(f"there is no {str(source)!r}")
    if output is not None and not output.parent.is_dir():
        raise InputError(f"--output must lie in an existing folder, got {str(output)!r}")
    target = _of_log(source, output) if _is_log(source) else _of_store(source, output, title)
    out.print(f"Report: {target}", markup=False)


def _is_log(source: Path) -> bool:
    """Whether it is the log of a run: by its name, or, as logs may have any, because it begins as one does."""
    if source.suffix == ".jsonl":
        return True
    if not source.is_file():
        return False
    with source.open("rb") as file:
        return file.read(1) == b"{"


def _of_log(source: Path, output: Path | None) -> Path:
    from auglag.log import LogReader, page

    reader = LogReader(source)
    reader.poll()
    if reader.run is None:
        raise InputError(f"there is no run in {source} yet")
    target = output or source.with_suffix(".html")
    page.write(target, reader)
    return target


def _of_store(source: Path, output: Path | None, title: str) -> Path:
    from auglag.bench import report as pages
    from auglag.bench.gathering import find_store, gather
    from auglag.bench.profiles import subproblem_gradients
    from auglag.bench.store import Store

    store = find_store(source)
    with Store(store) as opened:
        plain = list(opened.records())
    if not plain:
        raise InputError(f"there are no records in {store}")
    sections = pages.paper_sections(plain, cost=subproblem_gradients) if _of_the_paper(plain) else []
    if not sections:
        sections = [pages.Section(title or "All records", gather([store]))]
    target = output or store.with_suffix(".html")
    return pages.write(target, sections, title=title or f"Records of {store.name}")


def _of_the_paper(records: Sequence[Record]) -> bool:
    """Whether the records are those of the paper's figure, which has settings of its own."""
    options = [record.run.options for record in records]
    return all(chosen.get("preset") == "paper" and "gamma" in chosen for chosen in options)
