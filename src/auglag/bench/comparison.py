"""Two solvers side by side: who solves what, who is cheaper where both do, and whether that could be chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np

from auglag.bench.profiles import Cost, Solved, axes, checked_floor, costs_of, gradients, grid, judged
from auglag.bench.record import Record


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """Solver a against solver b on the same problems. Ratios are cost of a over cost of b: below 1, a is cheaper."""

    a: str
    b: str
    both: tuple[str, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    neither: tuple[str, ...]
    cheaper_a: int  #: of `both`, where a costs less
    cheaper_b: int
    ties: int  #: of `both`, equal cost
    median_ratio: float  #: over `both`; NaN if there is none
    geometric_mean_ratio: float
    p_value: float  #: two-sided sign test on `wins_a` against `wins_b`; ties and `neither` say nothing

    @property
    def wins_a(self) -> int:
        """Problems that only a solves, or both and a at less cost."""
        return len(self.only_a) + self.cheaper_a

    @property
    def wins_b(self) -> int:
        """Problems that only b solves, or both and b at less cost."""
        return len(self.only_b) + self.cheaper_b


def compare(
    records: Iterable[Record],
    a: str,
    b: str,
    *,
    cost: Cost = gradients,
    solved: Solved | None = None,
    problems: Iterable[str] | None = None,
    floor: float = 1.0,
) -> Comparison:
    """Two solvers side by side; missing records are failures, costs below `floor` count as `floor`."""
    table = grid(records)
    names, rows = axes(table, (a, b), problems)
    costs, ok, _ = costs_of(table, names, rows, cost, solved or judged(1e-6), checked_floor(floor))
    both, only_a, only_b = ok.all(axis=1), ok[:, 0] & ~ok[:, 1], ok[:, 1] & ~ok[:, 0]
    logs = np.log(costs[both, 0]) - np.log(costs[both, 1])
    cheaper_a, cheaper_b = (int(np.sum(costs[both, i] < costs[both, 1 - i])) for i in (0, 1))
    label = np.array(rows)
    return Comparison(
        a=a,
        b=b,
        both=tuple(label[both].tolist()),
        only_a=tuple(label[only_a].tolist()),
        only_b=tuple(label[only_b].tolist()),
        neither=tuple(label[~ok.any(axis=1)].tolist()),
        cheaper_a=cheaper_a,
        cheaper_b=cheaper_b,
        ties=int(np.sum(both)) - cheaper_a - cheaper_b,
        median_ratio=float(np.median(costs[both, 0] / costs[both, 1])) if logs.size else math.nan,
        geometric_mean_ratio=float(np.exp(logs.mean())) if logs.size else math.nan,
        p_value=sign_test(int(np.sum(only_a)) + cheaper_a, int(np.sum(only_b)) + cheaper_b),
    )


def pairwise(records: Sequence[Record], *, cost: Cost = gradients, solved: Solved | None = None) -> list[Comparison]:
    """`compare` for every pair of solvers, on all problems that any solver has a record of."""
    table = grid(records)
    _, rows = axes(table, None, None)
    return [compare(records, a, b, cost=cost, solved=solved, problems=rows) for a, b in combinations(table, 2)]


def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided p-value of so uneven a split if either side were as likely to win; 1 without any."""
    total, fewer = wins + losses, min(wins, losses)
    tail = sum(math.comb(total, k) for k in range(fewer + 1))
    return min(1.0, float(2 * tail / 2**total))
