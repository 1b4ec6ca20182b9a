"""Prox terms against values computed by hand, by brute force and by other algorithms."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from auglag.prox import (
    L1,
    AffineSet,
    Box,
    Custom,
    ElasticNet,
    GroupL2,
    HalfSpace,
    L1Ball,
    L2Ball,
    L2Norm,
    LinfBall,
    LinfNorm,
    NonNegative,
    NuclearNorm,
    Scaled,
    SeparableSum,
    Simplex,
    SquaredL2,
    TotalVariation1D,
    Translated,
    Zero,
    add_bounds,
    as_term,
)

INF = math.inf


def vec(*entries):
    return np.array(entries, dtype=float)


# (term, x, step, prox(x, step), value there)
PROX = {
    "zero": (Zero(), vec(1, -2), 3.0, vec(1, -2), 0.0),
    "box": (Box([0, -1], [1, 1]), vec(2, -3), 1.0, vec(1, -1), 0.0),
    "nonnegative": (NonNegative(), vec(2, -3), 1.0, vec(2, 0), 0.0),
    "linf-ball": (LinfBall(1.0, [2, 0]), vec(0, 0.5), 1.0, vec(1, 0.5), 0.0),
    "l1": (L1(2.0), vec(3, -0.5, -4), 0.5, vec(2, 0, -3), 10.0),
    "l1-weights": (L1([1, 0, 4]), vec(3, -0.5, -4), 0.5, vec(2.5, -0.5, -2), 10.5),
    "squared": (SquaredL2(3.0), vec(4, -8), 1.0, vec(1, -2), 7.5),
    "elastic": (ElasticNet(1.0, 2.0), vec(5, -0.5), 0.5, vec(2.25, 0), 2.25 + 2.25**2),
    "l2": (L2Norm(2.5), vec(3, 4), 1.0, vec(1.5, 2), 6.25),
    "l2-to-0": (L2Norm(5.0), vec(3, 4), 1.0, vec(0, 0), 0.0),
    "groups": (GroupL2([[0, 2], [3]], [2.5, 9]), vec(3, 7, 4, 5), 1.0, vec(1.5, 7, 2, 0), 6.25),
    "linf": (LinfNorm(2.0), vec(5, -4, 1), 1.5, vec(3, -3, 1), 6.0),
    "linf-to-0": (LinfNorm(2.0), vec(1, -0.5), 1.0, vec(0, 0), 0.0),
    "nuclear": (NuclearNorm((2, 2), 1.0), vec(3, 0, 0, -0.5), 1.0, vec(2, 0, 0, 0), 2.0),
    "tv": (TotalVariation1D(1.0), vec(0, 0, 6, 6), 1.0, vec(0.5, 0.5, 5.5, 5.5), 5.0),
    "tv-flat": (TotalVariation1D(1.0), vec(0, 1, 0), 5.0, vec(1, 1, 1) / 3, 0.0),
    "tv-peak": (TotalVariation1D(1.0), vec(0, 9, 0, 0), 1.0, vec(1, 7, 0.5, 0.5), 12.5),
    "l1-ball": (L1Ball(2.0), vec(3, -1, 0.5), 1.0, vec(2, 0, 0), 0.0),
    "l1-ball-2": (L1Ball(3.0), vec(3, -2, 0.5), 1.0, vec(2, -1, 0), 0.0),
    "l2-ball": (L2Ball(5.0, [1, 1]), vec(7, 9), 1.0, vec(4, 5), 0.0),
    "simplex": (Simplex(), vec(0.9, 0.7, -3), 1.0, vec(0.6, 0.4, 0), 0.0),
    "simplex-3": (Simplex(3.0), vec(0, 0, 0), 1.0, vec(1, 1, 1), 0.0),
    "half-space": (HalfSpace([3, 4], 5.0), vec(6, 8), 1.0, vec(0.6, 0.8), 0.0),
    "half-space-in": (HalfSpace([3, 4], 5.0), vec(-6, 0), 1.0, vec(-6, 0), 0.0),
    "affine": (AffineSet([[1, 1], [2, 2]], [2, 4]), vec(3, 1), 1.0, vec(2, 0), 0.0),
    "sum": (SeparableSum([([2, 0], L1()), ([1], NonNegative())]), vec(3, -1, 4, 9), 1.0, vec(2, 0, 3, 9), 5.0),
    "scaled": (Scaled(L2Norm(), 2.5), vec(3, 4), 1.0, vec(1.5, 2), 6.25),
    "scaled-set": (Scaled(L1Ball(2.0), 9.0), vec(3, -1), 1.0, vec(2, 0), 0.0),
    "moved": (Translated(L1(), [1, 1, 1]), vec(4, 0.5, -2), 1.0, vec(3, 1, -1), 4.0),
    "bounded": (add_bounds(L1(), -1.0, 1.5), vec(4, 0.5, -4), 1.0, vec(1.5, 0, -1), 2.5),
}


@pytest.mark.parametrize(("term", "x", "step", "p", "value"), PROX.values(), ids=PROX)
def test_prox_and_value(term, x, step, p, value):
    np.testing.assert_allclose(term.prox(x, step), p, rtol=1e-14, atol=1e-15)
    assert term.value(p) == pytest.approx(value, rel=1e-14)


# (term, x, v, the element of dg(x) nearest to v)
SUBDIFF = {
    "zero": (Zero(), vec(1, 2), vec(3, 4), vec(0, 0)),
    "box": (Box([0, 0, 0, 1], [1, 1, 1, 1]), vec(0, 1, 0.5, 1), vec(-2, -2, -2, -2), vec(-2, 0, 0, -2)),
    "box-up": (Box([0, 0, 0, 1], [1, 1, 1, 1]), vec(0, 1, 0.5, 1), vec(2, 2, 2, 2), vec(0, 2, 0, 2)),
    "l1": (L1(2.0), vec(1, 0, 0, -1), vec(0, 1, -3, 0), vec(2, 1, -2, -2)),
    "squared": (SquaredL2(3.0), vec(1, -2), vec(0, 0), vec(3, -6)),
    "elastic": (ElasticNet(1.0, 2.0), vec(3, 0, -3), vec(0, 9, 0), vec(7, 1, -7)),
    "l2": (L2Norm(5.0), vec(3, 4), vec(9, 9), vec(3, 4)),
    "l2-at-0": (L2Norm(5.0), vec(0, 0), vec(6, 8), vec(3, 4)),
    "groups": (GroupL2([[0, 2], [3, 4]], 5.0), vec(3, 7, 4, 0, 0), vec(0, 1, 0, 6, 8), vec(3, 0, 4, 3, 4)),
    "linf": (LinfNorm(2.0), vec(3, -3, 1), vec(1, 0, 5), vec(1.5, -0.5, 0)),
    "linf-corner": (LinfNorm(2.0), vec(3, -3, 1), vec(9, 0, 5), vec(2, 0, 0)),
    "linf-at-0": (LinfNorm(2.0), vec(0, 0), vec(3, -2), vec(1.5, -0.5)),
    "nuclear": (NuclearNorm((2, 2), 2.0), vec(3, 0, 0, 0), vec(9, 9, 9, 1), vec(2, 0, 0, 1)),
    "nuclear-clipped": (NuclearNorm((2, 2), 2.0), vec(3, 0, 0, 0), vec(9, 9, 9, -7), vec(2, 0, 0, -2)),
    "tv-jumps": (TotalVariation1D(2.0), vec(1, 3, 2), vec(0, 0, 0), vec(-2, 4, -2)),
    "tv-tie": (TotalVariation1D(2.0), vec(1, 1, 5), vec(1, 0, 0), vec(-0.5, -1.5, 2)),
    "l1-ball-inside": (L1Ball(2.0), vec(1, 0.5), vec(5, 5), vec(0, 0)),
    "l1-ball": (L1Ball(2.0), vec(1, -1, 0), vec(3, -1, 1), vec(2, -2, 1)),
    "l1-ball-zero": (L1Ball(2.0), vec(2, 0), vec(1, 3), vec(2, 2)),
    "l1-ball-inward": (L1Ball(2.0), vec(1, -1, 0), vec(-3, 1, 0), vec(0, 0, 0)),
    "l2-ball": (L2Ball(5.0), vec(3, 4), vec(3, -1), vec(0.6, 0.8)),
    "l2-ball-inward": (L2Ball(5.0), vec(3, 4), vec(-3, -1), vec(0, 0)),
    "simplex": (Simplex(), vec(0.5, 0.5, 0), vec(1, 3, -7), vec(2, 2, -7)),
    "simplex-face": (Simplex(), vec(0.5, 0.5, 0), vec(1, 3, 5), vec(3, 3, 3)),
    "half-space": (HalfSpace([3, 4], 5.0), vec(0.6, 0.8), vec(5, 0), vec(1.8, 2.4)),
    "half-space-in": (HalfSpace([3, 4], 5.0), vec(0, 0), vec(5, 0), vec(0, 0)),
    "affine": (AffineSet([[1, 1]], [2]), vec(1, 1), vec(3, 1), vec(2, 2)),
    "scaled": (Scaled(L1(2.0), 3.0), vec(1, 0), vec(0, -7), vec(6, -6)),
    "moved": (Translated(L1(2.0), 1.0), vec(2, 1), vec(0, 1), vec(2, 1)),
    "bounded": (add_bounds(L1(2.0), -1.0, 1.0), vec(1, -1, 0, 0.5), vec(9, 9, 9, 9), vec(9, -2, 2, 2)),
}


@pytest.mark.parametrize(("term", "x", "v", "s"), SUBDIFF.values(), ids=SUBDIFF)
def test_projection_on_the_subdifferential(term, x, v, s):
    np.testing.assert_allclose(term.project_subdiff(x, v), s, rtol=1e-14, atol=1e-14)
    assert term.subdiff_distance(x, v) == pytest.approx(np.linalg.norm(v - s), rel=1e-13, abs=1e-13)


OUTSIDE = {
    "box": (Box(0.0, 1.0), vec(0.5, 1 + 1e-12)),
    "nonnegative": (NonNegative(), vec(-1e-300)),
    "l1-ball": (L1Ball(1.0), vec(0.5, 0.5 + 1e-13)),
    "l2-ball": (L2Ball(5.0), vec(3, 4 + 1e-13)),
    "simplex": (Simplex(), vec(0.5, 0.5 + 1e-13)),
    "simplex-negative": (Simplex(), vec(1 + 1e-13, -1e-13)),
    "half-space": (HalfSpace([1, 0], 1.0), vec(1 + 1e-13, 0)),
    "affine": (AffineSet([[1, 0]], [1]), vec(1 - 1e-13, 0)),
    "bounded": (add_bounds(L1(), 0.0), vec(-1e-9)),
    "sum": (SeparableSum([([1], Box(0.0, 1.0))]), vec(0, 2)),
    "scaled": (Scaled(Simplex(), 2.0), vec(1, 1)),
    "moved": (Translated(Simplex(), 1.0), vec(2, 1 + 1e-12)),
}


@pytest.mark.parametrize(("term", "x"), OUTSIDE.values(), ids=OUTSIDE)
def test_the_value_is_infinite_just_outside(term, x):
    assert term.value(x) == INF
    assert term.value(term.prox(x, 1.0)) < INF


INSIDE = {
    "l1-ball": (L1Ball(1.0), vec(0.5, 0.5 - 1e-13)),
    "l2-ball": (L2Ball(5.0), vec(3, 4 - 1e-13)),
    "half-space": (HalfSpace([1, 0], 1.0), vec(1 - 1e-13, 0)),
    "box": (Box(0.0, 1.0), vec(1e-300, 1 - 1e-15)),
}


@pytest.mark.parametrize(("term", "x"), INSIDE.values(), ids=INSIDE)
def test_a_point_just_inside_is_not_on_the_boundary(term, x):
    np.testing.assert_array_equal(term.project_subdiff(x, vec(2, 3)), vec(0, 0))


def tv_by_quadratic_programme(x, lam):
    """u = x - D'z with z the minimiser of ||x - D'z|| over |z| <= lam."""
    if lam == 0:
        return x
    D = np.diff(np.eye(x.size), axis=0)
    z = lsq_linear(D.T, x, (-lam, lam), method="bvls", tol=1e-15).x
    return x - D.T @ z


@pytest.mark.parametrize("n", [2, 3, 5, 8, 15])
def test_total_variation_agrees_with_a_quadratic_programme(n):
    rng = np.random.default_rng(n)
    for lam in (0.0, 1e-3, 0.1, 0.5, 2.0, 30.0):
        for x in (rng.normal(size=n), np.cumsum(rng.normal(size=n)), rng.integers(-2, 3, size=n).astype(float)):
            u = TotalVariation1D(1.0).prox(x, lam)
            np.testing.assert_allclose(u, tv_by_quadratic_programme(x, lam), atol=1e-10)


@pytest.mark.parametrize("n", [2, 4, 9])
def test_the_subdifferential_of_total_variation_agrees_with_a_quadratic_programme(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        x, v = rng.integers(0, 2, size=n).astype(float), 2.0 * rng.normal(size=n)
        jump = np.sign(np.diff(x))
        D = np.diff(np.eye(n), axis=0)
        low, high = np.where(jump > 0, 1, -1) - 1e-12, np.where(jump < 0, -1, 1) + 1e-12
        z = lsq_linear(D.T, v, (low, high), method="bvls", tol=1e-15).x
        np.testing.assert_allclose(TotalVariation1D(1.0).project_subdiff(x, v), D.T @ z, atol=1e-9)


def test_total_variation_is_accurate_when_the_weight_dwarfs_the_signal():
    x = 1e-6 * np.random.default_rng(0).normal(size=50)
    np.testing.assert_allclose(TotalVariation1D(1.0).prox(x, 1e9), np.full(50, x.mean()), rtol=1e-12)


def test_total_variation_of_a_long_signal_is_quick_and_exactly_piecewise_constant():
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=20), 500) + 0.1 * rng.normal(size=10_000)
    u = TotalVariation1D(1.0).prox(x, 3.0)
    assert 0 < np.count_nonzero(np.diff(u)) < 200


def test_the_nuclear_norm_thresholds_singular_values():
    X = np.random.default_rng(3).normal(size=(5, 3))
    P = NuclearNorm((5, 3), 0.7).prox(X.ravel(), 2.0).reshape(5, 3)
    before, after = (np.linalg.svd(M, compute_uv=False) for M in (X, P))
    np.testing.assert_allclose(after, np.maximum(before - 1.4, 0.0), atol=1e-14)
    assert NuclearNorm((5, 3), 0.7).value(P.ravel()) == pytest.approx(0.7 * after.sum())
    assert np.linalg.svd(X - P, compute_uv=False).max() == pytest.approx(1.4)


def test_a_simplex_projection_of_a_huge_point_is_accurate():
    p = Simplex().prox(1e9 + vec(0.25, 0, -3), 1.0)
    np.testing.assert_allclose(p, vec(0.625, 0.375, 0), atol=1e-15)
    np.testing.assert_array_equal(Simplex().prox(p, 1.0), p)


def test_group_norms_do_not_underflow():
    np.testing.assert_allclose(GroupL2([[0, 1]]).value(1e-200 * vec(3, 4)), 5e-200)


def test_a_box_plus_bounds_is_a_box():
    box = add_bounds(Box(0.0, [1, 5]), [-1, 2], 3.0)
    assert isinstance(box, Box)
    np.testing.assert_array_equal(box.box(2), [[0, 2], [1, 3]])
    assert isinstance(add_bounds(Zero(), 0.0), Box)
    twice = add_bounds(add_bounds(L1(), 0.0, 5.0), -1.0, 2.0)
    np.testing.assert_array_equal(twice.domain().box(2), [[0, 0], [2, 2]])


def test_moving_a_set_gives_a_set_of_the_same_kind():
    for term in (Box(0.0, 1.0), L2Ball(), HalfSpace([1, 2], 3.0), AffineSet([[1, 2]], [3]), Zero()):
        assert type(Translated(term, [5.0, 6.0])) is type(term)


def test_restricting_to_nothing_leaves_a_term_on_no_variables():
    none = np.zeros(0, dtype=np.intp)
    for term in (Zero(), Box([0, 0]), L1([1, 2]), add_bounds(L1(), 0.0, [1, 2]), SeparableSum([([0], L1())])):
        piece = term.restrict(none)
        piece.check(0)
        assert piece.value(np.zeros(0)) == 0.0
        assert piece.prox(np.zeros(0), 1.0).shape == (0,)
        assert piece.subdiff_distance(np.zeros(0), np.zeros(0)) == 0.0


def test_arrays_are_copied_and_read_only():
    weight = vec(1, 2)
    term = L1(weight)
    weight[0] = 9.0
    assert term.value(vec(1, 1)) == 3.0
    with pytest.raises(ValueError, match="read-only"):
        term.weight[0] = 5.0


def test_terms_survive_copying_and_pickling():
    x = vec(3, -1, 0.5)
    for term in (L1([1, 2, 3]), Box(0, [1, 2, 3]), GroupL2([[0, 2]]), SeparableSum([([1], L1())]), Simplex()):
        for twin in (copy.deepcopy(term), pickle.loads(pickle.dumps(term))):
            np.testing.assert_array_equal(twin.prox(x, 0.5), term.prox(x, 0.5))


class Duck:
    """An l1 norm that knows nothing of auglag."""

    def value(self, x):
        return np.abs(x).sum()

    def prox(self, x, step):
        x -= np.clip(x, -step, step)
        return x


def test_an_object_with_value_and_prox_is_a_term():
    term, x = as_term(Duck()), vec(3, -0.5)
    np.testing.assert_array_equal(term.prox(x, 1.0), vec(2, 0))
    np.testing.assert_array_equal(x, vec(3, -0.5))
    assert isinstance(term, Custom)
    assert not term.exact
    assert term.value(x) == 3.5
    assert term.subdiff_distance(vec(2, 0), vec(1, -0.5)) == 0.0
    # The prox residual never exceeds the distance to the subdifferential, 3 here.
    assert term.subdiff_distance(vec(2, 0), vec(4, 0)) == 3.0
    np.testing.assert_array_equal(term.project_subdiff(vec(2, 0), vec(4, -3)), vec(1, -1))


def test_a_term_passes_through_as_term():
    term = L1()
    assert as_term(term) is term


def test_the_domain_of_a_custom_term():
    def log_barrier(x):
        with np.errstate(invalid="ignore"):
            return -float(np.log(x[0]))  # NaN for negative numbers

    def prox(x, step):
        return (x + np.sqrt(x * x + 4.0 * step)) / 2.0

    own = Custom(log_barrier, prox)
    assert own.value(vec(-1)) == INF
    np.testing.assert_array_equal(own.domain().prox(vec(2), 1.0), vec(2))  # points of the domain stay
    assert 0.0 < own.domain().prox(vec(-1), 1.0)[0] < 1e-7
    assert own.value(own.domain().prox(vec(-1e4), 1.0)) < INF  # a step of 1e-8 would be lost in rounding
    assert own.domain().domain() is not None
    given = Custom(log_barrier, prox, lambda x: np.maximum(x, 0.1))
    np.testing.assert_array_equal(given.domain().prox(vec(-1), 1.0), vec(0.1))
    box = Box(0.1, INF)
    assert Custom(log_barrier, prox, box).domain() is box
