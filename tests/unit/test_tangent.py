"""The Hessian on the tangent space of active constraints: its sign, and its lowest directions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import eigh, null_space

from auglag.kkt import Hessian, Tangent


def case(seed: int, n: int = 9, m: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(H, J, free variables), H of either sign."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, n))
    free = np.sort(rng.choice(n, n - 2, replace=False))
    return a + a.T + 3.0 * rng.standard_normal() * np.eye(n), rng.standard_normal((m, n)), free


def reduced(h: np.ndarray, j: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The eigenvalues on the tangent space, by a basis of it."""
    z = null_space(j[:, free])
    return eigh(z.T @ h[np.ix_(free, free)] @ z, eigvals_only=True)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_one_factorisation_tells_the_sign_on_the_tangent_space(seed: int, kind: str) -> None:
    h, j, free = case(seed)
    h = h - (reduced(h, j, free)[0] + (0.1 if seed % 2 else -0.1)) * np.eye(9)  # the lowest is 0.1, or -0.1
    matrices = (h, j) if kind == "dense" else (sparse.csc_array(h), sparse.csr_array(j))
    tangent = Tangent(Hessian(matrices[0]), matrices[1], free, np.arange(3))
    assert tangent.positive(0.0) is (seed % 2 == 0)
    assert not tangent.positive(0.11)
    assert tangent.factor(0.11) is not None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_lowest_direction_is_found_and_lies_in_the_tangent_space(seed: int, kind: str) -> None:
    h, j, free = case(seed)
    expected = reduced(h, j, free)
    matrices = (h, j) if kind == "dense" else (sparse.csc_array(h), sparse.csr_array(j))
    tangent = Tangent(Hessian(matrices[0]), matrices[1], free, np.arange(3))
    factor = tangent.shifted(1e-8)
    assert factor is not None
    values, vectors = tangent.lowest(factor, np.random.default_rng(seed).standard_normal(9))
    assert values[0] == pytest.approx(expected[0], abs=1e-5 * np.abs(expected).max())
    assert np.abs(j @ vectors[:, 0]).max() < 1e-5
    held = np.setdiff1d(np.arange(9), free)
    assert (vectors[held] == 0.0).all()


def test_where_no_direction_is_left_everything_is_positive() -> None:
    tangent = Tangent(Hessian(-np.eye(2)), np.zeros((0, 2)), np.zeros(0, np.intp), np.zeros(0, np.intp))
    assert tangent.positive(1.0)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_units_of_the_rows_change_nothing(unit: float, kind: str) -> None:
    h, j, free = case(4)
    given, rows = (h, j) if kind == "dense" else (sparse.csc_array(h), sparse.csr_array(j))
    plain, scaled = (Tangent(Hessian(given), matrix, free, np.arange(3)) for matrix in (rows, unit * rows))
    values = reduced(h, j, free)
    for margin in (values[0] - 0.1, values[0] + 0.1):
        assert scaled.positive(margin) is plain.positive(margin)
    c = np.array([1.0, -2.0, 0.5])
    assert np.allclose(scaled.back(unit * c), plain.back(c), rtol=1e-6)


def test_a_row_of_small_gradient_leaves_no_direction_to_its_only_variable() -> None:
    one = np.zeros(1, np.intp)
    assert Tangent(Hessian(np.eye(1)), np.array([[1e-5]]), one, one).empty(np.ones(1))
    assert not Tangent(Hessian(np.eye(1)), np.array([[1e-12]]), one, one).empty(np.ones(1))


def test_the_step_back_to_the_rows_is_the_shortest_that_solves_their_linearisation() -> None:
    h, j, free = case(3)
    tangent = Tangent(Hessian(h), j, free, np.arange(3))
    c = np.array([1.0, -2.0, 0.5])
    step = tangent.back(c)
    assert np.allclose(j @ step, -c, atol=1e-5)
    assert np.allclose(step[free], -np.linalg.pinv(j[:, free]) @ c, atol=1e-5)
