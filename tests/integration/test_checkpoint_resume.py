"""A run that was killed goes on from its checkpoint bit for bit; a checkpoint holds no pickle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import auglag
from auglag import Budget, Status, minimize
from auglag.algorithm.rules import PenaltyRule
from helpers.runs import known, rosenbrock, slowly

X0 = [-1.2, 1.0, 0.5, 0.8]


def rosenbrock_grad(x):
    g = np.zeros_like(x)
    g[:-1] = -400 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
    g[1:] += 200 * (x[1:] - x[:-1] ** 2)
    return g


class Slow(PenaltyRule):
    """A user's rule without a repr of its own."""

    def next(self, history):
        return 2.0 * history.k


def case(name, style):
    """Arguments of minimize for one of the runs to be killed."""
    cons = [{"type": "eq", "fun": lambda x: x @ x - 4}, {"type": "ineq", "fun": lambda x: x[0] * x[1] - 0.1}]
    if style == "exact":
        cons[0]["jac"] = lambda x: 2 * x
        cons[1]["jac"] = lambda x: np.array([x[1], x[0], 0.0, 0.0])
    return {"fun": rosenbrock, "x0": X0, "jac": rosenbrock_grad if style == "exact" else None, "constraints": cons} | {
        "default": {},
        "alone": {"acceleration": False, "inner": "qp"},
        "first-order": {"inner": "lbfgsb"},
        "explicit": {"slacks": "explicit"},
        "short": {"variant": "adaptive-short", "tol": 1e-4},
        "paper": {"preset": "paper", "tol": 1e-4},
        "panoc": {"inner": "panoc", "g": auglag.prox.L1(0.01)},
        "bounds": {"bounds": [(-3, 1.2)] * 4},
        "own rule": {"penalty": Slow()},
        "infeasible": {"constraints": [*cons, {"type": "eq", "fun": lambda x: x @ x - 5}]},
    }[name]


def facts(res):
    """All of a result that must not depend on whether the run was killed, to the last bit."""
    return {
        "status": res.status.name,
        "nit": [res.nit, res.nit_inner],
        "history": [{k: v.hex() if isinstance(v, float) else v for k, v in row.items()} for row in res.history],
        "x": [v.hex() for v in res.x],
        "y": [v.hex() for v in res.y],
        "z": [v.hex() for v in res.bound_multipliers],
        "fun": res.fun.hex(),
        "penalty": res.penalty.hex(),
        "counts": [res.nfev, res.njev, res.constr_nfev, res.constr_njev],
    }


def after(k, action):
    """A callback that acts after the k-th outer iteration; k <= 0 means never."""
    calls = []

    def callback(intermediate_result):
        if intermediate_result.kind == "outer":
            calls.append(1)
            if len(calls) == k:
                action()

    return callback


def child(name, style, path, kill_after, resume):
    """What the processes to be killed, and those that go on from there, run."""
    callback = after(int(kill_after), lambda: os.kill(os.getpid(), signal.SIGKILL))
    res = minimize(**case(name, style), callback=callback, checkpoint=path, resume=path if resume == "yes" else None)
    print(json.dumps(facts(res)))


def execute(*args):
    here = Path(__file__).parent
    paths = [str(here), str(here.parent)]  # of this module and of `helpers`
    code = f"import sys; sys.path[:0] = {paths!r}; import test_checkpoint_resume as t; t.child(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    )


def assert_same(got, expected):
    for field, value in expected.items():
        assert got[field] == value, field


@pytest.mark.parametrize(
    ("name", "style", "kill_after"),
    [("default", "exact", 1), ("alone", "exact", 3), ("first-order", "differences", 5), ("own rule", "exact", 1)],
)
def test_a_killed_run_goes_on_in_a_new_process_bit_for_bit(tmp_path, name, style, kill_after):
    path = tmp_path / "state.npz"
    killed = execute(name, style, path, kill_after, "no")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert killed.stdout == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.npz"]
    resumed = execute(name, style, path, 0, "yes")
    assert resumed.returncode == 0, resumed.stderr
    expected = execute(name, style, tmp_path / "other.npz", 0, "no")
    assert_same(json.loads(resumed.stdout), json.loads(expected.stdout))


class Died(Exception):
    pass


def die():
    raise Died


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("default", "exact"),
        ("default", "differences"),
        ("alone", "exact"),
        ("alone", "differences"),
        ("first-order", "exact"),
        ("explicit", "exact"),
        ("short", "exact"),
        ("paper", "exact"),
        ("panoc", "exact"),
        ("bounds", "differences"),
        ("infeasible", "exact"),
    ],
)
@pytest.mark.parametrize("when", ["first", "third", "last but one", "last"])
def test_a_run_that_died_goes_on_bit_for_bit(tmp_path, name, style, when):
    expected = minimize(**case(name, style), check_derivatives=False)
    assert expected.status is (Status.INFEASIBLE if name == "infeasible" else Status.SOLVED)
    k = {"first": 1, "third": min(3, expected.nit), "last but one": max(1, expected.nit - 1), "last": expected.nit}[
        when
    ]
    path = tmp_path / "state.npz"
    with pytest.raises(Died):
        minimize(**case(name, style), check_derivatives=False, checkpoint=path, callback=after(k, die))
    got, wanted = facts(minimize(**case(name, style), check_derivatives=False, resume=path)), facts(expected)
    got.pop("counts")
    wanted.pop("counts")
    assert_same(got, wanted)


