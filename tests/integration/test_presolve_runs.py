"""Runs with rows that presolve takes off: the same x, multipliers of all rows by hand, warm start, resume, logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

import auglag
from auglag import Budget, Status
from auglag.problems.nl import load
from helpers.nl import nl_text

Array = NDArray[np.float64]
INF = np.inf


class QP:
    """A random convex QP with rows of every kind that presolve knows, in random order, and a feasible point."""

    def __init__(self, seed: int, n: int = 6) -> None:
        rng = np.random.default_rng(seed)
        root = rng.standard_normal((n, n))
        self.n, self.Q, self.b = n, root @ root.T + np.eye(n), 5 * rng.standard_normal(n)
        inside = rng.uniform(-1, 1, n)
        rows: list[tuple[Array, float, float]] = []

        def add(a: Array, kind: int) -> None:
            value = float(a @ inside)
            low, high = value - rng.uniform(0, 0.3), value + rng.uniform(0, 0.3)
            rows.append((a, *[(low, high), (-INF, high), (low, INF), (value, value)][kind]))

        for _ in range(3):
            add(rng.standard_normal(n), int(rng.integers(4)))
        for a, _, _ in rows[:3]:
            add(rng.choice([1.0, -1.0, 2.5, -0.3]) * a, int(rng.integers(3)))
        for j in rng.permutation(n)[:3]:
            for _ in range(int(rng.integers(1, 3))):
                add(rng.uniform(0.2, 3.0) * rng.choice([-1.0, 1.0]) * np.eye(n)[j], int(rng.integers(3)))
        add(rng.uniform(0.5, 2.0) * np.eye(n)[int(rng.integers(n))], 3)
        rows += [(np.zeros(n), -1.0, 2.0), (np.zeros(n), 0.0, 0.0), (rng.standard_normal(n), -INF, INF)]
        rows = [rows[i] for i in rng.permutation(len(rows))]
        self.A = np.array([a for a, _, _ in rows])
        self.cl, self.cu = np.array([low for _, low, _ in rows]), np.array([high for _, _, high in rows])
        self.lower, self.upper = np.full(n, -2.0), np.full(n, 2.0)
        self.x0 = rng.uniform(-3, 3, n)

    def solve(self, **options: Any) -> auglag.Result:
        matrix = sparse.csr_array(self.A) if options.pop("sparse", False) else self.A
        jac = options.pop("jac", lambda x: self.Q @ x + self.b)
        return auglag.minimize(
            lambda x: 0.5 * float(x @ self.Q @ x) + float(self.b @ x),
            self.x0,
            jac=jac,
            bounds=Bounds(self.lower, self.upper),
            constraints=LinearConstraint(matrix, self.cl, self.cu),
            **options,
        )

    def check(self, result: auglag.Result, tol: float = 2e-6) -> None:
        """The KKT conditions on all rows, by hand."""
        x, y, z = result.x, result.multipliers[0], result.bound_multipliers
        assert y.shape == self.cl.shape
        np.testing.assert_allclose(self.Q @ x + self.b + self.A.T @ y + z, 0.0, atol=tol)
        c = self.A @ x
        assert np.max(np.maximum(self.cl - c, c - self.cu)) <= tol
        assert ((x >= self.lower) & (x <= self.upper)).all()
        up, down = y > tol, y < -tol
        np.testing.assert_allclose(c[up], self.cu[up], atol=10 * tol)
        np.testing.assert_allclose(c[down], self.cl[down], atol=10 * tol)
        np.testing.assert_allclose(x[z > tol], self.upper[z > tol], atol=10 * tol)
        np.testing.assert_allclose(x[z < -tol], self.lower[z < -tol], atol=10 * tol)
        assert (y[~self.A.any(axis=1)] == 0.0).all()


@pytest.mark.parametrize("seed", range(25))
def test_the_same_solution_with_multipliers_of_all_rows(seed: int) -> None:
    qp = QP(seed)
    result, plain = qp.solve(sparse=seed % 2 == 1), qp.solve(presolve=False)
    assert result.success, result.message
    assert plain.success, plain.message
    qp.check(result)
    np.testing.assert_allclose(result.x, plain.x, atol=1e-5)
    assert result.maxcv <= 1e-6
    again = auglag.certify(_problem(qp), result.x, result.multipliers)
    assert again.residual == pytest.approx(result.certificate.residual, rel=1e-6, abs=1e-12)


def _problem(qp: QP) -> auglag.Problem:
    return auglag.Problem(
        lambda x: 0.5 * float(x @ qp.Q @ x) + float(qp.b @ x),
        qp.x0,
        jac=lambda x: qp.Q @ x + qp.b,
        bounds=Bounds(qp.lower, qp.upper),
        constraints=LinearConstraint(qp.A, qp.cl, qp.cu),
    )


@pytest.mark.parametrize(
    "options",
    [
        {"jac": None},
        {"variant": "adaptive-full", "presolve": True},
        {"acceleration": False, "inner": "lbfgsb"},
        {"slacks": "explicit"},
        {"scaling": False},
        {"inner": "panoc"},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_other_ways_to_solve(options: dict[str, Any], seed: int) -> None:
    qp = QP(seed)
    result = qp.solve(**options)
    assert result.success, result.message
    qp.check(result)
    assert np.isfinite(result.bound_multipliers).all()  # a variable fixed by a row is not one the user fixed


def test_weights_are_those_of_the_rows_that_stay() -> None:
    qp = QP(3)
    result = qp.solve(penalty_weights=np.linspace(1.0, 9.0, qp.cl.size))
    assert result.success
    qp.check(result)


def test_a_problem_with_nothing_to_take_off_is_solved_exactly_as_without() -> None:
    qp = QP(4)
    keep = [i for i in range(qp.cl.size) if np.count_nonzero(qp.A[i]) > 1 and np.isfinite([qp.cl[i], qp.cu[i]]).any()]
    _, first = np.unique([np.round(abs(qp.A[i] / qp.A[i][0]), 6).tobytes() for i in keep], return_index=True)
    keep = [keep[i] for i in sorted(first)]
    qp.A, qp.cl, qp.cu = qp.A[keep], qp.cl[keep], qp.cu[keep]
    one, two = qp.solve(), qp.solve(presolve=False)
    assert one.x.tobytes() == two.x.tobytes()
    assert one.history == two.history
    assert (one.nfev, one.njev) == (two.nfev, two.njev)


def test_a_warm_start_from_multipliers_of_all_rows_is_solved_already() -> None:
    for seed in range(5):
        qp = QP(seed)
        first = qp.solve()
        for start in (first, qp.solve(presolve=False)):
            again = qp.solve(warm_start=start)
            assert again.success
            assert again.nit == 0
            np.testing.assert_allclose(again.x, start.x, atol=1e-9)
        qp.check(again)


def test_a_resumed_run_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    qp, path = QP(5), tmp_path / "run.npz"
    options: dict[str, Any] = {"acceleration": False, "inner": "lbfgsb"}
    whole = qp.solve(**options)
    assert whole.nit > 3
    part = qp.solve(checkpoint=path, budget=Budget(outer=2), **options)
    assert part.status == Status.ITERATION_LIMIT
    resumed = qp.solve(resume=path, **options)
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert resumed.y.tobytes() == whole.y.tobytes()
    assert (resumed.nfev, resumed.njev, resumed.history) == (whole.nfev, whole.njev, whole.history)
    with pytest.raises(auglag.CheckpointError, match="belongs to another run: settings"):
        qp.solve(resume=path, presolve=False, **options)


def test_callbacks_and_logs_have_all_rows(tmp_path: Path) -> None:
    qp, path, seen = QP(6), tmp_path / "run.jsonl", []
    options: dict[str, Any] = {"acceleration": False, "inner": "lbfgsb"}
    result = qp.solve(callback=lambda intermediate_result: seen.append(intermediate_result.multipliers), **options)
    assert {y.shape for y in seen} == {qp.cl.shape}
    np.testing.assert_allclose(seen[-1], result.y, atol=1e-4)
    assert np.linalg.norm(seen[-1]) == pytest.approx(result.history[-1]["multiplier_norm"])
    qp.solve(callback=auglag.JsonLog(path), **options)
    head = json.loads(path.read_text().splitlines()[0])
    assert head["m"] == qp.cl.size
    assert len(head["rows"]) == qp.cl.size
    assert head["options"]["presolve"] is True


def test_rows_that_exclude_each_other_end_the_run_at_once() -> None:
    calls = []
    result = auglag.minimize(
        lambda x: (calls.append(1), float(x @ x))[1],
        [5.0, 5.0],
        jac=lambda x: 2 * x,
        constraints=[
            LinearConstraint([[1.0, 1.0], [2.0, 0.0]], [1.0, 6.0], [2.0, INF]),
            LinearConstraint([[-1.0, 0.0]], -2.0, INF),
        ],
        check_derivatives=False,
    )
    assert result.status == Status.INFEASIBLE
    assert not result.success
    assert result.nit == 0
    assert len(calls) <= 2
    assert "constraints[1] and constraints[0][1] exclude each other: x[0] >= 3 and <= 2." in result.message
    assert result.maxcv > 0.0
    assert [np.shape(y) for y in result.multipliers] == [(2,), (1,)]
    assert "starting point" not in " ".join(result.advice)


def test_violated_rows_are_named_as_the_user_has_them() -> None:
    """Two rows that presolve cannot know to exclude each other, behind rows that it takes off."""
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0 + 1e-9]])
    result = auglag.minimize(
        lambda x: float(x @ x),
        [0.0, 0.0],
        jac=lambda x: 2 * x,
        bounds=[(-1, 1), (-1, 1)],
        constraints=LinearConstraint(rows, [0.0, -0.5, 1.0, -INF], [0.0, 0.5, INF, 0.0]),
    )
    assert result.status == Status.INFEASIBLE
    assert set(result.violations) == {"constraints[0][2]", "constraints[0][3]"}
    assert result.y.shape == (4,)


def test_all_rows_gone_leaves_a_problem_with_bounds() -> None:
    result = auglag.minimize(
        lambda x: float(np.sum((x - 3.0) ** 2)),
        [0.0, 0.0, 0.0],
        jac=lambda x: 2 * (x - 3.0),
        constraints=LinearConstraint(np.diag([2.0, -1.0, 5.0]), [-INF, -1.0, 10.0], [4.0, INF, 10.0]),
    )
    assert result.success
    np.testing.assert_allclose(result.x, [2.0, 1.0, 2.0], atol=1e-12)
    np.testing.assert_allclose(result.y, [1.0, -4.0, 0.4], atol=1e-9)
    np.testing.assert_array_equal(result.bound_multipliers, 0.0)


def test_g_is_heard_before_a_row_that_became_a_bound() -> None:
    """min (x - 3)^2 / 2 + |x| subject to 2 x <= 1: the row bears 3 - 0.5 - 1."""
    result = auglag.minimize(
        lambda x: 0.5 * float((x[0] - 3.0) ** 2),
        [0.0],
        jac=lambda x: x - 3.0,
        g=auglag.prox.L1(1.0),
        constraints=LinearConstraint([[2.0]], -INF, 1.0),
    )
    assert result.success
    np.testing.assert_allclose(result.x, [0.5])
    np.testing.assert_allclose(result.y, [0.75], atol=1e-6)


def test_rows_of_an_nl_file(tmp_path: Path) -> None:
    """min (x - 3)^2 + (y - 3)^2 subject to x y <= 4, 2 x + 1 <= 3, x + y + 0.5 <= 9, -2 x - 2 y >= -8, an empty row."""
    square = ("o5", "o1", "v{}", "n3", "n2")
    objective = ["o0", *(line.format(0) for line in square), *(line.format(1) for line in square)]
    path = tmp_path / "model.nl"
    path.write_bytes(
        nl_text(
            2,
            objective=objective,
            rows=[("o2", "v0", "v1"), ("n1",), ("n0.5",), ("n0",), ("n7",)],
            jacobian=[[(0, 0.0), (1, 0.0)], [(0, 2.0)], [(0, 1.0), (1, 1.0)], [(0, -2.0), (1, -2.0)], []],
            sides=["1 4", "1 3", "1 9", "2 -8", "0 6 8"],
            x0=[0.0, 0.0],
        )
    )
    problem = load(path)
    linear = problem.linear()
    assert linear is not None
    assert linear.rows.tolist() == [1, 2, 3, 4]
    result = auglag.minimize(problem)
    assert result.success
    np.testing.assert_allclose(result.x, [1.0, 3.0], atol=1e-6)
    np.testing.assert_allclose(result.y, [0.0, 2.0, 0.0, 0.0, 0.0], atol=1e-6)
    plain = auglag.minimize(load(path), presolve=False)
    np.testing.assert_allclose(plain.x, result.x, atol=1e-6)
    assert result.certificate.residual <= 1e-6
