"""Terms multiplied by numbers and added: the result is the function that is written, and its prox is right."""

from __future__ import annotations

import numpy as np
import pytest

import auglag
from auglag.prox import L1, Box, ElasticNet, L2Ball, L2Norm, NonNegative, ProxTerm, SquaredL2, Zero

X = np.array([-1.5, 0.0, 0.25, 2.0])
INSIDE = np.abs(X)
PRODUCTS = [
    L1(1),
    L1([1.0, 2.0, 0.0, 3.0]),
    SquaredL2(2.0),
    ElasticNet(1.0, 2.0),
    L2Norm(),
    L1() + NonNegative(),
    Zero(),
]
SUMS = [
    (L1(0.5), NonNegative()),
    (NonNegative(), L1([1.0, 2.0, 0.0, 3.0])),
    (L1(), SquaredL2()),
    (SquaredL2(2.0), L1(0.5)),
    (ElasticNet(1.0, 1.0), L1(2.0)),
    (L1(), L1([1.0, 2.0, 3.0, 4.0])),
    (SquaredL2(), SquaredL2(3.0)),
    (L1() + NonNegative(), SquaredL2()),
    (SquaredL2(), L1() + Box(-1, 3)),
    (Box(-1, 3), NonNegative()),
    (Zero(), L2Norm()),
    (L2Norm(), Zero()),
]


def assert_prox(term: ProxTerm) -> None:
    for step in (0.1, 1.0, 10.0):
        p = term.prox(X, step)
        assert term.subdiff_distance(p, (X - p) / step) <= 1e-9


@pytest.mark.parametrize("term", PRODUCTS, ids=str)
@pytest.mark.parametrize("factor", [0.1, 3, np.float64(0.5), np.float32(2.0)])
def test_a_term_times_a_number_is_that(term, factor):
    for made in (factor * term, term * factor):
        assert isinstance(made, ProxTerm)
        assert made.value(INSIDE) == pytest.approx(float(factor) * term.value(INSIDE))
        assert_prox(made)


@pytest.mark.parametrize(("one", "two"), SUMS, ids=str)
def test_a_sum_of_terms_is_that(one, two):
    made = one + two
    assert made.value(INSIDE) == pytest.approx(one.value(INSIDE) + two.value(INSIDE))
    assert (made.value(X) == np.inf) is (one.value(X) + two.value(X) == np.inf)
    assert_prox(made)


def test_a_sum_whose_prox_is_not_known_says_so():
    with pytest.raises(auglag.InputError, match=r"L1 \+ L2Ball has no prox that is known here"):
        L1() + L2Ball()


@pytest.mark.parametrize("factor", [0.0, -1.0, np.inf, np.nan])
def test_other_factors_are_refused(factor):
    with pytest.raises(auglag.InputError, match="must be multiplied by a positive number"):
        factor * L1()


@pytest.mark.parametrize("other", ["2", None, np.ones(2), True])
def test_other_things_than_numbers_and_terms_are_type_errors(other):
    with pytest.raises(TypeError):
        other * L1()
    with pytest.raises(TypeError):
        L1() + other


def test_a_run_takes_what_is_written():
    made = auglag.minimize(lambda x: (x - 1) @ (x - 1), [3.0, -2.0], g=0.5 * L1(1) + NonNegative())
    assert made.success
    np.testing.assert_allclose(made.x, [0.75, 0.75], atol=1e-6)
