"""The gaps between rates of groups as rows of a problem, and the way back from these rows to pairs of groups.

|p_g - p_h| <= bound for all pairs of G groups are G (G - 1) / 2 rows, and a solution makes many active at once: all
groups at the top with all at the bottom. The same set is |p_g - level| <= bound / 2 for all groups, with a level to
choose: G rows. They are what `fit` solves for three groups and more; two groups have one gap, and need no level. In the
steps of `partial_fit` a level is no variable, which would move by noisy steps and lag behind the rates: it is the best
one for the rates and multipliers of the moment (`best_level`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from auglag._typing import Matrix, Vector


@final
@dataclass(frozen=True, slots=True)
class Gaps:
    """All pairs of groups, within each class in which they are compared (`suffixes`, one per class)."""

    groups: Sequence[Any]
    suffixes: Sequence[str]
    bound: float
    levels: int  #: levels among the variables: one per class or none
    free: bool  #: levels are no variables: rows are the rates of the groups themselves

    @classmethod
    def of(cls, groups: Sequence[Any], classes: Sequence[Any], bound: float, *, levels: bool = True) -> Gaps:
        """Pairs are named after their class where there is more than one; `levels`: whether levels are variables."""
        suffixes = [f" of class {label}" for label in classes] if len(classes) > 1 else [""]
        suffixes = suffixes if groups else []
        many = len(groups) > 2
        return cls(groups, suffixes, bound, len(suffixes) if levels and many else 0, many and not levels)

    @property
    def by_group(self) -> bool:
        """Whether there is a row for every group, and not for the one pair."""
        return self.levels > 0 or self.free

    @property
    def names(self) -> list[str]:
        """Of the rows."""
        if not self.by_group:
            return self.pairs
        return [f"{group}{suffix}" for suffix in self.suffixes for group in self.groups]

    @property
    def width(self) -> float:
        """What the absolute value of every row is bounded by."""
        return self.bound / 2.0 if self.by_group else self.bound

    @property
    def factors(self) -> Matrix:
        """Of the groups' rates, class by class, and of the levels behind them (columns) in every row."""
        one, classes = np.eye(len(self.groups)), np.eye(len(self.suffixes))
        if self.levels:
            return np.hstack([np.kron(classes, one), np.kron(classes, -np.ones((len(one), 1)))])
        first, second = self._numbers()
        return np.kron(classes, one if self.free else one[first] - one[second])

    @property
    def pairs(self) -> list[str]:
        """Their names."""
        first, second = self._numbers()
        some = [(self.groups[i], self.groups[j]) for i, j in zip(first, second, strict=True)]
        return [f"{one} - {other}{suffix}" for suffix in self.suffixes for one, other in some]

    def between(self, rows: Vector) -> dict[str, float]:
        """Pair -> its gap, from the values of the rows."""
        if self.by_group:
            first, second = self._numbers()
            by_class = rows.reshape(len(self.suffixes), len(self.groups))
            rows = (by_class[:, first] - by_class[:, second]).ravel()
        return dict(zip(self.pairs, rows.tolist(), strict=True))

    def to_pairs(self, y: Vector) -> Vector:
        """Multipliers of the pairs from those of the rows: every group at the top is priced against all at the bottom.

        A pair gets the product of its rows' multipliers over their sum on one side. Then the pairs of a group add up to
        the multiplier of its row, and the absolute values to the price of `bound`. Where several groups are at the top
        or at the bottom, others do so too: these are the ones that favour no pair.
        """
        if not self.by_group:
            return y
        first, second = self._numbers()
        found = []
        for part in y.reshape(len(self.suffixes), len(self.groups)):
            above, below = np.maximum(part, 0.0), np.maximum(-part, 0.0)
            total = max(float(above.sum()), float(below.sum()))
            shared = np.outer(above, below) / (total if total > 0.0 else 1.0)
            found.append((shared - shared.T)[first, second])
        return np.concatenate(found)

    def from_pairs(self, multipliers: Vector) -> Vector | None:
        """Multipliers of the rows from those of the pairs; None if there are not as many pairs."""
        if multipliers.shape != (len(self.pairs),):
            return None
        if not self.by_group:
            return multipliers
        first, second = self._numbers()
        rows = np.zeros((len(self.suffixes), len(self.groups)))
        for row, part in zip(rows, multipliers.reshape(len(self.suffixes), -1), strict=True):
            np.add.at(row, first, part)
            np.subtract.at(row, second, part)
        return rows.ravel()

    def _numbers(self) -> tuple[Any, Any]:
        """The two groups of every pair."""
        return np.triu_indices(len(self.groups), 1)


def best_level(rates: Vector, weights: Vector, half: float) -> float:
    """The level with the smallest sum of weights * (distance of a rate to [level - half, level + half])^2.

    Where all rates fit, it is their middle. Else the derivative, which rises with the level and is linear between the
    points where a rate enters or leaves, is zero at one place only.
    """
    low, high = float(rates.min()), float(rates.max())
    if high - low <= 2.0 * half:
        return 0.5 * (low + high)
    points = np.sort(np.concatenate([rates - half, rates + half]))
    off = rates[None, :] - points[:, None]
    slopes = ((np.minimum(off + half, 0.0) + np.maximum(off - half, 0.0)) * -weights).sum(axis=1)
    return float(np.interp(0.0, slopes, points))
