"""Being here puts this folder on the path, so that tests can import `helpers`."""

from __future__ import annotations

import os

# One thread for each process: the matrices here are tiny, and threads of BLAS only get in each other's way. To be set
# before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from hypothesis import settings

# Runs must not fail because a machine is slow, and every run must test the same examples.
settings.register_profile("auglag", deadline=None, derandomize=True, database=None)
settings.load_profile("auglag")
