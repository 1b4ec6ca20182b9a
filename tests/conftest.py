"""Being here puts this folder on the path, so that tests can import `helpers`."""

from __future__ import annotations

from hypothesis import settings

# Runs must not fail because a machine is slow, and every run must test the same examples.
settings.register_profile("auglag", deadline=None, derandomize=True, database=None)
settings.load_profile("auglag")
