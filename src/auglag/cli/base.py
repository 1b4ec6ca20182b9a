"""What all commands share: the application, the two consoles, exit codes, and options that several commands take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
except ImportError as error:  # pragma: no cover - seen only without the extra
    sys.exit(f"the command line needs {error.name}: pip install 'auglag[cli]'")

from auglag._version import __version__
from auglag.commands import BAD_USAGE, EXIT_CODES, FAILED, PROBLEM

#: Ctrl-C.
INTERRUPTED = 130

__all__ = ["BAD_USAGE", "EXIT_CODES", "FAILED", "PROBLEM"]

app = typer.Typer(
    help="The adaptive augmented Lagrangian method for constrained nonconvex optimisation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
paper = typer.Typer(help="Redo the paper's experiments.", no_args_is_help=True)
app.add_typer(paper, name="paper")
out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)

Workers = Annotated[int, typer.Option(help="Worker processes on this machine; 0 means one for each core.")]
Cluster = Annotated[str, typer.Option(help="Address of a Dask scheduler, tcp://host:port, to run there instead.")]
Redo = Annotated[bool, typer.Option("--redo", help="Do runs again that another version of their solver made.")]
Quick = Annotated[bool, typer.Option("--quick", help="A fixed sample of the problems, with smaller limits.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for the store, figures and tables.")]
Source = Annotated[str, typer.Option(help="s2mpj or pycutest.")]
Params = Annotated[list[str] | None, typer.Option(help="A parameter of the problem, in S2MPJ's order.")]
Solvers = Annotated[
    list[str] | None,
    typer.Option("--solver", "-s", help="NAME, file.py:Class, or either with :OPTION=VALUE,...; see bench --list."),
]
Gradients = Annotated[int, typer.Option(help="Limit on gradients of one run.")]
Seconds = Annotated[float, typer.Option(help="Limit on CPU seconds of one run.")]
Memory = Annotated[float, typer.Option(help="Limit on the memory of one run, MiB.")]


def _version(value: bool) -> None:
    if value:
        print(f"auglag {__version__}")
        raise typer.Exit


@app.callback()
def _root(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False) -> None:
    """Options of every command."""
