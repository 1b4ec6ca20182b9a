"""LAPACK's decompositions without SciPy's checks: the same as NumPy's, and an error where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from auglag.kkt.lapack import eigenvectors_below, right_singular_vectors


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_eigenvectors_up_to_a_limit_are_those_of_the_lower_triangle(n):
    matrix = np.random.default_rng(n).standard_normal((n, n))
    symmetric = np.tril(matrix) + np.tril(matrix, -1).T
    values, vectors = eigenvectors_below(matrix, 0.1)
    expected = np.linalg.eigvalsh(symmetric)
    np.testing.assert_allclose(values, expected[expected <= 0.1], atol=1e-12)
    np.testing.assert_allclose(symmetric @ vectors, vectors * values, atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(values.size), atol=1e-12)


def test_a_matrix_without_entries_has_no_eigenvectors():
    values, vectors = eigenvectors_below(np.zeros((0, 0)), 1.0)
    assert values.shape == (0,)
    assert vectors.shape == (0, 0)


@pytest.mark.parametrize("limit", [np.nan, -np.inf])
def test_a_limit_below_all_numbers_is_refused(limit):
    with pytest.raises(np.linalg.LinAlgError, match="at most"):
        eigenvectors_below(np.eye(2), limit)


@pytest.mark.parametrize("shape", [(2, 5), (5, 2), (3, 3)])
def test_all_right_singular_vectors_are_there_and_the_last_ones_span_the_null_space(shape):
    matrix = np.random.default_rng(0).standard_normal(shape)
    sigma, rows = right_singular_vectors(matrix)
    np.testing.assert_allclose(sigma, np.linalg.svd(matrix, compute_uv=False))
    np.testing.assert_allclose(rows @ rows.T, np.eye(shape[1]), atol=1e-12)
    np.testing.assert_allclose(matrix @ rows[sigma.size :].T, 0.0, atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 5), (5, 2), (3, 3)])
def test_the_row_space_has_as_many_vectors_as_the_smaller_side(shape):
    matrix = np.random.default_rng(0).standard_normal(shape)
    sigma, rows = right_singular_vectors(matrix, complete=False)
    assert rows.shape == (min(shape), shape[1])
    np.testing.assert_allclose(sigma, np.linalg.svd(matrix, compute_uv=False))
    np.testing.assert_allclose(rows @ rows.T, np.eye(min(shape)), atol=1e-12)
