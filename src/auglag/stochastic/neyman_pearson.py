"""The Neyman-Pearson problem of the paper: few false negatives, subject to a bound on false positives.

min  mean log(1 + exp(-x'a+))    subject to    mean log(1 + exp(x'a-)) <= chat
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from auglag._arrays import real_array
from auglag._typing import Matrix, Vector
from auglag.errors import InputError, require_positive
from auglag.stochastic.linear import LinearBlock
from auglag.stochastic.losses import Loss
from auglag.stochastic.problem import StochasticProblem


def neyman_pearson(
    X: Any,
    y: Any,
    *,
    chat: float,
    split: float | None = 0.8,
    seed: int = 0,
    standardise: bool = True,
    intercept: bool = False,
    loss: Loss | str = "logistic",
    dtype: Any = np.float64,
) -> StochasticProblem:
    """The problem for features X and labels y (two values; the larger is the positive class).

    The mean loss of the positive class is minimised, that of the negative class is at most `chat`. One block per class,
    so that a batch of 128 means 128 positives and 128 negatives. `result.rates` holds false-positive and false-negative
    rates.

    Parameters
    ----------
    X : array_like
        Features, a row for every sample.
    y : array_like
        Labels.
    chat : float
        The bound on the mean loss of the negative class.
    split : float
        The share of rows for training; the others become the held-out problem. None: all rows.
    seed : int
        Of the split.
    standardise : bool
        Whether features are standardised with the training mean and deviation (constant ones are only centred).
    intercept : bool
        Whether a column of ones is added.
    loss : str or Loss
        "logistic", "sigmoid", "squared", or an object.
    dtype : numpy.dtype
        Of the features.

    Examples
    --------
    >>> from auglag.datasets import load_spambase
    >>> from auglag.stochastic import neyman_pearson
    >>> data = load_spambase()
    >>> problem = neyman_pearson(data.X, data.y, chat=0.5)
    >>> problem.n, problem.m
    (57, 1)
    """
    X, positive = _checked(X, y)
    require_positive(chat, "chat")
    if split is not None and not 0.0 < split < 1.0:
        raise InputError(f"split must lie in (0, 1), or be None for no held-out data, got {split}")
    order = np.random.default_rng(seed).permutation(len(X)) if split is not None else np.arange(len(X))
    cut = round(split * len(X)) if split is not None else len(X)
    train, test = order[:cut], order[cut:]
    mean = X[train].mean(axis=0) if standardise else np.zeros(X.shape[1])
    deviation = X[train].std(axis=0) if standardise else np.ones(X.shape[1])
    deviation = np.where(deviation > 0.0, deviation, 1.0)
    parts = {}
    for name, rows in (("training", train), ("test", test)):
        Z = (X[rows] - mean) / deviation
        Z = np.hstack([Z, np.ones((len(Z), 1))]) if intercept else Z
        parts[name] = np.ascontiguousarray(Z[positive[rows]], dtype), np.ascontiguousarray(Z[~positive[rows]], dtype)
    for name, (plus, minus) in parts.items():
        if (name == "training" or split is not None) and not (len(plus) and len(minus)):
            which = "positive" if not len(plus) else "negative"
            raise InputError(f"both classes must have rows in the {name} part, got an empty {which} class")
    problem = _problem(*parts["training"], chat, loss, parts)
    require_attainable(problem, chat)
    return problem


def _problem(plus: Matrix, minus: Matrix, chat: float, loss: Loss | str, parts: dict[str, Any]) -> StochasticProblem:
    def build(plus: Matrix, minus: Matrix, **more: Any) -> StochasticProblem:
        blocks = [
            LinearBlock(plus, 1.0, loss=loss, objective=1.0, constraints=[0.0]),
            LinearBlock(minus, -1.0, loss=loss, constraints=[1.0]),
        ]
        return StochasticProblem(blocks, lower=[-math.inf], upper=[chat], names=["false positives"], **more)

    def rates(x: Vector) -> dict[str, float]:
        found = {}
        for name, (positives, negatives) in parts.items():
            if len(positives):
                found[f"{name} false negatives"] = float(np.mean(positives @ x <= 0.0))
                found[f"{name} false positives"] = float(np.mean(negatives @ x > 0.0))
        return found

    held = build(*parts["test"]) if len(parts["test"][0]) else None
    return build(plus, minus, holdout=held, report=rates)


def require_attainable(problem: StochasticProblem, chat: float) -> None:
    """Raise `InputError` if no x has a mean loss of the negatives of chat or less (Newton on that loss alone)."""
    block = problem.blocks[1]
    assert isinstance(block, LinearBlock)
    x = np.zeros(block.n)
    damping = 1e-3
    here = block.evaluate(x)
    for _ in range(200):
        if here.c[0] <= chat:
            return
        gradient = here.jac[0]
        if np.linalg.norm(gradient) <= 1e-9:
            break
        w = block.loss.curvature(here.margins, block.t)
        A = np.asarray(block.A, dtype=np.float64)
        step = np.linalg.solve((A * w[:, None]).T @ A / len(w) + damping * np.eye(block.n), gradient)
        trial = block.evaluate(x - step)
        if trial.c[0] < here.c[0]:
            x, here, damping = x - step, trial, max(0.2 * damping, 1e-12)
        else:
            damping *= 10.0
            if damping > 1e6:
                break
    raise InputError(
        f"chat = {chat} is not attainable: the mean loss of the negatives cannot be brought below about {here.c[0]:.4g}"
    )


def _checked(X: Any, y: Any) -> tuple[Matrix, np.ndarray[Any, np.dtype[np.bool_]]]:
    features = real_array(X, "X")
    labels = np.asarray(y)
    if features.ndim != 2:
        raise InputError(f"X must be a matrix, got shape {features.shape}")
    if labels.shape != (len(features),):
        raise InputError(f"y must have one label per row of X, {len(features)}, got shape {labels.shape}")
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        raise InputError(f"X must be finite, got {features[row, column]} in row {row}, column {column}")
    values = np.unique(labels)
    if values.size != 2:
        raise InputError(
            f"y must have two classes, got {values.size}: {values[:5].tolist()} (an empty class has no loss)"
        )
    return features, labels == values[1]
