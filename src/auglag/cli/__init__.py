"""The command line: `auglag solve`, `auglag watch`, `auglag bench`, `auglag paper` and others.

Each command is a thin layer: it reads options, calls one function of the library, shows progress and says where the
results are. To add a command, write a function in a module here, decorate it with `app.command()`, and import the
module below.
"""

from __future__ import annotations

import sys

from auglag import ampl
from auglag.cli import bench, compare, doctor, paper, report, solve, watch
from auglag.cli.base import BAD_USAGE, EXIT_CODES, app, err
from auglag.errors import AuglagError

__all__ = ["EXIT_CODES", "app", "bench", "compare", "doctor", "main", "paper", "report", "solve", "watch"]


def main() -> None:
    """Run the command line; errors of ours are one sentence, not a traceback."""
    if ampl.is_call(sys.argv[1:]):
        sys.exit(ampl.main())
    if len(sys.argv) > 1 and sys.argv[1].endswith(".nl"):
        name, stub = sys.argv[1], sys.argv[1].removesuffix(".nl")
        err.print(
            f"auglag: {name} is not a command: `auglag solve {name}` solves it and shows the result, `auglag {stub} "
            f"-AMPL` writes {stub}.sol",
            markup=False,
        )
        sys.exit(BAD_USAGE)
    try:
        app()
    except AuglagError as error:
        err.print(f"auglag: {error}", markup=False)
        sys.exit(BAD_USAGE)
