"""Ctrl-C at any line of the library ends a run as INTERRUPTED with the best point, and leaves nothing half done.

A trace function counts the lines that a run executes and raises KeyboardInterrupt at one of them.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, NonlinearConstraint

import auglag
from auglag import JsonLog, Problem, Status, minimize
from auglag.certificate.incumbent import Judge
from auglag.log import LogReader
from auglag.strategy import hooks
from helpers.hs14 import START, both, both_jac, fun, grad
from helpers.runs import slowly

LIBRARY = str(Path(auglag.__file__).parent) + os.sep
BEGIN = hooks.status_of.__code__


class Interrupting:
    """Raises KeyboardInterrupt at the line of this number, counted from where the run begins; None: none."""

    def __init__(self, at=None):
        self.at, self.lines = at, 0

    def __call__(self, frame, event, arg):
        if not self.lines and frame.f_code is not BEGIN:
            return None
        return self.line if frame.f_code.co_filename.startswith(LIBRARY) else None

    def line(self, frame, event, arg):
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                raise KeyboardInterrupt
        return self.line

    def during(self, job):
        sys.settrace(self)
        try:
            return job()
        finally:
            sys.settrace(None)


def statement(kind):
    con = NonlinearConstraint(both, [0, 0], [0, np.inf], jac=both_jac if kind != "differences" else "2-point")
    linear = [LinearConstraint([[1.0, 0.0], [2.0, 0.0]], -50, 50)] if kind == "presolved" else []
    return Problem(fun, START, jac=grad if kind != "differences" else None, constraints=[con, *linear])


# Between a file's opening and the first line that knows of it nobody can close it: that is left to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["exact", "differences", "presolved", "alone"])
def test_at_any_line(kind, tmp_path):
    options = {"acceleration": False, "penalty": auglag.Adaptive(initial=0.1)} if kind == "alone" else {}

    def job():
        path = tmp_path / "run.jsonl"
        return minimize(statement(kind), callback=JsonLog(path), checkpoint=tmp_path / "run.npz", **options)

    count = Interrupting()
    whole = count.during(job)
    assert whole.success
    ends = set()
    for at in np.unique(np.linspace(1, count.lines, 60).astype(int)):
        res = Interrupting(at).during(job)
        ends.add(res.status)
        assert res.status is Status.INTERRUPTED or res.success, f"line {at} of {count.lines}: {res.message}"
        assert np.isfinite(res.x).all()
        assert len({(row["attempt"], row["k"]) for row in res.history}) == res.nit
        assert sorted(os.listdir(tmp_path)) in (["run.jsonl", "run.npz"], ["run.jsonl"])
        reader = LogReader(tmp_path / "run.jsonl")
        reader.poll()
        assert reader.state == "finished"
        assert reader.run.end["status"] == res.status.name
        (tmp_path / "run.npz").unlink(missing_ok=True)
    assert Status.INTERRUPTED in ends
    gc.collect()


def test_in_the_check_of_derivatives_which_comes_first():
    calls = []

    def interrupted(x):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return grad(x)

    res = minimize(fun, START, jac=interrupted)
    assert res.status is Status.INTERRUPTED
    np.testing.assert_array_equal(res.x, START)


def test_during_the_certificate_at_the_end_once_is_a_result_and_twice_is_raised(monkeypatch):
    final, presses = Judge.final, [1]

    def interrupted(self, *args):
        if presses:
            presses.pop()
            raise KeyboardInterrupt
        return final(self, *args)

    monkeypatch.setattr(Judge, "final", interrupted)
    args = slowly("HS71")
    whole = minimize(**args)
    assert whole.success  # the point that is certified in the end is a solution, whatever was pressed
    presses[:] = [1, 1]
    with pytest.raises(KeyboardInterrupt):
        minimize(**args)


@pytest.mark.parametrize("where", ["callback", "log", "checkpoint"])
def test_in_what_looks_on(where, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    options = {}
    if where == "callback":
        options["callback"] = interrupted
    elif where == "log":
        options["callback"] = JsonLog(tmp_path / "run.jsonl")
        monkeypatch.setattr(JsonLog, "outer", interrupted)
    else:
        options["checkpoint"] = tmp_path / "run.npz"
        monkeypatch.setattr("os.fsync", interrupted)
    res = minimize(**slowly("HS71"), penalty=auglag.Adaptive(initial=0.1), **options)
    assert res.status is Status.INTERRUPTED
    assert res.nit == (0 if where == "checkpoint" else 1)  # the first state is saved before the first iteration
    assert sorted(os.listdir(tmp_path)) == (["run.jsonl"] if where == "log" else [])


@pytest.mark.parametrize("style", ["dict", "nonlinear"])
def test_ctrl_c_while_the_constraints_are_called_for_the_first_time_returns_the_start(style):
    def con(x):
        raise KeyboardInterrupt

    rows = {"type": "eq", "fun": con} if style == "dict" else NonlinearConstraint(con, 0, 0)
    result = minimize(fun, [9.0, 1.0], bounds=[(0, 5), (0, 5)], constraints=rows, tol=1e-4)
    assert result.status is Status.INTERRUPTED
    assert not result.success
    assert result.x.tolist() == [5.0, 1.0]
    assert np.isnan(result.certificate.residual)
    assert result.multipliers == []
    assert result.tol == 1e-4
    assert (result.nfev, result.nit) == (0, 0)
    assert "Nothing is known yet but x0" in result.explain()
