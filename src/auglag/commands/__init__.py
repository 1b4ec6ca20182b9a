"""What `auglag solve`, `auglag certify` and `auglag doctor` do, and a command line for them that needs nothing else.

`auglag.cli` is the whole command line, with `pip install 'auglag[cli]'`; its commands of these names call the same
functions.
"""

from __future__ import annotations

from auglag.algorithm.status import Status

#: Exit codes of `auglag solve`: 0 solved, and one for each kind of failure.
EXIT_CODES = {
    Status.SOLVED: 0,
    Status.INFEASIBLE: 3,
    Status.UNBOUNDED: 4,
    Status.ITERATION_LIMIT: 5,
    Status.EVALUATION_LIMIT: 5,
    Status.TIME_LIMIT: 5,
    Status.INTERRUPTED: 130,
}
BAD_USAGE = 2
FAILED = 6
PROBLEM = "A CUTEst problem (HS71), an AMPL file (model.nl), or file.py:object, an auglag.Problem."
