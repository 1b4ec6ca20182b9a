"""Groups of rows: labels of any kind to numbers 0, 1, ..., and a column of X that holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from auglag.errors import InputError

#: The most groups. Every group is a constraint and a block of rows, so that the Jacobian costs
#: groups^2 * features a pass: 1 to 3 s in all at 200, more than a minute at 1000 (benchmarks/results/many_groups.md).
MOST_GROUPS = 200


def encode(labels: Any, what: str = "sensitive_features") -> tuple[list[Any], NDArray[np.intp]]:
    """(the groups in order, the number of each row's group)."""
    values = _column(labels, what)
    try:
        groups, code = np.unique(values, return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values.tolist()})
        raise InputError(f"{what} must have labels of one type, got {', '.join(kinds)}") from None
    if len(groups) < 2:
        raise InputError(f"{what} must have at least two groups, got {len(groups)}: {groups.tolist()}")
    return groups.tolist(), code.astype(np.intp)


def require_few(groups: list[Any], most: int, what: str) -> None:
    """Raise `InputError` for more groups than there can be."""
    if len(groups) > most:
        raise InputError(f"{what} must have at most {most} groups, got {len(groups)} (join some of them)")


def require_classes(groups: list[Any], rows: int, what: str) -> None:
    """Raise `InputError` for a column of measurements: hardly any value of it comes twice."""
    if len(groups) > 2 and 2 * len(groups) > rows:
        raise InputError(
            f"{what} must have two rows a group in the mean, got {len(groups)} different values in {rows} rows (a "
            "measurement has to be cut into classes first)"
        )


def find(labels: Any, groups: list[Any], what: str) -> NDArray[np.intp]:
    """The number of each row's group among known ones."""
    if labels is None:
        raise InputError(f"{what} must be given: the rows before had groups")
    values, known = _column(labels, what), np.asarray(groups)
    unknown = ~np.isin(values, known)
    if unknown.any():
        raise InputError(f"{what} must have the groups {groups}, got {values[unknown][0]!r:.80}")
    return np.asarray(np.searchsorted(known, values), dtype=np.intp)


def _column(labels: Any, what: str) -> Any:
    """One label per row, none of them missing."""
    values = np.asarray(labels)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"{what} must be one label per row, got shape {values.shape} (combine columns into one first)")
    missing = _missing(values)
    if missing.any():
        raise InputError(f"{what} must not have missing values, got {int(missing.sum())} of them")
    return values


def _missing(values: Any) -> NDArray[np.bool_]:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "mM":
        return np.asarray(np.isnat(values))
    if values.dtype.kind == "O":
        return np.array([_no_value(value) for value in values.tolist()], dtype=bool)
    return np.zeros(len(values), dtype=bool)


def _no_value(value: Any) -> bool:
    """None, NaN, and pandas' NA, of which no comparison is true or false."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def split_column(X: Any, column: Any) -> tuple[Any, Any, int]:
    """(X with zeros in the column, what was there, its position); the column may hold labels that are no numbers."""
    names = getattr(X, "columns", None)
    if isinstance(column, str):
        if names is None:
            raise InputError(f"group = {column!r} names a column, so X must be a data frame, got {type(X).__name__}")
        found = [i for i, name in enumerate(names) if name == column]
        if len(found) != 1:
            raise InputError(f"group = {column!r} must be one of the columns of X, got {list(names)[:20]}")
        return *_blank(X, found[0]), found[0]
    if isinstance(column, bool) or not isinstance(column, int | np.integer):
        raise InputError(f"group must be the number or the name of a column, or None, got {column!r:.80}")
    table = X if names is not None or isinstance(X, np.ndarray) else np.asarray(X)
    if table.ndim != 2 or not -table.shape[1] <= column < table.shape[1]:
        raise InputError(f"group = {column} must be a column of X, got X of shape {table.shape}")
    position = int(column) % table.shape[1]
    return *_blank(table, position), position


def _blank(table: Any, position: int) -> tuple[Any, Any]:
    if isinstance(table, np.ndarray):
        labels, other = table[:, position].copy(), table.copy()
        other[:, position] = 0
        return other, labels
    labels = np.asarray(table.iloc[:, position])
    other = table.copy()
    other.isetitem(position, np.zeros(len(labels)))
    return other, labels
