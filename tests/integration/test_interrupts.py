"""Ctrl-C at any line of the library ends a run as INTERRUPTED with the best point, and leaves nothing half done.

A trace function counts the lines that a run executes and raises KeyboardInterrupt at one of them.
"""

from __future__ import annotations

import dis
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
from auglag.problems.workspace import WORKSPACES
from auglag.strategy import hooks
from auglag.strategy.state import State
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


# ------------------------------------------------------------------------------- from the first instruction to the last

PROTECTED = dis.Bytecode(minimize.__code__).exception_entries[0]
RETURNS = {step.offset for step in dis.Bytecode(minimize.__code__) if step.opname == "RETURN_VALUE"}


class AtInstruction(Interrupting):
    """Raises at an instruction, counted from where `minimize` can know that it was called to where it returns.

    Python itself raises KeyboardInterrupt after calls and jumps only, which this includes.
    """

    inside = False

    def __call__(self, frame, event, arg):
        self.inside |= frame.f_code is minimize.__code__
        if not (self.inside and frame.f_code.co_filename.startswith(LIBRARY)):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self.instruction

    def instruction(self, frame, event, arg):
        at, own = frame.f_lasti, frame.f_code is minimize.__code__
        if event == "opcode" and not (own and (not PROTECTED.start <= at < PROTECTED.target or at in RETURNS)):
            self.lines += 1
            if self.lines == self.at:
                raise KeyboardInterrupt
        return self.instruction


def stated(tmp_path):
    con = {"type": "ineq", "fun": lambda x: x[0] + x[1] - 3}
    return minimize(lambda x: (x[0] - 1) ** 2 + x[1] ** 2, [9.0, 0.0], bounds=[(-6, 6)] * 2, constraints=con)


def of_starts(tmp_path):
    return minimize(lambda x: x @ x, [9.0, 1.0], jac=lambda x: 2 * x, bounds=[(-6, 6)] * 2, starts=2)


def as_object(tmp_path):
    return minimize(Problem(fun, [9.0, 1.0], jac=grad, bounds=[(-6, 6)] * 2), callback=JsonLog(tmp_path / "run.jsonl"))


def from_starts(tmp_path):
    (tmp_path / "starts.json").unlink(missing_ok=True)
    return auglag.multistart(waves, [9.0, 0.0], bounds=[(-6, 6)] * 2, starts=2, store=tmp_path / "starts.json")


def waves(x):
    return float(np.cos(x[0]) + (x[1] - 1) ** 2)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of a file just opened: Python closes it
@pytest.mark.parametrize("job", [stated, as_object, of_starts])
@pytest.mark.parametrize("part", ["beginning", "whole"])
def test_at_any_instruction_of_minimize(job, part, tmp_path):
    count = AtInstruction()
    assert count.during(lambda: job(tmp_path)).success
    last = count.lines if part == "whole" else min(count.lines, 6000)  # the problem, the settings, the first values
    for at in np.unique(np.linspace(1, last, 15).astype(int)):
        res = AtInstruction(at).during(lambda: job(tmp_path))
        assert res.status is Status.INTERRUPTED or res.success, f"instruction {at} of {count.lines}: {res.message}"
        assert np.isfinite(res.x).all()
        assert (np.abs(res.x) <= 6).all()
        assert not WORKSPACES.get()  # nothing of the run is left behind


def test_in_a_store_or_between_starts(tmp_path):
    count = Interrupting()
    assert count.during(lambda: from_starts(tmp_path)).success
    ends = set()
    for at in np.unique(np.linspace(1, count.lines, 30).astype(int)):
        res = Interrupting(at).during(lambda: from_starts(tmp_path))
        assert res.status is Status.INTERRUPTED or res.success, f"line {at} of {count.lines}: {res.message}"
        ends.add((res.status, len(res.starts)))
    assert len(ends) > 1


ENTRY = sys.modules["auglag.minimize"]  # in the package, the function has the name of the module


@pytest.mark.parametrize(("owner", "name"), [(ENTRY, "resolve"), (ENTRY, "Task"), (State, "at_start")])
def test_before_anything_is_known_the_start_is_returned(owner, name, monkeypatch):
    whole, calls = getattr(owner, name), []

    def interrupted_once(*args, **kwargs):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return whole(*args, **kwargs)

    monkeypatch.setattr(owner, name, interrupted_once)
    res = minimize(fun, [9.0, 1.0], bounds=[(-6, 6)] * 2, warm_start=None)
    assert res.status is Status.INTERRUPTED
    assert res.x.tolist() == [6.0, 1.0]
    assert np.isnan(res.certificate.residual)