@pytest.mark.parametrize("style", ["exact", "differences"])
@pytest.mark.parametrize(("name", "k"), [("default", 1), ("alone", 3), ("first-order", 3)])
def test_a_resumed_run_reports_the_calls_of_the_whole_run(tmp_path, name, k, style):
    expected = minimize(**case(name, style), check_derivatives=False)
    path = tmp_path / "state.npz"
    with pytest.raises(Died):
        minimize(**case(name, style), check_derivatives=False, checkpoint=path, callback=after(k, die))
    resumed = minimize(**case(name, style), check_derivatives=False, resume=path)
    assert facts(resumed)["counts"] == facts(expected)["counts"]


def test_a_run_killed_twice_goes_on_bit_for_bit(tmp_path):
    args = {
        "fun": rosenbrock,
        "x0": [-1.2, 1.0, 0.5],
        "constraints": {"type": "eq", "fun": lambda x: x @ x - 4},
        "acceleration": False,
    }

    expected = minimize(**args)
    path = tmp_path / "state.npz"
    with pytest.raises(Died):
        minimize(**args, checkpoint=path, callback=after(1, die))
    with pytest.raises(Died):
        minimize(**args, checkpoint=path, resume=path, callback=after(2, die))
    res = minimize(**args, resume=path)
    assert res.x.tobytes() == expected.x.tobytes()
    assert res.y.tobytes() == expected.y.tobytes()
    assert res.history == expected.history


def test_a_limited_run_can_be_resumed_with_a_larger_budget(tmp_path):
    path = tmp_path / "state.npz"
    expected = minimize(**slowly("HS71"))
    minimize(**slowly("HS71"), checkpoint=path, budget=Budget(outer=2))
    res = minimize(**slowly("HS71"), resume=path)
    assert res.success
    assert res.x.tobytes() == expected.x.tobytes()
    assert res.history == expected.history


def test_time_already_spent_counts_after_a_resume(tmp_path):
    path, waited = tmp_path / "state.npz", []

    def slow(x):
        if not waited:
            time.sleep(3.0)
            waited.append(True)
        return rosenbrock(x)

    args = {"fun": slow, "x0": np.full(3, -1.2), "constraints": {"type": "eq", "fun": lambda x: x @ x - 4}}
    args["acceleration"] = False
    minimize(**args, checkpoint=path, budget=Budget(outer=2))
    res = minimize(**args, resume=path, budget=Budget(outer=3))
    assert res.seconds > 3.0


def test_a_checkpoint_is_a_plain_archive_without_pickle(tmp_path):
    path = tmp_path / "state.npz"
    minimize(**slowly("HS71"), checkpoint=path)
    with np.load(path, allow_pickle=False) as data:
        meta = json.loads(str(data["meta"]))
        name, fields = meta["state"]["class"]
        assert name == "State"
        assert data[fields["x"]["array"]].shape == (4,)
    assert len(fields["history"]["class"][1]["iterations"]["list"]) > 1
    assert b"pickle" not in path.read_bytes()


def test_reading_a_checkpoint_never_runs_what_a_pickle_says(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    path = tmp_path / "state.npz"
    np.savez(path, meta=np.array([Bomb()], dtype=object))
    with pytest.raises(auglag.CheckpointError, match="is not a usable checkpoint"):
        minimize(**known("HS71"), resume=path)
    assert not (tmp_path / "exploded").exists()


def test_a_run_that_ends_in_its_first_outer_iteration_can_be_resumed(tmp_path):
    args = {"fun": rosenbrock, "x0": np.full(5, -1.0), "constraints": {"type": "ineq", "fun": lambda x: 3 - x @ x}}
    path = tmp_path / "run.npz"
    cut = minimize(**args, checkpoint=path, budget=Budget(evaluations=100))
    assert cut.status is auglag.Status.EVALUATION_LIMIT
    whole, again = minimize(**args, checkpoint=tmp_path / "other.npz"), minimize(**args, resume=path)
    np.testing.assert_array_equal(again.x, whole.x)
    assert again.nfev == whole.nfev


@pytest.mark.parametrize(
    "change", [{"fun": lambda x: float(x @ x)}, {"constraints": {"type": "ineq", "fun": lambda x: 4 - x @ x}}]
)
def test_a_state_of_other_functions_is_refused(tmp_path, change):
    args = {"fun": rosenbrock, "x0": np.full(5, -1.0), "constraints": {"type": "ineq", "fun": lambda x: 3 - x @ x}}
    path = tmp_path / "run.npz"
    minimize(**args, checkpoint=path, budget=Budget(evaluations=100))
    with pytest.raises(auglag.CheckpointError, match=r"belongs to another problem: .* at its start"):
        minimize(**{**args, **change}, resume=path)
