"""`python -m auglag.ampl STUB -AMPL key=value ...`, what Pyomo calls."""

from __future__ import annotations

import sys

from auglag.ampl import main

if __name__ == "__main__":
    sys.exit(main())
