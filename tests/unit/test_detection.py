"""Zeros of differenced Jacobians are learnt: the same numbers for fewer evaluations, and never trusted blindly."""

from __future__ import annotations

import numpy as np

import auglag
from auglag.derivatives.detection import Detected
from auglag.derivatives.tuning import TUNING

N = 60


def chain(x):
    return x[1:] - x[:-1] ** 2 / 2 - 0.4


def dense(x):
    return chain(x) + 1e-3 * np.sum(x**2)


def solve(fun, **options):
    constraints = {"type": "eq", "fun": fun, "name": "chain"}
    target = np.linspace(0.5, 1.5, N)
    return auglag.minimize(
        lambda x: (x - target) @ (x - target),
        np.full(N, 0.9),
        jac=lambda x: 2 * (x - target),
        constraints=constraints,
        **options,
    )


def test_a_sparse_jacobian_costs_fewer_evaluations_and_gives_the_same_solution(monkeypatch):
    found = solve(chain)
    monkeypatch.setattr(Detected, "note", lambda *_: None)  # never learns
    plain = solve(chain)
    assert found.success
    assert found.x.tobytes() == plain.x.tobytes()
    assert found.nit == plain.nit
    assert found.constr_nfev < 0.8 * plain.constr_nfev


def test_a_dense_jacobian_is_left_alone(monkeypatch):
    found = solve(dense)
    monkeypatch.setattr(Detected, "note", lambda *_: None)
    assert found.constr_nfev == solve(dense).constr_nfev


def exact(x):
    jac = np.zeros((N - 1, N))
    jac[np.arange(N - 1), np.arange(1, N)] = 1.0
    jac[np.arange(N - 1), np.arange(N - 1)] = -x[:-1]
    return jac


def noted(*points):
    known = Detected()
    for x in points:
        known.note(x, exact(x))
    return known


def test_zeros_are_believed_after_two_different_points():
    first, second = np.zeros(N), np.ones(N)
    assert noted(first).structure is None
    assert noted(first, first).structure is None
    pattern, group = noted(first, second).structure
    assert pattern.nnz == 2 * (N - 1)
    assert group.max() + 1 == 2


def test_a_missing_entry_is_noticed():
    x, free = np.ones(N), np.full(N, np.inf)
    jac = exact(x)
    assert Detected().holds(chain, x, chain(x), jac, -free, free)
    jac[3, 4] = 0.0
    assert not Detected().holds(chain, x, chain(x), jac, -free, free)


def test_the_check_stays_inside_the_bounds():
    x, narrow = np.ones(N), np.full(N, 1.0 + 1e-9)
    seen = []
    assert Detected().holds(lambda z: seen.append(z) or chain(z), x, chain(x), exact(x), x, narrow)
    assert np.all((x <= seen[0]) & (seen[0] <= narrow))


def test_small_jacobians_are_made_column_by_column():
    known = Detected()
    for x in (np.zeros(5), np.ones(5)):
        known.note(x, np.eye(5))
    assert TUNING.detected_columns > 5
    assert known.structure is None


def test_an_entry_that_was_zero_by_chance_does_not_mislead():
    """Rows switch on another variable later: the check sees it, and the run ends at a solution of the real problem."""

    def switching(x):
        late = np.maximum(x[:-2] - 1.05, 0.0) ** 3
        return x[2:] - 1.0 - 5.0 * late

    result = auglag.minimize(
        lambda x: np.sum((x - np.linspace(0.5, 1.6, N)) ** 2),
        np.full(N, 0.5),
        constraints={"type": "eq", "fun": switching},
    )
    assert result.success
    np.testing.assert_allclose(switching(result.x), 0.0, atol=1e-6)
