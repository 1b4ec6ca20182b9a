"""Rows of inequalities taken out of the KKT matrices of a batch before they are factorised.

The block of the rows that have a slack is diagonal, -E, and such a row touches few variables. What is left when it is
eliminated is H + J' E^-1 J, which has no more entries than before where the variables of a row meet in H or in other
rows anyway. The matrices become smaller, half as large for power flow, and the batch faster. Single matrices are not
condensed: large ones were factorised a tenth faster on a GPU, but solved less accurately, and 30,000 buses took more
steps.
"""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from auglag.model.device.tuning import TUNING
from auglag.model.structure import Pattern


@final
class Condensation:
    """Which rows are taken out, and where every entry goes. `rows` are indices of candidates: a diagonal block."""

    def __init__(self, pattern: Pattern, rows: NDArray[np.int64]) -> None:
        size = pattern.shape[0]
        out = np.zeros(size, dtype=bool)
        out[rows] = True
        diagonal = pattern.row == pattern.column
        entries = np.bincount(pattern.column[~diagonal], minlength=size)
        out &= entries <= TUNING.most_condensed
        touching = np.flatnonzero(out[pattern.column] & ~diagonal)
        first, second = _pairs(pattern.column[touching], touching)
        owner = pattern.column[first]
        a, b = pattern.row[first], pattern.row[second]
        keys = np.minimum(a, b) * np.int64(size) + np.maximum(a, b)
        known = np.isin(keys, pattern.row * np.int64(size) + pattern.column)
        fresh = np.bincount(owner[~known], minlength=size)
        out &= fresh <= entries + 1  # no more entries come than go
        used = out[owner]
        first, second, owner, a, b = (part[used] for part in (first, second, owner, a, b))
        stays = np.flatnonzero(~out[pattern.column])
        place = np.cumsum(~out) - 1  # index before -> index after
        row = np.concatenate([pattern.row[stays], np.minimum(a, b)])
        column = np.concatenate([pattern.column[stays], np.maximum(a, b)])
        left = size - int(out.sum())
        self.pattern = Pattern(place[row], place[column], (left, left))
        gone, number = np.flatnonzero(out), np.cumsum(out) - 1
        touching = np.flatnonzero(out[pattern.column] & ~diagonal)
        own = np.zeros(size, dtype=np.int64)
        own[pattern.column[diagonal]] = np.flatnonzero(diagonal)
        maps = {
            "stays": stays,
            "places": self.pattern.places,
            "first": first,
            "second": second,
            "owner": number[owner],
            "diagonal": own[gone],
            "entry": touching,
            "entry_row": number[pattern.column[touching]],
            "entry_variable": place[pattern.row[touching]],
            "kept": np.flatnonzero(~out),
            "gone": gone,
        }
        self.maps = {key: jnp.asarray(value.astype(np.int32)) for key, value in maps.items()}

    def values(self, maps: Any, values: Any) -> Any:
        """The entries of the smaller matrix."""
        inverse = 1.0 / values[maps["diagonal"]]
        products = values[maps["first"]] * values[maps["second"]] * inverse[maps["owner"]]
        parts = jnp.concatenate([values[maps["stays"]], -products])
        return jnp.zeros(self.pattern.nnz).at[maps["places"]].add(parts)

    def right(self, maps: Any, values: Any, right: Any) -> Any:
        """The right side of the smaller system."""
        share = right[maps["gone"]] / values[maps["diagonal"]]
        parts = values[maps["entry"]] * share[maps["entry_row"]]
        return right[maps["kept"]].at[maps["entry_variable"]].add(-parts)

    def whole(self, maps: Any, values: Any, right: Any, solution: Any) -> Any:
        """The solution of the system from that of the smaller one."""
        parts = values[maps["entry"]] * solution[maps["entry_variable"]]
        rows = right[maps["gone"]].at[maps["entry_row"]].add(-parts) / values[maps["diagonal"]]
        return jnp.zeros_like(right).at[maps["kept"]].set(solution).at[maps["gone"]].set(rows)


def _pairs(owner: NDArray[np.int64], entries: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs (a, b), a not after b, of entries with the same owner."""
    order = np.argsort(owner, kind="stable")
    entries, owner = entries[order], owner[order]
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]]) if owner.size else np.zeros(0, np.int64)
    counts = np.diff(np.r_[starts, owner.size])
    ends = np.repeat(starts + counts, counts)
    partners = ends - np.arange(owner.size)  # itself and those behind it
    first = np.repeat(np.arange(owner.size), partners)
    second = first + np.arange(first.size) - np.repeat(np.cumsum(partners) - partners, partners)
    return entries[first], entries[second]
