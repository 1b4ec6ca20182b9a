"""When a violation counts as falling."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")

from auglag.torch.reporting import falling


@pytest.mark.parametrize(
    ("violations", "expected"),
    [([1.0], False), ([1.0, 0.5], True), ([1.0, 0.9], False), ([3.0, 1.01, 1.0, 1.0], False), ([2.0, 2.0, 1.0], True)],
)
def test_a_violation_falls_if_the_second_half_is_clearly_below_the_first(violations, expected):
    assert falling(violations) is expected
