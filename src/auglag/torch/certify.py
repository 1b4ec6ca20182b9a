"""The certificate of a model: R and its parts over all rows, from values and gradients computed for it alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from auglag._typing import Vector
from auglag.certificate import Certificate, settle_rows
from auglag.torch.full_batch import FullBatch
from auglag.torch.prox import ProxMap
from auglag.torch.tuning import TUNING

Tensor = Any


def certify_point(full: FullBatch, prox: ProxMap, x: Tensor, y: Vector) -> Certificate:
    """Measure x with the multipliers y, L = f + y'c. One pass, which is counted."""
    layout = full.functions.layout
    found = full.together(x, [y, np.zeros(layout.m)])
    values, (gradient, plain) = found.values, found.of
    off = np.maximum(np.maximum(layout.lower - values.c, values.c - layout.upper), 0.0)
    violation = float(np.linalg.norm(off))
    dist = prox.distance(x, gradient) if values.finite else math.nan
    stationarity, complementarity = settle_rows(dist, violation, values.c, y, layout.lower, layout.upper)
    size = float(torch.linalg.vector_norm(plain))
    names = layout.names()
    worst = np.argsort(-off, kind="stable")
    error = TUNING.gradient_roundings * full.variables.eps * (2.0 * size + dist)
    stationarity, complementarity, size, error = full.team.agree([stationarity, complementarity, size, error])
    return Certificate(
        x=x,
        multipliers=y,
        bound_multipliers=np.zeros(0),
        objective=values.f + prox.value(x),
        stationarity=stationarity,
        violation=violation,
        complementarity=complementarity,
        row_violations={names[int(i)]: float(off[i]) for i in worst if off[i] > 0.0},
        gradient_norm=size,
        exact=True,
        differenced=False,
        derivative_error=error,
    )


def tested_point(x: Tensor, y: Vector, row: Mapping[str, Any]) -> Certificate:
    """What a full-batch test said of x, by its row of the trace; nothing is evaluated."""
    rest = max(row["residual"] - row["dist"], 0.0)
    return Certificate(
        x=x,
        multipliers=y,
        bound_multipliers=np.zeros(0),
        objective=row["objective"],
        stationarity=row["dist"],
        violation=row["violation"],
        complementarity=math.sqrt(max(rest**2 - row["violation"] ** 2, 0.0)),
        row_violations={},
        gradient_norm=math.nan,
        exact=True,
        differenced=False,
        derivative_error=math.nan,
    )
