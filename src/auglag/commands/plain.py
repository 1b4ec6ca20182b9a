"""`auglag solve`, `certify` and `doctor` by Python's own argparse, where typer or rich is missing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from auglag._names import nearest
from auglag._version import __version__
from auglag.commands import BAD_USAGE, PROBLEM
from auglag.errors import AuglagError

COMMANDS = ("solve", "certify", "doctor")
#: Commands that need typer and rich.
OTHERS = ("watch", "report", "bench", "compare", "paper")
INSTALL = "pip install 'auglag[cli]'"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors of ours are one sentence, not a traceback. The exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in OTHERS:
        print(f"auglag: auglag {words[0]} needs the packages typer and rich: {INSTALL}", file=sys.stderr)
        return BAD_USAGE
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        hint = nearest(words[0], (*COMMANDS, *OTHERS))
        print(f"auglag: there is no command {words[0]!r}{hint}", file=sys.stderr)
        return BAD_USAGE
    known, unknown = _parser().parse_known_args(words)
    given = vars(known)
    command = given.pop("command")
    if unknown:
        hint = nearest(unknown[0].partition("=")[0], [_option(name) for name in given])
        print(f"auglag: auglag {command or ''} has no option {unknown[0]!r}{hint}", file=sys.stderr)
        return BAD_USAGE
    if command is None:
        _parser().print_help()
        return BAD_USAGE
    from auglag.commands import actions

    try:
        runs: dict[str, Callable[..., int]]
        runs = {"solve": actions.solve, "certify": actions.certify, "doctor": actions.doctor}
        return runs[command](**given)
    except AuglagError as error:
        print(f"auglag: {error}", file=sys.stderr)
        return BAD_USAGE


def _option(name: str) -> str:
    """How an option is written whose value has this name."""
    return "--" + name.removeprefix("as_").replace("_", "-")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="auglag",
        description="The adaptive augmented Lagrangian method for constrained nonconvex optimisation.",
        epilog=f"{', '.join(OTHERS)}: {INSTALL}",
    )
    parser.add_argument("--version", action="version", version=f"auglag {__version__}")
    commands = parser.add_subparsers(dest="command")
    solve = commands.add_parser("solve", help="Solve one problem and show the iterations.")
    solve.add_argument("name", help=PROBLEM)
    solve.add_argument("--variant", default="", help="adaptive-full, always-full, adaptive-short, always-short.")
    solve.add_argument("--preset", default="default", help="default, paper, ialm, ippm, algencan.")
    solve.add_argument("--inner", default="", help="The inner solver; auto chooses.")
    solve.add_argument("--seconds", type=float, help="Wall-clock limit.")
    solve.add_argument("--evaluations", type=int, help="Limit on evaluations.")
    solve.add_argument("--outer", type=int, default=200, help="Limit on outer iterations.")
    solve.add_argument(
        "--json", action="store_true", dest="as_json", help="Print the result as JSON, and nothing else."
    )
    solve.add_argument("--outer-rows", action="store_true", help="Rows for outer iterations only.")
    solve.add_argument("-q", "--quiet", action="store_true", help="No table of iterations.")
    solve.add_argument("--plot", type=Path, help="Draw the iterations into a .png, .svg or .pdf file.")
    solve.add_argument("--log", type=Path, help="Write a line of JSON per step, for `auglag watch`.")
    solve.add_argument("--save", type=Path, help="Save the state after every outer iteration.")
    solve.add_argument("--resume", type=Path, help="Go on from a saved state, bit for bit.")
    certify = commands.add_parser("certify", help="Check a point of any solver.")
    certify.add_argument("name", help=PROBLEM)
    certify.add_argument("solution", type=Path, help="JSON with x, and multipliers if there are any: `solve --json`.")
    for command in (solve, certify):
        command.add_argument("--tol", type=float, default=1e-6, help="Tolerance on the residual R.")
        command.add_argument("--param", action="append", help="A parameter of the problem, in S2MPJ's order.")
        command.add_argument("--source", default="s2mpj", help="s2mpj or pycutest.")
    commands.add_parser("doctor", help="What is installed, and which extras work.")
    return parser
