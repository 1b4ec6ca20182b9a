"""`auglag`: AMPL's calls go to `auglag.ampl`, commands to `auglag.cli`, without typer to `auglag.commands`."""

from __future__ import annotations

import importlib.util
import sys

from auglag._version import described


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["-v"]:  # AMPL and Pyomo ask for it before every solve: nothing is imported for an answer
        print(described())
        return
    from auglag import ampl

    if ampl.is_call(sys.argv[1:]):
        sys.exit(ampl.main())
    if any(importlib.util.find_spec(name) is None for name in ("typer", "rich")):
        from auglag.commands import plain

        sys.exit(plain.main())
    from auglag import cli

    cli.main()


if __name__ == "__main__":
    main()
