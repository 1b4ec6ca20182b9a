"""`auglag watch`: a run as it goes, from its log."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from auglag.cli.base import INTERRUPTED, app, err, out
from auglag.errors import InputError
from auglag.log import LoggedRun, LogReader
from auglag.report.progress import HEADER, table_line

#: Seconds between two looks at the file.
PAUSE = 0.25


@app.command()
def watch(
    log: Annotated[Path, typer.Argument(help="The log of a run (`solve --log`, auglag.JsonLog), or its folder.")],
    once: Annotated[bool, typer.Option("--once", help="Show the run as it is now, and end.")] = False,
    web: Annotated[bool, typer.Option("--web", help="Show it in a browser: a page of this machine only.")] = False,
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes a free one.")] = 0,
    outer: Annotated[bool, typer.Option("--outer", help="Outer iterations only, not the steps between them.")] = False,
) -> None:
    """Watch a run that is going on, or look at one that has ended. The log may not be there yet.

    In a terminal, a view that changes as the run goes; in a pipe, a line per step and per iteration. Ends with the run,
    or with Ctrl-C; the page of --web is served until Ctrl-C.
    """
    reader = LogReader(chosen(log))
    reader.poll()
    try:
        if web:
            _serve(reader, port)
        elif once:
            _show(reader, outer)
        elif out.is_terminal:
            _follow(reader, outer)
        else:
            _print(reader, outer)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def chosen(path: Path) -> Path:
    """The log: the file, or the newest .jsonl of a folder."""
    if not path.is_dir():
        return path
    logs = sorted(path.glob("*.jsonl"), key=lambda file: file.stat().st_mtime)
    if not logs:
        raise InputError(f"the folder {str(path)!r} has no .jsonl file")
    return logs[-1]


def _show(reader: LogReader, outer: bool) -> None:
    from auglag.cli import live

    run = reader.run
    if run is None:
        raise InputError(f"there is no run in {reader.path} yet")
    if out.is_terminal:
        out.print(live.view(reader, width=out.width, height=out.height, outer=outer))
        return
    out.print(f"{run.name}: {live.words(reader)}", markup=False)
    for i, row in enumerate(run.shown(outer=outer)):
        if i % 20 == 0:
            out.print(HEADER, markup=False)
        out.print(table_line(row), markup=False)
    _last_word(run, live.words(reader))


def _follow(reader: LogReader, outer: bool) -> None:
    """In a terminal: the view, again and again."""
    from auglag.cli import live

    with Live(console=out, auto_refresh=False, vertical_overflow="crop") as shown:
        while True:
            shown.update(live.view(reader, width=out.width, height=out.height - 1, outer=outer), refresh=True)
            if reader.state in ("finished", "gone"):
                break
            time.sleep(PAUSE)
            reader.poll()


def _print(reader: LogReader, outer: bool) -> None:
    """In a pipe: each row once, as it comes."""
    from auglag.cli import live

    generation, printed = -1, 0
    if reader.run is None:
        err.print(f"waiting for {reader.path}", markup=False)
    while True:
        run = reader.run
        if run is not None:
            if generation != reader.generation:
                generation, printed = reader.generation, 0
                print(f"{run.name}: {live.words(reader)}")
            for row in run.shown(outer=outer)[printed:]:
                if printed % 20 == 0:
                    print(HEADER)
                print(table_line(row), flush=True)
                printed += 1
            if reader.state in ("finished", "gone"):
                _last_word(run, live.words(reader))
                return
        time.sleep(PAUSE)
        reader.poll()


def _last_word(run: LoggedRun, state: str) -> None:
    if run.end is None:
        print(f"{run.name}: {state}")
    else:
        print("\n".join([str(run.end.get("message")), *(f"Try: {text}" for text in run.end.get("advice") or ())]))


def _serve(reader: LogReader, port: int) -> None:
    from auglag.log.server import PageServer

    if not 0 <= port <= 65535:
        raise InputError(f"--port must lie between 0 and 65535, got {port}")
    with PageServer(reader, port) as server:
        out.print(f"{reader.path}: {server.url} (Ctrl-C ends)", markup=False)
        server.serve_forever()
