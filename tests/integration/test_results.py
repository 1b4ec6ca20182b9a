"""Results: their fields, copies, what is printed, and that the same call gives the same bits."""

from __future__ import annotations

import pickle

import numpy as np
import scipy.optimize

from auglag import Status, minimize
from auglag.result import SCHEMA
from helpers.hs14 import EQ, INEQ, START, fun, grad, line


def test_a_result_has_exactly_the_fields_of_its_schema():
    res = minimize(fun, START, constraints=[EQ, INEQ])
    assert set(res) == set(SCHEMA)
    assert isinstance(res, scipy.optimize.OptimizeResult)
    assert res.status is Status.SOLVED
    assert res.status == 0
    assert res.message.startswith(Status.SOLVED.message)
    assert res.nit == len(res.history) > 0
    assert res.nit_inner == sum(row["inner_iterations"] for row in res.history)
    assert res.maxcv <= 1e-6
    np.testing.assert_allclose(res.jac, grad(res.x), atol=1e-6)
    assert res.advice == ()
    assert "residual" in repr(res)


def test_a_result_survives_copying_and_sending():
    res = minimize(fun, START, constraints=[EQ, INEQ])
    again = pickle.loads(pickle.dumps(res))
    assert again.status is Status.SOLVED
    np.testing.assert_array_equal(again.x, res.x)
    assert again.explain() == res.explain()


def test_nothing_is_printed_by_default(capfd):
    minimize(fun, START, constraints=[EQ, INEQ])
    minimize(fun, START, constraints=[EQ, {"type": "eq", "fun": lambda x: line(x) - 1}])
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""


def test_progress_prints_a_line_per_step_and_per_outer_iteration(capsys):
    res = minimize(fun, START, constraints=[EQ, INEQ], progress=True)
    out, err = capsys.readouterr()
    rows = out.splitlines()[1:-1]
    assert len(rows) == len(res.steps)
    for row, step in zip(rows, res.steps, strict=True):
        last = row.split()
        assert (last[0] == str(step.k)) if step.kind == "outer" else (last[-2:] == [step.kind, "step"])
    assert err == ""


def test_the_outer_progress_prints_a_line_per_outer_iteration(capsys):
    res = minimize(fun, START, constraints=[EQ, INEQ], progress="outer")
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split()[:1] == ["k"]
    for word in ("residual", "violation", "penalty", "status"):
        assert word in lines[0]
    assert [int(row.split()[0]) for row in lines[1:-1]] == list(range(1, res.nit + 1))
    assert lines[-1] == res.message
    assert err == ""


def test_the_same_call_gives_the_same_bits():
    first, second = (minimize(fun, START, constraints=[EQ, INEQ]) for _ in range(2))
    assert first.x.tobytes() == second.x.tobytes()
    assert first.history == second.history
    assert first.nfev == second.nfev
