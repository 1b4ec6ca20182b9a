"""An independent judge in 80-bit arithmetic: the residual R of a point with the best multipliers, and its curvature."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import nnls

from attacks.models import Case, Model

EXTENDED = np.longdouble
#: Sides at most so far away may carry multipliers, one try each; what a gap costs is counted in R.
ACTIVITY = (1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-1)


def residual(m: Model, x: Any, y: Any = None) -> tuple[float, float, Any]:
    """(R, what rounding in double precision explains of it, multipliers): R as `auglag.Certificate` defines it.

    The smallest over multipliers y that were handed over and those of signed least squares with several active sets.
    """
    x = np.asarray(x, dtype=EXTENDED)
    with np.errstate(all="ignore"):
        grad, c, jac = m.f.grad(x), m.c(x), m.jac(x)
        sizes = [row.sizes(x) for row in m.rows]
        own = m.f.sizes(x)[1]
    if not (np.isfinite(x).all() and all(np.isfinite(part).all() for part in (m.f.value(x), grad, c, jac))):
        return math.inf, 0.0, None
    tries = [] if y is None or len(y) != len(c) or not np.isfinite(y).all() else [np.asarray(y, dtype=EXTENDED)]
    tries += [_multipliers(m, x, grad, c, jac, eps) for eps in ACTIVITY]
    found = min(((_residual(m, x, grad, c, jac, y), y) for y in tries), key=lambda pair: pair[0])
    rounding = 4 * m.n * np.finfo(float).eps
    terms = own + sum((abs(y_i) * size[1] for y_i, size in zip(found[1], sizes, strict=True)), np.zeros(m.n))
    explained = rounding * (np.linalg.norm(terms) + np.linalg.norm([size[0] for size in sizes]))
    return float(found[0]), float(explained), found[1]


def _residual(m: Model, x: Any, grad: Any, c: Any, jac: Any, y: Any) -> Any:
    violation = np.concatenate([np.maximum(m.cl - c, c - m.cu), np.maximum(m.lower - x, x - m.upper)])
    violation = np.maximum(violation, 0)
    gap = np.where(m.cl == m.cu, 0, np.where(y > 0, m.cu - c, np.where(y < 0, c - m.cl, 0)))
    gap = np.maximum(gap, 0)
    v = -(grad + jac.T @ y)
    room = np.maximum(np.where(v > 0, m.upper - x, np.where(v < 0, x - m.lower, 0)), 0)
    with np.errstate(all="ignore"):
        price = np.where(room == 0, 0, room * np.maximum(1, np.abs(v)))
    dropped = np.where(np.abs(y) < gap, np.abs(y), 0)
    slack = np.where(np.abs(y) < gap, 0, gap)
    stationarity = _norm(np.concatenate([np.where(price < np.abs(v), 0, v), dropped]))
    complementarity = np.concatenate([np.where(price < np.abs(v), price, 0), slack])
    return stationarity + _norm(np.concatenate([violation, complementarity]))


def _norm(v: Any) -> Any:
    largest = np.max(np.abs(v), initial=0)
    return largest * np.sqrt(np.sum((v / largest) ** 2)) if largest > 0 else largest


def _multipliers(m: Model, x: Any, grad: Any, c: Any, jac: Any, eps: float) -> Any:
    """Signed least squares with the sides that are at most eps away, refined in extended precision."""
    columns, owner, sign = [], [], []
    for i in range(len(c)):
        equal = m.cl[i] == m.cu[i]
        for s, gap in ((1.0, m.cu[i] - c[i]), (-1.0, c[i] - m.cl[i])):
            if equal or gap <= eps:
                columns.append(s * jac[i])
                owner.append(i)
                sign.append(s)
    y = np.zeros(len(c), dtype=EXTENDED)
    if not columns:
        return y
    unit = np.eye(m.n, dtype=EXTENDED)
    for j in range(m.n):
        columns += [unit[j]] * bool(m.upper[j] - x[j] <= eps) + [-unit[j]] * bool(x[j] - m.lower[j] <= eps)
    matrix = np.array(columns).T
    length = np.array([max(_norm(column), np.finfo(float).tiny) for column in matrix.T])
    scaled = (matrix / length).astype(float)
    size = max(float(_norm(grad)), 1e-300)
    try:
        weights = nnls(scaled, (-grad / size).astype(float), maxiter=100 * len(columns))[0].astype(EXTENDED)
    except RuntimeError:
        weights = np.zeros(len(columns), dtype=EXTENDED)
    support = np.flatnonzero(weights > 0)
    for _ in range(2 if support.size else 0):
        rest = -grad / size - (matrix / length)[:, support] @ weights[support]
        step = np.linalg.lstsq(scaled[:, support], rest.astype(float), rcond=None)[0]
        weights[support] = np.maximum(weights[support] + step, 0)
    for k, (i, s) in enumerate(zip(owner, sign, strict=True)):
        y[i] += s * weights[k] * size / length[k]
    return y


def saddle(m: Model, x: Any, y: Any) -> bool:
    """Whether there is negative curvature on the tangent space of everything active, seen in the units of the terms."""
    x = np.asarray(x, dtype=float)
    y = np.asarray(y, dtype=float)
    c, jac = m.c(x), m.jac(x)
    close = 1e-6
    active = [jac[i] for i in range(len(c)) if min(c[i] - m.cl[i], m.cu[i] - c[i]) <= close]
    active += [np.eye(m.n)[j] for j in range(m.n) if min(x[j] - m.lower[j], m.upper[j] - x[j]) <= close]
    basis = null_space(np.array(active)) if active else np.eye(m.n)
    hessian = m.lagrangian_hess(x, y)
    if not basis.size or not np.isfinite(hessian).all():
        return False
    values = np.linalg.eigvalsh(basis.T @ hessian @ basis)
    return bool(values[0] < -1e-5 * max(1.0, float(np.abs(hessian).max())))


def explained_by_error(case: Case, x: Any, y: Any) -> float:
    """About what a known error of the values does to R: their own size, and that of the best differences of them.

    Differences of values with an error e are known to about 2 sqrt(e |f''|), by the best of steps; ten times that.
    """
    if not case.stated:
        return 0.0
    m, x = case.model, np.asarray(x, dtype=float)
    sizes = [np.linalg.norm(function.hess(x)) * max(1.0, weight) for function, weight in _weighted(m, y)]
    slopes = sum(2 * np.sqrt(case.stated * (size + case.stated)) for size in sizes) * math.sqrt(m.n)
    return 10 * float(case.stated * math.sqrt(1 + len(m.rows)) + (slopes if case.order == 0 else 0.0))


def _weighted(m: Model, y: Any) -> list[tuple[Any, float]]:
    return [(m.f, 1.0), *((row, float(weight) ** 2) for row, weight in zip(m.rows, y, strict=True))]


def judge(case: Case, x: Any, y: Any, tol: float) -> dict[str, Any]:
    """What is true of a claimed success: its residuals, and whether the claim is false."""
    factor = 10.0 if case.coarse or case.order == 0 else 2.0
    facts: dict[str, Any] = {}
    worst, explained, multipliers = 0.0, 0.0, None
    for truth in case.truths() if case.truths else [case.model]:
        r, rounding, best = residual(truth, x, y)
        if multipliers is None or r > worst:
            worst, explained, multipliers = r, rounding, best
    facts["R"] = worst
    allowed = factor * tol + explained
    if multipliers is not None:
        allowed = max(allowed, explained_by_error(case, x, multipliers))
    wrong = not worst <= allowed
    if case.base is not None:
        natural = np.asarray(x, dtype=EXTENDED) / case.unit
        facts["relative"] = residual(case.base, natural)[0]
        wrong = wrong or not facts["relative"] <= 1e-3
    facts["false"] = wrong
    if not wrong and multipliers is not None:
        seen = (case.base, np.asarray(x) / case.unit) if case.base is not None else (case.model, x)
        with np.errstate(all="ignore"):
            facts["saddle"] = saddle(*seen, residual(*seen)[2])
            if case.best is not None:
                f = float(case.model.f.value(np.asarray(x, dtype=float)))
                facts["worse"] = f > case.best + 1e-3 * max(1.0, abs(case.best))
    return facts
