"""Rows of inequalities taken out of a KKT matrix before it is factorised.

The block of the rows that have a slack is diagonal, -E, and such a row touches few variables. What is left when it is
eliminated is H + J' E^-1 J, which has no more entries than before where the variables of a row meet in H or in other
rows anyway. The matrix becomes smaller, which is what a GPU with its many small fronts waits for, and nothing else
changes: the factorisation would have had to eliminate these rows too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from auglag.model.device.linear import Sparse, chosen
from auglag.model.device.program import Program
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
        self.count = size - left
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


@final
class Condensed:
    """A linear solver that factorises the smaller matrix; see `Sparse`."""

    def __init__(self, condensation: Condensation, solver: Sparse, jit: Callable[..., Any] = jax.jit) -> None:
        self._solver, self._count, self._maps = solver, condensation.count, condensation.maps
        self.name, self.analysis = solver.name, solver.analysis
        self._values, self._right = jit(condensation.values), jit(condensation.right)
        self._whole, self._known = jit(condensation.whole), None
        many = (None, None, 0)
        self._rights = jit(jax.vmap(condensation.right, in_axes=many))
        self._wholes = jit(jax.vmap(condensation.whole, in_axes=(*many, 0)))

    def factor(self, values: Any) -> tuple[int, int] | None:
        """As in `Sparse`: the rows that were taken out have a negative diagonal."""
        self._known = values
        inertia = self._solver.factor(self._values(self._maps, values))
        self.analysis = self._solver.analysis
        return None if inertia is None else (inertia[0], inertia[1] + self._count)

    def solve(self, right: Any) -> Any:
        """As in `Sparse`."""
        before, after = (self._right, self._whole) if right.ndim == 1 else (self._rights, self._wholes)
        smaller = self._solver.solve(before(self._maps, self._known, right))
        return after(self._maps, self._known, right, smaller)


def system_solver(program: Program, name: str | None, *, deterministic: bool) -> Sparse:
    """The linear solver of a program: on a GPU for the smaller matrix."""
    platform, pattern = program.device.platform, program.pattern
    if platform != "gpu":
        return chosen(pattern, platform, name, deterministic=deterministic)
    condensation = Condensation(pattern, program.n + program.rows)
    solver = chosen(condensation.pattern, platform, name, deterministic=deterministic)
    return Condensed(condensation, solver, program.jit)


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
