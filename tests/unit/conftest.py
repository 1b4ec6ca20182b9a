"""Libraries that tests compile go to a folder of the test run, which its worker processes share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    before = os.environ.get("AUGLAG_CACHE_DIR")
    os.environ["AUGLAG_CACHE_DIR"] = str(shared / "libraries")
    yield
    if before is None:
        del os.environ["AUGLAG_CACHE_DIR"]
    else:
        os.environ["AUGLAG_CACHE_DIR"] = before
