"""The logger `auglag`: silent until it is set up, then what a table prints and what went wrong."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from auglag import minimize
from helpers.hs14 import EQ, INEQ, START, fun

NOWHERE = [EQ, {**EQ, "fun": lambda x: x[0] - 2 * x[1] + 5}]


def test_the_logger_gets_what_progress_prints(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="auglag"):
        result = minimize(fun, START, constraints=[EQ, INEQ])
    assert capsys.readouterr().out == ""
    logged = [record.getMessage() for record in caplog.records]
    assert {record.levelname for record in caplog.records} == {"INFO"}
    minimize(fun, START, constraints=[EQ, INEQ], progress=True)
    assert logged == capsys.readouterr().out.splitlines()
    assert logged[-1] == result.message


def test_progress_and_the_logger_go_together(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="auglag"):
        minimize(fun, START, constraints=[EQ, INEQ], progress="outer")
    assert [record.getMessage() for record in caplog.records] == capsys.readouterr().out.splitlines()


def test_a_failure_is_a_warning_of_the_logger_with_what_to_try(caplog):
    with caplog.at_level(logging.WARNING, logger="auglag"):
        minimize(fun, START, constraints=NOWHERE)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("INFEASIBLE: ")
    assert "Try: " in record.getMessage()


def test_a_checkpoint_that_cannot_be_written_is_a_warning_of_both(caplog, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("auglag.persist.checkpoint.save", full)
    with caplog.at_level(logging.WARNING, logger="auglag"), pytest.warns(UserWarning, match="No space left"):
        minimize(fun, START, constraints=[EQ, INEQ], checkpoint=tmp_path / "run.npz")
    assert ["No space left" in record.getMessage() for record in caplog.records] == [True]


def test_nothing_is_logged_by_default():
    code = "import auglag; r = auglag.minimize(lambda x: float('nan'), [1.0]); assert not r.success"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
