"""Sparse Jacobians by their arrays, without SciPy's general methods."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from auglag.problems.jacobians import row_norms


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (0, 4), (4, 0), (40, 30)])
def test_row_norms_of_sparse_matrices_are_those_of_dense_ones(form, shape):
    rng = np.random.default_rng(sum(shape))
    matrix = sparse.random_array(shape, density=0.1, rng=rng, format=form, data_sampler=rng.standard_normal)
    np.testing.assert_array_equal(row_norms(matrix), row_norms(matrix.toarray()))


def test_entries_given_twice_are_added_before_the_norm_and_the_matrix_stays_as_it_is():
    matrix = sparse.csr_array((np.array([1.0, -3.0, 2.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    np.testing.assert_array_equal(row_norms(matrix), [2.0, 2.0])
    assert matrix.nnz == 3


def test_a_norm_of_a_row_with_a_nan_is_nan():
    matrix = sparse.csr_array(np.array([[1.0, np.nan], [0.0, 2.0]]))
    np.testing.assert_array_equal(row_norms(matrix), [np.nan, 2.0])
