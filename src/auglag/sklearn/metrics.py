"""Gaps between groups, of decisions: what `FairLogisticRegression` bounds by way of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, column_or_1d

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.sklearn.groups import encode


def demographic_parity_gap(y_pred: Any, *, sensitive_features: Any, pos_label: Any = 1) -> float:
    """The largest difference of P(y_pred = pos_label | group) between two groups.

    Parameters
    ----------
    y_pred : array_like
        Predicted labels.
    sensitive_features : array_like
        The group of every row.
    pos_label : label
        The positive class.

    Examples
    --------
    >>> from auglag.sklearn import demographic_parity_gap
    >>> demographic_parity_gap([1, 1, 0, 0], sensitive_features=["a", "a", "b", "b"])
    1.0
    """
    return _gap(_positive(y_pred, pos_label), sensitive_features)


def equal_opportunity_gap(y_true: Any, y_pred: Any, *, sensitive_features: Any, pos_label: Any = 1) -> float:
    """The largest difference of true-positive rates between two groups.

    Parameters
    ----------
    y_true : array_like
        True labels.
    y_pred : array_like
        Predicted labels.
    sensitive_features : array_like
        The group of every row.
    pos_label : label
        The positive class.

    Examples
    --------
    >>> from auglag.sklearn import equal_opportunity_gap
    >>> equal_opportunity_gap([1, 1, 1, 1], [1, 0, 1, 1], sensitive_features=["a", "a", "b", "b"])
    0.5
    """
    return _gap(_positive(y_pred, pos_label), sensitive_features, _positive(y_true, pos_label))


def equalized_odds_gap(y_true: Any, y_pred: Any, *, sensitive_features: Any, pos_label: Any = 1) -> float:
    """The largest difference of true-positive rates, or of false-positive rates, between two groups.

    Parameters
    ----------
    y_true : array_like
        True labels.
    y_pred : array_like
        Predicted labels.
    sensitive_features : array_like
        The group of every row.
    pos_label : label
        The positive class.

    Examples
    --------
    >>> from auglag.sklearn import equalized_odds_gap
    >>> equalized_odds_gap([1, 0, 1, 0], [1, 0, 1, 1], sensitive_features=["a", "a", "b", "b"])
    1.0
    """
    positive, decided = _positive(y_true, pos_label), _positive(y_pred, pos_label)
    return max(_gap(decided, sensitive_features, positive), _gap(decided, sensitive_features, ~positive))


def _positive(y: Any, pos_label: Any) -> Any:
    values = column_or_1d(y)
    labels = np.unique(values).tolist()
    other = any(isinstance(label, str) != isinstance(pos_label, str) for label in labels)
    if pos_label not in labels and (other or len(labels) > 1):
        raise InputError(f"pos_label must be one of the labels, {labels[:10]}, got {pos_label!r}")
    return values == pos_label


def _gap(decided: Vector, sensitive_features: Any, rows: Any = None) -> float:
    groups, code = encode(sensitive_features)
    check_consistent_length(decided, code)
    rows = np.ones(len(code), dtype=bool) if rows is None else rows
    check_consistent_length(rows, code)
    rates = []
    for k, group in enumerate(groups):
        chosen = rows & (code == k)
        if not chosen.any():
            raise InputError(f"every group must have rows of the class in question, got none for group {group!r}")
        rates.append(float(np.mean(decided[chosen])))
    return max(rates) - min(rates)
