"""`auglag`: AMPL's calls go to `auglag.ampl`, which needs NumPy and SciPy only; commands go to `auglag.cli`."""

from __future__ import annotations

import sys

from auglag import ampl


def main() -> None:
    """Run the command line."""
    if ampl.is_call(sys.argv[1:]):
        sys.exit(ampl.main())
    from auglag import cli

    cli.main()


if __name__ == "__main__":
    main()
