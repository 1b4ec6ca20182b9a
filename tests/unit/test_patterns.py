"""Sparse matrices of one pattern after another: the same values as SciPy's, sorted, summed, sharing their indices."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import NonlinearConstraint

import auglag
from auglag.problems import patterns
from auglag.problems.patterns import Combined, Pattern

ROWS, COLUMNS = np.array([2, 0, 1, 0, 2, 2]), np.array([1, 3, 0, 0, 1, 0])  # (2, 1) is stored twice


def entries(values: Any) -> Any:
    return sparse.coo_array((np.asarray(values), (ROWS, COLUMNS)), shape=(3, 4))


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil", "dia", "bsr", "dok"])
def test_values_are_those_of_scipy_in_every_format(form: str) -> None:
    pattern = Pattern()
    for seed in range(3):
        matrix = entries(np.random.default_rng(seed).standard_normal(6)).asformat(form)
        found = pattern.csr(matrix)
        assert isinstance(found, sparse.csr_array)
        assert found.has_canonical_format
        np.testing.assert_array_equal(found.toarray(), matrix.toarray())


@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
def test_a_pattern_is_looked_through_once_and_its_indices_are_shared(form: str) -> None:
    pattern = Pattern()
    with patch.object(patterns, "_Places", wraps=patterns._Places) as places:
        found = [pattern.csr(entries(scale * np.arange(1.0, 7.0)).asformat(form)) for scale in (1.0, 2.0, 3.0)]
    assert places.call_count == 1
    assert all(one.indices is found[0].indices for one in found)
    np.testing.assert_array_equal(found[2].toarray(), 3.0 * found[0].toarray())


def test_another_pattern_is_seen_also_in_arrays_that_the_user_writes_to_again() -> None:
    pattern, matrix = Pattern(), sparse.csr_array(np.diag([1.0, 2.0, 3.0]))
    first = pattern.csr(matrix)
    matrix.indices[:], matrix.data[:] = [1, 2, 0], 5.0
    np.testing.assert_array_equal(pattern.csr(matrix).toarray(), matrix.toarray())
    np.testing.assert_array_equal(first.toarray(), np.diag([1.0, 2.0, 3.0]))


def test_unsorted_rows_and_room_beyond_the_entries_are_no_problem() -> None:
    matrix = sparse.csr_array((np.array([1.0, 2.0, 3.0, 9.0]), np.array([2, 0, 1, 0]), np.array([0, 2, 3])), (2, 3))
    np.testing.assert_array_equal(Pattern().csr(matrix).toarray(), [[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]])


@pytest.mark.parametrize("summed", [False, True])
def test_parts_are_put_below_each_other_or_summed(summed: bool) -> None:
    one, two, whole = Pattern(), Pattern(), Combined(summed=summed)
    with patch.object(patterns, "_Places", wraps=patterns._Places) as places:
        for seed in range(3):
            rng = np.random.default_rng(seed)
            parts = [one.csr(entries(rng.standard_normal(6))), two.csr(sparse.eye_array(3, 4) * rng.random())]
            expected = parts[0] + parts[1] if summed else sparse.vstack(parts)
            np.testing.assert_array_equal(whole.of(parts).toarray(), expected.toarray())
    assert places.call_count == 3  # one for each part, and one for the whole


def test_empty_matrices_have_patterns() -> None:
    assert Pattern().csr(sparse.csr_array((0, 3))).shape == (0, 3)
    assert Combined(summed=True).of([Pattern().csr(sparse.csr_array((2, 2)))]).nnz == 0


def test_a_run_looks_through_the_patterns_of_a_user_once() -> None:
    n = 60
    rows = sparse.diags_array([np.ones(n), -np.ones(n - 1)], offsets=[0, 1], shape=(n, n)).tocsc()
    band = NonlinearConstraint(
        lambda x: rows @ x**2,
        -0.5,
        0.5,
        jac=lambda x: (rows @ sparse.diags_array(2.0 * x)).tocsc(),
        hess=lambda x, v: sparse.coo_array((2.0 * (rows.T @ v), (np.arange(n), np.arange(n)))),
    )
    first = NonlinearConstraint(
        lambda x: x[:1], 1.5, 1.5, jac=lambda x: sparse.eye_array(1, n), hess=lambda x, v: sparse.csr_array((n, n))
    )
    with patch.object(patterns, "_Places", wraps=patterns._Places) as places:
        result = auglag.minimize(
            lambda x: float(np.sum((x - 2.0) ** 4)),
            np.ones(n),
            jac=lambda x: 4.0 * (x - 2.0) ** 3,
            hess=lambda x: sparse.diags_array(12.0 * (x - 2.0) ** 2).tocsc(),
            constraints=[band, first],
        )
    assert result.success
    assert result.nhev > 3
    assert places.call_count == 7, "two Jacobians, three Hessians, the whole of each"
