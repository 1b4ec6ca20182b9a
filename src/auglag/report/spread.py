"""Many results at once in a few lines: how many ended how, and the spread of what matters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from auglag.algorithm.status import Status


def counted(status: Any) -> str:
    """How many ended how, the most first, with their share."""
    numbers, counts = np.unique(status, return_counts=True)
    most_first = sorted(zip(counts.tolist(), numbers.tolist(), strict=True), reverse=True)
    names = {int(one): one.name for one in Status}
    return ", ".join(f"{count} {names[k]} ({percent(count, np.size(status))})" for count, k in most_first)


def spreads(parts: Mapping[str, Any]) -> list[str]:
    """A line for every array of numbers: the median and the extremes."""
    return [f"  {name:>9}: {_spread(np.asarray(values, float))}" for name, values in parts.items()]


def _spread(values: Any) -> str:
    known = values[np.isfinite(values)]
    if not known.size:
        return "not finite"
    text = f"median {np.median(known):.4g}, from {known.min():.4g} to {known.max():.4g}"
    return text + (f", {values.size - known.size} not finite" if known.size < values.size else "")


def percent(count: int, total: int) -> str:
    """A share that says 100 % only of all, and 0 % only of none."""
    share = 100.0 * count / total
    text = f"{share:.1f}"
    if count < total and text == "100.0":
        return "> 99.9 %"
    return "< 0.1 %" if text == "0.0" else f"{text.removesuffix('.0')} %"
